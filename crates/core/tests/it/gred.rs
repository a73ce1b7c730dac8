//! gred: the queue of a packet, its average beside those of others, and what commands leave of it.
//! (`law::red` tests the law. Against Linux 6.12: spec/traces/gred.)

use crate::common::lane::Lane;
use txweir_core::law::red::weight_for_burst;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, DropReason, Ecn, Env, Handle, Instant, Meta, Nanos, qdisc::kind};

const T0: Instant = Instant::ZERO;
/// An average that follows the queue at once, and is above 3000 bytes or not.
const LOW: &str = "limit 90000 min 3000 max 3001 avpkt 1000 burst 3";
/// The same above 30 000 bytes.
const HIGH: &str = "limit 90000 min 30000 max 30001 avpkt 1000 burst 30";

/// A packet of 1000 bytes whose class has this minor number.
fn of(minor: u16) -> Meta {
    let mut m = Meta::new(1000);
    m.class = Handle::new(9, minor);
    m
}

fn gred(setup: &str, queues: &[&str]) -> Lane {
    let mut lane = Lane::new("gred", &format!("setup {setup}"));
    for queue in queues {
        lane.change(T0, Handle::ROOT, queue).unwrap_or_else(|e| panic!("{queue}: {e}"));
    }
    lane
}

/// Packets that came to a queue, and its drops and marks: forced, by chance, at the limit.
fn counts(lane: &Lane, queue: &str) -> [u64; 4] {
    ["packets", "forced_drop", "forced_mark", "pdrop"].map(|key| lane.part(queue, key))
}

fn options(lane: &Lane) -> String {
    let mut words = Vec::new();
    lane.root().qdisc().options(&mut |o| {
        if o.value.is_set() {
            words.extend(o.word.map(String::from));
            if !o.param.flag {
                words.push(txweir_core::text::value::exact_of(o.value));
            }
        }
    });
    words.join(" ")
}

