//! The order within an instant: packets and timers first, then senders that small queues held, then
//! applications.

use std::collections::VecDeque;

use txweir_core::{Instant, Nanos};

/// The turn of a connection end.
pub(super) enum Turn {
    /// It sends again, because enough of it has left the host.
    Send(u32),
    /// Its application runs, and reads so much after the present.
    Run(u32, Nanos),
}

/// The connection ends that act once nothing more happens at this instant.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Ends whose applications run, in the order in which they were woken.
    woken: VecDeque<u32>,
    /// Ends of which enough has left the host that they may send again. They do ahead of the
    /// applications.
    freed: VecDeque<u32>,
    /// How long a process takes for a reading of the clock, and the readings of this instant. They
    /// delay nothing but what a reader notes as the time.
    reading: Nanos,
    readings: (Instant, u32),
}

impl Turns {
    pub(super) const fn set_reading(&mut self, reading: Nanos) {
        self.reading = reading;
    }
    /// Appends an end whose application runs later.
    pub(super) fn wake(&mut self, end: u32) {
        self.woken.push_back(end);
    }
    /// Appends an end that may send again.
    pub(super) fn free(&mut self, end: u32) {
        self.freed.push_back(end);
    }
    /// Counts further readings of the clock.
    pub(super) const fn count(&mut self, readings: u32) {
        self.readings.1 += readings;
    }

    /// True if no end waits for its turn.
    pub(super) fn is_empty(&self) -> bool {
        self.freed.is_empty() && self.woken.is_empty()
    }

    /// Takes the next turn: of a freed end, or of the application that was woken first. The results
    /// of either happen before the next one runs.
    pub(super) fn next(&mut self, now: Instant) -> Option<Turn> {
        if let Some(end) = self.freed.pop_front() {
            return Some(Turn::Send(end));
        }
        let end = self.woken.pop_front()?;
        if self.readings.0 != now {
            self.readings = (now, 0);
        }
        let late = Nanos(self.reading.0 * u64::from(self.readings.1));
        // The application looks at its socket at least once.
        self.readings.1 += 1;
        Some(Turn::Run(end, late))
    }
}
