//! `filter` and `chain` lines.

use txweir_core::Handle;

use super::reader::Reader;
use super::stab::estimator;
use super::{Part, options, whole};
use crate::ast::{At, ChainCommand, FilterCommand, Place, Target, Verb};
use crate::diagnostic::{Diagnostic, code};
use crate::failure::{Failure, USAGE};
use crate::filter::flower;
use crate::language::{self, Object};
use crate::lex::Word;
use crate::protocol;
use crate::sentence::Sentence;
use crate::suggest::closest;

/// Words that may be cut short, in the order in which tc tries them.
const CUT_SHORT: [&str; 6] = ["block", "preference", "priority", "protocol", "chain", "estimator"];

/// tc's names of words that are no value of a key.
const PRIORITY: &str = "invalid priority value";
const CHAIN: &str = "invalid chain index value";

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
            let err = err.expected(format!("one of {}", WORDS.join(", "))).suggest(near);
            return Err(Failure::usage(err.linux(not_listed(&word.text))));
        }
        cmd.kind = Some(word.clone());
        cmd.options = reader.rest().to_vec();
        check_kind(part, cmd.protocol.as_ref(), word, &cmd.options)?;
    }
    if part.verb == Verb::Get && cmd.protocol.is_none() {
        return Err(must_say(part, "protocol", "protocol NAME, prio N, handle ID and the kind"));
    }
    Ok(cmd)
}

fn must_say(part: &Part<'_>, what: &str, expected: &str) -> Failure {
    let err = part.error(code::MISSING, &part.verb_span, format!("this does not say which {what}"));
    Failure::usage(err.expected(expected)).linux(Sentence::MustSpecify(what))
}

/// Returns tc's sentence for a word that no listing knows, those of chains too.
fn not_listed(word: &str) -> String {
    format!(" What is \"{word}\"? Try \"tc filter help\"")
}

fn read_word(
    part: &Part<'_>,
    reader: &mut Reader<'_>,
    word: &Word,
    cmd: &mut FilterCommand,
) -> Result<bool, Failure> {
    if target(part, reader, word, &mut cmd.target)? || place(part, reader, word, &mut cmd.place)? {
        return Ok(true);
    }
    if word.text == "handle" {
        let handle = reader.argument(word, "a filter's handle")?.clone();
        reader.once(&mut cmd.handle, word, "handle", handle)?;
        return Ok(true);
    }
    match whole(&word.text, CUT_SHORT.into_iter()) {
        Some("preference" | "priority") => {
            let invalid = if part.verb == Verb::Show { "invalid preference" } else { PRIORITY };
            let prio = reader.number(word, 0xffff, "a number, 1 to 65535, the lowest first", invalid)?;
            reader.once(&mut cmd.prio, word, "priority", prio)?;
        }
        Some("protocol") => {
            let name = read_protocol(reader, word)?;
            reader.once(&mut cmd.protocol, word, "protocol", name)?;
        }
        Some("chain") => {
            let chain = reader.number(word, u32::MAX, "a chain's number", CHAIN)?;
            reader.once(&mut cmd.chain, word, "chain", chain)?;
        }
        Some("estimator") if part.verb != Verb::Show => {
            let times = estimator(part, reader, word)?;
            reader.once(&mut cmd.estimator, word, "estimator", times)?;
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
            Target::Block(reader.number(word, u32::MAX, "a block's number", "invalid block index value")?)
        }
        _ => return Ok(false),
    };
    let (name, other) = match &target {
        Target::Dev(_) => ("dev", "block"),
        Target::Block(_) => ("block", "dev"),
    };
    match (&slot, &target) {
        (Some(Target::Dev(_)), Target::Block(_)) | (Some(Target::Block(_)), Target::Dev(_)) => {
            let err = part.error(code::CONFLICT, &word.span, "a line is about a device or a block, not both");
            Err(Failure::usage(err.linux(match part.verb {
                Verb::Show => format!("Error: \"{name}\" cannot be used in the same time as \"{other}\""),
                _ => "Error: \"dev\" and \"block\" are mutually exclusive".into(),
            })))
        }
        _ => reader.once(slot, word, name, target).map(|()| true),
    }
}

/// Reads `root`, `ingress`, `egress` or `parent MAJOR:MINOR`.
fn place(
    part: &Part<'_>,
    reader: &mut Reader<'_>,
    word: &Word,
    slot: &mut Option<At<Place>>,
) -> Result<bool, Failure> {
    let here = |value| At { value, span: word.span.clone() };
    let place = match word.text.as_str() {
        "root" => here(Place::Below(Handle::ROOT)),
        "ingress" => here(Place::Ingress),
        "egress" => here(Place::Egress),
        "parent" => {
            let invalid = if part.verb == Verb::Show { "invalid parent ID" } else { "Invalid parent ID" };
            let At { value, span } = reader.class(word, "a class or qdisc, MAJOR:MINOR", invalid)?;
            let place = At { value: Place::Below(value), span };
            return reader.once(slot, word, "parent", place).map(|()| true);
        }
        _ => return Ok(false),
    };
    reader.once_at(slot, word, place).map(|()| true)
}

