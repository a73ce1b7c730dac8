//! The headline numbers of a trial: one value per run, the median, its interval, and the mark of
//! the best policy.
//!
//! **The interval** is of the median, by order statistics: the smallest set of runs around the
//! middle that covers the true median with a probability of 95 %, whatever the distribution; with
//! fewer than six runs the smallest and the largest run (`n` values cover with 1 - 2 / 2^n: 93.75 %
//! for five). A t-interval would assume a normal distribution, which percentiles of latency do not
//! have.
//!
//! **The marks.** Two policies are told apart if their intervals do not overlap and their medians
//! do not read alike. Fewer than [`MARKED_FROM`] runs tell no policies apart. A run without a
//! latency, as no packet or transaction ended in it, counts as the worst.

use serde::{Deserialize, Serialize, Serializer};

use super::units::Unit;
use super::{GroupTrial, PolicyTrial};

/// Smallest number of runs that tell policies apart. Runs of equal policies separate by chance with
/// a probability of 2 in `C(2n, n)`: 33 % of the time with two runs each, 10 % with three, 2.9 %
/// with four, 0.8 % with five.
pub const MARKED_FROM: u32 = 4;
/// Least probability that the interval covers the median, if there are enough runs.
const COVERAGE: f64 = 0.95;

/// Method of the intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Number of runs of each policy.
    pub runs: u32,
    /// Rank of the run at which the interval begins; the smallest has rank 1.
    pub low_rank: u32,
    /// Rank of the run at which the interval ends.
    pub high_rank: u32,
    /// The probability that it covers the median of all possible runs.
    pub coverage: f64,
    /// Smallest number of runs that tell policies apart.
    pub marked_from: u32,
}

impl Interval {
    /// Returns the interval for this number of runs, 1 to 64.
    pub(super) fn of(runs: u32) -> Self {
        let n = runs.clamp(1, super::RUNS_MAX);
        // The number of values below the median is binomial: `cumulated` is the chance of fewer
        // than `rank`.
        let (mut rank, mut cumulated, mut term) = (1, 0.5_f64.powi(n as i32), 0.5_f64.powi(n as i32));
        let coverage = |cumulated: f64| (1.0 - 2.0 * cumulated).max(0.0);
        while rank < n.div_ceil(2) {
            term *= f64::from(n - rank + 1) / f64::from(rank);
            if coverage(cumulated + term) < COVERAGE {
                break;
            }
            cumulated += term;
            rank += 1;
        }
        Self {
            runs: n,
            low_rank: rank,
            high_rank: n + 1 - rank,
            coverage: coverage(cumulated),
            marked_from: MARKED_FROM,
        }
    }
}

/// The better value of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The larger value.
    More,
    /// The smaller value.
    Less,
    /// Neither: it depends.
    Neither,
}

impl Better {
    /// Returns the value of a run without a measurement: worse than any measured value.
    const fn worst(self) -> f64 {
        match self {
            Self::More => f64::NEG_INFINITY,
            Self::Less | Self::Neither => f64::INFINITY,
        }
    }
}

/// Rank of a policy among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// The policy is told apart from every other one, and better.
    Best,
    /// The policy has the best median or is not told apart from it, while some other policy is.
    Equal,
}

/// One number of a policy over all of its runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// The group of traffic; null for the bottleneck.
    pub group: Option<String>,
    /// The name of the number, with the unit of its values last.
    pub measure: &'static str,
    /// The name of the number for people.
    pub label: &'static str,
    /// The unit of the values.
    pub unit: Unit,
    /// The better value of two.
    pub better: Better,
    /// The value of each run, by seed; null for a run without a value.
    #[serde(serialize_with = "numbers")]
    pub runs: Vec<Option<f64>>,
    /// The median, with a run without a value counted as the worst; null if such a run is the
    /// median.
    #[serde(serialize_with = "number")]
    pub median: Option<f64>,
    /// The lower end of its interval; null like the median.
    #[serde(serialize_with = "number")]
    pub low: Option<f64>,
    /// The upper end of its interval; null like the median.
    #[serde(serialize_with = "number")]
    pub high: Option<f64>,
    /// The rank of the policy; null if it is not among the best, or no policy is told apart.
    pub mark: Option<Mark>,
}

