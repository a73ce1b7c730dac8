//! `Status`: a queue to look at, from any thread.

use std::fmt;

use txweir_core::Instant;
use txweir_core::base::tally::Tally;
use txweir_core::path::device::TxQueue;
use txweir_core::path::txpath::PathStats;
use txweir_core::text::stats::Counters;

use crate::baton::Flags;
use crate::owned::{HandoffStats, Owned, WORDS};
use crate::queue::{CALLS, LOOK, NEVER, Queue, WAITING};
use crate::sync::Ordering;

/// Numbers of a queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of its path.
    pub path: PathStats,
    /// Of the hand-over between threads.
    pub handoff: HandoffStats,
    /// The packets and bytes that wait in its qdiscs.
    pub backlog: Tally,
}

/// The state of a queue: see [`Queue::status`].
pub struct Status<'a, D: TxQueue>(&'a Queue<D>);

impl<D: TxQueue> fmt::Debug for Status<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Status").field(self.0).finish()
    }
}

impl<'a, D: TxQueue> Status<'a, D> {
    pub(super) const fn new(queue: &'a Queue<D>) -> Self {
        Self(queue)
    }

    /// Returns the queue's numbers, all of one moment; at most `QueueConfig::publish` packets and
    /// one turn old. It never waits: it looks at an idle queue, and reads the last publication of a
    /// busy one.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let runner = &self.0.runner;
        if let Some(turn) = runner.baton.knock(LOOK) {
            let _ = runner.leave(turn, "look", false);
        }
        let words = runner.published.read().map_or([0; WORDS], |(words, _)| words);
        let mut words = words.into_iter();
        let mut next = || words.next().unwrap_or(0);
        Counts {
            path: PathStats::read(&mut next),
            handoff: HandoffStats::read(&mut next),
            backlog: Tally { packets: next(), bytes: next() },
        }
    }

    /// Returns the time at which the service is to call [`serve`](Queue::serve), unless a thread
    /// tells it before.
    pub fn deadline(&self) -> Option<Instant> {
        match self.0.runner.timer.load(Ordering::Acquire) {
            NEVER => None,
            at => Some(Instant(at)),
        }
    }

    /// True if senders are being refused, or would be before long.
    pub fn is_stopped(&self) -> bool {
        self.0.runner.baton.flags().has(WAITING)
    }

    /// True if a thread has the queue, or has been told to come for it.
    pub fn is_called(&self) -> bool {
        let baton = &self.0.runner.baton;
        baton.is_taken() || baton.flags().has(CALLS)
    }

    /// Returns the places of the admission list.
    pub(crate) fn places(&self) -> usize {
        self.0.list.places()
    }

    /// True if a thread has the queue.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.runner.baton.is_taken()
    }

    /// True if a flag is set and no thread has the queue.
    pub(crate) fn is_unattended(&self) -> bool {
        let baton = &self.0.runner.baton;
        !baton.is_taken() && baton.flags().has(CALLS)
    }

    /// True if the service has work at this queue.
    pub(crate) fn wants_service(&self, now: Instant) -> bool {
        self.is_unattended() || self.deadline().is_some_and(|at| at <= now)
    }

    /// Returns the time on the queue's clock.
    pub(crate) fn now(&self) -> Instant {
        self.0.runner.now()
    }

    /// Calls `f` with the queue's parts if no thread has the queue, and leaves it as it is.
    pub(crate) fn inspect<R>(&self, f: impl FnOnce(&mut Owned<D>) -> R) -> Option<R> {
        let runner = &self.0.runner;
        let mut turn = runner.baton.knock(Flags::NONE)?;
        let before = turn.flags();
        let r = f(&mut turn);
        if before.has(CALLS) {
            // The service, which was told of these, may have come in vain meanwhile; and a thread
            // that has set one of them again relies on this one.
            turn.abandon(before);
            runner.service.wake();
            return Some(r);
        }
        match turn.leave(before) {
            Ok(()) => {}
            // Another thread has set a flag meanwhile and relies on this one.
            Err(turn) => drop(runner.leave(turn, "inspected", false)),
        }
        Some(r)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use txweir_core::model::testing::VecDevice;
    use txweir_core::{Meta, PathConfig, TxPath};

    use super::*;
    use crate::queue::{Drain, Handed, QueueConfig, Rest};
    use crate::wake::Wakeup;

    /// The service sleeps again once it has found the queue taken.
    #[test]
    fn a_service_that_comes_during_a_look_is_told_again() {
        let told = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&told);
        let service = Wakeup::calling(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let path = TxPath::new(PathConfig::default()).unwrap();
        let config = QueueConfig { drain: Drain::Worker, ..QueueConfig::new(|| Instant(0)) };
        let queue = Queue::new(path, VecDevice::<u64>::with_slots(4), config, service);
        assert_eq!(queue.send(1, Meta::new(100)), Handed::Listed);
        assert_eq!(told.load(Ordering::Relaxed), 1);
        let came = queue.status().inspect(|_| queue.serve());
        assert_eq!((came, told.load(Ordering::Relaxed)), (Some(Rest::Elsewhere), 2));
        assert_eq!(queue.serve(), Rest::Idle);
        // A look at a queue without a flag tells no thread.
        assert_eq!(queue.status().inspect(|o| o.path.stats().tx_packets), Some(1));
        assert_eq!(told.load(Ordering::Relaxed), 2);
    }
}
