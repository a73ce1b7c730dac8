//! The rows: for each level and priority, the classes that can send and have packets.

use alloc::boxed::Box;

use super::{LEVELS, NONE, PRIOS, bits};
use crate::law::bits::Bits;

/// The rows, and the turn in each.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// For each level and priority, the minor numbers of the classes that can send and have
    /// packets.
    rows: Box<[Bits; LEVELS * PRIOS]>,
    /// The member of each row whose turn it is.
    turns: Box<[u16; LEVELS * PRIOS]>,
    /// For each level, a bit for each priority whose row has members.
    prios: [u8; LEVELS],
    /// A bit for each level with such a row.
    levels: u8,
}

impl Rows {
    pub(super) fn new() -> Self {
        Self {
            rows: Box::new([const { Bits::new() }; LEVELS * PRIOS]),
            turns: Box::new([NONE; LEVELS * PRIOS]),
            prios: [0; LEVELS],
            levels: 0,
        }
    }

    /// Makes room for a class in a row.
    pub(super) fn reserve(&mut self, level: u8, prio: usize, minor: u16) {
        self.rows[usize::from(level) * PRIOS + prio].reserve(usize::from(minor) + 1);
    }
    /// Begins all turns anew.
    pub(super) fn restart(&mut self) {
        self.turns.fill(NONE);
    }

    /// Returns a bit for each level with members.
    #[inline]
    pub(super) const fn levels(&self) -> u8 {
        self.levels
    }
    /// Returns a bit for each priority of a level whose row has members.
    #[inline]
    pub(super) const fn prios(&self, level: usize) -> u8 {
        self.prios[level]
    }
    /// Returns the slot of the member whose turn it is, or `NONE`.
    #[inline]
    pub(super) fn turn(&self, level: usize, prio: usize) -> u16 {
        self.turns[level * PRIOS + prio]
    }
    #[inline]
    pub(super) fn set_turn(&mut self, level: usize, prio: usize, slot: u16) {
        self.turns[level * PRIOS + prio] = slot;
    }
    /// Returns the first member of a row from a minor number on.
    #[inline]
    pub(super) fn next(&self, level: usize, prio: usize, from: usize) -> Option<usize> {
        self.rows[level * PRIOS + prio].next(from)
    }

    /// Puts a class into the rows of these priorities.
    #[inline]
    pub(super) fn join(&mut self, level: u8, mask: u8, minor: u16) {
        for prio in bits(mask) {
            self.rows[usize::from(level) * PRIOS + prio].set(usize::from(minor));
        }
        self.prios[usize::from(level)] |= mask;
        if mask != 0 {
            self.levels |= 1 << level;
        }
    }
    /// Takes a class out of a row.
    #[inline]
    pub(super) fn leave(&mut self, level: u8, prio: usize, minor: u16) {
        let at = usize::from(level) * PRIOS + prio;
        self.rows[at].clear(usize::from(minor));
        if self.rows[at].is_empty() {
            self.prios[usize::from(level)] &= !(1 << prio);
            if self.prios[usize::from(level)] == 0 {
                self.levels &= !(1 << level);
            }
        }
    }
}
