//! taprio: named behaviours, with literal expectations. Its traces of the kernel are in
//! `spec/traces/taprio`.

use crate::common::lane::{Lane, Out};
use txweir_core::base::rng::Rng;
use txweir_core::law::gates::{ByteTime, Entry, Gates, Schedule};
use txweir_core::{Admitted, DropReason, Env, ErrorKind, Handle, Instant, Meta, Nanos, Rate, Wake};

/// The start of a cycle of 1 ms.
const T: Instant = Instant::from_secs(1);

/// A device of four queues at 1 Gbit/s: a byte takes 8 ns.
fn env() -> Env {
    Env { queues: 4, link_rate: Some(Rate::from_bits(1_000_000_000)), ..Env::default() }
}

const CLASSES: &str = "num_tc 2 map 0 1 queues 1@0 2@1 clockid TAI";

/// Returns a lane whose schedule runs at `T`.
fn lane(schedule: &str) -> Lane {
    let mut lane = Lane::on(env(), "taprio", &format!("{CLASSES} {schedule}"));
    assert_eq!(lane.take(T), Out::Nothing);
    lane
}

/// Returns a packet of a class, for its first queue.
fn meta(len: u32, class: u32) -> Meta {
    let mut m = Meta::new(len).priority(class);
    m.queue = class as u16;
    m
}

const fn at(us: u64) -> Instant {
    Instant(T.0 + us * 1000)
}

#[test]
fn gates_open_and_close_by_the_schedule() {
    let mut lane = lane("sched-entry S 1 300000 sched-entry S 2 700000");
    lane.fill(T, 10, 2, meta(1000, 0));
    lane.fill(T, 20, 2, meta(1000, 1));
    assert_eq!(lane.ids(T, 9), [10, 11]);
    assert_eq!(lane.take(T), Out::Wait(at(300)));
    lane.fill(at(300), 12, 1, meta(1000, 0));
    assert_eq!(lane.ids(at(300), 9), [20, 21]);
    assert_eq!(lane.take(at(300)), Out::Wait(at(1000)));
    assert_eq!(lane.take(at(999)), Out::Wait(at(1000)));
    assert_eq!(lane.ids(at(1000), 9), [12]);
}

/// A frame of 1250 bytes takes 10 us.
#[test]
fn a_frame_that_would_not_end_in_time_waits() {
    let mut lane = lane("sched-entry S 1 300000 sched-entry S 2 700000");
    lane.fill(T, 10, 1, meta(1250, 0));
    assert_eq!(lane.take(at(291)), Out::Wait(at(1000)));
    assert_eq!(lane.ids(at(1290), 9), [10], "it ends as the gate closes");
}

#[test]
fn an_opening_has_the_bytes_that_the_link_carries_in_it() {
    let mut lane = lane("sched-entry S 1 20000 sched-entry S 0 980000");
    // 20 us are 2500 bytes.
    lane.fill(T, 10, 5, meta(1000, 0));
    assert_eq!(lane.ids(T, 9), [10, 11]);
    assert_eq!(lane.ids(at(1000), 9), [12, 13]);
    assert_eq!(lane.ids(at(5000), 9), [14]);
}

#[test]
fn a_gate_that_stays_open_has_no_bounds() {
    let mut lane = lane("sched-entry S 3 1000 sched-entry S 2 1000");
    lane.fill(T, 20, 100, meta(1500, 1));
    assert_eq!(lane.ids(T, 999).len(), 100);
    assert_eq!(lane.put(T, 10, meta(126, 0)), Admitted::Dropped(DropReason::Oversize));
    assert_eq!(lane.put(T, 11, meta(125, 0)), Admitted::Queued);
}

#[test]
fn the_higher_class_goes_first_and_queues_take_turns() {
    let mut lane = lane("sched-entry S 0 500000 sched-entry S 3 500000");
    lane.fill(T, 10, 2, meta(500, 0));
    lane.fill(T, 20, 2, meta(500, 1));
    let mut other = meta(500, 1);
    other.queue = 2;
    lane.fill(T, 30, 2, other);
    assert_eq!(lane.ids(at(500), 99), [20, 30, 21, 31, 10, 11]);
}

