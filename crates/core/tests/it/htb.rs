//! htb: literal schedules, and conservation while classes come and go. (`htb_model.rs`: a model on
//! random trees.)

use std::collections::BTreeMap;

use crate::common::lane::{Lane, Out};
use crate::common::options::{chance, pick};
use txweir_core::base::rng::Rng;
use txweir_core::sched::classful::ClassShown;
use txweir_core::text::error::Reason;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, ConfigError, DropReason, Env, Handle, Instant, Meta};

const MS: u64 = 1_000_000;

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn at(minor: u16) -> Handle {
    Handle::new(0x8001, minor)
}

/// Makes a lane with an htb and its classes: minor number, the parent or 0, options.
fn htb(options: &str, classes: &[(u16, u16, &str)]) -> Lane {
    let mut lane = Lane::new("htb", options);
    for (minor, parent, options) in classes {
        add(&mut lane, Instant::ZERO, *minor, *parent, options).unwrap();
    }
    lane
}

fn add(lane: &mut Lane, now: Instant, minor: u16, parent: u16, options: &str) -> Result<(), ConfigError> {
    let words = words(options);
    lane.path.configure(now, &mut lane.dev, |tree, cx| {
        tree.edit(cx).add_class(at(parent), at(minor), Some("htb"), &mut Words::new(&words))
    })
}

fn change(lane: &mut Lane, now: Instant, minor: u16, options: &str) -> Result<(), ConfigError> {
    let words = words(options);
    lane.path.configure(now, &mut lane.dev, |tree, cx| {
        tree.edit(cx).change_class(None, at(minor), Some("htb"), &mut Words::new(&words))
    })
}

fn delete(lane: &mut Lane, now: Instant, minor: u16) -> Result<(), ConfigError> {
    lane.path.configure(now, &mut lane.dev, |tree, cx| tree.edit(cx).delete_class(at(minor)))
}

/// Returns a packet of this number of bytes for a class.
fn packet(bytes: u32, minor: u16) -> Meta {
    Meta::new(bytes).priority(at(minor).0).hash(minor.into())
}

/// Returns a class as it is shown: bytes sent, drops, overlimits, backlog, values.
fn shown(lane: &Lane, minor: u16) -> (u64, u64, u64, u64, Vec<i64>) {
    let mut found = None;
    lane.root().qdisc().user_classes().unwrap().list(&mut |class: ClassShown<'_>| {
        if class.at.minor == minor {
            let ClassShown { sent, drops, overlimits, backlog, values, .. } = class;
            found = Some((sent.bytes, drops, overlimits, backlog.packets, values.to_vec()));
        }
    });
    found.unwrap_or_else(|| panic!("no class {minor:x}"))
}

/// Takes all packets that leave until `end`, and returns the time and id of each.
fn run(lane: &mut Lane, mut now: u64, end: u64) -> Vec<(u64, u32)> {
    let mut left = Vec::new();
    loop {
        match lane.take(Instant(now)) {
            Out::Sent(id, _) => left.push((now, id)),
            Out::Wait(t) if t.0 <= end => now = t.0.max(now + 1),
            Out::Wait(_) | Out::Nothing => return left,
        }
    }
}

/// Returns the bytes that each class has sent, by the high half of the packets' numbers.
fn bytes_by_class(left: &[(u64, u32)], bytes: u32) -> BTreeMap<u32, u32> {
    let mut by = BTreeMap::new();
    left.iter().for_each(|(_, id)| *by.entry(id >> 16).or_default() += bytes);
    by
}

fn fill(lane: &mut Lane, minor: u16, bytes: u32, n: u32) {
    lane.fill(Instant::ZERO, u32::from(minor) << 16, n, packet(bytes, minor));
}

#[test]
fn one_class_sends_its_bucket_and_then_at_its_rate() {
    // A bucket of 2000 bytes at 1 byte/us: it is overdrawn by at most one packet.
    let mut lane = htb("default 10", &[(0x10, 0, "rate 8mbit burst 2000 cburst 2000")]);
    fill(&mut lane, 0x10, 1000, 6);
    let times: Vec<u64> = run(&mut lane, 0, 100 * MS).iter().map(|(t, _)| *t).collect();
    assert_eq!(times, [0, 0, 0, MS, 2 * MS, 3 * MS]);
    let (bytes, drops, overlimits, backlog, values) = shown(&lane, 0x10);
    assert_eq!((bytes, drops, overlimits, backlog), (6000, 0, 4, 0));
    assert_eq!(lane.root().books().overlimits, 4, "those of its classes");
    // Its tokens are those of 3 ms: 2000 us of bucket, 3000 us later, less 6000.
    assert_eq!(values, [6, 0, 0, -15_625, -15_625, 100_000, 0]);
}

