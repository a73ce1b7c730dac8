//! cake: a shaper without bursts, tins by DSCP, fair queueing among hosts and among their flows,
//! and a control law per flow, in one (tc-cake(8)).
//!
//! Sources: Hoiland-Jorgensen, Taht and Morton, "Piece of CAKE: A Comprehensive Queue Management
//! Solution for Home Gateways" (2018, arXiv:1804.07617); RFC 8289; RFC 2474; measurements of Linux
//! 6.12. A packet passes through: tin (`tins`), flow (`flows`), acknowledgement filter
//! (`ack_filter`); then, when its time has come (`shaper`, with sizes from `framing`), the turns of
//! tins and of flows, and the law (`law::cobalt`).
//!
//! O(1) per packet; O(log queues) while queues overflow; with the filter O(packets in its flow).
//! Memory per tin: 1024 flows of one cache line, 4 bytes of tag, 12 of hosts and 12 of backlog
//! each, 92 KiB; taken when the tin is made, or (`Env::lazy`) with its first packet.
//!
//! - I1: over any interval that begins with a waiting packet, bytes charged and sent <= rate x time
//!   + one packet.
//! - I2: no more memory is taken than the limit allows, once a call has returned.
//! - I3: packets of one flow leave in order of arrival.
//! - I4: the last packet of a flow is never dropped by the law.
//! - I5: a flow is on at most one list; it is on one while it has packets.
//! - Differs from Linux (PARITY.md: flow-hash, cake-memory, cake-range, cake-nat, cake-gso-cut,
//!   cake-cleared-tins, cake-tin-deficit, cake-drop-next, cake-idle-timer, cake-long-interval,
//!   cake-longest, cake-override, cake-shared, cake-shrink): memory is charged as if every packet
//!   had come through a packet socket; super-packets are cut before they are offered; drops by a
//!   change of tins are counted; tins without a rate owe no turns from a time with one; intervals
//!   above 4.29 s are kept whole.

mod ack_filter;
mod autorate;
mod beside;
mod config;
mod flows;
mod framing;
mod heap;
pub(super) mod memory;
mod rate;
mod shaper;
mod shown;
mod tin;
mod tins;
mod trim;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::time::Instant;
use crate::base::units::Rate;
use crate::law::deficit::Passes;
use crate::law::share;
use crate::law::split::Part;
use crate::packet::meta::{Ecn, Meta};
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::{DropReason, MarkReason, WakeReason};
use crate::packet::route::Candidate;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Flows, Shares};
use crate::sched::cx::Cx;
use crate::sched::discipline::{Discipline, Filtered};
use crate::sched::erased::Erased;
use crate::sched::node::Node;
use crate::sched::share::Wanted;
use crate::sched::spec::{Capacity, Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind};
use crate::text::stats::{Counter, Counters};

use autorate::Estimate;
use beside::Leased;
use flows::{BULK, FLOWS, hashes_of};
use framing::Sizes;
use heap::Backlogs;
use shaper::{Schedule, Threshold};
use tin::{Tin, TinStats, backlog_of};
use tins::{Plan, TINS_MAX, dscp_of};

pub use config::{AckFilter, Bandwidth, Cells, Config, Diffserv, FlowMode, Framing, Mask, MemLimit, Rtt};

crate::stats! {
    /// Counters of cake.
    pub struct Stats {
        /// Most memory that waiting packets have taken, bytes.
        memory_used: u64 [falls] [of(Bytes)],
        /// Limit of `memory_used`, bytes.
        memory_limit: u64 [falls] [of(Bytes)],
        /// Estimate of the arrival rate with `autorate-ingress`, bytes/s; without it, the first
        /// rate.
        capacity_estimate: u64 [falls] [of(Rate)],
        /// Smallest network packet, bytes (frame, if the framing is raw).
        min_network_size: u32 [falls] [of(Bytes)],
        /// Largest network packet, bytes.
        max_network_size: u32 [falls] [of(Bytes)],
        /// Smallest size that a packet was charged, bytes.
        min_adj_size: u32 [falls] [of(Bytes)],
        /// Largest size that a packet was charged, bytes.
        max_adj_size: u32 [falls] [of(Bytes)],
        /// Mean bytes in front of the network header.
        avg_hdr_offset: u32 [falls] [of(Bytes)],
    }
}

