//! The match of a filter, as far as two can be compared: bytes and masks, or keys and values.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use txweir_tc::lex::Word;

use super::model::Filter;

/// Conditions that must all hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Match {
    /// Meaning of the places below: bytes of the packet, keys of flower, the mark.
    pub(super) space: &'static str,
    /// For each place, the value and the mask of the bits that count.
    pub(super) bits: BTreeMap<(&'static str, i64), (u8, u8)>,
    /// Conditions that can only be compared as text, by key.
    pub(super) texts: BTreeMap<String, String>,
}

impl Match {
    pub(super) const fn nothing(space: &'static str) -> Self {
        Self { space, bits: BTreeMap::new(), texts: BTreeMap::new() }
    }

    /// True if this matches every packet that `other` matches.
    pub(super) fn covers(&self, other: &Self) -> bool {
        if self.bits.is_empty() && self.texts.is_empty() {
            return true;
        }
        self.space == other.space
            && self.texts.iter().all(|(key, text)| other.texts.get(key) == Some(text))
            && self.bits.iter().all(|(place, (value, mask))| {
                *mask == 0
                    || other
                        .bits
                        .get(place)
                        .is_some_and(|(v, m)| m & mask == *mask && v & mask == value & mask)
            })
    }

    pub(super) fn put(&mut self, base: &'static str, at: i64, values: &[u8], masks: &[u8]) {
        for ((at, value), mask) in (at..).zip(values).zip(masks) {
            let place = self.bits.entry((base, at)).or_insert((0, 0));
            *place = (place.0 | value & mask, place.1 | mask);
        }
    }
}

/// Returns the match of a filter; `None` if it cannot be computed.
pub(super) fn of(filter: &Filter) -> Option<Match> {
    match filter.kind.as_str() {
        "matchall" => Some(Match::nothing("all")),
        "fw" => {
            let mut m = Match::nothing("mark");
            let handle = filter.handle.as_deref()?;
            let (mark, mask) = handle.split_once('/').unwrap_or((handle, "0xffffffff"));
            let (mark, mask) = (number(mark)? as u32, number(mask)? as u32);
            m.put("mark", 0, &mark.to_be_bytes(), &mask.to_be_bytes());
            Some(m)
        }
        "u32" => u32_match(filter),
        "flower" => flower(filter),
        _ => None,
    }
}

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

/// Returns the value of a u32 match: negative ones wrap, those of 32 bits may be bare hexadecimal.
fn value(word: &str) -> Option<u32> {
    number(word).or_else(|| u64::from_str_radix(word, 16).ok()).and_then(|n| u32::try_from(n).ok())
}

fn u32_match(filter: &Filter) -> Option<Match> {
    const TABLES: [&str; 6] = ["link", "ht", "hashkey", "divisor", "sample", "indev"];
    if TABLES.iter().any(|key| filter.settings.has(key)) {
        return None;
    }
    let mut m = Match::nothing("bytes");
    let mut some = false;
    for (setting, words) in filter.settings.iter() {
        if setting.key == "match" {
            one_u32(&mut m, words)?;
            some = true;
        }
    }
    // Without a match the filter is a table, or matches everything: it is left out.
    some.then_some(m)
}

/// Reads `match PROTOCOL FIELD VALUE MASK at OFFSET`, as bytes.
fn one_u32(m: &mut Match, words: &[Word]) -> Option<()> {
    let words: Vec<&str> = words.iter().skip(1).map(|w| w.text.as_str()).collect();
    let at = words.iter().position(|w| *w == "at").and_then(|at| words.get(at + 1));
    let place = |base: &'static str, offset: i64| -> Option<(&'static str, i64)> {
        match at {
            None => Some((base, offset)),
            Some(at) => match at.strip_prefix("nexthdr") {
                Some(rest) => Some(("nexthdr", rest.trim_start_matches('+').parse().ok()?)),
                None => Some(("", at.parse().ok()?)),
            },
        }
    };
    let (base, offset, width) = match (*words.first()?, words.get(1).copied()) {
        ("ip", Some(field @ ("src" | "dst"))) => {
            let (address, mask) = ipv4(words.get(2)?)?;
            let (base, at) = place("", if field == "src" { 12 } else { 16 })?;
            m.put(base, at, &address, &mask);
            return Some(());
        }
        ("ip6", Some(field @ ("src" | "dst"))) => {
            let (address, mask) = ipv6(words.get(2)?)?;
            let (base, at) = place("", if field == "src" { 8 } else { 24 })?;
            m.put(base, at, &address, &mask);
            return Some(());
        }
        ("u32", _) => ("", 0, 4),
        ("u16", _) => ("", 0, 2),
        ("u8", _) => ("", 0, 1),
        ("ip", Some("tos" | "dsfield" | "precedence")) => ("", 1, 1),
        ("ip", Some("protocol")) => ("", 9, 1),
        ("ip", Some("sport")) => ("", 20, 2),
        ("ip", Some("dport")) => ("", 22, 2),
        ("ip", Some("icmp_type")) => ("", 20, 1),
        ("ip", Some("icmp_code")) => ("", 21, 1),
        ("tcp" | "udp", Some("src")) => ("nexthdr", 0, 2),
        ("tcp" | "udp", Some("dst")) => ("nexthdr", 2, 2),
        ("icmp", Some("type")) => ("nexthdr", 0, 1),
        ("icmp", Some("code")) => ("nexthdr", 1, 1),
        _ => return None,
    };
    let from = if matches!(words.first(), Some(&("u32" | "u16" | "u8"))) { 1 } else { 2 };
    let (word, mask) = (value(words.get(from)?)?, words.get(from + 1)?);
    let mask = u32::from_str_radix(mask.trim_start_matches("0x"), 16).ok()?;
    let (base, at) = place(base, offset)?;
    m.put(base, at, &word.to_be_bytes()[4 - width..], &mask.to_be_bytes()[4 - width..]);
    Some(())
}

