//! red: random early detection over one child qdisc (tc-red(8)): an arriving packet is marked or
//! dropped, with a chance that grows with the average of the queue, so that senders slow down one
//! by one before the queue is full. The law is that of Floyd and Jacobson (1993), with `adaptive`
//! that of Floyd, Gummadi and Shenker (2001): `law::red`. O(1) per packet.
//!
//! - I1: below an average of `min` bytes no packet is marked or dropped but for `limit`.
//! - I2: from an average of `max` bytes on every packet is marked or dropped, unless `nodrop` lets
//!   one pass that cannot be marked.
//! - I3: a change starts the average anew.
//! - Differs from Linux (PARITY.md: red-own-child, red-idle-child, red-idle-cells, red-probability,
//!   red-adaptive, class-only): a change leaves a qdisc that was added; a child that holds packets
//!   back is not idle; the table of idle times has no overflow; a probability is at most 1, and
//!   shown as it was given; `adaptive` has its effect.

use alloc::string::ToString;
use core::fmt;

use crate::base::chance::Probability;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::time::{Instant, Nanos};
use crate::base::units::{Bytes, Rate};
use crate::law::red::{
    IdleTable, RedAction, RedError, RedParams, RedState, probability_of_one, weight_for_burst,
};
use crate::packet::pool::Pkt;
use crate::packet::pool::{List, Pool, Waiting};
use crate::packet::reason::{DropReason, MarkReason};
use crate::packet::route::Candidate;
use crate::qdisc::fifo::{Bfifo, ByteLimit};
use crate::qdisc::leaf;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline};
use crate::sched::node::{Class, Node, Peek};
use crate::sched::spec::{ClassShape, Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::value::{Json, Refusal, Show, Value, Words, exact_of};

crate::params! {
    /// Parameters of red.
    pub struct Config(env) {
        /// Most bytes that wait; a few times `max`. Must be given.
        limit: Bytes = Bytes(0), keys ["limit"], "at most 4294967295 bytes": in_u32;
        /// Average queue from which on packets are marked; 0 is a third of `max`.
        min: Bytes = Bytes(0), keys ["min"], "at most 4294967295 bytes": in_u32;
        /// Average queue from which on every packet is marked; 0 is a quarter of `limit`.
        max: Bytes = Bytes(0), keys ["max"], "at most 4294967295 bytes": in_u32;
        /// Size of an average packet: it and `burst` set the weight of the average. Must be given.
        avpkt: Bytes = Bytes(0), keys ["avpkt"], "at most 4294967295 bytes": in_u32;
        /// Packets that may arrive at once at an empty queue without a mark; 0 is `(2 min + max) /
        /// (3 avpkt)`.
        burst: u32 = 0, keys ["burst"];
        /// Rate of the link: the average of an idle queue decays at this rate.
        bandwidth: Rate = BANDWIDTH, keys ["bandwidth"], "at most 34359738360bit": |r| r.0 <= u64::from(u32::MAX);
        /// Chance of a mark when the average is just below `max`.
        probability: Probability = Probability(85_899_345), keys ["probability"], "at most 1": |p| *p <= Probability::ONE;
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = false, flags ["ecn" = true];
        /// Drop, and do not mark, when the average is at `max` or above.
        harddrop: bool = false, flags ["harddrop" = true];
        /// Let packets pass that are to be marked and are not ECN-capable; with `ecn` only.
        nodrop: bool = false, flags ["nodrop" = true];
        /// Adapt the probability, from 1 % to 50 %, so that the average stays halfway from `min` to
        /// `max`.
        adaptive: bool = false, flags ["adaptive" = true, "adaptative" = true];
        /// A block of filters for packets dropped early, or marked: refused, because red passes no
        /// packets to filters.
        qevent: Option<Qevent> = None, keys ["qevent"];
    }
}

/// A block of filters for an event, as tc writes it. It has no values: red passes no packets to
/// filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qevent {}

impl Show for Qevent {
    fn text(&self, _f: &mut dyn fmt::Write) -> fmt::Result {
        match *self {}
    }
    fn json(&self) -> Json {
        match *self {}
    }
}

impl Value for Qevent {
    const EXPECTED: &'static str = "early_drop or mark, then block and its number";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let named = matches!(words.take(), Some("early_drop" | "mark")) && words.take() == Some("block");
        if named && words.take().is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n > 0)) {
            let hint = "early drops and marks are counted; act on them with a filter behind the queue";
            let expected = "no qevent: red hands no packets to filters";
            return Err(Refusal::because(ErrorKind::Unsupported, expected, Some(hint)));
        }
        Err(Refusal::NotSuch)
    }
}

/// The link's rate that tc assumes if none is given: 10 Mbit/s.
pub(crate) const BANDWIDTH: Rate = Rate::from_bits(10_000_000);

