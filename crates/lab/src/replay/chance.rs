//! Compares a kind that draws random numbers: the recorded run with runs here, as draws from one
//! distribution.
//!
//! The packets of a queue depend on one another, so tables for independent draws do not apply.
//! Instead each statistic of the recording (a number such as the lost packets, or a distance
//! between distributions) is compared with its values in [`RUNS`] runs here with fixed keys. The
//! recorded value must be within the prediction interval of those. The keys are fixed, so a verdict
//! never changes from one call to the next.

use serde_json::Value;

use super::TOLERANCE_NS;
use super::compare::{Aspect, Difference, difference, time};
use super::play::Played;
use super::trace::{Departure, Show, Step, Trace};

/// Number of runs, each with a key of its own.
pub(super) const RUNS: u64 = 32;
/// Half of the width of the interval of a number, in standard deviations of one further draw:
/// Student's distribution with 31 degrees of freedom is outside with a probability of 1e-4.
const NUMBER: f64 = 4.5;
/// Upper bound of a distance, likewise. The distance of Kolmogorov and Smirnov between samples of
/// one distribution has a long upper tail: 5.5 deviations are above its point of 1e-4.
const DISTANCE: f64 = 5.5;
/// Allowance for a count that varies. Small counts are not normal: that of a Poisson distribution
/// with the mean 1/2 is above the interval and 2 with a probability of 1e-4.
const COUNT: f64 = 2.0;

/// Returns the statistics in which the recording is unlike the runs.
pub(super) fn compare(trace: &Trace, runs: &[Played]) -> Vec<Difference> {
    let there = Sample::of(trace, &trace.departures, shows(trace));
    let here: Vec<Sample> =
        runs.iter().map(|run| Sample::of(trace, &run.departures, run.shows.iter())).collect();
    let mut all = Vec::new();
    for (at, number) in there.numbers.iter().enumerate() {
        // A key that the shows here lack is another statistic.
        let same = |s: &Sample| s.numbers.iter().find(|n| n.name == number.name).map(|n| n.value);
        let found: Vec<f64> = match at < FIXED {
            true => here.iter().filter_map(|s| s.numbers[at].value).collect(),
            false => here.iter().filter_map(|s| same(s).flatten()).collect(),
        };
        match at >= FIXED && found.is_empty() {
            true => all.push(missing(trace, number)),
            false => all.extend(outside(trace, number, &found)),
        }
    }
    for (name, aspect, of) in SPREADS {
        let pool = pooled(here.iter().map(of));
        let own = here.iter().map(|s| distance(of(s), &pool));
        let bound = Spread::of(&own.collect::<Vec<_>>());
        let most = bound.mean + DISTANCE * bound.deviation;
        let far = distance(of(&there), &pool);
        if far > most {
            let row = quantiles(of(&there), &pool);
            let what = format!("distribution of {name}: distance {far:.4}, among own runs at most {most:.4}");
            all.push(meant(trace, difference(aspect, what, row), aspect.name()));
        }
    }
    all
}

fn shows(trace: &Trace) -> impl Iterator<Item = &Show> {
    trace.steps.iter().filter_map(|step| match step {
        Step::Show(_, show) => Some(show),
        _ => None,
    })
}

fn meant(trace: &Trace, difference: Difference, key: &str) -> Difference {
    let row = trace.waived(key).or_else(|| trace.waived(difference.aspect.name()));
    Difference { meant: row.map(String::from), ..difference }
}

/// A statistic that is one number.
#[derive(Debug)]
struct Number {
    name: String,
    aspect: Aspect,
    /// Key by which a trace waives it, if it is a counter.
    key: String,
    /// The value; `None` where it has no meaning, as the mean run of losses without losses.
    value: Option<f64>,
    /// Difference that is none, in units of the value: the grain of times, or what follows from it.
    grain: f64,
    /// True if it is a count of packets.
    counts: bool,
}

/// Statistics of one run.
#[derive(Debug)]
struct Sample {
    /// The first [`FIXED`] are those of every run, in one order; then those of the counters.
    numbers: Vec<Number>,
    /// Times from arrival to departure, sorted.
    delays: Vec<i64>,
    /// Times between departures, sorted.
    gaps: Vec<i64>,
}

/// Statistics that are distributions.
type Of = fn(&Sample) -> &[i64];
const SPREADS: [(&str, Aspect, Of); 2] =
    [("delays", Aspect::Time, |s| &s.delays), ("times between departures", Aspect::Time, |s| &s.gaps)];

/// Number of statistics that do not come from counters.
const FIXED: usize = 11;

