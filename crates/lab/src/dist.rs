//! Distributions of times: exact mean and extremes, percentiles to three digits, in bounded memory.

use hdrhistogram::Histogram;
use serde::Serialize;
use txweir_core::Nanos;

/// The longest time that histograms tell apart: a run is rarely longer.
const HOUR: Nanos = Nanos::from_secs(3_600);

/// A distribution of times, to three significant digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Times {
    /// Number of times.
    pub count: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// The 95th percentile.
    pub p95_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Number of times of an hour or more, each of which counts as an hour in the percentiles.
    #[serde(skip_serializing_if = "is_zero")]
    pub hour_or_more: u64,
}

impl Times {
    /// Returns the numbers of a histogram of nanoseconds; `None` if it is empty.
    pub fn of(h: &Histogram<u64>) -> Option<Self> {
        (!h.is_empty()).then(|| Self {
            count: h.len(),
            mean_ns: h.mean().round() as u64,
            p50_ns: h.value_at_quantile(0.5),
            p95_ns: h.value_at_quantile(0.95),
            p99_ns: h.value_at_quantile(0.99),
            max_ns: h.max(),
            hour_or_more: hour_or_more(h),
        })
    }
}

/// True for a number that a report leaves out.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(crate) const fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Returns an empty histogram of nanoseconds from 1 ns to 1 h with three significant digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HOUR.0, 3).unwrap_or_else(|_| unreachable!("valid constant bounds"))
}

/// Adds a time to such a histogram. A time of zero counts as 1 ns, and one beyond an hour as an
/// hour: the histogram itself has places for some longer times, and puts the longest in front of
/// them.
pub(crate) fn record(h: &mut Histogram<u64>, time: Nanos) {
    h.saturating_record(time.0.clamp(1, HOUR.0));
}

/// Returns the number of the times that count as an hour.
fn hour_or_more(h: &Histogram<u64>) -> u64 {
    h.count_at(HOUR.0)
}

/// Most that a share and its product with a number deviate for their roundings, as a part of the
/// product: half a last place each.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// A distribution of times.
#[derive(Clone, Debug)]
pub struct Dist {
    histogram: Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
    zeros: u64,
}

impl Default for Dist {
    fn default() -> Self {
        Self { histogram: histogram(), sum_ns: 0, max_ns: 0, zeros: 0 }
    }
}

impl Dist {
    /// Adds a time.
    #[inline]
    pub fn add(&mut self, time: Nanos) {
        self.sum_ns += u128::from(time.0);
        self.max_ns = self.max_ns.max(time.0);
        // The histogram begins at one nanosecond.
        match time.0 {
            0 => self.zeros += 1,
            _ => record(&mut self.histogram, time),
        }
    }
    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.histogram.len() + self.zeros
    }
    /// Returns the exact sum of the times, in nanoseconds.
    pub const fn sum_ns(&self) -> u128 {
        self.sum_ns
    }
    /// Returns the smallest time that is not exceeded by at least this share (0 to 1) of all times,
    /// to three digits; zero if there are none.
    pub fn quantile(&self, share: f64) -> Nanos {
        // 7 % of 100 times are 7 of them, and not a little more.
        let rank = (share * self.count() as f64 * (1.0 - ROUNDING)).ceil().max(1.0) as u64;
        match rank.checked_sub(self.zeros) {
            None | Some(0) => Nanos::ZERO,
            Some(rank) => {
                // The histogram rounds a share of its times up to a rank: the share lies in the
                // middle between two ranks, which no rounding of it reaches.
                let share = (rank as f64 - 0.5) / self.histogram.len() as f64;
                Nanos(self.histogram.value_at_quantile(share).min(self.max_ns))
            }
        }
    }
    /// Returns the distribution in numbers; `None` if it is empty. The mean and the maximum are
    /// exact.
    pub fn times(&self) -> Option<Times> {
        let count = self.count();
        let mean = (self.sum_ns + u128::from(count) / 2).checked_div(u128::from(count))?;
        Some(Times {
            count,
            mean_ns: u64::try_from(mean).unwrap_or(u64::MAX),
            p50_ns: self.quantile(0.5).0,
            p95_ns: self.quantile(0.95).0,
            p99_ns: self.quantile(0.99).0,
            max_ns: self.max_ns,
            hour_or_more: hour_or_more(&self.histogram),
        })
    }
    /// Returns the time at each whole percent from 0 (the shortest) to 100 (the longest): 101
    /// times, or none if it is empty.
    pub fn percents(&self) -> Vec<u64> {
        let of = |percent: u32| self.quantile(f64::from(percent) / 100.0).0;
        if self.count() == 0 { Vec::new() } else { (0..=100).map(of).collect() }
    }
    /// Adds all times of another distribution.
    pub fn join(&mut self, other: &Self) {
        // Both histograms have the same bounds.
        let _ = self.histogram.add(&other.histogram);
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.zeros += other.zeros;
    }
    /// Removes all times.
    pub fn reset(&mut self) {
        if self.count() > 0 {
            self.histogram.reset();
        }
        (self.sum_ns, self.max_ns, self.zeros) = (0, 0, 0);
    }
}

