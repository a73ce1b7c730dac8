//! tc's sentences for options of gred: one reader for the words behind `setup`, one for those of a
//! virtual queue, which says the values that it takes in place of missing ones.

use std::borrow::Cow;

use txweir_core::text::error::Reason;
use txweir_core::{ConfigError, ErrorKind};

use super::{average, refused};

/// tc's sentence for more virtual queues than there can be.
const ONLY_16: &str = "GRED: only 16 VQs are currently supported";

/// Returns tc's sentence for options of gred; `None` where that of all kinds is tc's, or the kind
/// is another one.
pub(super) fn of(kind: &str, key: &str, err: &ConfigError, words: &[&str]) -> Option<Cow<'static, str>> {
    if kind != "gred" {
        return None;
    }
    let declared = err.reason == Some(Reason::DeclaredRange);
    Some(match (err.kind, key) {
        // Before vqs, or with none of them.
        (ErrorKind::OutOfRange, "vqs") if matches!(refused(err, words), "default" | "0") => {
            match words.contains(&"default") {
                true => "\"default\" must be defined after \"vqs\"".into(),
                false => "Illegal gred setup parameters".into(),
            }
        }
        (ErrorKind::OutOfRange, "vqs" | "DPs" | "vq" | "DP") if declared && fits(&err.given) => {
            ONLY_16.into()
        }
        (ErrorKind::OutOfRange, "default") if !declared => "\"default\" must be less than \"vqs\"".into(),
        // The names of tc's own.
        (ErrorKind::OutOfRange | ErrorKind::BadValue, "DPs") if !err.is_given_nothing() => {
            "Illegal \"vqs\"".into()
        }
        (ErrorKind::OutOfRange | ErrorKind::BadValue, "DP") if !err.is_given_nothing() => {
            "Illegal \"vq\"".into()
        }
        (ErrorKind::Missing, "vqs") => "Illegal gred setup parameters".into(),
        (ErrorKind::Missing, _) => "Required parameter (vq, limit, min, max, avpkt) is missing".into(),
        (ErrorKind::OutOfRange, "burst") if !declared => said(words, err, &average("GRED", err)),
        (ErrorKind::OutOfRange, "max" | "probability") if !declared => {
            said(words, err, "GRED: failed to calculate probability.")
        }
        _ => return None,
    })
}

/// True if a number has the 32 bits in which tc reads it.
fn fits(word: &str) -> bool {
    word.parse::<u32>().is_ok()
}

/// Returns a refusal behind the lines for values that tc takes in place of missing ones.
fn said(words: &[&str], err: &ConfigError, refusal: &str) -> Cow<'static, str> {
    let mut lines = String::new();
    if !words.contains(&"burst") && err.key.as_deref() == Some("burst") {
        lines.push_str(&format!("GRED: set burst to {}\n", err.given));
    }
    if !words.contains(&"bandwidth") {
        lines.push_str("GRED: set bandwidth to 10Mbit\n");
    }
    format!("{lines}{refusal}").into()
}
