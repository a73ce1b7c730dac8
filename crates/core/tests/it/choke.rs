//! choke: a packet is compared with one drawn from the queue. (`law::red` tests the law, and
//! `red.rs` its parameters. Against Linux 6.12: spec/traces/choke.)

use crate::common::lane::Lane;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, DropReason, Ecn, Env, Handle, Instant, Meta, Nanos, qdisc::kind};

const T0: Instant = Instant::ZERO;
/// An average that follows the queue within a few packets, and is above 4 or not.
const SHORT: &str = "limit 100 bandwidth 10mbit min 4 max 5 burst 5";

fn packet(flow: u32) -> Meta {
    of(0x0800, flow)
}

fn of(protocol: u16, flow: u32) -> Meta {
    let mut m = Meta::new(1000).hash(flow);
    m.protocol = protocol;
    m
}

fn counters(lane: &Lane) -> [u64; 5] {
    ["marked", "early", "pdrop", "other", "matched"].map(|key| lane.counter(key))
}

#[test]
fn a_packet_of_the_only_flow_takes_a_waiting_one_with_it() {
    let mut lane = Lane::new("choke", SHORT);
    let answers: Vec<_> = (0..12).map(|id| lane.put(T0, id, packet(1))).collect();
    let matched = answers.iter().filter(|a| **a == Admitted::Dropped(DropReason::Matched)).count() as u64;
    assert!(matched >= 2, "{answers:?}");
    assert_eq!(counters(&lane), [0, 0, 0, 0, matched]);
    assert_eq!(lane.backlog(), 12 - 2 * matched);
    assert_eq!(lane.path.cx().drops(DropReason::Matched), 2 * matched);
    // The others leave in order.
    let left = lane.ids(T0, 20);
    assert!(left.is_sorted() && left.len() as u64 == 12 - 2 * matched, "{left:?}");
}

#[test]
fn other_flows_and_other_protocols_are_not_compared_as_one() {
    // A certain mark above max; no packet is of the flow of another.
    let mut lane = Lane::new("choke", SHORT);
    (0..30).for_each(|id| drop(lane.put(T0, id, packet(id << 8))));
    let [marked, early, pdrop, _, matched] = counters(&lane);
    assert!(early > 10 && (marked, pdrop, matched) == (0, 0, 0), "{early}");
    let mut lane = Lane::new("choke", SHORT);
    (0..8).for_each(|id| drop(lane.put(T0, id, packet(1))));
    let before = lane.counter("matched");
    (8..20).for_each(|id| drop(lane.put(T0, id, of(0x86dd, 1))));
    assert_eq!(lane.counter("matched"), before);
}

/// The share of a flow that sends nine in ten packets comes down, and that of the others does not.
#[test]
fn a_flow_is_hit_by_its_share_of_the_queue() {
    let mut lane = Lane::new("choke", "limit 1000 bandwidth 10mbit min 20 max 400 burst 60");
    let mut now = T0;
    let mut sent = [0u32; 2];
    for i in 0..20_000 {
        let meek = i % 10 == 0;
        let flow = if meek { 1000 + i } else { 7 };
        let _ = lane.put(now, u32::from(meek), packet(flow));
        now += Nanos::from_micros(500);
        if i % 2 == 0
            && let Some(id) = lane.take(now).id()
        {
            sent[id as usize] += 1;
        }
    }
    let meek = f64::from(sent[1]) / 2000.0;
    let greedy = f64::from(sent[0]) / 18_000.0;
    assert!(meek > 0.9 && greedy < 0.5, "{meek} of the meek left, {greedy} of the greedy");
}

#[test]
fn marks_do_instead_of_the_drops_of_the_law_only() {
    let mut lane = Lane::new("choke", &format!("{SHORT} ecn"));
    (0..30).for_each(|id| drop(lane.put(T0, id, packet(id << 8).ecn(Ecn::Ect0))));
    let [marked, early, .., matched] = counters(&lane);
    assert!(marked > 10 && (early, matched) == (0, 0), "{marked}");
    (30..40).for_each(|id| drop(lane.put(T0, id, packet(0).ecn(Ecn::Ect0))));
    assert!(lane.root().books().overlimits > marked);
    let mut lane = Lane::new("choke", SHORT);
    (0..30).for_each(|id| drop(lane.put(T0, id, packet(id << 8).ecn(Ecn::Ect0))));
    let [marked, early, .., matched] = counters(&lane);
    assert!(early > 10 && (marked, matched) == (0, 0), "without ecn the law drops: {early}");
}

