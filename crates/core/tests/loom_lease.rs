//! The shared rate through every interleaving of two and three threads: their grants, the time that
//! they return, and a change of the rate. `cargo xtask test` builds this with `--cfg loom`; without
//! it this file is empty. `spec/models/lease.txt` lists bugs that the models must find:
//! `cargo xtask test` plants each in a copy.
#![cfg(loom)]
#![allow(missing_docs)]

use std::sync::Arc;

use loom::sync::atomic::{AtomicI64, Ordering};
use loom::thread;
use txweir_core::law::lease::{self, HOLD_NS, LEASE_NS, SharedRate, Word};
use txweir_core::{Bytes, Instant, Rate};

/// Loom's atomic word: the models run the same code as the product does over the machine's words.
#[derive(Debug)]
struct Modelled(AtomicI64);

impl Word for Modelled {
    fn new(value: i64) -> Self {
        Self(AtomicI64::new(value))
    }
    fn load(&self, order: Ordering) -> i64 {
        self.0.load(order)
    }
    fn store(&self, value: i64, order: Ordering) {
        self.0.store(value, order);
    }
    fn fetch_add(&self, value: i64, order: Ordering) -> i64 {
        self.0.fetch_add(value, order)
    }
    fn fetch_max(&self, value: i64, order: Ordering) -> i64 {
        self.0.fetch_max(value, order)
    }
    fn exchange(&self, old: i64, new: i64, order: Ordering) -> bool {
        self.0.compare_exchange(old, new, order, Ordering::Relaxed).is_ok()
    }
}

type Shared = Arc<SharedRate<Modelled>>;
type Lease = lease::Lease<Modelled>;

/// A byte takes a nanosecond.
const RATE: Rate = Rate(1_000_000_000);
const BURST: u64 = 3_000;
const PACKET: u64 = 1_000;
/// The start time of the models.
const START: u64 = 1_000_000;

fn shared() -> Shared {
    Arc::new(SharedRate::with(RATE, Bytes(BURST)))
}

fn join(shared: &Shared) -> Lease {
    lease::Lease::join(Arc::clone(shared)).expect("no change of the rate yet")
}

/// Sends packets until all are sent, and waits in its own time. Returns the time of each departure.
fn send(q: &mut Lease, packets: u64, mut now: u64, worst_wait: u64) -> Vec<u64> {
    let mut left = Vec::new();
    let mut waits = 0;
    while (left.len() as u64) < packets {
        let queued = (packets - left.len() as u64) * PACKET;
        match q.ask(PACKET, queued, Instant(now)) {
            Ok(()) => {
                q.spend(PACKET);
                left.push(now);
            }
            Err(t) => {
                assert!(t.0 > now && t.0 <= now + worst_wait, "told to wait from {now} to {t:?}");
                now = t.0;
                waits += 1;
                assert!(waits <= packets, "refused more often than there are packets");
            }
        }
    }
    q.rest();
    left
}

/// Checks any window that begins and ends with a packet: the rate, the burst, and a lease for each
/// queue.
fn assert_bound(mut left: Vec<u64>, queues: u64, longest: u64) {
    left.sort_unstable();
    for (i, from) in left.iter().enumerate() {
        for (j, to) in left.iter().enumerate().skip(i) {
            let sent = (j - i + 1) as u64 * PACKET;
            assert!(sent <= to - from + BURST + queues * longest, "{sent} bytes from {from} to {to}");
        }
    }
}

/// Runs two or three threads, each with this many packets: no time is lost and none is created. All
/// begin with a full bucket at the same time, so in the end the clock has moved by the time of the
/// sent bytes, to the nanosecond. `switches`, if given, bounds how often a runnable thread is
/// interrupted.
fn backlogged(packets: &'static [u64], switches: Option<usize>) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = switches;
    model.check(move || {
        let shared = shared();
        let mut queues: Vec<Lease> = packets.iter().map(|_| join(&shared)).collect();
        let longest = BURST.min(LEASE_NS.unsigned_abs()).max(PACKET);
        let worst_wait = packets.len() as u64 * longest;
        let mut own = queues.pop().expect("one at least");
        let mut threads = Vec::new();
        for (mut q, packets) in queues.into_iter().zip(packets) {
            threads.push(thread::spawn(move || send(&mut q, *packets, START, worst_wait)));
        }
        let mut left = send(&mut own, packets[packets.len() - 1], START, worst_wait);
        for t in threads {
            left.extend(t.join().expect("no panic"));
        }
        let sent: u64 = packets.iter().sum();
        assert_eq!(left.len() as u64, sent);
        assert_eq!(shared.clock(), (START - BURST + sent * PACKET) as i64);
        // Every thread asked at the time that it was given: the last packet leaves when the rate
        // allows it, and not a nanosecond later.
        let last = left.iter().max().expect("some were sent");
        assert!(*last <= START + (sent * PACKET).saturating_sub(BURST), "the last left at {last}");
        assert_bound(left, packets.len() as u64, longest);
    });
}

#[test]
fn two_backlogged_queues_lose_nothing_and_make_nothing() {
    backlogged(&[4, 3], Some(4));
}