/// Shaper, tins, fair queueing and law in one.
#[derive(Debug)]
pub struct Cake {
    /// The tins of the plan, and behind them those of earlier plans: these are empty, and keep
    /// their laws.
    tins: Vec<Tin>,
    plan: &'static Plan,
    /// The tin of each DSCP.
    dscps: [u8; 64],
    schedule: Schedule,
    /// The present rate of the shaper.
    rate: Rate,
    /// The tin whose turn it is while there is no shaping.
    current: usize,
    backlogs: Backlogs,
    sizes: Sizes,
    estimate: Estimate,
    cfg: Config,
    /// Full frame of the device, and its link header.
    frame: (u32, u32),
    packets: u64,
    memory: u64,
    memory_max: u64,
    memory_limit: u64,
    /// Packets that came while no packet waited and that have to wait for an earlier departure:
    /// counted as overlimits at the next dequeue.
    held_up: u32,
    /// True for a cake of cake_mq: it has no number.
    of_queue: bool,
    /// Its part of a rate that is split among the queues of a device.
    part: Option<Box<Part>>,
    /// Its share of a rate that it has together with others.
    leased: Option<Box<Leased>>,
    /// Time of the last call.
    seen: Instant,
}

impl Discipline for Cake {
    const KIND: &'static str = "cake";
    const ABOUT: &'static str = "Shaper, tins by DSCP, fairness among hosts and flows, and an AQM, in one.";
    const FLAGS: Flags = Flags { shapes: true, reorders: false };
    const CAPACITY: Capacity = Capacity { keys: &["memlimit"], ..Capacity::KEY };
    const STYLE: Style = Style::BLANK;
    const FILTERS: Filtered = Filtered::Qdisc;
    const TAKES_CLASS: bool = true;
    const WANTS_DETAIL: bool = true;
    const PARTS: &'static [Counter] = TinStats::TABLE;
    const REFUSED_BY: RefusedBy = |err, _| match (err.kind, err.key.as_deref()) {
        (ErrorKind::OutOfRange, Some("overhead" | "mpu")) => Some(Refuser::Tool),
        _ => None,
    };
    // Of each tin the flows with their tags, hosts and backlogs; there may be eight.
    const TABLES: fn(&Config, &Env) -> u64 = |_, _| (TINS_MAX * FLOWS) as u64 * 112;
    type Config = Config;
    type Rules = ();
    type Stats = Stats;

