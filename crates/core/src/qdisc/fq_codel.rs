//! fq_codel (RFC 8290): packets are hashed into flows, flows take turns by deficit round robin, and
//! each flow is under its own CoDel law; a flow that has just begun goes first (tc-fq_codel(8)).
//!
//! O(1) per packet; finding the fattest flow on overflow is O(flows), once per batch of drops.
//! Memory per flow: one cache line and 8 bytes of backlog, taken at creation, or (`Env::lazy`) with
//! the first packet.
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

use alloc::format;
use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::chance::Percent;
use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::tally::Tally;
use crate::base::units::{Bytes, Packets};
use crate::law::codel::{CodelParams, CodelState, Ticks};
use crate::law::deficit::{Passes, rounds_in_debt};
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::{DropReason, MarkReason};
use crate::packet::route::{Candidate, Classified, FilterOutcome};
use crate::qdisc::codel::{INTERVAL, TARGET, interval_in_range, law_params, next};
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{FlowShown, Flows};
use crate::sched::cx::Cx;
use crate::sched::discipline::{Discipline, Filtered};
use crate::sched::node::band_share;
use crate::sched::spec::{Flags, Style};
use crate::text::error::{ConfigError, ErrorKind, Object};

crate::params! {
    /// Parameters of fq_codel.
    pub struct Config(env)
        own ["tcpctl"]
    {
        /// Most packets that wait, in all flows together.
        limit: Packets = Packets(10_240), keys ["limit"], "at least 1 packet": |l| l.0 > 0;
        /// Number of flows that packets are hashed into; fixed once running.
        flows: u32 = 1024, keys ["flows"], "1 to 65536": |f| (1..=65_536).contains(f);
        /// Bytes that a flow may send per turn; the default is one full frame.
        quantum: u32 = env.frame_max(), keys ["quantum"], "256 to 1048576 bytes": |q| (256..=1 << 20).contains(q);
        /// Standing delay of a flow that is acceptable.
        target: Ticks = TARGET, keys ["target"];
        /// Delay at which every ECN-capable packet is CE-marked; off unless given.
        ce_threshold: Option<Ticks> = None, keys ["ce_threshold"];
        /// Time over which a flow's delay must stay above target: about the longest round trip.
        interval: Ticks = INTERVAL, keys ["interval"], "1024ns to 137s": interval_in_range;
        /// Most memory that waiting packets take: their frames and 64 bytes each.
        memory_limit: Bytes = Bytes(32 << 20), keys ["memory_limit"], "at most 4294967295 bytes": |m| m.0 <= u64::from(u32::MAX);
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = true, flags ["ecn" = true, "noecn" = false];
        /// Most packets dropped from the fattest flow at once when a limit is exceeded.
        drop_batch: u32 = 64, keys ["drop_batch"], "at least 1": |n| *n > 0;
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

/// "No flow" in a link.
const NIL: u32 = u32::MAX;

/// Memory of a waiting packet beside its frame, in bytes: its slot in the pool.
const SLOT_BYTES: u64 = 64;

/// A flow: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Flow {
    packets: List,
    deficit: i32,
    /// The next flow on the same list.
    link: u32,
    listed: bool,
    law: CodelState,
    /// Time that the last packet sent from the flow had waited.
    ldelay: Ticks,
}

const _: () = assert!(size_of::<Flow>() == 64, "a flow fills exactly one cache line");

/// A list of flows, threaded through their `link`s.
#[derive(Debug)]
struct Turns {
    head: u32,
    tail: u32,
    len: u32,
}

impl Turns {
    const fn new() -> Self {
        Self { head: NIL, tail: NIL, len: 0 }
    }
    #[inline]
    fn push_back(&mut self, flows: &mut [Flow], f: u32) {
        flows[f as usize].link = NIL;
        match self.head {
            NIL => self.head = f,
            _ => flows[self.tail as usize].link = f,
        }
        self.tail = f;
        self.len += 1;
    }
    #[inline]
    fn pop_front(&mut self, flows: &[Flow]) {
        if let Some(flow) = flows.get(self.head as usize) {
            self.head = flow.link;
            self.len -= 1;
        }
    }
}

/// Fair queueing with CoDel per flow.
#[derive(Debug)]
pub struct FqCodel {
    /// The flows; none before the first packet, where tables come with it (`Env::lazy`).
    flows: Vec<Flow>,
    /// Bytes waiting in each flow; apart from the flows, so that the search for the fattest one
    /// touches few cache lines.
    backlogs: Vec<u64>,
    /// Number of flows.
    count: u32,
    lazy: bool,
    new: Turns,
    old: Turns,
    packets: u32,
    /// Packets that a peek has taken out of the flows: 0 or 1.
    held: u32,
    bytes: u64,
    memory: u64,
    params: CodelParams,
    limit: u32,
    memory_limit: u64,
    quantum: i32,
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
    // A flow, and its backlog.
    const TABLES: fn(&Config, &Env) -> u64 = |cfg, _| u64::from(cfg.flows) * (size_of::<Flow>() as u64 + 8);
    type Config = Config;
    type Rules = CodelParams;
    type Stats = Stats;

    fn resolve(cfg: &mut Config, old: Option<&Config>, env: &Env) -> Result<CodelParams, ConfigError> {
        if let Some(old) = old.filter(|old| old.flows != cfg.flows) {
            let expected = format!("{}, as it is (it cannot change while running)", old.flows);
            return Err(ConfigError::new(ErrorKind::Conflict, Object::Kind(Self::KIND), expected, cfg.flows)
                .key("flows"));
        }
        // A frame above the upper bound would make a default that cannot be written as an option.
        cfg.quantum = cfg.quantum.clamp(256, 1 << 20);
        cfg.tcpctl = band_share(cfg.tcpctl);
        law_params(Self::KIND, [cfg.target, cfg.interval], cfg.ce_threshold, cfg.ecn, env)
    }
    fn new(cfg: &Config, params: CodelParams, env: &Env) -> Self {
        let mut made = Self {
            flows: Vec::new(),
            backlogs: Vec::new(),
            count: cfg.flows,
            lazy: env.lazy,
            new: Turns::new(),
            old: Turns::new(),
            packets: 0,
            held: 0,
            bytes: 0,
            memory: 0,
            params,
            limit: cfg.limit.0,
            memory_limit: cfg.memory_limit.0,
            quantum: cfg.quantum as i32,
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
        self.limit = cfg.limit.0;
        self.memory_limit = cfg.memory_limit.0;
        self.quantum = cfg.quantum as i32;
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
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        let fits = self.packets + self.held < self.limit && self.memory + memory_of(m) <= self.memory_limit;
        if fits { Verdict::Accept } else { Verdict::Full }
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let m = cx.meta(&p);
        let (wire_len, memory) = (m.wire_len, memory_of(m));
        let f = self.flow_of(m, class);
        let Some(flow) = self.flows.get_mut(f as usize) else {
            return self.enqueue_first(p, class, cx);
        };
        flow.packets.push_back(&mut cx.pool, p);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.quantum;
            self.new.push_back(&mut self.flows, f);
            self.stats.new_flow_count += 1;
        }
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
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let mut passes = Passes::new();
        // Beside the turns of `Passes`, each takes a flow off the list of new flows or of old ones.
        let mut bound = Bound::of(2 * self.flows.len() + 1);
        loop {
            let from_new = self.new.head != NIL;
            let f = if from_new { self.new.head } else { self.old.head };
            if f == NIL {
                return Next::Empty;
            }
            let flow = &mut self.flows[f as usize];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                self.turn(from_new);
                self.old.push_back(&mut self.flows, f);
                if passes.is_long() {
                    self.skip_rounds();
                }
                continue;
            }
            bound.turn();
            if let Some(p) = self.next_of(f, cx) {
                return Next::Packet(p);
            }
            self.turn(from_new);
            // An emptied new flow waits for its turn among the old ones, so that it cannot starve
            // them by coming back at once (RFC 8290 section 4.2).
            if from_new && self.old.head != NIL {
                self.old.push_back(&mut self.flows, f);
            } else {
                self.flows[f as usize].listed = false;
            }
        }
    }
    fn holding(&mut self, held: bool) {
        self.held = u32::from(held);
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        // The flows keep their places: an empty one on a list is found empty when its turn comes.
        for flow in &mut self.flows {
            out.append(pool, &mut flow.packets);
        }
        self.backlogs.fill(0);
        (self.packets, self.bytes, self.memory) = (0, 0, 0);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.flows.iter().flat_map(|flow| flow.packets.waiting(pool)).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        (self.new, self.old) = (Turns::new(), Turns::new());
        if self.lazy {
            (self.flows, self.backlogs) = (Vec::new(), Vec::new());
        } else {
            self.flows.fill_with(Flow::default);
        }
    }
    fn transparent(&self, wire_len: u32) -> bool {
        self.new.head == NIL && self.old.head == NIL && u64::from(wire_len) + SLOT_BYTES <= self.memory_limit
    }
    fn stats(&self) -> Stats {
        Stats {
            memory_used: self.memory,
            new_flows_len: self.new.len,
            old_flows_len: self.old.len,
            ..self.stats
        }
    }
    fn as_flows(&self) -> Option<&dyn Flows> {
        Some(self)
    }
}

