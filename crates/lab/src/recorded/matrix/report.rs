//! Results of all runs, as text and as the table in which `try` looks a set-up up.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::compare::{Compared, Pair, Quantity, Verdict};
use super::line::Run;
use super::own;

/// A function that names the value of a run in a dimension.
type Name = fn(&Run) -> String;

/// Dimensions by which rows are counted.
const DIMENSIONS: [(&str, Name); 9] = [
    ("leaf", |r| r.leaf.clone()),
    ("cc", Run::controls),
    ("rate", |r| scaled(r.rate_bps, 1_000_000, "mbit")),
    ("rtt", |r| scaled(r.rtt_ns, 1_000_000, "ms")),
    ("flows", |r| r.flow_count().to_string()),
    ("ecn", |r| r.ecn.to_string()),
    ("units", |r| r.units.to_string()),
    ("topology", |r| r.topology.name().to_string()),
    ("app", Run::applications),
];

fn scaled(n: u64, unit: u64, name: &str) -> String {
    format!("{}{name}", n as f64 / unit as f64)
}

/// Number of rows, and of those inside the band without repetitions, by medians, and by medians or
/// the spread.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    rows: usize,
    alone: usize,
    inside: usize,
    either: usize,
}

impl Count {
    fn add(&mut self, alone: bool, verdict: Verdict) {
        self.rows += 1;
        self.alone += usize::from(alone);
        self.inside += usize::from(verdict == Verdict::Inside);
        self.either += usize::from(verdict != Verdict::Outside);
    }
}

/// Returns the rows by each dimension, by quantity, and the rows outside with their quantities
/// outside; `verbose` lists all quantities of all rows.
pub fn table(rows: &[Compared], verbose: bool) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = write_counts(&mut out, rows);
    let _ = write_quantities(&mut out, rows);
    let _ = write_rows(&mut out, rows, verbose);
    let mut all = Count::default();
    rows.iter().for_each(|r| all.add(r.is_inside_alone(), r.verdict()));
    let _ = writeln!(
        out,
        "{} runs: medians inside the band {}, or inside the kernel's own spread {}; one run beside one run inside \
         the band {}",
        all.rows, all.inside, all.either, all.alone
    );
    let (all, inside) =
        rows.iter().map(Compared::repetitions).fold((0, 0), |(n, i), (all, inside)| (n + all, i + inside));
    let _ = writeln!(
        out,
        "Linux beside itself: {inside} of {all} repetitions are inside the band of the recorded run"
    );
    let (all, inside) =
        rows.iter().map(Compared::own_runs).fold((0, 0), |(n, i), (all, inside)| (n + all, i + inside));
    let _ = writeln!(out, "Linux beside its median: {inside} of {all} runs are inside the band");
    let agreeing = own::agreeing(rows);
    let _ = writeln!(
        out,
        "Linux's medians beside one another, two sets of its runs drawn by the bootstrap: inside in {agreeing:.0} of {} rows",
        rows.len()
    );
    out
}

fn write_counts(out: &mut String, rows: &[Compared]) -> std::fmt::Result {
    for (dimension, name) in DIMENSIONS {
        let mut counts: BTreeMap<(u64, String), Count> = BTreeMap::new();
        for row in rows {
            let name = name(&row.run);
            // Numbers are sorted by size, words by letters.
            let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
            let count = counts.entry((digits.parse().unwrap_or(0), name)).or_default();
            count.add(row.is_inside_alone(), row.verdict());
        }
        writeln!(out, "{dimension:<32} {:>5} {:>7} {:>7} {:>10}", "rows", "one run", "medians", "or spread")?;
        for ((_, name), c) in counts {
            writeln!(out, "  {name:<30} {:>5} {:>7} {:>7} {:>10}", c.rows, c.alone, c.inside, c.either)?;
        }
    }
    Ok(())
}

fn write_quantities(out: &mut String, rows: &[Compared]) -> std::fmt::Result {
    writeln!(
        out,
        "{:<32} {:>5} {:>7} {:>7} {:>10} {:>11}",
        "quantity", "rows", "one run", "medians", "or spread", "alone out"
    )?;
    for quantity in Quantity::ALL {
        let (mut count, mut alone) = (Count::default(), 0);
        for row in rows {
            let Some(pair) = row.pairs.iter().find(|p| p.quantity == quantity) else { continue };
            count.add(pair.is_inside_alone(), pair.verdict);
            let others = row.pairs.iter().filter(|p| p.verdict == Verdict::Outside).count();
            alone += usize::from(pair.verdict == Verdict::Outside && others == 1);
        }
        if count.rows > 0 {
            let Count { rows, alone: one, inside, either } = count;
            let name = quantity.name().0;
            writeln!(out, "  {name:<30} {rows:>5} {one:>7} {inside:>7} {either:>10} {alone:>11}")?;
        }
    }
    Ok(())
}

