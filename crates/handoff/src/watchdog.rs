//! The watchdog: finds a queue that its device has stopped and does not start again, and has the
//! device reset.
//!
//! It works as Linux's does. The first queue of a device that has been stopped for longer than the
//! timeout, with packets waiting, is counted and named. All queues of the device are frozen, the
//! caller's handler is called, and they go on. No packet goes into the device of a frozen queue
//! (completions are still taken from it): packets sent meanwhile wait in the qdiscs, or find no
//! room.
//!
//! - W1: while the handler runs, no thread is sending by any of the queues, and none begins to.
//! - W2: afterwards every queue is run, so that waiting packets go on without a new send; also if
//!   the handler has panicked.
//! - W3: the handler is called without a lock and with no queue taken: senders go on, and the
//!   handler itself may send, post and look.
//!
//! For the difference to Linux see PARITY.md, watchdog-once.
//!
//! It adds no cost to a packet: the frozen bit is one of the bits that direct dispatch tests
//! anyhow.

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

/// Longest wait for a thread that is sending by one of the queues, in steps: a turn is some
/// microseconds, and a thread that the system has stopped in the middle of one runs again within
/// some ten milliseconds.
const STEPS: u32 = 1000;
const STEP: Duration = Duration::from_micros(100);

/// The state of a queue that is kept between two looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    /// The progress of its device.
    mark: (u64, u64),
    /// The time since which the device has been there, or of the last report of that; `None` while
    /// the device has no work.
    since: Option<Instant>,
    /// The time since which it has been stopped as well, with packets waiting.
    stopped: Option<Instant>,
    /// True if the device was reset for it.
    reset: bool,
}

/// The rule for devices that stand still.
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
    /// Looks at a queue. True if its device has timed out, which is then reported.
    pub(crate) fn look<D: TxQueue>(
        &self,
        queues: &[Arc<Queue<D>>],
        at: usize,
        now: Instant,
        watch: &mut Watch,
        report: &mut dyn FnMut(Report),
    ) -> bool {
        let Some(Some((stall, reset))) = queues[at].status().inspect(|o| self.step(o, at, now, watch)) else {
            return false;
        };
        report(Report::TimedOut(stall));
        if reset {
            watch.reset = self.reset(queues, stall, report);
            // If a thread was in the way, the reset is tried again after another timeout.
            watch.stopped = Some(now);
        }
        true
    }

    /// Looks once. Returns the stall if the device has timed out, and whether the device is to be
    /// reset.
    fn step<D: TxQueue>(
        &self,
        o: &mut Owned<D>,
        at: usize,
        now: Instant,
        watch: &mut Watch,
    ) -> Option<(Stall, bool)> {
        // Packets that the device finished while no thread had reason to ask are taken first: they
        // are no sign of a stall.
        o.reap();
        let (in_flight, stops) = (o.in_flight(), o.path.tx().stops());
        let stopped = stops.stopped() && !stops.has(Stops::FROZEN);
        let waiting = if stopped { o.waiting() } else { 0 };
        if in_flight == 0 && waiting == 0 {
            *watch = Watch::default();
            return None;
        }
        // A device that holds packets has to finish one; a device that holds none has to take one.
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

    /// Freezes all queues, calls the handler, and lets the queues go on. True if the handler was
    /// called.
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
        let began = queues[stall.queue].status().now();
        let panicked = catch_unwind(AssertUnwindSafe(|| handler(stall))).is_err();
        let took = queues[stall.queue].status().now().saturating_since(began);
        queues[stall.queue].control().post(|o| {
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
    /// 1 once the queue is frozen.
    done: Vec<Arc<AtomicU32>>,
}

impl<'a, D: TxQueue> Frozen<'a, D> {
    fn all(queues: &'a [Arc<Queue<D>>]) -> Self {
        let done = queues.iter().map(|queue| {
            let done = Arc::new(AtomicU32::new(0));
            let mine = Arc::clone(&done);
            queue.control().freeze(move || mine.store(1, Ordering::Release));
            done
        });
        Self { queues, done: done.collect() }
    }

    /// Waits until all queues are frozen. Otherwise returns the number of a queue in which a thread
    /// is sending without an end.
    fn wait(&self) -> Option<usize> {
        let mut steps = 0;
        // Each round finds one more frozen queue, or is a step.
        while let Some(at) = self.done.iter().position(|done| done.load(Ordering::Acquire) == 0) {
            // A queue that only the service runs is run here: this may be the service's thread.
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
        for queue in self.queues {
            // Every queue is thawed, also if the run of one panics, which its counter has.
            let _ = catch_unwind(AssertUnwindSafe(|| queue.control().thaw()));
        }
    }
}
