//! The words of the classes that Linux has and the engine does not have.

use super::table::{Grammar, Key, Refuses, U32, key};

const fn class(kinds: &'static [&'static str], keys: &'static [Key]) -> Grammar {
    Grammar::of(kinds, keys).refuses(Refuses::Usual)
}

pub(super) static TABLE: &[Grammar] =
    &[class(&["qfq"], &[key(&["weight"], &[U32]), key(&["maxpkt"], &[U32])]).cut()];
