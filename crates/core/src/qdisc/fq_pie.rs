//! fq_pie (draft-ietf-tsvwg-fq-pie): packets are hashed into flows, flows take turns by deficit
//! round robin, and each flow is under its own PIE law (RFC 8033), which drops packets, or marks
//! them, as they arrive; a flow that has just begun goes first (tc-fq_pie(8)).
//!
//! O(1) per packet. The updates of a flow's law, each `tupdate`, are made up for when a packet next
//! comes to the flow or leaves it: after a silence of any length in at most some 3000 steps of a
//! few nanoseconds. A change of parameters makes up for those of all flows. Memory per flow: two
//! cache lines, taken at creation, or (`Env::lazy`) with the first packet.
//!
//! - I1: never more than `limit` packets are queued. `memory_limit` bounds nothing, as in Linux:
//!   packets that arrive above it are counted.
//! - I2: packets of one flow leave in order of arrival; its turns are those of `flows`.
//! - I3: the law of a flow drops no packet that meets a backlog of the flow below two full frames,
//!   nor during the first 150 ms of a burst.
//! - I4: a law is as if updated whenever an update is due (`Updates`): those of 2048 flows at once,
//!   the next 2048 a tick later.
//! - I5: a packet that a peek has taken out counts towards `limit`, and not towards the backlog of
//!   its flow.
//! - Differs from Linux (PARITY.md: fq-pie-memory, fq-pie-flows, fq-pie-shrink, fq-pie-reset,
//!   flow-hash, pie-bounded, pie-mark-run, pie-ticks, pie-range): memory is that of this engine;
//!   packets dropped by a smaller limit are counted as dropped; nothing of a flow is left after a
//!   reset; the law is that of pie; the hash is keyed by a seed that the caller gives.

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::time::{Instant, Nanos};
use crate::base::units::{Bytes, Packets};
use crate::law::pie::{PieParams, PieState, Ticks};
use crate::law::share;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::DropReason;
use crate::packet::route::Candidate;
use crate::qdisc::flows::{Flow, FlowTable, QUANTUM_MAX, QUANTUM_MIN, keeps_flows, memory_of};
use crate::qdisc::pie::{
    Fate, GAIN_MAX, TARGET, TARGET_MAX, TUPDATE, Updates, decide, law_params, tupdate_in_range, whole_ticks,
};
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::spec::{Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind};

crate::params! {
    /// Parameters of fq_pie.
    pub struct Config(env) {
        /// Most packets that wait, in all flows together.
        limit: Packets = Packets(10_240), keys ["limit"] @ u32 1;
        /// Number of flows that packets are hashed into; fixed once running.
        flows: u32 = 1024, keys ["flows"] @ u32 2, "1 to 65536": |f| (1..=65_536).contains(f);
        /// Delay to hold in each flow.
        target: Ticks = TARGET, keys ["target"] @ us32 3, "at most 4294967us": |t| *t <= TARGET_MAX;
        /// Time from one update of the probabilities to the next, in whole milliseconds; each comes
        /// one millisecond later, and one more for each 2048 flows beyond the first 2048.
        tupdate: Nanos = TUPDATE, keys ["tupdate"] @ us32 4, "1us to 4294s": tupdate_in_range;
        /// Gain on the distance from the target, in 16ths of one per second.
        alpha: u32 = 2, keys ["alpha"] @ u32 5, "0 to 32": |n| *n <= GAIN_MAX;
        /// Gain on the trend of the delay, in 16ths of one per second.
        beta: u32 = 20, keys ["beta"] @ u32 6, "0 to 32": |n| *n <= GAIN_MAX;
        /// Bytes that a flow may send per turn; the default is one full frame. Below 256 it counts
        /// as 256.
        quantum: Bytes = Bytes(env.frame_max().into()), keys ["quantum"] @ u32 7, "1 to 1048576 bytes": quantum_in_range;
        /// Memory of waiting packets, their frames and 64 bytes each, above which packets that
        /// arrive are counted in `overmemory`; as in Linux, none is dropped for it.
        memory_limit: Bytes = Bytes(32 << 20), keys ["memory_limit"] @ u32 8,
            "at most 4294967295 bytes": |m| m.0 <= u64::from(u32::MAX);
        /// With `ecn`: the probability, in percent, up to which packets are marked instead of
        /// dropped.
        ecn_prob: u32 = 10, keys ["ecn_prob"] @ u32 9, "0 to 99": |n| *n < 100;
        /// Mark ECN-capable packets instead of dropping them, while the probability of their flow
        /// is at most `ecn_prob`.
        ecn: bool = false, flags ["ecn" = true, "noecn" = false] @ u32 10;
        /// Drop a packet that is smaller than a full frame with a smaller probability, by its size.
        bytemode: bool = false, flags ["bytemode" = true, "nobytemode" = false] @ u32 11;
        /// Derive the delay from a flow's backlog and its measured rate of departures instead of
        /// the packets' waits.
        dq_rate_estimator: bool = false, flags ["dq_rate_estimator" = true, "no_dq_rate_estimator" = false] @ u32 12;
    }
}

