//! The words of a script: quotes, variables, and their values.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use txweir_tc::lex::Word;
use txweir_tc::source::Source;

use super::arithmetic;
use super::shell::LONGEST;

/// The text of a script with the place that has been read up to, and the variables that are known
/// there.
pub(super) struct Text<'a> {
    pub(super) source: &'a Arc<Source>,
    pub(super) at: usize,
    pub(super) end: usize,
    /// Values; an error has the reason why the value is not known.
    pub(super) variables: HashMap<String, Result<String, String>>,
}

/// A piece of a word.
pub(super) struct Piece {
    /// Its value, or the reason why the value is not known.
    text: Result<String, String>,
    pub(super) quoted: bool,
    expanded: bool,
}

/// A word as written.
pub(super) struct Raw {
    pub(super) pieces: Vec<Piece>,
    pub(super) span: Range<usize>,
}

/// Returns the name and value of an assignment.
pub(super) fn assigned(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    is_name(name).then_some((name, value))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl Raw {
    /// Returns the word if it stands in the script literally, without quotes.
    pub(super) fn literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece { text: Ok(text), quoted: false, expanded: false }] => Some(text),
            _ => None,
        }
    }

    /// Returns the name of an assignment, and its value from all pieces.
    pub(super) fn assignment(&self) -> Option<(String, Result<String, String>)> {
        let [first, rest @ ..] = self.pieces.as_slice() else { return None };
        let (false, false, Ok(text)) = (first.quoted, first.expanded, &first.text) else { return None };
        let (name, value) = assigned(text)?;
        let mut value = value.to_string();
        for piece in rest {
            match &piece.text {
                Ok(text) => value.push_str(text),
                Err(why) => return Some((name.to_string(), Err(why.clone()))),
            }
        }
        if value.len() > LONGEST {
            return Some((name.to_string(), Err("a value that grows too long".into())));
        }
        Some((name.to_string(), Ok(value)))
    }

    /// Returns the words that it expands to: blanks in a value expanded without quotes separate
    /// words.
    pub(super) fn words(&self) -> Result<Vec<Word>, String> {
        let mut words: Vec<String> = Vec::new();
        let mut open = false;
        for piece in &self.pieces {
            let text = piece.text.as_ref().map_err(Clone::clone)?;
            if piece.quoted || !piece.expanded {
                match words.last_mut().filter(|_| open) {
                    Some(last) => last.push_str(text),
                    None => words.push(text.clone()),
                }
                open = true;
                continue;
            }
            for (i, part) in text.split_whitespace().enumerate() {
                let joins = i == 0 && open && !text.starts_with(char::is_whitespace);
                match words.last_mut().filter(|_| joins) {
                    Some(last) => last.push_str(part),
                    None => words.push(part.to_string()),
                }
                open = true;
            }
            open &= !text.ends_with(char::is_whitespace);
        }
        Ok(words.into_iter().map(|text| Word { text, span: self.span.clone() }).collect())
    }
}

impl<'a> Text<'a> {
    /// Returns a part of a source with no variable.
    pub(super) fn new(source: &'a Arc<Source>, part: Range<usize>) -> Text<'a> {
        let end = part.end.min(source.text.len());
        Text { source, at: part.start, end, variables: HashMap::new() }
    }
    pub(super) fn rest(&self) -> &str {
        self.source.text.get(self.at..self.end).unwrap_or("")
    }
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }
    pub(super) fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Reads one word as written.
    pub(super) fn word(&mut self) -> Raw {
        let start = self.at;
        let mut pieces: Vec<Piece> = Vec::new();
        let mut bare = String::new();
        while let Some(c) = self.peek() {
            if c.is_whitespace() || ";|&()<>".contains(c) || self.rest().starts_with("\\\n") {
                break;
            }
            let quoted = matches!(c, '\'' | '"');
            if (quoted || c == '$' || c == '`') && !bare.is_empty() {
                let text = Ok(std::mem::take(&mut bare));
                pieces.push(Piece { text, quoted: false, expanded: false });
            }
            match c {
                '\'' => {
                    self.take();
                    let text = self.until('\'');
                    pieces.push(Piece { text: Ok(text), quoted: true, expanded: false });
                }
                '"' => self.double_quoted(&mut pieces),
                '$' | '`' => {
                    let text = self.expansion();
                    pieces.push(Piece { text, quoted: false, expanded: true });
                }
                '\\' => {
                    self.take();
                    bare.extend(self.take());
                }
                _ => bare.extend(self.take()),
            }
        }
        if !bare.is_empty() {
            pieces.push(Piece { text: Ok(bare), quoted: false, expanded: false });
        }
        Raw { pieces, span: start..self.at }
    }

