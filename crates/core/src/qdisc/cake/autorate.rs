//! What the rate of arrivals is, for a shaper that follows it: packets are counted between gaps that are longer than
//! usual, so that what is measured is the bottleneck in front and not its bursts.

use crate::base::time::{Instant, Nanos};
use crate::base::units::Rate;

/// A gap counts as at most this long.
const GAP_MAX: Nanos = Nanos::from_secs(1);
/// The shaper is set anew no more often than this.
const SET_EVERY: Nanos = Nanos::from_millis(250);

/// A moving mean that a sample enters with a weight of one in `1 << shift`.
pub const fn mean(old: u64, sample: u64, shift: u32) -> u64 {
    old - (old >> shift) + (sample >> shift)
}

/// As `mean`, quick (1 in 4) one way and slow (1 in 256) the other.
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
    /// Bytes per second.
    peak: u64,
    set: Option<Instant>,
}

impl Estimate {
    /// At a rate that was given.
    pub fn new(rate: Rate) -> Self {
        Self { peak: rate.0, ..Self::default() }
    }
    /// What arrives at most.
    pub const fn peak(&self) -> Rate {
        Rate(self.peak)
    }
    /// A packet arrives while the shaper follows: the rate to set, if it is time.
    pub fn arrived(&mut self, bytes: i64, now: Instant) -> Option<Rate> {
        self.window_bytes = self.window_bytes.saturating_add_signed(bytes);
        let gap = self.last.map_or(GAP_MAX, |last| now.saturating_since(last)).0.min(GAP_MAX.0);
        self.gap = lopsided(self.gap, gap, gap > self.gap);
        self.last = Some(now);
        if gap <= self.gap {
            return None;
        }
        // Before the first window there was nothing for a long time.
        let span = self.window.map_or(u64::MAX, |window| now.saturating_since(window).0.max(1));
        let rate = u128::from(self.window_bytes) * 1_000_000_000 / u128::from(span);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.peak = lopsided(self.peak, rate, rate > self.peak);
        (self.window_bytes, self.window) = (0, Some(now));
        if self.set.is_some_and(|set| now.saturating_since(set) <= SET_EVERY) {
            return None;
        }
        self.set = Some(now);
        // A little below, so that the queue builds here.
        Some(Rate(((u128::from(self.peak) * 15) >> 4) as u64)) // less than the peak
    }
    /// A packet arrives while it does not.
    #[inline]
    pub const fn ignore(&mut self, now: Instant) {
        (self.window_bytes, self.last) = (0, Some(now));
    }
}
