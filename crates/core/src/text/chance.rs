//! Probabilities as tc writes them: `Probability` as a fraction of one, `Percent` as a fraction of
//! a hundred.

use core::fmt;

use crate::base::chance::{Percent, Probability};
use crate::text::value::{Json, Refusal, Show, Value, Words, decimal, exact_of, fraction};

/// Decimal places that distinguish all multiples of 2^-32.
const PLACES: u32 = 12;

impl Show for Probability {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        // Searches for the shortest text that truncates to the same value.
        let units = u128::from(self.0);
        for places in 0..=PLACES {
            let one = 10u128.pow(places);
            let digits = (units * one).div_ceil(1 << 32);
            if places == PLACES || (digits << 32) / one == units {
                return decimal(f, digits, places);
            }
        }
        Ok(())
    }
    fn json(&self) -> Json {
        Json::Number(exact_of(self))
    }
}

impl Value for Probability {
    const EXPECTED: &'static str = "a probability (0.02)";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        fraction(words.value()?)
            .and_then(|(mantissa, den)| Some(mantissa.checked_mul(1 << 32)? / den))
            .and_then(|units| u64::try_from(units).ok().map(Self))
            .ok_or(Refusal::NotSuch)
    }
}

/// Decimal places of a percentage that distinguish all units after rounding.
const PERCENT_PLACES: u32 = 9;

impl Show for Percent {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        let (all, units) = (u128::from(u32::MAX), u128::from(self.0));
        // Searches for the shortest text that reads back as the same value.
        for places in 0..=PERCENT_PLACES {
            let one = 10u128.pow(places + 2);
            let digits = (units * one + all / 2) / all;
            if places == PERCENT_PLACES || (digits * all + one / 2) / one == units {
                decimal(f, digits, places)?;
                break;
            }
        }
        f.write_char('%')
    }
    fn json(&self) -> Json {
        Json::Text(exact_of(self))
    }
}

impl Value for Percent {
    const EXPECTED: &'static str = "a percentage (1%, 0.5%), at most 100%";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let word = words.value()?;
        fraction(word.strip_suffix('%').unwrap_or(word))
            .and_then(|(mantissa, den)| Some((mantissa.checked_mul(u128::from(u32::MAX))?, den * 100)))
            .and_then(|(mantissa, den)| u32::try_from((mantissa + den / 2) / den).ok().map(Self))
            .ok_or(Refusal::NotSuch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::text_of;

    fn read(word: &str) -> Option<u64> {
        Probability::take(&mut Words::new(&[word])).ok().map(|p| p.0)
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

    #[test]
    fn percentages_are_rounded_as_tc_does_and_read_back_the_same() {
        let read = |word: &str| Percent::take(&mut Words::new(&[word])).ok().map(|p| p.0);
        for (word, units) in [
            ("1%", Some(42_949_673)),
            ("1", Some(42_949_673)),
            ("0.5", Some(21_474_836)),
            ("5%", Some(214_748_365)),
            ("0.00001%", Some(429)),
            ("100%", Some(u32::MAX)),
            ("100.1%", None),
            ("-1%", None),
            ("%", None),
            ("x", None),
        ] {
            assert_eq!(read(word), units, "{word}");
        }
        for units in [0, 1, 2, 3, 42_949_673, 1 << 31, u32::MAX - 1, u32::MAX] {
            assert_eq!(read(&text_of(&Percent(units))), Some(units));
        }
        assert_eq!(text_of(&Percent(42_949_673)), "1%");
    }
}
