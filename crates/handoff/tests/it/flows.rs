//! Senders that wait for room before a qdisc that keeps flows apart (fq_codel, cake, fq), in the
//! default role: a sparse sender finds room at once, its packets pass those of the others, each of
//! the others gets its part, and few are told in vain. In virtual time, and with threads in counts.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use txweir_core::{Admitted, Meta, PathConfig, TxPath};
use txweir_handoff::*;

use crate::common::{Bell2, Receiver, clock, over_a_ring, own_time};

/// Kinds that give each flow a part of the room; no AQM drops, because the subject is the want of
/// room.
const KINDS: [(&str, &[&str]); 3] = [
    ("fq_codel", &["limit", "400", "flows", "8191", "target", "10s", "interval", "10s"]),
    ("cake", &["besteffort", "flows", "rtt", "100s", "memlimit", "600000"]),
    ("fq", &["limit", "400", "flow_limit", "10000", "quantum", "1514", "initial_quantum", "1514"]),
];

/// Number of the senders that always have more.
const BULK: u64 = 8;
/// The number that stands for the sparse sender.
const SPARSE: u64 = BULK;

fn path(kind: &str, options: &[&str]) -> TxPath<u64> {
    let config = PathConfig { pool: 16_384, bql: None, ..PathConfig::default() };
    TxPath::new(config).unwrap().with_qdisc(kind, options).unwrap()
}

/// The metadata of a sender's packets. Those of different senders differ in length, and each sender
/// has a row of its own among the packets that wait apart.
fn meta(sender: u64) -> Meta {
    let len = if sender == SPARSE { 100 } else { 300 + 150 * sender as u32 };
    // fq knows a flow by the last ten bits.
    let hash = (sender as u32 * 7) << 26 | (0x2f_1c00 + sender as u32 * 37);
    Meta::new(len).hash(hash)
}

/// The outcome of a run.
#[derive(Debug, Default)]
struct Run {
    /// Sparse packets, and those that found room when they came.
    sparse: (u32, u32),
    /// For each sparse packet, in order of size: the packets that left between its arrival and its
    /// own end.
    passed_by: Vec<usize>,
    /// Bytes of each of the others that left.
    bytes: Vec<u64>,
    /// Times that a sender was told, and those after which it found no room.
    told: (u32, u32),
}

impl Run {
    fn median(&self) -> usize {
        self.passed_by[self.passed_by.len() / 2]
    }
    fn in_vain(&self) -> f64 {
        f64::from(self.told.1) / f64::from(self.told.0)
    }
}

/// Runs a queue whose device finishes a packet in each step, with senders that send until there is
/// no room and ask to be told, each with the hash of its flow or without.
fn in_virtual_time(kind: &str, options: &[&str], by_flow: bool) -> Run {
    let config = QueueConfig::new(own_time::clock);
    let (service, doorbell) = (Wakeup::calling(|| {}), Wakeup::calling(|| {}));
    let (queue, mut receiver) = over_a_ring(path(kind, options), 1, config, service, doorbell);
    let told: Arc<Mutex<VecDeque<u64>>> = Arc::default();
    let ask = |sender: u64| {
        let told = Arc::clone(&told);
        let wakeup = Wakeup::calling(move || told.lock().unwrap().push_back(sender));
        match by_flow {
            true => queue.when_room_for(meta(sender).hash, wakeup),
            false => queue.when_room(wakeup),
        }
    };
    let put = |sender| match queue.send(sender, meta(sender)) {
        Handed::Done(Admitted::Sent | Admitted::Queued) => true,
        Handed::Done(Admitted::Full(_)) => false,
        other => panic!("{kind}: {other:?}"),
    };
    let mut run = Run { bytes: vec![0; BULK as usize], ..Run::default() };
    // Each sends all that it may, in turns.
    while (0..BULK).filter(|sender| put(*sender)).count() > 0 {}
    (0..BULK).for_each(ask);
    let (mut left, mut arrived) = (0usize, VecDeque::<usize>::new());
    for step in 0..8000u32 {
        own_time::pass(1);
        let Some((sender, bytes)) = receiver.pop_or_rest() else {
            panic!("{kind}: nothing leaves in step {step}")
        };
        let counts = step > 2000;
        left += 1;
        if sender == SPARSE {
            run.passed_by.push(left - arrived.pop_front().expect("it came before"));
        } else if counts {
            run.bytes[sender as usize] += u64::from(bytes);
        }
        receiver.finish(1);
        let now = std::mem::take(&mut *told.lock().unwrap());
        for sender in now {
            let mut went = 0;
            while put(sender) {
                went += 1;
            }
            run.told.0 += u32::from(counts);
            run.told.1 += u32::from(counts && went == 0);
            ask(sender);
        }
        if counts && step % 10 == 0 {
            run.sparse.0 += 1;
            if put(SPARSE) {
                run.sparse.1 += 1;
                arrived.push_back(left);
            }
        }
    }
    run.passed_by.sort_unstable();
    run
}

