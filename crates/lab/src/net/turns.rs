//! The order within an instant: packets and timers first, then senders that small queues held, then
//! applications.

use txweir_core::Nanos;

use super::{Net, What};

impl Net {
    /// Sets the time that a process takes to read the clock: an application reads it for each part
    /// of a call and each look at its socket. Zero by default.
    pub const fn set_reading(&mut self, reading: Nanos) {
        self.reading = reading;
    }

    /// Lets a freed end send, or runs the application that was woken first. The results of either
    /// happen before the next one runs.
    pub(super) fn run_later(&mut self) {
        if let Some(n) = self.freed.pop_front() {
            return self.poll(n);
        }
        let Some(n) = self.woken.pop_front() else { return };
        let now = self.engine.now();
        if self.readings.0 != now {
            self.readings = (now, 0);
        }
        self.ends[n as usize].woken = false;
        let late = Nanos(self.reading.0 * u64::from(self.readings.1));
        // The application looks at its socket at least once.
        self.readings.1 += 1;
        if let Some(nic) = self.send_with(n, Some(late)) {
            self.kick(nic);
        }
    }

    /// Handles the alarm of a connection end. An alarm that has been moved to a later time does not
    /// wake the end: an end that waits to send decides anew only at an event.
    pub(super) fn timer(&mut self, n: u32) {
        let now = self.engine.now();
        let end = &mut self.ends[n as usize];
        if end.idle || end.conn.is_due(now) {
            return self.poll(n);
        }
        let at = end.conn.poll_at(now);
        end.alarm.set(&mut self.engine, at, n, What::Timer);
    }
}
