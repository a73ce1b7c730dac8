//! `Monitor`: checks from outside that no queue and no device stands still. It finds queues that
//! stand still without a thread that is about to come for them, and devices that finish nothing,
//! and reports them with the last events of the queue.
//!
//! The first is a bug, of a device's owner that does not call `Queue::kick` or of this crate; the
//! models show that it is not the latter. The monitor runs a queue that it finds, so that traffic
//! goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use txweir_core::path::device::TxQueue;
use txweir_core::path::txpath::Stops;
use txweir_core::{Instant, Nanos};

use crate::log::Event;
use crate::owned::Owned;
use crate::queue::Queue;
use crate::report::{Report, Stall, Stuck, Why};
use crate::watchdog::{Watch, Watchdog};

/// The state of a queue that is kept between two looks.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The progress of the queue at that look.
    progress: u64,
    /// The time since which the queue has been there, if there was work for it.
    since: Option<(Instant, Why)>,
    stalls: u64,
    watch: Watch,
}

/// Looks at queues at an interval.
#[derive(Clone, Debug)]
pub struct Monitor {
    interval: Nanos,
    patience: Nanos,
    watchdog: Watchdog,
    seen: Vec<Seen>,
    next: Option<Instant>,
}

impl Default for Monitor {
    /// A look every 100 ms, patience of 100 ms, a watchdog of 5 s (that of Linux).
    fn default() -> Self {
        Self {
            interval: Nanos::from_millis(100),
            patience: Nanos::from_millis(100),
            watchdog: Watchdog { timeout: Nanos::from_millis(5000), handler: None },
            seen: Vec::new(),
            next: None,
        }
    }
}

impl Monitor {
    /// Sets the time between two looks.
    #[must_use]
    pub const fn interval(mut self, interval: Nanos) -> Self {
        self.interval = interval;
        self
    }
    /// Sets how long a queue may stand before it is reported: the system may have stopped a sender
    /// between two instructions.
    #[must_use]
    pub const fn patience(mut self, patience: Nanos) -> Self {
        self.patience = patience;
        self
    }
    /// Sets how long a device may hold packets without finishing one, or hold none and take none
    /// although packets wait.
    #[must_use]
    pub const fn timeout(mut self, timeout: Nanos) -> Self {
        self.watchdog.timeout = timeout;
        self
    }
    /// Has `reset` called when a queue of the device has been stopped for longer than the
    /// [`timeout`](Self::timeout) with packets waiting: once, until the device has taken or
    /// finished a packet again. The monitor takes all queues that it looks at together for those of
    /// one device. It freezes them meanwhile ([`Control::freeze`](crate::Control::freeze)) and runs
    /// each afterwards. The thread that looks (a [`Service`](crate::Service)'s own) calls `reset`,
    /// with no queue taken and no lock held. `reset` may take its time and panic.
    ///
    /// `reset` reaches a device by [`Control::post`](crate::Control::post): a posted function is
    /// called before the queue goes on. After a reset that makes the device forget its packets, the
    /// handler calls [`Owned::device_reset`].
    #[must_use]
    pub fn on_timeout(mut self, reset: impl Fn(Stall) + Send + Sync + 'static) -> Self {
        self.watchdog.handler = Some(Arc::new(reset));
        self
    }

    /// Looks at the queues if it is time to. Returns the time until the next look. A panic of a
    /// device or a callback is caught and reported.
    pub fn look<D: TxQueue>(&mut self, queues: &[Arc<Queue<D>>], report: &mut dyn FnMut(Report)) -> Duration {
        let Some(first) = queues.first() else { return Duration::from_secs(1) };
        let now = first.status().now();
        if let Some(left) = self.next.map(|next| next.saturating_since(now)).filter(|left| left.0 > 0) {
            return Duration::from_nanos(left.0);
        }
        self.next = Some(now + self.interval);
        self.seen.resize(queues.len(), Seen::default());
        let mut timed_out = false;
        for at in 0..queues.len() {
            let look = AssertUnwindSafe(|| self.look_at(queues, at, now, !timed_out, report));
            match catch_unwind(look) {
                Ok(found) => timed_out |= found,
                Err(panic) => report(Report::panicked(at, &*panic)),
            }
        }
        Duration::from_nanos(self.interval.0)
    }