/// taprio-queue
#[test]
fn a_packet_waits_in_a_queue_of_its_own_class() {
    let mut lane = lane("sched-entry S 1 300000 sched-entry S 2 700000");
    let mut wrong = meta(500, 0);
    for queue in [1, 3] {
        wrong.queue = queue;
        lane.fill(T, queue.into(), 1, wrong);
    }
    assert_eq!(lane.ids(T, 9), [1, 3]);
}

#[test]
fn a_class_whose_gate_never_opens_waits_for_ever() {
    let mut lane = lane("sched-entry S 1 300000 sched-entry S 0 700000");
    lane.fill(T, 20, 1, meta(500, 1));
    assert_eq!(lane.take(T), Out::Wait(Instant::MAX));
}

/// taprio-stuck. Without a rate a byte takes 800 ns, and before the schedule all gates are open.
#[test]
fn a_frame_that_no_opening_is_long_enough_for_is_dropped_when_the_schedule_begins() {
    let env = Env { link_rate: None, ..env() };
    let base = at(5000).0;
    let words = format!("{CLASSES} base-time {base} sched-entry S 1 500000 sched-entry S 0 500000");
    let mut lane = Lane::on(env, "taprio", &words);
    lane.fill(T, 1, 1, meta(1000, 0));
    lane.fill(T, 2, 1, meta(100, 0));
    assert_eq!(lane.ids(at(5000), 9), [2]);
    assert_eq!(lane.drops(), [(1, DropReason::Oversize)]);
}

/// The schedule has begun since the last call. A super-packet of twelve segments of 1000 bytes is
/// longer than an opening of 6250 bytes, and its segments are not: they come one by one, as in
/// Linux.
#[test]
fn the_first_super_packet_of_a_schedule_is_cut_like_the_later_ones() {
    let words = "sched-entry S 1 50000 sched-entry S 2 950000";
    let mut lane = Lane::on(env(), "taprio", &format!("{CLASSES} {words}"));
    let m = meta(50 + 12 * 950, 0).gso(50, 950);
    for now in [T, at(1000)] {
        assert!(matches!(lane.put(now, 1, m), Admitted::Cut(1, 1000)), "{now:?}");
    }
    let later = format!("{CLASSES} base-time {} {words}", at(5000).0);
    let mut lane = Lane::on(env(), "taprio", &later);
    assert!(matches!(lane.put(T, 1, m), Admitted::Queued), "all gates are open");
    assert!(matches!(lane.put(at(5000), 2, m), Admitted::Cut(2, 1000)));
    assert_eq!(lane.drops(), []);
}

/// taprio-stuck: 6200 bytes fit into an opening of 6250, but seven segments have six more headers.
#[test]
fn a_super_packet_is_as_long_as_its_segments() {
    let mut lane = lane("sched-entry S 1 50000 sched-entry S 2 950000");
    let whole = meta(6200, 0).gso(50, 950);
    assert_eq!((whole.segs, whole.wire_len), (7, 6500));
    assert!(matches!(lane.put(T, 1, whole), Admitted::Cut(1, 1000)));
    assert_eq!(lane.put(T, 1, meta(6200, 0)), Admitted::Queued);
}

/// The size is that of the packet without its link header of 14 bytes. A class without one has no
/// bound but its openings.
#[test]
fn a_packet_above_the_size_of_its_class_is_dropped_as_it_comes() {
    let mut lane = lane("max-sdu 0 500 sched-entry S 1 300000 sched-entry S 3 700000");
    assert_eq!(lane.put(T, 1, meta(514, 1)), Admitted::Queued);
    assert_eq!(lane.put(T, 2, meta(515, 1)), Admitted::Dropped(DropReason::Oversize));
    assert_eq!(lane.put(T, 3, meta(1514, 0)), Admitted::Queued);
    let super_packet = meta(50 + 3 * 450, 1).gso(50, 450);
    assert_eq!(lane.put(T, 4, super_packet), Admitted::Cut(4, 500));
    assert_eq!(lane.put(T, 5, super_packet.priority(0)), Admitted::Queued);
}

