//! A gain of a control law as tc writes it.

use core::fmt;

use crate::law::pi2::{GAIN_UNITS, Gain};
use crate::text::value::{Json, Refusal, Show, Value, Words, decimal, exact_of, fraction};

impl Show for Gain {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        // 1/256 is 0.00390625: eight places distinguish all units.
        decimal(f, u128::from(self.0) * 100_000_000 / u128::from(GAIN_UNITS), 8)
    }
    fn json(&self) -> Json {
        Json::Number(exact_of(self))
    }
}

impl Value for Gain {
    const EXPECTED: &'static str = "a gain in Hz (0.16, 3.2), in steps of 1/256";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        fraction(words.value()?)
            .and_then(|(mantissa, den)| Some(mantissa.checked_mul(u128::from(GAIN_UNITS))? / den))
            .and_then(|units| u32::try_from(units).ok().map(Self))
            .ok_or(Refusal::NotSuch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::value::text_of;

    #[test]
    fn gains_are_read_cut_off_and_printed_exactly() {
        let read = |word: &str| Gain::take(&mut Words::new(&[word])).ok().map(|g| g.0);
        for (word, units) in [
            ("0.16", Some(40)),
            ("3.2", Some(819)),
            ("1", Some(256)),
            ("0.9999", Some(255)),
            ("0.003", Some(0)),
            ("8388607", Some(8_388_607 << 8)),
            ("16777216", None),
            ("-1", None),
            ("x", None),
        ] {
            assert_eq!(read(word), units, "{word}");
        }
        assert_eq!(text_of(&Gain(41)), "0.16015625");
        for units in [1, 2, 255, 256, 257, 819, u32::MAX] {
            assert_eq!(read(&text_of(&Gain(units))), Some(units));
        }
    }
}
