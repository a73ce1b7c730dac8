//! The part of the shell's language in which tc scripts are written, read without running anything.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use txweir_tc::diagnostic::Diagnostic;
use txweir_tc::lex::{self, Line, Word};
use txweir_tc::source::Source;
use txweir_tc::tool::Valued;

use super::arithmetic;
use super::calls::{calls_tc, tc_of};
use super::passed::Passed;
use super::variables::{Assignment, is_name, unknown};
use super::words::{Raw, Text};
use super::{Script, TcLine};
use crate::code;

/// Most words of a command.
const MOST_WORDS: usize = 4096;
/// Longest `((...))` that is read as arithmetic, in characters.
const LONGEST_ARITHMETIC: usize = 128;
/// The word that stands for `((...))`.
const ARITHMETIC: &str = "((";

/// The words before names of variables, which may be assignments.
const DECLARING: [&str; 5] = ["export", "readonly", "local", "declare", "typeset"];

/// The end of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Line,
    And,
    Or,
    Pipe,
    Text,
}

/// One simple command.
#[derive(Default)]
struct Simple {
    words: Vec<Raw>,
    /// Bodies of here-documents; true if variables in the body are left alone.
    here: Vec<(Range<usize>, bool)>,
}

struct Shell<'a> {
    text: Text<'a>,
    passed: Option<Passed>,
    /// Names of commands in notes already made.
    noted: BTreeSet<String>,
    /// End of the bodies of this line's here-documents.
    here_end: Option<usize>,
    /// True if the command reads the output of another.
    piped: bool,
    script: Script,
}

/// Reads a part of a source as a script.
pub(super) fn read(source: &Arc<Source>, part: Range<usize>) -> Script {
    let mut shell = Shell {
        text: Text::new(source, part),
        passed: None,
        noted: BTreeSet::new(),
        here_end: None,
        piped: false,
        script: Script::default(),
    };
    shell.run();
    shell.script
}

