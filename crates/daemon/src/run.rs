//! The end of a server's loop, and its work at regular times.

use std::fmt;
use std::io;

use txweir_core::{Instant, Nanos};

/// Time before a deadline that is spent polling instead of sleeping: a wake-up from sleep is late
/// by some 15 us, and a frame that takes less time on the wire need not wait that long. This time
/// is shorter than one wake-up from sleep, and so negligible where deadlines are far apart.
pub(crate) const SPIN: Nanos = Nanos::from_micros(10);

/// Options of the loop. The default: it runs until the caller stops it, without reports, in any
/// state of the interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// The loop ends at this time; `None` for never.
    pub end: Option<Instant>,
    /// The loop reports this often, at least every millisecond.
    pub stats_interval: Option<Nanos>,
    /// True if the loop ends once an interface does not work any more. A daemon goes on without it.
    pub needs_all_links: bool,
}

/// The reason for which the loop ended as intended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The time was over.
    Duration,
    /// The caller stopped it.
    Stopped,
}

/// The reason for which the loop could not go on.
#[derive(Debug)]
pub enum RunError {
    /// A link does not work any more: its interface was removed, or the system is in trouble.
    Link {
        /// The interface.
        name: String,
        /// The system's error.
        error: String,
    },
    /// Waiting failed.
    System(io::Error),
    /// The system has no threads or descriptors for workers.
    Start(io::Error),
    /// A worker has failed: it cannot have its processor, or this program has a defect.
    Worker {
        /// The number of the worker.
        number: usize,
        /// The system's error, or the text of its panic.
        error: String,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { name, error } => write!(f, "interface `{name}` is gone: {error}"),
            Self::System(error) => write!(f, "cannot wait for frames: {error}"),
            Self::Start(error) => write!(f, "cannot start workers: {error}"),
            Self::Worker { number, error } => write!(f, "worker {number} has failed: {error}"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Link { .. } | Self::Worker { .. } => None,
            Self::System(error) | Self::Start(error) => Some(error),
        }
    }
}

/// The reports of a loop, with the time of the next one.
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
    /// True if a report is due. The next one is then an interval later, or at once if that time has
    /// passed as well.
    pub(crate) fn take_due(&mut self, now: Instant) -> bool {
        let due = self.next <= now;
        if due {
            self.next = (self.next + self.interval).max(now);
        }
        due
    }
}
