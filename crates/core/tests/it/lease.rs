//! A rate shared by several queues, in virtual time and on real threads: the sum, the shares, and
//! the turns.
//!
//! Departures are compared with the rate by arithmetic that does not use clocks and leases.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant as Wall};

use txweir_core::base::rng::Rng;
use txweir_core::law::lease::{LEASE_NS, LEASES_NS, Lease, SharedRate};
use txweir_core::{Bytes, Instant, Rate};

const MS: u64 = 1_000_000;
/// The window in which the sum must be right.
const WINDOW: u64 = 100 * MS;

/// Packets that left: time, queue, bytes.
type Sent = Vec<(u64, usize, u64)>;

/// A queue with packets while it is busy.
struct Queue {
    lease: Lease,
    /// Bytes of the packet at the head, and of the packets behind it; 0 while the queue is idle.
    head: u64,
    queued: u64,
}

/// Queues that share a rate, each served by a thread of its own that comes a little late.
struct Sim {
    shared: Arc<SharedRate>,
    queues: Vec<Queue>,
    wakes: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: BTreeSet<usize>,
    rng: Rng,
    /// Longest time by which a thread is late, ns.
    late: u64,
    sizes: (u64, u64),
    sent: Sent,
    now: u64,
}

impl Sim {
    fn new(queues: usize, rate: Rate, burst: u64, seed: u64) -> Self {
        let shared = Arc::new(SharedRate::new(rate, Bytes(burst)));
        let queue = || Queue {
            lease: Lease::join(Arc::clone(&shared)).expect("no change of the rate"),
            head: 0,
            queued: 0,
        };
        Self {
            queues: (0..queues).map(|_| queue()).collect(),
            shared,
            wakes: BinaryHeap::new(),
            waiting: BTreeSet::new(),
            rng: Rng::new(seed),
            late: 0,
            sizes: (1500, 1500),
            sent: Vec::new(),
            now: 0,
        }
    }
    fn size(&mut self) -> u64 {
        self.sizes.0 + self.rng.below(self.sizes.1 - self.sizes.0 + 1)
    }
    fn arrive(&mut self, queue: usize, bytes: u64) {
        if self.queues[queue].queued == 0 {
            self.queues[queue].head = self.size();
            self.wake(queue, self.now);
        }
        let q = &mut self.queues[queue];
        q.queued = (q.queued + bytes).max(q.head);
    }
    fn purge(&mut self, queue: usize) {
        let q = &mut self.queues[queue];
        (q.queued, q.head) = (0, 0);
        q.lease.rest();
    }
    fn wake(&mut self, queue: usize, at: u64) {
        if self.waiting.insert(queue) {
            let late = self.rng.below(self.late);
            self.wakes.push(Reverse((at + late, queue)));
        }
    }
    /// Lets time pass until `end`.
    fn run(&mut self, end: u64) {
        while let Some(Reverse((t, queue))) = self.wakes.peek().copied() {
            if t > end {
                break;
            }
            self.wakes.pop();
            self.waiting.remove(&queue);
            self.now = t;
            self.serve(queue);
        }
        self.now = end;
    }
    fn serve(&mut self, queue: usize) {
        while self.queues[queue].queued > 0 {
            let now = self.now;
            let q = &mut self.queues[queue];
            match q.lease.ask(q.head, q.queued, Instant(now)) {
                Ok(()) => {
                    q.lease.spend(q.head);
                    self.sent.push((now, queue, q.head));
                    q.queued -= q.head;
                    let next = self.size();
                    let q = &mut self.queues[queue];
                    q.head = next.min(q.queued);
                }
                Err(t) => {
                    assert!(t.0 > now, "at {now}, told {t:?}");
                    self.wake(queue, t.0);
                    return;
                }
            }
        }
        self.queues[queue].lease.rest();
    }
    fn bytes(&self, from: u64, to: u64, queue: Option<usize>) -> u64 {
        let of = |s: &&(u64, usize, u64)| (from..to).contains(&s.0) && queue.is_none_or(|q| q == s.1);
        self.sent.iter().filter(of).map(|s| s.2).sum()
    }
}

fn rate_bytes(rate: Rate, ns: u64) -> u64 {
    u64::try_from(u128::from(rate.0) * u128::from(ns) / 1_000_000_000).expect("fits")
}

