//! `Log`: the last events of a queue, to find out why it stood still.

use std::fmt;

use txweir_core::Instant;

/// Events that are kept.
const EVENTS: usize = 64;

/// An event of a queue. Packets that go directly to the device leave no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A thread took the queue to run it, for these flags.
    Taken(&'static str),
    /// This number of packets was taken from the admission list.
    Admitted(u32),
    /// This number of packets went to the device.
    Sent(u64),
    /// The device had finished this number of packets.
    Reaped(u32),
    /// The queue rests: no packet waits.
    Idle,
    /// The queue rests: the device, or the byte limit, takes nothing.
    Stopped,
    /// The queue rests until then.
    Until(Instant),
    /// The budget is spent; another thread was told to go on.
    Abdicated,
    /// This number of refused senders was told that there is room.
    Woke(u32),
    /// The monitor found the queue standing.
    FoundStuck,
    /// The watchdog found that the device finishes nothing.
    TimedOut,
    /// The queue was frozen: no packet goes into the device.
    Frozen,
    /// The queue was thawed.
    Thawed,
    /// The device was reset.
    Reset,
    /// The thread that had the queue has panicked.
    Panicked,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(why) => write!(f, "taken: {why}"),
            Self::Admitted(n) => write!(f, "{n} admitted"),
            Self::Sent(n) => write!(f, "{n} sent"),
            Self::Reaped(n) => write!(f, "{n} reaped"),
            Self::Idle => f.write_str("idle"),
            Self::Stopped => f.write_str("stopped"),
            Self::Until(at) => write!(f, "until {} ns", at.0),
            Self::Abdicated => f.write_str("abdicated"),
            Self::Woke(n) => write!(f, "woke {n} senders"),
            Self::FoundStuck => f.write_str("found stuck"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Frozen => f.write_str("frozen"),
            Self::Thawed => f.write_str("thawed"),
            Self::Reset => f.write_str("reset"),
            Self::Panicked => f.write_str("the thread that had the queue has panicked"),
        }
    }
}

/// The last 64 events, each with its time.
#[derive(Clone, Debug)]
pub struct Log {
    ring: Box<[(Instant, Event); EVENTS]>,
    total: u64,
}

impl Default for Log {
    fn default() -> Self {
        Self { ring: Box::new([(Instant::ZERO, Event::Idle); EVENTS]), total: 0 }
    }
}

impl Log {
    /// Notes an event.
    #[inline]
    pub(crate) fn note(&mut self, at: Instant, event: Event) {
        self.ring[(self.total % EVENTS as u64) as usize] = (at, event);
        self.total += 1;
    }

    /// Returns the events that are kept, oldest first.
    pub fn events(&self) -> impl Iterator<Item = (Instant, Event)> {
        let kept = self.total.min(EVENTS as u64);
        (self.total - kept..self.total).map(|n| self.ring[(n % EVENTS as u64) as usize])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_in_order() {
        let mut log = Log::default();
        log.note(Instant(0), Event::Idle);
        assert_eq!(log.events().count(), 1);
        (1..=100u32).for_each(|n| log.note(Instant(n.into()), Event::Admitted(n)));
        let kept: Vec<_> = log.events().collect();
        assert_eq!(
            (kept.len(), kept[0], kept[63].0),
            (EVENTS, (Instant(37), Event::Admitted(37)), Instant(100))
        );
    }
}
