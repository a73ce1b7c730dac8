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