impl Measure {
    /// True if the measure is told apart from another policy's: see the module.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let (a, b) = (self.span(), other.span());
        let apart = a[2] < b[0] || b[2] < a[0];
        let runs = self.runs.len().min(other.runs.len());
        let alike = self.median.map(|v| self.unit.text(v)) == other.median.map(|v| self.unit.text(v));
        apart && runs >= MARKED_FROM as usize && !alike
    }

    /// Returns low, median and high; the worst value for those that are absent.
    fn span(&self) -> [f64; 3] {
        [self.low, self.median, self.high].map(|v| v.unwrap_or(self.better.worst()))
    }
}

/// A number of a group, or of the bottleneck.
struct Kept<T: ?Sized + 'static> {
    measure: &'static str,
    unit: Unit,
    better: Better,
    of: fn(&T) -> Option<f64>,
}

const fn kept<T: ?Sized>(
    measure: &'static str,
    unit: Unit,
    better: Better,
    of: fn(&T) -> Option<f64>,
) -> Kept<T> {
    Kept { measure, unit, better, of }
}

const LATENCY: [Kept<GroupTrial>; 3] = [
    kept("latency_p50_ns", Unit::Time, Better::Less, |g| g.latency.map(|t| t.p50_ns as f64)),
    kept("latency_p95_ns", Unit::Time, Better::Less, |g| g.latency.map(|t| t.p95_ns as f64)),
    kept("latency_p99_ns", Unit::Time, Better::Less, |g| g.latency.map(|t| t.p99_ns as f64)),
];
const TRANSACTIONS: Kept<GroupTrial> =
    kept("transactions_per_s", Unit::PerSecond, Better::More, |g| g.transactions_per_s);
const GOODPUT: Kept<GroupTrial> =
    kept("throughput_bit_s", Unit::BitRate, Better::More, |g| Some(g.throughput_bit_s as f64));
/// A higher constant rate than the others' is not better: the bursts are longer.
const RATE: Kept<GroupTrial> = Kept { better: Better::Neither, ..GOODPUT };
const JAIN: Kept<GroupTrial> = kept("jain", Unit::Index, Better::More, |g| Some(g.jain));
/// A starved stream retransmits nothing, so less is not better.
const AGAIN: Kept<GroupTrial> =
    kept("retransmitted_bytes", Unit::Size, Better::Neither, |g| Some(g.retransmitted_bytes as f64));
const LOST: Kept<GroupTrial> =
    kept("lost_packets", Unit::Packets, Better::Less, |g| g.lost.map(|n| n as f64));

/// A policy with short queues may have starved its senders, so shorter queues are not better.
const BOTTLENECK: [Kept<PolicyTrial>; 5] = [
    kept("utilisation", Unit::Share, Better::More, |p| Some(p.device.utilisation)),
    kept("dropped_packets", Unit::Packets, Better::Neither, |p| Some(p.drops.values().sum::<u64>() as f64)),
    kept("marked_packets", Unit::Packets, Better::Neither, |p| Some(p.marks.values().sum::<u64>() as f64)),
    kept("qdisc_bytes_mean", Unit::Size, Better::Neither, |p| {
        p.classes.first().map(|c| c.backlog_bytes.mean as f64)
    }),
    kept("ring_bytes_mean", Unit::Size, Better::Neither, |p| Some(p.device.ring_bytes.mean as f64)),
];

/// The numbers of the way back, where it has a rate.
const DOWN: [Kept<PolicyTrial>; 5] = [
    kept("down_utilisation", Unit::Share, Better::More, |p| p.down.as_ref().map(|d| d.utilisation)),
    kept("down_dropped_packets", Unit::Packets, Better::Neither, |p| {
        let ifbs = p.ifbs.iter().flat_map(|ifb| ifb.drops.values()).sum::<u64>();
        p.down.as_ref().map(|d| (ifbs + d.turned_away_packets) as f64)
    }),
    kept("ifb_bytes_mean", Unit::Size, Better::Neither, |p| {
        let waiting = p.ifbs.iter().filter_map(|ifb| ifb.classes.first()).map(|c| c.backlog_bytes.mean);
        p.down.as_ref().map(|_| waiting.sum::<u64>() as f64)
    }),
    kept("provider_dropped_packets", Unit::Packets, Better::Neither, |p| {
        p.down.as_ref().map(|d| d.provider_dropped_packets as f64)
    }),
    kept("provider_bytes_mean", Unit::Size, Better::Neither, |p| {
        p.down.as_ref().map(|d| d.provider_bytes.mean as f64)
    }),
];

