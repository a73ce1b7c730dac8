//! fq: launch times and rates to the nanosecond, turns, bands, the fast path, limits, and flows
//! that are forgotten.

use std::collections::BTreeMap;

use crate::common::lane::{Lane, Out};
use proptest::prelude::*;
use txweir_core::text::value::Words;
use txweir_core::{DropReason, Ecn, Env, Handle, Instant, MarkReason, Meta, Nanos, WakeReason};

const MS: u64 = 1_000_000;

fn ms(n: u64) -> Instant {
    Instant(n * MS)
}

fn flow(hash: u32) -> Meta {
    Meta::new(1000).hash(hash)
}

/// Offers a packet; its fate shows in the departures, the drops or the counters.
fn put(lane: &mut Lane, now: Instant, id: u32, m: Meta) {
    let _ = lane.put(now, id, m);
}

/// Takes all packets from `now` on, following the wakes. Returns packets with their times.
fn run(lane: &mut Lane, mut now: Instant) -> Vec<(u32, u64)> {
    let mut sent = Vec::new();
    loop {
        match lane.take(now) {
            Out::Sent(id, _) => sent.push((id, now.0)),
            Out::Wait(t) => {
                assert!(t > now, "{t} at {now}");
                assert_eq!(lane.take(Instant(t.0 - 1)), Out::Wait(t), "nothing before its time");
                now = t;
            }
            Out::Nothing => return sent,
        }
    }
}

#[test]
fn a_launch_time_is_kept_to_the_nanosecond() {
    let mut lane = Lane::new("fq", "");
    for (id, hash, at) in [(0, 1, 5_000_001), (1, 2, 5_000_000), (2, 1, 7_000_000), (3, 3, 4_999_999)] {
        put(&mut lane, Instant(1), id, flow(hash).txtime(Instant(at)));
    }
    assert_eq!(run(&mut lane, Instant(1)), [(3, 4_999_999), (1, 5_000_000), (0, 5_000_001), (2, 7_000_000)]);
    let wake = {
        put(&mut lane, Instant(8_000_000), 4, flow(1).txtime(Instant(9_000_000)));
        lane.path.drain(Instant(8_000_000), 1, &mut lane.dev)
    };
    assert_eq!(wake, txweir_core::Wake::At(Instant(9_000_000), WakeReason::LaunchTime));
}

#[test]
fn launch_times_of_a_flow_are_put_in_order_and_equal_ones_stay_so() {
    let mut lane = Lane::new("fq", "");
    for (id, at) in [(0, 20), (1, 40), (2, 10), (3, 20), (4, 30), (5, 10), (6, 40)] {
        put(&mut lane, Instant(1), id, flow(1).txtime(ms(at)));
    }
    // The flow waits for the time that it had when it began to wait; a packet that came for an
    // earlier time leaves then.
    let at = |id, t| (id, t * MS);
    assert_eq!(
        run(&mut lane, Instant(1)),
        [at(2, 10), at(5, 10), at(0, 20), at(3, 20), at(4, 30), at(1, 40), at(6, 40)]
    );
}

#[test]
fn a_flow_that_waits_is_not_woken_for_an_earlier_launch_time() {
    let mut lane = Lane::new("fq", "");
    put(&mut lane, ms(1), 0, flow(1).txtime(ms(10)));
    assert_eq!(lane.take(ms(1)), Out::Wait(ms(10)));
    put(&mut lane, ms(2), 1, flow(1).txtime(ms(5)));
    assert_eq!(lane.take(ms(2)), Out::Wait(ms(10)));
    assert_eq!(run(&mut lane, ms(2)), [(1, 10 * MS), (0, 10 * MS)]);
}