/// taprio-sdu. Sizes of classes that are not there are left out; a change keeps those that it does
/// not name.
#[test]
fn sizes_of_classes_stay_where_a_change_leaves_them_out() {
    let mut lane = lane("max-sdu 900 500 300 fp E E sched-entry S 3 1000000");
    let words: Vec<&str> = "clockid TAI max-sdu 700 sched-entry S 3 1000000".split(' ').collect();
    let mut sizes = Vec::new();
    let mut note = |lane: &Lane| {
        lane.path.tree().root().qdisc().options(&mut |o| {
            if matches!(o.param.key, "max_sdu" | "fp") && o.value.is_set() {
                sizes.push(txweir_core::text::value::text_of(o.value));
            }
        });
    };
    note(&lane);
    let done = lane.path.configure(T, &mut lane.dev, |tree, cx| {
        let words = &mut txweir_core::text::value::Words::new(&words);
        tree.edit(cx).change(txweir_core::Handle::ROOT, None, words)
    });
    done.unwrap();
    note(&lane);
    assert_eq!(sizes, ["900 500", "700 500"]);
    assert_eq!(lane.put(T, 1, meta(800, 0)), Admitted::Queued, "the old schedule still runs");
    assert_eq!(lane.put(at(2000), 2, meta(800, 0)), Admitted::Dropped(DropReason::Oversize));
    assert_eq!(lane.put(at(2000), 3, meta(714, 0)), Admitted::Queued);
}

/// taprio-change
#[test]
fn the_old_schedule_runs_until_the_new_one_begins() {
    let mut lane = lane("sched-entry S 1 300000 sched-entry S 2 700000");
    let base = at(2100).0;
    let change = |lane: &mut Lane, words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        lane.path.configure(T, &mut lane.dev, |tree, cx| {
            let words = &mut txweir_core::text::value::Words::new(&words);
            tree.edit(cx).change(txweir_core::Handle::ROOT, None, words)
        })
    };
    let new = format!("clockid TAI base-time {base} sched-entry S 2 100000 sched-entry S 1 100000");
    change(&mut lane, &new).unwrap();
    lane.fill(T, 10, 1, meta(500, 0));
    lane.fill(T, 20, 1, meta(500, 1));
    assert_eq!(lane.ids(at(50), 9), [10]);
    assert_eq!(lane.ids(at(350), 9), [20]);
    lane.fill(at(1990), 11, 1, meta(500, 0));
    lane.fill(at(1990), 21, 1, meta(500, 1));
    // The old one again from 2000 on, the new one from 2100 on.
    assert_eq!(lane.ids(at(1990), 9), [21]);
    assert_eq!(lane.ids(at(2010), 9), [11]);
    lane.fill(at(2010), 22, 1, meta(500, 1));
    assert_eq!(lane.take(at(2010)), Out::Wait(at(2100)));
    assert_eq!(lane.ids(at(2100), 9), [22]);
    let err = change(&mut lane, "clockid TAI num_tc 1 queues 1@0 sched-entry S 1 1000").unwrap_err();
    assert_eq!((err.kind, err.key.as_deref()), (ErrorKind::Unsupported, Some("num_tc")));
}

#[test]
fn an_entry_is_extended_up_to_a_new_schedule() {
    let entries = [Entry { open: 1, ns: 300 }, Entry { open: 2, ns: 700 }];
    let byte = ByteTime::of_rate(1_000_000_000);
    let old = Schedule::new(&entries, 0, 500, 0, Instant(0)).unwrap();
    let mut gates = Gates::new(byte, Some(old));
    assert!(gates.advance(Instant(1000)));
    gates.plan(Schedule::new(&entries[..1], 0, 0, 3400, Instant(1000)).unwrap());
    // The cycle that would begin at 3000 does not: the last entry is extended.
    let open: Vec<u32> = [2000, 2299, 2300, 2999, 3000, 3299, 3399, 3400]
        .map(|t| {
            gates.advance(Instant(t));
            gates.open()
        })
        .into();
    assert_eq!(open, [1, 1, 2, 2, 2, 2, 2, 1]);
}

/// taprio-graft
#[test]
fn a_qdisc_in_a_class_leaves_the_schedule() {
    let mut lane = lane("sched-entry S 1 300000 sched-entry S 2 700000");
    lane.fill(T, 20, 1, meta(500, 1));
    lane.graft(at(10), txweir_core::Handle::new(0x8001, 1), "pfifo", "limit 2");
    lane.fill(at(10), 10, 1, meta(500, 0));
    assert_eq!(lane.ids(at(10), 9), [10]);
    assert_eq!(lane.take(at(10)), Out::Wait(at(300)));
    assert_eq!(lane.ids(at(300), 9), [20]);
}

