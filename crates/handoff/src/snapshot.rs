//! `Published`: numbers that one writer changes together and any thread reads together, without a
//! lock.
//!
//! A latch: two copies under one version. While the version is even, the first copy is whole; while
//! it is odd, the second is. The writer makes the version odd and writes the first copy, then makes
//! it even and writes the second. A reader takes the copy that is whole, and reads again if the
//! version is another one afterwards. A reader never delays the writer. A writer that the system
//! has stopped between two stores delays no reader: the version stays, and so does the copy that is
//! whole.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Tries of a reader before it gives up: the writer has begun another copy during each of them.
const TRIES: u32 = 1000;

/// `N` numbers, written by one thread at a time and read by any.
#[derive(Debug)]
pub struct Published<const N: usize> {
    version: AtomicU32,
    copies: [[AtomicU64; N]; 2],
}

impl<const N: usize> Default for Published<N> {
    fn default() -> Self {
        Self {
            version: AtomicU32::new(0),
            copies: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }
}

impl<const N: usize> Published<N> {
    /// Writes all numbers. Only the holder of the queue calls this, one thread at a time.
    pub fn write(&self, words: &[u64; N]) {
        let version = self.version.load(Ordering::Relaxed);
        self.write_copy(0, version.wrapping_add(1), words);
        self.write_copy(1, version.wrapping_add(2), words);
    }

    /// Sets the version, which sends readers to the other copy, and writes this one.
    fn write_copy(&self, copy: usize, version: u32, words: &[u64]) {
        // A reader of this version sees the other copy whole: it was written before.
        self.version.store(version, Ordering::Release);
        // A reader of one of the new words sees this version afterwards, or a later one.
        fence(Ordering::Release);
        for (word, value) in self.copies[copy].iter().zip(words) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// Reads all numbers as they were at one moment, and the number of writes so far; `None` if the
    /// writer has gone on during each of many tries.
    #[must_use]
    pub fn read(&self) -> Option<([u64; N], u32)> {
        (0..TRIES).find_map(|_| self.try_read())
    }

    /// Tries to read once.
    #[must_use]
    pub fn try_read(&self) -> Option<([u64; N], u32)> {
        let before = self.version.load(Ordering::Acquire);
        let copy = &self.copies[usize::from(before % 2 == 1)];
        let words = std::array::from_fn(|i| copy[i].load(Ordering::Relaxed));
        // If a word was new, the version that is read next is new too.
        fence(Ordering::Acquire);
        // A write counts once its first copy is whole.
        (self.version.load(Ordering::Relaxed) == before).then_some((words, before / 2))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The system may stop a writer between any two of its stores.
    #[test]
    fn a_writer_that_stands_still_leaves_the_former_numbers_to_readers() {
        let published = Published::<2>::default();
        assert_eq!(published.read(), Some(([0, 0], 0)));
        published.write(&[1, 10]);
        assert_eq!(published.read(), Some(([1, 10], 1)));
        // It has written one word of the first copy, and then all of that and one of the second.
        published.write_copy(0, 3, &[2]);
        assert_eq!(published.read(), Some(([1, 10], 1)));
        published.write_copy(0, 3, &[2, 20]);
        published.write_copy(1, 4, &[2]);
        assert_eq!(published.read(), Some(([2, 20], 2)));
        published.write_copy(1, 4, &[2, 20]);
        published.write(&[3, 30]);
        assert_eq!(published.read(), Some(([3, 30], 3)));
    }
}
