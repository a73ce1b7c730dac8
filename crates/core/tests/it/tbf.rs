//! tbf against token buckets in exact arithmetic, and its corners against literal expectations.

use std::collections::VecDeque;

use crate::common::lane::{Lane, Out};
use crate::common::options::{chance, log_uniform, pick};
use txweir_core::base::rng::Rng;
use txweir_core::{Admitted, DropReason, Handle, Instant, Meta, Nanos, Wake};

/// A token bucket in exact arithmetic: tokens are bytes times nanoseconds per second, so that a rate of r bytes/s
/// adds r of them per nanosecond and a byte costs 10^9.
#[derive(Debug)]
struct Bucket {
    rate: u128,
    depth: u128,
    tokens: u128,
    filled: u128,
}

const BYTE: u128 = 1_000_000_000;

impl Bucket {
    fn new(rate: u64, bytes: u128) -> Self {
        Self { rate: u128::from(rate), depth: bytes * BYTE, tokens: bytes * BYTE, filled: 0 }
    }
    /// The first whole nanosecond, not before `t`, at which `bytes` may leave.
    fn ready(&self, t: u128, bytes: u128) -> u128 {
        let lacking = (bytes * BYTE).saturating_sub(self.tokens);
        t.max(self.filled + lacking.div_ceil(self.rate))
    }
    fn charge(&mut self, t: u128, bytes: u128) {
        self.tokens = (self.tokens + (t - self.filled) * self.rate).min(self.depth) - bytes * BYTE;
        self.filled = t;
    }
}

/// A tbf with random parameters, as options and as buckets.
struct TbfCase {
    options: String,
    buckets: Vec<Bucket>,
    largest: u64,
    overhead: u64,
    mpu: u64,
    atm: bool,
    rate: u64,
}

/// What a packet is charged: with its overhead, at least the minimum, in whole cells on ATM.
fn charged(bytes: u64, overhead: u64, mpu: u64, atm: bool) -> u128 {
    let bytes = u128::from((bytes + overhead).max(mpu));
    if atm { bytes.div_ceil(48) * 53 } else { bytes }
}

impl TbfCase {
    fn new(rng: &mut Rng) -> Self {
        let rate = 1000 + log_uniform(rng, 2_000_000_000);
        let (overhead, mpu) = (*pick(rng, &[0, 4, 24, 38]), *pick(rng, &[0, 64, 1000]));
        let burst = 2000 + log_uniform(rng, 1_000_000);
        let atm = chance(rng, 1, 3);
        let size = |bytes: u64| charged(bytes, overhead, mpu, atm);
        let mut buckets = vec![Bucket::new(rate, size(burst))];
        let mut options = format!("rate {rate}bps burst {burst} limit 1gb mpu {mpu} overhead {overhead}");
        options += if atm { " linklayer adsl" } else { "" };
        let mut largest = burst;
        if chance(rng, 1, 2) {
            // A peak bucket that fills no slower than the other: peakrate above rate, mtu not above burst.
            let peak = rate + 1 + log_uniform(rng, 2 * rate);
            let mtu = 1514 + rng.below(burst - 1514);
            options += &format!(" peakrate {peak}bps mtu {mtu}");
            buckets.push(Bucket::new(peak, size(mtu)));
            largest = mtu;
        }
        Self { options, buckets, largest: largest.min(20_000), overhead, mpu, atm, rate }
    }
    fn size(&self, len: u64) -> u128 {
        charged(len, self.overhead, self.mpu, self.atm)
    }
}

/// tbf keeps tokens in whole nanoseconds of transmission and multiplies by a reciprocal of the rate instead of
/// dividing: a charge is less than 1 ns too small, plus a part of 2^-31 of it; so is the depth. All errors go
/// to "sooner", except that of the depth, which can make it later, once. They may add up over packets.
#[test]
fn tbf_departures_equal_exact_token_buckets() {
    departures_equal_exact_token_buckets("");
}

/// With a shared bucket that nobody else shares: it is leased a part at a time, and that cannot be seen.
#[test]
fn a_shared_rate_alone_departs_as_exact_token_buckets_do() {
    departures_equal_exact_token_buckets(" shared alone");
}

