//! fq_codel: the choice of a flow, the law of each flow, and flows at rest. (`aqm.rs`: its turns,
//! its overflow and its marks. `debts.rs`: its rounds.)

use crate::common::lane::Lane;
use txweir_core::packet::route::Candidate;
use txweir_core::sched::answer::Verdict;
use txweir_core::{Admitted, DropReason, Handle, Instant, Meta};

const T0: Instant = Instant::ZERO;

/// Returns a packet of flow `f` of 1024, by its hash.
fn packet(f: u32, len: u32) -> Meta {
    Meta::new(len).hash(f << 22)
}

/// Returns the classes of the flows that have packets or a turn to come, with their packets.
fn flows(lane: &Lane) -> Vec<(u32, u64)> {
    let mut all = Vec::new();
    lane.root().qdisc().flows(&lane.path.cx().pool, &mut |f| all.push((f.minor, f.backlog.packets)));
    all
}

/// Class MAJOR:n is the flow that the nth part of the hashes selects.
#[test]
fn a_class_is_the_flow_of_its_number() {
    let mut lane = Lane::new("fq_codel", "");
    let named = |minor| Meta::new(100).hash(9 << 22).priority(Handle::new(0x8001, minor).0);
    for (id, minor) in [(0, 1), (1, 5), (2, 1024)] {
        lane.fill(T0, id, 1, named(minor));
    }
    lane.fill(T0, 3, 1, packet(4, 100));
    assert_eq!(flows(&lane), [(1, 1), (5, 2), (1024, 1)]);
    // No flow has number 0 or 1025: the hash decides.
    (4..6).zip([0, 1025]).for_each(|(id, minor)| lane.fill(T0, id, 1, named(minor)));
    assert_eq!(flows(&lane), [(1, 1), (5, 2), (10, 2), (1024, 1)]);
}

/// "Backlog" in the law of a flow is that of the whole qdisc: a flow with less than a full frame is
/// bad while the link is behind with the packets of others.
#[test]
fn the_law_of_a_flow_sees_the_backlog_of_all() {
    let lost = |of_another: u32| {
        let mut lane = Lane::new("fq_codel", "");
        // 1200 bytes: one turn of a new flow.
        lane.fill(T0, 0, 40, packet(1, 30));
        lane.fill(T0, 100, of_another, packet(2, 1000));
        let left: Vec<_> = (1..13).map(|n| lane.take(Instant::from_millis(10 * n)).id()).collect();
        assert_eq!(left[..11], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(Some));
        lane.drops()
    };
    // The delay is 10 ms at the first packet and stays: it is bad 100 ms later, and the next packet
    // is dropped.
    assert_eq!(lost(3), [(11, DropReason::Congested)]);
    assert_eq!(lost(0), []);
}

/// Where the law drops all packets of a flow, the last delay that is shown is that of the last.
#[test]
fn the_last_delay_of_a_flow_is_that_of_its_last_packet_dropped_or_not() {
    let mut lane = Lane::new("fq_codel", "");
    lane.fill(T0, 0, 4, packet(1, 30));
    lane.fill(T0, 100, 20, packet(2, 1000));
    let left = [10, 120, 500].map(|ms| lane.take(Instant::from_millis(ms)).id());
    assert_eq!(left, [0, 2, 100].map(Some));
    assert_eq!(lane.drops(), [(1, DropReason::Congested), (3, DropReason::Congested)]);
    // A flow without packets is not shown.
    lane.fill(Instant::from_millis(500), 200, 1, packet(1, 30));
    let mut last = Vec::new();
    lane.root().qdisc().flows(&lane.path.cx().pool, &mut |f| {
        last.extend(f.values.iter().filter(|(key, _)| *key == "ldelay").map(|(_, us)| (f.minor, *us)));
    });
    // In units of 1.024 us.
    assert_eq!(last, [(2, 499_999), (3, 499_999)]);
}

/// As in Linux, the search keeps the first of several largest backlogs.
#[test]
fn of_equally_fat_flows_the_first_one_loses() {
    for order in [[3, 7, 900], [900, 7, 3]] {
        let mut lane = Lane::new("fq_codel", "limit 9 drop_batch 1");
        for f in order {
            lane.fill(T0, f * 10, 3, packet(f, 500));
        }
        let _ = lane.put(T0, 1, packet(5, 100));
        assert_eq!(lane.drops(), [(30, DropReason::FlowOverlimit)], "{order:?}");
    }
}

/// A waiting packet takes its frame and 64 bytes: 1064 here.
#[test]
fn a_sender_is_told_before_a_packet_exceeds_the_memory() {
    for (limit, room) in [
        (2128, [Verdict::Accept, Verdict::Accept, Verdict::Full]),
        (2127, [Verdict::Accept, Verdict::Full, Verdict::Full]),
    ] {
        let mut lane = Lane::new("fq_codel", &format!("memory_limit {limit}"));
        let answers = [0, 1, 2].map(|n| {
            let m = packet(n, 1000);
            let answer = lane.root().would_accept(&Candidate { meta: &m, route: None });
            if answer == Verdict::Accept {
                lane.fill(T0, n, 1, m);
            }
            answer
        });
        assert_eq!((answers, lane.drops()), (room, vec![]), "{limit}");
    }
}

/// A flow with a turn to come has a deficit that a packet past the qdisc would not pay for.
#[test]
fn a_qdisc_with_a_flow_on_either_list_is_not_transparent() {
    let mut lane = Lane::new("fq_codel", "");
    let transparent = |lane: &Lane| lane.root().qdisc().transparent(1000);
    assert!(transparent(&lane));
    lane.fill(T0, 0, 4, packet(1, 1000));
    assert_eq!((transparent(&lane), lane.counter("new_flows_len")), (false, 1));
    // Two packets are a turn: the flow is an old one when the third leaves.
    assert_eq!(lane.ids(T0, 3), [0, 1, 2]);
    let lens = ["new_flows_len", "old_flows_len"].map(|key| lane.counter(key));
    assert_eq!((transparent(&lane), lens), (false, [0, 1]));
    assert_eq!((lane.ids(T0, 2), transparent(&lane)), (vec![3], true));
    assert_eq!(lane.path.submit(T0, 9, packet(1, 1000), &mut lane.dev), Admitted::Sent);
}
