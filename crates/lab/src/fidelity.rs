//! Known closeness of the lab's TCP to Linux's, for a given set-up.
//!
//! Linux's TCP was recorded over one bottleneck, for a number of congestion controls, qdiscs,
//! rates, round trips and numbers of flows. A table in the binary has one row for each recording,
//! and says whether the lab's TCP came within the recording's bounds. [`of`] looks a set-up up:
//! whether it lies inside the recorded range, and which recordings are nearest to it.
//!
//! **The table** is text, one JSON object a line; the parser skips empty lines and lines that begin
//! with `#`:
//!
//! ```json
//! {"name": "a", "cc": "cubic", "kind": "pfifo", "rate_bit_s": 1000, "rtt_ns": 9, "flows": 1, "ecn": false, "inside": true}
//! ```
//!
//! **A set-up is inside the range** if every leaf kind was recorded with the same congestion
//! control and the same use of ECN, and the round trip, the number of flows and the rates of leaves
//! each lie between the smallest and the largest of those recordings. The rate of a leaf is that of
//! the shaper above it, as in the recordings, which have a tbf, an htb class or cake at the
//! bottleneck. A recording has one leaf, so a policy with packets in several is outside. A value
//! between two recorded ones is no proof that the lab is right there. So the report names the
//! nearest recordings.

mod leaves;

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};
use txweir_core::text::value::text_of;
use txweir_core::{Nanos, Rate};

pub use leaves::{Leaf, leaves};

/// The recordings that the binary contains.
const SUMMARY: &str = include_str!("../assets/tcp/summary.jsonl");
/// Largest number of rows of a table.
pub const ROWS_MAX: usize = 10_000;
/// Number of recordings that are named as the nearest ones.
const NEAREST: usize = 3;

/// One recording of Linux's TCP, and the result of the lab's TCP on it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The name of the recording.
    pub name: String,
    /// Congestion control, as Linux names it.
    pub cc: String,
    /// Kind of the qdisc at the bottleneck, the tc word.
    pub kind: String,
    /// Rate of the bottleneck, in bit/s, not zero.
    pub rate_bit_s: u64,
    /// Round trip without queues, nanoseconds.
    pub rtt_ns: u64,
    /// Number of concurrent streams, not zero.
    pub flows: u64,
    /// True if the hosts used ECN.
    pub ecn: bool,
    /// True if the lab's TCP came within the bounds of the recording.
    pub inside: bool,
}

/// Recordings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table(Vec<Row>);

/// Error of a text that is no table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError {
    /// The line, from 1 on.
    pub line: usize,
    /// The error, in words.
    pub message: String,
}

impl Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for TableError {}

impl Table {
    /// Reads a table. Errors: a line is no row, a row has a value out of its bounds, two rows have
    /// one name, there are more than [`ROWS_MAX`].
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let mut rows: Vec<Row> = Vec::new();
        let mut names = std::collections::HashSet::new();
        for (line, text) in (1..).zip(text.lines().map(str::trim)) {
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let error = |message: String| TableError { line, message };
            let row: Row = serde_json::from_str(text).map_err(|e| error(e.to_string()))?;
            let bounds = [("rate_bit_s", row.rate_bit_s), ("flows", row.flows)];
            if let Some((key, _)) = bounds.iter().find(|(_, n)| *n == 0) {
                return Err(error(format!("{key}: expected at least 1, given 0")));
            }
            if !names.insert(row.name.clone()) {
                return Err(error(format!("name: \"{}\" is there already", row.name)));
            }
            if rows.len() >= ROWS_MAX {
                return Err(error(format!("expected at most {ROWS_MAX} rows")));
            }
            rows.push(row);
        }
        Ok(Self(rows))
    }

    /// Returns the rows in their order.
    pub fn rows(&self) -> &[Row] {
        &self.0
    }
}

/// The place of a set-up among the recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Range {
    /// There are no recordings.
    Empty,
    /// The table cannot be read.
    Unreadable,
    /// Outside the recorded range.
    Outside,
    /// Inside the recorded range.
    Inside,
}

