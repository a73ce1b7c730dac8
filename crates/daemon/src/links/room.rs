//! The budget for the tables of the qdiscs of all links together.

use std::collections::BTreeSet;

use super::Links;

/// Default of the most bytes of tables that the qdiscs of all links have together.
pub const TABLES: u64 = 1 << 30;

impl Links {
    /// Sets the most bytes of tables that the qdiscs of all links have together, without packets
    /// and filters. Tables that are there already stay.
    pub const fn set_tables(&mut self, bytes: u64) {
        self.tables = bytes;
    }

    /// Returns the bytes of tables that links other than these leave to them.
    pub(crate) fn room_of(&mut self, names: &[&str]) -> u64 {
        let names: BTreeSet<&str> = names.iter().copied().collect();
        let others = self.all.iter_mut().filter(|link| !names.contains(link.name.as_str()));
        others.fold(self.tables, |room, link| room.saturating_sub(link.tables()))
    }
}