fn quantum_in_range(quantum: &Bytes) -> bool {
    (1..=QUANTUM_MAX.into()).contains(&quantum.0)
}

crate::stats! {
    /// Counters of fq_pie.
    pub struct Stats {
        /// Packets queued.
        pkts_in: u64,
        /// Packets dropped at the limit.
        overlimit: u64,
        /// Packets that arrived while the memory of those that waited was above `memory_limit`.
        overmemory: u64,
        /// Packets dropped, at the limit or by a law.
        dropped: u64,
        /// Packets marked instead of dropped.
        ecn_mark: u64,
        /// Times a flow was put on the list of new flows.
        new_flow_count: u64 [line],
        /// Flows on the list of new flows.
        new_flows_len: u32 [falls],
        /// Flows on the list of old flows.
        old_flows_len: u32 [falls],
        /// Memory that waiting packets take now, bytes.
        memory_used: u64 [falls] [of(Bytes)],
    }
}

/// Number of flows whose laws are updated at once; the others wait for the next tick.
const BATCH: u32 = 2048;

/// State of a flow beside its packets: that of its law.
#[derive(Debug, Default)]
struct FlowLaw {
    state: PieState,
    /// Bytes that wait.
    backlog: u64,
    /// Updates that `state` has had, of those that the flow's batch has had.
    seen: u64,
}

const _: () = assert!(size_of::<Flow<FlowLaw>>() == 128, "a flow fills exactly two cache lines");

/// The updates of all flows.
#[derive(Debug)]
struct Rounds {
    times: Updates,
    /// Updates that the first batch has had.
    begun: u64,
    /// Time up to which they are counted.
    now: Instant,
}

impl Rounds {
    /// Counts the updates that are due.
    #[inline]
    fn advance(&mut self, now: Instant) {
        self.begun += self.times.due(now);
        self.now = now;
    }
    /// Makes the updates of a flow's law that are due and that it has not had.
    #[inline]
    fn catch_up(&self, params: &PieParams, f: u32, law: &mut FlowLaw) {
        let due = self.begun - u64::from(self.times.is_ahead(u64::from(f / BATCH), self.now));
        if law.seen < due {
            law.state.catch_up(params, law.backlog, due - law.seen);
            law.seen = due;
        }
    }
}

/// Fair queueing with PIE per flow.
#[derive(Debug)]
pub struct FqPie {
    /// The flows; without their memory before the first packet, where tables come with it
    /// (`Env::lazy`).
    table: FlowTable<FlowLaw>,
    lazy: bool,
    rounds: Rounds,
    params: PieParams,
    packets: u32,
    /// Packets that a peek has taken out of the flows: 0 or 1.
    held: u32,
    memory: u64,
    limit: u32,
    memory_limit: u64,
    ecn_prob: Option<u32>,
    stats: Stats,
}

impl Config {
    fn law(&self, env: &Env) -> PieParams {
        law_params(self.target, [self.alpha, self.beta], [self.bytemode, self.dq_rate_estimator], env)
    }
}

/// Returns a quantum, which is in range, as a flow's credit.
const fn credit(quantum: Bytes) -> u32 {
    quantum.0 as u32
}

impl Discipline for FqPie {
    const KIND: &'static str = "fq_pie";
    const ABOUT: &'static str = "Fair queueing among flows, each under PIE; new flows first.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const STYLE: Style = Style::BLANK;
    const TAKES_CLASS: bool = true;
    const REFUSED_BY: RefusedBy = |err, _| match (err.kind, err.key.as_deref()) {
        (ErrorKind::OutOfRange, Some("alpha" | "beta" | "ecn_prob")) => Some(Refuser::Tool),
        _ => None,
    };
    const TABLES: fn(&Config, &Env) -> u64 = |cfg, _| FlowTable::<FlowLaw>::memory(cfg.flows);
    type Config = Config;
    type Rules = ();
    type Stats = Stats;

