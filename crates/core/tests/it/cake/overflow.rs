//! The memory of waiting packets, and the queues that lose some where it does not suffice.

use std::collections::VecDeque;

use super::{T0, ms};
use crate::common::lane::Lane;
use proptest::prelude::*;
use txweir_core::base::rng::Rng;
use txweir_core::{Admitted, DropReason, Env, Meta};

#[test]
fn memory_is_that_of_linux_buffers_and_is_never_exceeded() {
    // The `memory used` that Linux 6.12 showed after a packet of such a length.
    for (len, memory) in [
        (60, 832),
        (240, 832),
        (241, 1280),
        (688, 1280),
        (689, 2304),
        (1712, 2304),
        (1713, 4352),
        (3760, 4352),
        (3761, 8448),
        (4079, 8448),
        (4080, 4928),
        (4110, 4928),
        (4111, 9024),
        (8206, 9024),
        (8207, 13_120),
    ] {
        let mut lane = Lane::new("cake", "");
        lane.fill(T0, 0, 1, Meta::new(len));
        assert_eq!(lane.counter("memory_used"), memory, "{len}");
    }
    for (options, limit) in [
        ("bandwidth 1mbit", 4 << 20),
        ("bandwidth 100mbit", 5_000_000),
        ("bandwidth 100gbit", 10_240 * 1514),
        ("unlimited", 10_240 * 1514),
        ("unlimited memlimit 100mb", 100 << 20),
        ("bandwidth 100mbit rtt 200ms", 10_000_000),
    ] {
        assert_eq!(Lane::new("cake", options).counter("memory_limit"), limit, "{options}");
    }
}

/// Fills queues that overflow, one in each of eight tins, and returns the numbers of packets that
/// were dropped and of those that were not in the longest queue.
fn overflows(strict_linux: bool) -> (usize, usize) {
    let env = Env { strict_linux, ..Env::default() };
    let mut lane = Lane::on(env, "cake", "bandwidth 1mbit precedence flowblind memlimit 60kb");
    let (mut rng, mut lens) = (Rng::new(1), Vec::new());
    let mut queues: Vec<VecDeque<u32>> = vec![Default::default(); 8];
    let (mut dropped, mut shorter) = (0, 0);
    for id in 0..2000 {
        let (tin, mut m) = (rng.below(8), Meta::new(60 + rng.below(1455) as u32));
        m.ds = (tin << 5) as u8;
        lens.push(m.len);
        queues[tin as usize].push_back(id);
        assert_eq!(lane.put(T0, id, m), Admitted::Queued);
        for (gone, _) in lane.drops() {
            let bytes = |q: &VecDeque<u32>| q.iter().map(|id| lens[*id as usize]).sum::<u32>();
            let longest = queues.iter().map(bytes).max();
            let queue = queues.iter_mut().find(|q| q.front() == Some(&gone)).expect("the oldest of a queue");
            dropped += 1;
            shorter += usize::from(Some(bytes(queue)) != longest);
            queue.pop_front();
        }
    }
    (dropped, shorter)
}

/// The trace `longest` shows which queue Linux takes for the longest.
#[test]
fn an_overflow_drops_from_the_longest_queue_and_linux_from_another() {
    let (dropped, shorter) = overflows(false);
    assert!(dropped > 1900 && shorter == 0, "{shorter} of {dropped}");
    let (dropped, shorter) = overflows(true);
    assert!(dropped > 1900 && shorter > 50, "{shorter} of {dropped}");
}

/// The longest queue loses its oldest packet, until there is room.
#[test]
fn the_longest_queue_loses_its_oldest() {
    let mut lane = Lane::new("cake", "bandwidth 1mbit besteffort flows memlimit 23040");
    // BLUE does not move within a target of the clock's start.
    let now = ms(1000);
    lane.fill(now, 0, 6, Meta::new(1500).hash(8));
    lane.fill(now, 100, 4, Meta::new(1400).hash(16));
    assert_eq!(lane.drops(), []);
    for id in 200..203 {
        assert_eq!(lane.put(now, id, Meta::new(1000).hash(24)), Admitted::Queued);
    }
    let over = DropReason::Overmemory;
    assert_eq!(
        lane.drops(),
        [(0, over), (1, over), (2, over)],
        "of 9000 bytes, 7500, 6000; the others have 5600, 3000"
    );
    assert_eq!(lane.part("Tin 0", "drops"), 3);
    assert_eq!(lane.part("Tin 0", "unresponsive_flows"), 1);
}

/// A purge makes the laws of all flows new, and so nobody counts as unresponsive.
#[test]
fn a_purge_forgets_who_was_unresponsive() {
    let mut lane = Lane::new("cake", "bandwidth 1mbit besteffort flows memlimit 23040");
    lane.fill(ms(1000), 0, 20, Meta::new(1500).hash(8));
    assert_eq!(lane.part("Tin 0", "unresponsive_flows"), 1);
    lane.path.purge(ms(1000), &mut lane.dev);
    assert_eq!(lane.part("Tin 0", "unresponsive_flows"), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Random queues, with random departures: each dropped packet is the oldest of a queue that no
    /// other exceeds.
    #[test]
    fn drops_are_of_the_longest_queue(seed in any::<u64>(), limit in 3000u64..60_000) {
        let mut rng = Rng::new(seed);
        let options = format!("besteffort flows memlimit {limit} rtt 1000s");
        let mut lane = Lane::new("cake", &options);
        let mut queues: Vec<VecDeque<(u32, u64)>> = vec![Default::default(); 6];
        for id in 0..400 {
            if rng.below(3) == 0 {
                let taken = lane.take(T0).id();
                // A drop of BLUE, after an overflow, is the oldest packet of a queue too.
                let random = lane.drops().into_iter().map(|(id, _)| id);
                for gone in random.chain(taken) {
                    let queue = queues.iter_mut().find(|q| q.front().is_some_and(|(id, _)| *id == gone));
                    prop_assert!(queue.and_then(|q| q.pop_front()).is_some(), "{gone} was not the oldest of a queue");
                }
                continue;
            }
            let (flow, len) = (rng.below(6) as usize, 60 + rng.below(1455) as u32);
            queues[flow].push_back((id, u64::from(len)));
            let _ = lane.put(T0, id, Meta::new(len).hash(flow as u32 * 8));
            for (gone, _) in lane.drops() {
                let bytes: Vec<u64> = queues.iter().map(|q| q.iter().map(|(_, len)| len).sum()).collect();
                let queue = queues.iter().position(|q| q.front().is_some_and(|(id, _)| *id == gone));
                let Some(queue) = queue else { panic!("{gone} was not the oldest of a queue: {queues:?}") };
                prop_assert_eq!(bytes[queue], bytes.iter().copied().max().unwrap_or(0), "{:?}", bytes);
                queues[queue].pop_front();
            }
        }
    }
}
