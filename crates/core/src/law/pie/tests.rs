use super::*;
use crate::base::rng::Rng;
use proptest::prelude::*;

const PARAMS: PieParams = PieParams {
    target: Ticks::span(Nanos::from_millis(15)),
    alpha: 2,
    beta: 20,
    bytemode: false,
    estimates_rate: false,
    mtu: 1514,
    strict_linux: false,
};

/// Returns a queue that was never calm and whose packets have waited this long.
fn waiting(us: u64) -> PieState {
    PieState { delay: Ticks::span(Nanos::from_micros(us)), burst: Ticks(0), ..PieState::default() }
}

/// Returns a probability in parts of a million.
fn ppm(prob: u64) -> u64 {
    (u128::from(prob) * 1_000_000 / u128::from(ONE)) as u64
}

#[test]
fn gains_shrink_with_the_probability() {
    // RFC 8033 section 4.2: 1/2048, 1/512, 1/128, 1/32, 1/8, 1/2 and 1 of the gains. A delay that
    // stays at 115 ms is 0.1 s above the target: alpha times that is 0.0125.
    for (prob, divisor) in [
        (0, 2048),
        (ONE / 999_999, 512),
        (ONE / 99_999, 128),
        (ONE / 9999, 32),
        (ONE / 999, 8),
        (ONE / 99, 2),
        (ONE / 9, 1),
    ] {
        let delay = Ticks::span(Nanos::from_millis(115));
        let mut s = PieState { prob, delay, delay_old: delay, ..waiting(0) };
        s.update(&PARAMS, 100_000);
        let (step, ideal) = (s.prob - prob, ONE / 80 / divisor);
        assert!(step.abs_diff(ideal) < ideal / 1000, "{divisor}: {step}, by the RFC {ideal}");
    }
}

#[test]
fn the_trend_counts_ten_times() {
    // From 15 to 25 ms: 0.01 s above, 0.01 s more than before.
    let mut s = PieState { delay_old: PARAMS.target, ..waiting(25_000) };
    s.prob = ONE / 9;
    let before = s.prob;
    s.update(&PARAMS, 100_000);
    assert_eq!(ppm(s.prob - before), 13_750 - 1);
    // The way back takes off the same.
    s.delay = PARAMS.target;
    s.update(&PARAMS, 100_000);
    assert_eq!(ppm(s.prob) - ppm(before), 13_750 - 12_500);
}

#[test]
fn an_update_adds_two_percent_at_most_and_two_more_above_250_ms() {
    let after = |prob, delay_ms: u64, old_ms: u64| {
        let mut s =
            PieState { prob, delay_old: Ticks::span(Nanos::from_millis(old_ms)), ..waiting(delay_ms * 1000) };
        s.update(&PARAMS, 1_000_000);
        ppm(s.prob) - ppm(prob)
    };
    assert_eq!(after(ONE / 10, 200, 0), 20_000);
    assert_eq!(after(ONE / 10, 250, 0), 20_000, "above, and not at, 250 ms: RFC 8033 section 5.6");
    assert_eq!(after(ONE / 10, 251, 0), 40_000);
    // Below 10 % there is no such bound: 10 s at 1/2048 of the gains, and the two percent.
    assert_eq!(after(0, 10_000, 0), 20_000 + (9_985 * 125 + 10_000 * 1_250) / 2048);
    // The probability is bounded by one, but in Linux it is not.
    assert_eq!(after(ONE - 1000, 251, 0), 1);
    let mut s = PieState { prob: ONE - 1000, ..waiting(251_000) };
    s.update(&PieParams { strict_linux: true, ..PARAMS }, 1_000_000);
    assert_eq!(ppm(s.prob()), 1_039_999);
}