fn departures_equal_exact_token_buckets(more: &str) {
    for seed in 0..80 {
        let mut rng = Rng::new(seed);
        let mut case = TbfCase::new(&mut rng);
        case.options += more;
        let mut lane = Lane::new("tbf", &case.options);
        let (mut arrival, mut free) = (0_u128, 0_u128);
        let mut schedule = VecDeque::new();
        let mut charged = case.buckets[0].depth / BYTE;
        // Bursts, and silences long enough to fill the buckets.
        for id in 0..600_u32 {
            let any = 1 + rng.below(case.largest);
            let len = *pick(&mut rng, &[60, 1514, case.largest, any]);
            let pause = case.size(len) * BYTE / u128::from(case.rate);
            let pause = u64::try_from(pause).unwrap();
            arrival += u128::from(match rng.below(20) {
                0 => log_uniform(&mut rng, 1 + 100 * pause),
                1..8 => 0,
                _ => rng.below(2 * pause + 1),
            });
            let size = case.size(len);
            let t = case.buckets.iter().fold(free.max(arrival), |t, b| b.ready(t, size));
            case.buckets.iter_mut().for_each(|b| b.charge(t, size));
            free = t;
            charged += size;
            let error = u128::from(id) + 2 + ((charged * BYTE / u128::from(case.rate)) >> 31);
            schedule.push_back((id, len as u32, arrival as u64, t as u64, error as u64));
        }
        let last_error = schedule.back().map_or(0, |s| s.4);
        assert!(last_error < 1_000_000, "the tolerance is {last_error} ns");
        run_tbf(&mut lane, schedule, &case.options);
    }
}

/// Drives it by arrivals and by the wakes that it asks for, and compares departures with the schedule.
fn run_tbf(lane: &mut Lane, schedule: VecDeque<(u32, u32, u64, u64, u64)>, options: &str) {
    let (mut arrivals, mut departures) = (schedule.clone(), schedule);
    let mut wake = u64::MAX;
    while let Some(&(expected, len, _, due, error)) = departures.front() {
        let now = match arrivals.front() {
            Some(&(id, len, at, ..)) if at <= wake => {
                assert_eq!(lane.put(Instant(at), id, Meta::new(len)), Admitted::Queued, "{options}");
                arrivals.pop_front();
                at
            }
            _ => wake,
        };
        assert_ne!(now, u64::MAX, "{options}: stuck before {expected}");
        wake = match lane.take(Instant(now)) {
            Out::Sent(id, m) => {
                assert_eq!((id, m.wire_len), (expected, len), "{options}");
                let late = now.abs_diff(due);
                assert!(
                    late <= error,
                    "{options}: {id} left at {now}, exactly {due}, {late} > {error} ns off"
                );
                departures.pop_front();
                now
            }
            Out::Wait(t) => t.0,
            Out::Nothing => u64::MAX,
        };
    }
}

#[test]
fn tbf_paces_to_the_nanosecond_where_the_rate_divides() {
    // 1 Mbyte/s is 1000 ns per byte: no rounding at all.
    let mut lane = Lane::new("tbf", "rate 1mbps burst 2000 limit 100k");
    lane.fill(Instant::ZERO, 0, 4, Meta::new(1000));
    let mut now = Instant::ZERO;
    let mut times = Vec::new();
    while times.len() < 4 {
        match lane.take(now) {
            Out::Sent(id, _) => times.push((id, now.0)),
            Out::Wait(t) => now = t,
            Out::Nothing => panic!("lost"),
        }
    }
    assert_eq!(times, [(0, 0), (1, 0), (2, 1_000_000), (3, 2_000_000)]);
}

#[test]
fn tbf_drops_what_can_never_conform_and_holds_its_limit() {
    let mut lane = Lane::new("tbf", "rate 1mbps burst 1500 limit 3000");
    assert_eq!(lane.put(Instant::ZERO, 0, Meta::new(1501)), Admitted::Dropped(DropReason::Oversize));
    // The packet that waits for tokens at the head counts towards the limit, as all do.
    for id in 1..=3 {
        let _ = lane.put(Instant::ZERO, id, Meta::new(1500));
        let _ = lane.take(Instant::ZERO);
    }
    assert_eq!((lane.dev.sent(), lane.backlog()), (&[1][..], 2));
    assert_eq!(lane.put(Instant::ZERO, 4, Meta::new(1)), Admitted::Dropped(DropReason::Overlimit));
}

