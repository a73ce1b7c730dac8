//! Times that a law counts in ticks of its own.

use crate::law::codel;
#[cfg(feature = "kinds")]
use crate::law::pie;
use crate::text::value::{Show, Value};

/// Makes a parameter type of the ticks of a law: read as any time, shown as the time that the ticks
/// amount to.
macro_rules! time_in_ticks {
    ($ticks:ty) => {
        impl Show for $ticks {
            fn text(&self, f: &mut dyn core::fmt::Write) -> core::fmt::Result {
                self.as_nanos().text(f)
            }
            fn exact(&self, f: &mut dyn core::fmt::Write) -> core::fmt::Result {
                self.as_nanos().exact(f)
            }
            fn json(&self) -> crate::text::value::Json {
                self.as_nanos().json()
            }
        }

        impl Value for $ticks {
            const EXPECTED: &'static str = crate::base::time::Nanos::EXPECTED;
            const QUANTITY: crate::text::value::Quantity = crate::base::time::Nanos::QUANTITY;
            fn take(words: &mut crate::text::value::Words<'_>) -> Result<Self, crate::text::value::Refusal> {
                crate::base::time::Nanos::take(words).map(Self::span)
            }
        }
    };
}
// 5 ms are 4882 of CoDel's ticks, and show as 4999 us, as in tc.
time_in_ticks!(codel::Ticks);

// 14.999 ms are 234 359 ticks, and show as 14 998 us, as in tc.
#[cfg(feature = "kinds")]
time_in_ticks!(pie::Ticks);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::codel::Ticks;
    use crate::text::value::{Json, Words, exact_of, text_of};
    use proptest::prelude::*;

    fn read(s: &str) -> Option<Ticks> {
        Ticks::take(&mut Words::new(&[s])).ok()
    }

    #[test]
    fn ticks_as_tc_prints_them() {
        assert_eq!(read("5ms"), Some(Ticks(4882)));
        assert_eq!(Ticks(4882).json(), Json::Uint(4999));
        assert_eq!(text_of(&Ticks(4882)), "5ms");
    }

    proptest! {
        #[test]
        fn exact_text_round_trips(t in any::<u32>()) {
            let t = Ticks(t >> 1);
            prop_assert_eq!(read(&exact_of(&t)), Some(t));
        }
    }
}
