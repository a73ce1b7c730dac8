//! dualpi2: two queues coupled by one law (RFC 9332, tc-dualpi2(8)): a low-latency queue for
//! packets of scalable congestion controls (ECT(1) and CE), whose senders keep it below a
//! millisecond by marks alone, and a Classic queue for everything else. The PI2 law holds the
//! Classic delay near `target` with probability p'^2, and marks the other queue with k * p', so
//! that flows of both sorts get about the same rate. The low-latency queue goes first; the Classic
//! one has its share (`crate::law::turn`).
//!
//! O(1) per packet; an update of the law each `tupdate`, made up for when the qdisc is next called,
//! in at most 60 steps at the defaults (`crate::law::pi2`). Memory: 368 bytes, and two bits for
//! each packet that can wait (4 KiB for 16 384).
//!
//! - I1: never more than `limit` packets are queued in both queues together, nor more than
//!   `memlimit` bytes of memory.
//! - I2: order of arrival is order of departure within each queue. Packets of one flow whose ECN
//!   fields or classes put them in different queues may overtake one another.
//! - I3: while fewer than two full frames wait, nothing is marked or dropped by the probability.
//! - I4: the law is as if updated whenever an update is due, however rarely it is called.
//! - Differs from RFC 9332, as Linux does (PARITY.md: dualpi2-rfc): a step in place of the ramp; a
//!   coin in place of the recurrence; the limit in packets.
//! - Differs from Linux (PARITY.md: dualpi2-timer, dualpi2-idle-show, dualpi2-coin,
//!   dualpi2-gso-cut, dualpi2-shrink, dualpi2-classes, dualpi2-range, cake-memory).

mod config;
mod parts;

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::time::{Instant, Nanos};
use crate::law::pi2::{Pi2Params, Pi2State, Signal};
use crate::law::turn::Turn;
use crate::packet::meta::Ecn;
use crate::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use crate::packet::reason::{DropReason, MarkReason};
use crate::packet::route::Candidate;
use crate::qdisc::cake::memory;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::{Arrival, Cx};
use crate::sched::discipline::{Discipline, Filtered};
use crate::sched::spec::{Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind};

pub use config::{ALPHA, BETA, Config, MemoryLimit, STEP, Share, Stats, Step, TARGET, TUPDATE};
use parts::{Part, Parts};

/// The class whose packets join the low-latency queue.
const CLASS_L4S: u16 = 1;
/// The class whose packets join it and are spared: they are dropped only at the limit, and never
/// marked.
const CLASS_SPARED: u16 = 2;
/// Backlog, in full frames, below which there is no queue to control (RFC 9332 appendix A.1, "2
/// MTU").
const FRAMES_MIN: u64 = 2;

/// The Classic queue.
const C: usize = 0;
/// The low-latency queue.
const L: usize = 1;

/// Two coupled queues.
#[derive(Debug)]
pub(crate) struct Dualpi2 {
    queues: [Queue; 2],
    /// Arrival of the oldest packet of each queue that has one.
    oldest: [Instant; 2],
    /// Treatment of the packets of the low-latency queue.
    parts: Parts,
    law: Pi2State,
    rules: Rules,
    turn: Turn,
    /// Time at which the next update is due.
    next: Instant,
    memory: u64,
    /// Bytes of a packet that a peek has taken out and that still waits: it counts towards limit
    /// and backlog.
    held: Option<u32>,
    /// Bytes of the packet that left last.
    given: u32,
    /// Wait of the oldest packet of each queue when a packet last came or left.
    waits: [Nanos; 2],
    stats: Stats,
}

/// The parameters in the form that the data path reads.
#[derive(Debug)]
struct Rules {
    law: Pi2Params,
    limit: u32,
    memory: u64,
    step: Step,
    min_qlen_step: u32,
    at_enqueue: bool,
    any_ect: bool,
    split_gso: bool,
    protection: u32,
    /// Bytes of two full frames.
    backlog_min: u64,
}

