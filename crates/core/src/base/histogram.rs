//! `Histogram`: how often a time was how long, by powers of two. Its memory is fixed, and to count
//! a time takes a shift, the place of the highest bit and two additions.

use crate::base::time::Nanos;

/// Counts of times by length: bucket 0 has those below 1024 ns, and each further bucket those below
/// twice the bound of the one before; the last one has all that are longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; Self::BUCKETS],
    sum: u64,
}

impl Histogram {
    /// Number of buckets. The last one with a bound ends at 8.6 s.
    pub const BUCKETS: usize = 25;
    /// The bound of bucket 0 is two to this power, nanoseconds: a clock is read in some 40 ns, and
    /// a loop of packets turns in some hundreds.
    const FIRST: u32 = 10;

    /// Counts a time.
    #[inline]
    pub const fn add(&mut self, time: Nanos) {
        if time.0 < 1 << Self::FIRST {
            // Most times of a direct way: no bit is looked for.
            self.buckets[0] += 1;
        } else {
            // At most 54, so that the cast keeps it.
            let bits = (time.0.ilog2() - Self::FIRST + 1) as usize;
            let bucket = if bits < Self::BUCKETS { bits } else { Self::BUCKETS - 1 };
            self.buckets[bucket] += 1;
        }
        self.sum = self.sum.saturating_add(time.0);
    }

    /// Returns the number of times counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of the times counted.
    #[must_use]
    pub const fn sum(&self) -> Nanos {
        Nanos(self.sum)
    }

    /// Iterates over the buckets: the time below which all times of the bucket are, `None` for the
    /// last one, and their number.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Nanos>, u64)> + '_ {
        self.buckets.iter().enumerate().map(|(at, count)| {
            let bound = (at + 1 < Self::BUCKETS).then(|| Nanos(1 << (Self::FIRST as usize + at)));
            (bound, *count)
        })
    }

    /// Returns a time below which at least `percent` of the times counted are: the bound of a
    /// bucket, so less than twice the exact value, or 1024 ns. `None` if there is no such bound:
    /// nothing was counted, or the last bucket has some of them.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Option<Nanos> {
        let wanted = (u128::from(self.count()) * u128::from(percent)).div_ceil(100);
        let mut below = 0;
        self.buckets()
            .find(|(_, count)| {
                below += u128::from(*count);
                below > 0 && below >= wanted
            })
            .and_then(|(bound, _)| bound)
    }

    /// Returns the counts of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut both = *self;
        for (count, more) in both.buckets.iter_mut().zip(&other.buckets) {
            *count += more;
        }
        both.sum = both.sum.saturating_add(other.sum);
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn of(times: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        times.iter().for_each(|time| histogram.add(Nanos(*time)));
        histogram
    }

    #[test]
    fn a_time_is_in_the_bucket_that_ends_above_it() {
        for (time, bound) in [
            (0, Some(1024)),
            (1023, Some(1024)),
            (1024, Some(2048)),
            (2047, Some(2048)),
            (2048, Some(4096)),
            (1_000_000, Some(1 << 20)),
            ((1 << 33) - 1, Some(1 << 33)),
            (1 << 33, None),
            (u64::MAX, None),
        ] {
            let histogram = of(&[time]);
            let found: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
            assert_eq!(found, [(bound.map(Nanos), 1)], "{time}");
            assert_eq!((histogram.count(), histogram.sum()), (1, Nanos(time)));
        }
    }

    #[test]
    fn percentiles_are_bounds_of_buckets() {
        assert_eq!(of(&[]).percentile(50), None);
        let all = of(&[[500; 50].as_slice(), &[3000; 49], &[1 << 40]].concat());
        let percentiles = [0, 50, 51, 99, 100].map(|p| all.percentile(p).map(|time| time.0));
        assert_eq!(percentiles, [Some(1024), Some(1024), Some(4096), Some(4096), None]);
        let both = all.plus(&of(&[500; 100]));
        assert_eq!((both.count(), both.percentile(75)), (200, Some(Nanos(1024))));
        assert_eq!(both.sum(), Nanos(150 * 500 + 49 * 3000 + (1 << 40)));
    }
}
