//! Behaviour of codel (RFC 8289) and fq_codel (RFC 8290), against literal expectations.

use std::collections::HashMap;

use crate::common;
use crate::common::lane::{Lane, Out};
use crate::common::options::pick;
use txweir_core::base::rng::Rng;
use txweir_core::{Admitted, DropReason, Ecn, ErrorKind, Handle, Instant, MarkReason, Meta, Nanos};

const T0: Instant = Instant::ZERO;

/// Returns a hash of flow `f` of 1024.
const fn flow(f: u32) -> u32 {
    f << 22
}

fn packet(f: u32, len: u32) -> Meta {
    Meta::new(len).hash(flow(f))
}

fn ticks(n: u64) -> Instant {
    Instant(n << 10)
}

#[test]
fn a_new_flow_goes_first_for_one_quantum() {
    let mut lane = Lane::new("fq_codel", "");
    lane.fill(T0, 0, 100, packet(1, 500));
    // A quantum of 1514 bytes as a new flow (four packets, 486 bytes of debt), then one packet of
    // its first turn as an old one.
    assert_eq!(lane.ids(T0, 5), [0, 1, 2, 3, 4]);
    lane.fill(T0, 1000, 40, packet(2, 100));
    let expected: Vec<u32> = (1000..1016) // new: 16 packets, 86 bytes of debt
        .chain([5, 6]) // the rest of the old flow's turn
        .chain(1016..1031) // a turn each from here on: 1428 bytes
        .chain([7, 8, 9])
        .chain(1031..1040)
        .chain([10, 11, 12])
        .collect();
    assert_eq!(lane.ids(T0, expected.len()), expected);
}

#[test]
fn a_sparse_flow_that_comes_back_at_once_does_not_starve_the_others() {
    let mut lane = Lane::new("fq_codel", "");
    lane.fill(T0, 0, 1000, packet(1, 1514));
    lane.fill(T0, 5000, 1, packet(2, 1514));
    let mut of_bulk = 0;
    for i in 1..=400 {
        let id = lane.take(T0).id().unwrap();
        if id < 5000 {
            of_bulk += 1;
        } else {
            // Each packet that leaves is replaced at once.
            lane.fill(T0, 5000 + i, 1, packet(2, 1514));
        }
    }
    assert!((198..=202).contains(&of_bulk), "{of_bulk} of 400");
}

#[test]
fn an_emptied_new_flow_waits_for_its_turn_among_the_old() {
    let mut lane = Lane::new("fq_codel", "");
    lane.fill(T0, 0, 10, packet(1, 500));
    assert_eq!(lane.ids(T0, 5), [0, 1, 2, 3, 4]);
    lane.fill(T0, 100, 1, packet(2, 64));
    assert_eq!(lane.ids(T0, 2), [100, 5]);
    let counters =
        |lane: &Lane| ["new_flows_len", "old_flows_len", "new_flow_count"].map(|k| lane.counter(k));
    assert_eq!(counters(&lane), [0, 2, 2]);
    // The flow was found empty and is an old flow now: its return makes it no new one.
    lane.fill(T0, 101, 1, packet(2, 64));
    assert_eq!(counters(&lane), [0, 2, 2]);
    assert_eq!(lane.ids(T0, 3), [6, 101, 7]);
}

#[test]
fn backlogged_flows_share_bytes_within_a_quantum_and_a_packet() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let quantum = 300 + rng.below(5000);
        let mut lane =
            Lane::new("fq_codel", &format!("quantum {quantum} limit 100000 memory_limit 4294967295"));
        let flows = 2 + rng.below(6) as u32;
        let (mut owner, mut largest) = (HashMap::new(), 0);
        for f in 0..flows {
            let base = *pick(&mut rng, &[64, 300, 1514, 9000]);
            for _ in 0..2000 {
                let len = 1 + base / 2 + rng.below(base / 2 + 1);
                let id = owner.len() as u32;
                owner.insert(id, f);
                largest = largest.max(len);
                lane.fill(T0, id, 1, packet(f, len as u32));
            }
        }
        let mut sent = vec![0_u64; flows as usize];
        let mut left = vec![2000_u32; flows as usize];
        while left.iter().all(|n| *n > 1) {
            let Out::Sent(id, m) = lane.take(T0) else { panic!("work conservation") };
            let f = owner[&id] as usize;
            sent[f] += u64::from(m.wire_len);
            left[f] -= 1;
            let (most, least) = (sent.iter().max().unwrap(), sent.iter().min().unwrap());
            assert!(
                most - least <= quantum + largest,
                "{seed}: {sent:?}, quantum {quantum}, packet {largest}"
            );
        }
        assert_eq!(lane.drops(), []);
    }
}

