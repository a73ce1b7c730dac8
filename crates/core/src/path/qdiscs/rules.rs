//! Rules about several qdiscs of one tree.

use alloc::format;
use alloc::vec::Vec;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::path::tree::Tree;
use crate::path::trees::Trees;
use crate::sched::erased::Resolved;
use crate::sched::spec::Spec;
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};

/// Refuses a second qdisc of a kind that makes copies. Copies enter at the root, where another such
/// qdisc would copy them again, and again. The qdisc at `parent` is not counted, and with `whole`
/// neither are those below it. The kinds of which the tree may have a copying qdisc are noted, so
/// that other kinds cost no visit of the tree.
pub(super) fn check_copies(
    tree: &mut Tree,
    parent: Handle,
    whole: bool,
    spec: &Spec,
    candidate: &dyn Resolved,
) -> Result<(), ConfigError> {
    let (mut others, mut copies) = (0, false);
    let mut below = None;
    let there = tree.copiers.contains(&spec.kind);
    if !there && !candidate.copies() {
        return Ok(());
    }
    tree.visit(&mut |place, node| {
        below = below.filter(|depth| place.depth > *depth);
        let here = place.parent == parent;
        if here && whole {
            below = Some(place.depth);
        }
        if !here && below.is_none() && node.qdisc().spec().kind == spec.kind {
            others += 1;
            copies |= node.qdisc().copies();
        }
    });
    if others > 0 && (copies || candidate.copies()) {
        let expected = "no other one in the tree: a qdisc that duplicates must be alone";
        let object = Object::Kind(spec.kind);
        return Err(ConfigError::new(ErrorKind::Conflict, object, expected, "a second one"));
    }
    tree.copiers.retain(|kind| *kind != spec.kind);
    if candidate.copies() {
        tree.copiers.push(spec.kind);
    }
    Ok(())
}

/// Refuses an object that needs `need` bytes of memory where the qdiscs of the device would have
/// more than its budget (`Env::memory`, `Env::room`). The qdiscs at `gone` and below do not count:
/// the object takes their place. Only where the object fits in no other way are they looked at.
pub(super) fn check_memory(
    trees: &Trees<'_>,
    object: Object,
    need: u64,
    gone: Option<Handle>,
) -> Result<(), ConfigError> {
    let Env { memory, room, .. } = *trees.env();
    let budget = memory.min(room);
    let used = trees.tables();
    if used.saturating_add(need) <= budget {
        return Ok(());
    }
    let used = used.saturating_sub(gone.map_or(0, |gone| trees.tables_at(gone)));
    if used.saturating_add(need) <= budget {
        return Ok(());
    }
    let of_all = if room < memory { ", which the others leave of a budget for all" } else { "" };
    let expected = format!("at most {budget} bytes of tables on the device{of_all}");
    let given = format!("{need} more beside {used}");
    let err = ConfigError::new(ErrorKind::OutOfRange, object, expected, given).reason(Reason::Memory);
    Err(err.hint("fewer qdiscs, or smaller tables (flows, limit, divisor, buckets), need less"))
}

/// Refuses a size table at `parent` beside another one above or below it. The cost is a visit of
/// all qdiscs, and none at the root of a tree that has no other.
pub(super) fn check_sizes(tree: &Tree, parent: Handle) -> Result<(), ConfigError> {
    if parent == Handle::ROOT && !tree.sized_below {
        return Ok(());
    }
    let mut other = None;
    let mut mine = Handle::NONE;
    let mut way: Vec<(Handle, bool, bool)> = Vec::new();
    tree.visit(&mut |place, node| {
        way.truncate(place.depth);
        let (here, sized) = (node.handle(), node.account().is_sized());
        let is_it = place.parent == parent;
        if sized && way.iter().any(|(_, _, is_it)| *is_it) {
            other = other.or(Some(here));
        }
        if is_it {
            mine = here;
            other = way.iter().find(|(_, sized, _)| *sized).map(|(above, ..)| *above).or(other);
        }
        way.push((here, sized, is_it));
    });
    let Some(other) = other else { return Ok(()) };
    let expected = "at most one size table from the root to a leaf";
    let given = format!("a second one, beside that of qdisc {other}");
    let err = ConfigError::new(ErrorKind::Conflict, Object::Qdisc(Some(mine)), expected, given).key("stab");
    Err(err.hint("the last table would win, and the qdiscs above would count its sizes"))
}
