//! `Node`: a qdisc with everything around it that is the same for every kind: the class choice by priority,
//! the held packet of a peek, and the books.

use alloc::boxed::Box;

use crate::cx::{Cx, Tally};
use crate::error::ConfigError;
use crate::handle::{ClassId, Handle};
use crate::meta::Meta;
use crate::pool::{List, Pkt, Pool};
use crate::qdisc::{Discipline, Erased, Next, Qdisc, Verdict, fifo};
use crate::reason::{DropReason, WakeReason};
use crate::spec::Env;
use crate::stab::{SizeTable, Stab};
use crate::time::Instant;

/// A class of a classful qdisc: its minor number and the qdisc that its packets wait in.
#[derive(Debug)]
pub struct Class {
    /// The minor number; the major is the qdisc's.
    pub minor: u16,
    /// What its packets wait in.
    pub node: Node,
}

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

/// A qdisc in a tree.
#[derive(Debug)]
pub struct Node {
    qdisc: Box<dyn Qdisc>,
    handle: Handle,
    /// The major in which packets may name a class of this qdisc; 0 if it does not look at it.
    class_major: u16,
    /// At most one packet. A list and not a `Pkt`, so that a tree with packets in it can be let go.
    held: List,
    books: Books,
    /// A size table, if it has one: boxed, so that a node without pays one test.
    sizes: Option<Box<Sizes>>,
}

/// A size table at a node.
#[derive(Debug)]
struct Sizes {
    /// `None` once it was taken away, until what it has charged has left.
    table: Option<SizeTable>,
}

impl Node {
    /// A node around a qdisc that was built from words (`Spec::build`). Handle `NONE` marks a default one.
    pub fn new(handle: Handle, qdisc: Box<dyn Qdisc>) -> Self {
        let class_major = if qdisc.takes_class() { handle.major() } else { 0 };
        Self { qdisc, handle, class_major, held: List::new(), books: Books::default(), sizes: None }
    }

    /// A node around a discipline with these parameters.
    pub fn of<D: Discipline>(handle: Handle, cfg: D::Config, env: &Env) -> Result<Self, ConfigError> {
        Ok(Self::new(handle, Box::new(Erased::<D>::new(cfg, env)?)))
    }

    /// What a new class has until something is grafted: pfifo with the device's queue length.
    pub fn default_child(env: &Env) -> Self {
        Self::new(Handle::NONE, Box::new(fifo::default_pfifo(env)))
    }

    /// Its handle; `NONE` for a default qdisc.
    pub const fn handle(&self) -> Handle {
        self.handle
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
    pub const fn books(&self) -> &Books {
        &self.books
    }
    /// Its size table, if it has one. Its books, and those below, then count what the table charges.
    pub fn stab(&self) -> Option<&Stab> {
        self.sizes.as_ref()?.table.as_ref().map(SizeTable::stab)
    }
    /// True if packets in it are, or may be, charged by a size table of its own.
    pub(crate) const fn has_sizes(&self) -> bool {
        self.sizes.is_some()
    }
    /// Gives it a size table, or takes it away. What is queued stays charged as it was.
    pub(crate) fn set_sizes(&mut self, table: Option<SizeTable>) {
        let needed = table.is_some() || self.has_sizes() && !self.is_empty();
        self.sizes = needed.then(|| Box::new(Sizes { table }));
    }
    /// True if nothing is queued in it or below.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.books.queued.packets == 0
    }

    /// The class that a packet names in this qdisc: by a priority with this major, or one chosen ahead. A priority that is
    /// the handle itself, minor 0, names the qdisc and none of its classes: what that means is up to the kind.
    #[inline]
    fn classify(&self, m: &Meta) -> Option<ClassId> {
        // Most packets name no class; a class number without a major is none either.
        if m.priority <= 0xffff && m.class.is_none() {
            return None;
        }
        let named = |h: &Handle| h.major() == self.class_major && self.class_major != 0;
        [Handle(m.priority), m.class].into_iter().find(named)
    }

    /// Whether the packet would be queued without a drop.
    #[inline]
    pub fn admit(&self, m: &Meta) -> Verdict {
        match &self.sizes {
            None => self.qdisc.admit(m, self.classify(m)),
            Some(sizes) => self.admit_sized(m, sizes),
        }
    }

    /// As `admit`; sizes that the qdiscs below name are charged ones, those in the answer wire bytes.
    #[cold]
    fn admit_sized(&self, m: &Meta, sizes: &Sizes) -> Verdict {
        let Some(table) = sizes.table else { return self.qdisc.admit(m, self.classify(m)) };
        let mut charged = *m;
        charged.wire_len = table.charge(m);
        match self.qdisc.admit(&charged, self.classify(m)) {
            Verdict::Cut(max) | Verdict::TooLarge(max) => match table.largest_within(max) {
                max if m.segs > 1 && m.segment_len() <= max => Verdict::Cut(max),
                max => Verdict::TooLarge(max),
            },
            other => other,
        }
    }

