//! `Cx`: the context that a qdisc may reach during one call. It is the only way to drop or mark a
//! packet.

use crate::base::queues::QueueSet;
use crate::base::rng::Rng;
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool};
use crate::packet::reason::{DropReason, MarkReason};
use crate::sched::aside::Aside;
use crate::sched::effects::{Effects, Request};
use crate::sched::trace::{Event, Record, Trace};
use crate::sched::wakes::Wakes;

/// Arrival of the packet that is being queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// A sender has submitted it.
    #[default]
    New,
    /// It waited in another tree and is queued again: the decisions on it were made before.
    Again,
    /// It is a copy that a qdisc has requested: no copy is made of a copy.
    Copy,
}

/// Context of a qdisc call: the time, the packets, and the record of decisions.
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
    /// The times at which qdiscs may be asked again.
    pub wakes: Wakes,
    /// Drops, marks, overlimits, and requests.
    pub(crate) effects: Effects,
    /// Packets set aside instead of dropped, while one tree is swapped for another.
    pub(crate) aside: Aside,
    /// During a change: the packet that a peek has taken out of the qdisc that is changed.
    pub(crate) peeked: List,
    /// See `arrival`.
    pub(crate) arrival: Arrival,
    /// Transmit queues that may not transmit.
    pub(crate) stopped: QueueSet,
}

impl Cx {
    /// Returns a context with room for `pool` packets.
    pub fn new(pool: usize, seed: u64) -> Self {
        Self {
            now: Instant::ZERO,
            pool: Pool::new(pool),
            rng: Rng::new(seed),
            trace: Trace::default(),
            wakes: Wakes::default(),
            effects: Effects::new(),
            aside: Aside::default(),
            peeked: List::new(),
            arrival: Arrival::New,
            stopped: QueueSet::new(),
        }
    }

    /// Returns the packet's metadata.
    #[inline]
    pub fn meta(&self, p: &Pkt) -> &Meta {
        self.pool.meta(p)
    }

    /// Returns the number of packets that were taken out of the qdiscs without being sent.
    pub(crate) fn taken_out(&self) -> u64 {
        self.effects.dropped().packets.wrapping_add(self.aside.taken.amount().packets)
    }
    /// Forgets packets that were dropped or set aside and not yet handled: their slots are gone.
    pub(crate) fn forget_packets(&mut self) {
        self.effects.forget_dropped();
        self.aside.forget();
        self.peeked = List::new();
    }

    /// Drops a packet. It stays in the pool, on the list of dropped packets, until the engine has
    /// returned its frame. While `swapping`, a `Purged` packet is set aside instead, to be queued
    /// again.
    #[inline]
    pub fn drop(&mut self, p: Pkt, reason: DropReason) {
        if self.aside.is_on() && reason == DropReason::Purged {
            return self.aside.put(p, &mut self.pool);
        }
        let (hash, wire_len) = self.effects.drop(p, reason, &mut self.pool);
        self.trace.record(Record { at: self.now, event: Event::Dropped(reason), hash, wire_len });
    }

    /// Counts a packet that was dropped before it entered any qdisc: it is in the backlog of no
    /// node.
    #[cold]
    pub(crate) fn refuse(&mut self, m: &Meta, reason: DropReason) {
        self.effects.refuse(m, reason);
        let (hash, wire_len) = (m.hash, m.wire_len);
        self.trace.record(Record { at: self.now, event: Event::Dropped(reason), hash, wire_len });
    }

    /// Frees the slot of the oldest dropped packet. Returns its frame's index and its metadata,
    /// which hold the reason.
    #[inline]
    pub(crate) fn settle_drop(&mut self) -> Option<(usize, Meta)> {
        let p = self.effects.take_dropped(&self.pool)?;
        let settled = (p.index(), *self.pool.meta(&p));
        self.pool.free(p);
        Some(settled)
    }

    /// Subtracts the charge beyond the wire bytes from the counts, because the nodes above a size
    /// table count wire bytes.
    pub(crate) fn settle_sizes(&mut self) {
        self.effects.dropped.settle_sizes();
        self.aside.taken.settle_sizes();
    }

    /// CE-marks a packet if its transport takes marks; false if it does not: then the caller drops
    /// it instead.
    #[inline]
    pub fn mark(&mut self, p: &Pkt, reason: MarkReason) -> bool {
        self.effects.mark(p.index(), reason, &mut self.pool)
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
    pub const fn overlimit(&mut self) {
        self.effects.overlimit();
    }

    /// Requests a copy of a packet that is being queued, to enter at the root behind it.
    pub(crate) fn request_copy(&mut self, p: &Pkt) {
        self.effects.request(Request::Copy(p.index()));
    }

    /// Requests the inversion of one bit of a packet's frame, counted from its first.
    pub(crate) fn request_flip(&mut self, p: &Pkt, bit: u32) {
        self.effects.request(Request::Flip(p.index(), bit));
    }

    /// Drops, during a change, the packet that a peek has taken out of the qdisc, if there is one.
    /// It is the oldest that a qdisc above its new limit has to drop. Returns true if it was there:
    /// the qdisc then holds it no longer.
    pub fn purge_peeked(&mut self) -> bool {
        let Some(p) = self.peeked.pop_front(&self.pool) else { return false };
        self.drop(p, DropReason::Purged);
        true
    }

    /// True while one tree is swapped for another, under load: packets of removed qdiscs are set
    /// aside and queued again. A kind that is changed then keeps state that a change would
    /// otherwise renew, such as tokens.
    pub const fn swapping(&self) -> bool {
        self.aside.is_on()
    }

    /// Returns the arrival of the packet that is being queued.
    #[inline]
    pub const fn arrival(&self) -> Arrival {
        self.arrival
    }

    /// Returns the transmit queues that may not transmit now, where one path feeds a device of
    /// several. A kind that knows the queue of a packet keeps the packets for these queues.
    #[inline]
    pub const fn stopped_queues(&self) -> &QueueSet {
        &self.stopped
    }

    /// Returns the number of packets dropped for `reason` since the start.
    pub const fn drops(&self, reason: DropReason) -> u64 {
        self.effects.reasons().drops[reason as usize]
    }
    /// Returns the number of packets marked for `reason` since the start.
    pub const fn marks(&self, reason: MarkReason) -> u64 {
        self.effects.reasons().marks[reason as usize]
    }
    /// True if a packet was dropped since there were `dropped` of them, and the last one was the
    /// packet that has come in a slot, or another of its flow: a class above its qdisc counts that
    /// as a drop of its own.
    #[inline]
    pub(crate) fn has_refused(&self, slot: usize, dropped: u64) -> bool {
        self.dropped().packets != dropped
            && self.effects.last_dropped_hash() == self.pool.as_it_came(slot).hash
    }
    /// Returns all packets and bytes dropped since the start.
    pub const fn dropped(&self) -> Tally {
        self.effects.dropped()
    }
}