impl Sample {
    fn of<'a>(trace: &Trace, departures: &[Departure], shows: impl Iterator<Item = &'a Show>) -> Self {
        let packets = trace.arrivals.len();
        let mut first: Vec<Option<&Departure>> = vec![None; packets];
        let (mut copies, mut overtaken, mut newest) = (0, 0, 0);
        for d in departures {
            let whole = trace.rows[trace.arrivals[d.packet].row].gso == 0;
            copies += u32::from(first[d.packet].is_some() && whole);
            overtaken += u32::from(d.packet < newest);
            newest = newest.max(d.packet);
            first[d.packet].get_or_insert(d);
        }
        let delay = |d: &Departure| d.at - trace.arrivals[d.packet].at;
        let lost: Vec<bool> = first.iter().map(Option::is_none).collect();
        let ds = |d: &Departure| super::packet::ds(&trace.rows[trace.arrivals[d.packet].row]);
        let marked: Vec<bool> = first.iter().flatten().map(|d| d.ds != ds(d)).collect();
        let in_order: Vec<f64> = first.iter().flatten().map(|d| delay(d) as f64).collect();
        let of = |all: &[bool]| all.iter().filter(|is| **is).count() as f64;
        let spread = Spread::of(&in_order);
        let count = |name, aspect, value: f64| Number::new(name, aspect, Some(value)).count();
        let (early, late) = lost.split_at(packets / 2);
        let mut numbers = vec![
            count("packets lost", Aspect::Drops, of(&lost)),
            count("packets lost in the first half", Aspect::Drops, of(early)),
            count("packets lost in the second half", Aspect::Drops, of(late)),
            Number::new("mean run of losses", Aspect::Drops, run(&lost)),
            count("packets marked", Aspect::Marks, of(&marked)),
            Number::new("mean run of marks", Aspect::Marks, run(&marked)),
            count("copies", Aspect::Drops, copies.into()),
            count("packets that a later one overtook", Aspect::Order, overtaken.into()),
            Number::new("mean delay, us", Aspect::Time, Some(spread.mean / 1000.0)).grain(),
            Number::new("deviation of the delay, us", Aspect::Time, Some(spread.deviation / 1000.0)).grain(),
            Number::new("correlation of delays", Aspect::Time, correlation(&in_order, &spread)).rounding(),
        ];
        debug_assert_eq!(numbers.len(), FIXED);
        for (at, show) in shows.enumerate() {
            for qdisc in show.qdisc.iter().flatten() {
                let part = |key: &str| qdisc.get(key).and_then(Value::as_str).unwrap_or_default();
                let place = format!("show {at}: {} {}", part("kind"), part("handle"));
                let from = numbers.len();
                counters(&mut numbers, &place, "", qdisc);
                if trace.counts_no_segments() {
                    // They count no packet in Linux.
                    let counted = numbers.split_off(from).into_iter().filter(|n| n.key != "packets");
                    numbers.extend(counted);
                }
            }
        }
        let mut delays: Vec<i64> = departures.iter().map(delay).collect();
        let mut gaps: Vec<i64> = departures.windows(2).map(|d| d[1].at - d[0].at).collect();
        delays.sort_unstable();
        gaps.sort_unstable();
        Self { numbers, delays, gaps }
    }
}

impl Number {
    fn new(name: impl Into<String>, aspect: Aspect, value: Option<f64>) -> Self {
        Self { name: name.into(), aspect, key: String::new(), value, grain: 0.0, counts: false }
    }
    const fn count(mut self) -> Self {
        self.counts = true;
        self
    }
    const fn grain(mut self) -> Self {
        self.grain = TOLERANCE_NS as f64 / 1000.0;
        self
    }
    /// Of a value without a unit that comes from times.
    const fn rounding(mut self) -> Self {
        self.grain = 1e-3;
        self
    }
}

/// Adds every number of a qdisc's counters and options, each by its path.
fn counters(numbers: &mut Vec<Number>, place: &str, key: &str, value: &Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter().filter(|(key, _)| !super::compare::is_own(key)) {
                counters(numbers, &format!("{place} {key}"), key, value);
            }
        }
        Value::Number(number) => {
            let found = Number::new(place, Aspect::Counters, number.as_f64()).count();
            numbers.push(Number { key: key.into(), ..found });
        }
        _ => {}
    }
}

/// Returns the mean length of the runs of packets that are so.
fn run(all: &[bool]) -> Option<f64> {
    let many = all.iter().filter(|is| **is).count();
    let runs = all.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
    (runs > 0).then(|| many as f64 / runs as f64)
}

