//! Recently changed slots of a table, so that a reader updates those and not a million unchanged
//! ones.

use alloc::vec::Vec;

/// Largest number of changes that are remembered: far more than a burst of commands makes, and
/// little beside the table.
const MOST: usize = 8192;

/// The changed slots, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// The latest changes.
    recent: Vec<u32>,
    /// Number of changes before these.
    before: u64,
}

impl Changes {
    /// Returns the number of changes so far.
    pub(super) const fn count(&self) -> u64 {
        self.before + self.recent.len() as u64 // usize fits 64 bits
    }

    pub(super) fn add(&mut self, slot: u32) {
        if self.recent.len() == MOST {
            self.recent.drain(..MOST / 2);
            self.before += (MOST / 2) as u64; // usize fits 64 bits
        }
        self.recent.push(slot);
    }

    /// Returns the changes after the first `seen` ones; `None` if they are no longer remembered one
    /// by one.
    pub(super) fn since(&self, seen: u64) -> Option<&[u32]> {
        let from = usize::try_from(seen.checked_sub(self.before)?).ok()?;
        self.recent.get(from..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_changes_are_known_one_by_one() {
        let mut changes = Changes::default();
        assert_eq!(changes.since(0), Some(&[][..]));
        (0..20_000).for_each(|slot| changes.add(slot));
        assert_eq!(changes.count(), 20_000);
        assert_eq!(changes.since(20_000), Some(&[][..]));
        assert_eq!(changes.since(19_998), Some(&[19_998, 19_999][..]));
        assert_eq!(
            (changes.since(20_001), changes.since(100)),
            (None, None),
            "forgotten, or counted in another table"
        );
        assert!(changes.since(20_000 - MOST as u64 / 2).is_some() && changes.recent.len() <= MOST);
    }
}
