//! When a server ends, and what it does at regular times.

use std::fmt;
use std::io;

use txweir_core::{Instant, Nanos};

/// How the loop runs. The default: until the caller stops it, without reports, in any state of the interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// The loop ends at this time; `None` for never.
    pub end: Option<Instant>,
    /// The loop reports this often, at least every millisecond.
    pub stats_interval: Option<Nanos>,
    /// The loop ends once an interface does not work any more. A daemon goes on without it.
    pub needs_all_links: bool,
}

/// Why the loop ended as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The time was over.
    Duration,
    /// The caller stopped it.
    Stopped,
}

/// Why the loop could not go on.
#[derive(Debug)]
pub enum RunError {
    /// A link does not work any more: its interface was removed, or the system is in trouble.
    Link {
        /// The interface.
        name: String,
        /// What the system said.
        error: String,
    },
    /// Waiting failed.
    System(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { name, error } => write!(f, "interface `{name}` is gone: {error}"),
            Self::System(error) => write!(f, "cannot wait for frames: {error}"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Link { .. } => None,
            Self::System(error) => Some(error),
        }
    }
}

/// The reports of a loop: when the next one is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reports {
    interval: Nanos,
    next: Instant,
}

/// The shortest time between two reports.
const INTERVAL_MIN: Nanos = Nanos::from_millis(1);

impl Reports {
    pub(crate) fn new(interval: Nanos, now: Instant) -> Self {
        let interval = interval.max(INTERVAL_MIN);
        Self { interval, next: now + interval }
    }
    pub(crate) const fn next(&self) -> Instant {
        self.next
    }
    /// Whether a report is due. The next one is then an interval later, or at once if that is over as well.
    pub(crate) fn take_due(&mut self, now: Instant) -> bool {
        let due = self.next <= now;
        if due {
            self.next = (self.next + self.interval).max(now);
        }
        due
    }
}
