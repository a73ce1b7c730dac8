//! Packets far larger than the turns of flows: a decision costs a bounded number of turns, and its
//! result is that of paying turn by turn.

use std::collections::VecDeque;

use crate::common::lane::Lane;
use txweir_core::sched::stab::Stab;
use txweir_core::{Handle, Instant, Meta};

const T0: Instant = Instant(1_000_000_000);

/// The sizes of the packets of each flow, from a fixed sequence: 60 bytes to 16 MB.
fn sizes() -> Vec<Vec<u32>> {
    let mut x: u64 = 88_172_645_463_325_252;
    let mut draw = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        60 + (x as u32 >> 8) % [1500, 1 << 16, 1 << 24][(x >> 60) as usize % 3]
    };
    (0..5).map(|_| (0..6).map(|_| draw()).collect()).collect()
}

/// Returns the order in which flows with these packets send by deficit round robin with new and old
/// flows (RFC 8290, section 4.2), one turn at a time.
fn order(sizes: &[Vec<u32>], quantum: i64) -> Vec<u32> {
    let mut waiting: Vec<VecDeque<u32>> = sizes.iter().map(|s| s.iter().copied().collect()).collect();
    let mut ids: Vec<VecDeque<u32>> =
        (0..sizes.len() as u32).map(|f| (0..6).map(|i| f * 6 + i).collect()).collect();
    let mut deficit = vec![quantum; sizes.len()];
    let (mut new, mut old): (VecDeque<usize>, VecDeque<usize>) =
        ((0..sizes.len()).collect(), VecDeque::new());
    let mut sent = Vec::new();
    while let Some((f, is_new)) = new.front().map(|f| (*f, true)).or(old.front().map(|f| (*f, false))) {
        let list = if is_new { &mut new } else { &mut old };
        if deficit[f] <= 0 {
            deficit[f] += quantum;
            list.pop_front();
            old.push_back(f);
        } else if let Some(len) = waiting[f].pop_front() {
            deficit[f] -= i64::from(len);
            sent.extend(ids[f].pop_front());
        } else {
            list.pop_front();
            if is_new && !old.is_empty() {
                old.push_back(f);
            }
        }
    }
    sent
}

#[test]
fn rounds_that_are_skipped_change_no_order() {
    let sizes = sizes();
    for (kind, quantum, options) in [
        ("fq_codel", 256, "quantum 256 memory_limit 1gb"),
        ("fq_codel", 9000, "quantum 9000 memory_limit 1gb"),
        ("fq_pie", 256, "quantum 256"),
        ("fq", 300, "quantum 300 initial_quantum 300 nopacing weights 1073741823 1073741823 1073741823"),
    ] {
        let mut lane = Lane::new(kind, options);
        if kind == "fq" {
            // Packets of another flow use up the fast path. All packets are in the first band,
            // whose credit covers them.
            (0..10).for_each(|_| lane.fill(T0, 99, 1, Meta::new(60).hash(0xfeed_0000)));
        }
        // The first packet of each flow first: the flows are new in this order.
        for i in 0..6 {
            for (f, sizes) in sizes.iter().enumerate() {
                let m = Meta::new(sizes[i]).hash(0x1234_5677_u32.wrapping_mul(f as u32 + 1)).priority(6);
                lane.fill(T0, f as u32 * 6 + i as u32, 1, m);
            }
        }
        let expected = order(&sizes, quantum);
        let left: Vec<u32> = lane.ids(T0, 50).into_iter().filter(|id| *id != 99).collect();
        assert_eq!(left.len(), 30, "{kind} {options}");
        assert_eq!(left, expected, "{kind} {options}");
    }
}

/// Turn by turn, 8192 turns of each of two flows bring the second just out of its debt. A skip of
/// rounds comes after 16 384 turns: then no round is left in which neither flow can send.
#[test]
fn no_round_is_skipped_once_a_flow_is_out_of_debt() {
    let mut lane = Lane::new("fq_codel", "quantum 256 memory_limit 1gb");
    let packet = |f: u32, len: u32| Meta::new(len).hash(f << 22);
    lane.fill(T0, 0, 1, packet(1, 1 << 24));
    lane.fill(T0, 1, 1, packet(2, 8192 * 256 + 100));
    lane.fill(T0, 10, 2, packet(1, 60));
    lane.fill(T0, 20, 2, packet(2, 60));
    assert_eq!(lane.ids(T0, 3), [0, 1, 20]);
    let mut deficits = Vec::new();
    lane.root().qdisc().flows(&lane.path.cx().pool, &mut |f| deficits.push((f.minor, f.values[0])));
    // A quantum at the start; one turn when the first flow has become an old one, then 8192.
    let first = 256 - (1 << 24) + 256 + 8192 * 256;
    let second = 256 - (8192 * 256 + 100) + 8192 * 256 - 60;
    assert_eq!(deficits, [(2, ("deficit", first)), (3, ("deficit", second))]);
}

/// A size table charges each packet two gigabytes: millions of turns, if no round were skipped. In
/// a debug build the bound of the turns of one decision is asserted.
#[test]
fn a_debt_of_two_gigabytes_takes_no_millions_of_turns() {
    for (kind, options) in [
        ("fq_codel", "quantum 256"),
        ("fq_pie", "quantum 256"),
        ("fq", "quantum 1 initial_quantum 1"),
        ("cake", "unlimited diffserv4"),
        ("cake", "unlimited besteffort"),
        ("cake", "bandwidth 100gbit diffserv8"),
    ] {
        let mut lane = Lane::new(kind, options);
        let stab = Stab { overhead: 0, mpu: i32::MAX.unsigned_abs(), linklayer: None, mtu: 2047, tsize: 512 };
        lane.path
            .configure(T0, &mut lane.dev, |tree, cx| tree.edit(cx).set_stab(Handle::ROOT, Some(stab)))
            .unwrap();
        let mut left = 0;
        for i in 0..200 {
            let mut m = Meta::new(1000).hash(i * 0x0101_0107);
            m.ds = [0, 8 << 2, 46 << 2, 32 << 2][i as usize % 4];
            lane.fill(T0, i, 1, m);
            if i > 40 {
                left += lane.ids(Instant(T0.0 + u64::from(i) * 1_000_000_000), 1).len();
            }
        }
        assert!(left > 0, "{kind} {options}");
    }
}