impl Flows for FqCodel {
    fn flows(&self, pool: &Pool, f: &mut dyn FnMut(FlowShown<'_>)) {
        let flows = (1..).zip(self.flows.iter().zip(&self.backlogs));
        for (minor, (flow, bytes)) in flows.filter(|(_, (flow, _))| flow.listed || !flow.packets.is_empty()) {
            let law = &flow.law;
            let due = law.drop_next().since(self.asked);
            let drop_next = if !law.dropping() || due.0 > u32::MAX / 2 { 0 } else { micros(due) };
            let values = [
                ("deficit", i64::from(flow.deficit)),
                ("count", i64::from(law.count())),
                ("lastcount", i64::from(law.lastcount())),
                ("ldelay", micros(flow.ldelay)),
                ("dropping", i64::from(law.dropping())),
                ("drop_next", drop_next),
            ];
            let packets = flow.packets.metas(pool).count() as u64;
            f(FlowShown { minor, backlog: Tally { packets, bytes: *bytes }, values: &values });
        }
    }
    /// Filters decide on every packet: a packet for which they name no flow is dropped.
    fn classify_result(&self, class: Option<ClassId>, own: Handle) -> Classified {
        let flow = class.filter(|c| (1..=self.count).contains(&u32::from(c.minor())));
        Classified::Final(
            flow.map_or(FilterOutcome::Drop, |c| FilterOutcome::Class(Handle::new(own.major(), c.minor()))),
        )
    }
}

impl FqCodel {
    /// Takes the memory of the tables.
    fn take_memory(&mut self) {
        self.flows.resize_with(self.count as usize, Flow::default);
        self.backlogs.resize(self.count as usize, 0);
    }

