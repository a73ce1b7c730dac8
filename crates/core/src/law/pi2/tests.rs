use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

const PARAMS: Pi2Params = Pi2Params {
    target: Nanos::from_millis(15),
    tupdate: Nanos::from_millis(16),
    alpha: Gain(41),
    beta: Gain(819),
    coupling: 2,
    drops_on_overload: true,
};

/// Returns the probability after each of these delays, in milliseconds.
fn probs(p: &Pi2Params, delays_ms: &[u64]) -> Vec<u32> {
    let mut law = Pi2State::default();
    let after = |ms: &u64| {
        law.update(p, Nanos::from_millis(*ms));
        law.prob()
    };
    delays_ms.iter().map(after).collect()
}

/// The values that tc shows for gains: 0.156250 for 0.160156 (41/256), and those of Linux's own
/// test of `max_rtt 200ms typical_rtt 20ms`.
#[test]
fn gains_are_cut_to_the_grain_of_the_reference() {
    for (given, unit, kept) in [(41, 44, 40), (819, 879, 818), (12, 12, 11), (384, 412, 383), (1, 1, 0)] {
        assert_eq!((Gain(given).per_unit(), Gain(given).kept()), (unit, Gain(kept)), "{given}");
    }
    assert_eq!(Gain::MAX.per_unit(), 2_305_843_005);
}

/// RFC 9332 figure 6 in whole numbers, by hand: alpha is 44 and beta 879 parts of 2^32 - 1 per 64
/// ns, and 15 ms are 234 375 times 64 ns. So a delay 15 ms above the target adds 44 * 234 375 = 10
/// 312 500, and a rise by 15 ms 879 * 234 375 = 206 015 625.
#[test]
fn the_base_probability_follows_the_delay_as_reckoned_by_hand() {
    let (a, b) = (10_312_500, 206_015_625);
    let expected = [0, b, 2 * b + a, 2 * b + 2 * a, b + 2 * a, a, 0, 0];
    assert_eq!(probs(&PARAMS, &[0, 15, 30, 30, 15, 0, 0, 0]), expected);
}

/// The same in floating point, with the gains of RFC 9332 figure 2: 0.16 and 3.2 Hz. The cut of the
/// two gains to the reference's granularity makes a difference of less than a thousandth.
#[test]
fn it_is_that_of_the_pseudocode_within_the_grain_of_the_gains() {
    let delays = [0, 1, 3, 8, 15, 22, 30, 41, 40, 38, 30, 25, 20, 17, 15, 15, 14, 12, 9, 9, 11, 13, 15];
    let (mut p, mut prevq) = (0.0f64, 0.0);
    for (ms, prob) in delays.iter().zip(probs(&PARAMS, &delays)) {
        let curq = *ms as f64 / 1000.0;
        p = (p + 0.16 * (curq - 0.015) + 3.2 * (curq - prevq)).clamp(0.0, 1.0);
        prevq = curq;
        let got = f64::from(prob) / f64::from(ONE);
        assert!((got - p).abs() < 2e-4, "{ms} ms: {got}, by the pseudocode {p}");
    }
}

/// Half a second of delay takes the probability to one at once (3.2 Hz * 0.5 s = 1.6). With
/// `overflow` it ends where the coupled probability is one.
#[test]
fn a_probability_is_at_most_one_or_where_marking_is_certain() {
    assert_eq!(probs(&PARAMS, &[500, 500, 500]), [ONE; 3]);
    for coupling in [1, 2, 3, 255] {
        let p = Pi2Params { drops_on_overload: false, coupling, ..PARAMS };
        assert_eq!(probs(&p, &[500, 500]), [ONE / coupling; 2]);
        let mut law = Pi2State::default();
        law.update(&p, Nanos::from_millis(500));
        assert!(!law.overloaded(&p) && law.coupled(&p) > u64::from(ONE) - 255);
    }
    // It falls again at the same pace, from the end of the range and not from beyond it: 500 ms
    // less is 1.6 less.
    assert_eq!(probs(&PARAMS, &[500, 0]), [ONE, 0]);
}

/// Returns a law with this base probability.
fn at(prob: u32) -> Pi2State {
    Pi2State { prob, ..Pi2State::default() }
}

/// Asks with these tosses; returns the signal and the number of tosses used.
fn ask(signal: impl FnOnce(&mut dyn FnMut() -> u32) -> Signal, tosses: &[u32]) -> (Signal, usize) {
    let mut used = 0;
    let signal = signal(&mut || {
        used += 1;
        tosses[used - 1]
    });
    (signal, used)
}

