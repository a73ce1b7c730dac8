//! The line of a wire over many rings, in vectors worked out by hand: the next unit, the delays by
//! rates, the places where frames are interrupted, the effects of a change of all that, and the
//! refusals.
//!
//! Most lines here carry a byte per nanosecond without overhead, so that a unit of n bytes takes n
//! ns.

use txweir_core::base::env::Offload;
use txweir_core::{ErrorKind, Instant, Meta, Nanos, Rate, TxQueue};
use txweir_core::{
    model::wire::{Completion, Counts, DescriptorCost, Latency, RingConfig, Wire, WireConfig},
    sched::{
        schedule::{ClassConfig, LineConfig, Service},
        traffic::CLASSES_MAX,
    },
};

use Service::{Ets, Strict};

const BYTE_PER_NS: Rate = Rate(1_000_000_000);

fn config(rings: u16, line: Option<LineConfig>) -> WireConfig {
    WireConfig {
        rate: BYTE_PER_NS,
        overhead: 0,
        min_frame: 0,
        completion: Completion::Immediate,
        rings,
        line,
        ..WireConfig::default()
    }
}

fn wire(line: LineConfig) -> Wire<u32> {
    Wire::new(config(line.rings, Some(line))).unwrap()
}

/// Puts packets into a ring, named `100 * ring`, `100 * ring + 1` and so on from `first`.
fn put(w: &mut Wire<u32>, at: u64, ring: u16, first: u32, metas: &[Meta]) {
    w.advance(Instant(at), |d| panic!("{d:?} left unseen"));
    push(w, ring, first, metas);
}

fn push(w: &mut Wire<u32>, ring: u16, first: u32, metas: &[Meta]) {
    let mut queue = w.ring(ring).unwrap();
    assert_eq!(queue.reserve(metas.len() as u32), metas.len() as u32);
    for (i, m) in (first..).zip(metas) {
        queue.push(u32::from(ring) * 100 + i, m);
    }
    queue.commit().unwrap();
}

/// Returns the departures until `at`: name, start, finish.
fn run(w: &mut Wire<u32>, at: u64) -> Vec<(u32, u64, u64)> {
    let mut left = Vec::new();
    w.advance(Instant(at), |d| {
        assert_eq!(u32::from(d.ring), d.frame / 100);
        left.push((d.frame, d.start.0, d.finish.0));
    });
    left
}

fn names(w: &mut Wire<u32>, at: u64) -> Vec<u32> {
    run(w, at).iter().map(|d| d.0).collect()
}

fn units(count: usize, len: u32) -> Vec<Meta> {
    vec![Meta::new(len); count]
}

fn one_each(services: &[Service]) -> LineConfig {
    let classes: Vec<ClassConfig> =
        services.iter().zip(0..).map(|(s, ring)| ClassConfig::new(1, ring, *s)).collect();
    LineConfig::classes(classes.len() as u16, &classes)
}

#[test]
fn rings_take_turns_unit_by_unit() {
    let mut w = wire(LineConfig::round_robin(3));
    put(&mut w, 0, 0, 0, &units(3, 100));
    // Ten segments on the line, and one turn.
    push(&mut w, 1, 0, &[Meta::new(1010).gso(10, 100), Meta::new(100)]);
    push(&mut w, 2, 0, &units(1, 100));
    let expected = [
        (0, 0, 100),
        (100, 100, 1200),
        (200, 1200, 1300),
        (1, 1300, 1400),
        (101, 1400, 1500),
        (2, 1500, 1600),
    ];
    assert_eq!(run(&mut w, 10_000), expected);
    assert_eq!(w.next_event(), None);
}

#[test]
fn turns_go_around_beyond_a_word_of_rings() {
    let mut w = wire(LineConfig::round_robin(200));
    for ring in [199, 64, 3, 63, 128] {
        push(&mut w, ring, 0, &units(2, 100));
    }
    let rings: Vec<u32> = names(&mut w, 10_000).iter().map(|n| n / 100).collect();
    assert_eq!(rings, [199, 3, 63, 64, 128, 199, 3, 63, 64, 128]);
}

