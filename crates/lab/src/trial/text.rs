//! A trial as tables for people: one comparison, then what each policy's qdiscs did and where packets waited.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use txweir_core::Nanos;
use txweir_core::value::text_of;

use super::{ClassTrial, GroupTrial, PolicyTrial, Trial};
use crate::report::Times;
use crate::report::text::{Table, bit_rate, size, time};

/// Columns of a terminal that tables keep within where they can.
const WIDTH: usize = 100;
/// Longest name of a policy at the head of a column; of a longer one the end is shown.
const NAME_MAX: usize = 20;
/// Blanks between columns.
const GAP: usize = 2;

/// One number of a distribution.
type Part = fn(&Times) -> u64;

/// Which value is the better one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    More,
    Less,
    /// That depends.
    Neither,
}

/// A line of the comparison: one value per policy.
struct Row {
    what: String,
    better: Better,
    cells: Vec<Option<(f64, String)>>,
}

impl Row {
    /// The cells as text, the best ones marked, unless all are alike.
    fn marked(&self) -> Vec<String> {
        let values = || self.cells.iter().flatten();
        let best = match self.better {
            Better::More => values().max_by(|a, b| a.0.total_cmp(&b.0)),
            Better::Less => values().min_by(|a, b| a.0.total_cmp(&b.0)),
            Better::Neither => None,
        };
        let best = best.map(|b| b.1.as_str()).filter(|best| values().any(|v| v.1 != *best));
        let text = |cell: &Option<(f64, String)>| match cell {
            // What reads alike is as good.
            Some((_, text)) if Some(text.as_str()) == best => format!("{text} *"),
            Some((_, text)) => format!("{text}  "),
            None => "-  ".into(),
        };
        self.cells.iter().map(text).collect()
    }
}

impl Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        writeln!(f, "{}", wrapped(&self.about))?;
        let (time, warmup) = (text_of(&Nanos(self.time_ns)), Nanos(self.warmup_ns));
        let measured = match warmup {
            Nanos(0) => time,
            warmup => format!("{time}, the first {} not measured", text_of(&warmup)),
        };
        let bql = if self.bql { "on" } else { "off" };
        writeln!(f, "{measured}; ring {}, BQL {bql}; seed {}", self.ring, self.seed)?;
        writeln!(f, "TCP: {}", self.tcp)?;
        self.comparison(f)?;
        for p in &self.policies {
            write!(f, "\n{}\n{}\n{}", p.name, classes(&p.classes), stages(p))?;
        }
        match self.headline() {
            Some(line) => writeln!(f, "\n{line}"),
            None => Ok(()),
        }
    }
}

impl Trial {
    fn comparison(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let labels = rows.iter().map(|r| r.what.chars().count()).max().unwrap_or(0);
        // Heads stand above the values, whose last two places are the mark's.
        let heads: Vec<String> = self.policies.iter().map(|p| shortened(&p.name) + "  ").collect();
        let cells: Vec<Vec<String>> = rows.iter().map(Row::marked).collect();
        let width = |c: usize| {
            let values = cells.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count());
            values.max().unwrap_or(0).max(heads[c].chars().count())
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let mut from = 0;
        while from < heads.len() {
            let mut to = from + 1;
            let mut line = labels + GAP + widths[from];
            while to < heads.len() && line + GAP + widths[to] <= WIDTH {
                line += GAP + widths[to];
                to += 1;
            }
            writeln!(f)?;
            let mut put = |label: &str, cells: &[String]| {
                let mut line = format!("{label:labels$}");
                for (cell, width) in cells.iter().zip(&widths).take(to).skip(from) {
                    line.push_str(&format!("{cell:>w$}", w = GAP + width));
                }
                writeln!(f, "{}", line.trim_end())
            };
            put("", &heads)?;
            for (row, cells) in rows.iter().zip(&cells) {
                put(&row.what, cells)?;
            }
            from = to;
        }
        // Where all are alike there is nothing to explain.
        match cells.iter().flatten().any(|cell| cell.ends_with('*')) {
            true => writeln!(f, "* best"),
            false => Ok(()),
        }
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let groups = self.policies.first().map_or(0, |p| p.groups.len());
        for i in 0..groups {
            self.group_rows(i, &mut rows);
        }
        let mut of = |what: &str, better, value: &dyn Fn(&PolicyTrial) -> (f64, String)| {
            let cells = self.policies.iter().map(|p| Some(value(p))).collect();
            rows.push(Row { what: what.into(), better, cells });
        };
        of("link used", Better::More, &|p| {
            (p.device.utilisation, format!("{:.1} %", p.device.utilisation * 100.0))
        });
        let count = |all: &BTreeMap<&str, u64>| {
            let n: u64 = all.values().sum();
            (n as f64, n.to_string())
        };
        of("     dropped", Better::Neither, &|p| count(&p.drops));
        if self.policies.iter().any(|p| !p.marks.is_empty()) {
            of("     marked", Better::Neither, &|p| count(&p.marks));
        }
        let bytes = |n: u64| (n as f64, size(n));
        let root = |p: &PolicyTrial| p.classes.first().map_or(0, |c| c.backlog_bytes.mean);
        of("     in qdiscs, mean", Better::Neither, &|p| bytes(root(p)));
        of("     in ring, mean", Better::Neither, &|p| bytes(p.device.ring_bytes.mean));
        rows
    }

