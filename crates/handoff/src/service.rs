//! `Service`: the thread that does the work that no sender does: times, packets beyond a budget,
//! every packet of a queue whose senders only append, and the monitor.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use txweir_core::path::device::TxQueue;
use txweir_core::{Instant, Nanos};

use crate::monitor::Monitor;
use crate::queue::{Queue, Rest};
use crate::report::Report;
use crate::wake::Wakeup;

/// A bell that can be rung before the thread that it wakes exists. One service hears it.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<Hearer>);

/// The thread that hears a bell.
#[derive(Debug, Default)]
struct Hearer {
    /// True once a service was started for the bell.
    taken: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Bell {
    /// Creates a bell that no thread hears yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Returns the wakeup that rings the bell: for [`Queue::new`].
    #[must_use]
    pub fn wakeup(&self) -> Wakeup {
        let hearer = Arc::clone(&self.0);
        Wakeup::calling(move || {
            // A service that has not begun looks at every queue when it begins.
            if let Some(thread) = hearer.thread.get() {
                thread.unpark();
            }
        })
    }
}

/// A thread that serves queues, until this is dropped.
#[derive(Debug)]
pub struct Service {
    stop: Arc<AtomicBool>,
    panics: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// Longest sleep: the worst delay of a stop whose wake-up is lost.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// First sleep beside a thread that has a queue whose time has come; each further one in sequence
/// is twice as long.
const HELD_MIN: Duration = Duration::from_micros(32);
/// Longest such sleep: the worst delay of a packet whose time has come when that thread puts the
/// queue down.
const HELD_MAX: Duration = Duration::from_millis(1);
/// Time for which a queue is left alone after a panic; twice as long after each further one in
/// sequence.
const ALONE_MIN: Duration = Duration::from_millis(1);
/// Longest such time.
const ALONE_MAX: Duration = Duration::from_secs(1);

impl Service {
    /// Starts a thread of that name that serves these queues, all of which were made with the
    /// bell's wake-up. Every `Monitor::interval` it has the monitor look at them; `report` gets the
    /// findings. A handler that resets the device (`Monitor::on_timeout`) is called here as well:
    /// until it returns, none of the queues is served.
    ///
    /// A panic of a device or a callback is caught and reported ([`Report::Panicked`]). The service
    /// then leaves that queue alone, for 1 ms at first and at most for 1 s, and serves the others.
    ///
    /// # Errors
    /// `AlreadyExists`: a service was started for this bell before, which alone hears it. Or the
    /// system starts no more threads.
    pub fn spawn<D>(
        name: &str,
        bell: &Bell,
        queues: Vec<Arc<Queue<D>>>,
        mut monitor: Monitor,
        mut report: impl FnMut(Report) + Send + 'static,
    ) -> io::Result<Self>
    where
        D: TxQueue + Send + 'static,
        D::Frame: Send + 'static,
    {
        if bell.0.taken.swap(true, Ordering::AcqRel) {
            let why = "this bell has a service already: a further service needs a bell of its own";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        let (stop, panics) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted, hearer) = (Arc::clone(&stop), Arc::clone(&panics), Arc::clone(&bell.0));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _ = hearer.thread.set(thread::current());
            let mut report = |found: Report| {
                let mut n = u64::from(matches!(found, Report::Panicked { .. }));
                n += u64::from(catch_unwind(AssertUnwindSafe(|| report(found))).is_err());
                counted.fetch_add(n, Ordering::Relaxed);
            };
            let mut rounds = Rounds::new(queues.len());
            // The most rounds after the stop: each takes a packet off every list that has one.
            let mut left = queues.iter().map(|queue| queue.status().places()).max().unwrap_or(0);
            loop {
                // The last rounds begin after the stop: they see all that came before.
                let is_last = stopped.load(Ordering::Acquire);
                let sleep = rounds.serve_all(&queues, &mut report);
                if is_last && (sleep.is_some() || left == 0) {
                    return;
                }
                if is_last {
                    left -= 1;
                    continue;
                }
                let watch = monitor.look(&queues, &mut report);
                if let Some(sleep) = sleep {
                    thread::park_timeout(sleep.min(watch).min(SLEEP_MAX));
                }
            }
        });
        match thread {
            Ok(thread) => Ok(Self { stop, panics, thread: Some(thread) }),
            Err(e) => {
                bell.0.taken.store(false, Ordering::Release);
                Err(e)
            }
        }
    }