/// taprio-drops
#[test]
fn a_drop_behind_a_gate_is_counted() {
    let mut lane = lane("sched-entry S 1 300000 sched-entry S 2 700000");
    lane.graft(T, txweir_core::Handle::new(0x8001, 2), "pfifo", "limit 2");
    for id in 20..25 {
        let _ = lane.put(T, id, meta(500, 1));
    }
    let books = lane.root().books();
    assert_eq!((books.dropped.packets, books.queued.packets), (3, 2));
}

/// taprio-pending, taprio-same-change
#[test]
fn the_schedule_to_come_is_listed() {
    let mut lane = lane("sched-entry S 1 300000 sched-entry S 2 700000");
    let new = format!("{CLASSES} base-time {} sched-entry S 3 1000", at(5000).0);
    let words: Vec<&str> = new.split(' ').collect();
    lane.path
        .configure(T, &mut lane.dev, |tree, cx| {
            let words = &mut txweir_core::text::value::Words::new(&words);
            tree.edit(cx).change(txweir_core::Handle::ROOT, None, words)
        })
        .unwrap();
    let mut entries = String::new();
    lane.root().qdisc().options(&mut |s| {
        if s.param.key == "sched_entry" {
            entries = txweir_core::text::value::exact_of(s.value);
        }
    });
    assert_eq!(entries, "S 0x3 1000");
}

/// Law of the schedule: after any silence the gates are those of a walk from entry to entry.
#[test]
fn silence_costs_no_walk_and_changes_nothing() {
    let mut rng = Rng::new(11);
    for round in 0..300 {
        let count = 1 + rng.below(6) as usize;
        let entries: Vec<Entry> =
            (0..count).map(|_| Entry { open: rng.below(8) as u32, ns: 1 + rng.below(900) as u32 }).collect();
        let sum: u64 = entries.iter().map(|entry| u64::from(entry.ns)).sum();
        let cycle = [0, sum, 1 + sum * 2 / 3, sum + 77][rng.below(4) as usize];
        let schedule = Schedule::new(&entries, cycle, 0, rng.below(5000), Instant(100)).unwrap();
        let byte = ByteTime::of_rate(1_000_000_000);
        let (mut far, mut near) =
            (Gates::new(byte, Some(schedule.clone())), Gates::new(byte, Some(schedule)));
        let mut now = 0;
        for _ in 0..20 {
            let to = now + rng.below(20 * sum);
            while now < to {
                now += 1 + rng.below(sum.min(to - now));
                near.advance(Instant(now));
            }
            far.advance(Instant(now));
            assert_eq!((far.open(), far.next_opening(3)), (near.open(), near.next_opening(3)), "{round}");
            assert_eq!(far.cycle(), near.cycle(), "{round}");
            for tc in 0..3 {
                assert_eq!(far.clone().pass(tc, 60, Instant(now)), near.clone().pass(tc, 60, Instant(now)));
            }
        }
    }
}

/// A cycle that cuts its entries off, after a silence of a billion of them.
#[test]
fn a_cut_cycle_comes_again_after_any_silence() {
    let entries = [Entry { open: 1, ns: 300 }, Entry { open: 2, ns: 700 }];
    for cycles in [2, 20, 1_000_000_000] {
        let schedule = Schedule::new(&entries, 500, 0, 0, Instant(0)).unwrap();
        let mut gates = Gates::new(ByteTime::of_rate(1_000_000_000), Some(schedule));
        let open = [0, 299, 300, 499].map(|ns| {
            gates.advance(Instant(cycles * 500 + ns));
            gates.open()
        });
        assert_eq!(open, [1, 1, 2, 2], "{cycles}");
    }
}

#[test]
fn a_schedule_whose_start_is_over_begins_with_the_next_cycle() {
    let start = |base, now| {
        let entries = [Entry { open: 1, ns: 1000 }];
        Schedule::new(&entries, 0, 0, base, Instant(now)).unwrap().start()
    };
    assert_eq!(start(0, 1500), Instant(2000));
    assert_eq!(start(0, 2000), Instant(3000));
    assert_eq!(start(5000, 1500), Instant(5000));
}