#[test]
fn of_strict_classes_the_highest_goes_first() {
    let mut w = wire(LineConfig::strict(3));
    put(&mut w, 0, 0, 0, &units(2, 100));
    push(&mut w, 1, 0, &units(2, 100));
    push(&mut w, 2, 0, &units(2, 100));
    // The unit on the line stays there.
    assert_eq!(names(&mut w, 450), [0, 200, 201, 100]);
    push(&mut w, 2, 2, &units(1, 100));
    assert_eq!(names(&mut w, 10_000), [101, 202, 1]);
}

#[test]
fn shares_are_by_weight_in_bytes_on_the_line() {
    // Quanta of 3076 and 1538 bytes. Credit over the turns, first class: 76, 152, 228 left after
    // three units each; second: 538, 76, 614, 152 after one, two, one and two.
    let mut w = wire(one_each(&[Ets(2), Ets(1)]));
    put(&mut w, 0, 0, 0, &units(20, 1000));
    push(&mut w, 1, 0, &units(20, 1000));
    let turns: String = names(&mut w, 18_000).iter().map(|n| if *n < 100 { 'a' } else { 'b' }).collect();
    assert_eq!(turns, "aaabaaabbaaabaaabb");
}

#[test]
fn a_share_counts_what_the_line_adds() {
    // 60 bytes are 84 on the line, 1514 are 1538: the same bytes, not the same packets.
    let line = one_each(&[Ets(50), Ets(50)]);
    let mut w = Wire::new(WireConfig { overhead: 24, min_frame: 60, ..config(2, Some(line)) }).unwrap();
    push(&mut w, 0, 0, &units(900, 40));
    push(&mut w, 1, 0, &units(40, 1514));
    w.advance(Instant(61_520), |_| {});
    let [small, large] = [0, 1].map(|c| w.class_counts(c).busy.0);
    assert!(small.abs_diff(large) <= 2 * 1538, "{small} and {large}");
}

#[test]
fn units_beyond_a_quantum_take_several_turns_at_once() {
    // Quanta 1538 each; the first needs 42 turns for 64 000 bytes, in which the second sends its
    // units of 1500.
    let mut w = wire(one_each(&[Ets(7), Ets(7)]));
    put(&mut w, 0, 0, 0, &units(3, 64_000));
    push(&mut w, 1, 0, &units(99, 1500));
    let order = names(&mut w, 350_000);
    let large: Vec<usize> = (0..order.len()).filter(|i| order[*i] < 100).collect();
    // 64 000 / 1500 is 42.7: 43 units pass before the second, 42 before the third.
    assert_eq!(large, [0, 44, 87]);
}

#[test]
fn strict_goes_before_shares_whatever_its_number() {
    let mut w = wire(one_each(&[Ets(50), Strict, Ets(50)]));
    put(&mut w, 0, 0, 0, &units(2, 1000));
    push(&mut w, 2, 0, &units(2, 1000));
    push(&mut w, 1, 0, &units(2, 1000));
    assert_eq!(names(&mut w, 10_000), [0, 100, 101, 200, 1, 201]);
}

#[test]
fn who_is_alone_has_the_whole_line() {
    let mut w = wire(one_each(&[Ets(1), Ets(100)]));
    put(&mut w, 0, 0, 0, &units(100, 1000));
    assert_eq!(names(&mut w, 100_000).len(), 100);
}

#[test]
fn a_class_keeps_its_greatest_rate() {
    // 100 bytes at a tenth of the line are due every 1000 ns; one unit may be ahead.
    let max = ClassConfig::new(2, 0, Strict).max_rate(Rate(100_000_000));
    let mut w = wire(LineConfig::classes(2, &[max]));
    put(&mut w, 5_000, 0, 0, &units(2, 100));
    push(&mut w, 1, 0, &units(2, 100));
    let left = run(&mut w, 5_500);
    assert_eq!((left, w.next_event()), (vec![(0, 5000, 5100), (100, 5100, 5200)], Some(Instant(6000))));
    assert_eq!(run(&mut w, 9_000), [(1, 6000, 6100), (101, 7000, 7100)]);
}

