//! The lateness of the machine while a run was measured: a thread that sleeps for a millisecond at
//! a time tells it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Greatest lateness of 99 % of the naps in a run that counts: the differences between requests and
/// queues are greater.
const P99_MAX: Duration = Duration::from_millis(10);
/// Greatest lateness of any nap in a run that counts: half of TCP's shortest timeout. A longer
/// stall could cause losses of its own.
const WORST_MAX: Duration = Duration::from_millis(100);
const NAP: Duration = Duration::from_millis(1);

/// The lateness of the naps; its worst value covers the events of the forwarder's wire and the
/// starts of the traffic too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    pub p99: Duration,
    pub worst: Duration,
}

impl Lateness {
    /// True if the machine was too late for the measurement to count.
    pub fn too_busy(&self) -> bool {
        self.p99 > P99_MAX || self.worst > WORST_MAX
    }

    /// Returns the greater of each.
    pub fn max(self, other: Self) -> Self {
        Self { p99: self.p99.max(other.p99), worst: self.worst.max(other.worst) }
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "{:.1} ms late (1 % of the time), {:.1} ms at worst", ms(self.p99), ms(self.worst))
    }
}

/// The thread that sleeps.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Watch {
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut late = Vec::new();
            while !until.load(Ordering::Relaxed) {
                let from = Instant::now();
                thread::sleep(NAP);
                late.push(from.elapsed().saturating_sub(NAP));
            }
            late
        });
        Self { stop, thread }
    }

    /// Ends the thread. `others` is the worst lateness of the other parts of the run.
    pub fn end(self, others: Duration) -> Lateness {
        self.stop.store(true, Ordering::Relaxed);
        let late = self.thread.join().expect("the naps");
        of(late, others)
    }
}

/// Returns the time-weighted percentile: a long nap counts for its whole length.
fn of(mut late: Vec<Duration>, others: Duration) -> Lateness {
    late.sort_unstable();
    let whole: Duration = late.iter().map(|late| *late + NAP).sum();
    let (mut beyond, mut p99) = (Duration::ZERO, Duration::ZERO);
    for late in late.iter().rev() {
        beyond += *late + NAP;
        p99 = *late;
        if beyond >= whole / 100 {
            break;
        }
    }
    Lateness { p99, worst: late.last().copied().unwrap_or_default().max(others) }
}

#[test]
fn lateness_is_weighted_by_time() {
    let ms = Duration::from_millis;
    let steady = of(vec![ms(0); 1000], ms(3));
    assert_eq!((steady, steady.too_busy()), (Lateness { p99: ms(0), worst: ms(3) }, false));
    // The long nap is one in a thousand, but more than a hundredth of the time.
    let stalled = of([vec![ms(0); 999], vec![ms(50)]].concat(), ms(0));
    assert_eq!((stalled, stalled.too_busy()), (Lateness { p99: ms(50), worst: ms(50) }, true));
    let once = of([vec![ms(0); 99_999], vec![ms(120)]].concat(), ms(0));
    assert_eq!((once.p99, once.worst, once.too_busy()), (ms(0), ms(120), true));
    assert!(of(vec![ms(0); 10], ms(101)).too_busy() && !of(vec![ms(0); 10], ms(100)).too_busy());
}
