//! tc's own sentences for options of qdiscs and classes that it refuses before it asks the kernel.
//! tc has a reader for each kind, and each reader has its own words for the same mistake.

mod gred;
mod parts;

use std::borrow::Cow;

use txweir_core::text::error::Reason;
use txweir_core::{ConfigError, ErrorKind};

use crate::language::Object;
use crate::sentence::Sentence;

/// tc's line for red without `bandwidth`: it says the value that it takes, on standard error.
const BANDWIDTH: &str = "RED: set bandwidth to 10Mbit";

/// Returns tc's sentence for options of a kind that tc itself refuses. `words` are all that follow
/// the kind.
pub(crate) fn of(object: Object, kind: &str, err: &ConfigError, words: &[&str]) -> Cow<'static, str> {
    let key = err.key.as_deref().unwrap_or("");
    if let Some(said) = gred::of(kind, key, err, words) {
        return said;
    }
    match err.kind {
        ErrorKind::UnknownKey if kind == "netem" => parts::beyond(err.word, words, &err.given),
        // It is a key of tc's that has no effect, and lacks its number.
        ErrorKind::UnknownKey if kind == "htb" && refused(err, words) == "debug" => {
            Sentence::Incomplete.into()
        }
        ErrorKind::UnknownKey => match list_of(kind, err.word, words) {
            Some(list) => list_ends(kind, list, &err.given),
            None => unknown(kind, &err.given),
        },
        ErrorKind::BadValue if err.is_given_nothing() => match (kind, key) {
            ("mqprio", "min_rate" | "max_rate") => no_rates(key, words),
            _ => Sentence::Incomplete.into(),
        },
        ErrorKind::Missing if err.word.is_none() => missing(kind, key, words),
        ErrorKind::Conflict => conflict(kind, key, words),
        _ => illegal(object, kind, key, err, words),
    }
}

/// Returns the word that an error is about; an empty one if it is about none.
fn refused<'a>(err: &ConfigError, words: &[&'a str]) -> &'a str {
    err.word.and_then(|at| words.get(at)).copied().unwrap_or("")
}

/// Returns tc's sentence for mqprio's rates without a rate.
fn no_rates(key: &str, words: &[&str]) -> Cow<'static, str> {
    match words.contains(&"bw_rlimit") {
        true => format!("Incomplete arguments, {key} values expected").into(),
        false => unknown("mqprio", key),
    }
}

/// Returns the key of the list that a word without meaning ends: tc takes it for one more of it.
fn list_of<'a>(kind: &str, at: Option<usize>, words: &[&'a str]) -> Option<&'a str> {
    let lists: &[&str] = match kind {
        "ets" => &["quanta", "priomap"],
        "prio" => &["priomap"],
        _ => return None,
    };
    let keys = ["bands", "strict", "quanta", "priomap"];
    let last = words.get(..at?)?.iter().rev().find(|word| keys.contains(word))?;
    lists.contains(last).then_some(*last)
}

/// Returns tc's sentence for a word that it takes for one more of a list.
fn list_ends(kind: &str, list: &str, word: &str) -> Cow<'static, str> {
    match (kind, word.parse::<u32>()) {
        ("prio", Ok(_)) => "\"priomap\" index > TC_PRIO_MAX=15".into(),
        (_, Ok(_)) if list == "priomap" => "\"priomap\" index cannot be higher than 15".into(),
        _ => format!("Illegal \"{list}\" element").into(),
    }
}

/// Returns tc's sentence for a word that is no key of a kind.
pub(crate) fn unknown(kind: &str, word: &str) -> Cow<'static, str> {
    match kind {
        "pfifo" | "bfifo" | "pfifo_head_drop" | "skbprio" | "tbf" | "cbs" | "etf" | "plug" => {
            format!("{kind}: unknown parameter \"{word}\"").into()
        }
        "hfsc" => format!("HFSC: What is \"{word}\" ?").into(),
        "mqprio" => Sentence::Argument(word, "unknown argument").into(),
        "taprio" => "Unknown argument".into(),
        "pfifo_fast" => "qdisc 'pfifo_fast' does not support option parsing".into(),
        // tc has no reader of its options: the kind itself is unknown to it.
        "mq" => format!("Unknown qdisc \"{kind}\", hence option \"{word}\" is unparsable").into(),
        _ => Sentence::WhatIs(word).into(),
    }
}

