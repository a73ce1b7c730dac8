//! skbprio (tc-skbprio(8)) against literal expectations and a model.

use crate::common::lane::Lane;
use crate::common::options::pick;
use txweir_core::base::rng::Rng;
use txweir_core::{Admitted, DropReason, Handle, Instant, Meta};

const T0: Instant = Instant::ZERO;

fn packet(priority: u32) -> Meta {
    Meta::new(1000).priority(priority)
}

#[test]
fn the_highest_level_leaves_first_and_63_is_the_highest() {
    let mut lane = Lane::new("skbprio", "");
    for (id, priority) in (0..).zip([1, 0, 3, 64, 63, u32::MAX, 3]) {
        assert_eq!(lane.put(T0, id, packet(priority)), Admitted::Queued);
    }
    assert_eq!(lane.ids(T0, 7), [3, 4, 5, 2, 6, 0, 1]);
}

/// The results of Linux 6.12 for the same packets at once.
#[test]
fn a_full_queue_makes_room_by_the_newest_of_the_lowest_level() {
    let mut lane = Lane::new("skbprio", "limit 4");
    for (id, priority) in (0..).zip([3, 1, 9, 9, 3, 1, 3, 9]) {
        let _ = lane.put(T0, id, packet(priority));
    }
    // 4 displaces 1; 5 is of a lower level than any, 6 of the lowest; 7 displaces 4, the newer of
    // level 3.
    let drops = [
        (1, DropReason::Overlimit),
        (5, DropReason::Overlimit),
        (6, DropReason::Overlimit),
        (4, DropReason::Overlimit),
    ];
    assert_eq!(lane.drops(), drops);
    assert_eq!(lane.ids(T0, 9), [2, 3, 7, 0]);
}

#[test]
fn a_limit_of_zero_takes_nothing_and_one_keeps_the_best() {
    let mut lane = Lane::new("skbprio", "limit 0");
    assert_eq!(lane.put(T0, 0, packet(63)), Admitted::Dropped(DropReason::Overlimit));
    let mut lane = Lane::new("skbprio", "limit 1");
    for (id, priority) in (0..).zip([1, 7, 8, 8, 7, 9]) {
        let _ = lane.put(T0, id, packet(priority));
    }
    assert_eq!(lane.ids(T0, 2), [5]);
}

#[test]
fn each_level_tells_what_waits_in_it_and_what_it_lost() {
    let mut lane = Lane::new("skbprio", "limit 2");
    for (id, priority) in (0..).zip([2, 0, 0, 5]) {
        let _ = lane.put(T0, id, packet(priority));
    }
    let mut seen = Vec::new();
    lane.root().qdisc().flows(&lane.path.cx().pool, &mut |f| {
        seen.push((f.minor, f.backlog.packets, f.backlog.bytes, f.values[0].1, f.values[1].1));
    });
    assert_eq!(seen.len(), 64);
    assert_eq!(
        [seen[0], seen[2], seen[5], seen[63]],
        [(1, 0, 0, 2, 2), (3, 1, 1000, 0, 0), (6, 1, 1000, 0, 0), (64, 0, 0, 0, 0)]
    );
}

#[test]
fn a_smaller_limit_drops_what_a_full_queue_would_drop() {
    let mut lane = Lane::new("skbprio", "limit 8");
    for (id, priority) in (0..).zip([5, 3, 1, 9, 9, 3, 1, 3]) {
        let _ = lane.put(T0, id, packet(priority));
    }
    lane.change(T0, Handle::ROOT, "limit 4").unwrap();
    assert_eq!(lane.drops(), [6, 2, 7, 5].map(|id| (id, DropReason::Purged)));
    assert_eq!(lane.ids(T0, 9), [3, 4, 0, 1]);
}

/// A list of packets in order of arrival, searched from end to end.
#[test]
fn it_equals_its_model() {
    let mut dropped = 0;
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let limit = rng.below(12) as usize;
        let mut lane = Lane::new("skbprio", &format!("limit {limit}"));
        let mut model: Vec<(u32, u32)> = Vec::new();
        for id in 0..300 {
            if rng.below(5) < 2 {
                let best = model.iter().map(|(p, _)| *p).max();
                let at = model.iter().position(|(p, _)| Some(*p) == best);
                assert_eq!(lane.take(T0).id(), at.map(|at| model.remove(at).1), "seed {seed}");
                continue;
            }
            let priority = *pick(&mut rng, &[0, 1, 2, 17, 62, 63, 64, 1000]);
            let _ = lane.put(T0, id, packet(priority));
            model.push((priority.min(63), id));
            let mut expected = Vec::new();
            if model.len() > limit {
                // The new packet is the newest of its level.
                let worst = model.iter().map(|(p, _)| *p).min();
                let at = model.iter().rposition(|(p, _)| Some(*p) == worst);
                expected.extend(at.map(|at| (model.remove(at).1, DropReason::Overlimit)));
            }
            assert_eq!(lane.drops(), expected, "seed {seed}");
            dropped += expected.len();
        }
    }
    assert!(dropped > 10_000, "{dropped}");
}
