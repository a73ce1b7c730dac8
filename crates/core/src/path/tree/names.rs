//! The names of a tree: the qdiscs and classes that commands call by handles, and the filters bound
//! to them.

use alloc::vec::Vec;

use crate::base::handle::Handle;
use crate::classify::filter::BlockId;
#[cfg(test)]
use crate::path::tree::cost;
use crate::path::tree::{Place, Tree};
use crate::sched::node::Node;

pub(in crate::path) use super::index::Index;

/// Returns the classes on the way from the root to a place, if their qdiscs exist.
pub(super) fn way(tree: &Tree, place: Handle) -> Option<Vec<Handle>> {
    let mut way = Vec::new();
    let mut above = place;
    // Bound: the depth of the tree, at most `DEPTH_MAX`: the place above a qdisc is not below it.
    while above != Handle::ROOT {
        way.push(above);
        above = tree.index.place(above.major())?;
    }
    way.reverse();
    Some(way)
}

/// Returns the qdisc at a place, a class or the root; the class `H:M` is one of the qdisc `H:`.
pub(in crate::path) fn at(tree: &Tree, place: Handle) -> Option<(Place, &Node)> {
    let way = way(tree, place)?;
    let node = way.iter().try_fold(&tree.root, |node, class| below(node, *class))?;
    Some((Place { parent: place, depth: way.len() }, node))
}

/// Returns the qdisc of a handle, and its place.
pub(in crate::path) fn owner(tree: &Tree, qdisc: Handle) -> Option<(Place, &Node)> {
    let place = tree.index.place(qdisc.major())?;
    at(tree, place).filter(|(_, node)| node.handle() == qdisc)
}

/// Returns the qdisc below a class of `node`.
fn below(node: &Node, class: Handle) -> Option<&Node> {
    #[cfg(test)]
    cost::count();
    let own = node.handle();
    let owner = !own.is_none() && own == class.qdisc();
    owner.then(|| node.qdisc().class(class.minor())).flatten().map(|class| &class.node)
}

/// Returns the index of a tree.
pub(in crate::path) const fn index(tree: &Tree) -> &Index {
    &tree.index
}

/// Notes the handles of a qdisc that is put at a place, and of those below it.
pub(super) fn learn(index: &mut Index, place: Handle, node: &Node) {
    let own = node.handle();
    if own.is_none() {
        return index.insert_unnamed(node);
    }
    index.insert(place, node);
    for class in node.qdisc().classes().iter().filter(|class| class.minor != 0) {
        learn(index, Handle::new(own.major(), class.minor), &class.node);
    }
}

/// Notes the handles of all qdiscs of a tree anew.
pub(super) fn learn_all(tree: &mut Tree) {
    let mut index = Index::default();
    learn(&mut index, Handle::ROOT, &tree.root);
    tree.index = index;
}

/// Forgets the handles of the qdiscs at a place and below, and orphans the filters of these qdiscs
/// and their classes.
pub(in crate::path) fn forget(tree: &mut Tree, place: Handle) {
    let Tree { index, bindings, .. } = tree;
    index.remove(place, &mut |major| bindings.orphan_qdisc(major));
}

/// Forgets a class that is gone: its filters, and what hung below it.
pub(in crate::path) fn forget_class(tree: &mut Tree, class: Handle) {
    forget(tree, class);
    tree.bindings.orphan_at(class);
    mark_owner(tree, class.qdisc());
}

/// Forgets the qdiscs below those classes of a qdisc that have none any more.
pub(in crate::path) fn forget_vanished(tree: &mut Tree, qdisc: Handle) {
    let vanished = |place: &Handle| at(tree, *place).is_none_or(|(_, node)| node.handle().is_none());
    let gone: Vec<Handle> = tree.index.below(qdisc.major()).filter(vanished).collect();
    gone.into_iter().for_each(|place| forget(tree, place));
}

/// Sets or removes the filters of a qdisc or class, and tells the qdisc whether it has any.
pub(in crate::path) fn set_block(tree: &mut Tree, at: Handle, block: Option<BlockId>) {
    tree.bindings.set(at, block);
    mark_owner(tree, at.qdisc());
}

/// Sets the filters of each place and removes those of all others; tells each qdisc whether it has
/// any.
pub(in crate::path) fn set_blocks(tree: &mut Tree, all: Vec<(Handle, BlockId)>) {
    let mut owners: Vec<Handle> = tree.bindings.iter().map(|(at, _)| at.qdisc()).collect();
    tree.bindings.set_all(all);
    owners.extend(tree.bindings.iter().map(|(at, _)| at.qdisc()));
    owners.sort_unstable();
    owners.dedup();
    owners.into_iter().for_each(|qdisc| mark_owner(tree, qdisc));
}

/// Tells a qdisc whether it or a class of it has filters.
fn mark_owner(tree: &mut Tree, qdisc: Handle) {
    let filtered = tree.bindings.is_bound(qdisc.major());
    let Some(way) = tree.index.place(qdisc.major()).and_then(|place| way(tree, place)) else { return };
    let mut node = &mut tree.root;
    for class in &way {
        let Some(below) = node.qdisc_mut().class_mut(class.minor()) else { return };
        node = &mut below.node;
    }
    if node.handle() == qdisc {
        node.set_filtered(filtered.then_some(way.len()));
    }
}
