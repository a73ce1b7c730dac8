//! A cursor over the words of a line, and the values that stand before a kind.

use std::borrow::Cow;
use std::sync::Arc;

use txweir_core::Handle;

use super::Part;
use crate::ast::At;
use crate::diagnostic::{Diagnostic, code};
use crate::failure::Failure;
use crate::lex::Word;
use crate::sentence::Sentence;
use crate::source::Source;

/// Reads the words of a line, one after the other.
pub(super) struct Reader<'a> {
    source: &'a Arc<Source>,
    /// The words from the first on.
    all: &'a [Word],
    /// The words that are left.
    words: &'a [Word],
}

impl<'a> Reader<'a> {
    pub(super) fn new(part: &Part<'a>) -> Self {
        Self { source: part.source, all: part.words, words: part.words }
    }

    /// Takes the next word.
    pub(super) fn next(&mut self) -> Option<&'a Word> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    /// Returns the next word without taking it.
    pub(super) fn peek(&self) -> Option<&'a Word> {
        self.words.first()
    }

    /// Takes all words that are left.
    pub(super) fn rest(&mut self) -> &'a [Word] {
        std::mem::take(&mut self.words)
    }

    /// Takes the word after `key`.
    pub(super) fn argument(&mut self, key: &Word, expected: &str) -> Result<&'a Word, Failure> {
        self.next().ok_or_else(|| {
            let message = format!("\"{}\" needs a value", key.text);
            let err = Diagnostic::error(code::MISSING, self.source, key.span.clone(), message);
            Failure::usage(err.expected(expected)).linux(Sentence::Incomplete)
        })
    }

    /// Checks that `key` has not set this before; `again` is tc's sentence for a second time.
    pub(super) fn free<T>(
        &self,
        slot: &Option<T>,
        key: &Word,
        again: impl Into<Cow<'static, str>>,
    ) -> Result<(), Failure> {
        if slot.is_none() {
            return Ok(());
        }
        let message = format!("\"{}\" is given a second time", key.text);
        let err = Diagnostic::error(code::CONFLICT, self.source, key.span.clone(), message);
        Err(Failure::usage(err).linux(again))
    }

    /// Sets the value of a key, which tc calls `name`, once: `slot` must be empty.
    pub(super) fn once<T>(
        &self,
        slot: &mut Option<T>,
        key: &Word,
        name: &str,
        value: T,
    ) -> Result<(), Failure> {
        let after = self.all.iter().find(|word| word.span.start >= key.span.end);
        self.free(slot, key, Sentence::Duplicate(name, after.map_or("", |word| &word.text)))?;
        *slot = Some(value);
        Ok(())
    }

    /// Sets a place that one word names, once.
    pub(super) fn once_at<T>(&self, slot: &mut Option<T>, key: &Word, place: T) -> Result<(), Failure> {
        self.free(slot, key, Sentence::DuplicateParent(&key.text))?;
        *slot = Some(place);
        Ok(())
    }

    /// Reads the handle of a qdisc after `key`: `MAJOR:`, or `MAJOR` alone. A minor number is kept
    /// for a caller that needs it. Of a word that is no handle, tc says that it is an `invalid`.
    pub(super) fn qdisc_handle(&mut self, key: &Word, invalid: &str) -> Result<At<Handle>, Failure> {
        const EXPECTED: &str = "a qdisc's handle, MAJOR:";
        let word = self.argument(key, EXPECTED)?;
        let handle = match word.text.split_once(':') {
            None if word.text == "none" => Some(Handle::NONE),
            None => hex(&word.text, 0xffff).map(|major| Handle(major << 16)),
            Some((major, "")) => hex(major, 0xffff).map(|major| Handle(major << 16)),
            Some((major, minor)) => both(major, minor),
        };
        self.handle(word, handle, EXPECTED, invalid)
    }

    /// Reads the class after `key`: `MAJOR:MINOR`, `root`, `none`, or one number of 32 bits. Of
    /// another word, tc says that it is an `invalid`.
    pub(super) fn class(&mut self, key: &Word, expected: &str, invalid: &str) -> Result<At<Handle>, Failure> {
        let word = self.argument(key, expected)?;
        let handle = match (word.text.as_str(), word.text.split_once(':')) {
            ("root", _) => Some(Handle::ROOT),
            ("none", _) => Some(Handle::NONE),
            (number, None) => hex(number, u32::MAX).map(Handle),
            (_, Some((major, ""))) => hex(major, 0xffff).map(|major| Handle(major << 16)),
            (_, Some(("", minor))) => hex(minor, 0xffff).map(Handle),
            (_, Some((major, minor))) => both(major, minor),
        };
        self.handle(word, handle, expected, invalid)
    }

    fn handle(
        &self,
        word: &Word,
        handle: Option<Handle>,
        expected: &str,
        invalid: &str,
    ) -> Result<At<Handle>, Failure> {
        let span = word.span.clone();
        match handle {
            Some(value) => Ok(At { value, span }),
            None => {
                let what = expected.split(',').next().unwrap_or(expected);
                let message = format!("\"{}\" is not {what}", word.text);
                let err = Diagnostic::error(code::BAD_VALUE, self.source, span, message);
                let err = err.expected(format!("{expected}, hexadecimal, each at most ffff"));
                Err(Failure::usage(err).linux(Sentence::Argument(&word.text, invalid)))
            }
        }
    }

    /// Reads a whole number after `key`, as C writes it (`10`, `0x10`, `010`). Of another word, tc
    /// says that it is an `invalid`.
    pub(super) fn number(
        &mut self,
        key: &Word,
        max: u32,
        expected: &str,
        invalid: &str,
    ) -> Result<At<u32>, Failure> {
        let word = self.argument(key, expected)?;
        match number(&word.text).filter(|n| *n <= max) {
            Some(value) => Ok(At { value, span: word.span.clone() }),
            None => Err(self.bad_value(key, word, expected).linux(Sentence::Argument(&word.text, invalid))),
        }
    }

    /// Returns the error for a value of `key` that is not of its type.
    pub(super) fn bad_value(&self, key: &Word, word: &Word, expected: &str) -> Failure {
        let message = format!("{}: \"{}\" is not a value for it", key.text, word.text);
        let err = Diagnostic::error(code::BAD_VALUE, self.source, word.span.clone(), message);
        Failure::usage(err.expected(expected))
    }
}

fn both(major: &str, minor: &str) -> Option<Handle> {
    Some(Handle(hex(major, 0xffff)? << 16 | hex(minor, 0xffff)?))
}

/// Reads a hexadecimal number of at most `max`, with or without `0x`.
fn hex(text: &str, max: u32) -> Option<u32> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let all = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|n| all && *n <= max)
}

/// Reads a number as C writes it.
fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(hex), _) => (hex, 16),
        (_, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (text, 10),
    };
    // `from_str_radix` would accept a sign.
    u32::from_str_radix(digits, radix).ok().filter(|_| digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_c_writes_them() {
        for (text, n) in
            [("10", Some(10)), ("0x10", Some(16)), ("010", Some(8)), ("0", Some(0)), ("09", None), ("", None)]
        {
            assert_eq!(number(text), n, "{text}");
        }
        assert_eq!((number("+1"), number("0x"), hex("-1", 9), hex("", 9)), (None, None, None, None));
        assert_eq!((hex("0xffff", 0xffff), hex("10000", 0xffff)), (Some(0xffff), None));
    }
}
