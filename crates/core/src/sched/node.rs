//! `Node`: a qdisc with the parts that are the same for every kind: the account of its packets, the
//! class that a packet names, and the front before it.

mod account;
mod ahead;
mod band;
mod choice;
mod counted;
mod front;
mod held;
mod sizes;

use alloc::boxed::Box;

use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::time::Instant;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::{DropReason, WakeReason};
use crate::packet::route::Candidate;
use crate::sched::answer::{Next, Verdict, Within};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::erased::{self, Qdisc};
use crate::sched::stab::SizeTable;
use crate::text::error::ConfigError;
use account::Special;
use counted::Counted;

pub use account::{Account, Books, Passed};
pub(crate) use ahead::Ahead;
pub use ahead::Soon;
pub use band::BAND_PACKETS;
pub(crate) use band::share as band_share;
pub use front::Front;

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

impl Class {
    /// Bytes of a class that has a default qdisc, at most.
    pub const BYTES: u64 = 512;
}

// On 32 bits both are shorter.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Class>() == 128, "what a packet does not touch has a cache line of its own");
    let touched = core::mem::offset_of!(Node, counted.account.out_segs) + size_of::<u64>();
    assert!(touched == 64, "what a packet touches fills one cache line");
};

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

/// A qdisc in a tree.
#[derive(Debug)]
#[repr(C)]
pub struct Node {
    counted: Counted,
    front: Front,
}

impl Node {
    /// Returns a node around a qdisc that was built from words (`Spec::build`). Handle `NONE` marks
    /// a default one.
    pub fn new(handle: Handle, qdisc: Box<dyn Qdisc>) -> Self {
        let account = Account::new(handle, qdisc.takes_class());
        let mut node = Self { counted: Counted { qdisc, account }, front: Front::default() };
        node.front.review(&mut node.counted);
        node
    }

    /// Returns a node around a discipline with these parameters.
    pub fn of<D: Discipline>(handle: Handle, cfg: D::Config, env: &Env) -> Result<Self, ConfigError> {
        Ok(Self::new(handle, erased::made::<D>(cfg, env)?))
    }