impl Rules {
    fn of(cfg: &Config, env: &Env) -> Self {
        Self {
            law: Pi2Params {
                target: cfg.target,
                tupdate: cfg.tupdate,
                alpha: cfg.alpha,
                beta: cfg.beta,
                coupling: cfg.coupling_factor,
                drops_on_overload: cfg.drop_on_overload,
            },
            limit: cfg.limit.0,
            memory: cfg.memlimit.bytes().0,
            step: cfg.step_thresh,
            min_qlen_step: cfg.min_qlen_step.0,
            at_enqueue: cfg.drop_enqueue,
            any_ect: cfg.any_ect,
            split_gso: cfg.split_gso,
            protection: cfg.classic_protection.0,
            backlog_min: FRAMES_MIN * u64::from(env.frame_max()),
        }
    }
    /// True if a packet joins the low-latency queue because of its ECN field (RFC 9331 section
    /// 5.1).
    #[inline]
    fn is_l4s(&self, ecn: Ecn) -> bool {
        matches!(ecn, Ecn::Ect1 | Ecn::Ce) || self.any_ect && ecn == Ecn::Ect0
    }
}

/// Returns the most packets that the low-latency queue can have.
fn room(cfg: &Config, env: &Env) -> u32 {
    cfg.limit.0.min(env.packets)
}

impl Discipline for Dualpi2 {
    const KIND: &'static str = "dualpi2";
    const ABOUT: &'static str =
        "A queue for low-latency traffic beside a Classic one, coupled by one law (L4S, DualQ PI2).";
    const FLAGS: Flags = Flags { shapes: false, reorders: true };
    const STYLE: Style = Style::BLANK;
    const FILTERS: Filtered = Filtered::Qdisc;
    const TAKES_CLASS: bool = true;
    // The kernel refuses values below a range; tc refuses values above it, and contradictions.
    const REFUSED_BY: RefusedBy = |err, words| match (err.kind, err.key.as_deref()) {
        (_, Some("alpha" | "beta" | "coupling_factor"))
            if err.word.and_then(|at| words.get(at)) == Some(&"0") =>
        {
            None
        }
        (ErrorKind::OutOfRange | ErrorKind::Conflict, _) => Some(Refuser::Tool),
        _ => None,
    };
    // A note for each packet that can wait in its parts: a quarter of a byte.
    const TABLES: fn(&Config, &Env) -> u64 = |cfg, env| 512 + u64::from(room(cfg, env)) / 2;
    type Config = Config;
    type Rules = ();
    type Stats = Stats;

