//! Data that came out of order: ranges behind a gap, and the blocks with which acknowledgements
//! report them (RFC 2018).

use crate::rare::Blank;

/// Largest number of ranges kept out of order; data that would make one more is dropped.
pub const GAPS_MAX: usize = 4096;
/// Number of blocks that a receiver remembers.
const BLOCKS_MAX: usize = 4;

/// Ranges received out of order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    /// Ascending and disjoint.
    ranges: Vec<(u64, u64)>,
    /// Bytes in the ranges.
    bytes: u64,
    /// The most recent ranges, the newest first.
    recent: [(u64, u64); BLOCKS_MAX],
    recents: u8,
}

impl Blank for Gaps {
    fn blank() -> &'static Self {
        static NONE: Gaps = Gaps { ranges: Vec::new(), bytes: 0, recent: [(0, 0); BLOCKS_MAX], recents: 0 };
        &NONE
    }
}

/// Result of adding a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// The range was new, at least in part.
    New,
    /// The whole range had come before.
    Known,
    /// There is no room for one more range.
    Full,
}

impl Gaps {
    pub(crate) const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    /// Returns the number of bytes in all ranges.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Returns the blocks, the most recent first.
    pub(crate) fn blocks(&self) -> &[(u64, u64)] {
        &self.recent[..usize::from(self.recents)]
    }

    /// Adds a range that has come.
    pub(crate) fn add(&mut self, mut start: u64, mut end: u64) -> Added {
        let from = self.ranges.partition_point(|g| g.1 < start);
        let to = self.ranges.partition_point(|g| g.0 <= end);
        let touched = self.ranges.get(from..to).unwrap_or_default();
        if touched.iter().any(|g| g.0 <= start && g.1 >= end) {
            return Added::Known;
        }
        let (Some(first), Some(last)) = (touched.first(), touched.last()) else {
            if self.ranges.len() >= GAPS_MAX {
                return Added::Full;
            }
            self.bytes += end - start;
            self.ranges.insert(from, (start, end));
            return Added::New;
        };
        (start, end) = (start.min(first.0), end.max(last.1));
        let before: u64 = touched.iter().map(|g| g.1 - g.0).sum();
        self.bytes += end - start - before;
        self.ranges.splice(from..to, [(start, end)]);
        Added::New
    }

    /// Moves the range, merged with the block that it extends, to the front of the blocks (RFC 2018
    /// section 4). Returns its former place among them.
    pub(crate) fn tell(&mut self, start: u64, end: u64) -> usize {
        let n = usize::from(self.recents);
        let Some(i) = self.blocks().iter().position(|b| b.0 <= end && start <= b.1) else {
            let kept = n.min(BLOCKS_MAX - 1);
            self.recent.copy_within(0..kept, 1);
            self.recent[0] = (start, end);
            self.recents = kept as u8 + 1;
            return n;
        };
        let block = self.recent[i];
        self.recent.copy_within(0..i, 1);
        self.recent[0] = (block.0.min(start), block.1.max(end));
        // The grown block may touch others.
        let mut j = 1;
        while j < usize::from(self.recents) {
            let (first, other) = (self.recent[0], self.recent[j]);
            if other.0 <= first.1 && first.0 <= other.1 {
                self.recent[0] = (first.0.min(other.0), first.1.max(other.1));
                self.recent.copy_within(j + 1.., j);
                self.recents -= 1;
            } else {
                j += 1;
            }
        }
        i
    }

    /// Drops ranges up to `next`, which have come in order. Returns the next number after the
    /// ranges that join it, and the range that came twice, if there is one.
    pub(crate) fn join(&mut self, mut next: u64) -> (u64, Option<(u64, u64)>) {
        let (mut joined, mut twice) = (0, None);
        while let Some(&(start, end)) = self.ranges.get(joined).filter(|g| g.0 <= next) {
            if start < next {
                twice = twice.or(Some((start, next.min(end))));
            }
            next = next.max(end);
            self.bytes -= end - start;
            joined += 1;
        }
        self.ranges.drain(..joined);
        let mut kept = 0;
        for i in 0..usize::from(self.recents) {
            if self.recent[i].0 > next && !self.ranges.is_empty() {
                self.recent[kept] = self.recent[i];
                kept += 1;
            }
        }
        self.recents = kept as u8;
        (next, twice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_together() {
        let mut g = Gaps::default();
        assert_eq!([g.add(10, 20), g.add(40, 50), g.add(12, 18)], [Added::New, Added::New, Added::Known]);
        assert_eq!((g.add(20, 40), g.bytes()), (Added::New, 40));
        assert_eq!(g.add(60, 70), Added::New);
        assert_eq!(g.join(10), (50, None));
        assert_eq!((g.bytes(), g.is_empty()), (10, false));
        assert_eq!(g.join(65), (70, Some((60, 65))));
        assert!(g.is_empty() && g.bytes() == 0);
    }

    #[test]
    fn the_block_that_grew_comes_first() {
        let mut g = Gaps::default();
        for (start, end) in [(10, 20), (30, 40), (50, 60)] {
            g.add(start, end);
            g.tell(start, end);
        }
        assert_eq!(g.blocks(), [(50, 60), (30, 40), (10, 20)]);
        g.add(20, 30);
        assert_eq!((g.tell(20, 30), g.blocks()), (1, &[(10, 40), (50, 60)][..]));
        g.join(45);
        assert_eq!(g.blocks(), [(50, 60)]);
    }

    #[test]
    fn so_many_ranges_and_no_more() {
        let mut g = Gaps::default();
        for i in 0..GAPS_MAX as u64 {
            assert_eq!(g.add(i * 10, i * 10 + 5), Added::New);
        }
        assert_eq!(g.add(1 << 40, (1 << 40) + 1), Added::Full);
        assert_eq!(g.add(0, 1 << 40), Added::New, "a range that joins others has room");
    }
}
