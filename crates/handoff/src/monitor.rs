//! `Monitor`: looks from outside whether what must not happen has happened. It finds queues that stand still with nobody to come
//! for them, and devices that finish nothing, and says so with what the queue did last.
//!
//! The first is a bug, of a device's owner that does not tell (`Queue::kick`) or of this crate; the models say that it is not the
//! latter. The queue is run when it is found, so that traffic goes on.

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

/// What is remembered of a queue between two looks.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// How far it was.
    progress: u64,
    /// Since when it has been there, if there was something to be seen to.
    since: Option<(Instant, Why)>,
    stalls: u64,
    watch: Watch,
}

/// Looks at queues now and then.
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
    /// How often it looks.
    #[must_use]
    pub const fn interval(mut self, interval: Nanos) -> Self {
        self.interval = interval;
        self
    }
    /// How long a queue may stand where it is before that counts: a sender may have been stopped by the system between two
    /// instructions.
    #[must_use]
    pub const fn patience(mut self, patience: Nanos) -> Self {
        self.patience = patience;
        self
    }
    /// How long a device may hold packets without finishing one, or hold none and take none although packets wait.
    #[must_use]
    pub const fn timeout(mut self, timeout: Nanos) -> Self {
        self.watchdog.timeout = timeout;
        self
    }
    /// Has `reset` called when a queue of the device has been stopped for longer than the [`timeout`](Self::timeout) with
    /// packets waiting: once, until the device has taken or finished something again. All queues that are looked at together are
    /// taken for one device's, and are frozen meanwhile ([`Queue::freeze`]); afterwards each is run. It is called by the thread
    /// that looks (a [`Service`](crate::Service)'s own), with nothing taken or locked, and may take its time and panic.
    ///
    /// It reaches a device by [`Queue::post`]: what it posts is done before the queue goes on. One that has forgotten what it was
    /// given is followed by [`Owned::device_reset`].
    #[must_use]
    pub fn on_timeout(mut self, reset: impl Fn(Stall) + Send + Sync + 'static) -> Self {
        self.watchdog.handler = Some(Arc::new(reset));
        self
    }

    /// Looks at the queues if it is time to; how long until the next look.
    pub fn look<D: TxQueue>(&mut self, queues: &[Arc<Queue<D>>], report: &mut dyn FnMut(Report)) -> Duration {
        let Some(first) = queues.first() else { return Duration::from_secs(1) };
        let now = first.now();
        if let Some(left) = self.next.map(|next| next.saturating_since(now)).filter(|left| left.0 > 0) {
            return Duration::from_nanos(left.0);
        }
        self.next = Some(now + self.interval);
        self.seen.resize(queues.len(), Seen::default());
        let mut timed_out = false;
        for (at, queue) in queues.iter().enumerate() {
            let called = queue.is_waiting_for_somebody();
            // Whoever has it is at work.
            let Some((found, progress)) = queue.inspect(|o| (self.found(o, now, called), progress(o))) else {
                continue;
            };
            let seen = &mut self.seen[at];
            match found {
                None => seen.since = None,
                Some(why) => match seen.since.filter(|_| seen.progress == progress) {
                    None => *seen = Seen { progress, since: Some((now, why)), ..*seen },
                    Some((since, first)) => {
                        let stood = now.saturating_since(since);
                        if stood >= self.patience {
                            seen.since = None;
                            // A later look changes what it looks at: what has been finished is taken then.
                            report(Report::Stuck(stuck(queue, at, first, stood)));
                        }
                    }
                },
            }
            // As in Linux, the first queue of a device that has timed out stands for all.
            if !timed_out {
                timed_out = self.watchdog.look(queues, at, now, &mut self.seen[at].watch, report);
            }
            self.stalls(queue, at, report);
        }
        Duration::from_nanos(self.interval.0)
    }

    /// What is the matter with a queue that nobody has.
    fn found<D: TxQueue>(&self, o: &mut Owned<D>, now: Instant, called: bool) -> Option<Why> {
        if called {
            return Some(Why::Uncalled);
        }
        if o.is_ready() || (o.is_listed() && !o.path_full) {
            return Some(Why::Listed);
        }
        if o.backlog().packets == 0 || o.path.stops().has(Stops::FROZEN) {
            return None;
        }
        if o.timer != u64::MAX {
            return (Instant(o.timer) + self.patience < now).then_some(Why::Overdue);
        }
        if o.has_finished() {
            return Some(Why::Untold);
        }
        let held = o.path.dql().is_some_and(|dql| dql.available() < 0);
        (!held && o.dev.reserve(1) > 0).then_some(Why::MayTransmit)
    }

    fn stalls<D: TxQueue>(&mut self, queue: &Queue<D>, at: usize, report: &mut dyn FnMut(Report)) {
        let counted = queue.inspect(|o| o.path.dql().map(|dql| (dql.stall_cnt(), dql.stall_max())));
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

/// Counts it, notes it, and has the queue run.
fn stuck<D: TxQueue>(queue: &Queue<D>, at: usize, why: Why, stood: Nanos) -> Stuck {
    let noted = queue.try_with(|o| {
        o.counts.stuck += 1;
        let now = o.now;
        o.log.note(now, Event::FoundStuck);
        // What has been finished and not told is taken now.
        o.reap();
        (o.backlog(), o.log.events().collect())
    });
    let (backlog, events) = noted.unwrap_or_default();
    Stuck { queue: at, why, stood, backlog, events }
}
