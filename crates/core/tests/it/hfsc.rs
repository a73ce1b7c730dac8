//! hfsc: literal schedules of each criterion, the words of curves, and the classes.
//! (`hfsc_model.rs`: a model on random trees. Against Linux 6.12: spec/traces/hfsc.)

use crate::common::lane::{Lane, Out};
use txweir_core::sched::classful::ClassShown;
use txweir_core::text::value::{Words, exact_of, text_of};
use txweir_core::{Admitted, ConfigError, DropReason, Env, Handle, Instant, Meta};

const MS: u64 = 1_000_000;

fn at(minor: u16) -> Handle {
    Handle::new(0x8001, minor)
}

/// Makes a lane with an hfsc and its classes: minor number, the parent or 0, curves.
fn hfsc(options: &str, classes: &[(u16, u16, &str)]) -> Lane {
    let mut lane = Lane::new("hfsc", options);
    for (minor, parent, curves) in classes {
        add(&mut lane, *minor, *parent, curves).unwrap();
    }
    lane
}

fn add(lane: &mut Lane, minor: u16, parent: u16, curves: &str) -> Result<(), ConfigError> {
    let words: Vec<&str> = curves.split_whitespace().collect();
    lane.path.configure(Instant::ZERO, &mut lane.dev, |tree, cx| {
        tree.edit(cx).add_class(at(parent), at(minor), Some("hfsc"), &mut Words::new(&words))
    })
}

fn change(lane: &mut Lane, minor: u16, curves: &str) -> Result<(), ConfigError> {
    let words: Vec<&str> = curves.split_whitespace().collect();
    lane.path.configure(Instant::ZERO, &mut lane.dev, |tree, cx| {
        tree.edit(cx).change_class(None, at(minor), Some("hfsc"), &mut Words::new(&words))
    })
}

fn delete(lane: &mut Lane, minor: u16) -> Result<(), ConfigError> {
    lane.path.configure(Instant::ZERO, &mut lane.dev, |tree, cx| tree.edit(cx).delete_class(at(minor)))
}

/// Queues `n` packets of a class, with numbers from 100 times its minor number.
fn fill(lane: &mut Lane, now: u64, minor: u16, n: u32, len: u32) {
    lane.fill(Instant(now), u32::from(minor) * 100, n, Meta::new(len).priority(at(minor).0));
}

/// Takes all packets that leave until `end`, and returns the time and number of each.
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

/// Returns the numbers of a class: period, work, rtwork, level.
fn numbers(lane: &Lane, minor: u16) -> Vec<i64> {
    let mut found = Vec::new();
    lane.root().qdisc().user_classes().unwrap().list(&mut |class: ClassShown<'_>| {
        if class.at.minor == minor {
            found = class.values.to_vec();
        }
    });
    found
}

/// Returns the options of a class, as tc prints them.
fn options(lane: &Lane, minor: u16) -> String {
    let mut text = String::new();
    lane.root().qdisc().user_classes().unwrap().options(minor, &mut |o| {
        if o.value.is_set() {
            text += &format!("{} {} ", o.param.key, text_of(o.value));
        }
    });
    text.trim_end().into()
}

/// 1000 bytes take 1 ms at 8 Mbit/s. A packet leaves when the service before it was due.
#[test]
fn a_leaf_gets_its_real_time_curve_and_no_more() {
    let mut lane = hfsc("", &[(1, 0, "rt m2 8mbit")]);
    fill(&mut lane, 0, 1, 4, 1000);
    let left = run(&mut lane, 0, 100 * MS);
    assert_eq!(left, [(0, 100), (MS, 101), (2 * MS, 102), (3 * MS, 103)]);
    assert_eq!(numbers(&lane, 1), [0, 4000, 4000, 0]);
}

