//! pfifo, bfifo and pfifo_head_drop: one queue, first in first out, bounded in packets or bytes.
//!
//! A full pfifo or bfifo drops the arriving packet; a full pfifo_head_drop drops its oldest one
//! instead, so that the delivered packets are fresh (tc-pfifo(8), tc-bfifo(8)). O(1) per packet, no
//! memory beyond the packets.
//!
//! - I1: never more than `limit` packets (bytes) are queued.
//! - I2: order of arrival is order of departure.
//! - Differs from Linux (PARITY.md: fifo-shrink): a smaller limit is obeyed at once, by dropping
//!   the oldest.

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::units::{Bytes, Packets};
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use crate::packet::reason::DropReason;
use crate::packet::route::Candidate;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::erased::Erased;
use crate::sched::spec::{Flags, RefusedBy, Refuser};
use crate::text::error::{ConfigError, ErrorKind};

crate::params! {
    /// Parameters of pfifo and pfifo_head_drop.
    pub struct PacketLimit(env) {
        /// Most packets that wait; the default is the device's transmit queue length.
        limit: Packets = Packets(env.tx_queue_len), keys ["limit"];
    }
}

crate::params! {
    /// Parameters of bfifo.
    pub struct ByteLimit(env) {
        /// Most bytes that wait; the default is the transmit queue length in full frames.
        limit: Bytes = Bytes(u64::from(env.tx_queue_len) * u64::from(env.frame_max())), keys ["limit"],
            "at most 4294967295 bytes": |l| l.0 <= u64::from(u32::MAX);
    }
}

crate::stats! {
    /// The FIFO kinds have no counters of their own.
    pub struct NoStats {}
}

/// A FIFO bounded in packets. When it is full it drops the arriving packet, or with `HEAD_DROP` its
/// oldest.
#[derive(Debug)]
pub struct PacketFifo<const HEAD_DROP: bool> {
    queue: Queue,
    limit: u32,
}

/// A FIFO bounded in packets.
pub type Pfifo = PacketFifo<false>;

/// A FIFO bounded in packets that drops its oldest packet to take a new one.
pub(crate) type PfifoHeadDrop = PacketFifo<true>;

/// A FIFO bounded in bytes.
#[derive(Debug)]
pub(crate) struct Bfifo {
    queue: Queue,
    limit: u64,
}

/// Returns the qdisc that a new class starts with.
pub(crate) fn default_pfifo(env: &Env) -> Erased<Pfifo> {
    use crate::text::params::Params;
    Erased::plain(PacketLimit::defaults(env), env)
}

impl<const HEAD_DROP: bool> Discipline for PacketFifo<HEAD_DROP> {
    const KIND: &'static str = if HEAD_DROP { "pfifo_head_drop" } else { "pfifo" };
    const ABOUT: &'static str = match HEAD_DROP {
        true => "First in first out, bounded in packets, drops the oldest packet when full.",
        false => "First in first out, bounded in packets.",
    };
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const QUIET: bool = true;
    type Config = PacketLimit;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(_cfg: &mut PacketLimit, _old: Option<&PacketLimit>, _env: &Env) -> Result<(), ConfigError> {
        Ok(())
    }
    fn new(cfg: &PacketLimit, (): (), _env: &Env) -> Self {
        Self { queue: Queue::new(), limit: cfg.limit.0 }
    }
    fn change(&mut self, cfg: &PacketLimit, (): (), _env: &Env, cx: &mut Cx) {
        self.limit = cfg.limit.0;
        trim(&mut self.queue, cx, |q| q.packets() > self.limit);
    }
    fn would_accept(&self, _m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.queue.packets() < self.limit { Verdict::Accept } else { Verdict::Full }
    }
    #[inline]
    fn enqueue_quietly(&mut self, p: Pkt, _class: Option<ClassId>, pool: &mut Pool) -> Option<Pkt> {
        if self.queue.packets() >= self.limit {
            return Some(p);
        }
        self.queue.push_back(pool, p);
        None
    }
    fn expect(&self, _m: &Meta, _class: Option<ClassId>, _step: u32, pool: &Pool) -> bool {
        self.queue.ask_last(pool);
        false
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let Some(p) = self.enqueue_quietly(p, class, &mut cx.pool) else { return };
        let oldest = if HEAD_DROP { self.queue.pop_front(&cx.pool) } else { None };
        let Some(oldest) = oldest else { return cx.drop(p, DropReason::Overlimit) };
        cx.drop(oldest, DropReason::HeadDrop);
        self.queue.push_back(&mut cx.pool, p);
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        self.queue.pop_front(&cx.pool).map_or(Next::Empty, Next::Packet)
    }
    fn head<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>> {
        self.queue.first(pool)
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.queue.evict_all(out, pool);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.queue.waiting(pool).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {}
    fn transparent(&self, _wire_len: u32) -> bool {
        self.limit > 0
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Discipline for Bfifo {
    const KIND: &'static str = "bfifo";
    const ABOUT: &'static str = "First in first out, bounded in bytes.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const QUIET: bool = true;
    // tc reads a size as 32 bits.
    const REFUSED_BY: RefusedBy = |err, _| match (err.kind, err.key.as_deref()) {
        (ErrorKind::OutOfRange, _) => Some(Refuser::Tool),
        _ => None,
    };
    type Config = ByteLimit;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(_cfg: &mut ByteLimit, _old: Option<&ByteLimit>, _env: &Env) -> Result<(), ConfigError> {
        Ok(())
    }
    fn new(cfg: &ByteLimit, (): (), _env: &Env) -> Self {
        Self { queue: Queue::new(), limit: cfg.limit.0 }
    }
    fn change(&mut self, cfg: &ByteLimit, (): (), _env: &Env, cx: &mut Cx) {
        self.limit = cfg.limit.0;
        trim(&mut self.queue, cx, |q| q.bytes() > self.limit);
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.fits(m.wire_len) { Verdict::Accept } else { Verdict::Full }
    }
    #[inline]
    fn enqueue_quietly(&mut self, p: Pkt, _class: Option<ClassId>, pool: &mut Pool) -> Option<Pkt> {
        if !self.fits(pool.meta(&p).wire_len) {
            return Some(p);
        }
        self.queue.push_back(pool, p);
        None
    }
    fn expect(&self, _m: &Meta, _class: Option<ClassId>, _step: u32, pool: &Pool) -> bool {
        self.queue.ask_last(pool);
        false
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        if let Some(p) = self.enqueue_quietly(p, class, &mut cx.pool) {
            cx.drop(p, DropReason::Overlimit);
        }
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        self.queue.pop_front(&cx.pool).map_or(Next::Empty, Next::Packet)
    }
    fn head<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>> {
        self.queue.first(pool)
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.queue.evict_all(out, pool);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.queue.waiting(pool).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {}
    fn transparent(&self, wire_len: u32) -> bool {
        self.fits(wire_len)
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Bfifo {
    fn fits(&self, wire_len: u32) -> bool {
        self.queue.bytes() + u64::from(wire_len) <= self.limit
    }
}

/// Drops from the head while `over` returns true.
pub(super) fn trim(queue: &mut Queue, cx: &mut Cx, over: impl Fn(&Queue) -> bool) {
    let mut bound = Bound::of(queue.packets() as usize + 1);
    while over(queue) {
        bound.turn();
        let Some(p) = queue.pop_front(&cx.pool) else { return };
        cx.drop(p, DropReason::Purged);
    }
}