/// A packet that uses up the rest of a turn does not end it: the next one does, and is paid for by
/// the next turn.
#[test]
fn a_turn_ends_below_zero_and_not_at_zero() {
    let mut lane = htb(
        "",
        &[
            (0x10, 0, "rate 8mbit burst 100kb cburst 100kb quantum 2000"),
            (0x20, 0, "rate 8mbit burst 100kb cburst 100kb quantum 2000"),
        ],
    );
    for minor in [0x10, 0x20] {
        fill(&mut lane, minor, 1000, 5);
    }
    // Balances of the first class: -1000 and a quantum; 0, -1000 and a quantum; and so on.
    let classes: Vec<u32> = lane.ids(Instant::ZERO, 10).iter().map(|id| id >> 16).collect();
    assert_eq!(classes, [0x10, 0x20, 0x10, 0x10, 0x20, 0x20, 0x10, 0x10, 0x20, 0x20]);
}

#[test]
fn what_is_left_is_shared_by_quanta() {
    let mut lane = htb(
        "",
        &[
            (1, 0, "rate 8mbit ceil 8mbit"),
            (0x10, 1, "rate 8kbit ceil 8mbit quantum 1000"),
            (0x20, 1, "rate 8kbit ceil 8mbit quantum 3000"),
        ],
    );
    for minor in [0x10, 0x20] {
        fill(&mut lane, minor, 1000, 900);
    }
    let by = bytes_by_class(&run(&mut lane, 0, 800 * MS), 1000);
    // 800 ms at 1 byte/us and the contents of the buckets; the guaranteed rate, 1 byte/ms, adds
    // little.
    assert_eq!((by[&0x10], by[&0x20]), (203_000, 599_000));
    let (_, _, _, _, values) = shown(&lane, 1);
    assert_eq!(values[0], 796, "packets lent by the parent class");
    assert_eq!(values[6], 7);
}

#[test]
fn rates_are_kept_first_and_ceilings_hold() {
    let mut lane = htb(
        "",
        &[
            (1, 0, "rate 8mbit ceil 8mbit"),
            (0x10, 1, "rate 2mbit ceil 8mbit prio 7"),
            (0x20, 1, "rate 1mbit ceil 3mbit prio 0"),
            (0x30, 1, "rate 1mbit ceil 8mbit prio 1"),
        ],
    );
    for minor in [0x10, 0x20, 0x30] {
        fill(&mut lane, minor, 1000, 900);
    }
    let by = bytes_by_class(&run(&mut lane, 0, 800 * MS), 1000);
    // 0x20 borrows first, up to its ceiling; 0x30 takes the rest; 0x10, last in priority, still
    // gets its rate.
    for (class, kbytes) in [(0x10, 200), (0x20, 300), (0x30, 300)] {
        assert!((by[&class] / 1000).abs_diff(kbytes) <= 3, "{class:x}: {by:?}");
    }
}

#[test]
fn packets_for_nobody_go_at_once_and_are_counted() {
    let mut lane = htb("default 99 direct_qlen 2", &[(1, 0, "rate 8kbit"), (0x10, 1, "rate 8kbit")]);
    fill(&mut lane, 0x10, 1000, 5);
    // The qdisc itself, a class with classes below, a missing class, and none.
    for (id, priority) in [(1, at(0).0), (2, at(1).0)] {
        assert_eq!(lane.put(Instant::ZERO, id, Meta::new(100).priority(priority)), Admitted::Queued);
    }
    assert_eq!(lane.put(Instant::ZERO, 3, Meta::new(100)), Admitted::Dropped(DropReason::Overlimit));
    assert_eq!(lane.ids(Instant::ZERO, 4), [1, 2, 0x10_0000, 0x10_0001]);
    assert_eq!(lane.put(Instant::ZERO, 4, packet(100, 0x77)), Admitted::Queued);
    assert_eq!((lane.ids(Instant::ZERO, 1), lane.counter("direct_packets_stat")), (vec![4], 3));
    // With a default that is a leaf, they go there.
    let mut lane = htb("default 10 direct_qlen 2", &[(1, 0, "rate 8kbit"), (0x10, 1, "rate 8kbit")]);
    fill(&mut lane, 0x10, 1000, 5);
    let waiting = lane.backlog();
    for (id, priority) in [(5, at(1).0), (6, at(0x77).0), (7, 0)] {
        assert_eq!(lane.put(Instant::ZERO, id, Meta::new(100).priority(priority)), Admitted::Queued);
    }
    assert_eq!((shown(&lane, 0x10).3, lane.backlog()), (waiting + 3, waiting + 3));
}

