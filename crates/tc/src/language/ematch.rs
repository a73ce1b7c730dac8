//! Expressions of extended matches: `match 'cmp(u8 at 9 layer network eq 6) and not meta(priority
//! gt 3)'` (tc-ematch(8)). Blanks may stand anywhere between words and parentheses.

use std::ops::Range;

use super::match_sentence::{SYNTAX, sentence};
use super::value::{hex, int, uint};
use super::walk::Walk;
use crate::diagnostic::{Diagnostic, code};
use crate::lex::Word;
use crate::sentence::Sentence;
use crate::suggest;

type Done = Result<(), Diagnostic>;

const MODULES: &[&str] = &["cmp", "nbyte", "u32", "meta", "text", "ipset", "ipt", "canid", "container"];

/// A piece of an expression, and the index of the word that it stands in.
pub(crate) struct Token {
    pub(crate) text: String,
    /// The index of its word.
    pub(crate) word: usize,
}

/// Returns the tokens of an expression that consists of `words`.
pub(crate) fn match_tokens(words: &[Word]) -> Vec<Token> {
    tokens(words, 0).0
}

impl Token {
    /// True if it is one of these, in upper or lower case.
    fn is(&self, any: &[&str]) -> bool {
        any.iter().any(|word| word.eq_ignore_ascii_case(&self.text))
    }
}

/// Splits words, as long as they can belong to the expression, at blanks and parentheses. Returns
/// also the index of the first word that does not belong.
fn tokens(words: &[Word], from: usize) -> (Vec<Token>, usize) {
    let (mut tokens, mut depth, mut at) = (Vec::<Token>::new(), 0usize, from);
    // A term stands after `match`, `and`, `or`, `not` and `(`.
    let mut wants_term = true;
    while let Some(word) = words.get(at) {
        if depth == 0 && !wants_term && !matches!(word.text.trim_start(), t if begins_with_operator(t)) {
            break;
        }
        let mut text = String::new();
        let end = |text: &mut String, tokens: &mut Vec<Token>| {
            if !text.is_empty() {
                tokens.push(Token { text: std::mem::take(text), word: at });
            }
        };
        let mut quoted = false;
        for c in word.text.chars() {
            match c {
                '"' => {
                    quoted = !quoted;
                    text.push(c);
                }
                '(' | ')' if !quoted => {
                    end(&mut text, &mut tokens);
                    tokens.push(Token { text: c.to_string(), word: at });
                    depth = if c == '(' { depth + 1 } else { depth.saturating_sub(1) };
                }
                c if c.is_whitespace() && !quoted => end(&mut text, &mut tokens),
                c => text.push(c),
            }
        }
        end(&mut text, &mut tokens);
        // A module's name and its parenthesis may stand in two words.
        let next_opens = words.get(at + 1).is_some_and(|w| w.text.starts_with('('));
        wants_term = next_opens || tokens.last().is_none_or(|t| t.is(&["and", "or", "not", "("]));
        at += 1;
    }
    (tokens, at)
}

fn begins_with_operator(text: &str) -> bool {
    let first = text.split_whitespace().next();
    first.is_some_and(|w| w.eq_ignore_ascii_case("and") || w.eq_ignore_ascii_case("or"))
}

/// Reads an expression.
pub(super) fn expression(walk: &mut Walk<'_>) -> Done {
    if walk.peek().is_none() {
        return walk.value(super::table::Arg::Any, "match", None);
    }
    let (tokens, end) = tokens(walk.words, walk.at);
    let mut at = 0;
    let mut depth = 0usize;
    loop {
        // A term is `not`, parentheses, or module(args).
        match tokens.get(at) {
            Some(not) if not.is(&["not"]) => {
                at += 1;
                continue;
            }
            Some(open) if open.is(&["("]) => {
                depth += 1;
                at += 1;
                continue;
            }
            _ => at = module(walk, &tokens, at)?,
        }
        while depth > 0 && tokens.get(at).is_some_and(|t| t.text == ")") {
            depth -= 1;
            at += 1;
        }
        match tokens.get(at) {
            Some(join) if join.is(&["and", "or"]) => at += 1,
            None if depth == 0 => break,
            found => {
                let err = wrong(walk, &tokens, at, "and, or, or the end", &[]);
                // tc's expression ends in this word, which is then none of the filter.
                let word = found.filter(|_| depth == 0).and_then(|token| walk.words.get(token.word));
                return Err(match word {
                    Some(word) => err.linux(Sentence::WhatIs(&word.text)),
                    None => err,
                });
            }
        }
    }
    walk.at = end;
    Ok(())
}