    const SHARES: Option<Capability<Self, dyn Shares>> = crate::capability!();
    const WANTS: fn(&Config) -> Option<Wanted> = beside::wanted;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        cfg.framing.end();
        beside::check(cfg)
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        let mut cake = Self {
            tins: Vec::new(),
            plan: cfg.diffserv.plan(),
            dscps: cfg.diffserv.table(),
            schedule: Schedule::default(),
            rate: cfg.bandwidth.rate,
            current: 0,
            backlogs: Backlogs::new(cfg.diffserv.plan().shares.len(), env),
            sizes: Sizes::NONE,
            estimate: Estimate::new(cfg.bandwidth.rate),
            cfg: cfg.clone(),
            frame: (env.frame_max(), env.link_header),
            packets: 0,
            memory: 0,
            memory_max: 0,
            memory_limit: 0,
            held_up: 0,
            of_queue: false,
            part: None,
            leased: Leased::of(cfg),
            seen: Instant::ZERO,
        };
        cake.tins.resize_with(cake.plan.shares.len(), || Tin::new(env));
        cake.set_rate();
        cake
    }
    fn change(&mut self, cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        let old = core::mem::replace(&mut self.cfg, cfg.clone());
        self.leased = Leased::change(self.leased.take(), cfg);
        self.part = self.part.take().filter(|_| self.leased.is_none());
        if old.bandwidth.rate != cfg.bandwidth.rate || !cfg.bandwidth.autorate {
            self.rate = cfg.bandwidth.rate;
        }
        // A swap has parsed its parameters anew.
        let overhead = |c: &Config| (c.framing.overhead, c.framing.raw, c.framing.times_said);
        if overhead(&old) != overhead(cfg) {
            self.sizes.restart();
        }
        let queues = |c: &Config| (c.diffserv, c.flowmode, c.fwmark);
        if cx.swapping() && queues(&old) != queues(cfg) {
            // Packets of a flow would wait in two queues: the swap queues all of them anew.
            self.purge(0, cx);
        }
        if old.diffserv != cfg.diffserv {
            self.set_tins(env, cx);
        }
        // As in the reference, where a change clears the tins that the plan does not have.
        if self.plan.shares.len() < TINS_MAX {
            self.current = 0;
        }
        self.set_rate();
        self.trim(cx);
    }
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict {
        if m.segs > 1 && self.cfg.split_gso {
            Verdict::cut_into_segments(m)
        } else {
            let limit = self.memory_sure();
            match self.memory + memory::of(m) <= limit {
                true => Verdict::shared(self.memory_of_flow(m, class), self.memory, limit),
                false => Verdict::Full,
            }
        }
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let now = cx.now;
        self.seen = now;
        let tin = self.tin_of(cx.meta(&p), class);
        if self.cfg.wash {
            cx.wash(&p);
        }
        let m = *cx.meta(&p);
        let hosts = cx.pool.detail(&p).map_or([0, 0], |d| [d.src_host, d.dst_host]);
        let hashes = hashes_of(&m, class, hosts);
        let t = &mut self.tins[tin];
        let f = t.flows.find(self.cfg.flowmode, &hashes);
        if t.stats.backlog_bytes == 0 {
            t.threshold.wake(now);
            if self.packets == 0 {
                let early = self.leased.as_ref().is_some_and(|leased| leased.due > now);
                self.held_up += u32::from(self.schedule.wake(now) || early);
            }
        }
        let offset = cx.pool.detail(&p).and_then(|d| d.l3_offset).map_or(self.frame.1, u32::from);
        let charged = self.sizes.charge(&self.cfg.framing, &m, offset);
        cx.pool.set_note(&p, charged);
        t.stats.max_pkt_len = t.stats.max_pkt_len.max(m.wire_len);
        t.stats.sent_packets += 1;
        t.stats.sent_bytes += u64::from(m.wire_len);
        t.stats.backlog_bytes += u64::from(m.wire_len);
        t.flows.flows[f].packets.push_back(&mut cx.pool, p);
        self.backlogs.add(tin, f, m.wire_len);
        self.packets += 1;
        self.memory += memory::of(&m);
        let saved = if self.cfg.ack_filter == AckFilter::Off { 0 } else { self.filter(tin, f, cx) };
        self.follow(i64::from(m.wire_len) - i64::from(saved), now);
        let t = &mut self.tins[tin];
        t.flows.joined(self.cfg.flowmode, f, t.quantum, &mut cx.rng);
        self.memory_max = self.memory_max.max(self.memory);
        self.trim(cx);
        if let Some(part) = &mut self.part {
            part.wait(self.packets > 0);
        }
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        self.seen = cx.now;
        for _ in 0..core::mem::take(&mut self.held_up) {
            cx.overlimit();
        }
        if !self.schedule.pace.is_unlimited()
            && let Some(active) = self.part.as_mut().and_then(|part| part.look(cx.now))
        {
            self.set_paces(active);
        }
        // Decaying flows are looked at once per call.
        let mut decaying = true;
        // A turn that sends no packet takes a flow off a list: off that of new flows, of old ones,
        // or of those whose law decays.
        let mut bound = Bound::of(3 * TINS_MAX * FLOWS + 1);
        while self.packets > 0 {
            bound.turn();
            let due = self.due(cx.now);
            if due > cx.now {
                cx.overlimit();
                return Next::At(due, WakeReason::Tokens);
            }
            let Some(tin) = self.choose(cx.now) else { break };
            if let Some(p) = self.serve(tin, &mut decaying, cx) {
                self.backlogs.sent();
                if let Some(part) = &mut self.part {
                    part.sent(cx.now);
                    part.wait(self.packets > 0);
                }
                return Next::Packet(p);
            }
        }
        if let Some(part) = &mut self.part {
            part.wait(false);
        }
        if let Some(leased) = &mut self.leased {
            leased.rest();
        }
        Next::Empty
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        for tin in 0..self.tins.len() {
            self.drain_tin(tin, out, pool);
        }
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.tins.iter().flat_map(|t| &t.flows.flows).flat_map(|flow| flow.packets.waiting(pool)).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        for tin in &mut self.tins {
            tin.flows.reset();
            tin.stats.unresponsive_flows = 0;
            tin.deficit = 0;
            tin.threshold = Threshold::default();
        }
        self.rate = self.cfg.bandwidth.rate;
        self.estimate = Estimate::new(self.rate);
        self.backlogs.reset();
        self.schedule.reset();
        self.current = 0;
        if let Some(part) = &mut self.part {
            part.restart();
        }
        if let Some(leased) = &mut self.leased {
            leased.restart();
        }
        self.set_rate();
    }
    fn stats(&self) -> Stats {
        Stats {
            memory_used: self.memory_max,
            memory_limit: self.memory_limit,
            capacity_estimate: self.estimate.peak().0,
            min_network_size: self.sizes.net.0,
            max_network_size: self.sizes.net.1,
            min_adj_size: self.sizes.charged.0,
            max_adj_size: self.sizes.charged.1,
            avg_hdr_offset: self.sizes.mean_offset(),
        }
    }
    fn as_flows(&self) -> Option<&dyn Flows> {
        Some(self)
    }
}

