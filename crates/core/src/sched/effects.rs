//! `Effects`: the effects of qdisc calls beside the packet that leaves: drops, marks, overlimits,
//! and requests to the owner of the frames.
//!
//! They settle on the way back up the call stack: each node on the way compares the counts before
//! and after the call, and subtracts the difference from its own backlog. The stack is the chain of
//! ancestors, so no qdisc knows its parent.

use alloc::vec::Vec;

use crate::base::tally::Tally;
use crate::packet::meta::{Ecn, Meta, Note};
use crate::packet::pool::{End, List, Pkt, Pool};
use crate::packet::reason::{DropReason, MarkReason, Reasons};

/// Counts of the effects before a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    dropped: Tally,
    overlimits: u64,
    /// End of the list of dropped packets before the call. The packets behind it were dropped
    /// since. Their reasons are read there, so that the counters by reason need not be copied.
    last_dropped: End,
    marks: [u64; MarkReason::COUNT],
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
pub(crate) const REQUESTS_MAX: usize = 64;

/// Packets taken out of the qdiscs, by the sizes that a size table charges while the nodes below it
/// settle, by wire bytes afterwards.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    amount: Tally,
    /// Charge above the wire bytes, since the node with the size table last settled.
    excess: i64,
}

impl Taken {
    /// Returns packets and bytes.
    #[inline(always)]
    pub(crate) const fn amount(&self) -> Tally {
        self.amount
    }
    /// Adds a packet. It has its wire bytes from then on.
    #[inline]
    pub(crate) fn add(&mut self, p: &Pkt, pool: &mut Pool) {
        if pool.is_charged(p) {
            self.add_charged(p.index(), pool);
        } else {
            self.amount.add(pool.meta(p).wire_len);
        }
    }
    #[cold]
    #[inline(never)]
    fn add_charged(&mut self, index: usize, pool: &mut Pool) {
        let (charged, wire_len) = pool.uncharge(index);
        self.excess += i64::from(charged) - i64::from(wire_len);
        self.amount.add(charged);
    }
    /// Subtracts the charge above the wire bytes, because the nodes above a size table count wire
    /// bytes.
    pub(crate) fn settle_sizes(&mut self) {
        self.amount.bytes = self.amount.bytes.wrapping_sub(core::mem::take(&mut self.excess).cast_unsigned());
    }
}

/// The effects of calls since the start.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// See `any`.
    any: bool,
    /// Counts at the time when `any` was set.
    before: Before,
    pub(super) dropped: Taken,
    /// Dropped packets whose frames the owner has not got back.
    dropped_list: List,
    last_dropped_hash: u32,
    /// Overlimits of the node being called and of those above it: each subtracts its own before it
    /// returns.
    overlimits: u64,
    /// Requests to the owner of the frames; never more than the capacity.
    requests: Vec<Request>,
    reasons: Reasons,
}

impl Effects {
    /// Returns no effects.
    pub(super) fn new() -> Self {
        Self { requests: Vec::with_capacity(REQUESTS_MAX), ..Self::default() }
    }

    /// Returns the present counts.
    #[inline(always)]
    pub(crate) const fn counts(&self) -> Before {
        Before {
            dropped: self.dropped.amount(),
            overlimits: self.overlimits,
            last_dropped: self.dropped_list.end(),
            marks: self.reasons.marks,
        }
    }
    /// True if a packet was dropped or marked, an overlimit counted, or a request made to the owner
    /// of the frames, since `clear` or `begin_call`. The only flag that is tested after a call
    /// without such effects.
    #[inline(always)]
    pub(crate) const fn any(&self) -> bool {
        self.any
    }
    /// Returns the counts before the first of these effects.
    pub(crate) const fn before(&self) -> Before {
        self.before
    }
    /// Notes that there are effects.
    const fn set(&mut self) {
        if !self.any {
            self.any = true;
            self.before = self.counts();
        }
    }
    /// Clears the flag, because the owner of the frames handles the effects now.
    pub(crate) const fn clear(&mut self) {
        self.any = false;
    }
    /// Hides earlier effects from the node about to be called. Returns the value that `end_call`
    /// takes.
    pub(crate) const fn begin_call(&mut self) -> Before {
        self.any = false;
        self.before
    }
    /// Ends `begin_call` and restores the hidden effects.
    pub(crate) const fn end_call(&mut self, outer: Before) {
        self.any = true;
        self.before = outer;
    }

