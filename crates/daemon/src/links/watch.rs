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
use txweir_runtime::Level;

use super::Links;
use crate::link::Link;

/// Time between two looks.
const LOOK: Nanos = Nanos::from_secs(1);
/// Time for which an interface may hold frames and finish none: Linux's default.
const TIMEOUT: Nanos = Nanos::from_secs(5);
/// Timeouts in a row of which one has a line in the log: a line a minute.
const QUIET: u64 = 12;

/// The state of a link between two looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    /// Frames that its interface had finished.
    finished: u64,
    /// The time of the last look.
    looked: Instant,
    /// The time for which the interface was seen to stand.
    stood: Nanos,
    /// Timeouts since it last finished a frame.
    in_a_row: u64,
}

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Nothing is wrong, or not for long enough.
    Well,
    /// The interface finishes frames again, after timeouts.
    Again,
    /// The interface has stood for the whole time.
    Stands,
}

impl Watch {
    /// Looks at an interface that `holds` frames or not and has finished this number of them.
    fn look(&mut self, now: Instant, holds: bool, finished: u64) -> Seen {
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

impl Link {
    /// True if its interface holds frames that it has not finished, or takes none.
    fn holds_frames(&self) -> bool {
        !self.is_away() && self.way.device_holds()
    }
}

impl Links {
    /// Looks at the interfaces, if it is time.
    pub(super) fn watch(&mut self, now: Instant) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK;
        for link in &mut self.all {
            let (holds, finished) = (link.holds_frames(), link.way.device_finished());
            let text = match link.watch.look(now, holds, finished) {
                Seen::Well => continue,
                Seen::Again => "its interface finishes frames again".to_owned(),
                // The state takes two system calls, and is asked for only here.
                Seen::Stands if link.state() == "down" => continue,
                Seen::Stands => {
                    let row = link.watch.in_a_row;
                    let (given_up, error) = link.way.control(now).give_up();
                    // What it has given up is no progress of the interface.
                    link.watch.finished = link.way.device_finished();
                    link.watch.in_a_row = row + 1;
                    if let Err(error) = error {
                        link.lost(&error);
                    }
                    if row % QUIET != 0 {
                        continue;
                    }
                    let seconds = TIMEOUT.0 / 1_000_000_000;
                    format!("its interface has finished no frame for {seconds} s: {given_up} are lost")
                }
            };
            let line = format!("link {}: {text}", link.name);
            self.notes.log().line(now, Level::Warning, "txweir", &line);
        }
    }

    /// Returns the time of the next look, if an interface holds frames.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.all.iter().any(Link::holds_frames).then_some(self.next_look)
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