#[test]
fn an_idle_queue_decays_and_lets_the_next_burst_pass() {
    let mut s = PieState { prob: ONE / 2, ..waiting(0) };
    s.update(&PARAMS, 0);
    // alpha times 15 ms, then a 64th.
    let step = 2 * (ONE / TICKS_PER_S) / 16 * PARAMS.target.0;
    assert_eq!(s.prob, ONE / 2 - step - (ONE / 2 - step) / 64);
    // Behind a first packet, which has not waited, no decay takes place.
    let before = s.prob;
    s.update(&PARAMS, 1000);
    assert_eq!(s.prob, before - step);
    let mut updates = 0;
    while s.burst.0 == 0 {
        s.update(&PARAMS, 0);
        updates += 1;
    }
    assert_eq!((s.prob, s.burst, updates), (0, MAX_BURST, 166));
}

/// A queue may be calm for minutes between two departures. The time since the one before the calm
/// takes nothing off the time for which a burst passes.
#[test]
fn the_first_packet_after_a_calm_begins_the_burst() {
    let second = |n: u64| Ticks::span(Nanos::from_secs(n));
    let depart = |s: &mut PieState, at: Ticks| s.departed(&PARAMS, 1000, Ticks(1), at, 5000);
    let mut s = PieState::default();
    depart(&mut s, second(100));
    assert_eq!(s.burst, MAX_BURST, "the first departure of all");
    depart(&mut s, second(101));
    assert_eq!(s.burst, Ticks(0), "a second after it");
    s.update(&PARAMS, 5000);
    assert_eq!(s.burst, MAX_BURST, "a calm queue");
    depart(&mut s, second(200));
    assert_eq!(s.burst, MAX_BURST, "the first departure after the calm");
    depart(&mut s, Ticks(second(200).0 + Ticks::span(Nanos::from_millis(100)).0));
    assert_eq!(s.burst, Ticks::span(Nanos::from_millis(50)));
}

/// A wait of 1126 s times a gain is above 2^63: Linux takes its lowest 64 bits, and the probability
/// falls.
#[test]
fn a_wait_of_minutes_raises_the_probability() {
    let delay = Ticks::span(Nanos::from_secs(1126));
    let long = PieState { prob: ONE / 2, delay, delay_old: delay, ..waiting(0) };
    let after = |strict_linux| {
        let mut s = long;
        s.update(&PieParams { strict_linux, ..PARAMS }, 1_000_000);
        s.prob
    };
    assert_eq!(ppm(after(false)), 540_000 - 1);
    assert_eq!(after(true), 0);
}

#[test]
fn bursts_small_queues_and_short_delays_pass() {
    let high = PieState { prob: ONE, sum: SUM_HIGH, ..waiting(100_000) };
    let drops = |s: PieState, backlog| { s }.drops(&PARAMS, 1514, backlog, || 0);
    assert!(drops(high, 3028));
    assert!(!drops(high, 3027), "less than two full frames are no queue");
    assert!(!drops(PieState { burst: Ticks(1), ..high }, 100_000), "a burst passes");
    let short = PieState { delay: Ticks(PARAMS.target.0 / 2 - 1), prob: ONE / 5 - 1, ..high };
    assert!(!drops(short, 100_000), "a short delay and a small probability");
    assert!(drops(PieState { prob: ONE / 5, ..short }, 100_000));
    assert!(drops(PieState { delay: Ticks(PARAMS.target.0 / 2), ..short }, 100_000));
}

#[test]
fn a_drop_is_never_soon_nor_late() {
    // At 10 %: eight packets pass whatever the coin shows (RFC 8033 section 5.4), the 86th is
    // dropped.
    let start = PieState { prob: ONE / 10, ..waiting(20_000) };
    let until = |coin: u64| {
        let mut s = start;
        (1..).find(|_| s.drops(&PARAMS, 1514, 100_000, || coin)).unwrap_or(0)
    };
    assert_eq!((until(0), until(u64::MAX)), (9, 86));
    // Before that the coin is not even tossed, and a drop for another reason resets the sum.
    let mut s = start;
    for round in 0..3 {
        assert!((0..8).all(|_| !s.drops(&PARAMS, 1514, 100_000, || panic!("round {round}"))));
        s.dropped();
    }
}

