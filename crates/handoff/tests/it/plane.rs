//! A port that threads send by, while its qdiscs are changed: nothing is lost or doubled, and
//! nothing overtakes.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use txweir_core::model::testing::VecDevice;
use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, ConfigError, DropReason, Handle, Meta, Nanos, PathConfig, Swapped};
use txweir_handoff::*;

use crate::common::{clock, own_time};

type Port = SharedControl<VecDevice<u32>>;

fn port(queues: usize, slots: u32) -> Port {
    let devs = (0..queues).map(|_| VecDevice::with_slots(slots)).collect();
    let rules = |_| QueueConfig::new(own_time::clock);
    let config = PathConfig { bql: None, ..PathConfig::default() };
    SharedControl::new(config, devs, rules, 1, Wakeup::calling(|| {})).unwrap()
}

/// Puts a root in, and keeps the packets that wait.
fn swap<D>(control: &mut SharedControl<D>, line: &str) -> Swapped
where
    D: TxQueue + Send + 'static,
    D::Frame: Send + 'static,
{
    let words: Vec<&str> = line.split_whitespace().collect();
    let put = |qdiscs: &mut Qdiscs<'_>| -> Result<Handle, ConfigError> {
        qdiscs.replace(Handle::ROOT, None, words[0], &mut Words::new(&words[1..]))
    };
    let mut all = control.gather();
    let (put, swapped) = all.control().swap(put, |frame, m, _, each| each(frame, *m));
    put.expect("a good line");
    swapped
}

/// Returns the frames that each queue of the device was given.
fn sent(control: &mut Port) -> Vec<Vec<u32>> {
    control.port().queues().iter().flat_map(|q| parts(q, |dev| dev.sent().to_vec())).collect()
}

fn parts<R>(queue: &Queue<Lane<VecDevice<u32>>>, f: impl Fn(&mut VecDevice<u32>) -> R) -> Vec<R> {
    queue.control().try_with(|o| o.dev.devices().iter_mut().map(f).collect()).expect("no thread has it")
}

fn finish(control: &Port, queue: usize, packets: usize) {
    parts(&control.port().queues()[queue], |dev| dev.finish(packets));
    control.port().queues()[queue].kick();
}

/// Sends a packet of a queue that is asked for by its hash.
fn send(control: &Port, frame: u32, half: u32) -> Admitted<u32> {
    match control.port().sender().send(frame, Meta::new(100).hash(half << 31)).1 {
        Handed::Done(done) => done,
        Handed::Listed => panic!("no other thread sends"),
    }
}

/// The metadata of a packet for the second queue.
fn to_second() -> Meta {
    let mut m = Meta::new(100);
    m.queue = 1;
    m
}

#[test]
fn a_new_root_keeps_the_packets_and_waits_for_the_device() {
    let mut control = port(2, 1);
    for frame in 0..3 {
        for half in [0, 1] {
            let expected = if frame == 0 { Admitted::Sent } else { Admitted::Queued };
            assert_eq!(send(&control, 10 * half + frame, half), expected);
        }
    }
    let swapped = swap(&mut control, "fq_codel limit 100");
    assert_eq!((swapped.moved.packets, swapped.dropped.packets), (4, 0));
    // One path feeds all queues now, and waits for both of them.
    let home = Arc::clone(&control.port().queues()[0]);
    assert_eq!(home.status().counts().backlog.packets, 4);
    assert_eq!(sent(&mut control), [[0], [10]]);
    parts(&home, |dev| {
        if dev.sent()[0] == 0 {
            dev.finish(1)
        }
    });
    home.kick();
    assert_eq!(sent(&mut control), [[0], [10]], "the other queue has a packet from before");
    parts(&home, |dev| {
        if dev.sent()[0] == 10 {
            dev.finish(1)
        }
    });
    home.kick();
    // One packet at a time, because the next may be for any of the queues.
    for _ in 0..4 {
        parts(&home, |dev| dev.finish(1));
        home.kick();
    }
    assert_eq!(sent(&mut control), [[0, 1, 2], [10, 11, 12]]);
    // And back. The second packet waits although its queue has room: one path feeds both.
    let fates: Vec<_> = [3, 13, 4, 14].map(|frame| send(&control, frame, frame / 10)).into();
    assert_eq!(fates, [Admitted::Sent, Admitted::Queued, Admitted::Queued, Admitted::Queued]);
    let swapped = swap(&mut control, "mq");
    assert_eq!((swapped.moved.packets, swapped.dropped.packets), (3, 0));
    control.port().queues()[1].kick();
    let before = [vec![0, 1, 2, 3], vec![10, 11, 12]];
    assert_eq!(sent(&mut control), before, "the other queue has a packet from before");
    finish(&control, 0, 9);
    assert_eq!(sent(&mut control), [vec![0, 1, 2, 3, 4], vec![10, 11, 12, 13]]);
    finish(&control, 1, 9);
    assert_eq!(sent(&mut control)[1], [10, 11, 12, 13, 14]);
}