fn in_u32(b: &Bytes) -> bool {
    u32::try_from(b.0).is_ok()
}

crate::stats! {
    /// Counters of red.
    pub struct Stats {
        /// Packets marked by the law.
        marked: u64,
        /// Packets dropped by the law.
        early: u64,
        /// Packets that the qdisc in the class refused, for example at `limit`.
        pdrop: u64,
        /// Always 0.
        other: u64,
    }
}

/// A queue under RED.
#[derive(Debug)]
pub struct Red {
    inner: [Class; 1],
    params: RedParams,
    law: RedState,
    ecn: bool,
    harddrop: bool,
    nodrop: bool,
    adaptive: bool,
    stats: Stats,
    /// Limit of the FIFO that the class has until a qdisc is grafted.
    limit: ByteLimit,
}

/// Returns a size in 32 bits, as its declared range allows.
fn bits32(b: Bytes) -> u32 {
    u32::try_from(b.0).unwrap_or(u32::MAX)
}

/// The words of an average that counts bytes, from which tc derives the law.
pub(crate) struct Average {
    /// See `Config`, as all fields.
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) avpkt: u32,
    pub(crate) burst: u32,
    pub(crate) bandwidth: Rate,
    pub(crate) probability: Probability,
}

impl Average {
    /// Returns the law's parameters, for a kind of that name.
    pub(crate) fn law(&self, kind: &'static str) -> Result<RedParams, ConfigError> {
        let refused = |error: ErrorKind, key: &str, e: RedError| {
            let given = match key {
                "burst" => self.burst.to_string(),
                "min" => exact_of(&Bytes(self.min.into())),
                "max" => exact_of(&Bytes(self.max.into())),
                _ => exact_of(&self.probability),
            };
            let err = ConfigError::new(error, Object::Kind(kind), e, given).key(key);
            ConfigError { reason: reason_of(e), ..err }
        };
        let (min, max) = (self.min, self.max);
        let wlog = weight_for_burst(min, self.burst, self.avpkt)
            .map_err(|e| refused(ErrorKind::OutOfRange, "burst", e))?;
        // The kernel has no form for a probability below one in 2^31 for each byte between the two.
        if max < min {
            return Err(refused(ErrorKind::OutOfRange, "max", RedError::Max));
        }
        if self.probability.0 << 31 <= u64::from(max - min) << 32 {
            return Err(refused(ErrorKind::OutOfRange, "probability", RedError::NoProbability));
        }
        let probability = match u32::try_from(self.probability.0) {
            Ok(p) => p,
            Err(_) => probability_of_one(max - min),
        };
        let idle = IdleTable::new(wlog, packet_time(self.bandwidth, self.avpkt));
        RedParams::new(min, max, wlog, probability, idle).map_err(|e| {
            let key = if e == RedError::MinTooLarge { "min" } else { "max" };
            refused(ErrorKind::Conflict, key, e)
        })
    }
}

/// Returns the law's parameters.
fn law(cfg: &Config) -> Result<RedParams, ConfigError> {
    let average = Average {
        min: bits32(cfg.min),
        max: bits32(cfg.max),
        avpkt: bits32(cfg.avpkt),
        burst: cfg.burst,
        bandwidth: cfg.bandwidth,
        probability: cfg.probability,
    };
    average.law(Red::KIND)
}

/// Returns the finer reason of a refusal: there may be too many packets in a burst, or too few.
pub(crate) fn reason_of(err: RedError) -> Option<Reason> {
    (err == RedError::BurstTooLarge).then_some(Reason::TooMany)
}

/// Returns the time that a packet of the average size takes on the link, rounded down: the grain of
/// an idle time.
pub fn packet_time(bandwidth: Rate, avpkt: u32) -> Nanos {
    Nanos(u64::from(avpkt) * 1_000_000_000 / bandwidth.0.max(1))
}

