//! sfb: named behaviours, with literal expectations. Its traces of the kernel are in
//! `spec/traces/sfb`.

use crate::common::lane::Lane;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, DropReason, Handle, Instant, Meta};

const fn at(ms: u64) -> Instant {
    Instant::from_millis(1000 + ms)
}

/// Returns a packet of a flow.
fn meta(flow: u32) -> Meta {
    Meta::new(1000).hash(flow.wrapping_mul(0x9e37_79b9))
}

/// Queues packets of a flow; returns the number of those that were taken.
fn offer(lane: &mut Lane, now: Instant, n: u32, m: Meta) -> usize {
    (0..n).filter(|id| lane.put(now, *id, m) == Admitted::Queued).count()
}

/// Early drops, those for want of a token, of full bins, at the limit, of the child.
fn drops(lane: &Lane) -> [u64; 5] {
    ["earlydrop", "penaltydrop", "bucketdrop", "queuedrop", "childdrop"].map(|key| lane.counter(key))
}

#[test]
fn a_flow_fills_its_bins_and_another_one_has_its_own() {
    let mut lane = Lane::new("sfb", "max 5 target 9");
    assert_eq!(offer(&mut lane, at(0), 8, meta(1)), 5);
    assert_eq!(offer(&mut lane, at(0), 2, meta(2)), 2);
    assert_eq!((drops(&lane), lane.counter("maxqlen")), ([0, 0, 3, 0, 0], 5));
    assert_eq!(lane.ids(at(0), 9).len(), 7);
    assert_eq!(lane.counter("maxqlen"), 0);
}

#[test]
fn bins_count_the_packets_that_wait() {
    let mut lane = Lane::new("sfb", "max 50 target 90");
    assert_eq!(offer(&mut lane, at(0), 9, meta(1)), 9);
    assert_eq!((lane.ids(at(0), 4).len(), lane.counter("maxqlen")), (4, 5));
    // One that the child refuses is not counted.
    let root = lane.path.tree().root().handle();
    lane.path
        .configure(at(0), &mut lane.dev, |tree, cx| {
            tree.edit(cx).replace(
                Handle::new(root.major(), 1),
                None,
                "pfifo",
                &mut Words::new(&["limit", "2"]),
            )
        })
        .expect("a child");
    lane.change(at(0), Handle::ROOT, "max 50 target 90").expect("new bins");
    offer(&mut lane, at(0), 7, meta(1));
    assert_eq!((drops(&lane)[4], lane.counter("maxqlen")), (5, 2));
}

#[test]
fn the_limit_is_that_of_all_flows() {
    let mut lane = Lane::new("sfb", "limit 3 max 5 target 9");
    assert_eq!(offer(&mut lane, at(0), 2, meta(1)) + offer(&mut lane, at(0), 4, meta(2)), 3);
    assert_eq!(drops(&lane), [0, 0, 0, 3, 0]);
    assert_eq!(lane.path.cx().drops(DropReason::Overlimit), 3);
}

#[test]
fn a_flow_that_does_not_slow_down_is_held_to_the_penalty_rate() {
    let options = "max 100 target 2 increment 1.0 decrement 0.0 penalty_rate 100 penalty_burst 3";
    let mut lane = Lane::new("sfb", options);
    // Two packets fill the bins to the target; then come the three tokens of the start, and the
    // three of the second that has passed since.
    assert_eq!(offer(&mut lane, at(0), 12, meta(1)), 8);
    assert_eq!(drops(&lane), [0, 4, 0, 0, 0]);
    // One each 10 ms, counted from when there were none.
    assert_eq!(offer(&mut lane, at(9), 1, meta(1)), 0);
    assert_eq!(offer(&mut lane, at(19), 3, meta(1)), 1);
    // Another flow passes.
    assert_eq!(offer(&mut lane, at(19), 1, meta(2)), 1);
    assert_eq!(lane.counter("maxprob"), u64::MAX);
}

#[test]
fn marks_below_one_half_and_drops_above() {
    let mut lane = Lane::new("sfb", "max 10000 target 1 increment 0.4 decrement 0.0");
    let ect = |m: Meta| m.ecn(txweir_core::Ecn::Ect0);
    // The first packet fills the bins, the second has a chance of 0.4, and later ones of 0.8.
    let mut marked = 0;
    for flow in 0..400 {
        offer(&mut lane, at(0), 2, ect(meta(flow * 7 + 1)));
        marked = lane.counter("marked");
        lane.ids(at(0), 9);
    }
    assert!(drops(&lane)[0] + marked > 60, "{marked}");
    assert!(marked > 0 && marked < 400, "{marked}");
}

