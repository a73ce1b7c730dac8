//! Allocator of the numbers by which filters count (`State::hits`). Numbers of a removed filter go
//! to the next one, so that a table under constant change stays as large as its largest size so
//! far.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Numbers in use, and the time of their assignment as a serial. No filter has 0.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// By number, the serial of its last assignment.
    given: Vec<u64>,
    /// By the first number of a filter, the count of its numbers.
    widths: Vec<u16>,
    /// The first numbers of free runs, by the length of the run.
    free: BTreeMap<u16, Vec<u32>>,
    serial: u64,
}

impl Counters {
    /// Assigns `width` numbers in a row and returns the first.
    pub(crate) fn take(&mut self, width: u16) -> u32 {
        self.serial += 1;
        let first = match self.free.get_mut(&width).and_then(Vec::pop) {
            Some(first) => first as usize,
            None => {
                let first = self.given.len().max(1);
                self.given.resize(first + usize::from(width), 0);
                self.widths.resize(self.given.len(), 0);
                first
            }
        };
        self.widths[first] = width;
        self.given[first..first + usize::from(width)].fill(self.serial);
        u32::try_from(first).unwrap_or(0)
    }

    /// Frees the numbers that begin with this one; 0 is none.
    pub(crate) fn give(&mut self, first: u32) {
        let width = self.widths.get_mut(first as usize).map_or(0, core::mem::take);
        if width > 0 {
            self.free.entry(width).or_default().push(first);
        }
    }

    /// Returns the count of all numbers, free ones included.
    pub fn len(&self) -> usize {
        self.given.len()
    }
    /// True if no number was ever assigned.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }
    /// Returns a serial that grows with each assignment.
    pub(crate) const fn serial(&self) -> u64 {
        self.serial
    }
    /// Returns the serial of the last assignment of each number.
    pub(crate) fn given(&self) -> &[u64] {
        &self.given
    }
}
