//! `txweir lab`: virtual time.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write as _};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Subcommand;
use serde_json::{Value, json};
use txweir::Nanos;
use txweir::lab::run::{Options, RunError, run, run_for_page};
use txweir::lab::scenario::Scenario;
use txweir_bench::handoff;
use txweir_bench::reproduce::{self, EXPERIMENTS, Experiment, Extent, Headline, Published, Row, Summed};

use crate::bar::Bar;
use crate::kernels::{Chosen, Kernels};
use crate::{Failure, output, page, policy, replay, sweep};

/// Options of `txweir lab`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario file and print its measurements
    Run(RunArgs),
    /// Run a scenario with each combination of values of some of its places
    Sweep(sweep::Args),
    /// Print one measurement of a sweep over one or two of its places
    Surface(sweep::surface::Args),
    /// Reproduce published results and print them beside the measured ones
    Reproduce(ReproduceArgs),
    /// Replay recordings of the Linux kernel and compare: its queues packet by packet, its TCP
    /// within bands
    Replay(replay::Args),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Scenario, TOML: hosts, links, policy, traffic, seed, duration, measurements
    file: PathBuf,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Seed of all random numbers, in place of the scenario's; the same seed gives the same run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write the packets of every link into this directory, one pcapng file each
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Write a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    kernel: Chosen,
    /// Write the event log: 32 bytes for each event, the same in every run with the same seed
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct ReproduceArgs {
    /// One experiment, with all of its rows [default: a summary of all, a line each]
    ///
    /// Without a name, `--json` and `--plot` take all rows of the experiments in virtual time.
    /// `handoff` measures this machine, in wall-clock time (briefly for the summary); as root it
    /// also sends through a packet socket, in its own network namespace.
    name: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Draw the results into this file (SVG): the published values below the measured ones
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// For handoff: rounds, each of which runs every method once
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// For handoff: packets of a round
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(1024..=1 << 32))]
    packets: u64,
    /// For handoff: sending threads, beside the measurement with one
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    producers: u8,
}

/// Runs `txweir lab`.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    match args.command {
        Command::Run(args) => scenario(args),
        Command::Sweep(args) => sweep::main(args),
        Command::Surface(args) => sweep::surface::main(&args),
        Command::Reproduce(args) => reproduce(&args),
        Command::Replay(args) => return replay::main(&args),
    }
    .map(|()| ExitCode::SUCCESS)
}

fn scenario(args: RunArgs) -> Result<(), Failure> {
    let scenario = load(&args.file)?;
    let log = args
        .log
        .as_deref()
        .map(|path| Ok::<_, Failure>(Box::new(BufWriter::new(created(path)?)) as Box<dyn std::io::Write>));
    let boot = Some(Kernels::find(args.kernel)?.boot());
    let options =
        Options { seed: args.seed, pcap_dir: args.pcap, log: log.transpose()?, boot, ..Options::default() };
    let page = args.html.as_deref().map(page::Kept::open).transpose()?;
    let mut bar = Bar::new(scenario.duration().as_nanos());
    let progress = |now: Nanos| bar.at(now.as_nanos());
    let wrong = |e: RunError| match e {
        RunError::Scenario(e) => Failure::from(e.diagnostic()),
        e @ RunError::Open(..) => Failure::usage(e),
        e => Failure::failed(e),
    };
    let report = match page {
        None => run(&scenario, options, progress).map_err(wrong)?,
        Some(file) => {
            let (report, page) = run_for_page(&scenario, options, progress).map_err(wrong)?;
            file.write(&page.json())?;
            report
        }
    };
    bar.end();
    match args.json {
        true => output::json(report.json()),
        false => output::print(report),
    }
}

/// Creates an empty file to write to.
fn created(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))
}

/// Reads a scenario; `-` is stdin.
fn load(path: &Path) -> Result<Scenario, Failure> {
    let (name, text) = policy::text(path)?;
    Scenario::parse(&text, &name).map_err(|e| e.diagnostic().into())
}

