//! u32 (tc-u32(8)): its words become keys of 32 bits here, as in tc, and the output has the keys.

use std::net::Ipv6Addr;

use txweir_core::classify::filter::u32::{Device, HashKey, Key, Match, Offset, Read, Selector, U32};
use txweir_core::classify::packet::PortId;

use super::Shown;
use crate::action::Ways;
use crate::diagnostic::{Diagnostic, code};
use crate::language::{hex, int, ipv4_masked, uint};
use crate::lex::Word;
use crate::out::Out;
use crate::said::Said;
use crate::sentence::Sentence;

type Done<T = ()> = Result<T, Diagnostic>;

/// Reads a handle: `800::800`, `5:3:`, `5:`, `0x80000800`.
pub(super) fn handle(word: &str) -> Option<u32> {
    if let Some(digits) = word.strip_prefix("0x") {
        return u32::from_str_radix(digits, 16).ok();
    }
    let mut parts = word.split(':');
    let mut part = |bits: u32| match parts.next() {
        None | Some("") => Some(0),
        Some(digits) => hex(digits).and_then(|n| u32::try_from(n).ok()).filter(|n| n >> bits == 0),
    };
    let (table, bucket, node) = (part(12)?, part(8)?, part(12)?);
    (word.contains(':') && parts.next().is_none()).then_some(table << 20 | bucket << 12 | node)
}

/// Returns a handle as it is printed.
fn text(handle: u32) -> String {
    let (table, bucket, node) = (handle >> 20, handle >> 12 & 0xff, handle & 0xfff);
    match (bucket, node) {
        (0, 0) => format!("{table:x}:"),
        (0, node) => format!("{table:x}::{node:x}"),
        (bucket, 0) => format!("{table:x}:{bucket:x}:"),
        (bucket, node) => format!("{table:x}:{bucket:x}:{node:x}"),
    }
}

/// Returns the handle that makes it again: a filter in the root of its priority leaves out the
/// root's number.
pub(super) fn handle_text(rule: &U32, handle: u32) -> String {
    match rule {
        U32::Filter(rule) if rule.table.is_none() => format!("::{:x}", handle & 0xfff),
        _ => text(handle),
    }
}

/// Returns the handle that `order` stands for.
pub(super) fn order(said: &Said<'_>) -> Done<Option<u32>> {
    match (said.u32("order"), said.handle) {
        (Some(_), Some(_)) => {
            let message = "a filter has a handle or an order: they are one";
            let err = said.error(code::BAD_VALUE, said.at("order"), message);
            Err(err.linux("\"order\" contradicts \"handle\""))
        }
        (order, _) => Ok(order.map(|order| order & 0xfff).filter(|order| *order != 0)),
    }
}

/// Keys under construction: those of one word are combined.
#[derive(Default)]
struct Keys {
    keys: Vec<Key>,
    mark: Option<(u32, u32)>,
}

impl Keys {
    /// Adds a whole word; returns false if another key of it contradicts.
    fn word(&mut self, value: u32, mask: u32, at: i32, next: bool) -> bool {
        let value = value & mask;
        match self.keys.iter_mut().find(|k| (k.at, k.next) == (at, next)) {
            Some(key) if (key.value ^ value) & key.mask & mask != 0 => return false,
            Some(key) => (key.value, key.mask) = (key.value | value, key.mask | mask),
            None => self.keys.push(Key { value, mask, at, next }),
        }
        true
    }
    /// Adds two bytes of a word.
    fn half(&mut self, value: u32, mask: u32, at: i32, next: bool) -> bool {
        let shift = if at & 3 == 0 { 16 } else { 0 };
        self.word((value & 0xffff) << shift, (mask & 0xffff) << shift, at & !3, next)
    }
    /// Adds one byte of a word.
    fn byte(&mut self, value: u32, mask: u32, at: i32, next: bool) -> bool {
        let shift = 24 - 8 * (at & 3);
        self.word((value & 0xff) << shift, (mask & 0xff) << shift, at & !3, next)
    }
}