#[test]
fn the_direct_queue_has_the_length_of_the_devices_queue() {
    for (tx_queue_len, queued) in [(0, 0), (1, 1), (5, 5)] {
        let env = Env { tx_queue_len, ..Env::default() };
        let mut lane = Lane::on(env, "htb", "default 10");
        add(&mut lane, Instant::ZERO, 0x10, 0, "rate 8kbit").unwrap();
        let mut room = 0;
        for id in 0..9 {
            room += u32::from(lane.put(Instant::ZERO, id, packet(100, 0)) == Admitted::Queued);
        }
        assert_eq!(room, queued, "{tx_queue_len}");
    }
}

/// Mechanism ledger, number 9: a child that empties inside a dequeue, because it drops all its
/// packets, is reported twice; the class above then left the active tree while siblings waited, and
/// never sent again.
#[test]
fn a_child_that_empties_inside_a_dequeue_leaves_its_siblings_active() {
    let classes = [
        (1, 0, "rate 8mbit ceil 8mbit"),
        (0x10, 1, "rate 8kbit ceil 8mbit quantum 1000"),
        (0x20, 1, "rate 8kbit ceil 8mbit quantum 1000"),
    ];
    let mut lane = htb("", &classes);
    lane.graft(Instant::ZERO, at(0x10), "codel", "target 1ms interval 2ms");
    let mut dropped_and_emptied = 0;
    let (mut now, mut next, mut left) = (0, 0, 0);
    for round in 0..400_u32 {
        // A queue that stands, and then runs dry: codel drops at the front meanwhile.
        for i in 0..2 + round % 9 {
            // The packets are above the size below which codel leaves a queue alone.
            let _ = lane.put(Instant(now), next + i, packet(2000, 0x10));
        }
        next += 20;
        let _ = lane.put(Instant(now), next, packet(1000, 0x20));
        loop {
            let (waits, drops) = (shown(&lane, 0x10).3, lane.drops().len());
            match lane.take(Instant(now)) {
                Out::Sent(..) => left += 1,
                Out::Wait(t) => now = t.0,
                Out::Nothing => break,
            }
            let dropped = lane.drops().len();
            assert_eq!(drops, 0);
            dropped_and_emptied += u32::from(waits > 1 && dropped > 0 && shown(&lane, 0x10).3 == 0);
        }
        assert_eq!(lane.backlog(), 0, "round {round}: every waiting packet is dequeued");
    }
    assert!(dropped_and_emptied > 10, "{dropped_and_emptied} of {left}");
    assert_eq!(shown(&lane, 0x20).0, 400_000);
}

#[test]
fn what_the_classes_refuse() {
    let mut lane = htb("", &[(1, 0, "rate 8mbit"), (0x10, 1, "rate 1mbit")]);
    let now = Instant::ZERO;
    let said = |done: Result<(), ConfigError>| done.unwrap_err().to_string();
    for (options, expected) in [
        ("ceil 1mbit", "class 8001:20 rate: expected a rate, at least 8bit, given nothing"),
        ("rate 0bit", "class 8001:20 rate: expected a rate, at least 8bit, given nothing"),
        ("rate 1mbit mpu 65536", "htb mpu: expected a whole number up to 65535, given \"65536\""),
        ("rate 1mbit burst 5gb", "htb burst: expected 0 to 4294967295 bytes, given \"5gb\""),
    ] {
        let refused = said(add(&mut lane, now, 0x20, 1, options));
        assert!(refused.starts_with(expected), "{options}: {refused}");
    }
    let refused = said(delete(&mut lane, now, 1));
    assert_eq!(
        refused,
        "class 8001:1: expected a class without classes below, given \"1 of them\" (delete those first)"
    );
    let offload = lane.change(now, Handle::ROOT, "offload").unwrap_err().to_string();
    assert_eq!(
        offload,
        "htb offload: expected no offload, given \"offload\" (there is no hardware here that could shape: leave it out)"
    );
    // Eight levels are the maximum.
    for minor in 2..8 {
        add(&mut lane, now, minor, minor - 1, "rate 1mbit").unwrap();
    }
    add(&mut lane, now, 8, 7, "rate 1mbit").unwrap();
    assert_eq!(
        said(add(&mut lane, now, 9, 8, "rate 1mbit")),
        "class 8001:9 parent: expected at most 8 levels of classes, given \"one more\""
    );
    // A class without a parent is a root class, as in Linux.
    add(&mut lane, now, 0x30, 0x77, "rate 1mbit").unwrap();
    assert_eq!(shown(&lane, 0x30).4[6], 0);
}

