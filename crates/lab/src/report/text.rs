//! The report as tables of text.

use std::fmt::{self, Display};

use txweir_core::Nanos;
use txweir_tc::printable::shortened;

use super::{LinkReport, QueueReport, Report, Times, TrafficReport};

/// Longest text of a cell, in characters; a longer one, such as a name out of a file, shows its
/// ends.
const CELL_MAX: usize = 80;
/// Blanks between two columns.
const GAP: usize = 2;
/// Number of decimal prefixes of a unit; the first of them is empty.
const PREFIXES: usize = 5;

/// Lines of cells: the first columns are aligned left, the others right.
pub(crate) struct Table {
    left: usize,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(left: usize, head: [&str; N]) -> Self {
        Self { left, rows: vec![head.map(String::from).to_vec()] }
    }
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| shortened(&cell, CELL_MAX).into_owned()).to_vec());
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| {
            self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let pad = widths[c] - cell.chars().count();
                let (before, after) = if c < self.left { (0, pad) } else { (pad, 0) };
                let gap = if c == 0 { 0 } else { GAP };
                line.extend(std::iter::repeat_n(' ', gap + before));
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', after));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let (seed, measured, warmup) = (self.seed, Nanos(self.measured_ns), Nanos(self.warmup_ns));
        writeln!(f, "seed {seed}, {measured} measured after a warm-up of {warmup}, {} events", self.events)?;
        if !self.traffic.is_empty() {
            write!(f, "\n{}", traffic(&self.traffic))?;
        }
        if let Some(table) = times(&self.traffic) {
            write!(f, "\n{table}")?;
        }
        for g in &self.traffic {
            beyond_an_hour(f, g)?;
            super::apps::line(f, g)?;
        }
        if !self.links.is_empty() {
            write!(f, "\n{}", links(&self.links))?;
            for l in &self.links {
                losses(f, l)?;
            }
        }
        if !self.queues.is_empty() {
            write!(f, "\n{}", queues(&self.queues))?;
        }
        Ok(())
    }
}

fn traffic(all: &[TrafficReport]) -> Table {
    let head =
        ["traffic", "kind", "from -> to", "throughput", "fairness", "trans/s", "sent", "received", "lost"];
    let mut t = Table::new(3, head);
    for g in all {
        let packets = |f: fn(&super::PacketsReport) -> u64| {
            g.packets.as_ref().map_or(String::new(), |p| f(p).to_string())
        };
        t.row([
            g.name.clone(),
            if g.count == 1 { g.kind.into() } else { format!("{} x{}", g.kind, g.count) },
            format!("{} -> {}", g.from, g.to),
            bit_rate(g.throughput_bit_s),
            if g.count == 1 { String::new() } else { format!("{:.3}", g.jain) },
            g.transactions_per_s.map_or(String::new(), |n| format!("{n:.1}")),
            packets(|p| p.sent),
            packets(|p| p.received),
            packets(|p| p.lost),
        ]);
    }
    t.without_empty_columns()
}

/// Returns the distributions of a group, each with its name.
fn distributions(g: &TrafficReport) -> impl Iterator<Item = (String, Times)> {
    let asks = if g.questions.is_some() { "answer" } else { "transaction" };
    let own = [(asks.to_string(), g.latency), ("one way".to_string(), g.delay)];
    let all = own.into_iter().chain(super::apps::times(g));
    all.filter_map(|(what, times)| Some((what, times?)))
}

/// Writes one line for each distribution of a group that has times of an hour or more.
fn beyond_an_hour(f: &mut fmt::Formatter<'_>, g: &TrafficReport) -> fmt::Result {
    for (what, Times { hour_or_more, .. }) in distributions(g).filter(|(_, times)| times.hour_or_more > 0) {
        writeln!(f, "  {}: {what}: times of an hour or more, {hour_or_more}, count as an hour", g.name)?;
    }
    Ok(())
}

fn times(all: &[TrafficReport]) -> Option<Table> {
    let mut t = Table::new(2, ["latency", "of", "count", "mean", "p50", "p95", "p99", "max"]);
    for g in all {
        for (what, times) in distributions(g) {
            let Times { count, mean_ns, p50_ns, p95_ns, p99_ns, max_ns, .. } = times;
            let [mean, p50, p95, p99, max] = [mean_ns, p50_ns, p95_ns, p99_ns, max_ns].map(time);
            t.row([g.name.clone(), what, count.to_string(), mean, p50, p95, p99, max]);
        }
    }
    (t.rows.len() > 1).then_some(t)
}

fn links(all: &[LinkReport]) -> Table {
    let head = [
        "link",
        "rate",
        "used",
        "packets",
        "bytes",
        "direct",
        "queued",
        "ring full",
        "bql stop",
        "dropped",
        "marked",
    ];
    let mut t = Table::new(1, head);
    for l in all {
        t.row([
            format!("{} -> {}", l.from, l.to),
            bit_rate(l.rate_bit_s),
            format!("{:.1} %", l.utilisation * 100.0),
            l.tx_packets.to_string(),
            size(l.tx_bytes),
            l.direct.to_string(),
            l.queued.to_string(),
            some(l.stops_ring),
            some(l.stops_bql),
            some(l.drops.values().sum()),
            some(l.marks.values().sum()),
        ]);
    }
    t.without_empty_columns()
}