/// The delay of a packet does not follow from the rate: the leaf of 1 Mbit/s has 1 ms for its first
/// packet, and it leaves ahead of those of the leaf of 8 Mbit/s that came before.
#[test]
fn the_earliest_deadline_goes_first() {
    let mut lane = hfsc("", &[(1, 0, "rt umax 500 dmax 1ms rate 1mbit"), (2, 0, "rt m2 8mbit")]);
    fill(&mut lane, 0, 2, 1, 1500);
    fill(&mut lane, 0, 1, 2, 500);
    // 4 Mbit/s for 1 ms, then 1 Mbit/s.
    assert_eq!(run(&mut lane, 0, 100 * MS), [(0, 100), (0, 200), (MS, 101)]);
}

/// Within 10 ms 8 Mbit/s, then 800 kbit/s; a convex one the other way round.
#[test]
fn a_concave_curve_is_fast_first_and_a_convex_one_slow() {
    let mut lane = hfsc("", &[(1, 0, "rt m1 8mbit d 2ms m2 800kbit"), (2, 0, "rt m1 0bit d 2ms m2 8mbit")]);
    fill(&mut lane, 0, 1, 4, 1000);
    let concave: Vec<u64> = run(&mut lane, 0, 100 * MS).into_iter().map(|(t, _)| t).collect();
    assert_eq!(concave, [0, MS, 2 * MS, 12 * MS]);
    // By a convex curve a leaf becomes eligible along the second slope, and waits for no more.
    fill(&mut lane, 200 * MS, 2, 3, 1000);
    let convex: Vec<u64> = run(&mut lane, 200 * MS, 400 * MS).into_iter().map(|(t, _)| t).collect();
    assert_eq!(convex, [200 * MS, 201 * MS, 202 * MS]);
}

/// tbf-gso-cut: five pieces of 1490 bytes are 7450. A deadline holds the first one outside of the
/// tbf, whose `limit` then has room for the sixth.
#[test]
fn an_hfsc_holds_the_first_piece_of_a_super_packet() {
    let options = "rate 400kbit burst 5000 limit 7500";
    let whole = Meta::new(42 + 6 * 1448).priority(at(1).0).gso(42, 1448);
    let piece = Meta::new(1490).priority(at(1).0);
    let dropped = |lane: &mut Lane| {
        assert!(matches!(lane.put(Instant::ZERO, 9, whole), Admitted::Cut(9, 5000)));
        let answers = (0..6).map(|id| lane.put(Instant::ZERO, id, piece));
        answers.filter(|answer| *answer != Admitted::Queued).collect::<Vec<_>>()
    };
    let mut above = hfsc("", &[(1, 0, "rt m2 8mbit")]);
    above.graft(Instant::ZERO, at(1), "tbf", options);
    assert_eq!(dropped(&mut above), []);
    let mut alone = Lane::new("tbf", options);
    assert_eq!(dropped(&mut alone), [Admitted::Dropped(DropReason::Overlimit)]);
}

#[test]
fn leaves_share_by_their_slopes_what_the_limit_leaves() {
    let classes = [
        (1, 0, "ls m2 8mbit ul m2 8mbit"),
        (2, 1, "ls m2 6mbit"),
        (3, 1, "ls m2 2mbit"),
        (4, 0, "rt m2 80kbit"),
    ];
    let mut lane = hfsc("", &classes);
    for minor in [2, 3] {
        fill(&mut lane, 0, minor, 60, 1000);
    }
    let left = run(&mut lane, 0, 40 * MS);
    let of = |minor: u32| left.iter().filter(|(_, id)| id / 100 == minor).count();
    assert_eq!((left.len(), of(2)), (41, 30));
    assert_eq!(numbers(&lane, 1), [1, 41_000, 0, 1]);
    assert_eq!(numbers(&lane, 0), [0, 0, 0, 2]);
    // A real-time leaf is not below the limit.
    fill(&mut lane, 40 * MS, 4, 1, 1000);
    assert_eq!(lane.take(Instant(40 * MS)).id(), Some(400));
}

