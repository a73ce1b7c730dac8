//! Compares the claims of `txweir try` about policies with live runs: values, pairs, and whether
//! the ranks are the same.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::scenarios::{Load, Scenario};
use super::traffic::LiveRun;

/// One value of a policy: the median of its runs; the interval of `txweir try`, or the smallest and
/// the largest live run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Runs {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

/// One measure of every policy.
#[derive(Clone, Debug)]
pub struct Row {
    /// The group of traffic, or the bottleneck.
    pub group: String,
    pub measure: String,
    pub better: Better,
    pub tried: Vec<Runs>,
    pub live: Vec<Runs>,
}

/// Which value is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    More,
    Less,
    Neither,
}

/// The verdict of live runs on two policies of which `txweir try` says that the first is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    Same,
    Reversed,
}

impl Row {
    /// Returns the distance that intervals must have for one live run to be held to their order.
    /// Two runs of Linux differ by up to 3 % of goodput, 0.02 of Jain's index and 20 % of a
    /// percentile (docs/transport.md), and this test asserts no difference below 10 ms.
    fn margin(&self, a: f64, b: f64) -> f64 {
        let larger = a.max(b);
        match self.measure.as_str() {
            "throughput_bit_s" => larger * 0.05,
            "jain" => 0.02,
            "lost_packets" => f64::max(larger * 0.2, 10.0),
            "transactions_per_s" => larger * 0.2,
            _ => f64::max(larger * 0.2, 10e6),
        }
    }

    /// Returns the policies that `try` tells apart by more than the margin, the better one first.
    pub fn pairs(&self) -> Vec<(usize, usize, Pair)> {
        let all = 0..self.tried.len();
        let more = match self.better {
            Better::More => true,
            Better::Less => false,
            Better::Neither => return Vec::new(),
        };
        let ordered = all.clone().flat_map(|a| all.clone().map(move |b| (a, b)));
        let clear = ordered.filter(|&(a, b)| {
            let (a, b) = (&self.tried[a], &self.tried[b]);
            let (larger, smaller) = if more { (a, b) } else { (b, a) };
            let (low, high) = (larger.low, smaller.high);
            low > high && (low.is_infinite() || low - high > self.margin(low, high))
        });
        let judged = clear.map(|(a, b)| {
            let (x, y) = (self.live[a].median, self.live[b].median);
            let same = if more { x > y } else { x < y };
            (a, b, if same { Pair::Same } else { Pair::Reversed })
        });
        judged.collect()
    }

    /// Renders the last column of the table.
    fn said(&self, policies: &[&str]) -> String {
        let pairs = self.pairs();
        let wrong: Vec<String> = pairs
            .iter()
            .filter(|(.., pair)| *pair == Pair::Reversed)
            .map(|(a, b, _)| format!("no: {} is not better than {}", policies[*a], policies[*b]))
            .collect();
        let most = self.tried.len() * (self.tried.len() - 1) / 2;
        match (pairs.len(), wrong.is_empty()) {
            _ if self.better == Better::Neither => "no rank".into(),
            (0, _) => "not told apart".into(),
            (n, true) if n == most => "yes".into(),
            (n, true) => format!("yes ({n} of {most})"),
            (_, false) => wrong.join("; "),
        }
    }

    /// Renders a value and its interval for people.
    fn interval(&self, of: &Runs) -> String {
        let [median, low, high] = [of.median, of.low, of.high].map(|value| self.shown(value));
        if low == high { median } else { format!("{median} ({low}..{high})") }
    }

    /// Renders a value for people.
    fn shown(&self, value: f64) -> String {
        match self.measure.as_str() {
            _ if value.is_infinite() => "none".into(),
            "throughput_bit_s" => format!("{:.2}", value / 1e6),
            "jain" => format!("{value:.3}"),
            "lost_packets" | "dropped_packets" | "marked_packets" => format!("{value:.0}"),
            "retransmitted_bytes" => format!("{:.0}", value / 1e3),
            "transactions_per_s" => format!("{value:.1}"),
            _ => format!("{:.1}", value / 1e6),
        }
    }

    fn title(&self, scenario: &Scenario) -> String {
        let load = scenario.groups.iter().find(|g| g.name == self.group).map(|g| g.load);
        let time = match load {
            Some(Load::Stream) => "RTT",
            Some(Load::Cbr { .. }) => "one way",
            _ => "latency",
        };
        let measure = match self.measure.as_str() {
            "throughput_bit_s" => "goodput, Mbit/s".into(),
            "jain" => "fairness".into(),
            "lost_packets" => "packets lost".into(),
            "dropped_packets" => "packets dropped".into(),
            "marked_packets" => "packets marked".into(),
            "retransmitted_bytes" => "sent again, kB".into(),
            "transactions_per_s" => "transactions/s".into(),
            other => format!("{time} {}, ms", &other["latency_".len()..other.len() - "_ns".len()]),
        };
        format!("{} {measure}", self.group)
    }
}

