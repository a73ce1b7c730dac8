//! A panic of a device, a callback, a command, a cutter, an iterator or a waker leaves the queue
//! usable, and the service goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{clock, path};
use txweir_core::model::testing::VecDevice;
use txweir_core::{Admitted, Completed, DeviceError, DqlConfig, Meta, PathConfig, Role, TxPath, TxQueue};
use txweir_handoff::*;

/// A device that panics when it is given a packet, and then at the doorbell, while it is broken. It
/// gives back the frames that it has finished.
struct Faulty {
    inner: VecDevice<u64>,
    broken: Arc<AtomicBool>,
    /// The number of packets that it takes although it is broken.
    takes: u64,
    /// Frames that are finished.
    finished: Vec<u64>,
}

impl Faulty {
    fn new() -> (Self, Arc<AtomicBool>) {
        let broken = Arc::new(AtomicBool::new(false));
        let inner = VecDevice::with_slots(1000);
        (Self { inner, broken: Arc::clone(&broken), takes: 0, finished: Vec::new() }, broken)
    }
}

impl TxQueue for Faulty {
    type Frame = u64;
    fn reserve(&mut self, want: u32) -> u32 {
        self.inner.reserve(want)
    }
    fn push(&mut self, frame: u64, m: &Meta) {
        if self.broken.load(Ordering::Acquire) {
            assert!(self.takes > 0, "planned: push");
            self.takes -= 1;
        }
        self.inner.push(frame, m);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        assert!(!self.broken.load(Ordering::Acquire), "planned: doorbell");
        self.inner.commit()
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u64>)) {
        for frame in self.finished.drain(..) {
            sink(Completed { packets: 1, bytes: 100, frame: Some(frame) });
        }
    }
    fn discard(&mut self, _: u64, _: &Meta, _: txweir_core::DropReason) {}
}

/// Calls `f`, which is to panic.
fn fails<R>(f: impl FnOnce() -> R) {
    assert!(catch_unwind(AssertUnwindSafe(f)).is_err(), "it did not panic");
}

fn meta() -> Meta {
    Meta::new(100)
}

fn queue_over<D: TxQueue<Frame = u64>>(path: TxPath<u64>, dev: D) -> Arc<Queue<D>> {
    Arc::new(Queue::new(path, dev, QueueConfig::new(clock), Bell::new().wakeup()))
}

fn sent(queue: &Queue<Faulty>) -> Vec<u64> {
    queue.control().try_with(|o| o.dev.inner.sent().to_vec()).expect("no thread has it")
}

/// Makes a path with a byte limit that a few packets do not reach.
fn limited(kind: &str, options: &[&str]) -> TxPath<u64> {
    let bql = Some(DqlConfig { limit_min: 10_000, ..DqlConfig::default() });
    let config = PathConfig { pool: 64, bql, ..PathConfig::default() };
    TxPath::new(config).unwrap().with_qdisc(kind, options).unwrap()
}

/// Waits until this is true, or for a minute.
fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    (0..60_000).any(|_| {
        let is = done();
        if !is {
            thread::sleep(Duration::from_millis(1));
        }
        is
    })
}

#[test]
fn the_service_goes_on_with_the_other_queues_and_tells() {
    let bell = Bell::new();
    let of = |dev| {
        let config = QueueConfig { drain: Drain::Worker, ..QueueConfig::new(clock) };
        Arc::new(Queue::new(path(false, "pfifo_fast", &[]), dev, config, bell.wakeup()))
    };
    let ((first, broken), (second, _)) = (Faulty::new(), Faulty::new());
    let queues = [of(first), of(second)];
    broken.store(true, Ordering::Release);
    let found = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&found);
    let service = Service::spawn("tx", &bell, queues.to_vec(), Monitor::default(), move |report| {
        noted.lock().unwrap().push(report.to_string());
        if noted.lock().unwrap().len() == 1 {
            panic!("planned: report");
        }
    })
    .unwrap();
    (0..5).for_each(|n| assert_eq!(queues[0].send(n, meta()), Handed::Listed));
    let told = wait_until(|| !found.lock().unwrap_or_else(|e| e.into_inner()).is_empty());
    assert!(told, "the panic is reported");
    (0..5).for_each(|n| assert_eq!(queues[1].send(n, meta()), Handed::Listed));
    let tx = |queue: &Queue<Faulty>| queue.status().counts().path.tx_packets;
    assert!(wait_until(|| tx(&queues[1]) == 5), "{:?}", queues[1].status().counts());
    // The packet that was handed over is lost; the others leave once the device works.
    assert!(wait_until(|| queues[0].status().counts().handoff.panics > 0));
    broken.store(false, Ordering::Release);
    assert!(wait_until(|| queues[0].send(5, meta()) == Handed::Listed));
    let last = |queue: &Queue<Faulty>| {
        queue.control().try_with(|o| o.dev.inner.sent().last().copied()).flatten() == Some(5)
    };
    assert!(wait_until(|| last(&queues[0])), "{:?}", queues[0].status().counts());
    let text = found.lock().unwrap_or_else(|e| e.into_inner())[0].clone();
    assert!(text.contains("queue 0") && text.contains("planned: push"), "{text}");
    assert!(service.stop() >= 2, "the push and the report");
}

