use super::*;
use std::format;
use std::string::String;

const HALF: u32 = 1 << 31;

fn share(n: u32, of: u32) -> f64 {
    f64::from(n) / f64::from(of)
}

#[test]
fn chances_come_about_as_often_as_they_say() {
    let mut rng = Rng::new(1);
    for percent in [0u32, 1, 10, 50, 99, 100] {
        let mut dice = Dice::new((u64::from(u32::MAX) * u64::from(percent) / 100) as u32, 0);
        let hits = (0..100_000).filter(|_| dice.roll(&mut rng)).count() as u32;
        assert!((share(hits, 100_000) - f64::from(percent) / 100.0).abs() < 0.005, "{percent} %: {hits}");
    }
}

/// Each number is a mixture of the last and a fresh one: the correlation of neighbours is the
/// weight, and the spread shrinks to sqrt((1 - rho) / (1 + rho)) of the spread without correlation.
#[test]
fn correlated_numbers_are_as_correlated_as_they_say() {
    let mut rng = Rng::new(2);
    for rho in [0.25, 0.5, 0.9] {
        let mut numbers = Correlated::new((rho * f64::from(u32::MAX)) as u32);
        let x: Vec<f64> =
            (0..200_000).map(|_| f64::from(numbers.next(&mut rng)) / 4_294_967_296.0 - 0.5).collect();
        let power: f64 = x.iter().map(|a| a * a).sum();
        let neighbours: f64 = x.windows(2).map(|w| w[0] * w[1]).sum();
        let found = neighbours / power;
        assert!((found - rho).abs() < 0.01, "{rho}: {found}");
        let spread = power / x.len() as f64 * 12.0;
        assert!((spread - (1.0 - rho) / (1.0 + rho)).abs() < 0.02, "{rho}: {spread}");
    }
}

#[test]
fn what_needs_no_number_takes_none() {
    let (mut rng, untouched) = (Rng::new(3), Rng::new(3));
    assert!(!Dice::new(0, HALF).roll(&mut rng));
    assert_eq!(Distribution::Uniform.time(500, 0, &mut Correlated::default(), &mut rng), 500);
    assert_eq!(rng, untouched);
}

/// In the long run the chain is in each state as often as its balance demands; losses come in
/// bursts of 1 / (p31 + p32).
#[test]
fn four_states_of_loss() {
    let of = |p: f64| (p * 4_294_967_295.0) as u32;
    let mut model = LossModel::Markov {
        p13: of(0.02),
        p31: of(0.2),
        p32: of(0.3),
        p23: of(0.4),
        p14: of(0.01),
        state: MarkovState::default(),
    };
    let mut rng = Rng::new(4);
    let mut states = [0u32; 4];
    for _ in 0..400_000 {
        let lost = model.loses(&mut rng);
        let LossModel::Markov { state, .. } = model else { panic!("{model:?}") };
        states[state as usize] += 1;
        assert_eq!(lost, matches!(state, MarkovState::LostInBurst | MarkovState::LostAlone));
    }
    // pi1 = 1: pi4 = p14, pi3 p31 = p13, pi2 p23 = pi3 p32.
    let balance = [1.0, 0.1 * 0.3 / 0.4, 0.1, 0.01];
    let sum: f64 = balance.iter().sum();
    for (n, part) in states.into_iter().zip(balance) {
        assert!((share(n, 400_000) - part / sum).abs() < 0.005, "{states:?}");
    }
}

#[test]
fn a_link_that_is_good_or_bad() {
    let of = |p: f64| (p * 4_294_967_295.0) as u32;
    let (p, r, bad, good) = (of(0.05), of(0.25), of(0.8), of(0.01));
    let mut model = LossModel::GilbertElliott { p, r, bad, good, is_bad: false };
    let mut rng = Rng::new(5);
    let lost = (0..400_000).filter(|_| model.loses(&mut rng)).count() as u32;
    let in_bad = 0.05 / 0.3;
    let expected = in_bad * 0.8 + (1.0 - in_bad) * 0.01;
    assert!((share(lost, 400_000) - expected).abs() < 0.005, "{lost}");
    // Gilbert's simple model loses all packets while bad, and bursts are 1/r long.
    let mut model = LossModel::GilbertElliott { p, r, bad: u32::MAX, good: 0, is_bad: false };
    let lost: String = (0..400_000).map(|_| if model.loses(&mut rng) { 'x' } else { '.' }).collect();
    let bursts: Vec<usize> = lost.split('.').map(str::len).filter(|n| *n > 0).collect();
    let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
    assert!((mean - 4.0).abs() < 0.1, "{mean}");
}

/// Returns mean and spread of a table, in standard deviations.
fn moments(table: &[i16]) -> (f64, f64) {
    let n = table.len() as f64;
    let mean = table.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    let square = table.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>() / n;
    (mean / 8192.0, square.sqrt() / 8192.0)
}

