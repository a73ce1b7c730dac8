//! `Published`: numbers that one writer changes together and any thread reads together, without a
//! lock.
//!
//! A sequence lock over atomic words: the writer makes the version odd, writes, and makes it even;
//! a reader that sees an odd version, or another one afterwards, reads again. A reader never delays
//! the writer.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Tries of a reader before it gives up: a writer's turn is some 20 stores.
const TRIES: u32 = 1000;

/// `N` numbers, written by one thread at a time and read by any.
#[derive(Debug)]
pub struct Published<const N: usize> {
    version: AtomicU32,
    words: [AtomicU64; N],
}

impl<const N: usize> Default for Published<N> {
    fn default() -> Self {
        Self { version: AtomicU32::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl<const N: usize> Published<N> {
    /// Writes all numbers. Only the holder of the queue calls this, one thread at a time.
    pub fn write(&self, words: &[u64; N]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // A reader of one of the new words has seen the odd version.
        fence(Ordering::Release);
        for (word, value) in self.words.iter().zip(words) {
            word.store(*value, Ordering::Relaxed);
        }
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// Reads all numbers as they were at one moment, and the number of writes so far; `None` if the
    /// writer was in between each time.
    #[must_use]
    pub fn read(&self) -> Option<([u64; N], u32)> {
        (0..TRIES).find_map(|_| self.try_read())
    }

    /// Tries to read once.
    #[must_use]
    pub fn try_read(&self) -> Option<([u64; N], u32)> {
        let before = self.version.load(Ordering::Acquire);
        if before % 2 == 1 {
            return None;
        }
        let words = std::array::from_fn(|i| self.words[i].load(Ordering::Relaxed));
        // If a word was new, the version that is read next is new too.
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == before).then_some((words, before / 2))
    }
}
