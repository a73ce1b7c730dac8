//! One line to a [`Command`]: its object, verb and place, and the words that the kind reads.
//! Reading accepts and refuses the lines that tc does, with tc's exit status; the caller that runs
//! the command checks if the named objects exist.

mod actions;
mod class;
pub(crate) mod engine;
mod filter;
mod options;
mod qdisc;
mod reader;
mod run;
pub(crate) mod stab;

use std::ops::Range;
use std::sync::Arc;

use crate::ast::{Command, Verb};
use crate::diagnostic::{Diagnostic, code};
use crate::failure::Failure;
use crate::lex::{Line, Word};
use crate::sentence::Sentence;
use crate::source::Source;
use crate::suggest::closest;

pub(crate) use filter::ends_tc;
pub(crate) use run::{Change, Planning, plan, refused, run, sharing};

/// The objects of tc(8), in the order in which it tries them on an abbreviation.
const OBJECTS: [&str; 7] = ["qdisc", "class", "filter", "chain", "actions", "monitor", "exec"];

/// The verbs of each object, in the order in which tc tries them on an abbreviation.
pub const VERBS: [(&str, &[(&str, Verb)]); 5] = [
    (
        "qdisc",
        &[
            ("add", Verb::Add),
            ("change", Verb::Change),
            ("replace", Verb::Replace),
            ("link", Verb::Link),
            ("delete", Verb::Delete),
            ("list", Verb::Show),
            ("show", Verb::Show),
        ],
    ),
    (
        "class",
        &[
            ("add", Verb::Add),
            ("change", Verb::Change),
            ("replace", Verb::Replace),
            ("delete", Verb::Delete),
            ("list", Verb::Show),
            ("show", Verb::Show),
        ],
    ),
    (
        "filter",
        &[
            ("add", Verb::Add),
            ("change", Verb::Change),
            ("replace", Verb::Replace),
            ("delete", Verb::Delete),
            ("get", Verb::Get),
            ("list", Verb::Show),
            ("show", Verb::Show),
        ],
    ),
    (
        "chain",
        &[
            ("add", Verb::Add),
            ("delete", Verb::Delete),
            ("get", Verb::Get),
            ("list", Verb::Show),
            ("show", Verb::Show),
        ],
    ),
    (
        "actions",
        &[
            ("add", Verb::Add),
            ("change", Verb::Change),
            ("replace", Verb::Replace),
            ("delete", Verb::Delete),
            ("get", Verb::Get),
            ("list", Verb::Show),
            ("show", Verb::Show),
            ("flush", Verb::Flush),
        ],
    ),
];

/// Returns the word that `given` stands for where tc lets words be cut short.
pub(crate) fn whole<'a>(given: &str, mut words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    words.find(|w| !given.is_empty() && w.starts_with(given))
}

/// Reads one line; `tc` in front may be left out.
pub fn parse(source: &Arc<Source>, line: &Line) -> Result<Command, Diagnostic> {
    read(source, line).map_err(|failure| failure.diagnostic)
}

/// Reads one line like [`parse`]; an error has tc's exit status.
pub fn read(source: &Arc<Source>, line: &Line) -> Result<Command, Failure> {
    let head = head(source, line)?;
    let part = Part {
        source,
        verb: head.verb,
        words: head.rest,
        verb_span: verb_span(head.words),
        span: line.span(),
    };
    match head.object {
        "qdisc" => qdisc::read(&part).map(Command::Qdisc),
        "class" => class::read(&part).map(Command::Class),
        "filter" => filter::read(&part).map(Command::Filter),
        "chain" => filter::read_chain(&part).map(Command::Chain),
        _ => actions::read(&part).map(Command::Actions),
    }
}

/// Reads the operation of one line, as [`read`] does.
pub(crate) fn operation(source: &Arc<Source>, line: &Line) -> Result<Verb, Failure> {
    head(source, line).map(|head| head.verb)
}

/// The beginning of a line.
struct Head<'a> {
    object: &'static str,
    verb: Verb,
    /// The words from the object on.
    words: &'a [Word],
    /// The words after the verb.
    rest: &'a [Word],
}

