//! Notes on the packets of the low-latency queue, made when a packet joins and read when it leaves:
//! two bits each, in a ring parallel to the queue.

use alloc::vec;
use alloc::vec::Vec;

/// Treatment of a packet in the low-latency queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Under the coupled probability and the step threshold.
    Stepped,
    /// Under the coupled probability alone: the queue was too short for the threshold when it came.
    Coupled,
    /// Exempt: it is dropped only at the limit, and never marked.
    Spared,
}

/// Bits of a note.
const BITS: usize = 2;
/// Notes in a word.
const IN_WORD: usize = 64 / BITS;

/// The notes, oldest first.
#[derive(Debug)]
pub struct Parts {
    words: Vec<u64>,
    /// Positions of the oldest note and of the next one, counted without wrapping to the ring.
    head: usize,
    tail: usize,
}

impl Parts {
    /// Returns an empty ring with room for `packets` notes. Memory: a quarter of a byte each, up to
    /// the next power of two.
    pub(crate) fn with_room(packets: u32) -> Self {
        let words = (packets as usize).div_ceil(IN_WORD).next_power_of_two();
        Self { words: vec![0; words], head: 0, tail: 0 }
    }
    /// Makes room for `packets` notes; present notes stay. Allocates: not for the data path.
    pub fn reserve(&mut self, packets: u32) {
        let mut grown = Self::with_room(packets);
        if grown.words.len() > self.words.len() {
            // Bound: the notes. No packet waits for this loop.
            while self.head != self.tail {
                grown.push(self.pop());
            }
            *self = grown;
        }
    }
    /// Forgets all notes.
    pub const fn clear(&mut self) {
        (self.head, self.tail) = (0, 0);
    }
    /// Notes the part of a packet that joins the queue. There is room for it.
    #[inline]
    pub fn push(&mut self, part: Part) {
        debug_assert!(self.tail.wrapping_sub(self.head) < self.words.len() * IN_WORD);
        let (word, shift) = self.place(self.tail);
        self.words[word] = self.words[word] & !(3 << shift) | (part as u64) << shift;
        self.tail = self.tail.wrapping_add(1);
    }
    /// Removes and returns the note of the packet that leaves the queue.
    #[inline]
    pub fn pop(&mut self) -> Part {
        let (word, shift) = self.place(self.head);
        self.head = self.head.wrapping_add(1);
        match self.words[word] >> shift & 3 {
            0 => Part::Stepped,
            1 => Part::Coupled,
            _ => Part::Spared,
        }
    }
    /// The number of words is a power of two: a mask replaces the modulus.
    #[inline]
    const fn place(&self, at: usize) -> (usize, usize) {
        ((at / IN_WORD) & (self.words.len() - 1), at % IN_WORD * BITS)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;

    use super::*;
    use crate::base::rng::Rng;

    #[test]
    fn a_ring_is_a_queue_and_grows_with_what_is_in_it() {
        let (mut parts, mut model, mut rng) = (Parts::with_room(100), VecDeque::new(), Rng::new(1));
        let mut room = 128;
        for step in 0..20_000u32 {
            if step % 5000 == 4999 {
                room *= 2;
                parts.reserve(room - 3);
            }
            if model.len() < room as usize && rng.below(5) < 3 {
                let part = [Part::Stepped, Part::Coupled, Part::Spared][rng.below(3) as usize];
                parts.push(part);
                model.push_back(part);
            } else if let Some(part) = model.pop_front() {
                assert_eq!(parts.pop(), part);
            }
        }
        parts.clear();
        parts.push(Part::Spared);
        assert_eq!(parts.pop(), Part::Spared);
    }
}
