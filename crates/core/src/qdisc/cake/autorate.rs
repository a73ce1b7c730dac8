//! Estimate of the rate of arrivals, for a shaper that follows it: packets are counted between gaps
//! that are longer than usual, so that the estimate is of the bottleneck in front and not of its
//! bursts.

use crate::base::time::{Instant, Nanos};
use crate::base::units::Rate;

/// A gap counts as at most this long.
const GAP_MAX: Nanos = Nanos::from_secs(1);
/// Least time between two changes of the shaper.
const SET_EVERY: Nanos = Nanos::from_millis(250);

/// Returns a moving mean that a sample enters with a weight of one in `1 << shift`.
pub const fn mean(old: u64, sample: u64, shift: u32) -> u64 {
    old - (old >> shift) + (sample >> shift)
}

/// Returns a moving mean with a sample weight of 1 in 4 if `quick`, else of 1 in 256.
pub(crate) const fn lopsided(old: u64, sample: u64, quick: bool) -> u64 {
    mean(old, sample, if quick { 2 } else { 8 })
}

/// The estimate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Estimate {
    last: Option<Instant>,
    /// Mean gap, ns.
    gap: u64,
    window: Option<Instant>,
    window_bytes: u64,
    /// Estimated rate, bytes per second: it rises quickly and falls slowly.
    peak: u64,
    set: Option<Instant>,
}

impl Estimate {
    /// Returns an estimate that starts at a given rate.
    pub fn new(rate: Rate) -> Self {
        Self { peak: rate.0, ..Self::default() }
    }
    /// Returns the estimated rate of the bottleneck.
    pub const fn peak(&self) -> Rate {
        Rate(self.peak)
    }
    /// Counts an arrival while the shaper follows; returns the rate to set, if it is time.
    pub fn arrived(&mut self, bytes: i64, now: Instant) -> Option<Rate> {
        self.window_bytes = self.window_bytes.saturating_add_signed(bytes);
        let gap = self.last.map_or(GAP_MAX, |last| now.saturating_since(last)).0.min(GAP_MAX.0);
        self.gap = lopsided(self.gap, gap, gap > self.gap);
        self.last = Some(now);
        if gap <= self.gap {
            return None;
        }
        // Before the first window the span is unbounded.
        let span = self.window.map_or(u64::MAX, |window| now.saturating_since(window).0.max(1));
        let rate = u128::from(self.window_bytes) * 1_000_000_000 / u128::from(span);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.peak = lopsided(self.peak, rate, rate > self.peak);
        (self.window_bytes, self.window) = (0, Some(now));
        if self.set.is_some_and(|set| now.saturating_since(set) <= SET_EVERY) {
            return None;
        }
        self.set = Some(now);
        // The rate is a little below, so that the queue builds here.
        Some(Rate(((u128::from(self.peak) * 15) >> 4) as u64)) // less than the peak
    }
    /// Notes an arrival while the shaper does not follow.
    #[inline]
    pub const fn ignore(&mut self, now: Instant) {
        (self.window_bytes, self.last) = (0, Some(now));
    }
}