/// A recording near a set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nearest {
    /// The name of the recording.
    pub name: String,
    /// True if the lab's TCP came within its bounds.
    pub inside: bool,
}

/// Knowledge about the lab's TCP for a set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fidelity {
    /// The place of the set-up among the recordings.
    pub range: Range,
    /// Number of recordings of the same congestion control, leaf kinds and use of ECN.
    pub rows: u64,
    /// Number of these with the lab's TCP within their bounds.
    pub rows_inside: u64,
    /// Reasons that the set-up is outside, or the table unreadable.
    pub reasons: Vec<String>,
    /// The nearest recordings, the nearest one first; of the same kind and congestion control if
    /// there are any.
    pub nearest: Vec<Nearest>,
}

impl Fidelity {
    /// Returns the same for a set-up that is outside for this reason too.
    pub(crate) fn outside(mut self, reason: &str) -> Self {
        if matches!(self.range, Range::Inside | Range::Outside) {
            self.range = Range::Outside;
            self.reasons.push(reason.into());
        }
        self
    }
}

impl Display for Fidelity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agree = match self.rows {
            0 => "no recording is like it".to_string(),
            rows => format!("{} of {rows} like recordings agree", self.rows_inside),
        };
        match self.range {
            Range::Empty => return f.write_str("nothing was recorded, so nothing is known"),
            Range::Unreadable => {
                return write!(f, "the table of recordings cannot be read: {}", self.reasons.join("; "));
            }
            Range::Outside if self.rows == 0 => {
                write!(f, "outside the recorded range: {}", self.reasons.join("; "))?;
            }
            Range::Outside => {
                write!(f, "outside the recorded range: {}; {agree}", self.reasons.join("; "))?;
            }
            Range::Inside => write!(f, "inside the recorded range; {agree}")?,
        }
        let name = |n: &Nearest| format!("{} ({})", n.name, if n.inside { "agrees" } else { "differs" });
        let all: Vec<String> = self.nearest.iter().map(name).collect();
        write!(f, "; nearest: {}", all.join(", "))
    }
}

/// A set-up to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given<'a> {
    /// Congestion control, as Linux names it.
    pub congestion: &'a str,
    /// True if the hosts use ECN.
    pub ecn: bool,
    /// Round trip without queues.
    pub rtt: Nanos,
    /// Number of concurrent streams.
    pub flows: u64,
    /// The leaf qdiscs of every policy that have packets, in any order and number.
    pub policies: Vec<Vec<Leaf>>,
}

impl Given<'_> {
    fn leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.policies.iter().flatten()
    }
}

/// Looks a set-up up among the recordings that the binary contains.
pub fn embedded(given: &Given<'_>) -> Fidelity {
    match Table::parse(SUMMARY) {
        Ok(table) => of(&table, given),
        Err(e) => Fidelity { reasons: vec![e.to_string()], ..nothing(Range::Unreadable) },
    }
}

fn nothing(range: Range) -> Fidelity {
    Fidelity { range, rows: 0, rows_inside: 0, reasons: Vec::new(), nearest: Vec::new() }
}

