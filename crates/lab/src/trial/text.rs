//! A trial as tables for people: one comparison, then the counters of each policy's qdiscs and the
//! waiting times of packets.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use txweir_core::Nanos;
use txweir_core::text::value::text_of;
use txweir_tc::printable::shortened;

use super::measure::{Interval, MARKED_FROM, Mark, Measure};
use super::{ClassTrial, GroupTrial, StageTrial, Trial};
use crate::report::text::{Table, bit_rate, size, time};

/// Width of a terminal, in columns, that tables keep if they can.
const WIDTH: usize = 100;
/// Longest name of a policy at the head of a column; a longer name shows its end.
const NAME_MAX: usize = 24;
/// Longest name at the head of a line, in characters; a longer name shows its ends.
const LABEL_MAX: usize = 60;
/// Number of blanks between columns.
const GAP: usize = 2;

/// A line of the comparison: its name, and the median, the mark and the interval of each policy.
struct Row {
    what: String,
    cells: Vec<[String; 3]>,
}

/// The widths of a policy's column: of medians, of intervals, and of the whole with the mark
/// between them.
#[derive(Clone, Copy)]
struct Width {
    median: usize,
    interval: usize,
    whole: usize,
}

impl Width {
    fn of(rows: &[Row], column: usize, head: &str) -> Self {
        let widest = |part: usize| {
            rows.iter()
                .filter_map(|r| r.cells.get(column))
                .map(|c| c[part].chars().count())
                .max()
                .unwrap_or(0)
        };
        // The mark takes two places after the median, which a head may use.
        let (median, interval) = (widest(0).max(head.chars().count()), widest(2));
        let beside = if interval > 0 { 1 + interval } else { 0 };
        Self { median, interval, whole: median + 2 + beside }
    }

    fn cell(self, [median, mark, interval]: &[String; 3]) -> String {
        let gap = " ".repeat(GAP);
        let beside = match self.interval {
            0 => String::new(),
            width => format!(" {interval:<width$}"),
        };
        format!("{gap}{median:>w$} {mark:1}{beside}", w = self.median)
    }

    fn head(self, name: &str) -> String {
        self.cell(&[name.into(), String::new(), String::new()])
    }
}

impl Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        writeln!(f, "{}", wrapped(&self.about))?;
        writeln!(f, "{}", wrapped(&format!("TCP: {}", self.tcp)))?;
        if let Some(fidelity) = &self.fidelity {
            writeln!(f, "{}", wrapped(&format!("held against Linux's TCP: {fidelity}")))?;
        }
        let (time, warmup) = (text_of(&Nanos(self.time_ns)), Nanos(self.warmup_ns));
        let measured = match warmup {
            Nanos(0) => time,
            warmup => format!("{time}, the first {} not measured", text_of(&warmup)),
        };
        let bql = if self.bql { "on" } else { "off" };
        let queues = if self.queues > 1 { format!("{} queues, ", self.queues) } else { String::new() };
        writeln!(f, "{measured}; {queues}ring {}, BQL {bql}", self.ring)?;
        writeln!(f, "{}", wrapped(&self.interval.said(self.seed)))?;
        self.comparison(f)?;
        self.write_beside(f)?;
        for p in &self.policies {
            let of = if self.interval.runs > 1 { format!(", seed {}", p.shown_seed) } else { String::new() };
            write!(f, "\n{}{of}\n{}\n{}", p.name, classes(&p.classes), stages(&p.stages))?;
            for ifb in &p.ifbs {
                write!(f, "\n  {}\n{}\n{}", ifb.device, classes(&ifb.classes), stages(&ifb.stages))?;
            }
        }
        if !self.verdict.is_empty() {
            writeln!(f)?;
        }
        self.verdict.iter().try_for_each(|line| writeln!(f, "{}", wrapped(line)))
    }
}