/// Returns a number as text; the empty text for zero.
fn some(n: u64) -> String {
    if n == 0 { String::new() } else { n.to_string() }
}

/// Writes one line for a link that dropped, marked, refused, lost or delayed a packet.
fn losses(f: &mut fmt::Formatter<'_>, l: &LinkReport) -> fmt::Result {
    let drops = l.drops.iter().map(|(reason, n)| format!("dropped {reason} {n}"));
    let marks = l.marks.iter().map(|(reason, n)| format!("marked {reason} {n}"));
    let others = [
        ("taken by actions", l.stolen),
        ("dropped on the way in", l.turned_away),
        ("sender held back", l.full),
        ("lost on the way", l.lost),
        ("late on the way", l.late),
    ];
    let others = others.into_iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{what} {n}"));
    let said: Vec<String> = drops.chain(marks).chain(others).collect();
    match said.as_slice() {
        [] => Ok(()),
        said => writeln!(f, "  {} -> {}: {}", l.from, l.to, said.join(", ")),
    }
}

fn queues(all: &[QueueReport]) -> Table {
    let head = ["queue", "qdisc", "qdisc mean", "max", "device mean", "max", "bql limit", "completions"];
    let mut t = Table::new(2, head);
    for q in all {
        t.row([
            format!("{} -> {}", q.from, q.to),
            q.qdisc.clone(),
            size(q.backlog_bytes.mean),
            size(q.backlog_bytes.max),
            size(q.ring_bytes.mean),
            size(q.ring_bytes.max),
            q.bql_limit.map_or("off".into(), size),
            q.completion_interval_ns.map_or(String::new(), |t| format!("each {}", time(t))),
        ]);
    }
    t
}

impl Table {
    /// Removes the columns that are empty below the head.
    pub(crate) fn without_empty_columns(mut self) -> Self {
        let columns = self.rows.first().map_or(0, Vec::len);
        for c in (0..columns).rev() {
            if self.rows.iter().skip(1).all(|r| r[c].is_empty()) {
                self.rows.iter_mut().for_each(|r| {
                    r.remove(c);
                });
                self.left -= usize::from(c < self.left);
            }
        }
        self
    }
}

pub(crate) fn bit_rate(bit_s: u64) -> String {
    scaled(bit_s, "bit/s", ["", "k", "M", "G", "T"])
}

pub(crate) fn size(bytes: u64) -> String {
    scaled(bytes, "B", ["", "k", "M", "G", "T"])
}

pub(crate) fn time(ns: u64) -> String {
    scaled(ns, "s", ["n", "u", "m", "", "k"])
}

/// Returns the power of 1000 and the decimal places that show three significant digits of `num`,
/// with the available prefixes; without a prefix there are no decimals.
pub(crate) const fn scale(num: u64) -> (usize, usize) {
    let (mut value, mut power) = (num as u128 * 1000, 0);
    // Thousandths of the present prefix; 999.5 would round up to four digits.
    while value >= 999_500 && power + 1 < PREFIXES {
        value = (value + 500) / 1000;
        power += 1;
    }
    let places = match value {
        _ if power == 0 => 0,
        0..=9_994 => 2,
        9_995..=99_949 => 1,
        _ => 0,
    };
    (power, places)
}

/// Returns three significant digits, rounded, and a decimal prefix; `num` is in units of the first
/// prefix.
fn scaled(num: u64, unit: &str, prefixes: [&str; PREFIXES]) -> String {
    let (power, places) = scale(num);
    let mut value = u128::from(num) * 1000;
    for _ in 0..power {
        value = (value + 500) / 1000;
    }
    let prefix = prefixes[power];
    let step = [1000, 100, 10][places];
    let rounded = (value + step / 2) / step * step;
    let (whole, part) = (rounded / 1000, rounded % 1000 / step);
    match places {
        0 => format!("{whole} {prefix}{unit}"),
        _ => format!("{whole}.{part:0places$} {prefix}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_prefix() {
        let sizes = [0, 7, 999, 1000, 1004, 1005, 9_994, 9_995, 65_226, 99_949, 99_950, 999_499, 999_500];
        assert_eq!(
            sizes.map(size),
            [
                "0 B", "7 B", "999 B", "1.00 kB", "1.00 kB", "1.01 kB", "9.99 kB", "10.0 kB", "65.2 kB",
                "99.9 kB", "100 kB", "999 kB", "1.00 MB"
            ]
        );
        assert_eq!([1_234, 27_800_000, 1_000_000_000].map(time), ["1.23 us", "27.8 ms", "1.00 s"]);
        assert_eq!(bit_rate(u64::MAX), "18446744 Tbit/s");
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let mut t = Table::new(1, ["name", "a", "b", "c"]);
        t.row(["x", "1", "", "30"].map(String::from));
        t.row(["long name", "22", "", ""].map(String::from));
        assert_eq!(
            t.without_empty_columns().to_string(),
            "name        a   c\nx           1  30\nlong name  22\n"
        );
    }
}
