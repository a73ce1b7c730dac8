//! pedit (tc-pedit(8)): each `munge` is one field, which lies in one or more words of 32 bits.
//!
//! Differs from Linux (PARITY.md: pedit-fields).

use std::net::{Ipv4Addr, Ipv6Addr};

use txweir_core::classify::action::pedit::{At, Header, Key};
use txweir_core::classify::action::{Control, Pedit};

use super::{Shown, mac, show_control};
use crate::diagnostic::{Diagnostic, code};
use crate::language::{self, BAD_PEDIT};
use crate::lex::Word;
use crate::out::Out;
use crate::said::Said;
use crate::sentence::INCOMPLETE;

/// A named field: its layer, its offset, its width, and the mask of its bits.
struct Field {
    layer: &'static str,
    names: &'static [&'static str],
    header: Header,
    offset: i32,
    bytes: usize,
    mask: u32,
    /// True if the field exists only with `ex`, false if only without it; `None` if either way.
    extended: Option<bool>,
}

const fn field(
    layer: &'static str,
    names: &'static [&'static str],
    header: Header,
    offset: i32,
    bytes: usize,
) -> Field {
    let mask = match bytes {
        1 => 0xff,
        2 => 0xffff,
        _ => u32::MAX,
    };
    let extended = match header {
        Header::Ip4 => None,
        Header::Network => Some(false),
        _ => Some(true),
    };
    Field { layer, names, header, offset, bytes, mask, extended }
}

impl Field {
    fn place(&self) -> Place {
        let Self { header, offset, bytes, mask, .. } = *self;
        let decrements = self.names.iter().any(|name| matches!(*name, "ttl" | "hoplimit"));
        // A class or a label is written as a number of its own, without the shift.
        let shift = if bytes == 4 && mask != u32::MAX { mask.trailing_zeros() } else { 0 };
        Place { header, offset, bytes, mask, at: None, decrements, shift }
    }
    const fn bits(mut self, mask: u32) -> Self {
        self.mask = mask;
        self
    }
}

use Header::{Eth, Ip4, Ip6, Network, Tcp, Udp};

static FIELDS: &[Field] = &[
    field("ip", &["src"], Ip4, 12, 4),
    field("ip", &["dst"], Ip4, 16, 4),
    field("ip", &["tos", "dsfield", "precedence"], Ip4, 1, 1),
    field("ip", &["ihl"], Ip4, 0, 1).bits(0x0f),
    field("ip", &["protocol"], Ip4, 9, 1),
    field("ip", &["ttl"], Ip4, 8, 1),
    field("ip", &["nofrag"], Ip4, 6, 1).bits(0x3f),
    field("ip", &["firstfrag"], Ip4, 6, 1).bits(0x1f),
    field("ip", &["ce"], Ip4, 6, 1).bits(0x80),
    field("ip", &["df"], Ip4, 6, 1).bits(0x40),
    field("ip", &["mf"], Ip4, 6, 1).bits(0x20),
    // These fields are not searched for: they are behind an IPv4 header without options.
    field("ip", &["sport"], Network, 20, 2),
    field("ip", &["dport"], Network, 22, 2),
    // tc 6.1 has both at the place of the type.
    field("ip", &["icmp_type", "icmp_code"], Network, 20, 1),
    field("ip6", &["src"], Ip6, 8, 16),
    field("ip6", &["dst"], Ip6, 24, 16),
    field("ip6", &["traffic_class"], Ip6, 0, 4).bits(0x0ff0_0000),
    field("ip6", &["flow_lbl"], Ip6, 0, 4).bits(0x000f_ffff),
    field("ip6", &["payload_len"], Ip6, 4, 2),
    field("ip6", &["nexthdr"], Ip6, 6, 1),
    field("ip6", &["hoplimit"], Ip6, 7, 1),
    field("tcp", &["sport"], Tcp, 0, 2),
    field("tcp", &["dport"], Tcp, 2, 2),
    field("tcp", &["flags"], Tcp, 13, 1),
    field("udp", &["sport"], Udp, 0, 2),
    field("udp", &["dport"], Udp, 2, 2),
    field("eth", &["dst"], Eth, 0, 6),
    field("eth", &["src"], Eth, 6, 6),
    field("eth", &["type"], Eth, 12, 2),
];

