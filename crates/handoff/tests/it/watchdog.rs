//! The watchdog: it has the device of a stopped queue reset, once. No packet goes into the device
//! meanwhile, and every packet goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::path::txpath::Stops;
use txweir_core::{Admitted, DqlConfig, Meta, Nanos, PathConfig, TxPath};
use txweir_handoff::*;

use crate::common;
use crate::common::own_time::{clock, pass};

/// The state of a device that a test sees and changes.
#[derive(Default)]
struct Hands {
    /// True if the device finishes no packet.
    stuck: AtomicBool,
    /// True if the doorbell of the device does not return.
    hangs: AtomicBool,
    /// True while the device is reset: no packet may go into it.
    resetting: AtomicBool,
    /// Frames that went into the device, in order.
    got: Mutex<Vec<u64>>,
    /// Number of packets that went into the device during a reset.
    trespassed: AtomicU64,
}

impl Hands {
    fn got(&self) -> Vec<u64> {
        self.got.lock().unwrap().clone()
    }
    fn look(&self) {
        if self.resetting.load(Ordering::SeqCst) {
            self.trespassed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A device that finishes every packet when it is asked, unless it is stuck.
struct Dev {
    slots: u32,
    in_ring: u32,
    hands: Arc<Hands>,
}

impl TxQueue for Dev {
    type Frame = u64;
    fn reserve(&mut self, want: u32) -> u32 {
        want.min(self.slots - self.in_ring)
    }
    fn push(&mut self, frame: u64, _: &Meta) {
        self.hands.look();
        self.in_ring += 1;
        self.hands.got.lock().unwrap().push(frame);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.hands.look();
        while self.hands.hangs.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u64>)) {
        if self.in_ring > 0 && !self.hands.stuck.load(Ordering::SeqCst) {
            let packets = std::mem::take(&mut self.in_ring);
            sink(Completed { packets, bytes: packets * 100, frame: None });
        }
    }
}

/// Queues of one device.
struct Bench {
    queues: Vec<Arc<Queue<Dev>>>,
    hands: Vec<Arc<Hands>>,
    monitor: Monitor,
    found: Vec<Report>,
    stalls: Arc<Mutex<Vec<Stall>>>,
}

fn path(kind: &str, options: &[&str], bql: Option<DqlConfig>) -> TxPath<u64> {
    let config = PathConfig { pool: 64, bql, ..PathConfig::default() };
    TxPath::new(config).unwrap().with_qdisc(kind, options).unwrap()
}

impl Bench {
    /// Creates two queues of two slots, each stuck.
    fn new(drain: Drain) -> Self {
        Self::with(drain, || path("pfifo", &["limit", "2"], None))
    }

    fn with(drain: Drain, path: impl Fn() -> TxPath<u64>) -> Self {
        let hands: Vec<Arc<Hands>> = (0..2).map(|_| Arc::default()).collect();
        let queue = |hands: &Arc<Hands>| {
            hands.stuck.store(true, Ordering::SeqCst);
            let dev = Dev { slots: 2, in_ring: 0, hands: Arc::clone(hands) };
            let config = QueueConfig { drain, list: 4, ..QueueConfig::new(clock) };
            Arc::new(Queue::new(path(), dev, config, Wakeup::calling(|| {})))
        };
        let queues = hands.iter().map(queue).collect();
        Self { queues, hands, monitor: Monitor::default(), found: Vec::new(), stalls: Arc::default() }
    }

    /// Installs `reset` as the handler of a reset, and notes each call of it.
    fn reset_by(mut self, reset: impl Fn(&[Arc<Queue<Dev>>], &[Arc<Hands>]) + Send + Sync + 'static) -> Self {
        let (queues, hands, stalls) = (self.queues.clone(), self.hands.clone(), Arc::clone(&self.stalls));
        self.monitor = self.monitor.on_timeout(move |stall| {
            hands.iter().for_each(|h| h.resetting.store(true, Ordering::SeqCst));
            stalls.lock().unwrap().push(stall);
            let after = Resetting(hands.clone());
            reset(&queues, &hands);
            drop(after);
        });
        self
    }

    fn send(&self, queue: usize, n: u64) -> Handed<u64> {
        self.queues[queue].send(n, Meta::new(100))
    }
    /// Runs the monitor after this time has passed. Returns the findings since the last run.
    fn look(&mut self, ms: u64) -> Vec<Report> {
        pass(ms);
        let found = &mut self.found;
        self.monitor.look(&self.queues, &mut |report| found.push(report));
        std::mem::take(&mut self.found)
    }
    fn trespassed(&self) -> u64 {
        self.hands.iter().map(|h| h.trespassed.load(Ordering::SeqCst)).sum()
    }
    fn is_frozen(&self, queue: usize) -> bool {
        self.queues[queue]
            .control()
            .try_with(|o| o.path.tx().stops().has(Stops::FROZEN))
            .expect("no thread has it")
    }
}

/// The device is being reset as long as this exists.
struct Resetting(Vec<Arc<Hands>>);

impl Drop for Resetting {
    fn drop(&mut self) {
        self.0.iter().for_each(|h| h.resetting.store(false, Ordering::SeqCst));
    }
}

/// Puts a fresh ring in the place of one that is stuck.
fn fresh(queue: &Queue<Dev>) {
    queue.control().post(|o| {
        o.dev.in_ring = 0;
        o.device_reset();
    });
}

const QUEUED: Handed<u64> = Handed::Done(Admitted::Queued);
const SENT: Handed<u64> = Handed::Done(Admitted::Sent);

#[test]
fn a_stopped_queue_has_its_device_reset_once() {
    let mut b = Bench::new(Drain::Caller).reset_by(|_, _| pass(3));
    assert_eq!([b.send(0, 1), b.send(0, 2), b.send(0, 3)], [SENT, SENT, QUEUED]);
    // The other queue's device holds packets and finishes none either, but no packet waits for it.
    assert_eq!(b.send(1, 9), SENT);
    assert_eq!((b.look(100), b.look(5000)), (vec![], vec![]));
    let stall = Stall { queue: 0, stood: Nanos::from_millis(5100), in_flight: 2, waiting: 1 };
    let reset = Report::Reset { queue: 0, took: Nanos::from_millis(3), panicked: false };
    let found = b.look(100);
    assert_eq!(found, [Report::TimedOut(stall), reset]);
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "queue 0: stopped for 5100 ms: 1 packets wait, the device holds 2 and has finished none",
            "queue 0: the device was reset, which took 3 ms; all queues go on",
        ]
    );
    let counted = |b: &Bench, at: usize| {
        let counts = b.queues[at].status().counts().handoff;
        (counts.timeouts, counts.resets)
    };
    assert_eq!((counted(&b, 0), counted(&b, 1)), ((1, 1), (0, 0)));
    // The first queue that has timed out stands for all; the next look finds the other.
    let other = Stall { queue: 1, stood: Nanos::from_millis(5203), in_flight: 1, waiting: 0 };
    assert_eq!(b.look(100), [Report::TimedOut(other)]);
    // The reset did not help: this is reported again, and the device is not reset again.
    let again = b.look(5000);
    assert!(matches!(again[..], [Report::TimedOut(Stall { queue: 0, waiting: 1, .. })]), "{again:?}");
    assert_eq!((b.stalls.lock().unwrap().len(), counted(&b, 0), counted(&b, 1)), (1, (2, 1), (1, 0)));
    // A queue that has moved since may stall anew.
    b.hands[0].stuck.store(false, Ordering::SeqCst);
    b.queues[0].kick();
    b.hands[0].stuck.store(true, Ordering::SeqCst);
    assert_eq!([b.send(0, 4), b.send(0, 5)], [SENT, QUEUED]);
    b.hands[1].stuck.store(false, Ordering::SeqCst);
    assert_eq!((b.look(100), b.look(5000)), (vec![], vec![]));
    assert_eq!((b.look(100).len(), counted(&b, 0)), (2, (3, 2)));
    assert_eq!((b.hands[0].got(), b.trespassed()), (vec![1, 2, 3, 4], 0));
    // The log has its last events.
    let events: Vec<String> =
        b.queues[0].control().try_with(|o| o.log().events().map(|(_, e)| e.to_string()).collect()).unwrap();
    let at =
        |what: &str| events.iter().rposition(|e| e == what).unwrap_or_else(|| panic!("{what}: {events:?}"));
    assert!(at("timed out") < at("frozen") && at("frozen") < at("reset") && at("reset") < at("thawed"));
}

