//! fq_codel (RFC 8290): packets are hashed into flows, flows take turns by deficit round robin, and
//! each flow is under its own CoDel law; a flow that has just begun goes first (tc-fq_codel(8)).
//!
//! O(1) per packet; finding the fattest flow on overflow is O(flows), once per batch of drops.
//! Memory per flow: one cache line, 8 bytes of backlog and 8 to 16 of turns, taken at creation, or
//! (`Env::lazy`) with the first packet.
//!
//! - I1: never more than `limit` packets are queued, nor more than `memory_limit` bytes of memory.
//! - I2: packets of one flow leave in order of arrival.
//! - I3: a flow is on exactly one of the two lists while it has packets, and on none once it was
//!   found empty on the list of old flows.
//! - I4: between two turns of a backlogged flow every other backlogged flow has a turn; a turn
//!   sends at most `quantum` bytes plus one packet (RFC 8290 section 4.2).
//! - Differs from Linux (PARITY.md: fq-codel-memory, fq-codel-range, codel-newton-range,
//!   direct-at-rest, flow-hash, fq-codel-flows, fq-codel-shrink, tcpctl-band): memory is that of
//!   this engine, and is brought below its limit by any number of drops; values out of range are
//!   refused; the law is that of codel; the hash is keyed by a seed that the caller gives.

mod selector;

use alloc::vec::Vec;

pub use self::selector::Selector;
use crate::base::bound::Bound;
use crate::base::chance::Percent;
use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::tally::Tally;
use crate::base::units::{Bytes, Packets};
use crate::law::codel::{CodelParams, CodelState, Ticks};
use crate::law::share;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::{DropReason, MarkReason};
use crate::packet::route::{Candidate, Classified, FilterOutcome};
use crate::qdisc::codel::{INTERVAL, TARGET, interval_in_range, law_params, next};
use crate::qdisc::flows::{Flow, FlowTable, QUANTUM_MAX, QUANTUM_MIN, SLOT_BYTES, keeps_flows, memory_of};
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{FlowShown, Flows};
use crate::sched::cx::Cx;
use crate::sched::discipline::{Discipline, Filtered};
use crate::sched::node::band_share;
use crate::sched::spec::{Flags, Style};
use crate::text::error::ConfigError;

crate::params! {
    /// Parameters of fq_codel.
    pub struct Config(env)
        own ["tcpctl"]
    {
        /// Most packets that wait, in all flows together.
        limit: Packets = Packets(10_240), keys ["limit"] @ u32 2, "at least 1 packet": |l| l.0 > 0;
        /// Number of flows that packets are hashed into; fixed once running.
        flows: u32 = 1024, keys ["flows"] @ u32 5, "1 to 65536": |f| (1..=65_536).contains(f);
        /// Bytes that a flow may send per turn; the default is one full frame.
        quantum: u32 = env.frame_max(), keys ["quantum"] @ u32 6, "256 to 1048576 bytes": |q| (256..=1 << 20).contains(q);
        /// Standing delay of a flow that is acceptable.
        target: Ticks = TARGET, keys ["target"] @ us32 1;
        /// Delay at which every ECN-capable packet is CE-marked; off unless given.
        ce_threshold: Option<Ticks> = None, keys ["ce_threshold"] @ us32 7;
        /// Packets that `ce_threshold` is for, by their DS field with the ECN bits: all unless
        /// given; `0x1/0x3` for ECT(1), the packets of L4S.
        ce_threshold_selector: Selector = Selector::default(), keys ["ce_threshold_selector"];
        /// Time over which a flow's delay must stay above target: about the longest round trip.
        interval: Ticks = INTERVAL, keys ["interval"] @ us32 3, "1024ns to 137s": interval_in_range;
        /// Most memory that waiting packets take: their frames and 64 bytes each.
        memory_limit: Bytes = Bytes(32 << 20), keys ["memory_limit"] @ u32 9,
            "at most 4294967295 bytes": |m| m.0 <= u64::from(u32::MAX);
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = true, flags ["ecn" = true, "noecn" = false] @ u32 4;
        /// Most packets dropped from the fattest flow at once when a limit is exceeded.
        drop_batch: u32 = 64, keys ["drop_batch"] @ u32 8, "at least 1": |n| *n > 0;
        /// Share of departing traffic for which TCP control segments have a band before all others;
        /// none unless given (not in Linux).
        tcpctl: Option<Percent> = None, keys ["tcpctl"];
    }
}

