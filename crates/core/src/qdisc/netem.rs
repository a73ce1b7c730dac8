//! netem: an emulated link (tc-netem(8)). It delays, loses, corrupts, duplicates and reorders
//! packets, spaces them by a rate and holds them for slots. A packet whose delay is over leaves, or
//! passes through the qdisc in class 1:1 if one was added. O(1) per packet; 40 bytes for each
//! packet of `limit`, at most of the path's pool.
//!
//! - I1: no packet leaves before its time, nor outside of a slot; packets due at the same time
//!   leave in order of arrival.
//! - I2: never more than `limit` packets wait, those in the class included, except that a smaller
//!   limit takes none out of the class.
//! - I3: a copy is made at most once of a packet, and never of a copy.
//! - I4: without a random part no random number is drawn: a constant delay, a rate and slots of a
//!   fixed gap are exact.
//! - Differs from Linux (PARITY.md: class-only, netem-asks-once, netem-class-list,
//!   netem-corrupt-gso, netem-duplicate-correlation, netem-duplicate-one, netem-duplicate-room,
//!   netem-ecn-drops, netem-forgets, netem-requeues, netem-shrink, netem-swap, netem-tables): the
//!   class is asked once, and listed; super-packets are cut before they may be corrupted; the
//!   correlation of copies holds by itself; a netem that duplicates is alone in its tree; a copy
//!   takes room as any packet; a mark is no drop; a change forgets options without
//!   effect; reordered packets are no requeues; a smaller limit drops the packets that have waited
//!   longest; a swap emulates nothing twice; tables are computed or given.

use crate::base::bound::Bound;
use crate::base::chance::Percent;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::rng::Rng;
use crate::base::time::{Instant, Nanos};
use crate::base::units::Rate;
use crate::law::impair::{CellRate, Correlated, Dice, Distribution, LossModel, MarkovState};
use crate::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use crate::packet::reason::{DropReason, MarkReason, WakeReason};
use crate::packet::route::Candidate;
use crate::packet::timeline::Timeline;
use crate::qdisc::fifo::NoStats;
use crate::qdisc::leaf;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes};
use crate::sched::cx::{Arrival, Cx};
use crate::sched::discipline::{ChangeRule, Discipline};
use crate::sched::node::Class;
use crate::sched::spec::{ClassShape, Flags, RefusedBy, Refuser};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::impairment::{Chance, Delay, LinkRate, Loss, Places, Shape, Slot, SlotGap};

crate::params! {
    /// Parameters of netem.
    pub struct Config(env)
        once ["loss"]
        cut [
            "limit", "latency", "delay", "loss", "drop", "ecn", "reorder", "corrupt", "gap", "duplicate", "distribution",
            "rate", "slot"
        ]
    {
        /// Most packets that wait.
        limit: Places = Places(1000), keys ["limit"];
        /// Delay of each packet, its jitter, and the correlation of each delay with the one before.
        delay: Option<Delay> = None, keys ["delay", "latency"];
        /// Distribution of the delay: uniform if none is given. Needs a jitter.
        distribution: Option<Shape> = None, keys ["distribution"];
        /// Loss of packets: by chance, or by a model of bursts.
        loss: Option<Loss> = None, keys ["loss", "drop"];
        /// Mark ECN-capable packets instead of losing them. Needs `loss`.
        ecn: bool = false, flags ["ecn" = true];
        /// Chance that one bit of a packet is flipped.
        corrupt: Option<Chance> = None, keys ["corrupt"];
        /// Chance that a packet is duplicated.
        duplicate: Option<Chance> = None, keys ["duplicate"];
        /// Chance that a packet leaves at once, ahead of the delayed ones. Needs `delay`.
        reorder: Option<Chance> = None, keys ["reorder"];
        /// Only one packet in this many may be reordered. Needs `reorder`; 0 is 1.
        gap: u32 = 0, keys ["gap"];
        /// Rate at which packets follow each other, with an overhead per packet, and cells with
        /// their own overhead.
        rate: Option<LinkRate> = None, keys ["rate"];
        /// Packets leave in slots only: the time between slots, and the packets and bytes that fit
        /// in one.
        slot: Option<Slot> = None, keys ["slot"];
        /// Seed of the random numbers: the same seed gives the same ones. Without it they come from
        /// the path.
        seed: Option<u64> = None, keys ["seed"];
    }
}

/// Grain of a delay, in nanoseconds: that of the reference's clock.
const GRAIN: u64 = 64;

