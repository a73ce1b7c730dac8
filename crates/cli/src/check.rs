//! `txweir check`: the effect of a policy on Linux, without a device.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use txweir::Rate;
use txweir::lint::check::{self, CheckOptions, Fact, Report};
use txweir::lint::code;
use txweir::lint::machine::MachineOptions;
use txweir::lint::recording;
use txweir::tc::Severity;
use txweir::tc::json::{self, Object};
use txweir::tc::printable::shortened;
use txweir::tc::suggest::closest;

use crate::failure::{Drawer, SHOWN_MAX};
use crate::script::{self, Script};
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
    #[arg(required_unless_present = "run", conflicts_with = "run")]
    file: Option<PathBuf>,
    #[command(flatten)]
    script: Script,
    /// Rate of the link (100mbit), with which rates are compared and latencies computed; or the
    /// rate of one device (eth0=20mbit), which may be repeated
    #[arg(long, value_name = "[DEV=]RATE")]
    link: Vec<String>,
    /// Leave findings of this code out; may be repeated
    #[arg(long, value_name = "CODE")]
    ignore: Vec<String>,
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
    let options = options(&args)?;
    let (mut report, run) = match &args.file {
        Some(file) => {
            let (name, text) = policy::text(file)?;
            (check::text(&text, &name, &options), None)
        }
        None => of_run(&args, &options).map(|(report, run)| (report, Some(run)))?,
    };
    ignore(&mut report, &args.ignore)?;
    match args.json {
        true => output::json(object(&report, run.as_deref()))?,
        false => print(&report)?,
    }
    let warnings = report.count(Severity::Warning);
    Ok(ExitCode::from(match (report.count(Severity::Error), warnings + report.left_out) {
        (0, 0) => 0,
        (0, _) => WARNINGS,
        _ => ERRORS,
    }))
}

fn options(args: &Args) -> Result<CheckOptions, Failure> {
    let mut options =
        CheckOptions { mtu: args.mtu, txqueuelen: args.txqueuelen, hz: args.hz, ..CheckOptions::default() };
    for text in &args.link {
        match text.split_once('=') {
            Some((device, rate)) if !device.is_empty() => {
                options.links.insert(device.into(), link(text, rate)?);
            }
            _ => options.link = Some(link(text, text)?),
        }
    }
    Ok(options)
}

fn link(given: &str, rate: &str) -> Result<Rate, Failure> {
    let wrong =
        || Failure::usage(format!("--link {given}: expected a rate with its unit (100mbit), at least 8bit"));
    script::rate(rate).ok_or_else(wrong)
}

/// Runs the script, and checks the lines that it ran. Returns an object about the run too.
fn of_run(args: &Args, options: &CheckOptions) -> Result<(Report, String), Failure> {
    // The first device that --link names has the default route.
    let named = args.link.iter().filter_map(|text| text.split_once('=')).map(|(device, _)| device);
    let machine = MachineOptions {
        devices: named.map(|device| (device.to_string(), options.links.get(device).copied())).collect(),
        link: options.link,
        mtu: args.mtu,
        txqueuelen: args.txqueuelen,
        ..MachineOptions::default()
    };
    let (recording, end) = args.script.record(machine)?;
    let mut report = recording.check(&format!("{} (as run)", args.script.name()), options);
    if let Some((severity, message)) = end.problem() {
        report.diagnostics.push(recording::failed(&args.script.run, severity, &message));
    }
    Ok((report, recording.json(end.status())))
}

/// Leaves the findings of these codes out.
fn ignore(report: &mut Report, codes: &[String]) -> Result<(), Failure> {
    for code in codes {
        let known = |known: &&str| known == code;
        if !code::RULES.iter().any(known) {
            let near = closest(code, code::RULES).map(|near| format!("; did you mean {near}?"));
            let near = near.unwrap_or_default();
            return Err(Failure::usage(format!("--ignore {code}: expected a code of docs/check.md{near}")));
        }
        report.diagnostics.retain(|d| d.code != code);
    }
    Ok(())
}

fn object(report: &Report, run: Option<&str>) -> String {
    let object = Object::new()
        .raw("diagnostics", &json::list(report.diagnostics.iter().map(|d| d.json())))
        .raw("facts", &json::list(report.facts.iter().map(Fact::json)))
        .uint("errors", report.count(Severity::Error) as u64)
        .uint("warnings", report.count(Severity::Warning) as u64)
        .uint("lines", report.lines as u64)
        .uint("not_read", report.left_out as u64);
    match run {
        Some(run) => object.raw("run", run),
        None => object,
    }
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
