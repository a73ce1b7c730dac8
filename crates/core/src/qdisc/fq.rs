//! fq: fair queueing of flows that are paced: each packet leaves at its launch time, or spaced by
//! `maxrate`, and flows that may send take turns by deficit round robin in three weighted bands
//! (tc-fq(8); earliest departure time: Saeed and others, "Carousel", SIGCOMM 2017; deficit round
//! robin: Shreedhar and Varghese, SIGCOMM 1995).
//!
//! O(1) per packet: a flow is found by indexing with its masked hash, and flows that wait for their
//! time are in a wheel (`crate::base::wheel`), whose cost does not grow with their number. A packet
//! whose launch time is before that of an earlier arrival in its flow costs a step for each packet
//! of the flow that leaves before it, at most `flow_limit`.
//!
//! Memory per flow: one cache line; the wheel takes another for each 5 flows, or for each flow if
//! there are few. There are as many flows as `orphan_mask` has values, rounded up to a power of
//! two, at most 2^20 (77 MiB): 1024 by default (168 kB with the wheel). All is taken at creation,
//! or by a change of `orphan_mask`; state never grows with traffic.
//!
//! - I1: no packet leaves before its launch time (less `offload_horizon`).
//! - I2: packets of one flow leave in order of launch time, and of arrival where that is equal or
//!   not given.
//! - I3: a flow is in exactly one place: listed in a band, in the wheel, or idle; in the wheel, its
//!   head may not leave before its deadline there.
//! - I4: a band holds at most `limit` packets; the fast path, beside them, at most 8 while a flow
//!   waits or is served.
//! - Differs from Linux (PARITY.md: fq-flow-key, fq-no-socket, fq-flow-table, fq-timer-slack,
//!   fq-latency, fq-refill-grain, fq-shrink, fq-remap, fq-fast-order, fq-offload, fq-range,
//!   fq-bands-shown, fq-delay-shown, flow-hash, tcpctl-band): the key is the flow hash, in a table
//!   of fixed size; there are no sockets; times are exact; waiting packets keep their order.

mod change;
mod config;
mod flow;

use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::chance::Percent;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::time::{Instant, Nanos};
use crate::base::wheel::PackedWheel;
use crate::law::deficit::{Passes, rounds_in_debt};
use crate::law::pace;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use crate::packet::reason::{DropReason, MarkReason, WakeReason};
use crate::packet::route::Candidate;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::spec::{Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind};

use config::{BANDS, Limits, slack, weights};
pub use config::{Config, Stats};
use flow::{Flow, NIL, Place, Turns, launch_of};

/// Largest debt of a band, in turns: the bound of the loop over bands.
const DEBT_MAX: i32 = 64;
/// Most packets that take the fast path before one leaves: beyond it flows shall take turns.
const FAST_MAX: u32 = 8;
/// Number of flows from which on memory is asked for ahead: fewer stay in the caches.
const ASKS_FROM: usize = 8192;
/// Idle time after which a flow may be forgotten; its credit has been refilled long before.
const GC_AGE: Nanos = Nanos::from_secs(3);
/// Flows looked at when a new one makes them too many: the bound of that loop.
const GC_MAX: u32 = 8;

#[derive(Debug)]
#[repr(align(32))]
struct Band {
    new: Turns,
    old: Turns,
    credit: i32,
    weight: i32,
    packets: u32,
}

/// Fair queueing with pacing.
#[derive(Debug)]
pub(crate) struct Fq {
    flows: Vec<Flow>,
    /// Throttled flows, ordered by their `next`.
    wheel: PackedWheel,
    /// Packets on the fast path.
    fast: Queue,
    bands: [Band; BANDS],
    /// The band whose turn it is.
    turn: usize,
    /// Waiting packets, those on the fast path included.
    packets: u32,
    /// Packets that a peek has taken out of the flows: 0 or 1.
    held: u32,
    /// Flows that are not `Unknown`.
    known: u32,
    /// Flows with waiting packets, and of those the ones that are not throttled.
    busy: u32,
    active: u32,
    limits: Limits,
    /// Time by which the caller is asked too late.
    slack: Nanos,
    /// Time at which a packet last came or left.
    seen: Instant,
    stats: Stats,
    band_drops: [u64; BANDS],
}

