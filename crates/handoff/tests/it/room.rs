//! Senders that wait for room: their order, their number, and the cost of each.

use std::sync::{Arc, Mutex};

use crate::common::{RingQueue, clock, over_a_ring, path};
use txweir_core::{Admitted, Meta};
use txweir_handoff::*;

const META: Meta = Meta::new(100);

/// The numbers of the senders that were told, in order.
type Told = Arc<Mutex<Vec<u64>>>;

/// Returns a queue of a ring of one slot and a qdisc of `limit` packets, all full, and the packets
/// in it.
fn full(limit: u64) -> (RingQueue, RingReceiver<u64>, u64) {
    let path = path(false, "pfifo", &["limit", &limit.to_string()]);
    let (queue, receiver) =
        over_a_ring(path, 2, QueueConfig::new(clock), Bell::new().wakeup(), Bell::new().wakeup());
    let packets = limit + 2;
    for n in 0..packets {
        let Handed::Done(Admitted::Sent | Admitted::Queued) = queue.send(n, META) else { panic!("no room") };
    }
    assert_eq!(queue.send(packets, META), Handed::Done(Admitted::Full(packets)));
    (queue, receiver, packets)
}

fn wait(queue: &RingQueue, told: &Told, n: u64) {
    let told = Arc::clone(told);
    queue.when_room(Wakeup::calling(move || told.lock().unwrap().push(n)));
}

/// Has the device take and finish `n` packets.
fn finish(receiver: &mut RingReceiver<u64>, n: u64) {
    for _ in 0..n {
        assert!(receiver.pop_or_rest().is_some());
        receiver.finish(1);
    }
}

#[test]
fn as_many_senders_as_there_is_room_are_told_in_the_order_of_asking() {
    let (queue, mut receiver, _) = full(50);
    let told = Told::default();
    (0..10_000).for_each(|n| wait(&queue, &told, n));
    for gone in [1, 2, 5, 6, 30] {
        let before = told.lock().unwrap().len() as u64;
        finish(&mut receiver, gone - before);
        assert!(told.lock().unwrap().iter().copied().eq(0..gone), "{:?}", told.lock().unwrap());
    }
    // The senders that were told send, and ask anew: behind the others.
    for n in 0..30 {
        assert_eq!(queue.send(n, META), Handed::Done(Admitted::Queued));
        wait(&queue, &told, 10_000 + n);
    }
    assert_eq!(queue.send(30, META), Handed::Done(Admitted::Full(30)));
    finish(&mut receiver, 40);
    assert!(told.lock().unwrap().iter().copied().eq(0..70));
    assert_eq!(queue.status().counts().handoff.woken, 70);
    // None of them sends. The last packet gone, the service tells the others.
    finish(&mut receiver, 9);
    assert!(told.lock().unwrap().iter().copied().eq(0..79));
    finish(&mut receiver, 1);
    assert!(told.lock().unwrap().iter().copied().eq(0..79 + 64));
    let mut rounds = 1;
    while queue.serve() == Rest::Again {
        rounds += 1;
    }
    assert!(told.lock().unwrap().iter().copied().eq(0..10_030));
    assert!((150..=160).contains(&rounds), "{rounds} rounds");
}

#[test]
fn more_room_by_a_command_is_for_all() {
    let (queue, mut receiver, _) = full(50);
    let told = Told::default();
    (0..200).for_each(|n| wait(&queue, &told, n));
    queue.control().configure(
        |tree, cx| {
            let mut words = txweir_core::text::value::Words::new(&["limit", "500"]);
            tree.edit(cx).change(txweir_core::Handle::ROOT, None, &mut words).is_ok()
        },
        |changed| assert!(changed),
    );
    finish(&mut receiver, 1);
    assert_eq!(told.lock().unwrap().len(), 200);
}

/// The cost is counted in processor time of this thread: four times the senders cost four times as
/// much, and sixteen times where each looks at all before it.
#[test]
fn one_more_sender_that_waits_costs_the_same_among_many() {
    let cost = |senders: u64| {
        let best = |_| {
            let (queue, _receiver, _) = full(50);
            let told = Told::default();
            let began = thread_time();
            (0..senders).for_each(|n| wait(&queue, &told, n));
            thread_time() - began
        };
        (0..3).map(best).min().unwrap_or(0)
    };
    let (few, many) = (cost(5_000), cost(20_000));
    assert!(many < few * 9, "{few} ns for 5000 senders, {many} for 20 000");
}