#[test]
fn pacing_is_exact_to_the_nanosecond() {
    // 3000 bytes of a new flow at once, then a quantum of 1000 bytes a millisecond.
    let mut lane = Lane::new("fq", "maxrate 8mbit quantum 1000 initial_quantum 3000");
    lane.fill(ms(1), 0, 7, flow(1));
    let at = [1, 1, 1, 2, 3, 4, 5].map(|t| t * MS);
    assert_eq!(run(&mut lane, ms(1)), (0..7).zip(at).collect::<Vec<_>>());

    // At 7 bytes a microsecond and whole nanoseconds: each delay is rounded down.
    let mut lane = Lane::new("fq", "maxrate 7000000bps quantum 1000 initial_quantum 1000");
    lane.fill(ms(1), 0, 4, flow(1));
    assert_eq!(run(&mut lane, ms(1)), [(0, 1_000_000), (1, 1_142_857), (2, 1_285_714), (3, 1_428_571)]);

    // A quantum larger than the packets is spent at once and paid for at once.
    let mut lane = Lane::new("fq", "maxrate 8mbit quantum 3000 initial_quantum 1000");
    lane.fill(ms(1), 0, 8, flow(1));
    let at = [1, 4, 4, 4, 7, 7, 7, 10].map(|t| t * MS);
    assert_eq!(run(&mut lane, ms(1)), (0..8).zip(at).collect::<Vec<_>>());
}

/// For comparison with Linux the caller is asked at the end of the slack. A call before it releases
/// what is due.
#[test]
fn a_timer_has_slack_where_linux_is_followed() {
    let linux = |options| Lane::on(Env { strict_linux: true, ..Env::default() }, "fq", options);
    for (options, slack) in [("", 10_000), ("timer_slack 300", 300), ("timer_slack 0", 0)] {
        let mut lane = linux(options);
        put(&mut lane, ms(1), 0, flow(1).txtime(ms(5)));
        assert_eq!(lane.take(ms(1)), Out::Wait(Instant(5 * MS + slack)), "{options}");
        assert!(matches!(lane.take(ms(5)), Out::Sent(0, _)), "{options}");
    }
}

#[test]
fn up_to_the_low_rate_each_packet_is_spaced_and_by_a_second_at_most() {
    let mut lane = Lane::new("fq", "maxrate 8kbit");
    for (id, len) in [(0, 500), (1, 2000), (2, 100), (3, 100)] {
        put(&mut lane, ms(1), id, Meta::new(len).hash(1));
    }
    assert_eq!(run(&mut lane, ms(1)), [(0, MS), (1, 501 * MS), (2, 1_501 * MS), (3, 1_601 * MS)]);
    assert_eq!(lane.counter("pkts_too_long"), 1);
}

#[test]
fn lateness_is_made_up_for_within_half_a_delay() {
    let mut lane = Lane::new("fq", "maxrate 8mbit quantum 1000 initial_quantum 1000");
    lane.fill(ms(1), 0, 4, flow(1));
    assert_eq!(lane.ids(ms(1), 2), [0]);
    // 0.2 ms late: the next comes 0.8 ms later. 5 ms late: half a millisecond later.
    assert_eq!(lane.take(Instant(2_200_000)).id(), Some(1));
    assert_eq!(lane.take(Instant(2_200_000)), Out::Wait(ms(3)));
    assert_eq!(lane.take(ms(8)).id(), Some(2));
    assert_eq!(lane.take(ms(8)), Out::Wait(Instant(8_500_000)));
}

#[test]
fn latency_is_how_late_the_caller_was() {
    let mut lane = Lane::new("fq", "");
    put(&mut lane, ms(1), 0, flow(1).txtime(ms(2)));
    assert_eq!(lane.take(ms(1)), Out::Wait(ms(2)));
    assert_eq!(lane.take(Instant(2_008_000)).id(), Some(0));
    // An eighth of 8 us.
    assert_eq!(lane.counter("latency"), 1_000);
}

#[test]
fn a_launch_time_and_a_rate_hold_both() {
    let mut lane = Lane::new("fq", "maxrate 8mbit");
    for id in 0..3 {
        put(&mut lane, ms(1), id, flow(1).txtime(ms(5)));
    }
    // A packet with a launch time is spaced by its own length, independent of the credit.
    assert_eq!(run(&mut lane, ms(1)), [(0, 5 * MS), (1, 6 * MS), (2, 7 * MS)]);
}