    fn until(&mut self, end: char) -> String {
        let mut text = String::new();
        while let Some(c) = self.take() {
            if c == end {
                break;
            }
            text.push(c);
        }
        text
    }

    fn double_quoted(&mut self, pieces: &mut Vec<Piece>) {
        self.take();
        let mut text = String::new();
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.take();
                    break;
                }
                '$' | '`' => {
                    let whole = Ok(std::mem::take(&mut text));
                    pieces.push(Piece { text: whole, quoted: true, expanded: false });
                    let text = self.expansion();
                    pieces.push(Piece { text, quoted: true, expanded: true });
                }
                '\\' => {
                    self.take();
                    match self.take() {
                        Some(c @ ('"' | '\\' | '$' | '`')) => text.push(c),
                        Some('\n') | None => {}
                        Some(c) => text.extend(['\\', c]),
                    }
                }
                c => {
                    self.take();
                    text.push(c);
                }
            }
        }
        pieces.push(Piece { text: Ok(text), quoted: true, expanded: false });
    }

    /// Returns the value of `$...` or of a command in backquotes.
    fn expansion(&mut self) -> Result<String, String> {
        let start = self.at;
        if self.eat("`") {
            self.until('`');
            return Err("a command's output".into());
        }
        self.take();
        if self.eat("((") {
            let inner = self.balanced(2);
            let known = |name: &str| self.variables.get(name)?.as_ref().ok().cloned();
            let value = arithmetic::eval(&inner, &known).map(|n| n.to_string());
            return value.ok_or_else(|| self.written(start));
        }
        if self.eat("(") {
            self.balanced(1);
            return Err("a command's output".into());
        }
        if self.eat("{") {
            let inner = self.until('}');
            return self.parameter(&inner).ok_or_else(|| self.written(start));
        }
        let rest = self.rest();
        let name = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let name = if rest.starts_with(|c: char| c.is_ascii_digit()) { 1 } else { name };
        let Some(name) = rest.get(..name).filter(|n| !n.is_empty()).map(String::from) else {
            // `$?`, `$@`; a dollar before any other character is itself.
            if self.peek().is_some_and(|c| "?@*#$!-".contains(c)) {
                self.take();
                return Err(self.written(start));
            }
            return Ok("$".into());
        };
        self.at += name.len();
        self.value(&name).ok_or_else(|| self.written(start))
    }

    /// Returns the text from `start` up to here, as written.
    fn written(&self, start: usize) -> String {
        self.source.text.get(start..self.at).unwrap_or("").to_string()
    }

    /// Returns the text up to the parentheses that close `depth` of them, and passes those too.
    fn balanced(&mut self, mut depth: usize) -> String {
        let mut text = String::new();
        while let Some(c) = self.take() {
            depth = match c {
                '(' => depth + 1,
                ')' => depth - 1,
                _ => depth,
            };
            if depth == 0 {
                break;
            }
            text.push(c);
        }
        // `$((A))`: this is the first of the two closing parentheses.
        if text.ends_with(')') && text.matches(')').count() > text.matches('(').count() {
            text.pop();
        }
        text
    }

    fn value(&self, name: &str) -> Option<String> {
        match self.variables.get(name) {
            Some(Ok(value)) => Some(value.clone()),
            // A script that lets its caller name the program in `TC` means tc.
            None if name == "TC" => Some("tc".into()),
            _ => None,
        }
    }

    /// Returns the value of `NAME`, `NAME:-default`, `NAME-default`, `NAME:=default` or
    /// `NAME=default`.
    fn parameter(&mut self, inner: &str) -> Option<String> {
        let len = inner.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let (name, rest) = inner.split_at(len);
        if rest.is_empty() {
            return self.value(name);
        }
        let default = rest.strip_prefix(":-").or(rest.strip_prefix('-'));
        let default = default.or(rest.strip_prefix(":=")).or(rest.strip_prefix('='))?;
        if let Some(value) = self.variables.get(name) {
            return value.as_ref().ok().filter(|v| !v.is_empty()).cloned().or_else(|| Some(default.into()));
        }
        let default = default.trim_matches(['"', '\'']);
        match default.strip_prefix('$') {
            Some(other) if is_name(other) => self.value(other),
            Some(_) => None,
            None => Some(default.into()),
        }
    }
}