/// class-number
#[test]
fn a_class_of_htb_needs_a_number() {
    let mut lane = htb("", &[(1, 0, "rate 8mbit")]);
    let none = add(&mut lane, Instant::ZERO, 0, 0, "rate 8mbit").unwrap_err().to_string();
    assert_eq!(none, "class classid: expected a class, MAJOR:MINOR, given nothing");
    let mut classes = 0;
    lane.root().qdisc().user_classes().unwrap().list(&mut |_| classes += 1);
    assert_eq!(classes, 1);
}

#[test]
fn a_class_cannot_be_moved_and_no_option_of_htb_can_be_changed() {
    let mut lane = htb("r2q 10", &[(1, 0, "rate 8mbit"), (0x10, 1, "rate 1mbit"), (2, 0, "rate 8mbit")]);
    let moved = lane.path.configure(Instant::ZERO, &mut lane.dev, |tree, cx| {
        tree.edit(cx).replace_class(at(2), at(0x10), None, &mut Words::new(&["rate", "1mbit"]))
    });
    assert_eq!(
        moved.unwrap_err().to_string(),
        "class 8001:10 parent: expected below class 1, where it is, given \"2\" (a class cannot be moved: delete it, \
         and add it there)"
    );
    assert_eq!(shown(&lane, 0x10).4[5], 12_500);
    // A change without an effect is none.
    lane.change(Instant::ZERO, Handle::ROOT, "r2q 10").unwrap();
    for words in ["r2q 50", "r2q 10 default 10", "direct_qlen 5"] {
        let refused = lane.change(Instant::ZERO, Handle::ROOT, words).unwrap_err();
        assert_eq!(refused.reason, Some(Reason::Unchangeable), "{words}");
    }
    assert_eq!(shown(&lane, 0x10).4[5], 12_500);
    // A quantum beyond the range of turns becomes the largest possible quantum.
    change(&mut lane, Instant::ZERO, 0x10, "rate 1mbit quantum 4294967295").unwrap();
    assert_eq!(shown(&lane, 0x10).4[5], i64::from(i32::MAX));
}

#[test]
fn a_shaper_in_a_leaf_is_asked_when_a_class_is_due() {
    let mut lane = htb("", &[(0x10, 0, "rate 80mbit"), (0x20, 0, "rate 8mbit burst 1000 cburst 1000")]);
    let tbf = lane.graft(Instant::ZERO, at(0x10), "tbf", "rate 8kbit burst 1600 limit 100000");
    fill(&mut lane, 0x20, 1000, 8);
    fill(&mut lane, 0x10, 1600, 2);
    // The second packet of the tbf leaves after 1.6 s; until then the tbf is called whenever the
    // other class is due.
    assert_eq!(run(&mut lane, 0, 2000 * MS).last(), Some(&(1600 * MS, 0x10_0001)));
    let mut overlimits = 0;
    lane.path.tree().visit(&mut |_, node| {
        if node.handle() == tbf {
            overlimits = node.books().overlimits;
        }
    });
    assert!(overlimits > 1, "{overlimits}");
}

