//! The one walker that reads words by any grammar, and the errors for words that do not fit.

use std::ops::Range;
use std::sync::Arc;

use super::Object;
use super::table::{Arg, Grammar, Key, Refuses, Setting, Wrong};
use crate::diagnostic::{Diagnostic, code};
use crate::lex::Word;
use crate::sentence::Sentence;
use crate::source::Source;
use crate::suggest;

type Done<T = ()> = Result<T, Diagnostic>;

/// A cursor over the words after a kind, and the settings read so far.
pub(super) struct Walk<'a> {
    pub(super) source: &'a Arc<Source>,
    /// The name of the object for messages: `htb`, `htb class`, `u32`, `action police`.
    pub(super) what: String,
    pub(super) words: &'a [Word],
    pub(super) at: usize,
    /// The span of the kind: errors about missing words point there.
    pub(super) origin: Range<usize>,
    pub(super) settings: Vec<Setting>,
    /// The actions of a list: the index of each kind, and the words after it.
    pub(super) actions: Vec<(usize, Range<usize>)>,
    /// The rates of the setting that is being read.
    rates: Vec<usize>,
    /// True inside of a key: the keys there are not noted.
    nested: bool,
    /// tc's way to refuse a value of the present key.
    wrong: Option<Wrong>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(source: &'a Arc<Source>, what: String, words: &'a [Word]) -> Self {
        // The kind is the word before the first; without any word, the end of the text.
        let end = source.text.trim_end().len();
        let start = words.first().map_or(end, |w| w.span.start);
        let origin = word_before(&source.text, start);
        Self {
            source,
            what,
            words,
            at: 0,
            origin,
            settings: Vec::new(),
            actions: Vec::new(),
            rates: Vec::new(),
            nested: false,
            wrong: None,
        }
    }

    /// Returns the next word without taking it.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).map(|w| w.text.as_str())
    }
    /// Takes the next word if it is one of these.
    pub(super) fn eat(&mut self, any: &[&str]) -> bool {
        let found = self.peek().is_some_and(|w| any.contains(&w));
        self.at += usize::from(found);
        found
    }
    /// Takes the next word if it begins one of these, as tc's own abbreviations do.
    pub(super) fn eat_cut(&mut self, any: &[&str]) -> bool {
        let found = self.peek().is_some_and(|w| !w.is_empty() && any.iter().any(|a| a.starts_with(w)));
        self.at += usize::from(found);
        found
    }

    /// Reads keys of `grammar` to the end, or to the first word that is none of its keys where
    /// others may follow.
    pub(super) fn keys(&mut self, grammar: &Grammar, others_follow: bool) -> Done {
        while let Some(word) = self.peek() {
            let Some(key) = grammar.find(word) else {
                if others_follow {
                    break;
                }
                return Err(self.unknown(grammar));
            };
            self.key(key, grammar)?;
        }
        Ok(())
    }

    /// Reads one key and its values, and notes it.
    fn key(&mut self, key: &'static Key, grammar: &Grammar) -> Done {
        let (start, outermost) = (self.at, !self.nested);
        self.nested = true;
        let around = self.wrong;
        self.wrong = grammar.wrong(key).or(around);
        self.at += 1;
        for arg in key.args {
            self.value(*arg, key.name(), Some(grammar))?;
        }
        for arg in key.may {
            if !self.peek().is_some_and(|w| arg.accepts(w) && grammar.find_whole(w).is_none()) {
                break;
            }
            self.value(*arg, key.name(), None)?;
        }
        if let Some(then) = key.then {
            then(self)?;
        }
        self.wrong = around;
        if outermost {
            self.nested = false;
            let rates = std::mem::take(&mut self.rates);
            self.settings.push(Setting { key: key.name(), words: start..self.at, rates });
        }
        Ok(())
    }

    /// Takes a value of a key.
    pub(super) fn value(&mut self, arg: Arg, key: &str, grammar: Option<&Grammar>) -> Done {
        let Some(word) = self.words.get(self.at) else { return Err(self.no_value(arg, key)) };
        if !arg.accepts(&word.text) {
            let is_key = grammar.is_some_and(|g| g.words().any(|k| k == word.text));
            return Err(match is_key {
                true => self.key_as_value(arg, key, &word.text),
                false => self.bad(arg, key),
            });
        }
        if matches!(arg, Arg::Rate) {
            self.rates.push(self.at);
        }
        self.at += 1;
        Ok(())
    }

    /// Forgets tc's way to refuse a value of the present key: the words that follow have their own.
    pub(super) const fn leave_key(&mut self) {
        self.wrong = None;
    }

    /// Takes a value that tc refuses in this way.
    pub(super) fn value_or(&mut self, arg: Arg, key: &str, wrong: Wrong) -> Done {
        let around = self.wrong.replace(wrong);
        self.value(arg, key, None)?;
        self.wrong = around;
        Ok(())
    }

    /// Reads the rest by a reader of a part, whose keys belong to the present key.
    pub(super) fn part(&mut self, grammar: &Grammar) -> Done {
        self.keys(grammar, true)
    }

    /// Reads one key of a part, if one stands here.
    pub(super) fn part_of_one(&mut self, grammar: &Grammar) -> Done {
        match self.peek().and_then(|w| grammar.find(w)) {
            Some(key) => self.key(key, grammar),
            None => Ok(()),
        }
    }

    /// Returns the error for a value of the present key, whose words begin at `at`.
    pub(super) fn wrong_value(&self, code: &'static str, at: usize, message: String) -> Diagnostic {
        let d = self.error(code, at, message);
        let word = self.words.get(at).map_or("", |w| w.text.as_str());
        match self.wrong {
            Some(wrong) => d.linux(wrong.of(word, code == code::OUT_OF_RANGE)),
            None => d,
        }
    }

    pub(super) fn error(&self, code: &'static str, at: usize, message: String) -> Diagnostic {
        let span = self.words.get(at).map_or_else(|| self.origin.clone(), |w| w.span.clone());
        Diagnostic::error(code, self.source, span, message)
    }

    /// Returns the error for a word that is no key of the grammar.
    pub(super) fn unknown(&self, grammar: &Grammar) -> Diagnostic {
        let given = self.peek().unwrap_or("");
        let linux = match (grammar.unknown, grammar.refuses) {
            (Some(wrong), _) => Some(wrong.of(given, false)),
            (None, Refuses::Usual) => Some(Sentence::WhatIs(given).into()),
            (None, Refuses::Action) => Some(format!("Bad action type {given}").into()),
            (None, Refuses::AsKey) => self.wrong.map(|wrong| wrong.of(given, false)),
        };
        if let Some(split) = self.split_value() {
            return Diagnostic { linux, ..split };
        }
        let message = match grammar.keys.is_empty() {
            true => format!("{} takes no parameters, given \"{given}\"", self.what),
            false => format!("{} has no parameter \"{given}\"", self.what),
        };
        let d = Diagnostic { linux, ..self.error(code::UNKNOWN_KEY, self.at, message) };
        if grammar.keys.is_empty() {
            return d;
        }
        if let Some(word) = ["dev", "root", "parent", "handle"].iter().find(|w| **w == given) {
            return d.hint(Some(format!("\"{word}\" goes before the kind")));
        }
        let names: Vec<_> = grammar.keys.iter().map(Key::name).collect();
        let d = d.expected(format!("one of {}", names.join(", ")));
        d.suggest(suggest::closest(given, grammar.words()).map(String::from))
    }

    /// Returns the error for `5 ms`, if that stands here.
    fn split_value(&self) -> Option<Diagnostic> {
        let unit = self.words.get(self.at)?;
        let number = self.words.get(self.at.checked_sub(1)?)?;
        if !suggest::is_number(&number.text) || !suggest::is_unit(&unit.text) {
            return None;
        }
        let given = format!("{} {}", number.text, unit.text);
        let message = format!("\"{given}\" is two words: a value and its unit are one");
        let span = number.span.start..unit.span.end.max(number.span.start);
        let mut d = Diagnostic::error(code::SPLIT_VALUE, self.source, span, message);
        d.given = given;
        Some(d.hint(Some("join them".into())).suggest(Some(format!("{}{}", number.text, unit.text))))
    }

    /// Returns the error for a word that is not a value of its key.
    pub(super) fn bad(&self, arg: Arg, key: &str) -> Diagnostic {
        let word = self.peek().unwrap_or("");
        let expected = arg.expected();
        let (code, said) = match arg.out_of_range(word) {
            true => (code::OUT_OF_RANGE, "out of range".to_string()),
            // "a rate (10mbit, ...)" is a rate.
            false => {
                (code::BAD_VALUE, format!("not {}", expected.split(['(', ',']).next().unwrap_or("").trim()))
            }
        };
        let message = match (arg, code) {
            (_, code::OUT_OF_RANGE) => format!("{} {key}: {word} is {said}", self.what),
            (Arg::Word(_), _) => format!("{} {key} cannot be \"{word}\"", self.what),
            _ => format!("{} {key}: \"{word}\" is {said}", self.what),
        };
        let near = match arg {
            Arg::Word(words) => suggest::closest(word, words.iter().copied()).map(String::from),
            _ => suggest::value(word, |w| arg.accepts(w)),
        };
        self.wrong_value(code, self.at, message).expected(expected).suggest(near)
    }

    /// Returns the error for a key without its value: the line ends here, or another key begins.
    fn no_value(&self, arg: Arg, key: &str) -> Diagnostic {
        let at = self.at.checked_sub(1).unwrap_or(self.at);
        let message = format!("{} {key} needs a value", self.what);
        let mut d = self.error(code::BAD_VALUE, at, message).expected(arg.expected());
        d.given.clear();
        d.linux(Sentence::Incomplete)
    }

    /// Returns the error for a key in the place of a value, which tc takes for the value.
    fn key_as_value(&self, arg: Arg, key: &str, word: &str) -> Diagnostic {
        let err = self.no_value(arg, key);
        match self.wrong {
            Some(wrong) => Diagnostic { given: word.into(), ..err }.linux(wrong.of(word, false)),
            None => err,
        }
    }
}

impl Grammar {
    fn find_whole(&self, word: &str) -> Option<&'static Key> {
        self.keys.iter().find(|k| k.words.contains(&word))
    }
}

/// Returns the word of a text that ends at or before `start`.
fn word_before(text: &str, start: usize) -> Range<usize> {
    let before = text.get(..start).unwrap_or(text).trim_end();
    let from = before
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    from..before.len()
}

/// Returns the name of a kind's line for messages.
pub(super) fn called(object: Object, kind: &str) -> String {
    match object {
        Object::Qdisc => kind.to_string(),
        Object::Class => format!("{kind} class"),
        Object::Filter => format!("{kind} filter"),
        Object::Action => format!("action {kind}"),
    }
}