/// Width of a field.
#[derive(Clone, Copy)]
enum Width {
    Word,
    Half,
    Byte,
}

/// Returns the width and the offset of a header's field, and true if the offset is from the next
/// header.
fn field(protocol: &str, name: &str) -> Option<(Width, i32, bool)> {
    use Width::{Byte, Half, Word};
    Some(match (protocol, name) {
        ("u32", _) | ("ip6", "flowlabel") => (Word, 0, false),
        ("u16", _) => (Half, 0, false),
        ("u8", _) | ("ip", "ihl") => (Byte, 0, false),
        ("ip", "tos" | "dsfield" | "precedence") => (Byte, 1, false),
        ("ip", "protocol") => (Byte, 9, false),
        ("ip", "sport") => (Half, 20, false),
        ("ip", "dport") => (Half, 22, false),
        ("ip", "icmp_type") => (Byte, 20, false),
        ("ip", "icmp_code") => (Byte, 21, false),
        ("ip6", "protocol") => (Byte, 6, false),
        ("ip6", "sport") => (Half, 40, false),
        ("ip6", "dport") => (Half, 42, false),
        ("ip6", "icmp_type") => (Byte, 40, false),
        // In tc, too, these are from the next header, which is the same while no offset has moved
        // it.
        ("ip6", "icmp_code") => (Byte, 41, true),
        ("tcp" | "udp", "src") => (Half, 0, true),
        ("tcp" | "udp", "dst") => (Half, 2, true),
        ("icmp", "type") => (Byte, 0, true),
        ("icmp", "code") => (Byte, 1, true),
        _ => return None,
    })
}

/// Returns value and mask of the two bytes at 6 of IPv4 for a flag of fragments.
fn fragment(name: &str) -> Option<(u32, u32)> {
    match name {
        "nofrag" => Some((0, 0x3fff)),
        "firstfrag" => Some((0x2000, 0x3fff)),
        "df" => Some((0x4000, 0x4000)),
        "mf" => Some((0x2000, 0x2000)),
        _ => None,
    }
}

/// Reads a number as C does, or a hexadecimal one without `0x`.
fn number(word: &str) -> u32 {
    // Of a negative number the low bits are compared.
    int(word).map(|n| n as u32).or_else(|| hex(word).map(|n| n as u32)).unwrap_or(0)
}

fn v6(word: &str) -> (u128, u128) {
    let (address, mask) = word.split_once('/').map_or((word, None), |(a, m)| (a, Some(m)));
    let Ok(address) = address.parse::<Ipv6Addr>() else { return (0, 0) };
    let mask = match mask {
        None => u128::MAX,
        Some(m) => m.parse::<u32>().map_or_else(
            |_| m.parse().map_or(0, Ipv6Addr::to_bits),
            |bits| u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0),
        ),
    };
    (address.to_bits(), mask)
}

fn mac(word: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let parts: Vec<&str> = word.split(':').collect();
    for (byte, part) in bytes.iter_mut().zip(&parts) {
        *byte = u8::try_from(hex(part).filter(|_| !part.is_empty())?).ok()?;
    }
    (parts.len() == 6).then_some(bytes)
}

