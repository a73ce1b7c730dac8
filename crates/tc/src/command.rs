//! One line to a `Command`: which object, which verb, where, and the words that the kind is to read.

use std::ops::Range;
use std::sync::Arc;

use txweir_core::cx::Cx;
use txweir_core::handle::HandleError;
use txweir_core::qdisc::KINDS;
use txweir_core::spec::Spec;
use txweir_core::value::Words;
use txweir_core::{ConfigError, ErrorKind, Handle, Tree};

use crate::diagnostic::{Diagnostic, code};
use crate::lex::{Line, Word};
use crate::refusal;
use crate::source::Source;
use crate::suggest::closest;

/// A command, by the object that it is about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Command {
    /// `qdisc ...`
    Qdisc(QdiscCommand),
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Put something where nothing is.
    Add,
    /// Put something where something may be.
    Replace,
    /// Give something that is there other options.
    Change,
    /// Take something away.
    Delete,
}

/// Where a qdisc is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the root, or below a class: what `Tree` calls the parent.
    Below(Handle),
    /// Wherever the qdisc of this handle is.
    Handle(Handle),
}

/// A `qdisc` command. Every part knows where it was said.
#[derive(Clone, Debug)]
pub struct QdiscCommand {
    /// What to do.
    pub verb: Verb,
    /// On which device, if that was said.
    pub dev: Option<Word>,
    /// Where.
    pub place: Place,
    /// The qdisc's handle, if given.
    pub handle: Option<Handle>,
    /// The kind; only `del` may leave it out.
    pub kind: Option<Word>,
    /// The words after the kind, keys that tc lets be cut short written out.
    pub options: Vec<Word>,
    /// Where the place was said.
    pub(crate) place_span: Range<usize>,
    /// Where the handle was said.
    pub(crate) handle_span: Option<Range<usize>>,
    /// The whole command.
    pub(crate) span: Range<usize>,
}

/// The objects of tc(8), in the order in which it tries them on an abbreviation.
const OBJECTS: [&str; 7] = ["qdisc", "class", "filter", "chain", "actions", "monitor", "exec"];

/// The verbs of `tc qdisc`, in the order in which it tries them on an abbreviation.
const VERBS: [(&str, Option<Verb>); 8] = [
    ("add", Some(Verb::Add)),
    ("change", Some(Verb::Change)),
    ("replace", Some(Verb::Replace)),
    ("link", None),
    ("delete", Some(Verb::Delete)),
    ("list", None),
    ("show", None),
    ("help", None),
];

/// Words before the kind that tc knows and nothing here does.
const NOT_THERE: [&str; 6] = ["ingress", "clsact", "estimator", "stab", "ingress_block", "egress_block"];

/// Words before the kind.
pub(crate) const BEFORE_KIND: [&str; 4] = ["dev", "root", "parent", "handle"];

/// Keys that tc lets be cut short, in the order in which it tries them.
const CUT_SHORT: [(&str, &[&str]); 1] = [("tbf", &["limit", "latency", "burst", "peakrate", "overhead"])];

/// The word that `given` stands for where tc lets words be cut short.
fn whole<'a>(given: &str, mut words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    words.find(|w| !given.is_empty() && w.starts_with(given))
}

/// Reads one line.
pub fn parse(source: &Arc<Source>, line: &Line) -> Result<Command, Diagnostic> {
    let mut words = line.words.as_slice();
    if let [tc, rest @ ..] = words
        && tc.text == "tc"
    {
        words = rest;
    }
    let [object, rest @ ..] = words else {
        let err = Diagnostic::error(code::MISSING, source, line.span(), "there is nothing after \"tc\"");
        return Err(err.expected("qdisc"));
    };
    match whole(&object.text, OBJECTS.into_iter()) {
        Some("qdisc") => QdiscCommand::parse(source, line, rest).map(Command::Qdisc),
        Some(known) => {
            let message = format!("there are no {known} commands yet: only qdisc commands");
            let hint = (known == "class")
                .then(|| "classes come with their qdisc: prio has 1:1 to 1:BANDS, tbf has 1:1".to_string());
            Err(Diagnostic::error(code::UNSUPPORTED, source, object.span.clone(), message).hint(hint))
        }
        None => {
            let message = format!("there is no object \"{}\"", object.text);
            let hint = match object.text.starts_with('-') {
                true => Some("options of tc have no place in a policy".to_string()),
                false => VERBS
                    .iter()
                    .any(|(v, _)| *v == object.text || object.text == "del")
                    .then(|| format!("begin with the object: qdisc {}", object.text)),
            };
            let near = closest(&object.text, ["qdisc"]).filter(|_| hint.is_none()).map(String::from);
            let err = Diagnostic::error(code::UNKNOWN_OBJECT, source, object.span.clone(), message);
            Err(err.expected("qdisc").suggest(near).hint(hint))
        }
    }
}

