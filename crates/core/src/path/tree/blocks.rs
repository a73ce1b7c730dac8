//! Where the qdiscs and classes of a tree have filters.

use alloc::vec::Vec;

use crate::base::handle::Handle;
use crate::classify::filter::BlockId;
use crate::path::tree::{Place, Tree};
use crate::sched::node::Node;

/// The blocks of filters of a tree's qdiscs and classes.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Sorted by the qdisc or class that each belongs to.
    at: Vec<(Handle, BlockId)>,
    /// Those whose qdisc or class has gone, and which nobody has taken yet.
    orphans: Vec<BlockId>,
}

impl Tree {
    /// The filters of a qdisc (`1:`) or class (`1:10`).
    pub fn block(&self, at: Handle) -> Option<BlockId> {
        let found = self.blocks.at.binary_search_by_key(&at, |(handle, _)| *handle).ok()?;
        self.blocks.at.get(found).map(|(_, block)| *block)
    }

    /// All places that have filters, in the order of their handles.
    pub fn blocks(&self) -> impl Iterator<Item = (Handle, BlockId)> + '_ {
        self.blocks.at.iter().copied()
    }

    /// Says which filters a qdisc or class has; whoever owns the filters makes blocks and deletes them.
    pub fn set_block(&mut self, at: Handle, block: Option<BlockId>) {
        let found = self.blocks.at.binary_search_by_key(&at, |(handle, _)| *handle);
        match (found, block) {
            (Ok(there), Some(block)) => self.blocks.at[there].1 = block,
            (Ok(there), None) => drop(self.blocks.at.remove(there)),
            (Err(before), Some(block)) => self.blocks.at.insert(before, (at, block)),
            (Err(_), None) => {}
        }
        self.mark_filtered();
    }

    /// Tells each qdisc whether it has filters.
    fn mark_filtered(&mut self) {
        fn walk(node: &mut Node, depth: usize, filtered: &[Handle]) {
            let own = node.handle();
            let has = !own.is_none() && filtered.binary_search(&own).is_ok();
            node.set_filtered(has.then_some(depth));
            for class in node.qdisc_mut().classes_mut() {
                walk(&mut class.node, depth + 1, filtered);
            }
        }
        let mut qdiscs: Vec<Handle> = self.blocks().map(|(at, _)| at.qdisc()).collect();
        qdiscs.dedup();
        walk(self.root_mut(), 0, &qdiscs);
    }

    /// Says which filters each has, in place of all that was said before; nothing is orphaned by it.
    pub fn set_blocks(&mut self, all: impl IntoIterator<Item = (Handle, BlockId)>) {
        self.blocks.at = all.into_iter().collect();
        self.blocks.at.sort_unstable();
        self.mark_filtered();
    }

    /// The blocks whose qdisc or class has gone since this was asked: to be deleted by whoever owns the filters.
    #[must_use]
    pub fn take_orphans(&mut self) -> Vec<BlockId> {
        core::mem::take(&mut self.blocks.orphans)
    }

    /// The qdisc at a place goes, with all that is below it.
    pub(super) fn orphan_below(&mut self, parent: Handle) {
        let mut below = self.blocks_below(parent);
        // The class that the qdisc hangs below stays.
        below.retain(|at| *at != parent);
        self.orphan(&below);
    }

    /// The places that have filters at and below the qdisc at a place; that place too, if it is a class.
    pub(super) fn blocks_below(&self, parent: Handle) -> Vec<Handle> {
        if self.blocks.at.is_empty() {
            return Vec::new();
        }
        let mut qdiscs: Vec<Handle> = Vec::new();
        let mut below = None;
        self.visit(&mut |place: Place, node: &Node| {
            below = below.filter(|depth| place.depth > *depth);
            if place.parent == parent {
                below = Some(place.depth);
            }
            if below.is_some() {
                qdiscs.push(node.handle());
            }
        });
        qdiscs.sort_unstable();
        let goes = |at: &Handle| *at == parent || qdiscs.binary_search(&at.qdisc()).is_ok();
        self.blocks().map(|(at, _)| at).filter(goes).collect()
    }

    /// What these had is nobody's any more.
    pub(super) fn orphan(&mut self, gone: &[Handle]) {
        for at in gone {
            self.blocks.orphans.extend(self.block(*at));
            self.set_block(*at, None);
        }
    }
}
