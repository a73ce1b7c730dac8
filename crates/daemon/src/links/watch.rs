//! The looks of the watchdog at all links, once a second, also where nothing else is to be done.

use txweir_core::Instant;
use txweir_runtime::Level;

use super::Links;
use crate::link::Link;
use crate::watch::{LOOK, Seen, TIMEOUT};

/// Timeouts in a row of which one has a line in the log: a line a minute.
const QUIET: u64 = 12;

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
                    // The frames that it has given up are no progress of the interface.
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
            self.notes.line(now, Level::Warning, "txweir", &line);
        }
    }

    /// Returns the time of the next look, if an interface holds frames.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.all.iter().any(Link::holds_frames).then_some(self.next_look)
    }
}
