//! Time between the completions of a device.

use crate::base::time::{Instant, Nanos};

/// Weight of a new sample in the smoothed completion interval is 1/8, the weight of a round-trip
/// sample in RFC 6298 section 2.3.
const INTERVAL_SHIFT: u32 = 3;

/// Smoothed time between completions while the device has work.
///
/// A sample runs from the previous completion, or from the post that ended an idle time if that is
/// later: idle time is not mistaken for coalescing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cadence {
    /// Time at which the device last went from idle to busy, or last completed something.
    pub(super) busy_since: Instant,
    /// The smoothed interval in ns, times eight; zero before the first sample.
    scaled: u64,
}

impl Cadence {
    pub(super) const fn new(now: Instant) -> Self {
        Self { busy_since: now, scaled: 0 }
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.busy_since = now;
    }

    pub(super) fn completed(&mut self, now: Instant) {
        // Held below 2^60 ns (36 years) so that the scaled value fits, and above zero, which means
        // "no sample".
        let sample = now.saturating_since(self.busy_since).as_nanos().clamp(1, 1 << 60);
        self.busy_since = now;
        self.scaled = match self.scaled {
            0 => sample << INTERVAL_SHIFT,
            scaled => scaled - (scaled >> INTERVAL_SHIFT) + sample,
        };
    }

    pub(super) const fn interval(&self) -> Option<Nanos> {
        match self.scaled {
            0 => None,
            scaled => Some(Nanos::from_nanos(scaled >> INTERVAL_SHIFT)),
        }
    }
}
