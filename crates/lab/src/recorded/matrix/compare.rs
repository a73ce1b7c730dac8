//! Comparison of a recorded run with the lab's, within bands.
//!
//! Losses at a full queue are chaotic, so one run does not predict another one. A recorded run has
//! repetitions with small changes; the lab plays the same changes, and medians are compared.

use std::fmt;

use super::line::{Repetition, Run};
use super::play::Outcome;

/// A compared quantity, with its band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Goodput of all flows over the whole run: 3 %.
    GoodputWhole,
    /// Goodput after the first part: 3 %.
    GoodputAfter,
    /// Jain's index after the first part: 0.02.
    Jain,
    /// Part of the bulk bytes after the first part that one congestion control has, if there are
    /// several: 0.03.
    Part,
    /// Median delay in the policy after the first part: 10 % or 1 ms.
    DelayP50,
    /// 99th percentile of this delay: 20 % or 1 ms.
    DelayP99,
    /// Drops of the leaf: as counts.
    Drops,
    /// Marks: as counts.
    Marks,
    /// Retransmitted segments: as counts.
    Retrans,
    /// Timeouts: 1.
    Timeouts,
    /// Transfers that ended: 1.
    Completed,
    /// Median time of transfers: 10 % or 2 ms.
    CompletionP50,
    /// 90th percentile of these times: 10 % or 2 ms.
    CompletionP90,
    /// Requests that ended: as counts.
    Requests,
    /// Median time of requests: 10 % or 2 ms.
    LatencyP50,
    /// 90th percentile of these times: 10 % or 2 ms.
    LatencyP90,
}

impl Quantity {
    /// All quantities, in the order of tables.
    pub const ALL: [Self; 16] = [
        Self::GoodputWhole,
        Self::GoodputAfter,
        Self::Jain,
        Self::Part,
        Self::DelayP50,
        Self::DelayP99,
        Self::Drops,
        Self::Marks,
        Self::Retrans,
        Self::Timeouts,
        Self::Completed,
        Self::CompletionP50,
        Self::CompletionP90,
        Self::Requests,
        Self::LatencyP50,
        Self::LatencyP90,
    ];

    /// Returns its name and its unit.
    pub const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::GoodputWhole => ("goodput whole", "kbit/s"),
            Self::GoodputAfter => ("goodput after", "kbit/s"),
            Self::Jain => ("jain", ""),
            Self::Part => ("part", ""),
            Self::DelayP50 => ("delay p50", "us"),
            Self::DelayP99 => ("delay p99", "us"),
            Self::Drops => ("drops", ""),
            Self::Marks => ("marks", ""),
            Self::Retrans => ("retrans", ""),
            Self::Timeouts => ("timeouts", ""),
            Self::Completed => ("completed", ""),
            Self::CompletionP50 => ("completion p50", "us"),
            Self::CompletionP90 => ("completion p90", "us"),
            Self::Requests => ("requests", ""),
            Self::LatencyP50 => ("latency p50", "us"),
            Self::LatencyP90 => ("latency p90", "us"),
        }
    }

    /// Returns the largest difference from `there` that is inside. A count may be off by 15 %, by
    /// 3, or by twice its square root, whichever is largest.
    fn band(self, there: f64) -> f64 {
        match self {
            Self::GoodputWhole | Self::GoodputAfter => 0.03 * there,
            Self::Jain => 0.02,
            Self::Part => 0.03,
            Self::DelayP50 => (0.1 * there).max(1_000.0),
            Self::DelayP99 => (0.2 * there).max(1_000.0),
            Self::Drops | Self::Marks | Self::Retrans | Self::Requests => {
                (0.15 * there).max(3.0).max(2.0 * there.sqrt())
            }
            Self::Timeouts | Self::Completed => 1.0,
            Self::CompletionP50 | Self::CompletionP90 | Self::LatencyP50 | Self::LatencyP90 => {
                (0.1 * there).max(2_000.0)
            }
        }
    }

    /// Returns its value in a repetition, if the repetition has it.
    fn repeated(self, r: &Repetition) -> Option<f64> {
        let count = |n: u64| Some(n as f64);
        match self {
            Self::GoodputWhole => r.goodput_whole_bps.map(|bps| bps as f64 / 1e3),
            Self::GoodputAfter => Some(r.goodput_bps as f64 / 1e3),
            Self::Jain => r.jain,
            Self::Part => r.part,
            Self::DelayP50 => r.delay_p50.and_then(count),
            Self::DelayP99 => r.delay_p99.and_then(count),
            Self::Drops => count(r.drops),
            Self::Marks => count(r.marks),
            Self::Retrans => count(r.retrans),
            Self::Timeouts => count(r.timeouts),
            Self::Completed => r.completed.and_then(count),
            Self::CompletionP50 => r.completion_p50.and_then(count),
            Self::CompletionP90 => r.completion_p90.and_then(count),
            Self::Requests => r.requests.and_then(count),
            Self::LatencyP50 => r.latency_p50.and_then(count),
            Self::LatencyP90 => r.latency_p90.and_then(count),
        }
    }
}