#[test]
fn an_overflow_takes_half_of_the_fattest_flow_from_its_head() {
    let mut lane = Lane::new("fq_codel", "limit 50");
    lane.fill(T0, 0, 40, packet(1, 1000));
    lane.fill(T0, 100, 10, packet(2, 1000));
    // The new packet is of the thin flow, and stays.
    assert_eq!(lane.put(T0, 200, packet(2, 1000)), Admitted::Queued);
    let expected: Vec<_> = (0..20).map(|i| (i, DropReason::FlowOverlimit)).collect();
    assert_eq!(lane.drops(), expected);
    assert_eq!((lane.backlog(), lane.counter("drop_overlimit")), (31, 20));
}

#[test]
fn overflow_drops_make_the_law_start_faster() {
    // 64 drops for lack of room count for the flow's law: it starts as if it had dropped 64 times.
    let gap = |limit: u32| {
        let mut lane = Lane::new("fq_codel", &format!("limit {limit} noecn"));
        lane.fill(T0, 1_000_000, 2064, packet(1, 1000));
        lane.drops();
        let (drops, _) = stand(&mut lane, 0, 10, 300_000, packet(1, 1000));
        drops[1] - drops[0]
    };
    assert_eq!(gap(10_000), SPACING[0].div_ceil(10) * 10);
    assert!(gap(2063) < INTERVAL / 4, "{}", gap(2063));
}

#[test]
fn the_fattest_flow_is_the_one_with_most_bytes_not_packets() {
    let mut lane = Lane::new("fq_codel", "limit 30 drop_batch 1");
    lane.fill(T0, 0, 25, packet(1, 100));
    lane.fill(T0, 100, 5, packet(2, 1500));
    let _ = lane.put(T0, 200, packet(1, 100));
    assert_eq!(lane.drops(), [(100, DropReason::FlowOverlimit)]);
}

#[test]
fn an_overflow_drops_at_most_a_batch() {
    for (options, batch) in [("limit 300", 64), ("limit 300 drop_batch 10", 10)] {
        let mut lane = Lane::new("fq_codel", options);
        lane.fill(T0, 0, 300, packet(1, 1000));
        let _ = lane.put(T0, 300, packet(1, 1000));
        let expected: Vec<_> = (0..batch).map(|i| (i, DropReason::FlowOverlimit)).collect();
        assert_eq!(lane.drops(), expected, "{options}");
        assert_eq!(lane.backlog(), u64::from(301 - batch));
    }
}

#[test]
fn memory_is_bounded_by_frames_and_slots() {
    // A waiting packet takes its frame and 64 bytes: 1064.
    let mut lane = Lane::new("fq_codel", "memory_limit 10640 drop_batch 2");
    lane.fill(T0, 0, 10, packet(1, 1000));
    assert_eq!(lane.counter("memory_used"), 10_640);
    let _ = lane.put(T0, 10, packet(2, 1));
    assert_eq!(lane.drops(), [(0, DropReason::Overmemory), (1, DropReason::Overmemory)]);
    let counters = ["memory_used", "drop_overmemory", "drop_overlimit"].map(|k| lane.counter(k));
    assert_eq!(counters, [8 * 1064 + 65, 2, 2]);
    lane.change(T0, Handle::ROOT, "memory_limit 3kb").unwrap();
    assert!(lane.counter("memory_used") <= 3072, "{}", lane.counter("memory_used"));
}