/// RFC 8033 section 5.1: a packet is marked at a probability of at most 10 %.
#[test]
fn marks_stand_for_drops_up_to_ten_percent() {
    for (prob, marks) in [(0, true), (TEN_PERCENT, true), (TEN_PERCENT + 1, false), (ONE, false)] {
        assert_eq!(PieState { prob, ..waiting(20_000) }.marks(), marks, "{prob}");
    }
}

/// In Linux the sum stays, and every packet after a late mark is marked.
#[test]
fn a_late_mark_does_not_bring_on_others() {
    let late = PieState { prob: ONE / 20, sum: SUM_HIGH, ..waiting(20_000) };
    let marked = |strict_linux: bool| {
        let (mut s, p) = (late, PieParams { strict_linux, ..PARAMS });
        (0..100).filter(|_| s.drops(&p, 1514, 100_000, || u64::MAX)).count()
    };
    assert_eq!((marked(false), marked(true)), (1, 100));
}

#[test]
fn as_many_are_dropped_as_the_spacing_makes_of_the_probability() {
    // No drop within the first k = ceil(0.85 / p) - 1 packets, then each with p: one in k + 1 / p.
    for percent in [1, 5, 10, 30] {
        let mut rng = Rng::new(percent);
        let mut s = PieState { prob: ONE / 100 * percent, ..waiting(20_000) };
        let packets = 400_000;
        let mut arrive = || {
            let drop = s.drops(&PARAMS, 1514, 100_000, || rng.next_u64());
            if drop {
                s.dropped();
            }
            u32::from(drop)
        };
        let drops = f64::from((0..packets).map(|_| arrive()).sum::<u32>());
        let p = percent as f64 / 100.0;
        let ideal = f64::from(packets) / ((0.85 / p).ceil() - 1.0 + 1.0 / p);
        // The gap's deviation is sqrt(1 - p) / p: five of the count's.
        let bound = 5.0 * ideal.sqrt() * ((1.0 - p).sqrt() / p) / ((0.85 / p).ceil() - 1.0 + 1.0 / p);
        assert!((drops - ideal).abs() < bound, "{percent} %: {drops} drops, by the law {ideal}, +- {bound}");
    }
}

#[test]
fn small_packets_are_spared_in_bytemode() {
    let p = PieParams { bytemode: true, ..PARAMS };
    let drops = |len: u32, coin: u64| {
        let mut s = PieState { prob: ONE, sum: SUM_LOW, ..waiting(100_000) };
        s.drops(&p, len, 100_000, || coin)
    };
    // A tenth of a frame: the coin decides about a tenth.
    let tenth = u64::MAX / 10;
    assert!(drops(152, tenth) && !drops(151, tenth));
    // A full frame, less the loss by the division by its length: at most the frame's length in
    // 2^56.
    assert!(drops(1514, u64::MAX - (1 << 20)) && drops(9000, u64::MAX - (1 << 16)));
    assert!(!drops(0, 0), "nothing of a packet is nothing of a drop");
}

#[test]
fn the_rate_is_measured_over_16_kib_that_leave_a_queue_behind() {
    let p = PieParams { estimates_rate: true, ..PARAMS };
    let mut s = PieState::default();
    // 1000 bytes each 10 us, from a queue of 40 kB that becomes shorter.
    let at = |n: u64| Ticks::at(Instant(n * 10_000));
    for i in 0..40 {
        s.departed(&p, 1000, Ticks(0), at(100 + i), 40_000 - 1000 * (i + 1));
        // The 17th packet of a measurement ends it, 160 us after it began.
        let burst = MAX_BURST.since(at(if i >= 33 {
            33
        } else if i >= 16 {
            16
        } else {
            0
        }));
        assert_eq!(s.burst, burst, "{i}");
    }
    // 17 000 bytes in 2500 ticks are 1740 / 256 of a byte in each; in 2656 they are 1638, of which
    // an eighth counts.
    assert_eq!(s.rate(), ((1740 - 217 + 204) * TICKS_PER_S) >> 8);
    s.update(&p, 100_000);
    assert_eq!(s.delay(), Ticks((100_000 << 8) / 1727));
}