/// The parts of a command as far as they are read.
#[derive(Default)]
struct Parts {
    dev: Option<Word>,
    place: Option<(Place, Range<usize>)>,
    handle: Option<(Handle, Range<usize>)>,
    kind: Option<Word>,
    options: Vec<Word>,
}

impl QdiscCommand {
    fn parse(source: &Arc<Source>, line: &Line, words: &[Word]) -> Result<Self, Diagnostic> {
        let span = line.span();
        let [verb, rest @ ..] = words else {
            let err = Diagnostic::error(code::MISSING, source, span, "there is no verb after \"qdisc\"");
            return Err(err.expected("add, replace, change or del"));
        };
        let (verb, verb_span) = (read_verb(source, verb)?, verb.span.clone());
        let mut parts = Parts::default();
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            if parts.read(source, word, &mut rest)? {
                continue;
            }
            parts.kind = Some(word.clone());
            parts.options = rest.by_ref().cloned().collect();
        }
        parts.finish(source, verb, verb_span, span)
    }

    /// Does it. An error leaves the tree as it was.
    pub(crate) fn run(&self, tree: &mut Tree, cx: &mut Cx) -> Result<(), ConfigError> {
        let parent = match self.place {
            Place::Below(parent) => parent,
            Place::Handle(handle) => tree.parent_of(handle)?,
        };
        let kind = self.kind.as_ref().map(|k| k.text.as_str());
        let options: Vec<&str> = self.options.iter().map(|w| w.text.as_str()).collect();
        let words = &mut Words::new(&options);
        match (self.verb, kind) {
            (Verb::Add, Some(kind)) => tree.add(parent, self.handle, kind, words, cx).map(|_| ()),
            (Verb::Replace, Some(kind)) => tree.replace(parent, self.handle, kind, words, cx).map(|_| ()),
            (Verb::Change, _) => {
                self.is_present(tree, parent, None)?;
                tree.change(parent, kind, words, cx)
            }
            (Verb::Delete, kind) => {
                self.is_present(tree, parent, kind)?;
                tree.delete(parent, cx)
            }
            // `finish` has refused these.
            (Verb::Add | Verb::Replace, None) => {
                Err(ConfigError::new(ErrorKind::Missing, "qdisc", "a kind", "").key("kind"))
            }
        }
    }

    /// Whether the qdisc there is the one named, by handle and kind as far as given.
    fn is_present(&self, tree: &Tree, parent: Handle, kind: Option<&str>) -> Result<(), ConfigError> {
        let mut present = None;
        tree.visit(&mut |place, node| {
            if place.parent == parent && !node.handle().is_none() {
                present = Some((node.handle(), node.qdisc().spec().kind));
            }
        });
        // Where nothing is, the tree itself says so.
        let Some((handle, present_kind)) = present else { return Ok(()) };
        if let Some(given) = self.handle.filter(|h| h.qdisc() != handle) {
            let err =
                ConfigError::new(ErrorKind::Conflict, "qdisc", format!("{handle}, which is there"), given);
            return Err(err.key("handle"));
        }
        match kind.filter(|k| *k != present_kind) {
            None => Ok(()),
            Some(given) => {
                let expected = format!("{present_kind}, which is there");
                Err(ConfigError::new(ErrorKind::Conflict, "qdisc", expected, given).key("kind"))
            }
        }
    }

    /// The kind's entry in the registry, if a kind is given.
    pub(crate) fn spec(&self) -> Option<&'static Spec> {
        self.kind.as_ref().and_then(spec_of)
    }
}

fn spec_of(kind: &Word) -> Option<&'static Spec> {
    KINDS.iter().copied().find(|s| s.kind == kind.text)
}

