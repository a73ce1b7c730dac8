//! choke: RED that also compares: while the average of the queue is above `min`, each packet that
//! arrives is compared with one that waits, drawn at random, and if both are of one flow both are
//! dropped (Pan, Prabhakar and Psounis, "CHOKe: A Stateless Active Queue Management Scheme for
//! Approximating Fair Bandwidth Allocation", INFOCOM 2000; tc-choke(8)). A flow is hit the more
//! often, the more of the queue it has, and no state is kept for any flow. The law is `law::red`,
//! in packets.
//!
//! O(1) per packet: a packet that is taken out of the middle leaves a hole in the ring, and a hole
//! at either end is closed at once, each once. Memory: 8 bytes for each packet of `limit`, rounded
//! up to a power of two, taken at creation or by a change of `limit`.
//!
//! - I1: never more than `limit` packets are queued.
//! - I2: order of arrival is order of departure.
//! - I3: with an average of at most `min` packets no packet is dropped but for `limit`.
//! - I4: while packets wait, the ring's first and last places hold packets.
//! - Differs from Linux (PARITY.md: choke-shrink, choke-probability, choke-room, flow-hash,
//!   red-idle-cells): a smaller limit is obeyed at once, by dropping the newest; a flow is the hash
//!   of its headers.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::chance::Probability;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::rng::Rng;
use crate::base::time::Instant;
use crate::base::units::{Bytes, Packets, Rate};
use crate::law::red::{IdleTable, RedAction, RedError, RedParams, RedState, weight_for_burst};
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::{DropReason, MarkReason};
use crate::packet::route::Candidate;
use crate::qdisc::red::{packet_time, reason_of};
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline};
use crate::sched::spec::{Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::value::exact_of;

crate::params! {
    /// Parameters of choke.
    pub struct Config(env) {
        /// Most packets that wait. Must be given.
        limit: Packets = Packets(0), keys ["limit"], "at most 131071 packets": |l| l.0 <= LIMIT_MAX;
        /// Average queue up to which nothing is compared or marked; 0 is a third of `max`.
        min: Packets = Packets(0), keys ["min"];
        /// Average queue above which every packet is marked; 0 is a quarter of `limit`.
        max: Packets = Packets(0), keys ["max"];
        /// Size of an average packet: with `bandwidth` it sets how fast the average of an idle
        /// queue decays.
        avpkt: Bytes = Bytes(1000), keys ["avpkt"], "1 to 4294967295 bytes": |b| (1..=u64::from(u32::MAX)).contains(&b.0);
        /// Packets that may arrive at once at an empty queue without a mark; 0 is `(2 min + max) /
        /// 3`.
        burst: u32 = 0, keys ["burst"];
        /// Rate of the link: the average of an idle queue decays at this rate. Must be given.
        bandwidth: Rate = Rate(0), keys ["bandwidth"], "at most 34359738360bit": |r| r.0 <= u64::from(u32::MAX);
        /// Chance of a mark when the average is just below `max`.
        probability: Probability = Probability(85_899_345), keys ["probability"], "at most 1": |p| *p <= Probability::ONE;
        /// Mark ECN-capable packets instead of dropping them; packets of a drawn flow are dropped.
        ecn: bool = false, flags ["ecn" = true];
    }
}

/// Most packets that Linux lets wait.
const LIMIT_MAX: u32 = 128 * 1024 - 1;

/// Draws of a waiting packet, before the oldest one is taken: a draw may hit a hole.
const DRAWS: usize = 3;

crate::stats! {
    /// Counters of choke.
    pub struct Stats {
        /// Packets marked by the law.
        marked: u64,
        /// Packets dropped by the law.
        early: u64,
        /// Packets dropped at `limit`.
        pdrop: u64,
        /// Always 0.
        other: u64,
        /// Packets that came and were of the flow of a waiting packet that was drawn: each is two
        /// drops.
        matched: u64,
    }
}

/// Packets in order of arrival, in a ring with holes.
#[derive(Debug)]
struct Ring {
    /// Places of at most one packet each, as many as a power of two.
    places: Vec<List>,
    /// The first place in use.
    head: usize,
    /// Places in use, holes included.
    span: usize,
    packets: u32,
}

impl Ring {
    /// Returns a ring with room for `limit` packets.
    fn new(limit: u32) -> Self {
        let mut ring = Self { places: Vec::new(), head: 0, span: 0, packets: 0 };
        ring.places.resize_with(Self::size(limit), List::new);
        ring
    }
    const fn size(limit: u32) -> usize {
        (limit as usize + 1).next_power_of_two()
    }
    #[inline]
    fn at(&self, nth: usize) -> usize {
        (self.head + nth) & (self.places.len() - 1)
    }
    /// True if no packet more has a place.
    const fn is_full(&self) -> bool {
        self.span + 1 >= self.places.len()
    }
    fn push(&mut self, pool: &mut Pool, p: Pkt) {
        let at = self.at(self.span);
        self.places[at].push_back(pool, p);
        self.span += 1;
        self.packets += 1;
    }
    /// Takes the packet of a place, and closes the holes at both ends.
    fn take(&mut self, nth: usize, pool: &Pool) -> Option<Pkt> {
        let at = self.at(nth);
        let p = self.places[at].pop_front(pool)?;
        self.packets -= 1;
        self.close_front();
        let mut bound = Bound::of(self.places.len());
        while self.span > 0 && self.places[self.at(self.span - 1)].is_empty() {
            bound.turn();
            self.span -= 1;
        }
        Some(p)
    }
    #[inline(always)]
    fn close_front(&mut self) {
        let mut bound = Bound::of(self.places.len());
        while self.span > 0 && self.places[self.head].is_empty() {
            bound.turn();
            self.head = self.at(1);
            self.span -= 1;
        }
    }
    #[inline(always)]
    fn pop_front(&mut self, pool: &Pool) -> Option<Pkt> {
        if self.span == 0 {
            return None;
        }
        // The last place has a packet, unless this is the only one: no hole is left behind it.
        let p = self.places[self.head].pop_front(pool)?;
        self.packets -= 1;
        self.close_front();
        Some(p)
    }
    fn pop_back(&mut self, pool: &Pool) -> Option<Pkt> {
        if self.span == 0 { None } else { self.take(self.span - 1, pool) }
    }
    /// Draws a place with a packet; `None` if there is none.
    fn draw(&self, rng: &mut Rng) -> Option<usize> {
        if self.span == 0 {
            return None;
        }
        // A place is below 2^17.
        let mut drawn = (0..DRAWS).map(|_| rng.below(self.span as u64) as usize);
        Some(drawn.find(|nth| !self.places[self.at(*nth)].is_empty()).unwrap_or(0))
    }
    fn waiting<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = Waiting<'a>> {
        (0..self.span).filter_map(|nth| self.places[self.at(nth)].first(pool))
    }
}

