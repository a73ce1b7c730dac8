//! Core's refusals in terms of a line: the word at fault, and its replacement.

use std::ops::Range;
use std::sync::Arc;

use txweir_core::sched::spec::Spec;
use txweir_core::text::error::{Object, Reason};
use txweir_core::text::params::Param;
use txweir_core::text::value::Words;
use txweir_core::{ConfigError, Env, ErrorKind};

use crate::ast::{ClassCommand, QdiscCommand};
use crate::diagnostic::{Diagnostic, code};
use crate::kinds::{BEFORE_KIND, spec_of};
use crate::lex::Word;
use crate::source::Source;
use crate::suggest;

/// The parts of a line that a refusal can be about.
pub(crate) struct Said<'a> {
    kind: Option<&'a Word>,
    spec: Option<&'static Spec>,
    options: &'a [Word],
    /// The qdisc's handle, or the class.
    name: Option<&'a Range<usize>>,
    place: Option<&'a Range<usize>>,
    span: &'a Range<usize>,
    params: &'static [Param],
    /// Checks if the kind takes these words, as far as one of them is concerned.
    accepts: fn(&Spec, &mut Words<'_>) -> Result<(), ConfigError>,
}

impl<'a> From<(&Source, &'a QdiscCommand)> for Said<'a> {
    fn from((source, cmd): (&Source, &'a QdiscCommand)) -> Self {
        let spec = cmd.kind.as_ref().and_then(|kind| spec_of(source, kind));
        Self {
            kind: cmd.kind.as_ref(),
            spec,
            options: &cmd.options,
            name: cmd.handle.as_ref().map(|h| &h.span),
            place: cmd.place.as_ref().map(|p| &p.span),
            span: &cmd.span,
            params: spec.map_or(&[], |spec| spec.params),
            accepts: |spec, words| spec.read(words, &Env::default()).map(|_| ()),
        }
    }
}

impl<'a> From<(&Source, &'a ClassCommand)> for Said<'a> {
    fn from((source, cmd): (&Source, &'a ClassCommand)) -> Self {
        let spec = cmd.kind.as_ref().and_then(|kind| spec_of(source, kind));
        let classes = spec.and_then(|spec| spec.classes);
        Self {
            kind: cmd.kind.as_ref(),
            spec,
            options: &cmd.options,
            name: cmd.classid.as_ref().map(|c| &c.span),
            place: cmd.parent.as_ref().map(|p| &p.span),
            span: &cmd.span,
            params: classes.map_or(&[], |classes| classes.params),
            accepts: |spec, words| {
                spec.classes.map_or(Ok(()), |classes| classes.read(words, &Env::default()))
            },
        }
    }
}

/// Returns the diagnostic for the refusal of a command.
pub(crate) fn of<'a, C>(source: &Arc<Source>, cmd: &'a C, err: &ConfigError) -> Diagnostic
where
    for<'s> Said<'a>: From<(&'s Source, &'a C)>,
{
    let cmd = &Said::from((&**source, cmd));
    let key = err.key.as_deref().unwrap_or("");
    let Described { code, message, expected } = describe(err, key);
    let span = span_of(cmd, err, key);
    let mut d = Diagnostic::error(code, source, span, message).expected(expected).hint(err.hint.clone());
    d.reason = err.reason;
    if err.is_given_nothing() {
        d.given.clear();
    }
    match (err.kind, cmd.spec, err.word) {
        (ErrorKind::UnknownKey, Some(spec), Some(at)) => unknown_key(d, cmd, spec, at),
        (ErrorKind::BadValue, Some(spec), Some(at)) => bad_value(d, cmd, spec, at, key),
        (ErrorKind::Conflict, Some(spec), _) if spec.kind == "prio" && key == "priomap" => {
            unsaid_map(d, cmd, &err.given)
        }
        (ErrorKind::Missing | ErrorKind::OutOfRange, Some(spec), _) if spec.kind == "taprio" => {
            unsaid_words(d, cmd, key)
        }
        _ => d,
    }
}

struct Described {
    code: &'static str,
    message: String,
    expected: String,
}

