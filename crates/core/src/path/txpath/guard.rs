//! `Books`: the packets of a path before its owner's code gets the tree and the context, to find
//! out whether that code has kept them.
//!
//! The code may replace either as a whole, or free packets behind the tree's back. The slots, the
//! tree and the frames then disagree: a slot would be used twice, and frames be forgotten.

use crate::base::tally::Tally;
use crate::packet::pool::Pool;
use crate::packet::reason::DropReason;
use crate::path::device::TxQueue;
use crate::path::tree::Tree;
use crate::path::txpath::Held;

/// The packets of a path at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Books {
    /// Slots of the pool, and those in use.
    slots: (usize, usize),
    /// Packets in the tree, and those taken out of it so far.
    known: u64,
}

impl Books {
    pub(super) fn of<F>(held: &Held<F>) -> Self {
        let (pool, queued) = (&held.cx.pool, held.tree.root().account().queued());
        let known = queued.packets.wrapping_add(held.cx.taken_out());
        Self { slots: (pool.capacity(), pool.live()), known }
    }
}

impl<F> Held<F> {
    /// Puts a path in order whose packets are not the ones before, after its owner's code: gives
    /// every waiting frame to the device's `discard`, with the reason `Purged`, and starts with an
    /// empty pool. A tree that has packets goes as well.
    pub(super) fn keep_books<D>(&mut self, before: Books, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        if Books::of(self) != before {
            self.start_again(dev);
        }
    }

    #[cold]
    #[inline(never)]
    fn start_again<D>(&mut self, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        // The metadata of a foreign pool are not those of the frames.
        let is_own = self.cx.pool.capacity() == self.frames.len();
        for index in 0..self.frames.len() {
            if let Some(frame) = self.frames[index].take() {
                let m = if is_own { self.cx.pool.as_it_came(index) } else { crate::Meta::new(0) };
                self.cx.refuse(&m, DropReason::Purged);
                dev.discard(frame, &m, DropReason::Purged);
            }
        }
        self.cx.forget_packets();
        self.cx.pool = Pool::new(self.frames.len());
        if self.tree.root().account().queued() != Tally::default() {
            let fresh = Tree::new(*self.tree.env()).with_kinds(self.tree.kinds());
            // Its end would look for its packets in the pool.
            core::mem::forget(core::mem::replace(&mut self.tree, fresh));
        }
        self.settled = false;
        self.freed = true;
    }
}
