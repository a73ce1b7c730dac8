//! tc lines out of a file: a batch file as `tc -b` reads it, or a shell script whose tc lines can
//! be known without running it.
//!
//! Of a script, this reads comments, assignments, `$VAR`, `${VAR:-default}`, `${VAR:=default}`,
//! `$((A*2))`, quotes, `;`, `&&`, `||`, redirections, continued lines, `exit` and here-documents to
//! `tc -b -`. Nothing is run.
//! A note names each part whose effect only a run can tell (a command's output, `$1`, loops,
//! functions, conditions), and the tc lines that need it are left out.

mod arithmetic;
mod calls;
mod passed;
mod shell;
mod variables;
mod words;

use std::sync::Arc;

use txweir_tc::Policy;
use txweir_tc::diagnostic::{Diagnostic, Diagnostics};
use txweir_tc::lex::{self, Line, Word};
use txweir_tc::source::Source;

use crate::machine::Marking;

/// A tc line, and the network namespace in which it would run.
#[derive(Clone, Debug)]
pub struct TcLine {
    /// Its words, from the object on: `qdisc add ...`. A word that came from a variable has the
    /// span of its written form.
    pub line: Line,
    /// The name in `tc -n NAME` or `ip netns exec NAME tc`.
    pub netns: Option<Word>,
}

/// The tc lines of a file.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The lines in order.
    pub lines: Vec<TcLine>,
    /// Parts that were left out, with the reasons; a batch file's lines that cannot be split are
    /// errors.
    pub notes: Vec<Diagnostic>,
    /// Number of tc lines that were left out. Of a function or loop this is the number in the text,
    /// not of the runs; a batch file that the script names counts as one.
    pub left_out: usize,
    /// True if a part of the script was not evaluated, so that objects may exist that no line
    /// makes.
    pub partial: bool,
    /// The marks and classes that the firewall gives to packets; `None` if that is not known.
    pub marking: Option<Marking>,
}

/// The reason that a text is no policy.
#[derive(Clone, Debug)]
pub enum NoPolicy {
    /// It is neither a batch nor a script with tc lines: the errors as those of a batch.
    Wrong(Diagnostics),
    /// It is a script, and not all of its tc lines can be known without running it.
    NeedsRun(String),
}

/// Reads a policy from a batch file, or from a script whose tc lines can all be known without
/// running it.
///
/// # Errors
/// It is neither.
pub fn policy(name: &str, text: &str) -> Result<Policy, NoPolicy> {
    let wrong = match Policy::parse(text, name) {
        Ok(policy) => return Ok(policy),
        Err(wrong) => wrong,
    };
    let script = read(&Arc::new(Source::new(name, text)));
    if script.lines.is_empty() && script.left_out == 0 {
        return Err(NoPolicy::Wrong(wrong));
    }
    if script.left_out > 0 || script.lines.iter().any(|tc| tc.netns.is_some()) {
        let all = script.lines.len() + script.left_out;
        return Err(NoPolicy::NeedsRun(match script.left_out {
            0 => "has tc lines for network namespaces".to_string(),
            some => format!("{some} of {all} tc lines cannot be known without running it"),
        }));
    }
    let line = |tc: &TcLine| {
        let words: Vec<String> = tc.line.words.iter().map(|w| quoted(&w.text)).collect();
        words.join(" ") + "\n"
    };
    let lines: String = script.lines.iter().map(line).collect();
    // A batch with a mistake has the same one here, and the place in its own text.
    Policy::parse(&lines, &format!("{name} (its tc lines)")).map_err(|again| {
        let same = again.first().message == wrong.first().message;
        NoPolicy::Wrong(if same { wrong } else { again })
    })
}

/// Returns a word as a line of a batch has it.
fn quoted(word: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !"#\\'\"".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false if !word.contains('\'') => format!("'{word}'"),
        false => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

/// Reads a file of either form. It is a shell script if it begins with `#!`, or if one of its lines
/// calls tc by name or sets a variable; else it is a batch file, and every line is tc's.
pub fn read(source: &Arc<Source>) -> Script {
    if is_script(&source.text) {
        return shell::read(source, 0..source.text.len());
    }
    let mut script = Script::default();
    for line in lex::lines(source, 0..source.text.len()) {
        match line {
            Ok(line) => script.lines.push(TcLine { line, netns: None }),
            Err(e) => script.notes.push(e),
        }
    }
    script
}

fn is_script(text: &str) -> bool {
    text.starts_with("#!")
        || text.lines().any(|line| {
            let first = line.split_whitespace().next().unwrap_or("").trim_matches(['"', '\'']);
            let first = first.trim_start_matches(['(', '{']);
            matches!(first, "sudo" | "set" | "ip" | "export" | "readonly" | "local")
                || matches!(first, "if" | "for" | "while" | "case" | "modprobe")
                || first == "tc"
                || first.ends_with("/tc")
                || first.starts_with('$')
                || variables::assigned(first).is_some()
        })
}