/// Returns tc's sentence for a key that tc takes once, and that is given again.
pub(crate) fn again(kind: &str, key: &str) -> Cow<'static, str> {
    match (kind, key) {
        ("tbf", "burst" | "buffer" | "maxburst") => {
            "tbf: duplicate \"buffer/burst/maxburst\" specification".into()
        }
        ("tbf", "mtu" | "minburst") => "tbf: duplicate \"mtu/minburst\" specification".into(),
        ("taprio", _) => format!("taprio: duplicate \"{}\" specification", key.replace('_', "-")).into(),
        ("tbf" | "cbs" | "etf", _) => format!("{kind}: duplicate \"{key}\" specification").into(),
        ("htb", _) => format!("Double \"{key}\" spec").into(),
        ("hfsc", _) => format!("HFSC: Double \"{key}\"").into(),
        ("prio", _) => format!("Error: duplicate {key}").into(),
        ("netem", _) => "Illegal \"duplicate loss argument".into(),
        ("red", _) => format!("Duplicate {key}").into(),
        _ => format!("Duplicate \"{key}\"").into(),
    }
}

/// Returns tc's sentence for a value that it does not take.
fn illegal(object: Object, kind: &str, key: &str, err: &ConfigError, words: &[&str]) -> Cow<'static, str> {
    let word = refused(err, words);
    let said = |text: String| text.into();
    match (kind, key) {
        ("pfifo" | "bfifo" | "pfifo_head_drop", _) => {
            said(format!("{kind}: Illegal value for \"{key}\": \"{word}\""))
        }
        ("skbprio", _) => said(format!("skbprio: Illegal \"{key}\" value:\"{word}\"")),
        ("tbf", "rate" | "limit") if err.kind == ErrorKind::OutOfRange => missing(kind, key, words),
        ("tbf", "burst" | "buffer" | "maxburst")
            if err.kind == ErrorKind::OutOfRange && word.starts_with('0') =>
        {
            missing(kind, "burst", words)
        }
        ("tbf", _) => {
            let size = word.split('/').next().unwrap_or("");
            let word = if TBF_SIZES.contains(&key) { size } else { word };
            said(format!("tbf: illegal value for \"{key}\": \"{word}\""))
        }
        ("etf" | "taprio", "clockid") => said(format!("{kind}: illegal value for \"clockid\": \"{word}\".")),
        ("cbs" | "etf", _) => said(format!("{kind}: illegal value for \"{key}\": \"{word}\"")),
        ("plug", _) => said(format!("Illegal value for \"limit\": \"{word}\"")),
        ("choke", "avpkt") if word.starts_with('0') => "CHOKE: failed to calculate EWMA constant.".into(),
        ("choke", "burst") if err.kind == ErrorKind::OutOfRange => average("CHOKE", err),
        ("choke", "probability") if err.kind == ErrorKind::OutOfRange => {
            "CHOKE: failed to calculate probability.".into()
        }
        ("hfsc", _) if object == Object::Class => parts::curve(key, after(key, err, words)),
        ("hfsc", _) => said(format!("HFSC: Illegal \"{key}\"")),
        ("cake", "memlimit" | "fwmark") => said(format!("Illegal value for \"{key}\": \"{word}\"")),
        // tc prints a backslash and an `n` in the place of the end of the line.
        ("cake", "overhead") => r#"Illegal "overhead", valid range is -64 to 256\n"#.into(),
        ("cake", "mpu") => r#"Illegal "mpu", valid range is 0 to 256\n"#.into(),
        ("ets", "quanta" | "quantum" | "priomap") => ets_list(object, key, err),
        ("ets", "bands" | "strict") if err.kind == ErrorKind::OutOfRange => match word {
            "0" => NOTHING_FOR_ETS.into(),
            _ => said(format!("The number of \"{key}\" must be <= 16")),
        },
        ("prio", "priomap") => "Illegal \"priomap\" element".into(),
        ("mqprio" | "taprio", "map" | "queues") | ("taprio", "max-sdu" | "fp") => unknown(kind, word),
        ("mqprio", "min_rate" | "max_rate") if !words.contains(&"bw_rlimit") => unknown(kind, key),
        ("mqprio", "min_rate" | "max_rate") => unknown(kind, word),
        ("mqprio", "mode" | "shaper") => said(format!("Illegal {key} ({word})")),
        ("red", "qevent") => qevent(after(key, err, words)),
        ("red", _) if err.kind == ErrorKind::OutOfRange && err.reason != Some(Reason::DeclaredRange) => {
            red_average(err, words)
        }
        ("fq_codel", "ce_threshold_selector") => said(match word.split_once('/') {
            None => format!("Missing mask for \"{key}\""),
            Some((value, _)) if parts::is_selector(&format!("{value}/0")) => {
                format!("Illegal mask for \"{key}\"")
            }
            Some(_) => format!("Illegal \"{key}\""),
        }),
        ("fq", "timer_slack") if err.kind == ErrorKind::OutOfRange => {
            "Illegal (out of range) \"timer_slack\"".into()
        }
        ("netem", "loss" | "drop") => parts::loss(after(key, err, words)),
        ("netem", "slot") => parts::slot(after(key, err, words)),
        ("netem", "distribution") => parts::no_table(word),
        ("sfq", "burst")
            if err.kind == ErrorKind::OutOfRange && err.reason != Some(Reason::DeclaredRange) =>
        {
            average("SFQ", err)
        }
        ("sfq", "min" | "max" | "avpkt" | "burst")
            if err.kind == ErrorKind::OutOfRange && !words.contains(&"redflowlimit") =>
        {
            missing(kind, "redflowlimit", words)
        }
        ("sfq", "limit") if err.kind == ErrorKind::OutOfRange => "Illegal \"limit\", must be > 1".into(),
        _ => Sentence::Illegal(called(kind, key)).into(),
    }
}

