//! Senders on real threads: no packet is lost, no queue stands still, each sender's order holds,
//! and each sender gets its answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{Bell2, Receiver, clock, forwarding, over_a_ring, path};
use txweir_core::model::testing::VecDevice;
use txweir_core::{
    Admitted, Completed, DeviceError, DropReason, Meta, Nanos, PathConfig, Role, TxPath, TxQueue,
};
use txweir_handoff::*;

const LONG: Duration = Duration::from_secs(60);

/// Returns the packets that the stress test sends: `TXWEIR_PACKETS`, or enough for an event that
/// happens once in ten million.
fn packets() -> u64 {
    let asked = std::env::var("TXWEIR_PACKETS").ok();
    asked.map_or(20_000_000, |n| n.parse().expect("TXWEIR_PACKETS is a number"))
}

/// Sends `n` packets as sender `who`, waiting for room where there is none. Returns the number of
/// waits.
fn send_all(queue: &Queue<RingSender<u64>>, who: u64, n: u64) -> u64 {
    let mut waited = 0;
    for i in 0..n {
        let mut frame = who << 40 | i;
        let meta = Meta::new(64).hash(who as u32);
        while let Handed::Done(Admitted::Full(back)) = queue.send(frame, meta) {
            frame = back;
            waited += 1;
            queue.when_room(Wakeup::this_thread());
            thread::park_timeout(Duration::from_secs(10));
        }
    }
    waited
}

/// An iterator that promises `more` items than it has.
struct Promising<I>(I, usize);

impl<I: Iterator> Iterator for Promising<I> {
    type Item = I::Item;
    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.size_hint().0 + self.1, None)
    }
}

/// Sends as `send_all` does, by bursts of 1 to 50 packets, of which one in three promises more
/// packets than it has.
fn send_all_by_bursts(queue: &Queue<RingSender<u64>>, who: u64, n: u64) {
    let mut next = 0;
    while next < n {
        let end = (next + 1 + next * 7 % 50).min(n);
        let more = if next % 3 == 0 { 5 } else { 0 };
        let mut burst = Promising((next..end).map(|i| (who << 40 | i, Meta::new(64).hash(who as u32))), more);
        let (sent, refused) = queue.send_burst(&mut burst);
        next += sent;
        if let Some((frame, _)) = refused {
            assert_eq!(frame, who << 40 | next, "the first that finds no room comes back");
            queue.when_room(Wakeup::this_thread());
            thread::park_timeout(Duration::from_secs(10));
        } else {
            assert_eq!(next, end);
        }
    }
}

fn stress(drain: Drain, kind: &str, options: &[&str], senders: u64, each: u64, slots: usize) {
    let bell = Bell::new();
    let door = Bell2::default();
    let config = QueueConfig { drain, ..QueueConfig::new(clock) };
    let path = path(true, kind, options);
    let (queue, from) = over_a_ring(path, slots, config, bell.wakeup(), door.wakeup());
    let reports = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&reports);
    let service = Service::spawn("service", &bell, vec![Arc::clone(&queue)], Monitor::default(), move |r| {
        eprintln!("{r}");
        counted.fetch_add(1, Ordering::Relaxed);
    })
    .unwrap();
    let receiver = Receiver::spawn(from, &door, 16, false, 4099);
    thread::scope(|s| {
        for who in 0..senders {
            let queue = &queue;
            s.spawn(move || send_all(queue, who, each));
        }
    });
    let all = receiver.wait_for(senders * each, LONG);
    let counts = queue.status().counts();
    assert!(all, "{kind}: {counts:?}");
    // The monitor had nothing to find.
    assert_eq!((counts.handoff.stuck, reports.load(Ordering::Relaxed)), (0, 0), "{kind}: {counts:?}");
    assert_eq!(counts.path.tx_packets, senders * each);
    service.stop();
    receiver.stop();
}

#[test]
fn twenty_million_packets_and_none_stands_still() {
    stress(Drain::Caller, "pfifo_fast", &[], 2, packets() / 2, 256);
}

#[test]
fn the_same_by_a_worker() {
    stress(Drain::Worker, "pfifo_fast", &[], 2, packets() / 4, 64);
}

