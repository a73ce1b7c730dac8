//! sfq: packets are hashed into flows that take turns by deficit round robin; when too many packets
//! wait, the longest flow loses one (McKenney, "Stochastic Fairness Queueing", INFOCOM 1990;
//! Shreedhar and Varghese, SIGCOMM 1995; tc-sfq(8)).
//!
//! A packet's bucket is the class that it names, or its hash; a bucket in use has one of `flows`
//! slots. The slots are threaded on a ring of turns, and on one list for each length that a flow
//! may have, so that the longest is at hand: O(1) per packet. Memory, all taken at creation: 48
//! bytes per flow, as many again with RED, and 8 per bucket: 14 KiB by default, 3.6 MB at most, 6.8
//! MB with RED; nothing per packet.
//!
//! - I1: never more than `limit` packets are queued, nor more than `depth` of one flow, nor more
//!   than `flows` flows.
//! - I2: packets of one flow leave in order of arrival, also when its bucket changes (`perturb`).
//! - I3: between two turns of a flow every other flow that waits has one; a turn sends at most
//!   `quantum` bytes plus one packet.
//! - I4: an arrival at `limit` drops one packet, of a flow than which none is longer.
//! - Differs from Linux (PARITY.md: sfq-same-change, sfq-perturb, sfq-class-buckets,
//!   sfq-probability, flow-hash): options that repeat the present ones change nothing and are no
//!   error; flows find their new buckets when a packet is next asked for; flows that a class names
//!   have buckets of their own, where they stay; the hash is keyed by a seed.

mod flows;
mod red;

use alloc::format;
use core::fmt;

use crate::base::bound::Bound;
use crate::base::chance::Probability;
use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::tally::Tally;
use crate::base::time::{Instant, Nanos};
use crate::base::units::{Bytes, Packets};
use crate::law::red::RedAction;
use crate::packet::hash::reciprocal_scale;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::{DropReason, MarkReason};
use crate::packet::route::{Candidate, Classified, FilterOutcome};
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{self, FlowShown};
use crate::sched::cx::Cx;
use crate::sched::discipline::{Discipline, Filtered};
use crate::sched::spec::{Capacity, Flags, RefusedBy, Refuser, Style, Unset};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::value::{Json, Refusal, Show, Value, Words};
use flows::Flows;
use red::Red;

fn up_to_1_mb(b: &Bytes) -> bool {
    (1..=1 << 20).contains(&b.0)
}

crate::params! {
    /// Parameters of sfq. None can change while it runs.
    pub struct Config(env) {
        /// Most packets that wait, in all flows together: 127 by default, never more than `depth` x
        /// `flows`.
        limit: Option<Packets> = None, keys ["limit"], "at least 2 packets": |l| l.is_none_or(|l| l.0 >= 2);
        /// Bytes that a flow may send per turn; the default is one full frame, and the least 256.
        quantum: Bytes = Bytes(u64::from(env.frame_max())), keys ["quantum"], "1 to 1048576 bytes": up_to_1_mb;
        /// Most packets that wait in one flow, never more than 127.
        depth: u32 = DEPTH_MAX, keys ["depth"], "at least 1 packet": |d| *d > 0;
        /// Drop the oldest packet of a flow and not its newest.
        headdrop: bool = false, flags ["headdrop" = true];
        /// Most flows at a time; at most 65408, `divisor` and, if it is given, `limit`.
        flows: u32 = 128, keys ["flows"], "at least 1": |f| *f > 0;
        /// Number of buckets that packets are hashed into.
        divisor: u32 = 1024, keys ["divisor"], "a power of two from 1 to 65536": |d| d.is_power_of_two() && *d <= 1 << 16;
        /// Time after which flows get other buckets, so that two flows do not share one for ever.
        perturb: Seconds = Seconds(0), keys ["perturb"], "0 to 2147483 seconds": |s| (0..=PERTURB_MAX).contains(&s.0);
        /// Puts each flow under RED; the default of `max` is derived from it, in bytes.
        redflowlimit: Option<Bytes> = None, keys ["redflowlimit"], "1 to 4294967295 bytes": |b| b.as_ref().is_none_or(in_u32);
        /// Average backlog of a flow, in bytes, from which on packets are marked: a third of `max`.
        min: Option<Bytes> = None, keys ["min"], "1 to 4294967295 bytes": |b| b.as_ref().is_none_or(in_u32);
        /// Average backlog of a flow from which on every packet is marked: a quarter of
        /// `redflowlimit`.
        max: Option<Bytes> = None, keys ["max"], "1 to 4294967295 bytes": |b| b.as_ref().is_none_or(in_u32);
        /// Size of an average packet, 1000 bytes: it and `burst` set the weight of the average.
        avpkt: Option<Bytes> = None, keys ["avpkt"], "1 to 4294967295 bytes": |b| b.as_ref().is_none_or(in_u32);
        /// Packets of a flow that may arrive at once without a mark: (2 `min` + `max`) / (3
        /// `avpkt`).
        burst: Option<u32> = None, keys ["burst"], "at least 1": |b| b.is_none_or(|b| b > 0);
        /// Chance of a mark when the average is just below `max`, 0.02.
        probability: Option<Probability> = None, keys ["probability"], "at most 1": |p| p.is_none_or(|p| p <= Probability::ONE);
        /// RED marks ECN-capable packets instead of dropping them.
        ecn: bool = false, flags ["ecn" = true];
        /// RED drops, and does not mark, when the average is at `max` or above.
        harddrop: bool = false, flags ["harddrop" = true];
    }
}