    /// True if nothing waits here and a packet of `wire_len` bytes that comes now may go to the device directly. Not
    /// with a size table: what the packet is charged would have to be reckoned on the direct path.
    #[inline]
    pub fn transparent(&self, wire_len: u32) -> bool {
        self.is_settled() && self.qdisc.transparent(wire_len)
    }

    /// The part of `transparent` that only changes when a packet passes, or the tree is changed.
    #[inline]
    pub(crate) const fn is_settled(&self) -> bool {
        self.is_empty() && self.sizes.is_none()
    }

    /// Charges a packet that went to the device directly.
    #[inline]
    pub(crate) fn charge_direct(&mut self, m: &Meta) {
        self.books.admitted.add(m.wire_len);
        self.books.sent.add(m.wire_len);
        self.books.sent_segs += u64::from(m.segs);
    }

    /// Queues a packet, or drops it or others.
    #[inline(always)]
    pub fn enqueue(&mut self, p: Pkt, cx: &mut Cx) {
        if self.sizes.is_some() {
            return self.enqueue_sized(p, cx);
        }
        let m = cx.pool.meta(&p);
        let (wire_len, class) = (m.wire_len, self.classify(m));
        self.take_in(p, wire_len, class, cx);
    }

    /// As `enqueue`, for who has the metadata at hand: it is not read again from where it has just been written.
    #[inline(always)]
    pub(crate) fn enqueue_new(&mut self, p: Pkt, m: &Meta, cx: &mut Cx) {
        if self.sizes.is_some() {
            return self.enqueue_sized(p, cx);
        }
        self.take_in(p, m.wire_len, self.classify(m), cx);
    }

    /// As `enqueue`, with a size table. Whole, and not a step of `enqueue`: after a call halfway that would have to
    /// read again all that it has in registers.
    #[cold]
    #[inline(never)]
    fn enqueue_sized(&mut self, p: Pkt, cx: &mut Cx) {
        if let Some(table) = self.sizes.as_ref().and_then(|s| s.table.as_ref()) {
            let charged = table.charge(cx.pool.meta(&p));
            cx.pool.charge(&p, charged);
        }
        let m = cx.pool.meta(&p);
        let (wire_len, class) = (m.wire_len, self.classify(m));
        self.take_in(p, wire_len, class, cx);
    }

    #[inline(always)]
    fn take_in(&mut self, p: Pkt, wire_len: u32, class: Option<ClassId>, cx: &mut Cx) {
        self.books.admitted.add(wire_len);
        self.books.queued.add(wire_len);
        let before = cx.dropped;
        let outer = cx.overlimits;
        self.qdisc.enqueue(p, class, cx);
        self.settle_overlimits(outer, cx);
        self.settle(before, cx);
    }

