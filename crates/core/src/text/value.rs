//! Text and JSON forms of each parameter type, as tc reads and prints them (tc(8), "UNITS").
//!
//! Text is read exactly, in decimal, without floating point: `1.5mbit` is 1 500 000 bit/s to the
//! bit.

mod hex;
mod name;
mod scale;
mod special;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::num::ParseIntError;

use crate::base::time::Nanos;
use crate::base::units::{Bytes, Packets, Rate};
use crate::text::error::ErrorKind;

pub use hex::{Hex, HexBare};
pub use name::Name;
pub(crate) use scale::{decimal, fraction};
use scale::{number, rate_factor, scaled, significant, size_factor, time_factor};
pub use special::{Mask, NanosBare, PrioMap, Triple};

/// A value in JSON. Rates are bytes/s and times microseconds, as `tc -j` prints them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// A whole number.
    Uint(u64),
    /// A whole number that may be negative.
    Int(i64),
    /// `true` or `false`.
    Bool(bool),
    /// Text.
    Text(String),
    /// A list of numbers.
    List(Vec<u64>),
    /// A list of texts.
    Texts(Vec<String>),
    /// A list of lists of numbers.
    Rows(Vec<Vec<u64>>),
    /// Digits of a number that is not whole, or is below zero.
    Number(String),
    /// A list of objects.
    Objects(Vec<Vec<(&'static str, Json)>>),
    /// `null`: the key alone has the meaning.
    Null,
    /// An object.
    Members(Vec<(&'static str, Json)>),
}

/// A value that can be printed.
pub trait Show {
    /// False for a value that is not set and so not printed.
    fn is_set(&self) -> bool {
        true
    }
    /// Writes the value as tc prints it: short, and rounded where tc rounds.
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result;
    /// Writes the value without loss: it reads back as the same value.
    fn exact(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        self.text(f)
    }
    /// Returns the value as `tc -j` prints it.
    fn json(&self) -> Json;
}

/// Quantity that the words of a parameter give, for programs that read a line without its kind, to
/// compare rates or sum sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quantity {
    /// None of the following, or several.
    #[default]
    Other,
    /// The first word is a rate.
    Rate,
    /// Every word is a rate.
    Rates,
    /// A size in bytes.
    Bytes,
    /// A number of packets.
    Packets,
    /// A time, which JSON has in microseconds.
    Time,
}

/// A parameter type that can also be read from words.
pub trait Value: Show + Clone + PartialEq + Sized {
    /// Expected words, for error messages and tables: "a time (5ms, 100us; bare: microseconds)".
    const EXPECTED: &'static str;
    /// Quantity of its words.
    const QUANTITY: Quantity = Quantity::Other;
    /// Takes as many words as the value needs.
    ///
    /// # Errors
    /// The next words are not a value of this type, or the type gives its own reason.
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal>;
}

/// Reason for which words were not taken as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// They are not a value of the type.
    NotSuch,
    /// The type of the value gives its own reason.
    Because {
        /// The kind of error.
        kind: ErrorKind,
        /// Expected value.
        expected: String,
        /// Advice to the user.
        hint: Option<String>,
        /// Index of the word that is refused, if it is not the first one of the value.
        word: Option<usize>,
    },
}

impl Refusal {
    /// Returns a refusal with its kind, the expected value and advice.
    pub fn because(kind: ErrorKind, expected: impl ToString, hint: Option<&str>) -> Self {
        let hint = hint.map(ToString::to_string);
        Self::Because { kind, expected: expected.to_string(), hint, word: None }
    }

    /// Names the word that is refused, by its index, in a value of several words.
    #[must_use]
    pub fn at(self, at: usize) -> Self {
        match self {
            Self::Because { kind, expected, hint, .. } => {
                Self::Because { kind, expected, hint, word: Some(at) }
            }
            not_such => not_such,
        }
    }
}

impl From<ParseIntError> for Refusal {
    fn from(_: ParseIntError) -> Self {
        Self::NotSuch
    }
}

/// A cursor over the words of a command, with the link rate that values may refer to.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    words: &'a [&'a str],
    at: usize,
    link_rate: Option<Rate>,
}

