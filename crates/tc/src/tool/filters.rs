//! `filter` and `chain` lines run on devices, and the listings of filters.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use txweir_core::classify::action::{Actions, Entry, Kind, Wanted};
use txweir_core::classify::filter::{
    ANY_PROTOCOL, Block, BlockId, Chain, Existence, Filters, Goal, Named, Table, Template,
};
use txweir_core::classify::packet::PortId;
use txweir_core::{ConfigError, ErrorKind, Handle};

use super::filter_line::{Found, Line};
use super::list::{Print, ways};
use super::places::place;
use super::session::Session;
use super::{Devices, Hook};
use crate::action::Ways;
use crate::ast::{ChainCommand, FilterCommand, Verb};
use crate::command;
use crate::command::stab::average_of;
use crate::diagnostic::{Diagnostic, code};
use crate::failure::Failure;
use crate::filter::{self, Shown, Where};
use crate::kernel;
use crate::lex::Word;
use crate::out::Out;
use crate::protocol;
use crate::said::Said;
use crate::sentence::Sentence;
use crate::source::Source;

/// Runs a `filter` line.
pub(super) fn run(
    session: &mut Session<'_>,
    source: &Arc<Source>,
    cmd: &FilterCommand,
) -> Result<(), Failure> {
    let line = Line { source, span: &cmd.span, place: cmd.place.as_ref() };
    if cmd.verb == Verb::Get && line.place.is_none() {
        let places = "root, parent MAJOR:MINOR, ingress or egress";
        let failure = line.usage(line.span, "this does not say which parent", places);
        return Err(failure.linux(Sentence::MustSpecify("parent")));
    }
    let at = line.find(session, cmd.target.as_ref())?;
    let named = line.named(cmd)?;
    match cmd.verb {
        Verb::Delete => delete(session, &line, &at, cmd, named),
        Verb::Get => get(session, &line, &at, cmd, named),
        _ => put(session, &line, &at, cmd, named),
    }
}

/// Adds, replaces or changes a filter.
fn put(
    session: &mut Session<'_>,
    line: &Line<'_>,
    at: &Found,
    cmd: &FilterCommand,
    mut named: Named,
) -> Result<(), Failure> {
    let Some(kind) = &cmd.kind else {
        let err = line.error(code::MISSING, line.span, "this does not say which kind");
        let err = err.expected(format!("one of {}", txweir_core::classify::filter::KINDS.join(", ")));
        return Err(Failure::refused(err.linux(kernel::NO_FILTER_KIND)));
    };
    let what = match cmd.verb {
        Verb::Add => Existence::Add,
        Verb::Replace => Existence::Replace,
        _ => Existence::Change,
    };
    if what != Existence::Change {
        named.protocol = named.protocol.or(Some(ANY_PROTOCOL));
    }
    let mut said = Said::filter(line.source, kind, cmd.handle.as_ref(), &cmd.options);
    said.estimator = cmd.estimator.as_ref().and_then(|at| average_of(at.value));
    let place = Where { protocol: named.protocol.unwrap_or(0), qdisc: at.at };
    let rule = filter::read(&said, &place, &mut |name| session.devices.port(name))?;
    named.handle = filter::own_handle(&said).map_err(filter::failed)?.or(named.handle);
    let goal = filter::goal(&said, &mut |name| session.devices.port(name));
    let goal = goal.map_err(|err| match err.code {
        _ if err.is_incomplete() => Failure::usage(err),
        code::BAD_VALUE if command::ends_tc(&cmd.options, &err) => Failure::usage(err),
        code::BAD_VALUE => Failure::unparsable(err),
        _ => Failure::refused(err),
    })?;
    if !flags_fit(&session.devices.filters().actions, &goal, said.settings.has("skip_hw")) {
        let message = "Mismatch between action and filter offload flags";
        let failure = line.refused(code::CONFLICT, line.span, message);
        return Err(failure.linux(kernel::OFFLOAD_FLAGS));
    }
    let now = session.devices.now();
    let filters = session.devices.filters_mut();
    let block = at.block.unwrap_or_else(|| filters.add_block());
    let done = filters.put(block, named, &rule, &goal, what, now);
    settle(session, at, block, done.is_ok());
    done.map_err(|err| refuse(line, cmd, &err))?;
    if kind.text == "fw" {
        warn_of_marks(session, line, at, kind);
    }
    Ok(())
}

