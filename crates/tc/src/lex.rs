//! A text to lines of words with their places: blanks separate, `#` at the start of a word begins a
//! comment, a backslash at the end of a line continues it, quotes and backslashes protect as in a
//! shell.

use std::ops::Range;
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, code};
use crate::source::Source;

/// A word and its place, quotes included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word without quotes and protecting backslashes.
    pub text: String,
    /// Its bytes in the source.
    pub span: Range<usize>,
}

/// The words of one command, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The words in order.
    pub words: Vec<Word>,
}

impl Line {
    /// Returns the span from the first word to the last.
    pub fn span(&self) -> Range<usize> {
        let start = self.words.first().map_or(0, |w| w.span.start);
        start..self.words.last().map_or(start, |w| w.span.end)
    }
}

/// The result of reading a line.
type LineResult = Result<Line, Diagnostic>;

/// Splits a part of a source into lines of words. Lines without words are left out; a line that
/// cannot be split is returned as its error.
pub fn lines(source: &Arc<Source>, part: Range<usize>) -> Vec<LineResult> {
    each(source, part).collect()
}

/// Does the same line by line, as they are asked for.
pub fn each(source: &Arc<Source>, part: Range<usize>) -> impl Iterator<Item = LineResult> + '_ {
    let text = source.text.get(part.clone()).unwrap_or("");
    let mut lexer = Lexer { source, text, base: part.start, at: 0 };
    std::iter::from_fn(move || {
        while lexer.at < lexer.text.len() {
            match lexer.line() {
                Ok(line) if line.words.is_empty() => {}
                done => return Some(done),
            }
        }
        None
    })
}

struct Lexer<'a> {
    source: &'a Arc<Source>,
    text: &'a str,
    base: usize,
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }
    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Reads one line, to its end or the end of the text. The end is passed also on an error.
    fn line(&mut self) -> LineResult {
        let mut words = Vec::new();
        loop {
            self.blanks();
            match self.peek() {
                None => return Ok(Line { words }),
                Some('\n') => {
                    self.take();
                    return Ok(Line { words });
                }
                Some('#') => self.pass_line(),
                Some(_) => match self.word() {
                    Ok(word) => words.push(word),
                    Err(e) => {
                        self.pass_line();
                        return Err(e);
                    }
                },
            }
        }
    }

    fn pass_line(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.take();
        }
    }

    /// Passes blanks and continued line ends.
    fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some('\n') | None => return,
                Some(c) if c.is_whitespace() => {
                    self.take();
                }
                Some(_) => match self.continuation() {
                    Some(len) => self.at += len,
                    None => return,
                },
            }
        }
    }

    /// Returns the length of a backslash and line end at this place.
    fn continuation(&self) -> Option<usize> {
        ["\\\n", "\\\r\n"].iter().find(|end| self.text[self.at..].starts_with(**end)).map(|end| end.len())
    }

    fn word(&mut self) -> Result<Word, Diagnostic> {
        let start = self.at;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            if c.is_whitespace() || self.continuation().is_some() {
                break;
            }
            let at = self.at;
            self.take();
            match c {
                '\'' | '"' => self.quoted(c, at, &mut text)?,
                // A backslash at the very end of the text protects no character.
                '\\' => text.extend(self.take()),
                c => text.push(c),
            }
        }
        Ok(Word { text, span: self.base + start..self.base + self.at })
    }

    /// Reads the rest of a quoted part that began at `from`; it must end on its line.
    fn quoted(&mut self, quote: char, from: usize, text: &mut String) -> Result<(), Diagnostic> {
        loop {
            match self.peek() {
                None | Some('\n') => {
                    let span = self.base + from..self.base + from + 1;
                    let message = format!("this {quote} is not closed on its line");
                    let err = Diagnostic::error(code::UNCLOSED_QUOTE, self.source, span, message);
                    return Err(err.expected(format!("a closing {quote}")));
                }
                Some(c) => {
                    self.take();
                    let protects = c == '\\' && quote == '"' && matches!(self.peek(), Some('"' | '\\'));
                    match c {
                        c if c == quote => return Ok(()),
                        _ if protects => text.extend(self.take()),
                        c => text.push(c),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(text: &str) -> Vec<Result<Vec<String>, String>> {
        let source = Arc::new(Source::new("s", text));
        lines(&source, 0..text.len())
            .into_iter()
            .map(|l| match l {
                Ok(l) => Ok(l.words.into_iter().map(|w| w.text).collect()),
                Err(e) => Err(e.brief()),
            })
            .collect()
    }

    fn words(words: &[&str]) -> Result<Vec<String>, String> {
        Ok(words.iter().map(|w| (*w).to_string()).collect())
    }

    #[test]
    fn blanks_comments_continuations_and_quotes() {
        let text = "# all comment\n\n  a\tb # tail\nc \\\n  d\r\ne\\\r\nf 'g h'\"i\\\"j\"k l\\ m n#o\\";
        assert_eq!(
            split(text),
            [words(&["a", "b"]), words(&["c", "d"]), words(&["e", "f", "g hi\"jk", "l m", "n#o"])]
        );
        assert_eq!(split("a '' b"), [words(&["a", "", "b"])]);
    }

    #[test]
    fn an_open_quote_is_one_error_and_the_next_line_is_read() {
        assert_eq!(
            split("a b 'c d\ne"),
            [Err("s:1:5: this ' is not closed on its line (expected a closing ')".into()), words(&["e"])]
        );
    }

    #[test]
    fn spans_are_those_of_the_whole_source() {
        let text = "policy = '''\nqdisc 'a b'\n'''";
        let source = Arc::new(Source::new("s", text));
        let part = 13..25;
        let read = lines(&source, part);
        let line = read[0].as_ref().expect("a line");
        let spans: Vec<_> = line.words.iter().map(|w| &text[w.span.clone()]).collect();
        assert_eq!((read.len(), spans), (1, vec!["qdisc", "'a b'"]));
        assert_eq!(&text[line.span()], "qdisc 'a b'");
    }

    proptest! {
        // Every word's span lies within the text, on character boundaries, in order.
        #[test]
        fn any_text_is_split(text in "[ab'\"\\\\# \t\r\nç]{0,40}") {
            let source = Arc::new(Source::new("s", text.clone()));
            let mut end = 0;
            for line in lines(&source, 0..text.len()).into_iter().flatten() {
                prop_assert!(!line.words.is_empty());
                for word in line.words {
                    prop_assert!(word.span.start >= end && text.get(word.span.clone()).is_some());
                    end = word.span.end;
                }
            }
        }

        #[test]
        fn plain_words_survive(given in prop::collection::vec("[a-z0-9:_.%/-]{1,8}", 1..8)) {
            prop_assert_eq!(split(&given.join("  ")), [Ok(given)]);
        }
    }
}
