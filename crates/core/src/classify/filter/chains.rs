//! The chains of a block, by number. Every packet reads chain 0, which therefore has a place of its
//! own; the others may be many, and are found in a tree.

use alloc::collections::BTreeMap;

use super::Chain;

/// The chains of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Chains {
    first: Option<Chain>,
    /// The chains from number 1 on.
    others: BTreeMap<u32, Chain>,
}

impl Chains {
    /// Returns chain 0, if it is there.
    #[inline]
    pub(super) const fn first(&self) -> Option<&Chain> {
        self.first.as_ref()
    }
    pub(super) fn get(&self, index: u32) -> Option<&Chain> {
        if index == 0 { self.first.as_ref() } else { self.others.get(&index) }
    }
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Chain> {
        if index == 0 { self.first.as_mut() } else { self.others.get_mut(&index) }
    }
    /// Returns the chain of a number, which `make` makes if it is not there.
    pub(super) fn get_or_insert_with(&mut self, index: u32, make: impl FnOnce() -> Chain) -> &mut Chain {
        match index {
            0 => self.first.get_or_insert_with(make),
            _ => self.others.entry(index).or_insert_with(make),
        }
    }
    pub(super) fn remove(&mut self, index: u32) {
        drop(if index == 0 { self.first.take() } else { self.others.remove(&index) });
    }
    /// Returns the chains, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Chain> {
        self.first.iter().chain(self.others.values())
    }
    /// Returns the same to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Chain> {
        self.first.iter_mut().chain(self.others.values_mut())
    }
    /// Removes those for which `stays` returns false.
    pub(super) fn retain(&mut self, stays: impl Fn(&Chain) -> bool) {
        self.first.take_if(|chain| !stays(chain));
        self.others.retain(|_, chain| stays(chain));
    }
}