/// Returns the message of an error, and the part of `expected` that it leaves out.
fn describe(err: &ConfigError, key: &str) -> Described {
    let ConfigError { object, expected, given, .. } = err;
    let of_class = matches!(object, Object::Class(Some(_)));
    if let Some(described) = described_by_reason(err, key) {
        return described;
    }
    let named = if key.is_empty() { object.to_string() } else { format!("{object} {key}") };
    let (code, message) = match (err.kind, key) {
        (ErrorKind::UnknownKind, _) => (code::UNKNOWN_KIND, format!("there is no qdisc kind \"{given}\"")),
        (ErrorKind::UnknownKey, _) => (code::UNKNOWN_KEY, format!("{object} has no parameter \"{given}\"")),
        (ErrorKind::BadValue, _) if err.is_given_nothing() => {
            (code::BAD_VALUE, format!("{named} needs a value"))
        }
        (ErrorKind::BadValue, _) => {
            let what = err.expected_noun().unwrap_or("a value for it");
            (code::BAD_VALUE, format!("{named}: \"{given}\" is not {what}"))
        }
        (ErrorKind::OutOfRange, _) => (code::OUT_OF_RANGE, format!("{named}: {given} is out of range")),
        (ErrorKind::NoLinkRate, _) => {
            (code::BAD_VALUE, format!("{named}: {given} of a link whose rate is not known"))
        }
        (ErrorKind::Missing, _) => (code::MISSING, format!("{object} needs {key}")),
        (ErrorKind::Conflict, "") => {
            return Described {
                code: code::CONFLICT,
                message: format!("{object} needs {expected}, given {given}"),
                expected: String::new(),
            };
        }
        (ErrorKind::Conflict, _) => (code::CONFLICT, format!("{named} cannot be {given}")),
        (ErrorKind::NotFound, "classid") => (code::NOT_FOUND, format!("there is no qdisc {given}")),
        (ErrorKind::NotFound, "") if of_class => (code::NOT_FOUND, format!("there is no {object}")),
        (ErrorKind::NotFound, "parent") => (code::NOT_FOUND, format!("there is no class {given}")),
        (ErrorKind::NotFound, _) if err.is_given_nothing() => {
            (code::NOT_FOUND, format!("{object} has no qdisc"))
        }
        (ErrorKind::NotFound, _) => (code::NOT_FOUND, format!("there is no {object}")),
        (ErrorKind::Exists, "handle") => (code::EXISTS, format!("handle {given} is in use")),
        (ErrorKind::Exists, _) => (code::EXISTS, format!("{object} has a qdisc already: {given}")),
        _ => (code::UNSUPPORTED, format!("{object} takes {expected}, given {given}")),
    };
    Described { code, message, expected: expected.clone() }
}

/// Describes the errors that have a reason, like `describe`.
fn described_by_reason(err: &ConfigError, key: &str) -> Option<Described> {
    let ConfigError { object, expected, given, .. } = err;
    let (code, message) = match err.reason? {
        Reason::RootOnly => (code::UNSUPPORTED, format!("{given} is for the root of a device")),
        Reason::Unchangeable => (code::UNSUPPORTED, format!("{object} cannot be changed")),
        Reason::SharedRate => (code::CONFLICT, format!("{object} cannot share: it has {given}")),
        Reason::Alone => {
            let message = format!("{object} {key} needs {expected}");
            return Some(Described { code: code::CONFLICT, message, expected: String::new() });
        }
        Reason::AlreadyThere => {
            let message = format!("{object} is there already");
            return Some(Described { code: code::EXISTS, message, expected: String::new() });
        }
        _ => return None,
    };
    Some(Described { code, message, expected: expected.clone() })
}

/// Returns the span of the word that an error is about.
fn span_of(cmd: &Said<'_>, err: &ConfigError, key: &str) -> Range<usize> {
    let option = |at: usize| cmd.options.get(at).map(|w| w.span.clone());
    let kind = || cmd.kind.map(|k| k.span.clone());
    let name = || cmd.name.cloned();
    let place = || cmd.place.cloned().or_else(name);
    let said = match (err.kind, key) {
        (ErrorKind::UnknownKind, _) | (ErrorKind::Missing, _) | (_, "kind") => kind(),
        (_, "parent") => place(),
        (_, "handle" | "classid") => name(),
        (ErrorKind::NotFound | ErrorKind::Exists | ErrorKind::Conflict, "")
            if matches!(err.object, Object::Class(Some(_))) =>
        {
            name().or_else(place)
        }
        (ErrorKind::NotFound | ErrorKind::Exists | ErrorKind::Unsupported, _) => place(),
        (_, "") => err.word.and_then(option).or_else(kind),
        (_, key) => err.word.or_else(|| value_of(cmd, key, err)).and_then(option).or_else(kind),
    };
    said.unwrap_or_else(|| cmd.span.clone())
}