    /// Takes the memory of the tables, and then the packet.
    #[cold]
    #[inline(never)]
    fn enqueue_first(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        self.take_memory();
        // There is at least one flow now, and each has its place.
        self.enqueue(p, class, cx);
    }

    /// Returns the packet's flow: the one that `class` names, else the one of its hash.
    #[inline]
    fn flow_of(&self, m: &Meta, class: Option<ClassId>) -> u32 {
        let n = self.count;
        match class.map(|c| u32::from(c.minor())) {
            Some(minor) if (1..=n).contains(&minor) => minor - 1,
            _ => ((u64::from(m.hash) * u64::from(n)) >> 32) as u32,
        }
    }

    /// Takes the flow at the front of a list off it.
    #[inline]
    fn turn(&mut self, from_new: bool) {
        let list = if from_new { &mut self.new } else { &mut self.old };
        list.pop_front(&self.flows);
    }

    /// Gives each listed flow the quanta of the rounds in which no flow can send; of no round while
    /// a flow is on the list of new ones, which the round empties.
    #[cold]
    fn skip_rounds(&mut self) {
        if self.new.head != NIL {
            return;
        }
        let (mut rounds, mut at) = (u32::MAX, self.old.head);
        let mut bound = Bound::of(self.flows.len());
        while let Some(flow) = self.flows.get(at as usize) {
            bound.turn();
            rounds = rounds.min(rounds_in_debt(flow.deficit, self.quantum));
            at = flow.link;
        }
        at = self.old.head;
        let mut bound = Bound::of(self.flows.len());
        while let Some(flow) = self.flows.get_mut(at as usize) {
            bound.turn();
            // A debt of at least as many quanta: the sum is at most 0.
            flow.deficit = flow.deficit.saturating_add_unsigned(rounds * self.quantum.unsigned_abs());
            at = flow.link;
        }
    }