fn read_protocol(reader: &mut Reader<'_>, key: &Word) -> Result<Word, Failure> {
    const EXPECTED: &str = "a protocol (ip, ipv6, arp, 802.1q, all) or an ethertype (0x0800)";
    let word = reader.argument(key, EXPECTED)?;
    match protocol::number(&word.text).is_some() {
        true => Ok(word.clone()),
        false => {
            let failure = reader.bad_value(key, word, EXPECTED);
            let mut failure = failure.linux(Sentence::Argument(&word.text, "invalid protocol"));
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
        // A second value of a key.
        code::CONFLICT => true,
        code::MISSING => matches!(kind, "mpls" | "sample") && at == head + 1,
        code::BAD_VALUE | code::OUT_OF_RANGE | code::SPLIT_VALUE => match (kind, key) {
            ("police" | "mpls", "index") => true,
            ("police", "goto" | "chain") => false,
            // The class is a word of the filter.
            (_, "index" | "conform-exceed" | "random" | "classid" | "flowid") => false,
            (_, "cookie" | "hw_stats" | "goto" | "chain" | "jump") => true,
            ("skbedit" | "pedit" | "skbmod" | "ct" | "connmark" | "ctinfo" | "tunnel_key" | "nat", _) => {
                false
            }
            _ => true,
        },
        _ => false,
    }
}

/// Actions that tc does not accept without words of their own.
const WANT_WORDS: [&str; 6] = ["mirred", "csum", "skbedit", "police", "simple", "nat"];

/// Checks the words of a kind that tc knows; without words any kind passes until the kernel is
/// asked.
fn check_kind(part: &Part<'_>, protocol: Option<&Word>, kind: &Word, words: &[Word]) -> Result<(), Failure> {
    if language::knows(Object::Filter, &kind.text) {
        return options::check_foreign(part.source, Object::Filter, &kind.text, words).map_err(
            |mut failure| {
                let at = words.iter().position(|word| word.span == failure.diagnostic.span);
                let protocol = protocol.and_then(|word| protocol::number(&word.text)).unwrap_or(0);
                if let Some(at) = at.filter(|_| kind.text == "flower")
                    && let Some(line) = flower::address_line(protocol, words, at)
                {
                    failure = failure.linux(line);
                }
                if failure.diagnostic.is_incomplete() || ends_tc(words, &failure.diagnostic) {
                    failure.status = USAGE;
                }
                failure
            },
        );
    }
    if words.is_empty() {
        return Ok(());
    }
    let message = format!("there is no filter kind \"{}\"", kind.text);
    let near = closest(&kind.text, language::kinds(Object::Filter)).map(String::from);
    let err = part.error(code::UNKNOWN_KIND, &kind.span, message).suggest(near);
    let option = words.first().map_or("", |word| &word.text);
    let sentence = format!("Unknown filter \"{}\", hence option \"{option}\" is unparsable", kind.text);
    Err(Failure::unparsable(err).linux(sentence))
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
        if target(part, reader, word, &mut cmd.target)? || place(part, reader, word, &mut cmd.place)? {
            continue;
        }
        match whole(&word.text, CUT_SHORT.into_iter()) {
            Some("chain") => {
                let chain = reader.number(word, u32::MAX, "a chain's number", CHAIN)?;
                reader.once(&mut cmd.chain, word, "chain", chain)?;
            }
            Some("protocol") => {
                let name = read_protocol(reader, word)?;
                reader.once(&mut cmd.protocol, word, "protocol", name)?;
            }
            // The goal of a filter is read, and has no effect on a chain.
            Some("preference" | "priority") if part.verb != Verb::Show => {
                reader.number(word, 0xffff, "a number, 1 to 65535", PRIORITY)?;
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
                return Err(Failure::usage(err.linux(not_listed(&word.text))));
            }
            _ => {
                cmd.kind = Some(word.clone());
                cmd.options = reader.rest().to_vec();
                check_kind(part, cmd.protocol.as_ref(), word, &cmd.options)?;
            }
        }
    }
    if part.verb == Verb::Get && cmd.place.is_none() {
        return Err(must_say(part, "parent", "root, parent MAJOR:MINOR, ingress or egress"));
    }
    Ok(cmd)
}