#[test]
fn a_lower_class_has_what_a_rate_leaves() {
    let low = ClassConfig::new(1, 0, Strict);
    let high = ClassConfig::new(1, 1, Strict).max_rate(Rate(500_000_000));
    let mut w = wire(LineConfig::classes(2, &[low, high]));
    put(&mut w, 10_000, 1, 0, &units(4, 100));
    push(&mut w, 0, 0, &units(4, 100));
    // 100 bytes are due every 200 ns; at the start one unit may be ahead.
    let high = [(100, 10_000), (101, 10_100), (102, 10_200), (103, 10_400)];
    let low = [(0, 10_300), (1, 10_500), (2, 10_600), (3, 10_700)];
    let mut expected: Vec<(u32, u64)> = high.into_iter().chain(low).collect();
    expected.sort_by_key(|u| u.1);
    assert_eq!(run(&mut w, 20_000).iter().map(|d| (d.0, d.1)).collect::<Vec<_>>(), expected);
}

#[test]
fn a_class_that_its_rate_holds_back_keeps_its_turn() {
    // Six tenths of the credit, and at most half of the line. If the class stood behind the four
    // others after each unit, it would wait for 6000 ns although one unit is due every 3000, and
    // would have a fifth. It stays in front for six units, and then waits once.
    let mut classes = vec![ClassConfig::new(1, 0, Ets(60)).max_rate(Rate(500_000_000))];
    classes.extend((1..5).map(|ring| ClassConfig::new(1, ring, Ets(10))));
    let mut w = wire(LineConfig::classes(5, &classes));
    for ring in 0..5 {
        push(&mut w, ring, 0, &units(99, 1500));
    }
    w.advance(Instant(150_000), |_| {});
    let busy: Vec<u64> = (0..5).map(|c| w.class_counts(c).busy.0).collect();
    assert_eq!(busy, [70_500, 21_000, 19_500, 19_500, 19_500]);
}

#[test]
fn a_ring_keeps_a_rate_of_its_own() {
    let mut line = LineConfig::round_robin(3);
    line.ring_max = vec![(1, Rate(100_000_000))];
    let mut w = wire(line);
    for ring in [1, 0, 2] {
        put(&mut w, 0, ring, 0, &units(3, 100));
    }
    // No unit was delayed before time zero: the second of ring 1 is due at 1000.
    let expected = [
        (100, 0, 100),
        (200, 100, 200),
        (0, 200, 300),
        (201, 300, 400),
        (1, 400, 500),
        (202, 500, 600),
        (2, 600, 700),
        (101, 1000, 1100),
        (102, 2000, 2100),
    ];
    assert_eq!(run(&mut w, 10_000), expected);
}

#[test]
fn a_least_rate_is_served_before_shares() {
    // By weight the first class would have 1 %; its guaranteed share is 40 %.
    let min = ClassConfig::new(1, 0, Ets(1)).min_rate(Rate(400_000_000));
    let mut w = wire(LineConfig::classes(
        3,
        &[min, ClassConfig::new(1, 1, Ets(49)), ClassConfig::new(1, 2, Ets(50))],
    ));
    for ring in 0..3 {
        push(&mut w, ring, 0, &units(99, 1000));
    }
    w.advance(Instant(100_000), |_| {});
    let units: Vec<u64> = (0..3).map(|c| w.class_counts(c).units).collect();
    assert_eq!(units[0] + units[1] + units[2], 100);
    // It also has its weight of the rest, and at the start it is one unit behind.
    assert!((40..=42).contains(&units[0]), "{units:?}");
}