/// Returns the value of a measure in a live run; `group` is that of the traffic, if the measure
/// belongs to one.
fn live_value(scenario: &Scenario, run: &LiveRun, group: Option<usize>, measure: &str) -> Option<f64> {
    let Some(group) = group else {
        return match measure {
            "dropped_packets" => Some(run.dropped as f64),
            "marked_packets" => Some(run.marked as f64),
            _ => None,
        };
    };
    let (of, load) = (&run.groups[group], scenario.groups[group].load);
    let seconds = run.measured.as_secs_f64();
    let percentile = |p: f64| {
        let rank = (of.times.len() as f64 * p).ceil() as usize;
        of.times.get(rank.saturating_sub(1)).map_or(f64::INFINITY, |time| *time as f64)
    };
    // The whole delay of the path is on the way back here, and half of it in `txweir try`.
    let on_the_way = if matches!(load, Load::Cbr { .. }) { scenario.rtt / 2 } else { Duration::ZERO };
    let time = |p: f64| percentile(p) + on_the_way.as_nanos() as f64;
    Some(match (load, measure) {
        (Load::Stream, "throughput_bit_s") => of.bytes.iter().sum::<u64>() as f64 * 8.0 / seconds,
        (Load::Stream, "jain") => jain(&of.bytes),
        (Load::Stream, "retransmitted_bytes") => of.again as f64,
        (Load::Rr { .. }, "transactions_per_s") => of.times.len() as f64 / seconds,
        (Load::Cbr { .. }, "lost_packets") => of.lost as f64,
        (_, "latency_p50_ns") => time(0.5),
        (_, "latency_p95_ns") => time(0.95),
        (_, "latency_p99_ns") => time(0.99),
        _ => return None,
    })
}

/// Returns Jain's index: 1 if all are alike, one over their number if one has all.
fn jain(of: &[u64]) -> f64 {
    let (sum, squares) = of.iter().map(|x| *x as f64).fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (of.len() as f64 * squares) }
}

/// Returns the rows that both have. `runs` are those of each policy, in the order of `try`.
pub fn rows(scenario: &Scenario, tried: &Value, runs: &[Vec<LiveRun>]) -> Vec<Row> {
    let policies = tried["policies"].as_array().expect("policies");
    assert_eq!(policies.len(), runs.len(), "policies of {}", scenario.name);
    let measures = policies[0]["measures"].as_array().expect("measures");
    let each = measures.iter().enumerate().filter_map(|(i, first)| {
        let (name, measure) = (first["group"].as_str(), first["measure"].as_str()?);
        let group = name.and_then(|name| scenario.groups.iter().position(|g| g.name == name));
        let better = match first["better"].as_str()? {
            "more" => Better::More,
            "less" => Better::Less,
            _ => Better::Neither,
        };
        let live = runs.iter().map(|runs| {
            let values = runs.iter().map(|run| live_value(scenario, run, group, measure));
            values.collect::<Option<Vec<f64>>>().and_then(middle)
        });
        let live = live.collect::<Option<Vec<Runs>>>()?;
        let worst = if better == Better::More { 0.0 } else { f64::INFINITY };
        let tried = policies.iter().map(|policy| {
            let of = &policy["measures"][i];
            let value = |key: &str| of[key].as_f64().unwrap_or(worst);
            Runs { median: value("median"), low: value("low"), high: value("high") }
        });
        let group = name.unwrap_or("bottleneck").into();
        let row = Row { group, measure: measure.into(), better, tried: tried.collect(), live };
        // Rows of zeros are left out, as those of marks where no stack asks for them.
        let none = row.tried.iter().all(|t| t.high == 0.0) && row.live.iter().all(|l| l.high == 0.0);
        (!none).then_some(row)
    });
    each.collect()
}

/// Returns the middle of the values, or the mean of the middle two; the smallest and the largest.
fn middle(mut values: Vec<f64>) -> Option<Runs> {
    values.sort_by(f64::total_cmp);
    let (a, b) = (values.get(values.len().saturating_sub(1) / 2)?, values.get(values.len() / 2)?);
    let median = if a == b { *a } else { (a + b) / 2.0 };
    Some(Runs { median, low: *values.first()?, high: *values.last()? })
}

/// Describes every pair that came out the other way.
pub fn reversed(scenario: &Scenario, rows: &[Row]) -> Vec<String> {
    let each = rows.iter().flat_map(|row| {
        let wrong = row.pairs().into_iter().filter(|(.., pair)| *pair == Pair::Reversed);
        wrong.map(move |(a, b, _)| {
            let value = |i: usize| {
                let [tried, live] = [&row.tried[i], &row.live[i]].map(|of| row.interval(of));
                format!("{} (try {tried}, live {live})", scenario.policies[i].name)
            };
            format!(
                "{}, {}: {} is not better than {}",
                scenario.name,
                row.title(scenario),
                value(a),
                value(b)
            )
        })
    });
    each.collect()
}