/// Adds `PROTOCOL FIELD VALUE MASK [at OFFSET]`, which the walker has checked, as keys. `first` is
/// the word for which it stands.
fn select(said: &Said<'_>, first: &Word, words: &[Word], keys: &mut Keys) -> Done {
    let text = |at: usize| words.get(at).map_or("", |w| w.text.as_str());
    let place = words.iter().position(|w| w.text == "at").and_then(|at| words.get(at + 1));
    let (at, from_next) = match place {
        None => (None, false),
        Some(word) => (Some(offset_of(said, word)?), word.text.starts_with("nexthdr")),
    };
    let (protocol, name) = (text(0), text(1));
    let illegal = Sentence::Illegal(if first.text == "sample" { "sample" } else { "match" });
    let bad = |at: &Word, message: &str| Err(said.error(code::BAD_VALUE, at, message).linux(illegal));
    let aligned = at.is_none_or(|at| at % 4 == 0);
    let fits = match (protocol, name) {
        ("mark", _) => {
            let mask = uint(text(2)).and_then(|n| u32::try_from(n).ok()).unwrap_or_else(|| number(text(2)));
            if number(text(1)) & !mask != 0 {
                return bad(first, "match mark: the value has bits that the mask has not");
            }
            keys.mark = Some((number(text(1)), mask)).filter(|(_, mask)| *mask != 0);
            true
        }
        ("ip" | "ip6", "src" | "dst") if !aligned => {
            return bad(place.unwrap_or(first), "an address is at a number of bytes that 4 divides");
        }
        ("ip", "src" | "dst") => {
            let (value, mask) = ipv4_masked(text(2));
            keys.word(value, mask, at.unwrap_or(if name == "src" { 12 } else { 16 }), from_next)
        }
        ("ip6", "src" | "dst") => {
            let (value, mask) = v6(text(2));
            let at = at.unwrap_or(if name == "src" { 8 } else { 24 });
            (0..4).all(|part| {
                let shift = 96 - 32 * part;
                // These are the low 32 bits of each.
                let (value, mask) = ((value >> shift) as u32, (mask >> shift) as u32);
                mask == 0 || keys.word(value, mask, at.saturating_add(4 * part), from_next)
            })
        }
        ("ip6", "priority") => {
            let (value, mask) = (number(text(2)) & 0xff, number_of_mask(text(3)) & 0xff);
            keys.word(value << 20, mask << 20, at.unwrap_or(0) & !3, from_next)
        }
        ("ether", _) => {
            let Some([a, b, c, d, e, f]) = mac(text(2)) else {
                let message = "an address of six bytes is expected: 02:00:00:00:00:01";
                let line = format!("parse_ether_addr: improperly formed address '{}'\n{illegal}", text(2));
                return bad(words.get(2).unwrap_or(first), message).map_err(|err| err.linux(line));
            };
            let at = at.unwrap_or(if name == "src" { -8 } else { -14 });
            let (two, four) = (|x, y| u32::from(u16::from_be_bytes([x, y])), u32::from_be_bytes);
            let mask = u32::MAX;
            match at & 3 {
                0 => {
                    keys.word(four([a, b, c, d]), mask, at, from_next)
                        && keys.half(two(e, f), mask, at + 4, from_next)
                }
                2 => {
                    keys.half(two(a, b), mask, at, from_next)
                        && keys.word(four([c, d, e, f]), mask, at + 2, from_next)
                }
                _ => {
                    return bad(place.unwrap_or(first), "an address of a link is at an even number of bytes");
                }
            }
        }
        ("ip", _) if fragment(name).is_some() => {
            let (value, mask) = fragment(name).unwrap_or_default();
            keys.half(value, mask, at.unwrap_or(6), from_next)
        }
        _ => {
            let Some((width, usual, next)) = field(protocol, name) else {
                return bad(first, "there is no such field");
            };
            let numbers = if matches!(protocol, "u32" | "u16" | "u8") { 1 } else { 2 };
            if text(numbers).starts_with('-') {
                return bad(words.get(numbers).unwrap_or(first), "a value has no sign");
            }
            let (value, mask) = (number(text(numbers)), number_of_mask(text(numbers + 1)));
            // Ports of tcp and udp and the fields of icmp are always in the next header.
            let next = from_next || next && (at.is_none() || protocol != "ip6");
            let at = at.unwrap_or(usual);
            match width {
                Width::Word => keys.word(value, mask, at & !3, next),
                Width::Half => keys.half(value, mask, at, next),
                Width::Byte => keys.byte(value, mask, at, next),
            }
        }
    };
    match fits {
        true => Ok(()),
        false => bad(first, "this contradicts another match of the line: no packet can have both"),
    }
}