/// Times since measuring began, and those of the present step of a run.
#[derive(Clone, Debug, Default)]
pub struct Stepped {
    /// Times since measuring began.
    pub whole: Dist,
    /// Times since the step began.
    pub step: Dist,
}

impl Stepped {
    /// Adds a time.
    #[inline]
    pub fn add(&mut self, time: Nanos) {
        self.whole.add(time);
        self.step.add(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_count_and_the_mean_is_exact() {
        let mut d = Dist::default();
        assert_eq!((d.times(), d.quantile(0.5)), (None, Nanos::ZERO));
        (0..100).for_each(|n| d.add(Nanos(n * 1_000_001)));
        let t = d.times().unwrap();
        assert_eq!((t.count, t.mean_ns, t.max_ns), (100, 49_500_050, 99_000_099));
        for (got, exact) in [(t.p50_ns, 49_000_049_u64), (t.p95_ns, 94_000_094), (t.p99_ns, 98_000_098)] {
            assert!(got.abs_diff(exact) <= exact / 1000, "{got} against {exact}");
        }
        let mut zeros = Dist::default();
        (0..99).for_each(|_| zeros.add(Nanos::ZERO));
        zeros.add(Nanos(7));
        assert_eq!((zeros.quantile(0.99), zeros.quantile(1.0)), (Nanos::ZERO, Nanos(7)));
        let percents = zeros.percents();
        assert_eq!((percents.len(), percents[99], percents[100]), (101, 0, 7));
        zeros.reset();
        assert_eq!((zeros.times(), zeros.percents()), (None, Vec::new()));
    }

    /// No longer time counts less than a shorter one.
    #[test]
    fn times_beyond_an_hour_count_as_an_hour() {
        let is_hour = |ns: u64| ns.abs_diff(HOUR.0) <= HOUR.0 / 1000;
        let (mut d, mut h) = (Dist::default(), histogram());
        for seconds in [1, 4_000, 5_000, 9_000] {
            d.add(Nanos::from_secs(seconds));
            record(&mut h, Nanos::from_secs(seconds));
        }
        let t = d.times().unwrap();
        assert_eq!((t.count, t.hour_or_more, t.max_ns), (4, 3, 9_000_000_000_000));
        assert!(d.quantile(0.25) < Nanos::from_secs(2) && is_hour(t.p50_ns) && is_hour(t.p99_ns), "{t:?}");
        let t = Times::of(&h).unwrap();
        assert_eq!((t.count, t.hour_or_more), (4, 3));
        assert!(is_hour(t.p50_ns) && is_hour(t.p99_ns) && is_hour(t.max_ns), "{t:?}");
        (d, h) = (Dist::default(), histogram());
        d.add(Nanos::from_secs(3_500));
        record(&mut h, Nanos::ZERO);
        assert_eq!([d.times(), Times::of(&h)].map(|t| t.map(|t| t.hour_or_more)), [Some(0); 2]);
    }

    /// Of times that the histogram tells apart, a share is the time of its rank: no rounding gives
    /// the next one.
    #[test]
    fn a_share_is_the_time_of_its_rank() {
        for count in 1..=500_u64 {
            let mut d = Dist::default();
            (1..=count).for_each(|n| d.add(Nanos(n)));
            let percents = d.percents();
            for percent in 0..=100_u64 {
                let rank = (count * percent).div_ceil(100).max(1);
                assert_eq!(percents[percent as usize], rank, "{percent} % of {count}");
            }
            let t = d.times().unwrap();
            assert_eq!((t.p50_ns, t.p95_ns), (count.div_ceil(2), (count * 95).div_ceil(100)), "{count}");
        }
    }
}