#[test]
fn tables_are_the_inverse_of_their_distribution() {
    let n = normal();
    assert!(n.windows(2).all(|w| w[0] <= w[1]));
    // Quantiles of the standard normal distribution, as any published table has them.
    for (entry, quantile) in
        [(2048, 0.0), (2458, 0.253_5), (3072, 0.674_490), (3686, 1.281_7), (4014, 2.054_0), (4055, 2.326_0)]
    {
        let found = f64::from(n[entry]) / 8192.0;
        assert!((found - quantile).abs() < 0.001, "{entry}: {found}");
        assert_eq!(n[4096 - entry], -n[entry]);
    }
    let (mean, spread) = moments(&n);
    assert!(mean.abs() < 0.002 && (spread - 1.0).abs() < 0.002, "{mean} {spread}");
    let p = pareto();
    assert!(p.windows(2).all(|w| w[0] <= w[1]));
    assert_eq!((p[0], p[4095], p[4040]), (-5461, 32_767, 29_295));
    // Half of the distribution lies below 2^(1/3).
    assert!((f64::from(p[2048]) - (1.259_921 - 1.5) * 4.0 / 3.0 * 8192.0).abs() < 1.0);
    let mixed = pareto_normal();
    let quarter = |i: usize| (f64::from(n[i]) + 3.0 * f64::from(p[i])) / 4.0;
    assert!((0..4096).all(|i| (f64::from(mixed[i]) - quarter(i)).abs() <= 0.5));
}

/// The tables that iproute2 installs, where present, are the same except for the integration of the
/// bell.
#[test]
fn tables_are_those_of_tc() {
    let places = ["/usr/lib/tc", "/usr/lib/x86_64-linux-gnu/tc", "/usr/lib/aarch64-linux-gnu/tc", "/lib/tc"];
    for (name, ours, tolerance) in
        [("normal", normal(), 80), ("pareto", pareto(), 1), ("paretonormal", pareto_normal(), 25)]
    {
        let read = |dir: &&str| std::fs::read_to_string(format!("{dir}/{name}.dist")).ok();
        let Some(text) = places.iter().find_map(read) else {
            std::eprintln!("skipped: no {name}.dist in any of {places:?}: iproute2 is not installed");
            continue;
        };
        let lines = text.lines().filter(|l| !l.starts_with('#'));
        let theirs: Vec<i32> = lines.flat_map(str::split_whitespace).map(|w| w.parse().unwrap()).collect();
        assert_eq!(theirs.len(), ours.len(), "{name}");
        // iproute2 integrates the ends of the bell coarsely.
        for i in 8..4088 {
            assert!(
                (theirs[i] - i32::from(ours[i])).abs() <= tolerance,
                "{name} {i}: {} {}",
                theirs[i],
                ours[i]
            );
        }
    }
}

#[test]
fn times_are_spread_as_their_distribution_says() {
    let mut rng = Rng::new(6);
    let mut numbers = Correlated::default();
    let uniform: Vec<i64> =
        (0..100_000).map(|_| Distribution::Uniform.time(1000, 100, &mut numbers, &mut rng)).collect();
    assert!(uniform.iter().all(|t| (900..1100).contains(t)));
    let mean = uniform.iter().sum::<i64>() as f64 / 100_000.0;
    assert!((mean - 999.5).abs() < 1.0, "{mean}");
    let bell = shared(normal());
    let mut times: Vec<i64> =
        (0..100_000).map(|_| bell.time(1_000_000, 100_000, &mut numbers, &mut rng)).collect();
    times.sort_unstable();
    for (at, quantile) in [(50_000, 0.0), (84_134, 1.0), (15_866, -1.0), (97_725, 2.0)] {
        let found = (times[at] - 1_000_000) as f64 / 100_000.0;
        assert!((found - quantile).abs() < 0.03, "{at}: {found}");
    }
    // With a table of one entry the time is fixed; halves are rounded away from zero.
    let one = |entry: i16| Distribution::Table([entry].into());
    assert_eq!(one(8192).time(7, 100, &mut numbers, &mut rng), 107);
    assert_eq!(one(4096).time(7, 3, &mut numbers, &mut rng), 9);
    assert_eq!(one(-4096).time(7, 3, &mut numbers, &mut rng), 5);
}

#[test]
fn cells_are_as_in_the_manual() {
    // tc-netem(8): 50 bytes in ATM take 2 x 48 + 2 x 5 = 106 bytes; at 1000 bytes/s.
    let atm = CellRate { rate: Rate(1000), overhead: 0, cell: 48, cell_overhead: 5 };
    assert_eq!(atm.time(50), 106_000_000);
    assert_eq!((atm.time(48), atm.time(96), atm.time(97)), (53_000_000, 106_000_000, 159_000_000));
    let bare = CellRate { overhead: -14, cell: 0, ..atm };
    assert_eq!((bare.time(114), bare.time(14), bare.time(3)), (100_000_000, 0, 0));
    assert_eq!(CellRate { rate: Rate(3), overhead: 20, cell: 0, cell_overhead: 0 }.time(80), 33_333_333_333);
    let shrunk = CellRate { cell_overhead: -100, ..atm };
    assert_eq!(shrunk.time(1000), 0);
}
