//! hfsc: `struct tc_hfsc_qopt` of the qdisc, `struct tc_service_curve` three times of a class.

use txweir_core::text::value::Json;

use super::{Words, pair, record};
use crate::given::Given;
use crate::wire::{Attributes, Writer, u32_of};

/// The curves of a class: number and word.
const CURVES: [(u16, &str); 3] = [(1, "rt"), (2, "ls"), (3, "ul")];

pub(super) fn read(options: &[u8]) -> Words {
    Ok(pair("default", format!("{:x}", record(options, 2, "hfsc")?.u16(0))).into())
}
pub(super) fn write(given: &Given, w: &mut Writer) {
    let class = u16::from_str_radix(given.exact("default").trim_start_matches("0x"), 16).unwrap_or(0);
    w.put(&class.to_ne_bytes());
}

pub(super) fn read_class(options: &[u8]) -> Words {
    let all = Attributes::read(options, "class hfsc")?;
    all.only(&CURVES.map(|(number, _)| number))?;
    let mut words = Vec::new();
    for (number, word) in CURVES {
        if let Some(r) = all.record(number, 12)? {
            words.push(word.to_string());
            words.extend(pair("m1", format!("{}bps", r.u32(0))));
            words.extend(pair("d", format!("{}us", r.u32(4))));
            words.extend(pair("m2", format!("{}bps", r.u32(8))));
        }
    }
    Ok(words)
}
pub(super) fn write_class(given: &Given, w: &mut Writer) {
    // Linux has no curve `sc`: it is `rt` and `ls`.
    let curve = |key: &str| match given.members(key) {
        [] if key != "ul" => given.members("sc"),
        members => members,
    };
    for (number, key) in CURVES {
        let members = curve(key);
        let part = |name: &str| match members.iter().find(|(key, _)| *key == name) {
            Some((_, Json::Uint(n))) => u32_of(*n),
            _ => 0,
        };
        if !members.is_empty() {
            w.nest(number, |w| w.put_all(&[part("m1"), part("d"), part("m2")]));
        }
    }
}
