//! The tc lines of a script that was run against a [`Machine`], as one text: a script without
//! variables, loops and functions, which [`check`] reads and a user may keep.
//!
//! Each line has a comment with the number of the call and, if it is known, its place in the
//! script. A line that the machine refused stays in the text unless the script expected that: it
//! removes something, or its errors go to `/dev/null`. Such a line is a comment.

use std::collections::BTreeMap;
use std::sync::Arc;

use txweir_tc::diagnostic::{Diagnostic, Severity};
use txweir_tc::json::Object;
use txweir_tc::source::Source;
use txweir_tc::tool::Outcome;

use crate::check::{self, CheckOptions, Report};
use crate::code;
use crate::machine::{Call, Fate, Machine, MachineOptions, Ran};
use crate::script;

/// Most bytes of the text.
const TEXT_MAX: usize = 16 << 20;

/// A script's calls.
#[derive(Debug)]
pub struct Recording {
    machine: Machine,
    text: String,
    lines: usize,
    refused: Vec<Refused>,
    /// Numbers of calls by the command's name.
    calls: BTreeMap<String, usize>,
    all_calls: usize,
    tc_lines: usize,
    expected: usize,
    cut: bool,
}

/// A line that the machine refused, and that the text has.
#[derive(Debug)]
struct Refused {
    line: usize,
    message: String,
}

impl Recording {
    /// Returns a recording without calls.
    pub fn new(options: &MachineOptions) -> Self {
        Self {
            machine: Machine::new(options),
            text: String::new(),
            lines: 0,
            refused: Vec::new(),
            calls: BTreeMap::new(),
            all_calls: 0,
            tc_lines: 0,
            expected: 0,
            cut: false,
        }
    }

    /// Answers a call, and records its tc lines.
    pub fn call(&mut self, call: &Call) -> Outcome {
        self.all_calls += 1;
        *self.calls.entry(call.program.clone()).or_insert(0) += 1;
        if call.program != "tc" {
            return self.machine.call(call);
        }
        let answer = self.machine.tc(call, call.netns.as_deref().unwrap_or(""));
        for ran in &answer.lines {
            self.record(call, &answer.netns, ran);
        }
        answer.outcome
    }

    fn record(&mut self, call: &Call, netns: &str, ran: &Ran) {
        self.tc_lines += 1;
        let words: Vec<String> = ran.words.iter().map(|w| quoted(w)).collect();
        let netns = if netns.is_empty() { String::new() } else { format!("-n {} ", quoted(netns)) };
        let line = format!("tc {netns}{}", words.join(" "));
        let place = call.at.as_ref().map(|at| format!(", {}", at.replace(['\n', '\r'], " ")));
        let of_batch = ran.of_batch.map(|n| format!(" line {n}"));
        let comment =
            format!("# call {}{}{}", self.all_calls, of_batch.unwrap_or_default(), place.unwrap_or_default());
        let text = match &ran.fate {
            Fate::Done => format!("{line}    {comment}\n"),
            Fate::NotReached => format!("{comment}, not reached: {line}\n"),
            Fate::Refused(_) if call.quiet || ran.deletes => {
                self.expected += 1;
                format!("{comment}, refused as expected: {line}\n")
            }
            Fate::Refused(message) => {
                self.refused.push(Refused { line: self.lines + 1, message: message.clone() });
                format!("{line}    {comment}\n")
            }
        };
        match self.text.len() + text.len() > TEXT_MAX {
            true => self.cut = true,
            false => {
                self.text.push_str(&text);
                self.lines += 1;
            }
        }
    }

    /// Returns the tc lines.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the machine as it is now.
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the machine as it is now, to ask it.
    pub const fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// Returns a JSON object: the script's exit status, `null` for a script that was stopped, and
    /// numbers of calls and of tc lines.
    pub fn json(&self, status: Option<i32>) -> String {
        let calls = self.calls.iter().fold(Object::new(), |o, (name, n)| o.uint(name, *n as u64));
        Object::new()
            .raw("status", &status.map_or_else(|| "null".into(), |status| status.to_string()))
            .raw("calls", &calls.finish())
            .uint("tc_lines", self.tc_lines as u64)
            .uint("refused", self.expected as u64)
            .finish()
    }

    /// Returns the number of calls of all commands.
    pub const fn calls(&self) -> usize {
        self.all_calls
    }

    /// Returns the number of calls of each command, the number of tc lines, and how many of these
    /// were refused as expected.
    pub fn summary(&self) -> String {
        let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let calls: Vec<String> = self.calls.iter().map(|(name, n)| format!("{n} of {name}")).collect();
        let calls = match calls.is_empty() {
            true => "no calls".to_string(),
            false => format!("calls: {}", calls.join(", ")),
        };
        let expected = match self.expected {
            0 => String::new(),
            n => format!(", {n} refused as the script expects"),
        };
        format!("{calls}; {}{expected}", many(self.tc_lines, "tc line"))
    }

    /// Checks the lines. `name` is the name of the text in messages.
    pub fn check(&self, name: &str, options: &CheckOptions) -> Report {
        let source = Arc::new(Source::new(name, self.text.clone()));
        let mut script = script::read(&source);
        script.marking = Some(self.machine.marking().clone());
        let mut report = check::check(&source, script, options);
        // A script may make a device to try something, and remove it.
        let there = |dev: &str| self.machine.devices().any(|nic| nic.name == dev);
        report.facts.retain(|fact| fact.dev.contains('/') || there(&fact.dev));
        for refused in &self.refused {
            let on_line = |d: &Diagnostic| {
                d.severity == Severity::Error && source.locate(d.span.start).0 == refused.line
            };
            if !report.diagnostics.iter().any(on_line) {
                report.diagnostics.push(self.error(&source, refused));
            }
        }
        if self.cut {
            let message =
                format!("the tc lines have more than {TEXT_MAX} bytes: the last ones were not checked");
            report.left_out += 1;
            let end = source.text.len();
            report.diagnostics.push(Diagnostic::error(code::REFUSED, &source, end..end, message));
        }
        report.diagnostics.sort_by_key(|d| d.span.start);
        report
    }

    fn error(&self, source: &Arc<Source>, refused: &Refused) -> Diagnostic {
        let start = self.text.split_inclusive('\n').take(refused.line - 1).map(str::len).sum::<usize>();
        let line = self.text[start..].lines().next().unwrap_or("");
        let words = line.split("    # call ").next().unwrap_or(line);
        let message = match refused.message.as_str() {
            "" => "tc refused this line".to_string(),
            message => {
                // A text of the engine has its code in front, and one of Linux has not.
                let said = message.split_once("]: ").filter(|(head, _)| head.starts_with("error["));
                format!("tc refused this line: {}", said.map_or(message, |(_, said)| said))
            }
        };
        let hint = "send its errors to /dev/null if the script expects this";
        let d = Diagnostic::error(code::REFUSED, source, start..start + words.len(), message);
        d.hint(Some(hint.into()))
    }
}

/// Returns the finding about a script that failed, or that was stopped; `words` is its command
/// line.
pub fn failed(words: &[String], severity: Severity, message: &str) -> Diagnostic {
    let text = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let source = Arc::new(Source::new("--run", text));
    let d = Diagnostic::error(code::SCRIPT_FAILED, &source, 0..source.text.len(), message);
    Diagnostic { severity, ..d }
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let word = word.replace(['\n', '\r'], " ");
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,+=@%^".contains(c) || !c.is_ascii();
    match !word.is_empty() && word.chars().all(plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