#[test]
fn without_pacing_a_rate_spaces_nothing_and_closes_the_fast_path() {
    let mut lane = Lane::new("fq", "maxrate 8kbit nopacing");
    lane.fill(ms(1), 0, 5, flow(1));
    assert_eq!(run(&mut lane, ms(1)), [0, 1, 2, 3, 4].map(|id| (id, MS)));
    assert_eq!((lane.counter("fastpath"), lane.counter("flows")), (0, 1));
}

#[test]
fn beyond_the_horizon_packets_are_dropped_or_brought_to_it() {
    let mut lane = Lane::new("fq", "horizon 10ms");
    put(&mut lane, ms(1), 0, flow(1).txtime(ms(11)));
    put(&mut lane, ms(1), 1, flow(1).txtime(ms(11) + Nanos(1)));
    assert_eq!(lane.drops(), [(1, DropReason::Horizon)]);
    assert_eq!((lane.counter("horizon_drops"), run(&mut lane, ms(1))), (1, vec![(0, 11 * MS)]));

    let mut lane = Lane::new("fq", "horizon 10ms horizon_cap");
    for (id, at) in [(0, 30), (1, 11), (2, 5), (3, 12)] {
        put(&mut lane, ms(1), id, flow(id).txtime(ms(at)));
    }
    assert_eq!(run(&mut lane, ms(1)), [(2, 5 * MS), (0, 11 * MS), (1, 11 * MS), (3, 11 * MS)]);
    assert_eq!(lane.counter("horizon_caps"), 2);
}

#[test]
fn an_offload_horizon_lets_packets_go_before_their_time() {
    let mut lane = Lane::new("fq", "offload_horizon 2ms");
    put(&mut lane, ms(1), 0, flow(1).txtime(ms(3)));
    put(&mut lane, ms(1), 1, flow(2).txtime(ms(3) + Nanos(1)));
    assert_eq!(lane.counter("fastpath"), 1);
    assert_eq!(run(&mut lane, ms(1)), [(0, MS), (1, MS + 1)]);
    let refused = lane.change(ms(5), Handle::ROOT, "horizon 1ms").unwrap_err().to_string();
    assert_eq!(refused, "fq offload_horizon: expected at most horizon, 1ms, given \"2ms\"");
}

#[test]
fn the_fast_path_is_in_order_and_goes_before_the_flows() {
    let mut lane = Lane::new("fq", "");
    put(&mut lane, ms(1), 0, flow(9).txtime(ms(3)));
    assert_eq!(lane.take(ms(1)), Out::Wait(ms(3)));
    // No packet could leave: eight of any flow pass; those behind take turns.
    lane.fill(ms(2), 1, 8, flow(1));
    put(&mut lane, ms(2), 9, flow(2));
    put(&mut lane, ms(2), 10, flow(3));
    assert_eq!((lane.counter("fastpath"), lane.counter("flows")), (8, 3));
    assert_eq!(run(&mut lane, ms(2))[..10], core::array::from_fn::<_, 10, _>(|i| (i as u32 + 1, 2 * MS)));
    // A flow is due: no packet passes it.
    put(&mut lane, ms(4), 11, flow(9).txtime(ms(5)));
    assert_eq!(lane.take(ms(4)), Out::Wait(ms(5)));
    put(&mut lane, ms(5), 12, flow(4));
    assert_eq!(lane.counter("fastpath"), 8);
}

#[test]
fn nothing_overtakes_its_flow_when_a_rate_is_taken_away() {
    let mut lane = Lane::new("fq", "maxrate 8kbit");
    lane.fill(ms(1), 0, 3, flow(1));
    assert_eq!(lane.ids(ms(1), 3), [0]);
    lane.change(ms(2), Handle::ROOT, "maxrate 4294967295bps").unwrap();
    put(&mut lane, ms(3), 3, flow(1));
    put(&mut lane, ms(3), 4, flow(2));
    assert_eq!(lane.counter("fastpath"), 1);
    let left: Vec<u32> = run(&mut lane, ms(3)).into_iter().map(|(id, _)| id).collect();
    assert_eq!(left, [4, 1, 2, 3]);
}