#[test]
fn packets_of_a_burst_whose_iterator_panics_are_announced() {
    let packets = || (0..11).map(|n| if n < 10 { (n, meta()) } else { panic!("planned: iterator") });
    let (dev, _) = Faulty::new();
    let queue = queue_over(path(false, "pfifo_fast", &[]), dev);
    fails(|| queue.send_burst(&mut packets()));
    let announced = |queue: &Queue<Faulty>| {
        let inspect = |o: &mut Owned<Faulty>| (o.dev.inner.sent().len(), o.dev.inner.doorbells());
        queue.control().try_with(inspect).expect("no thread has it")
    };
    assert_eq!(announced(&queue), (10, 1));
    assert_eq!(queue.status().counts().handoff.panics, 1);
    let Some(mut owner) = Owner::new(Arc::clone(&queue)) else {
        return println!("skipped, because the system has no membarrier(2)");
    };
    while !owner.is_biased() {
        assert_eq!(owner.send_burst(&mut [(0, meta())].into_iter()), (1, None));
    }
    let before = announced(&queue);
    while !owner.is_biased() {
        assert_eq!(owner.send_burst(&mut [(0, meta())].into_iter()), (1, None));
    }
    fails(|| owner.send_burst(&mut packets()));
    let after = announced(&queue);
    assert!(after.0 >= before.0 + 10 && after.1 > before.1, "{before:?} {after:?}");
    let (packets, commits) = queue
        .control()
        .try_with(|o| (o.path.stats().tx_packets, o.path.stats().commits))
        .expect("no thread has it");
    assert_eq!((packets, commits), (after.0 as u64, after.1));
}

#[test]
fn the_commands_behind_one_that_panics_are_run() {
    let (dev, _) = Faulty::new();
    let config = QueueConfig { drain: Drain::Worker, ..QueueConfig::new(clock) };
    let queue = Queue::new(path(false, "pfifo_fast", &[]), dev, config, Bell::new().wakeup());
    let control = queue.control();
    control.freeze(|| {});
    control.post(|_| panic!("planned: command"));
    control.thaw();
    assert_eq!(queue.send(1, meta()), Handed::Listed);
    fails(|| queue.serve());
    assert_eq!(queue.serve(), Rest::Idle);
    assert_eq!(queue.status().counts().path.tx_packets, 1);
}

/// A command that comes while others run waits behind them, also where one of them panics.
#[test]
fn a_command_that_came_before_the_panic_is_run_behind_the_others() {
    let (dev, _) = Faulty::new();
    let config = QueueConfig { drain: Drain::Worker, ..QueueConfig::new(clock) };
    let queue = Arc::new(Queue::new(path(false, "pfifo_fast", &[]), dev, config, Bell::new().wakeup()));
    let ran = Arc::new(Mutex::new(Vec::new()));
    let note = |n: u32| {
        let ran = Arc::clone(&ran);
        move |_: &mut Owned<Faulty>| ran.lock().unwrap().push(n)
    };
    let (mine, last) = (Arc::clone(&queue), note(3));
    queue.control().post(note(1));
    queue.control().post(move |_| {
        mine.control().post(last);
        panic!("planned: command");
    });
    queue.control().post(note(2));
    fails(|| queue.serve());
    assert_eq!(*ran.lock().unwrap(), [1]);
    assert_eq!(queue.serve(), Rest::Idle);
    assert_eq!(*ran.lock().unwrap(), [1, 2, 3]);
}

#[test]
fn an_origin_stays_one_where_its_cutter_panics() {
    let config = QueueConfig {
        drain: Drain::Worker,
        cut: Some(Box::new(|_, _, _, _| panic!("planned: cutter"))),
        ..QueueConfig::new(clock)
    };
    let (dev, _) = Faulty::new();
    let tbf = path(false, "tbf", &["rate", "1gbit", "burst", "2000", "limit", "100000"]);
    let queue = Queue::new(tbf, dev, config, Bell::new().wakeup());
    let mut large = Meta::new(60_000);
    large.segs = 40;
    assert_eq!(queue.send(1, large), Handed::Listed);
    fails(|| queue.serve());
    assert_eq!(queue.control().try_with(|o| o.path.role), Some(Role::Origin));
}

#[test]
fn a_packet_that_was_listed_beside_a_panic_is_sent() {
    let called = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&called);
    let service = Wakeup::calling(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let (dev, _) = Faulty::new();
    let queue = Queue::new(path(false, "pfifo_fast", &[]), dev, QueueConfig::new(clock), service);
    fails(|| {
        queue.control().try_with(|_| {
            assert_eq!(queue.send(1, meta()), Handed::Listed);
            panic!("planned: holder");
        })
    });
    assert_eq!(called.load(Ordering::Relaxed), 1, "the service was told");
    assert!(queue.status().is_called());
    assert_eq!(queue.serve(), Rest::Idle);
    assert_eq!(sent(&queue), [1]);
}

