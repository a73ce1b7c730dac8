//! gred: generalised RED (tc-gred(8)): up to 16 virtual queues in one FIFO, each with thresholds,
//! an average and a limit of its own, so that some packets are dropped before others. The law is
//! `law::red`. O(1) per packet, and with `grio` O(queues).
//!
//! A packet's queue is the low four bits of the minor number of the class that it came with: the
//! one that filters at the egress hook give it (Linux keeps that number as `tc_index`), or that the
//! sender names. Without parameters for that queue it is the default one; without any for that one
//! either, the packet is only bounded by `limit`.
//!
//! - Averages: of the bytes of the queue alone. With `grio` those of all busy queues of a lower
//!   `prio` are added to it (RIO: Clark and Fang, "Explicit Allocation of Best-Effort Packet
//!   Delivery Service", 1998); but if two queues have the same `prio`, all queues share one
//!   average, of the bytes of all (WRED).
//! - Memory: 0.5 KiB a queue, and 4 bytes for each packet that the path can hold.
//! - I1: order of arrival is order of departure.
//! - I2: a queue that accepts a packet has at most `limit` bytes with it.
//! - I3: the bytes of a queue are those of its packets that wait, whatever commands have come.
//! - Differs from Linux (PARITY.md: gred-index, gred-one-line, gred-prio, gred-shown-average,
//!   red-idle-cells, red-probability): a packet is counted out of the queue that it was counted
//!   into; one line may make the whole; a `prio` has 8 bits; the average that is shown is that of
//!   the last packet.

mod config;

use alloc::vec;
use alloc::vec::Vec;
use core::any::Any;

use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::time::Instant;
use crate::law::red::{RedAction, RedAverage, RedParams, RedState};
use crate::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use crate::packet::reason::{DropReason, MarkReason};
use crate::packet::route::Candidate;
use crate::qdisc::fifo::NoStats;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{FlowShown, Flows};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::erased::{Erased, Qdisc};
use crate::sched::spec::{Capacity, Flags as Effects, RefusedBy, Refuser, Style, Unset};
use crate::text::error::{ConfigError, ErrorKind, Reason};
use crate::text::stats::{Counter, Counters as _};

pub use config::{Config, Flags, QUEUE_EXPECTED, QueueConfig, Rules};

/// Most virtual queues.
pub const QUEUES: usize = 16;

const KIND: &str = "gred";

/// The names of the queues among the parts of the qdisc.
const NAMES: [&str; QUEUES] =
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"];

crate::stats! {
    /// Counters of a virtual queue.
    pub struct QueueStats {
        /// The average in bytes, as of the last packet that came.
        qave: u64 [falls] [of(Bytes)],
        /// Bytes that wait; of all queues if they share an average.
        backlog: u64 [falls] [of(Bytes)],
        /// Packets dropped while the average was at `max` or above.
        forced_drop: u64,
        /// Packets dropped by chance.
        prob_drop: u64,
        /// Packets dropped at `limit`.
        pdrop: u64,
        /// Always 0.
        other: u64,
        /// Packets marked while the average was at `max` or above.
        forced_mark: u64,
        /// Packets marked by chance.
        prob_mark: u64,
        /// Packets that came, those dropped among them.
        packets: u64,
        /// Their bytes.
        bytes: u64 [of(Bytes)],
    }
}

/// A virtual queue.
#[derive(Debug)]
struct Virtual {
    limit: u64,
    prio: u8,
    /// The queues of higher priority whose averages count, one bit for each.
    above: u16,
    flags: Flags,
    params: RedParams,
    law: RedState,
    /// Bytes of its packets that wait.
    backlog: u64,
    /// Distinguishes it from earlier queues of its number.
    life: u32,
    stats: QueueStats,
}

/// The queue in which a waiting packet is counted: its number and its life; `NOWHERE` for none.
type Counted = u32;

const NOWHERE: Counted = u32::MAX;
/// Lives that a `Counted` distinguishes. Below `NOWHERE >> 4`.
const LIVES: u32 = (1 << 28) - 1;

/// A FIFO of virtual queues under RED.
#[derive(Debug)]
pub struct Gred {
    queue: Queue,
    /// The virtual queues that have parameters, by their numbers.
    queues: Vec<Option<Virtual>>,
    default: u8,
    limit: u64,
    /// True if all queues share an average.
    shares: bool,
    shared: RedAverage,
    /// The queue of the packet in each slot of the pool.
    counted: Vec<Counted>,
    lives: u32,
}

/// Returns the parameters of a qdisc; `None` if it is of another kind.
pub fn config_of(qdisc: &dyn Qdisc) -> Option<&Config> {
    let any: &dyn Any = qdisc;
    any.downcast_ref::<Erased<Gred>>().map(|gred| &gred.cfg)
}

