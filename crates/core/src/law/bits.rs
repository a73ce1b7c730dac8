//! A set of small numbers in order. Membership is a bit, and one word above sums up 64 below, so
//! that the next member is found in at most five steps whatever the set's size (van Emde Boas,
//! "Preserving order in a forest", 1977, reduced to words).
//!
//! Memory: one bit and 1/63 per number of the capacity. Nothing is allocated after
//! [`Bits::reserve`].

use alloc::vec;
use alloc::vec::Vec;

/// Levels of words: 64^3 numbers, more than the 65 536 possible ones.
const LEVELS: usize = 3;

/// A set of numbers below 65 536.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    /// The members, then a bit for each word of members that is not zero, then the same of those
    /// words.
    words: Vec<u64>,
    /// Index of the first word of each level, and the end.
    start: [u16; LEVELS + 1],
}

impl Bits {
    /// Returns an empty set without capacity.
    pub const fn new() -> Self {
        Self { words: Vec::new(), start: [0; LEVELS + 1] }
    }
    /// Raises the capacity to the numbers below `capacity`, at most 65 536. Allocates: not for the
    /// data path.
    pub fn reserve(&mut self, capacity: usize) {
        debug_assert!(capacity <= 1 << 16);
        if capacity <= self.capacity() {
            return;
        }
        // The capacity doubles, so that growth one number at a time costs no more than growth at
        // once.
        let mut count = capacity.next_power_of_two().div_ceil(64);
        let mut grown = Self { words: Vec::new(), start: [0; LEVELS + 1] };
        let mut end = 0;
        for level in 0..LEVELS {
            end += count;
            // At most 1024 + 16 + 1 words.
            grown.start[level + 1] = end as u16;
            count = count.div_ceil(64);
        }
        grown.words = vec![0; end];
        let mut at = 0;
        // Bound: the members. No packet waits for this loop.
        while let Some(i) = self.next(at) {
            grown.set(i);
            at = i + 1;
        }
        *self = grown;
    }
    /// Returns the capacity: smaller numbers can be members.
    pub const fn capacity(&self) -> usize {
        self.start[1] as usize * 64
    }
    /// True if the set has no members.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.last().is_none_or(|top| *top == 0)
    }
    /// True if `i` is a member.
    pub(crate) fn has(&self, i: usize) -> bool {
        i < self.capacity() && self.words[i >> 6] & (1 << (i & 63)) != 0
    }
    /// Adds `i`.
    ///
    /// # Panics
    /// If `i` is not below the capacity.
    #[inline]
    pub fn set(&mut self, mut i: usize) {
        for level in 0..LEVELS {
            let word = &mut self.words[usize::from(self.start[level]) + (i >> 6)];
            let before = *word;
            *word |= 1 << (i & 63);
            if before != 0 {
                return;
            }
            i >>= 6;
        }
    }
    /// Removes `i`.
    #[inline]
    pub fn clear(&mut self, mut i: usize) {
        if i >= self.capacity() {
            return;
        }
        for level in 0..LEVELS {
            let word = &mut self.words[usize::from(self.start[level]) + (i >> 6)];
            *word &= !(1 << (i & 63));
            if *word != 0 {
                return;
            }
            i >>= 6;
        }
    }
    /// Returns the first member that is not below `i`.
    #[inline]
    pub fn next(&self, mut i: usize) -> Option<usize> {
        let mut level = 0;
        // Bound: `LEVELS` turns. Goes up until a word has a bit at or behind the position.
        loop {
            let (from, to) = (usize::from(*self.start.get(level)?), usize::from(*self.start.get(level + 1)?));
            let word = from + (i >> 6);
            if word < to {
                let bits = self.words[word] >> (i & 63);
                if bits != 0 {
                    i += bits.trailing_zeros() as usize;
                    break;
                }
            }
            i = (i >> 6) + 1;
            level += 1;
        }
        // Bound: `LEVELS` turns.
        while level > 0 {
            level -= 1;
            i = (i << 6) + self.words[usize::from(self.start[level]) + i].trailing_zeros() as usize;
        }
        Some(i)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Set(usize),
        Clear(usize),
    }

    fn number() -> impl Strategy<Value = usize> {
        prop_oneof![0..200usize, 4000..4200usize, 65_000..65_535usize]
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => number().prop_map(Op::Set),
            2 => number().prop_map(Op::Clear),
        ]
    }

    fn members(bits: &Bits) -> Vec<usize> {
        core::iter::successors(bits.next(0), |i| bits.next(i + 1)).collect()
    }

    proptest! {
        #[test]
        fn is_a_sorted_set(ops in prop::collection::vec(op(), 1..120), first in 1..70usize) {
            let mut bits = Bits::new();
            prop_assert!(bits.is_empty() && bits.next(0).is_none() && !bits.has(0));
            bits.reserve(first);
            let mut model = BTreeSet::new();
            for op in ops {
                match op {
                    Op::Set(i) => {
                        bits.reserve(i + 1);
                        bits.set(i);
                        model.insert(i);
                    }
                    Op::Clear(i) => {
                        bits.clear(i);
                        model.remove(&i);
                    }
                }
                prop_assert_eq!(bits.is_empty(), model.is_empty());
                prop_assert_eq!(members(&bits), model.iter().copied().collect::<Vec<_>>());
                for i in [0, 63, 64, 100, 4095, 4096, 65_000] {
                    prop_assert_eq!(bits.next(i), model.range(i..).next().copied());
                    prop_assert_eq!(bits.has(i), model.contains(&i));
                }
            }
        }
    }
}
