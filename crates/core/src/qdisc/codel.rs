//! codel: one FIFO under the CoDel control law (RFC 8289): packets are dropped, or marked, at
//! dequeue when the queue has stood above `target` for an `interval` (tc-codel(8)). O(1) per
//! packet.
//!
//! - I1: never more than `limit` packets are queued.
//! - I2: order of arrival is order of departure.
//! - I3: a packet that waited less than `target` is never dropped or ECN-marked by the law.
//! - Differs from Linux (PARITY.md: codel-newton-range, codel-drop-next, direct-at-rest): the law's
//!   square root stays in range; the time of the next drop counts from the last dequeue; a packet
//!   bypasses the queue only when the law has no memory of earlier ones.

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::time::Nanos;
use crate::base::units::Packets;
use crate::law::codel::{CodelParams, CodelState, Decision, Head, Ticks};
use crate::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use crate::packet::reason::{DropReason, MarkReason};
use crate::packet::route::Candidate;
use crate::qdisc::fifo::trim;
use crate::qdisc::fq_codel::Selector;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::spec::{Flags, Style};
use crate::text::error::{ConfigError, ErrorKind, Object};

/// The standing delay that is acceptable on the Internet: 5 ms (RFC 8289 section 4.3).
pub const TARGET: Ticks = Ticks::span(Nanos::from_millis(5));
/// The time in which a sender there reacts: 100 ms (RFC 8289 section 4.3).
pub const INTERVAL: Ticks = Ticks::span(Nanos::from_millis(100));

crate::params! {
    /// Parameters of codel.
    pub struct Config(env) {
        /// Most packets that wait.
        limit: Packets = Packets(1000), keys ["limit"] @ u32 2;
        /// Standing delay that is acceptable.
        target: Ticks = TARGET, keys ["target"] @ us32 1;
        /// Delay at which every ECN-capable packet is CE-marked; off unless given.
        ce_threshold: Option<Ticks> = None, keys ["ce_threshold"] @ us32 5;
        /// Time over which the delay must stay above target: about the longest round trip.
        interval: Ticks = INTERVAL, keys ["interval"] @ us32 3, "1024ns to 137s": interval_in_range;
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = false, flags ["ecn" = true, "noecn" = false] @ u32 4;
    }
}

crate::stats! {
    /// Counters of codel.
    pub struct Stats {
        /// Drops and marks since dropping began.
        count: u32 [falls],
        /// `count` when dropping last began.
        lastcount: u32 [falls],
        /// Time that the last delivered packet waited, microseconds.
        ldelay: u64 [micros][falls],
        /// 1 while the law is dropping.
        dropping: bool [word],
        /// Time to the next drop, seen from the last dequeue, microseconds; 0 if it is due.
        drop_next: u64 [micros][falls],
        /// Largest packet seen, bytes.
        maxpacket: u32 [line] [falls] [of(Bytes)],
        /// Packets marked instead of dropped.
        ecn_mark: u64,
        /// Packets dropped at the limit.
        drop_overlimit: u64,
        /// Packets marked for `ce_threshold`.
        ce_mark: u64 [nonzero],
    }
}

/// True if the law can use this interval.
pub(super) fn interval_in_range(interval: &Ticks) -> bool {
    CodelParams::new(Nanos::ZERO, interval.as_nanos(), 0).is_ok()
}

/// Returns the law's parameters.
pub(super) fn law_params(
    kind: &'static str,
    [target, interval]: [Ticks; 2],
    ce_threshold: Option<Ticks>,
    ecn: bool,
    env: &Env,
) -> Result<CodelParams, ConfigError> {
    CodelParams::new(target.as_nanos(), interval.as_nanos(), env.frame_max())
        .map(|p| p.with_ecn(ecn).with_ce_threshold(ce_threshold.map(Ticks::as_nanos)))
        .map(|p| p.with_strict_linux(env.strict_linux))
        .map_err(|e| {
            ConfigError::new(
                ErrorKind::OutOfRange,
                Object::Kind(kind),
                "times that the law's clock can hold",
                e,
            )
        })
}