    /// Returns the next packet of a flow that its law lets through, charged to the flow's deficit.
    #[inline]
    fn next_of(&mut self, f: u32, cx: &mut Cx) -> Option<Pkt> {
        let Flow { packets, law, deficit, ldelay, .. } = &mut self.flows[f as usize];
        let backlog = &mut self.backlogs[f as usize];
        let (ecn, ce) = (cx.marks(MarkReason::Congested), cx.marks(MarkReason::CeThreshold));
        let now = Ticks::at(cx.now);
        let p = next(law, &self.params, cx, |cx| {
            let p = packets.pop_front(&cx.pool)?;
            let m = cx.meta(&p);
            // The law may drop the last packet of the flow: its delay is the last one too.
            *ldelay = now.since(Ticks::at(m.enqueued));
            self.stats.maxpacket = self.stats.maxpacket.max(m.wire_len);
            *backlog -= u64::from(m.wire_len);
            self.bytes -= u64::from(m.wire_len);
            self.memory -= memory_of(m);
            self.packets -= 1;
            Some((p, self.bytes))
        })?;
        self.stats.ecn_mark += cx.marks(MarkReason::Congested) - ecn;
        self.stats.ce_mark += cx.marks(MarkReason::CeThreshold) - ce;
        *deficit = deficit.saturating_sub_unsigned(cx.meta(&p).wire_len);
        self.asked = now;
        Some(p)
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
            fattest.0 = self.flows.iter().position(|f| !f.packets.is_empty()).unwrap_or(0);
        }
        let (f, backlog) = fattest;
        let over_memory = self.memory > self.memory_limit;
        let reason = if over_memory { DropReason::Overmemory } else { DropReason::FlowOverlimit };
        let (mut dropped, mut bytes) = (0, 0);
        let mut bound = Bound::of(self.packets as usize + 1);
        while dropped < self.drop_batch && (dropped == 0 || bytes < backlog / 2) {
            bound.turn();
            let Some(p) = self.flows[f].packets.pop_front(&cx.pool) else { break };
            let m = cx.meta(&p);
            bytes += u64::from(m.wire_len);
            self.memory -= memory_of(m);
            dropped += 1;
            cx.drop(p, reason);
        }
        self.backlogs[f] -= bytes;
        self.bytes -= bytes;
        self.packets -= dropped;
        self.flows[f].law.count_overflow(dropped);
        self.stats.drop_overlimit += u64::from(dropped);
        self.stats.drop_overmemory += if over_memory { u64::from(dropped) } else { 0 };
    }
}

/// Returns a time in whole microseconds, as tc prints it.
fn micros(t: Ticks) -> i64 {
    i64::try_from(t.as_nanos().as_micros()).unwrap_or(i64::MAX)
}

fn memory_of(m: &Meta) -> u64 {
    u64::from(m.len) + SLOT_BYTES
}