    /// The next packet, if it may leave now.
    #[inline(always)]
    pub fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let next = match self.held.pop_front(&cx.pool) {
            Some(p) => {
                self.let_go(&p, cx);
                Next::Packet(p)
            }
            None => self.ask(cx),
        };
        if let Next::Packet(p) = &next {
            let m = cx.pool.meta(p);
            self.books.sent.add(m.wire_len);
            self.books.sent_segs += u64::from(m.segs);
            self.books.queued.packets -= 1;
            self.books.queued.bytes -= u64::from(m.wire_len);
            if self.sizes.is_some() {
                // By its index: a reference would force the answer into memory for every packet.
                self.leave_sizes(p.index(), cx);
            }
        }
        next
    }

    /// A packet leaves the size table: those above see its wire bytes.
    #[cold]
    #[inline(never)]
    fn leave_sizes(&mut self, index: usize, cx: &mut Cx) {
        cx.pool.uncharge(index);
        self.forget_sizes();
    }

    /// Lets go of a size table that was taken away, once nothing is queued that it has charged.
    #[cold]
    fn forget_sizes(&mut self) {
        if self.is_empty() && self.stab().is_none() {
            self.sizes = None;
        }
    }

    /// What `dequeue` would give. If the qdisc can only tell by giving it, the packet is held here until it is
    /// asked for: it still counts as queued, and the qdisc is told (`Discipline::holding`).
    #[inline]
    pub fn peek(&mut self, cx: &mut Cx) -> Peek {
        if self.sizes.is_some() {
            return self.peek_sized(cx);
        }
        if self.held.is_empty() {
            let before = cx.dropped;
            let answer = self.qdisc.peek(cx);
            self.settle(before, cx);
            if let Some(answer) = answer {
                return answer;
            }
        }
        self.look(cx, |_, m| m.wire_len)
    }

    /// As `peek`, with a size table: those above see the packet's wire bytes.
    #[cold]
    #[inline(never)]
    fn peek_sized(&mut self, cx: &mut Cx) -> Peek {
        self.look(cx, Pool::wire_len)
    }

    #[inline(always)]
    fn look(&mut self, cx: &mut Cx, wire_len: impl Fn(&Pool, &Meta) -> u32) -> Peek {
        let ready = |m: &Meta, pool: &Pool| Peek::Ready { wire_len: wire_len(pool, m), segs: m.segs };
        if self.held.is_empty() {
            if let Some(m) = self.qdisc.head(&cx.pool) {
                return ready(m, &cx.pool);
            }
            match self.ask(cx) {
                Next::Packet(p) => self.hold(p, cx),
                Next::Empty => return Peek::Empty,
                Next::At(t, why) => return Peek::At(t, why),
            }
        }
        match self.held(&cx.pool) {
            Some(m) => ready(m, &cx.pool),
            None => Peek::Empty,
        }
    }

    fn hold(&mut self, p: Pkt, cx: &mut Cx) {
        let m = cx.pool.meta(&p);
        self.books.peeked.add(m.wire_len);
        self.books.peeked_segs += u64::from(m.segs);
        self.held.push_back(&mut cx.pool, p);
        self.qdisc.holding(true);
    }

    /// The held packet was taken out.
    fn let_go(&mut self, p: &Pkt, cx: &Cx) {
        let m = cx.pool.meta(p);
        self.books.peeked = self.books.peeked.since(Tally { packets: 1, bytes: u64::from(m.wire_len) });
        self.books.peeked_segs -= u64::from(m.segs);
        self.qdisc.holding(false);
    }

    /// The packet that the last peek took out of the qdisc, if it has not been asked for since.
    #[inline]
    pub fn held<'a>(&self, pool: &'a Pool) -> Option<&'a Meta> {
        self.held.front(pool)
    }

    /// Drops everything queued, here and below.
    pub fn purge(&mut self, cx: &mut Cx) {
        let before = (cx.dropped, cx.aside);
        if let Some(p) = self.held.pop_front(&cx.pool) {
            self.let_go(&p, cx);
            cx.drop(p, DropReason::Purged);
        }
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
        self.qdisc.drain(&mut own, &mut cx.pool);
        for class in self.qdisc.classes_mut() {
            class.node.drain(&mut own, cx);
        }
        if self.sizes.is_some() {
            own.uncharge(&mut cx.pool);
        }
        out.append(&mut cx.pool, &mut own);
        let out = core::mem::take(&mut self.books.queued);
        self.books.admitted = self.books.admitted.since(out);
        if self.sizes.is_some() {
            self.forget_sizes();
        }
    }

    /// Shows every packet that waits in this node itself, the held one first; `wire_len` is what it is charged here.
    pub fn queued(&self, pool: &Pool, f: &mut dyn FnMut(&Meta)) {
        self.held.metas(pool).for_each(&mut *f);
        self.qdisc.queued(pool, f);
    }

    /// Runs `f` on the qdisc and settles what it dropped.
    pub(crate) fn with<R>(&mut self, cx: &mut Cx, f: impl FnOnce(&mut dyn Qdisc, &mut Cx) -> R) -> R {
        let before = (cx.dropped, cx.aside);
        let outer = core::mem::replace(&mut cx.peeked, core::mem::take(&mut self.held));
        let r = f(&mut *self.qdisc, cx);
        self.held = core::mem::replace(&mut cx.peeked, outer);
        self.settle_all(before, cx);
        r
    }

    /// As `settle`; what was set aside below is forgotten, as if it had never been admitted.
    fn settle_all(&mut self, (dropped, aside): (Tally, Tally), cx: &mut Cx) {
        let aside = cx.aside.since(aside);
        self.books.queued = self.books.queued.since(aside);
        self.books.admitted = self.books.admitted.since(aside);
        self.settle(dropped, cx);
        if self.sizes.is_some() {
            self.settle_sizes(cx);
        }
    }

    /// Asks the qdisc and settles what it dropped and delayed.
    #[inline(always)]
    fn ask(&mut self, cx: &mut Cx) -> Next {
        let before = cx.dropped;
        let outer = cx.overlimits;
        let next = self.qdisc.dequeue(cx);
        self.settle_overlimits(outer, cx);
        self.settle(before, cx);
        next
    }

    /// Counts the overlimits since there were `outer`.
    #[inline(always)]
    fn settle_overlimits(&mut self, outer: u64, cx: &mut Cx) {
        if cx.overlimits != outer {
            // Those of the nodes below are taken off already: what is left is this node's own.
            self.books.overlimits += core::mem::replace(&mut cx.overlimits, outer) - outer;
        }
    }

    /// Takes what was dropped below since `before` off the backlog.
    #[inline(always)]
    fn settle(&mut self, before: Tally, cx: &mut Cx) {
        let d = cx.dropped.since(before);
        if d.packets != 0 {
            self.books.dropped.packets += d.packets;
            self.books.dropped.bytes += d.bytes;
            self.books.queued.packets -= d.packets;
            self.books.queued.bytes -= d.bytes;
            if self.sizes.is_some() {
                self.settle_sizes(cx);
            }
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
