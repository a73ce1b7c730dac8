//! `Cx`: the context that a qdisc may reach during one call. It is the only way to drop or mark a
//! packet.

use alloc::vec::Vec;

use crate::base::queues::QueueSet;
use crate::base::rng::Rng;
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::packet::meta::{Ecn, Meta, Note};
use crate::packet::pool::{End, List, Pkt, Pool};
use crate::packet::reason::{DropReason, MarkReason, Reasons, WakeReason};
use crate::sched::answer::Next;
use crate::sched::trace::{Event, Record, Trace};

/// Counts of `Cx` before a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    pub(crate) dropped: Tally,
    pub(crate) overlimits: u64,
    /// End of the list of dropped packets before the call. The packets behind it were dropped
    /// since. Their reasons are read there, so that the counters by reason need not be copied.
    last_dropped: End,
    marks: [u64; MarkReason::COUNT],
}

impl Before {
    #[inline(always)]
    pub(crate) const fn of(cx: &Cx) -> Self {
        Self {
            dropped: cx.dropped,
            overlimits: cx.overlimits,
            last_dropped: cx.dropped_list.end(),
            marks: cx.reasons.marks,
        }
    }
}

/// Request of a qdisc to the owner of the frames, for the packet in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// To copy the frame.
    Copy(usize),
    /// To invert this bit of the frame.
    Flip(usize, u32),
}

/// Most requests of one call; further ones are ignored.
const REQUESTS_MAX: usize = 64;

/// Context of a qdisc call: the time, the packets, and the record of decisions.
///
/// Drops recorded here settle on the way back up the call stack: each node on the way compares
/// `dropped` before and after the call, and subtracts the difference from its own backlog. The
/// stack is the chain of ancestors, so no qdisc knows its parent.
#[derive(Debug)]
pub struct Cx {
    /// The time of this call.
    pub now: Instant,
    /// Every packet of the transmit path.
    pub pool: Pool,
    /// The only source of randomness.
    pub rng: Rng,
    /// Event records.
    pub trace: Trace,
    pub(crate) dropped: Tally,
    dropped_list: List,
    /// See `owing`.
    owing: bool,
    /// Counts at the time when `owing` was set.
    before: Before,
    last_dropped_hash: u32,
    /// True while a tree is swapped for another: see `swapping`.
    swapping: bool,
    /// Packets and bytes set aside instead of dropped.
    pub(crate) aside: Tally,
    aside_list: List,
    /// Charge above the wire bytes, of packets dropped and of packets set aside, since the node
    /// with the size table last settled.
    excess: (i64, i64),
    /// During a change: the packet that a peek has taken out of the qdisc that is changed.
    pub(crate) peeked: List,
    /// Earliest time that a qdisc below has given, of those that lost to a packet that was ready
    /// beside them.
    earlier: Option<(Instant, WakeReason)>,
    /// Time at which a qdisc that has just returned no packet may be asked again; `None` if it is
    /// empty.
    answer: Option<(Instant, WakeReason)>,
    /// Overlimits of the node being called and of those above it: each subtracts its own before it
    /// returns.
    pub(crate) overlimits: u64,
    /// Requests to the owner of the frames; never more than the capacity.
    requests: Vec<Request>,
    /// True while a copy is being queued: see `copying`.
    pub(crate) copying: bool,
    /// True while packets that waited in another tree are queued: see `again`.
    pub(crate) requeueing: bool,
    /// Transmit queues that may not transmit.
    pub(crate) stopped: QueueSet,
    reasons: Reasons,
}

impl Cx {
    /// Returns a context with room for `pool` packets.
    pub fn new(pool: usize, seed: u64) -> Self {
        Self {
            now: Instant::ZERO,
            pool: Pool::new(pool),
            rng: Rng::new(seed),
            trace: Trace::default(),
            dropped: Tally::default(),
            dropped_list: List::new(),
            owing: false,
            before: Before::default(),
            last_dropped_hash: 0,
            swapping: false,
            aside: Tally::default(),
            aside_list: List::new(),
            excess: (0, 0),
            peeked: List::new(),
            earlier: None,
            answer: None,
            overlimits: 0,
            requests: Vec::with_capacity(REQUESTS_MAX),
            copying: false,
            requeueing: false,
            stopped: QueueSet::new(),
            reasons: Reasons::default(),
        }
    }

    /// Takes, during a change, the packet that a peek has taken out of the qdisc. It is the oldest
    /// that the qdisc has to drop.
    pub fn take_peeked(&mut self) -> Option<Pkt> {
        self.peeked.pop_front(&self.pool)
    }

    /// Notes that a class will have a packet at `t`, while another class has one now. If that one
    /// has to wait for a shaper above, `t` may be the time to ask again: the packet that is ready
    /// then may be smaller, and leave at once.
    pub fn may_be_ready(&mut self, t: Instant, why: WakeReason) {
        if self.earlier.is_none_or(|(u, _)| t < u) {
            self.earlier = Some((t, why));
        }
    }

