use super::*;
use std::vec::Vec;

/// avpkt 1000 at 10 Mbit/s: 800 us.
const PACKET: Nanos = Nanos::from_micros(800);

fn params(min: u32, max: u32, wlog: u8, probability: u32) -> RedParams {
    RedParams::new(min, max, wlog, probability, IdleTable::new(wlog, PACKET)).unwrap()
}

#[test]
fn weights_as_tc_works_them_out() {
    // Values of `ewma` in `tc -d qdisc show`.
    for (min, burst, avpkt, wlog) in [
        (87_381, 97, 1500, 6),
        (102_400, 113, 1500, 6),
        (29_772, 200, 1500, 10),
        (63_881, 381, 200, 6),
        (199_571, 156, 1500, 5),
        (45_833, 225, 500, 8),
        (13_124, 103, 200, 6),
        (3_493, 197, 1500, 14),
        (2_542, 355, 1500, 17),
        (1_000, 1, 1000, 1),
        (8_533, 12, 1000, 3),
    ] {
        assert_eq!(weight_for_burst(min, burst, avpkt), Ok(wlog), "{min} {burst} {avpkt}");
    }
    assert_eq!(weight_for_burst(66_672, 131, 200), Err(RedError::BurstTooSmall(334)));
    assert_eq!(weight_for_burst(102_400, 68, 1500), Err(RedError::BurstTooSmall(69)));
    assert_eq!(weight_for_burst(0, u32::MAX, 1), Err(RedError::BurstTooLarge));
}

/// min, burst, avpkt, and the weight that python3 finds in doubles:
/// `next(w for w in range(1, 32) if burst + 1 - min / avpkt <= (1 - (1 - 2**-w) ** burst) * 2**w)`.
/// The last number is that of exact fractions, where it is another.
#[test]
fn weights_are_those_of_doubles() {
    for (min, burst, avpkt, wlog, exact) in [
        (52_000, 53, 1000, 2, 2),
        (53_000, 54, 1000, 1, 2),
        (60_000, 61, 1000, 1, 2),
        (63_000, 64, 1000, 1, 2),
        (10_600, 54, 200, 1, 2),
        (126_000, 129, 1000, 3, 3),
        (128_000, 131, 1000, 2, 3),
        (130_000, 133, 1000, 2, 3),
        (270_000, 277, 1000, 4, 4),
        (296_000, 303, 1000, 3, 4),
        (300_000, 307, 1000, 3, 4),
        (60_500, 61, 1000, 1, 1),
        (60_000, 62, 1000, 2, 2),
        (90_000, 91, 1500, 6, 6),
        (600_000, 700, 1000, 7, 7),
        (30_000, 55, 1000, 5, 5),
        (1000, 2, 1000, 27, 99),
    ] {
        assert_eq!(weight_for_burst(min, burst, avpkt), Ok(wlog), "{min} {burst} {avpkt} {exact}");
    }
    assert_eq!(weight_for_burst(0, 1, 1000), Err(RedError::BurstTooLarge));
}

#[test]
fn idle_tables_as_tc_lays_them_out() {
    // limit 1M avpkt 1500 at 10 Mbit/s, weight 2^-6.
    let t = IdleTable::new(6, Nanos::from_micros(1200));
    assert_eq!(t.cell_log(), 17);
    assert_eq!((t.shifts[9], t.shifts[10], t.shifts[19], t.shifts[254], t.shifts[255]), (0, 1, 2, 27, 31));
    // A packet that takes no time at all: nothing is left after the first cell.
    let t = IdleTable::new(6, Nanos(0));
    assert_eq!((t.cell_log(), t.shifts[0], t.shifts[1]), (0, 0, 31));
    assert_eq!(IdleTable::new(31, Nanos::from_secs(3600)).cell_log(), 31);
}

