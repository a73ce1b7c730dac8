//! `Node`: a qdisc with the state that is the same for every kind: the class choice by priority,
//! the held packet of a peek, and the books.

mod account;
mod band;

use alloc::boxed::Box;
use core::any::Any;

use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::{DropReason, Reasons, WakeReason};
use crate::packet::route::{Asked, Said};
use crate::sched::answer::{Next, Verdict, Within};
use crate::sched::cx::Before;
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::erased::{self, Erased, Qdisc};
use crate::sched::stab::{SizeTable, Stab};
use crate::text::error::ConfigError;
use account::{BAND, HELD, RATIONED, SIZED};

pub use account::{Account, Books};
pub use band::BAND_PACKETS;
pub(crate) use band::share as band_share;

/// A class of a classful qdisc: its minor number and the qdisc that its packets wait in. Two cache
/// lines, of which a packet touches the first.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Class {
    /// The qdisc that its packets wait in.
    pub node: Node,
    /// The minor number; the major is the qdisc's.
    pub minor: u16,
}

const _: () = assert!(size_of::<Class>() == 128, "what a packet does not touch has a cache line of its own");

/// Answer to a peek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// A packet is ready, of this many wire bytes and segments; `Node::dequeue` will return it.
    Ready {
        /// Bytes after segmentation.
        wire_len: u32,
        /// Segments.
        segs: u16,
    },
    /// Nothing is queued.
    Empty,
    /// Nothing may leave before this instant.
    At(Instant, WakeReason),
}

/// Answer to a request for a packet of at most a given number of bytes.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Offer {
    /// This packet is to be sent now.
    Packet(Pkt),
    /// The next packet has more wire bytes than that: this many. It stays.
    Larger(u32),
    /// Nothing is queued.
    Empty,
    /// Packets are queued, but none may leave before this instant.
    At(Instant, WakeReason),
}

/// A qdisc in a tree.
#[derive(Debug)]
#[repr(C)]
pub struct Node {
    qdisc: Box<dyn Qdisc>,
    account: Account,
    /// At most one packet. A list and not a `Pkt`, so that a tree with packets in it can be
    /// dropped.
    held: List,
}

/// Departures through a place in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets and wire bytes.
    pub sent: Tally,
    /// Segments.
    pub segs: u64,
}

impl Node {
    /// Returns a node around a qdisc that was built from words (`Spec::build`). Handle `NONE` marks
    /// a default one.
    pub fn new(handle: Handle, qdisc: Box<dyn Qdisc>) -> Self {
        let class_major = if qdisc.takes_class() { handle.major() } else { 0 };
        let account = Account { handle, class_major, ..Account::default() };
        let mut node = Self { qdisc, account, held: List::new() };
        node.review_band();
        node
    }

    /// Returns a node around a discipline with these parameters.
    pub fn of<D: Discipline>(handle: Handle, cfg: D::Config, env: &Env) -> Result<Self, ConfigError> {
        Ok(Self::new(handle, erased::made::<D>(cfg, env)?))
    }

    /// Returns a default node around a discipline that refuses no parameters in their ranges.
    pub(crate) fn plain<D: Discipline<Rules = ()>>(cfg: D::Config, env: &Env) -> Self {
        Self::new(Handle::NONE, Box::new(Erased::<D>::plain(cfg, env)))
    }

