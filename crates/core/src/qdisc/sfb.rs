//! sfb: stochastic fair BLUE over one child qdisc (tc-sfb(8)): a packet that arrives is marked or
//! dropped with the chance of its flow, which rises while the flow's packets fill its bins; a flow
//! that does not slow down is held to a low rate, and others keep theirs. The law is `law::blue`.
//!
//! O(1) per packet. Memory: 2 KB of bins, and 8 bytes for each packet that the path can hold: the
//! bins in which a waiting packet is counted.
//!
//! - I1: never more than `limit` packets are queued.
//! - I2: a packet leaves the bins in which it was counted, whatever set of bins is in use by then.
//! - I3: once nothing is queued, no bin counts a packet.
//! - Differs from Linux (PARITY.md: sfb-class-list, sfb-own-child, sfb-inner-drops, sfb-named,
//!   flow-hash): the classes of later qdiscs are listed; a change leaves a qdisc that was added;
//!   packets that the child drops leave the bins when it is empty; a class that the filters and the
//!   packet's priority both name is no result.

use core::fmt;

use alloc::vec;
use alloc::vec::Vec;

use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::time::Instant;
use crate::base::units::Packets;
use crate::law::blue::{Blue, BlueAction, BlueParams, CERTAIN, Counted};
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::{DropReason, MarkReason};
use crate::packet::route::{Candidate, Classified, FilterOutcome};
use crate::qdisc::fifo::{PacketLimit, Pfifo};
use crate::qdisc::leaf;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline, Filtered};
use crate::sched::node::{Class, Node, Peek};
use crate::sched::spec::{ClassShape, Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind};
use crate::text::value::{Json, Refusal, Show, Value, Words, decimal, exact_of, fraction};

crate::params! {
    /// Parameters of sfb.
    pub struct Config(env) {
        /// Time in milliseconds between two changes of the hashes; 0 for none.
        rehash: u32 = 600_000, keys ["rehash"];
        /// Time in milliseconds before a change during which the other set of bins learns.
        db: u32 = 60_000, keys ["db"];
        /// Most packets that wait; 0 is the length of the device's queue.
        limit: Packets = Packets(0), keys ["limit"];
        /// Most packets in a bin; 0 is five quarters of `target`.
        max: Packets = Packets(0), keys ["max"];
        /// Packets in a bin from which on its probability rises; 0 is four fifths of `max`.
        target: Packets = Packets(0), keys ["target"];
        /// Step by which a probability rises.
        increment: Part = Part(33), keys ["increment"];
        /// Step by which a probability sinks with a packet that finds its bin empty.
        decrement: Part = Part(3), keys ["decrement"];
        /// Packets per second of all flows with probability one together.
        penalty_rate: u32 = 10, keys ["penalty_rate"];
        /// Packets of such flows that may come at once.
        penalty_burst: u32 = 20, keys ["penalty_burst"];
    }
}

/// A part of one, in units of 1/65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part(pub u16);

impl Part {
    const ALL: u128 = CERTAIN as u128;
    /// Decimal places that distinguish all units.
    const PLACES: u32 = 6;
}

impl Show for Part {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        // Searches for the shortest text that reads back as the same value.
        let units = u128::from(self.0);
        for places in 0..=Self::PLACES {
            let one = 10u128.pow(places);
            let digits = (units * one + Self::ALL / 2) / Self::ALL;
            if places == Self::PLACES || (digits * Self::ALL + one / 2) / one == units {
                return decimal(f, digits, places);
            }
        }
        Ok(())
    }
    fn json(&self) -> Json {
        Json::Number(exact_of(self))
    }
}

impl Value for Part {
    const EXPECTED: &'static str = "a part of one (0.0005), at most 1";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        fraction(words.value()?)
            .and_then(|(mantissa, den)| Some((mantissa.checked_mul(Self::ALL)? + den / 2) / den))
            .and_then(|units| u16::try_from(units).ok().map(Self))
            .ok_or(Refusal::NotSuch)
    }
}

