//! The reason that a command ended without doing its work: one clear line, or the places in a text.

use std::fmt::Display;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use ariadne::{Color, Config, IndexType, Label, Report, ReportKind};
use txweir::tc::printable::{clean, clean_in_place, with_short_words};
use txweir::tc::{Diagnostic, Diagnostics, Severity};

use crate::output;

/// Exit status for an input that cannot be read or opened.
const USAGE: u8 = 1;
/// Exit status for a request that was understood and failed.
const FAILED: u8 = 2;

/// Most diagnostics that are shown: more than anybody reads, and few enough for any terminal.
pub const SHOWN_MAX: usize = 1000;

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
            Said::Line(line) => output::say(format_args!("txweir: {}\n", with_short_words(line))),
            Said::Places(all) => {
                let mut drawer = Drawer::new(std::io::stderr().is_terminal());
                for (i, d) in all.iter().take(SHOWN_MAX).enumerate() {
                    if i > 0 {
                        output::say("\n");
                    }
                    output::say_drawn(&drawer.rendered(d));
                }
                let more = all.iter().count().saturating_sub(SHOWN_MAX);
                if more > 0 {
                    output::say(format_args!("\ntxweir: {more} more errors\n"));
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
    output::say_drawn(&Drawer::new(std::io::stderr().is_terminal()).rendered(d));
}

/// A text's name, and its lines.
type Lines = (String, ariadne::Source<String>);

/// Draws diagnostics on a terminal. The lines of a text are found once for all diagnostics about
/// it, so that their cost is that of the text plus that of the drawings.
#[derive(Debug)]
pub struct Drawer {
    terminal: bool,
    colour: bool,
    /// The text of the last diagnostic, and its lines.
    text: Option<(Arc<txweir::tc::Source>, Lines)>,
}

impl Drawer {
    /// Makes a drawer for a terminal, or one that writes plain text.
    pub fn new(terminal: bool) -> Self {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Self { terminal, colour, text: None }
    }

    /// Returns a diagnostic as it is printed, with the end of its last line.
    pub fn rendered(&mut self, d: &Diagnostic) -> Vec<u8> {
        let mut drawn = Vec::new();
        // A drawing has lines as long as those of the text.
        let fits = d.shows_whole_line();
        match self.terminal && fits && self.draw(d, &mut drawn).is_ok() {
            true => drawn,
            false => format!("{d}\n").into_bytes(),
        }
    }

    fn draw(&mut self, d: &Diagnostic, to: &mut Vec<u8>) -> std::io::Result<()> {
        let said = |text: &str| clean(&with_short_words(text)).into_owned();
        let (kind, tint) = match d.severity {
            Severity::Error => (ReportKind::Error, Color::Red),
            Severity::Warning => (ReportKind::Warning, Color::Yellow),
            Severity::Note => (ReportKind::Advice, Color::Cyan),
        };
        let label = match d.expected.as_str() {
            "" => "here".to_string(),
            expected => format!("expected {}", said(expected)),
        };
        let place = (said(&d.source.name), d.span.clone());
        let config = Config::default().with_color(self.colour).with_index_type(IndexType::Byte);
        let mut report = Report::build(kind, place.clone())
            .with_config(config)
            .with_code(d.code)
            .with_message(said(&d.message))
            .with_label(Label::new(place.clone()).with_message(label).with_color(tint));
        if let Some(advice) = d.advice() {
            report = report.with_help(said(&advice));
        }
        report.finish().write(self.lines_of(d, place.0), to)
    }

    fn lines_of(&mut self, d: &Diagnostic, name: String) -> &mut Lines {
        let known = self.text.take().filter(|(of, _)| Arc::ptr_eq(of, &d.source));
        let text = known.unwrap_or_else(|| {
            let lines = ariadne::Source::from(clean_in_place(&d.source.text).into_owned());
            (Arc::clone(&d.source), (name, lines))
        });
        &mut self.text.insert(text).1
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use txweir::tc::Policy;

    fn drawn(text: &str, colour: bool) -> String {
        let all = Policy::parse(text, "p.tc").unwrap_err();
        let mut out = Vec::new();
        let mut drawer = Drawer { terminal: true, colour, text: None };
        drawer.draw(all.first(), &mut out).expect("writing to memory");
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