    /// Ends the thread and waits for it. Before its end the thread serves each queue until there is
    /// no work now, so that the packets that senders had left to it are with the qdiscs, as far as
    /// these have room: at most as many turns as the longest list has places. Returns the number of
    /// panics that it has caught, of devices, callbacks and its own `report`.
    pub fn stop(mut self) -> u64 {
        self.end();
        self.panics.load(Ordering::Relaxed)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                // The hook has printed the panic.
                self.panics.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

/// State in which the service has left a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Met {
    /// It had no work.
    #[default]
    Idle,
    /// Another thread had it.
    Held,
    /// It was run.
    Ran,
    /// It was run and has more work.
    Again,
}

/// The time at which a queue has work for the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// Now.
    Now,
    /// Its time has come, and another thread has the queue.
    Held,
    /// After this time.
    In(Duration),
}

/// A queue after the last round, and after panics of its runs.
#[derive(Clone, Copy, Debug, Default)]
struct Alone {
    met: Met,
    /// The time for which it was last left alone; zero after a run without a panic.
    pause: Duration,
    until: Option<Instant>,
}

/// The memory of the service between two rounds.
#[derive(Debug)]
struct Rounds {
    alone: Vec<Alone>,
    /// The last sleep beside a thread that had a queue whose time had come.
    held: Duration,
}

impl Rounds {
    fn new(queues: usize) -> Self {
        Self { alone: vec![Alone::default(); queues], held: Duration::ZERO }
    }

    /// Serves each queue that wants it. Returns how long there is no work, `None` if there is work
    /// now.
    fn serve_all<D: TxQueue>(
        &mut self,
        queues: &[Arc<Queue<D>>],
        report: &mut dyn FnMut(Report),
    ) -> Option<Duration> {
        for (at, (queue, alone)) in queues.iter().zip(&mut self.alone).enumerate() {
            alone.serve(at, queue, report);
        }
        // The times count from here: any of the queues may have taken long.
        let (mut now, mut held, mut sleep) = (false, false, SLEEP_MAX);
        for (queue, alone) in queues.iter().zip(&self.alone) {
            match alone.due(queue) {
                Due::Now => now = true,
                Due::Held => held = true,
                Due::In(time) => sleep = sleep.min(time),
            }
        }
        self.held = match held {
            true => (2 * self.held).clamp(HELD_MIN, HELD_MAX),
            false => Duration::ZERO,
        };
        match (now, held) {
            (true, _) => None,
            (false, true) => Some(sleep.min(self.held)),
            (false, false) => Some(sleep),
        }
    }
}

impl Alone {
    /// Serves a queue if it wants that and is not left alone. A panic is reported.
    fn serve<D: TxQueue>(&mut self, at: usize, queue: &Queue<D>, report: &mut dyn FnMut(Report)) {
        if self.until.is_some_and(|until| until > queue.status().now()) {
            return;
        }
        self.until = None;
        match catch_unwind(AssertUnwindSafe(|| serve(queue))) {
            Ok(met) => {
                if matches!(met, Met::Ran | Met::Again) {
                    self.pause = Duration::ZERO;
                }
                self.met = met;
            }
            Err(panic) => {
                self.pause = (2 * self.pause).clamp(ALONE_MIN, ALONE_MAX);
                let pause = Nanos(u64::try_from(self.pause.as_nanos()).unwrap_or(u64::MAX));
                self.until = Some(queue.status().now() + pause);
                report(Report::panicked(at, &*panic));
            }
        }
    }

    /// Returns the time at which the queue has work again, as of now.
    fn due<D: TxQueue>(&self, queue: &Queue<D>) -> Due {
        let status = queue.status();
        if let Some(until) = self.until {
            return Due::In(Duration::from_nanos(until.saturating_since(status.now()).0));
        }
        if self.met == Met::Again {
            return Due::Now;
        }
        match status.deadline().map(|at| at.saturating_since(status.now())) {
            None => Due::In(SLEEP_MAX),
            Some(Nanos(0)) if self.met == Met::Held => Due::Held,
            Some(Nanos(0)) => Due::Now,
            Some(Nanos(ns)) => Due::In(Duration::from_nanos(ns)),
        }
    }
}