/// A queue under CHOKe.
#[derive(Debug)]
pub struct Choke {
    ring: Ring,
    limit: u32,
    params: RedParams,
    law: RedState,
    ecn: bool,
    stats: Stats,
}

/// Returns the law's parameters, with `min` and `max` in packets.
fn law(cfg: &Config) -> Result<RedParams, ConfigError> {
    let refused = |kind: ErrorKind, key: &str, e: RedError| {
        let given = match key {
            "burst" => cfg.burst.to_string(),
            "min" => exact_of(&cfg.min),
            "probability" => exact_of(&cfg.probability),
            _ => exact_of(&cfg.max),
        };
        let err = ConfigError::new(kind, Object::Kind(Choke::KIND), e, given).key(key);
        ConfigError { reason: reason_of(e), ..err }
    };
    // `resolve` has checked the range of the size. The weight follows from bytes, as in red.
    let avpkt = u32::try_from(cfg.avpkt.0).unwrap_or(u32::MAX);
    let min_bytes = cfg.min.0.saturating_mul(avpkt);
    let wlog = weight_for_burst(min_bytes, cfg.burst, avpkt)
        .map_err(|e| refused(ErrorKind::OutOfRange, "burst", e))?;
    // tc has no form for a probability below one in 2^31 for each byte between the two.
    let between = u64::from(cfg.max.0 - cfg.min.0) * u64::from(avpkt);
    if u128::from(cfg.probability.0) << 31 <= u128::from(between) << 32 {
        return Err(refused(ErrorKind::OutOfRange, "probability", RedError::NoProbability));
    }
    let probability = u32::try_from(cfg.probability.0).unwrap_or(u32::MAX);
    let idle = IdleTable::new(wlog, packet_time(cfg.bandwidth, avpkt));
    RedParams::new(cfg.min.0, cfg.max.0, wlog, probability, idle).map_err(|e| {
        let key = if e == RedError::MinTooLarge { "min" } else { "max" };
        refused(ErrorKind::Conflict, key, e)
    })
}