/// Returns the index of the value given to `key`; of several values, the one in the error.
fn value_of(cmd: &Said<'_>, key: &str, err: &ConfigError) -> Option<usize> {
    let param = cmd.params.iter().find(|p| p.key == key)?;
    let at = cmd.options.iter().position(|w| param.words.contains(&w.text.as_str()))?;
    let values = cmd.options.get(at + 1..).filter(|values| !param.flag && !values.is_empty());
    Some(values.map_or(at, |values| at + 1 + values.iter().position(|w| err.is_given(&w.text)).unwrap_or(0)))
}

/// Returns all words that a kind knows.
fn keys(params: &'static [Param]) -> impl Iterator<Item = &'static str> {
    params.iter().flat_map(|p: &Param| p.words.iter().copied())
}

fn unknown_key(mut d: Diagnostic, cmd: &Said<'_>, spec: &Spec, at: usize) -> Diagnostic {
    let Some(word) = cmd.options.get(at) else { return d };
    let before = at.checked_sub(1).and_then(|at| cmd.options.get(at));
    if let Some(before) = before.filter(|b| suggest::is_number(&b.text) && suggest::is_unit(&word.text)) {
        d.code = code::SPLIT_VALUE;
        d.span = before.span.start..word.span.end;
        d.given = format!("{} {}", before.text, word.text);
        d.message = format!("\"{}\" is two words: a value and its unit are one", d.given);
        d.expected.clear();
        return d.hint(Some("join them".into())).suggest(Some(format!("{}{}", before.text, word.text)));
    }
    if BEFORE_KIND.contains(&word.text.as_str()) {
        return d.hint(Some(format!("\"{}\" goes before the kind", word.text)));
    }
    if spec.kind == "prio"
        && suggest::is_number(&word.text)
        && before.is_some_and(|b| suggest::is_number(&b.text))
    {
        return d.hint(Some("priomap has 16 numbers, one for each priority".into()));
    }
    d.suggest(suggest::closest(&word.text, keys(cmd.params)).map(String::from))
}

/// Explains that the default or earlier map of prio does not fit the given number of bands.
fn unsaid_map(mut d: Diagnostic, cmd: &Said<'_>, band: &str) -> Diagnostic {
    if cmd.options.iter().any(|w| w.text == "priomap") {
        return d;
    }
    d.message = format!("the priomap that is not given leads to band {band}, which is not there");
    d.hint(Some("give it too, as 16 numbers of bands after priomap".into()))
}

/// The words that a taprio needs, in the order in which the engine asks for them.
const TAPRIO_NEEDS: &[&str] = &["num_tc", "queues", "clockid", "sched-entry"];

/// Names all words that a line of taprio lacks. The engine names the first, and takes no queues at
/// all for too few. A change keeps the classes, so that words before the first are no part of it.
fn unsaid_words(mut d: Diagnostic, cmd: &Said<'_>, key: &str) -> Diagnostic {
    let lacks = |word: &str| !cmd.options.iter().any(|w| w.text == word);
    let from = TAPRIO_NEEDS.iter().position(|word| *word == key).filter(|_| lacks(key));
    let Some(needs) = from.and_then(|from| TAPRIO_NEEDS.get(from..)) else { return d };
    let all: Vec<&str> = needs.iter().copied().filter(|&word| lacks(word)).collect();
    d.code = code::MISSING;
    d.message = format!("taprio needs {}", all.join(", "));
    d.given.clear();
    d
}

fn bad_value(mut d: Diagnostic, cmd: &Said<'_>, spec: &Spec, at: usize, key: &str) -> Diagnostic {
    let Some(word) = cmd.options.get(at) else { return d };
    if keys(cmd.params).any(|k| k == word.text) {
        d.message = format!("{} {key} needs a value", spec.kind);
        return d;
    }
    let accepts = |value: &str| {
        let words: Vec<&str> =
            (0..).zip(cmd.options).map(|(i, w)| if i == at { value } else { &w.text }).collect();
        match (cmd.accepts)(spec, &mut Words::new(&words)) {
            Ok(()) => true,
            Err(e) => e.word != Some(at),
        }
    };
    d.suggest(suggest::value(&word.text, accepts))
}
