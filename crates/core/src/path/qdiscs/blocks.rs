//! Filters of qdiscs, classes and hooks. Each tree knows those of its own qdiscs and classes; a
//! port knows all others, so that the hooks of a device keep theirs when roots come and go.

use alloc::vec::Vec;

use super::{Over, Qdiscs};
use crate::base::handle::Handle;
use crate::classify::filter::BlockId;
use crate::path::tree::names;

impl Qdiscs<'_> {
    /// Sets or removes the filters of a qdisc, a class or a hook. The owner of the filters makes
    /// blocks and deletes them.
    pub fn set_block(&mut self, at: Handle, block: Option<BlockId>) {
        let owner = self.trees().owner(at).and_then(|spot| spot.in_tree);
        match (&mut self.0, owner) {
            (Over::Tree(tree, _), _) => names::set_block(tree, at, block),
            (Over::Port(forest), None) => forest.bindings().set(at, block),
            (Over::Port(forest), Some((number, _))) => {
                let _ = forest.edit(number, &mut |tree, _| {
                    names::set_block(tree, at, block);
                    Ok(())
                });
            }
        }
    }

    /// Sets the filters of each place, and removes those of all other places; orphans no block.
    pub fn set_blocks(&mut self, all: &[(Handle, BlockId)]) {
        let mut rest = all.to_vec();
        let forest = match &mut self.0 {
            Over::Tree(tree, _) => return names::set_blocks(tree, rest),
            Over::Port(forest) => forest,
        };
        let trees = forest.trees();
        let owner = |at: &Handle| trees.owner(*at).and_then(|spot| spot.in_tree).map(|(number, _)| number);
        let mut of_tree: Vec<(bool, Vec<(Handle, BlockId)>)> =
            trees.trees().map(|tree| (tree.has_filters(), Vec::new())).collect();
        rest.retain(|binding| match owner(&binding.0) {
            Some(number) => {
                of_tree[number].1.push(*binding);
                false
            }
            None => true,
        });
        for (number, (had, has)) in of_tree.into_iter().enumerate() {
            if had || !has.is_empty() {
                let mut has = Some(has);
                let _ = forest.edit(number, &mut |tree, _| {
                    names::set_blocks(tree, has.take().unwrap_or_default());
                    Ok(())
                });
            }
        }
        forest.bindings().set_all(rest);
    }

    /// Takes the blocks whose place is gone since the last call. The owner of the filters deletes
    /// them.
    #[must_use]
    pub fn take_orphans(&mut self) -> Vec<BlockId> {
        match &mut self.0 {
            Over::Tree(tree, _) => tree.bindings.take_orphans(),
            Over::Port(forest) => forest.take_orphans(),
        }
    }
}
