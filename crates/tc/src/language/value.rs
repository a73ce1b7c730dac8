//! Words compared with the form of an `Arg`, and the values of numbers, handles and prefixes.

use std::net::{Ipv4Addr, Ipv6Addr};

use txweir_core::text::value::{Value, Words};
use txweir_core::{Bytes, Handle, Rate};

use super::table::Arg;

/// Reads a value of core's types that one word holds.
pub(crate) fn one<T: Value>(word: &str) -> Option<T> {
    T::take(&mut Words::new(&[word])).ok()
}

/// Reads a whole number as C does: `10`, `0x0a`, `012`.
pub(crate) fn uint(word: &str) -> Option<u64> {
    let lower = word.strip_prefix("0x").or(word.strip_prefix("0X"));
    let (digits, base) = match (lower, word) {
        (Some(hex), _) => (hex, 16),
        (None, w) if w.len() > 1 && w.starts_with('0') => (&w[1..], 8),
        (None, w) => (w, 10),
    };
    match digits.starts_with('+') {
        true => None,
        false => u64::from_str_radix(digits, base).ok(),
    }
}

/// Reads a whole number that may be negative.
pub(crate) fn int(word: &str) -> Option<i64> {
    match word.strip_prefix('-') {
        Some(rest) => i64::try_from(uint(rest)?).ok()?.checked_neg(),
        None => i64::try_from(uint(word.strip_prefix('+').unwrap_or(word))?).ok(),
    }
}

/// Reads a hexadecimal number, with `0x` or without.
pub(crate) fn hex(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x").or(word.strip_prefix("0X")).unwrap_or(word);
    match digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        true => u64::from_str_radix(digits, 16).ok(),
        false => None,
    }
}

/// Reads a class or qdisc as tc(8) writes it; numbers are hexadecimal and one without a colon is a
/// minor.
pub(crate) fn handle(word: &str) -> Option<Handle> {
    match word {
        "root" => return Some(Handle::ROOT),
        "none" => return Some(Handle::NONE),
        _ => {}
    }
    let part = |digits: &str| match digits {
        "" => Some(0),
        d => hex(d).and_then(|n| u16::try_from(n).ok()),
    };
    match word.split_once(':') {
        Some((major, minor)) => Some(Handle::new(part(major)?, part(minor)?)),
        // tc takes the low 32 bits of a number that does not fit.
        None => Some(Handle(hex(word)? as u32)),
    }
}

/// Returns the unit of a number with a sign or an exponent, which C's strtod reads and core does
/// not.
fn exotic(word: &str) -> Option<&str> {
    let word = word.strip_prefix(['-', '+']).unwrap_or(word);
    let digits = word.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, rest) = word.split_at(digits);
    if !number.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    let Some(exponent) = rest.strip_prefix(['e', 'E']) else { return Some(rest) };
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let digits = exponent.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| &exponent[digits..])
}

fn measure<T: Value>(word: &str, signed: bool) -> bool {
    let unit = |rest: &str| one::<T>(&format!("1{rest}")).is_some();
    one::<T>(word).is_some() || (signed || !word.starts_with('-')) && exotic(word).is_some_and(unit)
}

/// True for more than 16 characters that begin with a hexadecimal digit: tc's `strtoul` reads as
/// far as it can.
fn is_long_id(word: &str) -> bool {
    word.len() > 16 && word.get(..1).is_some_and(|first| hex(first).is_some())
}

fn length(bits: &str, most: u32) -> bool {
    bits.parse::<u32>().is_ok_and(|n| n <= most)
}

/// True for `10.0.0.0/8`, `10/8`, `10.1`, `10.0.0.0/255.0.0.0`, `any`.
fn ipv4(word: &str) -> bool {
    if matches!(word, "any" | "all" | "default") {
        return true;
    }
    let (address, mask) = word.split_once('/').map_or((word, None), |(a, m)| (a, Some(m)));
    let parts: Vec<&str> = address.split('.').collect();
    parts.len() <= 4
        && parts.iter().all(|p| !p.is_empty() && p.parse::<u8>().is_ok())
        && mask.is_none_or(|m| length(m, 32) || m.parse::<Ipv4Addr>().is_ok())
}

/// Returns the address and the mask of a word of the form [`Arg::Ipv4`].
pub(crate) fn ipv4_masked(word: &str) -> (u32, u32) {
    if matches!(word, "any" | "all" | "default") {
        return (0, 0);
    }
    let (address, mask) = word.split_once('/').map_or((word, None), |(a, m)| (a, Some(m)));
    let mut bytes = [0u8; 4];
    for (byte, part) in bytes.iter_mut().zip(address.split('.')) {
        *byte = part.parse().unwrap_or(0);
    }
    let of_length = |bits: u32| u32::MAX.checked_shl(32 - bits.min(32)).unwrap_or(0);
    let mask = match mask {
        None => u32::MAX,
        Some(m) => m.parse::<u32>().map_or_else(|_| m.parse().map_or(0, Ipv4Addr::to_bits), of_length),
    };
    (u32::from_be_bytes(bytes), mask)
}

fn ipv6(word: &str) -> bool {
    if matches!(word, "any" | "all" | "default") {
        return true;
    }
    let (address, mask) = word.split_once('/').map_or((word, None), |(a, m)| (a, Some(m)));
    address.parse::<Ipv6Addr>().is_ok()
        && mask.is_none_or(|m| length(m, 128) || m.parse::<Ipv6Addr>().is_ok())
}