crate::stats! {
    /// Counters of sfq: the decisions of RED.
    pub struct Stats {
        /// Arriving packets marked by chance.
        prob_mark: u64,
        /// Packets at the front of a flow marked by chance, in place of one that arrived
        /// (`headdrop`).
        prob_mark_head: u64,
        /// Packets dropped by chance.
        prob_drop: u64,
        /// Arriving packets marked because the average was at `max`.
        forced_mark: u64,
        /// Packets at the front of a flow marked because the average was at `max` (`headdrop`).
        forced_mark_head: u64,
        /// Packets dropped because the average was at `max`.
        forced_drop: u64,
    }
}

/// Most packets of one flow: the number of lists of equal length in the reference.
const DEPTH_MAX: u32 = 127;
/// Most flows: the reference numbers flows and lengths together in 16 bits.
const FLOWS_MAX: u32 = (1 << 16) - 1 - DEPTH_MAX;
/// Most packets that wait by default.
pub const LIMIT: u32 = 127;
/// Least quantum, in bytes: it bounds the turns that a flow needs for one packet.
const QUANTUM_MIN: u64 = 256;
/// Most seconds whose milliseconds the reference can hold.
const PERTURB_MAX: i64 = 2_147_483;

fn in_u32(b: &Bytes) -> bool {
    (1..=u64::from(u32::MAX)).contains(&b.0)
}

/// Whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub i64);

impl Show for Seconds {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{}sec", self.0)
    }
    fn exact(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{}", self.0)
    }
    fn json(&self) -> Json {
        Json::Uint(self.0.unsigned_abs())
    }
}

impl Value for Seconds {
    const EXPECTED: &'static str = "a whole number of seconds";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        Ok(Self(words.value()?.parse()?))
    }
}

/// Stochastic fair queueing.
#[derive(Debug)]
pub(crate) struct Sfq {
    flows: Flows,
    packets: u32,
    /// Packets that a peek has taken out of the flows, 0 or 1: they count towards the limit.
    held: u32,
    limit: u32,
    depth: u32,
    quantum: i64,
    headdrop: bool,
    divisor: u32,
    perturb: Nanos,
    /// Time at which flows next get other buckets.
    next_perturb: Instant,
    /// Key of the map from hashes to buckets; 0 until flows have first been perturbed.
    salt: u64,
    red: Option<Red>,
    stats: Stats,
}

