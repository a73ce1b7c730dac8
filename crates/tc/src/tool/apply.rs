//! A changing `qdisc` line done to one device, whole or not at all.

use std::sync::Arc;

use txweir_core::classify::filter::BlockId;
use txweir_core::path::rates::SharedRates;
use txweir_core::path::trees::Trees;
use txweir_core::sched::cx::Cx;
use txweir_core::{Handle, Tree};

use super::{Device, Hook, blocks};
use crate::ast::{At, Command, Place, QdiscCommand, Verb};
use crate::command::{self, Change};
use crate::diagnostic::{Diagnostic, code};
use crate::show;
use crate::source::Source;

/// The place and the handle that Linux has for both hooks.
const HOOK: Handle = Handle::new(0xffff, 0xfff1);
const HOOK_HANDLE: Handle = Handle::new(0xffff, 0);

/// Surroundings for trees that no packet goes through.
pub(super) fn scratch_cx() -> Cx {
    Cx::new(1, 0)
}

/// The line as tc sends it to the kernel: handles without minor numbers, no options for a deletion. `None` for what is
/// not about a tree.
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

/// The tree that a line would make, if it has to do with rates that are shared; none as well if it is refused for another reason.
pub(super) fn shares(source: &Arc<Source>, change: &Change, device: &dyn Device) -> Option<Tree> {
    if !change.shares() && !device.tree().trees().any(SharedRates::named) {
        return None;
    }
    let mut tree = copy(source, device.tree()).ok()?;
    command::run(source, change, &mut tree.edit(&mut scratch_cx())).ok()?;
    Some(tree)
}

/// tc has no deletion by the handle alone.
pub(super) fn has_place(source: &Arc<Source>, cmd: &Command) -> Result<(), Diagnostic> {
    match cmd {
        Command::Qdisc(cmd) if cmd.place.is_none() && cmd.verb == Verb::Delete => {
            let span = cmd.handle.as_ref().map_or_else(|| cmd.span.clone(), |h| h.span.clone());
            let err =
                Diagnostic::error(code::MISSING, source, span, "del needs the place, not only the handle");
            Err(err.expected("root, or parent MAJOR:MINOR"))
        }
        _ => Ok(()),
    }
}

/// Does it to a device, and gives the filters of what went with it. An error leaves the device as it was.
pub(super) fn run(
    source: &Arc<Source>,
    change: &Change,
    device: &mut dyn Device,
) -> Result<Vec<BlockId>, Diagnostic> {
    if let Change::Qdisc(cmd) = change
        && let Some(hook) = hook_of(cmd, device)
    {
        run_hook(source, cmd, hook, device)?;
        return Ok(hook_orphans(device));
    }
    if change.is_two_steps() {
        // Rehearsed, so that what is refused is refused before anything is touched.
        let mut rehearsed = copy(source, device.tree())?;
        command::run(source, change, &mut rehearsed.edit(&mut scratch_cx()))?;
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

/// The filters of hooks that a device has no more.
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

/// A copy of the structure of a device's qdiscs.
pub(super) fn copy<'a>(source: &Arc<Source>, trees: impl Into<Trees<'a>>) -> Result<Tree, Diagnostic> {
    show::copy(trees, &mut scratch_cx()).map_err(|err| {
        let message = format!("the qdiscs that are there cannot be said in tc's words: {err}");
        Diagnostic::error(code::UNSUPPORTED, source, 0..0, message)
    })
}

/// The hook that a line is about, if it is about one: by its word, or as Linux numbers it.
fn hook_of(cmd: &QdiscCommand, device: &dyn Device) -> Option<Hook> {
    let there = device.hook().unwrap_or(Hook::Ingress);
    match (cmd.place.as_ref().map(|p| p.value), &cmd.handle) {
        (Some(Place::Ingress), _) => Some(Hook::Ingress),
        (Some(Place::Clsact), _) => Some(Hook::Clsact),
        (Some(Place::Below(HOOK)), _) => Some(there),
        (None, Some(At { value: HOOK_HANDLE, .. }))
            if device.hook().is_some() && cmd.verb != Verb::Delete =>
        {
            Some(there)
        }
        _ => None,
    }
}

fn run_hook(
    source: &Arc<Source>,
    cmd: &QdiscCommand,
    hook: Hook,
    device: &mut dyn Device,
) -> Result<(), Diagnostic> {
    let span = cmd.place.as_ref().map_or_else(|| cmd.span.clone(), |p| p.span.clone());
    let error = |code, message: String| Err(Diagnostic::error(code, source, span.clone(), message));
    match (cmd.verb, device.hook()) {
        (Verb::Add, Some(there)) => {
            error(code::EXISTS, format!("{} has a hook already: {}", device.name(), there.name()))
        }
        (_, Some(there)) if there != hook => error(
            code::CONFLICT,
            format!("{} has {} there, not {}", device.name(), there.name(), hook.name()),
        ),
        (Verb::Change | Verb::Link | Verb::Delete, None) => {
            error(code::NOT_FOUND, format!("{} has no {} hook", device.name(), hook.name()))
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
