//! The helpers that the tests share: a clock, queues over rings, and the threads behind them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use txweir_core::{Instant, PathConfig, Role, TxPath};
use txweir_handoff::*;

/// Returns the monotonic time.
pub fn clock() -> Instant {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// A clock that each test sets by itself: each test has a thread.
pub mod own_time {
    use std::cell::Cell;

    use txweir_core::Instant;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(1_000_000_000) };
    }

    pub fn clock() -> Instant {
        Instant(NOW.get())
    }

    pub fn pass(ms: u64) {
        NOW.set(NOW.get() + ms * 1_000_000);
    }

    pub fn go_back(ms: u64) {
        NOW.set(NOW.get() - ms * 1_000_000);
    }
}

pub fn path<F>(bql: bool, kind: &str, options: &[&str]) -> TxPath<F> {
    let config = PathConfig { pool: 4096, bql: bql.then(Default::default), ..PathConfig::default() };
    TxPath::new(config).unwrap().with_qdisc(kind, options).unwrap()
}

/// Makes a path as `path` does, for forwarded packets: a packet that finds no room is dropped.
pub fn forwarding<F>(kind: &str, options: &[&str]) -> TxPath<F> {
    let config = PathConfig { pool: 4096, role: Role::Forwarder, ..PathConfig::default() };
    TxPath::new(config).unwrap().with_qdisc(kind, options).unwrap()
}

pub type RingQueue = Arc<Queue<RingSender<u64>>>;

/// Makes a queue over a ring, and the ring's other end.
pub fn over_a_ring(
    path: TxPath<u64>,
    slots: usize,
    config: QueueConfig<u64>,
    service: Wakeup,
    doorbell: Wakeup,
) -> (RingQueue, RingReceiver<u64>) {
    let (sender, receiver) = ring(slots, doorbell);
    let queue = Arc::new(Queue::new(path, sender, config, service));
    receiver.on_finished(queue.kicker());
    (queue, receiver)
}

/// The packets that the thread behind a ring has seen.
#[derive(Default)]
pub struct Got {
    pub packets: AtomicU64,
    pub frames: Mutex<Vec<u64>>,
    stop: AtomicBool,
}

/// A thread that receives until it is stopped, sleeps while no packet comes, and finishes packets
/// in rounds of `round`. With `keep` it keeps every packet. After each `pause` packets it stands
/// still for a moment.
pub struct Receiver {
    pub got: Arc<Got>,
    thread: Option<JoinHandle<RingReceiver<u64>>>,
}

impl Receiver {
    pub fn spawn(mut from: RingReceiver<u64>, bell: &Bell2, round: u64, keep: bool, pause: u64) -> Self {
        let got = Arc::new(Got::default());
        let (seen, bell) = (Arc::clone(&got), bell.clone());
        let thread = thread::spawn(move || {
            bell.hear();
            let mut unfinished = 0;
            loop {
                match from.pop_or_rest() {
                    Some((frame, _)) => {
                        unfinished += 1;
                        if keep {
                            seen.frames.lock().unwrap().push(frame);
                        }
                        let n = seen.packets.fetch_add(1, Ordering::Release) + 1;
                        if pause > 0 && n % pause == 0 {
                            // The pauses differ in length: in some the thread spins, in others it
                            // sleeps.
                            match (n / pause) % 3 {
                                0 => thread::sleep(Duration::from_micros(200)),
                                1 => (0..2000).for_each(|_| std::hint::spin_loop()),
                                _ => thread::yield_now(),
                            }
                        }
                        if unfinished >= round {
                            from.finish(unfinished);
                            unfinished = 0;
                        }
                    }
                    None => {
                        if unfinished > 0 {
                            from.finish(unfinished);
                            unfinished = 0;
                        } else if seen.stop.load(Ordering::Acquire) {
                            return from;
                        } else {
                            thread::park_timeout(Duration::from_secs(60));
                        }
                    }
                }
            }
        });
        Self { got, thread: Some(thread) }
    }

    pub fn wait_for(&self, packets: u64, limit: Duration) -> bool {
        let until = clock().0 + limit.as_nanos() as u64;
        while self.got.packets.load(Ordering::Acquire) < packets {
            if clock().0 > until {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    pub fn stop(mut self) -> Arc<Got> {
        self.got.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().expect("the receiver has not panicked");
        }
        Arc::clone(&self.got)
    }
}

/// A doorbell for a thread that does not exist yet.
#[derive(Clone, Default)]
pub struct Bell2(Arc<std::sync::OnceLock<thread::Thread>>);

impl Bell2 {
    pub fn hear(&self) {
        let _ = self.0.set(thread::current());
    }
    pub fn wakeup(&self) -> Wakeup {
        let it = Arc::clone(&self.0);
        Wakeup::calling(move || {
            if let Some(thread) = it.get() {
                thread.unpark();
            }
        })
    }
}
