//! The places of filters on a device: qdiscs, classes and hooks.

use txweir_core::Handle;
use txweir_core::classify::filter::BlockId;
use txweir_core::sched::discipline::Filtered;

use super::apply::has_qdisc;
use super::{Device, Hook};
use crate::ast::Place;
use crate::kernel;

/// The hooks have this major number.
const HOOK: u16 = 0xffff;

/// A place that asks no filters.
pub(super) struct NoFilters {
    /// The reason.
    pub(super) message: String,
    /// Linux's lines.
    pub(super) linux: &'static str,
}

impl NoFilters {
    fn new(linux: &'static str, message: impl Into<String>) -> Self {
        Self { message: message.into(), linux }
    }
}

/// Returns the name by which the tree of a device knows a place for filters, and the place as Linux
/// reports it.
pub(super) fn place(device: &dyn Device, place: Option<Place>) -> Result<(Handle, Handle), NoFilters> {
    let no_hook =
        || NoFilters::new(kernel::NO_PARENT, format!("{} has no ingress or clsact hook", device.name()));
    let root = device.tree().root().handle();
    match (place, device.hook()) {
        (None | Some(Place::Below(Handle::ROOT | Handle::NONE)), _) => {
            let said = if place == Some(Place::Below(Handle::ROOT)) { Handle::ROOT } else { root };
            at_qdisc(device, root).map(|at| (at, said))
        }
        (Some(Place::Ingress | Place::Egress), None) => Err(no_hook()),
        (Some(Place::Ingress), Some(_)) => Ok((Hook::INGRESS, Hook::INGRESS)),
        (Some(Place::Egress), Some(Hook::Clsact)) => Ok((Hook::EGRESS, Hook::EGRESS)),
        // The ingress hook accepts every name.
        (Some(Place::Egress), Some(Hook::Ingress)) => Ok((Hook::INGRESS, Hook::EGRESS)),
        // A qdisc may have the major number of the hooks.
        (Some(Place::Below(at)), _) if at.major() == HOOK && has_qdisc(device, at.qdisc()) => {
            at_qdisc(device, at).map(|key| (key, at))
        }
        (Some(Place::Below(at)), None) if at.major() == HOOK => Err(no_hook()),
        (Some(Place::Below(at)), Some(Hook::Ingress)) if at.major() == HOOK => Ok((Hook::INGRESS, at)),
        (Some(Place::Below(at @ (Hook::INGRESS | Hook::EGRESS))), Some(Hook::Clsact)) => Ok((at, at)),
        (Some(Place::Below(at)), Some(Hook::Clsact)) if at.major() == HOOK => {
            let message =
                format!("clsact has two places, {} and {}: {at} is neither", Hook::INGRESS, Hook::EGRESS);
            let linux = if at.minor() == 0 { kernel::INVALID_TALKING } else { kernel::NO_SUCH_CLASS };
            Err(NoFilters::new(linux, message))
        }
        (Some(Place::Below(at) | Place::Handle(at)), _) => at_qdisc(device, at).map(|key| (key, at)),
        (Some(Place::Clsact), _) => {
            Err(NoFilters::new(kernel::INVALID_TALKING, "clsact is two places: ingress and egress"))
        }
    }
}

/// A place that asks filters, and its filters.
#[derive(Clone, Copy, Debug)]
pub struct Asks {
    /// The name by which the tree knows it.
    pub at: Handle,
    /// The name that a listing of filters has for it.
    pub said: Handle,
    /// The filters.
    pub block: Option<BlockId>,
}

/// Returns the place of a device that Linux names by a parent, 0 for the root qdisc. `None` if
/// nothing asks filters there.
#[must_use]
pub fn filters_at(device: &dyn Device, parent: Handle) -> Option<Asks> {
    let asked = Some(parent).filter(|parent| !parent.is_none()).map(Place::Below);
    let (at, said) = place(device, asked).ok()?;
    Some(Asks { at, said, block: device.tree().block(at) })
}

/// Checks that a qdisc or class asks filters.
fn at_qdisc(device: &dyn Device, at: Handle) -> Result<Handle, NoFilters> {
    let tree = device.tree();
    let node = if at.is_none() { Some(tree.root()) } else { tree.qdisc(at) };
    let found = node.map(|node| {
        let qdisc = node.qdisc();
        let class = at.minor() == 0
            || qdisc.class(at.minor()).is_some()
            || qdisc.user_classes().is_some_and(|classes| classes.has(at.minor()));
        (qdisc.spec(), class)
    });
    match found {
        None => {
            let message = match at.is_none() {
                true => format!("{} has no qdisc that asks filters", device.name()),
                false => format!("{} has no qdisc {}", device.name(), at.qdisc()),
            };
            Err(NoFilters::new(kernel::NO_PARENT, message))
        }
        Some((spec, _)) if spec.root_only => {
            let kind = spec.kind;
            let message = format!(
                "{kind} asks no filters: a queue is chosen before it (add clsact, and the filter at egress)"
            );
            Err(NoFilters::new(kernel::NO_CLASS_BLOCKS, message))
        }
        Some((spec, _)) if spec.filters == Filtered::No => {
            let linux = match spec.shape.is_classful() {
                true => kernel::NO_CLASS_BLOCKS,
                false => kernel::NOT_CLASSFUL,
            };
            Err(NoFilters::new(linux, format!("{} asks no filters", spec.kind)))
        }
        Some((_, false)) => Err(NoFilters::new(kernel::NO_SUCH_CLASS, format!("there is no class {at}"))),
        Some((spec, true)) if at.minor() != 0 && spec.filters != Filtered::Classes => {
            let message = format!("the classes of {} ask no filters: it does", spec.kind);
            Err(NoFilters::new(kernel::INVALID_TALKING, message))
        }
        Some(_) => Ok(at),
    }
}