pub(super) fn read(said: &Said<'_>) -> Result<Option<(Pedit, Control)>, Diagnostic> {
    let extended = said.settings.has("ex");
    let mut keys = Vec::new();
    for (_, words) in said.settings.iter().filter(|(setting, _)| setting.key == "munge") {
        let mut munge = Munge { said, words: &words[1..], extended, named: false, part: "" };
        munge.read(&mut keys)?;
    }
    if keys.is_empty() {
        return Ok(None);
    }
    match Pedit::new(keys, extended) {
        Ok(pedit) => Ok(Some((pedit, Control::Pass))),
        Err(err) => Err(said.error(code::OUT_OF_RANGE, said.kind, err.to_string())),
    }
}

/// One field being read.
struct Munge<'a> {
    said: &'a Said<'a>,
    words: &'a [Word],
    extended: bool,
    /// True if the field is named by its header.
    named: bool,
    /// The word by which tc names the part that it is reading.
    part: &'a str,
}

/// The place of a field, and the mask of its bits.
struct Place {
    header: Header,
    offset: i32,
    bytes: usize,
    mask: u32,
    at: Option<At>,
    decrements: bool,
    shift: u32,
}

impl<'a> Munge<'a> {
    fn next(&mut self) -> Option<&'a Word> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn bad(&self, word: &Word, expected: &str) -> Diagnostic {
        let message = format!("pedit: \"{}\" is not a value for it", word.text);
        self.said.error(code::BAD_VALUE, word, message).expected(expected).linux(self.construct(None))
    }

    /// Returns tc's lines for a part that it cannot read, its own first where it has one.
    fn construct(&self, own: Option<&str>) -> String {
        let first = own.map(|line| format!("{line}\n")).unwrap_or_default();
        let named = if self.named { format!("{BAD_PEDIT}\n") } else { String::new() };
        format!("{first}{named}Bad pedit construct ({})", self.part)
    }

    fn need(&mut self, expected: &str) -> Result<&'a Word, Diagnostic> {
        self.next().ok_or_else(|| {
            let err = self.said.error(code::MISSING, self.said.at("munge"), "pedit: a munge ends too early");
            err.expected(expected).linux(INCOMPLETE)
        })
    }

    fn read(&mut self, keys: &mut Vec<Key>) -> Result<(), Diagnostic> {
        let layer = self.need("offset, or a header")?;
        (self.named, self.part) = (!layer.text.starts_with('o'), &layer.text);
        let place = if self.named { self.field(layer)? } else { self.raw()? };
        let command = self.need("a command")?;
        if !self.named {
            self.part = &command.text;
        }
        let mut bits = vec![0u8; place.bytes];
        let field = place.field();
        let (mut add, mut xor) = (false, false);
        match command.text.as_str() {
            "set" => bits = self.value(&place)?,
            "add" => {
                bits = self.value(&place)?;
                add = true;
            }
            "decrement" if place.decrements => (bits, add) = (vec![0xff], true),
            "clear" => {}
            "invert" => {
                bits.clone_from(&field);
                xor = true;
            }
            "preserve" => xor = true,
            _ => {
                let expected = "set, add, clear, invert, preserve; decrement of ip ttl and ip6 hoplimit";
                let err = self.bad(command, expected);
                return Err(match command.text.as_str() {
                    "decrement" => {
                        err.linux(self.construct(Some("decrement command is not supported for this field")))
                    }
                    _ => err,
                });
            }
        }
        if add && !self.extended {
            let err = self.said.error(code::UNSUPPORTED, command, "pedit adds in its extended form");
            let lines = self.construct(Some("Non extended mode. only 'set' command is supported"));
            return Err(err.expected("pedit ex munge").linux(lines));
        }
        let retain = self.retain(&place)?;
        let keep = |at: usize| field[at] & retain[at];
        let value: Vec<u8> = (0..place.bytes).map(|at| bits[at] & keep(at)).collect();
        // The mask keeps everything but the field; an inversion keeps all bits.
        let mask: Vec<u8> = (0..place.bytes).map(|at| if xor { 0xff } else { !keep(at) }).collect();
        place.push(&value, &mask, add, keys);
        Ok(())
    }

    /// Reads `offset N WIDTH [at AT MASK SHIFT]`.
    fn raw(&mut self) -> Result<Place, Diagnostic> {
        let word = self.need("bytes from the network header")?;
        self.part = &word.text;
        let Some(offset) = signed(&word.text) else { return Err(self.bad(word, "a number of bytes")) };
        let width = self.need("u8, u16 or u32")?;
        let (bytes, mask, last) = match width.text.as_str() {
            "u8" => (1, 0xff, 3),
            "u16" => (2, 0xffff, 2),
            "u32" => (4, u32::MAX, 0),
            _ => return Err(self.bad(width, "u8, u16 or u32")),
        };
        if offset.rem_euclid(4) > last {
            let message = format!("pedit: {} at {offset} lies across two words", width.text);
            let err = self.said.error(code::OUT_OF_RANGE, word, message).expected("words are of four bytes");
            let line = match last {
                0 => "pack_key32: 32 bit offsets must begin in 32bit boundaries".to_string(),
                _ => format!("pack_key16 bad index value {}", offset.rem_euclid(4)),
            };
            return Err(err.linux(format!("{line}\nBad pedit construct ((null))")));
        }
        let mut at = None;
        if self.words.first().is_some_and(|w| w.text == "at") {
            self.next();
            let mut number = |hex: bool| {
                let mut word = self.need("at AT offmask MASK shift SHIFT")?;
                if matches!(word.text.as_str(), "offmask" | "shift") {
                    word = self.need("at AT offmask MASK shift SHIFT")?;
                }
                let value = if hex { language::hex(&word.text) } else { language::uint(&word.text) };
                let value = value.and_then(|n| u32::try_from(n).ok());
                value.ok_or_else(|| self.bad(word, "a number of 32 bits, the mask in hexadecimal"))
            };
            at = Some(At { at: number(false)?, mask: number(true)?, shift: number(false)? });
        }
        let header = Header::Network;
        Ok(Place { header, offset, bytes, mask, at, decrements: false, shift: 0 })
    }

    fn field(&mut self, layer: &Word) -> Result<Place, Diagnostic> {
        let name = self.need("a field")?;
        let of_layer = FIELDS.iter().filter(|f| f.layer == layer.text);
        let Some(field) = of_layer.clone().find(|f| f.names.contains(&name.text.as_str())) else {
            let names: Vec<&str> = of_layer.flat_map(|f| f.names.iter().copied()).collect();
            return Err(self.bad(name, &format!("one of {}", names.join(", "))));
        };
        if field.extended.is_some_and(|extended| extended != self.extended) {
            let (with, expected) = match self.extended {
                true => ("with", "tcp or udp, which are looked for"),
                false => ("without", "pedit ex munge"),
            };
            let message = format!("pedit: there is no {} {} {with} ex", layer.text, name.text);
            let err = self.said.error(code::UNSUPPORTED, name, message).expected(expected);
            return Err(err.linux(self.construct(None)));
        }
        let mut place = field.place();
        if !self.extended {
            place.header = Network;
        }
        Ok(place)
    }

    /// Reads a value as wide as the field, in network byte order.
    fn value(&mut self, place: &Place) -> Result<Vec<u8>, Diagnostic> {
        let word = self.need("a value")?;
        let text = word.text.as_str();
        let bytes = match place.bytes {
            16 => text.parse::<Ipv6Addr>().ok().map(|a| a.octets().to_vec()),
            6 => mac(text).map(|a| a.to_vec()),
            _ => match (place.bytes, text.parse::<Ipv4Addr>()) {
                (4, Ok(address)) => Some(address.octets().to_vec()),
                _ => self.number(text, place),
            },
        };
        let expected = match place.bytes {
            16 => "an IPv6 address".to_string(),
            6 => "six bytes: 02:00:00:00:00:01".to_string(),
            n => format!(
                "a number of {} bits",
                if place.shift > 0 { place.mask.count_ones() } else { 8 * n as u32 }
            ),
        };
        bytes.ok_or_else(|| {
            let err = self.bad(word, &expected);
            match (place.bytes, language::uint(text).and_then(|n| u32::try_from(n).ok())) {
                (1, Some(n)) => err.linux(self.packed(format!("pack_key8 bad value (val {n:x} mask 0"))),
                (2, Some(_)) => err.linux(self.packed("pack_key16 bad value".into())),
                (6, _) => err.linux(self.construct(Some(&format!("\"{text}\" is invalid lladdr.")))),
                _ => err,
            }
        })
    }

    /// Returns tc's lines for a number that is too large for its field.
    fn packed(&self, line: String) -> String {
        match self.named {
            true => self.construct(Some(&line)),
            false => format!("{line}\nBad pedit construct ((null))"),
        }
    }

    fn number(&self, text: &str, place: &Place) -> Option<Vec<u8>> {
        let number = u32::try_from(language::uint(text)?).ok()?;
        let wide = number.to_be_bytes();
        let (over, narrow) = wide.split_at(4 - place.bytes.min(4));
        let part = place.bytes == 4 && place.mask != u32::MAX;
        let fits = over.iter().all(|b| *b == 0) && !(part && number > place.mask >> place.shift);
        fits.then(|| match place.shift {
            0 => narrow.to_vec(),
            shift => (number << shift).to_be_bytes().to_vec(),
        })
    }

    /// Reads `retain MASK`: the bits that are changed, of the low 32; all by default.
    fn retain(&mut self, place: &Place) -> Result<Vec<u8>, Diagnostic> {
        if self.words.first().is_none_or(|w| w.text != "retain") {
            return Ok(vec![0xff; place.bytes]);
        }
        self.next();
        let word = self.need("a mask")?;
        match self.number(&word.text, place).filter(|_| place.bytes <= 4) {
            Some(mask) => Ok(mask),
            None => Err(self.bad(word, "a mask of the field, of at most 32 bits")),
        }
    }
}

