//! Connection ends that were given a frame back.

use std::collections::VecDeque;

/// Connection ends that wait for room in a NIC's queues. Paths have the numbers that they have in
/// its port: one for each queue, or one for all.
#[derive(Debug)]
pub struct Waiting {
    /// Of each path, oldest first.
    ends: Vec<VecDeque<u32>>,
    /// The path that gave the last frame back.
    full: usize,
}

impl Waiting {
    /// None, for at most so many paths.
    pub(super) fn new(paths: u16) -> Self {
        Self { ends: (0..paths).map(|_| VecDeque::new()).collect(), full: 0 }
    }
    /// This path has given a frame back.
    pub(super) const fn refused(&mut self, path: usize) {
        self.full = path;
    }
    /// Whether any end waits for room in a path.
    pub(super) fn is_waiting(&self, path: usize) -> bool {
        self.ends.get(path).is_some_and(|ends| !ends.is_empty())
    }
    /// This end waits for room where a frame was given back last; to be said once until it is given
    /// by [`next`](Self::next).
    pub fn wait(&mut self, end: u32) {
        if let Some(ends) = self.ends.get_mut(self.full) {
            ends.push_back(end);
        }
    }
    /// The end before whom `n` others have waited longer for room in a path.
    pub fn coming(&self, path: usize, n: usize) -> Option<u32> {
        self.ends.get(path)?.get(n).copied()
    }
    /// The end that has waited longest for room in a path; it waits no more.
    pub fn next(&mut self, path: usize) -> Option<u32> {
        self.ends.get_mut(path)?.pop_front()
    }
}
