//! The reason that a command ended without doing its work: one clear line, or the places in a text.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use ariadne::{Color, Config, IndexType, Label, Report, ReportKind};
use txweir::tc::{Diagnostic, Diagnostics, Severity};

/// Exit status for an input that cannot be read or opened.
const USAGE: u8 = 1;
/// Exit status for a request that was understood and failed.
const FAILED: u8 = 2;

/// The reason that a command failed, and its exit status.
#[derive(Debug)]
pub struct Failure {
    said: Said,
    status: u8,
}

#[derive(Debug)]
enum Said {
    Line(String),
    Places(Diagnostics),
}

impl Failure {
    /// A failure to read or open an option, a file or an interface. Exit status 1.
    pub fn usage(line: impl Display) -> Self {
        Self { said: Said::Line(line.to_string()), status: USAGE }
    }

    /// A later failure of a request that was understood. Exit status 2.
    #[allow(dead_code, reason = "for the subcommands that do something that can fail late")]
    pub fn failed(line: impl Display) -> Self {
        Self { said: Said::Line(line.to_string()), status: FAILED }
    }

    /// Reports the failure on stderr.
    pub fn report(self) -> ExitCode {
        match &self.said {
            Said::Line(line) => {
                // An error of stderr cannot be reported anywhere.
                let _ = writeln!(std::io::stderr(), "txweir: {line}");
            }
            Said::Places(all) => {
                for (i, d) in all.iter().enumerate() {
                    if i > 0 {
                        let _ = writeln!(std::io::stderr());
                    }
                    say(d);
                }
            }
        }
        ExitCode::from(self.status)
    }
}

impl From<Diagnostics> for Failure {
    fn from(all: Diagnostics) -> Self {
        Self { said: Said::Places(all), status: USAGE }
    }
}

impl From<Diagnostic> for Failure {
    fn from(one: Diagnostic) -> Self {
        Diagnostics::from(one).into()
    }
}

/// Prints a diagnostic on stderr: on a terminal drawn and, unless NO_COLOR is set, coloured;
/// elsewhere plain.
pub fn say(d: &Diagnostic) {
    let mut stderr = std::io::stderr();
    let text = rendered(d, stderr.is_terminal());
    // An error of stderr cannot be reported anywhere.
    let _ = stderr.write_all(&text);
}

/// Returns a diagnostic as it is printed, for a terminal or not, with the end of its last line.
pub fn rendered(d: &Diagnostic, terminal: bool) -> Vec<u8> {
    let mut drawn = Vec::new();
    let colour = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    match terminal && draw(d, colour, &mut drawn).is_ok() {
        true => drawn,
        false => format!("{d}\n").into_bytes(),
    }
}

fn draw(d: &Diagnostic, colour: bool, to: &mut Vec<u8>) -> std::io::Result<()> {
    let name = d.source.name.clone();
    let place = (name.clone(), d.span.clone());
    let (kind, tint) = match d.severity {
        Severity::Error => (ReportKind::Error, Color::Red),
        Severity::Warning => (ReportKind::Warning, Color::Yellow),
        Severity::Note => (ReportKind::Advice, Color::Cyan),
    };
    let label = match d.expected.as_str() {
        "" => "here".to_string(),
        expected => format!("expected {expected}"),
    };
    let config = Config::default().with_color(colour).with_index_type(IndexType::Byte);
    let mut report = Report::build(kind, place.clone())
        .with_config(config)
        .with_code(d.code)
        .with_message(&d.message)
        .with_label(Label::new(place).with_message(label).with_color(tint));
    if let Some(advice) = d.advice() {
        report = report.with_help(advice);
    }
    report.finish().write(ariadne::sources([(name, d.source.text.as_str())]), to)
}

/// Prints clap's message about the arguments in one line; or the help, for an incomplete command
/// line.
pub fn of_arguments(e: &clap::Error) -> ExitCode {
    if e.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = e.print();
        return ExitCode::from(USAGE);
    }
    Failure::usage(in_one_line(&e.render().to_string())).report()
}

/// Removes the usage, and a tip that is wrong for every option here: only options begin with a
/// dash.
fn in_one_line(text: &str) -> String {
    let said = text.split("\nUsage:").next().unwrap_or(text);
    let said = said.split("\nFor more information").next().unwrap_or(said);
    let said = said.split("\n  tip: to pass '").next().unwrap_or(said);
    let words: Vec<&str> = said.trim_start_matches("error:").split_whitespace().collect();
    words.join(" ").replacen(" tip: ", "; ", 1)
}

/// Makes a command end silently once the reader of its output has gone (`txweir kinds | head -1`):
/// printing would panic.
pub fn end_quietly_without_a_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let said = info.payload_as_str().unwrap_or("");
        if said.starts_with("failed printing to stdout") && said.contains("Broken pipe") {
            std::process::exit(0);
        }
        usual(info);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir::tc::Policy;

    fn drawn(text: &str, colour: bool) -> String {
        let all = Policy::parse(text, "p.tc").unwrap_err();
        let mut out = Vec::new();
        draw(all.first(), colour, &mut out).expect("writing to memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn what_clap_says_is_one_line_and_gives_no_false_advice() {
        let said = "error: unexpected argument '-1' found\n\n  tip: to pass '-1' as a value, use '-- -1'\n\nUsage: x\n";
        assert_eq!(in_one_line(said), "unexpected argument '-1' found");
        let said = "error: unexpected argument '--jso' found\n\n  tip: a similar argument exists: '--json'\n\nUsage: x\n";
        assert_eq!(
            in_one_line(said),
            "unexpected argument '--jso' found; a similar argument exists: '--json'"
        );
    }

    #[test]
    fn a_drawing_points_at_the_word() {
        assert_eq!(
            drawn("# ç\nqdisc add root pfifo limt 100", false),
            "\
[unknown-key] Error: pfifo has no parameter \"limt\"
   ╭─[ p.tc:2:22 ]
   │
 2 │ qdisc add root pfifo limt 100
   │                      ──┬─  
   │                        ╰─── expected one of limit
   │ 
   │ Help: did you mean \"limit\"?
───╯
"
        );
        assert!(drawn("qdisc add root pfifo limt 100", true).contains('\u{1b}'));
    }

    #[test]
    fn any_span_is_drawn() {
        for text in ["qdisc", "qdisc add 'x", "\u{1}\t\tclass", "qdisc add root fq_codel target 5 \\\n ms"] {
            assert!(drawn(text, false).contains("Error"), "{text:?}");
        }
    }
}