#[test]
fn the_bounds_of_a_decade_hold_its_probabilities() {
    for prob in [
        0,
        1,
        ONE / 1_000_000 - 1,
        ONE / 1_000_000,
        ONE / 1000,
        ONE / 100 - 1,
        ONE / 10 - 1,
        ONE / 10,
        ONE,
        u64::MAX - 1,
    ] {
        let (low, high) = decade_bounds(decade(prob));
        assert!((low..high).contains(&prob), "{prob}: {low} to {high}");
    }
    assert_eq!([0, ONE / 999_999, ONE / 99, ONE / 10].map(decade), [6, 5, 1, 0]);
}

/// A delay above 250 ms adds two percent a time, and a target above the delay takes more away, but
/// less of it below 10 %.
#[test]
fn a_probability_that_swings_is_left_on_its_way() {
    let second = Ticks::span(Nanos::from_millis(1000));
    let params = PieParams { target: Ticks(3 * second.0), ..PARAMS };
    let mut s = PieState { prob: TEN_PERCENT, delay: second, delay_old: second, ..waiting(0) };
    s.catch_up(&params, 1000, u64::MAX);
    let before = s.prob;
    s.update(&params, 1000);
    assert!(s.prob != before && s.prob < 2 * TEN_PERCENT, "{before} {}", s.prob);
}

proptest! {
    #[test]
    fn catching_up_is_making_each_update(
        prob in prop_oneof![0..ONE, 0..ONE / 1000, Just(ONE), Just(0)],
        delay in prop_oneof![Just(0), 0..500_000_000u64, Just(PARAMS.target.0 << 6)],
        old in 0..500_000_000u64,
        backlog in prop_oneof![Just(0), 1..1_000_000u64],
        gains in (0..33u32, 0..33u32),
        target in prop_oneof![Just(0), 1..100_000_000u64],
        rate in prop_oneof![Just(0), 1..100_000u64],
        (estimates_rate, strict_linux) in any::<(bool, bool)>(),
        updates in 0..5000u64,
    ) {
        let params = PieParams {
            target: Ticks(target >> 6), alpha: gains.0, beta: gains.1, estimates_rate, strict_linux, ..PARAMS
        };
        let (delay, delay_old) = (Ticks(delay >> 6), Ticks(old >> 6));
        let start = PieState { prob, delay, delay_old, rate, ..waiting(0) };
        let (mut each, mut once) = (start, start);
        for _ in 0..updates {
            each.update(&params, backlog);
        }
        once.catch_up(&params, backlog, updates);
        prop_assert_eq!(each, once);
    }

    #[test]
    fn a_long_silence_is_soon_made_up_for(
        prob in 0..ONE, delay in 0..1u64 << 40, backlog in 0..1_000_000u64, gains in (0..33u32, 0..33u32),
        target in 0..1u64 << 30,
    ) {
        let params = PieParams { target: Ticks(target), alpha: gains.0, beta: gains.1, ..PARAMS };
        let mut s = PieState { prob, delay: Ticks(delay), ..waiting(0) };
        s.catch_up(&params, backlog, u64::MAX);
        let end = s;
        s.update(&params, backlog);
        // At rest, or swinging: between a decade that drives it up and one that drives it down.
        let swings = s.delay > HIGH && s.delay < params.target && s.prob != end.prob;
        prop_assert!(s == end || swings, "{:?} {:?}", s, end);
    }
}