/// A leaf that was idle for a second has no more than one that came with it.
#[test]
fn a_pause_is_no_credit() {
    let mut lane =
        hfsc("", &[(1, 0, "ls m2 8mbit ul m2 8mbit"), (2, 1, "ls m2 4mbit"), (3, 1, "ls m2 4mbit")]);
    fill(&mut lane, 0, 2, 100, 1000);
    assert_eq!(run(&mut lane, 0, 50 * MS).len(), 51);
    fill(&mut lane, 50 * MS, 3, 40, 1000);
    let both = run(&mut lane, 50 * MS + 1, 70 * MS);
    assert_eq!(both.iter().filter(|(_, id)| *id >= 300).count(), both.len() / 2);
    // The limit neither: 1 s of silence brings one packet at once.
    let _ = run(&mut lane, 70 * MS, 1000 * MS);
    fill(&mut lane, 2000 * MS, 2, 3, 1000);
    assert_eq!(run(&mut lane, 2000 * MS, 2001 * MS).len(), 2);
}

/// 3254, 9312, bef4 of Linux's own cases are about the same words.
#[test]
fn curves_are_read_in_both_forms_and_cut_short() {
    for (words, shown) in [
        (
            "rt umax 1540 dmax 5ms rate 10000 ls rate 10000",
            "rt m1 2464Kbit d 5ms m2 10Kbit ls m1 0bit d 0us m2 10Kbit",
        ),
        ("rt umax 500 dmax 30ms rate 1mbit", "rt m1 0bit d 26ms m2 1Mbit"),
        ("ls m1 1mbit m2 2mbit", "ls m1 1Mbit d 0us m2 2Mbit"),
        ("sc m 1mbit d 5ms m2 2mbit ul r 5mbit", "sc m1 1Mbit d 5ms m2 2Mbit ul m1 0bit d 0us m2 5Mbit"),
        ("rt d 5ms rate 1mbit", "rt m1 0bit d 5ms m2 1Mbit"),
        ("ls m2 8bit rt m2 8bit", "sc m1 0bit d 0us m2 8bit"),
        ("sc m2 8bit ls m2 16bit", "rt m1 0bit d 0us m2 8bit ls m1 0bit d 0us m2 16bit"),
    ] {
        let lane = hfsc("", &[(1, 0, words)]);
        assert_eq!(options(&lane, 1), shown, "{words}");
        // The form without loss is read back.
        let mut exact = String::new();
        lane.root().qdisc().user_classes().unwrap().options(1, &mut |o| {
            if o.value.is_set() {
                exact += &format!("{} {} ", o.param.key, exact_of(o.value));
            }
        });
        assert_eq!(options(&hfsc("", &[(1, 0, &exact)]), 1), shown, "{exact}");
    }
}

/// The slope of a first packet is rounded up: 1500 bytes in 7 ms are 214 285.7 bytes a second.
#[test]
fn a_first_packet_is_in_time() {
    let lane = hfsc("", &[(1, 0, "rt umax 1500 dmax 7ms rate 1000")]);
    let mut exact = String::new();
    lane.root().qdisc().user_classes().unwrap().options(1, &mut |o| {
        if o.value.is_set() {
            exact += &exact_of(o.value);
        }
    });
    assert_eq!(exact, "m1 214286bps d 7000us m2 125bps");
}