    /// Returns its handle; `NONE` for a default qdisc.
    pub const fn handle(&self) -> Handle {
        self.counted.account.handle()
    }
    /// Returns the qdisc.
    pub fn qdisc(&self) -> &dyn Qdisc {
        &*self.counted.qdisc
    }
    /// Returns the qdisc, to change.
    pub(crate) fn qdisc_mut(&mut self) -> &mut dyn Qdisc {
        &mut *self.counted.qdisc
    }
    /// Returns its account: the drops and marks by reason, the departures through its place.
    pub const fn account(&self) -> &Account {
        &self.counted.account
    }
    /// Returns the parts before its qdisc: size table, band, held packet.
    pub const fn front(&self) -> &Front {
        &self.front
    }
    /// Returns its books.
    #[inline]
    pub fn books(&self) -> Books {
        self.front.held.show(self.counted.account.books())
    }
    /// True if nothing is queued in it or below.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.counted.account.is_empty()
    }

    /// Sets or removes its size table. Queued packets stay charged as they were.
    pub(crate) fn set_sizes(&mut self, table: Option<SizeTable>) {
        self.front.set_sizes(table, &mut self.counted.account);
    }
    /// Sets the number of qdiscs above it if it has filters; `None` if it has none.
    pub(crate) fn set_filtered(&mut self, depth: Option<usize>) {
        self.counted.account.set_filtered(depth);
    }
    /// Takes over the departures of the node that it replaces.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.counted.account.follow(&other.counted.account);
    }

    /// Returns the class that a packet would wait in, if it has a qdisc; `None` if the packet would
    /// wait in the band.
    pub(crate) fn select(&self, m: &Meta, class: Option<ClassId>) -> Option<&Class> {
        match self.front.band_for(m) {
            Some(_) => None,
            None => self.counted.qdisc.select(m, class),
        }
    }

    /// Returns whether the packet would be queued without a drop, at the time of its `enqueued`. A
    /// packet that the filters drop needs no room: `Accept`.
    #[inline]
    pub fn would_accept(&self, m: &Candidate<'_>) -> Verdict {
        let choice = self.counted.account.choice();
        if choice.would_drop(m) {
            return Verdict::Accept;
        }
        let class = choice.of_candidate(m);
        match self.counted.account.special.has(Special::AT_ARRIVAL) {
            false => self.counted.qdisc.would_accept(m, class),
            true => self.front.would_accept(m, class, &self.counted),
        }
    }

    /// True if nothing waits here and a packet of `wire_len` bytes that comes now may go to the
    /// device directly.
    #[inline]
    pub fn transparent(&self, wire_len: u32) -> bool {
        self.counted.account.is_settled() && self.counted.qdisc.transparent(wire_len)
    }

    /// Charges a packet that went to the device directly.
    #[inline]
    pub(crate) fn charge_direct(&mut self, m: &Meta) {
        self.counted.account.enter(m.wire_len);
        self.counted.account.leave(m);
    }

    /// Asks for memory that a packet will touch when it is queued: see `Discipline::expect`.
    #[inline]
    fn expect(&self, m: &Meta, step: u32, pool: &Pool) -> Soon<'_> {
        self.counted.qdisc.expect(m, step, &self.counted.account, pool)
    }

    /// Queues a packet, or drops it or others.
    #[inline(always)]
    pub fn enqueue(&mut self, p: Pkt, cx: &mut Cx) {
        let account = &mut self.counted.account;
        if account.is_filtered() && !account.choice().apply_filter_outcome(&p, cx) {
            return account.refuse(p, DropReason::Filtered, cx);
        }
        if account.special.has(Special::AT_ARRIVAL) {
            return self.front.enqueue(p, &mut self.counted, cx);
        }
        self.counted.enqueue(p, cx);
    }

    /// Returns the next packet, if it may leave now.
    #[inline(always)]
    pub fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let next = match self.counted.account.special.is_none() {
            true => self.counted.dequeue(cx),
            false => self.front.dequeue(&mut self.counted, cx),
        };
        match next {
            Some(p) => Next::Packet(p),
            None => cx.wakes.answer(),
        }
    }

    /// Returns the next packet, with its wire bytes, if it may leave now and has at most `most`;
    /// `Unknown` if only a peek can tell.
    #[inline(always)]
    pub(crate) fn dequeue_within(&mut self, most: u64, cx: &mut Cx) -> (Within, u64) {
        let Counted { qdisc, account } = &mut self.counted;
        if !account.special.is_none() {
            return (Within::Unknown, 0);
        }
        let before = account.out_bytes;
        let within = qdisc.dequeue_within(most, account, cx);
        // The call drops nothing, so the difference is the packet that left.
        (within, account.out_bytes - before)
    }

    /// Returns the answer that `dequeue` would give. If the qdisc can only tell by dequeueing, the
    /// packet is held here until the next `dequeue`: it still counts as queued, and the qdisc is
    /// told (`Discipline::holding`).
    #[inline]
    pub fn peek(&mut self, cx: &mut Cx) -> Peek {
        if self.counted.account.special.is_none()
            && let Some(Waiting { meta: m, .. }) = self.counted.qdisc.head(&cx.pool)
        {
            return Peek::Ready { wire_len: m.wire_len, segs: m.segs };
        }
        self.front.peek(&mut self.counted, cx)
    }

    /// Drops everything queued, here and below.
    pub fn purge(&mut self, cx: &mut Cx) {
        let before = (cx.effects.counts(), cx.aside.taken.amount());
        self.front.purge(&mut self.counted, cx);
        self.counted.qdisc.purge(cx);
        self.front.settle(before, &mut self.counted.account, cx);
    }

    /// Moves all queued packets, here and below, to the back of `out`; packets of one flow in their
    /// order. The books forget that they were admitted. The qdiscs keep their state and counters.
    pub(crate) fn evict_all(&mut self, out: &mut List, cx: &mut Cx) {
        if self.is_empty() && !self.counted.account.is_sized() {
            return;
        }
        let mut own = List::new();
        self.front.evict_all(&mut own, &mut self.counted, cx);
        self.counted.qdisc.evict_all(&mut own, &mut cx.pool);
        for class in self.counted.qdisc.classes_mut() {
            class.node.evict_all(&mut own, cx);
        }
        let account = &mut self.counted.account;
        if account.is_sized() {
            own.uncharge(&mut cx.pool);
        }
        out.append(&mut cx.pool, &mut own);
        account.forget(account.queued());
        self.front.forget_sizes(account);
    }

    /// Calls `f` on every packet that waits in this node itself, the held one first; `wire_len` is
    /// its charge here.
    pub fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.front.queued(pool, f);
        self.counted.qdisc.queued(pool, f);
    }

    /// Calls `f` on the qdisc and settles the packets that it dropped.
    pub(crate) fn with<R>(&mut self, cx: &mut Cx, f: impl FnOnce(&mut dyn Qdisc, &mut Cx) -> R) -> R {
        let before = (cx.effects.counts(), cx.aside.taken.amount());
        // A packet of the band is not the qdisc's to drop.
        let own = self.front.holds_own();
        let held = if own { core::mem::take(&mut self.front.held.list) } else { List::new() };
        let counted = held.front(&cx.pool).map(|m| (m.wire_len, m.segs));
        let outer = core::mem::replace(&mut cx.peeked, held);
        let r = f(&mut *self.counted.qdisc, cx);
        let held = core::mem::replace(&mut cx.peeked, outer);
        if own {
            // One that is set aside enters again, and counts as sent when it leaves.
            if let Some(counted) = counted
                && held.is_empty()
                && cx.swapping()
            {
                self.front.held.forget(counted);
            }
            self.front.held.list = held;
        }
        self.front.review(&mut self.counted);
        self.front.settle(before, &mut self.counted.account, cx);
        r
    }
}