#[test]
fn a_packet_that_the_device_did_not_take_is_not_in_flight() {
    let (dev, broken) = Faulty::new();
    let queue = queue_over(limited("pfifo", &["limit", "100"]), dev);
    let books = || {
        let look = |o: &mut Owned<Faulty>| {
            (o.path.stats().tx_packets, o.path.tx().limit().map(|limit| limit.available()))
        };
        queue.control().try_with(look).expect("no thread has it")
    };
    let before = books();
    broken.store(true, Ordering::Release);
    // A packet that goes directly, and then one that waits.
    fails(|| queue.send(1, meta()));
    broken.store(false, Ordering::Release);
    assert_eq!(books(), before);
    queue.control().freeze(|| {});
    (2..5).for_each(|n| assert_eq!(queue.send(n, meta()), Handed::Done(Admitted::Queued)));
    broken.store(true, Ordering::Release);
    // One more packet is pushed, and the doorbell for it panics within the panic.
    queue.control().try_with(|o| o.dev.takes = 1).unwrap();
    fails(|| queue.control().thaw());
    broken.store(false, Ordering::Release);
    queue.kick();
    assert_eq!(queue.status().counts().handoff.panics, 2);
    assert_eq!(sent(&queue), [2, 4]);
    assert_eq!(books().0, 2);
    let bytes = queue.control().try_with(|o| o.path.tx().limit().map(|l| l.inflight()));
    assert_eq!(bytes, Some(Some(200)));
    queue.control().try_with(|o| o.dev.finished = vec![2, 4]).unwrap();
    queue.kick();
    assert_eq!(queue.status().counts().handoff.reaped, 2);
    assert_eq!(queue.control().try_with(|o| o.path.tx().limit().map(|l| l.inflight())), Some(Some(0)));
}

/// Returns a queue whose device has finished frames 0, 1 and 2, and the frames that came back:
/// `done` has panicked at frame 1.
fn queue_after_a_panic_of_done() -> (Queue<Faulty>, Arc<Mutex<Vec<u64>>>) {
    let back = Arc::new(Mutex::new(Vec::new()));
    let mine = Arc::clone(&back);
    let config = QueueConfig {
        done: Box::new(move |frame| {
            assert!(frame != 1, "planned: done");
            mine.lock().unwrap().push(frame);
        }),
        ..QueueConfig::new(clock)
    };
    let (dev, _) = Faulty::new();
    let queue = Queue::new(limited("pfifo_fast", &[]), dev, config, Bell::new().wakeup());
    (0..3).for_each(|n| assert_eq!(queue.send(n, meta()), Handed::Done(Admitted::Sent)));
    queue.control().try_with(|o| o.dev.finished = vec![0, 1, 2]).unwrap();
    fails(|| queue.kick());
    assert_eq!(*back.lock().unwrap(), [0]);
    (queue, back)
}

#[test]
fn completions_are_booked_before_the_callback_that_panics() {
    let (queue, back) = queue_after_a_panic_of_done();
    assert_eq!(queue.control().try_with(|o| o.path.tx().limit().map(|l| l.inflight())), Some(Some(0)));
    // The device tells of nothing more.
    assert_eq!(queue.serve(), Rest::Idle);
    assert_eq!(queue.status().counts().handoff.reaped, 3);
    assert_eq!(*back.lock().unwrap(), [0, 2]);
}

/// No thread comes between the panic and the end.
#[test]
fn the_end_of_a_queue_gives_back_the_frames_behind_a_panic() {
    let (queue, back) = queue_after_a_panic_of_done();
    drop(queue);
    assert_eq!(*back.lock().unwrap(), [0, 2]);
    let (queue, back) = queue_after_a_panic_of_done();
    let parts = queue.into_parts();
    assert_eq!((back.lock().unwrap().clone(), parts.listed.len()), (vec![0, 2], 0));
}

#[test]
fn senders_behind_one_whose_waker_panics_are_told() {
    let (dev, _) = Faulty::new();
    let queue = queue_over(path(false, "pfifo", &["limit", "1"]), dev);
    queue.control().try_with(|o| o.dev.inner.set_slots(0)).unwrap();
    assert_eq!(queue.send(1, meta()), Handed::Done(Admitted::Queued));
    assert_eq!(queue.send(2, meta()), Handed::Done(Admitted::Full(2)));
    let told = Arc::new(AtomicU64::new(0));
    queue.when_room(Wakeup::calling(|| panic!("planned: waker")));
    for n in 0..3 {
        let told = Arc::clone(&told);
        queue.when_room(Wakeup::calling(move || {
            told.fetch_add(1, Ordering::Relaxed);
            assert!(n != 1, "planned: a second waker");
        }));
    }
    fails(|| queue.control().try_with(|o| o.dev.inner.set_slots(10)));
    assert_eq!(told.load(Ordering::Relaxed), 3);
    assert_eq!(queue.send(2, meta()), Handed::Done(Admitted::Sent));
}
