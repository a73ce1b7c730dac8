//! fq_pie: the choice of a flow, turns, and a law for each flow. (`debts.rs`: its rounds.
//! `parity.rs`: memory, limits, resets. Against Linux 6.12: spec/traces/fq_pie.)

use crate::common::lane::Lane;
use txweir_core::packet::pool::List;
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

/// Returns a lane in which 18 packets of flow 1 wait. One has left at 2 ms and one at `at`, so that
/// no burst passes any more and the delay is `at` less 1 ms.
fn standing(options: &str, at: Instant) -> Lane {
    let mut lane = Lane::new("fq_pie", options);
    lane.fill(ms(1), 0, 20, packet(1, 1000));
    assert_eq!((lane.ids(ms(2), 1), lane.ids(at, 1)), (vec![0], vec![1]));
    lane
}

#[test]
fn a_short_wait_long_after_the_start_drops_nothing() {
    let mut lane = Lane::new("fq_pie", "");
    lane.fill(ms(10_000), 0, 4, packet(1, 1000));
    for i in 0..2000 {
        lane.fill(ms(10_001 + i), 4, 1, packet(1, 1000));
        assert!(lane.take(ms(10_001 + i)).id().is_some());
    }
    assert_eq!(lane.backlog(), 4);
}

/// The updates until a departure are those of the delay before it, also after a silence.
#[test]
fn updates_are_made_up_for_before_a_departure() {
    let mut lane = standing("alpha 32 beta 32", ms(202));
    assert_eq!(lane.ids(ms(60_000), 20).len(), 18);
    // The probability is one. Below two full frames of 1514 bytes in the flow nothing is dropped.
    lane.fill(ms(60_000), 100, 4, packet(1, 1000));
    assert_eq!(lane.put(ms(60_000), 104, packet(1, 1000)), Admitted::Dropped(DropReason::Congested));
}

/// The updates until a change are those of the old parameters; the later ones have the new pace.
#[test]
fn a_change_holds_from_now_on() {
    let mut lane = standing("alpha 0 beta 0", ms(202));
    lane.change(ms(60_000), Handle::ROOT, "alpha 32 beta 32").unwrap();
    lane.fill(ms(60_000), 100, 20, packet(1, 1000));
    assert_eq!(lane.put(ms(120_000), 120, packet(1, 1000)), Admitted::Dropped(DropReason::Congested));

    // Two updates at 1200 s would come after this time, those at 15 ms by the thousand.
    let mut lane = Lane::new("fq_pie", "alpha 32 beta 32 tupdate 1200s");
    lane.change(T0, Handle::ROOT, "tupdate 15ms").unwrap();
    lane.fill(ms(1), 0, 20, packet(1, 1000));
    assert_eq!([ms(2), ms(202)].map(|now| lane.ids(now, 1).len()), [1, 1]);
    assert_eq!(lane.put(ms(60_000), 20, packet(1, 1000)), Admitted::Dropped(DropReason::Congested));

    let mut lane = Lane::new("fq_pie", "quantum 1000");
    lane.fill(T0, 0, 4, packet(1, 1000));
    lane.fill(T0, 10, 4, packet(2, 1000));
    lane.change(T0, Handle::ROOT, "quantum 2000").unwrap();
    assert_eq!(lane.ids(T0, 7), [0, 10, 1, 2, 11, 12, 3]);

    let (mut lane, _) = overloaded("", Ecn::Ect0);
    lane.change(ms(5000), Handle::ROOT, "ecn ecn_prob 99").unwrap();
    for i in 0..100 {
        let _ = lane.put(ms(5000), 20_000 + i, packet(1, 1000).ecn(Ecn::Ect0));
    }
    assert!(lane.counter("ecn_mark") > 0);
}

/// While packets wait for more than 250 ms each update adds two percent to the probability: it is
/// one after fifty updates.
#[test]
fn more_batches_of_flows_are_updated_less_often() {
    // Each 16 ms, or each 47 ms with 31 batches beyond the first.
    for (flows, passes) in [(2048, false), (65_536, true)] {
        let mut lane = standing(&format!("alpha 0 beta 0 flows {flows}"), ms(402));
        let answer = lane.put(ms(1500), 100, packet(1, 1000));
        assert_eq!(answer == Admitted::Queued, passes, "{flows}: {answer:?}");
    }
}

/// The updates begin when the qdisc does.
#[test]
fn the_first_update_comes_a_time_after_the_start() {
    let first_dropped = |start: u64| {
        let mut lane = Lane::new("pfifo", "");
        lane.graft(ms(start), Handle::ROOT, "fq_pie", "alpha 32 beta 32 tupdate 1200s");
        lane.fill(ms(start + 1), 0, 20, packet(1, 1000));
        assert_eq!(lane.ids(ms(start + 300), 2).len(), 2);
        assert!(lane.take(ms(start + 1_210_000)).id().is_some());
        (1_212_410..1_212_430).find(|t| lane.put(ms(start + *t), 100, packet(1, 1000)) != Admitted::Queued)
    };
    // The second update lies at a border of 32 768 ms.
    assert_eq!([0, 32_768 * 10].map(first_dropped), [Some(1_212_416); 2]);
}

/// A drop at the limit counts as one of the law: the sum of probabilities begins anew, and stays
/// below the 85 percent from which on the law drops.
#[test]
fn a_drop_at_the_limit_is_one_of_the_law() {
    let mut lane = standing("limit 20 alpha 0 beta 0 tupdate 1s", ms(402));
    let now = ms(13_500);
    for i in 0..100 {
        let answers = [0, 1, 2].map(|_| lane.put(now, 100 + i, packet(1, 1000)));
        assert_eq!(
            answers,
            [Admitted::Queued, Admitted::Queued, Admitted::Dropped(DropReason::Overlimit)],
            "{i}"
        );
        assert_eq!(lane.ids(now, 2).len(), 2);
    }
    // Without those at the limit the law drops.
    let dropped = (0..100).filter(|_| {
        let answer = lane.put(now, 300, packet(1, 1000));
        let _ = lane.take(now);
        answer == Admitted::Dropped(DropReason::Congested)
    });
    assert!(dropped.count() > 5);
}

#[test]
fn a_packet_that_leaves_takes_no_memory() {
    let mut lane = Lane::new("fq_pie", "");
    lane.fill(T0, 0, 20, Meta::new(36));
    assert_eq!((lane.ids(T0, 5).len(), lane.counter("memory_used")), (5, 1500));
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

/// Packets that are taken out of the tree count for the law of their flow no longer.
#[test]
fn a_flow_whose_packets_were_taken_out_is_short() {
    let mut lane = standing("alpha 32 beta 32", ms(202));
    // The probability is one from here on.
    assert_eq!(lane.put(ms(60_000), 100, packet(1, 1000)), Admitted::Dropped(DropReason::Congested));
    lane.path.configure(ms(60_000), &mut lane.dev, |tree, cx| {
        let mut taken = List::new();
        tree.evict_all(&mut taken, cx);
        while let Some(p) = taken.pop_front(&cx.pool) {
            cx.drop(p, DropReason::Purged);
        }
    });
    lane.fill(ms(60_000), 200, 4, packet(1, 1000));
}