impl Place {
    /// Returns the mask of the field, in network byte order.
    fn field(&self) -> Vec<u8> {
        match self.bytes {
            n @ 1..=4 => self.mask.to_be_bytes()[4 - n..].to_vec(),
            n => vec![0xff; n],
        }
    }

    /// Returns the word of a key, without a field.
    const fn raw(key: &Key) -> Self {
        let Key { header, offset, at, .. } = *key;
        Self { header, offset, bytes: 4, mask: u32::MAX, at, decrements: false, shift: 0 }
    }

    /// Returns the words of this field that make the first of these keys, and the number of keys;
    /// `None` if no words of it do.
    fn said(&self, name: &str, keys: &[Key]) -> Option<(String, usize)> {
        let lead = usize::try_from(self.offset.rem_euclid(4)).ok()?;
        let n = (lead + self.bytes).div_ceil(4);
        let keys = keys.get(..n)?;
        let bytes = |of: &dyn Fn(&Key) -> u32| -> Vec<u8> {
            let all: Vec<u8> = keys.iter().flat_map(|key| of(key).to_be_bytes()).collect();
            all[lead..lead + self.bytes].to_vec()
        };
        let (value, mask, field) = (bytes(&|k| k.value), bytes(&|k| k.mask), self.field());
        let whole = mask.iter().zip(&field).all(|(m, f)| *m == !*f);
        let add = keys[0].add;
        let number = |bytes: &[u8]| {
            let n = bytes.iter().fold(0u64, |n, b| n << 8 | u64::from(*b)) >> self.shift;
            format!("{n:#x}")
        };
        let text = match self.bytes {
            16 => Ipv6Addr::from(<[u8; 16]>::try_from(value.as_slice()).ok()?).to_string(),
            6 => super::mac_text(&<[u8; 6]>::try_from(value.as_slice()).ok()?),
            _ => number(&value),
        };
        let kept: Vec<u8> = mask.iter().zip(&field).map(|(m, f)| !m & f).collect();
        let retain =
            if whole || self.bytes > 4 { String::new() } else { format!(" retain {}", number(&kept)) };
        let words = match mask.iter().all(|m| *m == 0xff) {
            true if value == field => String::from("invert"),
            true if value.iter().all(|v| *v == 0) => String::from("preserve"),
            true => format!("invert retain {}", number(&value)),
            false => format!("{} {text}{retain}", if add { "add" } else { "set" }),
        };
        // The key as it would be read from these words.
        let (value, mask) = match mask.iter().all(|m| *m == 0xff) {
            true => (value, mask),
            false => {
                (value.iter().zip(&kept).map(|(v, k)| v & k).collect(), kept.iter().map(|k| !k).collect())
            }
        };
        let mut again = Vec::new();
        self.push(&value, &mask, add, &mut again);
        (again == keys).then(|| (format!("{name} {words}"), n))
    }