/// Renders the scenario's table, as docs/try.md has it.
pub fn table(scenario: &Scenario, rows: &[Row]) -> String {
    let names: Vec<&str> = scenario.policies.iter().map(|p| p.name).collect();
    let columns = names.iter().map(|name| format!(" {name}: try | live |"));
    let mut text = format!("| {} |{} same rank |\n", scenario.name, columns.collect::<String>());
    text += &format!("|---|{}---|\n", "---|---|".repeat(names.len()));
    for row in rows {
        let _ = write!(text, "| {} |", row.title(scenario));
        for (tried, live) in row.tried.iter().zip(&row.live) {
            let _ = write!(text, " {} | {} |", row.interval(tried), row.interval(live));
        }
        let _ = writeln!(text, " {} |", row.said(&names));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(measure: &str, better: Better, tried: [[f64; 3]; 3], live: [f64; 3]) -> Row {
        let tried = tried.map(|[low, median, high]| Runs { low, median, high }).into();
        let live = live.map(once);
        Row { group: "rr".into(), measure: measure.into(), better, tried, live: live.into() }
    }

    const fn once(value: f64) -> Runs {
        Runs { median: value, low: value, high: value }
    }

    const MS: f64 = 1e6;

    /// Two policies that are told apart, and live runs with their labels exchanged: this must not
    /// pass.
    #[test]
    fn exchanged_policies_are_found() {
        let slow = [300.0 * MS, 310.0 * MS, 320.0 * MS];
        let fast = [30.0 * MS, 31.0 * MS, 32.0 * MS];
        let right =
            row("latency_p50_ns", Better::Less, [slow, fast, fast], [290.0 * MS, 35.0 * MS, 34.0 * MS]);
        assert_eq!(right.pairs(), [(1, 0, Pair::Same), (2, 0, Pair::Same)]);
        let wrong = Row { live: [35.0 * MS, 290.0 * MS, 34.0 * MS].map(once).into(), ..right };
        assert_eq!(wrong.pairs(), [(1, 0, Pair::Reversed), (2, 0, Pair::Same)]);
        assert_eq!(wrong.said(&["a", "b", "c"]), "no: b is not better than a");
    }

    /// More is better for one policy, less for the other.
    #[test]
    fn the_better_one_comes_first() {
        let (few, many) = ([1e6, 1e6, 1e6], [9e6, 9e6, 9e6]);
        let goodput = row("throughput_bit_s", Better::More, [few, many, many], [2e6, 8e6, 1e6]);
        assert_eq!(goodput.pairs(), [(1, 0, Pair::Same), (2, 0, Pair::Reversed)]);
        let lost = row("lost_packets", Better::Less, [[0.0; 3], [90.0; 3], [90.0; 3]], [0.0, 70.0, 0.0]);
        // Equal is not better.
        assert_eq!(lost.pairs(), [(0, 1, Pair::Same), (0, 2, Pair::Reversed)]);
    }

    #[test]
    fn what_is_not_clear_is_not_judged() {
        let near = row(
            "latency_p50_ns",
            Better::Less,
            [[30.0 * MS; 3], [39.0 * MS; 3], [41.0 * MS; 3]],
            [3.0 * MS, 2.0 * MS, 1.0 * MS],
        );
        assert_eq!(near.pairs(), [(0, 2, Pair::Reversed)], "10 ms and 20 %");
        let wide =
            row("jain", Better::More, [[0.5, 0.9, 0.99], [0.4, 0.6, 0.56], [0.9, 0.9, 0.9]], [0.1, 0.2, 0.3]);
        assert_eq!(wide.pairs(), [(2, 1, Pair::Same)]);
        // No request ended in the worst run of the second, and none in any live run of it.
        let none = [50.0 * MS, f64::INFINITY, f64::INFINITY];
        let ended = [30.0 * MS; 3];
        let all =
            row("latency_p99_ns", Better::Less, [ended, none, none], [30.0 * MS, f64::INFINITY, 40.0 * MS]);
        assert_eq!(all.pairs().iter().map(|p| p.2).collect::<Vec<_>>(), [Pair::Same; 2]);
    }

    #[test]
    fn jain_and_middle() {
        assert_eq!([jain(&[5, 5, 5, 5]), jain(&[8, 0, 0, 0]), jain(&[0, 0])], [1.0, 0.25, 1.0]);
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), Some(Runs { median: 2.0, low: 1.0, high: 3.0 }));
        assert_eq!(middle(vec![1.0, 2.0]).map(|of| of.median), Some(1.5));
        assert_eq!((middle(vec![f64::INFINITY; 2]), middle(vec![])), (Some(once(f64::INFINITY)), None));
    }
}