#[test]
fn tbf_lets_go_of_what_a_change_made_too_large() {
    let mut lane = Lane::new("tbf", "rate 1kbps burst 2000 limit 10000");
    lane.fill(Instant::ZERO, 0, 3, Meta::new(1500));
    lane.fill(Instant::ZERO, 3, 1, Meta::new(900));
    assert_eq!(lane.take(Instant::ZERO).id(), Some(0));
    lane.change(Instant::ZERO, Handle::ROOT, "rate 1kbps burst 1000 limit 10000").unwrap();
    assert_eq!(lane.take(Instant::ZERO).id(), Some(3));
    assert_eq!(lane.drops(), [(1, DropReason::Oversize), (2, DropReason::Oversize)]);
}

#[test]
fn tbf_with_the_deepest_bucket_and_the_longest_wait_does_not_overflow() {
    let options = "rate 1bps burst 4294967295 limit 4294967295 overhead 4294967295";
    let mut lane = Lane::new("tbf", options);
    lane.fill(Instant::ZERO, 0, 3, Meta::new(1000));
    assert_eq!(lane.take(Instant::ZERO).id(), Some(0));
    let Out::Wait(t) = lane.take(Instant::ZERO) else { panic!("the bucket holds two packets") };
    assert_eq!(lane.take(t).id(), Some(1));
    assert_eq!(lane.take(Instant(u64::MAX)).id(), Some(2));
}

#[test]
fn a_deleted_child_gives_place_to_the_shapers_own_fifo() {
    let mut lane = Lane::new("tbf", "rate 1kbps burst 2000 limit 3000");
    let class = Handle::new(0x8001, 1);
    lane.graft(Instant::ZERO, class, "pfifo", "limit 100");
    lane.path.configure(Instant::ZERO, &mut lane.dev, |tree, cx| tree.edit(cx).delete(class)).unwrap();
    for id in 0..4 {
        let _ = lane.put(Instant::ZERO, id, Meta::new(1000));
    }
    assert_eq!(lane.drops(), [(3, DropReason::Overlimit)]);
    lane.change(Instant::ZERO, Handle::ROOT, "rate 1kbps burst 2000 limit 1000").unwrap();
    assert_eq!(lane.backlog(), 1);
}

#[test]
fn latency_is_another_way_to_say_limit() {
    // rate x latency + burst, and the same at the peak rate if that is less (tc-tbf(8)).
    for (options, limit) in [
        ("rate 1mbps burst 5000 latency 50ms", 55_000),
        ("rate 1mbps burst 50000 latency 10ms peakrate 2mbps mtu 2000", 22_000),
    ] {
        let mut lane = Lane::new("tbf", options);
        let mut id = 0;
        while lane.put(Instant::ZERO, id, Meta::new(500)) == Admitted::Queued {
            id += 1;
        }
        assert_eq!(id * 500, limit, "{options}");
    }
}

#[test]
fn an_idle_bucket_is_not_more_than_full() {
    let mut lane = Lane::new("tbf", "rate 1mbps burst 3000 limit 100k");
    lane.fill(Instant::from_secs(1000), 0, 5, Meta::new(1000));
    let now = Instant::from_secs(1000);
    assert_eq!(lane.ids(now, 9), [0, 1, 2]);
    assert_eq!(lane.take(now), Out::Wait(now + Nanos::from_millis(1)));
    assert_eq!(lane.path.drain(now, 0, &mut lane.dev), Wake::More);
}

/// Each node counts the times that it had to wait for its own tokens, none of those below or above it.
#[test]
fn overlimits_are_those_of_the_node_that_waits() {
    let waits = |outer: &str, inner: &str| {
        let mut lane = Lane::new("tbf", outer);
        let class = lane.root().qdisc().classes()[0].minor;
        let class = Handle::new(lane.root().handle().major(), class);
        lane.graft(Instant::ZERO, class, "tbf", inner);
        lane.fill(Instant::ZERO, 0, 3, Meta::new(1000));
        while lane.take(Instant::ZERO).id().is_some() {}
        let below = &lane.root().qdisc().classes()[0].node;
        (lane.root().books().overlimits > 0, below.books().overlimits > 0)
    };
    let (slow, fast) = ("rate 8kbit burst 1500 limit 100000", "rate 8gbit burst 100000 limit 100000");
    assert_eq!(waits(slow, fast), (true, false));
    assert_eq!(waits(fast, slow), (false, true));
}