fn length_mask<const N: usize>(length: u32) -> [u8; N] {
    let mut mask = [0; N];
    for (i, byte) in mask.iter_mut().enumerate() {
        let bits = length.saturating_sub(8 * i as u32).min(8);
        *byte = (0xff00u32 >> bits) as u8;
    }
    mask
}

fn ipv4(word: &str) -> Option<([u8; 4], [u8; 4])> {
    if matches!(word, "any" | "all" | "default") {
        return Some(([0; 4], [0; 4]));
    }
    let (address, length) = word.split_once('/').unwrap_or((word, "32"));
    // `10/8`: missing bytes are zero.
    let dots = address.matches('.').count();
    let whole = format!("{address}{}", ".0".repeat(3usize.saturating_sub(dots)));
    let mask = match length.parse::<Ipv4Addr>() {
        Ok(mask) => mask.octets(),
        Err(_) => length_mask(length.parse().ok()?),
    };
    Some((whole.parse::<Ipv4Addr>().ok()?.octets(), mask))
}

fn ipv6(word: &str) -> Option<([u8; 16], [u8; 16])> {
    let (address, length) = word.split_once('/').unwrap_or((word, "128"));
    Some((address.parse::<Ipv6Addr>().ok()?.octets(), length_mask(length.parse().ok()?)))
}

fn flower(filter: &Filter) -> Option<Match> {
    const NOT_CONDITIONS: [&str; 6] = ["classid", "action", "police", "skip_hw", "skip_sw", "verbose"];
    let mut m = Match::nothing("flower");
    for (setting, words) in filter.settings.iter() {
        let [_, values @ ..] = words else { continue };
        let Some(first) =
            values.first().map(|w| w.text.as_str()).filter(|_| !NOT_CONDITIONS.contains(&setting.key))
        else {
            continue;
        };
        match setting.key {
            "src_ip" | "dst_ip" if first.contains(':') => {
                let (address, mask) = ipv6(first)?;
                m.put(setting.key, 0, &address, &mask);
            }
            "src_ip" | "dst_ip" => {
                let (address, mask) = ipv4(first)?;
                m.put(setting.key, 0, &address, &mask);
            }
            "src_port" | "dst_port" if !first.contains('-') => {
                let (port, mask) = first.split_once('/').unwrap_or((first, "0xffff"));
                let (port, mask) = (number(port)? as u16, number(mask)? as u16);
                m.put(setting.key, 0, &port.to_be_bytes(), &mask.to_be_bytes());
            }
            key => {
                let all: Vec<_> = values.iter().map(|w| w.text.to_ascii_lowercase()).collect();
                m.texts.insert(key.to_string(), all.join(" "));
            }
        }
    }
    Some(m)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &str) -> Match {
        let words: Vec<Word> = words.split(' ').map(|w| Word { text: w.into(), span: 0..0 }).collect();
        let mut m = Match::nothing("bytes");
        one_u32(&mut m, &words).expect(&words[1].text);
        m
    }

    #[test]
    fn a_broader_match_covers_a_narrower_one() {
        for (broad, narrow, covers) in [
            ("match ip src 10.0.0.0/8", "match ip src 10.1.0.0/16", true),
            ("match ip src 10.1.0.0/16", "match ip src 10.0.0.0/8", false),
            ("match ip src any", "match ip dport 22 0xffff", true),
            ("match ip dport 22 0xffff", "match u16 22 0xffff at 22", true),
            ("match ip dport 22 0xffff", "match u32 22 0xffff at 20", true),
            ("match ip dport 22 0xffff", "match ip dport 23 0xffff", false),
            ("match tcp dst 22 0xffff", "match u16 0x16 0xffff at nexthdr+2", true),
            ("match tcp dst 22 0xffff", "match ip dport 22 0xffff", false),
            ("match ip tos 0x10 0x1c", "match ip tos 0x10 0xff", true),
            ("match ip6 src 2001:db8::/32", "match ip6 src 2001:db8:1::/48", true),
            ("match ip src 10/8", "match ip src 10.2.3.4", true),
        ] {
            assert_eq!(bytes(broad).covers(&bytes(narrow)), covers, "{broad} | {narrow}");
        }
    }

    #[test]
    fn masks_of_a_length() {
        assert_eq!(length_mask::<4>(20), [255, 255, 240, 0]);
        assert_eq!((length_mask::<4>(0), length_mask::<4>(32)), ([0; 4], [255; 4]));
    }
}
