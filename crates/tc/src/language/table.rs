//! The declaration of a grammar: keys, the values of each, and the keys that a line of the kind
//! requires.

use std::borrow::Cow;
use std::ops::Range;

use super::walk::Walk;
use crate::diagnostic::Diagnostic;
use crate::sentence::Sentence;

/// The form of one word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    /// A rate; `10%` too.
    Rate,
    /// A size.
    Size,
    /// A size, and after a slash the cell of a rate table: `10k/8`.
    SizeCell,
    /// A whole number in this range: decimal, `0x` hexadecimal or `0` octal.
    Uint(u64, u64),
    /// A whole number in this range, possibly negative.
    Int(i64, i64),
    /// A hexadecimal number, with `0x` or without, up to this.
    Hex(u64),
    /// A number and, after a slash, a mask: `5/0xff`.
    Masked(u64),
    /// A class: `1:10`, `:10`, `10`, `root`, `none`.
    ClassId,
    /// A hash table or one of its buckets: `800:`, `2:a:`, `800::800`.
    Table,
    /// An IPv4 address or prefix.
    Ipv4,
    /// An IPv6 address or prefix.
    Ipv6,
    /// An address or prefix of either.
    Prefix,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any word.
    Any,
}

/// Whole numbers of 8, 16 and 32 bits.
pub(super) const U8: Arg = Arg::Uint(0, u8::MAX as u64);
pub(super) const U16: Arg = Arg::Uint(0, u16::MAX as u64);
pub(super) const U32: Arg = Arg::Uint(0, u32::MAX as u64);
/// Whole numbers that may be negative.
pub(super) const I32: Arg = Arg::Int(i32::MIN as i64, i32::MAX as i64);

/// The way in which tc refuses a value of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wrong {
    /// By `Illegal` and this name.
    Illegal(&'static str),
    /// As an argument that is this.
    Argument(&'static str),
    /// As an address that does not have this form.
    Rather(&'static str),
    /// By this line.
    Line(&'static str),
    /// By a line of the word between these.
    Around(&'static str, &'static str),
    /// By the question what it is.
    WhatIs,
    /// By this line, with a number that is out of range; otherwise by another.
    Range(&'static str, &'static str),
}

impl Wrong {
    /// Returns tc's sentence for a word.
    pub(super) fn of(self, word: &str, out_of_range: bool) -> Cow<'static, str> {
        match self {
            Self::Illegal(key) => Sentence::Illegal(key).into(),
            Self::Argument(not) => Sentence::Argument(word, not).into(),
            Self::Rather(form) => Sentence::Rather(form, word).into(),
            Self::Line(line) => line.into(),
            Self::Around(before, after) => format!("{before}{word}{after}").into(),
            Self::WhatIs => Sentence::WhatIs(word).into(),
            Self::Range(line, _) if out_of_range => line.into(),
            Self::Range(_, other) => other.into(),
        }
    }
}

/// Reads the part after a key that no list of words can describe.
pub(super) type Reader = fn(&mut Walk<'_>) -> Result<(), Diagnostic>;

/// A key and its values: required words, optional words, and a part with a reader of its
/// own.
#[derive(Debug)]
pub(super) struct Key {
    /// The key, and other words for it.
    pub words: &'static [&'static str],
    /// Required words.
    pub args: &'static [Arg],
    /// Optional words after those, in order, as far as they are given.
    pub may: &'static [Arg],
    /// Reads the rest.
    pub then: Option<Reader>,
    /// tc's way to refuse a value, where it is not that of the grammar.
    pub wrong: Option<Wrong>,
}

/// Returns a key that stands alone, or is followed by `args`.
pub(super) const fn key(words: &'static [&'static str], args: &'static [Arg]) -> Key {
    Key { words, args, may: &[], then: None, wrong: None }
}

impl Key {
    /// Adds optional words.
    pub(super) const fn may(mut self, may: &'static [Arg]) -> Self {
        self.may = may;
        self
    }
    /// Adds a reader of the rest.
    pub(super) const fn then(mut self, reader: Reader) -> Self {
        self.then = Some(reader);
        self
    }
    /// Sets tc's way to refuse a value.
    pub(super) const fn wrong(mut self, wrong: Wrong) -> Self {
        self.wrong = Some(wrong);
        self
    }
    /// Returns the name of the key.
    pub(super) const fn name(&self) -> &'static str {
        match self.words.first() {
            Some(word) => word,
            None => "",
        }
    }
}

/// The way in which tc refuses words, where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refuses {
    /// It is not known, or that of the key that this is a part of.
    AsKey,
    /// A value is illegal, and of another word tc asks what it is.
    Usual,
    /// As the words of an action: another word would be the next action.
    Action,
}

/// The grammar of the words after a kind.
#[derive(Debug)]
pub(super) struct Grammar {
    /// The kinds with this grammar.
    pub kinds: &'static [&'static str],
    /// The keys in the order in which tc tries them on a word that is cut short.
    pub keys: &'static [Key],
    /// True if keys may be cut short.
    pub cut: bool,
    /// tc's way to refuse words.
    pub refuses: Refuses,
    /// tc's way to refuse a word that is no key, where it is not that of `refuses`.
    pub unknown: Option<Wrong>,
}

impl Grammar {
    /// Returns a grammar with all keys whole, repeatable and optional.
    pub(super) const fn of(kinds: &'static [&'static str], keys: &'static [Key]) -> Self {
        Self { kinds, keys, cut: false, refuses: Refuses::AsKey, unknown: None }
    }
    /// Sets tc's way to refuse words.
    pub(super) const fn refuses(mut self, refuses: Refuses) -> Self {
        self.refuses = refuses;
        self
    }
    /// Sets tc's way to refuse a word that is no key.
    pub(super) const fn unknown(mut self, unknown: Wrong) -> Self {
        self.unknown = Some(unknown);
        self
    }
    /// Allows keys to be cut short.
    pub(super) const fn cut(mut self) -> Self {
        self.cut = true;
        self
    }

    /// Returns the key of a word: the equal one, or the first that begins with it where that is
    /// allowed.
    pub(super) fn find(&self, word: &str) -> Option<&'static Key> {
        let whole = self.keys.iter().find(|k| k.words.contains(&word));
        let begins = |k: &&Key| k.words.iter().any(|w| !word.is_empty() && w.starts_with(word));
        whole.or_else(|| self.keys.iter().find(begins).filter(|_| self.cut))
    }
    /// Returns tc's way to refuse a value of one of its keys.
    pub(super) const fn wrong(&self, key: &Key) -> Option<Wrong> {
        match (key.wrong, self.refuses) {
            (None, Refuses::Usual) => Some(Wrong::Illegal(key.name())),
            (wrong, _) => wrong,
        }
    }
    /// Returns all its words.
    pub(super) fn words(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().flat_map(|k| k.words.iter().copied())
    }
}

/// One key of a line and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key, written out: the tc word.
    pub key: &'static str,
    /// The indexes of its words among those that were read, the key first.
    pub words: Range<usize>,
    /// The indexes of those of its words that are rates.
    pub rates: Vec<usize>,
}
