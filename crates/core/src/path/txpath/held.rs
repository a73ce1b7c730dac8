//! `Held`: the packets that wait on a transmit path, from the moment a qdisc takes them: the tree,
//! their slots and frames, and the counters. It knows the device only as the owner of frames.

use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::time::Instant;
use crate::packet::detail::Detail;
use crate::packet::meta::Meta;
use crate::packet::pool::Pkt;
use crate::packet::reason::DropReason;
use crate::packet::route::Candidate;
use crate::path::device::TxQueue;
use crate::path::dql::OBJECT_MAX;
use crate::path::tree::Tree;
use crate::path::txpath::{Admitted, BURST_MAX, PathStats, Role, Transmitter};
use crate::sched::answer::Verdict;
use crate::sched::cx::Cx;
use crate::sched::node::{Ahead, Node};
use crate::sched::trace::{Event, Record};

/// Number of waiting packets from which on memory is asked for ahead: fewer stay in the caches.
const EXPECTS_FROM: usize = 8192;
/// Bytes of classes and tables from which on it is asked for however few packets wait: of less,
/// enough stays in the caches. 4096 classes of drr or htb have less.
const EXPECTS_BYTES: u64 = 8 << 20;
/// Most steps of that: two classes, one in the other, with their qdiscs, a flow of the inner one,
/// the last packet of the flow.
const EXPECT_STEPS_MAX: u32 = 6;

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
    /// True if a sender was told `Full` and not yet woken.
    pub(super) refused: bool,
    /// True if the last `Full` was for the flow of its packet, and not for all packets.
    pub(super) by_flow: bool,
    /// True if a packet left the qdiscs since a sender was last told `Full`.
    pub(super) freed: bool,
    pub(super) stats: PathStats,
}