#[test]
fn flows_are_told_apart_by_the_masked_hash() {
    let flows = |options: &str, hashes: &[u32]| {
        let mut lane = Lane::new("fq", &format!("maxrate 1gbit {options}"));
        for (id, hash) in (0..).zip(hashes) {
            put(&mut lane, ms(1), id, flow(*hash));
        }
        lane.counter("flows")
    };
    assert_eq!(flows("", &[1, 1025, 2, 2049]), 2);
    assert_eq!(flows("orphan_mask 0xfff", &[1, 1025, 2, 2049]), 4);
    assert_eq!(flows("orphan_mask 0", &[1, 1025, 2, 2049]), 1);
    assert_eq!(flows("orphan_mask 0xf0f", &[0x10, 0x1f, 0x101, 0xff1]), 4);
    // More than 20 bits are hashed into 2^20 flows.
    let many: Vec<u32> = (0..1000).map(|n| n * 0x10_0001).collect();
    let known = flows("orphan_mask 4294967295", &many);
    assert!((990..=1000).contains(&known), "{known}");
}

#[test]
fn flows_of_a_band_take_turns_by_quantum() {
    let mut lane = Lane::new("fq", "nopacing maxrate 1gbit quantum 2000 initial_quantum 2000");
    for f in 1..=3 {
        lane.fill(ms(1), f * 10, 6, flow(f));
    }
    assert_eq!(lane.ids(ms(1), 18), [10, 11, 20, 21, 30, 31, 12, 13, 22, 23, 32, 33, 14, 15, 24, 25, 34, 35]);
}

#[test]
fn bands_share_by_their_weights() {
    for (weights, shares) in [("", [9, 3, 1]), ("weights 49152 32768 16384", [3, 2, 1])] {
        let options = format!("nopacing maxrate 10gbit flow_limit 10000 {weights}");
        let mut lane = Lane::new("fq", &options);
        // Each flow has shown its band, so that no flow is new any more.
        let priorities = [6, 0, 2];
        for (band, priority) in (0..).zip(priorities) {
            put(&mut lane, ms(1), band, flow(band).priority(priority));
        }
        assert_eq!(lane.ids(ms(1), 3), [0, 1, 2]);
        for (band, priority) in (0..).zip(priorities) {
            lane.fill(ms(2), (band + 1) * 10_000, 8_000, flow(band).priority(priority));
        }
        let rounds = 4;
        let turn = if weights.is_empty() { 65_536 } else { 16_384 };
        let total: u32 = shares.iter().sum::<u32>() * rounds * turn / 1000;
        let mut sent = [0u32; 3];
        for id in lane.ids(ms(2), total as usize) {
            sent[(id / 10_000) as usize - 1] += 1;
        }
        for (band, share) in shares.iter().enumerate() {
            let expected = share * rounds * turn / 1000;
            assert!(
                sent[band].abs_diff(expected) <= turn / 1000 + rounds,
                "{weights}: {sent:?} at {band}: {expected}"
            );
        }
    }
}

#[test]
fn a_new_flow_begins_in_the_first_band_and_then_goes_to_its_own() {
    let mut lane = Lane::new("fq", "nopacing maxrate 1gbit quantum 1000 initial_quantum 1000");
    for (f, priority) in [(1, 0), (2, 2), (3, 6)] {
        lane.fill(ms(1), f * 10, 4, flow(f).priority(priority));
    }
    // As in the reference, each flow sends its initial quantum in band 0.
    assert_eq!(lane.ids(ms(1), 12), [10, 20, 30, 31, 32, 33, 11, 12, 13, 21, 22, 23]);
}