impl Discipline for Sfq {
    const KIND: &'static str = "sfq";
    const REFUSED_BY: RefusedBy = |err, words| match (err.kind, err.key.as_deref()) {
        (ErrorKind::OutOfRange, Some("limit")) | (ErrorKind::Conflict, Some("max" | "min")) => {
            Some(Refuser::Tool)
        }
        (ErrorKind::OutOfRange, Some("burst")) if err.reason != Some(Reason::DeclaredRange) => {
            Some(Refuser::Tool)
        }
        // They are of RED, which tc does not turn on without its limit.
        (ErrorKind::OutOfRange, Some("min" | "max" | "avpkt" | "burst"))
            if !words.contains(&"redflowlimit") =>
        {
            Some(Refuser::Tool)
        }
        _ => None,
    };
    const ABOUT: &'static str = "Flows take turns by deficit round robin; the longest makes room (McKenney).";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const CAPACITY: Capacity = Capacity { unset: Unset::Packets(LIMIT), ..Capacity::KEY };
    const STYLE: Style = Style { counters_in_options: true, ..Style::PLAIN };
    const FILTERS: Filtered = Filtered::Qdisc;
    const TAKES_CLASS: bool = true;
    // Two buckets for each of the divisor; the flows, each with an average if RED is asked for.
    const TABLES: fn(&Config, &Env) -> u64 =
        |cfg, _| 8 * u64::from(cfg.divisor) + (48 + 72) * u64::from(cfg.flows);
    type Config = Config;
    type Rules = ();
    type Stats = Stats;

    fn resolve(cfg: &mut Config, old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        cfg.quantum = Bytes(cfg.quantum.0.clamp(QUANTUM_MIN, 1 << 20));
        cfg.depth = cfg.depth.min(DEPTH_MAX);
        cfg.flows = cfg.flows.min(FLOWS_MAX).min(cfg.divisor);
        if let Some(limit) = &mut cfg.limit {
            limit.0 = limit.0.min(cfg.depth * cfg.flows);
            cfg.flows = cfg.flows.min(limit.0);
            if limit.0 < 2 {
                let given = format!("{} x {}", cfg.depth, cfg.flows);
                let expected = "depth x flows of at least 2 packets, as the limit must be";
                return Err(ConfigError::new(ErrorKind::Conflict, Object::Kind(Self::KIND), expected, given)
                    .key("limit"));
            }
        }
        red::resolve(cfg)?;
        if old.is_some_and(|old| old != cfg) {
            let err = ConfigError::new(
                ErrorKind::Conflict,
                Object::Kind(Self::KIND),
                "no change while it runs",
                "another option",
            );
            return Err(err.hint("delete it and add it anew, or replace it under another handle"));
        }
        Ok(())
    }
    fn new(cfg: &Config, (): (), _env: &Env) -> Self {
        Self {
            flows: Flows::new(cfg.flows, 2 * cfg.divisor),
            packets: 0,
            held: 0,
            limit: cfg.limit.map_or(LIMIT, |l| l.0),
            depth: cfg.depth,
            quantum: cfg.quantum.0.cast_signed(),
            headdrop: cfg.headdrop,
            divisor: cfg.divisor,
            perturb: Nanos::from_secs(cfg.perturb.0.unsigned_abs()),
            next_perturb: Instant::ZERO + Nanos::from_secs(cfg.perturb.0.unsigned_abs()),
            salt: 0,
            red: Red::of(cfg),
            stats: Stats::default(),
        }
    }
    fn start(&mut self, now: Instant) {
        self.next_perturb = now + self.perturb;
    }
    fn change(&mut self, _cfg: &Config, (): (), _env: &Env, _cx: &mut Cx) {}
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict {
        let (own, room) = match self.flows.of(self.bucket(m, class)) {
            Some(f) if self.flows.flow(f).len < self.depth => (self.flows.flow(f).len, Verdict::Accept),
            Some(f) => (self.flows.flow(f).len, Verdict::FlowFull),
            None if self.flows.all_in_use() => (0, Verdict::Full),
            None => (0, Verdict::Accept),
        };
        let waiting = self.packets + self.held;
        room.and(Verdict::shared(own.into(), waiting.into(), self.limit.into()))
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let bucket = self.bucket(cx.meta(&p), class);
        self.put(p, bucket, cx);
        if self.packets + self.held > self.limit {
            self.drop_of_longest(cx);
        }
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        self.perturb_if_due(cx);
        let mut turns = 0;
        // Three rounds: after the first one those in which no flow can send are skipped; in the
        // second one a flow gets the last quantum that it lacks.
        let mut bound = Bound::of(3 * (self.flows.in_use() as usize + 1));
        loop {
            bound.turn();
            let Some(f) = self.flows.front() else { return Next::Empty };
            let flow = self.flows.flow_mut(f);
            if flow.allot <= 0 {
                flow.allot += self.quantum;
                self.flows.rotate();
                turns += 1;
                if turns > self.flows.in_use() {
                    self.skip_rounds();
                    turns = 0;
                }
                continue;
            }
            // A flow on the ring has a packet.
            let Some(p) = self.flows.pop(f, true, &mut cx.pool) else { return Next::Empty };
            self.packets -= 1;
            let flow = self.flows.flow_mut(f);
            flow.allot -= i64::from(cx.meta(&p).wire_len);
            if flow.len == 0 {
                self.flows.close_front();
            }
            return Next::Packet(p);
        }
    }
    fn holding(&mut self, held: bool) {
        self.held = u32::from(held);
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.flows.evict_all(out, pool);
        self.packets = 0;
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.flows.queued(pool, f);
    }
    fn reset(&mut self, _cx: &mut Cx) {}
    fn transparent(&self, _wire_len: u32) -> bool {
        self.perturb == Nanos::ZERO
    }
    fn stats(&self) -> Stats {
        self.stats
    }
    fn as_flows(&self) -> Option<&dyn capability::Flows> {
        Some(self)
    }
}

