//! A swap: the tree is changed under load and the packets that wait are kept.
//!
//! Packets that the change removes are not dropped but set aside. If there are none, and packets
//! would be classified as before, the waiting packets stay where they are. Otherwise all are taken
//! out, put in order of arrival, and queued anew. O(n log n) in the packets that wait; it
//! allocates, as every change of a tree does.

use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::packet::detail::Detail;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt};
use crate::packet::reason::DropReason;
use crate::packet::route::Candidate;
use crate::path::device::TxQueue;
use crate::path::dql::OBJECT_MAX;
use crate::path::txpath::Held;
use crate::sched::answer::Verdict;
use crate::sched::cx::Arrival;
use crate::sched::trace::Event;

/// Fate of the packets that waited when one tree was swapped for another. If none was cut, `kept`,
/// `moved` and `dropped` add up to the packets that waited before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swapped {
    /// Packets that stay where they waited.
    pub kept: Tally,
    /// Packets that were taken out and now wait in the new tree; a cut super-packet counts as its
    /// pieces.
    pub moved: Tally,
    /// Packets that were dropped: the new tree has no room for them. `Cx::drops` has the reasons.
    pub dropped: Tally,
    /// Super-packets that were cut, because the new tree takes them only in pieces.
    pub cut: u64,
}

impl<F> Held<F> {
    /// Begins a swap: sets aside the packets that `edit` removes from now on. Returns the packets
    /// dropped so far.
    pub(crate) fn begin_swap(&mut self, now: Instant) -> Tally {
        self.cx.now = now;
        self.tree.take_disturbed();
        self.cx.aside.begin();
        self.cx.dropped()
    }

    /// Ends `begin_swap`; `dropped` is the value that it returned.
    pub(crate) fn end_swap<D>(
        &mut self,
        dropped: Tally,
        dev: &mut D,
        mut cut: impl FnMut(F, &Meta, u32, &mut dyn FnMut(F, Meta)),
    ) -> Swapped
    where
        D: TxQueue<Frame = F>,
    {
        let mut swapped = Swapped::default();
        let aside = self.cx.aside.end();
        if self.tree.take_disturbed() || !aside.is_empty() {
            let mut waiting = Vec::with_capacity(self.cx.pool.live());
            self.collect(aside, dev, &mut waiting);
            self.cx.pool.keep_details(self.tree.wants_detail());
            let now = self.cx.now;
            for w in waiting {
                swapped.cut += u64::from(self.requeue(now, w, dev, &mut cut));
            }
            swapped.moved = self.tree.root().account().queued();
        } else {
            self.cx.pool.keep_details(self.tree.wants_detail());
            self.settled = false;
            self.settle(None, dev);
            swapped.kept = self.tree.root().account().queued();
        }
        swapped.dropped = self.cx.dropped().since(dropped);
        swapped
    }

    /// Returns the packets of a list in the order in which they were admitted.
    fn by_arrival(&self, mut list: List) -> Vec<Pkt> {
        let mut packets = Vec::with_capacity(self.cx.pool.live());
        let mut bound = Bound::of(self.cx.pool.capacity());
        while let Some(p) = list.pop_front(&self.cx.pool) {
            bound.turn();
            packets.push(p);
        }
        packets.sort_by_key(|p| core::cmp::Reverse(self.cx.pool.age(p)));
        packets
    }
}

/// A packet that has waited on a path, on its way to the new tree there, or to another path.
#[derive(Debug)]
pub(crate) struct Waiting<F> {
    pub(crate) meta: Meta,
    pub(super) frame: F,
    detail: Option<Detail>,
    /// True if it is counted as a packet that enters: it comes from another path, or is a piece.
    pub(crate) enters: bool,
}

impl<F> Held<F> {
    /// Takes out every packet that waits, or that a swap has set aside, in order of arrival, to the
    /// back of `out`. The books forget that they were admitted. Ends a swap.
    pub(crate) fn collect_waiting<D>(&mut self, now: Instant, dev: &mut D, out: &mut Vec<Waiting<F>>)
    where
        D: TxQueue<Frame = F>,
    {
        self.cx.now = now;
        let aside = self.cx.aside.end();
        self.collect(aside, dev, out);
    }

    /// Takes out every packet that waits, with those of a list, in order of arrival, to the back of
    /// `out`.
    fn collect<D>(&mut self, mut list: List, dev: &mut D, out: &mut Vec<Waiting<F>>)
    where
        D: TxQueue<Frame = F>,
    {
        self.settle(None, dev);
        self.tree.evict_all(&mut list, &mut self.cx);
        for p in self.by_arrival(list) {
            let meta = *self.cx.meta(&p);
            let detail = self.cx.pool.detail(&p).copied();
            if let Some(frame) = self.frames[p.index()].take() {
                out.push(Waiting { meta, frame, detail, enters: false });
            }
            self.cx.pool.free(p);
        }
        self.settled = false;
        self.freed = true;
    }

    /// Queues a packet that has waited elsewhere, with its old time of arrival; true if it was cut.
    pub(crate) fn requeue<D>(
        &mut self,
        now: Instant,
        waiting: Waiting<F>,
        dev: &mut D,
        mut cut: impl FnMut(F, &Meta, u32, &mut dyn FnMut(F, Meta)),
    ) -> bool
    where
        D: TxQueue<Frame = F>,
    {
        self.cx.now = now;
        let Waiting { meta, frame, detail, enters } = waiting;
        let offered = Meta { enqueued: now, ..meta };
        let asked = Candidate { meta: &offered, route: detail.as_ref().map(|d| &d.route) };
        if meta.segs > 1
            && let Verdict::Cut(max) = self.tree.root().would_accept(&asked)
        {
            let detail = detail.map(Detail::piece);
            cut(frame, &meta, max, &mut |frame, mut piece| {
                piece.inherit(&meta);
                piece.enqueued = meta.enqueued;
                self.requeue_one(Waiting { meta: piece, frame, detail, enters: true }, dev);
            });
            return true;
        }
        self.requeue_one(Waiting { meta, frame, detail, enters }, dev);
        false
    }

    fn requeue_one<D>(&mut self, waiting: Waiting<F>, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        let Waiting { meta, frame, detail, enters } = waiting;
        let why = if meta.wire_len > OBJECT_MAX { DropReason::Oversize } else { DropReason::PoolFull };
        let room = (why == DropReason::PoolFull).then(|| self.cx.pool.alloc(meta, meta.enqueued));
        let Some(p) = room.flatten() else {
            self.cx.refuse(&meta, why);
            return dev.discard(frame, &meta, why);
        };
        match &detail {
            Some(detail) => self.cx.pool.set_detail(&p, detail),
            None => self.cx.pool.clear_detail(&p, meta.class.minor()),
        }
        self.frames[p.index()] = Some(frame);
        self.settled = false;
        if enters {
            self.stats.queued += 1;
            self.record(Event::Enqueued, &meta);
        }
        self.cx.arrival = Arrival::Again;
        self.tree.root_mut().enqueue(p, &mut self.cx);
        self.cx.arrival = Arrival::New;
        self.settle(None, dev);
    }
}