    /// Adds the keys of the field.
    fn push(&self, value: &[u8], mask: &[u8], add: bool, keys: &mut Vec<Key>) {
        let lead = self.offset.rem_euclid(4);
        let first = self.offset - lead;
        let lead = usize::try_from(lead).unwrap_or(0);
        for (n, at) in (0..lead + self.bytes).step_by(4).enumerate() {
            let word = |bytes: &[u8], outside: u8| {
                let byte = |i: usize| {
                    (at + i).checked_sub(lead).and_then(|i| bytes.get(i)).copied().unwrap_or(outside)
                };
                u32::from_be_bytes([byte(0), byte(1), byte(2), byte(3)])
            };
            let offset = first.saturating_add(4 * i32::try_from(n).unwrap_or(0));
            let (mask, value) = (word(mask, 0xff), word(value, 0));
            keys.push(Key { header: self.header, offset, at: self.at, add, mask, value });
        }
    }
}

/// Reads a number as C writes it, with a sign.
fn signed(text: &str) -> Option<i32> {
    match text.strip_prefix('-') {
        Some(rest) => i32::try_from(-i64::try_from(language::uint(rest)?).ok()?).ok(),
        None => i32::try_from(language::uint(text)?).ok(),
    }
}

const fn layer(header: Header) -> (&'static str, &'static str) {
    match header {
        Network => ("network", ""),
        Eth => ("eth", "eth+"),
        Ip4 => ("ipv4", "ipv4+"),
        Ip6 => ("ipv6", "ipv6+"),
        Tcp => ("tcp", "tcp+"),
        Udp => ("udp", "udp+"),
    }
}

