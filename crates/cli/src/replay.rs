//! `txweir lab replay`: replays recordings of the Linux kernel and compares: traces of queues, and
//! TCP.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use txweir::lab::replay::{Replayed, Trace, json, table};

use crate::recorded::{self, Recorded};
use crate::{Failure, input, output};

/// Exit status for a difference.
const DIFFERS: u8 = 1;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status of traces: 0 if all is equal to Linux, 1 if anything differs; of recordings of TCP: 0, or 1 if \
                  --min-inside is missed; 2 if an input cannot be read or the output not be written."
)]
pub struct Args {
    /// Traces (spec/traces), recordings of TCP (spec/tcp), or folders of either; - is stdin
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Show intended differences too, and for TCP also the runs inside the bands
    #[arg(long)]
    verbose: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Try the other order of packets and timers of one instant where a trace differs
    #[arg(long)]
    ties: bool,
    #[command(flatten)]
    recorded: recorded::Args,
}

/// Runs `txweir lab replay`.
pub fn main(args: &Args) -> Result<ExitCode, Failure> {
    let mut files = Vec::new();
    for path in &args.traces {
        find(path, &mut files)?;
    }
    let (mut replays, mut recorded) = (Vec::new(), Recorded::default());
    for path in &files {
        let (name, text) = read(path)?;
        if !recorded.take(&name, &text)? {
            let trace = Trace::read(&text).map_err(|e| Failure::failed(format!("{name}: {e}")))?;
            let mut replayed = trace.replay();
            if args.ties && !replayed.is_equal() {
                replayed.ties = trace.ties();
            }
            replays.push(replayed);
        }
    }
    let mut status = ExitCode::SUCCESS;
    if !recorded.is_empty() {
        status = recorded.play(&args.recorded, args.verbose, args.json)?;
    }
    if replays.is_empty() {
        return Ok(status);
    }
    match args.json {
        true => output::json(format_args!("{:#}", json(&replays)))?,
        false => output::print(table(&replays, args.verbose))?,
    }
    let equal = replays.iter().all(Replayed::is_equal);
    Ok(if equal { status } else { ExitCode::from(DIFFERS) })
}

/// Adds the file itself; for a folder, all traces in it and below, by name.
fn find(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if !path.is_dir() {
        files.push(path.into());
        return Ok(());
    }
    let wrong = |e: std::io::Error| Failure::failed(format!("{}: {e}", path.display()));
    let entries = std::fs::read_dir(path).map_err(wrong)?.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let mut below: Vec<PathBuf> = entries.into_iter().map(|e| e.path()).collect();
    below.sort();
    let before = files.len();
    for path in below {
        if path.is_dir() || path.extension().is_some_and(|e| e == "jsonl") {
            find(&path, files)?;
        }
    }
    match files.len() == before {
        true => Err(Failure::failed(format!("{}: no trace (NAME.jsonl) in this folder", path.display()))),
        false => Ok(()),
    }
}

/// Returns the name of a file for messages, and its text.
fn read(path: &Path) -> Result<(String, String), Failure> {
    input::text(path).map_err(Failure::failed)
}
