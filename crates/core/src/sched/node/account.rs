//! `Account`: the counters of a node, and `Books`, the form in which they are shown.

use alloc::boxed::Box;

use crate::base::handle::Handle;
use crate::base::tally::Tally;
use crate::packet::meta::Meta;
use crate::packet::pool::Pkt;
use crate::packet::reason::{DropReason, Reasons};
use crate::sched::cx::Cx;
use crate::sched::effects::Before;
use crate::sched::node::choice::ClassChoice;

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

/// Departures through a place in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets and wire bytes.
    pub sent: Tally,
    /// Segments.
    pub segs: u64,
}

/// Unusual states of a node, a bit each, so that one test shows that a packet meets none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Special(u8);

impl Special {
    /// The node has, or had, a size table.
    pub(super) const SIZED: Self = Self(1);
    /// The node holds a packet.
    pub(super) const HELD: Self = Self(2);
    /// The node has a band.
    pub(super) const BAND: Self = Self(4);
    /// The node's band has a share below 100 %.
    pub(super) const RATIONED: Self = Self(8);
    /// States that change the way of an arriving packet.
    pub(super) const AT_ARRIVAL: Self = Self(Self::SIZED.0 | Self::BAND.0);
    /// States in which no packet passes the node by.
    const IN_THE_WAY: Self = Self(Self::SIZED.0 | Self::RATIONED.0);

    /// True if the node is in none of these states.
    #[inline(always)]
    pub(super) const fn is_none(self) -> bool {
        self.0 == 0
    }
    /// True if the node is in any state of `other`.
    #[inline(always)]
    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    /// Enters or leaves the states of `other`.
    #[inline(always)]
    pub(super) const fn set(&mut self, other: Self, on: bool) {
        self.0 = self.0 & !other.0 | if on { other.0 } else { 0 };
    }
}

/// The counters of a node, which the erased qdisc updates with each packet. The queued amount is
/// the difference between arrivals and departures, so that each packet costs one addition on its
/// way in and one on its way out. A packet touches only the first 48 bytes; therefore the handle
/// and the flags of the node are here as well. Fields incremented together are not adjacent, so
/// that LLVM does not fuse the additions into a vector addition, which is slower here.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Account {
    in_packets: u64,
    pub(super) out_bytes: u64,
    in_bytes: u64,
    out_packets: u64,
    handle: Handle,
    /// The major in which packets may name a class of this qdisc; 0 if it does not look at the
    /// class.
    class_major: u16,
    pub(super) special: Special,
    /// 0 if it has no filters; else one more than the qdiscs above it.
    filtered: u8,
    pub(super) out_segs: u64,
    /// The dropped part of the departures.
    dropped: Tally,
    ledger: Box<Ledger>,
}

/// Counters that few packets touch. Apart, because the fields that most packets touch must fill at
/// most two cache lines.
#[derive(Debug, Default)]
struct Ledger {
    overlimits: u64,
    /// Amount that `Account::passed` adds to the counters.
    former: Passed,
    /// Reasons of `dropped`, and of the packets marked in the node or in anything below it.
    reasons: Reasons,
}