/// Returns the numbers of a group of that kind.
fn of_kind(kind: &str, count: u32) -> Vec<Kept<GroupTrial>> {
    let mut all = match kind {
        "rr" => vec![TRANSACTIONS],
        "stream" | "quic" => vec![GOODPUT],
        _ => vec![RATE],
    };
    all.extend(LATENCY);
    match kind {
        "stream" | "quic" if count > 1 => all.extend([JAIN, AGAIN]),
        "stream" | "quic" => all.push(AGAIN),
        "cbr" | "replay" => all.push(LOST),
        _ => {}
    }
    all
}

/// Returns the name of a measure for people, in a group of that kind; its key if it has none.
pub(super) fn label<'a>(measure: &'a str, kind: &str) -> &'a str {
    match (measure, kind) {
        ("latency_p50_ns", "rr" | "dns" | "udprr") => "latency p50",
        ("latency_p95_ns", "rr" | "dns" | "udprr") => "latency p95",
        ("latency_p99_ns", "rr" | "dns" | "udprr") => "latency p99",
        ("latency_p50_ns", "short") => "completion p50",
        ("latency_p95_ns", "short") => "completion p95",
        ("latency_p99_ns", "short") => "completion p99",
        ("latency_p50_ns", "stream") => "RTT p50",
        ("latency_p95_ns", "stream") => "RTT p95",
        ("latency_p99_ns", "stream") => "RTT p99",
        ("latency_p50_ns", _) => "one way p50",
        ("latency_p95_ns", _) => "one way p95",
        ("latency_p99_ns", _) => "one way p99",
        ("transactions_per_s", _) => "transactions/s",
        ("throughput_bit_s", _) => "throughput",
        ("jain", _) => "fairness",
        ("retransmitted_bytes", _) => "sent again",
        ("lost_packets", _) => "lost",
        ("utilisation", _) => "link used",
        ("dropped_packets", _) => "dropped",
        ("marked_packets", _) => "marked",
        ("qdisc_bytes_mean", _) => "in qdiscs, mean",
        ("ring_bytes_mean", _) => "in ring, mean",
        ("down_utilisation", _) => "down: link used",
        ("down_dropped_packets", _) => "down: dropped here",
        ("ifb_bytes_mean", _) => "down: in ifb, mean",
        ("provider_dropped_packets", _) => "down: dropped there",
        ("provider_bytes_mean", _) => "down: queue there",
        (other, _) => other,
    }
}

/// Gathers the runs of one policy: returns the run of median goodput, with the measures of all
/// runs. `first` is the seed of the first run. `None` without runs.
pub(super) fn gathered(mut runs: Vec<PolicyTrial>, first: u64) -> Option<PolicyTrial> {
    let interval = Interval::of(runs.len() as u32);
    let all = measures(&runs, &interval);
    let goodput = |p: &PolicyTrial| p.groups.iter().map(|g| u128::from(g.throughput_bit_s)).sum::<u128>();
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|i| goodput(&runs[*i]));
    let shown = *order.get(order.len().saturating_sub(1) / 2)?;
    let policy = runs.swap_remove(shown);
    Some(PolicyTrial { shown_seed: first.wrapping_add(shown as u64), measures: all, ..policy })
}

fn measures(runs: &[PolicyTrial], interval: &Interval) -> Vec<Measure> {
    let mut all = Vec::new();
    let groups = runs.first().map_or(&[][..], |p| &p.groups);
    for (i, group) in groups.iter().enumerate() {
        for kept in of_kind(group.kind, group.count) {
            let values = runs.iter().map(|p| p.groups.get(i).and_then(kept.of)).collect();
            all.push(measure(Some(group), &kept, values, interval));
        }
    }
    let down = if runs.iter().any(|p| p.down.is_some()) { &DOWN[..] } else { &[] };
    for kept in BOTTLENECK.iter().chain(down) {
        let values = runs.iter().map(kept.of).collect();
        all.push(measure(None, kept, values, interval));
    }
    all
}

/// Returns the measures of the groups of a single run.
pub(crate) fn of_one_run(groups: &[GroupTrial]) -> Vec<Measure> {
    let interval = Interval::of(1);
    let of = |group: &GroupTrial| {
        let all = of_kind(group.kind, group.count).into_iter();
        all.map(|kept| measure(Some(group), &kept, vec![(kept.of)(group)], &interval)).collect::<Vec<_>>()
    };
    groups.iter().flat_map(of).collect()
}