    /// Returns its handle; `NONE` for a default qdisc.
    pub const fn handle(&self) -> Handle {
        self.account.handle
    }
    /// Returns the qdisc.
    pub fn qdisc(&self) -> &dyn Qdisc {
        &*self.qdisc
    }
    /// Returns the qdisc, to change.
    pub(crate) fn qdisc_mut(&mut self) -> &mut dyn Qdisc {
        &mut *self.qdisc
    }
    /// Returns its books.
    pub fn books(&self) -> Books {
        let a = &self.account;
        let gone = Tally { packets: a.out_packets, bytes: a.out_bytes };
        Books {
            admitted: Tally { packets: a.in_packets, bytes: a.in_bytes },
            sent: gone.since(a.dropped),
            sent_segs: a.out_segs,
            dropped: a.dropped,
            queued: a.queued(),
            peeked: Tally { packets: a.peeked.into(), bytes: a.peeked_bytes },
            peeked_segs: a.peeked_segs.into(),
            overlimits: a.overlimits,
        }
    }
    /// Returns the packets dropped in it or in anything below it, and those marked there, by
    /// reason. The sum of the drops is [`Books::dropped`]: a packet that was refused before any
    /// qdisc saw it (`Admitted::Dropped` with `PoolFull`, or with `Oversize` above the largest
    /// object of a byte limit) is dropped at no node.
    pub const fn reasons(&self) -> &Reasons {
        &self.account.rest.reasons
    }
    /// Returns packets and bytes in it now, all levels below included.
    #[inline]
    pub const fn backlog(&self) -> Tally {
        self.account.queued()
    }
    /// Returns its size table, if it has one. Its books, and those below, then count the charged
    /// sizes.
    pub fn stab(&self) -> Option<&Stab> {
        self.account.rest.table.as_ref().map(SizeTable::stab)
    }
    /// True if packets in it are, or may be, charged by a size table of its own.
    #[inline]
    pub(crate) const fn has_sizes(&self) -> bool {
        self.account.special & SIZED != 0
    }
    /// Sets or removes its size table. Queued packets stay charged as they were.
    pub(crate) fn set_sizes(&mut self, table: Option<SizeTable>) {
        if table.is_some() || self.has_sizes() {
            self.account.special |= SIZED;
            self.account.rest.table = table;
            self.forget_sizes();
        }
    }
    /// Returns the departures through its place: through this node and through earlier nodes there.
    /// Counts wire bytes, also for packets that are charged another size.
    pub fn passed(&self) -> Passed {
        let Books { sent, sent_segs, .. } = self.books();
        let former = self.account.rest.former;
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
    pub(crate) fn follow(&mut self, other: &Self) {
        self.account.rest.former = other.passed();
    }
    /// True if nothing is queued in it or below.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.account.in_packets == self.account.out_packets
    }
    /// Recomputes the `HELD` bit.
    fn review(&mut self) {
        let held = if self.held.is_empty() { 0 } else { HELD };
        self.account.special = self.account.special & !HELD | held;
    }
    #[inline(always)]
    fn classify_asked(&self, m: &Asked<'_>) -> Option<ClassId> {
        match (self.account.filtered, m.route) {
            (0, _) | (_, None) => self.account.classify(m),
            (above, Some(route)) => match route.said(usize::from(above) - 1, self.handle().major()) {
                Said::Class(class) => Some(class),
                Said::Nothing | Said::Drop => self.named_class(m),
            },
        }
    }

    /// Returns the class that a packet's priority names here.
    pub(crate) fn named_class(&self, m: &Meta) -> Option<ClassId> {
        let named = Handle(m.priority);
        (named.major() == self.account.class_major && named.major() != 0).then_some(named)
    }

    /// True if it, or a class of it, has filters.
    #[inline]
    pub(crate) const fn is_filtered(&self) -> bool {
        self.account.filtered != 0
    }
    /// Sets the number of qdiscs above it if it has filters; `None` if it has none.
    pub(crate) fn set_filtered(&mut self, depth: Option<usize>) {
        // A tree is at most `DEPTH_MAX` deep.
        self.account.filtered = depth.map_or(0, |d| d as u8 + 1);
    }

    /// Applies the result of the filters to a packet that is queued here. Returns the packet,
    /// unless the filters drop it.
    #[inline(never)]
    fn obey(&mut self, p: Pkt, cx: &mut Cx) -> Option<Pkt> {
        let major = self.handle().major();
        let depth = usize::from(self.account.filtered) - 1;
        let said = cx.pool.detail(&p).map(|d| d.route.said(depth, major)).unwrap_or_default();
        let m = cx.pool.meta_mut(&p);
        match said {
            Said::Class(class) => m.class = class,
            Said::Nothing if m.class.major() == major && Handle(m.priority).major() != major => {}
            Said::Nothing => m.class = ClassId::NONE,
            Said::Drop => {
                self.account.enter(m.wire_len);
                let outer = cx.owing().then(|| cx.begin_call());
                cx.drop(p, DropReason::Filtered);
                self.account.settle(cx.before(), cx);
                if let Some(outer) = outer {
                    cx.end_call(outer);
                }
                return None;
            }
        }
        Some(p)
    }

    /// Returns the class that a packet would wait in, if it has a qdisc; `None` if the packet would
    /// wait in the band.
    pub(crate) fn select(&self, m: &Meta, class: Option<ClassId>) -> Option<&Class> {
        if self.band_takes(m) { None } else { self.qdisc.select(m, class) }
    }

    /// Returns whether the packet would be queued without a drop.
    #[inline]
    pub fn admit(&self, m: &Asked<'_>) -> Verdict {
        match self.account.special & (SIZED | BAND) {
            0 => self.qdisc.admit(m, self.classify_asked(m)),
            _ if self.band_takes(m) => self.band_admits(),
            _ => self.admit_sized(m),
        }
    }