    fn resolve(cfg: &mut Config, old: Option<&Config>, env: &Env) -> Result<(), ConfigError> {
        config::resolve(cfg, old, env)
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        Self {
            queues: [Queue::new(), Queue::new()],
            oldest: [Instant::ZERO; 2],
            parts: Parts::with_room(room(cfg, env)),
            law: Pi2State::default(),
            rules: Rules::of(cfg, env),
            turn: Turn::new(cfg.classic_protection.0, env.frame_max()),
            next: Instant::ZERO + cfg.tupdate,
            memory: 0,
            held: None,
            given: 0,
            waits: [Nanos::ZERO; 2],
            stats: Stats::default(),
        }
    }
    fn start(&mut self, now: Instant) {
        self.next = now + self.rules.law.tupdate;
    }
    fn change(&mut self, cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        self.catch_up(cx.now);
        let old = core::mem::replace(&mut self.rules, Rules::of(cfg, env));
        if old.protection != self.rules.protection {
            self.turn = Turn::new(self.rules.protection, env.frame_max());
        }
        self.parts.reserve(room(cfg, env));
        if cx.swapping() && old.any_ect != self.rules.any_ect {
            // Packets of a flow would wait in both queues: the swap queues all of them anew.
            self.trim(cx, |_| true);
        }
        if self.waiting() > self.rules.limit && cx.purge_peeked() {
            self.held = None;
        }
        self.trim(cx, |q| q.waiting() > q.rules.limit || q.memory > q.rules.memory);
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.waiting() >= self.rules.limit {
            // Checked first: a sender that can wait should, also one of a packet to be cut.
            Verdict::Full
        } else if m.segs > 1 && self.rules.split_gso {
            Verdict::cut_into_segments(m)
        } else if self.memory + memory::of(m) > self.rules.memory {
            Verdict::Full
        } else {
            Verdict::Accept
        }
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        self.catch_up(cx.now);
        let m = cx.meta(&p);
        let (room, came, ecn) = (memory::of(m), m.enqueued, m.ecn);
        let waiting = self.waiting();
        if waiting >= self.rules.limit || self.memory + room > self.rules.memory {
            cx.overlimit();
            return cx.drop(p, DropReason::Overlimit);
        }
        let part = self.part_of(ecn, class);
        // The fate of a packet that waited in another tree was decided there.
        if self.rules.at_enqueue && cx.arrival() != Arrival::Again && self.signals(&p, part, cx) {
            return cx.drop(p, DropReason::Congested);
        }
        self.memory += room;
        self.stats.max_memory_used = self.stats.max_memory_used.max(self.memory);
        self.stats.maxq = self.stats.maxq.max(waiting);
        let to = match part {
            None => {
                self.stats.pkts_in_c += 1;
                C
            }
            Some(part) => {
                self.stats.pkts_in_l += 1;
                self.parts.push(part);
                L
            }
        };
        if self.queues[to].is_empty() {
            self.oldest[to] = came;
        }
        self.queues[to].push_back(&mut cx.pool, p);
        self.tell(cx.now);
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        self.catch_up(cx.now);
        // Each turn takes a packet.
        let mut bound = Bound::of(self.waiting() as usize + 1);
        loop {
            bound.turn();
            let Some(from) = self.choose() else {
                self.turn.restart();
                self.tell(cx.now);
                return Next::Empty;
            };
            let contended = !self.queues[1 - from].is_empty();
            let Some((p, part)) = self.take(from, cx) else { return Next::Empty };
            let dropped = !self.rules.at_enqueue && self.signals(&p, part, cx)
                || part == Some(Part::Stepped) && self.steps(&p, cx);
            if dropped {
                cx.drop(p, DropReason::Congested);
                continue;
            }
            self.given = cx.meta(&p).wire_len;
            if contended {
                self.turn.sent(self.given);
            }
            self.tell(cx.now);
            return Next::Packet(p);
        }
    }
    fn holding(&mut self, held: bool) {
        self.held = held.then_some(self.given);
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        for queue in &mut self.queues {
            queue.evict_all(out, pool);
        }
        self.parts.clear();
        self.memory = 0;
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.queues.iter().flat_map(|q| q.waiting(pool)).for_each(f);
    }
    fn reset(&mut self, cx: &mut Cx) {
        self.catch_up(cx.now);
        self.law = Pi2State::default();
        self.turn.restart();
    }
    fn stats(&self) -> Stats {
        let [delay_c, delay_l] = self.waits.map(Nanos::as_micros);
        let credit = self.turn.credit();
        Stats {
            prob: self.law.prob(),
            delay_c,
            delay_l,
            credit_c: u64::try_from(credit).unwrap_or(0),
            credit_l: u64::try_from(-credit).unwrap_or(0),
            memory_used: self.memory,
            memory_limit: self.rules.memory,
            ..self.stats
        }
    }
}

impl Dualpi2 {
    /// Makes the updates that are due.
    #[inline]
    fn catch_up(&mut self, now: Instant) {
        if now >= self.next {
            self.update_until(now);
        }
    }

    /// Does the work of `catch_up` with at least one update due. The present packets waited at
    /// each.
    #[cold]
    fn update_until(&mut self, now: Instant) {
        let every = self.rules.law.tupdate.0.max(1);
        let more = now.saturating_since(self.next).0 / every;
        // The greater of the two delays is that of the packet that came first.
        let oldest = [C, L].into_iter().filter(|q| !self.queues[*q].is_empty()).map(|q| self.oldest[q]).min();
        let first = oldest.map(|came| self.next.saturating_since(came));
        self.law.catch_up(&self.rules.law, first, more.saturating_add(1));
        self.next = self.next + Nanos(every) + Nanos(more.saturating_mul(every));
    }

    /// Notes the waits that `delay_c` and `delay_l` print.
    #[inline]
    fn tell(&mut self, now: Instant) {
        for q in [C, L] {
            let waits = !self.queues[q].is_empty();
            self.waits[q] = if waits { now.saturating_since(self.oldest[q]) } else { Nanos::ZERO };
        }
    }