#[test]
fn an_idle_time_shrinks_the_average_by_the_table_and_below_a_cell_by_a_line() {
    let t = IdleTable::new(6, Nanos::from_micros(1200));
    let cell = Nanos::from_micros(1 << 17);
    assert_eq!(t.shrink(1 << 20, Nanos(0)), 1 << 20);
    assert_eq!(t.shrink(1 << 20, Nanos(cell.0 / 4)), (1 << 20) - (1 << 18));
    assert_eq!(t.shrink(1 << 20, Nanos(cell.0 * 3)), 1 << 19);
    assert_eq!(t.shrink(1 << 20, Nanos(cell.0 * 10)), 1 << 19);
    assert_eq!(t.shrink(1 << 20, Nanos(cell.0 * 19)), 1 << 18);
    assert_eq!(t.shrink(u64::MAX, Nanos(u64::MAX)), u64::MAX >> 31);
}

#[test]
fn the_average_moves_by_its_weight_and_decides() {
    let p = params(1000, 2000, 2, 1 << 31);
    let (mut s, mut rng) = (RedState::new(&p, Instant::ZERO), Rng::new(1));
    let mut seen = Vec::new();
    for _ in 0..6 {
        let action = s.on_arrival(&p, 4000, Instant::ZERO, &mut rng);
        seen.push((s.average(&p), action));
    }
    // 4000 (1 - 0.75^n).
    assert_eq!(seen[0], (1000, RedAction::Pass));
    assert_eq!(seen[1].0, 1750);
    assert_eq!(seen[2], (2312, RedAction::Forced));
    assert_eq!(seen[5], (3288, RedAction::Forced));
}

/// Marks are uniform: with a constant average, the gaps between them are 1 to 1/p, all equally
/// frequent.
#[test]
fn gaps_between_marks_are_uniform() {
    // An average of 1600 between 1000 and 2000, where the probability is 0.1: 0.06 of 2^32, gaps up
    // to 16.7.
    let p = params(1000, 2000, 4, u32::MAX / 10);
    let (mut s, mut rng) = (RedState::new(&p, Instant::ZERO), Rng::new(7));
    s.average = 1600 << 4;
    let (mut gaps, mut gap) = ([0u32; 20], 0);
    for _ in 0..400_000 {
        let action = s.action(&p, &mut rng);
        gap += 1;
        if action == RedAction::Early {
            gaps[gap] += 1;
            gap = 0;
        }
    }
    let marks: u32 = gaps.iter().sum();
    // Mean gap of a uniform distribution on 0..1/p, rounded up: 1 / (2 p) + 1/2.
    let mean = 400_000.0 / f64::from(marks);
    assert!((mean - (1.0 / 0.12 + 0.5)).abs() < 0.1, "{mean}");
    for (gap, times) in gaps.iter().enumerate().take(17).skip(1) {
        let share = f64::from(*times) / f64::from(marks);
        assert!((share - 0.06).abs() < 0.005, "{gap}: {share}");
    }
    assert_eq!(gaps[18] + gaps[19], 0);
}

/// The paper, figure 2: packets are counted from `min` on, `min` included, and all are marked from
/// `max` on.
#[test]
fn both_thresholds_belong_to_the_range_above_them() {
    let p = params(1000, 2000, 4, u32::MAX / 10);
    let (mut s, mut rng) = (RedState::new(&p, Instant::ZERO), Rng::new(3));
    for (average, action) in [
        (2000 << 4, RedAction::Forced),
        ((2000 << 4) + 1, RedAction::Forced),
        ((1000 << 4) - 1, RedAction::Pass),
    ] {
        s.average = average;
        assert_eq!((s.action(&p, &mut rng), s.count), (action, None), "{average}");
    }
    // The drawn number is at most 10 000: the next mark is due 12 packets later at 900 above `min`.
    s.average = 1000 << 4;
    for n in 0..12 {
        assert_eq!((s.action(&p, &mut rng), s.count), (RedAction::Pass, Some(n)));
    }
    s.average = 1900 << 4;
    assert_eq!(s.action(&p, &mut rng), RedAction::Early);
}

/// A mark comes once the packets times their distance above `min` reach the number.
#[test]
fn a_mark_comes_when_the_number_is_reached() {
    let p = params(1000, 2000, 4, u32::MAX / 10);
    for (drawn, marked) in [(2999, 5), (3000, 5), (3001, 6)] {
        let start = RedState::new(&p, Instant::ZERO);
        let mut s = RedState { average: 1600 << 4, count: Some(0), drawn, ..start };
        let mut rng = Rng::new(3);
        assert_eq!((1..).find(|_| s.action(&p, &mut rng) == RedAction::Early), Some(marked), "{drawn}");
    }
}

