//! drr: named behaviours, with literal expectations. Its traces of the kernel are in
//! `spec/traces/drr`.

use crate::common::classes::{T, class, meta, on_class};
use crate::common::lane::{Lane, Out};
use txweir_core::{Admitted, DropReason, ErrorKind, Meta, Nanos};

/// Makes a drr with classes of these quanta, numbered from 1.
fn lane(quanta: &[u64]) -> Lane {
    let mut lane = Lane::new("drr", "");
    for (minor, quantum) in (1..).zip(quanta) {
        on_class(&mut lane, "add", minor, &format!("quantum {quantum}")).unwrap();
    }
    lane
}

/// Returns class, bytes sent and credit of each class.
fn shown(lane: &Lane) -> Vec<(u16, u64, i64)> {
    let mut all = Vec::new();
    if let Some(classes) = lane.root().qdisc().user_classes() {
        classes.list(&mut |c| all.push((c.at.minor, c.sent.bytes, c.values[0])));
    }
    all
}

#[test]
fn there_is_no_default_class() {
    let mut lane = lane(&[1000]);
    for (id, m) in
        [(0, meta(100, 1)), (1, meta(100, 2)), (2, Meta::new(100)), (3, Meta::new(100).priority(1))]
    {
        let expected = if id == 0 { Admitted::Queued } else { Admitted::Dropped(DropReason::NoClass) };
        assert_eq!(lane.put(T, id, m), expected, "{id}");
    }
    assert_eq!(lane.ids(T, 9), [0]);
}

#[test]
fn a_class_sends_its_quantum_and_goes_to_the_back() {
    let mut lane = lane(&[1000, 2000]);
    lane.fill(T, 10, 4, meta(600, 1));
    lane.fill(T, 20, 6, meta(600, 2));
    // 1 sends 600 of 1000; 400 + 1000 are two more packets; 200 + 1000 the last. 2 sends three of
    // 2000 and keeps 200.
    assert_eq!(lane.ids(T, 99), [10, 20, 21, 22, 11, 12, 23, 24, 25, 13]);
    assert_eq!(shown(&lane), [(1, 2400, 0), (2, 3600, 0)]);
}

#[test]
fn bytes_are_shared_by_quanta() {
    let mut lane = lane(&[500, 1000, 3000]);
    for i in 0..400 {
        for minor in 1..=3 {
            let len = 60 + (i * 131 + u32::from(minor) * 71) % 1450;
            assert_eq!(lane.put(T, i * 4 + u32::from(minor), meta(len, minor)), Admitted::Queued);
        }
    }
    (0..450).for_each(|_| assert!(matches!(lane.take(T), Out::Sent(..))));
    let quanta = [500.0, 1000.0, 3000.0];
    let sent: Vec<f64> = shown(&lane).iter().map(|(_, bytes, _)| *bytes as f64).collect();
    for (a, b) in [(0, 1), (1, 2), (0, 2)] {
        let bound: f64 = [a, b].iter().map(|i| 1.0 + 1510.0 / quanta[*i]).sum();
        assert!((sent[a] / quanta[a] - sent[b] / quanta[b]).abs() <= bound, "{sent:?}");
    }
}

/// The quantum counts as 256; each packet needs 781 more turns than the class has. Each packet
/// takes one pass over the classes; otherwise this test would not end in time.
#[test]
fn a_tiny_quantum_against_large_packets_costs_a_pass() {
    let mut lane = lane(&[1; 1000]);
    for id in 0..20_000 {
        assert_eq!(lane.put(T, id, meta(200_000, 1 + (id % 1000) as u16)), Admitted::Queued);
    }
    assert_eq!(lane.ids(T, 30_000), (0..20_000).collect::<Vec<_>>());
}

#[test]
fn quanta_are_brought_into_range() {
    let mut lane = lane(&[1, 256, 4_294_967_295]);
    on_class(&mut lane, "add", 4, "").unwrap();
    let mut quanta = Vec::new();
    let classes = lane.root().qdisc().user_classes().unwrap();
    (1..=4).for_each(|minor| {
        classes.options(minor, &mut |s| quanta.push(txweir_core::text::value::exact_of(s.value)))
    });
    assert_eq!(quanta, ["256b", "256b", "1048576b", "1514b"]);
    let zero = on_class(&mut lane, "add", 5, "quantum 0").unwrap_err();
    assert_eq!(zero.to_string(), "drr quantum: expected 1 to 4294967295 bytes, given \"0\"");
}