fn reproduce(args: &ReproduceArgs) -> Result<(), Failure> {
    // Opened before the experiments, which take long.
    let plot = args.plot.as_deref().map(|path| Ok::<_, Failure>((created(path)?, path)));
    let mut plot = plot.transpose()?;
    let watched = std::io::stderr().is_terminal();
    let mut progress = progress(watched);
    if args.name.as_deref() == Some(handoff::NAME) {
        let ReproduceArgs { rounds, packets, producers, .. } = *args;
        let options = handoff::Options { rounds, packets, producers: producers.into() };
        let measured = handoff::measure(options, &mut progress).map_err(Failure::failed)?;
        if !args.json {
            return output::print(measured.table());
        }
        let list: Vec<Value> =
            measured.rows().map(|(r, [_, least, most])| sampled_row(&r, least, most)).collect();
        return output::json(format_args!("{:#}", Value::from(list)));
    }
    if let Some(given) = args.name.as_deref()
        && EXPERIMENTS.iter().all(|e| e.name != given)
    {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|e| e.name).chain([handoff::NAME]).collect();
        let names = names.join(", ");
        return Err(Failure::usage(format!("experiment: expected one of {names}, given \"{given}\"")));
    }
    if args.name.is_none() && !args.json && args.plot.is_none() {
        return summary(watched);
    }
    let rows = reproduce::run(args.name.as_deref(), Extent::Every, &mut progress).map_err(Failure::usage)?;
    if let Some((file, path)) = &mut plot {
        let written = file.write_all(reproduce::svg(&rows).as_bytes());
        written.map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
    }
    if !args.json {
        return output::print(reproduce::table(&rows));
    }
    let list: Vec<Value> = rows.iter().map(row).collect();
    output::json(format_args!("{:#}", Value::from(list)))
}

/// Runs every experiment and prints one table; the beginning and the end of each is told on stderr.
/// The experiments in virtual time run side by side. That of the hand-over measures this machine,
/// so it runs alone, at the end.
fn summary(watched: bool) -> Result<(), Failure> {
    let one = |e: &Experiment| {
        timed(e.name, e.headline, || reproduce::run(Some(e.name), Extent::Published, &mut progress(watched)))
    };
    let all: Result<Vec<Summed>, Failure> = std::thread::scope(|scope| {
        let running: Vec<_> = EXPERIMENTS.iter().map(|e| scope.spawn(|| one(e))).collect();
        let ended = running.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.collect()
    });
    let mut all = all?;
    all.push(timed(handoff::NAME, handoff::HEADLINE, || {
        let measured = handoff::measure(handoff::Options::SHORT, &mut progress(watched))?;
        Ok(measured.rows().map(|(row, _)| row).collect())
    })?);
    output::print(reproduce::summary(&all))?;
    output::say("`txweir lab reproduce NAME` prints every row of an experiment, with its sources.\n");
    Ok(())
}

/// Runs one experiment, and tells its beginning and its end.
fn timed(
    name: &'static str,
    headline: Headline,
    run: impl FnOnce() -> Result<Vec<Row>, String>,
) -> Result<Summed, Failure> {
    output::say(format_args!("{name} begins\n"));
    let begun = Instant::now();
    let rows = run().map_err(|e| Failure::failed(format!("{name}: {e}")))?;
    output::say(format_args!("{name} ends after {:.1} s\n", begun.elapsed().as_secs_f64()));
    Ok(Summed { name, headline, rows })
}

/// Returns a function that tells the steps of an experiment to a person who watches.
fn progress(watched: bool) -> impl FnMut(&str) {
    move |what| {
        if watched {
            output::say(format_args!("{what}\n"));
        }
    }
}

/// Renders a row as a JSON object.
fn row(r: &Row) -> Value {
    let published =
        r.published.map(|Published { low, high }| if low == high { json!(low) } else { json!([low, high]) });
    json!({
        "experiment": r.experiment,
        "row": r.row,
        "metric": r.metric,
        "unit": r.unit,
        "published": published,
        "law": r.law,
        "measured": r.measured,
        "ratio": r.ratio(),
        "band": r.published.map(|_| r.band.to_string()),
        "within": r.within(),
        "fitted": r.fitted,
        "follows": r.follows,
    })
}

/// Renders a row with several samples as a JSON object.
fn sampled_row(r: &Row, least: f64, most: f64) -> Value {
    let mut value = row(r);
    value["least"] = json!(least);
    value["most"] = json!(most);
    value
}