/// Checks I1 over every window that begins and ends with a packet, in one pass: the departures from
/// i to j are within the rate from i to j and the slack, so the window begins best with the packet
/// of the least "left before, less the rate until then".
fn assert_never_more(sent: &[(u64, usize, u64)], rate: Rate, slack: u64) {
    let (mut before, mut least) = (0i128, i128::MAX);
    for (t, _, bytes) in sent {
        let brought = i128::from(rate.0) * i128::from(*t);
        least = least.min(before * 1_000_000_000 - brought);
        before += i128::from(*bytes);
        let most = before * 1_000_000_000 - brought - least;
        assert!(
            most <= i128::from(slack) * 1_000_000_000,
            "{} bytes too many at {t}",
            most / 1_000_000_000 - i128::from(slack)
        );
    }
}

/// Eight queues become busy and idle at random, one at least always busy: in every window of 100 ms
/// the sum is within 2 % of the rate.
fn sum_is_right(rate: Rate, late: u64, end: u64, seed: u64) {
    const QUEUES: usize = 8;
    // A burst of a millisecond, as tc-tbf(8) recommends for a timer of 1000 Hz.
    let burst = rate_bytes(rate, MS).max(2 * 1514);
    let mut sim = Sim::new(QUEUES, rate, burst, seed);
    (sim.late, sim.sizes) = (late, (64, 1514));
    let mut busy = [false; QUEUES];
    let mut t = 0;
    while t < end {
        // The busy queues change at intervals: a queue is emptied, or runs dry by itself.
        let who = sim.rng.below(QUEUES as u64) as usize;
        if !busy[who] {
            busy[who] = true;
            let amount =
                if sim.rng.below(2) == 0 { u64::MAX / 4 } else { rate_bytes(rate, sim.rng.below(5 * MS)) };
            sim.arrive(who, amount.max(64));
        } else if sim.queues.iter().filter(|q| q.queued > u64::MAX / 8).count() > 1
            || sim.queues[who].queued < u64::MAX / 8
        {
            busy[who] = false;
            sim.purge(who);
        }
        if sim.queues.iter().all(|q| q.queued < u64::MAX / 8) {
            sim.arrive(0, u64::MAX / 4);
            busy[0] = true;
        }
        t += sim.rng.below(20 * MS);
        sim.run(t.min(end));
    }
    let longest = rate_bytes(rate, LEASE_NS.unsigned_abs()).max(1514);
    assert_never_more(&sim.sent, rate, burst + QUEUES as u64 * longest);
    let expected = rate_bytes(rate, WINDOW);
    for from in (0..end - WINDOW).step_by(MS as usize) {
        let first = sim.sent.partition_point(|s| s.0 < from);
        let last = sim.sent.partition_point(|s| s.0 < from + WINDOW);
        let got: u64 = sim.sent[first..last].iter().map(|s| s.2).sum();
        let off = got.abs_diff(expected) as f64 / expected as f64;
        assert!(off <= 0.02, "{got} bytes in 100 ms from {from}, not {expected}: seed {seed:#x}");
    }
}

#[test]
fn the_sum_is_within_two_percent_over_100_ms() {
    for seed in 1..=4 {
        sum_is_right(Rate::from_bits(100_000_000), 50_000, 3_000 * MS, seed);
        sum_is_right(Rate::from_bits(1_000_000_000), 50_000, 1_000 * MS, seed);
    }
    sum_is_right(Rate::from_bits(10_000_000_000), 50_000, 300 * MS, 5);
    sum_is_right(Rate::from_bits(100_000_000_000), 20_000, 150 * MS, 6);
}

#[test]
fn eight_backlogged_queues_have_an_eighth_each() {
    let rate = Rate::from_bits(1_000_000_000);
    let mut sim = Sim::new(8, rate, 125_000, 1);
    (sim.late, sim.sizes) = (20_000, (64, 1514));
    (0..8).for_each(|q| sim.arrive(q, u64::MAX / 4));
    sim.run(200 * MS);
    let share = rate_bytes(rate, WINDOW) / 8;
    for q in 0..8 {
        let got = sim.bytes(WINDOW, 2 * WINDOW, Some(q));
        // A lease, and a packet for a queue that is cut off.
        assert!(got.abs_diff(share) <= 12_500 + 1514, "queue {q} has {got} of {share}");
    }
}

