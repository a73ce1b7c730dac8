//! `actions` lines run on the actions of all devices, and the listings of actions.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use txweir_core::classify::action::{Action, ActionId, Control, KINDS, Wanted};
use txweir_core::{ConfigError, Instant};

use super::list::{Print, ways};
use super::session::Session;
use crate::action::{self, In, is_control, number};
use crate::ast::{ActionsCommand, Verb};
use crate::diagnostic::{Diagnostic, code};
use crate::failure::Failure;
use crate::kernel;
use crate::language::{self, Object, Settings};
use crate::lex::Word;
use crate::out::Out;
use crate::sentence::Sentence;
use crate::source::Source;

/// Runs an `actions` line. As in tc, a refusal of the kernel has status 255 here.
pub(super) fn run(
    session: &mut Session<'_>,
    source: &Arc<Source>,
    cmd: &ActionsCommand,
) -> Result<(), Failure> {
    match cmd.verb {
        Verb::Flush => flush(session, source, cmd),
        Verb::Delete => delete(session, source, cmd),
        Verb::Get => get(session, source, cmd),
        _ => put(session, source, cmd),
    }
}

/// Returns the failure of a line, with Linux's lines for it.
fn refused(
    source: &Arc<Source>,
    span: &Range<usize>,
    code: &'static str,
    message: String,
    linux: impl Into<Cow<'static, str>>,
) -> Failure {
    Failure::usage(Diagnostic::error(code, source, span.clone(), message)).linux(linux)
}

/// Adds, replaces or changes all actions of a line, or none.
fn put(session: &mut Session<'_>, source: &Arc<Source>, cmd: &ActionsCommand) -> Result<(), Failure> {
    let settings = Settings::of_actions(source, &cmd.options);
    let mut wanted = Vec::new();
    for one in settings.actions() {
        let span = one.kind.span.clone();
        let read = action::read(source, &one, None, &mut |name| session.devices.port(name));
        match read.map_err(Failure::usage)? {
            Wanted::There(kind, index) => {
                let message = format!("action {kind} index {index} has no parameters");
                let linux = if kind == "mirred" { kernel::NO_MIRRED } else { kernel::INVALID_TALKING };
                return Err(refused(source, &span, code::MISSING, message, linux));
            }
            Wanted::New(_, action) if matches!(action.control, Control::Goto(_)) => {
                let message = "an action outside of a filter has no chains to go to".to_string();
                return Err(refused(source, &span, code::UNSUPPORTED, message, kernel::NO_CHAINS));
            }
            Wanted::New(index, action) => wanted.push((index, *action, span)),
        }
    }
    let now = session.devices.now();
    let mut made: Vec<ActionId> = Vec::new();
    for (index, action, span) in wanted {
        let done = put_one(session, cmd.verb, index, action, now);
        match done {
            Ok(id) => made.extend(id),
            Err(err) => {
                undo(session, &made);
                return Err(refused(source, &span, code::EXISTS, err.to_string(), kernel::for_action(&err)));
            }
        }
    }
    Ok(())
}

/// Puts one action; returns it if it is a new one.
fn put_one(
    session: &mut Session<'_>,
    verb: Verb,
    index: Option<u32>,
    mut action: Action,
    now: Instant,
) -> Result<Option<ActionId>, ConfigError> {
    let actions = &mut session.devices.filters_mut().actions;
    let there = index.and_then(|index| actions.find(action.kind.name(), index));
    match (verb, there.and_then(|id| actions.entry(id))) {
        (Verb::Add, _) | (_, None) => actions.add(index, action, now).map(Some),
        (_, Some(entry)) => {
            // As in Linux, parts that the line does not repeat stay.
            if action.cookie.is_empty() {
                action.cookie.clone_from(&entry.action.cookie);
            }
            action.no_percpu |= entry.action.no_percpu;
            actions.replace(index, action, now).map(|_| None)
        }
    }
}

fn undo(session: &mut Session<'_>, made: &[ActionId]) {
    let actions = &mut session.devices.filters_mut().actions;
    for id in made {
        let named = actions.entry(*id).map(|e| (e.action.kind.name(), e.index));
        if let Some((kind, index)) = named {
            // It is new, so that no filter holds it.
            let _ = actions.delete(kind, index);
        }
    }
}

/// Returns the action that a line names by kind and index.
fn named<'a>(
    source: &Arc<Source>,
    cmd: &'a ActionsCommand,
) -> Result<Vec<(&'a Word, u32, &'a Word)>, Failure> {
    let mut all = Vec::new();
    for words in cmd.options.split(|w| matches!(w.text.as_str(), "action" | "actions")) {
        let [kind, rest @ ..] = words else { continue };
        let at = rest.iter().position(|w| w.text == "index").and_then(|at| rest.get(at + 1));
        let Some(word) = at else {
            let message = format!("this does not say which {} action", kind.text);
            let linux = format!("Error: no index specified action: {}", kind.text);
            let err = refused(source, &kind.span, code::MISSING, message, linux);
            let diagnostic = err.diagnostic.expected("index N");
            return Err(Failure { diagnostic, ..err });
        };
        match number(&word.text) {
            Some(index) => all.push((kind, index, word)),
            None => {
                let message = format!("index: \"{}\" is not a value for it", word.text);
                return Err(refused(
                    source,
                    &word.span,
                    code::BAD_VALUE,
                    message,
                    Sentence::Illegal("index"),
                ));
            }
        }
    }
    Ok(all)
}