/// Returns the name by which tc refuses a value of a key: some of its readers have that of another
/// key.
fn called<'a>(kind: &str, key: &'a str) -> &'a str {
    match (kind, key) {
        ("fq", "orphan_mask") => "initial_quantum",
        ("sfq", "quantum") => "limit",
        ("sfq", "depth") => "flows",
        ("netem", "delay") => "latency",
        _ => key,
    }
}

/// Keys of tbf whose values are a size and its cell.
const TBF_SIZES: [&str; 5] = ["burst", "buffer", "maxburst", "mtu", "minburst"];

/// tc's sentence for ets without an option that says its bands.
const NOTHING_FOR_ETS: &str = "One of \"bands\", \"quanta\" or \"strict\" needs to be specified";

/// Returns tc's sentence for options that lack one that tc requires.
fn missing(kind: &str, without: &str, words: &[&str]) -> Cow<'static, str> {
    let said = |any: &[&str]| any.iter().any(|key| words.contains(key));
    match (kind, without) {
        ("tbf", "mtu") => "tbf: when \"peakrate\" is specified, \"mtu\" must also be specified.".into(),
        ("tbf", _) => {
            let mut lines = Vec::new();
            for (name, any) in [("rate", &["rate"][..]), ("burst", &["burst", "buffer", "maxburst"])] {
                if !said(any) || any.contains(&without) {
                    lines.push(format!("tbf: the \"{name}\" parameter is mandatory."));
                }
            }
            if !said(&["limit", "latency"]) || without == "limit" {
                lines.push("tbf: either \"limit\" or \"latency\" is required.".into());
            }
            lines.join("\n").into()
        }
        ("red", _) => "RED: Required parameter (limit, avpkt) is missing".into(),
        ("choke", _) => "Required parameter (bandwidth, limit) is missing".into(),
        ("sfq", _) => format!("Required parameter ({without}) is missing").into(),
        ("ets", _) => NOTHING_FOR_ETS.into(),
        ("htb", _) => format!("\"{without}\" is required.").into(),
        ("hfsc", _) => match said(&["ul"]) {
            true => "HFSC: Upper-limit Service Curve without Link-Share Service Curve".into(),
            false => "HFSC: no parameters given".into(),
        },
        _ => Sentence::Incomplete.into(),
    }
}