/// Verdict on a quantity, or a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The medians are inside the band.
    Inside,
    /// The medians differ more, but the median here is among the recorded run and its repetitions.
    Spread,
    /// Neither holds.
    Outside,
}

/// A quantity in the recording and here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The quantity.
    pub quantity: Quantity,
    /// Value in the recording: the median of the run and of its repetitions, if they have it;
    /// `None` if the recording lacks it.
    pub there: Option<f64>,
    /// Value here: the median of all plays.
    pub here: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Value of the recorded run, without its repetitions.
    pub recorded: Option<f64>,
    /// Value of the first play, which is of that run.
    pub played: Option<f64>,
}

impl Pair {
    /// True if the first play is inside the band of the recorded run, both without repetitions.
    pub(crate) fn is_inside_alone(&self) -> bool {
        is_inside(self.quantity, self.recorded, self.played)
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) = self.quantity.name();
        let digits =
            usize::from(unit.is_empty() && matches!(self.quantity, Quantity::Jain | Quantity::Part)) * 3;
        let text = |v: Option<f64>| v.map_or("-".to_string(), |v| format!("{v:.digits$}"));
        write!(f, "{name} {} / {}", text(self.there), text(self.here))?;
        if !unit.is_empty() {
            write!(f, " {unit}")?;
        }
        if self.verdict == Verdict::Spread {
            f.write_str(" (within the spread)")?;
        }
        Ok(())
    }
}

/// A run in the recording and here.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The recording.
    pub run: Run,
    /// Outcomes here of the run, and of each of its repetitions.
    pub outcomes: Vec<Outcome>,
    /// The quantities that the run has.
    pub pairs: Vec<Pair>,
}

impl Compared {
    /// Plays a run and its repetitions, and compares.
    ///
    /// # Errors
    /// Fails like [`Run::play`].
    pub fn play(run: &Run) -> Result<Self, String> {
        let outcomes = (0..=run.spread.len() as u64).map(|n| run.play(n)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::new(run.clone(), outcomes))
    }

    /// Compares a run with the outcomes of its plays.
    pub fn new(run: Run, outcomes: Vec<Outcome>) -> Self {
        let recorded = Outcome {
            whole: run.whole.clone(),
            after: run.after.clone(),
            drops: run.drops,
            timeouts: run.timeouts,
            samples: run.samples.clone(),
            completion: run.completion_us.clone(),
            latency: run.latency_us,
        };
        let pair = |quantity: Quantity| {
            let recorded = value(&run, quantity, &recorded);
            let all = run.spread.iter().filter_map(|r| quantity.repeated(r)).chain(recorded);
            let all: Vec<f64> = all.collect();
            let each: Vec<f64> = outcomes.iter().filter_map(|o| value(&run, quantity, o)).collect();
            if recorded.is_none() && each.is_empty() {
                return None;
            }
            let played = value(&run, quantity, outcomes.first()?);
            let (there, here) = (median(all.clone()), median(each));
            let verdict = judge(quantity, &all, there, here);
            Some(Pair { quantity, there, here, verdict, recorded, played })
        };
        let pairs = Quantity::ALL.into_iter().filter_map(pair).collect();
        Self { run, outcomes, pairs }
    }

    /// Returns the number of the kernel's repetitions of the run, and the number of those that are
    /// inside the bands of the recording in every quantity that a repetition has.
    pub fn repetitions(&self) -> (usize, usize) {
        (self.run.spread.len(), self.within(|p| p.recorded, self.run.spread.iter()))
    }

    /// Returns the number of the kernel's own runs, the recorded one and its repetitions, and the
    /// number of those that are inside the bands of their median in every quantity that a
    /// repetition has.
    pub(crate) fn own_runs(&self) -> (usize, usize) {
        let first = |p: &Pair| is_inside(p.quantity, p.there, p.recorded);
        let of_repetitions = |p: &&Pair| self.is_repeated(p.quantity);
        let recorded = usize::from(self.pairs.iter().filter(of_repetitions).all(first));
        (1 + self.run.spread.len(), recorded + self.within(|p| p.there, self.run.spread.iter()))
    }