/// Warns of a filter by marks where no packet has one.
fn warn_of_marks(session: &mut Session<'_>, line: &Line<'_>, at: &Found, kind: &Word) {
    let sets_mark = |(_, entry): (_, &Entry)| match &entry.action.kind {
        Kind::Skbedit(edit) => edit.mark.is_some(),
        _ => false,
    };
    let marked = session.devices.filters().actions.of_kind("skbedit").any(sets_mark);
    let Some(dev) = at.dev.as_ref().filter(|dev| !marked && session.devices.is_unmarked(dev)) else { return };
    let message =
        format!("no packet of {dev} has a mark: frames of an interface come without those of the kernel");
    let hint = "set marks by action skbedit mark N at a hook, or choose by flower or u32";
    let warning = line.error(code::UNSUPPORTED, &kind.span, message).hint(Some(hint.into()));
    session.say(&warning.warning());
}

/// True if the actions that a command of their own has made have the filter's flag for hardware.
fn flags_fit(actions: &Actions, goal: &Goal, skip_hw: bool) -> bool {
    goal.actions.iter().all(|wanted| {
        let there = match wanted {
            Wanted::There(kind, index) => actions.find(kind, *index),
            Wanted::New(Some(index), action) => actions.find(action.kind.name(), *index),
            Wanted::New(None, _) => None,
        };
        let entry = there.and_then(|id| actions.entry(id)).filter(|entry| entry.refs > entry.binds);
        entry.is_none_or(|entry| entry.action.skip_hw == skip_hw)
    })
}

/// Gives a block that was made for a line to the device if the line succeeded, and removes it
/// otherwise.
fn settle(session: &mut Session<'_>, at: &Found, block: BlockId, done: bool) {
    if at.block.is_some() {
        return;
    }
    match at.dev.as_ref().and_then(|dev| session.devices.device(dev)) {
        Some(device) if done => device.configure(&mut |qdiscs| qdiscs.set_block(at.at, Some(block))),
        _ => session.devices.filters_mut().delete_block(block, PortId::NONE),
    }
}

fn delete(
    session: &mut Session<'_>,
    line: &Line<'_>,
    at: &Found,
    cmd: &FilterCommand,
    named: Named,
) -> Result<(), Failure> {
    let kind = cmd.kind.as_ref().map(|k| k.text.as_str());
    let all = named.prio.is_none() && named.handle.is_none() && named.protocol.is_none() && kind.is_none();
    match at.block {
        Some(block) => {
            let done = session.devices.filters_mut().delete(block, named, kind);
            done.map_err(|err| refuse(line, cmd, &err))
        }
        None if all => Ok(()),
        None => {
            let err = line.error(code::NOT_FOUND, line.span, "there are no filters");
            Err(Failure::refused(err.linux(kernel::NO_CHAIN)))
        }
    }
}

fn get(
    session: &mut Session<'_>,
    line: &Line<'_>,
    at: &Found,
    cmd: &FilterCommand,
    named: Named,
) -> Result<(), Failure> {
    let (Some(prio), Some(handle), Some(kind)) = (named.prio, &cmd.handle, &cmd.kind) else {
        let (what, part) = match (named.prio, &cmd.handle) {
            (None, _) => ("prio", "priority"),
            (_, None) => ("handle", "\"handle\""),
            _ => ("kind", "type"),
        };
        let message = format!("this does not say which {what}");
        let failure = line.usage(line.span, &message, "prio N, handle ID and the kind");
        return Err(failure.linux(Sentence::MustSpecify(part)));
    };
    let filters = session.devices.filters();
    let missing = |what: &str, linux: &'static str| {
        line.refused(code::NOT_FOUND, line.span, format!("there is no such {what}")).linux(linux)
    };
    let block = at.block.and_then(|block| filters.block(block));
    let chain = block.and_then(|b| Some((b, b.chain(named.chain)?)));
    let (block, chain) = chain.ok_or_else(|| missing("chain", kernel::NO_CHAIN))?;
    let wanted = |t: &&Table| t.prio == prio && named.protocol.is_none_or(|p| p == t.protocol);
    let table = chain.tables.iter().find(wanted);
    let table = table.ok_or_else(|| missing("priority and protocol", kernel::NO_PRIORITY))?;
    if table.kind() != kind.text {
        let message = format!("priority {prio} has {} filters", table.kind());
        let failure = line.refused(code::CONFLICT, &kind.span, message);
        return Err(failure.linux(kernel::OTHER_FILTER_KIND));
    }
    let of = at.dev.as_ref().map(|_| Of::Place(at.said));
    let head = Head { of, chain: Some(named.chain), protocol: true, prio: true };
    let ways = session.ways();
    let mut printed = Print::new(session.flags);
    block.find(table, named.handle.unwrap_or(0), &mut |rule, goal, hits| {
        let shown =
            Shown { handle: named.handle.unwrap_or(0), rule: &rule, goal, protocol: table.protocol, hits };
        printed.push(one(&head, table, Some(&shown), &ways));
    });
    if printed.is_empty() {
        let err = line.error(code::NOT_FOUND, &handle.span, "there is no filter of this handle");
        return Err(Failure::refused(err.linux(kernel::NO_FILTER)));
    }
    session.print(printed);
    Ok(())
}