#[test]
fn bins_forget_what_the_child_has_dropped() {
    let mut lane = Lane::new("sfb", "max 5 target 9");
    let root = lane.path.tree().root().handle();
    lane.path
        .configure(at(0), &mut lane.dev, |tree, cx| {
            tree.edit(cx).add(
                Handle::new(root.major(), 1),
                None,
                "pfifo_head_drop",
                &mut Words::new(&["limit", "2"]),
            )
        })
        .expect("a child");
    // Each packet from the third on drops the oldest one, which its bins still count.
    for id in 0..5 {
        let _ = lane.put(at(0), id, meta(1));
    }
    assert_eq!(lane.counter("childdrop"), 3);
    assert_eq!(lane.ids(at(0), 9), [3, 4]);
    assert_eq!(lane.counter("maxqlen"), 0);
}

/// The child drops the packet of the longest flow for one of another flow, which then waits, and is
/// in its bins.
#[test]
fn a_drop_of_another_flow_in_the_child_is_no_refusal() {
    let mut lane = Lane::new("sfb", "max 5 target 9");
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(at(0), class, "fq_codel", "limit 3 drop_batch 1");
    let _ = lane.put(at(0), 0, Meta::new(9000).hash(meta(1).hash));
    for id in 1..4 {
        let _ = lane.put(at(0), id, meta(2));
    }
    assert_eq!(lane.drops(), [(0, DropReason::FlowOverlimit)]);
    assert_eq!((drops(&lane)[4], lane.counter("maxqlen")), (0, 3));
    assert_eq!((lane.ids(at(0), 9), lane.counter("maxqlen")), (vec![1, 2, 3], 0));
}

#[test]
fn a_change_of_sfb_keeps_an_added_child() {
    let mut lane = Lane::new("sfb", "max 5 target 9");
    let root = lane.path.tree().root().handle();
    lane.path
        .configure(at(0), &mut lane.dev, |tree, cx| {
            tree.edit(cx).add(Handle::new(root.major(), 1), None, "pfifo", &mut Words::new(&["limit", "9"]))
        })
        .expect("a child");
    offer(&mut lane, at(0), 3, meta(1));
    lane.change(at(0), Handle::ROOT, "max 6 target 9").expect("options");
    assert_eq!(lane.backlog(), 3);
    // The bins are new: six more of the flow pass.
    assert_eq!(offer(&mut lane, at(0), 9, meta(1)), 6);
}

/// The own FIFO is new with a change, as in Linux.
#[test]
fn a_change_drops_what_waits_in_the_own_fifo() {
    let mut lane = Lane::new("sfb", "max 5 target 9");
    offer(&mut lane, at(0), 3, meta(1));
    lane.change(at(0), Handle::ROOT, "max 6 target 9").expect("options");
    assert_eq!((lane.backlog(), lane.path.cx().drops(DropReason::Purged)), (0, 3));
}

#[test]
fn a_priority_is_no_class_of_sfb() {
    let mut lane = Lane::new("sfb", "max 5 target 9");
    let root = lane.path.tree().root().handle();
    // Two flows whose priority names one class have bins of their own.
    let named = |flow| meta(flow).priority(Handle::new(root.major(), 1).0);
    assert_eq!(offer(&mut lane, at(0), 9, named(1)), 5);
    assert_eq!(offer(&mut lane, at(0), 9, named(2)), 5);
}

#[test]
fn max_and_target_follow_from_each_other() {
    let shown = |line: &str| {
        let lane = Lane::new("sfb", line);
        let mut all = Vec::new();
        lane.path.tree().root().qdisc().options(&mut |o| {
            if ["limit", "max", "target"].contains(&o.param.key) {
                all.push(txweir_core::text::value::text_of(o.value));
            }
        });
        all.join(" ")
    };
    assert_eq!(shown(""), "1000p 25p 20p");
    assert_eq!(shown("max 10"), "1000p 10p 8p");
    assert_eq!(shown("target 100 limit 7"), "7p 125p 100p");
}