/// Keeps `standing` packets in the queue: each `step` ticks one packet enters and one leaves.
/// Returns (tick, id) of drops, and the marks.
fn stand(
    lane: &mut Lane,
    standing: u32,
    step: u64,
    until: u64,
    m: Meta,
) -> (Vec<u64>, Vec<(u64, MarkReason)>) {
    let (mut drops, mut marks) = (Vec::new(), Vec::new());
    lane.fill(T0, 0, standing, m);
    let mut id = standing;
    let mut now = 0;
    while now < until {
        now += step;
        assert_eq!(lane.put(ticks(now), id, m), Admitted::Queued);
        id += 1;
        let before = [MarkReason::Congested, MarkReason::CeThreshold].map(|r| lane.path.cx().marks(r));
        let _ = lane.take(ticks(now));
        drops.extend(lane.drops().iter().map(|(_, reason)| {
            assert_eq!(*reason, DropReason::Congested);
            now
        }));
        for (reason, before) in [MarkReason::Congested, MarkReason::CeThreshold].into_iter().zip(before) {
            marks.extend((before..lane.path.cx().marks(reason)).map(|_| (now, reason)));
        }
    }
    (drops, marks)
}

/// The offsets of the first ten drops from the first one, in ticks, of a law with an interval of
/// 100 ms.
const SPACING: [u64; 10] =
    [97_654, 146_483, 201_414, 249_049, 292_165, 331_624, 368_262, 402_589, 434_992, 465_758];
/// 100 ms and 5 ms in ticks.
const INTERVAL: u64 = 97_656;
const TARGET: u64 = 4_882;

/// Returns the times at which drops (or marks) are due if a packet is dequeued every `step` ticks.
fn golden(step: u64) -> Vec<u64> {
    let grid = |t: u64| t.div_ceil(step) * step;
    // The first packet that waited for the target arms the law; the delay must then stay above it
    // for longer than an interval.
    let first = grid(grid(TARGET) + INTERVAL + 1);
    let mut all = vec![first];
    all.extend(SPACING.map(|offset| grid(first + offset)));
    all
}

#[test]
fn codel_drops_at_the_spacing_of_its_law() {
    for (kind, options) in [("codel", "limit 5000"), ("fq_codel", "noecn")] {
        for step in [7, 10] {
            let mut lane = Lane::new(kind, options);
            let (drops, marks) = stand(&mut lane, 2000, step, 580_000, packet(1, 1000));
            assert_eq!(drops[..11], golden(step), "{kind}, every {step} ticks");
            assert_eq!(marks, []);
        }
    }
}

#[test]
fn a_capable_transport_gets_marks_at_the_times_of_drops() {
    for (kind, options) in [("codel", "limit 5000 ecn"), ("fq_codel", "")] {
        let mut lane = Lane::new(kind, options);
        let (drops, marks) = stand(&mut lane, 2000, 10, 580_000, packet(1, 1000).ecn(Ecn::Ect0));
        assert_eq!(drops, [], "{kind}");
        let expected: Vec<_> = golden(10).into_iter().map(|t| (t, MarkReason::Congested)).collect();
        assert_eq!(marks[..11], expected, "{kind}");
        assert_eq!(lane.counter("ecn_mark"), marks.len() as u64, "{kind}");
        let marked = lane.dev.metas().iter().filter(|m| m.marked && m.ecn == Ecn::Ce).count();
        assert_eq!(marked, marks.len(), "{kind}");
    }
}

#[test]
fn without_ecn_a_capable_transport_is_dropped_too() {
    for (kind, options) in [("codel", "limit 5000"), ("fq_codel", "noecn")] {
        let mut lane = Lane::new(kind, options);
        let (drops, marks) = stand(&mut lane, 2000, 10, 250_000, packet(1, 1000).ecn(Ecn::Ect1));
        assert_eq!((drops.len() >= 2, marks.len()), (true, 0), "{kind}");
    }
}

