//! The cost law: time and memory of a text are in proportion to its length (to n log n).
//!
//! For each list that a text can grow, a case makes a text of n entries and one of 4 n, and takes
//! them through every verb. Three figures of the longer text are compared with those of the
//! shorter: the calls of the allocator, the most bytes held at a time, and the processor time of
//! this thread. The first two are counted, and the same in every run. Time is the least of several
//! runs, and its limit lies between the ratio of a linear cost (4) and of a quadratic one (16).
//!
//! `TXWEIR_COST=N` makes all texts N times as long, so that smaller quadratic parts show, and
//! prints every figure. `TXWEIR_COST_OF=TEXT` runs the cases whose name contains the text.

mod batches;
mod files;
mod lines;
mod scripts;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use txweir_counted::{calls, peak};

/// The growth of a text between the two measurements.
const GROWTH: usize = 4;
/// Largest growth of the calls of the allocator.
const CALLS_MAX: f64 = 4.6;
/// Largest growth of the bytes: a vector that doubles holds its old half while it moves.
const BYTES_MAX: f64 = 5.5;
/// Largest growth of the time. A linear cost grows four times, and somewhat more where its data no
/// longer fits the caches; one that is half quadratic at n grows ten times.
const TIME_MAX: f64 = 8.0;
/// Bytes and calls below which growth says nothing, and time.
const SMALL: (u64, u64, Duration) = (64 << 10, 200, Duration::from_millis(2));
/// Most repetitions of a measurement whose time looks too long. Other programs use the caches too,
/// and that can only lengthen a run.
const TRIES: usize = 16;

/// The cost of a step.
#[derive(Clone, Copy, Debug)]
struct Cost {
    calls: u64,
    bytes: u64,
    time: Duration,
}

/// The steps that a text is taken through, with their costs.
#[derive(Debug, Default)]
pub struct Steps {
    all: Vec<(&'static str, Cost)>,
}

impl Steps {
    /// Runs a step and notes its cost.
    pub fn step<R>(&mut self, name: &'static str, f: impl FnOnce() -> R) -> R {
        let (mut result, mut bytes, before) = (None, 0, spent());
        let calls = calls(|| {
            let (r, most) = peak(f);
            (result, bytes) = (Some(r), most);
        });
        let time = spent() - before;
        self.all.push((name, Cost { calls, bytes, time }));
        result.expect("the result")
    }
}

/// Returns the processor time of this thread.
fn spent() -> Duration {
    let at = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(at.tv_sec.unsigned_abs(), u32::try_from(at.tv_nsec).unwrap_or(0))
}

/// A text that grows, and what is done with it.
pub struct Case {
    /// The name of the list.
    pub name: String,
    /// Entries of the shorter text.
    pub n: usize,
    /// The work on a text.
    pub run: Run,
}

/// Makes a text of so many entries, and takes it through the steps.
pub type Run = Box<dyn Fn(usize, &mut Steps)>;

impl Case {
    /// Returns the costs of a text of `n` entries: of each step the least of both.
    fn costs(&self, n: usize, least: Option<Steps>) -> Steps {
        let mut steps = Steps::default();
        (self.run)(n, &mut steps);
        let Some(mut least) = least else { return steps };
        for ((_, least), (_, now)) in least.all.iter_mut().zip(steps.all) {
            least.time = least.time.min(now.time);
        }
        least
    }

    /// Returns the steps that cost too much.
    fn broken(&self, scale: usize, prints: bool) -> Vec<String> {
        let n = self.n * scale;
        let (mut few, mut many) = (self.costs(n, None), self.costs(GROWTH * n, None));
        for _ in 1..TRIES {
            if too_slow(&few, &many).is_empty() {
                break;
            }
            (few, many) = (self.costs(n, Some(few)), self.costs(GROWTH * n, Some(many)));
        }
        let mut told = too_slow(&few, &many);
        for ((step, few), (_, many)) in few.all.iter().zip(&many.all) {
            let grown = |few: u64, many: u64| many as f64 / few.max(1) as f64;
            let calls = grown(few.calls.max(SMALL.1), many.calls);
            let bytes = grown(few.bytes.max(SMALL.0), many.bytes);
            if prints {
                let time = many.time.as_secs_f64() / few.time.as_secs_f64();
                let name = &self.name;
                println!(
                    "{name}: {step}: n {n}, {:?}, time x {time:.1}, calls x {calls:.1}, bytes x {bytes:.1}",
                    many.time
                );
            }
            if calls > CALLS_MAX || bytes > BYTES_MAX {
                told.push(format!("{step}: calls x {calls:.1}, bytes x {bytes:.1}: {few:?}, {many:?}"));
            }
        }
        told.iter().map(|told| format!("{} ({n}): {told}", self.name)).collect()
    }
}

/// Returns the steps whose time has grown too much.
fn too_slow(few: &Steps, many: &Steps) -> Vec<String> {
    let pairs = few.all.iter().zip(&many.all);
    pairs
        .filter_map(|((step, few), (_, many))| {
            let ratio = many.time.as_secs_f64() / few.time.as_secs_f64().max(1e-9);
            let slow = ratio > TIME_MAX && many.time > SMALL.2;
            slow.then(|| format!("{step}: time x {ratio:.1}: {:?}, {:?}", few.time, many.time))
        })
        .collect()
}

/// Measures all cases, and fails with a list of those that grow too fast.
fn holds(cases: Vec<Case>) {
    let scale = std::env::var("TXWEIR_COST").ok().and_then(|n| n.parse().ok());
    let of = std::env::var("TXWEIR_COST_OF").unwrap_or_default();
    let before = spent();
    let mut told = Vec::new();
    for case in cases.iter().filter(|case| case.name.contains(&of)) {
        told.extend(case.broken(scale.unwrap_or(1), scale.is_some()));
    }
    println!("{:?} of processor time", spent() - before);
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn the_cost_of_a_batch_is_in_proportion_to_its_length() {
    holds(batches::cases());
}

#[test]
fn the_cost_of_one_long_line_is_in_proportion_to_its_length() {
    holds(lines::cases());
}

#[test]
fn the_cost_of_a_script_is_in_proportion_to_its_length() {
    holds(scripts::cases());
}

#[test]
fn the_cost_of_a_scenario_or_a_trace_is_in_proportion_to_its_length() {
    holds(files::cases());
}