    /// Returns the treatment of a packet with this ECN field and class: `None` in the Classic
    /// queue, else its part in the low-latency queue.
    #[inline]
    fn part_of(&self, ecn: Ecn, class: Option<ClassId>) -> Option<Part> {
        let class = class.map_or(0, ClassId::minor);
        if !self.rules.is_l4s(ecn) && class != CLASS_L4S {
            return (class == CLASS_SPARED).then_some(Part::Spared);
        }
        let long = self.queues[L].packets() >= self.rules.min_qlen_step;
        Some(if long { Part::Stepped } else { Part::Coupled })
    }

    /// Returns the queue of the next packet; `None` if no packet waits.
    #[inline]
    fn choose(&self) -> Option<usize> {
        match [C, L].map(|q| self.queues[q].is_empty()) {
            [true, true] => None,
            [true, false] => Some(L),
            [false, true] => Some(C),
            [false, false] => Some(if self.turn.is_second() { C } else { L }),
        }
    }

    /// Takes the oldest packet of a queue. Inlined also where the compiler would call it: a call
    /// costs 20 instructions a packet.
    #[inline(always)]
    fn take(&mut self, from: usize, cx: &Cx) -> Option<(Pkt, Option<Part>)> {
        let p = self.queues[from].pop_front(&cx.pool)?;
        self.memory -= memory::of(cx.meta(&p));
        if let Some(m) = self.queues[from].front(&cx.pool) {
            self.oldest[from] = m.enqueued;
        }
        Some((p, (from == L).then(|| self.parts.pop())))
    }

    /// Lets the probability decide on a packet, and marks it; returns true if it is to be dropped.
    #[inline]
    fn signals(&mut self, p: &Pkt, part: Option<Part>, cx: &mut Cx) -> bool {
        if self.backlog() < self.rules.backlog_min || part == Some(Part::Spared) {
            return false;
        }
        let Cx { pool, rng, .. } = cx;
        let capable = pool.meta(p).ecn.capable();
        // The coin is the upper half of the random number.
        let coin = || (rng.next_u64() >> 32) as u32;
        let signal = match part {
            None => self.law.classic(&self.rules.law, capable, coin),
            Some(_) => self.law.scalable(&self.rules.law, capable, coin),
        };
        if signal == Signal::Mark && cx.mark(p, MarkReason::Congested) {
            self.stats.ecn_mark += 1;
        }
        signal == Signal::Drop
    }

    /// Compares a packet that leaves the low-latency queue with the step threshold, and marks it if
    /// it is above; returns true if it cannot be marked and is to be dropped.
    #[inline]
    fn steps(&mut self, p: &Pkt, cx: &mut Cx) -> bool {
        let above = match self.rules.step {
            Step::Time(most) => cx.now.saturating_since(cx.meta(p).enqueued) > most,
            Step::Packets(most) => self.queues[L].packets() > most,
        };
        if !above {
            return false;
        }
        let marked = cx.mark(p, MarkReason::CeThreshold);
        self.stats.ecn_mark += u64::from(marked);
        self.stats.step_marks += u64::from(marked);
        !marked
    }

    /// Drops the oldest packet, while `over` returns true: the Classic queue's packets first, as in
    /// Linux, so that the low-latency queue loses none where that is enough.
    fn trim(&mut self, cx: &mut Cx, over: impl Fn(&Self) -> bool) {
        let mut bound = Bound::of(self.waiting() as usize + 1);
        while over(self) {
            bound.turn();
            let from = if self.queues[C].is_empty() { L } else { C };
            let Some((p, _)) = self.take(from, cx) else { return };
            cx.drop(p, DropReason::Purged);
        }
    }

    #[inline]
    const fn waiting(&self) -> u32 {
        self.queues[C].packets() + self.queues[L].packets() + self.held.is_some() as u32
    }

    #[inline]
    fn backlog(&self) -> u64 {
        self.queues[C].bytes() + self.queues[L].bytes() + u64::from(self.held.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_of_queues_is_as_small_as_it_says() {
        assert!(size_of::<Dualpi2>() <= 368, "{}", size_of::<Dualpi2>());
    }
}
