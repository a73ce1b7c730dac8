//! `qdisc` lines.

use std::sync::Arc;

#[cfg(feature = "kinds")]
use txweir_core::law::curve::Curve;
use txweir_core::text::params::Param;
use txweir_core::text::value::{Value, Words};
use txweir_core::{Handle, Rate};

use super::options::{self, Declared};
use super::reader::Reader;
use super::stab::{estimator, stab};
use super::{Part, whole};
use crate::ast::{At, Place, QdiscCommand, Verb};
use crate::diagnostic::code;
use crate::failure::Failure;
use crate::kinds::{self, spec_of};
use crate::language::{self, Object};
use crate::lex::Word;
use crate::refusal;
use crate::sentence::Sentence;
use crate::source::Source;

/// Words before the kind that tc lets be cut short, in the order in which it tries them.
const CUT_SHORT: [&str; 4] = ["estimator", "stab", "ingress_block", "egress_block"];

/// tc's name of a word that is no parent.
const PARENT: &str = "invalid parent ID";

pub(super) fn read(part: &Part<'_>) -> Result<QdiscCommand, Failure> {
    let mut cmd = QdiscCommand {
        verb: part.verb,
        dev: None,
        place: None,
        handle: None,
        kind: None,
        options: Vec::new(),
        stab: None,
        estimator: None,
        blocks: [None, None],
        invisible: false,
        span: part.span.clone(),
    };
    let reader = &mut Reader::new(part);
    if part.verb == Verb::Show {
        read_show(part, reader, &mut cmd)?;
        return Ok(cmd);
    }
    while let Some(word) = reader.next() {
        if read_word(part, reader, word, &mut cmd)? {
            continue;
        }
        let hook = matches!(cmd.place, Some(At { value: Place::Ingress | Place::Clsact, .. }));
        if !hook {
            cmd.kind = Some(word.clone());
        }
        cmd.options = reader.rest().to_vec();
    }
    write_out_keys(part.source, &mut cmd);
    check_options(part.source, &cmd)?;
    Ok(cmd)
}

/// Reads a word, and the words that belong to it, if it may stand before the kind.
fn read_word(
    part: &Part<'_>,
    reader: &mut Reader<'_>,
    word: &Word,
    cmd: &mut QdiscCommand,
) -> Result<bool, Failure> {
    let here = |value| At { value, span: word.span.clone() };
    match word.text.as_str() {
        "dev" => {
            let dev = reader.argument(word, "a device's name")?.clone();
            reader.once(&mut cmd.dev, word, "dev", dev)?;
        }
        "root" => reader.once_at(&mut cmd.place, word, here(Place::Below(Handle::ROOT)))?,
        "parent" => {
            let At { value, span } = reader.class(word, "a class, MAJOR:MINOR, or root", PARENT)?;
            reader.once(&mut cmd.place, word, "parent", At { value: Place::Below(value), span })?;
        }
        "handle" => {
            // tc looks at the key again, not at the value.
            reader.free(&cmd.handle, word, Sentence::Duplicate("handle", "handle"))?;
            cmd.handle = Some(reader.qdisc_handle(word, "invalid qdisc ID")?);
        }
        hook @ ("ingress" | "clsact") => {
            let place = if hook == "ingress" { Place::Ingress } else { Place::Clsact };
            reader.free(&cmd.place, word, format!("Error: \"{hook}\" is a duplicate parent ID"))?;
            cmd.place = Some(here(place));
            // The hook is its own kind: the words after it are for it, and it takes only its
            // handle.
            hook_options(part, reader, hook)?;
        }
        other => match whole(other, CUT_SHORT.into_iter()) {
            Some("estimator") => {
                let value = estimator(part, reader, word)?;
                reader.once(&mut cmd.estimator, word, "estimator", value)?;
            }
            Some("stab") => cmd.stab = Some(stab(part, reader, word)?),
            Some(key @ ("ingress_block" | "egress_block")) => {
                let hook = key.trim_end_matches("_block");
                let invalid = format!("invalid {hook} block index value");
                let block = reader.number(word, u32::MAX, "a block's number, at least 1", &invalid);
                let block = block.map_err(|failure| cut_short(failure, &word.text, key))?;
                if block.value == 0 {
                    let err = part.error(code::OUT_OF_RANGE, &block.span, format!("{key} cannot be 0"));
                    let err = err.expected("a block's number, at least 1");
                    let zero = part.text(&block.span);
                    return Err(Failure::usage(err).linux(Sentence::Argument(zero, &invalid)));
                }
                cmd.blocks[usize::from(key == "egress_block")] = Some(block);
            }
            _ => return Ok(false),
        },
    }
    Ok(true)
}

/// Adds to an error that a word was read as the key that it begins.
fn cut_short(mut failure: Failure, word: &str, key: &str) -> Failure {
    if word != key {
        let hook = key.trim_end_matches("_block");
        failure.diagnostic =
            failure.diagnostic.hint(Some(format!("tc reads \"{word}\" as {key}; the hook is {hook}")));
    }
    failure
}

/// Reads `ingress handle ffff:`: the handle of a hook is always that, and may be left out.
fn hook_options(part: &Part<'_>, reader: &mut Reader<'_>, hook: &str) -> Result<(), Failure> {
    while let Some(word) = reader.next() {
        match word.text.as_str() {
            "handle" if hook == "ingress" => drop(reader.argument(word, "ffff:")?),
            _ => {
                let message = format!("{hook} has no parameter \"{}\"", word.text);
                let err = part.error(code::UNKNOWN_KEY, &word.span, message).expected("no parameter");
                return Err(Failure::unparsable(err).linux(Sentence::WhatIs(&word.text)));
            }
        }
    }
    Ok(())
}

