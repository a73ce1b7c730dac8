//! `Shares`: the last quarter of a list is divided among the flows that want it.
//!
//! Threads fill the list while the holder of the queue waits for a processor. Its first three
//! quarters are for all. In the last quarter a row, to which flows belong by their hash, may have
//! as many items as an eighth of the places that are still free: a dynamic threshold (Choudhury and
//! Hahne, IEEE/ACM Transactions on Networking 6(2), 1998). A row without an item there gets a place
//! while one is free. So heavy senders leave room for sparse ones, and less of it the more of them
//! there are.
//!
//! - I1: of the last quarter, items of a row take no place if the row has more than an eighth of
//!   the free places, by the producer's view of the consumer, which may be late.
//! - Cost: nothing while the list is less than three quarters full, two additions by item above.

use crate::sync::{AtomicU32, Ordering};

/// Number of rows.
#[cfg(not(loom))]
const ROWS: usize = 256;
/// A model has fewer, because each atomic word makes it larger.
#[cfg(loom)]
const ROWS: usize = 2;
/// Fewest places of a list that is shared: of fewer, an eighth of a quarter is nothing.
const PLACES_MIN: u64 = 64;

/// The items that each row has in the last quarter.
pub(crate) struct Shares {
    rows: Box<[AtomicU32]>,
    /// Items before the last quarter; a list that is not shared never has as many.
    before: u64,
}

/// The row in which an item was counted, plus 1, to be told when the item leaves; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted(pub(crate) u16);

impl Shares {
    /// Shares a list of `places` places.
    pub(crate) fn of(places: u64) -> Self {
        if places < PLACES_MIN {
            return Self::none();
        }
        let rows = (0..ROWS).map(|_| AtomicU32::new(0)).collect();
        Self { rows, before: places / 4 * 3 }
    }

    /// The list is for all, to its last place.
    pub(crate) fn none() -> Self {
        Self { rows: Box::default(), before: u64::MAX }
    }

    /// Returns how many items the list may have before its rows count: all for one that is not
    /// shared.
    #[inline]
    pub(crate) const fn before(&self) -> u64 {
        self.before
    }

    /// Asks for a place for an item of this hash in a list that has `used` of its `places`; `None`
    /// if its row has its share.
    #[inline]
    pub(crate) fn ask(&self, hash: u32, used: u64, places: u64) -> Option<Counted> {
        if used < self.before { Some(Counted(0)) } else { self.count(hash, places.saturating_sub(used)) }
    }

    #[cold]
    fn count(&self, hash: u32, free: u64) -> Option<Counted> {
        let row = (hash >> 24) as u16;
        let Some(items) = self.rows.get(usize::from(row) % ROWS) else { return Some(Counted(0)) };
        if u64::from(items.fetch_add(1, Ordering::Relaxed)) > free / 8 {
            items.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Counted(row + 1))
    }

    /// Says that an item has left, or found no place.
    #[cold]
    pub(crate) fn leave(&self, counted: Counted) {
        if let Some(row) = counted.0.checked_sub(1)
            && let Some(items) = self.rows.get(usize::from(row) % ROWS)
        {
            items.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Fills a list by turns of some rows, and returns how many places each has got.
    fn filled(shares: &Shares, rows: u32, places: u64) -> Vec<u64> {
        let mut got = vec![0; rows as usize];
        loop {
            let mut any = false;
            for row in 0..rows {
                let used = got.iter().sum::<u64>();
                if used < places && shares.ask(row << 24, used, places).is_some() {
                    got[row as usize] += 1;
                    any = true;
                }
            }
            if !any {
                return got;
            }
        }
    }

    #[test]
    fn rows_have_equal_parts_of_the_last_quarter_and_leave_the_rest() {
        // n rows leave 8 / (n + 8) of the quarter free: 256 * 8/9 = 228, 171 and 85 of 1024.
        for (rows, free) in [(1, 227), (4, 171), (16, 84)] {
            let shares = Shares::of(1024);
            let got = filled(&shares, rows, 1024);
            let left = 1024 - got.iter().sum::<u64>();
            assert!(left.abs_diff(free) <= u64::from(rows), "{rows} rows leave {left}");
            assert!(got.iter().max().unwrap() - got.iter().min().unwrap() <= 1, "{got:?}");
            // A row that comes late finds a place.
            assert!(shares.ask(99 << 24, 1024 - left, 1024).is_some());
        }
    }

    #[test]
    fn what_leaves_makes_room_and_a_small_list_is_for_all() {
        let shares = Shares::of(64);
        // One eighth of 8 free places: a second item is taken, a third is not.
        let first = shares.ask(7, 56, 64).unwrap();
        assert_eq!(first, Counted(1));
        assert!(shares.ask(7, 56, 64).is_some() && shares.ask(7, 56, 64).is_none());
        shares.leave(first);
        assert!(shares.ask(7, 56, 64).is_some());
        assert_eq!(shares.ask(7, 47, 64), Some(Counted(0)));
        for shares in [Shares::of(63), Shares::none()] {
            assert!((0..63).all(|used| shares.ask(7, used, 63) == Some(Counted(0))));
        }
    }
}