#[test]
fn a_short_wait_or_a_short_queue_is_never_bad() {
    // 400 packets, one every 10 ticks, wait 4 000 ticks: less than the target of 4 882.
    let mut lane = Lane::new("codel", "limit 5000");
    assert_eq!(stand(&mut lane, 400, 10, 600_000, packet(1, 1000)).0, []);
    // One full frame left behind is not a queue, on a link of any speed.
    let mut lane = Lane::new("codel", "");
    assert_eq!(stand(&mut lane, 1, 50_000, 2_000_000, packet(1, 1514)).0, []);
    // Two full frames are.
    let mut lane = Lane::new("codel", "");
    assert_ne!(stand(&mut lane, 2, 50_000, 2_000_000, packet(1, 1514)).0, []);
}

#[test]
fn a_packet_that_waited_past_the_threshold_is_marked_and_no_other() {
    for (kind, options) in [("codel", "ce_threshold 1ms"), ("fq_codel", "ce_threshold 1ms")] {
        let mut lane = Lane::new(kind, options);
        // 976 ticks are 999 us.
        lane.fill(T0, 0, 1, packet(1, 1000).ecn(Ecn::Ect0));
        lane.fill(T0, 1, 1, packet(1, 1000).ecn(Ecn::Ect1));
        lane.fill(T0, 2, 1, packet(1, 1000));
        lane.fill(T0, 3, 1, packet(1, 1000).ecn(Ecn::Ce));
        let look = |out: Out| match out {
            Out::Sent(id, m) => (id, m.marked, m.ecn),
            other => panic!("{other:?}"),
        };
        assert_eq!(look(lane.take(ticks(976))), (0, false, Ecn::Ect0), "{kind}");
        assert_eq!(look(lane.take(ticks(977))), (1, true, Ecn::Ce), "{kind}");
        assert_eq!(look(lane.take(ticks(977))), (2, false, Ecn::NotEct), "{kind}");
        // The mark is counted, although the bytes carry it already.
        assert_eq!(look(lane.take(ticks(977))), (3, false, Ecn::Ce), "{kind}");
        assert_eq!(lane.counter("ce_mark"), 2, "{kind}");
        assert_eq!(lane.path.cx().marks(MarkReason::CeThreshold), 2, "{kind}");
        assert_eq!(lane.drops(), [], "{kind}");
    }
}

/// A selector looks at the DS field with the ECN bits that the packet has when it leaves.
#[test]
fn a_threshold_is_for_the_packets_that_its_selector_names() {
    let all: [(&str, &[u32]); 6] = [
        ("0/0", &[0, 1, 2, 3]),
        ("0x1/0x3", &[1, 2]),
        ("40/252", &[0, 1]),
        ("0x2a/255", &[0]),
        ("3/0x3", &[3]),
        ("3/0x1", &[]),
    ];
    for (selector, marked) in all {
        let mut lane = Lane::new("fq_codel", &format!("ce_threshold 1ms ce_threshold_selector {selector}"));
        for (id, ds) in [(0, 0x2a), (1, 0x29), (2, 0x01), (3, 0x03)] {
            let mut m = packet(1, 1000).ecn(Ecn::from_ds(ds));
            m.ds = ds;
            lane.fill(T0, id, 1, m);
        }
        let mut found = Vec::new();
        for id in 0..4u32 {
            let before = lane.counter("ce_mark");
            let _ = lane.take(ticks(977));
            found.extend((lane.counter("ce_mark") > before).then_some(id));
        }
        assert_eq!(found, marked, "{selector}");
    }
}

#[test]
fn each_flow_has_a_law_of_its_own() {
    // Packets of a standing flow are dropped; a thin flow beside it loses none, although the whole
    // queue stands.
    let mut lane = Lane::new("fq_codel", "noecn");
    lane.fill(T0, 0, 3000, packet(1, 1000));
    let mut now = 0;
    let mut thin = 0;
    for id in 0..60_000 {
        now += 10;
        lane.fill(ticks(now), 100_000 + id, 1, packet(1, 1000));
        if id % 10 == 0 {
            lane.fill(ticks(now), 1_000_000 + id, 1, packet(2, 100));
            thin += 1;
            let _ = lane.take(ticks(now));
        }
        let _ = lane.take(ticks(now));
    }
    let drops = lane.drops();
    assert!(drops.len() > 5, "{}", drops.len());
    assert!(drops.iter().all(|(id, _)| *id < 1_000_000));
    let delivered = lane.dev.sent().iter().filter(|id| **id >= 1_000_000).count();
    assert_eq!(delivered, thin);
}

