//! Waiting bytes in each queue of all tins, and the queue that has most: a binary heap, kept only
//! while queues overflow.

use alloc::vec::Vec;

/// Departures for which the heap is maintained after the last overflow.
const KEEP: u32 = 65_535;

/// Backlogs, with the longest at hand.
#[derive(Debug)]
pub struct Backlogs {
    bytes: Vec<u64>,
    /// The queues in heap order, the longest first.
    heap: Vec<u16>,
    /// Position of each queue in `heap`.
    at: Vec<u16>,
    /// Departures until the heap is given up; 0 while it is not maintained.
    keep: u32,
}

impl Backlogs {
    /// Returns the empty backlogs of `queues` queues.
    pub fn new(queues: usize) -> Self {
        let all: Vec<u16> = (0..queues as u16).collect(); // eight tins of 1024
        Self { bytes: alloc::vec![0; queues], at: all.clone(), heap: all, keep: 0 }
    }

    /// Makes room for `queues` queues, if there is less.
    pub fn grow(&mut self, queues: usize) {
        let had = self.bytes.len();
        self.bytes.resize(queues.max(had), 0);
        for queue in had..queues {
            // An empty queue belongs at the end.
            self.heap.push(queue as u16); // eight tins of 1024
            self.at.push(queue as u16); // the same
        }
    }

    /// Returns the bytes in a queue.
    #[inline]
    pub fn of(&self, queue: usize) -> u64 {
        self.bytes[queue]
    }

    /// Adds bytes to a queue.
    #[inline]
    pub fn add(&mut self, queue: usize, bytes: u32) {
        self.bytes[queue] += u64::from(bytes);
        if self.keep > 0 {
            self.rise(usize::from(self.at[queue]));
        }
    }

    /// Takes bytes from a queue.
    #[inline]
    pub fn take(&mut self, queue: usize, bytes: u32) {
        self.bytes[queue] -= u64::from(bytes);
        if self.keep > 0 {
            self.sink(usize::from(self.at[queue]));
        }
    }

    /// Counts a departure towards giving up the heap.
    #[inline]
    pub const fn sent(&mut self) {
        self.keep = self.keep.saturating_sub(1);
    }

    /// Returns the queue with most bytes. O(1); O(queues) if the heap was not maintained.
    pub fn longest(&mut self) -> usize {
        if self.keep == 0 {
            for i in (0..self.heap.len() / 2).rev() {
                self.sink(i);
            }
        }
        self.keep = KEEP;
        usize::from(self.heap[0])
    }

    fn weight(&self, i: usize) -> u64 {
        self.heap.get(i).map_or(0, |queue| self.bytes[usize::from(*queue)])
    }

    fn swap(&mut self, i: usize, j: usize) {
        self.heap.swap(i, j);
        for k in [i, j] {
            self.at[usize::from(self.heap[k])] = k as u16; // the heap has no more than 2^13
        }
    }

    /// Moves an entry down until nothing below is heavier. O(log queues).
    fn sink(&mut self, mut i: usize) {
        loop {
            let (left, right) = (2 * i + 1, 2 * i + 2);
            let below = if self.weight(right) > self.weight(left) { right } else { left };
            if self.weight(below) <= self.weight(i) {
                return;
            }
            self.swap(i, below);
            i = below;
        }
    }

    /// Moves an entry up until nothing above is lighter. O(log queues).
    fn rise(&mut self, mut i: usize) {
        while i > 0 && self.weight(i) > self.weight((i - 1) / 2) {
            self.swap(i, (i - 1) / 2);
            i = (i - 1) / 2;
        }
    }
}