impl Discipline for Fq {
    const KIND: &'static str = "fq";
    // tc reads this time alone as one of 32 bits.
    const REFUSED_BY: RefusedBy = |err, _| {
        let slack = err.kind == ErrorKind::OutOfRange && err.key.as_deref() == Some("timer_slack");
        slack.then_some(Refuser::Tool)
    };
    const ABOUT: &'static str =
        "Fair queueing of paced flows: launch times, a rate per flow, three weighted bands.";
    const FLAGS: Flags = Flags { shapes: true, reorders: false };
    const STYLE: Style = Style::BLANK;
    const BAND: fn(&Config) -> Option<Percent> = |cfg| cfg.tcpctl;
    // The flows; the slots of the wheel, and two chunks' worth of ids for each flow.
    const TABLES: fn(&Config, &Env) -> u64 =
        |cfg, _| u64::from(Limits::of(cfg).flows()) * (size_of::<Flow>() as u64 + 48) + (128 << 10);
    type Config = Config;
    type Rules = ();
    type Stats = Stats;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        cfg.resolve(Self::KIND)
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        let limits = Limits::of(cfg);
        let mut flows = Vec::new();
        flows.resize_with(limits.flows() as usize, Flow::default);
        Self {
            wheel: PackedWheel::with_capacity(limits.flows()),
            flows,
            fast: Queue::new(),
            bands: weights(cfg).map(|weight| Band {
                new: Turns::new(),
                old: Turns::new(),
                credit: weight,
                weight,
                packets: 0,
            }),
            turn: 0,
            packets: 0,
            held: 0,
            known: 0,
            busy: 0,
            active: 0,
            limits,
            slack: slack(cfg, env),
            seen: Instant::ZERO,
            stats: Stats::default(),
            band_drops: [0; BANDS],
        }
    }
    fn change(&mut self, cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        let old = core::mem::replace(&mut self.limits, Limits::of(cfg));
        self.slack = slack(cfg, env);
        // The table only grows: flows above a smaller mask empty in their own time.
        let flows = self.flows.len().max(self.limits.flows() as usize);
        self.flows.resize_with(flows, Flow::default);
        self.wheel.reserve(flows as u32);
        for (band, weight) in self.bands.iter_mut().zip(weights(cfg)) {
            band.weight = weight;
        }
        if (old.mask, old.band_of) != (self.limits.mask, self.limits.band_of) {
            self.rehome(cx);
        }
        if self.packets + self.held > self.limits.limit && cx.purge_peeked() {
            self.held = 0;
        }
        let mut bound = Bound::of(self.packets as usize);
        while self.packets + self.held > self.limits.limit {
            bound.turn();
            let Next::Packet(p) = self.dequeue(cx) else { break };
            cx.drop(p, DropReason::Purged);
        }
        self.trim(cx);
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        let limits = &self.limits;
        let own = self.flows[limits.flow(m)].len;
        let waiting = self.bands[limits.band(m)].packets;
        let room = Verdict::shared(own.into(), waiting.into(), limits.limit.into());
        let fast = self.packets == 0 && limits.maxrate.is_none() && m.txtime == Instant::ZERO;
        let fits = fast || own < limits.flow_limit;
        room.and(if fits { Verdict::Accept } else { Verdict::FlowFull })
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        let limits = &self.limits;
        let m = cx.pool.meta_mut(&p);
        self.seen = cx.now;
        let band = limits.band(m);
        if self.bands[band].packets >= limits.limit {
            self.band_drops[band] += 1;
            return cx.drop(p, DropReason::Overlimit);
        }
        if m.txtime > cx.now + limits.horizon {
            if limits.horizon_drop {
                self.stats.horizon_drops += 1;
                return cx.drop(p, DropReason::Horizon);
            }
            self.stats.horizon_caps += 1;
            m.txtime = cx.now + limits.horizon;
        }
        let m = cx.pool.meta(&p);
        if self.is_fast(m, cx.now, &cx.pool) {
            self.stats.fastpath += 1;
            self.packets += 1;
            // Launch times that are over still order the packets.
            let launch = launch_of(m);
            return self.fast.insert_by(&mut cx.pool, p, |earlier| launch_of(earlier) <= launch);
        }
        let f = limits.flow(m);
        if self.flows[f].place == Place::Unknown {
            self.learn(f, cx.now);
        }
        if self.flows[f].len >= self.limits.flow_limit {
            self.stats.flows_plimit += 1;
            return cx.drop(p, DropReason::FlowLimit);
        }
        self.join(f, band, p, cx);
    }
    fn expect(&self, m: &Meta, _class: Option<ClassId>, step: u32, pool: &Pool) -> bool {
        let f = self.limits.flow(m);
        if step == 0 {
            txweir_ahead::element(&self.flows, f);
            return true;
        }
        if let Some(flow) = self.flows.get(f) {
            flow.packets.ask_last(pool);
        }
        false
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        if self.packets == 0 {
            return Next::Empty;
        }
        self.seen = cx.now;
        if let Some(p) = self.fast.pop_front(&cx.pool) {
            self.packets -= 1;
            return Next::Packet(p);
        }
        self.release(cx);
        // Bound: that of `Passes`, and between two of its turns one for each band. A turn sends,
        // gives a flow credit, takes a flow off the lists, or goes to another band.
        let mut misses = 0;
        let mut passes = Passes::new();
        loop {
            let band = &mut self.bands[self.turn];
            let from_new = band.new.head != NIL;
            let list = if from_new { &mut band.new } else { &mut band.old };
            let f = list.head;
            let Some(flow) = self.flows.get_mut(f as usize).filter(|_| band.credit > 0) else {
                if !self.next_band(&mut misses) {
                    return self.wait();
                }
                continue;
            };
            if flow.may_send(cx, &self.limits) {
                return self.send(f as usize, cx);
            }
            list.pop_front(flow.link);
            self.pass(f, from_new, cx);
            if passes.is_long() {
                self.skip_rounds();
            }
            // The flow may have gone to a band that was found empty before.
            misses = 0;
        }
    }
    fn holding(&mut self, held: bool) {
        self.held = u32::from(held);
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        // Flows stay in place: an empty one on a list, or in the wheel, is found empty when its
        // turn comes.
        self.fast.evict_all(out, pool);
        for flow in &mut self.flows {
            flow.packets.evict_all(out, pool);
            flow.len = 0;
        }
        for band in &mut self.bands {
            band.packets = 0;
        }
        (self.packets, self.busy, self.active) = (0, 0, 0);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.fast.waiting(pool).for_each(&mut *f);
        self.flows.iter().flat_map(|flow| flow.packets.waiting(pool)).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        self.flows.fill_with(Flow::default);
        self.wheel.clear();
        for band in &mut self.bands {
            (band.new, band.old) = (Turns::new(), Turns::new());
            band.credit = band.weight;
        }
        (self.turn, self.known) = (0, 0);
    }
    fn stats(&self) -> Stats {
        let [band0_pkts, band1_pkts, band2_pkts] = [0, 1, 2].map(|b: usize| self.bands[b].packets);
        let [band0_drops, band1_drops, band2_drops] = self.band_drops;
        let throttled_flows = self.busy - self.active;
        let next = self.wheel.next().filter(|_| throttled_flows > 0).unwrap_or(self.seen);
        Stats {
            flows: self.known,
            inactive: self.known - self.busy,
            throttled_flows,
            band0_pkts,
            band1_pkts,
            band2_pkts,
            next_packet_delay: next.saturating_since(self.seen).0,
            band0_drops,
            band1_drops,
            band2_drops,
            ..self.stats
        }
    }
}

