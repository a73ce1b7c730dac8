//! `Aside`: the packets that a swap takes out of removed qdiscs.

use crate::packet::pool::{List, Pkt, Pool};
use crate::sched::effects::Taken;

/// The packets that are set aside instead of dropped, while one tree is swapped for another under
/// load.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    on: bool,
    pub(super) taken: Taken,
    list: List,
}

impl Aside {
    /// Begins to set packets aside.
    pub(crate) const fn begin(&mut self) {
        self.on = true;
    }
    /// Ends `begin` and returns the packets set aside.
    pub(crate) fn end(&mut self) -> List {
        self.on = false;
        core::mem::take(&mut self.list)
    }
    /// Forgets the packets set aside.
    pub(super) fn forget(&mut self) {
        self.list = List::new();
    }
    /// True between `begin` and `end`.
    #[inline]
    pub(super) const fn is_on(&self) -> bool {
        self.on
    }
    /// Sets a packet aside.
    #[cold]
    pub(super) fn put(&mut self, p: Pkt, pool: &mut Pool) {
        self.taken.add(&p, pool);
        self.list.push_back(pool, p);
    }
}