fn found(
    session: &Session<'_>,
    source: &Arc<Source>,
    kind: &Word,
    index: u32,
    at: &Word,
) -> Result<ActionId, Failure> {
    let id = session.devices.filters().actions.find(&kind.text, index);
    id.ok_or_else(|| {
        let message = format!("there is no action {} index {index}", kind.text);
        refused(source, &at.span, code::NOT_FOUND, message, kernel::NO_ACTION)
    })
}

fn delete(session: &mut Session<'_>, source: &Arc<Source>, cmd: &ActionsCommand) -> Result<(), Failure> {
    let all = named(source, cmd)?;
    let mut due = Vec::with_capacity(all.len());
    for (kind, index, at) in all {
        let id = found(session, source, kind, index, at)?;
        let entry = session.devices.filters().actions.entry(id);
        let binds = entry.map_or(0, |e| e.binds);
        due.extend(entry.map(|e| (e.action.kind.name(), index, at)));
        if binds > 0 {
            let message = format!("action {} index {index} is held by {binds} filters", kind.text);
            return Err(refused(source, &at.span, code::CONFLICT, message, kernel::ACTION_HELD));
        }
    }
    for (kind, index, at) in due {
        let done = session.devices.filters_mut().actions.delete(kind, index);
        done.map_err(|err| {
            refused(source, &at.span, code::NOT_FOUND, err.to_string(), kernel::for_action(&err))
        })?;
    }
    Ok(())
}

fn get(session: &mut Session<'_>, source: &Arc<Source>, cmd: &ActionsCommand) -> Result<(), Failure> {
    let mut ids = Vec::new();
    for (kind, index, at) in named(source, cmd)? {
        ids.push(found(session, source, kind, index, at)?);
    }
    print(session, &ids, 0, In::Get);
    Ok(())
}

fn flush(session: &mut Session<'_>, source: &Arc<Source>, cmd: &ActionsCommand) -> Result<(), Failure> {
    let Some(kind) = cmd.options.iter().find(|w| !matches!(w.text.as_str(), "action" | "actions")) else {
        return Ok(());
    };
    let failed = |message: String, linux: &'static str| {
        let err = Diagnostic::error(code::NOT_FOUND, source, kind.span.clone(), message);
        Failure::unparsable(err.linux(linux))
    };
    if !language::knows(Object::Action, &kind.text) || is_control(&kind.text) {
        return Err(failed(format!("there is no action \"{}\"", kind.text), kernel::CANNOT_FLUSH));
    }
    let actions = &mut session.devices.filters_mut().actions;
    let gone = actions.flush(&kind.text);
    let held = actions.of_kind(&kind.text).count();
    if held > 0 && gone == 0 {
        let message = format!("the first of {held} {} actions is held by a filter", kind.text);
        return Err(failed(message, kernel::FLUSH_HELD));
    }
    if held > 0 {
        let message = format!("{held} {} actions stay: the first of them is held by a filter", kind.text);
        session.say(&Diagnostic::error(code::CONFLICT, source, kind.span.clone(), message).warning());
    }
    Ok(())
}

/// Prints all actions of the kind that a line asks for.
pub(super) fn list(session: &mut Session<'_>, cmd: &ActionsCommand) {
    let asked = cmd.options.iter().find(|w| !matches!(w.text.as_str(), "action" | "actions"));
    let kind = KINDS.iter().find(|kind| asked.is_some_and(|w| w.text == **kind));
    let actions = &session.devices.filters().actions;
    let ids: Vec<ActionId> =
        kind.map(|kind| actions.of_kind(kind).map(|(id, _)| id).collect()).unwrap_or_default();
    match ids.is_empty() {
        true => session.print(Print::new(session.flags)),
        false => print(session, &ids, ids.len(), In::List),
    }
}

/// Prints actions below a line with their number, as in tc; without that line if they were asked
/// for one by one.
fn print(session: &mut Session<'_>, ids: &[ActionId], total: usize, place: In) {
    let (flags, class_names) = (session.flags, session.class_names);
    let mut printed = Print::new(flags);
    let mut out = Out::new();
    out.uint("total acts", total as u64, &format!("total acts {total}\n"));
    printed.push(out.finish());
    let mut out = Out::new();
    out.open_list("actions");
    let first = if place == In::Get { 1u32 } else { 0 };
    session.devices.in_steps((first..).zip(ids), &mut |devices, (order, id)| {
        action::show(*id, order, &ways(devices, flags, class_names), place, &mut out);
    });
    out.close_list();
    printed.push(out.finish());
    session.print(printed);
}
