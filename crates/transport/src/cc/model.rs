//! Measures of both versions of BBR: a bandwidth in fixed point, its maximum over a window, and
//! round trips counted by deliveries.

use crate::flow::{Flow, RateSample};

/// A gain of 1: gains are counted in 1/256.
pub(super) const UNIT: u32 = 256;
/// Binary logarithm of the unit of segments per microsecond, so that 1 segment per second is still
/// above 0.
const SHIFT: u32 = 24;
/// Margin, in percent, by which BBR paces below its estimate, so that a queue drains in the long
/// run.
const MARGIN_PERCENT: u128 = 1;

/// A bandwidth in segments per microsecond, times 2^24.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bandwidth(pub(super) u64);

impl Bandwidth {
    /// A bandwidth above any sample.
    pub(super) const MAX: Self = Self(u64::MAX);

    /// Returns `segments` per `us`; zero for an empty interval.
    pub(super) const fn of(segments: u64, us: u64) -> Self {
        match (segments << SHIFT).checked_div(us) {
            Some(n) => Self(n),
            None => Self(0),
        }
    }

    /// Returns the bandwidth of a rate sample, if it has one.
    pub(super) fn sampled(sample: &RateSample) -> Option<Self> {
        sample
            .delivered
            .filter(|_| sample.interval_us > 0)
            .map(|n| Self::of(u64::from(n), sample.interval_us))
    }

    /// Returns the number of whole segments that the bandwidth delivers in `us`.
    pub(super) fn segments(self, us: u64) -> u64 {
        narrow((u128::from(self.0) * u128::from(us)) >> SHIFT)
    }

    /// Returns `gain` times the segments that the bandwidth delivers in `us`, rounded up.
    pub(super) fn product(self, us: u32, gain: u32) -> u32 {
        let scaled = (u128::from(self.0) * u128::from(us) * u128::from(gain)) / u128::from(UNIT);
        u32::try_from(scaled.div_ceil(1 << SHIFT)).unwrap_or(u32::MAX)
    }

    /// Returns `gain` times the bandwidth, less the margin, in byte/s, for segments of `mss` bytes
    /// of payload.
    pub(super) fn pacing_rate(self, gain: u32, mss: u32) -> u64 {
        let bytes = (u128::from(self.0) * u128::from(mss) * u128::from(gain)) / u128::from(UNIT);
        narrow((bytes * (1_000_000 / 100 * (100 - MARGIN_PERCENT))) >> SHIFT)
    }

    /// Returns the bandwidth times a fraction of two small numbers.
    pub(super) fn part(self, of: u64, whole: u64) -> Self {
        Self(narrow(u128::from(self.0) * u128::from(of) / u128::from(whole.max(1))))
    }
}

fn narrow(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// The maximum over a sliding window by Kathleen Nichols' method: the best value, and the best
/// values of later parts of the window. Time is any count that does not decrease.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowMax {
    /// (time, value), the oldest and largest first.
    best: [(u64, u64); 3],
}

impl WindowMax {
    /// Returns the maximum.
    pub(super) const fn get(&self) -> u64 {
        self.best[0].1
    }

    /// Takes a value; values older than `span` are dropped.
    pub(super) fn take(&mut self, now: u64, span: u64, value: u64) {
        let new = (now, value);
        let age = |b: (u64, u64)| now.saturating_sub(b.0);
        if value >= self.best[0].1 || age(self.best[2]) > span {
            self.best = [new; 3];
            return;
        }
        if value >= self.best[1].1 {
            self.best[1] = new;
            self.best[2] = new;
        } else if value >= self.best[2].1 {
            self.best[2] = new;
        }
        if age(self.best[0]) > span {
            // The best value is too old; the second may be as well.
            for _ in 0..2 {
                if age(self.best[0]) > span {
                    self.best = [self.best[1], self.best[2], new];
                }
            }
        } else if self.best[1].0 == self.best[0].0 && age(self.best[0]) > span / 4 {
            // There is no second value after a quarter of the window: the second quarter gives one.
            self.best[1] = new;
            self.best[2] = new;
        } else if self.best[2].0 == self.best[1].0 && age(self.best[0]) > span / 2 {
            self.best[2] = new;
        }
    }
}

/// Round trips by deliveries: a round trip ends when data is acknowledged that was sent after it
/// began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    /// Number of round trips that have ended.
    pub(super) count: u64,
    /// True if the acknowledgement at hand ends a round trip.
    pub(super) start: bool,
    end: u64,
}

impl Rounds {
    /// Begins a round trip now.
    pub(super) const fn restart(&mut self, flow: &Flow) {
        self.end = flow.delivered;
    }

    /// Takes the sample of an acknowledgement that delivered segments.
    pub(super) const fn take(&mut self, flow: &Flow, sample: &RateSample) {
        self.start = sample.prior_delivered >= self.end;
        if self.start {
            self.restart(flow);
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 segments in 40 ms are 10 * 2^24 / 40000 = 4194.3; the first pacing rate of draft section
    /// 4.2.1 with a gain of 739/256 and segments of 1448 bytes is 0.99 * 2.8867 * 10 * 1448 B / 40
    /// ms = 1.0345 MB/s.
    #[test]
    fn fixed_point() {
        let b = Bandwidth::of(10, 40_000);
        assert_eq!(b, Bandwidth(4194));
        assert_eq!(b.pacing_rate(739, 1448), 1_034_467);
        assert_eq!(b.segments(100_000), 24, "24.998 of them, rounded down");
        assert_eq!(b.product(40_000, 2 * UNIT), 20, "19.998 of them, rounded up");
        assert_eq!(Bandwidth::of(5, 0), Bandwidth(0));
        assert_eq!(Bandwidth(u64::MAX).pacing_rate(UNIT, 1448), u64::MAX);
    }

    #[test]
    fn the_maximum_is_forgotten_after_the_window() {
        let mut m = WindowMax::default();
        m.take(0, 10, 100);
        for round in 1..=10 {
            m.take(round, 10, 50 - round);
            assert_eq!(m.get(), 100, "{round}");
        }
        // The second best is the best of the second quarter of the window: rounds 3 and later.
        m.take(11, 10, 30);
        assert_eq!(m.get(), 47);
    }
}
