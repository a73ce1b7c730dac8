//! The shared rate through every interleaving of two and three threads: what they are given, what they give back, and a
//! change of the rate. `cargo xtask test` builds this with `--cfg loom`; without it there is nothing here. `planted/table.rs`
//! lists bugs that the models must find: `cargo xtask test` applies each to a copy.
#![cfg(loom)]
#![allow(missing_docs)]

use std::sync::Arc;

use loom::sync::atomic::{AtomicI64, Ordering};
use loom::thread;
use txweir_core::law::lease::{self, HOLD_NS, LEASE_NS, SharedRate, Word};
use txweir_core::{Bytes, Instant, Rate};

/// Loom's word: the models run the same code as there is over the machine's.
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
/// When the models begin.
const START: u64 = 1_000_000;

fn shared() -> Shared {
    Arc::new(SharedRate::with(RATE, Bytes(BURST)))
}

fn join(shared: &Shared) -> Lease {
    lease::Lease::join(Arc::clone(shared)).expect("nobody is changing it yet")
}

/// Sends packets until they are gone, waiting in its own time. Gives when each left.
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

/// Within any window that begins and ends with a packet: the rate, the burst, and a lease for each queue.
fn assert_bound(mut left: Vec<u64>, queues: u64, longest: u64) {
    left.sort_unstable();
    for (i, from) in left.iter().enumerate() {
        for (j, to) in left.iter().enumerate().skip(i) {
            let sent = (j - i + 1) as u64 * PACKET;
            assert!(sent <= to - from + BURST + queues * longest, "{sent} bytes from {from} to {to}");
        }
    }
}

/// Two or three threads, each with this many packets: nothing is lost and nothing is made. All begin with a full bucket at
/// the same time, so in the end the clock has moved by what was sent, to the nanosecond.
/// `switches`, if given, bounds how often a thread is interrupted that could go on.
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
        // Everybody asked when told to: the last packet leaves when the rate has it, and not a nanosecond later.
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

/// One queue takes a lease for four packets, sends one, and its queue is emptied: what it gives back, the other has, or it
/// is in the bucket.
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
        // Whatever was reserved before it gave back: no more than its lease is waited for.
        assert!(left.iter().all(|t| *t <= START + 4 * PACKET), "{left:?}");
    });
}

/// A queue whose device stops gives back what it has held too long, while the other sends.
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
        // Two packets' time came back. Into a full bucket it does not fit; but who raises the clock between the taking and
        // the giving back leaves it as far behind as what came back, and that is held by nobody.
        let clock = shared.clock();
        let full = (late - BURST + sent * PACKET) as i64;
        assert!((full - 2 * PACKET as i64..=full).contains(&clock), "{clock} and not {full}");
        let window: u64 = BURST + 2 * BURST;
        assert!(left.iter().filter(|t| **t == late).count() as u64 * PACKET <= window);
    });
}

/// Rate and burst are read together: while they change, a queue has both old ones or both new ones.
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

/// Two that change at once: one is refused, or they come one after the other; never half of each.
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
        let now = shared.rate().expect("nobody is changing it");
        match (mine, theirs) {
            (true, true) => assert!(now == two || now == four, "{now:?}"),
            (true, false) => assert_eq!(now, four),
            (false, true) => assert_eq!(now, two),
            (false, false) => panic!("both were refused"),
        }
    });
}

/// Two queues send while the rate doubles: the clock is rate-free, so not a nanosecond is lost or made; and nobody sends
/// more than the higher rate allows.
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
        // Five packets took between 500 ns and 1000 ns each; what a queue had leased at the old rate it gave back.
        let moved = shared.clock() - (START - BURST) as i64;
        assert!((2_500..=5_000).contains(&moved), "{moved}");
        let last = left.iter().max().expect("five were sent");
        assert!(*last <= START + 2 * BURST, "{left:?}");
    });
}
