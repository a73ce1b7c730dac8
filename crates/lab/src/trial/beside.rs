//! Runs of real lines beside the policies: the few numbers that both have.

use std::fmt;

use serde::Serialize;

use super::measure::Measure;
use super::text::{end_of, wrapped};
use super::{GroupTrial, PolicyTrial, Trial, Unit};
use crate::flent::{Flows, Line};
use crate::report::text::{Table, time};

/// A number of each real line and of each policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// Its name, with the unit of its values last.
    pub measure: &'static str,
    /// The same for people.
    pub label: String,
    /// The unit of the values.
    pub unit: Unit,
    /// Of each line, in their order; null where a line has none.
    pub lines: Vec<Option<f64>>,
    /// Of each policy: the median of its runs.
    pub policies: Vec<Option<f64>>,
}

impl Trial {
    /// Sets runs of real lines beside the policies.
    pub fn set_lines(&mut self, lines: Vec<Line>) {
        self.beside = rows(&lines, &self.policies);
        self.lines = lines;
    }

    /// Writes the lines, and the numbers that they share with the policies; nothing without lines.
    pub(super) fn write_beside(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lines.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        for line in &self.lines {
            writeln!(f, "{}", wrapped(&format!("real line {}", line.about())))?;
        }
        // A name a row: there are few numbers, and up to 32 policies.
        let mut table = Table::new(1, [""]);
        table.rows[0].extend(self.beside.iter().map(|row| row.label.clone()));
        let mut put = |name: &str, value: &dyn Fn(&Beside) -> Option<f64>| {
            let cells = self.beside.iter().map(|b| value(b).map_or_else(|| "-".into(), |v| b.unit.text(v)));
            table.rows.push(std::iter::once(end_of(name)).chain(cells).collect());
        };
        for (i, line) in self.lines.iter().enumerate() {
            put(&line.name, &|b| b.lines.get(i).copied().flatten());
        }
        for (i, policy) in self.policies.iter().enumerate() {
            put(&policy.name, &|b| b.policies.get(i).copied().flatten());
        }
        write!(f, "{table}")
    }
}

impl Line {
    /// Returns its name, its test and the time that it covers, in words.
    pub(super) fn about(&self) -> String {
        let known = [&self.test, &self.title, &self.host, &self.time];
        let known: Vec<&str> = known.into_iter().map(String::as_str).filter(|w| !w.is_empty()).collect();
        let with = if known.is_empty() { String::new() } else { format!("{}; ", known.join(", ")) };
        format!("{}: {with}{} under load, measured by flent", self.name, time(self.length_ns))
    }
}

fn rows(lines: &[Line], policies: &[PolicyTrial]) -> Vec<Beside> {
    let rate = |label: &str, measure, of: fn(&Line) -> &Option<Flows>, direction: &str| Beside {
        measure,
        label: label.into(),
        unit: Unit::BitRate,
        lines: lines.iter().map(|l| of(l).as_ref().map(|flows| flows.throughput_bit_s as f64)).collect(),
        policies: policies.iter().map(|p| throughput(p, direction)).collect(),
    };
    let ping = |label: &str, measure, of: fn(&Line) -> Option<u64>| Beside {
        measure,
        label: asked(policies).map_or_else(|| label.into(), |g| format!("{label} ({})", g.name)),
        unit: Unit::Time,
        lines: lines.iter().map(|l| of(l).map(|ns| ns as f64)).collect(),
        policies: policies.iter().map(|p| latency(p, asked(policies)?, measure)).collect(),
    };
    let all = [
        rate("upload", "upload_bit_s", |l| &l.upload, "up"),
        rate("download", "download_bit_s", |l| &l.download, "down"),
        ping("ping p50", "latency_p50_ns", |l| Some(l.ping.as_ref()?.latency.p50_ns)),
        ping("ping p95", "latency_p95_ns", |l| Some(l.ping.as_ref()?.latency.p95_ns)),
        ping("ping p99", "latency_p99_ns", |l| Some(l.ping.as_ref()?.latency.p99_ns)),
    ];
    all.into_iter().filter(|row| row.lines.iter().any(Option::is_some)).collect()
}

/// Returns the group whose latency is nearest to a ping's: the first one with small requests.
fn asked(policies: &[PolicyTrial]) -> Option<&GroupTrial> {
    policies.first()?.groups.iter().find(|g| ["rr", "udprr"].contains(&g.kind))
}

fn measure<'a>(policy: &'a PolicyTrial, group: &str, measure: &str) -> Option<&'a Measure> {
    policy.measures.iter().find(|m| m.measure == measure && m.group.as_deref() == Some(group))
}

/// Returns the sum of the medians of all bulk groups of a direction.
fn throughput(policy: &PolicyTrial, direction: &str) -> Option<f64> {
    let bulk =
        policy.groups.iter().filter(|g| g.direction == direction && ["stream", "quic"].contains(&g.kind));
    let each: Vec<f64> = bulk.filter_map(|g| measure(policy, &g.name, "throughput_bit_s")?.median).collect();
    (!each.is_empty()).then(|| each.iter().sum())
}

fn latency(policy: &PolicyTrial, group: &GroupTrial, name: &str) -> Option<f64> {
    measure(policy, &group.name, name)?.median
}