impl<'a> Words<'a> {
    /// Returns a cursor at the first of `words`, for a link whose rate is not known.
    pub fn new(words: &'a [&'a str]) -> Self {
        Self { words, at: 0, link_rate: None }
    }
    /// Sets the rate of the link, to which rates in percent refer. `None` keeps the present one.
    #[must_use]
    pub fn link_rate(mut self, rate: impl Into<Option<Rate>>) -> Self {
        self.know_link_rate(rate.into());
        self
    }
    /// As `link_rate`, in place.
    pub(crate) fn know_link_rate(&mut self, rate: Option<Rate>) {
        self.link_rate = rate.or(self.link_rate);
    }
    /// Returns the index of the word that `take` returns next.
    pub fn at(&self) -> usize {
        self.at
    }
    /// Moves to the word at index `at`, back or forward.
    pub(crate) fn rewind(&mut self, at: usize) {
        self.at = at.min(self.words.len());
    }
    /// Returns the next word without taking it.
    pub fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }
    /// Takes the next word.
    pub fn take(&mut self) -> Option<&'a str> {
        let w = self.peek()?;
        self.at += 1;
        Some(w)
    }
    /// Takes the next word of a value.
    ///
    /// # Errors
    /// No word is left.
    pub fn value(&mut self) -> Result<&'a str, Refusal> {
        self.take().ok_or(Refusal::NotSuch)
    }
}

impl Show for Rate {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        // Searches for the largest unit that keeps the number whole, or that brings it below a
        // million.
        let mut rate = u128::from(self.0) * 8;
        let mut unit = 0;
        const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
        while unit < UNITS.len() - 1 && rate >= 1000 && (rate % 1000 == 0 || rate >= 1_000_000) {
            rate /= 1000;
            unit += 1;
        }
        write!(f, "{rate}{}bit", UNITS[unit])
    }
    fn exact(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{}bps", self.0)
    }
    fn json(&self) -> Json {
        Json::Uint(self.0)
    }
}

/// Returns the value of one word where no tc line is read, so that a number without a unit is a
/// mistake: tc reads the rate `100` as bits per second, the time `5` as microseconds. 0 needs none.
///
/// # Errors
/// As `T::take`, and [`Refusal::NotSuch`] for such a number.
pub fn with_unit<T: Value>(word: &str) -> Result<T, Refusal> {
    if word != "0" && word.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(Refusal::NotSuch);
    }
    T::take(&mut Words::new(&[word]))
}

impl Value for Rate {
    const EXPECTED: &'static str = "a rate (10mbit, 1.5gbit, 100kbps = bytes; bare: bit/s)";
    const QUANTITY: Quantity = Quantity::Rate;
    /// Reads a rate. `50%` is that part of the link's rate, which must be known; at most 100 %.
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let word = words.value()?;
        match word.strip_suffix('%') {
            Some(share) => share_of_link(share, words.link_rate),
            None => scaled(word, rate_factor).map(Self).ok_or(Refusal::NotSuch),
        }
    }
}

/// Returns `percent` of the link's rate, rounded to the nearest byte per second.
fn share_of_link(percent: &str, link: Option<Rate>) -> Result<Rate, Refusal> {
    let (mantissa, places, suffix) = number(percent).ok_or(Refusal::NotSuch)?;
    if !suffix.is_empty() {
        return Err(Refusal::NotSuch);
    }
    let whole = 100 * 10u128.pow(places);
    if mantissa > whole {
        return Err(Refusal::because(ErrorKind::OutOfRange, "at most 100% of the link's rate", None));
    }
    let Some(link) = link else {
        let hint = "give an absolute rate, as in 10mbit, or give the rate of the link";
        return Err(Refusal::because(ErrorKind::NoLinkRate, "a link whose rate is known", Some(hint)));
    };
    let rate = (u128::from(link.0) * mantissa + whole / 2) / whole;
    u64::try_from(rate).map(Rate).map_err(|_| Refusal::NotSuch)
}

/// Reads a size that may be followed by a cell, `5kb/8` (tc-tbf(8), "burst"): a power of two up to
/// 128. The cell only shaped the table of transmission times that tc once gave to the kernel; it is
/// checked and has no effect.
#[doc(hidden)]
pub(crate) fn take_with_cell<V: Value>(words: &mut Words<'_>) -> Result<V, Refusal> {
    let word = words.value()?;
    let Some((size, cell)) = word.split_once('/') else { return V::take(&mut Words::new(&[word])) };
    let is_cell = |n: u32| n.is_power_of_two() && n <= CELL_MAX;
    if !cell.parse().is_ok_and(is_cell) {
        let expected = "a cell that is a power of two from 1 to 128";
        return Err(Refusal::because(ErrorKind::BadValue, expected, None));
    }
    V::take(&mut Words::new(&[size]))
}

