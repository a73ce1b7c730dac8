//! `Held`: the packets that wait on a transmit path, from the moment a qdisc takes them: the tree,
//! their slots and frames, and the counters. It knows the device only as the owner of frames.

use alloc::vec::Vec;

use crate::base::time::Instant;
use crate::packet::detail::Detail;
use crate::packet::meta::Meta;
use crate::packet::pool::Pkt;
use crate::packet::reason::DropReason;
use crate::path::device::TxQueue;
use crate::path::tree::Tree;
use crate::path::txpath::{Admitted, PathStats};
use crate::sched::cx::Cx;
use crate::sched::node::Node;
use crate::sched::trace::{Event, Record};

/// The packets that wait on a path.
#[derive(Debug)]
pub(crate) struct Held<F> {
    pub(super) tree: Tree,
    pub(super) cx: Cx,
    /// The frame of the packet in each slot.
    pub(super) frames: Vec<Option<F>>,
    /// True if the root has answered `Empty` since a packet last entered it, nothing waits in it,
    /// and it has no size table.
    pub(super) settled: bool,
    /// True if a packet left the qdiscs since a sender was last told `Full`.
    pub(super) freed: bool,
    pub(super) stats: PathStats,
}

impl<F> Held<F> {
    /// See `TxPath::configure`.
    pub(crate) fn configure<D, R>(
        &mut self,
        now: Instant,
        dev: &mut D,
        f: impl FnOnce(&mut Tree, &mut Cx) -> R,
    ) -> R
    where
        D: TxQueue<Frame = F>,
    {
        self.cx.now = now;
        let r = f(&mut self.tree, &mut self.cx);
        self.cx.pool.keep_details(self.tree.wants_detail());
        self.settled = false;
        self.settle(None, dev);
        r
    }

    /// Changes the tree within a swap.
    pub(crate) fn edit<R>(&mut self, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> R {
        f(&mut self.tree, &mut self.cx)
    }

    /// Puts a ready-made root in, on a path where nothing waits.
    pub(crate) fn put_root(&mut self, now: Instant, node: Node) {
        self.cx.now = now;
        self.tree.set_root(node, &mut self.cx);
        self.cx.pool.keep_details(self.tree.wants_detail());
        self.settled = false;
    }

    /// Ends `TxPath::stop_queue` of all queues.
    pub(crate) fn start_queues(&mut self) {
        self.cx.stopped.clear();
    }

    /// Returns the frames of dropped packets to the device. Returns the reason of `newcomer`'s
    /// drop, if it was among them.
    pub(super) fn settle<D>(&mut self, newcomer: Option<usize>, dev: &mut D) -> Option<DropReason>
    where
        D: TxQueue<Frame = F>,
    {
        let mut refused = None;
        while let Some((index, m)) = self.cx.settle_drop() {
            self.freed = true;
            let reason = m.dropped_for().unwrap_or(DropReason::Purged);
            if Some(index) == newcomer {
                refused = Some(reason);
            }
            if let Some(frame) = self.frames[index].take() {
                dev.discard(frame, &m, reason);
            }
        }
        refused
    }

    /// Drops a packet that no qdisc has seen.
    #[cold]
    pub(super) fn refuse<D>(&mut self, frame: F, m: &Meta, reason: DropReason, dev: &mut D) -> Admitted<F>
    where
        D: TxQueue<Frame = F>,
    {
        self.cx.refuse(m, reason);
        dev.discard(frame, m, reason);
        Admitted::Dropped(reason)
    }

    /// Stores the facts about a packet beside its metadata. Out of line, because few trees need
    /// them.
    #[inline(never)]
    pub(super) fn note_detail(&mut self, p: &Pkt, detail: Option<&Detail>) {
        match detail {
            Some(detail) => self.cx.pool.set_detail(p, detail),
            None => self.cx.pool.clear_detail(p),
        }
    }

    #[inline]
    pub(super) fn record(&mut self, event: Event, m: &Meta) {
        if self.cx.trace.is_on() {
            let (at, hash, wire_len) = (self.cx.now, m.hash, m.wire_len);
            self.cx.trace.record(Record { at, event, hash, wire_len });
        }
    }
}