impl Cake {
    /// Returns the tin of a packet: that of its firewall mark, else the one that its priority
    /// names, else that of its DSCP.
    #[inline]
    fn tin_of(&self, m: &Meta, class: Option<ClassId>) -> usize {
        if self.plan.shares.len() == 1 {
            return 0;
        }
        let numbered = |n: u32| self.plan.order.get(n.checked_sub(1)? as usize).map(|tin| usize::from(*tin));
        let mask = self.cfg.fwmark.0;
        let mark = if mask == 0 { 0 } else { (m.mark & mask) >> mask.trailing_zeros() };
        let named = match class {
            Some(c) if Handle(m.priority) == c => u32::from(c.minor()),
            // A cake without a number has no class that is named: a priority without a major names
            // its tins.
            None if self.of_queue => m.priority,
            _ => 0,
        };
        numbered(mark)
            .or_else(|| numbered(named))
            .unwrap_or_else(|| usize::from(self.dscps[usize::from(dscp_of(m) & 63)]))
    }

    /// Returns a flow's part of the memory; 0 where a flow is that of hosts, which a packet that is
    /// not here yet does not name.
    fn memory_of_flow(&self, m: &Meta, class: Option<ClassId>) -> u64 {
        let mode = self.cfg.flowmode;
        if self.packets == 0 || !mode.tells_flows() {
            return 0;
        }
        let tin = self.tin_of(m, class);
        let known = self.tins[tin].flows.known(mode.key(&hashes_of(m, class, [0, 0])));
        let own = known.map_or(0, |f| self.backlogs.of(tin, f));
        let all = self.tins.iter().map(|tin| tin.stats.backlog_bytes).sum();
        share::part(own, all, self.memory)
    }

    /// Returns the tin whose turn it is; `None` if no packet waits in any.
    #[inline]
    fn choose(&mut self, now: Instant) -> Option<usize> {
        let tins = self.plan.shares.len();
        if tins == 1 {
            return self.tins[0].flows.is_active().then_some(0);
        }
        if self.schedule.pace.is_unlimited() {
            return self.choose_by_turns();
        }
        // The last tin within its share is chosen; if there is none, the one that will be first.
        let mut best: Option<(usize, i64)> = None;
        for (i, tin) in self.tins.iter().take(tins).enumerate().filter(|(_, tin)| tin.flows.is_active()) {
            let slack = tin.threshold.slack(now);
            if slack >= 0 || best.is_none_or(|(_, best)| slack >= best) {
                best = Some((i, slack));
            }
        }
        best.map(|(i, _)| i)
    }

