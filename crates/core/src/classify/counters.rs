//! The numbers by which filters count (`State::hits`). What a filter had that has gone is given to the next, so that a table that
//! changes for ever stays as large as it was at its largest.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Which numbers are in use, and since when. 0 is none's.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// By number, the serial with which it was last given.
    given: Vec<u64>,
    /// By the first of a filter's numbers, how many it has.
    widths: Vec<u16>,
    /// The first numbers of those that are free, by how many they are.
    free: BTreeMap<u16, Vec<u32>>,
    serial: u64,
}

impl Counters {
    /// Gives so many numbers in a row, and says the first.
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

    /// Takes back the numbers that begin with this one; 0 is none.
    pub(crate) fn give(&mut self, first: u32) {
        let width = self.widths.get_mut(first as usize).map_or(0, core::mem::take);
        if width > 0 {
            self.free.entry(width).or_default().push(first);
        }
    }

    /// How many there are, those that are free included.
    pub fn len(&self) -> usize {
        self.given.len()
    }
    /// True if none was ever given.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }
    /// Grows with each that is given.
    pub(crate) const fn serial(&self) -> u64 {
        self.serial
    }
    /// The serial with which each was last given.
    pub(crate) fn given(&self) -> &[u64] {
        &self.given
    }
}