impl capability::Flows for Sfq {
    fn flows(&self, _pool: &Pool, f: &mut dyn FnMut(FlowShown<'_>)) {
        for bucket in 0..2 * self.divisor {
            let Some(flow) = self.flows.of(bucket).map(|f| self.flows.flow(f)) else { continue };
            let backlog = Tally { packets: u64::from(flow.len), bytes: flow.bytes };
            f(FlowShown { minor: bucket % self.divisor + 1, backlog, values: &[("allot", flow.allot)] });
        }
    }
    /// Filters decide on every packet: a packet for which they name no flow is dropped.
    fn classify_result(&self, class: Option<ClassId>, _asked: Option<Handle>, own: Handle) -> Classified {
        let flow = class.filter(|c| (1..=self.divisor).contains(&u32::from(c.minor())));
        Classified::Final(
            flow.map_or(FilterOutcome::Drop, |c| FilterOutcome::Class(Handle::new(own.major(), c.minor()))),
        )
    }
}

impl Sfq {
    /// Returns the packet's bucket: that of the class that it names, or one by its hash. The two
    /// sets of buckets are disjoint, because only the latter move when flows are perturbed.
    #[inline]
    fn bucket(&self, m: &Meta, class: Option<ClassId>) -> u32 {
        match class.map(|c| u32::from(c.minor())) {
            Some(minor) if (1..=self.divisor).contains(&minor) => self.divisor + minor - 1,
            _ => reciprocal_scale(self.salted(m.hash), self.divisor),
        }
    }

    /// Returns the hash, or with a salt another function of it: one round of SplitMix64's
    /// finaliser.
    #[inline]
    fn salted(&self, hash: u32) -> u32 {
        if self.salt == 0 {
            return hash;
        }
        let mut z = self.salt ^ u64::from(hash);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 32) as u32
    }

    /// Queues a packet in the flow of this bucket, if RED admits it and the flow has room.
    #[inline]
    fn put(&mut self, p: Pkt, bucket: u32, cx: &mut Cx) {
        let Some(f) = self.flow_of(bucket, cx.now) else { return cx.drop(p, DropReason::Overlimit) };
        let congested = self.red.is_some() && self.red_drops(f, &p, cx);
        let full = self.flows.flow(f).len >= self.depth;
        let reason = if congested { DropReason::Congested } else { DropReason::Overlimit };
        if (congested || full) && !self.headdrop {
            return cx.drop(p, reason);
        }
        self.push(f, p, cx);
        if congested || full {
            self.drop_of(f, if congested { reason } else { DropReason::HeadDrop }, cx);
        }
    }

    /// Returns the flow of a bucket, opened if it is new and a slot is free.
    #[inline]
    fn flow_of(&mut self, bucket: u32, now: Instant) -> Option<u32> {
        if let Some(f) = self.flows.of(bucket) {
            return Some(f);
        }
        let f = self.flows.open(bucket, self.quantum)?;
        if let Some(red) = &mut self.red {
            red.begin(f, now);
        }
        Some(f)
    }

