//! `Cx`: what a qdisc may reach during one call. It is the only way to drop or mark a packet.

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

/// What `Cx` had counted before a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    pub(crate) dropped: Tally,
    pub(crate) overlimits: u64,
    /// The packets behind it on the list of dropped ones were dropped since: their reasons are read there, so that
    /// the counters by reason need not be copied.
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

/// What a qdisc asks of the owner of the frames, of the packet in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A copy.
    Copy(usize),
    /// This bit turned over.
    Flip(usize, u32),
}

/// Requests of one call, at most: what is asked beyond them is not done.
const REQUESTS_MAX: usize = 64;

/// The surroundings of a qdisc call: the time, the packets, and where decisions are told to.
///
/// Drops told here settle on the way back up the call stack: each node that was called through compares
/// `dropped` before and after the call, and takes the difference off its own backlog. The stack is the chain
/// of ancestors, so no qdisc knows its parent.
#[derive(Debug)]
pub struct Cx {
    /// The time of this call.
    pub now: Instant,
    /// Every packet of the transmit path.
    pub pool: Pool,
    /// The only randomness.
    pub rng: Rng,
    /// Event records.
    pub trace: Trace,
    pub(crate) dropped: Tally,
    dropped_list: List,
    /// See `owing`.
    owing: bool,
    /// What had been counted when `owing` was set.
    before: Before,
    last_dropped_hash: u32,
    /// Set while a tree is swapped for another: see `swapping`.
    swapping: bool,
    /// What has been set aside instead of dropped.
    pub(crate) aside: Tally,
    aside_list: List,
    /// What was charged above the wire bytes, of packets dropped and of packets set aside, since the node with the
    /// size table last settled.
    excess: (i64, i64),
    /// During a change: what a peek has taken out of the qdisc that is changed.
    pub(crate) peeked: List,
    /// The earliest time that a qdisc below has named, of those that lost to a packet that was ready beside it.
    earlier: Option<(Instant, WakeReason)>,
    /// Why a qdisc has just given no packet: the time to ask again, or that it is empty.
    answer: Option<(Instant, WakeReason)>,
    /// Of the node being called and of those above it: each takes off its own before it returns.
    pub(crate) overlimits: u64,
    /// What is asked of the owner of the frames; never more than there is room for.
    requests: Vec<Request>,
    /// Set while a copy is being queued: see `copying`.
    pub(crate) copying: bool,
    /// Set while packets that waited in another tree are queued: see `again`.
    pub(crate) requeueing: bool,
    /// Transmit queues that may not transmit.
    pub(crate) stopped: QueueSet,
    reasons: Reasons,
}

impl Cx {
    /// Surroundings with room for `pool` packets.
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

    /// During a change: the packet that a peek has taken out of the qdisc, which is the oldest that it has to drop.
    pub fn take_peeked(&mut self) -> Option<Pkt> {
        self.peeked.pop_front(&self.pool)
    }

    /// A class will have a packet at `t`, but another has one now. If that one has to wait for a shaper above, `t` may be
    /// the time to ask again: what is ready then may be smaller, and leave at once.
    pub fn may_be_ready(&mut self, t: Instant, why: WakeReason) {
        if self.earlier.is_none_or(|(u, _)| t < u) {
            self.earlier = Some((t, why));
        }
    }

    /// The earlier of a shaper's own time and of those that `may_be_ready` was told since the path was last asked.
    pub fn earliest(&self, t: Instant, why: WakeReason) -> (Instant, WakeReason) {
        self.earlier.filter(|(u, _)| *u < t).unwrap_or((t, why))
    }

    /// Why the qdisc that was asked last has given no packet. Apart from the packet, which so stays in a register.
    #[inline(always)]
    pub(crate) const fn answer(&self) -> Next {
        match self.answer {
            Some((t, why)) => Next::At(t, why),
            None => Next::Empty,
        }
    }

    /// What `answer` is to tell.
    #[inline(always)]
    pub(crate) fn set_answer(&mut self, next: Next) {
        self.answer = match next {
            Next::At(t, why) => Some((t, why)),
            Next::Packet(_) | Next::Empty => None,
        };
    }

    /// The path is asked anew.
    pub(crate) const fn forget_earlier(&mut self) {
        self.earlier = None;
    }

    /// The packet's metadata.
    #[inline]
    pub fn meta(&self, p: &Pkt) -> &Meta {
        self.pool.meta(p)
    }

    /// Drops a packet. It stays in the pool, on a list of its own, until the engine has given its frame back. While
    /// `swapping`, one that is `Purged` is set aside instead, to be queued again.
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

    /// A packet that a size table has charged is dropped: all below the table count what it was charged.
    #[cold]
    #[inline(never)]
    fn uncharge_dropped(&mut self, index: usize) {
        let (charged, wire_len) = self.pool.uncharge(index);
        self.excess.0 += i64::from(charged) - i64::from(wire_len);
        self.dropped.add(charged);
    }

    /// True while one tree is swapped for another, under load: packets of what is removed are set aside and queued
    /// again. A kind that is changed then keeps what a change would otherwise give away anew, as tokens.
    pub const fn swapping(&self) -> bool {
        self.swapping
    }