/// hfsc-wide
#[test]
fn impossible_classes_are_refused_with_their_reason() {
    let mut lane = hfsc("default 10", &[(1, 0, "sc m2 1mbit"), (2, 1, "rt m2 1mbit")]);
    let (beside, why) = ("ls or sc beside ul", "an upper limit is one of link-sharing");
    let curve = "a curve ([m1 RATE d TIME] m2 RATE, or [umax SIZE dmax TIME] rate RATE)";
    for (words, said) in [
        ("", "class 8001:9 rt, ls or sc: expected a curve: rt, ls, or sc for both, given nothing".into()),
        ("ul m2 1mbit", format!("class 8001:9 {beside}: expected {beside}, given nothing ({why})")),
        ("rt m2 0bit", "hfsc rt: expected a slope above zero, given \"m2\"".into()),
        ("rt m1 1mbit d 10ms", format!("hfsc rt: expected {curve}, given nothing")),
        ("rt 1mbit", format!("hfsc rt: expected {curve}, given \"1mbit\"")),
        ("rt umax 1500 rate 1mbit", "hfsc rt: expected dmax beside umax, given \"umax\"".into()),
        ("ls m2 35gbit", "hfsc ls: expected at most 4294967295 bytes/s, given \"35gbit\"".into()),
        ("ls m1 1mbit d 4295s m2 1mbit", "hfsc ls: expected at most 4294967295us, given \"4295s\"".into()),
        ("sc m2 1mbit r2q 5", "hfsc: expected one of rt, ls, sc, ul, given \"r2q\"".into()),
    ] {
        let err: ConfigError = add(&mut lane, 9, 0, words).unwrap_err();
        assert_eq!(err.to_string(), said, "{words}");
    }
    let missing = add(&mut lane, 9, 0x77, "rt m2 1mbit").unwrap_err();
    assert_eq!(missing.to_string(), "class 8001:9 parent: expected a class that is there, given \"8001:77\"");
    let inner = delete(&mut lane, 1).unwrap_err();
    assert_eq!(
        inner.to_string(),
        "class 8001:1: expected a class without classes below, given \"some\" (delete those first)"
    );
    // A change that names only a limit lacks the share beside it, as in tc.
    assert!(change(&mut lane, 1, "ul m2 2mbit").is_err());
    assert_eq!(options(&lane, 1), "sc m1 0bit d 0us m2 1Mbit");
}

#[test]
fn a_packet_without_a_leaf_is_dropped() {
    let mut lane = hfsc("default 2", &[(1, 0, "sc m2 1mbit"), (3, 1, "sc m2 1mbit")]);
    for priority in [0, at(1).0, at(9).0, at(0).0] {
        let answer = lane.put(Instant::ZERO, 1, Meta::new(100).priority(priority));
        assert_eq!(answer, Admitted::Dropped(DropReason::NoClass));
    }
    lane.change(Instant::ZERO, Handle::ROOT, "default 3").unwrap();
    assert_eq!(lane.put(Instant::ZERO, 1, Meta::new(100)), Admitted::Queued);
    // A change replaces: without the word there is no default.
    lane.change(Instant::ZERO, Handle::ROOT, "").unwrap();
    assert_eq!(lane.put(Instant::ZERO, 1, Meta::new(100)), Admitted::Dropped(DropReason::NoClass));
}

/// hfsc-inner-qdisc
#[test]
fn a_leaf_becomes_an_inner_class_and_a_leaf_again() {
    let mut lane = hfsc("default 1", &[(1, 0, "rt m2 8mbit")]);
    lane.graft(Instant::ZERO, at(1), "bfifo", "");
    fill(&mut lane, 0, 1, 3, 1000);
    assert!(lane.take(Instant::ZERO).id().is_some());
    add(&mut lane, 2, 1, "ls m2 1mbit").unwrap();
    assert_eq!(lane.drops(), [101, 102].map(|id| (id, DropReason::Purged)));
    // Its real-time curve is its share from now on.
    assert_eq!(options(&lane, 1), "sc m1 0bit d 0us m2 8Mbit");
    assert_eq!(
        lane.put(Instant::ZERO, 1, Meta::new(100).priority(at(1).0)),
        Admitted::Dropped(DropReason::NoClass)
    );
    fill(&mut lane, 0, 2, 2, 1000);
    delete(&mut lane, 2).unwrap();
    assert_eq!((lane.backlog(), numbers(&lane, 1)[3]), (0, 0));
    fill(&mut lane, 50 * MS, 1, 2, 1000);
    // It still shares, and no limit holds that back.
    assert_eq!(run(&mut lane, 50 * MS, 100 * MS), [(50 * MS, 100), (50 * MS, 101)]);
    let mut kinds = Vec::new();
    lane.path.tree().visit(&mut |_, node| kinds.push(node.qdisc().spec().kind));
    assert_eq!(kinds, ["hfsc", "pfifo"], "its own qdisc is gone");
}