#[test]
fn classic_packets_need_two_unlucky_tosses() {
    use Signal::{Drop, Mark, Pass};
    let tenth = ONE / 10;
    for (prob, capable, tosses, expected) in [
        (0, false, &[][..], (Pass, 0)),
        (tenth, false, &[tenth + 1], (Pass, 1)),
        (tenth, false, &[tenth, tenth + 1], (Pass, 2)),
        (tenth, false, &[tenth, tenth], (Drop, 2)),
        (tenth, true, &[tenth, 0], (Mark, 2)),
        // A coupled probability of one still marks; above it packets are dropped (RFC 9332 figure
        // 7, line 12b).
        (ONE / 2, true, &[0, 0], (Mark, 2)),
        (ONE / 2 + 1, true, &[0, 0], (Drop, 2)),
        (ONE, true, &[ONE, ONE], (Drop, 2)),
    ] {
        let got = ask(|coin| at(prob).classic(&PARAMS, capable, coin), tosses);
        assert_eq!(got, expected, "{prob} {capable} {tosses:?}");
    }
}

#[test]
fn low_latency_packets_need_one_with_the_coupled_probability() {
    use Signal::{Drop, Mark, Pass};
    let tenth = ONE / 10;
    for (prob, capable, tosses, expected) in [
        (0, true, &[][..], (Pass, 0)),
        (tenth, true, &[2 * tenth + 1], (Pass, 1)),
        (tenth, true, &[2 * tenth], (Mark, 1)),
        (tenth, false, &[2 * tenth], (Drop, 1)),
        (ONE / 2, true, &[ONE - 1], (Mark, 1)),
        // Overload: a drop with the square of the base probability, and otherwise a mark, without a
        // third toss.
        (ONE / 2 + 1, true, &[0, 0], (Drop, 2)),
        (ONE / 2 + 1, true, &[0, ONE], (Mark, 2)),
        (ONE / 2 + 1, true, &[ONE], (Mark, 1)),
        (ONE / 2 + 1, false, &[ONE], (Mark, 1)),
    ] {
        let got = ask(|coin| at(prob).scalable(&PARAMS, capable, coin), tosses);
        assert_eq!(got, expected, "{prob} {capable} {tosses:?}");
    }
}

/// Over many tosses: p' = 0.3 is a Classic probability of 0.09 and a coupled one of 0.6 (RFC 9332
/// equation 1).
#[test]
fn the_frequencies_are_the_square_and_the_multiple() {
    let (law, mut rng) = (at((f64::from(ONE) * 0.3) as u32), crate::base::rng::Rng::new(1));
    let mut count = [0u32; 2];
    for _ in 0..200_000 {
        let mut coin = || (rng.next_u64() >> 32) as u32;
        count[0] += u32::from(law.classic(&PARAMS, true, &mut coin) == Signal::Mark);
        count[1] += u32::from(law.scalable(&PARAMS, true, &mut coin) == Signal::Mark);
    }
    // Three standard deviations are 384 and 657.
    assert!(count[0].abs_diff(18_000) < 400 && count[1].abs_diff(120_000) < 700, "{count:?}");
}

#[test]
fn a_silence_of_any_length_takes_few_steps() {
    for (tupdate, gain, target, most) in [
        (PARAMS.tupdate, PARAMS.alpha, PARAMS.target, 60),
        (PARAMS.tupdate, PARAMS.alpha, Nanos::from_secs(4000), 60),
        (Nanos::from_micros(1), Gain(1), PARAMS.target, 50_000),
        (Nanos::from_micros(1), Gain(1), Nanos::from_secs(4000), 50_000),
    ] {
        let p = Pi2Params { tupdate, alpha: gain, beta: gain, target, ..PARAMS };
        for prob in [0, ONE / 2, ONE] {
            let mut law = at(prob);
            let taken = law.catch_up_waiting(&p, Nanos::ZERO, 1 << 60);
            assert!(taken <= most, "{tupdate} {gain:?} {target} {prob}: {taken}");
            assert_eq!(law.prob(), ONE);
        }
    }
}

fn params() -> impl Strategy<Value = Pi2Params> {
    let gain = prop_oneof![Just(0u32), 1..2000u32, 1..=Gain::MAX.0].prop_map(Gain);
    let target = prop_oneof![Just(15_000_000), 0..100_000_000u64, 0..4_000_000_000u64];
    let tupdate = prop_oneof![Just(16_000_000), 1_000..100_000_000u64];
    (target, tupdate, gain.clone(), gain, 1..5u32, any::<bool>()).prop_map(
        |(target, tupdate, alpha, beta, coupling, drops_on_overload)| Pi2Params {
            target: Nanos(target),
            tupdate: Nanos(tupdate),
            alpha,
            beta,
            coupling,
            drops_on_overload,
        },
    )
}

proptest! {
    #[test]
    fn catching_up_is_as_many_updates(
        p in params(),
        prob in prop_oneof![Just(0), Just(ONE), any::<u32>()],
        last in 0..200_000_000u64,
        first in prop_oneof![Just(None), (0..300_000_000u64).prop_map(Some)],
        updates in 0..2000u64,
    ) {
        let start = Pi2State { prob, delay: Nanos(last) };
        let (mut at_once, mut each) = (start, start);
        at_once.catch_up(&p, first.map(Nanos), updates);
        for i in 0..updates {
            each.update(&p, first.map_or(Nanos::ZERO, |first| Nanos(first + i * p.tupdate.0)));
        }
        prop_assert_eq!(at_once, each);
    }
}
