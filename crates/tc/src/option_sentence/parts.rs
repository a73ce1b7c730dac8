//! tc's sentences for values of several words: the readers of netem's losses and slots, and of
//! hfsc's curves, name the part that they do not take.

use std::borrow::Cow;

use txweir_core::base::chance::Percent;
use txweir_core::qdisc::fq_codel::Selector;
use txweir_core::text::value::{Value, Words};
use txweir_core::{Bytes, Nanos, Rate};

use crate::sentence::Sentence;

/// Where tc 6.1 of Debian looks for the tables of netem's distributions.
const TABLES: &str = "/usr/lib/x86_64-linux-gnu/tc/";

/// tc's names of the probabilities of each form of a loss.
const RANDOM: &[&str] = &["loss percent", "loss correlation"];
const STATE: &[&str] = &["loss p13", "loss p31", "loss p32", "loss p23", "loss p14"];
const GEMODEL: &[&str] = &["loss gemodel p", "loss gemodel r", "loss gemodel h", "loss gemodel k"];

/// Returns tc's sentence for a loss of netem, by the words after its key.
pub(super) fn loss(words: &[&str]) -> Cow<'static, str> {
    let (names, shares) = match words {
        [] => return Sentence::Incomplete.into(),
        ["random", rest @ ..] => (RANDOM, rest),
        ["state", rest @ ..] => (STATE, rest),
        ["gemodel", rest @ ..] => (GEMODEL, rest),
        [first, ..] if begins_number(first) => (RANDOM, words),
        [first, ..] => return format!("Unknown loss parameter: {first}").into(),
    };
    if shares.is_empty() {
        return Sentence::Incomplete.into();
    }
    let wrong = names.iter().zip(shares).find(|(_, word)| !is_share(word));
    Sentence::Illegal(wrong.map_or("loss", |(name, _)| name)).into()
}

/// Returns tc's sentence for slots of netem, by the words after the key.
pub(super) fn slot(words: &[&str]) -> Cow<'static, str> {
    let (names, values) = match words {
        [] | ["distribution"] => return Sentence::Incomplete.into(),
        ["distribution", name, ..] if !DISTRIBUTIONS.contains(name) => return no_table(name),
        ["distribution", _] => return Sentence::Incomplete.into(),
        ["distribution", _, delay, ..] if !is_time(delay) => return Sentence::Illegal("slot delay").into(),
        ["distribution", _, _] => return Sentence::Incomplete.into(),
        ["distribution", _, _, jitter, ..] if !is_time(jitter) => {
            return Sentence::Illegal("slot jitter").into();
        }
        ["distribution", _, rest @ ..] => (["slot delay", "slot jitter"], rest),
        [first, ..] if begins_number(first) => (["slot min_delay", "slot max_delay"], words),
        [first, ..] => return format!("Unknown slot parameter: {first}").into(),
    };
    let wrong = |(_, word): &(&&str, &&str)| begins_number(word) && !is_time(word);
    let delays = values.iter().take(2).take_while(|word| begins_number(word)).count();
    if let Some((name, _)) = names.iter().zip(values).take(delays).find(wrong) {
        return Sentence::Illegal(name).into();
    }
    let counted = values.iter().rposition(|word| ["packets", "bytes"].contains(word));
    Sentence::Illegal(match (counted.map(|at| values[at]), delays) {
        (Some("packets"), _) => "slot packets",
        (Some(_), _) => "slot bytes",
        (None, 0) => names[0],
        (None, _) => names[1],
    })
    .into()
}

/// The keys of netem with values of several numbers, and the greatest number of them.
const NUMBERS: [(&str, usize); 8] = [
    ("delay", 3),
    ("latency", 3),
    ("loss", 6),
    ("drop", 6),
    ("corrupt", 2),
    ("duplicate", 2),
    ("reorder", 2),
    ("rate", 4),
];