    /// True if the repetitions have the quantity.
    pub(super) fn is_repeated(&self, quantity: Quantity) -> bool {
        self.run.spread.iter().any(|r| quantity.repeated(r).is_some())
    }

    /// Returns a quantity in each of the kernel's own runs, the recorded one first.
    pub(super) fn linux(&self, pair: &Pair) -> Vec<Option<f64>> {
        let repeated = self.run.spread.iter().map(|r| pair.quantity.repeated(r));
        std::iter::once(pair.recorded).chain(repeated).collect()
    }

    /// Returns the number of repetitions that are inside the bands around the values of `centre`.
    fn within<'a>(
        &self,
        centre: fn(&Pair) -> Option<f64>,
        repetitions: impl Iterator<Item = &'a Repetition>,
    ) -> usize {
        let inside = |p: &Pair, r: &Repetition| match (centre(p), p.quantity.repeated(r)) {
            (Some(_), Some(again)) => is_inside(p.quantity, centre(p), Some(again)),
            _ => true,
        };
        repetitions.filter(|r| self.pairs.iter().all(|p| inside(p, r))).count()
    }

    /// Returns the verdict on the row: that of its worst quantity.
    pub fn verdict(&self) -> Verdict {
        self.pairs.iter().map(|p| p.verdict).max().unwrap_or(Verdict::Outside)
    }

    /// True if the first play is inside the bands of the recorded run, both without repetitions.
    pub(crate) fn is_inside_alone(&self) -> bool {
        self.pairs.iter().all(Pair::is_inside_alone)
    }
}

pub(super) fn is_inside(quantity: Quantity, there: Option<f64>, here: Option<f64>) -> bool {
    there.zip(here).is_some_and(|(there, here)| (here - there).abs() <= quantity.band(there))
}

fn judge(quantity: Quantity, all: &[f64], there: Option<f64>, here: Option<f64>) -> Verdict {
    if is_inside(quantity, there, here) {
        return Verdict::Inside;
    }
    let (least, most) = all.iter().fold((f64::MAX, f64::MIN), |(l, m), v| (l.min(*v), m.max(*v)));
    match here {
        Some(here) if all.len() > 1 && least <= here && here <= most => Verdict::Spread,
        _ => Verdict::Outside,
    }
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n % 2 {
        1 => values.get(n / 2).copied(),
        _ => Some((values.get((n / 2).checked_sub(1)?)? + values.get(n / 2)?) / 2.0),
    }
}

/// Returns the value of a quantity; `None` if the run lacks it.
fn value(run: &Run, quantity: Quantity, o: &Outcome) -> Option<f64> {
    let count = |n: u64| Some(n as f64);
    let some = |n: Option<u64>| n.map(|n| n as f64);
    match quantity {
        Quantity::GoodputWhole => Some(o.whole.goodput_bps as f64 / 1e3),
        Quantity::GoodputAfter => Some(o.after.goodput_bps as f64 / 1e3),
        Quantity::Jain => o.after.jain,
        Quantity::Part => part(run, &o.after.bytes),
        Quantity::DelayP50 => some(o.after.delay_us.p50),
        Quantity::DelayP99 => some(o.after.delay_us.p99),
        Quantity::Drops => count(o.drops),
        Quantity::Marks => count(o.whole.marks),
        Quantity::Retrans => count(o.whole.retrans),
        Quantity::Timeouts => count(o.timeouts),
        Quantity::Completed => {
            o.completion.as_ref().map(|c| c.each.iter().filter(|t| **t >= 0).count() as f64)
        }
        Quantity::CompletionP50 => some(o.completion.as_ref()?.shares.p50),
        Quantity::CompletionP90 => some(o.completion.as_ref()?.shares.p90),
        Quantity::Requests => o.latency.map(|l| l.count as f64),
        Quantity::LatencyP50 => some(o.latency?.shares.p50),
        Quantity::LatencyP90 => some(o.latency?.shares.p90),
    }
}

/// Returns the part of the bulk bytes that belongs to flows with the congestion control of the
/// first flow; `None` if there is only one.
fn part(run: &Run, bytes: &[u64]) -> Option<f64> {
    use super::line::Kind;
    let bulk = || run.flows.iter().filter(|g| g.app == Kind::Bulk);
    let first = &bulk().next()?.cc;
    if bulk().all(|g| g.cc == *first) {
        return None;
    }
    let owners = bulk().flat_map(|g| g.start_ns.iter().map(|_| g.cc == *first));
    let own: u64 = bytes.iter().zip(owners).filter(|(_, own)| *own).map(|(n, _)| n).sum();
    let all: u64 = bytes.iter().sum();
    (all > 0).then(|| own as f64 / all as f64)
}
