//! Calls of tc: the engine answers, and each line that changes something has its fate.

use std::sync::Arc;

use txweir_tc::ast::Verb;
use txweir_tc::lex::{self, Line};
use txweir_tc::source::Source;
use txweir_tc::tool::{self, Flags, Outcome, Valued};

use super::{Call, Machine, failed};

/// The fate of a tc line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The engine took it.
    Done,
    /// The engine refused it, with the first line of its text.
    Refused(String),
    /// A line of the batch before it was refused.
    NotReached,
}

/// A tc line that changes something, or that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Its words, from the object on.
    pub(crate) words: Vec<String>,
    pub(crate) fate: Fate,
    /// True if the line removes something.
    pub(crate) deletes: bool,
    /// Number of the line in its batch; the last of a line that is continued.
    pub(crate) of_batch: Option<usize>,
}

/// The answer to a call of tc.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// The namespace of the devices.
    pub(crate) netns: String,
    pub(crate) lines: Vec<Ran>,
}

impl Machine {
    /// Answers a call of tc, and returns the lines that it had.
    pub(crate) fn tc(&mut self, call: &Call, netns: &str) -> Answer {
        let (given, args) = without_netns(&call.args);
        let netns = given.unwrap_or_else(|| netns.to_string());
        let Some(host) = self.host(&netns) else {
            let text = format!("Cannot open network namespace \"{netns}\": No such file or directory\n");
            return Answer { outcome: failed(255, text), netns, ..Answer::default() };
        };
        let flags = Flags::read(&args).unwrap_or_default();
        let input = flags.batch.as_deref().zip(call.input.as_deref());
        let batch = input.map(|(name, text)| Source::new(name, text));
        for name in devices(&args).chain(batch.iter().flat_map(|b| b.text.lines().flat_map(named))) {
            host.find(&name);
        }
        let outcome = host.tc(&args, batch.clone());
        let lines = match batch {
            Some(batch) => of_batch(&Arc::new(batch), flags.force, &outcome),
            None => of_call(&args, &flags, &outcome),
        };
        Answer { outcome, netns, lines }
    }
}

/// Takes `-n NAME` out of the options. The value of another option, as of `-cf FILE`, may stand
/// before it.
fn without_netns(args: &[String]) -> (Option<String>, Vec<String>) {
    let (mut netns, mut rest, mut left) = (None, Vec::new(), args);
    while let [option, behind @ ..] = left {
        let valued = Valued::of(option);
        match (valued, behind) {
            (Some(Valued::Netns), [name, behind @ ..]) => (netns, left) = (Some(name.clone()), behind),
            (Some(_), [value, behind @ ..]) => {
                rest.extend([option.clone(), value.clone()]);
                left = behind;
            }
            _ if option.starts_with('-') => {
                rest.push(option.clone());
                left = behind;
            }
            _ => break,
        }
    }
    rest.extend_from_slice(left);
    (netns, rest)
}

/// Returns the words after `dev`.
fn devices(words: &[String]) -> impl Iterator<Item = String> + '_ {
    words.windows(2).filter(|pair| pair[0] == "dev").map(|pair| pair[1].clone())
}

/// Returns the names of devices in a line of a batch.
fn named(line: &str) -> Vec<String> {
    let words: Vec<String> = line.split_whitespace().map(|w| w.trim_matches(['"', '\'']).into()).collect();
    devices(&words).collect()
}

fn of_call(args: &[String], flags: &Flags, outcome: &Outcome) -> Vec<Ran> {
    let words: Vec<String> = args.iter().skip(flags.before).cloned().collect();
    let verb = tool::operation(args);
    let shows = matches!(verb, Some(Verb::Show | Verb::Get)) || verb.is_none() && outcome.status == 0;
    if shows || words.is_empty() {
        return Vec::new();
    }
    let fate = match outcome.status {
        0 => Fate::Done,
        _ => Fate::Refused(first_line(&outcome.stderr)),
    };
    vec![Ran { words, fate, deletes: verb == Some(Verb::Delete), of_batch: None }]
}

fn of_batch(batch: &Arc<Source>, force: bool, outcome: &Outcome) -> Vec<Ran> {
    let head = format!("Command failed {}:", batch.name);
    let mut refused = Vec::new();
    let mut said = None;
    for line in outcome.stderr.lines() {
        match line.strip_prefix(&head).and_then(|n| n.parse::<usize>().ok()) {
            Some(n) => refused.push((n, said.take().unwrap_or_default())),
            None => said = said.or_else(|| Some(line.to_string())),
        }
    }
    let last = refused.first().filter(|_| !force).map(|(n, _)| *n);
    let mut all = Vec::new();
    let mut next = refused.into_iter().peekable();
    for line in lex::lines(batch, 0..batch.text.len()) {
        let (at, words, verb) = match &line {
            Ok(line) => {
                let words = texts(line);
                let verb = tool::operation(&words);
                (line.span().end, words, verb)
            }
            // A line that cannot be split is kept as it is.
            Err(d) => (d.span.start, vec![d.given.clone()], None),
        };
        let number = batch.locate(at).0;
        let mine = next.next_if(|(n, _)| *n == number);
        let fate = match mine {
            Some((_, text)) => Fate::Refused(text),
            None if last.is_some_and(|last| number > last) => Fate::NotReached,
            None => Fate::Done,
        };
        if !matches!(verb, Some(Verb::Show | Verb::Get)) {
            all.push(Ran { words, fate, deletes: verb == Some(Verb::Delete), of_batch: Some(number) });
        }
    }
    all
}

fn texts(line: &Line) -> Vec<String> {
    line.words.iter().map(|w| w.text.clone()).collect()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or("").to_string()
}