    /// Looks at one queue, also as its watchdog if `watches`. True if its device has timed out.
    fn look_at<D: TxQueue>(
        &mut self,
        queues: &[Arc<Queue<D>>],
        at: usize,
        now: Instant,
        watches: bool,
        report: &mut dyn FnMut(Report),
    ) -> bool {
        let queue = &queues[at];
        let called = queue.status().is_unattended();
        // The holder of the queue is at work.
        let looked = queue.status().inspect(|o| (self.found(o, now, called), progress(o)));
        let Some((found, progress)) = looked else { return false };
        let seen = &mut self.seen[at];
        match found {
            None => seen.since = None,
            Some(why) => match seen.since.filter(|_| seen.progress == progress) {
                None => *seen = Seen { progress, since: Some((now, why)), ..*seen },
                Some((since, first)) => {
                    let stood = now.saturating_since(since);
                    if stood >= self.patience {
                        seen.since = None;
                        // The first reason is reported: a look changes its object, because it
                        // takes the packets that the device has finished.
                        report(Report::Stuck(stuck(queue, at, first, stood)));
                    }
                }
            },
        }
        // As in Linux, the first queue of a device that has timed out stands for all.
        let timed_out = watches && self.watchdog.look(queues, at, now, &mut self.seen[at].watch, report);
        self.stalls(queue, at, report);
        timed_out
    }

    /// Returns why a queue that no thread has stands still.
    fn found<D: TxQueue>(&self, o: &mut Owned<D>, now: Instant, called: bool) -> Option<Why> {
        if called {
            return Some(Why::Uncalled);
        }
        if o.is_ready() || (o.is_listed() && !o.path_full) {
            return Some(Why::Listed);
        }
        if o.backlog().packets == 0 || o.path.tx().stops().has(Stops::FROZEN) {
            return None;
        }
        if o.timer != u64::MAX {
            return (Instant(o.timer) + self.patience < now).then_some(Why::Overdue);
        }
        if o.has_finished() {
            return Some(Why::Untold);
        }
        let held = o.path.tx().limit().is_some_and(|dql| dql.available() < 0);
        (!held && o.dev.reserve(1) > 0).then_some(Why::MayTransmit)
    }

    fn stalls<D: TxQueue>(&mut self, queue: &Queue<D>, at: usize, report: &mut dyn FnMut(Report)) {
        let counted = queue
            .status()
            .inspect(|o| o.path.tx().limit().map(|dql| (dql.stalls().count(), dql.stalls().longest())));
        if let Some(Some((stalls, longest))) = counted {
            let seen = &mut self.seen[at].stalls;
            if stalls > *seen {
                report(Report::Stalled { queue: at, stalls: stalls - *seen, longest });
            }
            *seen = stalls;
        }
    }
}

fn progress<D: TxQueue>(o: &Owned<D>) -> u64 {
    let path = o.path.stats();
    path.tx_packets + path.queued + o.counts.runs
}

/// Counts and notes the event, and has the queue run.
fn stuck<D: TxQueue>(queue: &Queue<D>, at: usize, why: Why, stood: Nanos) -> Stuck {
    let noted = queue.control().try_with(|o| {
        o.counts.stuck += 1;
        let now = o.now;
        o.log.note(now, Event::FoundStuck);
        // Takes the packets that the device has finished without telling.
        o.reap();
        (o.backlog(), o.log.events().collect())
    });
    let (backlog, events) = noted.unwrap_or_default();
    Stuck { queue: at, why, stood, backlog, events }
}