/// Returns the correlation of each value with the next one.
fn correlation(values: &[f64], spread: &Spread) -> Option<f64> {
    let off = |value: f64| value - spread.mean;
    let products = values.windows(2).map(|pair| off(pair[0]) * off(pair[1]));
    let all = spread.deviation * spread.deviation * values.len() as f64;
    // Delays that differ by grains of the clock do not vary.
    (spread.deviation > 4.0 * TOLERANCE_NS as f64).then(|| products.sum::<f64>() / all)
}

/// Mean and standard deviation of a sample.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        if values.len() < 2 {
            return Self { mean: values.first().copied().unwrap_or(0.0), deviation: 0.0 };
        }
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>();
        Self { mean, deviation: (squares / (n - 1.0)).sqrt() }
    }
}

/// Returns the difference if a recorded number is outside of the interval that the runs predict.
fn outside(trace: &Trace, there: &Number, here: &[f64]) -> Option<Difference> {
    let value = there.value?;
    // A statistic that has no meaning in most runs says nothing; their losses, marks or delays are
    // numbers of their own.
    if here.len() < RUNS as usize / 2 {
        return None;
    }
    let Spread { mean, deviation } = Spread::of(here);
    let varies = if there.counts && deviation > 0.0 { COUNT } else { 0.0 };
    let n = here.len() as f64;
    let width = NUMBER * deviation * (1.0 + 1.0 / n).sqrt() + there.grain.max(varies);
    ((value - mean).abs() > width).then(|| {
        let row = (String::new(), rounded(value), format!("{} +- {}", rounded(mean), rounded(width)));
        let key = if there.key.is_empty() { there.aspect.name() } else { &there.key };
        meant(trace, difference(there.aspect, there.name.clone(), vec![row]), key)
    })
}

/// Returns the difference that no run here shows a counter of the recording.
fn missing(trace: &Trace, there: &Number) -> Difference {
    let row = (String::new(), there.value.map_or_else(|| "-".into(), rounded), "-".into());
    meant(trace, difference(there.aspect, there.name.clone(), vec![row]), &there.key)
}

fn rounded(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.4}") }
}

fn pooled<'a>(samples: impl Iterator<Item = &'a [i64]>) -> Vec<i64> {
    let mut all: Vec<i64> = samples.flatten().copied().collect();
    all.sort_unstable();
    all
}

/// Returns the distance of Kolmogorov and Smirnov between two sorted samples, in which times that
/// are within the tolerance are one time.
fn distance(a: &[i64], b: &[i64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return if a.len() == b.len() { 0.0 } else { 1.0 };
    }
    above(a, b).max(above(b, a))
}

/// Returns the most by which the share of `a` up to a time exceeds the share of `b` up to that time
/// and the tolerance.
fn above(a: &[i64], b: &[i64]) -> f64 {
    let (mut most, mut below): (f64, usize) = (0.0, 0);
    for (at, time) in a.iter().enumerate() {
        while b.get(below).is_some_and(|other| *other <= time + TOLERANCE_NS) {
            below += 1;
        }
        most = most.max((at + 1) as f64 / a.len() as f64 - below as f64 / b.len() as f64);
    }
    most
}

/// Returns quantiles of both samples, in microseconds.
fn quantiles(there: &[i64], here: &[i64]) -> Vec<(String, String, String)> {
    let of = |all: &[i64], percent: usize| {
        all.get(all.len().saturating_sub(1) * percent / 100).map_or_else(|| "-".into(), |t| time(*t))
    };
    let row = |percent: usize| (format!("{percent} %"), of(there, percent), of(here, percent));
    [0, 10, 50, 90, 100].map(row).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_that_of_the_shares_and_knows_the_grain() {
        assert_eq!(distance(&[0, 10_000], &[0, 10_000]), 0.0);
        assert_eq!(distance(&[0, 10_000], &[900, 9_100]), 0.0);
        assert_eq!(distance(&[0, 0, 0, 10_000], &[0, 10_000, 10_000, 10_000]), 0.5);
        assert_eq!(distance(&[0], &[20_000]), 1.0);
        assert_eq!((distance(&[], &[]), distance(&[], &[1])), (0.0, 1.0));
    }

    #[test]
    fn runs_and_correlation() {
        assert_eq!(run(&[true, true, false, true, false]), Some(1.5));
        assert_eq!(run(&[false]), None);
        let up_and_down: Vec<f64> = (0..1000).map(|i| f64::from(i % 2) * 1e5).collect();
        let found = correlation(&up_and_down, &Spread::of(&up_and_down)).expect("it varies");
        assert!((-1.0..-0.99).contains(&found), "{found}");
        assert_eq!(correlation(&[5.0; 9], &Spread::of(&[5.0; 9])), None);
    }
}
