//! Rules about several qdiscs of one tree.

use alloc::format;
use alloc::vec::Vec;

use crate::base::handle::Handle;
use crate::path::tree::Tree;
use crate::sched::erased::Resolved;
use crate::sched::spec::Spec;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Refuses a second qdisc of a kind that makes copies. Copies enter at the root, where another such
/// qdisc would copy them again, and again. The qdisc at `parent` is not counted, and with `whole`
/// neither are those below it.
pub(super) fn check_copies(
    tree: &Tree,
    parent: Handle,
    whole: bool,
    spec: &Spec,
    candidate: &dyn Resolved,
) -> Result<(), ConfigError> {
    let (mut others, mut copies) = (0, false);
    let mut below = None;
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
    Ok(())
}

/// Refuses a size table at `parent` beside another one above or below it.
pub(super) fn check_sizes(tree: &Tree, parent: Handle) -> Result<(), ConfigError> {
    let mut other = None;
    let mut mine = Handle::NONE;
    let mut way: Vec<(Handle, bool, bool)> = Vec::new();
    tree.visit(&mut |place, node| {
        way.truncate(place.depth);
        let (here, sized) = (node.handle(), node.has_sizes());
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