impl Discipline for Gred {
    const KIND: &'static str = KIND;
    const ABOUT: &'static str = "RED with up to 16 virtual queues in one FIFO, each with its own thresholds.";
    const FLAGS: Effects = Effects { shapes: false, reorders: false };
    const STYLE: Style = Style::BLANK;
    const CAPACITY: Capacity = Capacity { keys: &["limit"], unset: Unset::Queues(1) };
    const REFUSED_BY: RefusedBy = |err, _| match (err.kind, err.key.as_deref()) {
        (ErrorKind::OutOfRange, Some("probability")) if err.reason == Some(Reason::DeclaredRange) => None,
        (ErrorKind::OutOfRange, Some("vq")) if err.reason.is_none() => Some(Refuser::Kernel),
        (ErrorKind::Missing, Some("setup")) => Some(Refuser::Kernel),
        (ErrorKind::OutOfRange, _) => Some(Refuser::Tool),
        _ => None,
    };
    const PARTS: &'static [Counter] = QueueStats::TABLE;
    const TABLES: fn(&Config, &Env) -> u64 = |_, env| {
        // Sizes in memory.
        u64::from(env.packets) * size_of::<Counted>() as u64 + (QUEUES * size_of::<Option<Virtual>>()) as u64
    };
    type Config = Config;
    type Rules = Rules;
    type Stats = NoStats;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, env: &Env) -> Result<Rules, ConfigError> {
        cfg.settle(env)
    }
    fn new(cfg: &Config, rules: Rules, env: &Env) -> Self {
        let mut gred = Self {
            queue: Queue::new(),
            queues: Vec::new(),
            default: 0,
            limit: 0,
            shares: false,
            shared: RedAverage::default(),
            counted: vec![NOWHERE; env.packets as usize],
            lives: 0,
        };
        gred.queues.resize_with(QUEUES, || None);
        gred.take(cfg, rules, Instant::ZERO);
        gred
    }
    fn change(&mut self, cfg: &Config, rules: Rules, _env: &Env, cx: &mut Cx) {
        self.take(cfg, rules, cx.now);
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        let len = u64::from(m.wire_len);
        let fits = match self.number_of(m.meta.class.minor()).and_then(|n| self.queues[n].as_ref()) {
            Some(queue) => self.waiting_for(queue) + len <= queue.limit,
            None => self.queue.bytes() + len <= self.limit,
        };
        if fits { Verdict::Accept } else { Verdict::Full }
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        let len = u64::from(cx.meta(&p).wire_len);
        let number = self.number_of(cx.pool.class_index(&p));
        let (others, all) = (number.map_or(0, |number| self.above(number)), self.queue.bytes());
        let place = number.and_then(|number| Some((number, self.queues.get_mut(number)?.as_mut()?)));
        let Some((number, queue)) = place else {
            if self.queue.bytes() + len > self.limit {
                return cx.drop(p, DropReason::Overlimit);
            }
            self.count_in(&p, NOWHERE);
            return self.queue.push_back(&mut cx.pool, p);
        };
        queue.stats.packets += 1;
        queue.stats.bytes += len;
        let waits = if self.shares { all } else { queue.backlog };
        if self.shares {
            queue.law.adopt(self.shared);
        }
        queue.law.learn(&queue.params, waits, cx.now);
        if self.shares {
            self.shared = queue.law.shared();
        }
        let action = queue.law.action_beside(&queue.params, others, &mut cx.rng);
        if action != RedAction::Pass {
            cx.overlimit();
            let forced = action == RedAction::Forced;
            let may_mark = queue.flags.ecn && !(queue.flags.harddrop && forced);
            let stats = &mut queue.stats;
            if may_mark && cx.mark(&p, MarkReason::Congested) {
                *(if forced { &mut stats.forced_mark } else { &mut stats.prob_mark }) += 1;
            } else {
                *(if forced { &mut stats.forced_drop } else { &mut stats.prob_drop }) += 1;
                return cx.drop(p, DropReason::Congested);
            }
        }
        if waits + len > queue.limit {
            queue.stats.pdrop += 1;
            return cx.drop(p, DropReason::Overlimit);
        }
        queue.backlog += len;
        let counted = queue.life << 4 | number as u32; // below 16
        self.count_in(&p, counted);
        self.queue.push_back(&mut cx.pool, p);
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let Some(p) = self.queue.pop_front(&cx.pool) else { return Next::Empty };
        let len = u64::from(cx.meta(&p).wire_len);
        let counted = self.counted.get_mut(p.index()).map_or(NOWHERE, |at| core::mem::replace(at, NOWHERE));
        if let Some(queue) = self.queues.get_mut(counted as usize % QUEUES).and_then(Option::as_mut)
            && queue.life == counted >> 4
        {
            queue.backlog = queue.backlog.saturating_sub(len);
            if self.shares && self.queue.is_empty() {
                self.shared.start_idle(cx.now);
            } else if !self.shares && queue.backlog == 0 {
                queue.law.start_idle(cx.now);
            }
        }
        Next::Packet(p)
    }
    fn head<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>> {
        self.queue.first(pool)
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.queue.evict_all(out, pool);
        self.counted.fill(NOWHERE);
        self.queues.iter_mut().flatten().for_each(|queue| queue.backlog = 0);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.queue.waiting(pool).for_each(f);
    }
    fn reset(&mut self, cx: &mut Cx) {
        self.shared = RedAverage::default();
        for queue in self.queues.iter_mut().flatten() {
            queue.law = RedState::new(&queue.params, cx.now);
        }
    }
    /// Without virtual queues a packet leaves no trace.
    fn transparent(&self, wire_len: u32) -> bool {
        u64::from(wire_len) <= self.limit && self.queues.iter().all(Option::is_none)
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
    fn as_flows(&self) -> Option<&dyn Flows> {
        Some(self)
    }
}

