//! The words of the qdiscs that Linux has and the engine does not: tc(8) and the page of each kind.

use super::table::{Arg, Grammar, Key, Refuses, U32, Wrong, key};
use super::walk::Walk;
use crate::diagnostic::Diagnostic;

use Arg::{Decimal, Rate, Size, Uint};

type Done = Result<(), Diagnostic>;

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
    qdisc(
        &["gred"],
        &[
            key(&["setup"], &[]),
            key(&["vqs", "DPs"], &[Uint(1, 16)]),
            key(&["default"], &[U32]),
            key(&["grio"], &[]),
            key(&["vq", "DP"], &[U32]),
            key(&["limit"], &[Size]),
            key(&["min"], &[Size]),
            key(&["max"], &[Size]),
            key(&["burst"], &[U32]),
            key(&["avpkt"], &[Size]),
            key(&["prio"], &[U32]),
            key(&["probability"], &[Decimal]),
            key(&["bandwidth"], &[Rate]),
            key(&["ecn"], &[]),
            key(&["harddrop"], &[]),
        ],
    )
    .needs(&[&["setup", "vq", "limit"]])
    .lacks("Required parameter (vq, limit, min, max, avpkt) is missing"),
];

/// Checks the rules of tc for a whole line, beyond its keys.
pub(super) fn finish(walk: &Walk<'_>, kind: &str) -> Done {
    let has = |key: &str| walk.settings.iter().find(|s| s.key == key);
    match kind {
        "gred" if has("setup").is_some() && (has("vqs").is_none() || has("default").is_none()) => {
            return Err(walk.missing("vqs and default after setup"));
        }
        _ => {}
    }
    Ok(())
}