#[test]
fn the_low_bits_of_the_class_choose_the_queue() {
    let mut lane =
        gred("vqs 8 default 3", &[&format!("vq 1 {HIGH}"), &format!("vq 2 {HIGH}"), &format!("vq 3 {HIGH}")]);
    // 17 and 0xfff1 are 1 in four bits; 5 has no parameters, 14 is beyond the number of queues.
    for (id, minor) in (0..).zip([1, 17, 0xfff1, 2, 3, 5, 14, 0]) {
        assert_eq!(lane.put(T0, id, of(minor)), Admitted::Queued);
    }
    let packets = ["1", "2", "3"].map(|queue| (lane.part(queue, "packets"), lane.part(queue, "backlog")));
    assert_eq!(packets, [(3, 3000), (1, 1000), (4, 4000)]);
    // All queues are one FIFO.
    assert_eq!(lane.ids(T0, 20), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(["1", "2", "3"].map(|queue| lane.part(queue, "backlog")), [0, 0, 0]);
}

#[test]
fn packets_without_a_queue_are_bounded_by_the_limit_of_all() {
    let mut lane = gred("vqs 4 default 0 limit 5000", &[&format!("vq 2 {LOW}")]);
    let answers: Vec<_> = (0..8).map(|id| lane.put(T0, id, of(1))).collect();
    assert_eq!(answers.iter().filter(|a| **a == Admitted::Queued).count(), 5);
    assert_eq!(answers[5], Admitted::Dropped(DropReason::Overlimit));
    // Another queue has room, and its packets take that of those without.
    let _ = lane.take(T0);
    assert_eq!(lane.put(T0, 10, of(2)), Admitted::Queued);
    assert_eq!(lane.put(T0, 11, of(1)), Admitted::Dropped(DropReason::Overlimit));
    assert_eq!(counts(&lane, "2"), [1, 0, 0, 0]);
    // Without any queue a packet may go directly.
    assert!(gred("vqs 4 default 0", &[]).root().qdisc().transparent(1000));
    assert!(!lane.root().qdisc().transparent(1000));
}

#[test]
fn a_queue_learns_from_its_own_bytes() {
    let mut lane = gred("vqs 4 default 0", &[&format!("vq 1 {LOW}"), &format!("vq 2 {LOW}")]);
    let wlog = weight_for_burst(3000, 3, 1000).expect("a weight");
    let (mut average, mut queued) = (0u64, 0);
    for id in 0..40 {
        average = average - (average >> wlog) + 1000 * queued;
        let forced = average >= 3001 << wlog;
        let answer = lane.put(T0, id, of(1));
        let drop = Admitted::Dropped(DropReason::Congested);
        assert_eq!(answer, if forced { drop } else { Admitted::Queued }, "packet {id}");
        queued += u64::from(!forced);
    }
    assert_eq!(counts(&lane, "1"), [40, 40 - queued, 0, 0]);
    assert_eq!((lane.part("1", "qave"), lane.part("1", "bytes")), (average >> wlog, 40_000));
    assert_eq!(lane.root().books().overlimits, 40 - queued);
    assert_eq!(lane.put(T0, 99, of(2)), Admitted::Queued);
    assert_eq!(lane.part("2", "qave"), 0);
}

/// A burst of a queue, then packets of another one: the drops of the second.
fn behind(setup: &str, first: (u16, &str), second: (u16, &str)) -> u64 {
    let line = |(number, words): (u16, &str)| format!("vq {number} {words}");
    let mut lane = gred(setup, &[&line(first), &line(second)]);
    (0..60).for_each(|id| drop(lane.put(T0, id, of(first.0))));
    (60..70).for_each(|id| drop(lane.put(T0, id, of(second.0))));
    lane.part(&second.0.to_string(), "forced_drop")
}

#[test]
fn averages_of_lower_priority_numbers_are_added() {
    let (high, low) = (format!("{HIGH} prio 1"), format!("{LOW} prio 2"));
    // With grio the second queue sees the first one, whose priority number is lower.
    assert_eq!(behind("vqs 4 default 0 grio", (1, &high), (2, &low)), 10);
    let fewer = behind("vqs 4 default 0", (1, &high), (2, &low));
    assert!(fewer < 9, "{fewer}");
    // The other way about it does not.
    let (high, low) = (format!("{HIGH} prio 2"), format!("{LOW} prio 1"));
    assert_eq!(behind("vqs 4 default 0 grio", (1, &high), (2, &low)), fewer);
}

/// Priorities that queues keep have no effect once grio is off.
#[test]
fn nothing_is_added_without_grio() {
    let lines = [format!("vq 1 {HIGH} prio 1"), format!("vq 2 {LOW} prio 2")];
    let mut lane = gred("vqs 4 default 0 grio", &[&lines[0], &lines[1]]);
    (0..60).for_each(|id| drop(lane.put(T0, id, of(1))));
    lane.change(T0, Handle::ROOT, "setup vqs 4 default 0").unwrap();
    assert_eq!(lane.put(T0, 60, of(2)), Admitted::Queued);
}

/// A queue learns from the shared average, and its limit bounds the bytes of all.
#[test]
fn a_shared_average_is_that_of_the_others() {
    let lines = [format!("vq 1 {HIGH} prio 4"), format!("vq 2 {LOW} prio 4")];
    let mut lane = gred("vqs 4 default 0 grio", &[&lines[0], &lines[1]]);
    (0..20).for_each(|id| drop(lane.put(T0, id, of(1))));
    assert_eq!(lane.ids(T0, 19).len(), 19);
    assert_eq!(lane.put(T0, 20, of(2)), Admitted::Dropped(DropReason::Congested));
    let full = "min 50000 max 60000 avpkt 1000 burst 50 prio 4";
    let lines = [format!("vq 1 limit 90000 {full}"), format!("vq 2 limit 5000 {full}")];
    let mut lane = gred("vqs 4 default 0 grio", &[&lines[0], &lines[1]]);
    lane.fill(T0, 0, 10, of(1));
    assert_eq!(lane.put(T0, 10, of(2)), Admitted::Dropped(DropReason::Overlimit));
    assert_eq!(counts(&lane, "2"), [1, 0, 0, 1]);
}

/// An average of a queue that is empty is not added.
#[test]
fn an_idle_queue_is_not_added() {
    let mut lane =
        gred("vqs 4 default 0 grio", &[&format!("vq 1 {HIGH} prio 1"), &format!("vq 2 {LOW} prio 2")]);
    (0..60).for_each(|id| drop(lane.put(T0, id, of(1))));
    assert_eq!(lane.put(T0, 60, of(2)), Admitted::Dropped(DropReason::Congested));
    assert!(lane.ids(T0, 100).len() > 30);
    assert_eq!(lane.put(T0, 61, of(2)), Admitted::Queued);
}

#[test]
fn queues_of_one_priority_share_an_average() {
    let lines = [format!("vq 1 {HIGH} prio 4"), format!("vq 2 {LOW} prio 4")];
    let mut lane = gred("vqs 4 default 0 grio", &[&lines[0], &lines[1]]);
    (0..20).for_each(|id| drop(lane.put(T0, id, of(1))));
    // The bytes of the other queue, and the average of both.
    assert_eq!(lane.put(T0, 20, of(2)), Admitted::Dropped(DropReason::Congested));
    assert_eq!((lane.part("2", "backlog"), lane.part("1", "backlog")), (20_000, 20_000));
    assert!(lane.part("2", "qave") > 3001);
    // A queue whose priority is changed has its own again, and so have all.
    lane.change(T0, Handle::ROOT, &format!("vq 2 {LOW} prio 5")).unwrap();
    assert_eq!((lane.part("2", "backlog"), lane.part("1", "backlog")), (0, 20_000));
    // The average of both shrinks from the time at which the last packet has left.
    let mut lane = gred("vqs 4 default 0 grio", &[&lines[0], &lines[1]]);
    (0..20).for_each(|id| drop(lane.put(T0, id, of(1))));
    let before = lane.part("1", "qave");
    assert_eq!(lane.ids(T0, 30).len(), 20);
    assert_eq!(lane.put(T0 + Nanos::from_secs(1), 30, of(2)), Admitted::Queued);
    assert!(lane.part("1", "qave") < before / 2, "{before}");
}

#[test]
fn marks_stand_for_drops_where_the_flags_allow_it() {
    let ect = |minor| of(minor).ecn(Ecn::Ect0);
    let queues = [format!("vq 1 {LOW} ecn"), format!("vq 2 {LOW} ecn harddrop"), format!("vq 3 {LOW}")];
    let mut lane = gred("vqs 4 default 0", &[&queues[0], &queues[1], &queues[2]]);
    for (id, minor) in (0..120).zip([1, 2, 3].into_iter().cycle()) {
        drop(lane.put(T0, id, ect(minor)));
    }
    let [_, drops, marks, _] = counts(&lane, "1");
    assert!(drops == 0 && marks > 30, "{marks}");
    for queue in ["2", "3"] {
        let [_, drops, marks, _] = counts(&lane, queue);
        assert!(drops > 20 && marks == 0, "{queue}: {drops}");
    }
    // Between the two, by chance: marked, also with harddrop, unless it cannot be marked.
    let between = "limit 900000 min 3000 max 800000 avpkt 1000 burst 3 probability 1";
    let mut lane = gred("vqs 4 default 0", &[&format!("vq 1 {between} ecn harddrop")]);
    (0..300).for_each(|id| drop(lane.put(T0, id, ect(1))));
    let marks = lane.part("1", "prob_mark");
    assert!(marks > 5 && lane.part("1", "prob_drop") == 0, "{marks}");
    (300..600).for_each(|id| drop(lane.put(T0, id, of(1))));
    assert!(lane.part("1", "prob_drop") > 5 && lane.part("1", "prob_mark") == marks);
    assert_eq!([lane.part("1", "forced_drop"), lane.part("1", "forced_mark")], [0, 0]);
}

#[test]
fn flags_of_the_qdisc_are_those_of_its_queues() {
    let mut lane = gred("vqs 4 default 0", &[&format!("vq 1 {LOW}"), &format!("vq 2 {LOW}")]);
    lane.change(T0, Handle::ROOT, "setup vqs 4 default 0 ecn").unwrap();
    (0..40).for_each(|id| drop(lane.put(T0, id, of(1).ecn(Ecn::Ect1))));
    assert!(lane.part("1", "forced_mark") > 20 && lane.part("1", "forced_drop") == 0);
    lane.change(T0, Handle::ROOT, "setup vqs 4 default 0").unwrap();
    let marked = lane.part("1", "forced_mark");
    (0..40).for_each(|id| drop(lane.put(T0, id, of(1).ecn(Ecn::Ect1))));
    assert_eq!((lane.part("1", "forced_mark"), lane.part("1", "forced_drop")), (marked, 40));
}

#[test]
fn a_full_queue_leaves_room_to_the_others() {
    let full = "min 50000 max 60000 avpkt 1000 burst 50";
    let mut lane =
        gred("vqs 4 default 0", &[&format!("vq 1 limit 4000 {full}"), &format!("vq 2 limit 9000 {full}")]);
    let answers: Vec<_> = (0..6).map(|id| lane.put(T0, id, of(1))).collect();
    assert_eq!(answers[3..5], [Admitted::Queued, Admitted::Dropped(DropReason::Overlimit)]);
    assert_eq!(counts(&lane, "1"), [6, 0, 0, 2]);
    assert_eq!(lane.root().books().overlimits, 0);
    (6..20).for_each(|id| drop(lane.put(T0, id, of(2))));
    assert_eq!((counts(&lane, "2"), lane.backlog()), ([14, 0, 0, 5], 13));
}

/// A copy that netem makes is of the packet's queue, also where a kind beside it wants details.
#[test]
fn a_copy_is_of_the_queue_of_its_packet() {
    let mut lane = Lane::new("prio", "bands 3");
    let class = |of: Handle, minor| Handle::new(of.major(), minor);
    let root = lane.root().handle();
    let netem = lane.graft(T0, class(root, 1), "netem", "duplicate 100%");
    let queues = format!("setup vqs 4 default 0 vq 1 {HIGH} vq 2 {HIGH}");
    let gred = lane.graft(T0, class(netem, 1), "gred", &queues);
    lane.graft(T0, class(root, 2), "cake", "unlimited");
    let packets = |lane: &Lane, queue: &str| {
        let mut packets = 0;
        lane.path.tree().visit(&mut |_, node| {
            let mut of = |name: &str, key: &str, n| {
                if node.handle() == gred && (name, key) == (queue, "packets") {
                    packets = n;
                }
            };
            node.qdisc().parts(&mut |name, counter, n| of(name, counter.key, n));
        });
        packets
    };
    for (queue, minor) in [("2", 2), ("1", 1)] {
        (0..5).for_each(|id| drop(lane.put(T0, id, of(minor).priority(6))));
        assert_eq!(lane.ids(T0, 20).len(), 10);
        assert_eq!(packets(&lane, queue), 10);
    }
}

#[test]
fn a_change_begins_the_average_anew_and_keeps_the_counters() {
    let line = format!("vq 1 {LOW}");
    let mut lane = gred("vqs 4 default 1", &[&line]);
    (0..20).for_each(|id| drop(lane.put(T0, id, of(1))));
    let before = counts(&lane, "1");
    assert!(before[1] > 5 && lane.part("1", "qave") > 3000, "{before:?}");
    lane.change(T0, Handle::ROOT, &line).unwrap();
    assert_eq!((lane.part("1", "qave"), counts(&lane, "1")), (0, before));
    assert_eq!(lane.put(T0, 20, of(1)), Admitted::Queued);
    // Those of another queue stay.
    let average = lane.part("1", "qave");
    lane.change(T0, Handle::ROOT, &format!("vq 2 {LOW}")).unwrap();
    assert_eq!(lane.part("1", "qave"), average);
}

/// gred-index: a packet is counted where it came in, although its number names another queue by
/// then.
#[test]
fn a_packet_leaves_the_queue_that_it_was_counted_in() {
    let line = format!("vq 1 {HIGH}");
    let mut lane = gred("vqs 4 default 0", &[]);
    lane.fill(T0, 0, 3, of(1));
    lane.change(T0, Handle::ROOT, &line).unwrap();
    lane.fill(T0, 3, 2, of(1));
    let backlogs: Vec<_> = (0..5).map(|_| (lane.take(T0).id(), lane.part("1", "backlog")).1).collect();
    assert_eq!(backlogs, [2000, 2000, 2000, 1000, 0]);
    // A queue that was given up and begins again counts none of the first one's packets.
    lane.fill(T0, 0, 3, of(1));
    lane.change(T0, Handle::ROOT, "setup vqs 1 default 0").unwrap();
    lane.change(T0, Handle::ROOT, "setup vqs 4 default 0").unwrap();
    lane.change(T0, Handle::ROOT, &line).unwrap();
    assert_eq!(counts(&lane, "1"), [0; 4]);
    lane.fill(T0, 3, 1, of(1));
    let backlogs: Vec<_> = (0..4).map(|_| (lane.take(T0).id(), lane.part("1", "backlog")).1).collect();
    assert_eq!(backlogs, [1000, 1000, 1000, 0]);
}

/// gred-shown-average: it does not shrink with time alone.
#[test]
fn the_average_shown_is_that_of_the_last_packet() {
    let mut lane = gred("vqs 4 default 1", &[&format!("vq 1 {LOW}")]);
    (0..20).for_each(|id| drop(lane.put(T0, id, of(1))));
    let average = lane.part("1", "qave");
    assert!(lane.ids(T0, 30).len() > 3 && average > 3000);
    let later = T0 + Nanos::from_secs(5);
    assert_eq!((lane.take(later).id(), lane.part("1", "qave")), (None, average));
    lane.fill(later, 40, 1, of(1));
    assert_eq!(lane.part("1", "qave"), 0);
}

/// gred-one-line: a line for the whole is the same as a line for each part.
#[test]
fn one_line_makes_the_whole() {
    let (setup, one, two) =
        ("vqs 5 default 2 grio limit 70000", format!("vq 1 {LOW} prio 3 ecn"), format!("vq 2 {HIGH}"));
    let apart = gred(setup, &[&one, &two]);
    let whole = Lane::new("gred", &format!("setup {setup} {one} limit 70000 {two} limit 70000"));
    let exact = "setup vqs 5 default 2 grio limit 70000b vq 1 limit 70000b min 3000b max 3001b avpkt 1000b \
                 burst 3 bandwidth 1250000bps probability 0.02 prio 3 ecn vq 2 limit 70000b min 30000b \
                 max 30001b avpkt 1000b burst 30 bandwidth 1250000bps probability 0.02 prio 8";
    assert_eq!([options(&apart), options(&whole)], [exact, exact]);
    assert_eq!(options(&Lane::new("gred", exact)), exact);
    // A state that lines of their own do not lead to is restored as it is.
    let odd = exact.replace("grio limit 70000b", "limit 5000b");
    assert_eq!(options(&Lane::new("gred", &odd)), odd);
    let flags = exact.replace("limit 70000b vq 1", "limit 70000b harddrop vq 1").replace(" ecn", "");
    assert_eq!(options(&Lane::new("gred", &flags)), flags);
}

#[test]
fn priorities_and_limits_follow_from_the_qdisc() {
    let prio = |lane: &Lane| {
        options(lane)
            .split(" prio ")
            .skip(1)
            .map(|p| p.split(' ').next().unwrap().into())
            .collect::<Vec<String>>()
    };
    // Without grio it has no effect, as in Linux.
    let mut lane = gred("vqs 5 default 2 limit 20000", &[&format!("vq 1 {LOW} prio 3")]);
    assert_eq!(prio(&lane), ["8"]);
    assert!(options(&lane).contains("vq 1 limit 20000b min 3000b"), "{}", options(&lane));
    lane.change(T0, Handle::ROOT, "setup vqs 5 default 2 grio").unwrap();
    for line in [format!("vq 2 {LOW} prio 3"), format!("vq 1 {LOW}"), format!("vq 2 {LOW} prio 0")] {
        lane.change(T0, Handle::ROOT, &line).unwrap();
    }
    assert_eq!(prio(&lane), ["3", "3"]);
    // A queue keeps its parameters.
    lane.change(T0, Handle::ROOT, "setup vqs 3 default 2 limit 7000").unwrap();
    assert_eq!(prio(&lane), ["3", "3"]);
    assert!(options(&lane).contains("limit 7000b vq 1 limit 20000b"), "{}", options(&lane));
    lane.change(T0, Handle::ROOT, "setup vqs 2 default 1 limit 0").unwrap();
    assert!(options(&lane).contains("limit 7000b vq 1"), "{}", options(&lane));
    assert_eq!(prio(&lane), ["3"]);
}

/// gred-prio, red-probability
#[test]
fn what_gred_refuses() {
    let built = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        kind("gred").unwrap().build(&mut Words::new(&words), &Env::default()).err().map(|e| e.to_string())
    };
    let refused = |line: &str, text: &str| assert_eq!(built(line).as_deref(), Some(text), "{line}");
    refused(
        &format!("vq 1 {LOW}"),
        "gred setup: expected setup, vqs and default for a new qdisc, given nothing",
    );
    refused("setup vqs 4", "gred vqs: expected vqs and default with setup, given nothing");
    refused(
        "setup vqs 4 default 4",
        "gred default: expected a queue below 4, the number of them, given \"4\"",
    );
    refused("setup vqs 17 default 4", "gred vqs: expected 1 to 16, given \"17\"");
    refused("vq 16 limit 5", "gred vq: expected 0 to 15, given \"16\"");
    let whole = "setup vqs 4 default 1 vq";
    refused(
        &format!("{whole} 4 {LOW}"),
        "gred vq: expected a queue below 4, the number of them, given \"4\"",
    );
    refused(&format!("{whole} 1 {LOW} prio 256"), "gred prio: expected 0 to 255, given \"256\"");
    refused(
        &format!("{whole} 1 {LOW} probability 1.1"),
        "gred probability: expected at most 1, given \"1.1\"",
    );
    refused(
        &format!("{whole} 1 {LOW} burst 2"),
        "gred burst: expected a burst of at least 4 packets, given \"2\"",
    );
    let sizes = "vq, limit, min, max and avpkt, none of the sizes 0, given nothing";
    refused(&format!("{whole} 1 limit 5 min 0 max 7 avpkt 1"), &format!("gred min: expected {sizes}"));
    let flags = "ecn and harddrop either with setup or with the virtual queues, given \"both\"";
    refused(&format!("setup vqs 4 default 1 ecn vq 1 {LOW} ecn"), &format!("gred vq: expected {flags}"));
    assert!(built("setup vqs 4 default 1 min 5").unwrap().ends_with("given \"min\""));
    assert!(built(&format!("{whole} 1 {LOW} vqs 3")).unwrap().ends_with("given \"vqs\""));
    // Refusals by the present parameters.
    let change =
        |lane: &mut Lane, line: &str| lane.change(T0, Handle::ROOT, line).err().map(|e| e.to_string());
    let mut lane = gred("vqs 4 default 0", &[&format!("vq 1 {LOW} ecn")]);
    let before = options(&lane);
    assert_eq!(change(&mut lane, "setup vqs 4 default 0 ecn"), Some(format!("gred setup: expected {flags}")));
    let beyond = "gred vq: expected a queue below 4, the number of them, given \"5\"";
    assert_eq!(change(&mut lane, &format!("vq 5 {LOW}")).as_deref(), Some(beyond));
    assert_eq!(options(&lane), before);
    let mut lane = gred("vqs 4 default 0 harddrop", &[]);
    assert_eq!(change(&mut lane, &format!("vq 1 {LOW}")), Some(format!("gred vq: expected {flags}")));
}