/// Returns tc's sentence for options that contradict each other.
fn conflict(kind: &str, key: &str, words: &[&str]) -> Cow<'static, str> {
    match (kind, key) {
        ("tbf", _) => both_limits(words),
        ("ets", "bands") => "Not enough total bands to cover all the strict bands and quanta".into(),
        ("ets", "priomap") => "\"priomap\" element is out of bounds".into(),
        ("prio", "priomap") => "\"priomap\" element is out of bands".into(),
        ("sfq" | "choke", "max") => "\"max\" is larger than \"limit\"".into(),
        ("sfq" | "choke", "min") => "\"min\" is not smaller than \"max\"".into(),
        ("netem", "reorder") => "reordering not possible without specifying some delay".into(),
        ("netem", "gap") => "gap specified without reorder probability".into(),
        ("netem", "distribution") => "distribution specified but no latency and jitter values".into(),
        ("netem", "ecn") => "ecn requested without loss model".into(),
        ("netem", "loss") => again(kind, key),
        _ => Sentence::Illegal(key).into(),
    }
}

/// Returns tc's sentence for a tbf with a limit and a latency, as the second of them stands in the
/// line.
pub(crate) fn both_limits(words: &[&str]) -> Cow<'static, str> {
    let at = |key: &str| words.iter().position(|word| *word == key);
    let (first, second) = match at("limit") < at("latency") {
        true => ("limit", "/latency"),
        false => ("latency", "limit"),
    };
    format!("tbf: specifying both \"{first}\" and \"{second}\" is not allowed").into()
}

/// Returns tc's sentence for a word of a list of ets.
fn ets_list(object: Object, key: &str, err: &ConfigError) -> Cow<'static, str> {
    // A class has one quantum, and the reader of the list reads it.
    let key = if object == Object::Class { "quanta" } else { key };
    match (key, err.kind) {
        ("quanta", ErrorKind::OutOfRange) if err.word.is_none() => NOTHING_FOR_ETS.into(),
        ("quanta", ErrorKind::OutOfRange) => "\"quanta\" must be > 0".into(),
        _ => format!("Illegal \"{key}\" element").into(),
    }
}

/// Returns tc's lines for the weight of red's average, which it computes itself.
fn red_average(err: &ConfigError, words: &[&str]) -> Cow<'static, str> {
    let lines = average("RED", err);
    if words.contains(&"bandwidth") { lines } else { format!("{BANDWIDTH}\n{lines}").into() }
}

/// Returns tc's lines for a burst from which no weight of an average follows.
fn average(reader: &str, err: &ConfigError) -> Cow<'static, str> {
    let failed = format!("{reader}: failed to calculate EWMA constant.");
    let enough: String = err.expected.chars().filter(char::is_ascii_digit).collect();
    let burst = &err.given;
    match err.reason {
        Some(Reason::TooMany) => failed.into(),
        _ => format!("tc_red_eval_ewma() burst {burst} is too small ? Try burst {enough}\n{failed}").into(),
    }
}

/// Returns tc's sentence for an event of red, by the words after the key.
fn qevent(words: &[&str]) -> Cow<'static, str> {
    match words {
        ["mark" | "early_drop"] | ["mark" | "early_drop", "block"] | [] => Sentence::Incomplete.into(),
        ["mark" | "early_drop", "block", ..] => "Illegal qevent block index".into(),
        ["mark" | "early_drop", ..] => "Unspecified qevent block index".into(),
        [other, ..] => format!("Unknown qevent `{other}'").into(),
    }
}

/// Returns the words after the key of an error.
fn after<'a, 'w>(key: &str, err: &ConfigError, words: &'a [&'w str]) -> &'a [&'w str] {
    let at = err.word.and_then(|at| words.get(..=at)?.iter().rposition(|word| *word == key));
    at.and_then(|at| words.get(at + 1..)).unwrap_or(&[])
}
