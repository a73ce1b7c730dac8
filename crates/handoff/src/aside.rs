//! `Aside`: packets from the admission list whose flows have no room in the path. They wait apart,
//! so that packets of other flows pass them.
//!
//! A flow is in one of 64 rows, by its hash. Packets of a row stay in their order: while one waits
//! here, those behind it do too. Senders see the rows in a word that the holder of the queue
//! publishes ([`Rows`]), and append no more packets of such a row. So at most as many packets wait
//! here as the list has places.

use std::collections::VecDeque;
use std::sync::Arc;

use txweir_core::Detail;

use crate::listed::Listed;
use crate::sync::{AtomicU64, Ordering};

/// Number of rows.
const ROWS: u32 = u64::BITS;

/// The rows of which a packet waits, as senders see them: a hint. A sender that sees an old one
/// appends a packet too many, or is told once more that there is no room.
pub(crate) type Rows = Arc<AtomicU64>;

/// Returns the row of a hash, as a bit.
#[inline]
pub(crate) const fn row(hash: u32) -> u64 {
    1 << (hash >> (u32::BITS - ROWS.ilog2()))
}

/// A packet, and its extra.
pub(crate) type Item<F> = (Listed<F>, Option<Box<Detail>>);

/// Packets that wait for room, by rows.
pub(crate) struct Aside<F> {
    /// The rows; none before the first packet.
    rows: Vec<VecDeque<Item<F>>>,
    /// The rows that have packets.
    used: u64,
    /// The row after the one that was last asked for a packet.
    next: u32,
    len: usize,
    /// Most packets.
    most: usize,
    seen: Rows,
}

impl<F> Aside<F> {
    /// Returns a place for at most `most` packets.
    pub(crate) fn new(most: usize, seen: Rows) -> Self {
        Self { rows: Vec::new(), used: 0, next: 0, len: 0, most, seen }
    }
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
    pub(crate) const fn is_empty(&self) -> bool {
        self.used == 0
    }
    pub(crate) const fn is_full(&self) -> bool {
        self.len >= self.most
    }
    /// True if packets of this hash are to wait behind others.
    #[inline]
    pub(crate) const fn has(&self, hash: u32) -> bool {
        self.used & row(hash) != 0
    }
    /// Puts a packet behind those of its row.
    pub(crate) fn push(&mut self, item: Item<F>) {
        if self.rows.is_empty() {
            self.rows.resize_with(ROWS as usize, VecDeque::new);
        }
        let bit = row(item.0.meta.hash);
        if let Some(row) = self.rows.get_mut(bit.trailing_zeros() as usize) {
            row.push_back(item);
            self.len += 1;
            self.mark(self.used | bit);
        }
    }
    /// Returns the rows that have packets, to be asked in turn: see `first`.
    pub(crate) const fn round(&self) -> u64 {
        self.used
    }
    /// Takes the first packet of one of `rows`, the next one in turn. Returns its row too.
    pub(crate) fn first(&mut self, rows: u64) -> Option<(u64, Item<F>)> {
        let ahead = (rows & self.used).rotate_right(self.next);
        if ahead == 0 {
            return None;
        }
        let at = (self.next + ahead.trailing_zeros()) % ROWS;
        self.next = (at + 1) % ROWS;
        let row = self.rows.get_mut(at as usize)?;
        let item = row.pop_front()?;
        self.len -= 1;
        if row.is_empty() {
            self.mark(self.used & !(1 << at));
        }
        Some((1 << at, item))
    }
    /// Puts a packet back that `first` has taken.
    pub(crate) fn put_back(&mut self, row: u64, item: Item<F>) {
        if let Some(packets) = self.rows.get_mut(row.trailing_zeros() as usize) {
            packets.push_front(item);
            self.len += 1;
            self.mark(self.used | row);
        }
    }
    fn mark(&mut self, used: u64) {
        if used != self.used {
            self.used = used;
            self.seen.store(used, Ordering::Relaxed);
        }
    }
}