#[test]
fn each_band_and_each_flow_has_its_limit() {
    let mut lane = Lane::new("fq", "maxrate 1gbit limit 4 flow_limit 3");
    for id in 0..4 {
        put(&mut lane, ms(1), id, flow(1));
    }
    assert_eq!(lane.drops(), [(3, DropReason::FlowLimit)]);
    for id in 4..6 {
        put(&mut lane, ms(1), id, flow(2));
    }
    assert_eq!(lane.drops(), [(5, DropReason::Overlimit)]);
    put(&mut lane, ms(1), 6, flow(2).priority(6));
    assert_eq!(lane.drops(), []);
    let counters = ["flows_plimit", "band0_drops", "band1_drops", "band0_pkts", "band1_pkts", "band2_pkts"];
    assert_eq!(counters.map(|c| lane.counter(c)), [1, 0, 1, 1, 4, 0]);
}

#[test]
fn a_sender_that_can_wait_is_told_so() {
    use txweir_core::model::testing::VecDevice;
    use txweir_core::{Admitted, PathConfig, Role, TxPath};
    let config = PathConfig { role: Role::Origin, bql: None, ..PathConfig::default() };
    let words = ["maxrate", "8mbit", "limit", "6", "flow_limit", "2"];
    let mut path = TxPath::new(config).unwrap().with_qdisc("fq", &words).unwrap();
    let mut dev = VecDevice::with_slots(0);
    let mut offer = |id, hash| path.submit(ms(1), id, flow(hash), &mut dev);
    assert_eq!(
        [offer(0, 1), offer(1, 1), offer(2, 1)],
        [Admitted::Queued, Admitted::Queued, Admitted::Full(2)]
    );
    // A flow with a packet may have a quarter of the three free places.
    assert_eq!([offer(3, 2), offer(4, 2)], [Admitted::Queued, Admitted::Full(4)]);
    assert_eq!(
        [offer(5, 3), offer(6, 4), offer(7, 5)],
        [Admitted::Queued, Admitted::Queued, Admitted::Queued]
    );
    assert_eq!(offer(8, 6), Admitted::Full(8));
}

#[test]
fn a_flow_that_was_idle_has_its_quantum_again() {
    let burst = |idle: u64| {
        let mut lane = Lane::new("fq", "maxrate 8mbit quantum 3000 initial_quantum 1000 refill_delay 40ms");
        put(&mut lane, ms(1), 0, Meta::new(900).hash(1));
        assert_eq!(lane.take(ms(1)).id(), Some(0));
        // Another flow runs out of credit and moves to its band, where the first flow is found
        // empty: then that flow is idle.
        lane.fill(ms(10), 1, 3, Meta::new(900).hash(2));
        run(&mut lane, ms(10));
        let now = ms(10) + Nanos(idle);
        lane.fill(now, 10, 6, flow(1));
        run(&mut lane, now).iter().filter(|(_, t)| *t == now.0).count()
    };
    // 100 bytes of credit are left, which is enough for one packet. With a quantum it is enough for
    // three.
    assert_eq!((burst(40 * MS), burst(40 * MS + 1)), (1, 3));
}

#[test]
fn ce_marks_what_left_late() {
    let mut lane = Lane::new("fq", "ce_threshold 1ms maxrate 10gbit");
    for (id, ecn) in (0..).zip([Ecn::Ect0, Ecn::Ect1, Ecn::NotEct, Ecn::Ce]) {
        put(&mut lane, ms(1), id, flow(1).ecn(ecn));
    }
    put(&mut lane, ms(1), 4, flow(2).ecn(Ecn::Ect0).txtime(ms(4)));
    let ecn = |out: Out| match out {
        Out::Sent(_, m) => m.ecn,
        other => panic!("{other:?}"),
    };
    // A packet exactly at the threshold is not late yet.
    assert_eq!(ecn(lane.take(ms(2))), Ecn::Ect0);
    let late = ms(2) + Nanos(1);
    assert_eq!([lane.take(late), lane.take(late), lane.take(late)].map(ecn), [Ecn::Ce, Ecn::NotEct, Ecn::Ce]);
    // A packet is late after its launch time, not after its arrival.
    assert_eq!(ecn(lane.take(ms(5))), Ecn::Ect0);
    assert_eq!((lane.counter("ce_mark"), lane.path.cx().marks(MarkReason::CeThreshold)), (3, 2));
}

