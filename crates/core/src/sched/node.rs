//! `Node`: a qdisc with everything around it that is the same for every kind: the class choice by priority,
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

/// A class of a classful qdisc: its minor number and the qdisc that its packets wait in. Two cache lines, of which a packet
/// touches the first.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Class {
    /// What its packets wait in.
    pub node: Node,
    /// The minor number; the major is the qdisc's.
    pub minor: u16,
}

const _: () = assert!(size_of::<Class>() == 128, "what a packet does not touch has a cache line of its own");

/// The answer to a peek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// A packet is ready, of this many wire bytes and segments; `Node::dequeue` will give it.
    Ready {
        /// Bytes after segmentation.
        wire_len: u32,
        /// Segments.
        segs: u16,
    },
    /// Nothing is queued.
    Empty,
    /// Nothing may leave before this.
    At(Instant, WakeReason),
}

/// The answer to a request for a packet of at most so many bytes.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Offer {
    /// This packet is to be sent now.
    Packet(Pkt),
    /// The next packet has more wire bytes than that, so many; it stays.
    Larger(u32),
    /// Nothing is queued.
    Empty,
    /// Something is queued, but nothing may leave before this instant.
    At(Instant, WakeReason),
}

/// A qdisc in a tree.
#[derive(Debug)]
#[repr(C)]
pub struct Node {
    qdisc: Box<dyn Qdisc>,
    account: Account,
    /// At most one packet. A list and not a `Pkt`, so that a tree with packets in it can be let go.
    held: List,
}

/// What has left through a place in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets and wire bytes.
    pub sent: Tally,
    /// Segments.
    pub segs: u64,
}

impl Node {
    /// A node around a qdisc that was built from words (`Spec::build`). Handle `NONE` marks a default one.
    pub fn new(handle: Handle, qdisc: Box<dyn Qdisc>) -> Self {
        let class_major = if qdisc.takes_class() { handle.major() } else { 0 };
        let account = Account { handle, class_major, ..Account::default() };
        let mut node = Self { qdisc, account, held: List::new() };
        node.review_band();
        node
    }

    /// A node around a discipline with these parameters.
    pub fn of<D: Discipline>(handle: Handle, cfg: D::Config, env: &Env) -> Result<Self, ConfigError> {
        Ok(Self::new(handle, erased::made::<D>(cfg, env)?))
    }

    /// A default node around a discipline that refuses no parameters in their ranges.
    pub(crate) fn plain<D: Discipline<Rules = ()>>(cfg: D::Config, env: &Env) -> Self {
        Self::new(Handle::NONE, Box::new(Erased::<D>::plain(cfg, env)))
    }