#[test]
fn of_two_that_lack_their_least_rate_the_one_behind_goes_first() {
    let min = |ring, rate| ClassConfig::new(1, ring, Ets(1)).min_rate(Rate(rate));
    let mut w = wire(LineConfig::classes(2, &[min(0, 250_000_000), min(1, 750_000_000)]));
    put(&mut w, 100_000, 0, 0, &units(20, 1000));
    push(&mut w, 1, 0, &units(40, 1000));
    w.advance(Instant(140_000), |_| {});
    // The first starts before the second is there: it is one unit ahead.
    assert_eq!([0, 1].map(|c| w.class_counts(c).units), [11, 29]);
}

fn with_fp(classes: &[ClassConfig]) -> Wire<u32> {
    let line = LineConfig::classes(classes.len() as u16, classes);
    Wire::new(WireConfig { overhead: 24, min_frame: 60, ..config(classes.len() as u16, Some(line)) }).unwrap()
}

#[test]
fn an_express_frame_interrupts_a_preemptible_one() {
    let mut w = with_fp(&[ClassConfig::new(1, 0, Strict).preemptible(), ClassConfig::new(1, 1, Strict)]);
    put(&mut w, 0, 0, 0, &units(2, 1514));
    // Of 500 bytes on the line 8 are the preamble: 492 have gone, then 4 of check sequence and 12
    // of gap: with 8, 516.
    put(&mut w, 500, 1, 0, &units(1, 60));
    // The rest, 1022 bytes, has a preamble, a check sequence and a gap again: 24 bytes more than
    // the whole frame.
    assert_eq!(run(&mut w, 2_000), [(100, 516, 600), (0, 0, 1646)]);
    let busy = |w: &Wire<u32>| [0, 1].map(|r| w.ring_stats(r).sent.busy.0);
    assert_eq!(busy(&w), [1562, 84]);
    // The frame is too near its end (60 bytes and their check sequence would not remain): the
    // express frame waits. The second started at 1646.
    put(&mut w, 1646 + 1463, 1, 1, &units(1, 60));
    assert_eq!(run(&mut w, 10_000), [(1, 1646, 3184), (101, 3184, 3268)]);
}

#[test]
fn a_frame_may_be_interrupted_often_and_goes_on_before_others_of_its_kind() {
    let mut w = with_fp(&[
        ClassConfig::new(1, 0, Ets(50)),
        ClassConfig::new(1, 1, Strict).preemptible(),
        ClassConfig::new(1, 2, Strict).preemptible(),
    ]);
    put(&mut w, 0, 1, 0, &units(1, 1514));
    // Express frames go first for any order of classes; a preemptible class above does not
    // interrupt.
    put(&mut w, 10, 2, 0, &units(1, 1514));
    put(&mut w, 20, 0, 0, &units(2, 100));
    // Cut after 60 bytes, at 84; two of 124; it goes on at 332 and is cut again after 60 bytes
    // more.
    assert_eq!(run(&mut w, 340), [(0, 84, 208), (1, 208, 332)]);
    push(&mut w, 0, 2, &units(1, 100));
    let rest = 1514 - 120 + 24;
    let expected = [(2, 416, 540), (100, 0, 540 + rest), (200, 540 + rest, 540 + rest + 1538)];
    assert_eq!(run(&mut w, 10_000), expected);
}

#[test]
fn a_super_packet_is_interrupted_between_frames_too() {
    let mut w = with_fp(&[ClassConfig::new(1, 0, Strict).preemptible(), ClassConfig::new(1, 1, Strict)]);
    put(&mut w, 0, 0, 0, &[Meta::new(54 + 3 * 1448).gso(54, 1448)]);
    // Frames of 1526 bytes on the line; 1500 is too near the end of the first.
    put(&mut w, 1500, 1, 0, &units(1, 60));
    assert_eq!(run(&mut w, 10_000), [(100, 1526, 1610), (0, 0, 3 * 1526 + 84)]);
}