#[test]
fn a_sparse_sender_keeps_its_room_and_each_other_gets_its_part() {
    for (kind, options) in KINDS {
        let [by_flow, in_line] = [true, false].map(|by_flow| in_virtual_time(kind, options, by_flow));
        println!(
            "{kind}: sparse {:?}, passed by {}, told in vain {:.3}, in line {:.3}, bytes {:?}",
            by_flow.sparse,
            by_flow.median(),
            by_flow.in_vain(),
            in_line.in_vain(),
            by_flow.bytes
        );
        let (came, taken) = by_flow.sparse;
        assert_eq!(taken, came, "{kind}: a sparse packet found no room");
        assert!(by_flow.median() <= 2 * BULK as usize, "{kind}: {:?}", by_flow.passed_by);
        let (least, most) = (by_flow.bytes.iter().min().unwrap(), by_flow.bytes.iter().max().unwrap());
        assert!(most - least <= least / 50, "{kind}: {:?}", by_flow.bytes);
        let (own, line) = (by_flow.in_vain(), in_line.in_vain());
        assert!(own < 0.9 * line, "{kind}: {own:.3} told in vain by flow, {line:.3} in line");
    }
}

/// Threads send as fast as they may and wait for room, and one sends a packet now and then and
/// tries once.
fn with_threads(kind: &str, options: &[&str]) -> Run {
    let bell = Bell::new();
    let hears = Bell2::default();
    let config = QueueConfig::new(clock);
    let (queue, receiver) = over_a_ring(path(kind, options), 16, config, bell.wakeup(), hears.wakeup());
    let report = |found| panic!("{found}");
    let service = Service::spawn("tx", &bell, vec![Arc::clone(&queue)], Monitor::default(), report).unwrap();
    let receiver = Receiver::spawn(receiver, &hears, 1, true, 0);
    let (ended, mut run, mut arrived) = (AtomicBool::new(false), Run::default(), VecDeque::new());
    thread::scope(|s| {
        for sender in 0..4 {
            let (queue, ended) = (&queue, &ended);
            s.spawn(move || {
                while !ended.load(Ordering::Acquire) {
                    let _ = queue.send_within(sender, meta(sender), Duration::from_millis(10));
                }
            });
        }
        // The qdisc is full by then.
        let is_full = receiver.wait_for(20_000, Duration::from_secs(60));
        assert!(is_full, "{kind}: the senders stand");
        for _ in 0..300 {
            let before = receiver.got.packets.load(Ordering::Acquire);
            run.sparse.0 += 1;
            match queue.send(SPARSE, meta(SPARSE)) {
                Handed::Done(Admitted::Full(_)) => {}
                Handed::Done(Admitted::Sent | Admitted::Queued) | Handed::Listed => {
                    run.sparse.1 += 1;
                    arrived.push_back(before as usize);
                }
                other => panic!("{kind}: {other:?}"),
            }
            receiver.wait_for(before + 1000, Duration::from_secs(60));
        }
        ended.store(true, Ordering::Release);
    });
    let all = queue.status().counts();
    assert!(receiver.wait_for(all.path.queued + all.path.direct, Duration::from_secs(60)), "{kind}");
    let got = receiver.stop();
    service.stop();
    let frames = got.frames.lock().unwrap();
    let ends = frames.iter().enumerate().filter(|(_, sender)| **sender == SPARSE);
    run.passed_by = ends.zip(&arrived).map(|((at, _), came)| at.saturating_sub(*came)).collect();
    run.passed_by.sort_unstable();
    run
}

/// Each of the kinds holds 400 packets and more: a packet in line would be passed by as many.
#[test]
fn a_sparse_thread_finds_room_and_passes_those_that_wait() {
    for (kind, options) in KINDS {
        let run = with_threads(kind, options);
        println!("{kind}: {:?}, passed by {}", run.sparse, run.median());
        let (came, taken) = run.sparse;
        // The admission list has a place for it, whatever the others have filled.
        assert_eq!(taken, came, "{kind}: a sparse packet found no room");
        assert!(run.median() <= 100, "{kind}: passed by {}", run.median());
    }
}
