//! `QueueSet`: a set of a device's transmit queues, of fixed size, so that it can change while
//! packets flow.

/// A set of transmit queues, by their numbers from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSet {
    words: [u64; WORDS],
    /// The words that are not 0, a bit for each, so that a search looks at no others.
    used: u64,
    count: u16,
}

const WORDS: usize = u64::BITS as usize;

impl Default for QueueSet {
    fn default() -> Self {
        Self::new()
    }
}

impl QueueSet {
    /// Largest number of queues of a device, as in Linux's links.
    pub const QUEUES_MAX: u16 = WORDS as u16 * 64;

    /// Returns an empty set.
    pub const fn new() -> Self {
        Self { words: [0; WORDS], used: 0, count: 0 }
    }
    /// True if the set has no queues.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// Returns the number of queues in the set.
    pub const fn len(&self) -> usize {
        self.count as usize
    }
    /// True if the queue is in the set.
    pub fn contains(&self, queue: u16) -> bool {
        let (word, bit) = place(queue);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }
    /// Adds a queue; a number from `QUEUES_MAX` on is ignored.
    #[inline]
    pub fn insert(&mut self, queue: u16) {
        let (word, bit) = place(queue);
        if let Some(w) = self.words.get_mut(word) {
            self.count += u16::from(*w & bit == 0);
            *w |= bit;
            self.used |= 1 << word;
        }
    }
    /// Removes a queue.
    #[inline]
    pub fn remove(&mut self, queue: u16) {
        let (word, bit) = place(queue);
        if let Some(w) = self.words.get_mut(word) {
            self.count -= u16::from(*w & bit != 0);
            *w &= !bit;
            if *w == 0 {
                self.used &= !(1 << word);
            }
        }
    }
    /// Removes all queues.
    pub const fn clear(&mut self) {
        *self = Self::new();
    }
    /// Removes the queues from `count` on.
    pub fn truncate(&mut self, count: usize) {
        for queue in count..usize::from(Self::QUEUES_MAX) {
            // The number is below `QUEUES_MAX`.
            self.remove(queue as u16);
        }
    }
    /// Returns the first queue from `from` on that is in this set and not in `other`.
    #[inline]
    pub(crate) fn next_without(&self, other: &Self, from: u16) -> Option<u16> {
        let (first, bit) = place(from);
        // Bound: the words of the set.
        let mut words = if first < WORDS { self.used & (u64::MAX << first) } else { 0 };
        while words != 0 {
            let word = words.trailing_zeros() as usize;
            // The bits from `from` on in the first word, all bits in later words.
            let mask = if word == first { !(bit - 1) } else { u64::MAX };
            let left = self.words[word] & !other.words[word] & mask;
            if left != 0 {
                // The numbers of a word and of a bit are below 64.
                return Some(word as u16 * 64 + left.trailing_zeros() as u16);
            }
            words &= words - 1;
        }
        None
    }
}

/// Returns the word of a queue, and its bit in the word.
const fn place(queue: u16) -> (usize, u64) {
    (queue as usize / 64, 1 << (queue % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_queue_is_let_be() {
        let mut set = QueueSet::new();
        set.insert(QueueSet::QUEUES_MAX);
        set.insert(u16::MAX);
        assert!(set.is_empty() && !set.contains(u16::MAX));
        set.remove(u16::MAX);
        assert_eq!(set.next_without(&QueueSet::new(), u16::MAX), None);
        set.insert(QueueSet::QUEUES_MAX - 1);
        assert_eq!(set.next_without(&QueueSet::new(), 0), Some(QueueSet::QUEUES_MAX - 1));
    }

    proptest! {
        #[test]
        fn it_is_a_set(ops in prop::collection::vec((0u8..3, 0u16..300), 0..200), from in 0u16..310, cut in 0usize..300) {
            let (mut a, mut b) = (QueueSet::new(), QueueSet::new());
            let (mut model_a, mut model_b) = (BTreeSet::new(), BTreeSet::new());
            for (op, queue) in ops {
                match op {
                    0 => { a.insert(queue); model_a.insert(queue); }
                    1 => { a.remove(queue); model_a.remove(&queue); }
                    _ => { b.insert(queue); model_b.insert(queue); }
                }
            }
            prop_assert_eq!(a.len(), model_a.len());
            prop_assert_eq!(a.is_empty(), model_a.is_empty());
            let next = model_a.difference(&model_b).copied().find(|q| *q >= from);
            prop_assert_eq!(a.next_without(&b, from), next);
            a.truncate(cut);
            model_a.retain(|q| usize::from(*q) < cut);
            prop_assert!((0..300).all(|q| a.contains(q) == model_a.contains(&q)));
            prop_assert_eq!(a.len(), model_a.len());
        }
    }
}