impl Interval {
    /// Returns the method of the numbers, in words.
    pub(super) fn said(&self, seed: u64) -> String {
        let last = seed.wrapping_add(u64::from(self.runs.saturating_sub(1)));
        let coverage = self.coverage * 100.0;
        let ends = match self.low_rank {
            0 | 1 => "smallest to largest run".to_string(),
            low => format!("run {low} to run {} by size", self.high_rank),
        };
        match self.runs {
            0 | 1 => format!("one run of each policy, seed {seed}: no intervals, and nothing is told apart"),
            n => format!(
                "medians of {n} runs, seeds {seed} to {last}; beside them the {coverage:.1} % interval ({ends}), if it \
                 reads otherwise"
            ),
        }
    }
}

impl Trial {
    fn comparison(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let labels = rows.iter().map(|r| r.what.chars().count()).max().unwrap_or(0);
        let heads: Vec<String> = self.policies.iter().map(|p| end_of(&p.name)).collect();
        let widths: Vec<Width> =
            heads.iter().enumerate().map(|(c, head)| Width::of(&rows, c, head)).collect();
        let mut from = 0;
        while from < heads.len() {
            let mut to = from + 1;
            let mut line = labels + GAP + widths[from].whole;
            while to < heads.len() && line + GAP + widths[to].whole <= WIDTH {
                line += GAP + widths[to].whole;
                to += 1;
            }
            writeln!(f)?;
            let mut put = |label: &str, cells: &mut dyn Iterator<Item = String>| {
                let line = format!("{label:labels$}{}", cells.collect::<String>());
                writeln!(f, "{}", line.trim_end())
            };
            put("", &mut (from..to).map(|c| widths[c].head(&heads[c])))?;
            for row in &rows {
                put(&row.what, &mut (from..to).map(|c| widths[c].cell(&row.cells[c])))?;
            }
            from = to;
        }
        self.legend(f)
    }

    /// Writes an explanation of the marks in use. If all policies are alike, there are no marks.
    fn legend(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks = || self.policies.iter().flat_map(|p| &p.measures).filter_map(|m| m.mark);
        if marks().any(|m| m == Mark::Best) {
            writeln!(f, "* best: its interval overlaps no other one")?;
        }
        if marks().any(|m| m == Mark::Equal) {
            writeln!(f, "= not told apart from the best: the intervals overlap, or read alike")?;
        }
        match self.interval.runs {
            // For one run the text above says so.
            2..MARKED_FROM if self.policies.len() > 1 => {
                writeln!(f, "no marks: {MARKED_FROM} runs at least tell policies apart")
            }
            _ => Ok(()),
        }
    }

    fn rows(&self) -> Vec<Row> {
        let Some(first) = self.policies.first() else { return Vec::new() };
        let mut rows = Vec::new();
        let mut group = None;
        for (i, measure) in first.measures.iter().enumerate() {
            let column: Vec<&Measure> = self.policies.iter().filter_map(|p| p.measures.get(i)).collect();
            let never = column.iter().all(|m| m.runs.iter().all(Option::is_none));
            let unmarked = measure.measure == "marked_packets"
                && column.iter().all(|m| m.runs.iter().flatten().all(|n| *n == 0.0));
            if never || unmarked {
                continue;
            }
            let of = first.groups.iter().find(|g| Some(&g.name) == measure.group.as_ref());
            let label = label(measure, of);
            let what = match (of, group == Some(&measure.group)) {
                (_, true) => format!("     {label}"),
                (Some(g), false) => format!("{}  {label}", shortened(&g.title(), LABEL_MAX)),
                (None, false) => label.into(),
            };
            group = Some(&measure.group);
            rows.push(Row { what, cells: column.iter().map(|m| cell(m)).collect() });
        }
        rows
    }
}

/// Returns median, mark and interval.
fn cell(m: &Measure) -> [String; 3] {
    let mark = match m.mark {
        Some(Mark::Best) => "*",
        Some(Mark::Equal) => "=",
        None => "",
    };
    match m.median {
        Some(v) => [m.unit.text(v), mark.into(), m.unit.interval(m.low, v, m.high).unwrap_or_default()],
        None => ["-".into(), String::new(), String::new()],
    }
}

fn label(measure: &Measure, group: Option<&GroupTrial>) -> &'static str {
    super::measure::label(measure.measure, group.map_or("", |g| g.kind))
}

