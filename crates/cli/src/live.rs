//! `txweir live`: experiments on live links of this machine.

use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use serde_json::json;
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
}

#[derive(Debug, clap::Args)]
struct ReproduceArgs {
    /// Links: tap, xdp or vhost [default: all of them, about a minute]
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
    let Command::Reproduce(args) = &args.command;
    let program = std::env::current_exe().map_err(|e| Failure::failed(format!("its own path: {e}")))?;
    let program = program.to_str().ok_or_else(|| Failure::failed("its own path is not UTF-8"))?;
    // A failure is told as one line.
    std::panic::set_hook(Box::new(|_| {}));
    let wanted = |kind: &Kind| args.link.as_ref().is_none_or(|link| link == kind.word());
    let all: Vec<(Kind, Outcome)> =
        Kind::ALL.into_iter().filter(wanted).map(|kind| (kind, reproduce(program, kind))).collect();
    drop(std::panic::take_hook());
    match args.json {
        true => output::json(objects(&all))?,
        false => output::print(table(&all))?,
    }
    let failed = all.iter().find_map(|(kind, outcome)| match outcome {
        Outcome::Failed(text) => Some(Failure::failed(format!("{}: {text}", kind.word()))),
        Outcome::Rows(_) | Outcome::Skipped(_) => None,
    });
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

fn objects(all: &[(Kind, Outcome)]) -> String {
    let each = all.iter().map(|(kind, outcome)| match outcome {
        Outcome::Rows(rows) => {
            json!({ "link": kind.word(), "rows": rows.iter().map(Row::json).collect::<Vec<_>>() })
        }
        Outcome::Skipped(reason) => json!({ "link": kind.word(), "skipped": reason }),
        Outcome::Failed(reason) => json!({ "link": kind.word(), "failed": reason }),
    });
    json!(each.collect::<Vec<_>>()).to_string()
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
