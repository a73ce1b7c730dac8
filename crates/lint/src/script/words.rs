//! The words of a script: quotes, variables, and their values.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use txweir_tc::lex::Word;
use txweir_tc::source::Source;

use super::arithmetic;
use super::variables::{Assignment, Known, assigned, short, unknown};

/// Most bytes that the variables of a script expand to, all together: a short text may name a long
/// value very often.
const EXPANDED: usize = 16 << 20;
/// Deepest nesting of `${A:-${B}}`.
const DEPTH: usize = 16;

/// The text of a script with the place that has been read up to, and the variables that are known
/// there.
pub(super) struct Text<'a> {
    pub(super) source: &'a Arc<Source>,
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) variables: HashMap<String, Known>,
    /// Values that the expansions of the present command give to variables: `${A:=1}`, `$((A++))`.
    pub(super) assigned: Vec<(String, Known)>,
    /// Bytes that variables have expanded to so far.
    expanded: usize,
    /// Number of the `${...}` that the place is in.
    depth: usize,
}

/// A piece of a word.
pub(super) struct Piece {
    text: Known,
    pub(super) quoted: bool,
    expanded: bool,
}

/// A word as written.
pub(super) struct Raw {
    pub(super) pieces: Vec<Piece>,
    pub(super) span: Range<usize>,
}

impl Raw {
    /// Returns a word that stands for a part of the script.
    pub(super) fn bare(text: &str, span: Range<usize>) -> Self {
        Self { pieces: vec![Piece { text: Ok(text.into()), quoted: false, expanded: false }], span }
    }

