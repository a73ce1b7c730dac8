//! The findings of the monitor: each way to stand still, planted by a device or a service that does
//! not do its part; and no finding where nothing stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::{Admitted, DqlConfig, Meta, Nanos, PathConfig, TxPath};
use txweir_handoff::*;

use crate::common::own_time::{clock, pass};

/// A device that tells no thread of anything.
struct Mute {
    slots: u32,
    in_ring: u32,
    reaped: u32,
    finished: Arc<AtomicU32>,
    open: Arc<AtomicBool>,
}

impl TxQueue for Mute {
    type Frame = u64;
    fn reserve(&mut self, want: u32) -> u32 {
        if self.open.load(Ordering::Relaxed) { want.min(self.slots - self.in_ring) } else { 0 }
    }
    fn push(&mut self, _: u64, _: &Meta) {
        self.in_ring += 1;
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u64>)) {
        let packets = self.finished.load(Ordering::Relaxed) - self.reaped;
        self.reaped += packets;
        self.in_ring -= packets;
        if packets > 0 {
            sink(Completed { packets, bytes: packets * 100, frame: None });
        }
    }
}

struct Bench {
    queues: Vec<Arc<Queue<Mute>>>,
    finished: Arc<AtomicU32>,
    open: Arc<AtomicBool>,
    monitor: Monitor,
    found: Vec<Report>,
}

impl Bench {
    fn new(path: TxPath<u64>, drain: Drain) -> Self {
        let (finished, open) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(true)));
        let dev = Mute {
            slots: 1,
            in_ring: 0,
            reaped: 0,
            finished: Arc::clone(&finished),
            open: Arc::clone(&open),
        };
        let config = QueueConfig { drain, ..QueueConfig::new(clock) };
        let queue = Arc::new(Queue::new(path, dev, config, Bell::new().wakeup()));
        Self { queues: vec![queue], finished, open, monitor: Monitor::default(), found: Vec::new() }
    }
    fn send(&self, n: u64) {
        let handed = self.queues[0].send(n, Meta::new(100));
        assert!(!matches!(handed, Handed::Done(Admitted::Full(_) | Admitted::Dropped(_))), "{handed:?}");
    }
    /// Looks after this time has passed. Returns the number of findings.
    fn look(&mut self, ms: u64) -> usize {
        pass(ms);
        let found = &mut self.found;
        self.monitor.look(&self.queues, &mut |report| found.push(report));
        self.found.len()
    }
    fn sent(&self) -> u64 {
        self.queues[0].status().counts().path.tx_packets
    }
    fn why(&self) -> Option<Why> {
        match self.found.last() {
            Some(Report::Stuck(stuck)) => Some(stuck.why),
            _ => None,
        }
    }
}

fn path(kind: &str, options: &[&str]) -> TxPath<u64> {
    let config = PathConfig { pool: 64, bql: None, ..PathConfig::default() };
    TxPath::new(config).unwrap().with_qdisc(kind, options).unwrap()
}

#[test]
fn a_device_that_does_not_tell_is_found_and_the_queue_goes_on() {
    let mut b = Bench::new(path("pfifo", &[]), Drain::Caller);
    b.send(1);
    b.send(2);
    // The device is at work: no party is at fault.
    assert_eq!((b.look(100), b.look(200), b.look(200), b.sent()), (0, 0, 0, 1));
    b.finished.store(1, Ordering::Relaxed);
    assert_eq!((b.look(100), b.look(100), b.sent()), (0, 1, 2));
    assert_eq!(b.why(), Some(Why::Untold));
    let text = b.found[0].to_string();
    let first = "queue 0: stood still for 100 ms: the device had finished packets and did not tell; 1 packets, 100 bytes wait\n";
    assert!(text.starts_with(first), "{text}");
    assert!(text.ends_with("found stuck"), "{text}");
    // The log has the last events before the queue stood still.
    assert!(text.contains("ns  taken: send\n") && text.contains("ns  stopped\n"), "{text}");
    assert_eq!(b.queues[0].status().counts().handoff.stuck, 1);
    assert_eq!((b.look(100), b.look(100), b.look(100)), (1, 1, 1), "once");
}