pub(super) fn show(pedit: &Pedit, shown: &Shown<'_>, out: &mut Out) {
    out.word("kind", "pedit", " pedit ");
    show_control(shown.action.control, "control_action", "action ", out);
    let keys = pedit.keys();
    out.uint("nkeys", keys.len() as u64, &format!(" keys {}\n ", keys.len()));
    shown.numbers("\t ", out);
    out.open_list("keys");
    for (n, key) in keys.iter().enumerate() {
        let (name, before) = layer(key.header);
        out.open_item();
        out.word("htype", name, &format!("\n\t key #{n}  at {before}"));
        out.raw("offset", &key.offset.to_string(), &key.offset.to_string());
        let (cmd, text) = if key.add { ("add", "add") } else { ("set", "val") };
        out.word("cmd", cmd, &format!(": {text} "));
        out.word("val", &format!("{:x}", key.value), &format!("{:08x}", key.value));
        out.word("mask", &format!("{:x}", key.mask), &format!(" mask {:08x}", key.mask));
        out.close();
    }
    out.close_list();
}

/// Returns the words that make it again: for each 32-bit word, or several, a field that covers it.
/// A key that no words make, which no line has made, stays as it is.
pub(super) fn words(pedit: &Pedit) -> String {
    munges(pedit, |_| Some((String::from("offset 0 u32 preserve"), 1))).unwrap_or_default()
}

/// Returns the same; `None` if no words make one of its keys.
pub(super) fn all_words(pedit: &Pedit) -> Option<String> {
    munges(pedit, |_| None)
}

fn munges(pedit: &Pedit, unsaid: fn(&Key) -> Option<(String, usize)>) -> Option<String> {
    let mut words = String::from(if pedit.extended() { "pedit ex" } else { "pedit" });
    let mut keys = pedit.keys();
    while let [key, ..] = keys {
        let named = FIELDS.iter().filter(|f| f.header == key.header && f.header != Network);
        let (said, n) = named
            .map(|f| (f.place(), format!("{} {}", f.layer, f.names[0])))
            .find_map(|(place, name)| place.said(&name, keys))
            .or_else(|| {
                let raw = || Place::raw(key).said(&raw_name(key), keys);
                (key.header == Network).then(raw).flatten()
            })
            .or_else(|| unsaid(key))?;
        words.push_str(&format!(" munge {said}"));
        keys = keys.get(n..).unwrap_or(&[]);
    }
    Some(words)
}

fn raw_name(key: &Key) -> String {
    let at = key.at.map(|a| format!(" at {} {:x} {}", a.at, a.mask, a.shift)).unwrap_or_default();
    format!("offset {} u32{at}", key.offset)
}

/// True if Linux would offer it to hardware: the words name headers, and all change in the same
/// way.
pub(super) fn offloads(pedit: &Pedit) -> bool {
    let alike = pedit.keys().windows(2).all(|two| two[0].add == two[1].add);
    pedit.extended() && alike
}