/// hfsc-levels
#[test]
fn there_are_eight_levels() {
    let classes: Vec<(u16, u16, &str)> = (1..=8).map(|minor| (minor, minor - 1, "sc m2 1mbit")).collect();
    let mut lane = hfsc("", &classes);
    let err = add(&mut lane, 9, 8, "sc m2 1mbit").unwrap_err();
    assert_eq!(
        err.to_string(),
        "class 8001:9 parent: expected at most 8 levels of classes, given \"one more\""
    );
    fill(&mut lane, 0, 8, 1, 1000);
    assert_eq!(lane.take(Instant::ZERO).id(), Some(800));
    assert_eq!((numbers(&lane, 0)[3], numbers(&lane, 1), numbers(&lane, 8)[3]), (8, vec![1, 1000, 0, 7], 0));
}

/// The qdisc itself is a leaf while it has no classes, and the default is 0.
#[test]
fn without_classes_the_qdisc_is_a_fifo() {
    let env = Env { tx_queue_len: 3, ..Env::default() };
    let mut lane = Lane::on(env, "hfsc", "");
    lane.fill(Instant::ZERO, 1, 3, Meta::new(100));
    assert_eq!(lane.put(Instant::ZERO, 4, Meta::new(100)), Admitted::Dropped(DropReason::Overlimit));
    assert_eq!((lane.take(Instant::ZERO).id(), numbers(&lane, 0)), (Some(1), vec![0; 4]));
    let shown = |lane: &Lane| {
        let mut shown = (0, 0, 0);
        lane.root().qdisc().user_classes().unwrap().list(&mut |class: ClassShown<'_>| {
            shown = (class.sent.packets, class.backlog.packets, class.drops);
        });
        shown
    };
    assert_eq!(shown(&lane), (1, 2, 1));
    // With the first class it is none any more.
    add(&mut lane, 1, 0, "sc m2 1mbit").unwrap();
    assert_eq!(lane.drops(), [(4, DropReason::Overlimit), (2, DropReason::Purged), (3, DropReason::Purged)]);
    assert_eq!(lane.put(Instant::ZERO, 5, Meta::new(100)), Admitted::Dropped(DropReason::NoClass));
    // Another default is a class, which is not there; a packet may name the qdisc.
    let mut lane = Lane::new("hfsc", "default 5");
    assert_eq!(lane.put(Instant::ZERO, 1, Meta::new(100)), Admitted::Dropped(DropReason::NoClass));
    assert_eq!(lane.put(Instant::ZERO, 2, Meta::new(100).priority(at(0).0)), Admitted::Queued);
}

/// hfsc-root
#[test]
fn the_class_at_the_root_is_shown_and_has_no_curves() {
    let mut lane = hfsc("", &[(1, 0, "sc m2 1mbit")]);
    assert!(change(&mut lane, 0, "sc m2 1mbit").is_err());
    assert!(delete(&mut lane, 0).is_err());
    assert_eq!(options(&lane, 0), "");
    let env = Env::default();
    let built = txweir_core::qdisc::kind("hfsc").unwrap().build(&mut Words::new(&["default", "12345"]), &env);
    let said = built.err().map(|e| e.to_string());
    assert_eq!(
        said.as_deref(),
        Some("hfsc default: expected a hexadecimal number up to ffff, given \"12345\"")
    );
}

/// A command that swaps trees keeps the packets, the curves and where they are.
#[test]
fn a_leaf_goes_on_after_its_qdisc_was_replaced() {
    let mut lane =
        hfsc("", &[(1, 0, "ls m2 8mbit ul m2 8mbit"), (2, 1, "sc m2 4mbit"), (3, 1, "ls m2 4mbit")]);
    fill(&mut lane, 0, 2, 10, 1000);
    fill(&mut lane, 0, 3, 10, 1000);
    assert_eq!(run(&mut lane, 0, 4 * MS).len(), 5);
    lane.graft(Instant(4 * MS), at(2), "pfifo", "limit 7");
    fill(&mut lane, 5 * MS, 2, 3, 1000);
    let left = run(&mut lane, 5 * MS, 100 * MS);
    assert_eq!(left.iter().filter(|(_, id)| *id < 300).count(), 3);
    assert_eq!(lane.backlog(), 0);
}

