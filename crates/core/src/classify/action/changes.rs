//! Which slots of a table have changed lately, so that who reads it looks at those, and not at a million that have not.

use alloc::vec::Vec;

/// Changes that are remembered, at most: far more than a burst of commands makes, and little beside the table.
const MOST: usize = 8192;

/// The slots that have changed, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// The last of them.
    recent: Vec<u32>,
    /// How many there were before these.
    before: u64,
}

impl Changes {
    /// How many there were.
    pub(super) const fn count(&self) -> u64 {
        self.before + self.recent.len() as u64 // 64 bits
    }

    pub(super) fn add(&mut self, slot: u32) {
        if self.recent.len() == MOST {
            self.recent.drain(..MOST / 2);
            self.before += (MOST / 2) as u64; // 64 bits
        }
        self.recent.push(slot);
    }

    /// Those after the first so many; none if these are not known one by one any more.
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
            "too many, or of another table"
        );
        assert!(changes.since(20_000 - MOST as u64 / 2).is_some() && changes.recent.len() <= MOST);
    }
}