/// Largest cell of a rate table.
const CELL_MAX: u32 = 128;

impl Show for Bytes {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        // Mb and Kb only where they lose little: less than 1 KiB, or less than 16 bytes.
        let near = |unit: u64, slack: u64| {
            let n = (self.0 + unit / 2) / unit;
            (self.0 >= unit && (n * unit).abs_diff(self.0) < slack).then_some(n)
        };
        match (near(1 << 20, 1 << 10), near(1 << 10, 16)) {
            (Some(n), _) => write!(f, "{n}Mb"),
            (_, Some(n)) => write!(f, "{n}Kb"),
            _ => write!(f, "{}b", self.0),
        }
    }
    fn exact(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{}b", self.0)
    }
    fn json(&self) -> Json {
        Json::Uint(self.0)
    }
}

impl Value for Bytes {
    const EXPECTED: &'static str = "a size (1600, 32kb, 4mb; bare: bytes)";
    const QUANTITY: Quantity = Quantity::Bytes;
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        scaled(words.value()?, size_factor).map(Self).ok_or(Refusal::NotSuch)
    }
}

impl Show for Packets {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{}p", self.0)
    }
    fn json(&self) -> Json {
        Json::Uint(u64::from(self.0))
    }
}

impl Value for Packets {
    const EXPECTED: &'static str = "a number of packets";
    const QUANTITY: Quantity = Quantity::Packets;
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let w = words.value()?;
        Ok(Self(w.strip_suffix('p').unwrap_or(w).parse()?))
    }
}

impl Show for Nanos {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        let us = self.0 / 1_000;
        let (unit, name) = match us {
            1_000_000.. => (1_000_000, "s"),
            1_000.. => (1_000, "ms"),
            _ => return write!(f, "{us}us"),
        };
        significant(f, us, unit, 3)?;
        f.write_str(name)
    }
    fn exact(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{}ns", self.0)
    }
    fn json(&self) -> Json {
        Json::Uint(self.0 / 1_000)
    }
}

impl Value for Nanos {
    const EXPECTED: &'static str = "a time (5ms, 100us, 2s; bare: microseconds)";
    const QUANTITY: Quantity = Quantity::Time;
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        scaled(words.value()?, time_factor).map(Self).ok_or(Refusal::NotSuch)
    }
}

/// Implements whole numbers as parameter types.
macro_rules! whole {
    ($($number:ty: $expected:literal,)*) => { $(
        impl Show for $number {
            fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
                write!(f, "{self}")
            }
            fn json(&self) -> Json {
                Json::Uint(u64::from(*self))
            }
        }

        impl Value for $number {
            const EXPECTED: &'static str = $expected;
            fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
                Ok(words.value()?.parse()?)
            }
        }
    )* };
}

whole! {
    u16: "a whole number up to 65535",
    u32: "a whole number",
    u64: "a whole number of up to 64 bits",
}

impl Show for i32 {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{self}")
    }
    fn json(&self) -> Json {
        Json::Int(i64::from(*self))
    }
}

impl Value for i32 {
    const EXPECTED: &'static str = "a whole number that may be below 0";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        Ok(words.value()?.parse()?)
    }
}

/// An on/off parameter. In text it is one of two words, declared with the parameter.
impl Show for bool {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        f.write_str(if *self { "on" } else { "off" })
    }
    fn json(&self) -> Json {
        Json::Bool(*self)
    }
}

impl Value for bool {
    const EXPECTED: &'static str = "on or off";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        match words.value()? {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(Refusal::NotSuch),
        }
    }
}

impl<T: Show> Show for Option<T> {
    fn is_set(&self) -> bool {
        self.is_some()
    }
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        self.as_ref().map_or(Ok(()), |v| v.text(f))
    }
    fn exact(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        self.as_ref().map_or(Ok(()), |v| v.exact(f))
    }
    fn json(&self) -> Json {
        self.as_ref().map_or(Json::Bool(false), Show::json)
    }
}