crate::stats! {
    /// Counters of fq_codel.
    pub struct Stats {
        /// Largest packet seen, bytes.
        maxpacket: u32 [falls] [of(Bytes)],
        /// Packets dropped because a limit was exceeded.
        drop_overlimit: u64,
        /// Times a flow was put on the list of new flows.
        new_flow_count: u64,
        /// Packets marked instead of dropped.
        ecn_mark: u64,
        /// Packets marked for `ce_threshold`.
        ce_mark: u64 [nonzero],
        /// Memory that waiting packets take now, bytes.
        memory_used: u64 [nonzero] [falls] [of(Bytes)],
        /// Packets dropped because the memory limit was exceeded (also in `drop_overlimit`).
        drop_overmemory: u64 [nonzero],
        /// Flows on the list of new flows.
        new_flows_len: u32 [line] [falls],
        /// Flows on the list of old flows.
        old_flows_len: u32 [falls],
    }
}

/// State of a flow beside its packets: that of its law.
#[derive(Debug, Default)]
struct FlowLaw {
    state: CodelState,
    /// Time that the last packet sent from the flow had waited.
    ldelay: Ticks,
}

const _: () = assert!(size_of::<Flow<FlowLaw>>() == 64, "a flow fills exactly one cache line");

/// Fair queueing with CoDel per flow.
#[derive(Debug)]
pub struct FqCodel {
    /// The flows; without their memory before the first packet, where tables come with it
    /// (`Env::lazy`).
    table: FlowTable<FlowLaw>,
    /// Bytes waiting in each flow; apart from the flows, so that the search for the fattest one
    /// touches few cache lines.
    backlogs: Vec<u64>,
    lazy: bool,
    packets: u32,
    /// Packets that a peek has taken out of the flows: 0 or 1.
    held: u32,
    bytes: u64,
    memory: u64,
    params: CodelParams,
    selector: Selector,
    limit: u32,
    memory_limit: u64,
    drop_batch: u32,
    /// Time of the last dequeue that gave a packet.
    asked: Ticks,
    stats: Stats,
}

impl Discipline for FqCodel {
    const KIND: &'static str = "fq_codel";
    const ABOUT: &'static str = "Fair queueing among flows, each under CoDel; new flows first.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const STYLE: Style = Style::BLANK;
    const FILTERS: Filtered = Filtered::Qdisc;
    const TAKES_CLASS: bool = true;
    const BAND: fn(&Config) -> Option<Percent> = |cfg| cfg.tcpctl;
    // The flows, and their backlogs.
    const TABLES: fn(&Config, &Env) -> u64 =
        |cfg, _| FlowTable::<FlowLaw>::memory(cfg.flows) + u64::from(cfg.flows) * 8;
    type Config = Config;
    type Rules = CodelParams;
    type Stats = Stats;

