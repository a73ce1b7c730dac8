//! `txweir lab sweep`: a scenario with other values, a run for each combination, and one table of
//! all measurements.
//!
//! Each run that has ended is a line of a journal beside the table. A sweep that is started again
//! goes on behind the last whole line; at the end the table is written, in the order of the runs,
//! so that it does not depend on threads or interruptions.

mod journal;
pub mod surface;
mod table;

use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

use txweir::device::cpu;
use txweir::lab::run::{Options, RunError, run};
use txweir::lab::sweep::{Measured, Sweep, SweepError, measurements};

use crate::bar::Bar;
use crate::kernels::{Chosen, Kernels};
use crate::{Failure, output, policy};
use journal::Journal;

/// Options of `txweir lab sweep`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Scenario, TOML
    file: PathBuf,
    /// A place of the scenario and its values: `KEY=VALUE,VALUE`, `KEY=1..50`, `KEY=@FILE,@FILE`
    ///
    /// KEY is `seed`, `host.NAME.KEY`, `traffic.NAME.KEY` or `link.FROM.TO.KEY`, or the end of one
    /// if only one place of the file has that end. Each further place multiplies the runs.
    #[arg(long, value_name = "KEY=VALUES", required = true)]
    over: Vec<String>,
    /// Directory for the results; made if there is none
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Runs at once [default: the processors of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Part of the runs: the first of four is 1/4. The results of all parts together are those of
    /// the whole
    #[arg(long, value_name = "I/N", default_value = "1/1", value_parser = shard)]
    shard: Shard,
    #[command(flatten)]
    kernel: Chosen,
    /// Print the runs and their values, and run nothing
    #[arg(long)]
    list: bool,
}

/// Every `of`-th run, from the `at`-th on, counted from 0.
#[derive(Clone, Copy, Debug)]
struct Shard {
    at: u64,
    of: u64,
}

/// Most parts of a sweep.
const SHARDS_MAX: u64 = 1_000_000;

fn shard(word: &str) -> Result<Shard, String> {
    let expected = || format!("expected I/N with 1 <= I <= N <= {SHARDS_MAX}");
    let (at, of) = word.split_once('/').ok_or_else(expected)?;
    let (at, of): (u64, u64) = at.parse().ok().zip(of.parse().ok()).ok_or_else(expected)?;
    if at == 0 || at > of || of > SHARDS_MAX {
        return Err(expected());
    }
    Ok(Shard { at: at - 1, of })
}

/// Runs `txweir lab sweep`.
pub fn main(args: Args) -> Result<(), Failure> {
    let (name, text) = policy::text(&args.file)?;
    let mut read = |file: &str| fs::read_to_string(file).map_err(|e| format!("--over: {file}: {e}"));
    let sweep = Sweep::new(&text, &name, &args.over, &mut read).map_err(|e| match e {
        SweepError::Axis(line) => Failure::usage(line),
        SweepError::Scenario(e) => e.diagnostic().into(),
    })?;
    let Shard { at, of } = args.shard;
    let runs: Vec<u64> = (at..sweep.runs()).step_by(usize::try_from(of).unwrap_or(usize::MAX)).collect();
    if args.list {
        return list(&sweep, &runs);
    }
    fs::create_dir_all(&args.out).map_err(|e| Failure::usage(format!("{}: {e}", args.out.display())))?;
    let stem = args.file.file_stem().filter(|stem| *stem != "-").unwrap_or("sweep".as_ref());
    let place = args.out.join(stem);
    let file = |end: &str| PathBuf::from(format!("{}-{}-of-{of}.{end}", place.display(), at + 1));
    let (mut kernels, mut identity) = (Kernels::default(), sweep.identity());
    if sweep.has_kernels() {
        kernels = Kernels::find(args.kernel)?;
        identity["kernel"] = kernels.identity();
    }
    let (table, identity) = (file("parquet"), identity.to_string());
    if is_there(&table, &identity)? {
        return output::print(format_args!("{}: there already\n", table.display()));
    }
    let mut journal = Journal::open(&file("journal"), &identity, &runs)?;
    if is_there(&table, &identity)? {
        // Another process has written it meanwhile.
        journal.remove()?;
        return output::print(format_args!("{}: there already\n", table.display()));
    }
    let known = journal.runs();
    let missing: Vec<u64> = runs.iter().copied().filter(|run| !known.contains(run)).collect();
    let jobs = args.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
    perform(&sweep, &kernels, &missing, jobs, known.len(), &mut journal)?;
    let rows = table::write(&table, &sweep, &identity, &mut journal)?;
    journal.remove()?;
    let text = format!("{}: {} runs, {rows} measurements\n", table.display(), runs.len());
    output::print(text)
}