#[test]
fn idle_flows_are_forgotten_eight_at_a_time() {
    let mut lane = Lane::new("fq", "maxrate 10gbit buckets 8 quantum 1000 initial_quantum 1000");
    for f in 0..40 {
        put(&mut lane, ms(1), f, flow(f));
    }
    assert_eq!(run(&mut lane, ms(1)).len(), 40);
    // A flow that runs out of credit moves to its band, where the others are found empty.
    lane.fill(ms(10), 40, 2, flow(100));
    assert_eq!(run(&mut lane, ms(10)).len(), 2);
    assert_eq!(["flows", "inactive", "gc"].map(|c| lane.counter(c)), [41, 41, 0]);
    // The idle flows stay for three seconds, and as long as no new flow makes them too many.
    put(&mut lane, ms(3_000), 42, flow(1023));
    put(&mut lane, ms(9_000), 43, flow(100));
    assert_eq!((run(&mut lane, ms(9_000)).len(), lane.counter("flows"), lane.counter("gc")), (2, 42, 0));
    // The eight flows behind a new one are examined; the first of them was active a moment ago.
    put(&mut lane, ms(9_001), 44, flow(1022));
    assert_eq!((lane.counter("flows"), lane.counter("gc")), (36, 7));
}

/// Below a shaper that has peeked at the next packet, which counts and is the first to go.
#[test]
fn a_smaller_limit_drops_first_the_packet_that_a_peek_holds() {
    let mut lane = Lane::new("tbf", "rate 8mbit burst 1000 limit 1mb");
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(ms(0), class, "fq", "limit 5");
    for id in 0..7 {
        let _ = lane.put(ms(1), id, Meta::new(1000));
        let _ = lane.take(ms(1));
    }
    // Packet 1 is held, and 2 to 6 wait. The limit of a band does not count the held one; the limit
    // of a change does.
    assert_eq!(lane.drops(), []);
    lane.change(ms(1), class, "limit 5").unwrap();
    assert_eq!(lane.drops(), [(1, DropReason::Purged)]);
    lane.change(ms(1), class, "limit 3").unwrap();
    assert_eq!(lane.drops(), [2, 3].map(|id| (id, DropReason::Purged)));
    assert_eq!([2, 3, 4].map(|t| lane.take(ms(t)).id()), [Some(4), Some(5), Some(6)]);
}

#[test]
fn a_smaller_limit_holds_for_what_waits_for_its_time() {
    let mut lane = Lane::new("fq", "");
    for id in 0..9 {
        put(&mut lane, ms(1), id, flow(id % 3).txtime(ms(10 + u64::from(id))));
    }
    assert_eq!(lane.take(ms(1)), Out::Wait(ms(10)));
    lane.change(ms(2), Handle::ROOT, "limit 4").unwrap();
    assert_eq!((lane.backlog(), lane.drops().len()), (4, 5));
    assert_eq!(run(&mut lane, ms(2)).len(), 4);

    // A packet that could leave is dropped first, as if it left.
    let mut lane = Lane::new("fq", "maxrate 10gbit nopacing");
    put(&mut lane, ms(1), 0, flow(7).txtime(ms(10)));
    assert_eq!(lane.take(ms(1)), Out::Wait(ms(10)));
    lane.fill(ms(1), 1, 5, flow(1));
    lane.change(ms(2), Handle::ROOT, "limit 2").unwrap();
    assert_eq!(lane.drops(), [1, 2, 3, 4].map(|id| (id, DropReason::Purged)));
    assert_eq!(run(&mut lane, ms(2)), [(5, 2 * MS), (0, 10 * MS)]);
}