#[test]
fn the_number_of_flows_cannot_change_while_running() {
    let mut lane = Lane::new("fq_codel", "flows 16");
    lane.fill(T0, 0, 5, packet(1, 100));
    let refused = lane.change(T0, Handle::ROOT, "limit 77 flows 32").unwrap_err();
    assert_eq!((refused.kind, refused.key.as_deref()), (ErrorKind::Conflict, Some("flows")));
    assert_eq!(
        refused.to_string(),
        "fq_codel flows: expected 16, as it is (it cannot change while running), given \"32\""
    );
    let printed = common::options::printed(lane.root().qdisc()).join(" ");
    assert!(printed.starts_with("limit 10240p flows 16 "), "{printed}");
    lane.change(T0, Handle::ROOT, "limit 3 flows 16").unwrap();
    assert_eq!(lane.backlog(), 3);
}

#[test]
fn the_hash_is_scaled_and_a_class_named_by_priority_comes_first() {
    let mut lane = Lane::new("fq_codel", "flows 4");
    // The upper two bits of the hash select the flow: these are all of flow 2.
    for (id, hash) in [(0, 0x8000_0000), (1, 0xbfff_ffff), (2, 0x9234_5678)] {
        lane.fill(T0, id, 1, Meta::new(1514).hash(hash));
    }
    assert_eq!(lane.counter("new_flow_count"), 1);
    // The priority names flow 8001:1, although the hash selects flow 2.
    let named = Handle::new(0x8001, 1).0;
    lane.fill(T0, 3, 1, Meta::new(1514).hash(0x8000_0000).priority(named));
    assert_eq!(lane.counter("new_flow_count"), 2);
    assert_eq!(lane.ids(T0, 4), [0, 3, 1, 2]);
}

#[test]
fn direct_dispatch_is_for_a_queue_at_rest() {
    for kind in ["codel", "fq_codel"] {
        let mut lane = Lane::new(kind, "");
        let submit = |lane: &mut Lane, now, id| lane.path.submit(now, id, packet(1, 1514), &mut lane.dev);
        assert_eq!(submit(&mut lane, T0, 0), Admitted::Sent, "{kind}");
        lane.fill(T0, 1, 1, packet(1, 1514));
        assert_eq!(submit(&mut lane, T0, 2), Admitted::Queued, "{kind}: something waits");
        assert_eq!(lane.ids(T0, 2), [1, 2], "{kind}");
        assert_eq!(submit(&mut lane, T0, 3), Admitted::Sent, "{kind}: it was told that it is empty");
    }
    // A flow that has used its turn is still on a list when its last packet has left; a packet that
    // bypassed the qdisc would get ahead of what its debt allows. The engine dequeues until the
    // lists are empty.
    let mut lane = Lane::new("fq_codel", "");
    lane.fill(T0, 0, 1, packet(1, 1514));
    lane.fill(T0, 1, 1, packet(2, 1514));
    assert_eq!(lane.ids(T0, 2), [0, 1]);
    assert_eq!((lane.counter("new_flows_len"), lane.counter("old_flows_len")), (0, 0));
}

#[test]
fn an_empty_queue_forgets_that_it_stood() {
    // A queue stands for half an interval, empties, and much later a burst stands for half an
    // interval: the queue is not bad, because the time between does not count (RFC 8289 section
    // 5.6, `dodequeue`).
    let mut lane = Lane::new("codel", "limit 5000");
    lane.fill(T0, 0, 100, packet(1, 1000));
    let half = Nanos::from_millis(50);
    assert!(lane.take(T0 + half).id().is_some());
    while lane.take(T0 + half).id().is_some() {}
    let later = Instant::from_secs(10);
    lane.fill(later, 200, 100, packet(1, 1000));
    for ms in 6..60 {
        assert!(lane.take(later + Nanos::from_millis(ms)).id().is_some());
    }
    assert_eq!(lane.drops(), []);
}