#[test]
fn what_is_done_to_a_class_leaves_the_others_packets() {
    let mut lane = lane(&[1000, 1000, 1000]);
    for minor in 1..=3 {
        lane.fill(T, u32::from(minor) * 10, 3, meta(900, minor));
    }
    assert_eq!(lane.ids(T, 1), [10]);
    on_class(&mut lane, "change", 1, "quantum 2000").unwrap();
    on_class(&mut lane, "add", 4, "quantum 500").unwrap();
    lane.fill(T, 40, 1, meta(400, 4));
    assert_eq!(lane.drops(), []);
    lane.graft(T, class(3), "pfifo", "limit 1");
    assert_eq!(lane.drops().iter().map(|d| d.0).collect::<Vec<_>>(), [30, 31, 32]);
    on_class(&mut lane, "del", 2, "").unwrap();
    assert_eq!(lane.drops().iter().map(|d| d.0).collect::<Vec<_>>(), [20, 21, 22]);
    assert_eq!(lane.put(T, 50, meta(100, 2)), Admitted::Dropped(DropReason::NoClass));
    // 1 has 100 left, too little for a packet; it gets its new quantum and stands behind 4.
    assert_eq!(lane.ids(T, 9), [40, 11, 12]);
    assert_eq!(on_class(&mut lane, "del", 2, "").unwrap_err().kind, ErrorKind::NotFound);
    // A class that is made again is new.
    on_class(&mut lane, "add", 2, "").unwrap();
    assert_eq!(shown(&lane), [(1, 2700, 0), (2, 0, 0), (3, 0, 0), (4, 400, 0)]);
}

/// CoDel drops half of the packets of class 1 as they come to the front, and the class may turn out
/// to be empty at a dequeue. Linux then sends nothing until the next dequeue, although 2 has
/// packets.
#[test]
fn a_class_that_empties_when_it_is_asked_does_not_stall_the_others() {
    let mut lane = lane(&[1514, 1514]);
    lane.graft(T, class(1), "codel", "target 1ms interval 10ms");
    lane.fill(T, 10, 400, meta(1000, 1));
    let mut now = T;
    // A standing queue, so that CoDel drops more and more, until only few packets are left.
    let mut left = 400;
    while left > 0 {
        now += Nanos::from_millis(5);
        if lane.backlog() == 0 {
            break;
        }
        let before = lane.backlog();
        lane.fill(now, 1000 + left, 1, meta(1000, 2));
        // For any drops of 1, each dequeue sends one packet while there is any.
        assert!(lane.take(now).id().is_some(), "{before} were there");
        left -= 1;
    }
    while lane.backlog() > 0 {
        assert!(lane.take(now).id().is_some());
    }
    assert!(lane.drops().len() > 50, "codel is to have dropped");
}

#[test]
fn a_class_that_is_shaped_holds_the_others_while_it_stands_in_front() {
    let mut lane = lane(&[1514, 1514]);
    lane.graft(T, class(1), "tbf", "rate 8mbit burst 1000 limit 100000");
    lane.fill(T, 10, 2, meta(700, 1));
    lane.fill(T, 20, 2, meta(1000, 2));
    assert_eq!(lane.ids(T, 9), [10]);
    assert_eq!(lane.take(T), Out::Wait(T + Nanos(400_000)));
    assert_eq!(lane.ids(T + Nanos(400_000), 9), [11, 20, 21]);
}

#[test]
fn a_class_needs_a_number() {
    let mut lane = lane(&[1000]);
    let none = on_class(&mut lane, "add", 0, "").unwrap_err();
    assert_eq!((none.kind, none.key.as_deref()), (ErrorKind::Missing, Some("classid")));
    assert_eq!(shown(&lane).len(), 1);
}

#[test]
fn classes_are_listed_by_number() {
    let mut lane = Lane::new("drr", "");
    for minor in [0x200, 3, 0x11, 1, 0x10, 0xffff] {
        on_class(&mut lane, "add", minor, "").unwrap();
    }
    let minors: Vec<u16> = shown(&lane).iter().map(|c| c.0).collect();
    assert_eq!(minors, [1, 3, 0x10, 0x11, 0x200, 0xffff]);
}

/// A member pays with its credit down to the last byte.
#[test]
fn credit_for_exactly_the_bytes_of_a_packet_pays_for_it() {
    let mut round = txweir_core::law::deficit::Round::new();
    round.add(300);
    round.join(0);
    assert!(round.charge(0, 250) && round.charge(0, 50));
    assert_eq!(round.deficit(0), 0);
    assert!(!round.charge(0, 1), "no credit is left");
    assert_eq!(round.deficit(0), 300);
}
