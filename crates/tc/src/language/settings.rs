//! The settings of a line as values, for callers that examine it.

use std::ops::Range;
use std::sync::Arc;

use txweir_core::text::value::Value;
use txweir_core::{Bytes, Handle, Nanos, Rate};

use super::table::Setting;
use super::{Object, value, walk, walk_actions};
use crate::ast::At;
use crate::lex::Word;
use crate::source::Source;

/// The words after a kind, and their settings.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    words: Vec<Word>,
    all: Vec<Setting>,
    actions: Vec<(usize, Range<usize>)>,
}

/// One action of a list.
#[derive(Clone, Debug)]
pub struct Action<'a> {
    /// Its kind.
    pub kind: &'a Word,
    /// The words after it.
    pub words: &'a [Word],
}

impl Settings {
    /// Returns the settings in the words after a kind; none if they cannot be read.
    pub fn of(object: Object, kind: &str, source: &Arc<Source>, words: &[Word]) -> Self {
        let (all, actions) = walk(object, kind, source, words).unwrap_or_default();
        Self { words: words.to_vec(), all, actions }
    }

    /// Reads a list of actions, as it follows `tc actions add`; returns no settings if it cannot be
    /// read.
    pub(crate) fn of_actions(source: &Arc<Source>, words: &[Word]) -> Self {
        let actions = walk_actions(source, words).unwrap_or_default();
        Self { words: words.to_vec(), all: Vec::new(), actions }
    }

    /// Returns all the words.
    pub fn all_words(&self) -> &[Word] {
        &self.words
    }
    /// Returns each key and its words, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Setting, &[Word])> {
        self.all.iter().filter_map(|s| Some((s, self.words.get(s.words.clone())?)))
    }
    /// Returns the words of a key, the key first: of the last that was given.
    pub fn words(&self, key: &str) -> Option<&[Word]> {
        self.iter().filter(|(s, _)| s.key == key).last().map(|(_, words)| words)
    }
    /// True if a key was given.
    pub fn has(&self, key: &str) -> bool {
        self.words(key).is_some()
    }
    /// Returns the first value of a key.
    pub fn word(&self, key: &str) -> Option<&Word> {
        self.words(key)?.get(1)
    }
    /// Returns the values of a key that takes several.
    pub fn list(&self, key: &str) -> &[Word] {
        self.words(key).and_then(|w| w.get(1..)).unwrap_or(&[])
    }
    fn value<T: Value>(&self, key: &str) -> Option<At<T>> {
        let word = self.word(key)?;
        let text = word.text.split('/').next().unwrap_or("");
        Some(At { value: value::one(text)?, span: word.span.clone() })
    }
    /// Returns a rate, in bytes per second; `None` for one in percent of a link.
    pub fn rate(&self, key: &str) -> Option<At<Rate>> {
        self.value(key)
    }
    /// Returns a size; the part after a slash is left out.
    pub fn bytes(&self, key: &str) -> Option<At<Bytes>> {
        self.value(key)
    }
    /// Returns a time.
    pub fn time(&self, key: &str) -> Option<At<Nanos>> {
        self.value(key)
    }
    /// Returns a whole number.
    pub fn number(&self, key: &str) -> Option<At<u64>> {
        let word = self.word(key)?;
        Some(At { value: value::uint(&word.text)?, span: word.span.clone() })
    }
    /// Returns a hexadecimal number, with `0x` or without.
    pub fn hex(&self, key: &str) -> Option<At<u64>> {
        let word = self.word(key)?;
        Some(At { value: value::hex(&word.text)?, span: word.span.clone() })
    }
    /// Returns a class or a qdisc.
    pub fn handle(&self, key: &str) -> Option<At<Handle>> {
        let word = self.word(key)?;
        Some(At { value: value::handle(&word.text)?, span: word.span.clone() })
    }
    /// Returns count and first of each `2@0` of a key.
    pub fn queues(&self, key: &str) -> Vec<At<(u64, u64)>> {
        let at = |w: &Word| Some(At { value: value::queues(&w.text)?, span: w.span.clone() });
        self.list(key).iter().filter_map(at).collect()
    }
    /// Returns the words that are rates, with their keys.
    pub fn rates(&self) -> impl Iterator<Item = (&'static str, &Word)> {
        self.all.iter().flat_map(|s| s.rates.iter().filter_map(|at| Some((s.key, self.words.get(*at)?))))
    }
    /// Returns the rate that follows `part` within a key: `m2` within `rt`.
    pub fn part_rate(&self, key: &str, part: &str) -> Option<At<Rate>> {
        let words = self.words(key)?;
        let at = words.iter().position(|w| w.text == part)?;
        let word = words.get(at + 1)?;
        Some(At { value: value::one(&word.text)?, span: word.span.clone() })
    }
    /// Returns the actions of a filter, in order; `police` as one of them.
    pub fn actions(&self) -> Vec<Action<'_>> {
        let one = |(kind, words): &(usize, Range<usize>)| {
            Some(Action { kind: self.words.get(*kind)?, words: self.words.get(words.clone())? })
        };
        self.actions.iter().filter_map(one).collect()
    }
}
