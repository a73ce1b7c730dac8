//! Recordings of Linux's TCP in `txweir lab replay`: played, compared, counted.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use txweir::lab::recorded::exact::Case;
use txweir::lab::recorded::matrix::{self, Compared, Run, Verdict};
use txweir::lab::recorded::{Content, cases};

use crate::{Failure, output};

/// Exit status for fewer rows inside than `--min-inside` asks for.
const BELOW: u8 = 1;

/// The runs of the matrix that are played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Set {
    /// The runs that the transport was tuned on, and packet-exact cases
    #[default]
    Seen,
    /// The runs that it was not tuned on
    Held,
    /// All runs
    All,
}

/// Options for recordings of TCP.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Recordings of TCP (spec/tcp)")]
#[group(id = "recorded")]
pub struct Args {
    /// Runs to play
    #[arg(long, value_enum, default_value_t)]
    set: Set,
    /// Only runs and cases whose names contain NAME; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Threads [default: number of processors]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Print the first flow of each run over time, in the recording and here
    #[arg(long)]
    trace: bool,
    /// Exit with status 1 unless N runs are inside the band or the kernel's own spread
    #[arg(long, value_name = "N")]
    min_inside: Option<usize>,
    /// Write a row for each run into FILE, from which `txweir try` finds the recordings nearest to
    /// a set-up
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

/// Recordings of TCP, by kind.
#[derive(Debug, Default)]
pub struct Recorded {
    runs: Vec<Run>,
    cases: Vec<Case>,
}

impl Recorded {
    /// Takes a file in. False if it is no recording of TCP.
    ///
    /// # Errors
    /// A line of it is no run or no case.
    pub fn take(&mut self, name: &str, text: &str) -> Result<bool, Failure> {
        let failed = |e: String| Failure::failed(format!("{name}: {e}"));
        match txweir::lab::recorded::content(text) {
            Content::Matrix => self.runs.extend(matrix::read(text).map_err(|e| failed(e.to_string()))?),
            Content::Exact => self.cases.extend(cases::read(text).map_err(failed)?),
            Content::Other => return Ok(false),
        }
        Ok(true)
    }

    /// True if no recording was taken in.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.cases.is_empty()
    }

    fn choose(&mut self, args: &Args) -> Result<(), Failure> {
        let mut names = HashSet::new();
        if let Some(run) = self.runs.iter().find(|r| !names.insert(r.name.clone())) {
            return Err(Failure::failed(format!("{}: expected once, given in two files", run.name)));
        }
        let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|o| name.contains(o.as_str()));
        let set = |run: &Run| match args.set {
            Set::Seen => run.set == "seen",
            Set::Held => run.set == "held",
            Set::All => true,
        };
        self.runs.retain(|r| set(r) && wanted(&r.name));
        self.cases.retain(|c| args.set != Set::Held && wanted(&c.name));
        match self.is_empty() {
            true => Err(Failure::usage("--set, --only: no recording is left")),
            false => Ok(()),
        }
    }

    /// Plays the recordings and prints the comparison.
    ///
    /// # Errors
    /// No recording is left to play, a run cannot be played, or a file cannot be written.
    pub fn play(mut self, args: &Args, verbose: bool, json: bool) -> Result<ExitCode, Failure> {
        self.choose(args)?;
        let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let threads = args.jobs.unwrap_or_else(processors);
        let outcomes = cases::play_all(&self.cases, threads);
        let rows = matrix::play_all(&self.runs, threads).map_err(Failure::failed)?;
        if json {
            let exact = cases::json(&self.cases, &outcomes);
            let all = serde_json::json!({"matrix": matrix::json(&rows), "exact": exact});
            output::json(format_args!("{all:#}"))?;
        } else {
            if !rows.is_empty() {
                output::print(matrix::table(&rows, verbose))?;
            }
            if !self.cases.is_empty() {
                output::print(cases::table(&self.cases, &outcomes, verbose))?;
            }
            for row in rows.iter().filter(|_| args.trace) {
                output::print(matrix::trace(row))?;
            }
        }
        if let Some(path) = &args.summary {
            std::fs::write(path, matrix::summary(&rows))
                .map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
        }
        Ok(status(&rows, args.min_inside))
    }
}

/// Returns the exit status, and prints a line about a missed floor.
fn status(rows: &[Compared], floor: Option<usize>) -> ExitCode {
    let inside = rows.iter().filter(|r| r.verdict() != Verdict::Outside).count();
    match floor {
        Some(floor) if inside < floor => {
            output::say(format_args!(
                "txweir: --min-inside: expected {floor} runs or more, {inside} are inside\n"
            ));
            ExitCode::from(BELOW)
        }
        _ => ExitCode::SUCCESS,
    }
}