/// A queue is idle from the first time at which it is found empty.
#[test]
fn an_idle_time_begins_once() {
    let p = params(1000, 2000, 6, u32::MAX / 10);
    let shrunk = |looks: &[u64]| {
        let mut s = RedState { average: 1600 << 6, ..RedState::new(&p, Instant::ZERO) };
        looks.iter().for_each(|ms| s.start_idle(Instant::from_millis(*ms)));
        let _ = s.on_arrival(&p, 0, Instant::from_millis(2000), &mut Rng::new(1));
        s.average(&p)
    };
    assert_eq!(shrunk(&[0, 900, 1900]), shrunk(&[0]));
    assert!(shrunk(&[0]) < shrunk(&[1900]) && shrunk(&[1900]) < 1600);
}

#[test]
fn the_probability_follows_the_average() {
    let p = params(1000, 2000, 4, u32::MAX / 50);
    let mut s = RedState::new(&p, Instant::ZERO);
    let percent = |s: &RedState| f64::from(s.probability()) * 100.0 / 4_294_967_296.0;
    s.average = 1700 << 4;
    s.adapt(&p, Instant::from_millis(499));
    assert_eq!(s.probability(), u32::MAX / 50);
    s.adapt(&p, Instant::from_millis(500));
    assert!((percent(&s) - 2.5).abs() < 0.001);
    s.adapt(&p, Instant::from_millis(1_500));
    assert!((percent(&s) - 2.5 * 1.25 * 1.25).abs() < 0.001, "{}", percent(&s));
    // One day later the probability is just above one half.
    s.adapt(&p, Instant::from_secs(86_400));
    assert!((50.0..51.1).contains(&percent(&s)));
    s.average = 1300 << 4;
    s.adapt(&p, Instant::from_secs(86_401));
    assert!((percent(&s) - 50.7 * 0.81).abs() < 1.0);
    s.adapt(&p, Instant::from_secs(2 * 86_400));
    assert!((0.9..1.0).contains(&percent(&s)));
    // Between the targets nothing changes.
    s.average = 1500 << 4;
    let before = s.probability();
    s.adapt(&p, Instant::from_secs(3 * 86_400));
    assert_eq!(s.probability(), before);
}

#[test]
fn steps_taken_late_are_the_steps_taken_in_time() {
    let p = params(1000, 2000, 4, u32::MAX / 50);
    let mut early = RedState::new(&p, Instant::ZERO);
    early.average = 1700 << 4;
    early.start_idle(Instant::from_millis(700));
    let mut late = early.clone();
    for ms in (0..60_000).step_by(250) {
        early.adapt(&p, Instant::from_millis(ms));
    }
    late.adapt(&p, Instant::from_millis(59_750));
    assert_eq!(early, late);
}

#[test]
fn what_does_not_fit_is_refused() {
    let idle = || IdleTable::new(6, PACKET);
    assert_eq!(RedParams::new(1 << 26, 1 << 26, 6, 1, idle()), Err(RedError::MinTooLarge));
    assert_eq!(RedParams::new(1000, 1 << 26, 6, 1, idle()), Err(RedError::Max));
    assert_eq!(RedParams::new(1000, 999, 6, 1, idle()), Err(RedError::Max));
    assert_eq!(RedParams::new(1000, 2000, 6, 0, idle()), Err(RedError::NoProbability));
    assert!(RedParams::new(1000, 1000, 6, 1, idle()).is_ok());
}

/// red-idle-cells: where cells are coarse, tc's table overflows 32 bits, and an average then
/// recovers.
#[test]
fn the_longer_the_idle_time_the_less_is_left() {
    for (wlog, micros) in [(7, 187_500), (9, 187_500), (17, 1_200), (12, 1_000_000)] {
        let t = IdleTable::new(wlog, Nanos::from_micros(micros));
        assert!(t.shifts.windows(2).all(|w| w[0] <= w[1]), "{wlog} {micros}");
    }
}