/// Returns the processor time of this thread, in nanoseconds.
fn thread_time() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A qdisc that keeps flows apart, and a service that takes all packets from the list. A flow has
/// its part of the qdisc's room; its other listed packets wait apart, in order, and those of
/// another flow pass them.
#[test]
fn a_flow_without_room_holds_no_other_up() {
    use txweir_core::model::testing::VecDevice;
    let config = QueueConfig { drain: Drain::Worker, list: 32, ..QueueConfig::new(clock) };
    let path = path(false, "fq_codel", &["limit", "20", "target", "10s", "interval", "10s"]);
    let queue = Queue::new(path, VecDevice::with_slots(1), config, Bell::new().wakeup());
    let flow = |n: u32| META.hash(n << 27);
    for n in 0..30 {
        assert_eq!(queue.send(n, flow(1)), Handed::Listed);
    }
    assert_eq!(queue.serve(), Rest::Device);
    // The device has one, and the qdisc a fifth of its limit.
    assert_eq!(queue.status().counts().backlog.packets, 4);
    // A sender of the same row is told at once; one that waits for room is not called yet.
    assert_eq!(queue.send(30, flow(1)), Handed::Done(Admitted::Full(30)));
    let told = Told::default();
    let at = Arc::clone(&told);
    queue.when_room(Wakeup::calling(move || at.lock().unwrap().push(1)));
    assert_eq!((queue.serve(), told.lock().unwrap().len()), (Rest::Device, 0));
    // Three packets of another flow: the qdisc has them with the next run, and they go first.
    for n in 100..103 {
        assert_eq!(queue.send(n, flow(2)), Handed::Listed);
    }
    assert_eq!(queue.serve(), Rest::Device);
    assert_eq!(queue.status().counts().backlog.packets, 7);
    let sent = || queue.control().try_with(|o| o.dev.sent().to_vec()).unwrap();
    for n in 2..=33 {
        queue.control().post(|o| o.dev.finish(1));
        queue.kick();
        let _ = queue.serve();
        assert_eq!(sent().len(), n);
    }
    // A turn of the first flow is under way when the second comes.
    let all = sent();
    let apart = |from: u64| all.iter().copied().filter(|n| (*n >= 100) == (from == 100)).collect::<Vec<_>>();
    assert!(apart(0).into_iter().eq(0..30) && apart(100).into_iter().eq(100..103), "{all:?}");
    assert!(all.iter().position(|n| *n == 102) < Some(20), "{all:?}");
    assert_eq!(*told.lock().unwrap(), [1]);
    assert_eq!(queue.send(30, flow(1)), Handed::Listed);
}

/// The end of a queue gives back what waits apart, each frame once.
#[test]
fn what_waits_apart_is_counted_and_bounded_by_the_list() {
    use txweir_core::model::testing::VecDevice;
    let config = QueueConfig { drain: Drain::Worker, list: 8, ..QueueConfig::new(clock) };
    let path = path(false, "fq_codel", &["limit", "5", "target", "10s", "interval", "10s"]);
    let queue = Queue::new(path, VecDevice::with_slots(0), config, Bell::new().wakeup());
    // One packet of each flow waits in the qdisc, the second of each apart; a row has two flows.
    let mut listed = 0;
    for n in 0..100_u64 {
        let meta = META.hash((n as u32 % 4) << 27);
        match queue.send(n, meta) {
            Handed::Listed => listed += 1,
            done => assert_eq!(done, Handed::Done(Admitted::Full(n))),
        }
        let _ = queue.serve();
    }
    let waiting = queue.status().counts().backlog.packets;
    assert_eq!((waiting, listed), (4, 8), "four in the qdisc and four apart");
    queue.control().post(|o| o.dev.set_slots(100));
    while queue.serve() == Rest::Again {}
    assert_eq!(queue.control().try_with(|o| o.dev.sent().len()).unwrap(), 8);
}

/// The bands of a fair queue have limits of their own: the last packet would find room. Eight
/// packets are on the fast path, and four are what the flow may have.
#[test]
fn a_packet_waits_behind_those_of_its_row() {
    use txweir_core::model::testing::VecDevice;
    for (before, taken) in [(12, 13), (14, 12)] {
        let config = QueueConfig { drain: Drain::Worker, list: 32, ..QueueConfig::new(clock) };
        let path = path(false, "fq", &["limit", "20"]);
        let queue = Queue::new(path, VecDevice::with_slots(0), config, Bell::new().wakeup());
        for n in 0..before {
            assert_eq!(queue.send(n, META.hash(1 << 27)), Handed::Listed);
        }
        assert_eq!(queue.send(before, META.hash(1 << 27).priority(7)), Handed::Listed);
        while queue.serve() == Rest::Again {}
        assert_eq!(queue.status().counts().backlog.packets, taken, "behind {before}");
    }
}
