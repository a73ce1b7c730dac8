//! hhf: two queues, one for the few flows that send much and one for all others, which goes first
//! in bursts and has the larger share (tc-hhf(8); T. Lam, "hhf: Heavy-Hitter Filter", 2013). The
//! law that finds the flows is `law/heavy.rs`.
//!
//! O(1) per packet, as long as few heavy hitters share a chain of the table. Memory: 20 KiB, and 24
//! bytes for each flow of `hh_limit`, taken at creation or by a change.
//!
//! - I1: never more than `limit` packets are queued.
//! - I2: a full queue drops its oldest packet of a heavy hitter, of another flow only if there is
//!   none.
//! - I3: the two queues get bytes as `quantum` and `quantum * non_hh_weight`, except for a burst of
//!   the others, which goes first.
//! - Differs from Linux (PARITY.md: hhf-parent-backlog, hhf-range, hhf-shrink, hhf-reset,
//!   zero-options, flow-hash): packets that a smaller limit drops are counted.

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::time::{Instant, Nanos};
use crate::base::units::{Bytes, Packets};
use crate::law::heavy::{Heavy, Thresholds};
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::DropReason;
use crate::packet::route::Candidate;
use crate::qdisc::pie::whole_ticks;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::spec::{Flags, Style};
use crate::text::error::{ConfigError, ErrorKind, Object};

crate::params! {
    /// Parameters of hhf.
    pub struct Config(env) {
        /// Most packets that wait.
        limit: Packets = Packets(1000), keys ["limit"] @ u32 1;
        /// Bytes that the queue of heavy hitters may send in a turn.
        quantum: Bytes = Bytes(env.frame_max().into()), keys ["quantum"] @ u32 2, "at most 2147483647 bytes": |b| b.0 <= MOST;
        /// Most heavy hitters at a time; a flow beyond them is treated as all others.
        hh_limit: u32 = 2048, keys ["hh_limit"] @ u32 3, "at most 1048576": |n| *n <= 1 << 20;
        /// Time after which the counters of bytes are cleared.
        reset_timeout: Nanos = Nanos::from_millis(40), keys ["reset_timeout"] @ us32 4;
        /// Bytes between two clearings beyond which a flow is a heavy hitter.
        admit_bytes: Bytes = Bytes(128 << 10), keys ["admit_bytes"] @ u32 5, "at most 4294967295 bytes": in_u32;
        /// Time without a packet after which a heavy hitter is none.
        evict_timeout: Nanos = Nanos::from_secs(1), keys ["evict_timeout"] @ us32 6;
        /// Share of the other flows: times the quantum of heavy hitters.
        non_hh_weight: u32 = 2, keys ["non_hh_weight"] @ u32 7;
    }
}

fn in_u32(bytes: &Bytes) -> bool {
    bytes.0 <= u64::from(u32::MAX)
}

/// Most bytes of a turn.
const MOST: u64 = i32::MAX as u64;
/// Length of a tick of the timeouts.
const TICK: u64 = 1_000_000;

crate::stats! {
    /// Counters of hhf.
    pub struct Stats {
        /// Packets dropped because the limit was exceeded.
        drop_overlimit: u32,
        /// Flows that were to be heavy hitters and found no place.
        hh_overlimit: u32,
        /// Flows that have been found to be heavy hitters.
        tot_hh: u32,
        /// Heavy hitters in the table now.
        cur_hh: u32 [falls],
    }
}

/// Turns of one decision: of the new queue to the old ones, two that pay off what is left of debts,
/// and of each queue that is empty.
const TURNS_MAX: usize = 16;
/// Index of the queue of heavy hitters, which turns by one quantum.
const HEAVY: usize = 0;
/// Index of the queue of all other flows.
const OTHERS: usize = 1;

/// A queue and its credit.
#[derive(Debug, Default)]
struct Bucket {
    packets: List,
    deficit: i64,
    quantum: i64,
}

/// Heavy hitters apart from all other flows.
#[derive(Debug)]
pub struct Hhf {
    buckets: [Bucket; 2],
    /// True while the queue of others has its turn before the other.
    is_new: bool,
    /// The queues whose turn comes, in order, without that one.
    old: [Option<usize>; 2],
    law: Heavy,
    packets: u32,
    /// Packets that a peek has taken out and that still wait, 0 or 1.
    held: u32,
    limit: u32,
    drops: u32,
}

const fn tick(t: Instant) -> u64 {
    t.0 / TICK
}

fn thresholds(cfg: &Config) -> Thresholds {
    Thresholds {
        // The range is declared.
        bytes: u32::try_from(cfg.admit_bytes.0).unwrap_or(u32::MAX),
        clear: cfg.reset_timeout.0 / TICK,
        forget: cfg.evict_timeout.0 / TICK,
        flows: cfg.hh_limit,
    }
}