    fn resolve(cfg: &mut Config, old: Option<&Config>, env: &Env) -> Result<CodelParams, ConfigError> {
        keeps_flows(Self::KIND, old.map_or(cfg.flows, |old| old.flows), cfg.flows)?;
        // A frame above the upper bound would make a default that cannot be written as an option.
        cfg.quantum = cfg.quantum.clamp(QUANTUM_MIN, QUANTUM_MAX);
        cfg.tcpctl = band_share(cfg.tcpctl);
        law_params(Self::KIND, [cfg.target, cfg.interval], cfg.ce_threshold, cfg.ecn, env)
    }
    fn new(cfg: &Config, params: CodelParams, env: &Env) -> Self {
        let mut made = Self {
            table: FlowTable::new(cfg.flows, cfg.quantum),
            backlogs: Vec::new(),
            lazy: env.lazy,
            packets: 0,
            held: 0,
            bytes: 0,
            memory: 0,
            params,
            selector: cfg.ce_threshold_selector,
            limit: cfg.limit.0,
            memory_limit: cfg.memory_limit.0,
            drop_batch: cfg.drop_batch,
            asked: Ticks::default(),
            stats: Stats::default(),
        };
        if !env.lazy {
            made.take_memory();
        }
        made
    }
    fn change(&mut self, cfg: &Config, params: CodelParams, _env: &Env, cx: &mut Cx) {
        self.params = params;
        self.selector = cfg.ce_threshold_selector;
        self.limit = cfg.limit.0;
        self.memory_limit = cfg.memory_limit.0;
        self.table.set_quantum(cfg.quantum);
        self.drop_batch = cfg.drop_batch;
        if self.packets + self.held > self.limit && cx.purge_peeked() {
            self.held = 0;
        }
        let mut bound = Bound::of(self.packets as usize + 1);
        while self.packets + self.held > self.limit || self.memory > self.memory_limit {
            bound.turn();
            let Next::Packet(p) = self.dequeue(cx) else { return };
            cx.drop(p, DropReason::Purged);
        }
    }
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict {
        let own = self.backlogs.get(self.table.flow_of(m, class) as usize).copied().unwrap_or(0);
        let room = |waiting, limit| Verdict::shared(share::part(own, self.bytes, waiting), waiting, limit);
        if self.memory + memory_of(m) > self.memory_limit {
            return Verdict::Full;
        }
        let packets = room(u64::from(self.packets + self.held), self.limit.into());
        packets.and(room(self.memory, self.memory_limit))
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let m = cx.meta(&p);
        let (wire_len, memory) = (m.wire_len, memory_of(m));
        let f = self.table.flow_of(m, class);
        let Some(flow) = self.table.flows_mut().get_mut(f as usize) else {
            return self.enqueue_first(p, class, cx);
        };
        flow.packets.push_back(&mut cx.pool, p);
        self.stats.new_flow_count += u64::from(self.table.list(f));
        self.backlogs[f as usize] += u64::from(wire_len);
        self.bytes += u64::from(wire_len);
        self.packets += 1;
        self.memory += memory;
        let mut bound = Bound::of(self.packets as usize);
        while self.packets > 0 && self.packets + self.held > self.limit || self.memory > self.memory_limit {
            bound.turn();
            self.trim_fattest(cx);
        }
    }
    fn expect(&self, m: &Meta, class: Option<ClassId>, step: u32, pool: &Pool) -> bool {
        let f = self.table.flow_of(m, class);
        if step == 0 {
            txweir_ahead::element(&self.backlogs, f as usize);
        }
        self.table.expect(f, step, pool)
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let (params, stats, now) = (&self.params, &mut self.stats, Ticks::at(cx.now));
        let (backlogs, bytes) = (&mut self.backlogs, &mut self.bytes);
        let (packets, memory) = (&mut self.packets, &mut self.memory);
        let selector = self.selector;
        let (ecn, ce) = (cx.marks(MarkReason::Congested), cx.marks(MarkReason::CeThreshold));
        let answer = self.table.next(cx, |f, flow, cx| {
            let Flow { packets: waiting, law: FlowLaw { state, ldelay }, .. } = flow;
            let backlog = &mut backlogs[f as usize];
            let p = next(state, params, selector, cx, |cx| {
                let p = waiting.pop_front(&cx.pool)?;
                let m = cx.meta(&p);
                // The law may drop the last packet of the flow: its delay is the last one too.
                *ldelay = now.since(Ticks::at(m.enqueued));
                stats.maxpacket = stats.maxpacket.max(m.wire_len);
                *backlog -= u64::from(m.wire_len);
                *bytes -= u64::from(m.wire_len);
                *memory -= memory_of(m);
                *packets -= 1;
                Some((p, *bytes))
            })?;
            let len = cx.meta(&p).wire_len;
            Some((p, len))
        });
        if let Next::Packet(_) = answer {
            self.stats.ecn_mark += cx.marks(MarkReason::Congested) - ecn;
            self.stats.ce_mark += cx.marks(MarkReason::CeThreshold) - ce;
            self.asked = now;
        }
        answer
    }
    fn holding(&mut self, held: bool) {
        self.held = u32::from(held);
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.table.evict_all(out, pool);
        self.backlogs.fill(0);
        (self.packets, self.bytes, self.memory) = (0, 0, 0);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.table.queued(pool, f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        self.table.reset(self.lazy);
        if self.lazy {
            self.backlogs = Vec::new();
        }
    }
    fn transparent(&self, wire_len: u32) -> bool {
        self.table.is_idle() && u64::from(wire_len) + SLOT_BYTES <= self.memory_limit
    }
    fn stats(&self) -> Stats {
        let [new_flows_len, old_flows_len] = self.table.listed();
        Stats { memory_used: self.memory, new_flows_len, old_flows_len, ..self.stats }
    }
    fn as_flows(&self) -> Option<&dyn Flows> {
        Some(self)
    }
}

impl Flows for FqCodel {
    fn flows(&self, pool: &Pool, f: &mut dyn FnMut(FlowShown<'_>)) {
        let flows = (1..).zip(self.table.flows().iter().zip(&self.backlogs));
        for (minor, (flow, bytes)) in flows.filter(|(_, (flow, _))| flow.is_shown()) {
            let law = &flow.law.state;
            let due = law.drop_next().since(self.asked);
            let drop_next = if !law.dropping() || due.0 > u32::MAX / 2 { 0 } else { micros(due) };
            let values = [
                ("deficit", i64::from(flow.deficit)),
                ("count", i64::from(law.count())),
                ("lastcount", i64::from(law.lastcount())),
                ("ldelay", micros(flow.law.ldelay)),
                ("dropping", i64::from(law.dropping())),
                ("drop_next", drop_next),
            ];
            let packets = flow.packets.metas(pool).count() as u64;
            f(FlowShown { minor, backlog: Tally { packets, bytes: *bytes }, values: &values });
        }
    }
    /// Filters decide on every packet: a packet for which they name no flow is dropped.
    fn classify_result(&self, class: Option<ClassId>, _asked: Option<Handle>, own: Handle) -> Classified {
        let flow = |c: ClassId| FilterOutcome::Class(Handle::new(own.major(), c.minor()));
        Classified::Final(self.table.named(class).map_or(FilterOutcome::Drop, flow))
    }
}

impl FqCodel {
    /// Takes the memory of the tables.
    fn take_memory(&mut self) {
        self.table.take_memory();
        self.backlogs.resize(self.table.flows().len(), 0);
    }