impl<F> Held<F> {
    /// See `TxPath::configure`.
    pub(super) fn configure<R>(&mut self, now: Instant, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> R {
        self.cx.now = now;
        f(&mut self.tree, &mut self.cx)
    }

    /// Ends `configure`: gives the frames of dropped packets back.
    pub(super) fn end_configure<D>(&mut self, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        self.cx.pool.keep_details(self.tree.wants_detail());
        self.settled = false;
        self.settle(None, dev);
    }

    /// Changes the tree within a swap.
    pub(crate) fn edit<R>(&mut self, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> R {
        f(&mut self.tree, &mut self.cx)
    }

    /// Takes the tree out, in which no packet waits, at the end of the path.
    pub(crate) fn take_tree(&mut self) -> Tree {
        let fresh = Tree::new(*self.tree.env());
        core::mem::replace(&mut self.tree, fresh)
    }

    /// Puts a ready-made root in, on a path where nothing waits.
    pub(crate) fn put_root(&mut self, now: Instant, node: Node) {
        self.cx.now = now;
        self.tree.set_root(node, &mut self.cx);
        self.cx.pool.keep_details(self.tree.wants_detail());
        self.settled = false;
    }

    /// Puts another tree in, within a swap, which sets aside the packets of the old one. Returns
    /// the old one.
    pub(crate) fn put_tree(&mut self, now: Instant, tree: Tree) -> Tree {
        self.cx.now = now;
        self.tree.replace_by(tree, &mut self.cx)
    }

    /// True if rule DD holds, except for the room in the ring: every qdisc on the path is
    /// transparent and empty, no stop is set, the direct way is on, and the byte limit is not
    /// reached. The caller asks the ring for room last, because the answer is a promise.
    #[inline]
    pub(super) fn may_be_passed<D>(&self, wire_len: u32, tx: &Transmitter, dev: &mut D) -> bool
    where
        D: TxQueue<Frame = F>,
    {
        self.settled && tx.takes_direct(wire_len, dev) && self.tree.root().qdisc().transparent(wire_len)
    }
    /// Counts a packet that goes past the qdiscs.
    #[inline]
    pub(super) fn count_direct(&mut self, m: &Meta) {
        self.tree.root_mut().charge_direct(m);
        self.stats.direct += 1;
        self.record(Event::Direct, m);
    }

    /// Asks for the memory that these packets, at most `BURST_MAX`, will touch, if so many wait, or
    /// the tree is so large, that the caches do not hold it.
    #[inline]
    pub(super) fn expect(&self, burst: &[Meta]) {
        if self.cx.pool.live() < EXPECTS_FROM && self.tree.tables() < EXPECTS_BYTES {
            return;
        }
        let mut ahead = [Ahead::Step(self.tree.root(), 0); BURST_MAX];
        // Bound: EXPECT_STEPS_MAX times BURST_MAX.
        for _ in 0..EXPECT_STEPS_MAX {
            let mut more = false;
            for (m, ahead) in burst.iter().zip(&mut ahead) {
                *ahead = ahead.ask(m, &self.cx.pool);
                more |= !matches!(ahead, Ahead::Nothing);
            }
            if !more {
                return;
            }
        }
    }

    /// Takes a packet into the qdiscs: see `TxPath::submit_with`.
    #[inline(always)]
    pub(super) fn admit<D>(
        &mut self,
        frame: F,
        m: Meta,
        detail: Option<&Detail>,
        role: Role,
        dev: &mut D,
    ) -> Admitted<F>
    where
        D: TxQueue<Frame = F>,
    {
        let origin = role == Role::Origin;
        if origin || m.segs > 1 {
            let asked = Meta { enqueued: self.cx.now, ..m };
            match self.tree.root().would_accept(&Candidate { meta: &asked, route: detail.map(|d| &d.route) })
            {
                // With nothing queued no departure would ever wake the sender, so the packet is
                // dropped.
                full @ (Verdict::Full | Verdict::FlowFull) if origin && !self.tree.root().is_empty() => {
                    self.by_flow = full == Verdict::FlowFull;
                    return self.full(frame);
                }
                Verdict::Cut(max) => {
                    self.stats.cut += 1;
                    return Admitted::Cut(frame, max);
                }
                Verdict::Accept | Verdict::Full | Verdict::FlowFull | Verdict::TooLarge(_) => {}
            }
        }
        if m.wire_len > OBJECT_MAX {
            // The byte limit cannot count this much: no device takes such a unit.
            let refused = m;
            return self.refuse(frame, &refused, DropReason::Oversize, dev);
        }
        let Some(p) = self.cx.pool.alloc(m, self.cx.now) else {
            if origin {
                self.by_flow = false;
                return self.full(frame);
            }
            let refused = m;
            return self.refuse(frame, &refused, DropReason::PoolFull, dev);
        };
        if self.cx.pool.keeps_details() {
            self.note_detail(&p, detail, m.class.minor());
        }
        let index = p.index();
        self.frames[index] = Some(frame);
        self.stats.queued += 1;
        self.record(Event::Enqueued, &m);
        self.settled = false;
        self.tree.root_mut().enqueue(p, &mut self.cx);
        match self.cx.effects.any() {
            false => Admitted::Queued,
            true => self.settle_arrival(index, dev),
        }
    }

    /// Handles drops and requests that the arrival of a packet has caused.
    #[inline(never)]
    fn settle_arrival<D>(&mut self, index: usize, dev: &mut D) -> Admitted<F>
    where
        D: TxQueue<Frame = F>,
    {
        self.cx.effects.clear();
        self.serve_requests(dev);
        match self.settle(Some(index), dev) {
            Some(reason) => Admitted::Dropped(reason),
            None => Admitted::Queued,
        }
    }

    fn full(&mut self, frame: F) -> Admitted<F> {
        (self.refused, self.freed) = (true, false);
        self.stats.full += 1;
        Admitted::Full(frame)
    }

    /// See `TxPath::take_wake`.
    #[inline]
    pub(super) const fn take_wake(&mut self) -> bool {
        let wake = self.refused && self.freed;
        if wake {
            self.refused = false;
            self.stats.tx_wake += 1;
        }
        wake
    }

    /// Asks for the memory of the frames of the packets that qdiscs have asked for.
    #[inline(never)]
    fn ask_frames(&mut self) {
        for soon in self.cx.pool.take_asked() {
            txweir_ahead::element(&self.frames, soon as usize);
        }
    }

    /// Gives a packet that has left the qdiscs to the device.
    #[inline(always)]
    pub(super) fn hand_over<D>(&mut self, p: Pkt, tx: &mut Transmitter, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        self.freed = true;
        let frame = self.frames[p.index()].take();
        if self.cx.pool.has_asked() {
            self.ask_frames();
        }
        // The metadata is read in place: a copy of the cache line would cost as much as the rest.
        let m = self.cx.pool.release(p);
        if let Some(frame) = frame {
            // A packet is booked once the device has it: a panic of the device books none.
            dev.push(frame, m);
            tx.post(m, self.cx.now, &mut self.stats);
            if self.cx.trace.is_on() {
                let (at, event, hash, wire_len) = (self.cx.now, Event::Sent(m.marked), m.hash, m.wire_len);
                self.cx.trace.record(Record { at, event, hash, wire_len });
            }
        }
    }

    /// Returns the frames of dropped packets to the device. Returns the reason of `newcomer`'s
    /// drop, if it was among them.
    pub(super) fn settle<D>(&mut self, newcomer: Option<usize>, dev: &mut D) -> Option<DropReason>
    where
        D: TxQueue<Frame = F>,
    {
        let mut refused = None;
        let mut bound = Bound::of(self.cx.pool.capacity());
        while let Some((index, m)) = self.cx.settle_drop() {
            bound.turn();
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

    /// Stores the facts about a packet beside its metadata, and the number of the class that it
    /// comes with. Out of line, because few trees need them.
    #[inline(never)]
    pub(super) fn note_detail(&mut self, p: &Pkt, detail: Option<&Detail>, index: u16) {
        match detail {
            Some(detail) => self.cx.pool.set_detail(p, &Detail { index, ..*detail }),
            None => self.cx.pool.clear_detail(p, index),
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