fn read_show(part: &Part<'_>, reader: &mut Reader<'_>, cmd: &mut QdiscCommand) -> Result<(), Failure> {
    while let Some(word) = reader.next() {
        let here = |value| At { value, span: word.span.clone() };
        match word.text.as_str() {
            "dev" => cmd.dev = Some(reader.argument(word, "a device's name")?.clone()),
            "root" => one_place(reader, cmd, word, here(Place::Below(Handle::ROOT)))?,
            "ingress" => one_place(reader, cmd, word, here(Place::Ingress))?,
            "clsact" => one_place(reader, cmd, word, here(Place::Clsact))?,
            "invisible" => cmd.invisible = true,
            other => match whole(other, ["parent", "handle"].into_iter()) {
                Some("parent") => {
                    let At { value, span } = reader.class(word, "a class, MAJOR:MINOR, or root", PARENT)?;
                    one_place(reader, cmd, word, At { value: Place::Below(value), span })?;
                }
                Some(_) => {
                    let At { value, span } = reader.qdisc_handle(word, "invalid handle ID")?;
                    one_place(reader, cmd, word, At { value: Place::Handle(value), span })?;
                }
                None => {
                    let message = format!("qdisc show knows no \"{}\"", word.text);
                    let err = part.error(code::UNEXPECTED_WORD, &word.span, message);
                    const WORDS: [&str; 7] =
                        ["dev", "root", "parent", "handle", "ingress", "clsact", "invisible"];
                    let near = crate::suggest::closest(other, WORDS).map(String::from);
                    let expected = format!("one of {}", WORDS.join(", "));
                    let sentence = format!("What is \"{other}\"? Try \"tc qdisc help\".");
                    return Err(Failure::usage(err.expected(expected).suggest(near)).linux(sentence));
                }
            },
        }
    }
    Ok(())
}

/// Checks that a listing is of one place.
fn one_place(
    reader: &Reader<'_>,
    cmd: &mut QdiscCommand,
    word: &Word,
    place: At<Place>,
) -> Result<(), Failure> {
    let taken = match cmd.place.as_ref().map(|at| at.value) {
        Some(Place::Handle(_)) => "handle is already specified",
        _ => "parent is already specified",
    };
    reader.free(&cmd.place, word, Sentence::Argument(&word.text, taken))?;
    cmd.place = Some(place);
    Ok(())
}

fn write_out_keys(source: &Source, cmd: &mut QdiscCommand) {
    let Some(spec) = cmd.kind.as_ref().and_then(|kind| spec_of(source, kind)) else { return };
    write_out(&mut cmd.options, spec.cut, spec.params);
    if spec.kind == "htb" {
        // tc reads a number for it, and the kernel ignores it.
        let mut words = std::mem::take(&mut cmd.options).into_iter().peekable();
        while let Some(word) = words.next() {
            let ignored = word.text == "debug" && words.next_if(|_| true).is_some();
            if !ignored {
                cmd.options.push(word);
            }
        }
    }
}

/// Writes out the words that begin one of `keys`, unless they are keys themselves, or belong to the
/// value of one.
pub(super) fn write_out(words: &mut [Word], keys: &[&str], params: &[Param]) {
    let mut at = 0;
    while at < words.len() {
        let param = |text: &str| params.iter().find(|p| p.words.contains(&text));
        let word = &mut words[at];
        if param(&word.text).is_none()
            && let Some(key) = whole(&word.text, keys.iter().copied())
        {
            word.text = key.to_string();
        }
        let param = param(&word.text).filter(|p| !p.flag);
        at += 1 + param.map_or(0, |param| words_of_value(param, &words[at + 1..]));
    }
}

/// Returns the number of words that the value of a parameter takes: one, but for a service curve.
#[cfg(feature = "kinds")]
fn words_of_value(param: &Param, words: &[Word]) -> usize {
    if param.expected != Curve::EXPECTED {
        return 1;
    }
    let words: Vec<&str> = words.iter().map(|w| w.text.as_str()).collect();
    // The base of a rate in percent does not matter here.
    let mut words = Words::new(&words).link_rate(Rate(u32::MAX.into()));
    Curve::take(&mut words).map_or(1, |_| words.at())
}

/// Returns the number of words that the value of a parameter takes.
#[cfg(not(feature = "kinds"))]
const fn words_of_value(_: &Param, _: &[Word]) -> usize {
    1
}

/// Checks that tc would read the words after the kind. Refusals of the engine alone are left to its
/// caller.
fn check_options(source: &Arc<Source>, cmd: &QdiscCommand) -> Result<(), Failure> {
    let Some(kind) = &cmd.kind else { return Ok(()) };
    let Some(spec) = spec_of(source, kind) else {
        if language::knows(Object::Qdisc, &kind.text) {
            return options::check_foreign(source, Object::Qdisc, &kind.text, &cmd.options);
        }
        return match cmd.options.as_slice() {
            [] => Ok(()),
            [first, ..] => {
                let (kind_name, option) = (&kind.text, &first.text);
                let sentence =
                    format!("Unknown qdisc \"{kind_name}\", hence option \"{option}\" is unparsable");
                Err(Failure::unparsable(kinds::unknown_kind(source, kind)).linux(sentence))
            }
        };
    };
    if spec.kind == "pfifo_fast" && cmd.options.is_empty() {
        return Ok(());
    }
    options::check(source, Declared::Qdisc(spec), &cmd.options, |err| refusal::of(source, cmd, err))
}
