//! The words after `match`, `sample`, `offset` and `hashkey` in a u32 filter (tc-u32(8)).

use super::table::{Arg, Grammar, U8, Wrong, key};
use super::value::{hex, int};
use super::walk::Walk;
use crate::diagnostic::{Diagnostic, code};
use crate::sentence::Sentence;
use crate::suggest;

type Done = Result<(), Diagnostic>;

/// A field of a header by its name: the type of its value, and the width of the value and its mask.
#[derive(Clone, Copy)]
enum Field {
    /// A value and a mask of this number of bits.
    Bits(&'static str, u32),
    /// An IPv4 prefix.
    V4(&'static str),
    /// An IPv6 prefix.
    V6(&'static str),
    /// An Ethernet address.
    Mac(&'static str),
    /// A flag, without a value.
    Flag(&'static str),
}

const IP: &[Field] = &[
    Field::V4("src"),
    Field::V4("dst"),
    Field::Bits("ihl", 8),
    Field::Bits("tos", 8),
    Field::Bits("dsfield", 8),
    Field::Bits("precedence", 8),
    Field::Bits("protocol", 8),
    Field::Flag("nofrag"),
    Field::Flag("firstfrag"),
    Field::Flag("df"),
    Field::Flag("mf"),
    Field::Bits("sport", 16),
    Field::Bits("dport", 16),
    Field::Bits("icmp_type", 8),
    Field::Bits("icmp_code", 8),
];
const IP6: &[Field] = &[
    Field::V6("src"),
    Field::V6("dst"),
    Field::Bits("priority", 8),
    Field::Bits("protocol", 8),
    Field::Bits("flowlabel", 32),
    Field::Bits("sport", 16),
    Field::Bits("dport", 16),
    Field::Bits("icmp_type", 8),
    Field::Bits("icmp_code", 8),
];
const PORTS: &[Field] = &[Field::Bits("src", 16), Field::Bits("dst", 16)];
const ICMP: &[Field] = &[Field::Bits("type", 8), Field::Bits("code", 8)];
const ETHER: &[Field] = &[Field::Mac("src"), Field::Mac("dst")];

const PROTOCOLS: Arg = Arg::Word(&["u32", "u16", "u8", "ip", "ip6", "udp", "tcp", "icmp", "mark", "ether"]);

impl Field {
    const fn name(self) -> &'static str {
        match self {
            Self::Bits(name, _) | Self::V4(name) | Self::V6(name) | Self::Mac(name) | Self::Flag(name) => {
                name
            }
        }
    }
}

/// Reads `match PROTOCOL FIELD VALUE MASK [at OFFSET]`.
pub(super) fn selector(walk: &mut Walk<'_>) -> Done {
    let protocol = walk.peek().unwrap_or("");
    walk.value(PROTOCOLS, "match", None)?;
    match protocol {
        "u32" => bits(walk, "match u32", 32)?,
        "u16" => bits(walk, "match u16", 16)?,
        "u8" => bits(walk, "match u8", 8)?,
        "mark" => bits(walk, "match mark", 32)?,
        "ip" => field(walk, "match ip", IP)?,
        "ip6" => field(walk, "match ip6", IP6)?,
        "icmp" => field(walk, "match icmp", ICMP)?,
        "ether" => field(walk, "match ether", ETHER)?,
        _ => field(walk, &format!("match {protocol}"), PORTS)?,
    }
    at(walk, protocol)
}

fn field(walk: &mut Walk<'_>, key: &str, fields: &[Field]) -> Done {
    let given = walk.peek();
    let Some(field) = fields.iter().find(|f| given == Some(f.name())) else {
        let names: Vec<_> = fields.iter().map(|f| f.name()).collect();
        let Some(given) = given else {
            let message = format!("{} {key} needs a field", walk.what);
            let mut d = walk.error(code::BAD_VALUE, walk.at.saturating_sub(1), message);
            d.given.clear();
            let d = d.linux(Sentence::Incomplete);
            return Err(d.expected(format!("one of {}", names.join(", "))));
        };
        let message = format!("{} {key} has no field \"{given}\"", walk.what);
        // The ports have other names below ip.
        let near = match given {
            "sport" if names.contains(&"src") => Some("src"),
            "dport" if names.contains(&"dst") => Some("dst"),
            _ => suggest::closest(given, names.iter().copied()),
        };
        let d = walk.wrong_value(code::UNKNOWN_KEY, walk.at, message);
        return Err(d.expected(format!("one of {}", names.join(", "))).suggest(near.map(String::from)));
    };
    walk.at += 1;
    let key = format!("{key} {}", field.name());
    match field {
        Field::Bits(_, width) => bits(walk, &key, *width),
        Field::V4(_) => walk.value(Arg::Ipv4, &key, None),
        Field::V6(_) => walk.value(Arg::Ipv6, &key, None),
        Field::Mac(_) => walk.value(Arg::Any, &key, None),
        Field::Flag(_) => Ok(()),
    }
}

const fn most(width: u32) -> i64 {
    (1i64 << width) - 1
}

/// Reads a value, decimal or `0x` hexadecimal, and a mask, which is hexadecimal with or without
/// `0x`.
fn bits(walk: &mut Walk<'_>, key: &str, width: u32) -> Done {
    let value = walk.peek().unwrap_or("");
    // A field of 32 bits may be hexadecimal without `0x`.
    let wide = width == 32 && hex(value).is_some_and(|n| n <= most(32) as u64);
    match wide {
        true => walk.at += 1,
        false => walk.value(Arg::Int(-most(width) - 1, most(width)), key, None)?,
    }
    if walk.peek().is_none_or(|w| w == "at") {
        let message = format!("{} {key} needs a mask after {value}", walk.what);
        let d = walk.wrong_value(code::MISSING, walk.at - 1, message);
        let mask = format!("{value} 0x{:x}", most(width));
        return Err(d.expected("a hexadecimal mask").suggest(Some(mask)));
    }
    walk.value(Arg::Hex(most(width) as u64), &format!("{key} mask"), None)
}

/// Reads `at OFFSET`, `at nexthdr+OFFSET`; the default is the field's own place.
fn at(walk: &mut Walk<'_>, protocol: &str) -> Done {
    if !walk.eat(&["at"]) {
        return Ok(());
    }
    let word = walk.peek().unwrap_or("");
    let number =
        int(word.strip_prefix("nexthdr").map_or(word, |rest| rest.strip_prefix('+').unwrap_or(rest)));
    let aligned = if protocol == "u32" { 4 } else { 1 };
    if number.is_some_and(|n| n % aligned == 0) {
        walk.at += 1;
        return Ok(());
    }
    if walk.peek().is_none() {
        return walk.value(Arg::Any, "match at", None);
    }
    let message = format!("{} match at: \"{word}\" is not an offset", walk.what);
    let expected = match aligned {
        4 => "a number of bytes that 4 divides, or nexthdr+number",
        _ => "a number of bytes, or nexthdr+number",
    };
    Err(walk.wrong_value(code::BAD_VALUE, walk.at, message).expected(expected))
}

/// Reads `sample PROTOCOL FIELD VALUE MASK [at OFFSET] [divisor N]`.
pub(super) fn sample(walk: &mut Walk<'_>) -> Done {
    selector(walk)?;
    walk.part(&SAMPLE)
}

static SAMPLE: Grammar = Grammar::of(
    &["sample"],
    &[key(&["divisor"], &[Arg::Uint(1, 256)]).wrong(Wrong::Line("Illegal sample \"divisor\""))],
);

/// Reads `offset [at N] [mask M] [shift N] [plus N] [eat]`.
pub(super) fn offset(walk: &mut Walk<'_>) -> Done {
    some(walk, &OFFSET, "offset")
}

static OFFSET: Grammar = Grammar::of(
    &["offset"],
    &[
        key(&["plus"], &[Arg::Int(0, 0xffff)]),
        key(&["at"], &[Arg::Any]),
        key(&["mask"], &[Arg::Hex(0xffff)]),
        key(&["shift"], &[U8]),
        key(&["eat"], &[]),
    ],
);

/// Reads `hashkey [mask M] [at N]`.
pub(super) fn hashkey(walk: &mut Walk<'_>) -> Done {
    some(walk, &HASHKEY, "hashkey")
}

static HASHKEY: Grammar = Grammar::of(
    &["hashkey"],
    &[
        key(&["mask"], &[Arg::Hex(u32::MAX as u64)]),
        key(&["at"], &[Arg::Int(i16::MIN as i64, i16::MAX as i64)]),
    ],
);

/// Reads at least one key of a part.
fn some(walk: &mut Walk<'_>, grammar: &Grammar, key: &str) -> Done {
    let from = walk.at;
    walk.part(grammar)?;
    match walk.at == from {
        false => Ok(()),
        true if walk.peek().is_some() => {
            let word = walk.peek().unwrap_or("");
            Err(walk.unknown(grammar).linux(Sentence::WhatIs(word)))
        }
        true => walk.value(Arg::Any, key, None),
    }
}
