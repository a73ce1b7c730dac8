//! The settings of lines for kinds of the engine: their own declarations read the words.

use txweir_core::Rate;
use txweir_core::text::params::Given;
use txweir_core::text::value::{Quantity, Words};

use super::{Object, Setting};
use crate::lex::Word;
use crate::source::Source;

/// Returns the settings in the words after a kind of the engine, none for a line that cannot be
/// read; `None` if the engine has no such kind.
pub(super) fn settings(object: Object, kind: &str, source: &Source, words: &[Word]) -> Option<Vec<Setting>> {
    let spec = source.kinds.get(kind)?;
    let words: Vec<&str> = words.iter().map(|w| w.text.as_str()).collect();
    // The base of a rate in percent does not matter here, but some rates have 32 bits.
    let mut words = Words::new(&words).link_rate(Rate(u32::MAX.into()));
    let mut all = Vec::new();
    let mut note = |given: Given| all.push(setting(given));
    let read = match object {
        Object::Qdisc => spec.each_given(&mut words, &mut note),
        Object::Class => spec.classes?.each_given(&mut words, &mut note),
        Object::Filter | Object::Action => return None,
    };
    Some(if read { all } else { Vec::new() })
}

fn setting(Given { param, key, words }: Given) -> Setting {
    let values = words.start + 1..words.end;
    let rates = match param.quantity {
        Quantity::Rate => values.take(1).collect(),
        Quantity::Rates => values.collect(),
        Quantity::Other | Quantity::Bytes | Quantity::Packets | Quantity::Time => Vec::new(),
    };
    Setting { key, words, rates }
}