    /// Returns the earlier of a shaper's own time and of the times given to `may_be_ready` since
    /// the path was last asked.
    pub fn earliest(&self, t: Instant, why: WakeReason) -> (Instant, WakeReason) {
        self.earlier.filter(|(u, _)| *u < t).unwrap_or((t, why))
    }

    /// Returns the reason why the last called qdisc returned no packet. It is stored apart from the
    /// packet, so that the packet stays in a register.
    #[inline(always)]
    pub(crate) const fn answer(&self) -> Next {
        match self.answer {
            Some((t, why)) => Next::At(t, why),
            None => Next::Empty,
        }
    }

    /// Sets the reason that `answer` returns.
    #[inline(always)]
    pub(crate) fn set_answer(&mut self, next: Next) {
        self.answer = match next {
            Next::At(t, why) => Some((t, why)),
            Next::Packet(_) | Next::Empty => None,
        };
    }

    /// Forgets the times given to `may_be_ready`, because the path is asked anew.
    pub(crate) const fn forget_earlier(&mut self) {
        self.earlier = None;
    }

    /// Returns the packet's metadata.
    #[inline]
    pub fn meta(&self, p: &Pkt) -> &Meta {
        self.pool.meta(p)
    }

    /// Drops a packet. It stays in the pool, on the list of dropped packets, until the engine has
    /// returned its frame. While `swapping`, a `Purged` packet is set aside instead, to be queued
    /// again.
    #[inline]
    pub fn drop(&mut self, p: Pkt, reason: DropReason) {
        if self.swapping && reason == DropReason::Purged {
            return self.set_aside(p);
        }
        self.owe();
        if self.pool.is_charged(&p) {
            self.uncharge_dropped(p.index());
        } else {
            self.dropped.add(self.pool.meta(&p).wire_len);
        }
        let meta = self.pool.meta_mut(&p);
        meta.note = Note::Dropped(reason);
        let (hash, wire_len) = (meta.hash, meta.wire_len);
        self.last_dropped_hash = hash;
        self.count_drop(hash, wire_len, reason);
        self.dropped_list.push_back(&mut self.pool, p);
    }

    /// Counts the drop of a packet that a size table has charged: all nodes below the table count
    /// the charged size.
    #[cold]
    #[inline(never)]
    fn uncharge_dropped(&mut self, index: usize) {
        let (charged, wire_len) = self.pool.uncharge(index);
        self.excess.0 += i64::from(charged) - i64::from(wire_len);
        self.dropped.add(charged);
    }

    /// True while one tree is swapped for another, under load: packets of removed qdiscs are set
    /// aside and queued again. A kind that is changed then keeps state that a change would
    /// otherwise renew, such as tokens.
    pub const fn swapping(&self) -> bool {
        self.swapping
    }

    /// True for a packet that waited in another tree and is queued again: the decisions on it were
    /// made before.
    #[inline]
    pub const fn again(&self) -> bool {
        self.requeueing
    }

    /// True for a requested copy: no copy is made of a copy.
    #[inline]
    pub const fn copying(&self) -> bool {
        self.copying
    }

    /// Requests a copy of a packet that is being queued, to enter at the root behind it.
    pub(crate) fn request_copy(&mut self, p: &Pkt) {
        self.request(Request::Copy(p.index()));
    }

    /// Requests the inversion of one bit of a packet's frame, counted from its first.
    pub(crate) fn request_flip(&mut self, p: &Pkt, bit: u32) {
        self.request(Request::Flip(p.index(), bit));
    }

    fn request(&mut self, request: Request) {
        // Packets come from outside one at a time; only an emulated link behind another may take in
        // many at once.
        if self.requests.len() < REQUESTS_MAX {
            self.owe();
            self.requests.push(request);
        }
    }

    /// Takes the latest request to the owner of the frames.
    #[inline]
    pub(crate) fn take_request(&mut self) -> Option<Request> {
        self.requests.pop()
    }

    /// True if a packet was dropped or marked, an overlimit counted, or a request made to the owner
    /// of the frames, since `pay_up` or `begin_call`. The only flag that is tested after a call
    /// without such effects.
    #[inline(always)]
    pub(crate) const fn owing(&self) -> bool {
        self.owing
    }

    /// Returns the counts before the first of these effects.
    pub(crate) const fn before(&self) -> Before {
        self.before
    }

    fn owe(&mut self) {
        if !self.owing {
            self.owing = true;
            self.before = Before::of(self);
        }
    }

    /// Clears the flag, because the owner of the frames handles the effects now.
    pub(crate) const fn pay_up(&mut self) {
        self.owing = false;
    }

    /// Hides earlier effects from the node about to be called. Returns the value that `end_call`
    /// takes.
    pub(crate) const fn begin_call(&mut self) -> Before {
        self.owing = false;
        self.before
    }

    /// Ends `begin_call` and restores the hidden effects.
    pub(crate) const fn end_call(&mut self, outer: Before) {
        self.owing = true;
        self.before = outer;
    }