    fn resolve(cfg: &mut Config, old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        keeps_flows(Self::KIND, old.map_or(cfg.flows, |old| old.flows), cfg.flows)?;
        // A frame above the upper bound would make a default that cannot be written as an option.
        cfg.quantum = Bytes(cfg.quantum.0.clamp(QUANTUM_MIN.into(), QUANTUM_MAX.into()));
        cfg.tupdate = whole_ticks(cfg.tupdate);
        Ok(())
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        let batches = cfg.flows.div_ceil(BATCH);
        let times = Updates::of_batches(Instant::ZERO, cfg.tupdate, batches);
        let mut made = Self {
            table: FlowTable::new(cfg.flows, credit(cfg.quantum)),
            lazy: env.lazy,
            rounds: Rounds { times, begun: 0, now: Instant::ZERO },
            params: cfg.law(env),
            packets: 0,
            held: 0,
            memory: 0,
            limit: cfg.limit.0,
            memory_limit: cfg.memory_limit.0,
            ecn_prob: cfg.ecn.then_some(cfg.ecn_prob),
            stats: Stats::default(),
        };
        if !env.lazy {
            made.table.take_memory();
        }
        made
    }
    fn start(&mut self, now: Instant) {
        self.rounds.times.restart(now);
    }
    fn change(&mut self, cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        self.rounds.advance(cx.now);
        for (f, flow) in (0..).zip(self.table.flows_mut()) {
            self.rounds.catch_up(&self.params, f, &mut flow.law);
        }
        self.params = cfg.law(env);
        self.rounds.times.set_every(cfg.tupdate, cx.now);
        self.table.set_quantum(credit(cfg.quantum));
        (self.limit, self.memory_limit) = (cfg.limit.0, cfg.memory_limit.0);
        self.ecn_prob = cfg.ecn.then_some(cfg.ecn_prob);
        if self.waiting() > self.limit && cx.purge_peeked() {
            self.held = 0;
        }
        let mut bound = Bound::of(self.packets as usize + 1);
        while self.waiting() > self.limit {
            bound.turn();
            let Next::Packet(p) = self.dequeue(cx) else { return };
            cx.drop(p, DropReason::Purged);
        }
    }
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict {
        let flow = self.table.flows().get(self.table.flow_of(m, class) as usize);
        let waiting = u64::from(self.waiting());
        // The memory has a few bytes more for each packet, so a flow's part comes out a bit small.
        let own = share::part(flow.map_or(0, |flow| flow.law.backlog), self.memory, waiting);
        Verdict::shared(own, waiting, self.limit.into())
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let waiting = self.waiting();
        let m = cx.meta(&p);
        let (wire_len, memory) = (m.wire_len, memory_of(m));
        let f = self.table.flow_of(m, class);
        let Some(flow) = self.table.flows_mut().get_mut(f as usize) else {
            return self.enqueue_first(p, class, cx);
        };
        self.rounds.advance(cx.now);
        self.rounds.catch_up(&self.params, f, &mut flow.law);
        let FlowLaw { state, backlog, .. } = &mut flow.law;
        let reason = if waiting >= self.limit {
            self.stats.overlimit += 1;
            Some(DropReason::Overlimit)
        } else {
            self.stats.overmemory += u64::from(self.memory > self.memory_limit + memory);
            let prob = self.ecn_prob;
            let marks = |law: &PieState| prob.is_some_and(|percent| law.marks_up_to(percent));
            let fate = decide((state, &self.params), &p, *backlog, marks, cx);
            self.stats.ecn_mark += u64::from(fate == Fate::Marked);
            (fate == Fate::Drops).then_some(DropReason::Congested)
        };
        if let Some(reason) = reason {
            state.dropped();
            self.stats.dropped += 1;
            return cx.drop(p, reason);
        }
        *backlog += u64::from(wire_len);
        flow.packets.push_back(&mut cx.pool, p);
        self.packets += 1;
        self.memory += memory;
        self.stats.pkts_in += 1;
        self.stats.new_flow_count += u64::from(self.table.list(f));
    }
    fn expect(&self, m: &Meta, class: Option<ClassId>, step: u32, pool: &Pool) -> bool {
        self.table.expect(self.table.flow_of(m, class), step, pool)
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let now = Ticks::at(cx.now);
        self.rounds.advance(cx.now);
        let (rounds, params) = (&self.rounds, &self.params);
        let (packets, memory) = (&mut self.packets, &mut self.memory);
        self.table.next(cx, |f, flow, cx| {
            let p = flow.packets.pop_front(&cx.pool)?;
            let m = cx.meta(&p);
            let sojourn = now.since(Ticks::at(m.enqueued));
            rounds.catch_up(params, f, &mut flow.law);
            let FlowLaw { state, backlog, .. } = &mut flow.law;
            *backlog -= u64::from(m.wire_len);
            *memory -= memory_of(m);
            *packets -= 1;
            state.departed(params, m.wire_len, sojourn, now, *backlog);
            Some((p, m.wire_len))
        })
    }
    fn holding(&mut self, held: bool) {
        self.held = u32::from(held);
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.table.evict_all(out, pool);
        for flow in self.table.flows_mut() {
            flow.law.backlog = 0;
        }
        (self.packets, self.memory) = (0, 0);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.table.queued(pool, f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        // A law as if new changes by no update: those that it has not seen are none.
        self.table.reset(self.lazy);
    }
    fn stats(&self) -> Stats {
        let [new_flows_len, old_flows_len] = self.table.listed();
        Stats { memory_used: self.memory, new_flows_len, old_flows_len, ..self.stats }
    }
}

impl FqPie {
    /// Takes the memory of the table, and then the packet.
    #[cold]
    #[inline(never)]
    fn enqueue_first(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        self.table.take_memory();
        // There is at least one flow now, and each has its place.
        self.enqueue(p, class, cx);
    }

    #[inline]
    const fn waiting(&self) -> u32 {
        self.packets + self.held
    }
}