crate::stats! {
    /// Counters of sfb.
    pub struct Stats {
        /// Packets dropped by the chance of their flow, because they could not be marked or in
        /// place of a mark where the chance was above one half.
        earlydrop: u32,
        /// Packets of flows with probability one dropped for want of a token.
        penaltydrop: u32,
        /// Packets dropped because all bins of their flow were at `max`.
        bucketdrop: u32,
        /// Packets dropped at `limit`.
        queuedrop: u32,
        /// Packets that the qdisc in the class refused.
        childdrop: u32,
        /// Packets marked by the law.
        marked: u32,
        /// Packets in the fullest bin now.
        maxqlen: u32 [line] [falls],
        /// The highest probability of a bin now.
        maxprob: u64 [part] [falls],
        /// The mean of the probabilities of all bins now.
        avgprob: u64 [part] [falls],
    }
}

/// A queue under stochastic fair BLUE.
#[derive(Debug)]
pub struct Sfb {
    inner: [Class; 1],
    law: Blue,
    /// Seeds of the first hashes.
    seeds: [u64; 2],
    /// The bins of the packet in each slot of the pool.
    counted: Vec<Counted>,
    limit: PacketLimit,
    stats: Stats,
    /// True if all packets were taken out of the class, and the bins have not forgotten them yet:
    /// what is taken out changes no counter.
    emptied: bool,
}

/// Length of a tick, in which the law counts time.
const TICK: u64 = 1_000_000;

const fn tick(t: Instant) -> u64 {
    t.0 / TICK
}

/// Returns the law's parameters.
fn params(cfg: &Config) -> BlueParams {
    BlueParams {
        max: cfg.max.0,
        target: cfg.target.0,
        increment: cfg.increment.0,
        decrement: cfg.decrement.0,
        penalty_rate: cfg.penalty_rate,
        penalty_burst: cfg.penalty_burst,
        rehash: cfg.rehash.into(),
        warmup: cfg.db.into(),
    }
}

/// Returns units of 1/65535 in units of 2^-64.
const fn part(n: u16) -> u64 {
    // 65535 goes into 2^64 - 1 without a rest.
    n as u64 * (u64::MAX / CERTAIN as u64)
}

