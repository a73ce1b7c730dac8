//! The turns of the links in the middle of a long request.

use std::fmt;

use txweir_core::{Instant, Nanos};

use super::Links;

/// Time after which a request makes way for the links, between two of its steps.
const WORK: Nanos = Nanos::from_micros(500);
/// Most time for the links before the request goes on, while there is more to receive.
const TURNS: Nanos = Nanos::from_micros(500);

/// The time, and the links' turns by it.
pub(super) struct Pace {
    clock: Box<dyn Fn() -> Instant + Send>,
    /// The time of the last turn.
    last: Instant,
    /// The longest time between two turns during a request.
    longest: Nanos,
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace").field("last", &self.last).field("longest", &self.longest).finish()
    }
}

impl Links {
    /// Makes long requests let the links have turns between their steps, by this clock. Without a
    /// clock no packet passes during a request.
    pub fn set_clock(&mut self, clock: Box<dyn Fn() -> Instant + Send>) {
        let last = clock();
        self.pace = Some(Pace { clock, last, longest: Nanos(0) });
    }

    /// Returns the longest time between two turns during a request so far, and forgets it; zero
    /// without a clock.
    pub fn take_longest(&mut self) -> Nanos {
        self.pace.as_mut().map_or(Nanos(0), |pace| std::mem::replace(&mut pace.longest, Nanos(0)))
    }

    /// Notes that a request begins, right after a turn.
    pub(crate) fn begin_request(&mut self) {
        if let Some(pace) = &mut self.pace {
            pace.last = (pace.clock)();
        }
    }

    /// Notes that a request ends, and that a turn comes next. Its dry run is over.
    pub(crate) fn end_request(&mut self) {
        if let Some(sketch) = self.sketch.take() {
            sketch.free(self);
        }
        if let Some(pace) = &mut self.pace {
            let now = (pace.clock)();
            pace.longest = pace.longest.max(Nanos(now.saturating_since(pace.last).0));
        }
    }

    /// Lets the links have their turn if the request has worked for long enough.
    pub(crate) fn make_way(&mut self) {
        let due = self.pace.as_ref().is_some_and(|pace| pace.last + WORK <= (pace.clock)());
        let Some(mut pace) = self.pace.take_if(|_| due) else { return };
        let begun = (pace.clock)();
        pace.longest = pace.longest.max(Nanos(begun.saturating_since(pace.last).0));
        // Bound: `TURNS`, and a turn that has begun by then. A clock that stands still ends it.
        let mut before = begun;
        while self.turn_all(&pace.clock) {
            let now = (pace.clock)();
            if now <= before || begun + TURNS <= now {
                break;
            }
            before = now;
        }
        pace.last = (pace.clock)();
        // Later changes are not earlier than the packets that have passed.
        self.now = self.now.max(pace.last);
        self.pace = Some(pace);
    }
}