/// The listing of `tc -s class show`: flows with packets or with a turn to come, by the class that
/// leads to each.
#[test]
fn fq_codel_shows_its_flows() {
    let mut lane = Lane::new("fq_codel", "");
    let shown = |lane: &Lane| {
        let mut all = Vec::new();
        lane.root().qdisc().flows(&lane.path.cx().pool, &mut |f| {
            let values: Vec<i64> = f.values.iter().map(|(_, v)| *v).collect();
            let keys: Vec<&str> = f.values.iter().map(|(k, _)| *k).collect();
            assert_eq!(keys, ["deficit", "count", "lastcount", "ldelay", "dropping", "drop_next"]);
            all.push((f.minor, f.backlog.packets, f.backlog.bytes, values));
        });
        all
    };
    assert_eq!(shown(&lane), []);
    lane.fill(T0, 0, 3, packet(0x29, 1000));
    lane.fill(T0, 9, 1, packet(1023, 60));
    let fresh = || vec![1514, 0, 0, 0, 0, 0];
    assert_eq!(shown(&lane), [(0x2a, 3, 3000, fresh()), (1024, 1, 60, fresh())]);
    // 4096 ns are four ticks; the second packet is a debt.
    assert_eq!(lane.ids(ticks(4), 2), [0, 1]);
    assert_eq!(shown(&lane), [(0x2a, 1, 1000, vec![-486, 0, 0, 4, 0, 0]), (1024, 1, 60, fresh())]);
    // The flow is empty, and still on a list until its turn comes; it disappears once all were
    // found empty.
    assert_eq!(lane.ids(ticks(4), 1), [9]);
    assert_eq!(
        shown(&lane),
        [(0x2a, 1, 1000, vec![1028, 0, 0, 4, 0, 0]), (1024, 0, 0, vec![1454, 0, 0, 4, 0, 0])]
    );
    assert_eq!(lane.ids(ticks(4), 1), [2]);
    assert_eq!(shown(&lane), []);
}

/// A flow whose law is dropping shows that, and the time of its next drop.
#[test]
fn fq_codel_shows_the_law_of_a_flow() {
    let mut lane = Lane::new("fq_codel", "noecn");
    lane.fill(T0, 0, 400, packet(7, 1000));
    for t in 1..=150 {
        let _ = lane.take(Instant(t * 1_000_000));
    }
    let mut seen = Vec::new();
    lane.root().qdisc().flows(&lane.path.cx().pool, &mut |f| seen.push((f.minor, f.values.to_vec())));
    let [(8, values)] = seen.as_slice() else { panic!("{seen:?}") };
    let of = |key| values.iter().find(|(k, _)| *k == key).unwrap().1;
    // The delay is bad from 5 ms on for 100 ms: the first drop is at 105 ms, the next 100 ms later.
    assert_eq!((of("dropping"), of("count"), of("lastcount")), (1, 1, 1));
    assert_eq!(of("ldelay"), 150_000 - 1);
    assert!((50_000..60_000).contains(&of("drop_next")), "{values:?}");
}

/// Flows that are numbered as they come spread over the buckets as random hashes do: of 1000 flows
/// in 1024 buckets, 638 buckets are expected to be in use.
#[test]
fn numbered_flows_spread_over_the_buckets() {
    let used = |of: fn(Meta, u64) -> Meta| {
        let mut lane = Lane::new("fq_codel", "");
        for id in 0..1000 {
            lane.fill(T0, id as u32, 1, of(Meta::new(100), id));
        }
        lane.counter("new_flow_count")
    };
    assert_eq!(used(|m, id| m.hash(id as u32)), 1, "a plain number is no hash");
    let spread = used(Meta::flow);
    assert!((600..=680).contains(&spread), "{spread} buckets");
    // Ids that differ in their upper bits alone spread too.
    let spread = used(|m, id| m.flow(id << 40));
    assert!((600..=680).contains(&spread), "{spread} buckets");
}
