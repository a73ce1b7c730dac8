//! `filter` and `chain` lines.

use txweir_core::Handle;

use super::qdisc::options;
use super::reader::Reader;
use super::stab::estimator;
use super::{Part, whole};
use crate::ast::{At, ChainCommand, FilterCommand, Place, Target, Verb};
use crate::diagnostic::{Diagnostic, code};
use crate::failure::{Failure, USAGE};
use crate::language::{self, Object};
use crate::lex::Word;
use crate::protocol;
use crate::suggest::closest;

/// Words that may be cut short, in the order in which tc tries them.
const CUT_SHORT: [&str; 6] = ["block", "preference", "priority", "protocol", "chain", "estimator"];

pub(super) fn read(part: &Part<'_>) -> Result<FilterCommand, Failure> {
    let mut cmd = FilterCommand {
        verb: part.verb,
        target: None,
        place: None,
        protocol: None,
        prio: None,
        chain: None,
        estimator: None,
        handle: None,
        kind: None,
        options: Vec::new(),
        span: part.span.clone(),
    };
    let reader = &mut Reader::new(part);
    while let Some(word) = reader.next() {
        if read_word(part, reader, word, &mut cmd)? {
            continue;
        }
        if part.verb == Verb::Show {
            const WORDS: [&str; 9] =
                ["dev", "block", "root", "ingress", "egress", "parent", "protocol", "prio", "chain"];
            let message = format!("filter show knows no \"{}\"", word.text);
            let err = part.error(code::UNEXPECTED_WORD, &word.span, message);
            let near = closest(&word.text, WORDS).map(String::from);
            return Err(Failure::usage(err.expected(format!("one of {}", WORDS.join(", "))).suggest(near)));
        }
        cmd.kind = Some(word.clone());
        cmd.options = reader.rest().to_vec();
        check_kind(part, word, &cmd.options)?;
    }
    if part.verb == Verb::Get && cmd.protocol.is_none() {
        return Err(must_say(part, "protocol", "protocol NAME, prio N, handle ID and the kind"));
    }
    Ok(cmd)
}

fn must_say(part: &Part<'_>, what: &str, expected: &str) -> Failure {
    let err = part.error(code::MISSING, &part.verb_span, format!("this does not say which {what}"));
    Failure::usage(err.expected(expected))
}