#[test]
fn with_a_ring_that_is_always_full() {
    stress(Drain::Caller, "pfifo", &["limit", "20"], 2, packets() / 20, 2);
}

#[test]
fn eight_senders() {
    stress(Drain::Caller, "pfifo_fast", &[], 8, packets() / 20, 128);
}

/// Every kind that does not drop by itself takes its packets through the same admission. (The test
/// `every_kind_is_served` covers the others.)
#[test]
fn each_senders_order_holds() {
    for (drain, budget, list) in
        [(Drain::Caller, 64, 16), (Drain::Caller, 1, 16), (Drain::Worker, 7, 16), (Drain::Worker, 64, 256)]
    {
        let bell = Bell::new();
        let door = Bell2::default();
        let config = QueueConfig { drain, budget, list, ..QueueConfig::new(clock) };
        let (queue, from) = over_a_ring(
            path(true, "fq_codel", &["flows", "16", "target", "10s"]),
            32,
            config,
            bell.wakeup(),
            door.wakeup(),
        );
        let service =
            Service::spawn("service", &bell, vec![Arc::clone(&queue)], Monitor::default(), |_| {}).unwrap();
        let receiver = Receiver::spawn(from, &door, 3, true, 257);
        let each = 50_000;
        thread::scope(|s| {
            (0..3).for_each(|who| {
                drop(s.spawn({
                    let queue = &queue;
                    move || match who {
                        0 => drop(send_all(queue, who, each)),
                        _ => send_all_by_bursts(queue, who, each),
                    }
                }))
            })
        });
        assert!(receiver.wait_for(3 * each, LONG), "{:?}", queue.status().counts());
        service.stop();
        let got = receiver.stop();
        let frames = got.frames.lock().unwrap();
        for who in 0..3 {
            let own: Vec<u64> =
                frames.iter().filter(|f| *f >> 40 == who).map(|f| f & 0xff_ffff_ffff).collect();
            assert!(own.iter().copied().eq(0..each), "sender {who}, {drain:?}, budget {budget}, list {list}");
        }
    }
}