impl Fq {
    /// True if the packet may bypass the flows: it may leave now, no flow could send, and none is
    /// paced by rate.
    #[inline]
    fn is_fast(&self, m: &Meta, now: Instant, pool: &Pool) -> bool {
        let until = now + self.limits.offload;
        let nothing_due = || self.wheel.next().is_none_or(|t| t > until);
        m.txtime <= until
            && self.limits.maxrate.is_none()
            && (self.packets == 0
                || self.active == 0
                    && self.fast.packets() < FAST_MAX
                    && nothing_due()
                    && self.overtakes_none(m, pool))
    }

    /// True if the packet would not overtake one of its flow that came without a launch time, as it
    /// could after `maxrate` was taken away.
    #[inline]
    fn overtakes_none(&self, m: &Meta, pool: &Pool) -> bool {
        let head = self.flows[self.limits.flow(m)].packets.front(pool);
        head.is_none_or(|head| head.txtime != Instant::ZERO || m.txtime != Instant::ZERO)
    }

    /// Queues a packet in its flow.
    #[inline(always)]
    fn join(&mut self, f: usize, band: usize, p: Pkt, cx: &mut Cx) {
        let flow = &mut self.flows[f];
        let launch = launch_of(cx.pool.meta(&p));
        let first = flow.len == 0;
        if first {
            self.busy += 1;
            self.active += u32::from(flow.place != Place::Throttled);
        }
        flow.len += 1;
        self.packets += 1;
        self.bands[band].packets += 1;
        if first || flow.latest <= launch {
            flow.latest = launch;
            flow.packets.push_back(&mut cx.pool, p);
        } else {
            flow.packets.insert(&mut cx.pool, p, launch);
        }
        // A known flow is listed in the band of its previous packet, and a new one in band 0, as in
        // the reference.
        let listed = core::mem::replace(&mut flow.band, band as u8);
        if flow.place == Place::Idle {
            if cx.now.saturating_since(flow.idle) > self.limits.refill {
                // quantum is at most 2^20.
                flow.credit = flow.credit.max(self.limits.quantum as i32);
            }
            flow.place = Place::Listed;
            self.bands[usize::from(listed)].new.push_back(&mut self.flows, f as u32);
        }
    }