#[test]
fn an_express_class_beyond_its_rate_interrupts_nobody() {
    let max = ClassConfig::new(1, 1, Strict).max_rate(Rate(1_000_000));
    let mut w = with_fp(&[ClassConfig::new(1, 0, Strict).preemptible(), max]);
    put(&mut w, 0, 1, 0, &units(1, 60));
    put(&mut w, 0, 0, 0, &units(2, 1514));
    assert_eq!(names(&mut w, 500), [100]);
    push(&mut w, 1, 1, &units(1, 60));
    assert_eq!(run(&mut w, 20_000), [(0, 84, 1622), (1, 1622, 3160)]);
    assert_eq!(w.next_event(), Some(Instant(84_000)));
}

#[test]
fn the_first_look_after_a_doorbell_sees_every_ring() {
    let own = |doorbell| RingConfig { doorbell: Nanos(doorbell), ..config(1, None).ring_config(0) };
    let mut c = config(3, Some(LineConfig::strict(3)));
    c.own = vec![(0, own(1000)), (1, own(500)), (2, own(5000))];
    let mut w = Wire::new(c).unwrap();
    put(&mut w, 0, 0, 0, &units(2, 100));
    put(&mut w, 100, 1, 0, &units(1, 100));
    put(&mut w, 200, 2, 0, &units(1, 100));
    assert_eq!(w.next_event(), Some(Instant(600)));
    assert_eq!(run(&mut w, 800), [(200, 600, 700), (100, 700, 800)]);
    // While the line sends, it examines the rings at each end of a unit.
    push(&mut w, 2, 1, &units(1, 100));
    assert_eq!(run(&mut w, 1200), [(0, 800, 900), (201, 900, 1000), (1, 1000, 1100)]);
}

#[test]
fn every_ring_has_an_interrupt_of_its_own() {
    let ring = |completion| RingConfig {
        ring: 8,
        descriptors: DescriptorCost::one(),
        completion,
        latency: Latency::default(),
        doorbell: Nanos::ZERO,
    };
    let mut c = config(2, None);
    c.own = vec![
        (1, ring(Completion::Periodic(Nanos(1000)))),
        (0, ring(Completion::Every { packets: 2, within: Nanos(5000) })),
    ];
    let mut w = Wire::new(c).unwrap();
    for r in 0..2 {
        put(&mut w, 0, r, 0, &units(2, 100));
    }
    assert_eq!(w.ring(0).unwrap().reserve(100), 6);
    w.ring(0).unwrap().commit().unwrap();
    let reap = |w: &mut Wire<u32>, ring| {
        let mut done = Vec::new();
        w.ring(ring).unwrap().reap(&mut |c| done.push((c.packets, c.bytes)));
        done
    };
    w.advance(Instant(299), |_| {});
    assert!(!w.ring_stats(0).reported);
    assert!(w.advance(Instant(300), |_| {}), "two of ring 0");
    assert_eq!((reap(&mut w, 1), reap(&mut w, 0)), (vec![], vec![(2, 200)]));
    assert_eq!((w.held().packets, w.ring_stats(0).held.packets, w.ring_stats(1).held.packets), (2, 0, 2));
    assert!(!w.advance(Instant(999), |_| {}));
    assert!(w.advance(Instant(1000), |_| {}));
    assert_eq!((reap(&mut w, 1), w.held().packets, w.rounds()), (vec![(2, 200)], 0, 2));
}

#[test]
fn counters_of_rings_and_of_classes_add_up() {
    let mut w =
        wire(LineConfig::classes(3, &[ClassConfig::new(2, 0, Ets(3)), ClassConfig::new(1, 2, Strict)]));
    for ring in 0..3 {
        put(&mut w, 0, ring, 0, &units(3 + usize::from(ring), 100 * (u32::from(ring) + 1)));
    }
    w.advance(Instant(100_000), |_| {});
    let of = |units, bytes| Counts { units, bytes, busy: Nanos(bytes) };
    assert_eq!([0, 1, 2].map(|r| w.ring_stats(r).sent), [of(3, 300), of(4, 800), of(5, 1500)]);
    assert_eq!([0, 1, 2].map(|c| w.class_counts(c)), [of(7, 1100), of(5, 1500), Counts::default()]);
    assert_eq!(w.counts(), of(12, 2600));
}