fn measure<T: ?Sized>(
    group: Option<&GroupTrial>,
    kept: &Kept<T>,
    runs: Vec<Option<f64>>,
    interval: &Interval,
) -> Measure {
    let worst = kept.better.worst();
    let mut sorted: Vec<f64> = runs.iter().map(|v| v.unwrap_or(worst)).collect();
    sorted.sort_by(f64::total_cmp);
    let finite = |v: &f64| v.is_finite();
    let ranked = |rank: u32| sorted.get(rank as usize - 1).copied().filter(finite);
    Measure {
        group: group.map(|g| g.name.clone()),
        measure: kept.measure,
        label: label(kept.measure, group.map_or("", |g| g.kind)),
        unit: kept.unit,
        better: kept.better,
        median: median(&sorted).filter(finite),
        low: ranked(interval.low_rank),
        high: ranked(interval.high_rank),
        runs,
        mark: None,
    }
}

/// Returns the middle of sorted values, or the mean of the middle two.
fn median(sorted: &[f64]) -> Option<f64> {
    let (low, high) = (sorted.get(sorted.len().saturating_sub(1) / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

/// Marks the best of each measure. Every policy has the same measures in the same order.
pub(super) fn mark(policies: &mut [PolicyTrial]) {
    for row in 0..policies.first().map_or(0, |p| p.measures.len()) {
        let column: Vec<&Measure> = policies.iter().filter_map(|p| p.measures.get(row)).collect();
        let marks = marks(&column);
        for (policy, mark) in policies.iter_mut().zip(marks) {
            if let Some(measure) = policy.measures.get_mut(row) {
                measure.mark = mark;
            }
        }
    }
}

/// Returns the mark of each policy's value of one measure.
fn marks(column: &[&Measure]) -> Vec<Option<Mark>> {
    let mut marks = vec![None; column.len()];
    let medians = column.iter().enumerate().filter_map(|(i, m)| Some((i, m.median?)));
    let best = match column.first().map(|m| m.better) {
        Some(Better::More) => medians.min_by(|a, b| b.1.total_cmp(&a.1)),
        Some(Better::Less) => medians.min_by(|a, b| a.1.total_cmp(&b.1)),
        _ => None,
    };
    let Some((best, _)) = best else { return marks };
    let alike = |m: &&Measure| !m.differs(column[best]);
    let count = column.iter().copied().filter(alike).count();
    if count == column.len() {
        return marks;
    }
    for (mark, _) in marks.iter_mut().zip(column).filter(|(_, m)| alike(m)) {
        *mark = Some(if count == 1 { Mark::Best } else { Mark::Equal });
    }
    marks
}

/// A number for JSON, written without a fraction if it has none.
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        /// Integers up to this bound are exact in a float.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match self.0.fract() == 0.0 && self.0.abs() < EXACT {
            true => s.serialize_i64(self.0 as i64),
            false => s.serialize_f64(self.0),
        }
    }
}

fn number<S: Serializer>(value: &Option<f64>, s: S) -> Result<S::Ok, S::Error> {
    value.map(Number).serialize(s)
}