#[test]
fn what_is_sent_during_a_reset_waits_and_goes_on_by_itself() {
    let told = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&told);
    let mut b = Bench::new(Drain::Caller).reset_by(move |queues, hands| {
        // The other queue is idle, and no packet goes directly; then it is full.
        let send = |queue: usize, n| queues[queue].send(n, Meta::new(100));
        assert_eq!([send(1, 11), send(1, 12)], [QUEUED, QUEUED]);
        assert_eq!(send(1, 13), Handed::Done(Admitted::Full(13)));
        let counted = Arc::clone(&counted);
        queues[1].when_room(Wakeup::calling(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        }));
        assert_eq!(send(0, 4), QUEUED);
        // Calls from any thread move no packet.
        queues.iter().for_each(|queue| queue.kick());
        assert!(queues.iter().all(|queue| queue.serve() == Rest::Device));
        assert_eq!((hands[0].got(), hands[1].got()), (vec![1, 2], vec![]));
        fresh(&queues[0]);
        assert_eq!((hands[0].got(), counted_of(&queues[0])), (vec![1, 2], (2, 2)));
    });
    assert_eq!([b.send(0, 1), b.send(0, 2), b.send(0, 3)], [SENT, SENT, QUEUED]);
    assert_eq!((b.look(100), b.look(5100).len()), (vec![], 2));
    // No thread has sent or kicked since.
    assert_eq!((b.hands[0].got(), b.hands[1].got()), (vec![1, 2, 3, 4], vec![11, 12]));
    assert_eq!((told.load(Ordering::SeqCst), b.trespassed()), (1, 0));
    assert!(!b.is_frozen(0) && !b.is_frozen(1));
    // Packets that the device has forgotten are not waited for.
    assert_eq!(counted_of(&b.queues[0]), (4, 2));
}