#[test]
fn an_idle_share_is_used_within_a_millisecond() {
    let rate = Rate::from_bits(1_000_000_000);
    let mut sim = Sim::new(8, rate, 125_000, 2);
    (0..8).for_each(|q| sim.arrive(q, u64::MAX / 4));
    sim.run(100 * MS);
    let eighth = sim.bytes(50 * MS, 100 * MS, Some(3));
    assert!(eighth.abs_diff(rate_bytes(rate, 50 * MS) / 8) <= 12_500 + 1500, "{eighth}");
    // Seven become idle at once, in the midst of their reserved time.
    (0..8).filter(|q| *q != 3).for_each(|q| sim.purge(q));
    sim.run(110 * MS);
    for ms in 101..110 {
        let got = sim.bytes(ms * MS, (ms + 1) * MS, Some(3));
        assert!(got.abs_diff(125_000) <= 12_500 + 1500, "{got} bytes in the millisecond from {ms}");
    }
    // In sum no part of the share was lost, except the time that does not fit the bucket: the time
    // reserved by the idle queues, less the bucket's depth.
    let got = sim.bytes(100 * MS, 110 * MS, None);
    assert!(got.abs_diff(1_250_000) <= 12_500 + 1500, "{got}");
    // One queue becomes busy again, and is served within a millisecond.
    sim.arrive(5, u64::MAX / 4);
    sim.run(112 * MS);
    let first = sim.sent.iter().find(|s| s.1 == 5 && s.0 >= 110 * MS).expect("it was served").0;
    assert!(first <= 111 * MS, "first served at {first}");
}

#[test]
fn a_queue_that_cannot_send_withholds_one_lease() {
    let rate = Rate::from_bits(1_000_000_000);
    let mut sim = Sim::new(8, rate, 125_000, 3);
    // Seven devices stop after the first packet of their leases.
    sim.now = 10 * MS;
    for q in 0..7 {
        let lease = &mut sim.queues[q].lease;
        assert_eq!(lease.ask(1500, 1_000_000, Instant(10 * MS)), Ok(()));
        lease.spend(1500);
    }
    sim.arrive(7, u64::MAX / 4);
    sim.run(110 * MS);
    let got = sim.bytes(10 * MS, 110 * MS, Some(7));
    let least = rate_bytes(rate, WINDOW) + 125_000 - 8 * 12_500;
    assert!((least..=least + 12_500).contains(&got), "{got} of {least}");
    // Their devices start again: each queue returns the time that it held too long, and takes the
    // time that it needs now.
    for q in 0..7 {
        let before = sim.shared.clock();
        let _ = sim.queues[q].lease.ask(1500, 1500, Instant(110 * MS));
        assert_eq!(sim.shared.clock(), before - 88_000 + 12_000);
    }
}

/// With 64 queues, each waits no longer than with ten: leases get shorter.
#[test]
fn many_queues_wait_no_longer() {
    let rate = Rate::from_bits(10_000_000_000);
    let mut sim = Sim::new(64, rate, 1_250_000, 4);
    (0..64).for_each(|q| sim.arrive(q, u64::MAX / 4));
    sim.run(20 * MS);
    let mut last = [20 * MS; 64];
    for (t, q, _) in sim.sent.iter().rev() {
        let gap = last[*q].saturating_sub(*t);
        assert!(gap <= LEASES_NS.unsigned_abs() + 64 * 1_200, "queue {q} waited {gap} ns from {t}");
        last[*q] = *t;
    }
}

/// Threads with a clock of their own. Each grant carries the time of its request, so the upper
/// bound is exact for any scheduling of the threads; their speed depends on the machine.
#[test]
fn threads_share_a_rate() {
    const THREADS: usize = 4;
    let rate = Rate::from_bits(2_000_000_000);
    let shared = Arc::new(SharedRate::new(rate, Bytes(250_000)));
    let begin = Wall::now();
    let clock = move || u64::try_from(begin.elapsed().as_nanos()).expect("not for ever");
    let end = 200 * MS;
    let mut sent: Sent = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|id| {
                let mut lease = Lease::join(Arc::clone(&shared)).expect("no change of the rate");
                scope.spawn(move || {
                    let mut sent = Vec::new();
                    loop {
                        let now = clock();
                        if now >= end {
                            return sent;
                        }
                        match lease.ask(1500, 1_000_000, Instant(now)) {
                            Ok(()) => {
                                lease.spend(1500);
                                sent.push((now, id, 1500));
                            }
                            Err(t) => std::thread::sleep(Duration::from_nanos(t.0 - now)),
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect()
    });
    sent.sort_unstable();
    let longest = rate_bytes(rate, LEASE_NS.unsigned_abs());
    // A thread may be descheduled between its clock and the shared one: all of them, for a whole
    // lease each time.
    let total: u64 = sent.iter().map(|s| s.2).sum();
    assert!(total <= rate_bytes(rate, end) + 250_000 + THREADS as u64 * longest, "{total}");
    assert!(total >= rate_bytes(rate, end) / 10, "{total}");
    for id in 0..THREADS {
        assert!(sent.iter().any(|s| s.1 == id), "thread {id} was never served");
    }
    // All time that was leased and not used has come back.
    assert_eq!(shared.queues(), 0);
    assert!(shared.clock() <= end as i64 + THREADS as i64 * LEASE_NS);
}
