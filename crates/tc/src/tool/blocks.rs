//! Blocks of filters that devices share by number: `qdisc add dev NAME ingress_block N clsact`,
//! `filter add block N ...`.

use std::sync::Arc;

use txweir_core::Handle;
use txweir_core::classify::filter::{BlockId, Filters};
use txweir_core::classify::packet::PortId;
use txweir_core::path::trees::Trees;

use super::session::Session;
use super::{Device, Hook};
use crate::ast::{At, QdiscCommand, Verb};
use crate::command::Change;
use crate::diagnostic::{Diagnostic, code};
use crate::failure::Failure;
use crate::kernel;
use crate::sentence::Sentence;
use crate::source::Source;

/// The places of a device that can have shared blocks: the word, the hook.
const PLACES: [(&str, Handle); 2] = [("ingress_block", Hook::INGRESS), ("egress_block", Hook::EGRESS)];

/// Checks that a new hook can have the blocks that a line gives it.
pub(super) fn check(source: &Arc<Source>, cmd: &QdiscCommand, hook: Hook) -> Result<(), Diagnostic> {
    let refused = |at: &At<u32>, message: &str, linux: &'static str| {
        let err = Diagnostic::error(code::CONFLICT, source, at.span.clone(), message.to_string());
        Err(err.linux(linux))
    };
    match &cmd.blocks {
        [_, Some(egress)] if hook == Hook::Ingress => {
            let expected = "ingress_block alone, or clsact in place of ingress";
            refused(egress, "ingress has no filters for sent packets", kernel::NO_EGRESS_BLOCKS)
                .map_err(|err| err.expected(expected))
        }
        [Some(ingress), Some(egress)] if ingress.value == egress.value => {
            let message = "ingress and egress of a device cannot share a block";
            refused(egress, message, kernel::BLOCK_TAKEN)
        }
        _ => Ok(()),
    }
}

/// Warns of a line that gives other blocks to an existing hook: as in Linux, it keeps those that it
/// has.
pub(super) fn kept(
    source: &Arc<Source>,
    cmd: &QdiscCommand,
    device: &dyn Device,
    has: [Option<u32>; 2],
) -> Option<Diagnostic> {
    let mut said = cmd.blocks.iter().zip(has).filter_map(|(said, has)| Some((said.as_ref()?, has)));
    let (said, _) = said.find(|(said, has)| Some(said.value) != *has)?;
    if cmd.verb == Verb::Delete || device.hook().is_none() {
        return None;
    }
    let message = format!("{} has its hook already, which keeps the filters that it has", device.name());
    let err = Diagnostic::error(code::CONFLICT, source, said.span.clone(), message).warning();
    Some(err.hint(Some("del it first, and add it with its blocks".into())))
}

/// Gives the blocks that a line names to the hook that it has made.
pub(super) fn join(session: &mut Session<'_>, dev: &str, change: &Change) {
    let Change::Qdisc(cmd) = change else { return };
    for (said, (_, at)) in cmd.blocks.iter().zip(PLACES) {
        let Some(number) = said.as_ref().map(|said| said.value) else { continue };
        let port = session.devices.port(dev).unwrap_or(PortId::NONE);
        let block = session.devices.filters_mut().share(number, port);
        if let Some(device) = session.devices.device(dev) {
            device.configure(&mut |qdiscs| qdiscs.set_block(at, Some(block)));
        }
    }
}

/// Returns the filters of the hooks of a device, in the order of their words.
pub(super) fn at_hooks<'a>(trees: impl Into<Trees<'a>>) -> [Option<BlockId>; 2] {
    let trees = trees.into();
    PLACES.map(|(_, at)| trees.block(at))
}

/// Returns the numbers of those that are shared.
pub(super) fn shared(filters: &Filters, hooks: [Option<BlockId>; 2]) -> [Option<u32>; 2] {
    hooks.map(|block| filters.block(block?)?.number())
}

/// Returns the numbers of those that are shared, each with its word.
pub(super) fn numbers(filters: &Filters, hooks: [Option<BlockId>; 2]) -> Vec<(&'static str, u32)> {
    let all = PLACES.iter().zip(shared(filters, hooks));
    all.filter_map(|((word, _), number)| Some((*word, number?))).collect()
}

/// Returns the same as words, each with a space behind it.
pub(super) fn words(numbers: &[(&'static str, u32)]) -> String {
    numbers.iter().map(|(word, number)| format!("{word} {number} ")).collect()
}

/// Returns the error for `block 0`, which does not exist.
pub(super) fn none(source: &Arc<Source>, block: &At<u32>) -> Failure {
    let err = Diagnostic::error(code::OUT_OF_RANGE, source, block.span.clone(), "block cannot be 0");
    let failure = Failure::usage(err.expected("a block's number, at least 1"));
    failure.linux(Sentence::Argument("0", "invalid block index value"))
}

/// Returns the error for a block that no device has.
pub(super) fn missing(source: &Arc<Source>, block: &At<u32>) -> Diagnostic {
    let message = format!("there is no block {}", block.value);
    let err = Diagnostic::error(code::NOT_FOUND, source, block.span.clone(), message);
    let err = err.hint(Some(format!("qdisc add dev NAME ingress_block {} clsact makes it", block.value)));
    err.linux(kernel::NO_SUCH_BLOCK)
}
