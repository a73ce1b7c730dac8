//! The bound of a run, and the threads that it tells: the service, senders that wait, and readers
//! of the numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::own_time::{clock, pass};
use crate::common::path;
use txweir_core::model::testing::VecDevice;
use txweir_core::{Admitted, DropReason, Meta};
use txweir_handoff::*;

const META: Meta = Meta::new(100);

/// The number of times that something was told.
type Told = Arc<AtomicU64>;

fn telling(told: &Told) -> Wakeup {
    let told = Arc::clone(told);
    Wakeup::calling(move || {
        told.fetch_add(1, Ordering::Relaxed);
    })
}

fn times(told: &Told) -> u64 {
    told.load(Ordering::Relaxed)
}

/// Returns a queue over a device with this many slots, and the calls of its service.
fn queue(
    kind: &str,
    options: &[&str],
    slots: u32,
    config: QueueConfig<u64>,
) -> (Queue<VecDevice<u64>>, Told) {
    let told = Told::default();
    let queue = Queue::new(path(false, kind, options), VecDevice::with_slots(slots), config, telling(&told));
    (queue, told)
}

/// Returns the packets that the device has got.
fn sent(queue: &Queue<VecDevice<u64>>) -> u64 {
    queue.status().counts().path.tx_packets
}

/// The qdisc has four packets and the list has the others: packets that leave the qdisc in a turn
/// count, and those that the list then sends past it.
#[test]
fn a_turn_sends_no_more_than_its_budget() {
    let config = QueueConfig { drain: Drain::Worker, budget: 8, list: 32, ..QueueConfig::new(clock) };
    let (queue, _) = queue("pfifo", &["limit", "4"], 0, config);
    (0..30).for_each(|n| assert_eq!(queue.send(n, META), Handed::Listed));
    assert_eq!((queue.serve(), sent(&queue)), (Rest::Device, 0));
    queue.control().post(|o| o.dev.set_slots(100));
    let mut before = 0;
    while queue.serve() == Rest::Again {
        let now = sent(&queue);
        assert!((1..=8).contains(&(now - before)), "{before}, then {now}");
        before = now;
    }
    assert_eq!(sent(&queue), 30);
    let order = queue.control().try_with(|o| o.dev.sent().to_vec());
    assert_eq!(order, Some((0..30).collect()));
}

/// Only the service comes for the rest of a turn that has spent its budget.
#[test]
fn a_sender_that_has_spent_its_budget_tells_the_service() {
    let config = QueueConfig { budget: 2, ..QueueConfig::new(clock) };
    let (queue, service) = queue("pfifo", &["limit", "9"], 0, config);
    (0..6).for_each(|n| assert_eq!(queue.send(n, META), Handed::Done(Admitted::Queued)));
    assert_eq!(times(&service), 0, "the device has no room");
    queue.control().try_with(|o| o.dev.set_slots(100));
    assert_eq!((times(&service), queue.status().is_called()), (1, true));
    assert!(queue.control().try_with(|o| o.dev.sent().len()).is_some_and(|n| n < 6));
    // The service comes again by itself.
    let before = times(&service);
    while queue.serve() == Rest::Again {}
    assert_eq!((sent(&queue), times(&service)), (6, before));
}

/// A deadline before that of which the service knows is told to it; a later one is not.
#[test]
fn the_service_is_told_of_an_earlier_time() {
    let options = ["rate", "8mbit", "burst", "1000", "limit", "100000"];
    let (queue, service) = queue("tbf", &options, 100, QueueConfig::new(clock));
    let send = |n| assert_eq!(queue.send(n, Meta::new(1000)), Handed::Done(Admitted::Queued));
    send(0);
    assert_eq!((queue.status().deadline(), times(&service)), (None, 0), "the bucket was full");
    send(1);
    let first = queue.status().deadline().expect("a packet waits for its time");
    assert_eq!(times(&service), 1);
    send(2);
    assert_eq!((queue.status().deadline(), times(&service)), (Some(first), 1), "the same time");
    pass(1);
    // The service has come itself: it knows the next time.
    let Rest::At(second) = queue.serve() else { panic!("a packet waits for its time") };
    assert_eq!((second > first, queue.status().deadline(), times(&service)), (true, Some(second), 1));
}

/// The list refuses senders before they wait, so that it has to be half empty before they come
/// again: one packet at a time would cost a wake-up each.
#[test]
fn a_sender_that_waits_is_told_when_half_of_the_list_is_free() {
    let config = QueueConfig { drain: Drain::Worker, budget: 3, list: 16, ..QueueConfig::new(clock) };
    let (queue, _) = queue("pfifo", &["limit", "100"], 100, config);
    (0..16).for_each(|n| assert_eq!(queue.send(n, META), Handed::Listed));
    assert_eq!(queue.send(16, META), Handed::Done(Admitted::Full(16)));
    let told = Told::default();
    queue.when_room(telling(&told));
    let mut left = 0;
    while queue.serve() == Rest::Again {
        left = sent(&queue);
        assert_eq!(times(&told), u64::from(left >= 8), "{left} of 16 have left the list");
    }
    assert!(left > 8 && times(&told) == 1, "{left}");
}

/// A thread that looks while another has the queue reads the last publication.
#[test]
fn the_numbers_are_published_each_so_many_packets() {
    for (packets, seen) in [(3, 0), (4, 4), (7, 4), (8, 8), (9, 8)] {
        let config = QueueConfig { publish: 4, ..QueueConfig::new(clock) };
        let (queue, _) = queue("pfifo", &[], 100, config);
        (0..packets).for_each(|n| assert_eq!(queue.send(n, META), Handed::Done(Admitted::Sent)));
        let look = || queue.status().counts().path.tx_packets;
        assert_eq!(queue.control().try_with(|_| look()), Some(seen), "{packets} packets");
        assert_eq!(look(), packets, "no thread has the queue");
    }
}

/// Without a cutter no thread can cut a packet of the list, and its sender has gone on.
#[test]
fn a_listed_packet_that_fits_only_in_pieces_is_dropped_and_counted() {
    let options = ["rate", "1gbit", "burst", "2000", "limit", "100000"];
    let config = QueueConfig { drain: Drain::Worker, ..QueueConfig::new(clock) };
    let (queue, _) = queue("tbf", &options, 100, config);
    let mut large = Meta::new(3000);
    large.segs = 2;
    for (n, m) in [(0, META), (1, large), (2, META)] {
        assert_eq!(queue.send(n, m), Handed::Listed);
    }
    assert_eq!(queue.serve(), Rest::Idle);
    let counts = queue.status().counts().handoff;
    assert_eq!((counts.uncut, counts.overrun, counts.listed), (1, 0, 3));
    let fates = queue.control().try_with(|o| (o.dev.sent().to_vec(), o.dev.discarded().to_vec()));
    assert_eq!(fates, Some((vec![0, 2], vec![(1, DropReason::Oversize)])));
}