impl Shell<'_> {
    /// Notes a part that cannot be evaluated, of so many tc lines.
    fn leave_out(&mut self, lines: usize, span: Range<usize>, message: String, hint: &str) {
        self.script.left_out += lines;
        self.script.partial = true;
        self.note(span, message, hint);
    }

    fn note(&mut self, span: Range<usize>, message: String, hint: &str) {
        let d = Diagnostic::error(code::NOT_EVALUATED, self.text.source, span, message).note();
        self.script.notes.push(d.hint(Some(hint.to_string()).filter(|h| !h.is_empty())));
    }

    fn run(&mut self) {
        let (mut before, mut conditional) = (End::Line, false);
        while self.text.at < self.text.end {
            let (simple, end) = self.simple();
            let depends = before == End::Or || before == End::And && conditional;
            for (name, value) in std::mem::take(&mut self.text.assigned) {
                if self.passed.as_ref().is_none_or(|passed| passed.in_loop() && value.is_err()) {
                    self.text.give(name, value, depends);
                }
            }
            if simple.words.is_empty() && end == End::Line && before != End::Line {
                // A command goes on behind `&&`, `||` and `|` at the end of a line.
                continue;
            }
            if !simple.words.is_empty() {
                let test = simple.words.first().and_then(Raw::literal);
                let tests = matches!(test, Some("[" | "[[" | "test" | "grep" | "command" | ARITHMETIC));
                self.piped = before == End::Pipe;
                let ends = test == Some("exit") && self.passed.is_none() && before == End::Line;
                self.command(simple, depends);
                if ends {
                    // No line behind it runs.
                    break;
                }
                conditional = tests || before == End::And && conditional;
            }
            before = end;
            if end == End::Line {
                conditional = false;
            }
        }
        if let Some(passed) = self.passed.take() {
            self.close(passed);
        }
    }

    /// Reads to the end of one command, and past it.
    fn simple(&mut self) -> (Simple, End) {
        let mut simple = Simple::default();
        loop {
            let end = match self.text.peek() {
                None => Some(End::Text),
                Some('#') => {
                    self.text.pass_line();
                    None
                }
                Some('\n') => {
                    self.text.take();
                    self.text.at = self
                        .here_end
                        .take()
                        .map_or(self.text.at, |end| end.max(self.text.at))
                        .min(self.text.end);
                    Some(End::Line)
                }
                Some(';') => {
                    while self.text.eat(";") {}
                    Some(End::Line)
                }
                Some('&') if self.text.eat("&&") => Some(End::And),
                Some('&') if self.text.eat("&>") => {
                    self.redirected();
                    None
                }
                Some('&') => {
                    self.text.take();
                    Some(End::Line)
                }
                Some('|') if self.text.eat("||") => Some(End::Or),
                Some('|') => {
                    self.text.take();
                    Some(End::Pipe)
                }
                Some('(') => match self.arithmetic(&simple) {
                    Some(raw) => {
                        simple.words.push(raw);
                        None
                    }
                    None => {
                        self.parenthesis(&simple);
                        Some(End::Line)
                    }
                },
                Some(')') => {
                    self.text.take();
                    self.closes(")");
                    Some(End::Line)
                }
                Some('<' | '>') => {
                    self.redirection(&mut simple);
                    None
                }
                Some('\\') if self.text.eat("\\\n") || self.text.eat("\\\r\n") => None,
                Some(c) if c.is_whitespace() => {
                    self.text.take();
                    None
                }
                Some(_) => {
                    self.add_word(&mut simple);
                    None
                }
            };
            if let Some(end) = end {
                return (simple, end);
            }
        }
    }

    fn add_word(&mut self, simple: &mut Simple) {
        let from = self.text.at;
        let raw = self.text.word();
        // `2>`: the number of a redirected descriptor.
        let number = raw.literal().is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit()));
        if number && matches!(self.text.peek(), Some('<' | '>')) {
            return;
        }
        if self.text.at == from {
            self.text.take();
        } else if simple.words.len() < MOST_WORDS {
            simple.words.push(raw);
        }
    }

    /// Passes `((...))`, the arithmetic of the shell, as a command or behind `for`, and returns the
    /// word that stands for it.
    fn arithmetic(&mut self, simple: &Simple) -> Option<Raw> {
        let is_for = matches!(&simple.words[..], [one] if one.literal() == Some("for"));
        let rest = self.text.rest().strip_prefix("((")?;
        if !is_for && !simple.words.is_empty() {
            return None;
        }
        let mut depth = 2usize;
        for (at, c) in rest.char_indices().take(LONGEST_ARITHMETIC) {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                '\n' | '\'' | '"' | '`' => return None,
                _ => {}
            }
            if depth == 0 {
                // The parentheses that end it stand together; those of subshells need not.
                let inner = rest[..at].strip_suffix(')')?;
                let names: Vec<String> = arithmetic::changed(inner).map(String::from).collect();
                let from = self.text.at;
                self.text.at += 2 + at + 1;
                for name in names {
                    let value = unknown(&name);
                    self.text.assigned.push((name, value));
                }
                return Some(Raw::bare(ARITHMETIC, from..self.text.at));
            }
        }
        None
    }

    /// Passes `(`, which begins a subshell or stands after the name of a function.
    fn parenthesis(&mut self, simple: &Simple) {
        let from = self.text.at;
        self.text.take();
        let name = simple.words.first().filter(|_| simple.words.len() == 1).map(|w| w.span.clone());
        if let (Some(span), true) = (name, self.text.rest().trim_start().starts_with(')')) {
            while self.text.take().is_some_and(|c| c != ')') {}
            while self.text.peek().is_some_and(char::is_whitespace) {
                self.text.take();
            }
            if self.text.eat("{") {
                self.opens("}", Word { text: "a function".into(), span });
            }
            return;
        }
        self.opens(")", Word { text: "a subshell".into(), span: from..from + 1 });
    }

    fn redirection(&mut self, simple: &mut Simple) {
        if self.text.eat("<<<") {
            self.redirected();
            return;
        }
        if !self.text.eat("<<") {
            while matches!(self.text.peek(), Some('<' | '>' | '&' | '|')) {
                self.text.take();
            }
            self.redirected();
            return;
        }
        let tabs = self.text.eat("-");
        while matches!(self.text.peek(), Some(' ' | '\t')) {
            self.text.take();
        }
        let raw = self.text.word();
        let written = self.text.source.text.get(raw.span.clone()).unwrap_or("");
        let plain = raw.pieces.iter().any(|p| p.quoted) || written.contains('\\');
        let delimiter = raw.words().ok().and_then(|w| Some(w.first()?.text.clone())).unwrap_or_default();
        let text = &self.text.source.text[..self.text.end];
        let start = match self.here_end {
            Some(end) => end.min(self.text.end),
            None => text[self.text.at..].find('\n').map_or(self.text.end, |n| self.text.at + n + 1),
        };
        let (mut body_end, mut at) = (self.text.end, start);
        let mut after = self.text.end;
        for line in text[start..].split_inclusive('\n') {
            let bare = line.trim_end_matches(['\n', '\r']);
            if (if tabs { bare.trim_start_matches('\t') } else { bare }) == delimiter {
                (body_end, after) = (at, at + line.len());
                break;
            }
            at += line.len();
        }
        self.here_end = Some(after);
        simple.here.push((start..body_end, plain));
    }

    /// Passes the word that names the target of a redirection.
    fn redirected(&mut self) {
        while matches!(self.text.peek(), Some(' ' | '\t')) {
            self.text.take();
        }
        if self.text.peek().is_some_and(|c| !c.is_whitespace() && !";|&()<>#".contains(c)) {
            self.text.word();
        }
    }

    /// Evaluates one command.
    fn command(&mut self, simple: Simple, depends: bool) {
        let first = simple.words.first().and_then(Raw::literal).unwrap_or("").to_string();
        if self.compound(&first, &simple) {
            return;
        }
        let mut words = simple.words.as_slice();
        let mut given = Vec::new();
        let mut declares = false;
        while let [word, rest @ ..] = words {
            match word.assignment() {
                Some(assignment) => given.push(assignment),
                // Names and options: `export DEV`, `declare -ri`.
                None if declares => {}
                None if DECLARING.contains(&word.literal().unwrap_or("")) => declares = true,
                None => break,
            }
            words = rest;
        }
        if words.is_empty() {
            given.into_iter().for_each(|assignment| self.text.assign(assignment, depends));
            return;
        }
        // Assignments before a command are for that command alone.
        self.text.changes(words, depends);
        self.call(words, &simple.here, depends);
    }

    /// Returns true if the command opens, is within or closes a compound command.
    fn compound(&mut self, first: &str, simple: &Simple) -> bool {
        let closer = match first {
            "if" => "fi",
            "for" | "while" | "until" | "select" => "done",
            "case" => "esac",
            "{" => "}",
            "function" => "}",
            _ => "",
        };
        if !closer.is_empty() {
            let span = simple.words.first().map_or(0..0, |w| w.span.clone());
            // The brace of `function name {` is one of its own words.
            self.opens(closer, Word { text: format!("\"{first}\""), span });
            // A tc line may be the condition itself, or stand behind the brace.
            let has_command = matches!(first, "if" | "while" | "until" | "{");
            self.within(&simple.words, has_command);
            return true;
        }
        if matches!(first, "fi" | "done" | "esac" | "}") {
            self.closes(first);
            return true;
        }
        if self.passed.is_none() {
            return false;
        }
        // `then tc ...`: the command may stand after the word.
        let skip = usize::from(matches!(first, "then" | "do" | "else" | "elif" | "!"));
        let inner = simple.words.get(skip).and_then(Raw::literal).unwrap_or("").to_string();
        self.within(&simple.words, true);
        if skip == 1 && matches!(inner.as_str(), "if" | "for" | "while" | "until" | "case") {
            let rest = Simple { words: Vec::new(), here: Vec::new() };
            self.compound(&inner, &rest);
        }
        true
    }

    /// Counts the tc line that a command within a compound command is, and notes the variables that
    /// each turn of a loop changes.
    fn within(&mut self, words: &[Raw], has_command: bool) {
        let Some(passed) = &mut self.passed else { return };
        passed.lines += usize::from(has_command && calls_tc(words));
        if !passed.in_loop() {
            return;
        }
        let mut names = Vec::new();
        if let Some("for" | "select") = words.first().and_then(Raw::literal) {
            let name = words.get(1).and_then(Raw::literal).filter(|name| is_name(name));
            names.extend(name.map(String::from));
        }
        for raw in words {
            let Some(Assignment { name, appends, .. }) = raw.assignment() else { continue };
            // `N=$((N+1))` gives another value in each turn.
            let written = self.text.source.text.get(raw.span.clone()).unwrap_or("");
            let mut read = written.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').skip(1);
            if appends || read.any(|word| word == name) {
                names.push(name);
            }
        }
        for name in names {
            let value = unknown(&name);
            self.text.give(name, value, false);
        }
    }

    fn opens(&mut self, closer: &'static str, opener: Word) {
        self.passed.get_or_insert_with(|| Passed::new(opener)).open(closer);
    }

    fn closes(&mut self, closer: &str) {
        if let Some(passed) = self.passed.take_if(|passed| passed.close(closer)) {
            self.close(passed);
        }
    }

    fn close(&mut self, passed: Passed) {
        let Word { text, span } = passed.opener;
        if passed.lines > 0 {
            let many = if passed.lines == 1 { "1 tc line" } else { &format!("{} tc lines", passed.lines) };
            let message = format!("cannot evaluate {text}: {many} within it left out");
            self.leave_out(passed.lines, span, message, "write the tc lines out, without it");
        }
    }

    /// Evaluates a command and its arguments.
    fn call(&mut self, raws: &[Raw], here: &[(Range<usize>, bool)], depends: bool) {
        let mut words = Vec::new();
        let mut unknown = None;
        for raw in raws {
            match raw.words() {
                Ok(more) => words.extend(more),
                Err(why) if unknown.is_none() => {
                    unknown = Some((raw.span.clone(), why, words.is_empty()));
                    words.push(Word { text: String::new(), span: raw.span.clone() });
                }
                Err(_) => {}
            }
        }
        let Some((netns, words)) = tc_of(&words) else {
            return match unknown {
                Some((span, why, true)) => {
                    let lines = usize::from(calls_tc(raws));
                    self.leave_out(lines, span, format!("cannot evaluate {why}: this line is left out"), "");
                }
                _ => self.other(&words, raws),
            };
        };
        let span = raws.first().map_or(0..0, |r| r.span.clone());
        if let Some((span, why, _)) = unknown {
            self.leave_out(
                1,
                span,
                format!("cannot evaluate {why}: this line is left out"),
                "give it a value in the file",
            );
        } else if depends {
            let message = "this line runs only if the one before it fails or holds: left out".to_string();
            self.script.left_out += 1;
            self.note(span, message, "");
        } else {
            self.tc(netns, words, here);
        }
    }

    fn other(&mut self, words: &[Word], raws: &[Raw]) {
        const SILENT: [&str; 22] = [
            "set", "echo", "printf", "true", "false", ":", "exit", "sleep", "trap", "return", "cd", "unset",
            "wait", "[", "[[", "test", "shift", "umask", "read", "getopts", "let", ARITHMETIC,
        ];
        let Some(first) = words.first() else { return };
        if SILENT.contains(&first.text.as_str()) {
            return;
        }
        // `... | xargs tc qdisc add` calls tc too.
        let calls = calls_tc(raws);
        self.script.left_out += usize::from(calls);
        if self.piped && !calls || !self.noted.insert(first.text.clone()) {
            return;
        }
        let message = match (first.text.as_str(), words.get(1)) {
            ("." | "source", Some(file)) => {
                format!("\"{}\" is not read: the lines of that file are left out", file.text)
            }
            _ => format!("\"{}\" is not tc: its lines are left out", first.text),
        };
        self.note(first.span.clone(), message, "");
    }

    /// Reads `tc [OPTIONS] OBJECT ...`, after the word `tc`.
    fn tc(&mut self, mut netns: Option<Word>, words: &[Word], here: &[(Range<usize>, bool)]) {
        let mut words = words;
        let mut batch = None;
        while let [option, rest @ ..] = words {
            if !option.text.starts_with('-') {
                break;
            }
            let valued = Valued::of(&option.text);
            let (value, behind) = match (valued, rest) {
                (Some(_), [value, behind @ ..]) => (Some(value), behind),
                _ => (None, rest),
            };
            match valued {
                Some(Valued::Netns) => netns = value.cloned().or(netns),
                Some(Valued::Batch) => batch = Some((option, value)),
                Some(Valued::ClassNames) | None => {}
            }
            words = behind;
        }
        if let Some((option, file)) = batch {
            self.batch(option, file, here, netns);
        } else if !words.is_empty() {
            self.script.lines.push(TcLine { line: Line { words: words.to_vec() }, netns });
        }
    }

    /// Reads `tc -b FILE`, `tc -b -`.
    fn batch(
        &mut self,
        option: &Word,
        file: Option<&Word>,
        here: &[(Range<usize>, bool)],
        netns: Option<Word>,
    ) {
        let stdin = file.is_none_or(|f| f.text == "-" || f.text == "/dev/stdin");
        let Some((body, plain)) = here.first().filter(|_| stdin) else {
            let from = file.filter(|_| !stdin).map_or("its standard input", |f| &f.text);
            let message = format!("cannot evaluate tc -b: the lines of {from} are left out");
            return self.leave_out(1, option.span.clone(), message, "check that file too");
        };
        if *plain {
            for line in lex::lines(self.text.source, body.clone()) {
                match line {
                    Ok(line) => self.script.lines.push(TcLine { line, netns: netns.clone() }),
                    Err(e) => self.script.notes.push(e),
                }
            }
            return;
        }
        let (at, end, here_end) = (self.text.at, self.text.end, self.here_end.take());
        (self.text.at, self.text.end) = (body.start, body.end);
        while self.text.at < self.text.end {
            let (simple, _) = self.simple();
            if simple.words.is_empty() {
                continue;
            }
            let words: Result<Vec<_>, _> = simple.words.iter().map(Raw::words).collect();
            match words {
                Ok(words) => {
                    let line = Line { words: words.into_iter().flatten().collect() };
                    if !line.words.is_empty() {
                        self.script.lines.push(TcLine { line, netns: netns.clone() });
                    }
                }
                Err(why) => {
                    let span = simple.words.first().map_or(0..0, |w| w.span.clone());
                    self.leave_out(1, span, format!("cannot evaluate {why}: this line is left out"), "");
                }
            }
        }
        (self.text.at, self.text.end, self.here_end) = (at, end, here_end);
    }
}