    /// Begins a flow; if many are known, forgets some that have long been idle.
    #[cold]
    fn learn(&mut self, f: usize, now: Instant) {
        let flow = &mut self.flows[f];
        (flow.place, flow.credit, flow.idle) = (Place::Idle, self.limits.initial_quantum, now);
        (flow.next, flow.band) = (Instant::ZERO, 0);
        self.known += 1;
        if self.known < self.limits.gc_above || self.known - self.busy <= self.known / 2 {
            return;
        }
        let all = self.flows.len();
        for other in (1..=GC_MAX as usize).map(|i| (f + i) % all) {
            let flow = &mut self.flows[other];
            if other != f && flow.place == Place::Idle && now.saturating_since(flow.idle) > GC_AGE {
                flow.place = Place::Unknown;
                self.known -= 1;
                self.stats.gc += 1;
            }
        }
    }

    /// Lists the flows whose time has come.
    #[inline]
    fn release(&mut self, cx: &mut Cx) {
        let now = cx.now;
        let asks = self.flows.len() >= ASKS_FROM;
        let until = now + self.limits.offload;
        let mut first = true;
        let mut bound = Bound::of(self.flows.len());
        while let Some((f, due)) = self.wheel.pop_due(until) {
            bound.turn();
            if core::mem::replace(&mut first, false) {
                let late = now.saturating_since(due).0;
                self.stats.latency = self.stats.latency - (self.stats.latency >> 3) + (late >> 3);
            }
            let flow = &mut self.flows[f as usize];
            flow.place = Place::Listed;
            self.active += u32::from(flow.len > 0);
            if asks {
                flow.packets.ask_first(&mut cx.pool);
                if let Some(soon) = self.wheel.soon() {
                    txweir_ahead::element(&self.flows, soon as usize);
                }
            }
            let flow = &self.flows[f as usize];
            self.bands[usize::from(flow.band)].old.push_back(&mut self.flows, f);
        }
    }

    /// Goes to the next band that may send; returns false after three bands in a row that had
    /// credit and no flow.
    fn next_band(&mut self, misses: &mut usize) -> bool {
        // A debt of a band is at most `DEBT_MAX` of its weights.
        let mut bound = Bound::of(BANDS * (DEBT_MAX as usize + 2));
        loop {
            bound.turn();
            *misses += 1;
            if *misses > BANDS {
                return false;
            }
            self.turn = if self.turn + 1 == BANDS { 0 } else { self.turn + 1 };
            let band = &mut self.bands[self.turn];
            band.credit = band.credit.saturating_add(band.weight).min(band.weight);
            if band.credit > 0 {
                return true;
            }
            *misses = 0;
        }
    }

    /// Returns the answer to a dequeue when no flow may send.
    fn wait(&self) -> Next {
        match self.wheel.next() {
            Some(t) => Next::At(t - self.limits.offload + self.slack, WakeReason::LaunchTime),
            None => Next::Empty,
        }
    }