impl Discipline for Sfb {
    const KIND: &'static str = "sfb";
    const ABOUT: &'static str = "Stochastic fair BLUE: holds flows that ignore marks to a low rate.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const SHAPE: ClassShape = ClassShape::One;
    const STYLE: Style = Style::BLANK;
    const CHANGE: ChangeRule = ChangeRule::Replace;
    const FILTERS: Filtered = Filtered::Qdisc;
    const REFUSED_BY: RefusedBy = |err, _| match err.kind {
        ErrorKind::OutOfRange => Some(Refuser::Tool),
        _ => None,
    };
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    const TABLES: fn(&Config, &Env) -> u64 = |_, env| u64::from(env.packets) * size_of::<Counted>() as u64; // a size in memory
    type Config = Config;
    type Rules = ();
    type Stats = Stats;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, env: &Env) -> Result<(), ConfigError> {
        // As tc works out one of the two by the other, and the reference the limit.
        if cfg.max.0 == 0 {
            let fits = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
            let target = u64::from(cfg.target.0);
            cfg.max.0 = if target == 0 { 25 } else { fits((target * 5 + 1) / 4) };
        }
        if cfg.target.0 == 0 {
            cfg.target.0 = u32::try_from((u64::from(cfg.max.0) * 4 + 3) / 5).unwrap_or(u32::MAX);
        }
        if cfg.limit.0 == 0 {
            cfg.limit.0 = env.tx_queue_len.max(1);
        }
        Ok(())
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        let limit = PacketLimit { limit: cfg.limit };
        let seeds = [env.seed, !env.seed];
        Self {
            inner: [Class { minor: 1, node: leaf::plain::<Pfifo>(limit.clone(), env) }],
            law: Blue::new(params(cfg), seeds, 0),
            seeds,
            counted: vec![Counted::default(); env.packets as usize],
            limit,
            stats: Stats::default(),
            emptied: false,
        }
    }
    fn start(&mut self, now: Instant) {
        self.law.start(tick(now));
    }
    fn change(&mut self, cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        self.limit = PacketLimit { limit: cfg.limit };
        let inner = &mut self.inner[0].node;
        if inner.handle().is_none() {
            // As in the reference, the FIFO is a new one; a swap keeps the waiting packets.
            if !cx.swapping() {
                inner.purge(cx);
            }
            leaf::change_plain::<Pfifo>(inner, self.limit.clone(), env, cx);
        }
        self.renew(params(cfg), cx);
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.is_full() { Verdict::Full } else { self.inner[0].node.would_accept(m) }
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        if core::mem::take(&mut self.emptied) {
            self.law.release_all();
        }
        if self.is_full() {
            self.stats.queuedrop += 1;
            cx.overlimit();
            return cx.drop(p, DropReason::Overlimit);
        }
        let (flow, now) = (flow_of(cx.meta(&p), class), tick(cx.now));
        let rng = &mut cx.rng;
        let (action, counted) = self.law.arrive(flow, now, || rng.next_u64());
        match action {
            BlueAction::Pass => {}
            BlueAction::Full | BlueAction::Penalty => {
                let full = action == BlueAction::Full;
                *(if full { &mut self.stats.bucketdrop } else { &mut self.stats.penaltydrop }) += 1;
                cx.overlimit();
                return cx.drop(p, DropReason::Congested);
            }
            BlueAction::Mark if cx.mark(&p, MarkReason::Congested) => self.stats.marked += 1,
            BlueAction::Mark | BlueAction::Drop => {
                self.stats.earlydrop += 1;
                return cx.drop(p, DropReason::Congested);
            }
        }
        let (at, inner) = (p.index(), &mut self.inner[0].node);
        if let Some(slot) = self.counted.get_mut(at) {
            *slot = Counted::default();
        }
        let before = cx.dropped().packets;
        inner.enqueue(p, cx);
        if cx.has_refused(at, before) {
            self.stats.childdrop += 1;
        } else if let Some(slot) = self.counted.get_mut(at) {
            *slot = counted;
            self.law.take(counted);
        }
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let next = self.inner[0].node.dequeue(cx);
        match &next {
            Next::Packet(p) => {
                if let Some(slot) = self.counted.get_mut(p.index()) {
                    self.law.release(core::mem::take(slot));
                }
            }
            Next::Empty => self.law.release_all(),
            Next::At(..) => {}
        }
        next
    }
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        Some(self.inner[0].node.peek(cx))
    }
    /// All packets wait in the class, and leave it with this call.
    fn evict_all(&mut self, _out: &mut List, _pool: &mut Pool) {
        self.emptied = true;
    }
    fn queued(&self, _pool: &Pool, _f: &mut dyn FnMut(Waiting<'_>)) {}
    fn reset(&mut self, cx: &mut Cx) {
        self.renew(self.law.params(), cx);
    }
    fn stats(&self) -> Stats {
        let state = self.law.state();
        Stats {
            maxqlen: state.max_queued.into(),
            maxprob: part(state.max),
            avgprob: part(state.mean),
            ..self.stats
        }
    }
}

impl Classes for Sfb {
    fn classes(&self) -> &[Class] {
        &self.inner
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        &mut self.inner
    }
    fn default_child(&self, env: &Env) -> Option<Node> {
        Some(leaf::plain::<Pfifo>(self.limit.clone(), env))
    }
    /// Filters decide on every packet, also on one whose priority names the qdisc: a packet that
    /// they do not match is dropped.
    fn classify_result(&self, class: Option<ClassId>, asked: Option<Handle>, own: Handle) -> Classified {
        match (asked, class) {
            (None, _) => Classified::Inner(own),
            (Some(_), None) => Classified::Final(FilterOutcome::Drop),
            (Some(_), Some(c)) => {
                Classified::Final(FilterOutcome::Class(Handle::new(own.major(), c.minor())))
            }
        }
    }
}

/// Returns the flow of a packet: the class that the filters name, else its hash.
fn flow_of(m: &Meta, class: Option<ClassId>) -> u64 {
    let named = class.filter(|class| Handle(m.priority) != *class);
    named.map_or(m.hash.into(), |class| 1 << 32 | u64::from(class.minor()))
}

impl Sfb {
    fn is_full(&self) -> bool {
        self.inner[0].node.account().queued().packets >= u64::from(self.limit.limit.0)
    }
    /// Begins anew with these parameters: bins without packets, the first hashes, all tokens.
    fn renew(&mut self, params: BlueParams, cx: &Cx) {
        self.law = Blue::new(params, self.seeds, tick(cx.now));
        self.counted.fill(Counted::default());
        self.emptied = false;
    }
}