    /// Returns the tin whose turn in bytes it is. The rounds in which no tin can send are
    /// skipped.
    fn choose_by_turns(&mut self) -> Option<usize> {
        let tins = self.plan.shares.len();
        if !self.tins.iter().take(tins).any(|tin| tin.flows.is_active()) {
            return None;
        }
        // Bound: that of `Passes`.
        let mut passes = Passes::new();
        loop {
            let tin = &mut self.tins[self.current];
            if tin.deficit >= 0 && tin.flows.is_active() {
                return Some(self.current);
            }
            if tin.deficit <= 0 {
                tin.deficit += i64::from(tin.turn);
            }
            self.current = (self.current + 1) % tins;
            if passes.is_long() {
                self.skip_rounds_of_tins(tins);
            }
        }
    }

    /// Gives each tin the turns of the rounds in which no active tin can send.
    #[cold]
    fn skip_rounds_of_tins(&mut self, tins: usize) {
        let needed = |tin: &Tin| (-tin.deficit - 1).max(0) / i64::from(tin.turn.max(1));
        let active = self.tins.iter().take(tins).filter(|tin| tin.flows.is_active());
        let Some(rounds) = active.map(needed).min() else { return };
        for tin in self.tins.iter_mut().take(tins).filter(|tin| tin.deficit <= 0) {
            // An idle tin takes turns only until it owes no more.
            let turn = i64::from(tin.turn);
            tin.deficit += turn * rounds.min(-tin.deficit / turn.max(1) + 1);
        }
    }

    /// Returns the next packet of a tin; `None` if the flow whose turn it was is empty.
    fn serve(&mut self, tin: usize, decaying: &mut bool, cx: &mut Cx) -> Option<Pkt> {
        let mode = self.cfg.flowmode;
        let mut passes = Passes::new();
        // Beside the turns of `Passes`, each but the last takes a packet.
        let mut bound = Bound::of(self.packets as usize + 1);
        loop {
            let t = &mut self.tins[tin];
            let (f, rota) = t.flows.next(core::mem::take(decaying))?;
            if t.flows.flows[f].deficit <= 0 {
                t.flows.rotate(mode, f, rota, t.quantum, &mut cx.rng);
                if passes.is_long() {
                    t.flows.skip_rounds(mode, t.quantum, &mut cx.rng);
                }
                continue;
            }
            bound.turn();
            let Some(p) = self.pop(tin, f, cx) else {
                let t = &mut self.tins[tin];
                let law = &mut t.flows.flows[f].law;
                t.stats.unresponsive_flows -= u32::from(law.on_empty(&t.law, cx.now));
                let keep = !law.at_rest(cx.now);
                t.flows.emptied(mode, f, rota, keep);
                return None;
            };
            if self.passes(tin, f, &p, cx) {
                self.depart(tin, f, &p, cx);
                return Some(p);
            }
            if self.cfg.ingress {
                let charged = self.charge(tin, &p, true, cx);
                self.owe(tin, f, charged);
            }
            self.drop(tin, f, p, DropReason::Congested, cx);
        }
    }

    /// Takes the oldest packet of a flow out of it.
    #[inline]
    fn pop(&mut self, tin: usize, f: usize, cx: &Cx) -> Option<Pkt> {
        let p = self.tins[tin].flows.flows[f].packets.pop_front(&cx.pool)?;
        self.left(tin, f, cx.meta(&p));
        Some(p)
    }

    /// Takes a packet of a flow off the counts.
    #[inline]
    fn left(&mut self, tin: usize, f: usize, m: &Meta) {
        self.tins[tin].stats.backlog_bytes -= u64::from(m.wire_len);
        self.backlogs.take(tin, f, m.wire_len);
        self.packets -= 1;
        self.memory -= memory::of(m);
    }