impl Parts {
    /// Reads a word, and what belongs to it, if it may stand before the kind.
    fn read<'a>(
        &mut self,
        source: &Arc<Source>,
        word: &Word,
        rest: &mut impl Iterator<Item = &'a Word>,
    ) -> Result<bool, Diagnostic> {
        let twice = |said: bool| match said {
            false => Ok(()),
            true => {
                let message = format!("\"{}\" says a second time what was said before", word.text);
                Err(Diagnostic::error(code::CONFLICT, source, word.span.clone(), message))
            }
        };
        match word.text.as_str() {
            "root" => {
                twice(self.place.is_some())?;
                self.place = Some((Place::Below(Handle::ROOT), word.span.clone()));
            }
            "dev" => {
                twice(self.dev.is_some())?;
                self.dev = Some(argument(source, word, rest.next(), "a device's name")?.clone());
            }
            "parent" => {
                twice(self.place.is_some())?;
                let (handle, span) = handle(source, word, rest.next(), "a class, MAJOR:MINOR, or root")?;
                self.place = Some((Place::Below(handle), span));
            }
            "handle" => {
                twice(self.handle.is_some())?;
                self.handle = Some(handle(source, word, rest.next(), "a qdisc's handle, MAJOR:")?);
            }
            other if NOT_THERE.contains(&other) => {
                let message = format!("\"{other}\" is not there yet");
                return Err(Diagnostic::error(code::UNSUPPORTED, source, word.span.clone(), message));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks that nothing is missing or too much.
    fn finish(
        self,
        source: &Arc<Source>,
        verb: Verb,
        verb_span: Range<usize>,
        span: Range<usize>,
    ) -> Result<QdiscCommand, Diagnostic> {
        let Self { dev, place, handle, kind, options } = self;
        // First, because it may be another word mistyped.
        if let Some(kind) = kind.as_ref().filter(|k| spec_of(k).is_none()) {
            return Err(refusal::unknown_kind(source, kind));
        }
        let by_handle = matches!(verb, Verb::Change | Verb::Delete);
        let (place, place_span) = match (place, &handle) {
            (Some(place), _) => place,
            (None, Some((handle, span))) if by_handle => (Place::Handle(*handle), span.clone()),
            _ => {
                let message = "this does not say where";
                let err = Diagnostic::error(code::MISSING, source, verb_span, message);
                return Err(err.expected("root, or parent MAJOR:MINOR"));
            }
        };
        match (verb, &kind, options.as_slice()) {
            (Verb::Delete, _, [first, ..]) => {
                let message = "del takes no options";
                return Err(Diagnostic::error(code::UNEXPECTED_WORD, source, first.span.clone(), message));
            }
            (Verb::Delete, ..) | (_, Some(_), _) => {}
            (_, None, _) => {
                let err = Diagnostic::error(code::MISSING, source, span, "this does not say which kind");
                return Err(err.expected(refusal::known_kinds()));
            }
        }
        let (handle, handle_span) = handle.unzip();
        let mut cmd = QdiscCommand { verb, dev, place, handle, kind, options, place_span, handle_span, span };
        cmd.write_out_keys();
        Ok(cmd)
    }
}

impl QdiscCommand {
    fn write_out_keys(&mut self) {
        let Some(spec) = self.spec() else { return };
        let Some((_, keys)) = CUT_SHORT.iter().find(|(kind, _)| *kind == spec.kind) else { return };
        for word in &mut self.options {
            let exact = spec.params.iter().any(|p| p.words.contains(&word.text.as_str()));
            if let Some(key) = whole(&word.text, keys.iter().copied()).filter(|_| !exact) {
                word.text = key.to_string();
            }
        }
    }
}

fn read_verb(source: &Arc<Source>, word: &Word) -> Result<Verb, Diagnostic> {
    const EXPECTED: &str = "add, replace, change or del";
    let known = whole(&word.text, VERBS.iter().map(|(v, _)| *v));
    let verb = known.and_then(|known| VERBS.iter().find(|(v, _)| *v == known).and_then(|(_, verb)| *verb));
    match (verb, known) {
        (Some(verb), _) => Ok(verb),
        (None, Some(known)) => {
            let message = format!("\"{known}\" has no place in a policy");
            let err = Diagnostic::error(code::UNKNOWN_VERB, source, word.span.clone(), message);
            let hint = (known == "link").then(|| "replace does the same".to_string());
            Err(err.expected(EXPECTED).hint(hint))
        }
        (None, None) => {
            let near = closest(&word.text, ["add", "replace", "change", "del", "delete"]).map(String::from);
            let message = format!("there is no verb \"{}\"", word.text);
            let err = Diagnostic::error(code::UNKNOWN_VERB, source, word.span.clone(), message);
            Err(err.expected(EXPECTED).suggest(near))
        }
    }
}

/// The word after `key`.
fn argument<'a>(
    source: &Arc<Source>,
    key: &Word,
    value: Option<&'a Word>,
    expected: &str,
) -> Result<&'a Word, Diagnostic> {
    value.ok_or_else(|| {
        let message = format!("\"{}\" needs a value", key.text);
        Diagnostic::error(code::MISSING, source, key.span.clone(), message).expected(expected)
    })
}

/// The handle after `key`.
fn handle(
    source: &Arc<Source>,
    key: &Word,
    value: Option<&Word>,
    expected: &str,
) -> Result<(Handle, Range<usize>), Diagnostic> {
    let word = argument(source, key, value, expected)?;
    let span = word.span.clone();
    match word.text.parse() {
        Ok(handle) => Ok((handle, span)),
        Err(HandleError) => {
            let message =
                format!("\"{}\" is not {}", word.text, expected.split(',').next().unwrap_or(expected));
            let err = Diagnostic::error(code::BAD_VALUE, source, span, message);
            Err(err.expected(format!("{expected}, hexadecimal, each at most ffff")))
        }
    }
}