impl Account {
    /// Returns the account of a new node; `takes_class` is true if its qdisc looks at the class
    /// that a packet names.
    pub(super) fn new(handle: Handle, takes_class: bool) -> Self {
        let class_major = if takes_class { handle.major() } else { 0 };
        Self { handle, class_major, ..Self::default() }
    }
    /// Returns the handle of the node; `NONE` for a default qdisc.
    pub(super) const fn handle(&self) -> Handle {
        self.handle
    }
    /// Returns the books, without the packets that a peek has taken out.
    #[inline]
    pub(super) fn books(&self) -> Books {
        let gone = Tally { packets: self.out_packets, bytes: self.out_bytes };
        Books {
            admitted: Tally { packets: self.in_packets, bytes: self.in_bytes },
            sent: gone.since(self.dropped),
            sent_segs: self.out_segs,
            dropped: self.dropped,
            queued: self.queued(),
            peeked: Tally::default(),
            peeked_segs: 0,
            overlimits: self.ledger.overlimits,
        }
    }
    /// Returns the waiting packets and bytes: see `Books::queued`.
    #[inline]
    pub const fn queued(&self) -> Tally {
        Tally { packets: self.in_packets - self.out_packets, bytes: self.in_bytes - self.out_bytes }
    }
    /// True if nothing waits.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.in_packets == self.out_packets
    }
    /// Returns the packets dropped in the node or in anything below it, and those marked there, by
    /// reason. The sum of the drops is [`Books::dropped`]: a packet that was refused before any
    /// qdisc saw it (`Admitted::Dropped` with `PoolFull`, or with `Oversize` above the largest
    /// object of a byte limit) is dropped at no node.
    pub const fn reasons(&self) -> &Reasons {
        &self.ledger.reasons
    }
    /// Returns the departures through the node's place: through the node and through earlier nodes
    /// there. Counts wire bytes, also for packets that are charged another size.
    pub fn passed(&self) -> Passed {
        let Books { sent, sent_segs, .. } = self.books();
        let former = self.ledger.former;
        Passed {
            sent: Tally {
                packets: sent.packets + former.sent.packets,
                // For packets charged more than their wire bytes the difference is negative, hence
                // the wrapping addition.
                bytes: sent.bytes.wrapping_add(former.sent.bytes),
            },
            segs: sent_segs + former.segs,
        }
    }
    /// Takes over the departures of the node that it replaces.
    pub(super) fn follow(&mut self, other: &Self) {
        self.ledger.former = other.passed();
    }
    /// Notes that a packet of `wire_len` bytes was charged as `charged`, for `passed`.
    pub(super) fn passed_charged(&mut self, wire_len: u32, charged: u32) {
        let bytes = &mut self.ledger.former.sent.bytes;
        *bytes = bytes.wrapping_add(wire_len.into()).wrapping_sub(charged.into());
    }

    /// Returns the rule that gives the class of a packet here.
    #[inline(always)]
    pub(crate) const fn choice(&self) -> ClassChoice {
        ClassChoice { own: self.handle, major: self.class_major, filters: self.filtered }
    }
    /// True if the node, or a class of it, has filters.
    #[inline(always)]
    pub(crate) const fn is_filtered(&self) -> bool {
        self.filtered != 0
    }
    /// Sets the number of qdiscs above the node if it has filters; `None` if it has none.
    pub(super) fn set_filtered(&mut self, depth: Option<usize>) {
        // A tree is at most `DEPTH_MAX` deep.
        self.filtered = depth.map_or(0, |d| d as u8 + 1);
    }
    /// True if packets in the node are, or may be, charged by a size table of its own.
    #[inline]
    pub(crate) const fn is_sized(&self) -> bool {
        self.special.has(Special::SIZED)
    }
    /// True if nothing waits here and a packet that comes now may go to the device directly, as far
    /// as the node knows: the part of `Node::transparent` that changes only when a packet passes or
    /// the tree is changed. False with a size table, because the direct path would have to compute
    /// the charge. False with a band that has a share: a control segment that goes directly spends
    /// no credit, but a queued one does.
    #[inline]
    pub(crate) const fn is_settled(&self) -> bool {
        self.is_empty() && !self.special.has(Special::IN_THE_WAY) && !self.is_filtered()
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
    /// Books the arrival of a packet and drops it, before its qdisc sees it.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&mut self, p: Pkt, reason: DropReason, cx: &mut Cx) {
        self.enter(cx.meta(&p).wire_len);
        let outer = cx.effects.any().then(|| cx.effects.begin_call());
        cx.drop(p, reason);
        self.settle(cx.effects.before(), cx);
        if let Some(outer) = outer {
            cx.effects.end_call(outer);
        }
    }
    /// Books the drops, marks and overlimits since `before`.
    #[inline(never)]
    pub(crate) fn settle(&mut self, before: Before, cx: &mut Cx) {
        match cx.effects.take_overlimits(&before) {
            0 => {}
            overlimits => self.ledger.overlimits += overlimits,
        }
        self.settle_drops(&before, cx);
    }
    /// Subtracts the drops since `before` from the backlog, and books their reasons and those of
    /// the marks.
    #[inline]
    pub(super) fn settle_drops(&mut self, before: &Before, cx: &Cx) {
        let d = cx.effects.drops_since(before, &cx.pool, &mut self.ledger.reasons);
        if d.packets != 0 {
            self.dropped.packets += d.packets;
            self.dropped.bytes += d.bytes;
            self.out_packets += d.packets;
            self.out_bytes += d.bytes;
        }
        cx.effects.add_marks(before, &mut self.ledger.reasons);
    }
}
