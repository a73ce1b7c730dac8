//! `Account`: what a node counts, and `Books`, how it is shown.

use alloc::boxed::Box;

use crate::base::handle::{ClassId, Handle};
use crate::base::tally::Tally;
use crate::packet::meta::Meta;
use crate::packet::reason::Reasons;
use crate::sched::cx::Before;
use crate::sched::cx::Cx;
use crate::sched::node::Passed;
use crate::sched::node::band::Band;
use crate::sched::stab::SizeTable;

/// The books of a node. `admitted = sent + dropped + queued` holds after every call, in packets and in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Packets and bytes offered to it.
    pub admitted: Tally,
    /// Packets and bytes that left it towards the device.
    pub sent: Tally,
    /// Segments that left it: what tc calls packets.
    pub sent_segs: u64,
    /// Packets and bytes dropped in it or in anything below it.
    pub dropped: Tally,
    /// Packets and bytes in it now, all levels below included.
    pub queued: Tally,
    /// What a peek has taken out of the qdisc and has not left: tc counts it as sent already, and still does if it is dropped
    /// then (`Cx::take_peeked`).
    pub peeked: Tally,
    /// Its segments.
    pub peeked_segs: u64,
    /// Times that a packet had to wait for tokens here, or that a law marked or dropped one.
    pub overlimits: u64,
}

impl Books {
    /// Those of two nodes together.
    #[must_use]
    pub const fn plus(&self, o: &Self) -> Self {
        const fn both(a: Tally, b: Tally) -> Tally {
            Tally { packets: a.packets + b.packets, bytes: a.bytes + b.bytes }
        }
        Self {
            admitted: both(self.admitted, o.admitted),
            sent: both(self.sent, o.sent),
            sent_segs: self.sent_segs + o.sent_segs,
            dropped: both(self.dropped, o.dropped),
            queued: both(self.queued, o.queued),
            peeked: both(self.peeked, o.peeked),
            peeked_segs: self.peeked_segs + o.peeked_segs,
            overlimits: self.overlimits + o.overlimits,
        }
    }
}

/// What a node counts, as the erased qdisc brings it up to date with each packet. What is queued is what has come in and
/// has not gone, so that each way counts once. The first 48 bytes are all that a packet touches. In their order no two that
/// are counted up together are neighbours: two scalar additions are shorter than one of vectors, which has to be put together.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Account {
    pub(super) in_packets: u64,
    pub(super) out_bytes: u64,
    pub(super) in_bytes: u64,
    pub(super) out_packets: u64,
    pub(super) handle: Handle,
    /// The major in which packets may name a class of this qdisc; 0 if it does not look at it.
    pub(super) class_major: u16,
    /// `SIZED`, `HELD`, `BAND` and `RATIONED`.
    pub(super) special: u8,
    /// 0 if it has no filters; else one more than the qdiscs above it.
    pub(super) filtered: u8,
    pub(super) out_segs: u64,
    /// Of what has gone, what was dropped.
    pub(super) dropped: Tally,
    pub(super) overlimits: u64,
    pub(super) peeked_bytes: u64,
    /// Only packets that a peek has taken out count here, and of those that a change has dropped the remains: 32 bits do.
    pub(super) peeked: u32,
    pub(super) peeked_segs: u32,
    pub(super) rest: Box<Rest>,
}

/// What few packets touch, apart: what most do is to fill no more than two cache lines.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// `None` without a size table, and once it was taken away; what it has charged may wait still (`SIZED`).
    pub(super) table: Option<SizeTable>,
    /// The TCP control segments that wait before the qdisc, if they do.
    pub(super) band: Option<Band>,
    /// See `Node::passed`: what is to be added to the books.
    pub(super) former: Passed,
    /// Of `dropped`, and of the packets marked in it or in anything below it.
    pub(super) reasons: Reasons,
}

/// It has, or had, a size table.
pub(super) const SIZED: u8 = 1;
/// It holds a packet.
pub(super) const HELD: u8 = 2;
/// It has a band.
pub(super) const BAND: u8 = 4;
/// Its band has less than all of what leaves.
pub(super) const RATIONED: u8 = 8;

impl Account {
    /// What waits: see `Books::queued`.
    #[inline]
    pub(super) const fn queued(&self) -> Tally {
        Tally { packets: self.in_packets - self.out_packets, bytes: self.in_bytes - self.out_bytes }
    }
    /// A packet comes in.
    #[inline(always)]
    pub(crate) fn enter(&mut self, wire_len: u32) {
        self.in_packets += 1;
        self.in_bytes += u64::from(wire_len);
    }
    /// A packet leaves towards the device.
    #[inline(always)]
    pub(crate) fn leave(&mut self, m: &Meta) {
        self.out_packets += 1;
        self.out_bytes += u64::from(m.wire_len);
        self.out_segs += u64::from(m.segs);
    }
    /// It has not left after all.
    pub(super) fn stay(&mut self, m: &Meta) {
        self.out_packets -= 1;
        self.out_bytes -= u64::from(m.wire_len);
        self.out_segs -= u64::from(m.segs);
    }
    /// So much has never come in.
    pub(super) fn forget(&mut self, what: Tally) {
        self.in_packets -= what.packets;
        self.in_bytes -= what.bytes;
    }
    /// The class that a packet names in this qdisc: by a priority with this major, or one chosen ahead. A priority that is
    /// the handle itself, minor 0, names the qdisc and none of its classes: what that means is up to the kind.
    #[inline(always)]
    pub(crate) fn classify(&self, m: &Meta) -> Option<ClassId> {
        // Most packets name no class; a class number without a major is none either.
        if m.priority <= 0xffff && m.class.is_none() {
            return None;
        }
        if self.filtered != 0 && !m.class.is_none() {
            // Filters have chosen, and know of the priority.
            return Some(m.class);
        }
        let named = |h: Handle| h.major() == self.class_major && self.class_major != 0;
        let by_priority = Handle(m.priority);
        if named(by_priority) {
            return Some(by_priority);
        }
        Some(m.class).filter(|class| named(*class))
    }
    /// Takes note of what was dropped, marked and delayed since.
    #[inline(never)]
    pub(crate) fn settle(&mut self, before: Before, cx: &mut Cx) {
        if cx.overlimits != before.overlimits {
            // Those of the nodes below are taken off already: what is left is this node's own.
            self.overlimits += core::mem::replace(&mut cx.overlimits, before.overlimits) - before.overlimits;
        }
        self.settle_drops(&before, cx);
    }
    /// Takes what was dropped since off the backlog, and notes its reasons and those of the marks.
    #[inline]
    pub(super) fn settle_drops(&mut self, before: &Before, cx: &Cx) {
        if cx.dropped.packets != before.dropped.packets {
            let d = cx.dropped.since(before.dropped);
            self.dropped.packets += d.packets;
            self.dropped.bytes += d.bytes;
            self.out_packets += d.packets;
            self.out_bytes += d.bytes;
            cx.add_drops(before, &mut self.rest.reasons);
        }
        cx.add_marks(before, &mut self.rest.reasons);
    }
}