/// A band that is within the smaller limit loses nothing for one that is not, also where a flow has
/// packets of both.
#[test]
fn a_smaller_limit_is_that_of_each_band() {
    let [low, high] = [0, 6];
    let mut lane = Lane::new("fq", "");
    for id in 0..3 {
        put(&mut lane, ms(1), id, flow(1).priority(low).txtime(ms(10)));
    }
    for id in 10..15 {
        put(&mut lane, ms(1), id, flow(2).priority(high).txtime(ms(20)));
    }
    assert_eq!(lane.take(ms(1)), Out::Wait(ms(10)));
    lane.change(ms(2), Handle::ROOT, "limit 3").unwrap();
    assert_eq!(lane.drops(), [10, 11].map(|id| (id, DropReason::Purged)));
    assert_eq!(["band0_pkts", "band1_pkts"].map(|c| lane.counter(c)), [3, 3]);
    let at = |id, t| (id, t * MS);
    let left = [at(0, 10), at(1, 10), at(2, 10), at(12, 20), at(13, 20), at(14, 20)];
    assert_eq!(run(&mut lane, ms(2)), left);

    let mut lane = Lane::new("fq", "");
    for (id, priority) in [(0, low), (1, high), (2, high)] {
        put(&mut lane, ms(1), id, flow(1).priority(priority).txtime(ms(10 + u64::from(id))));
    }
    assert_eq!(lane.take(ms(1)), Out::Wait(ms(10)));
    lane.change(ms(2), Handle::ROOT, "limit 1").unwrap();
    assert_eq!(lane.drops(), [(1, DropReason::Purged)]);
    assert_eq!(run(&mut lane, ms(2)), [at(0, 10), at(2, 12)]);
}

#[test]
fn a_change_of_the_mask_or_of_bands_moves_what_waits() {
    let mut lane = Lane::new("fq", "maxrate 1gbit nopacing");
    for id in 0..6 {
        put(&mut lane, ms(1), id, flow(id % 2 * 1024 + 5));
    }
    assert_eq!(lane.counter("flows"), 1);
    lane.change(ms(2), Handle::ROOT, "orphan_mask 4095").unwrap();
    put(&mut lane, ms(2), 6, flow(1024 + 5));
    let order = lane.ids(ms(2), 7);
    let of = |odd: u32| order.iter().copied().filter(|id| *id < 6 && id % 2 == odd).collect::<Vec<_>>();
    assert_eq!((of(0), of(1), order.last()), (vec![0, 2, 4], vec![1, 3, 5], Some(&6)));

    lane.fill(ms(3), 10, 3, flow(1));
    assert_eq!(["band0_pkts", "band1_pkts"].map(|c| lane.counter(c)), [0, 3]);
    lane.change(ms(3), Handle::ROOT, "priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0").unwrap();
    assert_eq!(["band0_pkts", "band1_pkts"].map(|c| lane.counter(c)), [3, 0]);
    assert_eq!(lane.ids(ms(3), 9), [10, 11, 12]);
    assert_eq!(["band0_pkts", "band1_pkts"].map(|c| lane.counter(c)), [0, 0]);
}

#[test]
fn values_as_linux_takes_them_and_refusals() {
    let shown = |options: &str, key: &str| {
        let lane = Lane::new("fq", options);
        let mut text = String::from("-");
        lane.root().qdisc().options(&mut |o| {
            if o.param.key == key && o.value.is_set() {
                text = txweir_core::text::value::exact_of(o.value);
            }
        });
        text
    };
    for (options, key, text) in [
        ("quantum 1", "quantum", "256"),
        ("quantum 4294967295", "quantum", "1048576"),
        ("", "quantum", "3028"),
        ("", "initial_quantum", "15140"),
        ("buckets 1000", "buckets", "1024"),
        ("buckets 3", "buckets", "4"),
        ("orphan_mask 0xff", "orphan_mask", "255"),
        ("maxrate 4294967295bps", "maxrate", "-"),
        ("maxrate 1mbit", "maxrate", "125000bps"),
        ("defrate 1mbit", "defrate", "-"),
        ("timer_slack 100", "timer_slack", "100ns"),
        ("bands 3", "bands", "-"),
        ("priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1", "priomap", "-"),
        ("priomap 1 2", "bands", "3"),
        ("weights 589824 196608 65536", "weights", "-"),
    ] {
        assert_eq!(shown(options, key), text, "{options} {key}");
    }
    let spec = txweir_core::qdisc::kind("fq").unwrap();
    for (options, refusal) in [
        ("buckets 1", "fq buckets: expected 2 to 262144, given \"1\""),
        ("buckets 262145", "fq buckets: expected 2 to 262144, given \"262145\""),
        (
            "initial_quantum 2147483648",
            "fq initial_quantum: expected at most 2147483647 bytes, given \"2147483648\"",
        ),
        ("horizon 5000s", "fq horizon: expected at most 4294967295us, given \"5000s\""),
        ("bands 4", "fq bands: expected 3, given \"4\""),
        ("priomap 0 1 3", "fq priomap: expected bands 0 to 2, given \"3\""),
        ("weights 1 2 3", "fq weights: expected 16384 to 2147483647 each, given \"1\""),
        (
            "weights 20000 20000",
            "fq weights: expected three numbers, 16384 to 2147483647 each, given \"20000\"",
        ),
    ] {
        let words: Vec<&str> = options.split(' ').collect();
        let refused = spec.build(&mut Words::new(&words), &txweir_core::Env::default()).unwrap_err();
        assert_eq!(refused.to_string(), refusal, "{options}");
    }
}