    /// Drops a packet: counts it and puts it on the list of dropped packets. Returns its hash and
    /// its wire bytes.
    #[inline]
    pub(super) fn drop(&mut self, p: Pkt, reason: DropReason, pool: &mut Pool) -> (u32, u32) {
        self.set();
        self.dropped.add(&p, pool);
        let meta = pool.meta_mut(&p);
        meta.note = Note::Dropped(reason);
        let (hash, wire_len) = (meta.hash, meta.wire_len);
        self.last_dropped_hash = hash;
        self.reasons.drops[reason as usize] += 1;
        self.dropped_list.push_back(pool, p);
        (hash, wire_len)
    }
    /// Counts a packet that was dropped before it entered any qdisc: it is in the backlog of no
    /// node.
    pub(super) const fn refuse(&mut self, m: &Meta, reason: DropReason) {
        self.dropped.amount.add(m.wire_len);
        self.reasons.drops[reason as usize] += 1;
    }
    /// CE-marks the packet in a slot if its transport takes marks. Out of line, and by the slot's
    /// number instead of a reference, so that an AQM keeps in registers the many packets that it
    /// does not mark.
    #[inline(never)]
    pub(super) fn mark(&mut self, index: usize, reason: MarkReason, pool: &mut Pool) -> bool {
        let meta = pool.meta_at_mut(index);
        if !meta.ecn.capable() {
            return false;
        }
        meta.marked |= meta.ecn != Ecn::Ce;
        meta.ecn = Ecn::Ce;
        self.set();
        self.reasons.marks[reason as usize] += 1;
        true
    }
    /// Counts an overlimit at the node being called.
    #[inline]
    pub(super) const fn overlimit(&mut self) {
        self.set();
        self.overlimits += 1;
    }
    /// Notes a request to the owner of the frames.
    pub(super) fn request(&mut self, request: Request) {
        // Packets come from outside one at a time; only an emulated link behind another may take in
        // many at once.
        if self.requests.len() < REQUESTS_MAX {
            self.set();
            self.requests.push(request);
        }
    }
    /// Takes the latest request to the owner of the frames.
    #[inline]
    pub(crate) fn take_request(&mut self) -> Option<Request> {
        self.requests.pop()
    }
    /// Takes the oldest dropped packet, whose metadata hold the reason.
    #[inline]
    pub(super) fn take_dropped(&mut self, pool: &Pool) -> Option<Pkt> {
        self.dropped_list.pop_front(pool)
    }

    /// Forgets the dropped packets whose frames the owner has not got back.
    pub(super) fn forget_dropped(&mut self) {
        self.dropped_list = List::new();
        self.requests.clear();
    }

    /// Returns all packets and bytes dropped.
    #[inline(always)]
    pub(crate) const fn dropped(&self) -> Tally {
        self.dropped.amount()
    }
    /// Returns all drops and marks by reason.
    pub(super) const fn reasons(&self) -> &Reasons {
        &self.reasons
    }
    /// Returns the flow hash of the packet dropped last.
    #[cold]
    pub(crate) const fn last_dropped_hash(&self) -> u32 {
        self.last_dropped_hash
    }

    /// Takes the overlimits counted since `before`. The nodes below have taken theirs: these are
    /// the caller's own.
    pub(super) const fn take_overlimits(&mut self, before: &Before) -> u64 {
        core::mem::replace(&mut self.overlimits, before.overlimits) - before.overlimits
    }
    /// Returns the packets dropped since `before`, and adds them to `sum` by reason.
    #[inline]
    pub(super) fn drops_since(&self, before: &Before, pool: &Pool, sum: &mut Reasons) -> Tally {
        let drops = self.dropped().since(before.dropped);
        if drops.packets != 0 {
            self.add_drops(before, pool, sum);
        }
        drops
    }
    fn add_drops(&self, before: &Before, pool: &Pool, sum: &mut Reasons) {
        let dropped = self.dropped_list.metas_since(before.last_dropped, pool);
        dropped.filter_map(Meta::dropped_for).for_each(|reason| sum.drops[reason as usize] += 1);
    }
    /// Adds to `sum` the packets marked since `before`, by reason.
    #[inline]
    pub(super) fn add_marks(&self, before: &Before, sum: &mut Reasons) {
        if self.reasons.marks != before.marks {
            for (i, sum) in sum.marks.iter_mut().enumerate() {
                *sum += self.reasons.marks[i] - before.marks[i];
            }
        }
    }
}