#[test]
fn a_change_holds_from_the_next_unit_and_loses_nothing() {
    let mut w = wire(LineConfig::strict(3));
    for ring in 0..3 {
        push(&mut w, ring, 0, &units(3, 100));
    }
    assert_eq!(names(&mut w, 250), [0, 200]);
    w.configure_scheduler(&LineConfig::round_robin(3)).unwrap();
    assert_eq!(names(&mut w, 550), [201, 1, 100]);
    w.configure_scheduler(&LineConfig::classes(
        3,
        &[ClassConfig::new(1, 2, Strict), ClassConfig::new(2, 0, Strict)],
    ))
    .unwrap();
    assert_eq!(names(&mut w, 10_000), [202, 2, 101, 102]);
    assert_eq!([0, 1].map(|c| w.class_counts(c).units).iter().sum::<u64>() + w.class_counts(2).units, 9);
}

#[test]
fn a_ring_that_is_not_used_any_more_is_emptied_first_and_takes_nothing() {
    let mut w = wire(LineConfig::strict(4));
    for ring in 0..4 {
        push(&mut w, ring, 0, &units(2, 100));
    }
    assert_eq!(names(&mut w, 150), [0]);
    w.configure_scheduler(&LineConfig::strict(2)).unwrap();
    assert_eq!((w.ring_stats(3).class, w.ring(3).unwrap().reserve(1)), (None, 0));
    assert_eq!(w.ring_stats(1).class, Some(1));
    assert_eq!(names(&mut w, 10_000), [300, 200, 201, 301, 100, 101, 1]);
    // The unit that was on the line counts for the class of its ring at its departure.
    let counts = [0, 1, 2, 3, CLASSES_MAX].map(|c| w.class_counts(c).units);
    assert_eq!((counts, w.counts().units), ([2, 2, 0, 0, 4], 8));
    w.configure_scheduler(&LineConfig::strict(4)).unwrap();
    assert_eq!(w.ring(3).unwrap().reserve(1), 1);
}

#[test]
fn an_interrupted_frame_survives_every_change() {
    for change in [
        LineConfig::round_robin(2),
        LineConfig::round_robin(1),
        LineConfig::strict(2),
        one_each(&[Ets(50), Ets(50)]),
    ] {
        let mut w = with_fp(&[ClassConfig::new(1, 0, Strict), ClassConfig::new(1, 1, Strict).preemptible()]);
        put(&mut w, 0, 1, 0, &units(2, 1514));
        put(&mut w, 100, 0, 0, &units(2, 60));
        assert_eq!(names(&mut w, 200), [0], "{change:?}");
        w.configure_scheduler(&change).unwrap();
        let mut left = run(&mut w, 20_000);
        let finish = left.iter().map(|d| d.2).max();
        // Two frames, two small ones, one interruption.
        assert_eq!(finish, Some(2 * 1538 + 2 * 84 + 24), "{change:?}: {left:?}");
        left.sort_unstable();
        assert_eq!(left.iter().map(|d| d.0).collect::<Vec<_>>(), [1, 100, 101], "{change:?}");
    }
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut w = wire(LineConfig::strict(2));
    let before = w.scheduler().clone();
    assert!(w.configure_scheduler(&LineConfig::strict(3)).is_err());
    assert_eq!(w.scheduler(), &before);
    put(&mut w, 0, 0, 0, &units(2, 100));
    push(&mut w, 1, 0, &units(1, 100));
    assert_eq!(names(&mut w, 1_000), [0, 100, 1]);
}