    /// As `admit`. The qdiscs below answer in charged sizes; the returned answer is in wire bytes.
    #[cold]
    fn admit_sized(&self, m: &Asked<'_>) -> Verdict {
        let class = self.classify_asked(m);
        let Some(table) = self.account.rest.table else { return self.qdisc.admit(m, class) };
        let mut charged = *m.meta;
        charged.wire_len = table.charge(m);
        match self.qdisc.admit(&Asked { meta: &charged, ..*m }, class) {
            Verdict::Cut(max) | Verdict::TooLarge(max) => match table.largest_within(max) {
                max if m.segs > 1 && m.segment_len() <= max => Verdict::Cut(max),
                max => Verdict::TooLarge(max),
            },
            other => other,
        }
    }

    /// True if nothing waits here and a packet of `wire_len` bytes that comes now may go to the
    /// device directly. False with a size table, because the direct path would have to compute the
    /// charge. False with a band that has a share: a control segment that goes directly spends no
    /// credit, but a queued one does.
    #[inline]
    pub fn transparent(&self, wire_len: u32) -> bool {
        self.is_settled() && self.qdisc.transparent(wire_len)
    }

    /// Returns the part of `transparent` that changes only when a packet passes or the tree is
    /// changed.
    #[inline]
    pub(crate) const fn is_settled(&self) -> bool {
        self.is_empty() && self.account.special & (SIZED | RATIONED) == 0 && !self.is_filtered()
    }

    /// Charges a packet that went to the device directly.
    #[inline]
    pub(crate) fn charge_direct(&mut self, m: &Meta) {
        self.account.enter(m.wire_len);
        self.account.leave(m);
    }

    /// Queues a packet, or drops it or others.
    #[inline(always)]
    pub fn enqueue(&mut self, p: Pkt, cx: &mut Cx) {
        let mut p = p;
        if self.account.filtered != 0 {
            let Some(kept) = self.obey(p, cx) else { return };
            p = kept;
        }
        if self.account.special & (SIZED | BAND) != 0 {
            return self.enqueue_special(p, cx);
        }
        self.qdisc.enqueue(p, &mut self.account, cx);
    }

    /// As `enqueue`, with a size table or a band.
    #[cold]
    #[inline(never)]
    fn enqueue_special(&mut self, p: Pkt, cx: &mut Cx) {
        if let Some(table) = &self.account.rest.table {
            let charged = table.charge(cx.pool.meta(&p));
            cx.pool.charge(&p, charged);
        }
        let dropped = cx.dropped.packets;
        if let Some(p) = self.offer_to_band(p, cx) {
            self.qdisc.enqueue(p, &mut self.account, cx);
        }
        if self.has_sizes() && cx.dropped.packets != dropped {
            self.settle_sizes(cx);
        }
    }

