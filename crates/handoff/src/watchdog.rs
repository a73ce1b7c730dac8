//! The watchdog: finds a queue that its device has stopped and does not start again, and has the device reset.
//!
//! As Linux's: the first queue of a device that has been stopped for longer than the timeout, with packets waiting, is counted
//! and named; all queues of the device are frozen, the caller's handler is called, and they go on. Frozen means that nothing goes
//! into the device (completions are still taken from it): what is sent meanwhile waits in the qdiscs, or finds no room.
//!
//! - W1: while the handler runs, no thread is sending by any of the queues, and none begins to.
//! - W2: afterwards every queue is run, so that what waited goes on without anybody sending; also if the handler has panicked.
//! - W3: the handler is called without a lock and with no queue taken: senders go on, and it may send, post and look itself.
//!
//! Where it differs from Linux: PARITY.md, watchdog-once.
//!
//! A packet costs nothing for it: frozen is one of the bits that the direct way looks at anyhow.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use txweir_core::path::device::TxQueue;
use txweir_core::path::txpath::Stops;
use txweir_core::{Instant, Nanos};

use crate::log::Event;
use crate::owned::Owned;
use crate::queue::Queue;
use crate::report::{Report, Stall};
use crate::sync::{AtomicU32, Ordering};

/// Longest wait for who is sending by one of the queues just then, in steps: a turn is some microseconds, and a thread that has
/// been stopped by the system in the middle of one runs again within some ten milliseconds.
const STEPS: u32 = 1000;
const STEP: Duration = Duration::from_micros(100);

/// What is remembered of a queue between two looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    /// How far its device was.
    mark: (u64, u64),
    /// Since when it has been there, or when that was last reported; `None` while there is nothing for it to do.
    since: Option<Instant>,
    /// Since when it has been stopped as well, with packets waiting.
    stopped: Option<Instant>,
    /// The device was reset for it.
    reset: bool,
}

/// What to do about devices that stand still.
#[derive(Clone)]
pub(crate) struct Watchdog {
    pub(crate) timeout: Nanos,
    pub(crate) handler: Option<Arc<dyn Fn(Stall) + Send + Sync>>,
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Watchdog {
    /// Looks at a queue; whether its device has timed out, as was then reported.
    pub(crate) fn look<D: TxQueue>(
        &self,
        queues: &[Arc<Queue<D>>],
        at: usize,
        now: Instant,
        watch: &mut Watch,
        report: &mut dyn FnMut(Report),
    ) -> bool {
        let Some(Some((stall, reset))) = queues[at].inspect(|o| self.step(o, at, now, watch)) else {
            return false;
        };
        report(Report::TimedOut(stall));
        if reset {
            watch.reset = self.reset(queues, stall, report);
            // If somebody was in the way, it is tried again after as long.
            watch.stopped = Some(now);
        }
        true
    }

    /// One look; whether the device has timed out, and whether it is to be reset.
    fn step<D: TxQueue>(
        &self,
        o: &mut Owned<D>,
        at: usize,
        now: Instant,
        watch: &mut Watch,
    ) -> Option<(Stall, bool)> {
        // What it has finished while nobody had reason to ask is no news.
        o.reap();
        let (in_flight, stops) = (o.in_flight(), o.path.stops());
        let stopped = stops.stopped() && !stops.has(Stops::FROZEN);
        let waiting = if stopped { o.waiting() } else { 0 };
        if in_flight == 0 && waiting == 0 {
            *watch = Watch::default();
            return None;
        }
        // A device that holds something has to finish it; one that holds nothing, to take something.
        let mark = (o.counts.reaped, if in_flight > 0 { 0 } else { o.path.stats().tx_packets });
        let since = match watch.since {
            Some(since) if watch.mark == mark => since,
            _ => {
                *watch = Watch { mark, since: Some(now), ..Watch::default() };
                now
            }
        };
        watch.stopped = (waiting > 0).then(|| watch.stopped.unwrap_or(now));
        let stopped = watch.stopped.map_or(Nanos(0), |stopped| now.saturating_since(stopped));
        let reset = self.handler.is_some() && !watch.reset && stopped > self.timeout;
        let stood = now.saturating_since(since);
        if stood <= self.timeout && !reset {
            return None;
        }
        o.counts.timeouts += 1;
        o.log.note(now, Event::TimedOut);
        // The next report is due as long after this one.
        watch.since = Some(now);
        Some((Stall { queue: at, stood: stood.max(stopped), in_flight, waiting }, reset))
    }

    /// Freezes all queues, calls the handler, and lets them go on; whether it was called.
    fn reset<D: TxQueue>(
        &self,
        queues: &[Arc<Queue<D>>],
        stall: Stall,
        report: &mut dyn FnMut(Report),
    ) -> bool {
        let Some(handler) = &self.handler else { return false };
        let frozen = Frozen::all(queues);
        if let Some(queue) = frozen.wait() {
            drop(frozen);
            report(Report::NotReset { queue });
            return false;
        }
        let began = queues[stall.queue].now();
        let panicked = catch_unwind(AssertUnwindSafe(|| handler(stall))).is_err();
        let took = queues[stall.queue].now().saturating_since(began);
        queues[stall.queue].post(|o| {
            o.counts.resets += 1;
            let now = o.now;
            o.log.note(now, Event::Reset);
        });
        drop(frozen);
        report(Report::Reset { queue: stall.queue, took, panicked });
        true
    }
}

/// Queues that are frozen, or being frozen, until this is dropped.
struct Frozen<'a, D: TxQueue> {
    queues: &'a [Arc<Queue<D>>],
    /// 1: it is.
    done: Vec<Arc<AtomicU32>>,
}

impl<'a, D: TxQueue> Frozen<'a, D> {
    fn all(queues: &'a [Arc<Queue<D>>]) -> Self {
        let done = queues.iter().map(|queue| {
            let done = Arc::new(AtomicU32::new(0));
            let mine = Arc::clone(&done);
            queue.freeze(move || mine.store(1, Ordering::Release));
            done
        });
        Self { queues, done: done.collect() }
    }

    /// Waits until all are; otherwise the number of one that somebody is in and does not come out of.
    fn wait(&self) -> Option<usize> {
        let mut steps = 0;
        // Each round sees one more that is, or is a step.
        while let Some(at) = self.done.iter().position(|done| done.load(Ordering::Acquire) == 0) {
            // One that only the service runs is run here: this may be the service.
            let _ = self.queues[at].serve();
            if self.done[at].load(Ordering::Acquire) == 0 {
                if steps == STEPS {
                    return Some(at);
                }
                steps += 1;
                std::thread::sleep(STEP);
            }
        }
        None
    }
}

impl<D: TxQueue> Drop for Frozen<'_, D> {
    fn drop(&mut self) {
        self.queues.iter().for_each(|queue| queue.thaw());
    }
}