impl Flows for Gred {
    fn flows(&self, _pool: &Pool, _f: &mut dyn FnMut(FlowShown<'_>)) {}
    fn parts(&self, f: &mut dyn FnMut(&'static str, &'static Counter, u64)) {
        for (name, queue) in NAMES.iter().zip(&self.queues) {
            let Some(queue) = queue else { continue };
            let mut law = queue.law.clone();
            if self.shares {
                law.adopt(self.shared);
            }
            let stats = QueueStats {
                qave: law.average(&queue.params),
                backlog: self.waiting_for(queue),
                ..queue.stats
            };
            stats.visit(&mut |counter, n| f(name, counter, n));
        }
    }
}

impl Gred {
    /// Takes over parameters, with the laws of the queues that were given some.
    fn take(&mut self, cfg: &Config, rules: Rules, now: Instant) {
        (self.default, self.limit) = (cfg.default, cfg.limit.into());
        self.shares = cfg.shares_average();
        for (number, params) in rules {
            let Some(place) = self.queues.get_mut(usize::from(number)) else { continue };
            let law = RedState::new(&params, now);
            match place {
                Some(queue) => (queue.law, queue.params) = (law, params),
                None => {
                    self.lives = (self.lives + 1) % LIVES;
                    let (life, stats) = (self.lives, QueueStats::default());
                    let (limit, prio, above, flags) = (0, 0, 0, Flags::default());
                    *place =
                        Some(Virtual { limit, prio, above, flags, params, law, backlog: 0, life, stats });
                }
            }
        }
        for (number, place) in (0..).zip(&mut self.queues) {
            match (cfg.queue(number), &mut *place) {
                (Some(given), Some(queue)) => {
                    (queue.limit, queue.prio, queue.flags) = (given.limit.into(), given.prio, given.flags);
                }
                _ => *place = None,
            }
        }
        let mut prios = [None; QUEUES];
        for (prio, queue) in prios.iter_mut().zip(&self.queues) {
            *prio = queue.as_ref().map(|queue| queue.prio);
        }
        let counts = cfg.grio && !self.shares;
        for queue in self.queues.iter_mut().flatten() {
            let above = |(_, prio): &(u32, &Option<u8>)| counts && prio.is_some_and(|prio| prio < queue.prio);
            queue.above = (0..).zip(&prios).filter(above).fold(0, |bits, (at, _)| bits | 1 << at);
        }
    }

    /// Returns the virtual queue of packets with this index; `None` if neither that queue nor the
    /// default one has parameters.
    #[inline]
    fn number_of(&self, index: u16) -> Option<usize> {
        let has = |number: &usize| self.queues.get(*number).is_some_and(Option::is_some);
        Some(usize::from(index) % QUEUES).filter(has).or(Some(usize::from(self.default)).filter(has))
    }

    /// Returns the bytes that count for a queue.
    const fn waiting_for(&self, queue: &Virtual) -> u64 {
        if self.shares { self.queue.bytes() } else { queue.backlog }
    }

    /// Returns the averages of the busy queues of higher priority.
    #[inline]
    fn above(&self, number: usize) -> u64 {
        let (mut left, mut sum) = (self.queues[number].as_ref().map_or(0, |own| own.above), 0);
        // Bound: `QUEUES`, one bit less each time.
        while left != 0 {
            let other = self.queues.get(left.trailing_zeros() as usize).and_then(Option::as_ref);
            sum += other.map_or(0, |queue| queue.law.busy_average());
            left &= left - 1;
        }
        sum
    }

    fn count_in(&mut self, p: &Pkt, counted: Counted) {
        if let Some(at) = self.counted.get_mut(p.index()) {
            *at = counted;
        }
    }
}