    #[cold]
    fn set_aside(&mut self, p: Pkt) {
        let (charged, wire_len) = self.pool.uncharge(p.index());
        self.excess.1 += i64::from(charged) - i64::from(wire_len);
        self.aside.add(charged);
        self.aside_list.push_back(&mut self.pool, p);
    }

    /// Begins to set purged packets aside.
    pub(crate) const fn begin_swap(&mut self) {
        self.swapping = true;
    }

    /// Ends `begin_swap` and returns the packets set aside.
    pub(crate) fn end_swap(&mut self) -> List {
        self.swapping = false;
        core::mem::take(&mut self.aside_list)
    }

    /// Counts a packet that was dropped before it entered any qdisc: it is in the backlog of no
    /// node.
    #[cold]
    pub(crate) fn refuse(&mut self, m: &Meta, reason: DropReason) {
        self.dropped.add(m.wire_len);
        self.count_drop(m.hash, m.wire_len, reason);
    }

    /// Subtracts the charge beyond the wire bytes from the counts, because the nodes above a size
    /// table count wire bytes.
    pub(crate) fn settle_sizes(&mut self) {
        let (dropped, aside) = core::mem::take(&mut self.excess);
        self.dropped.bytes = self.dropped.bytes.wrapping_sub_signed(dropped);
        self.aside.bytes = self.aside.bytes.wrapping_sub_signed(aside);
    }

    #[inline]
    fn count_drop(&mut self, hash: u32, wire_len: u32, reason: DropReason) {
        self.reasons.drops[reason as usize] += 1;
        self.trace.record(Record { at: self.now, event: Event::Dropped(reason), hash, wire_len });
    }

    /// CE-marks a packet if its transport takes marks; false if it does not: then the caller drops
    /// it instead.
    #[inline]
    pub fn mark(&mut self, p: &Pkt, reason: MarkReason) -> bool {
        self.mark_at(p.index(), reason)
    }

    /// Does the work of `mark`. Out of line, and by the slot's number instead of a reference, so
    /// that an AQM keeps in registers the many packets that it does not mark.
    #[inline(never)]
    fn mark_at(&mut self, index: usize, reason: MarkReason) -> bool {
        let meta = self.pool.meta_at_mut(index);
        if !meta.ecn.capable() {
            return false;
        }
        meta.marked |= meta.ecn != Ecn::Ce;
        meta.ecn = Ecn::Ce;
        self.owe();
        self.reasons.marks[reason as usize] += 1;
        true
    }

    /// Adds to `sum` the packets dropped since `before`, by reason.
    pub(crate) fn add_drops(&self, before: &Before, sum: &mut Reasons) {
        let dropped = self.dropped_list.metas_since(before.last_dropped, &self.pool);
        dropped.filter_map(Meta::dropped_for).for_each(|reason| sum.drops[reason as usize] += 1);
    }

    /// Adds to `sum` the packets marked since `before`, by reason.
    #[inline]
    pub(crate) fn add_marks(&self, before: &Before, sum: &mut Reasons) {
        if self.reasons.marks != before.marks {
            for (i, sum) in sum.marks.iter_mut().enumerate() {
                *sum += self.reasons.marks[i] - before.marks[i];
            }
        }
    }

    /// Clears a packet's DSCP (RFC 2474); its ECN field stays.
    #[inline]
    pub fn wash(&mut self, p: &Pkt) {
        let meta = self.pool.meta_mut(p);
        meta.washed |= meta.ds >> 2 != 0;
        meta.ds &= 3;
    }

    /// Counts, at the node being called, that a packet had to wait for tokens, or that a law marked
    /// or dropped it.
    #[inline]
    pub fn overlimit(&mut self) {
        self.owe();
        self.overlimits += 1;
    }

    /// Returns the transmit queues that may not transmit now, where one path feeds a device of
    /// several. A kind that knows the queue of a packet keeps the packets for these queues.
    #[inline]
    pub const fn stopped_queues(&self) -> &QueueSet {
        &self.stopped
    }

    /// Returns the number of packets dropped for `reason` since the start.
    pub const fn drops(&self, reason: DropReason) -> u64 {
        self.reasons.drops[reason as usize]
    }
    /// Returns the number of packets marked for `reason` since the start.
    pub const fn marks(&self, reason: MarkReason) -> u64 {
        self.reasons.marks[reason as usize]
    }
    /// Returns all packets and bytes dropped since the start.
    pub const fn dropped(&self) -> Tally {
        self.dropped
    }

    /// Returns the flow hash of the packet dropped last.
    #[cold]
    pub(crate) const fn last_dropped_hash(&self) -> u32 {
        self.last_dropped_hash
    }

    /// Frees the slot of the oldest dropped packet. Returns its frame's index and its metadata,
    /// which hold the reason.
    #[inline]
    pub(crate) fn settle_drop(&mut self) -> Option<(usize, Meta)> {
        let p = self.dropped_list.pop_front(&self.pool)?;
        let settled = (p.index(), *self.pool.meta(&p));
        self.pool.free(p);
        Some(settled)
    }
}