/// A class whose packets are gone with its qdisc leaves, and the others have their turn.
#[test]
fn a_leaf_without_its_packets_stops_no_other() {
    let mut lane = hfsc("", &[(2, 0, "ls m2 8mbit"), (3, 0, "ls m2 8mbit")]);
    fill(&mut lane, 0, 2, 2, 1000);
    fill(&mut lane, 0, 3, 2, 1000);
    lane.graft(Instant::ZERO, at(2), "pfifo", "limit 7");
    assert_eq!(lane.ids(Instant::ZERO, 3), [300, 301]);
}

/// Each time that the limits let no class send is counted.
#[test]
fn a_wait_for_a_limit_is_an_overlimit() {
    let mut lane = hfsc("", &[(1, 0, "ls m2 8mbit ul m2 8mbit")]);
    let overlimits = |lane: &Lane| lane.root().books().overlimits;
    fill(&mut lane, 0, 1, 3, 1000);
    assert_eq!((lane.take(Instant(0)).id(), overlimits(&lane)), (Some(100), 0));
    for n in 1..=2 {
        assert!(matches!(lane.take(Instant(1)), Out::Wait(_)));
        assert_eq!(overlimits(&lane), n);
    }
}

/// The other leaf has its next time while the plug is released: the plug's leaf does not wait for
/// that.
#[test]
fn a_plug_in_a_leaf_is_released_at_any_time() {
    let mut lane = hfsc("", &[(1, 0, "ls m2 8mbit"), (2, 0, "rt m2 8mbit")]);
    lane.graft(Instant::ZERO, at(1), "plug", "limit 30000");
    fill(&mut lane, 0, 2, 2, 1000);
    fill(&mut lane, 0, 1, 2, 1000);
    assert_eq!(lane.ids(Instant::ZERO, 9), [200]);
    lane.change(Instant(MS / 2), at(1), "release_indefinite").unwrap();
    assert_eq!(lane.ids(Instant(MS / 2), 9), [100, 101]);
    assert_eq!(run(&mut lane, MS / 2, 9 * MS), [(MS, 201)]);
}

/// hfsc-held
#[test]
fn a_leaf_that_holds_back_holds_all_until_its_time() {
    let mut lane = hfsc("", &[(1, 0, "ls m2 8mbit"), (2, 0, "rt m2 8mbit")]);
    lane.graft(Instant::ZERO, at(1), "tbf", "rate 800kbit burst 1000 limit 10000");
    fill(&mut lane, 0, 2, 2, 1000);
    fill(&mut lane, 0, 1, 2, 1000);
    assert_eq!(lane.ids(Instant::ZERO, 2), [200, 100]);
    // The second packet of the real-time leaf is eligible after 1 ms.
    for now in [0, 2 * MS, 9 * MS] {
        assert_eq!(lane.take(Instant(now)), Out::Wait(Instant(10 * MS)));
    }
    lane.fill(Instant(9 * MS), 300, 1, Meta::new(100).priority(at(2).0));
    assert_eq!(lane.take(Instant(9 * MS)).id(), Some(201));
}

/// hfsc-held, until the qdisc in the leaf is changed.
#[test]
fn a_change_of_the_qdisc_in_a_leaf_ends_its_wait() {
    let mut lane = hfsc("", &[(1, 0, "ls m2 8mbit")]);
    lane.graft(Instant::ZERO, at(1), "tbf", "rate 800kbit burst 1000 limit 10000");
    fill(&mut lane, 0, 1, 2, 1000);
    assert_eq!(lane.ids(Instant::ZERO, 2), [100]);
    assert_eq!(lane.take(Instant(MS)), Out::Wait(Instant(10 * MS)));
    lane.change(Instant(MS), at(1), "rate 8mbit burst 1000 limit 10000").unwrap();
    assert_eq!(lane.take(Instant(MS)).id(), Some(101));
}
