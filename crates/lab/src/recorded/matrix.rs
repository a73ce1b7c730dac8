//! The matrix: connections through a real queueing discipline, recorded as sums and percentiles, and played here.
//!
//! [`Run`] is one recorded run; [`play`](Run::play) builds the same net of hosts, a router and a receiver, and measures as the
//! recording does ([`Outcome`]). [`Compared`] sets both side by side within bands. [`table`] counts rows.
//!
//! **What is played.** The policy's tc lines are applied as they are to the device that had them, on a line so fast that the
//! policy is the bottleneck, without a byte limit and with completions at once: veth takes everything at once as well. All
//! other links take no time, but for that from the receiver, which delays ACKs by the round trip. The queues do what Linux
//! does where their laws leave it (`strict_linux`), so that a difference is TCP's. A policy on the sender's own device drops
//! what does not fit; the sender's TCP is not told.
//!
//! **Chance.** Kinds that draw or hash are played with several seeds, and each quantity is the median.

mod book;
mod compare;
mod line;
mod play;
mod report;

use std::sync::atomic::{AtomicUsize, Ordering};

pub use book::{Left, percentile};
pub use compare::{Compared, Quantity, Verdict};
pub use line::{Completion, FlowGroup, Kind, Latency, LineError, Run, Samples, Shares, Topology, Window};
pub use play::{Outcome, SEEDS};
pub use report::{summary, table, trace};

/// The runs of a text: a line each; empty ones are skipped.
///
/// # Errors
/// The first line that is no run, or whose name another has.
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

/// Plays all runs with so many threads, and compares; in the order of `runs`, whatever the number of threads.
///
/// # Errors
/// The first run that cannot be played, with its name.
pub fn play_all(runs: &[Run], jobs: usize) -> Result<Vec<Compared>, String> {
    each(runs, jobs, |run| Compared::play(run).map_err(|e| format!("{}: {e}", run.name)))
        .into_iter()
        .collect()
}

/// Calls `f` for each item on so many threads; gives the results in the order of the items.
pub fn each<T: Sync, R: Send>(items: &[T], jobs: usize, f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((i, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, items.get(i)?)))
        {
            done.push((i, f(item)));
        }
        done
    };
    let mut all: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let results = threads.into_iter().map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
        results.flatten().collect()
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, r)| r).collect()
}
