//! `Probability`: a chance as tc writes it as a part of one, held in units of 2^-32.

use core::fmt;

use crate::value::{Json, Show, Value, Words, exact_of, fraction};

/// A chance in units of 2^-32; 2^32 is certainty, and what is above it is for a range to refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probability(pub u64);

impl Probability {
    /// Certainty.
    pub const ONE: Self = Self(1 << 32);
}

/// Decimal places that tell every multiple of 2^-32 from the next.
const PLACES: u32 = 12;

impl Show for Probability {
    /// A decimal fraction, not below it and less than 2^-32 above: read back, it is cut off to the same.
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        let digits = (u128::from(self.0) * 10u128.pow(PLACES)).div_ceil(1 << 32);
        let (whole, part) = (digits / 10u128.pow(PLACES), digits % 10u128.pow(PLACES));
        write!(f, "{whole}")?;
        let (mut part, mut width) = (part, PLACES as usize);
        if part == 0 {
            return Ok(());
        }
        while part % 10 == 0 {
            part /= 10;
            width -= 1;
        }
        write!(f, ".{part:0width$}")
    }
    fn json(&self) -> Json {
        Json::Number(exact_of(self))
    }
}

impl Value for Probability {
    const EXPECTED: &'static str = "a probability (0.02)";
    fn take(words: &mut Words<'_>) -> Option<Self> {
        let (mantissa, den) = fraction(words.take()?)?;
        let units = mantissa.checked_mul(1 << 32)? / den;
        u64::try_from(units).ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::text_of;

    fn read(word: &str) -> Option<u64> {
        Probability::take(&mut Words::new(&[word])).map(|p| p.0)
    }

    #[test]
    fn chances_are_cut_off_as_tc_does_and_read_back_the_same() {
        for (word, units) in [
            ("0.02", Some(85_899_345)),
            ("0.03", Some(128_849_018)),
            ("0.000043", Some(184_683)),
            ("1", Some(1 << 32)),
            ("1.0", Some(1 << 32)),
            ("0", Some(0)),
            ("1.5", Some(3 << 31)),
            ("5%", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(read(word), units, "{word}");
        }
        for units in [0, 1, 2, 3, 12_345, 85_899_345, (1 << 32) - 1, 1 << 32] {
            assert_eq!(read(&text_of(&Probability(units))), Some(units));
        }
        assert_eq!(text_of(&Probability(1 << 31)), "0.5");
    }
}
