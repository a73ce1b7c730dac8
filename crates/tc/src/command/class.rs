//! `class` lines.

use std::sync::Arc;

use txweir_core::Handle;
use txweir_core::sched::classful::ClassSpec;
use txweir_core::sched::spec::{ClassShape, Spec};

use super::options::{self, Declared};
use super::qdisc::write_out;
use super::reader::Reader;
use super::stab::estimator;
use super::{Part, whole};
use crate::ast::{At, ClassCommand, Verb};
use crate::diagnostic::{Diagnostic, code};
use crate::failure::Failure;
use crate::kinds::spec_of;
use crate::language::{self, Object};
use crate::lex::Word;
use crate::refusal;
use crate::source::Source;
use crate::suggest::closest;

pub(super) fn read(part: &Part<'_>) -> Result<ClassCommand, Failure> {
    let mut cmd = ClassCommand {
        verb: part.verb,
        dev: None,
        parent: None,
        classid: None,
        qdisc: None,
        kind: None,
        options: Vec::new(),
        estimator: None,
        span: part.span.clone(),
    };
    let reader = &mut Reader::new(part);
    while let Some(word) = reader.next() {
        if read_word(part, reader, word, &mut cmd)? {
            continue;
        }
        cmd.options = reader.rest().to_vec();
        write_out_keys(part.source, word, &mut cmd);
        cmd.kind = Some(word.clone());
        check_kind(part, word, &cmd)?;
    }
    Ok(cmd)
}

fn read_word(
    part: &Part<'_>,
    reader: &mut Reader<'_>,
    word: &Word,
    cmd: &mut ClassCommand,
) -> Result<bool, Failure> {
    const CLASS: &str = "a class, MAJOR:MINOR";
    let show = cmd.verb == Verb::Show;
    match word.text.as_str() {
        "dev" => {
            let dev = reader.argument(word, "a device's name")?.clone();
            reader.once(&mut cmd.dev, word, "dev", dev)?;
        }
        "root" => {
            let here = At { value: Handle::ROOT, span: word.span.clone() };
            reader.once_at(&mut cmd.parent, word, here)?;
        }
        "parent" => {
            let parent = reader.class(word, "a class or qdisc, MAJOR:MINOR", "invalid parent ID")?;
            reader.once(&mut cmd.parent, word, "parent", parent)?;
        }
        "classid" => {
            let class = reader.class(word, CLASS, "invalid class ID")?;
            reader.once(&mut cmd.classid, word, "classid", class)?;
        }
        "qdisc" if show => {
            let qdisc = reader.qdisc_handle(word, "invalid qdisc ID")?;
            reader.once(&mut cmd.qdisc, word, "qdisc", qdisc)?;
        }
        "handle" if !show => {
            let err = part.error(code::UNEXPECTED_WORD, &word.span, "a class has no handle, but a classid");
            let err = err.suggest(Some("classid".into()));
            return Err(Failure::usage(err.linux("Error: try \"classid\" instead of \"handle\"")));
        }
        other if show => {
            const WORDS: [&str; 5] = ["dev", "root", "parent", "classid", "qdisc"];
            let message = format!("class show knows no \"{other}\"");
            let err = part.error(code::UNEXPECTED_WORD, &word.span, message);
            let near = closest(other, WORDS).map(String::from);
            let err = err.expected(format!("one of {}", WORDS.join(", "))).suggest(near);
            return Err(Failure::usage(err.linux(format!("What is \"{other}\"? Try \"tc class help\"."))));
        }
        other if whole(other, ["estimator"].into_iter()).is_some() => {
            let value = estimator(part, reader, word)?;
            reader.once(&mut cmd.estimator, word, "estimator", value)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn write_out_keys(source: &Source, kind: &Word, cmd: &mut ClassCommand) {
    let Some(classes) = spec_of(source, kind).and_then(|spec| spec.classes) else { return };
    write_out(&mut cmd.options, classes.cut, classes.params);
}

/// Checks that lines may make classes of the kind; the classes of other kinds come with their
/// qdisc.
fn check_kind(part: &Part<'_>, kind: &Word, cmd: &ClassCommand) -> Result<(), Failure> {
    if language::knows(Object::Class, &kind.text) {
        return options::check_foreign(part.source, Object::Class, &kind.text, &cmd.options);
    }
    match spec_of(part.source, kind) {
        None => Err(Failure::unparsable(no_such_kind(part.source, kind)).linux(classless(kind))),
        Some(spec) => match spec.classes {
            None => Err(Failure::unparsable(no_classes(part.source, kind, spec)).linux(classless(kind))),
            Some(classes) => check_options(part.source, cmd, classes),
        },
    }
}

/// Checks that tc would read the words after the kind. Refusals of the kernel alone are left to the
/// engine.
fn check_options(
    source: &Arc<Source>,
    cmd: &ClassCommand,
    classes: &'static ClassSpec,
) -> Result<(), Failure> {
    options::check(source, Declared::Class(classes), &cmd.options, |err| refusal::of(source, cmd, err))
}

/// Returns tc's sentence for a class of a kind that has none, or is none.
fn classless(kind: &Word) -> String {
    format!("Error: Qdisc \"{}\" is classless.", kind.text)
}

fn no_classes(source: &Arc<Source>, at: &Word, spec: &Spec) -> Diagnostic {
    let kind = spec.kind;
    let message = format!("{kind} has no classes that can be added, changed or deleted");
    let hint = match spec.shape {
        ClassShape::Bands => "its classes come with it: 1:1 to 1:BANDS",
        ClassShape::One => "its class comes with it: 1:1",
        _ => "it has no classes to put qdiscs in",
    };
    Diagnostic::error(code::UNSUPPORTED, source, at.span.clone(), message).hint(Some(hint.into()))
}

/// Returns the error for a class of a kind that has none.
pub(super) fn no_such_kind(source: &Arc<Source>, kind: &Word) -> Diagnostic {
    let message = format!("there is no kind \"{}\" with classes", kind.text);
    let kinds: Vec<&str> = source.kinds.iter().filter_map(|spec| spec.classes.map(|c| c.kind)).collect();
    let err = Diagnostic::error(code::UNKNOWN_KIND, source, kind.span.clone(), message);
    err.expected(format!("one of {}", kinds.join(", ")))
}