fn read_word(
    part: &Part<'_>,
    reader: &mut Reader<'_>,
    word: &Word,
    cmd: &mut FilterCommand,
) -> Result<bool, Failure> {
    if target(part, reader, word, &mut cmd.target)? || place(reader, word, &mut cmd.place)? {
        return Ok(true);
    }
    if word.text == "handle" {
        let handle = reader.argument(word, "a filter's handle")?.clone();
        reader.once(&mut cmd.handle, word, handle)?;
        return Ok(true);
    }
    match whole(&word.text, CUT_SHORT.into_iter()) {
        Some("preference" | "priority") => {
            let prio = reader.number(word, 0xffff, "a number, 1 to 65535, the lowest first")?;
            reader.once(&mut cmd.prio, word, prio)?;
        }
        Some("protocol") => {
            let name = read_protocol(reader, word)?;
            reader.once(&mut cmd.protocol, word, name)?;
        }
        Some("chain") => {
            let chain = reader.number(word, u32::MAX, "a chain's number")?;
            reader.once(&mut cmd.chain, word, chain)?;
        }
        Some("estimator") if part.verb != Verb::Show => {
            let times = estimator(part, reader, word)?;
            reader.once(&mut cmd.estimator, word, times)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Reads `dev NAME` or `block INDEX`.
fn target(
    part: &Part<'_>,
    reader: &mut Reader<'_>,
    word: &Word,
    slot: &mut Option<Target>,
) -> Result<bool, Failure> {
    let target = match word.text.as_str() {
        "dev" => Target::Dev(reader.argument(word, "a device's name")?.clone()),
        other if whole(other, CUT_SHORT.into_iter()) == Some("block") => {
            Target::Block(reader.number(word, u32::MAX, "a block's number")?)
        }
        _ => return Ok(false),
    };
    match (&slot, &target) {
        (Some(Target::Dev(_)), Target::Block(_)) | (Some(Target::Block(_)), Target::Dev(_)) => {
            let err = part.error(code::CONFLICT, &word.span, "a line is about a device or a block, not both");
            Err(Failure::usage(err))
        }
        _ => reader.once(slot, word, target).map(|()| true),
    }
}

/// Reads `root`, `ingress`, `egress` or `parent MAJOR:MINOR`.
fn place(reader: &mut Reader<'_>, word: &Word, slot: &mut Option<At<Place>>) -> Result<bool, Failure> {
    let here = |value| At { value, span: word.span.clone() };
    let place = match word.text.as_str() {
        "root" => here(Place::Below(Handle::ROOT)),
        "ingress" => here(Place::Ingress),
        "egress" => here(Place::Egress),
        "parent" => {
            let At { value, span } = reader.class(word, "a class or qdisc, MAJOR:MINOR")?;
            At { value: Place::Below(value), span }
        }
        _ => return Ok(false),
    };
    reader.once(slot, word, place).map(|()| true)
}

fn read_protocol(reader: &mut Reader<'_>, key: &Word) -> Result<Word, Failure> {
    const EXPECTED: &str = "a protocol (ip, ipv6, arp, 802.1q, all) or an ethertype (0x0800)";
    let word = reader.argument(key, EXPECTED)?;
    match protocol::number(&word.text).is_some() {
        true => Ok(word.clone()),
        false => {
            let mut failure = reader.bad_value(key, word, EXPECTED);
            failure.diagnostic.suggestion = closest(&word.text, protocol::names()).map(String::from);
            Err(failure)
        }
    }
}

/// True if a mistake is in an action and ends tc at once, with status 255, instead of making it
/// refuse the filter.
pub(crate) fn ends_tc(words: &[Word], mistake: &Diagnostic) -> bool {
    let Some(at) = words.iter().position(|w| w.span.start == mistake.span.start) else { return false };
    // The last word that begins an action: `action KIND`, or `police` of a filter.
    let word = |at: usize| words.get(at).map_or("", |w| w.text.as_str());
    let begins = |n: &usize| match word(*n) {
        "police" => *n == 0 || word(*n - 1) != "action",
        other => other == "action",
    };
    let Some(head) = (0..at).rev().find(begins) else { return false };
    let of_filter = word(head) == "police";
    let kind = if of_filter { "police" } else { word(head + 1) };
    let first = at == head + if of_filter { 1 } else { 2 };
    let key = word(at.saturating_sub(1));
    match mistake.code {
        // tc takes the word for the kind of the next action, unless the kind wants words of its own
        // first. Behind the police of a filter it is a word of the filter.
        code::UNKNOWN_KIND => true,
        code::UNKNOWN_KEY if of_filter => false,
        code::UNKNOWN_KEY => !(first && WANT_WORDS.contains(&kind)),
        code::BAD_VALUE | code::OUT_OF_RANGE | code::SPLIT_VALUE => match (kind, key) {
            ("police", "index") => true,
            (_, "index" | "conform-exceed" | "random") => false,
            ("skbedit" | "pedit" | "skbmod", _) => false,
            _ => true,
        },
        _ => false,
    }
}

/// Actions that tc does not accept without words of their own.
const WANT_WORDS: [&str; 6] = ["mirred", "csum", "skbedit", "police", "simple", "nat"];

/// Checks the words of a kind that tc knows; without words any kind passes until the kernel is
/// asked.
fn check_kind(part: &Part<'_>, kind: &Word, words: &[Word]) -> Result<(), Failure> {
    if language::knows(Object::Filter, &kind.text) {
        return options(part.source, Object::Filter, &kind.text, words).map_err(|mut failure| {
            if ends_tc(words, &failure.diagnostic) {
                failure.status = USAGE;
            }
            failure
        });
    }
    if words.is_empty() {
        return Ok(());
    }
    let message = format!("there is no filter kind \"{}\"", kind.text);
    let near = closest(&kind.text, language::kinds(Object::Filter)).map(String::from);
    Err(Failure::unparsable(part.error(code::UNKNOWN_KIND, &kind.span, message).suggest(near)))
}

pub(super) fn read_chain(part: &Part<'_>) -> Result<ChainCommand, Failure> {
    let mut cmd = ChainCommand {
        verb: part.verb,
        target: None,
        place: None,
        chain: None,
        protocol: None,
        kind: None,
        options: Vec::new(),
        span: part.span.clone(),
    };
    let reader = &mut Reader::new(part);
    while let Some(word) = reader.next() {
        if target(part, reader, word, &mut cmd.target)? || place(reader, word, &mut cmd.place)? {
            continue;
        }
        match whole(&word.text, CUT_SHORT.into_iter()) {
            Some("chain") => {
                let chain = reader.number(word, u32::MAX, "a chain's number")?;
                reader.once(&mut cmd.chain, word, chain)?;
            }
            Some("protocol") => {
                let name = read_protocol(reader, word)?;
                reader.once(&mut cmd.protocol, word, name)?;
            }
            // The goal of a filter is read, and has no effect on a chain.
            Some("preference" | "priority") if part.verb != Verb::Show => {
                reader.number(word, 0xffff, "a number, 1 to 65535")?;
            }
            Some("estimator") if part.verb != Verb::Show => {
                estimator(part, reader, word)?;
            }
            _ if word.text == "handle" && part.verb != Verb::Show => {
                reader.argument(word, "a filter's handle")?;
            }
            _ if part.verb == Verb::Show => {
                let message = format!("chain show knows no \"{}\"", word.text);
                let err = part.error(code::UNEXPECTED_WORD, &word.span, message);
                return Err(Failure::usage(err));
            }
            _ => {
                cmd.kind = Some(word.clone());
                cmd.options = reader.rest().to_vec();
                check_kind(part, word, &cmd.options)?;
            }
        }
    }
    if part.verb == Verb::Get && cmd.place.is_none() {
        return Err(must_say(part, "parent", "root, parent MAJOR:MINOR, ingress or egress"));
    }
    Ok(cmd)
}
