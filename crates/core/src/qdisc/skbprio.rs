//! skbprio: 64 levels of priority that share one limit; a full queue makes room for a packet by
//! dropping the newest of the lowest level (tc-skbprio(8)).
//!
//! A packet's level is its priority, 63 for all above; the highest level is served first. The
//! levels in use are the bits of one word, so that each operation is O(1). Memory: 2 KiB for the
//! levels, nothing per packet.
//!
//! - I1: never more than `limit` packets are queued.
//! - I2: no packet leaves while one of a higher level waits; within a level, order of arrival is
//!   order of departure.
//! - I3: a packet is dropped only when `limit` packets of its level or above wait or have come
//!   after it.
//! - Differs from Linux (PARITY.md: skbprio-class-packets, skbprio-shrink, skbprio-parent-backlog):
//!   a level reports its number of packets; a smaller limit is obeyed at once, by dropping as a
//!   full queue would; the counts of the qdiscs above stay right.

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::tally::Tally;
use crate::base::units::Packets;
use crate::packet::meta::Meta;
use crate::packet::pool::{Deque, List, Pkt, Pool, Waiting};
use crate::packet::reason::DropReason;
use crate::packet::route::Candidate;
use crate::qdisc::fifo::NoStats;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{FlowShown, Flows};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::spec::{Flags, Style};
use crate::text::error::ConfigError;
use crate::text::value::{Quantity, Refusal, Show, Value, Words};

/// A number of packets that tc reads and prints without its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub u32);

impl Show for Limit {
    fn text(&self, f: &mut dyn core::fmt::Write) -> core::fmt::Result {
        self.0.text(f)
    }
    fn json(&self) -> crate::text::value::Json {
        self.0.json()
    }
}

impl Value for Limit {
    const EXPECTED: &'static str = Packets::EXPECTED;
    const QUANTITY: Quantity = Quantity::Packets;
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        Packets::take(words).map(|p| Self(p.0))
    }
}

crate::params! {
    /// Parameters of skbprio.
    pub struct Config(env) {
        /// Most packets that wait, in all levels together.
        limit: Limit = Limit(64), keys ["limit"];
    }
}

/// One level for each value of the six bits of a DS field (tc-skbprio(8)).
const LEVELS: usize = 64;

/// A level: its packets, and the count of its drops.
#[derive(Debug, Default)]
struct Level {
    packets: Deque,
    queued: Tally,
    drops: u32,
}

/// Levels of priority under one limit.
#[derive(Debug)]
pub(crate) struct Skbprio {
    levels: [Level; LEVELS],
    /// A bit for each level with packets.
    active: u64,
    packets: u32,
    /// Packets that a peek has taken out and that still wait, 0 or 1: they count towards the limit.
    held: u32,
    limit: u32,
}

impl Discipline for Skbprio {
    const KIND: &'static str = "skbprio";
    const ABOUT: &'static str =
        "64 levels of priority under one limit; when full, the lowest level makes room.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const STYLE: Style = Style::BLANK;
    type Config = Config;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(_cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        Ok(())
    }
    fn new(cfg: &Config, (): (), _env: &Env) -> Self {
        Self {
            levels: core::array::from_fn(|_| Level::default()),
            active: 0,
            packets: 0,
            held: 0,
            limit: cfg.limit.0,
        }
    }
    fn change(&mut self, cfg: &Config, (): (), _env: &Env, cx: &mut Cx) {
        self.limit = cfg.limit.0;
        let mut bound = Bound::of(self.packets as usize);
        while self.packets > 0 && self.packets + self.held > self.limit {
            bound.turn();
            self.drop_lowest(DropReason::Purged, cx);
        }
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        let (own, waiting) = (self.levels[level(m)].queued.packets, self.packets + self.held);
        Verdict::shared(own, waiting.into(), self.limit.into())
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        let m = cx.meta(&p);
        let (at, wire_len) = (level(m), m.wire_len);
        if self.packets + self.held >= self.limit {
            if at <= self.lowest() {
                self.levels[at].drops = self.levels[at].drops.wrapping_add(1);
                return cx.drop(p, DropReason::Overlimit);
            }
            self.drop_lowest(DropReason::Overlimit, cx);
        }
        let level = &mut self.levels[at];
        level.packets.push_back(&mut cx.pool, p);
        level.queued.add(wire_len);
        self.active |= 1 << at;
        self.packets += 1;
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let Some(highest) = self.active.checked_ilog2() else { return Next::Empty };
        let p = self.levels[highest as usize].packets.pop_front(&cx.pool);
        match p {
            Some(p) => {
                self.left(highest as usize, cx.meta(&p).wire_len);
                Next::Packet(p)
            }
            // A level whose bit is set is never empty.
            None => Next::Empty,
        }
    }
    fn holding(&mut self, held: bool) {
        self.held = u32::from(held);
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        for level in self.levels.iter_mut().rev() {
            level.packets.evict_all(out, pool);
            level.queued = Tally::default();
        }
        (self.active, self.packets) = (0, 0);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.levels.iter().rev().flat_map(|l| l.packets.waiting(pool)).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {}
    fn transparent(&self, _wire_len: u32) -> bool {
        self.limit > 0
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
    fn as_flows(&self) -> Option<&dyn Flows> {
        Some(self)
    }
}

impl Flows for Skbprio {
    fn flows(&self, _pool: &Pool, f: &mut dyn FnMut(FlowShown<'_>)) {
        for (minor, level) in (1..).zip(&self.levels) {
            let drops = i64::from(level.drops);
            f(FlowShown { minor, backlog: level.queued, values: &[("drops", drops), ("overlimits", drops)] });
        }
    }
}

impl Skbprio {
    /// Returns the lowest level with packets; the highest level of all if there is none.
    fn lowest(&self) -> usize {
        (self.active.trailing_zeros() as usize).min(LEVELS - 1)
    }

    /// Drops the newest packet of the lowest level.
    fn drop_lowest(&mut self, reason: DropReason, cx: &mut Cx) {
        let lowest = self.lowest();
        let level = &mut self.levels[lowest];
        if let Some(p) = level.packets.pop_back(&mut cx.pool) {
            if reason == DropReason::Overlimit {
                level.drops = level.drops.wrapping_add(1);
            }
            self.left(lowest, cx.meta(&p).wire_len);
            cx.drop(p, reason);
        }
    }

    /// Takes a packet of this level off the counts.
    #[inline]
    fn left(&mut self, at: usize, wire_len: u32) {
        let level = &mut self.levels[at];
        level.queued.packets -= 1;
        level.queued.bytes -= u64::from(wire_len);
        if level.packets.is_empty() {
            self.active &= !(1 << at);
        }
        self.packets -= 1;
    }
}

/// Returns the level of a packet.
#[inline]
fn level(m: &Meta) -> usize {
    (m.priority as usize).min(LEVELS - 1)
}