#[test]
fn the_limit_counts_apart() {
    let mut lane = Lane::new("choke", "limit 12 bandwidth 10mbit min 8 max 9 burst 2000");
    lane.fill(T0, 0, 12, packet(1));
    assert_eq!(lane.put(T0, 12, packet(1)), Admitted::Dropped(DropReason::Overlimit));
    assert_eq!(counters(&lane), [0, 0, 1, 0, 0]);
}

/// choke-shrink
#[test]
fn a_smaller_limit_of_choke_drops_the_newest() {
    let mut lane = Lane::new("choke", "limit 100 bandwidth 10mbit min 8 max 9 burst 2000");
    lane.fill(T0, 0, 20, packet(1));
    lane.change(T0, Handle::ROOT, "limit 15 bandwidth 10mbit min 8 max 9 burst 2000").unwrap();
    assert_eq!(lane.drops(), [19, 18, 17, 16, 15].map(|id| (id, DropReason::Purged)));
    assert_eq!(lane.put(T0, 20, packet(1)), Admitted::Dropped(DropReason::Overlimit));
    lane.change(T0, Handle::ROOT, "limit 200 bandwidth 10mbit min 8 max 9 burst 2000").unwrap();
    lane.fill(T0, 30, 10, packet(1));
    let all: Vec<u32> = (0..15).chain(30..40).collect();
    assert_eq!(lane.ids(T0, 40), all);
}

/// choke-room: holes in the ring never make a packet vanish.
#[test]
fn holes_take_places_and_lose_nothing() {
    for limit in [7, 8, 12] {
        let options = format!("limit {limit} bandwidth 10mbit min 1 max 6 burst 1");
        let mut lane = Lane::new("choke", &options);
        let (mut queued, mut left) = (0, 0);
        for i in 0..5000u32 {
            let before = lane.backlog();
            let _ = lane.put(Instant(u64::from(i) * 1000), i, packet(i % 3));
            queued += u64::from(lane.backlog() > before);
            assert!(lane.backlog() <= limit);
            if i % 4 == 0 {
                left += u64::from(lane.take(Instant(u64::from(i) * 1000 + 1)).id().is_some());
            }
        }
        let dropped = lane.path.cx().dropped().packets;
        assert_eq!(5000, left + dropped + lane.backlog());
        assert!(queued > 100 && lane.counter("matched") > 100, "{queued}");
    }
}

/// choke-probability
#[test]
fn what_choke_refuses() {
    let built = |options: &str| {
        let words: Vec<&str> = options.split_whitespace().collect();
        kind("choke").unwrap().build(&mut Words::new(&words), &Env::default()).err().map(|e| e.to_string())
    };
    let base = |more: &str| format!("limit 100 bandwidth 10mbit {more}");
    for (options, said) in [
        ("limit 5".into(), "choke bandwidth: expected a rate, that of the link, given nothing"),
        (
            "bandwidth 1mbit".into(),
            "choke limit: expected a number of packets, the most that wait, given nothing",
        ),
        ("limit 131072".into(), "choke limit: expected at most 131071 packets, given \"131072\""),
        (base("min 30 max 20"), "choke min: expected less than max, given \"30p\""),
        (base("max 101"), "choke max: expected at most limit, given \"101p\""),
        (base("burst 1"), "choke burst: expected a burst of at least 9 packets, given \"1\""),
        (base("probability 0"), "choke probability: expected a probability above 0, given \"0\""),
        (
            base("probability 0.000001"),
            "choke probability: expected a probability above 0, given \"0.000001\"",
        ),
        (base("probability 1.5"), "choke probability: expected at most 1, given \"1.5\""),
    ] {
        assert_eq!(built(&options).as_deref(), Some(said));
    }
    assert_eq!(built(&base("probability 1")), None);
}