/// Returns a refusal of core as a failure, at the word that it is about.
fn refuse(line: &Line<'_>, cmd: &FilterCommand, err: &ConfigError) -> Failure {
    let key = err.key.as_deref().unwrap_or("");
    let word = |word: &Option<Word>| word.as_ref().map(|w| w.span.clone());
    let option = || cmd.options.iter().position(|w| w.text == key).map(|at| cmd.options[at].span.clone());
    let span = match key {
        "handle" => word(&cmd.handle),
        "prio" => cmd.prio.as_ref().map(|p| p.span.clone()),
        "protocol" => word(&cmd.protocol),
        "chain" => cmd.chain.as_ref().map(|c| c.span.clone()),
        "kind" => word(&cmd.kind),
        _ => option(),
    };
    Failure::refused(said(line, span.as_ref().unwrap_or(line.span), err, cmd.verb, cmd.protocol.as_ref()))
}

/// Returns a refusal of core as the diagnostic of a line, which names this protocol.
fn said(
    line: &Line<'_>,
    span: &Range<usize>,
    err: &ConfigError,
    verb: Verb,
    protocol: Option<&Word>,
) -> Diagnostic {
    let code = match err.kind {
        ErrorKind::Exists => code::EXISTS,
        ErrorKind::NotFound => code::NOT_FOUND,
        ErrorKind::Missing => code::MISSING,
        ErrorKind::Conflict => code::CONFLICT,
        ErrorKind::OutOfRange => code::OUT_OF_RANGE,
        ErrorKind::Unsupported => code::UNSUPPORTED,
        _ => code::BAD_VALUE,
    };
    let linux = kernel::for_filter(err, verb, protocol);
    Diagnostic {
        linux: linux.map(Cow::Borrowed),
        ..line.error(code, span, err.to_string()).hint(err.hint.clone())
    }
}

/// Runs a `chain` line.
pub(super) fn run_chain(
    session: &mut Session<'_>,
    source: &Arc<Source>,
    cmd: &ChainCommand,
) -> Result<(), Failure> {
    let line = Line { source, span: &cmd.span, place: cmd.place.as_ref() };
    let at = line.find(session, cmd.target.as_ref())?;
    let chain = line.chain(cmd.chain.as_ref())?;
    let span = cmd.chain.as_ref().map_or(line.span, |c| &c.span);
    let missing = || {
        let err = line.error(code::NOT_FOUND, span, format!("there is no chain {chain}"));
        Failure::refused(err.linux(kernel::NO_CHAIN))
    };
    match cmd.verb {
        Verb::Delete => {
            let block = at.block.ok_or_else(missing)?;
            let done = session.devices.filters_mut().delete_chain(block, chain);
            done.map_err(|err| Failure::refused(said(&line, span, &err, cmd.verb, None)))
        }
        Verb::Get => {
            let found = at.block.and_then(|block| session.devices.filters().block(block));
            if found.is_none_or(|b| b.chain(chain).is_none()) {
                return Err(missing());
            }
            // A chain is always named by its qdisc.
            let of = at.dev.as_ref().map(|_| Of::Place(at.at.qdisc()));
            chains(session, at.block, of, Some(chain), true);
            Ok(())
        }
        _ => {
            let template = template(session, &line, &at, cmd)?;
            let filters = session.devices.filters_mut();
            let block = at.block.unwrap_or_else(|| filters.add_block());
            let done = filters.add_chain(block, chain, template);
            settle(session, &at, block, done.is_ok());
            done.map_err(|err| Failure::refused(said(&line, span, &err, cmd.verb, None)))
        }
    }
}

