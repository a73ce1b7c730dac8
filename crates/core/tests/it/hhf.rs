//! hhf: named behaviours, with literal expectations. Its traces of the kernel are in
//! `spec/traces/hhf`.

use crate::common::lane::Lane;
use txweir_core::text::value::Words;
use txweir_core::{DropReason, Handle, Instant, Meta};

const T: Instant = Instant::from_secs(1);

/// Returns a packet of a flow, whose hashes share no counters.
fn meta(len: u32, flow: u32) -> Meta {
    Meta::new(len).hash(flow * 0x0010_0401)
}

const fn at(ms: u64) -> Instant {
    Instant::from_millis(1000 + ms)
}

/// Returns the counters: drops at the limit, flows without a place, found flows, present ones.
fn counts(lane: &Lane) -> [i128; 4] {
    let counter = |key| lane.counter(key).into();
    [counter("drop_overlimit"), counter("hh_overlimit"), counter("tot_hh"), counter("cur_hh")]
}

#[test]
fn a_flow_is_heavy_with_the_packet_beyond_the_threshold() {
    let mut lane = Lane::new("hhf", "admit_bytes 3000");
    lane.fill(T, 10, 3, meta(1000, 1));
    assert_eq!(counts(&lane), [0, 0, 0, 0]);
    lane.fill(T, 13, 1, meta(1000, 1));
    assert_eq!(counts(&lane), [0, 0, 1, 1]);
    // The other flow has sent nothing yet.
    lane.fill(T, 20, 1, meta(1000, 2));
    assert_eq!(lane.ids(T, 9), [10, 11, 12, 20, 13]);
}

/// The least of the four counters decides: another flow's bytes in one of them make no flow heavy.
#[test]
fn a_counter_that_flows_share_makes_neither_heavy() {
    let mut lane = Lane::new("hhf", "admit_bytes 3000");
    lane.fill(T, 10, 3, meta(1000, 1));
    // Its counters are 2, 4 and 7 in three arrays, and that of the first flow in the fourth.
    lane.fill(T, 20, 1, Meta::new(1000).hash(2 | 4 << 10 | 7 << 20));
    assert_eq!(counts(&lane), [0, 0, 0, 0]);
}

/// Packets for the empty queue of the others go ahead of a heavy flow whose turn it is.
#[test]
fn the_queue_of_the_others_goes_first_when_it_gets_packets() {
    let mut lane = Lane::new("hhf", "admit_bytes 0 quantum 10000");
    lane.fill(T, 10, 5, meta(1000, 1));
    assert_eq!(lane.ids(T, 1), [10]);
    let words = &["admit_bytes", "1000000"];
    lane.path
        .configure(T, &mut lane.dev, |tree, cx| {
            tree.edit(cx).change(Handle::ROOT, None, &mut Words::new(words))
        })
        .unwrap();
    lane.fill(T, 20, 1, meta(1000, 2));
    assert_eq!(lane.ids(T, 9), [20, 11, 12, 13, 14]);
}

#[test]
fn counters_are_cleared_after_the_timeout() {
    let mut lane = Lane::new("hhf", "admit_bytes 3000 reset_timeout 10ms");
    lane.fill(T, 10, 3, meta(1000, 1));
    lane.fill(at(10), 13, 1, meta(60, 2));
    assert_eq!(counts(&lane), [0, 0, 0, 0]);
    // They are cleared beyond the timeout, and not at it.
    lane.fill(at(11), 14, 3, meta(1000, 1));
    assert_eq!(counts(&lane), [0, 0, 0, 0]);
    lane.fill(at(21), 17, 1, meta(1000, 1));
    assert_eq!(counts(&lane), [0, 0, 1, 1]);
}

#[test]
fn a_heavy_flow_that_pauses_is_none() {
    let mut lane = Lane::new("hhf", "admit_bytes 1000 evict_timeout 50ms reset_timeout 1ms");
    lane.fill(T, 10, 2, meta(1000, 1));
    lane.fill(at(50), 12, 1, meta(1000, 1));
    assert_eq!(counts(&lane), [0, 0, 1, 1]);
    lane.fill(at(101), 13, 1, meta(1000, 1));
    lane.fill(at(101), 14, 1, meta(1000, 1));
    // It is found again, in its old place.
    assert_eq!(counts(&lane), [0, 0, 2, 1]);
}

#[test]
fn a_full_table_finds_no_flow() {
    let mut lane = Lane::new("hhf", "admit_bytes 1000 hh_limit 1");
    lane.fill(T, 10, 2, meta(1000, 1));
    lane.fill(T, 20, 3, meta(1000, 2));
    assert_eq!(counts(&lane), [0, 2, 1, 1]);
}