/// A packet of another queue stays behind the last of those that the device had before a change.
#[test]
fn a_change_waits_for_the_last_packet_of_a_device() {
    let mut control = port(2, 2);
    swap(&mut control, "pfifo");
    let fates: Vec<_> = [(0, 0), (1, 0), (2, 1)].map(|(frame, half)| send(&control, frame, half)).into();
    assert_eq!(fates, [Admitted::Sent, Admitted::Sent, Admitted::Queued]);
    swap(&mut control, "mq");
    for finished in 0..2 {
        assert_eq!(
            sent(&mut control),
            [vec![0, 1], vec![]],
            "{finished} of 2 packets from before are finished"
        );
        finish(&control, 0, 1);
    }
    assert_eq!(sent(&mut control), [vec![0, 1], vec![2]]);
}

#[test]
fn a_look_changes_nothing() {
    let mut control = port(2, 1);
    for frame in 0..4 {
        let _ = send(&control, frame, 0);
    }
    for _ in 0..3 {
        let all = control.gather();
        let roots: Vec<_> = all.port().trees().trees().map(|t| t.root().account().queued().packets).collect();
        assert_eq!(roots, [3, 0]);
        assert_eq!((all.port().flight().packets(), all.port().totals().stats().queued), (1, 3));
    }
    for _ in 0..4 {
        finish(&control, 0, 1);
    }
    assert_eq!(sent(&mut control), [vec![0, 1, 2, 3], vec![]]);
    let all = control.gather();
    assert_eq!((all.port().flight().packets(), all.port().totals().stats().tx_packets), (0, 4));
}

