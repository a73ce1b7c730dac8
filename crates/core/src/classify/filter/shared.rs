//! What the tables of a block share: those of u32 are in one place, whatever their priority. Others share nothing.
//!
//! Between changes each has it; for a change it is lifted out of all, so that it is changed in its place, and settled again.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::u32::{Common, Table};
use super::{Bound, Tables};

/// What is shared.
pub(super) type Shared = Arc<Common>;

/// The kind whose tables share it.
pub(super) const SHARING: &str = "u32";

impl Tables {
    /// A new table comes to those of its block.
    pub(super) fn join(&mut self, shared: Option<Shared>, chain: u32, prio: u16) {
        if let Self::U32(table) = self {
            *table = Table::join(shared.unwrap_or_default(), chain, prio);
        }
    }
    /// Gives what is shared away.
    pub(super) fn lift(&mut self) -> Option<Shared> {
        match self {
            Self::U32(table) => Some(table.lift()),
            _ => None,
        }
    }
    /// Has what is shared.
    pub(super) fn settle(&mut self, shared: Option<Shared>) {
        if let (Self::U32(table), Some(shared)) = (self, shared) {
            table.settle(shared);
        }
    }
    /// Goes. Gives the goals that go with it: of what is shared only what nobody else can have.
    pub(super) fn leave(&mut self) -> Vec<Bound> {
        match self {
            Self::U32(table) => table.leave(),
            _ => {
                let mut gone = Vec::new();
                self.visit(&mut |_, _, goal, _| gone.push(goal.clone()));
                gone
            }
        }
    }
}