fn numbers<S: Serializer>(values: &[Option<f64>], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(values.iter().map(|v| v.map(Number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: Kept<PolicyTrial> = kept("speed", Unit::Packets, Better::More, |_| None);

    fn of(better: Better, runs: &[f64]) -> Measure {
        let some = runs.iter().map(|v| (!v.is_nan()).then_some(*v)).collect();
        measure(None, &Kept { better, ..SPEED }, some, &Interval::of(runs.len() as u32))
    }

    fn marked(better: Better, columns: &[&[f64]]) -> String {
        let all: Vec<Measure> = columns.iter().map(|runs| of(better, runs)).collect();
        let marks = marks(&all.iter().collect::<Vec<_>>());
        let text = |m: &Option<Mark>| match m {
            Some(Mark::Best) => '*',
            Some(Mark::Equal) => '=',
            None => '.',
        };
        marks.iter().map(text).collect()
    }

    /// Ranks and coverages as in tables of the sign test (Conover, Practical Nonparametric
    /// Statistics, table A3).
    #[test]
    fn ranks_are_those_of_the_sign_test() {
        let of = |n| {
            let i = Interval::of(n);
            (i.low_rank, i.high_rank, format!("{:.4}", i.coverage))
        };
        assert_eq!(of(1), (1, 1, "0.0000".into()));
        assert_eq!(of(2), (1, 2, "0.5000".into()));
        assert_eq!(of(5), (1, 5, "0.9375".into()));
        assert_eq!(of(6), (1, 6, "0.9688".into()));
        assert_eq!(of(8), (1, 8, "0.9922".into()));
        assert_eq!(of(9), (2, 8, "0.9609".into()));
        assert_eq!(of(20), (6, 15, "0.9586".into()));
        assert_eq!(of(64), (24, 41, "0.9672".into()));
    }

    /// Returns the chance that two samples of `n` runs each, of one distribution, are told apart.
    /// All orders of the 2n values are equally likely; this counts those with the upper end of one
    /// below the lower end of the other.
    #[test]
    fn equal_policies_are_rarely_told_apart() {
        let choose = |n: u32, k: u32| (0..k).fold(1.0, |c, i| c * f64::from(n - i) / f64::from(i + 1));
        let chance = |n: u32| {
            let Interval { low_rank, high_rank, .. } = Interval::of(n);
            let before = |b: u32| choose(high_rank - 1 + b, b) * choose(2 * n - high_rank - b, n - high_rank);
            2.0 * (0..low_rank).map(before).sum::<f64>() / choose(2 * n, n)
        };
        let said = [2, 3, 4, 5].map(|n| format!("{:.1}", chance(n) * 100.0));
        assert_eq!(said, ["33.3", "10.0", "2.9", "0.8"]);
        let most = (6..=64).map(chance).fold(0.0, f64::max);
        assert_eq!(format!("{:.1}", most * 100.0), "0.5");
    }

    /// More bytes are better over QUIC too, and its shares and what it sends again count.
    #[test]
    fn bulk_over_quic_has_the_numbers_of_bulk_over_tcp() {
        let of = |kind: &str, count: u32| -> Vec<(&str, Better)> {
            of_kind(kind, count).iter().map(|kept| (kept.measure, kept.better)).collect()
        };
        for count in [1, 2] {
            assert_eq!(of("quic", count), of("stream", count));
        }
        assert_eq!(of("cbr", 2)[0], ("throughput_bit_s", Better::Neither));
    }

    #[test]
    fn medians_and_ends() {
        let m = of(Better::More, &[5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!((m.low, m.median, m.high), (Some(1.0), Some(3.0), Some(5.0)));
        let m = of(Better::More, &[4.0, 1.0]);
        assert_eq!((m.low, m.median, m.high), (Some(1.0), Some(2.5), Some(4.0)));
        let m = of(Better::Less, &[f64::NAN, 7.0, 6.0]);
        assert_eq!((m.low, m.median, m.high), (Some(6.0), Some(7.0), None));
        let m = of(Better::Less, &[f64::NAN]);
        assert_eq!((m.low, m.median, m.high), (None, None, None));
    }

    #[test]
    fn a_star_needs_an_interval_that_overlaps_no_other() {
        let [low, mid, high] = [[1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]];
        assert_eq!(marked(Better::More, &[&low, &mid, &high]), "..*");
        assert_eq!(marked(Better::Less, &[&low, &mid, &high]), "==.", "4 is in both");
        assert_eq!(marked(Better::Neither, &[&low, &mid, &high]), "...");
        assert_eq!(marked(Better::Less, &[&low, &mid]), "..", "nothing is told apart");
        assert_eq!(marked(Better::Less, &[&low, &low, &high]), "==.");
        assert_eq!(marked(Better::More, &[&low]), ".");
    }

    #[test]
    fn three_runs_are_too_few_for_a_star() {
        assert_eq!(marked(Better::More, &[&[1.0, 2.0, 3.0], &[7.0, 8.0, 9.0]]), "..");
        assert_eq!(marked(Better::More, &[&[1.0], &[9.0]]), "..");
    }

    /// 5.4 and 4.6 packets are both shown as 5.
    #[test]
    fn values_that_read_alike_are_alike() {
        assert_eq!(marked(Better::More, &[&[4.6; 5], &[5.4; 5]]), "..");
        assert_eq!(marked(Better::More, &[&[4.6; 5], &[5.6; 5]]), ".*");
    }

    #[test]
    fn a_run_without_a_value_counts_as_the_worst() {
        let some = [1.0, 1.0, f64::NAN, 1.0, 1.0];
        assert_eq!(marked(Better::Less, &[&some, &[5.0; 5]]), "..");
        let none = [f64::NAN; 5];
        assert_eq!(marked(Better::Less, &[&none, &[1.0; 5]]), ".*");
        assert_eq!(marked(Better::Less, &[&none, &some]), "..", "the worst run of the second is none too");
        assert_eq!(marked(Better::Less, &[&none, &none]), "..");
    }

    #[test]
    fn json_has_whole_numbers_where_they_are_whole() {
        let text = serde_json::to_string(&of(Better::Less, &[5.0, 2.5, f64::NAN])).unwrap_or_default();
        assert!(text.contains("\"runs\":[5,2.5,null],\"median\":5,\"low\":2.5,\"high\":null"), "{text}");
    }
}