/// Returns tc's sentence for a word of netem that is no key, at a place. A word that begins with a
/// digit is a number of the value before it, as far as that has more numbers.
pub(super) fn beyond(at: Option<usize>, words: &[&str], word: &str) -> Cow<'static, str> {
    let before = at.and_then(|at| words.get(..at)).unwrap_or(&[]);
    let is_key = |word: &&str| *word == "slot" || NUMBERS.iter().any(|(key, _)| key == word);
    let key = before.iter().rposition(is_key).filter(|_| begins_number(word));
    let Some(key) = key else { return Sentence::WhatIs(word).into() };
    let after = &words[key + 1..];
    let numbers = before.len() - key;
    let most = NUMBERS.iter().find(|(name, _)| *name == words[key]).map_or(2, |(_, most)| *most);
    match words[key] {
        _ if numbers > most => Sentence::WhatIs(word).into(),
        "loss" | "drop" if is_share(word) => Sentence::WhatIs(word).into(),
        "loss" | "drop" => loss(after),
        "slot" if is_time(word) && numbers != 2 => Sentence::WhatIs(word).into(),
        "slot" => slot(after),
        "delay" => Sentence::Illegal("latency").into(),
        name => Sentence::Illegal(name).into(),
    }
}

/// Returns tc's sentence for a table of netem's distributions that is not there.
pub(super) fn no_table(name: &str) -> Cow<'static, str> {
    format!("No distribution data for {name} ({TABLES}/{name}.dist: No such file or directory)").into()
}

/// The tables that come with tc.
const DISTRIBUTIONS: [&str; 5] = ["uniform", "normal", "pareto", "paretonormal", "experimental"];

/// Returns tc's sentences for a curve of hfsc, by the words after its key: that of the part which
/// it does not take, and that of the curve.
pub(super) fn curve(key: &str, words: &[&str]) -> Cow<'static, str> {
    let whole = format!("HFSC: Illegal \"{key}\"");
    let (mut rest, mut read) = (words, Vec::new());
    while let [part, after @ ..] = rest {
        let Some((_, accepts)) = PARTS.iter().find(|(name, _)| name == part && !read.contains(part)) else {
            break;
        };
        read.push(*part);
        let Some((value, after)) = after.split_first() else { return Sentence::Incomplete.into() };
        if !accepts(value) {
            let reader = if *part == "d" { "HFSC: Illegal \"dmax\"\n" } else { "" };
            return format!("HFSC: Illegal \"{part}\"\n{reader}{whole}").into();
        }
        rest = after;
        if ["m2", "rate"].contains(part) {
            return match words.contains(&"umax") && !words.contains(&"dmax") {
                true => format!("HFSC: umax given but dmax is zero.\n{whole}").into(),
                false => format!("HFSC: Service Curve has two zero slopes\n{whole}").into(),
            };
        }
    }
    // tc looks for the next part of a curve that has begun.
    if rest.is_empty() { Sentence::Incomplete.into() } else { whole.into() }
}

/// Tells if a word is a value.
type Check = fn(&str) -> bool;

/// The parts of a curve, and the check of their values.
const PARTS: [(&str, Check); 6] = [
    ("m1", is_rate),
    ("d", is_time),
    ("m2", is_rate),
    ("umax", is_size),
    ("dmax", is_time),
    ("rate", is_rate),
];

/// Returns the value that a word is.
fn value<T: Value>(word: &str) -> Option<T> {
    // The base of a rate in percent does not matter here.
    T::take(&mut Words::new(&[word]).link_rate(Rate(u32::MAX.into()))).ok()
}

fn is_time(word: &str) -> bool {
    value::<Nanos>(word).is_some()
}

fn is_share(word: &str) -> bool {
    value::<Percent>(word).is_some()
}

/// True for a selector of packets by their DS field.
pub(super) fn is_selector(word: &str) -> bool {
    value::<Selector>(word).is_some()
}

/// True for a rate that fits the 32 bits into which tc reads it.
fn is_rate(word: &str) -> bool {
    value::<Rate>(word).is_some_and(|rate| u32::try_from(rate.0).is_ok())
}

/// True for a size that fits the 32 bits into which tc reads it.
fn is_size(word: &str) -> bool {
    value::<Bytes>(word).is_some_and(|size| u32::try_from(size.0).is_ok())
}

/// True if tc takes a word for a number: it begins with a digit.
fn begins_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}