fn write_rows(out: &mut String, rows: &[Compared], verbose: bool) -> std::fmt::Result {
    writeln!(
        out,
        "rows outside (medians there / here), and how many of Linux's own runs are inside the band of their median"
    )?;
    for row in rows {
        let verdict = row.verdict();
        if verdict == Verdict::Inside && !verbose {
            continue;
        }
        let note = match verdict {
            Verdict::Inside => ": inside",
            Verdict::Spread => ": inside the spread",
            Verdict::Outside => ": outside",
        };
        let (all, inside) = row.own_runs();
        writeln!(out, "  {}{note}; of Linux's own runs {inside} of {all} are", row.run.name)?;
        for pair in row.pairs.iter().filter(|p| verbose || p.verdict != Verdict::Inside) {
            let mark = if pair.verdict == Verdict::Outside { "!" } else { " " };
            writeln!(out, "    {mark} {pair}")?;
        }
    }
    Ok(())
}

/// Returns the rows as JSON lines for `txweir try`: a row is inside if it is so with the kernel's
/// own spread.
pub fn summary(rows: &[Compared]) -> String {
    let mut out = String::new();
    for row in rows {
        let run = &row.run;
        let line = json!({
            "name": run.name,
            "cc": run.controls(),
            "kind": run.leaf,
            "rate_bit_s": run.rate_bps,
            "rtt_ns": run.rtt_ns,
            "flows": run.flow_count(),
            "ecn": run.ecn,
            "inside": row.verdict() != Verdict::Outside,
        });
        out.push_str(&line.to_string());
        out.push('\n');
    }
    out
}

/// Returns the rows as JSON, with each quantity in the recording and here.
pub fn json(rows: &[Compared]) -> Value {
    let word = |verdict| match verdict {
        Verdict::Inside => "inside",
        Verdict::Spread => "spread",
        Verdict::Outside => "outside",
    };
    let row = |row: &Compared| {
        let pair = |p: &Pair| {
            let verdict = word(p.verdict);
            json!({
                "quantity": p.quantity.name().0, "there": p.there, "here": p.here, "verdict": verdict,
                "recorded": p.recorded, "played": p.played,
            })
        };
        let quantities: Vec<Value> = row.pairs.iter().map(pair).collect();
        let (own, own_inside) = row.own_runs();
        json!({
            "name": row.run.name, "verdict": word(row.verdict()), "linux_runs": own,
            "linux_runs_inside": own_inside, "quantities": quantities,
        })
    };
    rows.iter().map(row).collect()
}

/// Returns flow 0 over time, in the recording and here (the first play): window, threshold,
/// smoothed round trip, pacing rate, and the goodput of all flows.
pub fn trace(row: &Compared) -> String {
    let mut out = String::new();
    let _ = write_trace(&mut out, row);
    out
}

fn write_trace(out: &mut String, row: &Compared) -> std::fmt::Result {
    let Some(here) = row.outcomes.first().map(|o| &o.samples) else { return Ok(()) };
    let there = &row.run.samples;
    writeln!(out, "{}: there | here", row.run.name)?;
    writeln!(
        out,
        "{:>9} {:>6} {:>6} | {:>6} {:>6} | {:>8} {:>8} | {:>8} {:>8} | {:>8} {:>8}",
        "ms", "cwnd", "cwnd", "ssthr", "ssthr", "rtt us", "rtt us", "pace kb", "pace kb", "kbit/s", "kbit/s"
    )?;
    let text = |v: Option<&Option<i64>>| v.copied().flatten().map_or("-".to_string(), |v| v.to_string());
    for i in 0..there.cwnd.len() {
        let ms = (i as u64 + 1) * there.every_ns / 1_000_000;
        write!(out, "{ms:>9} {:>6} {:>6} |", text(there.cwnd.get(i)), text(here.cwnd.get(i)))?;
        write!(out, " {:>6} {:>6} |", text(there.ssthresh.get(i)), text(here.ssthresh.get(i)))?;
        write!(out, " {:>8} {:>8} |", text(there.rtt_us.get(i)), text(here.rtt_us.get(i)))?;
        write!(out, " {:>8} {:>8} |", text(there.pacing_kbps.get(i)), text(here.pacing_kbps.get(i)))?;
        let goodput = |of: &[u64]| of.get(i).map_or("-".to_string(), |v| v.to_string());
        writeln!(out, " {:>8} {:>8}", goodput(&there.goodput_kbps), goodput(&here.goodput_kbps))?;
    }
    Ok(())
}