#[test]
fn a_class_counts_drops_of_packets_that_came_to_it() {
    let mut lane = htb("", &[(0x10, 0, "rate 8kbit")]);
    lane.graft(Instant::ZERO, at(0x10), "pfifo", "limit 2");
    for id in 0..5 {
        let _ = lane.put(Instant::ZERO, id, packet(100, 0x10));
    }
    assert_eq!((shown(&lane, 0x10).1, shown(&lane, 0x10).3), (3, 2));
    // Drops of another flow's packets by a qdisc are counted by the qdisc, and not by the class.
    lane.graft(Instant::ZERO, at(0x10), "pfifo_head_drop", "limit 1");
    for id in 10..13 {
        let _ = lane.put(Instant::ZERO, id, packet(100, 0x10).hash(id));
    }
    assert_eq!(shown(&lane, 0x10).1, 3);
    assert_eq!(lane.root().books().dropped.packets, 3 + 2 + 2, "two were purged by the graft");
    // hhf drops the first of all others.
    lane.graft(Instant::ZERO, at(0x10), "hhf", "limit 1");
    for id in 20..23 {
        let _ = lane.put(Instant::ZERO, id, packet(100, 0x10).hash(id));
    }
    assert_eq!(shown(&lane, 0x10).1, 3);
    assert_eq!(lane.root().books().dropped.packets, 3 + 2 + 2 + 1 + 2, "one was purged by the graft");
}

/// Random trees under random changes: no packet is lost, waiting packets are counted where they
/// wait, levels are those of the tree, and in the end every packet leaves.
#[test]
fn books_balance_in_random_trees_that_change() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut lane = htb("default 1", &[]);
        let mut above: BTreeMap<u16, u16> = BTreeMap::new();
        let (mut now, mut id, mut sent) = (0, 0, 0);
        for _ in 0..600 {
            let minor = 1 + rng.below(14) as u16;
            let parent = rng.below(15) as u16;
            let rate = 1000 * (1 + rng.below(4000));
            let options = format!(
                "rate {rate}bps ceil {}bps prio {} burst 3000",
                rate * (1 + rng.below(3)),
                rng.below(3)
            );
            match rng.below(12) {
                0 if add(&mut lane, Instant(now), minor, parent, &options).is_ok() => {
                    above.insert(minor, if above.contains_key(&parent) { parent } else { 0 });
                }
                1 if chance(&mut rng, 1, 3) => {
                    let inner = above.values().any(|p| *p == minor);
                    let done = delete(&mut lane, Instant(now), minor).is_ok();
                    assert_eq!(done, above.contains_key(&minor) && !inner, "seed {seed}: delete {minor}");
                    if done {
                        above.remove(&minor);
                    }
                }
                2 => assert_eq!(
                    change(&mut lane, Instant(now), minor, &options).is_ok(),
                    above.contains_key(&minor)
                ),
                3..8 => {
                    for _ in 0..rng.below(6) {
                        id += 1;
                        let m = packet(*pick(&mut rng, &[60, 1000, 1514]), minor);
                        assert_eq!(lane.put(Instant(now), id, m), Admitted::Queued);
                    }
                }
                _ => {
                    let end = now + rng.below(20 * MS);
                    sent += run(&mut lane, now, end).len();
                    now = end;
                }
            }
            let waits: u64 = above.keys().map(|minor| shown(&lane, *minor).3).sum();
            let mut direct = 0;
            lane.root().queued(&lane.path.cx().pool, &mut |_| direct += 1);
            assert_eq!(lane.backlog(), waits + direct, "seed {seed}");
            let gone = lane.root().books();
            assert_eq!(u64::from(id), gone.sent.packets + gone.dropped.packets + gone.queued.packets);
            for minor in above.keys() {
                let level = shown(&lane, *minor).4[6];
                let depth =
                    std::iter::successors(Some(*minor), |m| above.get(m).copied().filter(|p| *p != 0))
                        .count();
                let inner = above.values().any(|p| p == minor);
                assert_eq!(
                    level,
                    if inner { 8 - depth as i64 } else { 0 },
                    "seed {seed}: class {minor} {above:?}"
                );
            }
        }
        // A minute at the minimum of the lowest rate, repeated as often as necessary: every packet
        // leaves.
        for _ in 0..200 {
            now += 61_000 * MS;
            sent += run(&mut lane, now, now).len();
        }
        let rest = run(&mut lane, now, now + 3_600_000 * MS).len();
        let books = lane.root().books();
        assert_eq!((lane.backlog(), books.sent.packets), (0, (sent + rest) as u64), "seed {seed}");
    }
}