fn wrong(walk: &Walk<'_>, tokens: &[Token], at: usize, expected: &str, near: &[&'static str]) -> Diagnostic {
    let token = tokens.get(at);
    let place = token.or(tokens.last()).map_or(walk.at, |t| t.word);
    let message = match token {
        Some(t) => format!("{} match: \"{}\" does not belong here", walk.what, t.text),
        None => format!("{} match: the expression is not finished", walk.what),
    };
    let near = token.and_then(|t| suggest::closest(&t.text, near.iter().copied()));
    let d = walk.error(code::BAD_VALUE, place, message).expected(expected.to_string()).linux(SYNTAX);
    match near {
        // The word may hold more than the mistake: the replacement is for all of it.
        Some(near) => {
            let wrong = token.map_or("", |t| t.text.as_str());
            let whole = walk.words.get(place).map_or("", |w| w.text.as_str());
            let fixed = whole.replacen(wrong, near, 1);
            d.suggest(Some(if whole.contains(' ') { format!("'{fixed}'") } else { fixed }))
        }
        None => d,
    }
}

/// Reads `NAME(ARGS)`; returns the index after it.
fn module(walk: &Walk<'_>, tokens: &[Token], at: usize) -> Result<usize, Diagnostic> {
    let name = tokens.get(at).map_or("", |t| t.text.as_str());
    let opened = tokens.get(at + 1).is_some_and(|t| t.text == "(");
    let close = (at + 2..tokens.len()).find(|i| tokens[*i].text == ")").filter(|_| opened);
    let said: Vec<_> =
        tokens.get(at + 2..close.unwrap_or(0)).unwrap_or(&[]).iter().map(|t| t.text.as_str()).collect();
    if !MODULES.contains(&name) {
        let err = wrong(walk, tokens, at, &format!("one of {}", MODULES.join(", ")), MODULES);
        return Err(match sentence(name, &said) {
            Some(sentence) => err.linux(sentence),
            None => err,
        });
    }
    if !opened {
        return Err(wrong(walk, tokens, at + 1, "an opening parenthesis", &[]));
    }
    let Some(close) = close else {
        return Err(wrong(walk, tokens, tokens.len(), "a closing parenthesis", &[]));
    };
    let args = at + 2..close;
    let good = match name {
        "cmp" => cmp(tokens, args.clone()),
        "u32" => u32_match(tokens, args.clone()),
        "nbyte" => tokens[args.clone()].iter().any(|t| t.text == "at"),
        "meta" => meta(tokens, args.clone()),
        _ => true,
    };
    match good {
        true => Ok(close + 1),
        false => {
            let place = tokens[at].word;
            let message = format!("{} match: {name}({}) cannot be read", walk.what, said.join(" "));
            let mut err = walk.error(code::BAD_VALUE, place, message).expected(shape(name));
            err.linux = sentence(name, &said);
            Err(err)
        }
    }
}

fn shape(name: &str) -> &'static str {
    match name {
        "cmp" => "cmp(u8|u16|u32 at OFFSET layer link|network|transport [mask MASK] eq|gt|lt VALUE)",
        "u32" => "u32(u8|u16|u32 VALUE MASK at [nexthdr+]OFFSET)",
        "nbyte" => "nbyte(\"TEXT\" at OFFSET layer link|network|transport)",
        _ => "meta(OBJECT [shift N] [mask MASK] eq|gt|lt VALUE)",
    }
}

fn cmp(tokens: &[Token], args: Range<usize>) -> bool {
    let words: Vec<_> = tokens[args].iter().map(|t| t.text.as_str()).collect();
    let [align, rest @ ..] = words.as_slice() else { return false };
    let (mut offset, mut value, mut rest) = (false, false, rest.iter());
    while let Some(word) = rest.next() {
        let argument = |next: Option<&&str>, good: fn(&str) -> bool| next.is_some_and(|w| good(w));
        let good = match *word {
            "at" => {
                offset = true;
                argument(rest.next(), |w| int(w).is_some())
            }
            "layer" => argument(rest.next(), layer),
            "mask" => argument(rest.next(), |w| uint(w).is_some()),
            "trans" => true,
            "eq" | "gt" | "lt" => {
                value = true;
                argument(rest.next(), |w| uint(w).is_some())
            }
            _ => false,
        };
        if !good {
            return false;
        }
    }
    matches!(*align, "u8" | "u16" | "u32") && offset && value
}

fn layer(word: &str) -> bool {
    matches!(word, "link" | "eth" | "network" | "ip" | "transport" | "tcp" | "0" | "1" | "2")
}

fn u32_match(tokens: &[Token], args: Range<usize>) -> bool {
    let words: Vec<_> = tokens[args].iter().map(|t| t.text.as_str()).collect();
    let [width, value, mask, "at", offset] = words.as_slice() else { return false };
    let most = match *width {
        "u8" => 0xff,
        "u16" => 0xffff,
        "u32" => 0xffff_ffff,
        _ => return false,
    };
    let offset = offset.strip_prefix("nexthdr").unwrap_or(offset);
    hex(value).is_some_and(|n| n <= most)
        && hex(mask).is_some_and(|n| n <= most)
        && int(offset.strip_prefix('+').unwrap_or(offset)).is_some()
}

/// True for an object, a comparison and a value.
fn meta(tokens: &[Token], args: Range<usize>) -> bool {
    let words: Vec<_> = tokens[args].iter().map(|t| t.text.as_str()).collect();
    let Some(op) = words.iter().position(|w| matches!(*w, "eq" | "gt" | "lt")) else { return false };
    op > 0 && words.len() > op + 1
}
