//! Extended matches (tc-ematch(8)): words to a tree, and back.

use std::borrow::Cow;

use txweir_core::classify::filter::ematch::{
    Cmp, Condition, Expr, Join, Layer, Meta, MetaId, Nbyte, Op, Operand, Term, U32,
};

use crate::diagnostic::{Diagnostic, code};
use crate::failure::{Failure, REFUSED, UNPARSABLE};
use crate::kernel;
use crate::language::match_sentence::{self, SYNTAX, sentence};
use crate::language::{Token, int, match_tokens, uint};
use crate::out::Out;
use crate::said::Said;

/// Readable properties of a packet, by name; of two names, the first is printed.
const METAS: [(&str, MetaId); 9] = [
    ("random", MetaId::Random),
    ("priority", MetaId::Priority),
    ("protocol", MetaId::Protocol),
    ("pkt_len", MetaId::PktLen),
    ("data_len", MetaId::DataLen),
    ("mac_len", MetaId::MacLen),
    ("nf_mark", MetaId::NfMark),
    ("fwmark", MetaId::NfMark),
    ("vlan", MetaId::Vlan),
];

const OPS: [(&str, Op); 3] = [("eq", Op::Eq), ("gt", Op::Gt), ("lt", Op::Lt)];

fn op(word: &str) -> Option<Op> {
    OPS.iter().find(|(name, _)| *name == word).map(|(_, op)| *op)
}

fn op_word(op: Op) -> &'static str {
    OPS.iter().find(|(_, one)| *one == op).map_or("", |(name, _)| name)
}

fn layer(word: &str) -> Option<Layer> {
    match word {
        "link" | "0" => Some(Layer::Link),
        "network" | "1" => Some(Layer::Network),
        "transport" | "tcp" | "2" => Some(Layer::Transport),
        _ => None,
    }
}

/// A mistake in a match; true if its words are wrong, false if only this engine cannot do it.
struct Wrong {
    message: String,
    words: bool,
    at: usize,
    /// Linux's lines for it; `None` where Linux takes it.
    linux: Option<Cow<'static, str>>,
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
}

/// Reads the expression of `match`, if there is one.
pub(super) fn read(said: &Said<'_>) -> Result<Option<Expr>, Failure> {
    let Some(words) = said.settings.words("match") else { return Ok(None) };
    let tokens = match_tokens(words.get(1..).unwrap_or(&[]));
    let mut parser = Parser { tokens: &tokens, at: 0 };
    let done = parser.row().and_then(|expr| match parser.peek() {
        None => Ok(expr),
        Some(_) => Err(parser.wrong("this does not belong here")),
    });
    done.map(Some).map_err(|wrong| {
        let word = words.get(1 + wrong.at).or(words.first()).unwrap_or(said.kind);
        let message = format!("{} filter match: {}", said.kind.text, wrong.message);
        let (code, status) = match wrong.words {
            true => (code::BAD_VALUE, UNPARSABLE),
            false => (code::UNSUPPORTED, REFUSED),
        };
        let diagnostic = Diagnostic { linux: wrong.linux, ..said.error(code, word, message) };
        Failure { status, diagnostic }
    })
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(|t| t.text.as_str())
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|w| w.eq_ignore_ascii_case(word));
        self.at += usize::from(found);
        found
    }

    fn wrong(&self, message: impl Into<String>) -> Wrong {
        let at = self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |t| t.word);
        Wrong { message: message.into(), words: true, at, linux: Some(SYNTAX.into()) }
    }

    /// Reads `TERM [and|or TERM]...`
    fn row(&mut self) -> Result<Expr, Wrong> {
        let mut expr = Expr::default();
        // Each round takes a term.
        loop {
            let not = self.eat("not");
            let what = match self.eat("(") {
                true => {
                    let inner = self.row()?;
                    if !self.eat(")") {
                        return Err(self.wrong("a closing parenthesis is missing"));
                    }
                    Condition::Group(inner)
                }
                false => self.module()?,
            };
            let (or, and) = (self.eat("or"), self.eat("and"));
            expr.terms.push(Term { not, what, then: if or { Join::Or } else { Join::And } });
            if !or && !and {
                return Ok(expr);
            }
        }
    }

    /// Reads `NAME(ARGS)`
    fn module(&mut self) -> Result<Condition, Wrong> {
        let begin = self.at;
        let name = self.peek().unwrap_or("").to_string();
        self.at += 1;
        if !self.eat("(") {
            return Err(self.wrong("an opening parenthesis is missing"));
        }
        let rest = self.tokens.get(self.at..).unwrap_or(&[]);
        let Some(end) = rest.iter().position(|t| t.text == ")") else {
            return Err(self.wrong("a closing parenthesis is missing"));
        };
        let args: Vec<&str> = rest[..end].iter().map(|t| t.text.as_str()).collect();
        self.at += end + 1;
        let read = match name.as_str() {
            "cmp" => cmp(&args).map(Condition::Cmp),
            "u32" => u32_match(&args).map(Condition::U32),
            "nbyte" => nbyte(&args).map(Condition::Nbyte),
            "meta" => meta(&args).map(Condition::Meta),
            "canid" => Err(("there are no frames of CAN here".into(), args.is_empty())),
            other => Err((format!("there is no {other} match here"), true)),
        };
        let at = self.tokens.get(begin).map_or(0, |t| t.word);
        read.map_err(|(message, words)| {
            let kernel = match name.as_str() {
                "canid" => kernel::NO_ENTRY_TALKING,
                _ => kernel::INVALID_TALKING,
            };
            // A match that tc cannot read never comes to the kernel.
            let unread = sentence(&name, &args);
            let words = words || unread.is_some();
            let linux = unread.or_else(|| (!words).then(|| kernel.into()));
            Wrong { message, words, at, linux }
        })
    }
}