/// Returns the template for the filters of a chain that a line describes.
fn template(
    session: &mut Session<'_>,
    line: &Line<'_>,
    at: &Found,
    cmd: &ChainCommand,
) -> Result<Option<Template>, Failure> {
    let Some(kind) = &cmd.kind else { return Ok(None) };
    let protocol = cmd.protocol.as_ref().and_then(|word| protocol::number(&word.text)).unwrap_or(0);
    let said = Said::filter(line.source, kind, None, &cmd.options);
    let rule =
        filter::template(&said, &Where { protocol, qdisc: at.at }, &mut |name| session.devices.port(name))?;
    Ok(Some(Template { protocol, rule }))
}

/// The owner of filters and chains in a listing.
#[derive(Clone, Copy)]
enum Of {
    /// A place of a device.
    Place(Handle),
    /// A block, at a place that shares it.
    Block(u32),
}

impl Of {
    /// Returns the owner of the filters at a place.
    fn place(filters: &Filters, block: Option<BlockId>, at: Handle) -> Self {
        let number = block.and_then(|block| filters.block(block)?.number());
        number.map_or(Self::Place(at), Self::Block)
    }
    /// Returns the owner to print: a place that was asked for is left out, a block never.
    fn unless(self, asked: bool) -> Option<Self> {
        (!asked || matches!(self, Self::Block(_))).then_some(self)
    }
}

/// The part of a filter's place that is printed.
struct Head {
    /// The place, if it is printed.
    of: Option<Of>,
    /// The chain, if it is printed.
    chain: Option<u32>,
    protocol: bool,
    prio: bool,
}

/// Prints a filter, or only its table (`None`).
fn one(head: &Head, table: &Table, shown: Option<&Shown<'_>>, ways: &Ways<'_>) -> (String, String) {
    let mut out = Out::new();
    out.text("filter ");
    match head.of {
        Some(Of::Block(number)) => out.uint("block", number, &format!("block {number} ")),
        Some(Of::Place(Handle::ROOT)) => out.flag("root", "root "),
        Some(Of::Place(Hook::INGRESS)) => out.flag("ingress", "ingress "),
        Some(Of::Place(Hook::EGRESS)) => out.flag("egress", "egress "),
        Some(Of::Place(parent)) => out.word("parent", &parent.to_string(), &format!("parent {parent} ")),
        None => {}
    }
    if head.protocol {
        let name = protocol::name(table.protocol);
        out.word("protocol", &name, &format!("protocol {name} "));
    }
    if head.prio {
        out.uint("pref", table.prio, &format!("pref {} ", table.prio));
    }
    out.word("kind", table.kind(), &format!("{} ", table.kind()));
    if let Some(chain) = head.chain {
        out.uint("chain", chain, &format!("chain {chain} "));
    }
    if let Some(shown) = shown {
        out.open("options");
        filter::show(shown, ways, &mut out);
        out.close();
    }
    out.text("\n");
    out.finish()
}

/// Prints the filters that a line asks for.
pub(super) fn list(session: &mut Session<'_>, cmd: &FilterCommand, dev: &str) {
    let asked = cmd.place.as_ref().map(|p| p.value);
    let Some((block, said)) = session.devices.device(dev).and_then(|device| {
        let (at, said) = place(device, asked).ok()?;
        Some((device.tree().block(at), said))
    }) else {
        return session.print(Print::new(session.flags));
    };
    let of = Of::place(session.devices.filters(), block, said).unless(asked.is_some());
    print(session, cmd, block, of);
}

/// Prints the filters of a shared block that a line asks for.
pub(super) fn list_block(session: &mut Session<'_>, cmd: &FilterCommand, block: BlockId) {
    print(session, cmd, Some(block), None);
}

