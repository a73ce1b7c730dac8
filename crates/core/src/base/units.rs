//! `Bytes`, `Packets`, `Rate`, and the conversions between sizes and times at a rate, with the
//! rounding in the name. The data path divides a size by a rate in one other place, the wire model,
//! which carries the remainder to the next packet.

use crate::base::time::Nanos;

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A number of packets (not of GSO segments).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Packets(pub u32);

/// A rate in bytes per second, as in tc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

const NANOS_PER_SEC: u128 = 1_000_000_000;

impl Rate {
    /// Returns a rate from bits per second, rounded down to whole bytes.
    pub const fn from_bits(bits_per_s: u64) -> Self {
        Self(bits_per_s / 8)
    }
    /// Returns the rate in bits per second (saturating).
    pub const fn bits(self) -> u64 {
        self.0.saturating_mul(8)
    }
    /// Returns the time that `bytes` take at this rate, rounded up (saturating); the maximum at
    /// rate 0.
    pub fn time_ceil(self, bytes: u64) -> Nanos {
        match self.0 {
            0 => Nanos(u64::MAX),
            r => {
                let ns = (u128::from(bytes) * NANOS_PER_SEC).div_ceil(u128::from(r));
                Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
            }
        }
    }
    /// Returns the bytes that pass at this rate in `t`, rounded down (saturating).
    pub(crate) fn bytes_floor(self, t: Nanos) -> Bytes {
        let b = u128::from(self.0) * u128::from(t.0) / NANOS_PER_SEC;
        Bytes(u64::try_from(b).unwrap_or(u64::MAX))
    }
}

/// A rate prepared for the data path: a time is one multiplication and one shift, no division.
///
/// `time = bytes * mult >> shift`. Up to 64 Gbit/s `mult` is a full 32-bit factor, so that its
/// relative error is below 2^-31; above, the error grows with the rate, to below 2^-28 at 400
/// Gbit/s. The time is never too long. This is the reference's arithmetic (tc-tbf(8) names its
/// granularity), so that schedules agree with it to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateMul {
    mult: u32,
    shift: u32,
}

impl RateMul {
    /// Prepares `rate`; rate 0 counts as 1 byte/s.
    pub fn new(rate: Rate) -> Self {
        // mult = floor(10^9 * 2^shift / rate) for the least shift at which it has all 32 bits, or
        // at which the shifted numerator has all 64.
        const SECOND: u64 = 1_000_000_000;
        let rate = rate.0.max(1);
        let least = u128::from(rate) << 31;
        // At this shift both have the same number of bits, so one more is enough.
        let bits = |n: u128| u128::BITS - n.leading_zeros();
        let shift = bits(least).saturating_sub(bits(SECOND.into()));
        let shift = shift + u32::from(u128::from(SECOND) << shift < least);
        let shift = shift.min(SECOND.leading_zeros());
        let mult = (SECOND << shift) / rate;
        Self { mult: u32::try_from(mult).unwrap_or(u32::MAX), shift }
    }

    /// Returns the time for `bytes`, rounded down.
    pub const fn time_floor(self, bytes: u64) -> Nanos {
        if bytes <= u32::MAX as u64 {
            // 64 bits hold the product.
            return Nanos((bytes * self.mult as u64) >> self.shift);
        }
        Nanos(((bytes as u128 * self.mult as u128) >> self.shift) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_at_known_rates() {
        assert_eq!(Rate::from_bits(1_000_000_000).time_ceil(1538), Nanos(12_304));
        assert_eq!(Rate(3).time_ceil(1), Nanos(333_333_334));
        assert_eq!(Rate(0).time_ceil(1), Nanos(u64::MAX));
        assert_eq!(Rate(125_000_000).bytes_floor(Nanos::from_micros(250)), Bytes(31_250));
        assert_eq!(Rate(u64::MAX).bytes_floor(Nanos(u64::MAX)), Bytes(u64::MAX));
    }

    /// Step by step, as the reference finds it.
    #[test]
    fn multiplier_is_the_first_with_all_bits() {
        let by_steps = |rate: u64| {
            let (mut factor, mut shift) = (1_000_000_000_u64, 0);
            while factor / rate < 1 << 31 && factor < 1 << 63 {
                (factor, shift) = (factor << 1, shift + 1);
            }
            (factor / rate, shift)
        };
        for bit in 0..64 {
            for near in [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1, 1_000_000_007 << (bit % 34)] {
                let m = RateMul::new(Rate(near));
                let (mult, shift) = by_steps(near.max(1));
                assert_eq!((u64::from(m.mult), m.shift), (mult.min(u32::MAX.into()), shift), "{near}");
            }
        }
    }

    #[test]
    fn multiplier_stays_within_its_stated_error() {
        for bits in [8, 1_000, 64_000, 1_000_000, 10_000_000, 999_999_937, 10_000_000_000, 400_000_000_000] {
            let rate = Rate::from_bits(bits);
            let m = RateMul::new(rate);
            for bytes in [1u64, 60, 1514, 65_536, 10_000_000] {
                let exact = u128::from(bytes) * NANOS_PER_SEC / u128::from(rate.0);
                let got = u128::from(m.time_floor(bytes).0);
                assert!(got <= exact, "{bits} {bytes}");
                assert!(exact - got <= 1 + (exact >> 30), "{bits} {bytes}: {got} against {exact}");
            }
        }
    }
}
