//! Packet-exact cases together: read from a text, played, and counted.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::num::NonZeroUsize;

use serde_json::{Value, json};
use txweir_core::Nanos;

use super::exact::{Case, Heard, Outcome, Row};
use crate::workers;

/// Reads the cases of a text, one per line; empty lines are skipped.
///
/// # Errors
/// Names the first line that is no case, by its number.
pub fn read(text: &str) -> Result<Vec<Case>, String> {
    let lines = (1..).zip(text.lines()).filter(|(_, l)| !l.trim().is_empty());
    lines.map(|(n, line)| Case::parse(line).map_err(|e| format!("line {n}: {e}"))).collect()
}

/// Plays all cases on `threads` threads; returns the outcomes in the order of `cases`.
pub fn play_all(cases: &[Case], threads: NonZeroUsize) -> Vec<Outcome> {
    let play = |i: usize, _: &mut dyn FnMut(Nanos)| Ok::<_, std::convert::Infallible>(cases[i].play());
    match workers::run(cases.len(), threads, play, &mut |_| {}) {
        Ok(outcomes) => outcomes,
        Err(never) => match never {},
    }
}

/// Returns a table of the cases by congestion control, the number of equal cases, and the first
/// segment that differs of each other case; `verbose` lists the equal cases as well.
pub fn table(cases: &[Case], outcomes: &[Outcome], verbose: bool) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = write_table(&mut out, cases, outcomes, verbose);
    out
}

fn write_table(out: &mut String, cases: &[Case], outcomes: &[Outcome], verbose: bool) -> std::fmt::Result {
    let mut counts: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
    for (case, outcome) in cases.iter().zip(outcomes) {
        let count = counts.entry(case.algorithm().name()).or_default();
        count.0 += 1;
        count.1 += usize::from(outcome.differs.is_none());
        count.2 += usize::from(outcome.windows_differ.is_none());
    }
    writeln!(out, "{:<32} {:>5} {:>7} {:>8}", "packet-exact cases", "cases", "equal", "windows")?;
    for (name, (all, equal, windows)) in &counts {
        writeln!(out, "  {name:<30} {all:>5} {equal:>7} {windows:>8}")?;
    }
    for (case, outcome) in cases.iter().zip(outcomes) {
        match outcome.differs {
            None if verbose => writeln!(out, "  {}: equal, {} segments", case.name, outcome.here.len())?,
            None => {}
            Some(i) => {
                let (there, here) = (outcome.recorded.get(i), outcome.here.get(i));
                writeln!(out, "  {}: segment {i} of {} differs", case.name, outcome.recorded.len())?;
                writeln!(out, "      there {}", text(there))?;
                writeln!(out, "      here  {}", text(here))?;
            }
        }
        if let Some(i) = outcome.windows_differ {
            let (there, here) = (outcome.heard_there.get(i), outcome.heard_here.get(i));
            writeln!(out, "  {}: window of acknowledgement {i} differs", case.name)?;
            writeln!(out, "      there {}", offer(there))?;
            writeln!(out, "      here  {}", offer(here))?;
        }
    }
    let equal: usize = counts.values().map(|(_, equal, _)| equal).sum();
    let windows: usize = counts.values().map(|(.., windows)| windows).sum();
    writeln!(
        out,
        "{} packet-exact cases: {equal} equal, {windows} with each acknowledgement's window",
        cases.len()
    )
}

fn offer(heard: Option<&Heard>) -> String {
    heard.map_or("nothing".to_string(), |h| format!("{} us, up to {}, window {}", h.at_us, h.ack, h.window))
}

fn text(row: Option<&Row>) -> String {
    row.map_or("nothing".to_string(), |r| format!("{} us, {} bytes from {}", r.at_us, r.len, r.seq))
}

/// Returns the cases as JSON, one row each: `segment` is the first that differs, `window` the first
/// acknowledgement that does.
pub fn json(cases: &[Case], outcomes: &[Outcome]) -> Value {
    let row = |(case, o): (&Case, &Outcome)| {
        let (equal, segments) = (o.differs.is_none(), o.recorded.len());
        let (segment, window) = (o.differs, o.windows_differ);
        json!({"name": case.name, "equal": equal, "segments": segments, "segment": segment, "window": window})
    };
    cases.iter().zip(outcomes).map(row).collect()
}