    /// Takes the memory of the tables, and then the packet.
    #[cold]
    #[inline(never)]
    fn enqueue_first(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        self.take_memory();
        // There is at least one flow now, and each has its place.
        self.enqueue(p, class, cx);
    }

    /// Drops from the head of the fattest flow: half its bytes, at most `drop_batch` packets (RFC
    /// 8290 section 4.1), and tells its law.
    #[cold]
    fn trim_fattest(&mut self, cx: &mut Cx) {
        let mut fattest = (0, 0);
        for (f, backlog) in self.backlogs.iter().enumerate() {
            if *backlog > fattest.1 {
                fattest = (f, *backlog);
            }
        }
        if fattest.1 == 0 {
            // Packets of zero length count no bytes: any flow with a packet will do.
            fattest.0 = self.table.flows().iter().position(|f| !f.packets.is_empty()).unwrap_or(0);
        }
        let (f, backlog) = fattest;
        let over_memory = self.memory > self.memory_limit;
        let reason = if over_memory { DropReason::Overmemory } else { DropReason::FlowOverlimit };
        let (mut dropped, mut bytes) = (0, 0);
        let mut bound = Bound::of(self.packets as usize + 1);
        while dropped < self.drop_batch && (dropped == 0 || bytes < backlog / 2) {
            bound.turn();
            let Some(p) = self.table.flows_mut()[f].packets.pop_front(&cx.pool) else { break };
            let m = cx.meta(&p);
            bytes += u64::from(m.wire_len);
            self.memory -= memory_of(m);
            dropped += 1;
            cx.drop(p, reason);
        }
        self.backlogs[f] -= bytes;
        self.bytes -= bytes;
        self.packets -= dropped;
        self.table.flows_mut()[f].law.state.count_overflow(dropped);
        self.stats.drop_overlimit += u64::from(dropped);
        self.stats.drop_overmemory += if over_memory { u64::from(dropped) } else { 0 };
    }
}

/// Returns a time in whole microseconds, as tc prints it.
fn micros(t: Ticks) -> i64 {
    i64::try_from(t.as_nanos().as_micros()).unwrap_or(i64::MAX)
}