    #[inline]
    fn push(&mut self, f: u32, p: Pkt, cx: &mut Cx) {
        let wire_len = cx.meta(&p).wire_len;
        self.flows.push(f, p, wire_len, &mut cx.pool);
        self.packets += 1;
    }

    /// Asks RED about a packet that comes to a flow; returns true if the packet is to be dropped.
    /// RED may mark a packet instead, with `headdrop` the one at the front, whose sender hears of
    /// it first.
    #[cold]
    fn red_drops(&mut self, f: u32, p: &Pkt, cx: &mut Cx) -> bool {
        let Some(red) = &mut self.red else { return false };
        let action = red.on_arrival(f, self.flows.flow(f).bytes, cx);
        if action == RedAction::Pass {
            return false;
        }
        cx.overlimit();
        let forced = action == RedAction::Forced;
        let s = &mut self.stats;
        let [mark, mark_head, drop] = match forced {
            true => [&mut s.forced_mark, &mut s.forced_mark_head, &mut s.forced_drop],
            false => [&mut s.prob_mark, &mut s.prob_mark_head, &mut s.prob_drop],
        };
        let marks = red.marks(forced);
        let (counter, drops) = if marks && self.headdrop && self.flows.mark_front(f, cx) {
            (mark_head, false)
        } else if marks && cx.mark(p, MarkReason::Congested) {
            (mark, false)
        } else {
            (drop, true)
        };
        *counter += 1;
        drops
    }

    /// Drops a packet of the longest flow.
    fn drop_of_longest(&mut self, cx: &mut Cx) {
        if let Some(f) = self.flows.longest() {
            self.drop_of(f, DropReason::FlowOverlimit, cx);
            if self.flows.flow(f).len == 0 {
                // All flows had one packet, and this was the one at the front.
                self.flows.close_front();
            }
        }
    }

    /// Drops the newest packet of a flow, or with `headdrop` its oldest.
    fn drop_of(&mut self, f: u32, reason: DropReason, cx: &mut Cx) {
        if let Some(p) = self.flows.pop(f, self.headdrop, &mut cx.pool) {
            self.packets -= 1;
            cx.drop(p, reason);
        }
    }

    /// Gives every flow the quanta of the rounds in which none may send, so that the next round
    /// sends.
    #[cold]
    fn skip_rounds(&mut self) {
        let owed =
            |f: u32| self.flows.flow(f).allot.min(0).unsigned_abs() / self.quantum.unsigned_abs().max(1);
        let rounds = self.flows.ring().map(owed).min().unwrap_or(0).cast_signed();
        for _ in 0..self.flows.in_use() {
            let Some(f) = self.flows.front() else { return };
            self.flows.flow_mut(f).allot += rounds * self.quantum;
            self.flows.rotate();
        }
    }

    /// Gives flows other buckets if it is time: once, even if several periods have passed.
    #[inline]
    fn perturb_if_due(&mut self, cx: &mut Cx) {
        if self.perturb > Nanos::ZERO && cx.now >= self.next_perturb {
            self.perturb_now(cx);
        }
    }

    /// Draws a new salt, and queues all packets anew, flow by flow, so that those of one flow keep
    /// their order. A packet that finds no room in its new bucket is dropped. O(packets), once per
    /// `perturb`.
    #[cold]
    fn perturb_now(&mut self, cx: &mut Cx) {
        let passed = cx.now.saturating_since(self.next_perturb).0 / self.perturb.0;
        self.next_perturb += Nanos(self.perturb.0.saturating_mul(passed + 1));
        self.salt = cx.rng.next_u64() | 1;
        let mut all = List::new();
        self.packets -= self.flows.drain_below(self.divisor, &mut all, &mut cx.pool);
        let mut bound = Bound::of(cx.pool.capacity());
        while let Some(p) = all.pop_front(&cx.pool) {
            bound.turn();
            let bucket = self.bucket(cx.meta(&p), None);
            match self.flow_of(bucket, cx.now).filter(|f| self.flows.flow(*f).len < self.depth) {
                Some(f) => {
                    if let Some(red) = &mut self.red {
                        // Only the average is updated: the packet was admitted earlier.
                        let _ = red.on_arrival(f, self.flows.flow(f).bytes, cx);
                    }
                    self.push(f, p, cx);
                }
                None => cx.drop(p, DropReason::Overlimit),
            }
        }
    }
}
