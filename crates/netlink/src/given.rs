//! The options of a qdisc or a class as the engine has them, by their keys.

use txweir_core::text::attribute::{Attribute, Form};
use txweir_core::text::params::{Param, Shown};
use txweir_core::text::value::{Json, Quantity, exact_of};

use crate::wire::{Writer, u32_of};

/// One option with its value.
#[derive(Clone, Debug)]
struct One {
    param: &'static Param,
    /// The word of a flag.
    word: Option<&'static str>,
    json: Json,
    exact: String,
}

/// The options that are set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    all: Vec<One>,
    /// Numbers that are no options: counters, and what follows from options.
    also: Vec<(&'static str, i64)>,
    /// Counters of the parts of a qdisc: part, counter, number.
    parts: Vec<(&'static str, &'static str, u64)>,
    /// The number of classes of the qdisc.
    pub(crate) classes: usize,
}

impl Given {
    /// Adds an option, if it is set.
    pub(crate) fn push(&mut self, o: &Shown<'_>) {
        if o.value.is_set() {
            let (json, exact) = (o.value.json(), exact_of(o.value));
            self.all.push(One { param: o.param, word: o.word, json, exact });
        }
    }
    fn find(&self, key: &str) -> Option<&One> {
        self.all.iter().find(|one| one.param.key == key)
    }
    /// True if an option is set.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }
    /// Adds a number that is no option.
    pub(crate) fn also(&mut self, key: &'static str, n: i64) {
        self.also.push((key, n));
    }
    /// Adds a counter of a part.
    pub(crate) fn also_of(&mut self, part: &'static str, key: &'static str, n: u64) {
        self.parts.push((part, key, n));
    }
    /// Returns a counter of the part of this number; 0 if there is none.
    pub(crate) fn part(&self, number: u32, key: &str) -> u64 {
        let is = |part: &str| part.parse() == Ok(number);
        self.parts.iter().find(|(part, k, _)| *k == key && is(part)).map_or(0, |(_, _, n)| *n)
    }
    /// Returns a whole number, that of an option first; 0 if it is not set, or negative.
    pub(crate) fn number(&self, key: &str) -> u64 {
        match self.find(key).map(|one| &one.json) {
            Some(Json::Uint(n)) => *n,
            Some(Json::Int(n)) => u64::try_from(*n).unwrap_or(0),
            _ => self.signed(key).and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
        }
    }
    /// Returns a number that is no option.
    pub(crate) fn signed(&self, key: &str) -> Option<i64> {
        self.also.iter().find(|(k, _)| *k == key).map(|(_, n)| *n)
    }
    /// Returns a whole number in 32 bits.
    pub(crate) fn u32(&self, key: &str) -> u32 {
        u32_of(self.number(key))
    }
    /// Returns a whole number that may be negative.
    pub(crate) fn i32(&self, key: &str) -> i32 {
        match self.find(key).map(|one| &one.json) {
            Some(Json::Int(n)) => i32::try_from(*n).unwrap_or(0),
            _ => i32::try_from(self.number(key)).unwrap_or(i32::MAX),
        }
    }
    /// True if a flag is on.
    pub(crate) fn on(&self, key: &str) -> bool {
        self.find(key).is_some_and(|one| one.json == Json::Bool(true))
    }
    /// Returns the numbers of a list.
    pub(crate) fn list(&self, key: &str) -> Vec<u64> {
        match self.find(key).map(|one| &one.json) {
            Some(Json::List(list)) => list.clone(),
            _ => Vec::new(),
        }
    }
    /// Returns the members of an object.
    pub(crate) fn members(&self, key: &str) -> &[(&'static str, Json)] {
        match self.find(key).map(|one| &one.json) {
            Some(Json::Members(members)) => members,
            _ => &[],
        }
    }
    /// Returns the words that make the value; for a flag the word that stands for it.
    pub(crate) fn exact(&self, key: &str) -> &str {
        self.find(key).map_or("", |one| if one.param.flag { one.word.unwrap_or("") } else { &one.exact })
    }

    /// Writes the options that are declared with an attribute.
    pub(crate) fn write_declared(&self, w: &mut Writer) {
        for one in &self.all {
            if let (Some(Attribute { number, form }), Some(n)) = (one.param.attribute, one.declared()) {
                match form {
                    Form::u8 => w.u8(number, u8::try_from(n).unwrap_or(u8::MAX)),
                    Form::u64 => w.u64(number, n),
                    Form::u32 | Form::us32 | Form::ns32 => w.u32(number, u32_of(n)),
                }
            }
        }
    }
}

impl One {
    /// Returns the value in the unit of its attribute.
    fn declared(&self) -> Option<u64> {
        match (&self.json, self.param.quantity, self.param.attribute?.form) {
            (Json::Bool(on), ..) => Some(u64::from(*on)),
            // Times are microseconds in JSON, and without loss in nanoseconds.
            (_, Quantity::Time, Form::ns32) => nanos(&self.exact),
            (Json::Uint(n), ..) => Some(*n),
            _ => None,
        }
    }
}

/// Returns the nanoseconds in the word of a time without loss.
pub(crate) fn nanos(exact: &str) -> Option<u64> {
    exact.strip_suffix("ns")?.parse().ok()
}

/// Returns the words that make a declared option from the number in its attribute; none for a flag
/// that has no word for its value.
pub(crate) fn words(param: &Param, form: Form, n: u64) -> Vec<String> {
    if param.flag {
        let word = param.words.get(usize::from(n == 0));
        return word.into_iter().map(|word| (*word).to_string()).collect();
    }
    let unit = match (param.quantity, form) {
        (_, Form::us32) => "us",
        (_, Form::ns32) => "ns",
        (Quantity::Rate, _) => "bps",
        (Quantity::Bytes, _) => "b",
        _ => "",
    };
    let key = param.words.first().copied().unwrap_or(param.key);
    vec![key.to_string(), format!("{n}{unit}")]
}