/// An error is a message, and true if the words are wrong.
type Read<T> = Result<T, (String, bool)>;

fn bad<T>(what: &str, args: &[&str]) -> Read<T> {
    Err((format!("{what}({}) cannot be read", args.join(" ")), true))
}

fn number(word: Option<&&str>) -> Option<u32> {
    uint(word?).and_then(|n| u32::try_from(n).ok())
}

fn cmp(args: &[&str]) -> Read<Cmp> {
    let bytes = match args.first() {
        Some(&"u8") => 1,
        Some(&"u16") => 2,
        Some(&"u32") => 4,
        _ => return bad("cmp", args),
    };
    let mut cmp =
        Cmp { bytes, layer: Layer::Network, offset: 0, mask: 0, trans: false, op: Op::Eq, value: 0 };
    let (mut offset, mut value) = (None, None);
    let mut words = args[1..].iter();
    while let Some(word) = words.next() {
        let good = match *word {
            "at" => {
                offset = number(words.next()).and_then(|n| u16::try_from(n).ok());
                offset.is_some()
            }
            "layer" => words.next().and_then(|w| layer(w)).map(|layer| cmp.layer = layer).is_some(),
            "mask" => number(words.next()).map(|mask| cmp.mask = mask).is_some(),
            "trans" => {
                cmp.trans = true;
                true
            }
            word => match op(word) {
                Some(op) => {
                    cmp.op = op;
                    value = number(words.next());
                    value.is_some()
                }
                None => false,
            },
        };
        if !good {
            return bad("cmp", args);
        }
    }
    match (offset, value) {
        (Some(offset), Some(value)) => Ok(Cmp { offset, value, ..cmp }),
        _ => bad("cmp", args),
    }
}

