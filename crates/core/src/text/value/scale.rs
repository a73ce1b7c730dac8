//! Numbers with units, as tc reads and writes them.

use alloc::string::String;
use core::fmt;

/// Splits `1.5mbit` into the number, as mantissa and decimal places, and the suffix in lower case.
pub(super) fn number(word: &str) -> Option<(u128, u32, String)> {
    let digits = word.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (num, suffix) = word.split_at(digits);
    let (whole, part) = num.split_once('.').unwrap_or((num, ""));
    // 20 digits hold any u64; no unit here has a use for more than 12 decimal places.
    if whole.len() + part.len() == 0 || whole.len() > 20 || part.len() > 12 || part.contains('.') {
        return None;
    }
    let mut mantissa = 0u128;
    for b in whole.bytes().chain(part.bytes()) {
        mantissa = mantissa * 10 + u128::from(b - b'0');
    }
    Some((mantissa, part.len() as u32, suffix.to_ascii_lowercase()))
}

/// Reads a decimal number without a unit: its digits as a whole number, and the divisor.
pub(crate) fn fraction(word: &str) -> Option<(u128, u128)> {
    let (mantissa, places, suffix) = number(word)?;
    suffix.is_empty().then(|| (mantissa, 10u128.pow(places)))
}

/// Returns `number(word)` times the unit that `factor` gives the suffix (numerator, denominator);
/// truncates to a whole number, as tc does.
pub(super) fn scaled(word: &str, factor: impl Fn(&str) -> Option<(u64, u64)>) -> Option<u64> {
    let (mantissa, places, suffix) = number(word)?;
    let (num, den) = factor(&suffix)?;
    let den = u128::from(den) * 10u128.pow(places);
    u64::try_from(mantissa.checked_mul(u128::from(num))? / den).ok()
}

const PREFIXES: [(&str, u64); 9] = [
    ("", 1),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("ki", 1 << 10),
    ("mi", 1 << 20),
    ("gi", 1 << 30),
    ("ti", 1 << 40),
];

pub(super) fn rate_factor(suffix: &str) -> Option<(u64, u64)> {
    let (prefix, den) = match suffix {
        "" => ("", 8),
        s => match (s.strip_suffix("bit"), s.strip_suffix("bps")) {
            (Some(p), _) => (p, 8),
            (_, Some(p)) => (p, 1),
            _ => return None,
        },
    };
    PREFIXES.iter().find(|(p, _)| *p == prefix).map(|(_, n)| (*n, den))
}

pub(super) fn size_factor(suffix: &str) -> Option<(u64, u64)> {
    Some(match suffix {
        "" | "b" => (1, 1),
        "k" | "kb" => (1 << 10, 1),
        "m" | "mb" => (1 << 20, 1),
        "g" | "gb" => (1 << 30, 1),
        "kbit" => (1 << 10, 8),
        "mbit" => (1 << 20, 8),
        "gbit" => (1 << 30, 8),
        _ => return None,
    })
}

pub(super) fn time_factor(suffix: &str) -> Option<(u64, u64)> {
    Some(match suffix {
        "s" | "sec" | "secs" => (1_000_000_000, 1),
        "ms" | "msec" | "msecs" => (1_000_000, 1),
        "" | "us" | "usec" | "usecs" => (1_000, 1),
        "ns" | "nsec" | "nsecs" => (1, 1),
        _ => return None,
    })
}

/// Writes `num / den` with `digits` significant digits and no trailing zeros, as C's `%.{digits}g`
/// does.
pub(super) fn significant(f: &mut dyn fmt::Write, num: u64, den: u64, digits: u32) -> fmt::Result {
    let (num, den) = (u128::from(num), u128::from(den));
    let whole_digits = (num / den).checked_ilog10().map_or(1, |d| d + 1);
    let places = digits.saturating_sub(whole_digits);
    let scale = 10u128.pow(places);
    decimal(f, (num * scale + den / 2) / den, places)
}

/// Writes `units` of `10^-places` as a decimal number, without zeros at its end.
pub(crate) fn decimal(f: &mut dyn fmt::Write, units: u128, places: u32) -> fmt::Result {
    let one = 10u128.pow(places);
    write!(f, "{}", units / one)?;
    let (mut part, mut width) = (units % one, places as usize);
    if part == 0 {
        return Ok(());
    }
    while part % 10 == 0 {
        part /= 10;
        width -= 1;
    }
    write!(f, ".{part:0width$}")
}
