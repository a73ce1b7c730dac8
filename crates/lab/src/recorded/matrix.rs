//! The matrix: connections through a real queueing discipline, recorded as sums and percentiles,
//! and played here.
//!
//! [`Run`] is one recorded run; [`play`](Run::play) builds the same net of hosts, a router and a
//! receiver, and measures like the recording ([`Outcome`]). [`Compared`] sets both side by side
//! within bands. [`table`] counts rows.
//!
//! **Method.** The policy's tc lines are applied as they are to the device that had them, on a line
//! so fast that the policy is the bottleneck, without a byte limit and with completions at once, as
//! veth takes every packet at once. All other links take no time, except the link from the
//! receiver, which delays ACKs by the round trip. The queues follow Linux where it deviates from
//! their laws (`strict_linux`), so that a difference is TCP's. A policy on the sender's own device
//! drops packets that do not fit, and tells the sender's TCP.
//!
//! **Chance.** A recorded run has repetitions with other seeds and other starts. The lab plays
//! these as well, and each quantity is the median: see [`Compared`].

mod book;
mod compare;
mod line;
mod own;
mod play;
mod report;

use std::num::NonZeroUsize;

use txweir_core::Nanos;

use crate::workers;

pub use book::{Left, percentile};
pub use compare::{Compared, Pair, Quantity, Verdict};
pub use line::{Completion, FlowGroup, Kind, Latency, LineError, Run, Samples, Shares, Topology, Window};
pub use play::Outcome;
pub use report::{json, summary, table, trace};

/// Reads the runs of a text, one per line; empty lines are skipped.
///
/// # Errors
/// Names the first line that is no run, or that repeats a name.
pub fn read(text: &str) -> Result<Vec<Run>, LineError> {
    let mut runs: Vec<Run> = Vec::new();
    let mut names = std::collections::HashSet::new();
    for (number, text) in (1..).zip(text.lines()) {
        if text.trim().is_empty() {
            continue;
        }
        let run = Run::parse(text, number)?;
        if !names.insert(run.name.clone()) {
            let message = format!("expected a name that is there once, given \"{}\" again", run.name);
            return Err(LineError { line: number, key: Some("name".into()), message });
        }
        runs.push(run);
    }
    Ok(runs)
}

/// Plays all runs on `threads` threads, and compares. The results are in the order of `runs`,
/// whatever the number of threads.
///
/// # Errors
/// Names the first run that cannot be played.
pub fn play_all(runs: &[Run], threads: NonZeroUsize) -> Result<Vec<Compared>, String> {
    let play = |i: usize, _: &mut dyn FnMut(Nanos)| {
        Compared::play(&runs[i]).map_err(|e| format!("{}: {e}", runs[i].name))
    };
    workers::run(runs.len(), threads, play, &mut |_| {})
}