impl Discipline for Hhf {
    const KIND: &'static str = "hhf";
    const ABOUT: &'static str = "Two queues: flows that send much, and all others, which go first in bursts.";
    const FLAGS: Flags = Flags { shapes: false, reorders: true };
    const STYLE: Style = Style::BLANK;
    const TABLES: fn(&Config, &Env) -> u64 =
        |cfg, _| Heavy::BYTES.0 + u64::from(cfg.hh_limit) * Heavy::BYTES.1;
    type Config = Config;
    type Rules = ();
    type Stats = Stats;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        let turn = cfg.quantum.0.saturating_mul(cfg.non_hh_weight.into());
        if turn == 0 || turn > MOST {
            let expected = "1 to 2147483647 bytes for quantum times non_hh_weight";
            let err = ConfigError::new(ErrorKind::Conflict, Object::Kind(Self::KIND), expected, turn);
            return Err(err.key("quantum"));
        }
        cfg.reset_timeout = whole_ticks(cfg.reset_timeout);
        cfg.evict_timeout = whole_ticks(cfg.evict_timeout);
        Ok(())
    }
    fn new(cfg: &Config, (): (), _env: &Env) -> Self {
        let mut hhf = Self {
            buckets: [Bucket::default(), Bucket::default()],
            is_new: false,
            old: [None; 2],
            law: Heavy::new(thresholds(cfg), 0),
            packets: 0,
            held: 0,
            limit: cfg.limit.0,
            drops: 0,
        };
        hhf.set(cfg);
        hhf
    }
    fn start(&mut self, now: Instant) {
        self.law.reset(tick(now));
    }
    fn change(&mut self, cfg: &Config, (): (), _env: &Env, cx: &mut Cx) {
        self.law.set(thresholds(cfg));
        self.set(cfg);
        if self.packets + self.held > self.limit && cx.purge_peeked() {
            self.held = 0;
        }
        let mut bound = Bound::of(self.packets as usize + 1);
        while self.packets + self.held > self.limit {
            bound.turn();
            let Next::Packet(p) = self.dequeue(cx) else { return };
            cx.drop(p, DropReason::Purged);
        }
    }
    fn would_accept(&self, _m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.packets + self.held < self.limit { Verdict::Accept } else { Verdict::Full }
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        let m = cx.meta(&p);
        let at = if self.law.count(m.hash, m.wire_len, tick(cx.now)) { HEAVY } else { OTHERS };
        self.buckets[at].packets.push_back(&mut cx.pool, p);
        self.packets += 1;
        if !self.is_listed(at) {
            let bucket = &mut self.buckets[at];
            bucket.deficit = bucket.quantum;
            if at == OTHERS {
                self.is_new = true;
            } else {
                self.append(at);
            }
        }
        if self.packets + self.held > self.limit {
            self.drops = self.drops.wrapping_add(1);
            let from = if self.buckets[HEAVY].packets.is_empty() { OTHERS } else { HEAVY };
            if let Some(p) = self.buckets[from].packets.pop_front(&cx.pool) {
                self.packets -= 1;
                cx.drop(p, DropReason::HeadDrop);
            }
        }
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let mut bound = Bound::of(TURNS_MAX);
        loop {
            let Some(at) = (if self.is_new { Some(OTHERS) } else { self.old[0] }) else { return Next::Empty };
            let bucket = &mut self.buckets[at];
            if bucket.deficit <= 0 {
                self.pass_rounds();
                let bucket = &mut self.buckets[at];
                bucket.deficit += bucket.quantum;
                self.put_back(at);
                bound.turn();
                continue;
            }
            if let Some(p) = bucket.packets.pop_front(&cx.pool) {
                self.packets -= 1;
                bucket.deficit -= i64::from(cx.meta(&p).wire_len);
                return Next::Packet(p);
            }
            // An empty queue that was new passes through the old ones once, so that these do not
            // starve.
            if self.is_new && self.old[0].is_some() {
                self.put_back(at);
            } else {
                self.unlist(at);
            }
            bound.turn();
        }
    }
    fn holding(&mut self, held: bool) {
        self.held = u32::from(held);
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        for at in [OTHERS, HEAVY] {
            out.append(pool, &mut self.buckets[at].packets);
        }
        self.packets = 0;
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        [OTHERS, HEAVY].into_iter().flat_map(|at| self.buckets[at].packets.waiting(pool)).for_each(f);
    }
    fn reset(&mut self, cx: &mut Cx) {
        (self.is_new, self.old) = (false, [None; 2]);
        self.law.reset(tick(cx.now));
    }
    fn stats(&self) -> Stats {
        let (cur_hh, tot_hh, hh_overlimit) = self.law.counts();
        Stats { drop_overlimit: self.drops, hh_overlimit, tot_hh, cur_hh }
    }
}

impl Hhf {
    /// Applies parameters.
    fn set(&mut self, cfg: &Config) {
        self.limit = cfg.limit.0;
        // `resolve` has checked the product.
        let quantum = i64::try_from(cfg.quantum.0).unwrap_or(i64::MAX);
        self.buckets[HEAVY].quantum = quantum;
        self.buckets[OTHERS].quantum = quantum.saturating_mul(cfg.non_hh_weight.into());
    }
    fn is_listed(&self, at: usize) -> bool {
        self.is_new && at == OTHERS || self.old.contains(&Some(at))
    }
    fn append(&mut self, at: usize) {
        let place = usize::from(self.old[0].is_some());
        self.old[place] = Some(at);
    }
    fn unlist(&mut self, at: usize) {
        if self.is_new && at == OTHERS {
            self.is_new = false;
        } else if self.old[0] == Some(at) {
            self.old = [self.old[1], None];
        } else {
            self.old[1] = None;
        }
    }
    fn put_back(&mut self, at: usize) {
        self.unlist(at);
        self.append(at);
    }
    /// Adds the quanta of all rounds in which each old queue stays in debt: these are long where a
    /// quantum is small and a packet large.
    fn pass_rounds(&mut self) {
        if self.is_new {
            return;
        }
        let in_debt = |b: &Bucket| if b.deficit > 0 { 0 } else { -b.deficit / b.quantum };
        let rounds = self.old.iter().flatten().map(|at| in_debt(&self.buckets[*at])).min().unwrap_or(0);
        for at in self.old.into_iter().flatten() {
            self.buckets[at].deficit += rounds * self.buckets[at].quantum;
        }
    }
}
