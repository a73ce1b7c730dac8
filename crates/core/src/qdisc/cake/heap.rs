//! Waiting bytes in each queue of all tins, and the queue that has most: a binary heap, kept only
//! while queues overflow.
//!
//! Among queues with the same bytes, the shape of the heap decides. It is Linux's: at first, the
//! first queue of every tin stands before the second of any.

use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::qdisc::cake::flows::FLOWS;

/// Levels of a heap of the queues of eight tins.
const DEPTH: usize = 14;
/// Departures for which the heap is maintained after the last overflow.
const KEEP: u32 = 65_535;

/// Backlogs, with the longest at hand.
#[derive(Debug)]
pub struct Backlogs {
    /// Tins. Queue `f` of a tin has number `f * tins + tin`.
    tins: usize,
    bytes: Vec<u64>,
    /// The queues in heap order, the longest first.
    heap: Vec<u16>,
    /// Position of each queue in `heap`.
    at: Vec<u16>,
    /// Departures until the heap is given up; 0 while it is not maintained.
    keep: u32,
    /// True to sink as Linux does: PARITY.md, cake-longest.
    strict_linux: bool,
    /// True if the tables come with the first packet: until then they are empty.
    lazy: bool,
}

impl Backlogs {
    /// Returns the empty backlogs of the queues of `tins` tins, at most eight.
    pub fn new(tins: usize, env: &Env) -> Self {
        let (bytes, heap, at) = (Vec::new(), Vec::new(), Vec::new());
        let Env { strict_linux, lazy, .. } = *env;
        let mut empty = Self { tins, bytes, heap, at, keep: 0, strict_linux, lazy };
        if !lazy {
            empty.take_memory();
        }
        empty
    }

    /// Takes the memory of the tables.
    #[cold]
    fn take_memory(&mut self) {
        let queues = self.tins * FLOWS;
        self.heap = (0..queues as u16).collect(); // eight tins of 1024
        self.at = self.heap.clone();
        self.bytes = alloc::vec![0; queues];
    }

    /// Makes room for `tins` tins, if there is less.
    pub fn grow(&mut self, tins: usize) {
        if tins <= self.tins {
            return;
        }
        let (had, bytes) = (self.tins, core::mem::take(&mut self.bytes));
        (self.tins, self.keep) = (tins, 0);
        if bytes.is_empty() {
            return;
        }
        self.take_memory();
        for (queue, bytes) in bytes.into_iter().enumerate() {
            self.bytes[queue / had * tins + queue % had] = bytes;
        }
    }

    /// Forgets all bytes.
    pub fn reset(&mut self) {
        self.keep = 0;
        if self.lazy {
            (self.bytes, self.heap, self.at) = (Vec::new(), Vec::new(), Vec::new());
        } else {
            self.take_memory();
        }
    }

    /// Returns the bytes in queue `f` of a tin.
    #[inline]
    pub fn of(&self, tin: usize, f: usize) -> u64 {
        self.bytes[f * self.tins + tin]
    }

    /// Adds bytes to queue `f` of a tin.
    #[inline]
    pub fn add(&mut self, tin: usize, f: usize, bytes: u32) {
        let queue = f * self.tins + tin;
        if self.bytes.is_empty() {
            self.take_memory();
        }
        self.bytes[queue] += u64::from(bytes);
        if self.keep > 0 {
            self.rise(usize::from(self.at[queue]));
        }
    }

    /// Takes bytes from queue `f` of a tin.
    #[inline]
    pub fn take(&mut self, tin: usize, f: usize, bytes: u32) {
        let queue = f * self.tins + tin;
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

    /// Returns the tin and the number of the queue with most bytes. O(1); O(queues) if the heap was
    /// not maintained.
    pub fn longest(&mut self) -> (usize, usize) {
        // The heap of Linux may have an empty queue in front.
        if self.keep == 0 || self.strict_linux && self.weight(0) == 0 {
            for i in (0..self.heap.len() / 2).rev() {
                self.sink(i);
            }
        }
        self.keep = KEEP;
        let longest = self.heap.first().map_or(0, |queue| usize::from(*queue));
        (longest % self.tins, longest / self.tins)
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

    /// Moves an entry down until nothing below is heavier. O(log queues). Linux compares the next
    /// level with the entry that has come up, and so moves it down one level.
    fn sink(&mut self, mut i: usize) {
        let mut least = self.weight(i);
        let mut bound = Bound::of(DEPTH);
        loop {
            bound.turn();
            let (left, right) = (2 * i + 1, 2 * i + 2);
            let below = if self.weight(right) > self.weight(left) { right } else { left };
            let heavier = self.weight(below);
            if heavier <= least {
                return;
            }
            self.swap(i, below);
            i = below;
            if self.strict_linux {
                least = heavier;
            }
        }
    }

    /// Moves an entry up until nothing above is lighter. O(log queues).
    fn rise(&mut self, mut i: usize) {
        let mut bound = Bound::of(DEPTH);
        while i > 0 && self.weight(i) > self.weight((i - 1) / 2) {
            bound.turn();
            self.swap(i, (i - 1) / 2);
            i = (i - 1) / 2;
        }
    }
}