#[test]
fn turns_are_by_quantum_and_weight() {
    let mut lane = Lane::new("hhf", "admit_bytes 0 quantum 1000 non_hh_weight 3");
    // All of flow 1 is heavy.
    lane.fill(T, 100, 20, meta(500, 1));
    let words = &["admit_bytes", "1000000"];
    lane.path
        .configure(T, &mut lane.dev, |tree, cx| {
            tree.edit(cx).change(Handle::ROOT, None, &mut Words::new(words))
        })
        .unwrap();
    lane.fill(T, 200, 20, meta(500, 2));
    let ids = lane.ids(T, 16);
    let heavy = ids.iter().filter(|id| **id < 200).count();
    // Three to one: 4 of 16.
    assert_eq!((ids.len(), heavy), (16, 4), "{ids:?}");
}

#[test]
fn a_full_queue_drops_the_oldest_of_the_heavy_flow() {
    let mut lane = Lane::new("hhf", "admit_bytes 1000 limit 4");
    lane.fill(T, 10, 1, meta(1000, 1));
    lane.fill(T, 11, 2, meta(1000, 1));
    lane.fill(T, 20, 1, meta(100, 2));
    let _ = lane.put(T, 21, meta(100, 2));
    assert_eq!(lane.drops(), [(11, DropReason::HeadDrop)]);
    let _ = lane.put(T, 22, meta(100, 2));
    assert_eq!(lane.drops(), [(12, DropReason::HeadDrop)]);
    let _ = lane.put(T, 23, meta(100, 2));
    // No heavy flow has packets: the oldest of the others.
    assert_eq!(lane.drops(), [(10, DropReason::HeadDrop)]);
    assert_eq!(counts(&lane)[0], 3);
}

/// hhf-shrink
#[test]
fn a_smaller_limit_of_hhf_drops_and_counts() {
    let mut lane = Lane::new("hhf", "");
    lane.fill(T, 10, 5, meta(1000, 1));
    lane.path
        .configure(T, &mut lane.dev, |tree, cx| {
            tree.edit(cx).change(Handle::ROOT, None, &mut Words::new(&["limit", "2"]))
        })
        .unwrap();
    let drops: Vec<_> = lane.drops();
    assert_eq!(drops, [10, 11, 12].map(|id| (id, DropReason::Purged)));
    assert_eq!(lane.root().books().dropped.packets, 3);
}

/// hhf-reset
#[test]
fn a_purge_of_hhf_forgets_who_was_heavy() {
    let mut lane = Lane::new("hhf", "admit_bytes 1000");
    lane.fill(T, 10, 2, meta(1000, 1));
    assert_eq!(counts(&lane)[3], 1);
    lane.path.purge(T, &mut lane.dev);
    assert_eq!(counts(&lane)[3], 0);
}

/// A debt of many quanta is paid off at once, and not quantum by quantum.
#[test]
fn a_small_quantum_against_a_large_packet_costs_no_time() {
    let mut lane = Lane::new("hhf", "admit_bytes 0 quantum 1 non_hh_weight 1");
    lane.fill(T, 10, 4, meta(200_000, 1));
    assert_eq!(lane.ids(T, 9), [10, 11, 12, 13]);
}

#[test]
fn what_hhf_refuses() {
    let made = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let path = txweir_core::TxPath::<u32>::new(txweir_core::PathConfig::default()).unwrap();
        path.with_qdisc("hhf", &words).map(|_| ()).map_err(|e| e.to_string())
    };
    for words in ["quantum 0", "non_hh_weight 0", "quantum 2000000000 non_hh_weight 2"] {
        assert!(made(words).unwrap_err().contains("1 to 2147483647 bytes"), "{words}");
    }
    assert!(made("hh_limit 1048577").is_err());
    assert_eq!(made("quantum 1 non_hh_weight 2147483647"), Ok(()));
}

/// hhf-parent-backlog
#[test]
fn the_backlog_above_hhf_stays_right() {
    let mut lane = Lane::new("tbf", "rate 8mbit burst 2000 limit 100000");
    lane.graft(T, Handle::new(0x8001, 1), "hhf", "limit 3");
    for (id, len) in (10..).zip([1500, 60, 700, 1000, 90]) {
        let _ = lane.put(T, id, meta(len, id));
    }
    let books = lane.root().books();
    assert_eq!((books.queued.packets, books.queued.bytes), (3, 1790));
}