/// Looks a set-up up among recordings. Takes time in the number of rows times that of distinct leaf
/// kinds.
pub fn of(table: &Table, given: &Given<'_>) -> Fidelity {
    let rows = table.rows();
    if rows.is_empty() {
        return nothing(Range::Empty);
    }
    let mut reasons = Vec::new();
    let mut like: Vec<&Row> = Vec::new();
    if rows.iter().all(|r| r.cc != given.congestion) {
        reasons.push(format!("{} was never recorded", given.congestion));
    }
    let mut kinds: Vec<&str> = given.leaves().map(|l| l.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in &kinds {
        let of_kind: Vec<&Row> = rows
            .iter()
            .filter(|r| r.kind == *kind && r.cc == given.congestion && r.ecn == given.ecn)
            .collect();
        match of_kind.as_slice() {
            [] if !reasons.is_empty() && rows.iter().all(|r| r.cc != given.congestion) => {}
            [] => reasons.push(never(rows, kind, given)),
            some => beyond(some, kind, given, &mut reasons),
        }
        like.extend(of_kind);
    }
    if let Some(most) = given.policies.iter().map(Vec::len).max().filter(|n| *n > 1) {
        reasons.push(format!("{most} leaves of one policy have packets, and each recording has one"));
    }
    Fidelity {
        range: if reasons.is_empty() { Range::Inside } else { Range::Outside },
        rows: like.len() as u64,
        rows_inside: like.iter().filter(|r| r.inside).count() as u64,
        nearest: nearest(rows, &like, given),
        reasons,
    }
}

/// Returns the reason that there is no recording of that kind: the kind itself, or its combination
/// with this congestion control and ECN.
fn never(rows: &[Row], kind: &str, given: &Given<'_>) -> String {
    let ecn = if given.ecn { "with" } else { "without" };
    match rows.iter().any(|r| r.kind == kind) {
        true => format!("{kind} was never recorded with {} {ecn} ECN", given.congestion),
        false => format!("{kind} was never recorded"),
    }
}

/// Adds the values of the set-up that are below or above every recording of that kind.
fn beyond(rows: &[&Row], kind: &str, given: &Given<'_>, reasons: &mut Vec<String>) {
    let mut check = |key: &str, of: fn(&Row) -> u64, given: u64, text: fn(u64) -> String| {
        let values = || rows.iter().map(|r| of(r));
        let (Some(least), Some(most)) = (values().min(), values().max()) else { return };
        let side = match given {
            g if g < least => "below",
            g if g > most => "above",
            _ => return,
        };
        let recorded = match least == most {
            true => text(least),
            false => format!("{} to {}", text(least), text(most)),
        };
        reasons.push(format!("{key} {} is {side} what was recorded of {kind} ({recorded})", text(given)));
    };
    let mut rates: Vec<u64> =
        given.leaves().filter(|l| l.kind == kind).flat_map(|l| [l.least.bits(), l.most.bits()]).collect();
    rates.sort_unstable();
    rates.dedup();
    for rate in rates {
        check("rate", |r| r.rate_bit_s, rate, |n| text_of(&Rate::from_bits(n)));
    }
    check("rtt", |r| r.rtt_ns, given.rtt.0, |n| text_of(&Nanos(n)));
    check("flows", |r| r.flows, given.flows, |n| n.to_string());
}

/// Returns the rows that are nearest by the ratios of rate, round trip and flows: among like ones
/// if there are any, otherwise among those of the same congestion control, otherwise among all.
fn nearest(rows: &[Row], like: &[&Row], given: &Given<'_>) -> Vec<Nearest> {
    let same: Vec<&Row> = rows.iter().filter(|r| r.cc == given.congestion).collect();
    let all: Vec<&Row> = rows.iter().collect();
    let mut from = [like, same.as_slice(), all.as_slice()]
        .into_iter()
        .find(|rows| !rows.is_empty())
        .unwrap_or_default()
        .to_vec();
    // Values may be zero; logarithms begin at one.
    let apart = |a: u64, b: u64| ((a.max(1) as f64).ln() - (b.max(1) as f64).ln()).abs();
    // In millionths, so that equal ratios are equal whatever the order of the sum.
    let between = |r: &Row, rate: Rate| {
        let of = [(r.rate_bit_s, rate.bits()), (r.rtt_ns, given.rtt.0), (r.flows, given.flows)];
        (of.map(|(a, b)| apart(a, b)).iter().sum::<f64>() * 1e6).round() as u64
    };
    let least = |r: &Row, like: &dyn Fn(&&Leaf) -> bool| {
        given.leaves().filter(|l| like(l)).map(|l| between(r, l.most)).min()
    };
    // The distance is to the leaves of the row's kind, if there are any.
    let distance =
        |r: &Row| least(r, &|l| l.kind == r.kind).or_else(|| least(r, &|_| true)).unwrap_or(u64::MAX);
    from.sort_by(|a, b| distance(a).cmp(&distance(b)).then_with(|| a.name.cmp(&b.name)));
    from.into_iter().take(NEAREST).map(|r| Nearest { name: r.name.clone(), inside: r.inside }).collect()
}