/// Both classes share the bytes that the link carries while their gates are open.
#[test]
fn a_frame_takes_its_bytes_from_all_classes() {
    let mut lane = lane("sched-entry S 3 20000 sched-entry S 0 980000");
    lane.fill(T, 10, 1, meta(1000, 0));
    lane.fill(T, 20, 2, meta(1000, 1));
    // 20 us are 2500 bytes.
    assert_eq!(lane.ids(T, 9), [20, 21]);
    assert_eq!(lane.ids(at(1000), 9), [10]);
}

/// An opening ends when its gate closes, and has no part of the next one: 10 us are 1250 bytes.
#[test]
fn an_opening_ends_with_the_first_entry_that_closes_its_gate() {
    let mut lane = lane("sched-entry S 1 10000 sched-entry S 2 500000 sched-entry S 1 490000");
    lane.fill(T, 10, 1, meta(1500, 0));
    assert_eq!(lane.take(T), Out::Wait(at(510)));
    assert_eq!(lane.ids(at(510), 9), [10]);
}

#[test]
fn what_taprio_refuses() {
    let made = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let config = txweir_core::PathConfig { env: env(), bql: None, ..Default::default() };
        let path = txweir_core::TxPath::<u32>::new(config).unwrap();
        path.with_qdisc("taprio", &words).map(|_| ()).map_err(|e| (e.kind, e.key.unwrap_or_default()))
    };
    let entry = "sched-entry S 1 300000";
    assert_eq!(made(&format!("{CLASSES} {entry}")), Ok(()));
    for (words, kind, key) in [
        (format!("queues 1@0 clockid TAI {entry}"), ErrorKind::Missing, "num_tc"),
        (format!("num_tc 2 map 0 1 queues 1@0 1@1 {entry}"), ErrorKind::Missing, "clockid"),
        (CLASSES.into(), ErrorKind::Missing, "sched-entry"),
        (format!("num_tc 2 map 0 2 queues 1@0 1@1 clockid TAI {entry}"), ErrorKind::OutOfRange, "map"),
        (format!("num_tc 2 map 0 1 queues 1@0 clockid TAI {entry}"), ErrorKind::OutOfRange, "queues"),
        (format!("num_tc 2 map 0 1 queues 2@0 1@1 clockid TAI {entry}"), ErrorKind::OutOfRange, "queues"),
        (format!("num_tc 5 queues 1@0 clockid TAI {entry}"), ErrorKind::OutOfRange, "num_tc"),
        (format!("{CLASSES} sched-entry S 1 479"), ErrorKind::OutOfRange, "sched-entry"),
        (format!("{CLASSES} {entry} cycle-time 479"), ErrorKind::Conflict, "cycle-time"),
        (format!("{CLASSES} {entry} flags 1"), ErrorKind::Unsupported, "flags"),
        (format!("{CLASSES} sched-entry H 1 300000"), ErrorKind::BadValue, "sched-entry"),
        (format!("{CLASSES} max-sdu 65536 {entry}"), ErrorKind::OutOfRange, "max-sdu"),
        (format!("{CLASSES} max-sdu {entry}"), ErrorKind::BadValue, "max-sdu"),
        (format!("{CLASSES} max-sdu {}{entry}", "9 ".repeat(17)), ErrorKind::BadValue, "max-sdu"),
        (format!("{CLASSES} fp E P {entry}"), ErrorKind::Unsupported, "fp"),
    ] {
        assert_eq!(made(&words), Err((kind, key.to_string())), "{words}");
    }
}

/// taprio-link-rate
#[test]
fn a_link_without_a_rate_counts_as_ten_megabits_for_taprio() {
    let env = Env { link_rate: None, ..env() };
    let mut lane =
        Lane::on(env, "taprio", &format!("{CLASSES} sched-entry S 1 500000 sched-entry S 0 500000"));
    assert_eq!(lane.take(T), Out::Nothing);
    // A byte takes 800 ns.
    assert_eq!(lane.put(T, 1, meta(626, 0)), Admitted::Dropped(DropReason::Oversize));
    assert_eq!(lane.put(T, 2, meta(625, 0)), Admitted::Queued);
    assert_eq!(lane.take(T + Nanos(1)), Out::Wait(at(1000)));
    assert_eq!(lane.ids(at(1000), 9), [2]);
}