    /// True for a packet that waited in another tree and is queued again: what becomes of it was decided by then.
    #[inline]
    pub const fn again(&self) -> bool {
        self.requeueing
    }

    /// True for a copy that was asked for: of it none is made.
    #[inline]
    pub const fn copying(&self) -> bool {
        self.copying
    }

    /// Asks for a copy of a packet that is being queued, to enter at the root behind it.
    pub(crate) fn request_copy(&mut self, p: &Pkt) {
        self.request(Request::Copy(p.index()));
    }

    /// Asks for one bit of a packet's frame to be turned over, counted from its first.
    pub(crate) fn request_flip(&mut self, p: &Pkt, bit: u32) {
        self.request(Request::Flip(p.index(), bit));
    }

    fn request(&mut self, request: Request) {
        // One packet at a time comes from outside; only one emulated link behind another may take in many at once.
        if self.requests.len() < REQUESTS_MAX {
            self.owe();
            self.requests.push(request);
        }
    }

    /// The last thing asked of the owner of the frames; taken.
    #[inline]
    pub(crate) fn take_request(&mut self) -> Option<Request> {
        self.requests.pop()
    }

    /// Whether anything was dropped, marked, counted as an overlimit, or asked of the owner of the frames, since `pay_up`
    /// or `begin_call`: the one thing that is looked at after a call in which nothing of the kind happened.
    #[inline(always)]
    pub(crate) const fn owing(&self) -> bool {
        self.owing
    }

    /// What had been counted before the first of it.
    pub(crate) const fn before(&self) -> Before {
        self.before
    }

    fn owe(&mut self) {
        if !self.owing {
            self.owing = true;
            self.before = Before::of(self);
        }
    }

    /// The owner of the frames sees to it now.
    pub(crate) const fn pay_up(&mut self) {
        self.owing = false;
    }

    /// A node is called after something has happened beside it, which is none of its business: gives what `end_call` takes.
    pub(crate) const fn begin_call(&mut self) -> Before {
        self.owing = false;
        self.before
    }

    /// Ends `begin_call`.
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

    /// From here on what is purged is set aside.
    pub(crate) const fn begin_swap(&mut self) {
        self.swapping = true;
    }

    /// Ends `begin_swap`; gives what was set aside.
    pub(crate) fn end_swap(&mut self) -> List {
        self.swapping = false;
        core::mem::take(&mut self.aside_list)
    }

    /// Counts a packet that was dropped before it entered any qdisc: it is in nobody's backlog.
    #[cold]
    pub(crate) fn refuse(&mut self, m: &Meta, reason: DropReason) {
        self.dropped.add(m.wire_len);
        self.count_drop(m.hash, m.wire_len, reason);
    }

    /// The nodes above a size table count wire bytes: takes off what was charged below it beyond them.
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

    /// CE-marks a packet if its transport takes marks; false if it does not (then drop it instead).
    #[inline]
    pub fn mark(&mut self, p: &Pkt, reason: MarkReason) -> bool {
        self.mark_at(p.index(), reason)
    }

    /// Apart, and by the slot's number, so that an AQM keeps in registers the many packets that it does not mark.
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

    /// Adds to `sum` the packets dropped since, by reason.
    pub(crate) fn add_drops(&self, before: &Before, sum: &mut Reasons) {
        let dropped = self.dropped_list.metas_since(before.last_dropped, &self.pool);
        dropped.filter_map(Meta::dropped_for).for_each(|reason| sum.drops[reason as usize] += 1);
    }

    /// Adds to `sum` the packets marked since, by reason.
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

    /// Counts that a packet had to wait for tokens, or that a law marked or dropped it, at the node being called.
    #[inline]
    pub fn overlimit(&mut self) {
        self.owe();
        self.overlimits += 1;
    }

    /// The transmit queues that may not transmit now, where one path feeds a device of several. A kind that knows for which
    /// queue a packet is keeps those that are for one of these.
    #[inline]
    pub const fn stopped_queues(&self) -> &QueueSet {
        &self.stopped
    }

    /// Packets dropped for `reason` since the start.
    pub const fn drops(&self, reason: DropReason) -> u64 {
        self.reasons.drops[reason as usize]
    }
    /// Packets marked for `reason` since the start.
    pub const fn marks(&self, reason: MarkReason) -> u64 {
        self.reasons.marks[reason as usize]
    }
    /// All packets and bytes dropped since the start.
    pub const fn dropped(&self) -> Tally {
        self.dropped
    }

    /// The flow hash of the packet dropped last.
    #[cold]
    pub(crate) const fn last_dropped_hash(&self) -> u32 {
        self.last_dropped_hash
    }

    /// Takes back the oldest dropped packet's slot: its frame's index, metadata and reason.
    #[inline]
    pub(crate) fn settle_drop(&mut self) -> Option<(usize, Meta)> {
        let p = self.dropped_list.pop_front(&self.pool)?;
        let settled = (p.index(), *self.pool.meta(&p));
        self.pool.free(p);
        Some(settled)
    }
}
