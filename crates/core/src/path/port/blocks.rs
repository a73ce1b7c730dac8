//! Where the qdiscs, classes and hooks of a port have filters: what is of a qdisc is known to the tree that has it
//! (`Tree::block`), all else, as the hooks of a device, to the port, so that it stays when roots come and go.

use alloc::vec::Vec;

use super::change::Fate;
use super::{Port, Queues};
use crate::base::handle::Handle;
use crate::base::time::Instant;
use crate::classify::filter::BlockId;
use crate::path::tree::Tree;

/// Places that no tree has, and what is left of trees that are no more.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Sorted by place.
    at: Vec<(Handle, BlockId)>,
    /// Filters of trees that are no more, which nobody has taken yet.
    orphans: Vec<BlockId>,
}

impl Places {
    pub(super) fn orphan_all(&mut self, blocks: impl IntoIterator<Item = BlockId>) {
        self.orphans.extend(blocks);
    }
    fn find(&self, at: Handle) -> Result<usize, usize> {
        self.at.binary_search_by_key(&at, |(handle, _)| *handle)
    }
}

/// Whether a tree has a qdisc.
pub(super) fn has(tree: &Tree, handle: Handle) -> bool {
    let mut there = false;
    tree.visit(&mut |_, node| there |= !handle.is_none() && node.handle() == handle);
    there
}

impl<F> Port<F> {
    /// The filters of a qdisc, a class, or another place: see `Tree::block`.
    pub fn block(&self, at: Handle) -> Option<BlockId> {
        match self.places.find(at) {
            Ok(found) => self.places.at.get(found).map(|(_, block)| *block),
            Err(_) => self.paths.iter().find_map(|path| path.tree().block(at)),
        }
    }

    /// All places that have filters, in the order of their handles.
    pub fn blocks(&self) -> Vec<(Handle, BlockId)> {
        let own = self.places.at.iter().copied();
        let mut all: Vec<_> = own.chain(self.paths.iter().flat_map(|path| path.tree().blocks())).collect();
        all.sort_unstable();
        all
    }

    /// The blocks whose qdisc or class has gone since this was asked.
    #[must_use]
    pub fn take_orphans(&mut self) -> Vec<BlockId> {
        let mut all = core::mem::take(&mut self.places.orphans);
        for path in &mut self.paths {
            all.extend(path.edit(|tree, _| tree.take_orphans()));
        }
        all
    }

    /// Says which filters a place has: see `Tree::set_block`.
    pub(super) fn set_block<D>(
        &mut self,
        now: Instant,
        at: Handle,
        block: Option<BlockId>,
        dev: &mut D,
        fate: Fate,
    ) where
        D: Queues<Frame = F>,
    {
        if let Some(path) = self.paths.iter().position(|path| has(path.tree(), at.qdisc())) {
            return self.on_path(path, now, dev, fate, |tree, _| tree.set_block(at, block));
        }
        match (self.places.find(at), block) {
            (Ok(there), Some(block)) => self.places.at[there].1 = block,
            (Ok(there), None) => drop(self.places.at.remove(there)),
            (Err(before), Some(block)) => self.places.at.insert(before, (at, block)),
            (Err(_), None) => {}
        }
    }

    /// Says which filters each place has, in place of all that was said before; nothing is orphaned by it.
    pub(super) fn set_blocks<D>(&mut self, now: Instant, all: &[(Handle, BlockId)], dev: &mut D, fate: Fate)
    where
        D: Queues<Frame = F>,
    {
        let mut rest = all.to_vec();
        rest.sort_unstable();
        for at in 0..self.paths.len() {
            let tree = self.paths[at].tree();
            let (here, others): (Vec<_>, Vec<_>) =
                rest.iter().partition(|(place, _)| has(tree, place.qdisc()));
            rest = others;
            if !here.is_empty() || tree.has_filters() {
                self.on_path(at, now, dev, fate, |tree, _| tree.set_blocks(here));
            }
        }
        self.places.at = rest;
    }
}