/// Returns whether a table is there.
///
/// # Errors
/// It cannot be read, or has the results of another sweep.
fn is_there(table: &Path, identity: &str) -> Result<bool, Failure> {
    if !table.exists() {
        return Ok(false);
    }
    if table::identity(table)? == identity {
        return Ok(true);
    }
    let given = "given the results of another sweep";
    Err(Failure::usage(format!("{}: expected a place for these results, {given}", table.display())))
}

fn list(sweep: &Sweep, runs: &[u64]) -> Result<(), Failure> {
    let keys: Vec<&str> = sweep.axes().iter().map(|axis| axis.key.as_str()).collect();
    let mut text = format!("run\t{}\n", keys.join("\t"));
    for run in runs {
        text.push_str(&format!("{run}\t{}\n", sweep.values(*run).join("\t")));
    }
    output::print(text)
}

/// Performs the runs that are missing, several at once, and writes each into the journal.
///
/// # Errors
/// The failure of the first run, by its number, that fails: a run that was begun is ended, and
/// those before it were begun earlier.
fn perform(
    sweep: &Sweep,
    kernels: &Kernels,
    missing: &[u64],
    jobs: usize,
    done: usize,
    journal: &mut Journal,
) -> Result<(), Failure> {
    let mut bar = Bar::new((done + missing.len()) as u64);
    // Each run keeps to one processor with its kernels.
    let cpus = if sweep.has_kernels() { cpu::allowed() } else { Vec::new() };
    let (left, stop) = (Mutex::new(missing.iter()), AtomicBool::new(false));
    let next = || {
        let mut left = left.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if stop.load(Ordering::Relaxed) { None } else { left.next().copied() }
    };
    let (send, results) = mpsc::channel();
    let outcome = thread::scope(|scope| {
        let work = |at: usize, send: mpsc::Sender<_>| {
            if let Some(cpu) = cpus.get(at % cpus.len().max(1)) {
                let _ = cpu::pin(*cpu);
            }
            while let Some(run) = next() {
                if send.send((run, one(sweep, run, kernels))).is_err() {
                    return;
                }
            }
        };
        let workers: Vec<_> = (0..jobs.min(missing.len()))
            .map(|at| {
                let send = send.clone();
                scope.spawn(move || work(at, send))
            })
            .collect();
        drop(send);
        let mut failed: Option<(u64, Failure)> = None;
        for (so_far, (run, result)) in (done as u64 + 1..).zip(results) {
            if let Err(e) = result.and_then(|rows| journal.add(run, &rows)) {
                stop.store(true, Ordering::Relaxed);
                failed = failed.filter(|(first, _)| *first < run).or(Some((run, e)));
            }
            bar.at(so_far);
        }
        for worker in workers {
            worker.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        failed.map_or(Ok(()), |(_, e)| Err(e))
    });
    bar.end();
    outcome
}

/// Performs one run, and returns its measurements.
fn one(sweep: &Sweep, number: u64, kernels: &Kernels) -> Result<Vec<Measured>, Failure> {
    let wrong = |e: &dyn std::fmt::Display| {
        let keys = sweep.axes().iter().map(|axis| &axis.key);
        let values: Vec<String> =
            keys.zip(sweep.values(number)).map(|(key, value)| format!("{key}={value}")).collect();
        Failure::failed(format!("run {number} ({}): {e}", values.join(", ")))
    };
    let scenario = sweep.scenario(number).map_err(|e| wrong(&e.message))?;
    let options = Options { boot: Some(kernels.boot()), ..Options::default() };
    let report = run(&scenario, options, |_| {}).map_err(|e| match e {
        RunError::Scenario(e) => wrong(&e.message),
        e => wrong(&e),
    })?;
    Ok(measurements(&report))
}

/// Returns an error of a file as a failure.
fn at(path: &Path) -> impl Fn(&dyn std::fmt::Display) -> Failure {
    move |e| Failure::failed(format!("{}: {e}", path.display()))
}