impl Discipline for Red {
    const KIND: &'static str = "red";
    const ABOUT: &'static str =
        "Random early detection: drops or marks more often the longer the average queue.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const SHAPE: ClassShape = ClassShape::One;
    const STYLE: Style = Style { counters_end_blank: true, ..Style::PLAIN };
    const CHANGE: ChangeRule = ChangeRule::Replace;
    // tc accepts any number as a probability; it reads sizes as 32 bits.
    const REFUSED_BY: RefusedBy = |err, _| match (err.kind, err.key.as_deref()) {
        (ErrorKind::OutOfRange, Some("probability")) if err.reason == Some(Reason::DeclaredRange) => None,
        (ErrorKind::OutOfRange, _) => Some(Refuser::Tool),
        _ => None,
    };
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    type Config = Config;
    type Rules = RedParams;
    type Stats = Stats;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<RedParams, ConfigError> {
        for (key, size, what) in [
            ("limit", cfg.limit, "a size, the most that waits"),
            ("avpkt", cfg.avpkt, "a size, that of an average packet"),
        ] {
            if size.0 == 0 {
                return Err(ConfigError::new(ErrorKind::Missing, Object::Kind(Self::KIND), what, "").key(key));
            }
        }
        // The defaults of tc-red(8).
        if cfg.max.0 == 0 {
            cfg.max = Bytes(cfg.limit.0 / 4);
        }
        if cfg.min.0 == 0 {
            cfg.min = Bytes(cfg.max.0 / 3);
        }
        if cfg.burst == 0 {
            let burst = (2 * cfg.min.0 + cfg.max.0) / (3 * cfg.avpkt.0);
            cfg.burst = u32::try_from(burst).unwrap_or(u32::MAX);
        }
        if cfg.bandwidth.0 == 0 {
            cfg.bandwidth = BANDWIDTH;
        }
        let params = law(cfg)?;
        if cfg.nodrop && !cfg.ecn {
            let expected = "ecn with it: without marks every packet would pass";
            return Err(ConfigError::new(ErrorKind::Conflict, Object::Kind(Self::KIND), expected, "nodrop")
                .key("nodrop"));
        }
        cfg.probability = Probability(params.probability().into());
        Ok(params)
    }
    fn new(cfg: &Config, params: RedParams, env: &Env) -> Self {
        Self {
            inner: [Class { minor: 1, node: leaf::plain::<Bfifo>(ByteLimit { limit: cfg.limit }, env) }],
            law: RedState::new(&params, Instant::ZERO),
            params,
            ecn: cfg.ecn,
            harddrop: cfg.harddrop,
            nodrop: cfg.nodrop,
            adaptive: cfg.adaptive,
            limit: ByteLimit { limit: cfg.limit },
            stats: Stats::default(),
        }
    }
    fn start(&mut self, now: Instant) {
        self.law = RedState::new(&self.params, now);
        self.law.start_idle(now);
    }
    fn change(&mut self, cfg: &Config, params: RedParams, env: &Env, cx: &mut Cx) {
        self.params = params;
        self.limit = ByteLimit { limit: cfg.limit };
        (self.ecn, self.harddrop, self.nodrop, self.adaptive) =
            (cfg.ecn, cfg.harddrop, cfg.nodrop, cfg.adaptive);
        let inner = &mut self.inner[0].node;
        if inner.handle().is_none() {
            // As in the reference, the FIFO is a new one; a swap keeps the waiting packets.
            if !cx.swapping() {
                inner.purge(cx);
            }
            leaf::change_plain::<Bfifo>(inner, self.limit.clone(), env, cx);
        }
        self.reset(cx);
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        self.inner[0].node.would_accept(m)
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        if self.adaptive {
            self.law.adapt(&self.params, cx.now);
        }
        let inner = &mut self.inner[0].node;
        let backlog = inner.account().queued().bytes;
        match self.law.on_arrival(&self.params, backlog, cx.now, &mut cx.rng) {
            RedAction::Pass => {}
            action => {
                cx.overlimit();
                let may_mark = self.ecn && !(self.harddrop && action == RedAction::Forced);
                if may_mark && cx.mark(&p, MarkReason::Congested) {
                    self.stats.marked += 1;
                } else if !(may_mark && self.nodrop) {
                    self.stats.early += 1;
                    return cx.drop(p, DropReason::Congested);
                }
            }
        }
        let (index, dropped) = (p.index(), cx.dropped().packets);
        inner.enqueue(p, cx);
        self.stats.pdrop += u64::from(cx.has_refused(index, dropped));
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let next = self.inner[0].node.dequeue(cx);
        if next == Next::Empty {
            self.law.start_idle(cx.now);
        }
        next
    }
    /// As in the reference, a peek does not tell the law that the queue is empty: below a shaper
    /// that peeks first, the law never learns it, and the average sinks with arrivals only.
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        Some(self.inner[0].node.peek(cx))
    }
    fn evict_all(&mut self, _out: &mut List, _pool: &mut Pool) {}
    fn queued(&self, _pool: &Pool, _f: &mut dyn FnMut(Waiting<'_>)) {}
    fn reset(&mut self, cx: &mut Cx) {
        self.law = RedState::new(&self.params, cx.now);
        if self.inner[0].node.is_empty() {
            self.law.start_idle(cx.now);
        }
    }
    fn transparent(&self, wire_len: u32) -> bool {
        self.law.at_rest(&self.params) && self.inner[0].node.transparent(wire_len)
    }
    fn stats(&self) -> Stats {
        self.stats
    }
}

impl Classes for Red {
    fn classes(&self) -> &[Class] {
        &self.inner
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        &mut self.inner
    }
    fn default_child(&self, env: &Env) -> Option<Node> {
        Some(leaf::plain::<Bfifo>(self.limit.clone(), env))
    }
}
