//! Data that the tables of a block share: the hash tables of u32 are in one place, whatever their
//! priority. Other kinds share nothing.
//!
//! Between changes each table has a reference. For a change the data is lifted out of all tables,
//! so that it is changed in place, and then put back.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::u32::{Common, Table};
use super::{Bound, Tables};

/// The shared data.
pub(super) type Shared = Arc<Common>;

/// The kind whose tables share data.
pub(super) const SHARING: &str = "u32";

impl Tables {
    /// Adds a new table to those of its block.
    pub(super) fn join(&mut self, shared: Option<Shared>, chain: u32, prio: u16) {
        if let Self::U32(table) = self {
            *table = Table::join(shared.unwrap_or_default(), chain, prio);
        }
    }
    /// Takes the shared data out.
    pub(super) fn lift(&mut self) -> Option<Shared> {
        match self {
            Self::U32(table) => Some(table.lift()),
            _ => None,
        }
    }
    /// Puts the shared data back.
    pub(super) fn settle(&mut self, shared: Option<Shared>) {
        if let (Self::U32(table), Some(shared)) = (self, shared) {
            table.settle(shared);
        }
    }
    /// Removes this table and returns the goals that die with it. Goals in the shared data that
    /// belong to other priorities survive.
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