fn table(word: &str) -> bool {
    let parts: Vec<&str> = word.split(':').collect();
    parts.len() <= 3 && !word.is_empty() && parts.iter().all(|p| p.is_empty() || hex(p).is_some())
}

impl Arg {
    /// True if a word has this form.
    pub(super) fn accepts(self, word: &str) -> bool {
        match self {
            Self::Rate => measure::<Rate>(word, true) || word.ends_with('%') && percent_of_link(word),
            Self::Size => measure::<Bytes>(word, false),
            Self::SizeCell => match word.split_once('/') {
                Some((size, cell)) => measure::<Bytes>(size, false) && uint(cell).is_some(),
                None => measure::<Bytes>(word, false),
            },
            Self::Uint(min, max) => uint(word).is_some_and(|n| (min..=max).contains(&n)),
            Self::Int(min, max) => int(word).is_some_and(|n| (min..=max).contains(&n)),
            Self::Hex(max) => hex(word).is_some_and(|n| n <= max),
            Self::Masked(max) => match word.split_once('/') {
                Some((value, mask)) => [value, mask].iter().all(|w| uint(w).is_some_and(|n| n <= max)),
                None => uint(word).is_some_and(|n| n <= max),
            },
            Self::ClassId => handle(word).is_some() || is_long_id(word),
            Self::Table => table(word),
            Self::Ipv4 => ipv4(word),
            Self::Ipv6 => ipv6(word),
            Self::Prefix => ipv4(word) || ipv6(word),
            Self::Word(words) => words.contains(&word),
            Self::Any => true,
        }
    }

    /// Returns the expected form in words for messages.
    pub(super) fn expected(self) -> String {
        match self {
            Self::Rate => Rate::EXPECTED.into(),
            Self::Size => Bytes::EXPECTED.into(),
            Self::SizeCell => "a size (1600, 32kb), or size/cell".into(),
            Self::Uint(0, u64::MAX) => "a whole number".into(),
            Self::Uint(min, max) => format!("a whole number from {min} to {max}"),
            Self::Int(i64::MIN, _) => "a whole number".into(),
            Self::Int(min, max) => format!("a whole number from {min} to {max}"),
            Self::Hex(max) => format!("a hexadecimal number up to {max:x}"),
            Self::Masked(_) => "a number, or number/mask".into(),
            Self::ClassId => "a class (1:10; hexadecimal)".into(),
            Self::Table => "a hash table (2: or 2:a:; hexadecimal)".into(),
            Self::Ipv4 => "an IPv4 prefix (10.0.0.0/8)".into(),
            Self::Ipv6 => "an IPv6 prefix (2001:db8::/32)".into(),
            Self::Prefix => "an address or prefix (10.0.0.0/8, 2001:db8::/32)".into(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Any => "a word".into(),
        }
    }

    /// True if a word is a number that only the range excludes.
    pub(super) fn out_of_range(self, word: &str) -> bool {
        match self {
            Self::Uint(..) | Self::Int(..) => int(word).is_some() || uint(word).is_some(),
            Self::Hex(_) => hex(word).is_some(),
            _ => false,
        }
    }
}

fn percent_of_link(word: &str) -> bool {
    word.strip_suffix('%').is_some_and(|n| exotic(n) == Some(""))
}

/// Returns count and first queue of `2@0`.
pub(super) fn queues(word: &str) -> Option<(u64, u64)> {
    let (count, first) = word.split_once('@')?;
    Some((count.parse().ok()?, first.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_c_reads_them() {
        assert_eq!(
            [uint("10"), uint("0x1F"), uint("010"), uint("0"), uint("1k"), uint("")]
                .map(|n| n.map(|n| n as i64)),
            [Some(10), Some(31), Some(8), Some(0), None, None]
        );
        assert_eq!(
            (int("-14"), int("+3"), int("--1"), hex("ff"), hex("0xFF"), hex("g")),
            (Some(-14), Some(3), None, Some(255), Some(255), None)
        );
    }

    #[test]
    fn handles_are_hexadecimal() {
        for (word, meant) in [
            ("1:10", Some(Handle::new(1, 16))),
            ("ffff:", Some(Handle::new(0xffff, 0))),
            (":1", Some(Handle::new(0, 1))),
            ("10", Some(Handle(16))),
            ("root", Some(Handle::ROOT)),
            ("12345:1", None),
            ("1:zz", None),
            ("1:1:1", None),
            ("", None),
        ] {
            assert_eq!(handle(word), meant, "{word:?}");
        }
    }

    #[test]
    fn what_each_type_takes() {
        for (arg, good, bad) in [
            (
                Arg::Rate,
                ["10", "1e6bit", "10%", "10Mibit"].as_slice(),
                ["10mbitt", "", "mbit", "1e"].as_slice(),
            ),
            (Arg::Size, &["10k", "1.5k", "60KB"], &["-5", "10p", "250P"]),
            (Arg::SizeCell, &["10k/8", "10k"], &["10k/x", "/8"]),
            (
                Arg::Ipv4,
                &["10/8", "10.1", "1.2.3.4/255.255.255.0", "any"],
                &["300.1.1.1", "1.2.3.4/33", "::1", "1."],
            ),
            (Arg::Ipv6, &["::1", "2001:db8::/32"], &["1.2.3.4", "::/129"]),
            (Arg::Table, &["800:", "2:a:", "800::800", "1"], &["zz", "1:2:3:4", ""]),
        ] {
            good.iter().for_each(|w| assert!(arg.accepts(w), "{arg:?} {w:?}"));
            bad.iter().for_each(|w| assert!(!arg.accepts(w), "{arg:?} {w:?}"));
        }
    }
}