/// The cycle that runs, as it is drawn: its begin, and its entries with their times in it.
#[test]
fn the_present_cycle_has_its_begin_and_its_entries() {
    let entries = [(1, 300), (2, 200)].map(|(open, ns)| Entry { open, ns });
    let cycle = |length: u64, now: u64| {
        let schedule = Schedule::new(&entries, length, 0, 50, Instant(0)).unwrap();
        let mut gates = Gates::new(ByteTime::of_rate(1_000_000_000), Some(schedule));
        gates.advance(Instant(60));
        gates.advance(Instant(now));
        let cycle = gates.cycle().unwrap();
        let of = |(from, entry): (Nanos, Entry)| (from.0, entry.open, entry.ns);
        (cycle.begin.0, cycle.length.0, cycle.entries().map(of).collect::<Vec<_>>())
    };
    let whole = vec![(0, 1, 300), (300, 2, 200)];
    assert_eq!(cycle(0, 60), (50, 500, whole.clone()));
    assert_eq!(cycle(0, 549), (50, 500, whole.clone()));
    assert_eq!(cycle(0, 550), (550, 500, whole.clone()));
    // Over many cycles at once, and with a cycle that is longer than its entries.
    assert_eq!(cycle(0, 1_000_049), (999_550, 500, whole.clone()));
    assert_eq!(cycle(900, 1_000_049), (999_550, 500, whole));
    assert_eq!(cycle(400, 851), (850, 400, vec![(0, 1, 300), (300, 2, 100)]));
    assert_eq!(cycle(300, 851), (650, 300, vec![(0, 1, 300)]), "the second entry is never entered");
    let later = Schedule::new(&entries, 0, 0, 50, Instant(0));
    assert_eq!(Gates::new(ByteTime::of_rate(1), later).cycle(), None);
}

/// A launch time is for the qdisc of the queue alone.
#[test]
fn gates_do_not_look_at_a_launch_time() {
    let mut lane = lane("sched-entry S 1 300000 sched-entry S 2 700000");
    let at_closed_gate = meta(1000, 0).txtime(at(500));
    assert_eq!(lane.put(T, 10, at_closed_gate), Admitted::Queued);
    assert_eq!(lane.ids(T, 9), [10]);
}

/// The shaper has named a time beyond the next openings, and a change fills its bucket.
#[test]
fn a_qdisc_that_is_changed_behind_a_closed_gate_is_asked_at_the_next_opening() {
    let mut lane = lane("sched-entry S 1 300000 sched-entry S 2 700000");
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(T, class, "tbf", "rate 8kbit burst 1000 limit 10000");
    lane.fill(T, 10, 2, meta(1000, 0));
    assert_eq!(lane.ids(T, 9), [10]);
    assert_eq!(lane.take(at(400)), Out::Wait(at(1_000_000)));
    lane.change(at(400), class, "rate 8mbit burst 1000 limit 10000").unwrap();
    assert_eq!(lane.take(at(400)), Out::Wait(at(1000)));
    assert_eq!(lane.ids(at(1000), 9), [11]);
}

/// The packet is for a queue that is not of its class, and waits with the first one that is.
#[test]
fn a_queue_that_starts_while_its_gate_is_closed_is_asked_at_the_next_opening() {
    let mut lane = lane("sched-entry S 1 300000 sched-entry S 2 700000");
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(T, class, "multiq", "");
    let mut m = meta(1000, 0);
    m.queue = 3;
    lane.path.stopped_queues().insert(3);
    lane.fill(T, 10, 1, m);
    assert_eq!(lane.path.drain(T, 1, &mut lane.dev), Wake::Device);
    assert_eq!(lane.take(at(400)), Out::Wait(at(1000)));
    lane.path.stopped_queues().remove(3);
    assert_eq!(lane.take(at(500)), Out::Wait(at(1000)));
    assert_eq!(lane.ids(at(1000), 9), [10]);
}
