//! `txweir check`: the effect of a policy on Linux, without a device.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use txweir::Rate;
use txweir::core::text::value;
use txweir::lint::check::{self, CheckOptions, Fact, Report};
use txweir::tc::Severity;
use txweir::tc::json::{self, Object};
use txweir::tc::printable::shortened;

use crate::failure::{Drawer, SHOWN_MAX};
use crate::{Failure, output, policy};

/// Exit status for errors.
const ERRORS: u8 = 1;
/// Exit status for warnings, which are likely mistakes, and for tc lines that were not read.
const WARNINGS: u8 = 3;
/// Longest name in a table, in characters; a longer name shows its ends.
const CELL_MAX: usize = 40;

/// Options of `txweir check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 without errors and warnings, 1 for errors, 3 for warnings only, or if a script has tc \
                  lines that check did not read; notes do not count. 2 if the findings cannot be written."
)]
pub struct Args {
    /// A file of tc lines, as `tc -b` reads it, or a shell script that calls tc; - is stdin
    file: PathBuf,
    /// Rate of the link (100mbit), with which rates are compared and latencies computed
    #[arg(long, value_name = "RATE")]
    link: Option<String>,
    /// Largest packet without its link header, bytes
    #[arg(long, value_name = "N", default_value_t = CheckOptions::default().mtu)]
    #[arg(value_parser = clap::value_parser!(u32).range(68..=65_535))]
    mtu: u32,
    /// Length of the device's queue, packets
    #[arg(long, value_name = "N", default_value_t = CheckOptions::default().txqueuelen)]
    txqueuelen: u32,
    /// Ticks per second of a kernel without high-resolution timers: a bucket has to hold one tick
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hz: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `txweir check`.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let (name, text) = policy::text(&args.file)?;
    let link = args.link.as_deref().map(link).transpose()?;
    let options = CheckOptions { link, mtu: args.mtu, txqueuelen: args.txqueuelen, hz: args.hz };
    let report = check::text(&text, &name, &options);
    match args.json {
        true => output::json(object(&report))?,
        false => print(&report)?,
    }
    let warnings = report.count(Severity::Warning);
    Ok(ExitCode::from(match (report.count(Severity::Error), warnings + report.left_out) {
        (0, 0) => 0,
        (0, _) => WARNINGS,
        _ => ERRORS,
    }))
}

fn link(text: &str) -> Result<Rate, Failure> {
    let wrong =
        || Failure::usage(format!("--link {text}: expected a rate with its unit (100mbit), at least 8bit"));
    value::with_unit(text).ok().filter(|r: &Rate| r.0 > 0).ok_or_else(wrong)
}

fn object(report: &Report) -> String {
    Object::new()
        .raw("diagnostics", &json::list(report.diagnostics.iter().map(|d| d.json())))
        .raw("facts", &json::list(report.facts.iter().map(Fact::json)))
        .uint("errors", report.count(Severity::Error) as u64)
        .uint("warnings", report.count(Severity::Warning) as u64)
        .uint("lines", report.lines as u64)
        .uint("not_read", report.left_out as u64)
        .finish()
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut drawer = Drawer::new(std::io::stdout().is_terminal());
    let mut text = Vec::new();
    for d in report.diagnostics.iter().take(SHOWN_MAX) {
        text.extend(drawer.rendered(d));
        text.push(b'\n');
    }
    output::drawn(&text)?;
    let more = report.diagnostics.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        output::print(format_args!("{more} more diagnostics are not shown; --json prints all\n\n"))?;
    }
    if !report.facts.is_empty() {
        output::print(table(&report.facts) + "\n")?;
    }
    let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let (errors, warnings) = (report.count(Severity::Error), report.count(Severity::Warning));
    output::print(format_args!("{}, {}\n", many(errors, "error"), many(warnings, "warning")))?;
    match report.left_out {
        0 => Ok(()),
        n => output::print(format_args!("{n} of {} not read\n", many(report.lines, "tc line"))),
    }
}

/// Renders each leaf and the longest time that a packet waits in it.
fn table(facts: &[Fact]) -> String {
    let head = ["dev", "leaf", "queue", "a packet waits"].map(String::from);
    let row = |f: &Fact| {
        let dev = if f.dev.is_empty() { "-" } else { &f.dev };
        // A width of a format has 16 bits.
        let cell = |text: &str| shortened(text, CELL_MAX).into_owned();
        [cell(dev), cell(&f.place), cell(&f.kind), f.text()]
    };
    let rows: Vec<[String; 4]> = std::iter::once(head).chain(facts.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut text = String::new();
    for [dev, leaf, queue, waits] in &rows {
        let [a, b, c] = widths;
        text.push_str(&format!("{dev:a$}  {leaf:b$}  {queue:c$}  {waits}\n"));
    }
    text
}
