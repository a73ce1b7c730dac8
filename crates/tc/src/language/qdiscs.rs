//! The words of the qdiscs that Linux has and the engine does not: tc(8) and the page of each kind.

use super::table::{Grammar, Key, Refuses, Wrong};

const fn qdisc(kinds: &'static [&'static str], keys: &'static [Key]) -> Grammar {
    Grammar::of(kinds, keys).refuses(Refuses::Usual)
}

/// tc's way to refuse the options of a kind for which it has no reader.
macro_rules! unparsable {
    ($kind:literal) => {
        Wrong::Around(concat!("Unknown qdisc \"", $kind, "\", hence option \""), "\" is unparsable")
    };
}

/// The kinds that Linux has and the engine does not have.
pub(super) static TABLE: &[Grammar] = &[
    qdisc(&["ingress", "clsact"], &[]),
    qdisc(&["teql0"], &[]).unknown(unparsable!("teql0")),
    qdisc(&["noqueue"], &[]).unknown(unparsable!("noqueue")),
    qdisc(&["noop"], &[]).unknown(unparsable!("noop")),
];
