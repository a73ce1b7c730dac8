//! The choice of a transmit queue, in the order of the reference.

use proptest::prelude::*;
use txweir_core::{Instant, Meta, Nanos};
use txweir_core::{
    path::select::{Cached, RESELECT, Selector, Sender, Xps},
    sched::traffic::{Range, TrafficClasses},
};

const ANY: Sender = Sender { worker: 0, came_by: None, idle: false };

fn meta(hash: u32, priority: u32) -> Meta {
    Meta::new(100).hash(hash).priority(priority)
}

fn fresh(s: &Selector, hash: u32, priority: u32, sender: Sender) -> u16 {
    s.select(&meta(hash, priority), &sender, None, Instant::ZERO)
}

/// Returns three classes as in the talk of 2012: two queues, two queues, one.
fn talk() -> TrafficClasses {
    let mut map = [0; 16];
    map[..7].copy_from_slice(&[0, 0, 0, 1, 1, 1, 2]);
    let range = |count, offset| Range { count, offset };
    TrafficClasses::new(map, &[range(2, 0), range(2, 2), range(1, 4)]).unwrap()
}

#[test]
fn the_hash_is_spread_over_all_queues() {
    let s = Selector::new(4);
    let at = |hash| fresh(&s, hash, 0, ANY);
    assert_eq!([0, 0x3fff_ffff, 0x4000_0000, 0x8000_0000, u32::MAX].map(at), [0, 0, 1, 2, 3]);
    assert_eq!(fresh(&Selector::new(1), u32::MAX, 0, ANY), 0);
}

#[test]
fn a_traffic_class_has_its_own_queues() {
    let mut s = Selector::new(5);
    s.set_classes(Some(talk()));
    let at = |priority, hash| fresh(&s, hash, priority, ANY);
    assert_eq!(
        [at(0, 0), at(2, u32::MAX), at(3, 0), at(5, u32::MAX), at(6, 0), at(6, u32::MAX)],
        [0, 1, 2, 3, 4, 4]
    );
    // Only the low four bits of a priority count, and a priority that the map leaves out is class
    // 0.
    assert_eq!([at(16 + 3, 0), at(7, 0), at(15, u32::MAX)], [2, 0, 1]);
    assert_eq!(
        (s.classes().unwrap().class_of_queue(3), s.classes().unwrap().class_of_queue(5)),
        (Some(1), None)
    );
}

#[test]
fn a_packet_that_came_in_goes_out_by_the_queue_of_that_number() {
    let mut s = Selector::new(5);
    let from = |s: &Selector, queue, priority| fresh(s, 77, priority, Sender { came_by: Some(queue), ..ANY });
    assert_eq!([0, 4, 5, 12].map(|q| from(&s, q, 0)), [0, 4, 0, 2]);
    s.set_classes(Some(talk()));
    // Within the class: less its first queue if the number is that large, modulo its size.
    assert_eq!([0, 1, 2, 3, 4].map(|q| from(&s, q, 3)), [2, 3, 2, 3, 2]);
    let last = Range { count: 3, offset: 2 };
    s.set_classes(Some(TrafficClasses::new([0; 16], &[last]).unwrap()));
    assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|q| from(&s, q, 3)), [2, 3, 2, 3, 4, 2, 3]);
}

