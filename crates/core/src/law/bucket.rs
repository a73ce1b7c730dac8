//! Token buckets: the charge for a packet, and the granularity in which tc gives the depth of a
//! bucket to the kernel and takes it back.
//!
//! Tokens are nanoseconds of sending at the bucket's rate.

use crate::base::link::{CELL, CELL_PAYLOAD, LinkLayer};
use crate::base::time::{Instant, Nanos};
use crate::base::units::{Bytes, Rate, RateMul};

/// Size of a packet on the link: extra header, smallest size, cells (tc-tbf(8), tc-stab(8)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizing {
    /// Bytes added to each packet.
    pub overhead: u32,
    /// Smallest size, bytes, after the overhead.
    pub mpu: u32,
    /// Whole packets, or cells.
    pub layer: LinkLayer,
}

impl Sizing {
    /// Returns the bytes charged for a packet of `len` bytes.
    #[inline]
    pub fn size(self, len: u32) -> u64 {
        let size = (u64::from(len) + u64::from(self.overhead)).max(u64::from(self.mpu));
        match self.layer {
            LinkLayer::Ethernet => size,
            LinkLayer::Atm => size.div_ceil(CELL_PAYLOAD) * CELL,
        }
    }
}

/// Returns the tokens that `size` charged bytes cost at a rate.
#[inline]
pub fn cost(rate: RateMul, size: u64) -> i64 {
    to_i64(rate.time_floor(size))
}

/// Returns a time as a signed number of nanoseconds, which can be subtracted.
#[inline]
pub(crate) fn to_i64(t: Nanos) -> i64 {
    i64::try_from(t.0).unwrap_or(i64::MAX)
}

/// A bucket at a rate and an optional second one at a peak rate. A packet conforms if both have the
/// tokens for it. A conforming packet takes its tokens; any other takes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    rate: RateMul,
    depth: i64,
    peak: Option<(RateMul, i64)>,
}

/// Tokens missing in [`Buckets`]. They are kept apart from the buckets, so that the default state
/// is full buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Tokens missing in the bucket of the rate.
    pub rate: u64,
    /// Tokens missing in the bucket of the peak rate.
    pub peak: u64,
    /// Time at which these numbers were right.
    pub at: Instant,
}

impl Buckets {
    /// Returns buckets of these rates and depths, in nanoseconds.
    pub const fn new(rate: RateMul, depth: i64, peak: Option<(RateMul, i64)>) -> Self {
        Self { rate, depth, peak }
    }

    /// Returns the state in which both buckets are empty.
    pub fn empty(&self, at: Instant) -> Spent {
        Spent {
            rate: self.depth.unsigned_abs(),
            peak: self.peak.map_or(0, |(_, depth)| depth.unsigned_abs()),
            at,
        }
    }

    /// Takes the tokens for a packet of `size` charged bytes. False, and takes none, if it does not
    /// conform.
    #[inline]
    pub fn take(&self, spent: &mut Spent, now: Instant, size: u64) -> bool {
        // A long silence brings at most one full bucket of the rate, for the peak rate too, as in
        // the reference.
        let elapsed = to_i64(now.saturating_since(spent.at)).min(self.depth);
        let left = |depth: i64, spent: u64, cost: i64| {
            let spent = i64::try_from(spent).unwrap_or(i64::MAX).min(depth);
            depth.saturating_sub(spent).saturating_add(elapsed).min(depth).saturating_sub(cost)
        };
        let tokens = left(self.depth, spent.rate, cost(self.rate, size));
        let (peak, peak_depth) = match self.peak {
            Some((rate, depth)) => (left(depth, spent.peak, cost(rate, size)), depth),
            None => (0, 0),
        };
        let (Ok(_), Ok(_)) = (u64::try_from(tokens), u64::try_from(peak)) else { return false };
        *spent = Spent { rate: self.depth.abs_diff(tokens), peak: peak_depth.abs_diff(peak), at: now };
        true
    }
}

/// Nanoseconds of one tick of the kernel's packet scheduler clock, as in `/proc/net/psched`.
pub const TICK_NS: u64 = 64;
/// Ticks per microsecond.
const TICKS_PER_US: f64 = 15.625;

/// Returns the depth of a bucket of `size` bytes in ticks, computed as by tc: the time in floating
/// point, cut to whole microseconds, and that cut to ticks. The low 32 bits of both are kept.
pub fn ticks(rate: Rate, size: Bytes) -> u32 {
    // Not the data path. Casts from floating point round towards zero; casts to 32 bits keep the
    // low bits, as in tc.
    let us = (1e6 * (size.0 as f64 / rate.0.max(1) as f64)) as u64 as u32;
    (f64::from(us) * TICKS_PER_US) as u64 as u32
}

/// Returns the size that tc shows for a bucket of `ticks` ticks: whole microseconds at the rate.
pub fn shown_size(rate: Rate, ticks: u64) -> Bytes {
    rate.bytes_floor(Nanos::from_micros(ticks.saturating_mul(TICK_NS) / 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Depths that tc 6.1 gave to a kernel, and the sizes that it showed.
    #[test]
    fn depths_are_those_of_tc() {
        for (bits, size, expected, shown) in [
            (1_000_000, 10_240, 1_280_000, 10_240),
            (10_000_000, 20_480, 256_000, 20_480),
            (6_000_000, 1_600, 33_328, 1_599),
            (1_000_000_000, 1_600, 187, 1_375),
            (2_000_000_000, 1_600, 93, 1_250),
            (3_000_000_000, 15_360, 625, 15_000),
            (8_000_000_000, 1_601, 15, 0),
            (3_000, 10_240, 426_666_656, 10_239),
            (3_000, 9_000, 375_000_000, 9_000),
            // Beyond 32 bits of ticks, and of microseconds.
            (8, 1_600, 3_525_163_520, 225),
            (1_000_000, 4_294_967_295, 2_684_354_435, 21_474_835),
        ] {
            let rate = Rate::from_bits(bits);
            let depth = ticks(rate, Bytes(size));
            assert_eq!((depth, shown_size(rate, depth.into()).0), (expected, shown), "{size} at {bits}");
        }
    }

    /// A second of silence after empty buckets: 8 ms of tokens for either rate, which is the depth
    /// of the first bucket and less than that of the second.
    #[test]
    fn a_silence_brings_no_more_than_the_bucket_of_the_rate() {
        let ms = |n: i64| n * 1_000_000;
        let rate = |bytes| RateMul::new(Rate(bytes));
        let buckets = Buckets::new(rate(1_000_000), ms(8), Some((rate(2_000_000), ms(20))));
        let mut spent = buckets.empty(Instant::ZERO);
        let now = Instant::from_secs(1);
        assert!(!buckets.take(&mut spent, now, 8001));
        assert!(buckets.take(&mut spent, now, 8000));
        // The packet takes 8 ms at the rate and 4 ms at the peak rate.
        let missing = |ms: i64| ms.unsigned_abs();
        assert_eq!(spent, Spent { rate: missing(ms(8)), peak: missing(ms(20 - 8 + 4)), at: now });
    }

    #[test]
    fn a_packet_is_charged_what_the_link_makes_of_it() {
        let plain = Sizing::default();
        let atm = Sizing { overhead: 8, mpu: 64, layer: LinkLayer::Atm };
        assert_eq!((plain.size(60), plain.size(0), plain.size(u32::MAX)), (60, 0, 0xffff_ffff));
        assert_eq!((atm.size(40), atm.size(88), atm.size(89)), (106, 106, 159));
    }
}
