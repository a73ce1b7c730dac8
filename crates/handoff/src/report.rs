//! `Report`: one finding of the monitor or of its watchdog, with its text.

use std::any::Any;
use std::fmt;

use txweir_core::base::tally::Tally;
use txweir_core::{Instant, Nanos};

use crate::log::Event;

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A packet waits and may leave, and no thread was about to come for it.
    Stuck(Stuck),
    /// The device has finished nothing for longer than the watchdog's time: see
    /// [`Monitor::timeout`](crate::Monitor::timeout).
    TimedOut(Stall),
    /// The device was reset because of that: see
    /// [`Monitor::on_timeout`](crate::Monitor::on_timeout).
    Reset {
        /// The number of the queue that has timed out.
        queue: usize,
        /// The duration of the reset.
        took: Nanos,
        /// True if the handler has panicked.
        panicked: bool,
    },
    /// The device was to be reset, and was not: a thread is sending by it. The reset is tried again
    /// after another timeout.
    NotReset {
        /// The number of the queue that a thread is sending by.
        queue: usize,
    },
    /// Completions came late, as the byte limit's own watch has counted (`Dql::set_stall_thrs`).
    Stalled {
        /// The queue's number.
        queue: usize,
        /// Stalls since the last report.
        stalls: u64,
        /// The longest stall so far.
        longest: Nanos,
    },
    /// A device, a callback or a command has panicked on the thread of the service or the monitor.
    /// The queue keeps its packets and is served again; the packet that was being handled may be
    /// lost.
    Panicked {
        /// The queue's number.
        queue: usize,
        /// The text of the panic.
        message: String,
    },
}

impl Report {
    /// Returns the report of a panic.
    pub(crate) fn panicked(queue: usize, panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::Panicked { queue, message: text.unwrap_or("without a text").to_owned() }
    }
}

/// A queue that stood still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The queue's number.
    pub queue: usize,
    /// The reason.
    pub why: Why,
    /// The time that it stood, at least.
    pub stood: Nanos,
    /// The packets and bytes that waited in the qdiscs.
    pub backlog: Tally,
    /// The last events, oldest first.
    pub events: Vec<(Instant, Event)>,
}

/// The reason that a queue stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Packets were in the admission list, and no flag said so; or their sender is stopped between
    /// the two steps.
    Listed,
    /// A flag was set, and no thread came for it: the service does not run, or was not told.
    Uncalled,
    /// Packets waited in the qdiscs, and the device took them when it was asked.
    MayTransmit,
    /// The device had finished packets, and did not tell.
    Untold,
    /// The time at which it was to be run has passed.
    Overdue,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listed => "packets in the admission list and no flag set",
            Self::Uncalled => "a flag was set and no thread came for it",
            Self::MayTransmit => "packets waited and the device would have taken them",
            Self::Untold => "the device had finished packets and did not tell",
            Self::Overdue => "the time to run it has passed",
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stuck(s) => {
                let (queue, ms) = (s.queue, s.stood.0 / 1_000_000);
                let Tally { packets, bytes } = s.backlog;
                write!(
                    f,
                    "queue {queue}: stood still for {ms} ms: {}; {packets} packets, {bytes} bytes wait",
                    s.why
                )?;
                s.events.iter().try_for_each(|(at, event)| write!(f, "\n  {:>20} ns  {event}", at.0))
            }
            Self::TimedOut(stall) => stall.fmt(f),
            Self::Reset { queue, took, panicked } => {
                let how = if *panicked { "the reset has panicked" } else { "the device was reset" };
                write!(f, "queue {queue}: {how}, which took {} ms; all queues go on", took.0 / 1_000_000)
            }
            Self::NotReset { queue } => {
                write!(
                    f,
                    "queue {queue}: the device is not reset, because a thread is sending and does not end"
                )
            }
            Self::Panicked { queue, message } => {
                write!(f, "queue {queue}: its run has panicked: {message}; it is served again")
            }
            Self::Stalled { queue, stalls, longest } => write!(
                f,
                "queue {queue}: completions came late {stalls} times, the latest {} ms",
                longest.0 / 1_000_000
            ),
        }
    }
}

/// A queue that stands still because of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The queue's number.
    pub queue: usize,
    /// The time that it has stood.
    pub stood: Nanos,
    /// Packets that the device holds.
    pub in_flight: u64,
    /// Packets that wait because the device, or the byte limit, has stopped the queue; 0 if it is
    /// not stopped.
    pub waiting: u64,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, stood, in_flight, waiting } = *self;
        let ms = stood.0 / 1_000_000;
        match waiting {
            0 => write!(
                f,
                "queue {queue}: the device holds {in_flight} packets and has finished none for {ms} ms"
            ),
            _ => write!(
                f,
                "queue {queue}: stopped for {ms} ms: {waiting} packets wait, the device holds {in_flight} and has \
                 finished none"
            ),
        }
    }
}
