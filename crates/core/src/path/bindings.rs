//! `Bindings`: the qdiscs, classes and hooks that have filters.

use alloc::vec::Vec;
use core::ops::Range;

use crate::base::handle::Handle;
use crate::classify::filter::BlockId;

/// The blocks of filters of some places, and those of places that are gone.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    /// Blocks of places that have filters, sorted by place.
    at: Vec<(Handle, BlockId)>,
    /// The blocks of places that are gone, until their owner takes them.
    orphans: Vec<BlockId>,
}

impl Bindings {
    fn find(&self, at: Handle) -> Result<usize, usize> {
        self.at.binary_search_by_key(&at, |(handle, _)| *handle)
    }
    /// Returns the block of a place.
    pub(super) fn block(&self, at: Handle) -> Option<BlockId> {
        self.find(at).ok().and_then(|found| self.at.get(found)).map(|(_, block)| *block)
    }
    /// Iterates over all bindings, in the order of their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle, BlockId)> + '_ {
        self.at.iter().copied()
    }
    pub(super) const fn is_empty(&self) -> bool {
        self.at.is_empty()
    }
    /// Binds a block to a place, or removes the binding of the place.
    pub(super) fn set(&mut self, at: Handle, block: Option<BlockId>) {
        match (self.find(at), block) {
            (Ok(there), Some(block)) => self.at[there].1 = block,
            (Ok(there), None) => drop(self.at.remove(there)),
            (Err(before), Some(block)) => self.at.insert(before, (at, block)),
            (Err(_), None) => {}
        }
    }
    /// Replaces all bindings; orphans no block.
    pub(super) fn set_all(&mut self, all: Vec<(Handle, BlockId)>) {
        self.at = all;
        self.at.sort_unstable();
    }
    /// Notes blocks of places that are gone.
    pub(super) fn orphan(&mut self, blocks: impl IntoIterator<Item = BlockId>) {
        self.orphans.extend(blocks);
    }
    /// True if a qdisc or a class of it has filters.
    pub(super) fn is_bound(&self, major: u16) -> bool {
        !self.of_qdisc(major).is_empty()
    }
    /// Removes the binding of a place that is gone and orphans its block.
    pub(super) fn orphan_at(&mut self, gone: Handle) {
        let block = self.block(gone);
        self.orphan(block);
        self.set(gone, None);
    }
    /// Does the same for a qdisc and all of its classes.
    pub(super) fn orphan_qdisc(&mut self, major: u16) {
        let gone = self.of_qdisc(major);
        self.orphans.extend(self.at.drain(gone).map(|(_, block)| block));
    }
    /// Returns the bindings of a qdisc and its classes.
    fn of_qdisc(&self, major: u16) -> Range<usize> {
        let start = self.at.partition_point(|(at, _)| at.major() < major);
        let end = self.at.partition_point(|(at, _)| at.major() <= major);
        start..end
    }
    /// Takes the blocks that were orphaned since the last call. The owner of the filters deletes
    /// them.
    pub(super) fn take_orphans(&mut self) -> Vec<BlockId> {
        core::mem::take(&mut self.orphans)
    }
}
