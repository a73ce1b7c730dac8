//! A changing `qdisc` or `class` line run on one device, as a whole or not at all.

use std::sync::Arc;

use txweir_core::Handle;
use txweir_core::classify::filter::BlockId;
use txweir_core::path::trees::Trees;
use txweir_core::sched::cx::Cx;

use super::{Device, Hook, blocks};
use crate::ast::{At, ClassCommand, Command, Place, QdiscCommand, Verb};
use crate::command::{self, Change};
use crate::diagnostic::{Diagnostic, code};
use crate::kernel;
use crate::source::Source;

/// The place and the handle that Linux has for both hooks.
const HOOK: Handle = Handle::new(0xffff, 0xfff1);
const HOOK_HANDLE: Handle = Handle::new(0xffff, 0);

/// Returns surroundings for trees that no packet goes through.
pub(super) fn scratch_cx() -> Cx {
    Cx::new(1, 0)
}

/// Returns the line as tc sends it to the kernel: handles without minor numbers, no options for a
/// deletion. `None` if it is not about a tree.
pub(super) fn as_tc_takes_it(cmd: &Command) -> Option<Change> {
    let mut change = Change::of(cmd)?;
    match &mut change {
        Change::Qdisc(cmd) => {
            if let Some(handle) = &mut cmd.handle {
                handle.value = handle.value.qdisc();
            }
            if cmd.verb == Verb::Delete {
                cmd.options.clear();
            }
        }
        Change::Class(cmd) if cmd.verb == Verb::Delete => cmd.options.clear(),
        Change::Class(_) => {}
    }
    Some(change)
}

/// True if a line has to do with a shared rate: it asks for one, or is about a class that has one.
/// A class that is made, and an object that is deleted, takes the rate of no other.
pub(super) fn shares(change: &Change, trees: &Trees<'_>) -> bool {
    let there = match change {
        Change::Class(ClassCommand { verb: Verb::Add | Verb::Delete, .. }) => false,
        Change::Class(cmd) => {
            let id = cmd.classid.as_ref().map_or(Handle::NONE, |id| id.value);
            let node = if id.major() == 0 { Some(trees.root()) } else { trees.qdisc(id) };
            node.is_some_and(|node| node.qdisc().shared(id.minor()).is_some())
        }
        // A change of a qdisc says all its options anew.
        Change::Qdisc(_) => false,
    };
    there || change.shares()
}

/// Refuses a deletion by the handle alone, which tc does not have.
pub(super) fn has_place(source: &Arc<Source>, cmd: &Command) -> Result<(), Diagnostic> {
    match cmd {
        Command::Qdisc(cmd) if cmd.place.is_none() && cmd.verb == Verb::Delete => {
            let span = cmd.handle.as_ref().map_or_else(|| cmd.span.clone(), |h| h.span.clone());
            let err =
                Diagnostic::error(code::MISSING, source, span, "del needs the place, not only the handle");
            Err(err.expected("root, or parent MAJOR:MINOR").linux(kernel::NO_CLASSID))
        }
        _ => Ok(()),
    }
}

/// Runs a change on a device; returns the filters of removed qdiscs and classes. An error leaves
/// the device as it was.
pub(super) fn run(
    source: &Arc<Source>,
    change: &Change,
    device: &mut dyn Device,
) -> Result<Vec<BlockId>, Diagnostic> {
    if let Change::Class(cmd) = change
        && let Some(id) = cmd.classid.as_ref().filter(|id| id.value == Handle::ROOT)
        && cmd.verb != Verb::Delete
    {
        let message = "Cannot create traffic class with classid TC_H_ROOT";
        return Err(Diagnostic::error(code::OUT_OF_RANGE, source, id.span.clone(), message));
    }
    if let Change::Qdisc(cmd) = change
        && let Some(hook) = hook_of(cmd, device)
    {
        run_hook(source, cmd, hook, device)?;
        return Ok(hook_orphans(device));
    }
    let (mut refused, mut orphans) = (None, Vec::new());
    device.configure(&mut |qdiscs| {
        if let Err(err) = command::run(source, change, qdiscs) {
            refused = Some(err);
        }
        orphans = qdiscs.take_orphans();
    });
    refused.map_or(Ok(orphans), Err)
}

/// Removes and returns the filters of hooks that a device no longer has.
fn hook_orphans(device: &mut dyn Device) -> Vec<BlockId> {
    if device.hook().is_some() {
        return Vec::new();
    }
    let hooks = [Hook::INGRESS, Hook::EGRESS];
    let orphans: Vec<BlockId> = hooks.iter().filter_map(|at| device.tree().block(*at)).collect();
    if !orphans.is_empty() {
        device.configure(&mut |qdiscs| hooks.iter().for_each(|at| qdiscs.set_block(*at, None)));
    }
    orphans
}

/// Returns the hook that a line is about, if any: by its word, or by its number in Linux.
fn hook_of(cmd: &QdiscCommand, device: &dyn Device) -> Option<Hook> {
    let there = device.hook().unwrap_or(Hook::Ingress);
    match (cmd.place.as_ref().map(|p| p.value), &cmd.handle) {
        (Some(Place::Ingress), _) => Some(Hook::Ingress),
        (Some(Place::Clsact), _) => Some(Hook::Clsact),
        (Some(Place::Below(HOOK)), _) => Some(there),
        (None, Some(At { value: HOOK_HANDLE, .. }))
            if device.hook().is_some() && cmd.verb != Verb::Delete && !has_qdisc(device, HOOK_HANDLE) =>
        {
            Some(there)
        }
        _ => None,
    }
}

/// True if a qdisc of the tree has this handle.
pub(super) fn has_qdisc(device: &dyn Device, handle: Handle) -> bool {
    device.tree().qdisc(handle).is_some_and(|node| node.handle() == handle)
}

fn run_hook(
    source: &Arc<Source>,
    cmd: &QdiscCommand,
    hook: Hook,
    device: &mut dyn Device,
) -> Result<(), Diagnostic> {
    let span = cmd.place.as_ref().map_or_else(|| cmd.span.clone(), |p| p.span.clone());
    let error = |code, kernel: &'static str, message: String| {
        Err(Diagnostic::error(code, source, span.clone(), message).linux(kernel))
    };
    if cmd.kind.is_some() && cmd.verb != Verb::Delete {
        let message = "Specified parent ID is reserved for ingress and clsact Qdiscs";
        return error(code::CONFLICT, kernel::RESERVED, message.into());
    }
    match (cmd.verb, device.hook()) {
        (Verb::Add, Some(there)) => error(
            code::EXISTS,
            kernel::TAKEN,
            format!("{} has a hook already: {}", device.name(), there.name()),
        ),
        (_, Some(there)) if there != hook => error(
            code::CONFLICT,
            kernel::OTHER_KIND,
            format!("{} has {} there, not {}", device.name(), there.name(), hook.name()),
        ),
        (Verb::Change | Verb::Link | Verb::Delete, None) => {
            let kernel = if cmd.verb == Verb::Delete { kernel::OTHER_HANDLE } else { kernel::NOT_THERE };
            error(code::NOT_FOUND, kernel, format!("{} has no {} hook", device.name(), hook.name()))
        }
        (Verb::Delete, Some(_)) => {
            device.set_hook(None);
            Ok(())
        }
        (_, Some(_)) => Ok(()),
        (_, None) => {
            blocks::check(source, cmd, hook)?;
            device.set_hook(Some(hook));
            Ok(())
        }
    }
}
