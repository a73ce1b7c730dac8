//! `txweir live`: experiments on live links of this machine.

use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use txweir_bench::live::soak::{Soak, soak};
use txweir_bench::live::{Kind, Outcome, Row, reproduce};

use crate::{Failure, output};

/// Options of `txweir live`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Repeat the directions of published results in network namespaces of its own
    Reproduce(ReproduceArgs),
    /// Have frames pass `txweir run` in network namespaces, until so many have come: each report
    /// has to count every frame once, and the memory of the process has to stay as it is
    Soak(SoakArgs),
}

#[derive(Debug, clap::Args)]
struct SoakArgs {
    /// Links: tap or xdp [default: both]
    #[arg(value_parser = PossibleValuesParser::new(SOAKED.map(Kind::word)))]
    link: Option<String>,
    /// Frames that have to come on each kind of links, at least 10
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(10..))]
    frames: u64,
    /// Print JSON instead of a line for each
    #[arg(long)]
    json: bool,
}

/// The kinds of links of a soak.
const SOAKED: [Kind; 2] = [Kind::Tap, Kind::Xdp];

#[derive(Debug, clap::Args)]
struct ReproduceArgs {
    /// Links: tap, xdp or vhost [default: all of them, a minute and a half]
    #[arg(value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::word)))]
    link: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs `txweir live`. A direction that is not as published is a word of the table, because the
/// machine may have other work.
///
/// # Errors
/// An experiment has failed, or the output cannot be written.
pub fn main(args: &Args) -> Result<ExitCode, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::failed(format!("its own path: {e}")))?;
    let program = program.to_str().ok_or_else(|| Failure::failed("its own path is not UTF-8"))?;
    match &args.command {
        Command::Reproduce(args) => {
            let all = of_each(&Kind::ALL, args.link.as_deref(), |kind| reproduce(program, kind));
            match args.json {
                true => output::json(objects(&all, Row::json))?,
                false => output::print(table(&all))?,
            }
            ended(&all)
        }
        Command::Soak(args) => {
            let all = of_each(&SOAKED, args.link.as_deref(), |kind| soak(program, kind, args.frames));
            match args.json {
                true => output::json(objects(&all, Soak::json))?,
                false => output::print(soaked(&all))?,
            }
            ended(&all)
        }
    }
}

/// Runs experiments with each kind of links, or with that of this word.
fn of_each<T>(
    kinds: &[Kind],
    link: Option<&str>,
    run: impl Fn(Kind) -> Outcome<T>,
) -> Vec<(Kind, Outcome<T>)> {
    // A failure is told as one line.
    std::panic::set_hook(Box::new(|_| {}));
    let wanted = kinds.iter().filter(|kind| link.is_none_or(|link| link == kind.word()));
    let all = wanted.map(|kind| (*kind, run(*kind))).collect();
    drop(std::panic::take_hook());
    all
}

/// Returns the first failure of experiments, if one has failed.
fn ended<T>(all: &[(Kind, Outcome<T>)]) -> Result<ExitCode, Failure> {
    let failed = all.iter().find_map(|(kind, outcome)| match outcome {
        Outcome::Failed(text) => Some(Failure::failed(format!("{}: {text}", kind.word()))),
        Outcome::Rows(_) | Outcome::Skipped(_) => None,
    });
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

fn objects<T>(all: &[(Kind, Outcome<T>)], object: impl Fn(&T) -> Value) -> String {
    let each = all.iter().map(|(kind, outcome)| match outcome {
        Outcome::Rows(rows) => {
            json!({ "link": kind.word(), "rows": rows.iter().map(&object).collect::<Vec<_>>() })
        }
        Outcome::Skipped(reason) => json!({ "link": kind.word(), "skipped": reason }),
        Outcome::Failed(reason) => json!({ "link": kind.word(), "failed": reason }),
    });
    json!(each.collect::<Vec<_>>()).to_string()
}

/// Returns the soaks, a line each.
fn soaked(all: &[(Kind, Outcome<Soak>)]) -> String {
    let each = all.iter().map(|(kind, outcome)| match outcome {
        Outcome::Rows(soaks) => soaks.iter().map(soak_line).collect(),
        Outcome::Skipped(reason) => format!("{}: skipped, because {reason}\n", kind.word()),
        // The error has its text.
        Outcome::Failed(_) => String::new(),
    });
    each.collect()
}

fn soak_line(soak: &Soak) -> String {
    let ([came, delivered], [before, after]) = (soak.frames, soak.memory_kib);
    format!(
        "{}: {came} frames came, {delivered} left, each counted once in {} reports; memory {before} KiB after a \
         tenth, {after} KiB at the end; {:.0} s\n",
        soak.link,
        soak.reports,
        soak.time.as_secs_f64()
    )
}

/// Returns the comparisons, a line each, and a line for each kind of link that has none.
fn table(all: &[(Kind, Outcome)]) -> String {
    let mut out = String::from(
        "| link | experiment | quantity | first case | | second case | | ratio | expected | holds |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut others = String::new();
    for (kind, outcome) in all {
        match outcome {
            Outcome::Rows(rows) => rows.iter().for_each(|row| out.push_str(&line(row))),
            Outcome::Skipped(reason) => {
                others.push_str(&format!("{}: skipped, because {reason}\n", kind.word()));
            }
            // The error has its text.
            Outcome::Failed(_) => {}
        }
    }
    out + &others
}

fn line(row: &Row) -> String {
    let [first, second] = row.values;
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {:.2} | {} | {} |\n",
        row.link,
        row.experiment,
        row.quantity,
        row.cases[0],
        rounded(first),
        row.cases[1],
        rounded(second),
        row.ratio(),
        row.expected,
        if row.holds { "yes" } else { "no" }
    )
}

/// Returns a number with three digits or more.
fn rounded(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