impl<T: Value> Value for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;
    const QUANTITY: Quantity = T::QUANTITY;
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        T::take(words).map(Some)
    }
}

/// Returns `value.text` as a `String`.
pub fn text_of(value: &dyn Show) -> String {
    let mut s = String::new();
    // Writing into a String cannot fail.
    let _ = value.text(&mut s);
    s
}

/// Returns `value.exact` as a `String`.
pub fn exact_of(value: &dyn Show) -> String {
    let mut s = String::new();
    // Writing into a String cannot fail.
    let _ = value.exact(&mut s);
    s
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read<T: Value>(s: &str) -> Option<T> {
        T::take(&mut Words::new(&[s])).ok()
    }

    #[test]
    fn rates_as_tc_reads_and_prints_them() {
        for (given, bytes, shown) in [
            ("10", 1, "8bit"),
            ("10mbit", 1_250_000, "10Mbit"),
            ("1.5Gbit", 187_500_000, "1500Mbit"),
            ("100kbps", 100_000, "800Kbit"),
            ("1kibit", 128, "1024bit"),
            ("1mibps", 1 << 20, "8388Kbit"),
            ("1tbit", 125_000_000_000, "1Tbit"),
            ("1.5bps", 1, "8bit"),
            ("15", 1, "8bit"),
            ("0.5bps", 0, "0bit"),
        ] {
            let r = read::<Rate>(given).unwrap_or_else(|| panic!("{given}"));
            assert_eq!((r.0, text_of(&r).as_str()), (bytes, shown), "{given}");
        }
        for bad in ["", "mbit", "10mbitt", "1..5mbit", "-1mbit", "10 mbit", "99999999999999999999tbit", "1e3"]
        {
            assert_eq!(read::<Rate>(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn shares_of_the_link_as_tc_reads_them() {
        let of = |link: u64, s: &str| Rate::take(&mut Words::new(&[s]).link_rate(Rate(link))).ok();
        for (link, given, bytes) in [
            (125_000_000, "50%", 62_500_000),
            (125_000_000, "100%", 125_000_000),
            (125_000_000, "0.5%", 625_000),
            (125_000_000, "12.345%", 15_431_250),
            (125_000_000, "0%", 0),
            (u64::MAX, "100.000%", u64::MAX),
            (3, "50%", 2),
        ] {
            assert_eq!(of(link, given), Some(Rate(bytes)), "{given} of {link}");
        }
        for bad in ["%", "50%%", "50mbit%", "-1%", "1e1%", "100.1%", "99999999999999999999%"] {
            assert_eq!(of(1000, bad), None, "{bad}");
        }
        let why = |s: &str| match Rate::take(&mut Words::new(&[s])) {
            Err(Refusal::Because { kind, .. }) => Some(kind),
            Err(Refusal::NotSuch) => None,
            Ok(rate) => panic!("{s} is {rate:?}"),
        };
        assert_eq!(why("50%"), Some(ErrorKind::NoLinkRate));
        assert_eq!(why("101%"), Some(ErrorKind::OutOfRange));
        assert_eq!(why("50x%"), None);
    }

    #[test]
    fn a_cell_is_checked_and_has_no_effect() {
        let size = |s: &str| take_with_cell::<Bytes>(&mut Words::new(&[s])).ok();
        for given in ["5kb", "5kb/1", "5kb/8", "5kb/128"] {
            assert_eq!(size(given), Some(Bytes(5120)), "{given}");
        }
        for bad in ["5kb/", "5kb/0", "5kb/3", "5kb/256", "5kb/8/8", "/8", "5kb/-8", "5kb/8b"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_as_tc_reads_and_prints_them() {
        for (given, bytes, shown) in [
            ("1600", 1600, "1600b"),
            ("32kb", 32_768, "32Kb"),
            ("5k", 5_120, "5Kb"),
            ("4mb", 4 << 20, "4Mb"),
            ("1gb", 1 << 30, "1024Mb"),
            ("8kbit", 1024, "1Kb"),
        ] {
            let b = read::<Bytes>(given).unwrap_or_else(|| panic!("{given}"));
            assert_eq!((b.0, text_of(&b).as_str()), (bytes, shown), "{given}");
        }
        assert_eq!(read::<Bytes>("1kbyte"), None);
    }

    #[test]
    fn times_as_tc_reads_and_prints_them() {
        for (given, ns, shown) in [
            ("5ms", 5_000_000, "5ms"),
            ("100", 100_000, "100us"),
            ("1.5s", 1_500_000_000, "1.5s"),
            ("4999us", 4_999_000, "5ms"),
            ("12.34ms", 12_340_000, "12.3ms"),
            ("250usecs", 250_000, "250us"),
        ] {
            let t = read::<Nanos>(given).unwrap_or_else(|| panic!("{given}"));
            assert_eq!((t.0, text_of(&t).as_str()), (ns, shown), "{given}");
        }
    }

    #[test]
    fn hexadecimal_numbers_as_tc_reads_and_prints_them() {
        for (given, n, shown) in
            [("10", 16, "0x10"), ("0xfF", 255, "0xff"), ("0", 0, "0"), ("ffffffff", u32::MAX, "0xffffffff")]
        {
            let hex = read::<Hex>(given).unwrap_or_else(|| panic!("{given}"));
            assert_eq!((hex.0, text_of(&hex).as_str()), (n, shown), "{given}");
        }
        for bad in ["", "0x", "+1", "-1", "g", "100000000", "1 "] {
            assert_eq!(read::<Hex>(bad), None, "{bad:?}");
        }
        assert_eq!(
            (Hex(0x1_0010).minor(), read::<u16>("65535"), read::<u16>("65536")),
            (0x10, Some(65_535), None)
        );
    }

    #[test]
    fn priomap_takes_only_its_numbers() {
        let words = ["1", "2", "2", "bands"];
        let mut w = Words::new(&words);
        assert_eq!(PrioMap::take(&mut w).map(|m| m.0[..4].to_vec()), Ok([1, 2, 2, 0].to_vec()));
        assert_eq!(w.peek(), Some("bands"));
    }

    #[test]
    fn masks_bare_nanoseconds_and_triples() {
        for (given, mask) in
            [("1023", 1023), ("0x3ff", 1023), ("4294967295", u32::MAX), ("0xffffffff", u32::MAX)]
        {
            assert_eq!(read::<Mask>(given), Some(Mask(mask)), "{given}");
        }
        for bad in ["", "0x", "0x+1", "ff", "4294967296", "-1"] {
            assert_eq!(read::<Mask>(bad), None, "{bad}");
        }
        for (given, ns, shown) in [
            ("100", 100, "100ns"),
            ("4.5us", 4_500, "4.5us"),
            ("10us", 10_000, "10us"),
            ("0", 0, "0ns"),
            ("2ms", 2_000_000, "2ms"),
        ] {
            let t = read::<NanosBare>(given).unwrap_or_else(|| panic!("{given}"));
            assert_eq!((t.0, text_of(&t).as_str(), t.json()), (ns, shown, Json::Uint(ns)), "{given}");
        }
        let triple = |words: &[&str]| Triple::take(&mut Words::new(words)).ok();
        assert_eq!(triple(&["1", "2", "3", "4"]), Some(Triple([1, 2, 3])));
        assert_eq!((triple(&["1", "2"]), triple(&["1", "x", "3"])), (None, None));
    }

    proptest! {
        #[test]
        fn no_text_panics(s in ".{0,24}") {
            let _ = (read::<Rate>(&s), read::<Bytes>(&s), read::<Nanos>(&s), read::<Packets>(&s), read::<PrioMap>(&s));
        }

        // Printed text reads back as the same value wherever it keeps all digits.
        #[test]
        fn whole_kilobits_round_trip(k in 1u64..4_000_000) {
            let r = Rate(k * 125);
            prop_assert_eq!(read::<Rate>(&text_of(&r)).map(|r| text_of(&r)), Some(text_of(&r)));
        }

        #[test]
        fn exact_text_round_trips(n in any::<u64>(), t in any::<u32>()) {
            prop_assert_eq!(read::<Rate>(&exact_of(&Rate(n))), Some(Rate(n)));
            prop_assert_eq!(read::<Bytes>(&exact_of(&Bytes(n))), Some(Bytes(n)));
            prop_assert_eq!(read::<Nanos>(&exact_of(&Nanos(n))), Some(Nanos(n)));
            prop_assert_eq!(read::<Packets>(&exact_of(&Packets(t))), Some(Packets(t)));
        }
    }
}