    /// True if the law lets a packet leave; it may mark it.
    #[inline]
    fn passes(&mut self, tin: usize, f: usize, p: &Pkt, cx: &mut Cx) -> bool {
        let t = &mut self.tins[tin];
        let flow = &mut t.flows.flows[f];
        let m = cx.meta(p);
        let waited = cx.now.saturating_since(m.enqueued);
        let capable = m.ecn != Ecn::NotEct;
        let lenient = if self.cfg.ingress { t.flows.counts[BULK] } else { 0 };
        let mut mark = false;
        let rng = &mut cx.rng;
        let draw = || rng.next_u64() as u32;
        let signal = || {
            mark = capable;
            capable
        };
        let drop = flow.law.on_dequeue(&t.law, cx.now, waited, lenient, signal, draw);
        let last = flow.packets.is_empty();
        if mark {
            cx.mark(p, MarkReason::Congested);
        }
        if drop && !last {
            return false;
        }
        t.stats.ecn_mark += u64::from(mark);
        true
    }

    /// Books the departure of a packet.
    #[inline]
    fn depart(&mut self, tin: usize, f: usize, p: &Pkt, cx: &Cx) {
        let waited = cx.now.saturating_since(cx.meta(p).enqueued);
        self.tins[tin].waited(waited.0);
        let charged = self.charge(tin, p, false, cx);
        self.owe(tin, f, charged);
    }

    /// Charges bytes to the turns of a flow and its tin.
    #[inline]
    fn owe(&mut self, tin: usize, f: usize, charged: u32) {
        let t = &mut self.tins[tin];
        let deficit = &mut t.flows.flows[f].deficit;
        *deficit = deficit.saturating_sub_unsigned(charged);
        if self.schedule.pace.is_unlimited() {
            t.deficit -= i64::from(charged);
        }
    }

    /// Charges a packet to the schedules of the link and of its tin; returns the charged size.
    #[inline]
    fn charge(&mut self, tin: usize, p: &Pkt, dropped: bool, cx: &Cx) -> u32 {
        let noted = cx.pool.detail(p).map(|d| d.note);
        let len = noted.unwrap_or_else(|| self.cfg.framing.charge(cx.meta(p).wire_len));
        if !self.schedule.pace.is_unlimited() {
            self.tins[tin].threshold.charge(len, cx.now);
            match &mut self.leased {
                Some(leased) => leased.charge(len, backlog_of(&self.tins), cx.now),
                None => self.schedule.charge(len, dropped),
            }
        }
        len
    }

    #[cold]
    fn drop(&mut self, tin: usize, f: usize, p: Pkt, reason: DropReason, cx: &mut Cx) {
        let t = &mut self.tins[tin];
        t.stats.drops += 1;
        t.flows.flows[f].dropped += 1;
        cx.drop(p, reason);
    }

    /// Drops the acknowledgement that the newest packet of a flow makes needless; returns its
    /// bytes, 0 if there is none.
    fn filter(&mut self, tin: usize, f: usize, cx: &mut Cx) -> u32 {
        let t = &mut self.tins[tin];
        let packets = &mut t.flows.flows[f].packets;
        let Some(newest) = packets.details(&cx.pool).last().and_then(|d| d.tcp) else { return 0 };
        let len = packets.details(&cx.pool).count();
        let aggressive = self.cfg.ack_filter == AckFilter::Aggressive;
        let needless = ack_filter::needless(packets.details(&cx.pool), &newest, len, aggressive);
        let Some(p) = needless.and_then(|n| packets.take_nth(&mut cx.pool, n)) else { return 0 };
        t.stats.ack_drops += 1;
        let wire_len = cx.meta(&p).wire_len;
        self.left(tin, f, cx.meta(&p));
        if self.cfg.ingress {
            self.charge(tin, &p, true, cx);
        }
        cx.drop(p, DropReason::AckFilter);
        wire_len
    }
}

/// Returns a cake that is one of several with one rate.
pub(crate) fn part_of(cfg: &Config, env: &Env, part: Option<Part>) -> Node {
    let mut inner = Cake::new(cfg, (), env);
    inner.of_queue = true;
    inner.part = part.filter(|_| inner.leased.is_none()).map(Box::new);
    Node::new(Handle::NONE, Box::new(Erased { inner, cfg: cfg.clone() }))
}

const _: () = assert!(TINS_MAX * FLOWS < u16::MAX as usize, "queues of all tins are numbered in 16 bits");