#[test]
fn a_new_rate_lets_go_what_the_old_one_held() {
    let slow = ClassConfig::new(1, 0, Strict).max_rate(Rate(1_000));
    let mut w = wire(LineConfig::classes(1, &[slow]));
    put(&mut w, 0, 0, 0, &units(2, 100));
    assert_eq!((names(&mut w, 1_000), w.next_event()), (vec![0], Some(Instant(100_000_000))));
    w.configure_scheduler(&LineConfig::round_robin(1)).unwrap();
    assert_eq!(run(&mut w, 2_000), [(1, 1000, 1100)]);
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let rates = |min, max| ClassConfig::new(1, 0, Strict).min_rate(Rate(min)).max_rate(Rate(max));
    let ets = |weight| ClassConfig::new(1, 0, Ets(weight));
    let ring_max = |ring, rate| LineConfig { ring_max: vec![(ring, Rate(rate))], ..LineConfig::strict(2) };
    let cases = [
        (LineConfig::strict(3), "wire queues: expected 1 to 2, the rings of the device, given \"3\""),
        (LineConfig::strict(0), "wire queues: expected 1 to 2, the rings of the device, given \"0\""),
        (LineConfig::classes(2, &[]), "wire num_tc: expected 1 to 16, given \"0\""),
        (LineConfig::classes(2, &[ets(1); 17]), "wire num_tc: expected 1 to 16, given \"17\""),
        (LineConfig::classes(2, &[ets(1)]), "wire queues: expected ring 1 in one class, given nothing"),
        (
            LineConfig::classes(2, &[ets(1), ets(1)]),
            "wire queues: expected ring 1 in one class, as in COUNT@1, given \"1@0\"",
        ),
        (
            LineConfig::classes(2, &[ClassConfig::new(1, 0, Strict), ClassConfig::new(0, 1, Strict)]),
            "wire queues: expected at least one ring in each class, given \"0@1\"",
        ),
        (
            LineConfig::classes(2, &[ClassConfig::new(3, 0, Strict)]),
            "wire queues: expected rings below 2, given \"3@0\"",
        ),
        (LineConfig::classes(1, &[ets(0)]), "wire class 0 ets: expected a weight of 1 to 100, given \"0\""),
        (
            LineConfig::classes(1, &[ets(101)]),
            "wire class 0 ets: expected a weight of 1 to 100, given \"101\"",
        ),
        (
            LineConfig::classes(1, &[rates(2, 1)]),
            "wire class 0 min_rate: expected at most max_rate, 8bit, given \"16bit\"",
        ),
        (
            LineConfig::classes(1, &[rates(0, 1)]),
            "wire class 0 min_rate: expected at least 1 byte/s, given \"0\"",
        ),
        (
            LineConfig::classes(1, &[rates(1_000_000_001, 2_000_000_000)]),
            "wire min_rate: expected at most 8000000000bit in sum, the line's rate, given \"8000000008bit\"",
        ),
        (ring_max(2, 1), "wire tx_maxrate: expected rings below 2, given \"2\""),
        (ring_max(0, 0), "wire tx_maxrate: expected at least 1 byte/s, given \"0\""),
    ];
    let mut w = wire(LineConfig::round_robin(2));
    for (line, expected) in cases {
        assert_eq!(w.configure_scheduler(&line).unwrap_err().to_string(), expected, "{line:?}");
    }
}