/// Returns the packets that the device was given, and those that it has finished or forgotten.
fn counted_of(queue: &Queue<Dev>) -> (u64, u64) {
    let counts = queue.status().counts();
    (counts.path.tx_packets, counts.handoff.reaped)
}

#[test]
fn a_reset_that_panics_leaves_the_queues_going() {
    let mut b = Bench::new(Drain::Caller).reset_by(|queues, _| {
        assert_eq!(queues[1].send(11, Meta::new(100)), QUEUED);
        fresh(&queues[0]);
        panic!("on purpose");
    });
    assert_eq!([b.send(0, 1), b.send(0, 2), b.send(0, 3)], [SENT, SENT, QUEUED]);
    let _ = b.look(100);
    let found = b.look(5100);
    assert_eq!(found[1], Report::Reset { queue: 0, took: Nanos(0), panicked: true });
    assert_eq!(found[1].to_string(), "queue 0: the reset has panicked, which took 0 ms; all queues go on");
    assert_eq!((b.hands[0].got(), b.hands[1].got()), (vec![1, 2, 3], vec![11]));
    assert_eq!((b.is_frozen(0), b.is_frozen(1), b.trespassed()), (false, false, 0));
}

#[test]
fn a_device_that_somebody_is_in_is_not_reset() {
    let mut b = Bench::new(Drain::Caller).reset_by(|queues, _| fresh(&queues[0]));
    assert_eq!([b.send(0, 1), b.send(0, 2), b.send(0, 3)], [SENT, SENT, QUEUED]);
    b.hands[1].hangs.store(true, Ordering::SeqCst);
    thread::scope(|s| {
        let sending = Arc::clone(&b.queues[1]);
        let sender = s.spawn(move || sending.send(11, Meta::new(100)));
        while !b.queues[1].status().is_called() {
            thread::sleep(Duration::from_millis(1));
        }
        let _ = b.look(100);
        let found = b.look(5100);
        assert_eq!(found[1], Report::NotReset { queue: 1 });
        assert_eq!(
            found[1].to_string(),
            "queue 1: the device is not reset, because a thread is sending and does not end"
        );
        // No handler was called, and the queue that was frozen already goes on.
        assert_eq!((b.stalls.lock().unwrap().len(), b.is_frozen(0)), (0, false));
        b.hands[1].hangs.store(false, Ordering::SeqCst);
        assert_eq!(sender.join().unwrap(), SENT);
    });
    assert!(!b.is_frozen(1));
    // The reset is tried again after another timeout.
    assert_eq!(b.look(4900), []);
    let found = b.look(200);
    assert!(found.contains(&Report::Reset { queue: 0, took: Nanos(0), panicked: false }), "{found:?}");
    assert_eq!((b.hands[0].got(), b.trespassed()), (vec![1, 2, 3], 0));
}

