//! A rate kept by times, in whole nanoseconds: the generic cell rate algorithm (ITU-T I.371), the
//! equivalent of a token bucket.

use crate::base::time::{Instant, Nanos};
use crate::base::units::Rate;

/// State of a rate: the time at which the next unit is due.
///
/// A queue that had to wait may catch up by one unit: its own, or the longest that the line has
/// sent, which may have caused the wait. So over any time it is at most two units ahead of its
/// rate, and one behind it in the long run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gate {
    rate: Option<Rate>,
    due: Instant,
    /// Remainder of the last division.
    remainder: u64,
}

impl Gate {
    pub(super) const fn new(rate: Option<Rate>) -> Self {
        Self { rate, due: Instant::ZERO, remainder: 0 }
    }
    /// Returns the rate; without one no unit is late or early.
    pub(super) const fn rate(&self) -> Option<Rate> {
        self.rate
    }
    /// True if there is a rate.
    pub(super) const fn is_set(&self) -> bool {
        self.rate.is_some()
    }
    /// Returns the time at which the next unit is due.
    pub(super) const fn due(&self) -> Instant {
        self.due
    }
    /// Returns a gate with the same past and another rate.
    pub(super) fn at_rate(self, rate: Option<Rate>) -> Self {
        match rate {
            _ if self.rate == rate => self,
            None => Self::default(),
            Some(_) => Self { rate, remainder: 0, ..self },
        }
    }
    /// Charges a unit that starts at `now`. `longest` is the time on the line of the longest unit
    /// so far.
    pub(super) fn charge(&mut self, now: Instant, bytes: u64, longest: Nanos) {
        let Some(rate) = self.rate else { return };
        let ns = u128::from(bytes) * 1_000_000_000 + u128::from(self.remainder);
        let (time, rest) = (ns / u128::from(rate.0), ns % u128::from(rate.0));
        // The remainder is below the rate, which has 64 bits.
        self.remainder = rest as u64;
        let time = Nanos(u64::try_from(time).unwrap_or(u64::MAX));
        self.due = self.due.max(now - time.max(longest)) + time;
    }
}
