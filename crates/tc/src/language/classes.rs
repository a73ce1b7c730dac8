//! The words of the classes that Linux has and the engine does not have.

use super::table::{Arg, Grammar, Key, U32, key};
use super::walk::Walk;
use crate::diagnostic::Diagnostic;

use Arg::{Rate, Size, Time};

type Done = Result<(), Diagnostic>;

const fn class(kinds: &'static [&'static str], keys: &'static [Key]) -> Grammar {
    Grammar::of(kinds, keys)
}

pub(super) static TABLE: &[Grammar] = &[
    class(
        &["hfsc"],
        &[
            key(&["rt"], &[]).then(curve),
            key(&["ls"], &[]).then(curve),
            key(&["sc"], &[]).then(curve),
            key(&["ul"], &[]).then(curve),
        ],
    )
    .cut()
    .needs(&[&["rt", "ls", "sc"]]),
    class(&["qfq"], &[key(&["weight"], &[U32]), key(&["maxpkt"], &[U32])]).cut(),
];

/// Reads `[m1 RATE d TIME] m2 RATE` or `[umax SIZE dmax TIME] rate RATE` (tc-hfsc(8)).
fn curve(walk: &mut Walk<'_>) -> Done {
    let from = walk.at;
    walk.part(&CURVE)?;
    let has = |word: &str| {
        walk.words[from..walk.at]
            .iter()
            .step_by(2)
            .any(|w| word.starts_with(w.text.as_str()) && !w.text.is_empty())
    };
    if !has("m2") && !has("rate") {
        return Err(walk.missing("m2 or rate in each service curve"));
    }
    if has("umax") && !has("dmax") {
        return Err(walk.missing("dmax beside umax"));
    }
    Ok(())
}

static CURVE: Grammar = class(
    &["curve"],
    &[
        key(&["m1"], &[Rate]),
        key(&["d"], &[Time]),
        key(&["m2"], &[Rate]),
        key(&["umax"], &[Size]),
        key(&["dmax"], &[Time]),
        key(&["rate"], &[Rate]),
    ],
)
.cut();

/// Checks that an upper limit bounds a share of the link.
pub(super) fn finish(walk: &Walk<'_>, kind: &str) -> Done {
    let has = |key: &str| walk.settings.iter().any(|s| s.key == key);
    if kind == "hfsc" && has("ul") && !has("ls") && !has("sc") {
        return Err(walk.missing("ls or sc beside ul"));
    }
    Ok(())
}