#[test]
fn queues_that_only_the_service_runs_are_frozen_as_well() {
    let mut b = Bench::new(Drain::Worker).reset_by(|queues, hands| {
        assert_eq!(queues[1].send(11, Meta::new(100)), Handed::Listed);
        let _ = queues[1].serve();
        assert_eq!(hands[1].got(), []);
        fresh(&queues[0]);
    });
    assert!((1..=3).all(|n| b.send(0, n) == Handed::Listed));
    let _ = b.queues[0].serve();
    let _ = b.look(100);
    assert_eq!((b.look(5100).len(), b.stalls.lock().unwrap()[0].waiting), (2, 1));
    // The service is called, and serves both queues.
    assert!(b.queues.iter().all(|queue| queue.status().is_called()));
    assert!(b.queues.iter().all(|queue| queue.serve() == Rest::Idle));
    assert_eq!((b.hands[0].got(), b.hands[1].got(), b.trespassed()), (vec![1, 2, 3], vec![11], 0));
}

#[test]
fn what_others_have_frozen_stays_frozen() {
    let mut b = Bench::new(Drain::Caller).reset_by(|queues, _| fresh(&queues[0]));
    let stall = |b: &mut Bench, first: u64| {
        (first..first + 3).for_each(|n| drop(b.send(0, n)));
        let _ = b.look(100);
        assert_eq!(b.look(5100).len(), 2);
    };
    b.queues[1].control().post(|o| o.path.tx_mut().freeze());
    assert_eq!(b.send(1, 11), QUEUED);
    stall(&mut b, 1);
    assert_eq!((b.is_frozen(1), b.hands[1].got()), (true, vec![]));
    b.queues[1].control().post(|o| o.path.tx_mut().thaw());
    assert_eq!(b.hands[1].got(), [11]);
    // The freeze of the queue itself has the same effect; it counts its calls.
    b.queues[1].control().freeze(|| {});
    b.queues[1].control().freeze(|| {});
    assert_eq!(b.send(1, 12), QUEUED);
    stall(&mut b, 4);
    b.queues[1].control().thaw();
    assert_eq!((b.is_frozen(1), b.hands[1].got()), (true, vec![11]));
    b.queues[1].control().thaw();
    assert_eq!((b.is_frozen(1), b.hands[1].got()), (false, vec![11, 12]));
}

#[test]
fn a_byte_limit_that_is_not_lifted_is_a_stop_as_well() {
    let bql = DqlConfig { limit_max: 50, ..DqlConfig::default() };
    let mut b =
        Bench::with(Drain::Caller, || path("pfifo", &[], Some(bql))).reset_by(|queues, _| fresh(&queues[0]));
    assert_eq!([b.send(0, 1), b.send(0, 2)], [SENT, QUEUED]);
    let stops = b.queues[0].control().try_with(|o| o.path.tx().stops()).unwrap();
    assert!(stops.has(Stops::STACK) && !stops.has(Stops::DRV));
    let _ = b.look(100);
    assert_eq!((b.look(5100).len(), b.hands[0].got()), (2, vec![1, 2]));
}

#[test]
fn what_moves_or_waits_for_its_time_is_not_reset() {
    let tbf = ["rate", "80bit", "burst", "100", "limit", "10000"];
    let mut b = Bench::with(Drain::Caller, || path("tbf", &tbf, None)).reset_by(|_, _| ());
    b.hands.iter().for_each(|h| h.stuck.store(false, Ordering::SeqCst));
    // 100 bytes take 10 s at 80 bit/s.
    assert_eq!([b.send(0, 1), b.send(0, 2)], [QUEUED, QUEUED]);
    assert_eq!(b.hands[0].got(), [1]);
    for _ in 0..90 {
        assert_eq!(b.look(100), []);
    }
    // The device makes slow progress and never pauses for 5 s.
    let mut b = Bench::new(Drain::Caller).reset_by(|_, _| ());
    for n in 0..20 {
        let _ = b.send(0, 2 * n);
        let _ = b.send(0, 2 * n + 1);
        assert_eq!((b.look(100), b.look(4500)), (vec![], vec![]), "{n}");
        b.hands[0].stuck.store(false, Ordering::SeqCst);
        b.queues[0].kick();
        b.hands[0].stuck.store(true, Ordering::SeqCst);
    }
}