fn print(session: &mut Session<'_>, cmd: &FilterCommand, block: Option<BlockId>, of: Option<Of>) {
    let wanted = cmd.protocol.as_ref().and_then(|word| protocol::number(&word.text));
    let prio = cmd.prio.as_ref().map(|p| p.value).filter(|p| *p != 0);
    let only = cmd.chain.as_ref().map(|c| c.value);
    let head = Head { of, chain: None, protocol: wanted.is_none(), prio: prio.is_none() };
    let (flags, class_names) = (session.flags, session.class_names);
    let mut printed = Print::new(flags);
    let mut print_table = |devices: &dyn Devices, block: &Block, chain: &Chain, table: &Table| {
        if only.is_some_and(|only| only != chain.index)
            || prio.is_some_and(|p| p != u32::from(table.prio))
            || wanted.is_some_and(|w| w != table.protocol)
        {
            return;
        }
        let ways = ways(devices, flags, class_names);
        let head = Head { chain: only.is_none().then_some(chain.index), ..head };
        printed.push(one(&head, table, None, &ways));
        block.visit(table, &mut |handle, rule, goal, hits| {
            let shown = Shown { handle, rule: &rule, goal, protocol: table.protocol, hits };
            printed.push(one(&head, table, Some(&shown), &ways));
        });
    };
    if let Some(block) = block {
        session.devices.each_table(block, &mut print_table);
    }
    session.print(printed);
}

/// Returns the chains of a block in the order in which they were made, which is that of listings.
#[must_use]
pub fn in_order(filters: &Filters, block: Option<BlockId>) -> Vec<&Chain> {
    let block = block.and_then(|block| filters.block(block));
    let mut chains: Vec<_> = block.map(|b| b.chains().collect()).unwrap_or_default();
    chains.sort_by_key(|chain| chain.made);
    chains
}

/// Prints the chains that a line asks for.
pub(super) fn list_chains(session: &mut Session<'_>, cmd: &ChainCommand, dev: &str) {
    let Some(device) = session.devices.device(dev) else { return };
    match place(device, cmd.place.as_ref().map(|p| p.value)) {
        Err(_) => session.print(Print::new(session.flags)),
        Ok((at, said)) => {
            let block = device.tree().block(at);
            let asked = cmd.place.is_some() && said == at.qdisc();
            let of = Of::place(session.devices.filters(), block, at.qdisc()).unless(asked);
            chains(session, block, of, cmd.chain.as_ref().map(|c| c.value), false);
        }
    }
}

/// Prints the chains of a shared block that a line asks for.
pub(super) fn list_chains_block(session: &mut Session<'_>, cmd: &ChainCommand, block: BlockId) {
    chains(session, Some(block), None, cmd.chain.as_ref().map(|c| c.value), false);
}

/// Prints chains: all, or the one asked for, whose number is then left out unless the line is
/// `get`.
fn chains(session: &mut Session<'_>, block: Option<BlockId>, of: Option<Of>, only: Option<u32>, got: bool) {
    let mut printed = Print::new(session.flags);
    let all = in_order(session.devices.filters(), block).into_iter().map(|chain| chain.index);
    let all: Vec<u32> = all.filter(|index| only.is_none_or(|only| only == *index)).collect();
    session.devices.in_steps(all, &mut |devices, index| {
        let filters = devices.filters();
        let Some(chain) = block.and_then(|block| filters.block(block)?.chain(index)) else { return };
        let mut out = Out::new();
        out.text("chain ");
        match of {
            Some(Of::Place(qdisc)) => out.word("parent", &qdisc.to_string(), &format!("parent {qdisc} ")),
            Some(Of::Block(number)) => out.uint("block", number, &format!("block {number} ")),
            None => {}
        }
        let template = chain.template.as_deref().map(|template| &template.rule);
        if let Some(rule) = template {
            out.word("kind", rule.kind(), &format!("{} ", rule.kind()));
        }
        if only.is_none() || got {
            out.uint("chain", chain.index, &format!("chain {} ", chain.index));
        }
        if let Some(rule) = template {
            out.open("options");
            filter::show_template(rule, &mut out);
            out.close();
        }
        out.text("\n");
        printed.push(out.finish());
    });
    session.print(printed);
}