/// Takes packets until the law delivers one. `pop` returns the next one with the backlog that it
/// leaves behind. Packets that `selector` does not select carry no mark of the CE threshold. It
/// looks at a mark of the law too, as in the reference.
#[inline]
pub(super) fn next(
    law: &mut CodelState,
    params: &CodelParams,
    selector: Selector,
    cx: &mut Cx,
    mut pop: impl FnMut(&mut Cx) -> Option<(Pkt, u64)>,
) -> Option<Pkt> {
    let now = Ticks::at(cx.now);
    let mut bound = Bound::of(cx.pool.capacity() + 1);
    loop {
        bound.turn();
        let Some((p, backlog)) = pop(cx) else {
            law.on_empty();
            return None;
        };
        let m = cx.meta(&p);
        let waited = now.since(Ticks::at(m.enqueued));
        let head = Head::new(waited, backlog).with_ecn_capable(m.ecn.capable());
        match law.on_dequeue(params, &head, now) {
            Decision::Drop => cx.drop(p, DropReason::Congested),
            Decision::Deliver(marks) => {
                if marks.ecn {
                    cx.mark(&p, MarkReason::Congested);
                }
                if marks.ce_threshold && selector.selects(cx.meta(&p)) {
                    cx.mark(&p, MarkReason::CeThreshold);
                }
                return Some(p);
            }
        }
    }
}

/// A FIFO with CoDel.
#[derive(Debug)]
pub(crate) struct Codel {
    queue: Queue,
    law: CodelState,
    params: CodelParams,
    limit: u32,
    /// Packets that a peek has taken out of the queue: 0 or 1.
    held: u32,
    stats: Stats,
}

impl Discipline for Codel {
    const KIND: &'static str = "codel";
    const ABOUT: &'static str = "One FIFO whose standing delay is controlled (CoDel).";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const STYLE: Style = Style::BLANK;
    type Config = Config;
    type Rules = CodelParams;
    type Stats = Stats;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, env: &Env) -> Result<CodelParams, ConfigError> {
        law_params(Self::KIND, [cfg.target, cfg.interval], cfg.ce_threshold, cfg.ecn, env)
    }
    fn new(cfg: &Config, params: CodelParams, _env: &Env) -> Self {
        Self {
            queue: Queue::new(),
            law: CodelState::default(),
            params,
            limit: cfg.limit.0,
            held: 0,
            stats: Stats::default(),
        }
    }
    fn change(&mut self, cfg: &Config, params: CodelParams, _env: &Env, cx: &mut Cx) {
        self.params = params;
        self.limit = cfg.limit.0;
        if self.queue.packets() + self.held > self.limit && cx.purge_peeked() {
            self.held = 0;
        }
        trim(&mut self.queue, cx, |q| q.packets() + self.held > self.limit);
    }
    fn would_accept(&self, _m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.queue.packets() + self.held < self.limit { Verdict::Accept } else { Verdict::Full }
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        if self.queue.packets() + self.held < self.limit {
            self.queue.push_back(&mut cx.pool, p);
        } else {
            self.stats.drop_overlimit += 1;
            cx.drop(p, DropReason::Overlimit);
        }
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let (ecn, ce) = (cx.marks(MarkReason::Congested), cx.marks(MarkReason::CeThreshold));
        let (queue, maxpacket) = (&mut self.queue, &mut self.stats.maxpacket);
        let p = next(&mut self.law, &self.params, Selector::default(), cx, |cx| {
            let p = queue.pop_front(&cx.pool)?;
            *maxpacket = (*maxpacket).max(cx.meta(&p).wire_len);
            Some((p, queue.bytes()))
        });
        self.stats.ecn_mark += cx.marks(MarkReason::Congested) - ecn;
        self.stats.ce_mark += cx.marks(MarkReason::CeThreshold) - ce;
        let Some(p) = p else { return Next::Empty };
        let now = Ticks::at(cx.now);
        self.stats.ldelay = now.since(Ticks::at(cx.meta(&p).enqueued)).as_nanos().as_micros();
        let due = self.law.drop_next().since(now);
        self.stats.drop_next = if due.0 > u32::MAX / 2 { 0 } else { due.as_nanos().as_micros() };
        Next::Packet(p)
    }
    fn holding(&mut self, held: bool) {
        self.held = u32::from(held);
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.queue.evict_all(out, pool);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.queue.waiting(pool).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        self.law = CodelState::default();
    }
    fn transparent(&self, _wire_len: u32) -> bool {
        self.limit > 0 && self.law.at_rest()
    }
    fn stats(&self) -> Stats {
        let dropping = self.law.dropping();
        Stats {
            count: self.law.count(),
            lastcount: self.law.lastcount(),
            dropping,
            drop_next: if dropping { self.stats.drop_next } else { 0 },
            ..self.stats
        }
    }
}