#[test]
fn what_a_device_cannot_do_is_refused_in_words() {
    let class = ClassConfig::new(1, 0, Strict);
    let all = Offload::ALL;
    let cases = [
        (
            Offload { classes: 1, ..all },
            LineConfig::strict(2),
            "wire num_tc: expected at most 1, the traffic classes of the device, given \"2\"",
        ),
        (
            Offload { ets: false, ..all },
            LineConfig::classes(1, &[ClassConfig::new(1, 0, Ets(7))]),
            "wire class 0 ets: expected a device that shares its line by weight, given \"7\"",
        ),
        (
            Offload { bw_rlimit: false, ..all },
            LineConfig::classes(1, &[class.max_rate(Rate(5))]),
            "wire class 0 max_rate: expected a device with the shaper bw_rlimit, given \"5\"",
        ),
        (
            Offload { fp: false, ..all },
            LineConfig::classes(1, &[class.preemptible()]),
            "wire class 0 fp: expected a device that interrupts frames, given \"P\"",
        ),
        (
            Offload { queue_rate: false, ..all },
            LineConfig { ring_max: vec![(0, Rate(5))], ..LineConfig::strict(1) },
            "wire tx_maxrate: expected a device that keeps rates of its rings, given \"5\"",
        ),
    ];
    for (offload, line, expected) in cases {
        let mut w = Wire::<u32>::new(WireConfig { offload, ..config(2, None) }).unwrap();
        assert_eq!((w.caps().queues, w.caps().offload), (2, offload));
        let err = w.configure_scheduler(&line).unwrap_err();
        assert_eq!((err.kind, err.to_string().as_str()), (ErrorKind::Unsupported, expected));
        // Taking turns needs no further option.
        let plain = Wire::<u32>::new(WireConfig { offload: Offload::NONE, ..config(2, None) }).unwrap();
        assert_eq!(plain.scheduler(), &LineConfig::round_robin(2));
    }
}

#[test]
fn refuses_rings_that_cannot_be() {
    let own =
        |rings: &[u16]| -> Vec<_> { rings.iter().map(|r| (*r, config(1, None).ring_config(0))).collect() };
    let cases = [
        (WireConfig { rings: 0, ..config(1, None) }, "wire rings: expected 1 to 4096, given \"0\""),
        (WireConfig { rings: 4097, ..config(1, None) }, "wire rings: expected 1 to 4096, given \"4097\""),
        (
            WireConfig { rings: 4096, ring: 1025, ..config(1, None) },
            "wire rings: expected at most 4194304 descriptors in all rings together, given \"4198400\"",
        ),
        (WireConfig { own: own(&[2]), ..config(2, None) }, "wire own: expected 0 to 1, given \"2\""),
        (
            WireConfig { own: own(&[1, 1]), ..config(2, None) },
            "wire own: expected each ring once, given \"1\"",
        ),
        (
            WireConfig { line: Some(LineConfig::strict(2)), ..config(1, None) },
            "wire queues: expected 1 to 1, the rings of the device, given \"2\"",
        ),
    ];
    for (c, expected) in cases {
        assert_eq!(Wire::<u32>::new(c).unwrap_err().to_string(), expected);
    }
    let mut w = wire(LineConfig::strict(2));
    assert!(w.ring(2).is_none());
}

/// A wire gets more rings while it sends: the unit on the line goes on, and the new rings take
/// packets once a scheduler includes them.
#[test]
fn a_wire_gets_more_rings_while_it_sends() {
    let mut w = wire(LineConfig::round_robin(1));
    put(&mut w, 0, 0, 0, &units(3, 1000));
    w.advance(Instant(500), |d| panic!("{d:?}"));
    w.add_rings(3).unwrap();
    assert_eq!((w.caps().queues, w.ring(2).unwrap().reserve(1), w.scheduler().rings), (3, 0, 1));
    w.configure_scheduler(&LineConfig::round_robin(3)).unwrap();
    push(&mut w, 2, 0, &units(2, 1000));
    // Turns begin anew.
    assert_eq!(names(&mut w, 10_000), [0, 1, 200, 2, 201]);
    // A smaller number of rings is no change; too many are refused, and change nothing.
    w.add_rings(2).unwrap();
    let refused = [w.check_rings(4097), w.add_rings(4097)].map(|r| r.unwrap_err().to_string());
    assert_eq!(refused, ["wire rings: expected 1 to 4096, given \"4097\""; 2]);
    assert_eq!((w.caps().queues, w.counts().units), (3, 5));
}
