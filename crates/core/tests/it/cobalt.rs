//! The law of cake's queues, CoDel and BLUE together, on numbers.

use txweir_core::law::cobalt::{CobaltParams, CobaltState};
use txweir_core::{Instant, Nanos};

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// The times of signals: the sum of interval / sqrt(n), the first at once.
#[test]
fn signals_come_at_the_inverse_square_root() {
    let p = CobaltParams { target: 5_000_000, interval: 100_000_000, mtu_time: 0, strict_linux: false };
    let mut law = CobaltState::default();
    let (mut now, mut times) = (Instant(1_000_000_000), Vec::new());
    while times.len() < 40 {
        if law.on_dequeue(&p, now, Nanos::from_millis(50), 0, || false, || unreachable!("BLUE is at rest")) {
            times.push(now.0 - 1_000_000_000);
        }
        now += Nanos(1000);
    }
    assert_eq!(times[..6], [1000, 70_711_000, 128_446_000, 178_446_000, 223_168_000, 263_992_000]);
    let mut sum = 0.0;
    for (n, t) in times.iter().enumerate() {
        assert!((*t as f64 - sum - 1000.0).abs() < 5e5, "signal {n}: {t} against {sum}");
        sum += 1e8 / (n as f64 + 2.0).sqrt();
    }
}

/// Signals are due 70.7, 128.4, 178.4, 223.2, 264.0, 301.8, 337.1, 370.5 and 402.1 ms after the
/// first. Drops that fell due in a silence are made up for at once. A packet that is marked is
/// sent, and the schedule goes on from there: with the mark that is due then, and a spacing.
#[test]
fn drops_are_made_up_for_and_marks_are_not() {
    let p = CobaltParams { target: 5_000_000, interval: 100_000_000, mtu_time: 0, strict_linux: false };
    for (marks, at_once) in [(false, 7), (true, 2)] {
        let mut law = CobaltState::default();
        let mut signals = |at: Instant, packets: usize| {
            let (mut dropped, mut marked) = (0, 0);
            for _ in 0..packets {
                let signal = || {
                    marked += u32::from(marks);
                    marks
                };
                let draw = || unreachable!("BLUE is at rest");
                dropped += u32::from(law.on_dequeue(&p, at, Nanos::from_millis(50), 0, signal, draw));
            }
            assert_eq!(if marks { dropped } else { marked }, 0, "a packet is marked or dropped");
            dropped + marked
        };
        assert_eq!((signals(ms(1000), 1), signals(ms(1000) + Nanos(1000), 1)), (0, 1));
        assert_eq!((signals(ms(1070), 1), signals(ms(1071), 1)), (0, 1));
        assert_eq!(signals(ms(1371), 20), at_once, "marks: {marks}");
    }
}

#[test]
fn an_empty_queue_ends_signalling() {
    let p = CobaltParams { target: 5_000_000, interval: 100_000_000, mtu_time: 0, strict_linux: false };
    let mut law = CobaltState::default();
    law.on_dequeue(&p, ms(1000), Nanos::from_millis(50), 0, || true, || 0);
    assert!(law.dropping());
    law.on_empty(&p, ms(1001));
    assert!(!law.dropping());
}

/// After a good time the count falls by one for each signal that would have been due; and a queue
/// is at rest an interval after its last packet.
#[test]
fn the_law_forgets_at_the_rate_at_which_it_learned() {
    let p = CobaltParams { target: 5_000_000, interval: 100_000_000, mtu_time: 0, strict_linux: false };
    let mut law = CobaltState::default();
    let mut now = ms(1000);
    let look = |law: &mut CobaltState, now, waited| {
        law.on_dequeue(&p, now, Nanos::from_millis(waited), 0, || false, || unreachable!("BLUE is at rest"))
    };
    while law.count() < 5 {
        look(&mut law, now, 50);
        now += Nanos::from_millis(1);
    }
    // The fifth signal of interval / sqrt(5) is due in 44 ms; then one less after 50, 57, 70 and
    // 100 ms more.
    let mut counts = Vec::new();
    for _ in 0..5 {
        counts.push((now.0 / 1_000_000, law.count()));
        let before = law.count();
        while law.count() == before && now < ms(3000) {
            assert!(!look(&mut law, now, 1));
            now += Nanos::from_millis(1);
        }
    }
    assert_eq!(counts, [(1180, 5), (1225, 4), (1275, 3), (1332, 2), (1403, 1)]);
    assert_eq!((law.count(), law.at_rest(now), law.at_rest(now + Nanos::from_millis(100))), (0, false, true));
}