    /// Its handle; `NONE` for a default qdisc.
    pub const fn handle(&self) -> Handle {
        self.account.handle
    }
    /// The qdisc.
    pub fn qdisc(&self) -> &dyn Qdisc {
        &*self.qdisc
    }
    /// The qdisc, to change.
    pub(crate) fn qdisc_mut(&mut self) -> &mut dyn Qdisc {
        &mut *self.qdisc
    }
    /// Its books.
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
    /// The packets dropped in it or in anything below it, and those marked there, by reason. The drops are together those
    /// of [`Books::dropped`]: a packet that was refused before any qdisc saw it (`Admitted::Dropped` with `PoolFull`, or with
    /// `Oversize` above the largest object of a byte limit) is dropped at no node.
    pub const fn reasons(&self) -> &Reasons {
        &self.account.rest.reasons
    }
    /// Packets and bytes in it now, all levels below included.
    #[inline]
    pub const fn backlog(&self) -> Tally {
        self.account.queued()
    }
    /// Its size table, if it has one. Its books, and those below, then count what the table charges.
    pub fn stab(&self) -> Option<&Stab> {
        self.account.rest.table.as_ref().map(SizeTable::stab)
    }
    /// True if packets in it are, or may be, charged by a size table of its own.
    #[inline]
    pub(crate) const fn has_sizes(&self) -> bool {
        self.account.special & SIZED != 0
    }
    /// Gives it a size table, or takes it away. What is queued stays charged as it was.
    pub(crate) fn set_sizes(&mut self, table: Option<SizeTable>) {
        if table.is_some() || self.has_sizes() {
            self.account.special |= SIZED;
            self.account.rest.table = table;
            self.forget_sizes();
        }
    }
    /// What has left through the place where it is: through this node and those that were there before it. Wire bytes,
    /// also of packets that are charged another size.
    pub fn passed(&self) -> Passed {
        let Books { sent, sent_segs, .. } = self.books();
        let former = self.account.rest.former;
        Passed {
            sent: Tally {
                packets: sent.packets + former.sent.packets,
                // Of packets that are charged more than their wire bytes the difference is below zero.
                bytes: sent.bytes.wrapping_add(former.sent.bytes),
            },
            segs: sent_segs + former.segs,
        }
    }
    /// It takes the place of another node.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.account.rest.former = other.passed();
    }
    /// True if nothing is queued in it or below.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.account.in_packets == self.account.out_packets
    }
    /// Whether it holds a packet may have changed.
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

    /// The class that a packet's priority names here.
    pub(crate) fn named_class(&self, m: &Meta) -> Option<ClassId> {
        let named = Handle(m.priority);
        (named.major() == self.account.class_major && named.major() != 0).then_some(named)
    }

    /// Whether it, or a class of it, has filters.
    #[inline]
    pub(crate) const fn is_filtered(&self) -> bool {
        self.account.filtered != 0
    }
    /// It has filters, and so many qdiscs are above it; or it has none any more.
    pub(crate) fn set_filtered(&mut self, depth: Option<usize>) {
        // A tree is at most `DEPTH_MAX` deep.
        self.account.filtered = depth.map_or(0, |d| d as u8 + 1);
    }

    /// Does what the filters have said of a packet that is queued here; the packet, unless that was to drop it.
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

    /// The class that a packet would wait in, if it has a qdisc; none if the packet would wait in the band.
    pub(crate) fn select(&self, m: &Meta, class: Option<ClassId>) -> Option<&Class> {
        if self.band_takes(m) { None } else { self.qdisc.select(m, class) }
    }

    /// Whether the packet would be queued without a drop.
    #[inline]
    pub fn admit(&self, m: &Asked<'_>) -> Verdict {
        match self.account.special & (SIZED | BAND) {
            0 => self.qdisc.admit(m, self.classify_asked(m)),
            _ if self.band_takes(m) => self.band_admits(),
            _ => self.admit_sized(m),
        }
    }

    /// As `admit`; sizes that the qdiscs below name are charged ones, those in the answer wire bytes.
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

    /// True if nothing waits here and a packet of `wire_len` bytes that comes now may go to the device directly. Not
    /// with a size table: what the packet is charged would have to be reckoned on the direct path. Nor with a band that has
    /// a share: a control segment that goes directly spends no credit, one that was queued does.
    #[inline]
    pub fn transparent(&self, wire_len: u32) -> bool {
        self.is_settled() && self.qdisc.transparent(wire_len)
    }

    /// The part of `transparent` that only changes when a packet passes, or the tree is changed.
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
        if let Some(p) = self.into_band(p, cx) {
            self.qdisc.enqueue(p, &mut self.account, cx);
        }
        if self.has_sizes() && cx.dropped.packets != dropped {
            self.settle_sizes(cx);
        }
    }

    /// The next packet, if it may leave now.
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

    /// Asks the qdisc. A packet that it gives has not left this node yet.
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

    /// The next packet, if it may leave now and has at most so many wire bytes.
    pub fn dequeue_within(&mut self, most: u64, cx: &mut Cx) -> Offer {
        match self.try_within(most, cx) {
            (Within::Packet(p), _) => Offer::Packet(p),
            (Within::Larger(wire_len), _) => Offer::Larger(wire_len),
            (Within::Unknown, _) => self.peek_within(most, cx),
        }
    }

    /// The part of `dequeue_within` that is short; `Unknown`, if it takes more than that. With the packet, its wire bytes.
    #[inline(always)]
    pub(crate) fn try_within(&mut self, most: u64, cx: &mut Cx) -> (Within, u64) {
        if self.account.special != 0 {
            return (Within::Unknown, 0);
        }
        let before = self.account.out_bytes;
        let within = self.qdisc.dequeue_within(most, &mut self.account, cx);
        // It drops nothing on the way: what has gone has left.
        (within, self.account.out_bytes - before)
    }

    /// As `dequeue_within`, of a qdisc that cannot tell its next packet.
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

    /// A packet leaves the size table: those above see its wire bytes.
    #[cold]
    #[inline(never)]
    fn leave_sizes(&mut self, index: usize, cx: &mut Cx) {
        let (charged, wire_len) = cx.pool.uncharge(index);
        let bytes = &mut self.account.rest.former.sent.bytes;
        *bytes = bytes.wrapping_add(wire_len.into()).wrapping_sub(charged.into());
        self.forget_sizes();
    }

    /// Lets go of a size table that was taken away, once nothing is queued that it has charged.
    #[cold]
    fn forget_sizes(&mut self) {
        if self.is_empty() && self.stab().is_none() {
            self.account.special &= !SIZED;
        }
    }

    /// What `dequeue` would give. If the qdisc can only tell by giving it, the packet is held here until it is
    /// asked for: it still counts as queued, and the qdisc is told (`Discipline::holding`).
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

    /// As `peek`, with a size table: those above see the packet's wire bytes.
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

    /// Keeps a packet that the qdisc gave and that does not leave yet.
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

    /// The held packet was taken out.
    fn let_go(&mut self, p: &Pkt, cx: &Cx) {
        let m = cx.pool.meta(p);
        self.account.peeked -= 1;
        self.account.peeked_bytes -= u64::from(m.wire_len);
        self.account.peeked_segs = self.account.peeked_segs.wrapping_sub(m.segs.into());
        self.review();
        self.qdisc.holding(false);
    }

    /// The packet that the last peek took out of the qdisc, if it has not been asked for since.
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

    /// Hands out everything queued, here and below, to the back of `out`; packets of one flow in their order. The
    /// books forget that they were admitted. What the qdiscs know and have counted stays.
    pub(crate) fn drain(&mut self, out: &mut List, cx: &mut Cx) {
        let mut own = List::new();
        if let Some(p) = self.held.pop_front(&cx.pool) {
            self.let_go(&p, cx);
            // It came out of the qdisc before everything that is still there.
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

    /// Shows every packet that waits in this node itself, the held one first; `wire_len` is what it is charged here.
    pub fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.held.waiting(pool).for_each(&mut *f);
        self.band_queued(pool, f);
        self.qdisc.queued(pool, f);
    }

    /// Runs `f` on the qdisc and settles what it dropped.
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

    /// Gives a node that `plain` has made new parameters; does nothing to one that was not.
    pub(crate) fn change_plain<D: Discipline<Rules = ()>>(&mut self, cfg: D::Config, env: &Env, cx: &mut Cx) {
        self.with(cx, |qdisc, cx| {
            let qdisc: &mut dyn Any = qdisc;
            if let Some(qdisc) = qdisc.downcast_mut::<Erased<D>>() {
                qdisc.change_plain(cfg, env, cx);
            }
        });
    }

    /// Takes note of what was dropped since; what was set aside is forgotten, as if it had never been admitted.
    fn settle_all(&mut self, (before, aside): (Before, Tally), cx: &mut Cx) {
        self.account.forget(cx.aside.since(aside));
        self.account.settle_drops(&before, cx);
        if self.has_sizes() {
            self.settle_sizes(cx);
        }
    }

    /// Those above settle wire bytes.
    #[cold]
    #[inline(never)]
    fn settle_sizes(&mut self, cx: &mut Cx) {
        cx.settle_sizes();
        self.forget_sizes();
    }
}
