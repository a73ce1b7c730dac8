//! fq_pie: the choice of a flow, turns, and a law for each flow. (`debts.rs`: its rounds.
//! `parity.rs`: memory, limits, resets. Against Linux 6.12: spec/traces/fq_pie.)

use crate::common::lane::Lane;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, DropReason, Ecn, Env, Handle, Instant, MarkReason, Meta, Nanos, qdisc::kind};

const T0: Instant = Instant::ZERO;

const fn ms(n: u64) -> Instant {
    Instant(n * 1_000_000)
}

/// Returns a packet of flow `f` of 1024, by its hash.
fn packet(f: u32, len: u32) -> Meta {
    Meta::new(len).hash(f << 22)
}

/// Offers twice what leaves in one flow and a packet each 40 ms in another, for five seconds, with
/// a departure each 10 ms. Returns the lane, and the packets of the second flow that were dropped.
fn overloaded(options: &str, ecn: Ecn) -> (Lane, usize) {
    let mut lane = Lane::new("fq_pie", options);
    let mut now = T0;
    for i in 0..1000 {
        let _ = lane.put(now, i, packet(1, 1000).ecn(ecn));
        if i % 8 == 0 {
            let _ = lane.put(now, 10_000 + i, packet(2, 200).ecn(ecn));
        }
        now += Nanos::from_millis(5);
        if i % 2 == 0 {
            let _ = lane.take(now);
        }
    }
    let lost = lane.drops().iter().filter(|(id, _)| *id >= 10_000).count();
    (lane, lost)
}

#[test]
fn a_flow_is_under_its_own_law() {
    let (mut lane, lost) = overloaded("", Ecn::NotEct);
    let law = lane.path.cx().drops(DropReason::Congested);
    assert!(law > 200 && lost == 0, "{law} drops, {lost} of the sparse flow");
    let counters = ["dropped", "pkts_in", "overlimit", "ecn_mark"].map(|key| lane.counter(key));
    assert_eq!(counters, [law, 1125 - law, 0, 0]);
    // The queue of the first flow is short of what would stand there without a law.
    assert!(lane.backlog() < 200, "{}", lane.backlog());
    // A long calm forgets the congestion.
    while lane.take(ms(6000)).id().is_some() {}
    lane.fill(ms(66_000), 5000, 200, packet(1, 1000));
    assert_eq!(lane.backlog(), 200);
}

#[test]
fn marks_do_instead_of_drops_up_to_their_probability() {
    let marks = |options: &str| {
        let (lane, _) = overloaded(options, Ecn::Ect0);
        let cx = lane.path.cx();
        assert_eq!(lane.counter("ecn_mark"), cx.marks(MarkReason::Congested));
        (cx.marks(MarkReason::Congested), cx.drops(DropReason::Congested))
    };
    assert_eq!(marks("").0, 0);
    let (at_ten, at_most) = (marks("ecn"), marks("ecn ecn_prob 99"));
    assert!(at_ten.0 > 0 && at_ten.1 > 50, "{at_ten:?}: beyond ten percent packets are dropped");
    // No sender slows down, so that the probability passes 99 percent in the end.
    assert!(at_most.0 > 40 * at_ten.0 && at_most.1 < at_ten.1, "{at_most:?}, {at_ten:?}");
    // A probability of zero marks nothing.
    assert_eq!(marks("ecn ecn_prob 0").0, 0);
}

/// Laws of flows beyond the first 2048 are updated a tick later, also after a silence: a flow in
/// the second batch still passes what a flow in the first one drops.
#[test]
fn the_law_of_a_later_flow_is_updated_a_tick_later() {
    // One update, at 1 212 416 ms and a tick later, after a delay of twenty minutes: all is
    // dropped.
    let first_dropped = |class: u16| {
        let mut lane = Lane::new("fq_pie", "flows 4096 alpha 32 beta 32 tupdate 1200s");
        let named = Meta::new(1000).priority(Handle::new(0x8001, class).0);
        lane.fill(ms(1), 0, 20, named);
        assert_eq!(lane.ids(ms(300), 2).len(), 2);
        assert!(lane.take(ms(1_210_000)).id().is_some());
        (1_212_410..1_212_430).find(|t| lane.put(ms(*t), 100, named) != Admitted::Queued)
    };
    assert_eq!([1, 2048].map(first_dropped), [Some(1_212_416); 2]);
    assert_eq!([2049, 4096].map(first_dropped), [Some(1_212_417); 2]);
}

#[test]
fn turns_are_by_bytes_and_a_new_flow_is_first() {
    let mut lane = Lane::new("fq_pie", "quantum 1000");
    lane.fill(T0, 0, 4, packet(1, 1000));
    lane.fill(T0, 10, 8, packet(2, 500));
    assert_eq!(lane.ids(T0, 6), [0, 10, 11, 1, 12, 13]);
    lane.fill(T0, 20, 1, packet(3, 100));
    assert_eq!(lane.ids(T0, 4), [20, 2, 14, 15]);
    assert_eq!([lane.counter("new_flow_count"), lane.counter("pkts_in")], [3, 13]);
}

#[test]
fn the_limit_counts_apart_and_the_oldest_turn_goes_when_it_shrinks() {
    let mut lane = Lane::new("fq_pie", "limit 3");
    for id in 0..5 {
        let answer = lane.put(ms(1), id, packet(id, 1000));
        assert_eq!(answer, if id < 3 { Admitted::Queued } else { Admitted::Dropped(DropReason::Overlimit) });
    }
    let counters = ["pkts_in", "overlimit", "dropped"].map(|key| lane.counter(key));
    assert_eq!(counters, [3, 2, 2]);
    lane.change(ms(2), Handle::ROOT, "limit 1").unwrap();
    assert_eq!(lane.drops()[2..], [0, 1].map(|id| (id, DropReason::Purged)));
    assert_eq!(lane.ids(ms(3), 3), [2]);
}

#[test]
fn ranges_and_what_is_rounded_into_them() {
    let built = |options: &[&str]| kind("fq_pie").unwrap().build(&mut Words::new(options), &Env::default());
    for (options, said) in [
        (["quantum", "0"], "fq_pie quantum: expected 1 to 1048576 bytes, given \"0\""),
        (["quantum", "1048577"], "fq_pie quantum: expected 1 to 1048576 bytes, given \"1048577\""),
        (["flows", "0"], "fq_pie flows: expected 1 to 65536, given \"0\""),
        (["ecn_prob", "100"], "fq_pie ecn_prob: expected 0 to 99, given \"100\""),
        (["tupdate", "0"], "fq_pie tupdate: expected 1us to 4294s, given \"0\""),
    ] {
        assert_eq!(built(&options).err().map(|e| e.to_string()).as_deref(), Some(said));
    }
    let lane = Lane::new("fq_pie", "quantum 1 tupdate 1500us");
    let mut shown = String::new();
    lane.root().qdisc().options(&mut |o| {
        if ["tupdate", "quantum"].contains(&o.param.key) {
            shown += &(txweir_core::text::value::exact_of(o.value) + " ");
        }
    });
    assert_eq!(shown, "2000000ns 256b ");
}