/// Serves a queue if it wants that.
fn serve<D: TxQueue>(queue: &Queue<D>) -> Met {
    let status = queue.status();
    // A thread that has the queue sees its flags. A call would only cost it a further round.
    if status.is_taken() {
        return Met::Held;
    }
    if !status.wants_service(status.now()) {
        return Met::Idle;
    }
    match queue.serve() {
        Rest::Again => Met::Again,
        Rest::Elsewhere => Met::Held,
        Rest::Idle | Rest::Device | Rest::At(_) => Met::Ran,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use txweir_core::model::testing::VecDevice;
    use txweir_core::{Admitted, Completed, DeviceError, Instant, Meta, PathConfig, TxPath};

    use super::*;
    use crate::queue::{Handed, QueueConfig};

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(1_000_000_000) };
    }

    fn clock() -> Instant {
        Instant(NOW.get())
    }

    /// A device whose doorbell takes so many nanoseconds.
    struct Slow(VecDevice<u64>, u64);

    impl TxQueue for Slow {
        type Frame = u64;
        fn reserve(&mut self, want: u32) -> u32 {
            self.0.reserve(want)
        }
        fn push(&mut self, frame: u64, m: &Meta) {
            self.0.push(frame, m);
        }
        fn commit(&mut self) -> Result<(), DeviceError> {
            NOW.set(NOW.get() + self.1);
            self.0.commit()
        }
        fn reap(&mut self, sink: &mut dyn FnMut(Completed<u64>)) {
            self.0.reap(sink);
        }
    }

    /// A queue with a packet that may leave after a while.
    fn shaped() -> Arc<Queue<VecDevice<u64>>> {
        shaped_over(VecDevice::with_slots(100))
    }

    fn shaped_over<D: TxQueue<Frame = u64>>(dev: D) -> Arc<Queue<D>> {
        let options = ["rate", "8mbit", "burst", "1000", "limit", "100000"];
        let path = TxPath::new(PathConfig { bql: None, ..PathConfig::default() }).unwrap();
        let path = path.with_qdisc("tbf", &options).unwrap();
        let config = QueueConfig::new(clock);
        let queue = Queue::new(path, dev, config, Bell::new().wakeup());
        for n in 0..2 {
            assert_eq!(queue.send(n, Meta::new(1000)), Handed::Done(Admitted::Queued));
        }
        Arc::new(queue)
    }

    #[test]
    fn a_queue_that_another_thread_has_is_no_work_although_its_time_has_come() {
        let queues = [shaped()];
        let queue = &queues[0];
        let deadline = queue.status().deadline().expect("a packet waits for its time");
        NOW.set(deadline.0);
        let mut rounds = Rounds::new(1);
        let runs = queue.status().counts().handoff.runs;
        let sleeps: Vec<_> = queue
            .control()
            .try_with(|_| (0..8).map(|_| rounds.serve_all(&queues, &mut |_| {})).collect())
            .unwrap();
        let expected = [32, 64, 128, 256, 512, 1000, 1000, 1000];
        assert_eq!(sleeps, expected.map(|us| Some(Duration::from_micros(us))));
        // The run at the end of that turn was the one, and no call of the service caused another.
        assert_eq!(queue.status().counts().handoff.runs, runs + 1);
        // It was sent in that turn; the service has nothing to do.
        assert_eq!(rounds.serve_all(&queues, &mut |_| {}), Some(SLEEP_MAX));
        assert_eq!(queue.control().try_with(|o| o.dev.sent().to_vec()), Some(vec![0, 1]));
    }

    /// Packets that senders left to the service are not left behind by its end, also those beyond
    /// the budget of a turn.
    #[test]
    fn a_service_that_is_stopped_has_served_what_came_before() {
        let worker = crate::queue::Drain::Worker;
        for _ in 0..20 {
            let bell = Bell::new();
            let path = TxPath::new(PathConfig::default()).unwrap();
            let config = QueueConfig { drain: worker, budget: 1, ..QueueConfig::new(|| Instant(0)) };
            let dev = VecDevice::<u64>::with_slots(4);
            let queue = Arc::new(Queue::new(path, dev, config, bell.wakeup()));
            let queues = vec![Arc::clone(&queue)];
            let service = Service::spawn("tx", &bell, queues, Monitor::default(), |_| {}).unwrap();
            for n in 0..20 {
                assert_eq!(queue.send(n, Meta::new(1000)), Handed::Listed);
            }
            assert_eq!(service.stop(), 0);
            let held = queue.control().try_with(|o| o.dev.sent().len() as u64 + o.path.backlog().packets);
            assert_eq!(held, Some(20));
        }
    }

    /// Each panic in sequence doubles the pause, and a run without one ends the sequence.
    #[test]
    fn a_queue_whose_run_has_panicked_is_left_alone_for_a_while() {
        let path = TxPath::new(PathConfig::default()).unwrap();
        let config = QueueConfig { drain: crate::queue::Drain::Worker, ..QueueConfig::new(clock) };
        let dev = VecDevice::<u64>::with_slots(100);
        let queues = [Arc::new(Queue::new(path, dev, config, Bell::new().wakeup()))];
        let (mut rounds, mut panics) = (Rounds::new(1), 0);
        let mut round = || {
            let sleep = rounds.serve_all(&queues, &mut |_| panics += 1);
            (sleep, panics)
        };
        let break_it = || queues[0].control().post(|_| panic!("planned: command"));
        let ms = |ms| Some(Duration::from_millis(ms));
        (0..2).for_each(|_| break_it());
        // Sleep and panics after a while of so many ms.
        for (wait, expected) in
            [(0, (ms(1), 1)), (0, (ms(1), 1)), (1, (ms(2), 2)), (1, (ms(1), 2)), (1, (Some(SLEEP_MAX), 2))]
        {
            NOW.set(NOW.get() + wait * 1_000_000);
            assert_eq!(round(), expected);
        }
        break_it();
        assert_eq!(round(), (ms(1), 3));
    }

    /// The sleep after a round ends at the time of a queue, however long the other queues took.
    #[test]
    fn a_slow_device_puts_no_time_off() {
        let slow = |ns| Slow(VecDevice::with_slots(100), ns);
        let path = TxPath::new(PathConfig { bql: None, ..PathConfig::default() }).unwrap();
        let config = QueueConfig { drain: crate::queue::Drain::Worker, ..QueueConfig::new(clock) };
        let other = Arc::new(Queue::new(path, slow(400_000), config, Bell::new().wakeup()));
        let queues = [shaped_over(slow(0)), other];
        let mut rounds = Rounds::new(2);
        assert_eq!(queues[1].send(2, Meta::new(100)), Handed::Listed);
        assert_eq!(rounds.serve_all(&queues, &mut |_| {}), Some(Duration::from_micros(600)));
        // The time comes in the midst of the next such round: there is work at once.
        queues[1].control().post(|o| o.dev.1 = 600_000);
        assert_eq!(queues[1].send(3, Meta::new(100)), Handed::Listed);
        assert_eq!(rounds.serve_all(&queues, &mut |_| {}), None);
        assert_eq!(rounds.serve_all(&queues, &mut |_| {}), Some(SLEEP_MAX));
        assert_eq!(queues[0].control().try_with(|o| o.dev.0.sent().to_vec()), Some(vec![0, 1]));
    }

    #[test]
    fn a_time_that_has_come_is_work_where_no_thread_has_the_queue() {
        let queues = [shaped()];
        let mut rounds = Rounds::new(1);
        assert_eq!(rounds.serve_all(&queues, &mut |_| {}), Some(Duration::from_millis(1)));
        NOW.set(queues[0].status().deadline().unwrap().0);
        assert_eq!(rounds.serve_all(&queues, &mut |_| {}), Some(SLEEP_MAX));
        assert_eq!(queues[0].control().try_with(|o| o.dev.sent().to_vec()), Some(vec![0, 1]));
    }
}