    fn group_rows(&self, i: usize, rows: &mut Vec<Row>) {
        let Some(first) = self.policies.first().and_then(|p| p.groups.get(i)) else { return };
        let name = match first.count {
            1 => first.name.clone(),
            n => format!("{} x{n}", first.name),
        };
        let mut of = |what: &str, better, value: &dyn Fn(&GroupTrial) -> Option<(f64, String)>| {
            let cells: Vec<_> = self.policies.iter().map(|p| p.groups.get(i).and_then(value)).collect();
            if cells.iter().any(Option::is_some) {
                rows.push(Row { what: what.into(), better, cells });
            }
        };
        if first.kind == "rr" {
            of(&format!("{name}  transactions/s"), Better::More, &|g| {
                g.transactions_per_s.map(|n| (n, format!("{n:.1}")))
            });
        } else {
            let better = if first.kind == "stream" { Better::More } else { Better::Neither };
            of(&format!("{name}  throughput"), better, &|g| {
                Some((g.throughput_bit_s as f64, bit_rate(g.throughput_bit_s)))
            });
        }
        let what = latency_word(first.kind);
        let parts: [(&str, Part); 3] = [("p50", |t| t.p50_ns), ("p95", |t| t.p95_ns), ("p99", |t| t.p99_ns)];
        for (part, ns) in parts {
            of(&format!("     {what} {part}"), Better::Less, &|g| {
                g.latency.as_ref().map(|t| (ns(t) as f64, time(ns(t))))
            });
        }
        if first.kind == "stream" {
            if first.count > 1 {
                of("     fairness", Better::More, &|g| Some((g.jain, format!("{:.3}", g.jain))));
            }
            of("     sent again", Better::Less, &|g| {
                Some((g.retransmitted_bytes as f64, size(g.retransmitted_bytes)))
            });
        }
        of("     lost", Better::Less, &|g| g.lost.map(|n| (n as f64, n.to_string())));
    }

    /// One sentence: what the best policy did to the latency that matters most, against the first one.
    pub fn headline(&self) -> Option<String> {
        let first = self.policies.first()?;
        let rank = |g: &GroupTrial| ["rr", "cbr", "replay", "stream"].iter().position(|k| *k == g.kind);
        let (i, group) = first
            .groups
            .iter()
            .enumerate()
            .filter(|(_, g)| g.latency.is_some())
            .min_by_key(|(_, g)| rank(g))?;
        let p99 = |p: &PolicyTrial| p.groups.get(i).and_then(|g| g.latency).map(|t| t.p99_ns);
        let was = p99(first)?;
        let word = if group.kind == "stream" { "RTT p99" } else { "p99" };
        let what = format!("{} {word}", group.name);
        let others = self.policies.iter().skip(1).filter_map(|p| Some((p99(p)?, p.name.as_str())));
        Some(match others.min() {
            None => format!("{what}: {} with {}", time(was), first.name),
            Some((now, name)) if now < was => {
                let times = was as f64 / now.max(1) as f64;
                let times = if times < 9.95 { format!("{times:.1}") } else { format!("{times:.0}") };
                format!("{what}: {} -> {} ({times}x) with {name}", time(was), time(now))
            }
            Some((now, name)) => {
                format!("{what}: {} with {}, {} with {name}", time(was), first.name, time(now))
            }
        })
    }
}

fn latency_word(kind: &str) -> &'static str {
    match kind {
        "rr" => "latency",
        "stream" => "RTT",
        _ => "one way",
    }
}

/// A long name by its end, which tells files apart.
fn shortened(name: &str) -> String {
    let len = name.chars().count();
    match len > NAME_MAX {
        true => "..".chars().chain(name.chars().skip(len + 2 - NAME_MAX)).collect(),
        false => name.into(),
    }
}

/// Text in lines of at most [`WIDTH`].
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
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
    for c in all {
        let depth =
            std::iter::successors(Some(c), |c| all.iter().find(|p| p.handle == c.parent)).take(8).count();
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

fn stages(p: &PolicyTrial) -> Table {
    let mut t = Table::new(1, ["  time in", "mean", "p50", "p95", "p99", "max"]);
    for s in &p.stages {
        let [mean, p50, p95, p99, max] = [s.mean_ns, s.p50_ns, s.p95_ns, s.p99_ns, s.max_ns].map(time);
        t.row([format!("  {}", s.stage), mean, p50, p95, p99, max]);
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_marked_and_its_likes() {
        let row = |better, values: [f64; 3]| {
            let cells = values.iter().map(|v| Some((*v, format!("{v:.0}")))).collect();
            Row { what: String::new(), better, cells }.marked()
        };
        assert_eq!(row(Better::Less, [3.0, 1.1, 1.2]), ["3  ", "1 *", "1 *"]);
        assert_eq!(row(Better::More, [3.0, 1.1, 1.2]), ["3 *", "1  ", "1  "]);
        assert_eq!(row(Better::More, [3.0, 3.0, 3.0]), ["3  ", "3  ", "3  "]);
        assert_eq!(row(Better::Neither, [3.0, 1.0, 2.0]), ["3  ", "1  ", "2  "]);
    }

    #[test]
    fn long_names_keep_their_end_and_long_texts_their_words() {
        assert_eq!(shortened("short.tc"), "short.tc");
        assert_eq!(shortened("a-very-long-name-of-a-policy.tc"), "..ame-of-a-policy.tc");
        let text = "word ".repeat(60);
        assert!(wrapped(&text).lines().all(|l| l.len() <= WIDTH));
        assert_eq!(wrapped(&text).split_whitespace().count(), 60);
    }
}