#[test]
fn a_million_flows_wait_in_bounded_memory_and_leave_in_order() {
    let n = 200_000u32;
    let mut lane = Lane::new("fq", "orphan_mask 1048575 limit 200000");
    for id in 0..n {
        // A permutation of times, 10 ns apart.
        let at = u64::from(id) * 7919 % u64::from(n) * 10 + 1_000;
        put(&mut lane, Instant(1), id, flow(id).txtime(Instant(at)));
    }
    let sent = run(&mut lane, Instant(1));
    assert_eq!(sent.len(), n as usize);
    assert!(sent.windows(2).all(|w| w[0].1 + 10 == w[1].1));
    assert_eq!((lane.counter("throttled"), lane.counter("flows")), (u64::from(n), u64::from(n)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// An independent model of a paced flow: packets without launch times, one flow below its
    /// limits, dequeued exactly at the times that it names. Credit, spacing and times are computed
    /// in exact arithmetic from the definition.
    #[test]
    fn one_paced_flow_is_its_model(
        rate in 20_000u64..50_000_000,
        quantum in 256u32..9_000,
        initial in 1i64..30_000,
        arrivals in prop::collection::vec((0u64..3_000_000, 60u32..1515), 1..90),
    ) {
        let options = format!(
            "maxrate {rate}bps quantum {quantum} initial_quantum {initial} low_rate_threshold 0bit refill_delay 1000s"
        );
        let mut lane = Lane::new("fq", &options);
        let (mut now, mut free, mut credit, mut paced) = (MS, 0u64, initial, false);
        let mut expected = BTreeMap::new();
        let mut got = BTreeMap::new();
        let mut wake = None;
        let mut take_until = |lane: &mut Lane, wake: &mut Option<Instant>, until: u64| {
            while let Some(t) = wake.filter(|t| t.0 < until) {
                match lane.take(t) {
                    Out::Sent(id, _) => { got.insert(id, t.0); }
                    Out::Wait(next) => *wake = Some(next),
                    Out::Nothing => *wake = None,
                }
            }
        };
        for (id, (gap, len)) in (0..).zip(&arrivals) {
            now += gap;
            take_until(&mut lane, &mut wake, now);
            put(&mut lane, Instant(now), id, Meta::new(*len).hash(1));
            wake = Some(wake.map_or(Instant(now), |w: Instant| w.max(Instant(now))));
            // The model.
            while credit <= 0 {
                credit += i64::from(quantum);
            }
            let at = free.max(now);
            expected.insert(id, at);
            credit -= i64::from(*len);
            if credit <= 0 {
                let delay = (u64::from((*len).max(quantum)) * 1_000_000_000 / rate).min(1_000_000_000);
                let late = if paced { at - free } else { 0 };
                free = at + delay - late.min(delay / 2);
                paced = true;
            }
        }
        take_until(&mut lane, &mut wake, u64::MAX);
        prop_assert_eq!(got, expected);
    }
}