/// Every kind, with its defaults or its required options, beside two senders: the packets sent,
/// dropped and queued are those admitted, and every packet that may leave does so without help.
#[test]
fn every_kind_is_served() {
    let needs = |kind: &str| -> Vec<&'static str> {
        match kind {
            "tbf" => vec!["rate", "1gbit", "burst", "100kb", "limit", "1mb"],
            "red" => vec!["limit", "400000", "min", "30000", "max", "90000", "avpkt", "1000"],
            "htb" => vec!["default", "0"],
            "ets" => vec!["bands", "3"],
            "gred" => vec!["setup", "vqs", "2", "default", "0", "limit", "1mb"],
            "choke" => vec!["limit", "1000", "bandwidth", "1gbit"],
            "etf" => vec!["clockid", "CLOCK_TAI"],
            "netem" => vec!["limit", "100000"],
            _ => vec![],
        }
    };
    let mut seen = 0;
    for spec in txweir_core::qdisc::KINDS {
        // The first three stand for the queues of a port; a path has one queue. A plug holds all
        // packets until a command releases them.
        if ["mq", "mqprio", "cake_mq", "multiq", "plug", "taprio"].contains(&spec.kind) {
            continue;
        }
        seen += 1;
        let bell = Bell::new();
        let door = Bell2::default();
        let config = QueueConfig { details: true, ..QueueConfig::new(clock) };
        let path = forwarding(spec.kind, &needs(spec.kind));
        let (queue, from) = over_a_ring(path, 64, config, bell.wakeup(), door.wakeup());
        let service = Service::spawn("service", &bell, vec![Arc::clone(&queue)], Monitor::default(), |r| {
            eprintln!("{r}")
        })
        .unwrap();
        let receiver = Receiver::spawn(from, &door, 8, false, 0);
        let each = 20_000;
        let sent = AtomicU64::new(0);
        thread::scope(|s| {
            for who in 0..2 {
                let (queue, sent) = (&queue, &sent);
                s.spawn(move || {
                    for i in 0..each {
                        let handed = queue.send(who << 40 | i, Meta::new(64).hash(who as u32));
                        if !matches!(handed, Handed::Done(Admitted::Full(_))) {
                            sent.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        // The remaining packets leave by themselves.
        let until = clock() + Nanos::from_millis(30_000);
        let mut counts = queue.status().counts();
        while counts.backlog.packets > 0 && clock() < until {
            thread::sleep(Duration::from_millis(1));
            counts = queue.status().counts();
        }
        assert_eq!(counts.backlog.packets, 0, "{}: {counts:?}", spec.kind);
        // The service may still have the queue for an instant.
        let drops = loop {
            match queue.control().try_with(|o| o.path.cx().dropped().packets) {
                Some(drops) => break drops,
                None => thread::yield_now(),
            }
        };
        assert_eq!(counts.path.tx_packets + drops, sent.load(Ordering::Relaxed), "{}: {counts:?}", spec.kind);
        assert_eq!(counts.handoff.stuck, 0, "{}: {counts:?}", spec.kind);
        service.stop();
        receiver.stop();
    }
    assert!(seen >= 18, "{seen} kinds");
}

/// An owner sends by plain stores beside a thread that comes now and then, and beside one that is
/// always there. The bias is taken away and comes back.
#[test]
fn an_owner_and_others() {
    for (each, pause) in [(20_000, Duration::from_micros(50)), (1_000_000, Duration::ZERO)] {
        let bell = Bell::new();
        let door = Bell2::default();
        let (queue, from) = over_a_ring(
            path(true, "pfifo_fast", &[]),
            256,
            QueueConfig::new(clock),
            bell.wakeup(),
            door.wakeup(),
        );
        let Some(mut owner) = Owner::new(Arc::clone(&queue)) else {
            return println!("skipped, because the system has no membarrier(2)");
        };
        assert!(Owner::new(Arc::clone(&queue)).is_none(), "a queue has one owner");
        let service =
            Service::spawn("service", &bell, vec![Arc::clone(&queue)], Monitor::default(), |_| {}).unwrap();
        let receiver = Receiver::spawn(from, &door, 16, true, 4099);
        let (mut by_bias, mut own) = (0u64, 0);
        thread::scope(|s| {
            let other = s.spawn(|| {
                (0..each).for_each(|i| {
                    send_all(&queue, 1 << 20 | i, 1);
                    if pause > Duration::ZERO {
                        thread::sleep(pause);
                    }
                });
            });
            while !other.is_finished() || own < 1_000_000 {
                let mut frame = own;
                by_bias += u64::from(owner.is_biased());
                while let Handed::Done(Admitted::Full(back)) = owner.send(frame, Meta::new(64)) {
                    frame = back;
                    queue.when_room(Wakeup::this_thread());
                    thread::park_timeout(Duration::from_secs(10));
                }
                own += 1;
            }
        });
        drop(owner);
        let all = receiver.wait_for(each + own, LONG);
        assert!(all, "{:?} of {}", queue.status().counts(), each + own);
        assert_eq!(queue.status().counts().handoff.stuck, 0);
        assert!(Owner::new(Arc::clone(&queue)).is_some(), "the last owner has gone");
        assert!(by_bias > 0);
        service.stop();
        let got = receiver.stop();
        let frames = got.frames.lock().unwrap();
        let (others, mine): (Vec<u64>, Vec<u64>) = frames.iter().partition(|f| **f >= 1 << 40);
        assert!(mine.is_sorted() && others.is_sorted(), "each sender's order");
        assert_eq!((mine.len() as u64, others.len() as u64), (own, each));
    }
}

/// A burst by the owner is a burst, also where it does not go directly, and where other packets are
/// in front.
#[test]
fn an_owners_bursts() {
    let path = path(false, "pfifo", &["limit", "2"]);
    let queue =
        Arc::new(Queue::new(path, VecDevice::with_slots(5), QueueConfig::new(clock), Bell::new().wakeup()));
    let Some(mut owner) = Owner::new(Arc::clone(&queue)) else {
        return println!("skipped, because the system has no membarrier(2)");
    };
    let mut burst = |range: std::ops::Range<u64>| {
        let (went, refused) = owner.send_burst(&mut range.map(|n| (n, Meta::new(100))));
        (went, refused.map(|(frame, _)| frame), owner.is_biased())
    };
    assert_eq!(burst(0..2), (2, None, true));
    assert_eq!(burst(2..4), (2, None, true));
    // One packet goes directly, two wait, and then there is no room.
    assert_eq!(burst(4..9), (3, Some(7), false));
    queue.control().try_with(|o| o.dev.finish(5)).expect("no thread has it");
    queue.kick();
    assert_eq!(burst(7..9), (2, None, true));
    assert_eq!(queue.status().counts().path.direct, 7);
    assert_eq!(queue.control().try_with(|o| o.dev.sent().to_vec()), Some((0..9).collect()));
}

#[test]
fn who_asks_learns_what_becomes_of_each_packet() {
    let bell = Bell::new();
    let path = path(false, "pfifo", &["limit", "2"]);
    let config = QueueConfig { drain: Drain::Worker, ..QueueConfig::new(clock) };
    let queue = Arc::new(Queue::new(path, VecDevice::with_slots(1), config, bell.wakeup()));
    let mut sender = Tracked::new(Arc::clone(&queue), 8);
    for n in 1..=5u64 {
        assert_eq!(sender.send(n, Meta::new(100)), (Ticket(n), Handed::Listed));
    }
    assert_eq!((sender.answer(), sender.outstanding()), (None, 5));
    assert_eq!(queue.serve(), Rest::Device);
    let answers: Vec<_> = std::iter::from_fn(|| sender.answer()).collect();
    assert_eq!(
        answers,
        [
            (Ticket(1), Admitted::Sent),
            (Ticket(2), Admitted::Queued),
            (Ticket(3), Admitted::Queued),
            // The sender keeps a packet that finds no room.
            (Ticket(4), Admitted::Full(4)),
            (Ticket(5), Admitted::Full(5)),
        ]
    );
    // With the list of unread answers full, no packet is taken.
    (6..=13u64).for_each(|n| assert_eq!(sender.send(n, Meta::new(100)), (Ticket(n), Handed::Listed)));
    assert_eq!(sender.send(14, Meta::new(100)).1, Handed::Done(Admitted::Full(14)));
}

#[test]
fn a_drop_is_told_with_its_reason() {
    let path = path(false, "pfifo_fast", &[]);
    let config = QueueConfig { drain: Drain::Worker, ..QueueConfig::new(clock) };
    let queue = Arc::new(Queue::new(path, VecDevice::with_slots(100), config, Bell::new().wakeup()));
    queue.control().post(|o| o.path.tx_mut().freeze());
    assert_eq!(queue.serve(), Rest::Idle);
    let mut sender = Tracked::new(Arc::clone(&queue), 4);
    let _ = sender.send(1u64, Meta::new(u32::MAX));
    let _ = queue.serve();
    assert_eq!(sender.answer(), Some((Ticket(1), Admitted::Dropped(DropReason::Oversize))));
}

#[test]
fn a_sender_that_has_gone_is_not_waited_for() {
    let config = QueueConfig { drain: Drain::Worker, ..QueueConfig::new(clock) };
    let queue = Arc::new(Queue::new(
        path(false, "pfifo", &["limit", "1"]),
        VecDevice::with_slots(1),
        config,
        Bell::new().wakeup(),
    ));
    let mut sender = Tracked::new(Arc::clone(&queue), 4);
    (1..=3u64).for_each(|n| assert_eq!(sender.send(n, Meta::new(100)).1, Handed::Listed));
    drop(sender);
    let _ = queue.serve();
    // The third packet finds no room, and has no sender to go back to.
    let (sent, discarded) =
        queue.control().try_with(|o| (o.dev.sent().to_vec(), o.dev.discarded().to_vec())).unwrap();
    assert_eq!((sent, discarded), (vec![1], vec![(3, DropReason::Overlimit)]));
}

/// A device of one slot whose frames come back to a list that outlives it.
struct Pledged {
    inner: VecDevice<u64>,
    back: Arc<Mutex<Vec<(u64, DropReason)>>>,
}

impl TxQueue for Pledged {
    type Frame = u64;
    fn reserve(&mut self, want: u32) -> u32 {
        self.inner.reserve(want)
    }
    fn push(&mut self, frame: u64, m: &Meta) {
        self.inner.push(frame, m);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.inner.commit()
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<u64>)) {
        self.inner.reap(sink);
    }
    fn discard(&mut self, frame: u64, _: &Meta, reason: DropReason) {
        self.back.lock().unwrap().push((frame, reason));
    }
}

#[test]
fn the_end_of_a_queue_gives_every_waiting_frame_back() {
    let back = Arc::new(Mutex::new(Vec::new()));
    let dev = Pledged { inner: VecDevice::with_slots(1), back: Arc::clone(&back) };
    let config = QueueConfig { drain: Drain::Worker, ..QueueConfig::new(clock) };
    let queue = Queue::new(path(false, "pfifo", &["limit", "2"]), dev, config, Bell::new().wakeup());
    (1..=5).for_each(|n| assert_eq!(queue.send(n, Meta::new(100)), Handed::Listed));
    assert_eq!(queue.serve(), Rest::Device);
    (6..=7).for_each(|n| assert_eq!(queue.send(n, Meta::new(100)), Handed::Listed));
    // The device has packet 1, the qdisc 2 and 3. Packet 4 waits for room, the rest behind it.
    assert_eq!(queue.status().counts().backlog.packets, 2);
    drop(queue);
    let all: Vec<_> = (2..=7).map(|n| (n, DropReason::Purged)).collect();
    assert_eq!(*back.lock().unwrap(), all);
}

#[test]
fn what_finds_no_room_waits_in_the_list_or_is_dropped_and_counted() {
    for (role, listed, overrun) in [(Role::Origin, 2, 0), (Role::Forwarder, 6, 4)] {
        let config = QueueConfig { drain: Drain::Worker, list: 4, ..QueueConfig::new(clock) };
        let path = PathConfig { pool: 16, bql: None, role, ..PathConfig::default() };
        let path = TxPath::new(path).unwrap().with_qdisc("pfifo", &["limit", "1"]).unwrap();
        let queue = Queue::new(path, VecDevice::with_slots(1), config, Bell::new().wakeup());
        for n in 1..=6u64 {
            assert_eq!(queue.send(n, Meta::new(100)), Handed::Listed);
            let _ = queue.serve();
        }
        let counts = queue.status().counts();
        let found = (counts.handoff.listed, counts.handoff.overrun, counts.backlog.packets);
        assert_eq!(found, (listed, overrun, 1), "{role:?}");
        // The packet in front holds up those behind it until there is room; the list bounds their
        // number.
        if role == Role::Origin {
            assert_eq!(queue.send(7, Meta::new(100)), Handed::Listed);
            assert_eq!(queue.send(8, Meta::new(100)), Handed::Done(Admitted::Full(8)));
            for n in 1..=7 {
                queue.control().post(|o| o.dev.finish(1));
                queue.kick();
                let _ = queue.serve();
                let sent = queue.control().try_with(|o| o.dev.sent().to_vec()).unwrap();
                assert_eq!(sent, (1..=7.min(n + 1)).collect::<Vec<u64>>());
            }
        }
    }
}

#[test]
fn a_burst_is_one_turn_and_says_where_it_ended() {
    let queue = Queue::new(
        path(false, "pfifo", &["limit", "2"]),
        VecDevice::with_slots(3),
        QueueConfig::new(clock),
        Bell::new().wakeup(),
    );
    let mut packets = (1..=10u64).map(|n| (n, Meta::new(100)));
    let (went, back) = queue.send_burst(&mut packets);
    assert_eq!((went, back.map(|(frame, _)| frame)), (5, Some(6)));
    // The rest of the burst is still with its owner.
    assert_eq!(packets.next().map(|(frame, _)| frame), Some(7));
    let (doorbells, sent) = queue.control().try_with(|o| (o.dev.doorbells(), o.dev.sent().to_vec())).unwrap();
    assert_eq!((doorbells, sent), (1, vec![1, 2, 3]));
}

#[test]
fn an_idle_queue_is_a_direct_call_and_a_scheduler_ends_that() {
    let direct = Queue::new(
        path(false, "pfifo_fast", &[]),
        VecDevice::with_slots(100),
        QueueConfig::new(clock),
        Bell::new().wakeup(),
    );
    (0..10u64).for_each(|n| assert_eq!(direct.send(n, Meta::new(100)), Handed::Done(Admitted::Sent)));
    let counts = direct.status().counts();
    assert_eq!((counts.path.direct, counts.path.queued, counts.handoff.runs), (10, 0, 0));
    // The rule of ALTQ: with a scheduler installed no packet goes past it (S2.7).
    let shaped = Queue::new(
        path(false, "tbf", &["rate", "1gbit", "burst", "10000", "limit", "10000"]),
        VecDevice::with_slots(100),
        QueueConfig::new(clock),
        Bell::new().wakeup(),
    );
    (0..10u64).for_each(|n| assert_eq!(shaped.send(n, Meta::new(100)), Handed::Done(Admitted::Queued)));
    let counts = shaped.status().counts();
    assert_eq!((counts.path.direct, counts.path.queued, counts.path.tx_packets), (0, 10, 10));
}

#[test]
fn wakers_of_each_sort_are_told() {
    let queue = Arc::new(Queue::new(
        path(false, "pfifo", &["limit", "1"]),
        VecDevice::with_slots(1),
        QueueConfig::new(clock),
        Bell::new().wakeup(),
    ));
    let (task, woken) = {
        struct Counting(AtomicU64);
        impl std::task::Wake for Counting {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let it = Arc::new(Counting(AtomicU64::new(0)));
        (std::task::Waker::from(Arc::clone(&it)), it)
    };
    let (event, fd) = Wakeup::event_fd().unwrap();
    let called = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&called);
    assert_eq!(queue.send(1u64, Meta::new(100)), Handed::Done(Admitted::Sent));
    assert_eq!(queue.send(2, Meta::new(100)), Handed::Done(Admitted::Queued));
    assert_eq!(queue.send(3, Meta::new(100)), Handed::Done(Admitted::Full(3)));
    queue.when_room(Wakeup::Task(task));
    queue.when_room(event);
    queue.when_room(Wakeup::calling(move || {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    let mut bytes = [0; 8];
    assert!(queue.status().is_stopped());
    assert_eq!(rustix::io::read(&fd, &mut bytes), Err(rustix::io::Errno::AGAIN), "too early");
    queue.control().post(|o| o.dev.finish(1));
    queue.kick();
    assert_eq!(rustix::io::read(&fd, &mut bytes), Ok(8));
    assert_eq!(
        (woken.0.load(Ordering::SeqCst), called.load(Ordering::SeqCst), u64::from_ne_bytes(bytes)),
        (1, 1, 1)
    );
    assert!(!queue.status().is_stopped());
    assert_eq!(queue.status().counts().handoff.woken, 3);
}

#[test]
fn a_wait_for_room_has_an_end_and_ends_when_there_is_some() {
    let (sender, mut receiver) = ring::<u64>(2, Bell::new().wakeup());
    let path = path(false, "pfifo", &["limit", "1"]);
    let queue = Arc::new(Queue::new(path, sender, QueueConfig::new(clock), Bell::new().wakeup()));
    receiver.on_finished(queue.kicker());
    (1..=3).for_each(|n| assert!(!matches!(queue.send(n, Meta::new(100)), Handed::Done(Admitted::Full(_)))));
    let began = clock();
    let refused = queue.send_within(4, Meta::new(100), Duration::from_millis(50));
    assert_eq!(refused, Handed::Done(Admitted::Full(4)));
    // A thread that gives up and comes again is one waiting sender, however often it does.
    for _ in 0..100 {
        assert_eq!(queue.send_within(4, Meta::new(100), Duration::ZERO), Handed::Done(Admitted::Full(4)));
    }
    assert!(clock().saturating_since(began) >= Nanos::from_millis(50));
    let waiting = Arc::clone(&queue);
    let thread = thread::spawn(move || waiting.send_within(4, Meta::new(100), LONG));
    thread::sleep(Duration::from_millis(20));
    assert_eq!(receiver.pop().map(|(n, _)| n), Some(1));
    receiver.finish(1);
    assert!(matches!(
        thread.join().unwrap(),
        Handed::Done(Admitted::Sent | Admitted::Queued) | Handed::Listed
    ));
    let woken = queue.status().counts().handoff.woken;
    assert!((2..10).contains(&woken), "two threads were told {woken} times");
}