/// Reads a mask, which is hexadecimal.
fn number_of_mask(word: &str) -> u32 {
    hex(word).and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

/// Reads `12`, `-14`, `nexthdr+4`.
fn offset_of(said: &Said<'_>, word: &Word) -> Done<i32> {
    let digits = word.text.strip_prefix("nexthdr").unwrap_or(&word.text);
    let number = int(digits.strip_prefix('+').unwrap_or(digits)).and_then(|n| i32::try_from(n).ok());
    // The bound leaves room for the words around it.
    number.filter(|n| n.unsigned_abs() < 1 << 30).ok_or_else(|| {
        let message = format!("\"{}\" is no offset in a packet", word.text);
        said.error(code::BAD_VALUE, word, message).linux(Sentence::Illegal("match"))
    })
}

/// Reads a number of 16 bits after a word of `key`.
fn short<T: TryFrom<i64>>(said: &Said<'_>, key: &str, word: &Word, expected: &str) -> Done<T> {
    int(&word.text).and_then(|n| T::try_from(n).ok()).ok_or_else(|| {
        let message = format!("\"{}\" is out of range", word.text);
        said.error(code::BAD_VALUE, word, message).expected(expected).linux(Sentence::Illegal(key))
    })
}

/// Reads the words after `offset`.
fn offset(said: &Said<'_>, words: &[Word], selector: &mut Selector) -> Done {
    let mut offset = selector.offset.unwrap_or_default();
    let mut said_any = selector.offset.is_some();
    let mut rest = words.iter().skip(1);
    while let Some(key) = rest.next() {
        if "eat".starts_with(&*key.text) {
            selector.eat = true;
            continue;
        }
        let Some(value) = rest.next() else { break };
        said_any = true;
        let read = offset.read.unwrap_or_default();
        match key.text.as_str() {
            "plus" => offset.plus = short(said, "offset", value, "0 to 65535")?,
            "at" => {
                let at: i16 = short(said, "offset", value, "an even number of bytes, -32768 to 32767")?;
                if at % 2 != 0 {
                    let message = "offset at: an even number of bytes is expected";
                    let err = said.error(code::BAD_VALUE, value, message);
                    return Err(err.linux("offset \"at\" must be even\nIllegal \"offset\""));
                }
                offset.read = Some(Read { at, ..read });
            }
            "mask" => offset.read = Some(Read { mask: number_of_mask(&value.text) as u16, ..read }),
            _ => {
                offset.read =
                    Some(Read { shift: u8::try_from(number(&value.text)).unwrap_or(u8::MAX), ..read })
            }
        }
    }
    selector.offset = said_any.then_some(offset);
    Ok(())
}

/// Reads the words after `hashkey`.
fn hashkey(said: &Said<'_>, words: &[Word], selector: &mut Selector) -> Done {
    for pair in words.get(1..).unwrap_or(&[]).chunks(2) {
        let [key, value] = pair else { break };
        if key.text == "mask" {
            selector.hash.mask = number_of_mask(&value.text);
            continue;
        }
        let at: i16 = short(said, "hashkey", value, "a number of bytes that 4 divides, up to 32764")?;
        if at % 4 != 0 {
            let message = "hashkey at: a number of bytes that 4 divides is expected";
            let err = said.error(code::BAD_VALUE, value, message);
            return Err(err.linux(Sentence::Illegal("hashkey")));
        }
        selector.hash.at = at;
    }
    Ok(())
}

/// Returns the bucket that a sample is in.
fn sampled(said: &Said<'_>, words: &[Word]) -> Done<u32> {
    let first = words.first().unwrap_or(said.kind);
    let (selector, divisor) = match words.iter().position(|w| w.text == "divisor") {
        Some(at) => (words.get(1..at), words.get(at + 1).map_or(0, |w| number(&w.text))),
        None => (words.get(1..), 256),
    };
    let mut keys = Keys::default();
    select(said, first, selector.unwrap_or(&[]), &mut keys)?;
    let [key] = keys.keys[..] else {
        let err = said.error(code::BAD_VALUE, first, "a sample is one word of a packet");
        return Err(err.linux("\"sample\" must contain exactly ONE key."));
    };
    if !divisor.is_power_of_two() {
        let err = said.error(code::BAD_VALUE, first, "a sample's divisor is that of its table");
        return Err(err.expected("a power of two up to 256").linux("Illegal sample \"divisor\""));
    }
    Ok(key.value.checked_shr(key.mask.trailing_zeros()).unwrap_or(0) & (divisor - 1))
}

pub(super) fn read(said: &Said<'_>, ports: &mut dyn FnMut(&str) -> Option<PortId>) -> Done<U32> {
    if let Some(divisor) = said.u32("divisor") {
        return Ok(U32::Table(u16::try_from(divisor).unwrap_or(u16::MAX)));
    }
    let (mut keys, mut selector, mut any) = (Keys::default(), Selector::default(), false);
    let mut bucket = None;
    for (setting, words) in said.settings.iter() {
        let first = words.first().unwrap_or(said.kind);
        match setting.key {
            "match" => select(said, first, words.get(1..).unwrap_or(&[]), &mut keys)?,
            "offset" => offset(said, words, &mut selector)?,
            "hashkey" => hashkey(said, words, &mut selector)?,
            "sample" => bucket = Some(sampled(said, words)?),
            _ => {}
        }
        any |= matches!(setting.key, "match" | "offset" | "hashkey");
    }
    selector.keys = keys.keys;
    let table = |key: &str| match said.settings.word(key) {
        Some(word) => handle(&word.text).map(Some).ok_or_else(|| {
            let err = said.error(code::BAD_VALUE, word, format!("\"{}\" is no table", word.text));
            err.expected("TABLE: or TABLE:BUCKET:, hexadecimal").linux(Sentence::Illegal(key))
        }),
        None => Ok(None),
    };
    let said_table = table("ht")?;
    let in_bucket = bucket.map(|bucket| said_table.unwrap_or(0) & 0xfff0_0000 | bucket << 12);
    Ok(U32::Filter(Box::new(Match {
        table: in_bucket.or(said_table),
        selector: any.then_some(selector),
        mark: keys.mark,
        link: table("link")?,
        indev: super::indev(said, ports)?,
        decides: said.settings.has("classid"),
        skip_hw: said.settings.has("skip_hw"),
    })))
}

pub(super) fn show(rule: &U32, shown: &Shown<'_>, ways: &Ways<'_>, out: &mut Out) {
    let handle = text(shown.handle);
    out.word("fh", &handle, &format!("fh {handle} "));
    let divisor = match rule {
        U32::Root => 1,
        U32::Table(divisor) => *divisor,
        U32::Filter(rule) => return show_filter(rule, shown, ways, out),
    };
    out.uint("ht_divisor", divisor, &format!("ht divisor {divisor} "));
}

fn show_filter(rule: &Match, shown: &Shown<'_>, ways: &Ways<'_>, out: &mut Out) {
    let (order, table, bucket) = (shown.handle & 0xfff, shown.handle >> 20, shown.handle >> 12 & 0xff);
    out.uint("order", order, &format!("order {order} "));
    out.word("key_ht", &format!("{table:x}"), &format!("key ht {table:x} "));
    out.word("bkt", &format!("{bucket:x}"), &format!("bkt {bucket:x} "));
    if !shown.goal.class.is_none() {
        let class = ways.class(shown.goal.class);
        out.word("flowid", &class, &format!("*flowid {class} "));
    } else if rule.decides || !shown.goal.actions.is_empty() {
        out.text("terminal flowid ");
    }
    if let Some(link) = rule.link {
        out.word("link", &text(link), &format!("link {} ", text(link)));
    }
    if rule.skip_hw {
        out.flag("skip_hw", "skip_hw ");
    }
    out.flag("not_in_hw", "not_in_hw ");
    let hits = |number: u32| ways.hits(shown.hits + number);
    if ways.statistics {
        out.uint("rule_hit", hits(0), &format!("(rule hit {} ", hits(0)));
        out.uint("success", hits(1), &format!("success {})", hits(1)));
    }
    if let Some((value, mask)) = rule.mark {
        out.word("fwmark_value", &format!("{value:#x}"), &format!("\n  mark 0x{value:04x} "));
        out.word("fwmark_mask", &format!("{mask:#x}"), &format!("0x{mask:04x} "));
        out.uint("fwmark_success", hits(2), &format!("(success {})", hits(2)));
    }
    if let Some(selector) = &rule.selector {
        show_selector(selector, ways.statistics.then_some(&hits), out);
    }
    if let Some(device) = &rule.indev {
        out.word("input_dev", &device.name, &format!("\n  input dev {}\n", device.name));
    }
}

fn show_selector(selector: &Selector, hits: Option<&dyn Fn(u32) -> u64>, out: &mut Out) {
    for (number, Key { value, mask, at, next }) in (3u32..).zip(&selector.keys) {
        out.open("match");
        let from = if *next { "nexthdr+" } else { "" };
        out.word("value", &format!("{value:x}"), &format!("\n  match {value:08x}"));
        out.word("mask", &format!("{mask:x}"), &format!("/{mask:08x} "));
        out.word("offmask", from, &format!("at {from}"));
        out.raw("off", &at.to_string(), &at.to_string());
        out.close();
        if let Some(hits) = hits {
            out.uint("success", hits(number), &format!(" (success {} ) ", hits(number)));
        }
    }
    if let Some(offset) = selector.offset {
        out.text("\n    offset ");
        if let Some(Read { at, mask, shift }) = offset.read {
            out.word("offset_mask", &format!("{mask:x}"), &format!("{mask:04x}"));
            out.uint("offset_shift", shift, &format!(">>{shift} "));
            out.raw("offset_off", &at.to_string(), &format!("at {at} "));
        }
        if offset.plus != 0 {
            out.uint("plus", offset.plus, &format!("plus {} ", offset.plus));
        }
    }
    if selector.eat {
        out.flag("eat", " eat ");
    }
    let HashKey { mask, at } = selector.hash;
    if mask != 0 {
        out.word("hash_mask", &format!("{mask:x}"), &format!("\n    hash mask {mask:08x} "));
        out.raw("hash_off", &at.to_string(), &format!("at {at} "));
    }
}

pub(super) fn words(rule: &U32) -> String {
    let rule = match rule {
        U32::Root => return String::new(),
        U32::Table(divisor) => return format!(" divisor {divisor}"),
        U32::Filter(rule) => rule,
    };
    let mut words = String::new();
    let mut say = |text: String| words.push_str(&text);
    if let Some(table) = rule.table {
        say(format!(" ht {}", text(table)));
    }
    let selector = rule.selector.clone().unwrap_or_default();
    for Key { value, mask, at, next } in &selector.keys {
        let from = if *next { "nexthdr+" } else { "" };
        say(format!(" match u32 {value:#010x} {mask:#010x} at {from}{at}"));
    }
    if let Some((value, mask)) = rule.mark {
        say(format!(" match mark {value:#x} {mask:#x}"));
    }
    if selector.keys.is_empty() && rule.mark.is_none() {
        // tc prints this match for a filter without keys.
        say(" match ip6 src any".into());
    }
    if let Some(Offset { plus, read }) = selector.offset {
        say(format!(" offset plus {plus}"));
        if let Some(Read { at, mask, shift }) = read {
            say(format!(" at {at} mask {mask:#x} shift {shift}"));
        }
    }
    if selector.eat {
        say(if selector.offset.is_some() { " eat".into() } else { " offset eat".into() });
    }
    if selector.hash != HashKey::default() {
        say(format!(" hashkey mask {:#x} at {}", selector.hash.mask, selector.hash.at));
    }
    if let Some(link) = rule.link {
        say(format!(" link {}", text(link)));
    }
    if let Some(Device { name, .. }) = &rule.indev {
        say(format!(" indev {name}"));
    }
    if rule.skip_hw {
        say(" skip_hw".into());
    }
    words
}
