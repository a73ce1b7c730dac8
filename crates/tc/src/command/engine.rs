//! Conditions for the engine to run a line, and objects that the engine does not have. tc leaves
//! these to the kernel, so that its exit status for them is [`REFUSED`](crate::failure::REFUSED).

use std::sync::Arc;

use super::class;

use crate::ast::{At, ClassCommand, Command, Place, QdiscCommand, Verb};
use crate::diagnostic::{Diagnostic, code};
use crate::kernel;
use crate::kinds::{self, spec_of};
use crate::lex::{Line, Word};
use crate::source::Source;

/// Returns the object and the verb of a line, as far as they were given.
pub(crate) fn head(line: &Line) -> (Option<&Word>, Option<&Word>) {
    let from = usize::from(line.words.first().is_some_and(|w| w.text == "tc"));
    (line.words.get(from), line.words.get(from + 1))
}

/// Checks that the engine can run the line, as far as that is known without a device.
pub(crate) fn check(source: &Arc<Source>, line: &Line, cmd: &Command) -> Result<(), Diagnostic> {
    match cmd {
        _ if matches!(cmd.verb(), Verb::Show) => Ok(()),
        Command::Qdisc(cmd) => qdisc(source, line, cmd),
        Command::Class(cmd) => class(source, line, cmd),
        // The caller that runs these looks at the existing objects.
        Command::Filter(_) | Command::Chain(_) | Command::Actions(_) => Ok(()),
    }
}

fn class(source: &Arc<Source>, line: &Line, cmd: &ClassCommand) -> Result<(), Diagnostic> {
    let verb = head(line).1.map_or_else(|| line.span(), |verb| verb.span.clone());
    if let Some(kind) = cmd.kind.as_ref().filter(|k| spec_of(source, k).is_none()) {
        return Err(class::no_such_kind(source, kind));
    }
    let missing = |message: &str, expected: &str| {
        Err(Diagnostic::error(code::MISSING, source, verb.clone(), message).expected(expected))
    };
    if cmd.classid.as_ref().is_none_or(|c| c.value.minor() == 0) {
        return missing("this does not say which class", "classid MAJOR:MINOR")
            .map_err(|err: Diagnostic| err.linux(kernel::NO_CLASS));
    }
    match (cmd.verb, &cmd.parent, &cmd.kind) {
        (Verb::Add | Verb::Replace, None, _) => {
            missing("this does not say where", "root, or parent MAJOR:MINOR")
        }
        (Verb::Add | Verb::Replace | Verb::Change, _, None) => {
            missing("this does not say which kind of class", "the kind of its qdisc")
        }
        _ => Ok(()),
    }
}

fn qdisc(source: &Arc<Source>, line: &Line, cmd: &QdiscCommand) -> Result<(), Diagnostic> {
    // The kind comes first, because it may be another word mistyped.
    if let Some(kind) = cmd.kind.as_ref().filter(|k| spec_of(source, k).is_none()) {
        return Err(kinds::unknown_kind(source, kind).linux(kernel::UNKNOWN_KIND));
    }
    let unsupported = |at: &std::ops::Range<usize>, kernel: &'static str, message: &str| {
        Err(Diagnostic::error(code::UNSUPPORTED, source, at.clone(), message).linux(kernel))
    };
    let hook = matches!(cmd.place, Some(At { value: Place::Ingress | Place::Clsact, .. }));
    let lines = [kernel::NO_INGRESS_BLOCKS, kernel::NO_EGRESS_BLOCKS];
    if let Some((block, kernel)) =
        cmd.blocks.iter().zip(lines).find_map(|(b, line)| Some((b.as_ref()?, line)))
        && !hook
        && cmd.verb != Verb::Delete
    {
        return unsupported(&block.span, kernel, "only ingress and clsact have blocks that devices share");
    }
    let by_handle = matches!(cmd.verb, Verb::Change | Verb::Link | Verb::Delete) && cmd.handle.is_some();
    if cmd.place.is_none() && !by_handle {
        let span = head(line).1.map_or_else(|| line.span(), |verb| verb.span.clone());
        let err = Diagnostic::error(code::MISSING, source, span, "this does not say where");
        let kernel = match cmd.verb {
            Verb::Add | Verb::Replace => kernel::NO_HANDLE,
            _ => kernel::NO_QDISC,
        };
        return Err(err.expected("root, or parent MAJOR:MINOR").linux(kernel));
    }
    match (cmd.verb, &cmd.kind) {
        (Verb::Add | Verb::Replace, None) if !hook => {
            let err = Diagnostic::error(code::MISSING, source, line.span(), "this does not say which kind");
            Err(err.expected(kinds::known_kinds(source)).linux(kernel::UNKNOWN_KIND))
        }
        _ => Ok(()),
    }
}