    /// Returns the word if it stands in the script literally, without quotes.
    pub(super) fn literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece { text: Ok(text), quoted: false, expanded: false }] => Some(text),
            _ => None,
        }
    }

    /// Returns the assignment that the word is, with its value from all pieces.
    pub(super) fn assignment(&self) -> Option<Assignment> {
        let [first, rest @ ..] = self.pieces.as_slice() else { return None };
        let (false, false, Ok(text)) = (first.quoted, first.expanded, &first.text) else { return None };
        let (name, appends, value) = assigned(text)?;
        let (name, mut value) = (name.to_string(), value.to_string());
        for piece in rest {
            match &piece.text {
                Ok(text) => value.push_str(text),
                Err(why) => return Some(Assignment { name, appends, value: Err(why.clone()) }),
            }
        }
        Some(Assignment { name, appends, value: short(value) })
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
        let (variables, assigned) = (HashMap::new(), Vec::new());
        Text { source, at: part.start, end, variables, assigned, expanded: 0, depth: 0 }
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
            self.part(c, &mut pieces, &mut bare);
        }
        if !bare.is_empty() {
            pieces.push(Piece { text: Ok(bare), quoted: false, expanded: false });
        }
        Raw { pieces, span: start..self.at }
    }

    /// Reads the part of a word that begins with `c`: a quoted text, an expansion, or a character,
    /// which is added to `bare`.
    fn part(&mut self, c: char, pieces: &mut Vec<Piece>, bare: &mut String) {
        if matches!(c, '\'' | '"' | '$' | '`') && !bare.is_empty() {
            let text = Ok(std::mem::take(bare));
            pieces.push(Piece { text, quoted: false, expanded: false });
        }
        match c {
            '\'' => {
                self.take();
                let text = self.until('\'');
                pieces.push(Piece { text: Ok(text), quoted: true, expanded: false });
            }
            '"' => self.double_quoted(pieces),
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
    fn expansion(&mut self) -> Known {
        let value = self.expand()?;
        self.expanded = self.expanded.saturating_add(value.len());
        if self.expanded > EXPANDED { Err("values that grow too long".into()) } else { Ok(value) }
    }

    fn expand(&mut self) -> Known {
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
            self.assigned.extend(arithmetic::changed(&inner).map(|name| (name.into(), unknown(name))));
            return value.ok_or_else(|| self.written(start));
        }
        if self.eat("(") {
            self.balanced(1);
            return Err("a command's output".into());
        }
        if self.eat("{") {
            let inner = self.braces();
            let end = self.at;
            let value = self.parameter(inner);
            self.at = end;
            return value.ok_or_else(|| self.written(start));
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
    /// Those in quotes and in comments close none.
    fn balanced(&mut self, mut depth: usize) -> String {
        let (start, mut before) = (self.at, ' ');
        while let Some(c) = self.take() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                '\\' => {
                    self.take();
                }
                '\'' | '"' => self.pass_quoted(c),
                '#' if before.is_whitespace() => self.pass_line(),
                _ => {}
            }
            before = c;
            if depth == 0 {
                break;
            }
        }
        let mut text = self.written(start);
        if depth == 0 {
            text.pop();
        }
        // `$((A))`: this is the first of the two closing parentheses.
        if text.ends_with(')') && text.matches(')').count() > text.matches('(').count() {
            text.pop();
        }
        text
    }

    /// Passes the rest of a quoted text.
    fn pass_quoted(&mut self, quote: char) {
        while let Some(c) = self.take() {
            if c == '\\' && quote == '"' {
                self.take();
            } else if c == quote {
                break;
            }
        }
    }

    /// Passes the rest of the line, without its end.
    pub(super) fn pass_line(&mut self) {
        while self.peek().is_some_and(|c| c != '\n') {
            self.take();
        }
    }

    /// Passes the rest of `${...}`, and returns the place of the text in it.
    fn braces(&mut self) -> Range<usize> {
        let (start, mut depth) = (self.at, 1usize);
        loop {
            let at = self.at;
            if self.eat("${") {
                depth += 1;
                continue;
            }
            match self.take() {
                None => return start..at,
                Some('\\') => {
                    self.take();
                }
                Some('}') if depth == 1 => return start..at,
                Some('}') => depth -= 1,
                Some(_) => {}
            }
        }
    }

    fn value(&self, name: &str) -> Option<String> {
        match self.variables.get(name) {
            Some(Ok(value)) => Some(value.clone()),
            // A script that lets its caller name the program in `TC` means tc.
            None if name == "TC" => Some("tc".into()),
            _ => None,
        }
    }

    /// Returns the value of `NAME`, `NAME:-default`, `NAME-default`, `NAME:=default`,
    /// `NAME=default`, `NAME:?text` or `NAME?text`, which stands at this place. With `:` an empty
    /// value counts as none, and `=` gives the default to the variable.
    fn parameter(&mut self, inner: Range<usize>) -> Option<String> {
        let source = self.source;
        let text = source.text.get(inner.clone())?;
        let len = text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let (name, rest) = text.split_at(len);
        if rest.is_empty() || name.is_empty() {
            return self.value(name);
        }
        let (counts, rest) = rest.strip_prefix(':').map_or((true, rest), |rest| (false, rest));
        let known = self.variables.get(name).and_then(|value| value.as_ref().ok());
        let known = known.filter(|value| counts || !value.is_empty()).cloned();
        let default = rest.strip_prefix(['-', '=', '?'])?;
        if known.is_some() || rest.starts_with('?') {
            return known;
        }
        let value = self.filled(inner.end - default.len()..inner.end)?;
        if rest.starts_with('=') {
            self.assigned.push((name.into(), short(value.clone())));
        }
        Some(value)
    }

    /// Returns the value of a part of the text, without its quotes. The place moves.
    fn filled(&mut self, part: Range<usize>) -> Option<String> {
        if self.depth >= DEPTH {
            return None;
        }
        self.depth += 1;
        self.at = part.start;
        let end = std::mem::replace(&mut self.end, part.end);
        let (mut pieces, mut bare) = (Vec::new(), String::new());
        while let Some(c) = self.peek() {
            self.part(c, &mut pieces, &mut bare);
        }
        self.end = end;
        self.depth -= 1;
        let known: Option<Vec<String>> = pieces.into_iter().map(|piece| piece.text.ok()).collect();
        Some(known?.concat() + &bare)
    }
}