/// Reads a match of bytes, placed within the four that begin at a multiple of four.
fn u32_match(args: &[&str]) -> Read<U32> {
    let [width, value, mask, "at", offset] = args else { return bad("u32", args) };
    let (next_header, offset) = match offset.strip_prefix("nexthdr") {
        Some(rest) => (true, rest.strip_prefix('+').unwrap_or(rest)),
        None => (false, *offset),
    };
    let (Some(value), Some(mask), Some(offset)) =
        (number(Some(value)), number(Some(mask)), int(offset).and_then(|n| i32::try_from(n).ok()))
    else {
        return bad("u32", args);
    };
    let (most, shift) = match *width {
        "u8" => (0xff, 24 - 8 * (offset & 3)),
        // As in tc, the high half is only at a multiple of four.
        "u16" => (0xffff, if offset & 3 == 0 { 16 } else { 0 }),
        "u32" if offset & 3 == 0 => (u32::MAX, 0),
        _ => return bad("u32", args),
    };
    if value > most || mask > most {
        return bad("u32", args);
    }
    let (value, mask) = (value << shift, mask << shift);
    Ok(U32 { value: value & mask, mask, offset: offset & !3, next_header })
}

fn nbyte(args: &[&str]) -> Read<Nbyte> {
    let [needle, words @ ..] = args else { return bad("nbyte", args) };
    let needle = unescape(needle.trim_matches('"'));
    let (mut offset, mut found) = (None, Layer::Network);
    for pair in words.chunks(2) {
        match *pair {
            ["at", n] => offset = uint(n).and_then(|n| u16::try_from(n).ok()),
            ["layer", name] => match layer(name) {
                Some(layer) => found = layer,
                None => return bad("nbyte", args),
            },
            _ => return bad("nbyte", args),
        }
    }
    match (offset, needle.is_empty() || needle.len() > 0xfff) {
        (Some(offset), false) => Ok(Nbyte { needle: needle.into(), layer: found, offset }),
        _ => bad("nbyte", args),
    }
}

/// Returns the bytes of a text in which `\x41` stands for a byte, and a backslash before another
/// character for that character.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let digits =
            || std::str::from_utf8(after.get(1..3)?).ok().and_then(|d| u8::from_str_radix(d, 16).ok());
        match (*first, after.first()) {
            (b'\\', Some(b'x')) if digits().is_some() => {
                bytes.extend(digits());
                rest = &after[3..];
            }
            (b'\\', Some(next)) => {
                bytes.push(*next);
                rest = &after[1..];
            }
            (byte, _) => bytes.push(byte),
        }
    }
    bytes
}

fn meta(args: &[&str]) -> Read<Meta> {
    let Some(at) = args.iter().position(|word| op(word).is_some()) else { return bad("meta", args) };
    let (left, right) = (operand(&args[..at], args)?, operand(&args[at + 1..], args)?);
    Ok(Meta { left, op: op(args[at]).unwrap_or(Op::Eq), right })
}

fn operand(words: &[&str], all: &[&str]) -> Read<Operand> {
    let [first, rest @ ..] = words else { return bad("meta", all) };
    if let (Some(value), []) = (number(Some(first)), rest) {
        return Ok(Operand::Value(value));
    }
    let Some((_, id)) = METAS.iter().find(|(name, _)| name == first) else {
        if match_sentence::METAS.contains(first) {
            return Err((format!("{first} is not known of a packet here"), false));
        }
        return match first.starts_with('"') {
            true => Err(("the properties of a packet are numbers".into(), false)),
            false => bad("meta", all),
        };
    };
    let (mut shift, mut mask) = (0, 0);
    for pair in rest.chunks(2) {
        let value = number(pair.get(1));
        match (pair[0], value) {
            ("shift", Some(n)) if n < 64 => shift = n as u8, // below 64
            ("mask", Some(n)) => mask = n,
            _ => return bad("meta", all),
        }
    }
    Ok(Operand::Known { id: *id, shift, mask })
}