impl Discipline for Choke {
    const KIND: &'static str = "choke";
    const ABOUT: &'static str = "RED that drops a packet with a waiting one of its flow, drawn at random.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const STYLE: Style = Style::PLAIN;
    const CHANGE: ChangeRule = ChangeRule::Replace;
    const REFUSED_BY: RefusedBy = |err, _| match (err.kind, err.key.as_deref()) {
        (ErrorKind::OutOfRange, Some("limit")) => None,
        (ErrorKind::OutOfRange, Some("probability")) if err.reason == Some(Reason::DeclaredRange) => None,
        (ErrorKind::OutOfRange | ErrorKind::Conflict, _) => Some(Refuser::Tool),
        _ => None,
    };
    const TABLES: fn(&Config, &Env) -> u64 = |cfg, _| Ring::size(cfg.limit.0) as u64 * 8;
    type Config = Config;
    type Rules = RedParams;
    type Stats = Stats;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<RedParams, ConfigError> {
        for (key, missing, what) in [
            ("limit", cfg.limit.0 == 0, "a number of packets, the most that wait"),
            ("bandwidth", cfg.bandwidth.0 == 0, "a rate, that of the link"),
        ] {
            if missing {
                return Err(ConfigError::new(ErrorKind::Missing, Object::Kind(Self::KIND), what, "").key(key));
            }
        }
        // The defaults of tc-choke(8).
        if cfg.max.0 == 0 {
            cfg.max.0 = cfg.limit.0 / 4;
        }
        if cfg.min.0 == 0 {
            cfg.min.0 = cfg.max.0 / 3;
        }
        if cfg.burst == 0 {
            let burst = (2 * u64::from(cfg.min.0) + u64::from(cfg.max.0)) / 3;
            cfg.burst = u32::try_from(burst).unwrap_or(u32::MAX);
        }
        let conflict = |key: &str, expected: &str, given: Packets| {
            let given = exact_of(&given);
            Err(ConfigError::new(ErrorKind::Conflict, Object::Kind(Self::KIND), expected, given).key(key))
        };
        if cfg.max > cfg.limit {
            return conflict("max", "at most limit", cfg.max);
        }
        if cfg.min >= cfg.max {
            return conflict("min", "less than max", cfg.min);
        }
        let params = law(cfg)?;
        cfg.probability = Probability(params.probability().into());
        Ok(params)
    }
    fn new(cfg: &Config, params: RedParams, _env: &Env) -> Self {
        Self {
            ring: Ring::new(cfg.limit.0),
            limit: cfg.limit.0,
            law: RedState::new(&params, Instant::ZERO),
            params,
            ecn: cfg.ecn,
            stats: Stats::default(),
        }
    }
    fn change(&mut self, cfg: &Config, params: RedParams, _env: &Env, cx: &mut Cx) {
        (self.limit, self.params, self.ecn) = (cfg.limit.0, params, cfg.ecn);
        let mut bound = Bound::of(self.ring.packets as usize + 1);
        while self.ring.packets > self.limit {
            bound.turn();
            let Some(p) = self.ring.pop_back(&cx.pool) else { break };
            cx.drop(p, DropReason::Purged);
        }
        if Ring::size(self.limit) != self.ring.places.len() {
            let mut old = core::mem::replace(&mut self.ring, Ring::new(self.limit));
            let mut bound = Bound::of(old.packets as usize + 1);
            while let Some(p) = old.pop_front(&cx.pool) {
                bound.turn();
                self.ring.push(&mut cx.pool, p);
            }
        }
        self.law = RedState::new(&self.params, cx.now);
    }
    fn would_accept(&self, _m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.has_room() { Verdict::Accept } else { Verdict::Full }
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        self.law.learn(&self.params, self.ring.packets.into(), cx.now);
        let (ring, pool, flow) = (&self.ring, &cx.pool, cx.pool.meta(&p));
        let mut drawn = None;
        let action = self.law.action_of_choke(&self.params, &mut cx.rng, |rng| {
            drawn = ring.draw(rng);
            let other = drawn.and_then(|nth| ring.places[ring.at(nth)].front(pool));
            other.is_some_and(|other| same_flow(flow, other))
        });
        match action {
            None => {
                self.stats.matched += 1;
                if let Some(other) = drawn.and_then(|nth| self.ring.take(nth, &cx.pool)) {
                    cx.drop(other, DropReason::Matched);
                }
                return cx.drop(p, DropReason::Matched);
            }
            Some(RedAction::Pass) => {}
            Some(RedAction::Early | RedAction::Forced) => {
                cx.overlimit();
                if !(self.ecn && cx.mark(&p, MarkReason::Congested)) {
                    self.stats.early += 1;
                    return cx.drop(p, DropReason::Congested);
                }
                self.stats.marked += 1;
            }
        }
        if !self.has_room() {
            self.stats.pdrop += 1;
            return cx.drop(p, DropReason::Overlimit);
        }
        self.ring.push(&mut cx.pool, p);
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        match self.ring.pop_front(&cx.pool) {
            Some(p) => Next::Packet(p),
            None => {
                self.law.start_idle(cx.now);
                Next::Empty
            }
        }
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        let mut bound = Bound::of(self.ring.packets as usize + 1);
        while let Some(p) = self.ring.pop_front(pool) {
            bound.turn();
            out.push_back(pool, p);
        }
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.ring.waiting(pool).for_each(f);
    }
    fn head<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>> {
        self.ring.places[self.ring.head].first(pool)
    }
    fn reset(&mut self, cx: &mut Cx) {
        self.law = RedState::new(&self.params, cx.now);
    }
    fn transparent(&self, _wire_len: u32) -> bool {
        self.law.at_rest(&self.params)
    }
    fn stats(&self) -> Stats {
        self.stats
    }
}

/// True if two packets are of one flow.
fn same_flow(a: &Meta, b: &Meta) -> bool {
    (a.protocol, a.hash) == (b.protocol, b.hash)
}

impl Choke {
    /// True if a packet has a place. Holes have places too.
    #[inline]
    const fn has_room(&self) -> bool {
        self.ring.packets < self.limit && !self.ring.is_full()
    }
}
