//! Results of replays, as text and JSON.

use std::fmt::{self, Write};

use serde_json::{Value, json as value};

use super::compare::Difference;
use super::play::Played;
use super::trace::Trace;

/// Result of one replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// `kind/name` of the trace.
    pub name: String,
    /// Packets that arrived.
    pub arrived: usize,
    /// Packets, or pieces of packets, that left here.
    pub left: usize,
    /// Packets without any departure here.
    pub gone: usize,
    /// Commands.
    pub commands: usize,
    /// All differences.
    pub differences: Vec<Difference>,
    /// Number of packets with which the replay is equal if they arrive after a timer of the same
    /// instant; `None` unless [`Trace::ties`] has found them.
    pub ties: Option<usize>,
}

impl Replayed {
    pub(super) fn new(trace: &Trace, played: &Played, differences: Vec<Difference>) -> Self {
        let mut seen = vec![false; trace.arrivals.len()];
        for d in &played.departures {
            seen[d.packet] = true;
        }
        Self {
            name: format!("{}/{}", trace.head.kind, trace.head.name),
            arrived: trace.arrivals.len(),
            left: played.departures.len(),
            gone: seen.iter().filter(|seen| !**seen).count(),
            commands: played.commands.len(),
            differences,
            ties: None,
        }
    }

    /// True if all differences are intended, or come from ties.
    pub fn is_equal(&self) -> bool {
        self.ties.is_some() || self.differences.iter().all(|d| d.meant.is_some())
    }

    /// Returns the rows of PARITY.md that document its differences as intended.
    pub fn meant(&self) -> Vec<&str> {
        let mut rows: Vec<&str> = self.differences.iter().filter_map(|d| d.meant.as_deref()).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

/// A table of the differences; with `all`, also of the intended ones.
impl Replayed {
    fn write(&self, f: &mut impl Write, all: bool) -> fmt::Result {
        for d in self.differences.iter().filter(|d| all || d.meant.is_none() && self.ties.is_none()) {
            write!(f, "    {}: {}", d.aspect.name(), d.what)?;
            match &d.meant {
                Some(row) => writeln!(f, " (meant: {row})")?,
                None => writeln!(f)?,
            }
            let place = width(d.rows.iter().map(|r| &r.0));
            let there = width(d.rows.iter().map(|r| &r.1)).max(5);
            writeln!(f, "      {:place$}  {:there$}  here", "", "Linux")?;
            for (a, b, c) in &d.rows {
                writeln!(f, "      {a:>place$}  {b:there$}  {c}")?;
            }
        }
        Ok(())
    }
}

/// Widest column, in characters. A longer cell makes its own line longer. A width of a format has
/// 16 bits.
const WIDTH_MAX: usize = 200;

/// Returns the width of a column.
fn width<'a>(cells: impl Iterator<Item = &'a String>) -> usize {
    cells.map(String::len).max().unwrap_or(0).min(WIDTH_MAX)
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Returns a line for each replay, with its differences below; `all` shows intended differences as
/// well.
pub fn table(replays: &[Replayed], all: bool) -> String {
    let mut out = String::new();
    let widest = width(replays.iter().map(|r| &r.name));
    for r in replays {
        let verdict = match (r.is_equal(), r.meant()) {
            (false, _) => "DIFFERS".to_string(),
            (true, _) if r.ties.is_some() => {
                format!("equal but for {} at a timer", count(r.ties.unwrap_or(0), "packet"))
            }
            (true, rows) if rows.is_empty() => "equal".to_string(),
            (true, rows) => format!("equal but for {}", rows.join(", ")),
        };
        let (arrived, gone) = (r.arrived, r.gone);
        // Writing into a String cannot fail.
        let _ = writeln!(out, "{:widest$}  {arrived:>5} packets  {gone:>5} not sent  {verdict}", r.name);
        let _ = r.write(&mut out, all);
    }
    let wrong = replays.iter().filter(|r| !r.is_equal()).count();
    let packets: usize = replays.iter().map(|r| r.arrived).sum();
    let _ = write!(out, "{}, {}: ", count(replays.len(), "trace"), count(packets, "packet"));
    let _ = match wrong {
        0 => writeln!(out, "all equal to Linux"),
        1 => writeln!(out, "1 differs"),
        _ => writeln!(out, "{wrong} differ"),
    };
    out
}

/// Returns all replays, as a JSON list.
pub fn json(replays: &[Replayed]) -> Value {
    let row = |(place, linux, here): &(String, String, String)| value!({"place": place, "linux": linux, "here": here});
    let one = |d: &Difference| {
        value!({
            "aspect": d.aspect.name(),
            "what": d.what,
            "meant": d.meant,
            "rows": d.rows.iter().map(row).collect::<Vec<_>>(),
        })
    };
    let all = replays.iter().map(|r| {
        value!({
            "trace": r.name,
            "equal": r.is_equal(),
            "packets": r.arrived,
            "departures": r.left,
            "not_sent": r.gone,
            "commands": r.commands,
            "differences": r.differences.iter().map(one).collect::<Vec<_>>(),
        })
    });
    Value::from(all.collect::<Vec<_>>())
}