impl Printed {
    fn of(condition: &Condition) -> Self {
        let layer = |layer: Layer| layer as u8;
        Self(match condition {
            Condition::Cmp(c) => {
                let mask = if c.mask == 0 { String::new() } else { format!("mask {:#x} ", c.mask) };
                let trans = if c.trans { "trans " } else { "" };
                let (bits, op) = (8 * u32::from(c.bytes), op_word(c.op));
                let value = c.value.cast_signed();
                format!("cmp(u{bits} at {} layer {} {mask}{trans}{op} {value})", c.offset, layer(c.layer))
            }
            Condition::U32(u) => {
                let next = if u.next_header { "nexthdr+" } else { "" };
                format!("u32({:08x}/{:08x} at {next}{})", u.value, u.mask, u.offset)
            }
            Condition::Nbyte(n) => {
                let hex: String = n.needle.iter().map(|b| format!("{b:02x} ")).collect();
                let text: String = n
                    .needle
                    .iter()
                    .map(|b| if b.is_ascii_graphic() || *b == b' ' { char::from(*b) } else { '.' })
                    .collect();
                format!("nbyte({hex}\"{text}\" at {} layer {})", n.offset, layer(n.layer))
            }
            Condition::Meta(m) => {
                format!("meta({} {} {})", operand_text(m.left), op_word(m.op), operand_text(m.right))
            }
            Condition::Group(_) => String::new(),
        })
    }
}

/// A condition in its printed form.
struct Printed(String);

fn operand_text(operand: Operand) -> String {
    match operand {
        Operand::Value(value) => value.cast_signed().to_string(),
        Operand::Known { id, shift, mask } => {
            let name = METAS.iter().find(|(_, one)| *one == id).map_or("", |(name, _)| name);
            let shift = if shift == 0 { String::new() } else { format!(" shift {shift}") };
            let mask = if mask == 0 { String::new() } else { format!(" mask {mask:#010x}") };
            format!("{name}{shift}{mask}")
        }
    }
}

fn join(term: &Term) -> &'static str {
    if term.then == Join::Or { "OR " } else { "AND " }
}

fn text(expr: &Expr, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    out.push_str(&indent);
    for (at, term) in expr.terms.iter().enumerate() {
        let more = at + 1 < expr.terms.len();
        out.push_str(if term.not { "NOT " } else { "" });
        match &term.what {
            Condition::Group(inner) => {
                out.push_str("(\n");
                text(inner, depth + 1, out);
                out.push_str(&format!("{indent}) "));
            }
            plain => {
                out.push_str(&format!("{}\n", Printed::of(plain).0));
                out.push_str(if more { &indent } else { "" });
            }
        }
        out.push_str(if more { join(term) } else { "" });
    }
}

/// Prints it; the JSON has its words.
pub(super) fn show(expr: Option<&Expr>, out: &mut Out) {
    if let Some(expr) = expr {
        let mut shown = String::from("\n");
        text(expr, 1, &mut shown);
        out.word("match", &line(expr), &shown);
    }
}

/// Returns the words that make it again, on one line.
fn line(expr: &Expr) -> String {
    let mut words = String::new();
    for (at, term) in expr.terms.iter().enumerate() {
        words.push_str(if term.not { "not " } else { "" });
        words.push_str(&match &term.what {
            Condition::Group(inner) => format!("({})", line(inner)),
            Condition::U32(u) => {
                let next = if u.next_header { "nexthdr+" } else { "" };
                format!("u32(u32 {:#x} {:#x} at {next}{})", u.value, u.mask, u.offset)
            }
            Condition::Nbyte(n) => {
                let bytes: String = n.needle.iter().map(|b| format!("\\x{b:02x}")).collect();
                format!("nbyte(\"{bytes}\" at {} layer {})", n.offset, n.layer as u8)
            }
            Condition::Meta(m) => {
                let value = |operand| match operand {
                    Operand::Value(value) => value.to_string(),
                    known => operand_text(known),
                };
                format!("meta({} {} {})", value(m.left), op_word(m.op), value(m.right))
            }
            // The printed number is signed, the number in the input is not.
            plain @ Condition::Cmp(c) => {
                let shown = Printed::of(plain).0;
                let value = format!(" {})", c.value.cast_signed());
                shown.strip_suffix(&value).map_or(shown.clone(), |start| format!("{start} {})", c.value))
            }
        });
        if at + 1 < expr.terms.len() {
            words.push_str(&format!(" {}", join(term).to_lowercase()));
        }
    }
    words
}

pub(super) fn words(expr: Option<&Expr>) -> String {
    expr.map_or_else(String::new, |expr| format!(" match '{}'", line(expr)))
}