fn head<'a>(source: &Arc<Source>, line: &'a Line) -> Result<Head<'a>, Failure> {
    let mut words = line.words.as_slice();
    if let [tc, rest @ ..] = words
        && tc.text == "tc"
    {
        words = rest;
    }
    let [object, rest @ ..] = words else {
        let err = Diagnostic::error(code::MISSING, source, line.span(), "there is nothing after \"tc\"");
        return Err(Failure::usage(err.expected("qdisc, class, filter, chain or actions")));
    };
    let Some(known) = whole(&object.text, OBJECTS.into_iter()) else {
        return Err(Failure::usage(unknown_object(source, object)));
    };
    let Some((_, verbs)) = VERBS.iter().find(|(name, _)| *name == known) else {
        let message = format!("there is no {known} here");
        let err = Diagnostic::error(code::UNSUPPORTED, source, object.span.clone(), message);
        return Err(Failure::usage(err.expected("qdisc, class, filter, chain or actions")));
    };
    // An object without a verb is listed.
    let (verb, rest) = match rest {
        [] => (Verb::Show, rest),
        [verb, rest @ ..] => (read_verb(source, known, verbs, verb)?, rest),
    };
    Ok(Head { object: known, verb, words, rest })
}

/// The rest of a line after object and verb.
struct Part<'a> {
    source: &'a Arc<Source>,
    verb: Verb,
    words: &'a [Word],
    verb_span: Range<usize>,
    span: Range<usize>,
}

impl Part<'_> {
    /// Returns the text of a span.
    fn text(&self, span: &Range<usize>) -> &str {
        self.source.text.get(span.clone()).unwrap_or("")
    }
    fn error(&self, code: &'static str, span: &Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(code, self.source, span.clone(), message)
    }
}

fn verb_span(words: &[Word]) -> Range<usize> {
    words.get(1).or(words.first()).map_or(0..0, |w| w.span.clone())
}

fn unknown_object(source: &Arc<Source>, object: &Word) -> Diagnostic {
    let message = format!("there is no object \"{}\"", object.text);
    let is_verb =
        VERBS.iter().flat_map(|(_, verbs)| *verbs).any(|(v, _)| *v == object.text || object.text == "del");
    let hint = match object.text.starts_with('-') {
        true => Some("options of tc go before the object, and have no place in a policy".to_string()),
        false => is_verb.then(|| format!("begin with the object: qdisc {}", object.text)),
    };
    let near = closest(&object.text, OBJECTS).filter(|_| hint.is_none()).map(String::from);
    let err = Diagnostic::error(code::UNKNOWN_OBJECT, source, object.span.clone(), message);
    let err = err.expected("qdisc, class, filter, chain or actions").suggest(near).hint(hint);
    err.linux(format!("Object \"{}\" is unknown, try \"tc help\".", object.text))
}

fn read_verb(
    source: &Arc<Source>,
    object: &str,
    verbs: &'static [(&'static str, Verb)],
    word: &Word,
) -> Result<Verb, Failure> {
    if matches!(word.text.as_str(), "ls" | "lst") {
        return Ok(Verb::Show);
    }
    let known = whole(&word.text, verbs.iter().map(|(v, _)| *v));
    if let Some((_, verb)) = verbs.iter().find(|(v, _)| Some(*v) == known) {
        return Ok(*verb);
    }
    let names: Vec<&str> =
        verbs.iter().map(|(v, _)| *v).map(|v| if v == "delete" { "del" } else { v }).collect();
    let near = closest(&word.text, names.iter().copied().chain(["delete"])).map(String::from);
    let message = format!("{object} has no verb \"{}\"", word.text);
    let err = Diagnostic::error(code::UNKNOWN_VERB, source, word.span.clone(), message);
    let err = err.expected(format!("one of {}", names.join(", "))).suggest(near);
    Err(Failure::usage(err.linux(Sentence::UnknownVerb(object, &word.text))))
}
