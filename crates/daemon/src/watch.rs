//! The watchdog of links: finds an interface that holds frames and finishes none, and goes on
//! without these frames.
//!
//! A completion that is lost stops a byte limit for ever, and a ring that stands still keeps every
//! place of its queue. Linux's watchdog has a driver reset such a device after 5 s, unless the
//! driver names another time (`watchdog_timeo`). Here the frames that the interface holds are lost
//! and counted, and the qdiscs go on. If the interface still finishes nothing, the next frames are
//! lost after another 5 s. So no queue stands for ever.
//!
//! An interface that is down is not watched: its frames leave when it is up again.
//!
//! The links are looked at once a second, also where nothing else is to be done. A look counts a
//! second at most, however much later it is than the one before: a process that was stopped, or a
//! clock that leaps, has not seen its interface stand.

use txweir_core::{Instant, Nanos};

/// Time between two looks.
pub(crate) const LOOK: Nanos = Nanos::from_secs(1);
/// Time for which an interface may hold frames and finish none: Linux's default.
pub(crate) const TIMEOUT: Nanos = Nanos::from_secs(5);

/// The state of a link between two looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    /// Frames that its interface had finished.
    pub finished: u64,
    /// The time of the last look.
    looked: Instant,
    /// The time for which the interface was seen to stand.
    stood: Nanos,
    /// Timeouts since it last finished a frame.
    pub in_a_row: u64,
}

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing is wrong, or not for long enough.
    Well,
    /// The interface finishes frames again, after timeouts.
    Again,
    /// The interface has stood for the whole time.
    Stands,
}

impl Watch {
    /// Looks at an interface that `holds` frames or not and has finished this number of them.
    pub fn look(&mut self, now: Instant, holds: bool, finished: u64) -> Seen {
        let since = now.saturating_since(std::mem::replace(&mut self.looked, now));
        if self.finished != finished {
            let again = self.in_a_row > 0;
            *self = Self { finished, looked: now, ..Self::default() };
            return if again { Seen::Again } else { Seen::Well };
        }
        if !holds {
            self.stood = Nanos(0);
            return Seen::Well;
        }
        self.stood = Nanos(self.stood.0 + since.0.min(LOOK.0));
        if self.stood < TIMEOUT {
            return Seen::Well;
        }
        self.stood = Nanos(0);
        Seen::Stands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// An interface times out after five seconds in which it was looked at each second.
    #[test]
    fn five_looks_without_progress_are_a_timeout() {
        let mut watch = Watch::default();
        let mut at = |n: u64, holds, finished| watch.look(Instant(n * SECOND), holds, finished);
        assert_eq!(at(1, true, 7), Seen::Well);
        for n in 2..6 {
            assert_eq!(at(n, true, 7), Seen::Well, "{n}");
        }
        assert_eq!(at(6, true, 7), Seen::Stands);
        // The next one is due as long after this one.
        for n in 7..11 {
            assert_eq!(at(n, true, 7), Seen::Well, "{n}");
        }
        assert_eq!(at(11, true, 7), Seen::Stands);
    }

    /// One frame in five seconds, or a moment without frames, is progress.
    #[test]
    fn a_slow_interface_does_not_time_out() {
        let mut watch = Watch::default();
        for n in 0..100 {
            assert_eq!(watch.look(Instant(n * SECOND), true, n / 4), Seen::Well, "{n}");
        }
        for n in 100..200 {
            assert_eq!(watch.look(Instant(n * SECOND), n % 5 != 0, 25), Seen::Well, "{n}");
        }
    }

    /// A leap of the clock is one look.
    #[test]
    fn time_that_was_not_watched_does_not_count() {
        let mut watch = Watch::default();
        for n in 0..4 {
            assert_eq!(watch.look(Instant(n * 3600 * SECOND), true, 1), Seen::Well, "{n}");
        }
    }
}