    /// Finds a place for a flow that may not send and was taken off its list.
    #[inline]
    fn pass(&mut self, f: u32, from_new: bool, cx: &Cx) {
        let flow = &mut self.flows[f as usize];
        if flow.credit <= 0 {
            // quantum is at most 2^20.
            flow.credit += self.limits.quantum as i32;
        } else if flow.len > 0 {
            flow.place = Place::Throttled;
            self.wheel.insert(f, flow.next);
            self.active -= 1;
            self.stats.throttled += 1;
            return;
        } else if !from_new {
            (flow.place, flow.idle) = (Place::Idle, cx.now);
            return;
        }
        // An emptied new flow waits for its turn among the old ones, so that it cannot starve them.
        let to = usize::from(flow.band);
        self.bands[to].old.push_back(&mut self.flows, f);
    }

    /// Gives each flow of the band whose turn it is the quanta of the rounds in which none can
    /// send; of no round while a flow is new, or belongs to another band by now, since the round
    /// moves it.
    #[cold]
    fn skip_rounds(&mut self) {
        let (band, quantum) = (&self.bands[self.turn], self.limits.quantum);
        if band.new.head != NIL || band.credit <= 0 {
            return;
        }
        let (mut rounds, mut at) = (u32::MAX, band.old.head);
        let mut bound = Bound::of(self.flows.len());
        while let Some(flow) = self.flows.get(at as usize) {
            bound.turn();
            let stays = usize::from(flow.band) == self.turn;
            rounds = if stays { rounds.min(rounds_in_debt(flow.credit, quantum as i32)) } else { 0 };
            if rounds == 0 {
                return;
            }
            at = if at == band.old.tail { NIL } else { flow.link };
        }
        at = band.old.head;
        let mut bound = Bound::of(self.flows.len());
        while let Some(flow) = self.flows.get_mut(at as usize) {
            bound.turn();
            // A debt of at least as many quanta: the sum is at most 0.
            flow.credit = flow.credit.saturating_add_unsigned(rounds * quantum);
            at = if at == band.old.tail { NIL } else { flow.link };
        }
    }

    /// Sends the next packet of a flow that may send.
    #[inline]
    fn send(&mut self, f: usize, cx: &mut Cx) -> Next {
        let Some(p) = self.pop_of(f, cx) else { return Next::Empty };
        let due = launch_of(cx.meta(&p)).max(self.flows[f].next);
        if cx.now.saturating_since(due).0 > self.limits.ce_threshold {
            cx.mark(&p, MarkReason::CeThreshold);
            self.stats.ce_mark += 1;
        }
        self.charge(f, &p, cx);
        Next::Packet(p)
    }

    /// Takes a flow's next packet off the counts.
    #[inline]
    fn pop_of(&mut self, f: usize, cx: &Cx) -> Option<Pkt> {
        let flow = &mut self.flows[f];
        let p = flow.packets.pop_front(&cx.pool)?;
        flow.len -= 1;
        if flow.len == 0 {
            self.busy -= 1;
            self.active -= u32::from(flow.place != Place::Throttled);
        }
        self.packets -= 1;
        Some(p)
    }

    /// Charges a packet to its flow and to the band whose turn it is, and computes when the flow's
    /// next packet may leave.
    #[inline]
    fn charge(&mut self, f: usize, p: &Pkt, cx: &Cx) {
        let (flow, limits, m) = (&mut self.flows[f], &self.limits, cx.meta(p));
        let len = m.wire_len;
        self.bands[limits.band(m)].packets -= 1;
        flow.credit = flow.credit.saturating_sub_unsigned(len);
        let band = &mut self.bands[self.turn];
        band.credit = band.credit.saturating_sub_unsigned(len).max(band.weight.saturating_mul(-DEBT_MAX));
        let Some(rate) = limits.maxrate.filter(|_| limits.pacing) else {
            return;
        };
        let mut paced = len;
        if m.txtime == Instant::ZERO {
            if limits.low {
                flow.credit = 0;
            } else if flow.credit > 0 {
                return;
            } else {
                paced = len.max(limits.quantum);
            }
        }
        let (mut delay, too_long) = pace::delay(paced, rate);
        self.stats.pkts_too_long += u64::from(too_long);
        if flow.next != Instant::ZERO {
            delay = pace::make_up(delay, cx.now.saturating_since(flow.next));
        }
        flow.next = cx.now + delay;
    }
}
