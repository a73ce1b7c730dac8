//! `Service`: the thread that does the work that no sender does: times, packets beyond a budget,
//! every packet of a queue whose senders only append, and the monitor.

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

/// A bell that can be rung before the thread that it wakes exists.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<OnceLock<Thread>>);

impl Bell {
    /// Creates a bell that no thread hears yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Returns the wakeup that rings the bell: for [`Queue::new`].
    #[must_use]
    pub fn wakeup(&self) -> Wakeup {
        let thread = Arc::clone(&self.0);
        Wakeup::calling(move || {
            // A service that has not begun looks at every queue when it begins.
            if let Some(thread) = thread.get() {
                thread.unpark();
            }
        })
    }
}

/// A thread that serves queues, until this is dropped.
#[derive(Debug)]
pub struct Service {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Longest sleep: the worst delay of a stop whose wake-up is lost.
const SLEEP_MAX: Duration = Duration::from_secs(1);

impl Service {
    /// Starts a thread of that name that serves these queues, all of which were made with the
    /// bell's wake-up. Every `Monitor::interval` it has the monitor look at them; `report` gets the
    /// findings. A handler that resets the device (`Monitor::on_timeout`) is called here as well:
    /// until it returns, none of the queues is served.
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
            // One thread hears a bell: a second service on it would miss every ring, so it ends at
            // once.
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
            // A panic of the thread has been printed.
            drop(thread.join());
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

/// Serves each queue that wants it. Returns how long there is no work, `None` if there is work now.
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
