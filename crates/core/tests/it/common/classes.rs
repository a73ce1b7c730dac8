//! A qdisc whose classes commands make, at the root of a lane: its handle is 8001:.

use txweir_core::text::value::Words;
use txweir_core::{ConfigError, Handle, Instant, Meta};

use super::lane::Lane;

pub const T: Instant = Instant::from_secs(1);

pub fn class(minor: u16) -> Handle {
    Handle::new(0x8001, minor)
}

/// Returns a packet that names a class.
pub fn meta(len: u32, minor: u16) -> Meta {
    Meta::new(len).priority(class(minor).0)
}

pub fn on_class(lane: &mut Lane, verb: &str, minor: u16, words: &str) -> Result<(), ConfigError> {
    let words: Vec<&str> = words.split_whitespace().collect();
    lane.path.configure(T, &mut lane.dev, |tree, cx| {
        let words = &mut Words::new(&words);
        match verb {
            "add" => tree.edit(cx).add_class(Handle::new(0x8001, 0), class(minor), None, words),
            "change" => tree.edit(cx).change_class(None, class(minor), None, words),
            _ => tree.edit(cx).delete_class(class(minor)),
        }
    })
}