    /// Returns the next packet, if it may leave now.
    #[inline(always)]
    pub fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let next = match self.account.special {
            0 => self.qdisc.dequeue(&mut self.account, cx),
            _ => self.dequeue_special(cx),
        };
        match next {
            Some(p) => Next::Packet(p),
            None => cx.answer(),
        }
    }

    /// As `dequeue`, with a size table or a band, or when a packet is held.
    #[inline(never)]
    fn dequeue_special(&mut self, cx: &mut Cx) -> Option<Pkt> {
        let p = match self.held.pop_front(&cx.pool) {
            Some(p) => {
                self.let_go(&p, cx);
                p
            }
            None => self.ask(cx)?,
        };
        self.account.leave(cx.pool.meta(&p));
        if self.has_sizes() {
            self.leave_sizes(p.index(), cx);
        }
        Some(p)
    }

    /// Dequeues from the qdisc without counting a departure from this node.
    fn ask(&mut self, cx: &mut Cx) -> Option<Pkt> {
        let dropped = cx.dropped.packets;
        let next = match self.has_band() {
            false => self.qdisc.dequeue(&mut self.account, cx),
            true => self.dequeue_band(cx),
        };
        if let Some(p) = &next {
            self.account.stay(cx.pool.meta(p));
        }
        if self.has_sizes() && cx.dropped.packets != dropped {
            self.settle_sizes(cx);
        }
        next
    }

    /// Returns the next packet, if it may leave now and has at most `most` wire bytes.
    pub fn dequeue_within(&mut self, most: u64, cx: &mut Cx) -> Offer {
        match self.try_within(most, cx) {
            (Within::Packet(p), _) => Offer::Packet(p),
            (Within::Larger(wire_len), _) => Offer::Larger(wire_len),
            (Within::Unknown, _) => self.peek_within(most, cx),
        }
    }

    /// Does the fast part of `dequeue_within`; `Unknown` if that does not suffice. Returns the wire
    /// bytes of the packet with it.
    #[inline(always)]
    pub(crate) fn try_within(&mut self, most: u64, cx: &mut Cx) -> (Within, u64) {
        if self.account.special != 0 {
            return (Within::Unknown, 0);
        }
        let before = self.account.out_bytes;
        let within = self.qdisc.dequeue_within(most, &mut self.account, cx);
        // The call drops nothing, so the difference is the packet that left.
        (within, self.account.out_bytes - before)
    }

    /// As `dequeue_within`, for a qdisc that does not know its next packet.
    #[inline(never)]
    pub(crate) fn peek_within(&mut self, most: u64, cx: &mut Cx) -> Offer {
        match self.peek(cx) {
            Peek::Ready { wire_len, .. } if u64::from(wire_len) > most => Offer::Larger(wire_len),
            Peek::Ready { .. } => match self.dequeue(cx) {
                Next::Packet(p) => Offer::Packet(p),
                Next::Empty => Offer::Empty,
                Next::At(t, why) => Offer::At(t, why),
            },
            Peek::Empty => Offer::Empty,
            Peek::At(t, why) => Offer::At(t, why),
        }
    }

    /// Restores the wire bytes of a packet that leaves the size table, for the nodes above.
    #[cold]
    #[inline(never)]
    fn leave_sizes(&mut self, index: usize, cx: &mut Cx) {
        let (charged, wire_len) = cx.pool.uncharge(index);
        let bytes = &mut self.account.rest.former.sent.bytes;
        *bytes = bytes.wrapping_add(wire_len.into()).wrapping_sub(charged.into());
        self.forget_sizes();
    }

    /// Forgets a removed size table, once no packet that it has charged is queued.
    #[cold]
    fn forget_sizes(&mut self) {
        if self.is_empty() && self.stab().is_none() {
            self.account.special &= !SIZED;
        }
    }

    /// Returns the answer that `dequeue` would give. If the qdisc can only tell by dequeueing, the
    /// packet is held here until the next `dequeue`: it still counts as queued, and the qdisc is
    /// told (`Discipline::holding`).
    #[inline]
    pub fn peek(&mut self, cx: &mut Cx) -> Peek {
        if self.account.special == 0
            && let Some(Waiting { meta: m, .. }) = self.qdisc.head(&cx.pool)
        {
            return Peek::Ready { wire_len: m.wire_len, segs: m.segs };
        }
        self.peek_slowly(cx)
    }

    #[inline(never)]
    fn peek_slowly(&mut self, cx: &mut Cx) -> Peek {
        if self.has_sizes() {
            return self.peek_sized(cx);
        }
        if self.held.is_empty() {
            let answer = self.peek_own(cx);
            if let Some(answer) = answer {
                return answer;
            }
        }
        self.look(cx, |_, w| w.meta.wire_len)
    }

    /// As `peek`, with a size table: the nodes above see the packet's wire bytes.
    #[cold]
    #[inline(never)]
    fn peek_sized(&mut self, cx: &mut Cx) -> Peek {
        self.look(cx, Pool::wire_len)
    }

    #[inline(always)]
    fn look(&mut self, cx: &mut Cx, wire_len: impl Fn(&Pool, Waiting<'_>) -> u32) -> Peek {
        let ready =
            |w: Waiting<'_>, pool: &Pool| Peek::Ready { wire_len: wire_len(pool, w), segs: w.meta.segs };
        if self.held.is_empty() {
            if let Some(w) = self.head(&cx.pool) {
                return ready(w, &cx.pool);
            }
            match self.ask(cx) {
                Some(p) => self.hold(p, cx),
                None => match cx.answer() {
                    Next::At(t, why) => return Peek::At(t, why),
                    _ => return Peek::Empty,
                },
            }
        }
        match self.held.first(&cx.pool) {
            Some(w) => ready(w, &cx.pool),
            None => Peek::Empty,
        }
    }

    /// Holds a packet that the qdisc returned and that does not leave yet.
    fn hold(&mut self, p: Pkt, cx: &mut Cx) {
        let m = cx.pool.meta(&p);
        self.account.peeked += 1;
        self.account.peeked_bytes += u64::from(m.wire_len);
        self.account.peeked_segs = self.account.peeked_segs.wrapping_add(m.segs.into());
        self.held.push_back(&mut cx.pool, p);
        self.review();
        if self.gave_its_own() {
            self.qdisc.holding(true);
        }
    }

    /// Updates the books after the held packet was taken out.
    fn let_go(&mut self, p: &Pkt, cx: &Cx) {
        let m = cx.pool.meta(p);
        self.account.peeked -= 1;
        self.account.peeked_bytes -= u64::from(m.wire_len);
        self.account.peeked_segs = self.account.peeked_segs.wrapping_sub(m.segs.into());
        self.review();
        self.qdisc.holding(false);
    }

    /// Returns the packet that the last peek took out of the qdisc, if it has not been dequeued
    /// since.
    #[inline]
    pub fn held<'a>(&self, pool: &'a Pool) -> Option<&'a Meta> {
        self.held.front(pool)
    }

    /// Drops everything queued, here and below.
    pub fn purge(&mut self, cx: &mut Cx) {
        let before = (Before::of(cx), cx.aside);
        if let Some(p) = self.held.pop_front(&cx.pool) {
            self.let_go(&p, cx);
            cx.drop(p, DropReason::Purged);
        }
        while let Some(p) = self.band_queue().and_then(|band| band.pop_front(&cx.pool)) {
            cx.drop(p, DropReason::Purged);
        }
        self.reset_band();
        self.qdisc.purge(cx);
        self.settle_all(before, cx);
    }

    /// Moves all queued packets, here and below, to the back of `out`; packets of one flow in their
    /// order. The books forget that they were admitted. The qdiscs keep their state and counters.
    pub(crate) fn drain(&mut self, out: &mut List, cx: &mut Cx) {
        let mut own = List::new();
        if let Some(p) = self.held.pop_front(&cx.pool) {
            self.let_go(&p, cx);
            // The held packet left the qdisc before all packets that are still there.
            own.push_back(&mut cx.pool, p);
        }
        if let Some(band) = self.band_queue() {
            band.drain(&mut own, &mut cx.pool);
        }
        self.qdisc.drain(&mut own, &mut cx.pool);
        for class in self.qdisc.classes_mut() {
            class.node.drain(&mut own, cx);
        }
        if self.has_sizes() {
            own.uncharge(&mut cx.pool);
        }
        out.append(&mut cx.pool, &mut own);
        let out = self.account.queued();
        self.account.forget(out);
        if self.has_sizes() {
            self.forget_sizes();
        }
    }

    /// Calls `f` on every packet that waits in this node itself, the held one first; `wire_len` is
    /// its charge here.
    pub fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.held.waiting(pool).for_each(&mut *f);
        self.band_queued(pool, f);
        self.qdisc.queued(pool, f);
    }

    /// Calls `f` on the qdisc and settles the packets that it dropped.
    pub(crate) fn with<R>(&mut self, cx: &mut Cx, f: impl FnOnce(&mut dyn Qdisc, &mut Cx) -> R) -> R {
        let before = (Before::of(cx), cx.aside);
        let outer = core::mem::replace(&mut cx.peeked, core::mem::take(&mut self.held));
        let r = f(&mut *self.qdisc, cx);
        self.held = core::mem::replace(&mut cx.peeked, outer);
        self.review();
        self.review_band();
        self.settle_all(before, cx);
        r
    }

    /// Gives new parameters to a node that `plain` has made; does nothing to other nodes.
    pub(crate) fn change_plain<D: Discipline<Rules = ()>>(&mut self, cfg: D::Config, env: &Env, cx: &mut Cx) {
        self.with(cx, |qdisc, cx| {
            let qdisc: &mut dyn Any = qdisc;
            if let Some(qdisc) = qdisc.downcast_mut::<Erased<D>>() {
                qdisc.change_plain(cfg, env, cx);
            }
        });
    }

    /// Books the packets dropped since `before`; forgets those set aside, as if they had never been
    /// admitted.
    fn settle_all(&mut self, (before, aside): (Before, Tally), cx: &mut Cx) {
        self.account.forget(cx.aside.since(aside));
        self.account.settle_drops(&before, cx);
        if self.has_sizes() {
            self.settle_sizes(cx);
        }
    }

    /// Settles the drops in wire bytes for the nodes above.
    #[cold]
    #[inline(never)]
    fn settle_sizes(&mut self, cx: &mut Cx) {
        cx.settle_sizes();
        self.forget_sizes();
    }
}