#[test]
fn queues_are_set_aside_for_who_sends() {
    let mut s = Selector::new(8);
    let mut xps = Xps::new(3, 1);
    assert!(xps.set(0, 0, &[5]) && xps.set(1, 0, &[6, 7]) && !xps.set(3, 0, &[1]) && !xps.set(0, 1, &[1]));
    s.set_xps(Some(xps));
    let by = |worker, hash| fresh(&s, hash, 0, Sender { worker, ..ANY });
    assert_eq!([by(0, 0), by(0, u32::MAX), by(1, 0), by(1, u32::MAX)], [5, 5, 6, 7]);
    // A sender without reserved queues uses the hash.
    assert_eq!([by(2, u32::MAX), by(9, 0)], [7, 0]);
    // The queue by which it came in counts first.
    let mut arrival = Xps::new(1, 1);
    arrival.set(0, 0, &[1]);
    s.set_arrival_xps(Some(arrival));
    assert_eq!(fresh(&s, 0, 0, Sender { came_by: Some(0), ..ANY }), 1);
    assert_eq!(fresh(&s, 0, 0, Sender { worker: 1, came_by: Some(2), idle: false }), 6);
    // A reserved queue that does not exist is ignored.
    s.set_queues(4);
    assert_eq!(fresh(&s, u32::MAX, 0, ANY), 3);
}

#[test]
fn a_flow_keeps_its_queue_until_nothing_of_it_is_in_flight() {
    let mut s = Selector::new(4);
    let mut cached = Cached::default();
    let mut at = |s: &Selector, hash, idle, now| {
        s.select(&meta(hash, 0), &Sender { idle, ..ANY }, Some(&mut cached), now)
    };
    let t = |ms| Instant::ZERO + Nanos::from_millis(ms);
    assert_eq!(at(&s, u32::MAX, false, t(0)), 3);
    assert_eq!(at(&s, 0, false, t(999)), 3, "remembered");
    assert_eq!(at(&s, 0, true, t(999)), 0, "idle: chosen anew");
    assert_eq!(at(&s, u32::MAX, false, t(999) + RESELECT), 0);
    assert_eq!(at(&s, u32::MAX, false, t(1000) + RESELECT), 3, "too old");
    s.set_queues(2);
    assert_eq!(at(&s, u32::MAX, false, t(2000)), 1, "the queue was removed");
}

#[test]
fn traffic_classes_that_cannot_be_are_refused() {
    let one = [Range { count: 1, offset: 0 }];
    let err = TrafficClasses::new([1; 16], &one).unwrap_err();
    assert_eq!(err.to_string(), "traffic classes map: expected traffic classes below 1, given \"1\"");
    let err = TrafficClasses::new([0; 16], &[]).unwrap_err();
    assert_eq!(err.to_string(), "traffic classes num_tc: expected 1 to 16 traffic classes, given \"0\"");
    // A class whose queues were removed uses all queues.
    let mut s = Selector::new(2);
    s.set_classes(Some(TrafficClasses::new([0; 16], &[Range { count: 4, offset: 7 }]).unwrap()));
    assert_eq!([0, u32::MAX].map(|hash| fresh(&s, hash, 0, ANY)), [0, 1]);
    assert_eq!((s.chosen(1), s.chosen(2).unwrap_err().0), (Ok(1), 2));
}

proptest! {
    #[test]
    fn what_is_chosen_is_there(
        queues in 0u16..20, hash: u32, priority: u32, came_by in prop::option::of(0u16..40), worker in 0u32..4,
        ranges in prop::collection::vec((0u16..9, 0u16..24), 1..16), lists in prop::collection::vec(0u16..24, 0..4),
    ) {
        let mut s = Selector::new(queues);
        let ranges: Vec<_> = ranges.into_iter().map(|(count, offset)| Range { count, offset }).collect();
        s.set_classes(Some(TrafficClasses::new([(ranges.len() - 1) as u8; 16], &ranges).unwrap()));
        let mut xps = Xps::new(2, ranges.len());
        xps.set(1, ranges.len() - 1, &lists);
        s.set_xps(Some(xps));
        let mut cached = Cached::default();
        let sender = Sender { worker, came_by, idle: false };
        let first = s.select(&meta(hash, priority), &sender, Some(&mut cached), Instant::ZERO);
        prop_assert!(first < s.queues());
        let again = s.select(&meta(!hash, priority), &sender, Some(&mut cached), Instant::ZERO);
        prop_assert_eq!(again, first);
    }
}