/// BLUE: 1/256 more each time that the queue overflows, 1/4096 less each time that it runs empty,
/// once per target.
#[test]
fn blue_rises_and_falls_once_per_target() {
    let p = CobaltParams { target: 5_000_000, interval: 100_000_000, mtu_time: 0, strict_linux: false };
    let mut law = CobaltState::default();
    assert!(law.on_full(&p, ms(1000)), "it begins");
    assert!(!law.on_full(&p, ms(1005)), "too soon");
    assert_eq!(law.p_drop(), 1 << 24);
    assert!(!law.on_full(&p, ms(1006)));
    assert_eq!(law.p_drop(), 2 << 24);
    let mut now = ms(1006);
    for n in 0..32 {
        assert!(!law.on_empty(&p, now), "too soon");
        now += Nanos::from_millis(6);
        assert_eq!(law.on_empty(&p, now), n == 31, "{n}");
    }
    assert_eq!(law.p_drop(), 0);
    // Its random draws: a draw below its probability drops a packet of any kind.
    let mut law = CobaltState::default();
    law.on_full(&p, ms(2000));
    for (draw, drop) in [(0, true), ((1 << 24) - 1, true), (1 << 24, false), (u32::MAX, false)] {
        let mut law = law;
        assert_eq!(law.on_dequeue(&p, ms(2001), Nanos(0), 0, || true, || draw), drop, "{draw:#x}");
    }
}

/// At 64 bytes/s a target is the time of one and a half frames: a queue that overflows sooner after
/// the start of the clock leaves BLUE alone.
#[test]
fn blue_waits_for_a_target_from_the_start_of_the_clock() {
    let p = CobaltParams {
        target: 35_484_375_000,
        interval: 70_968_750_000,
        mtu_time: 23_656_250_000,
        strict_linux: false,
    };
    let mut law = CobaltState::default();
    assert!(!law.on_full(&p, Instant(35_484_375_000)));
    assert_eq!((law.p_drop(), law.dropping()), (0, true));
    assert!(law.on_full(&p, Instant(35_484_375_001)));
    assert_eq!(law.p_drop(), 1 << 24);
}

/// Linux takes an interval of 10 s for 1.41 s where it computes the time to the next signal.
#[test]
fn a_long_interval_is_kept_whole_and_cut_as_in_linux() {
    for (strict_linux, next) in [(false, 1e10), (true, 1e10 - 2.0 * 4_294_967_296.0)] {
        let p = CobaltParams { target: 5_000_000, interval: 10_000_000_000, mtu_time: 0, strict_linux };
        let mut law = CobaltState::default();
        // The first signal of a new queue is due at once, and the second an interval later.
        for _ in 0..2 {
            law.on_dequeue(&p, ms(20_000), Nanos::from_millis(50), 0, || true, || unreachable!());
        }
        let after = law.drop_next().0 - ms(20_000).0;
        let expected = next * 0.5_f64.sqrt();
        assert!((after as f64 / expected - 1.0).abs() < 1e-6, "{strict_linux}: {after} against {expected}");
    }
}

/// Four frames are no standing queue; on ingress, neither are two frames for each bulk flow.
#[test]
fn a_few_frames_are_no_standing_queue() {
    let p =
        CobaltParams { target: 5_000_000, interval: 100_000_000, mtu_time: 2_000_000, strict_linux: false };
    for (lenient, most) in [(0, 8), (2, 8), (5, 20)] {
        for (waited, dropping) in [(most, false), (most + 1, true)] {
            let mut law = CobaltState::default();
            law.on_dequeue(&p, ms(1000), Nanos::from_millis(waited), lenient, || false, || unreachable!());
            assert_eq!(law.dropping(), dropping, "{lenient} flows, {waited} ms");
        }
    }
}