#[test]
fn a_late_packet_passes_through_a_queue_without_a_device() {
    let mut control = port(2, 1);
    let queues = control.port().queues().to_vec();
    // The first packet is dispatched, the next finds the device busy.
    swap(&mut control, "pfifo limit 2");
    let late = |frame| queues[1].send(frame, to_second());
    for frame in 0..3 {
        assert_eq!(late(frame), Handed::Done(Admitted::Sent), "{frame}: it has left the empty queue");
    }
    assert_eq!(sent(&mut control), [vec![], vec![0]]);
    // There is no room for this one: the empty queue keeps it, and the next waits behind it.
    assert_eq!(late(3), Handed::Done(Admitted::Sent));
    assert_eq!(late(4), Handed::Done(Admitted::Queued));
    for _ in 0..5 {
        parts(&queues[0], |dev| dev.finish(1));
        queues[0].kick();
    }
    assert_eq!(sent(&mut control), [vec![], vec![0, 1, 2, 3, 4]]);
    // A packet that is late while the queue gets its device back waits in it.
    for frame in 5..10 {
        let _ = late(frame);
    }
    let waiting = queues[1].status().counts().backlog.packets;
    assert!(waiting > 0, "{waiting}");
    swap(&mut control, "mq");
    for _ in 0..9 {
        (0..2).for_each(|queue| finish(&control, queue, 1));
    }
    let mut got = sent(&mut control).concat();
    got.sort_unstable();
    assert_eq!(got, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_freeze_outlives_a_change_and_a_fence() {
    let mut control = port(2, 1);
    let queues = control.port().queues().to_vec();
    let _ = (send(&control, 0, 0), send(&control, 1, 0));
    queues[0].control().freeze(|| {});
    swap(&mut control, "mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0");
    finish(&control, 0, 1);
    assert_eq!(sent(&mut control), [[0].as_slice(), &[]], "it is frozen");
    assert_eq!(queues[1].send(5, to_second()), Handed::Done(Admitted::Sent));
    queues[0].control().thaw();
    assert_eq!(sent(&mut control), [[0, 1].as_slice(), &[5]]);
}

#[test]
fn a_device_that_forgets_its_packets_holds_no_fence_up() {
    let mut control = port(2, 1);
    let queues = control.port().queues().to_vec();
    let _ = (send(&control, 0, 0), send(&control, 1, 0), send(&control, 2, 1));
    swap(&mut control, "fq_codel");
    queues[0].control().post(|o| {
        o.dev.devices().iter_mut().for_each(|dev| *dev = VecDevice::with_slots(1));
        o.device_reset();
    });
    assert_eq!(sent(&mut control), [vec![1], vec![]]);
    let all = control.gather();
    assert_eq!(all.port().flight().packets(), 1);
}

#[test]
fn a_port_gives_its_parts_back() {
    // The packets that the device has in the end.
    for (line, has) in [("mq", 2), ("pfifo", 1)] {
        let mut control = port(2, 1);
        swap(&mut control, line);
        for frame in 0..4 {
            let _ = send(&control, frame, frame & 1);
        }
        let held = Arc::clone(&control.port().queues()[0]);
        let control = control.into_parts().expect_err("another has a queue");
        held.control().with(|_| assert_eq!(held.send(9, Meta::new(100)), Handed::Listed));
        drop(held);
        let SharedParts { mut port, mut devices, listed } = control.into_parts().expect("no other has any");
        assert_eq!((devices.len(), port.flight().packets(), port.is_split()), (2, has, line == "mq"));
        assert_eq!((port.totals().backlog().packets, listed.len()), (5 - has, 0), "{line}");
        for _ in 0..5 {
            for queue in [0, 1] {
                devices[usize::from(queue)].finish(1);
                port.reap(own_time::clock(), queue, &mut devices, drop);
                let _ = port.drain(own_time::clock(), queue, 64, &mut devices);
            }
        }
        assert_eq!(port.totals().backlog().packets, 0, "{line}");
        let sent: usize = devices.iter().map(|dev| dev.sent().len()).sum();
        assert_eq!(sent, 5, "{line}");
    }
}

#[test]
fn a_panic_during_a_change_leaves_the_packets_where_they_are() {
    let mut control = port(2, 1);
    for frame in 0..4 {
        let _ = send(&control, frame, frame & 1);
    }
    let change = AssertUnwindSafe(|| {
        let mut all = control.gather();
        all.control().configure(|_| panic!("planned"))
    });
    assert!(catch_unwind(change).is_err());
    assert_eq!(control.gather().port().totals().backlog().packets, 2);
    (0..2).for_each(|queue| finish(&control, queue, 1));
    assert_eq!(sent(&mut control), [[0, 2], [1, 3]]);
}

/// The frames that a device was given, and those that were dropped.
type Seen = Arc<Mutex<(Vec<u64>, Vec<u64>)>>;

/// A queue of a device that is done at once, and notes its packets.
struct Noting(Seen);

impl TxQueue for Noting {
    type Frame = u64;
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    fn push(&mut self, frame: u64, _: &Meta) {
        self.0.lock().unwrap().0.push(frame);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, _: &mut dyn FnMut(Completed<u64>)) {}
    fn is_done_at_commit(&mut self) -> bool {
        true
    }
    fn discard(&mut self, frame: u64, _: &Meta, _: DropReason) {
        self.0.lock().unwrap().1.push(frame);
    }
}

/// Threads send while another changes the root, of every sort, as fast as it can.
fn under_load(drain: Drain) {
    const SENDERS: u64 = 2;
    const CHANGES: usize = 300;
    let seen = Seen::default();
    let devs = (0..3).map(|_| Noting(Arc::clone(&seen))).collect();
    let rules = |_| QueueConfig { drain, list: 64, ..QueueConfig::new(clock) };
    let bell = Bell::new();
    let config = PathConfig { pool: 2048, ..PathConfig::for_socket() };
    let mut control = SharedControl::new(config, devs, rules, 1, bell.wakeup()).unwrap();
    let queues = control.port().queues().to_vec();
    let report = |found| panic!("{found}");
    let service = Service::spawn("tx", &bell, queues.clone(), Monitor::default(), report).unwrap();
    let roots = [
        "fq_codel limit 2000",
        "mq",
        "tbf rate 1gbit burst 10kb limit 200kb",
        "mqprio num_tc 2 map 0 1 queues 2@0 1@2 hw 0",
        "prio",
    ];
    let (ended, mut dropped, mut moved) = (AtomicBool::new(false), 0, 0);
    let sent: u64 = thread::scope(|s| {
        let send = |sender: u64| {
            let mut by = control.port().sender();
            let ended = &ended;
            s.spawn(move || {
                let mut n = 0;
                while !ended.load(Ordering::Acquire) {
                    let frame = sender << 32 | n;
                    // Some flows of each sender, of both traffic classes.
                    let hash = (n as u32 % 7).wrapping_mul(0x9e37_79b1) ^ (sender as u32) << 20;
                    let m = Meta::new(100).hash(hash).priority(n as u32 & 1);
                    let mut handed = by.send(frame, m).1;
                    while let Handed::Done(Admitted::Full(frame)) = handed {
                        thread::park_timeout(Duration::from_micros(100));
                        handed = by.send(frame, m).1;
                    }
                    assert!(!matches!(handed, Handed::Done(Admitted::Dropped(_) | Admitted::Cut(..))));
                    n += 1;
                }
                n
            })
        };
        let sending: Vec<_> = (0..SENDERS).map(send).collect();
        for root in roots.iter().cycle().take(CHANGES) {
            let swapped = swap(&mut control, root);
            dropped += swapped.dropped.packets;
            moved += swapped.moved.packets;
            thread::sleep(Duration::from_micros(200));
        }
        ended.store(true, Ordering::Release);
        sending.into_iter().map(|sender| sender.join().expect("no panic")).sum()
    });
    assert!(moved > 0, "no packet waited in any of the changes");
    let until = clock() + Nanos(60_000_000_000);
    let total = usize::try_from(sent).unwrap();
    let ends = || {
        let seen = seen.lock().unwrap();
        (seen.0.len() + seen.1.len(), seen.1.len() as u64)
    };
    while ends().0 < total && clock() < until {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(service.stop(), 0);
    assert_eq!(ends(), (total, dropped), "each is sent, or dropped by a change that has no room for it");
    let seen = seen.lock().unwrap();
    let all: BTreeSet<u64> = seen.0.iter().chain(&seen.1).copied().collect();
    assert_eq!(all.len(), total, "none is doubled");
    drop(seen);
    assert_eq!(control.gather().port().flight().packets(), 0);
}

#[test]
fn nothing_is_lost_where_senders_run_the_queues() {
    under_load(Drain::Caller);
}

#[test]
fn nothing_is_lost_where_the_service_runs_them() {
    under_load(Drain::Worker);
}
