//! red against literal averages, drops and marks, and its corners.

use crate::common::lane::{Lane, Out};
use txweir_core::text::value::{Words, exact_of};
use txweir_core::{Admitted, DropReason, Ecn, Env, ErrorKind, Handle, Instant, Meta, Tree, sched::cx::Cx};

/// The average follows at half the distance: from zero, with 1000 bytes more each time.
const FAST: &str = "limit 20000 min 2000 max 2001 avpkt 1000 burst 2";

/// Returns the fates of packets of 1000 bytes that came at once.
fn burst(options: &str, packets: u32, ecn: Ecn) -> (Lane, Vec<Option<DropReason>>) {
    let mut lane = Lane::new("red", options);
    let put = |id| match lane.put(Instant::ZERO, id, Meta::new(1000).ecn(ecn)) {
        Admitted::Dropped(reason) => Some(reason),
        _ => None,
    };
    let answers = (0..packets).map(put).collect();
    (lane, answers)
}

fn counters(lane: &Lane) -> [(&'static str, u64); 4] {
    ["marked", "early", "pdrop", "other"].map(|key| (key, lane.counter(key)))
}

#[test]
fn packets_are_dropped_from_max_on() {
    // The weight is 1/2: averages 0, 500, 1250, 2125 and then 2562 while the queue stands at 3000.
    let (lane, answers) = burst(FAST, 6, Ecn::Ect0);
    const DROP: Option<DropReason> = Some(DropReason::Congested);
    assert_eq!(answers, [None, None, None, DROP, DROP, DROP]);
    assert_eq!(counters(&lane), [("marked", 0), ("early", 3), ("pdrop", 0), ("other", 0)]);
    assert_eq!(lane.path.tree().root().books().overlimits, 3);
}

#[test]
fn marks_stand_for_drops_where_they_can() {
    let early = |options: &str, ecn| {
        let (lane, answers) = burst(&format!("{FAST} {options}"), 8, ecn);
        (counters(&lane)[0].1, counters(&lane)[1].1, answers.iter().flatten().count())
    };
    assert_eq!(early("ecn", Ecn::Ect0), (5, 0, 0));
    assert_eq!(early("ecn", Ecn::NotEct), (0, 5, 5));
    assert_eq!(early("ecn nodrop", Ecn::NotEct), (0, 0, 0));
    assert_eq!(early("ecn harddrop", Ecn::Ect0), (0, 5, 5));
    assert_eq!(early("ecn harddrop nodrop", Ecn::NotEct), (0, 5, 5));
    assert_eq!(early("", Ecn::Ect0), (0, 5, 5));
}

#[test]
fn the_limit_is_that_of_its_fifo() {
    let (lane, answers) = burst("limit 4000 min 2000 max 3000 avpkt 1000 burst 500", 6, Ecn::NotEct);
    assert_eq!(answers[3..], [None, Some(DropReason::Overlimit), Some(DropReason::Overlimit)]);
    assert_eq!(counters(&lane)[2], ("pdrop", 2));
}

/// The qdisc in the class drops four packets of the longest flow for a packet that comes. That one
/// was refused if it is of the same flow, as in Linux.
#[test]
fn a_drop_of_another_flow_in_the_class_is_no_refusal() {
    let mut lane = Lane::new("red", "limit 1mb min 300000 max 900000 avpkt 1000 burst 500");
    let class = Handle::new(lane.root().handle().major(), 1);
    lane.graft(Instant::ZERO, class, "fq_codel", "limit 8 drop_batch 4");
    let [long, other] = [1, 9].map(|flow| Meta::new(1000).hash(flow << 22));
    lane.fill(Instant::ZERO, 0, 8, long);
    lane.fill(Instant::ZERO, 10, 1, other);
    assert_eq!((lane.drops().len(), lane.counter("pdrop")), (4, 0));
    lane.fill(Instant::ZERO, 20, 4, long);
    assert_eq!((lane.drops().len(), lane.counter("pdrop")), (4, 1));
}

#[test]
fn between_min_and_max_a_share_is_dropped() {
    // The average stands at 8000 of 4000 to 12 000: half of the probability, of gaps uniform on 1
    // to 1/p = 20.
    let mut lane = Lane::new("red", "limit 1mb min 4000 max 12000 avpkt 1000 burst 8 probability 0.1 ecn");
    let (mut now, mut marked) = (Instant::ZERO, 0);
    for id in 0..8 {
        let _ = lane.put(now, id, Meta::new(1000));
    }
    for id in 8..40_008 {
        now.0 += 1_000_000;
        let _ = lane.put(now, id, Meta::new(1000).ecn(Ecn::Ect0));
        let Out::Sent(_, m) = lane.take(now) else { panic!() };
        marked += u32::from(m.marked);
    }
    let mean = 40_000.0 / f64::from(marked);
    assert!((mean - 10.5).abs() < 0.5, "{mean}");
}

/// red-adaptive. The average stands above the middle of `min` and `max`: the probability rises
/// each half second, and with it the share of marks.
#[test]
fn adaptive_moves_the_probability() {
    let marked = |adaptive: &str| {
        let options = "limit 1mb min 4000 max 12000 avpkt 1000 burst 8 probability 0.02 ecn";
        let mut lane = Lane::new("red", &format!("{options} {adaptive}"));
        let (mut now, mut marked) = (Instant::ZERO, 0);
        for id in 0..11 {
            let _ = lane.put(now, id, Meta::new(1000));
        }
        for id in 11..20_011 {
            now.0 += 1_000_000;
            let _ = lane.put(now, id, Meta::new(1000).ecn(Ecn::Ect0));
            let Out::Sent(_, m) = lane.take(now) else { panic!() };
            marked += u32::from(m.marked);
        }
        marked
    };
    let (fixed, adaptive) = (marked(""), marked("adaptive"));
    assert!(fixed < 1000 && adaptive > 3 * fixed, "{fixed} {adaptive}");
}

/// red-own-child.
#[test]
fn a_qdisc_added_below_red_survives_a_change() {
    let mut lane = Lane::new("red", "limit 20000 avpkt 100");
    let change = |lane: &mut Lane, limit: &str| {
        lane.path
            .configure(Instant::ZERO, &mut lane.dev, |tree, cx| {
                tree.edit(cx).change(Handle::ROOT, None, &mut Words::new(&["limit", limit, "avpkt", "100"]))
            })
            .unwrap();
    };
    for id in 0..3 {
        assert_eq!(lane.put(Instant::ZERO, id, Meta::new(100)), Admitted::Queued);
    }
    // Its own FIFO is a new one, as in Linux.
    change(&mut lane, "30000");
    assert_eq!((lane.path.backlog().packets, lane.path.cx().drops(DropReason::Purged)), (0, 3));
    lane.path
        .configure(Instant::ZERO, &mut lane.dev, |tree, cx| {
            let class = Handle::new(tree.root().handle().major(), 1);
            tree.edit(cx).add(class, Some(Handle::new(5, 0)), "pfifo", &mut Words::new(&["limit", "9"]))
        })
        .unwrap();
    for id in 3..6 {
        assert_eq!(lane.put(Instant::ZERO, id, Meta::new(100)), Admitted::Queued);
    }
    change(&mut lane, "40000");
    let mut kinds = Vec::new();
    lane.path
        .tree()
        .visit(&mut |_, node| kinds.push((node.qdisc().spec().kind, node.books().queued.packets)));
    assert_eq!(kinds, [("red", 3), ("pfifo", 3)]);
}

/// red-idle-child: a shaper in the class answers "not yet" and the queue is not idle: the average
/// follows it.
#[test]
fn a_child_that_holds_packets_back_is_not_idle() {
    let mut lane = Lane::new("red", FAST);
    lane.path
        .configure(Instant::ZERO, &mut lane.dev, |tree, cx| {
            let words = ["rate", "8mbit", "burst", "1000", "limit", "100000"];
            let class = Handle::new(tree.root().handle().major(), 1);
            tree.edit(cx).add(class, None, "tbf", &mut Words::new(&words))
        })
        .unwrap();
    let mut drops = 0;
    for id in 0..20 {
        let now = Instant(u64::from(id) * 1000);
        drops += u32::from(matches!(lane.put(now, id, Meta::new(1000)), Admitted::Dropped(_)));
        let _ = lane.take(now);
    }
    // The first packet has left; then averages are 0, 500, 1250, and above 2001 for all others.
    assert_eq!(drops, 16);
}

#[test]
fn an_idle_queue_is_forgotten_with_time() {
    // 1000 bytes at 1 Mbit/s are 8 ms, 125 000 grains; the weight is 1/2.
    let run = |idle_ms: u64| {
        let options = format!("{FAST} bandwidth 1mbit");
        let mut lane = Lane::new("red", &options);
        for id in 0..4 {
            let _ = lane.put(Instant::ZERO, id, Meta::new(1000));
        }
        while lane.take(Instant::ZERO).id().is_some() {}
        let now = Instant::from_millis(idle_ms);
        let answers = (0..3).map(|id| lane.put(now, id, Meta::new(1000)));
        answers.filter(|a| matches!(a, Admitted::Dropped(_))).count()
    };
    assert_eq!((run(0), run(30), run(3000)), (1, 0, 0));
}

/// red-probability.
#[test]
fn a_probability_is_at_most_one() {
    let add = |p: &str| {
        let (mut tree, mut cx) = (Tree::new(Env::default()), Cx::new(1, 0));
        let words = ["limit", "1mb", "avpkt", "1000", "probability", p];
        tree.edit(&mut cx).add(Handle::ROOT, None, "red", &mut Words::new(&words)).map_err(|e| e.kind)?;
        let mut shown = String::new();
        tree.root().qdisc().options(&mut |o| {
            if o.param.key == "probability" {
                shown = exact_of(o.value);
            }
        });
        Ok::<_, ErrorKind>(shown)
    };
    assert_eq!(add("1.5"), Err(ErrorKind::OutOfRange));
    assert_eq!(add("0.5"), Ok("0.5".into()));
    // A probability that does not fit the kernel's 32 bits: the value is the one that tc computes.
    assert_eq!(add("1").map(|p| p[..6].to_string()), Ok("0.6666".into()));
    assert_eq!(add("0.000001"), Err(ErrorKind::OutOfRange));
}

/// red-adaptive.
#[test]
fn the_probability_shown_is_the_one_given() {
    let mut lane = Lane::new("red", "limit 1mb min 3000 max 9000 avpkt 1000 burst 6 adaptive");
    for id in 0..100 {
        let _ = lane.put(Instant::from_millis(u64::from(id) * 100), id, Meta::new(1000));
    }
    let mut shown = None;
    lane.path.tree().root().qdisc().options(&mut |o| {
        if o.param.key == "probability" {
            shown = Some(exact_of(o.value));
        }
    });
    assert_eq!(shown.as_deref(), Some("0.02"));
}