#[test]
fn three_backlogged_queues_lose_nothing_and_make_nothing() {
    backlogged(&[2, 1, 2], Some(2));
}

/// One queue takes a lease for four packets, sends one, and its queue is emptied: the other queue
/// has the returned time, or the bucket has it.
#[test]
fn what_is_given_back_is_neither_lost_nor_there_twice() {
    loom::model(|| {
        let shared = shared();
        let (mut quits, mut other) = (join(&shared), join(&shared));
        let quitter = thread::spawn(move || {
            let sent = quits.ask(PACKET, 4 * PACKET, Instant(START)).is_ok();
            if sent {
                quits.spend(PACKET);
            }
            quits.rest();
            u64::from(sent)
        });
        let left = send(&mut other, 3, START, 2 * BURST);
        let sent = quitter.join().expect("no panic") + left.len() as u64;
        assert_eq!(shared.clock(), (START - BURST + sent * PACKET) as i64);
        assert_eq!(shared.queues(), 1);
        // Whatever time is reserved before the return, the other queue waits for one lease at most.
        assert!(left.iter().all(|t| *t <= START + 4 * PACKET), "{left:?}");
    });
}

/// A queue whose device stops returns the time that it has held too long, while the other sends.
#[test]
fn what_expires_is_neither_lost_nor_there_twice() {
    loom::model(|| {
        let shared = shared();
        let (mut stops, mut other) = (join(&shared), join(&shared));
        let late = START + 2 * HOLD_NS.unsigned_abs();
        assert_eq!(stops.ask(PACKET, 2 * PACKET, Instant(START)), Ok(()));
        let stopped = thread::spawn(move || {
            let answer = stops.ask(PACKET, PACKET, Instant(late));
            if answer.is_ok() {
                stops.spend(PACKET);
            }
            drop(stops);
            answer.is_ok()
        });
        let left = send(&mut other, 3, late, 2 * BURST);
        let sent = left.len() as u64 + u64::from(stopped.join().expect("no panic"));
        // The time of two packets came back. It does not fit a full bucket. But a thread that
        // raises the clock between the taking and the return leaves the clock behind by the
        // returned time, which no queue holds.
        let clock = shared.clock();
        let full = (late - BURST + sent * PACKET) as i64;
        assert!((full - 2 * PACKET as i64..=full).contains(&clock), "{clock} and not {full}");
        let window: u64 = BURST + 2 * BURST;
        assert!(left.iter().filter(|t| **t == late).count() as u64 * PACKET <= window);
    });
}

/// Rate and burst are read together: during a change a queue has both old values or both new ones.
#[test]
fn a_change_is_whole() {
    loom::model(|| {
        let shared = shared();
        let changer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                assert!(shared.set(Rate(2_000_000_000), Bytes(8_000)));
            })
        };
        let old = (RATE, 3_000);
        let new = (Rate(2_000_000_000), 4_000);
        let mut seen = Vec::new();
        for _ in 0..2 {
            seen.extend(shared.rate());
        }
        assert!(seen.iter().all(|s| *s == old || *s == new), "torn: {seen:?}");
        assert_ne!(seen, [new, old], "a change is not undone");
        changer.join().expect("no panic");
        assert_eq!(shared.rate(), Some(new));
    });
}

/// Two changes at once: one is refused, or they happen one after the other; never half of each.
#[test]
fn two_changes_do_not_mix() {
    loom::model(|| {
        let shared = shared();
        let changer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.set(Rate(2_000_000_000), Bytes(8_000)))
        };
        let mine = shared.set(Rate(4_000_000_000), Bytes(4_000));
        let theirs = changer.join().expect("no panic");
        let (two, four) = ((Rate(2_000_000_000), 4_000), (Rate(4_000_000_000), 1_000));
        let now = shared.rate().expect("no change of the rate");
        match (mine, theirs) {
            (true, true) => assert!(now == two || now == four, "{now:?}"),
            (true, false) => assert_eq!(now, four),
            (false, true) => assert_eq!(now, two),
            (false, false) => panic!("both were refused"),
        }
    });
}

/// Two queues send while the rate doubles: the clock counts no rate, so that not a nanosecond is
/// lost or created; and no queue sends more than the higher rate allows.
#[test]
fn a_change_under_load_loses_no_time() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let shared = shared();
        let (mut a, mut b) = (join(&shared), join(&shared));
        let changer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                assert!(shared.set(Rate(2_000_000_000), Bytes(2 * BURST)));
            })
        };
        let other = thread::spawn(move || send(&mut a, 2, START, 2 * BURST));
        let mut left = send(&mut b, 3, START, 2 * BURST);
        left.extend(other.join().expect("no panic"));
        changer.join().expect("no panic");
        // Five packets took between 500 ns and 1000 ns each; each queue returned its lease at the
        // old rate.
        let moved = shared.clock() - (START - BURST) as i64;
        assert!((2_500..=5_000).contains(&moved), "{moved}");
        let last = left.iter().max().expect("five were sent");
        assert!(*last <= START + 2 * BURST, "{left:?}");
    });
}