/// Real threads and a service: three stalls of one of two queues, each ended by a reset of 20 ms,
/// while three senders go on.
#[test]
fn senders_on_threads_lose_nothing_over_resets() {
    let hands: Vec<Arc<Hands>> = (0..2).map(|_| Arc::default()).collect();
    let bell = Bell::new();
    let queue = |hands: &Arc<Hands>| {
        let dev = Dev { slots: 16, in_ring: 0, hands: Arc::clone(hands) };
        let poll = Some(Nanos::from_millis(1));
        let config = QueueConfig { list: 16, poll, ..QueueConfig::new(common::clock) };
        Arc::new(Queue::new(path("pfifo", &["limit", "16"], None), dev, config, bell.wakeup()))
    };
    let queues: Vec<Arc<Queue<Dev>>> = hands.iter().map(queue).collect();
    let resets = Arc::new(AtomicU64::new(0));
    let (reset, theirs, its) = (Arc::clone(&resets), queues.clone(), hands.clone());
    let monitor = Monitor::default().interval(Nanos::from_millis(10)).timeout(Nanos::from_millis(50));
    let monitor = monitor.on_timeout(move |stall| {
        its.iter().for_each(|h| h.resetting.store(true, Ordering::SeqCst));
        thread::sleep(Duration::from_millis(20));
        its[stall.queue].stuck.store(false, Ordering::SeqCst);
        fresh(&theirs[stall.queue]);
        its.iter().for_each(|h| h.resetting.store(false, Ordering::SeqCst));
        reset.fetch_add(1, Ordering::SeqCst);
    });
    let service = Service::spawn("tx", &bell, queues.clone(), monitor, |_| {}).unwrap();
    let over = AtomicBool::new(false);
    let sent: Vec<u64> = thread::scope(|s| {
        let (over, queues) = (&over, &queues);
        let sender = |who: u64, queue: usize| {
            s.spawn(move || {
                let mut n = 0;
                while !over.load(Ordering::SeqCst) {
                    let mut frame = who << 40 | n;
                    while let Handed::Done(Admitted::Full(back)) =
                        queues[queue].send_within(frame, Meta::new(100), Duration::from_secs(10))
                    {
                        frame = back;
                    }
                    n += 1;
                    // A pause now and then bounds the frames that are kept.
                    if n % 64 == 0 {
                        thread::sleep(Duration::from_micros(200));
                    }
                }
                n
            })
        };
        let senders = [sender(0, 0), sender(1, 1), sender(2, 1)];
        let until = common::clock().0 + 60_000_000_000;
        for stalls in 1..=3 {
            thread::sleep(Duration::from_millis(20));
            hands[0].stuck.store(true, Ordering::SeqCst);
            while resets.load(Ordering::SeqCst) < stalls && common::clock().0 < until {
                thread::sleep(Duration::from_millis(1));
            }
        }
        over.store(true, Ordering::SeqCst);
        senders.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let until = common::clock().0 + 10_000_000_000;
    let through = || queues.iter().map(|q| q.status().counts().path.tx_packets).sum::<u64>();
    while through() < sent.iter().sum() && common::clock().0 < until {
        thread::sleep(Duration::from_millis(1));
    }
    service.stop();
    assert_eq!(resets.load(Ordering::SeqCst), 3);
    let timeouts: Vec<u64> = queues.iter().map(|q| q.status().counts().handoff.resets).collect();
    assert_eq!(timeouts, [3, 0]);
    assert_eq!(hands.iter().map(|h| h.trespassed.load(Ordering::SeqCst)).sum::<u64>(), 0);
    // Each sender's packets have gone into the device once, in order.
    for (who, n) in (0u64..).zip(&sent) {
        let got = hands[usize::from(who > 0)].got();
        let own: Vec<u64> = got.iter().filter(|f| *f >> 40 == who).map(|f| f & 0xff_ffff_ffff).collect();
        assert!(own.iter().copied().eq(0..*n), "sender {who}: {} of {n}", own.len());
    }
}
