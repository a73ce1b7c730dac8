//! `Service`: the thread that comes for what nobody else does: times, what is over a budget, everything of a queue whose senders
//! only append, and the monitor.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use txweir_core::path::device::TxQueue;
use txweir_core::{Instant, Nanos};

use crate::monitor::Monitor;
use crate::queue::{Queue, Rest};
use crate::report::Report;
use crate::wake::Wakeup;

/// A bell that can be rung before the thread that it wakes is there.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<OnceLock<Thread>>);

impl Bell {
    /// One that nobody hears yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// What rings it: for [`Queue::new`].
    #[must_use]
    pub fn wakeup(&self) -> Wakeup {
        let thread = Arc::clone(&self.0);
        Wakeup::calling(move || {
            // A service that has not begun looks at everything when it does.
            if let Some(thread) = thread.get() {
                thread.unpark();
            }
        })
    }
}

/// A thread that serves queues, until it is let fall.
#[derive(Debug)]
pub struct Service {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Longest sleep: how late a stop is noticed at worst, were its wake-up lost.
const SLEEP_MAX: Duration = Duration::from_secs(1);

impl Service {
    /// A thread of that name that serves these queues, all of which were made with the bell's wake-up. Every
    /// `Monitor::interval` it has the monitor look at them; `report` gets what that finds.
    /// A handler that resets the device (`Monitor::on_timeout`) is called here as well: until it returns, none of them is served.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn spawn<D>(
        name: &str,
        bell: &Bell,
        queues: Vec<Arc<Queue<D>>>,
        mut monitor: Monitor,
        mut report: impl FnMut(Report) + Send + 'static,
    ) -> std::io::Result<Self>
    where
        D: TxQueue + Send + 'static,
        D::Frame: Send + 'static,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, bell) = (Arc::clone(&stop), bell.clone());
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            // A bell has one hearer; a second service on it would be deaf, and is none.
            if bell.0.set(thread::current()).is_err() {
                return;
            }
            while !stopped.load(Ordering::Acquire) {
                let sleep = serve_all(&queues);
                let watch = monitor.look(&queues, &mut report);
                if let Some(sleep) = sleep {
                    thread::park_timeout(sleep.min(watch).min(SLEEP_MAX));
                }
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends the thread and waits for it.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // What it may have panicked with has been printed.
            drop(thread.join());
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves each queue that wants it; how long there is nothing to do, `None` if there is.
fn serve_all<D: TxQueue>(queues: &[Arc<Queue<D>>]) -> Option<Duration> {
    let mut again = false;
    let mut next: Option<(Instant, Instant)> = None;
    for queue in queues {
        let now = queue.now();
        if queue.wants_service(now) {
            again |= queue.serve() == Rest::Again;
        }
        if let Some(at) = queue.deadline() {
            let earlier =
                next.is_none_or(|(is, since)| at.saturating_since(now) < is.saturating_since(since));
            next = if earlier { Some((at, now)) } else { next };
        }
    }
    match (again, next) {
        (true, _) => None,
        (false, None) => Some(SLEEP_MAX),
        (false, Some((at, now))) => match at.saturating_since(now) {
            Nanos(0) => None,
            Nanos(ns) => Some(Duration::from_nanos(ns)),
        },
    }
}