/// Returns a span as the reference holds it, in nanoseconds: whole microseconds, then whole grains.
pub fn in_grains(t: Nanos) -> i64 {
    // `Nanos` allows options of at most 274 s.
    let ns = t.as_micros().saturating_mul(1000) / GRAIN * GRAIN;
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// The largest deviation of the reference: 2.1 s in nanoseconds.
const DEVIATION_MAX: i64 = i32::MAX as i64;

/// Returns a deviation as the reference holds it.
pub fn most_deviation(t: Nanos) -> i64 {
    in_grains(t).min(DEVIATION_MAX)
}

/// Returns a span in signed nanoseconds, at most 292 years.
fn signed(t: Nanos) -> i64 {
    i64::try_from(t.0).unwrap_or(i64::MAX)
}

/// The treatment of packets, derived from the parameters.
#[derive(Debug)]
struct Rules {
    limit: u32,
    delay: i64,
    jitter: i64,
    jitters: Correlated,
    shape: Distribution,
    loss: Option<LossModel>,
    ecn: bool,
    corrupt: Dice,
    duplicate: Dice,
    reorder: Dice,
    gap: u32,
    rate: Option<CellRate>,
    slots: Option<Slots>,
}

/// The rule for slots, derived from the parameters.
#[derive(Debug, PartialEq)]
struct Slots {
    gap: i64,
    /// Largest addition to a gap, or with a shape its deviation.
    spread: i64,
    shape: Option<Distribution>,
    packets: i64,
    bytes: i64,
}

/// The current slot: packets leave in it, or wait for it.
#[derive(Clone, Copy, Debug)]
struct OpenSlot {
    at: Instant,
    packets: i64,
    bytes: i64,
}

fn dice(chance: Option<Chance>) -> Dice {
    chance.map_or(Dice::new(0, 0), |c| Dice::new(c.share.0, c.correlation.unwrap_or_default().0))
}

impl Rules {
    fn of(cfg: &Config) -> Self {
        let delay = cfg.delay;
        let correlation = delay.and_then(|d| d.correlation).unwrap_or_default();
        Self {
            limit: cfg.limit.0,
            delay: delay.map_or(0, |d| in_grains(d.time)),
            jitter: delay.map_or(0, |d| most_deviation(d.jitter)),
            jitters: Correlated::new(correlation.0),
            shape: cfg.distribution.as_ref().map_or(Distribution::Uniform, Shape::distribution),
            loss: cfg.loss.map(loss_model),
            ecn: cfg.ecn,
            corrupt: dice(cfg.corrupt),
            duplicate: dice(cfg.duplicate),
            reorder: dice(cfg.reorder),
            gap: cfg.gap,
            rate: cfg.rate.map(|r| CellRate {
                rate: r.rate,
                overhead: r.overhead,
                cell: r.cell,
                cell_overhead: r.cell_overhead,
            }),
            slots: cfg.slot.as_ref().map(Slots::of),
        }
    }
}

impl Slots {
    fn of(slot: &Slot) -> Self {
        let (gap, spread, shape) = match &slot.gap {
            SlotGap::Between(min, max) => (signed(*min), signed(max.saturating_sub(*min)), None),
            SlotGap::Shaped(shape, delay, jitter) => {
                (signed(*delay), signed(*jitter).min(DEVIATION_MAX), Some(shape.distribution()))
            }
        };
        let most = |n: u32| if n == 0 { i64::from(i32::MAX) } else { i64::from(n) };
        Self { gap, spread, shape, packets: most(slot.packets), bytes: most(slot.bytes) }
    }

    /// Returns the slot after `now`.
    fn next(&self, now: Instant, rng: &mut Rng) -> OpenSlot {
        let gap = match &self.shape {
            None if self.spread == 0 => self.gap,
            None => {
                self.gap
                    + ((u128::from(rng.next_u64() >> 32) * self.spread.unsigned_abs() as u128) >> 32) as i64
            }
            Some(shape) => shape.time(self.gap, self.spread, &mut Correlated::default(), rng),
        };
        OpenSlot { at: later(now, gap), packets: self.packets, bytes: self.bytes }
    }
}

/// Returns the time `ns` after `t`, or before it if `ns` is negative.
fn later(t: Instant, ns: i64) -> Instant {
    Instant(t.0.saturating_add_signed(ns))
}

fn loss_model(loss: Loss) -> LossModel {
    match loss {
        Loss::Random(chance) => LossModel::Random(dice(Some(chance))),
        Loss::State(p) => {
            let [p13, p31, p32, p23, p14] = p.map(|p| p.0);
            LossModel::Markov { p13, p31, p32, p23, p14, state: MarkovState::default() }
        }
        Loss::Gemodel(p) => {
            let [p, r, bad, good] = p.map(|p| p.0);
            LossModel::GilbertElliott { p, r, bad, good, is_bad: false }
        }
    }
}

/// An emulated link.
#[derive(Debug)]
pub(crate) struct Netem {
    rules: Rules,
    inner: [Class; 1],
    delayed: Timeline,
    /// Reordered packets: they leave next, the newest first.
    ahead: Queue,
    /// Time at which the newest packet of `ahead` was put there.
    ahead_at: Instant,
    /// Packets since the last reordered one.
    count: u32,
    slot: Option<OpenSlot>,
    /// Packets that a peek holds: the reference counts them towards the limit.
    held: u32,
    seed: Option<u64>,
    own: Option<Rng>,
}

impl Discipline for Netem {
    const KIND: &'static str = "netem";
    const ABOUT: &'static str = "An emulated link: delays, losses, duplicates, reordering, rates, slots.";
    const FLAGS: Flags = Flags { shapes: true, reorders: true };
    const SHAPE: ClassShape = ClassShape::One;
    const COPIES: Option<&'static str> = Some("duplicate");
    const CHANGE: ChangeRule = ChangeRule::Replace;
    const TAKES_CLASS: bool = false;
    // tc itself refuses these conflicts. The rule that a duplicating netem is alone is the
    // kernel's.
    const REFUSED_BY: RefusedBy = |err, _| match (err.kind, err.key.as_deref()) {
        (ErrorKind::Conflict, Some(_)) | (ErrorKind::Unsupported, Some("distribution" | "slot")) => {
            Some(Refuser::Tool)
        }
        _ => None,
    };
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    // The wheel, and an id and a place for each packet that can be delayed.
    const TABLES: fn(&Config, &Env) -> u64 =
        |cfg, env| u64::from(cfg.limit.0.min(env.packets)) * 64 + (64 << 10);
    type Config = Config;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(cfg: &mut Config, old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        let alone = |key: &str, expected: &str| {
            let err = ConfigError::new(ErrorKind::Conflict, Object::Kind(Self::KIND), expected, "without");
            Err(err.key(key).reason(Reason::Alone))
        };
        let delay = cfg.delay.map_or(0, |d| in_grains(d.time));
        let jitter = cfg.delay.map_or(0, |d| in_grains(d.jitter));
        let reorders = cfg.reorder.is_some_and(|r| r.share > Percent(0));
        if reorders && delay == 0 {
            return alone("reorder", "a delay with it: reordered packets are those that do not wait");
        }
        if cfg.gap > 0 && !reorders {
            return alone("gap", "reorder with it: how often");
        }
        if cfg.distribution.is_some() && (delay == 0 || jitter == 0) {
            return alone("distribution", "a delay and a jitter with it");
        }
        if cfg.ecn && cfg.loss.is_none() {
            return alone("ecn", "loss with it: ecn marks packets instead of losing them");
        }
        if reorders && cfg.gap == 0 {
            cfg.gap = 1;
        }
        if let Some(old) = old {
            keep(cfg, old, jitter > 0);
        }
        // Options without effect are unset.
        let happens = |c: &Chance| c.share > Percent(0);
        cfg.loss = cfg.loss.filter(|loss| !matches!(loss, Loss::Random(chance) if !happens(chance)));
        cfg.ecn &= cfg.loss.is_some();
        cfg.corrupt = cfg.corrupt.filter(happens);
        cfg.duplicate = cfg.duplicate.filter(happens);
        cfg.reorder = cfg.reorder.filter(happens);
        cfg.delay = cfg.delay.filter(|d| in_grains(d.time) > 0 || in_grains(d.jitter) > 0);
        cfg.rate = cfg.rate.filter(|r| r.rate > Rate(0));
        cfg.slot = cfg.slot.take().filter(|s| s.gap != SlotGap::Between(Nanos(0), Nanos(0)));
        Ok(())
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        let mut netem = Self {
            inner: [Class { minor: 1, node: leaf::default_child(env) }],
            delayed: Timeline::with_capacity(cfg.limit.0.min(env.packets)),
            ahead: Queue::new(),
            ahead_at: Instant::ZERO,
            count: 0,
            slot: None,
            held: 0,
            seed: cfg.seed,
            own: cfg.seed.map(Rng::new),
            rules: Rules::of(cfg),
        };
        netem.open_slot(Instant::ZERO);
        netem
    }
    fn change(&mut self, cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        let before = core::mem::replace(&mut self.rules, Rules::of(cfg));
        self.delayed.reserve(cfg.limit.0.min(env.packets));
        self.seed = cfg.seed;
        self.own = cfg.seed.map(Rng::new);
        self.count = 0;
        if before.slots != self.rules.slots {
            self.open_slot(cx.now);
        }
        if self.len() > self.rules.limit && cx.purge_peeked() {
            self.held = 0;
        }
        let mut bound = Bound::of(self.len() as usize);
        while self.len() > self.rules.limit {
            bound.turn();
            let oldest = self.ahead.pop_front(&cx.pool).or_else(|| self.delayed.pop_oldest(&cx.pool));
            let Some(p) = oldest else { break };
            cx.drop(p, DropReason::Purged);
        }
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.len() >= self.rules.limit {
            // Checked first: with a size table the packet to be cut may be one that cannot be.
            Verdict::Full
        } else if m.segs > 1 && !self.rules.corrupt.is_never() {
            Verdict::Cut(m.segment_len())
        } else if m.segs > 1 && self.has_child() {
            // A shaper in the class meets the packet when its delay is over: it cannot be cut then.
            match self.inner[0].node.would_accept(m) {
                cut @ Verdict::Cut(_) => cut,
                _ => Verdict::Accept,
            }
        } else {
            Verdict::Accept
        }
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        if cx.arrival() == Arrival::Again {
            // Loss, marking and copying were decided when it first came: only its time is computed
            // anew.
            let start = cx.meta(&p).enqueued;
            return self.delay(p, start, cx);
        }
        let Self { rules, own, .. } = self;
        let copying = cx.arrival() == Arrival::Copy;
        let rng = own.as_mut().unwrap_or(&mut cx.rng);
        let mut copy = !copying && rules.duplicate.roll(rng);
        let lost = rules.loss.as_mut().is_some_and(|model| model.loses(rng));
        if lost && !(rules.ecn && cx.mark(&p, MarkReason::Lost)) && !core::mem::take(&mut copy) {
            return cx.drop(p, DropReason::Lost);
        }
        let rng = own.as_mut().unwrap_or(&mut cx.rng);
        let corrupt = rules.corrupt.roll(rng);
        if self.len() >= self.rules.limit {
            return cx.drop(p, DropReason::Overlimit);
        }
        // Requests are carried out last to first: the copy is made before the bit is flipped.
        if corrupt {
            let bits = u64::from(cx.meta(&p).len) * 8;
            let bit = self.own.as_mut().unwrap_or(&mut cx.rng).below(bits.min(u32::MAX.into()));
            cx.request_flip(&p, u32::try_from(bit).unwrap_or(0));
        }
        if copy {
            cx.request_copy(&p);
        }
        let now = cx.now;
        self.delay(p, now, cx);
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        if let Some(p) = self.ahead.pop_front(&cx.pool) {
            return Next::Packet(p);
        }
        let grafted = self.has_child();
        // A turn takes a packet out of `delayed`, or learns that the earliest deadline is later.
        let mut bound = Bound::of(2 * self.delayed.len() as usize + 1);
        let own = loop {
            bound.turn();
            let Some(due) = self.delayed.next() else { break None };
            let open = self.slot_for(due, cx);
            if due.max(open) > cx.now {
                break Some(due.max(open));
            }
            let Some(p) = self.delayed.pop_due(&cx.pool, cx.now) else { continue };
            self.use_slot(cx.meta(&p).wire_len, cx);
            if !grafted {
                return Next::Packet(p);
            }
            // Its wait in the class begins now, so that an AQM does not see the link's delay.
            cx.pool.meta_mut(&p).enqueued = cx.now;
            self.inner[0].node.enqueue(p, cx);
        };
        let inner = if grafted { self.inner[0].node.dequeue(cx) } else { Next::Empty };
        match (own, inner) {
            (_, Next::Packet(p)) => Next::Packet(p),
            (Some(due), Next::At(t, _)) if due <= t => Next::At(due, WakeReason::Delay),
            (_, Next::At(t, why)) => Next::At(t, why),
            (Some(due), Next::Empty) => Next::At(due, WakeReason::Delay),
            (None, Next::Empty) => Next::Empty,
        }
    }
    fn holding(&mut self, held: bool) {
        self.held = u32::from(held);
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.ahead.evict_all(out, pool);
        self.delayed.evict_all(out, pool);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.ahead.waiting(pool).chain(self.delayed.waiting(pool)).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        let Rules { jitters, loss, corrupt, duplicate, reorder, .. } = &mut self.rules;
        [corrupt, duplicate, reorder].into_iter().for_each(Dice::forget);
        jitters.forget();
        if let Some(loss) = loss {
            loss.forget();
        }
        self.own = self.seed.map(Rng::new);
        self.count = 0;
        self.open_slot(Instant::ZERO);
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Classes for Netem {
    fn classes(&self) -> &[Class] {
        &self.inner
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        &mut self.inner
    }
}

/// Keeps the options that a change leaves as they are if it does not name them.
fn keep(cfg: &mut Config, old: &Config, jitter: bool) {
    cfg.corrupt = cfg.corrupt.or(old.corrupt);
    cfg.rate = cfg.rate.or(old.rate);
    cfg.slot = cfg.slot.take().or_else(|| old.slot.clone());
    if jitter {
        cfg.distribution = cfg.distribution.take().or_else(|| old.distribution.clone());
    }
    let random = |loss: Option<Loss>| match loss {
        Some(Loss::Random(chance)) => chance.correlation,
        _ => None,
    };
    // Correlations change together: if one is named, the others are reset to none.
    let named =
        [cfg.delay.and_then(|d| d.correlation), random(cfg.loss), cfg.duplicate.and_then(|d| d.correlation)];
    if named == [None; 3] {
        if let Some(delay) = &mut cfg.delay {
            delay.correlation = old.delay.and_then(|d| d.correlation);
        }
        if let Some(Loss::Random(chance)) = &mut cfg.loss {
            chance.correlation = random(old.loss);
        }
        if let Some(chance) = &mut cfg.duplicate {
            chance.correlation = old.duplicate.and_then(|d| d.correlation);
        }
    }
}

impl Netem {
    /// True if a qdisc was added to the class.
    fn has_child(&self) -> bool {
        !self.inner[0].node.handle().is_none()
    }

    /// Returns the packets in it, those in the class included.
    fn len(&self) -> u32 {
        let inner = u32::try_from(self.inner[0].node.account().queued().packets).unwrap_or(u32::MAX);
        inner.saturating_add(self.delayed.len()).saturating_add(self.ahead.packets() + self.held)
    }

    /// Queues a packet where it waits; its delay runs from `start`.
    fn delay(&mut self, p: Pkt, start: Instant, cx: &mut Cx) {
        let Self { rules, own, .. } = self;
        let rng = own.as_mut().unwrap_or(&mut cx.rng);
        let may_reorder = rules.gap > 0 && self.count >= rules.gap - 1;
        if may_reorder && rules.reorder.roll(rng) {
            self.count = 0;
            self.ahead_at = start;
            return self.ahead.push_front(&mut cx.pool, p);
        }
        let mut delay = rules.shape.time(rules.delay, rules.jitter, &mut rules.jitters, rng);
        let mut from = start;
        if let Some(rate) = &rules.rate {
            let ahead = (!self.ahead.is_empty()).then_some(self.ahead_at);
            if let Some(last) = self.delayed.latest().max(ahead) {
                // It follows the last one: the part of its delay that this takes anyway is not
                // waited for again.
                let taken =
                    i64::try_from(last.0).unwrap_or(i64::MAX) - i64::try_from(start.0).unwrap_or(i64::MAX);
                delay = delay.saturating_sub(taken).max(0);
                from = last;
            }
            delay = delay.saturating_add(rate.time(cx.pool.meta(&p).wire_len));
        }
        self.count = self.count.saturating_add(1);
        if let Err(p) = self.delayed.push(&mut cx.pool, p, later(from, delay)) {
            cx.drop(p, DropReason::Overlimit);
        }
    }

    /// Opens the first slot at `now`. A packet that is due after the slot opened waits for the next
    /// one.
    fn open_slot(&mut self, now: Instant) {
        let open = |slots: &Slots| OpenSlot { at: now, packets: slots.packets, bytes: slots.bytes };
        self.slot = self.rules.slots.as_ref().map(open);
    }

    /// Returns the time at which the slot opens in which a packet that is due at `due` may leave.
    fn slot_for(&mut self, due: Instant, cx: &mut Cx) -> Instant {
        let (Some(slots), Some(slot)) = (&self.rules.slots, &mut self.slot) else { return Instant::ZERO };
        if slot.at < due {
            *slot = slots.next(cx.now, self.own.as_mut().unwrap_or(&mut cx.rng));
        }
        slot.at
    }

    /// Counts a packet that leaves in the open slot.
    fn use_slot(&mut self, wire_len: u32, cx: &mut Cx) {
        let (Some(slots), Some(slot)) = (&self.rules.slots, &mut self.slot) else { return };
        slot.packets -= 1;
        slot.bytes -= i64::from(wire_len);
        if slot.packets <= 0 || slot.bytes <= 0 {
            *slot = slots.next(cx.now, self.own.as_mut().unwrap_or(&mut cx.rng));
        }
    }
}