#[test]
fn a_device_that_takes_again_and_does_not_tell_is_found() {
    let mut b = Bench::new(path("pfifo", &[]), Drain::Caller);
    b.open.store(false, Ordering::Relaxed);
    b.send(1);
    assert_eq!((b.look(100), b.look(100), b.look(100)), (0, 0, 0));
    b.open.store(true, Ordering::Relaxed);
    assert_eq!((b.look(100), b.look(100), b.sent()), (0, 1, 1));
    assert_eq!(b.why(), Some(Why::MayTransmit));
}

#[test]
fn a_service_that_does_not_come_is_found() {
    let mut b = Bench::new(path("pfifo", &[]), Drain::Worker);
    b.send(1);
    assert_eq!((b.look(100), b.look(100)), (0, 1));
    assert_eq!((b.why(), b.sent()), (Some(Why::Uncalled), 1));
    // A service that comes in time is not reported.
    b.send(2);
    assert_eq!(b.look(100), 1);
    let _ = b.queues[0].serve();
    b.finished.store(1, Ordering::Relaxed);
    b.queues[0].kick();
    let _ = b.queues[0].serve();
    assert_eq!((b.look(100), b.look(100), b.sent()), (1, 1, 2));
}

#[test]
fn a_time_that_passes_unused_is_found() {
    let tbf = ["rate", "8kbit", "burst", "100", "limit", "10000"];
    let mut b = Bench::new(path("tbf", &tbf), Drain::Caller);
    b.send(1);
    b.finished.store(1, Ordering::Relaxed);
    b.queues[0].kick();
    b.send(2);
    // 100 bytes take 100 ms at 8 kbit/s.
    assert!(b.queues[0].status().deadline().is_some());
    assert_eq!((b.look(50), b.look(100), b.sent()), (0, 0, 1));
    assert_eq!((b.look(200), b.look(100), b.sent()), (0, 1, 2));
    assert_eq!(b.why(), Some(Why::Overdue));
}

#[test]
fn a_device_that_finishes_nothing_is_reported_each_timeout() {
    let mut b = Bench::new(path("pfifo", &[]), Drain::Caller);
    b.send(1);
    assert_eq!((b.look(100), b.look(4800)), (0, 0));
    assert_eq!(b.look(300), 1);
    let at_least = |ms| Nanos::from_millis(ms);
    let Report::TimedOut(Stall { queue: 0, stood, in_flight: 1, waiting: 0 }) = b.found[0] else {
        panic!("{:?}", b.found)
    };
    assert!(stood > at_least(5000) && stood < at_least(5200), "{stood:?}");
    assert_eq!(
        b.found[0].to_string(),
        "queue 0: the device holds 1 packets and has finished none for 5100 ms"
    );
    assert_eq!((b.look(4900), b.look(200), b.queues[0].status().counts().handoff.timeouts), (1, 2, 2));
    // Progress ends it, and an idle device has nothing to finish.
    b.finished.store(1, Ordering::Relaxed);
    assert_eq!((b.look(4000), b.look(6000)), (2, 2));
}

#[test]
fn late_completions_are_reported_as_the_byte_limit_counts_them() {
    let config = PathConfig { pool: 64, bql: Some(DqlConfig::default()), ..PathConfig::default() };
    let mut b = Bench::new(TxPath::new(config).unwrap(), Drain::Caller);
    b.queues[0]
        .control()
        .try_with(|o| {
            let now = o.now();
            o.path.tx_mut().limit_mut().map(|dql| dql.set_stall_thrs(Nanos::from_millis(8), now))
        })
        .unwrap();
    pass(1);
    b.send(1);
    pass(50);
    b.finished.store(1, Ordering::Relaxed);
    b.queues[0].kick();
    assert_eq!(b.look(1), 1);
    let Report::Stalled { queue: 0, stalls: 1, longest } = b.found[0] else { panic!("{:?}", b.found) };
    assert_eq!(longest, Nanos::from_millis(50));
    assert_eq!(b.found[0].to_string(), "queue 0: completions came late 1 times, the latest 50 ms");
    assert_eq!(b.look(100), 1);
}
