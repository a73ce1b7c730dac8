//! `Account`: the counters of a node, and `Books`, the form in which they are shown.

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

/// The books of a node. `admitted = sent + dropped + queued` holds after every call, in packets and
/// in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Packets and bytes offered to it.
    pub admitted: Tally,
    /// Packets and bytes that left it towards the device.
    pub sent: Tally,
    /// Segments that left it: tc counts them as packets.
    pub sent_segs: u64,
    /// Packets and bytes dropped in it or in anything below it.
    pub dropped: Tally,
    /// Packets and bytes in it now, all levels below included.
    pub queued: Tally,
    /// Packets that a peek has taken out of the qdisc and that have not left. tc counts them as
    /// sent already, and still does so if they are dropped then (`Cx::take_peeked`).
    pub peeked: Tally,
    /// Segments of these packets.
    pub peeked_segs: u64,
    /// Times that a packet had to wait for tokens here, or that a law marked or dropped one.
    pub overlimits: u64,
}

impl Books {
    /// Returns the sum of the books of two nodes.
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

/// The counters of a node, which the erased qdisc updates with each packet. The queued amount is
/// the difference between arrivals and departures, so that each packet costs one addition on its
/// way in and one on its way out. A packet touches only the first 48 bytes. Fields incremented
/// together are not adjacent, so that LLVM does not fuse the additions into a vector addition,
/// which is slower here.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Account {
    pub(super) in_packets: u64,
    pub(super) out_bytes: u64,
    pub(super) in_bytes: u64,
    pub(super) out_packets: u64,
    pub(super) handle: Handle,
    /// The major in which packets may name a class of this qdisc; 0 if it does not look at the
    /// class.
    pub(super) class_major: u16,
    /// Bits `SIZED`, `HELD`, `BAND` and `RATIONED`.
    pub(super) special: u8,
    /// 0 if it has no filters; else one more than the qdiscs above it.
    pub(super) filtered: u8,
    pub(super) out_segs: u64,
    /// The dropped part of the departures.
    pub(super) dropped: Tally,
    pub(super) overlimits: u64,
    pub(super) peeked_bytes: u64,
    /// Counts only packets that a peek has taken out, and the remains of those that a change has
    /// dropped: 32 bits suffice.
    pub(super) peeked: u32,
    pub(super) peeked_segs: u32,
    pub(super) rest: Box<Rest>,
}

/// Fields that few packets touch. Apart, because the fields that most packets touch must fill at
/// most two cache lines.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// `None` without a size table, and once it was removed; packets that it has charged may still
    /// wait (`SIZED`).
    pub(super) table: Option<SizeTable>,
    /// The TCP control segments that wait before the qdisc, if it has a band.
    pub(super) band: Option<Band>,
    /// Amount that `Node::passed` adds to the books.
    pub(super) former: Passed,
    /// Reasons of `dropped`, and of the packets marked in it or in anything below it.
    pub(super) reasons: Reasons,
}

/// The node has, or had, a size table.
pub(super) const SIZED: u8 = 1;
/// The node holds a packet.
pub(super) const HELD: u8 = 2;
/// The node has a band.
pub(super) const BAND: u8 = 4;
/// The node's band has a share below 100 %.
pub(super) const RATIONED: u8 = 8;

impl Account {
    /// Returns the waiting packets and bytes: see `Books::queued`.
    #[inline]
    pub(super) const fn queued(&self) -> Tally {
        Tally { packets: self.in_packets - self.out_packets, bytes: self.in_bytes - self.out_bytes }
    }
    /// Books the arrival of a packet.
    #[inline(always)]
    pub(crate) fn enter(&mut self, wire_len: u32) {
        self.in_packets += 1;
        self.in_bytes += u64::from(wire_len);
    }
    /// Books the departure of a packet towards the device.
    #[inline(always)]
    pub(crate) fn leave(&mut self, m: &Meta) {
        self.out_packets += 1;
        self.out_bytes += u64::from(m.wire_len);
        self.out_segs += u64::from(m.segs);
    }
    /// Takes back the departure of a packet.
    pub(super) fn stay(&mut self, m: &Meta) {
        self.out_packets -= 1;
        self.out_bytes -= u64::from(m.wire_len);
        self.out_segs -= u64::from(m.segs);
    }
    /// Takes back the arrival of these packets.
    pub(super) fn forget(&mut self, what: Tally) {
        self.in_packets -= what.packets;
        self.in_bytes -= what.bytes;
    }
    /// Returns the class that a packet names in this qdisc: by a priority with this major, or one
    /// chosen ahead. A priority that is the handle itself, minor 0, names the qdisc and none of its
    /// classes: the kind defines its meaning.
    #[inline(always)]
    pub(crate) fn classify(&self, m: &Meta) -> Option<ClassId> {
        // Most packets name no class; a class number without a major is none either.
        if m.priority <= 0xffff && m.class.is_none() {
            return None;
        }
        if self.filtered != 0 && !m.class.is_none() {
            // Filters have chosen the class, and have seen the priority.
            return Some(m.class);
        }
        let named = |h: Handle| h.major() == self.class_major && self.class_major != 0;
        let by_priority = Handle(m.priority);
        if named(by_priority) {
            return Some(by_priority);
        }
        Some(m.class).filter(|class| named(*class))
    }
    /// Books the drops, marks and overlimits since `before`.
    #[inline(never)]
    pub(crate) fn settle(&mut self, before: Before, cx: &mut Cx) {
        if cx.overlimits != before.overlimits {
            // The nodes below have subtracted theirs: the rest is this node's own.
            self.overlimits += core::mem::replace(&mut cx.overlimits, before.overlimits) - before.overlimits;
        }
        self.settle_drops(&before, cx);
    }
    /// Subtracts the drops since `before` from the backlog, and books their reasons and those of
    /// the marks.
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