/// Returns the end of a long name, which distinguishes files.
pub(super) fn end_of(name: &str) -> String {
    let len = name.chars().count();
    match len > NAME_MAX {
        true => "..".chars().chain(name.chars().skip(len + 2 - NAME_MAX)).collect(),
        false => name.into(),
    }
}

/// Returns the text in lines of at most [`WIDTH`]; a longer word is shortened.
pub(super) fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let word = &*shortened(word, WIDTH);
        let len = word.chars().count();
        if column > 0 && column + 1 + len > WIDTH {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += len;
    }
    out
}

fn classes(all: &[ClassTrial]) -> Table {
    let head = ["  class", "kind", "throughput", "packets", "backlog mean", "max", "dropped", "marked"];
    let mut t = Table::new(2, head);
    let named: BTreeMap<_, &ClassTrial> = all.iter().rev().map(|c| (&c.handle, c)).collect();
    for c in all {
        let depth = std::iter::successors(Some(c), |c| named.get(&c.parent).copied()).take(8).count();
        let indent = " ".repeat(2 * depth);
        t.row([
            format!("{indent}{}", c.handle),
            c.kind.into(),
            bit_rate(c.throughput_bit_s),
            c.sent_packets.to_string(),
            size(c.backlog_bytes.mean),
            size(c.backlog_bytes.max),
            reasons(&c.drops),
            reasons(&c.marks),
        ]);
    }
    t.without_empty_columns()
}

fn reasons(all: &BTreeMap<&str, u64>) -> String {
    all.iter().map(|(reason, n)| format!("{reason} {n}")).collect::<Vec<_>>().join(", ")
}

fn stages(all: &[StageTrial]) -> Table {
    let mut t = Table::new(1, ["  time in", "mean", "p50", "p95", "p99", "max"]);
    for s in all {
        let [mean, p50, p95, p99, max] = [s.mean_ns, s.p50_ns, s.p95_ns, s.p99_ns, s.max_ns].map(time);
        t.row([format!("  {}", s.stage), mean, p50, p95, p99, max]);
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hold_medians_intervals_and_marks() {
        let row = |what: &str, cells: [[&str; 3]; 2]| Row {
            what: what.into(),
            cells: cells.iter().map(|c| c.map(String::from)).collect(),
        };
        let rows = [
            row("a", [["19.0 Mbit/s", "*", "18.9..19.1"], ["9", "", ""]]),
            row("b", [["625 ms", "", ""], ["25 ms", "=", ""]]),
        ];
        let widths = [Width::of(&rows, 0, "default"), Width::of(&rows, 1, "longer.tc")];
        let line = |r: &Row| r.cells.iter().zip(widths).map(|(c, w)| w.cell(c)).collect::<String>();
        let heads = widths[0].head("default") + &widths[1].head("longer.tc");
        assert_eq!(heads, "      default               longer.tc  ");
        assert_eq!(line(&rows[0]), "  19.0 Mbit/s * 18.9..19.1          9  ");
        assert_eq!(line(&rows[1]), "       625 ms                   25 ms =");
        assert_eq!([widths[0].whole, widths[1].whole], [24, 11]);
    }

    #[test]
    fn intervals_say_how_they_are_made() {
        let said = |runs| Interval::of(runs).said(7);
        assert_eq!(said(1), "one run of each policy, seed 7: no intervals, and nothing is told apart");
        assert_eq!(
            said(5),
            "medians of 5 runs, seeds 7 to 11; beside them the 93.8 % interval (smallest to largest run), if it reads \
             otherwise"
        );
        assert!(said(20).contains("the 95.9 % interval (run 6 to run 15 by size)"), "{}", said(20));
        assert!(Interval::of(2).said(u64::MAX).contains("seeds 18446744073709551615 to 0;"));
    }

    #[test]
    fn long_names_keep_their_end_and_long_texts_their_words() {
        assert_eq!(end_of("short.tc"), "short.tc");
        assert_eq!(end_of("a-very-long-name-of-a-policy.tc"), "..ng-name-of-a-policy.tc");
        let text = "word ".repeat(60);
        assert!(wrapped(&text).lines().all(|l| l.len() <= WIDTH));
        assert_eq!(wrapped(&text).split_whitespace().count(), 60);
    }
}
