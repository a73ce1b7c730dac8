//! rough: two lists, TCP control segments before everything else, in one limit of packets and bytes
//! (DragonFly BSD's "rough" priority queue of 2013, which Linux does not have). A full queue makes
//! room for a control segment at the expense of the oldest ordinary packet, as long as control has
//! less than half of it.
//!
//! `Meta::tcp_control` marks control packets (`crate::packet::headers`): SYN, SYN-ACK, pure ACK;
//! never FIN, RST or data. A profile decides for a full queue: `df2013` drops an ordinary newcomer
//! and makes room for control once; `df2017` drops from the head, for any newcomer, until there is
//! room. `ack_budget` is in neither original: it bounds control's share of the departures
//! (`crate::law::budget`) and of the queue, so that a flood of ACKs does not starve data.
//!
//! O(1) per packet, amortised: a packet is dropped once. No memory beyond the packets.
//!
//! - I1: never more than `limit` packets are queued. The test for a full queue ignores the size of
//!   the newcomer: in `df2017` bytes exceed their limit by less than one packet; in `df2013`, which
//!   makes room once, control adds at most half the limit and one packet to that.
//! - I2: an ordinary packet leaves only when no control segment waits, or those have spent their
//!   budget.
//! - I3: ordinary packets leave in order of arrival, and so do control segments: no FIN, RST or
//!   data overtakes any other of its flow. With a budget, data may leave before an ACK that came
//!   earlier, whose number it repeats.
//! - I4: credit of the budget is full whenever no ordinary packet waits: an empty queue has no
//!   memory.
//! - Differs from DragonFly BSD (PARITY.md: rough-not-linux, rough-counts, rough-no-slot,
//!   rough-shrink): every drop is counted, in both profiles; no packet is ever taken back from the
//!   device; a smaller limit is obeyed at once.

use core::fmt;

use crate::base::bound::Bound;
use crate::base::chance::Percent;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::units::{Bytes, Packets};
use crate::law::budget::Budget;
use crate::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use crate::packet::reason::DropReason;
use crate::packet::route::Candidate;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::spec::{Capacity, Flags};
use crate::text::error::ConfigError;
use crate::text::value::{Json, Quantity, Refusal, Show, Value, Words};

/// Treatment of a newcomer to a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// As in June 2013: an ordinary newcomer is dropped; one ordinary packet makes room for
    /// control.
    Df2013,
    /// As in 2017: the oldest packets, ordinary ones first, are dropped until there is room.
    Df2017,
}

impl Show for Profile {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        f.write_str(match self {
            Self::Df2013 => "df2013",
            Self::Df2017 => "df2017",
        })
    }
    fn json(&self) -> Json {
        Json::Text(crate::text::value::exact_of(self))
    }
}

impl Value for Profile {
    const EXPECTED: &'static str = "df2013 or df2017";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        match words.value()? {
            "df2013" => Ok(Self::Df2013),
            "df2017" => Ok(Self::Df2017),
            _ => Err(Refusal::NotSuch),
        }
    }
}

/// A limit of bytes that is given, or derived from that of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteLimit {
    /// A given limit, whatever the limit of packets.
    Given(Bytes),
    /// A limit derived from the limit of packets.
    Derived(Bytes),
}

impl ByteLimit {
    /// Returns the limit in bytes.
    pub const fn bytes(self) -> Bytes {
        match self {
            Self::Given(bytes) | Self::Derived(bytes) => bytes,
        }
    }
}

impl Show for ByteLimit {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        self.bytes().text(f)
    }
    fn exact(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        self.bytes().exact(f)
    }
    fn json(&self) -> Json {
        self.bytes().json()
    }
}

impl Value for ByteLimit {
    const EXPECTED: &'static str = Bytes::EXPECTED;
    const QUANTITY: Quantity = Quantity::Bytes;
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        Bytes::take(words).map(Self::Given)
    }
}

crate::params! {
    /// Parameters of rough.
    pub struct Config(env) {
        /// Most packets that wait, of both sorts together; the default is the device's transmit
        /// queue length.
        limit: Packets = Packets(env.tx_queue_len), keys ["limit"];
        /// Bytes at which it is full; the default is `limit` times 1514 on Ethernet, times 2048
        /// elsewhere.
        bytes: ByteLimit = ByteLimit::Derived(byte_limit(Packets(env.tx_queue_len), env)), keys ["bytes"];
        /// Treatment of a newcomer to a full queue.
        profile: Profile = Profile::Df2017, keys ["profile"];
        /// Share of the departing bytes, and of both limits, that control segments have while
        /// others wait; all unless given.
        ack_budget: Option<Percent> = None, keys ["ack_budget"], "more than 0%": |p| p.is_none_or(|p| p > Percent(0));
    }
}

crate::stats! {
    /// Counters of rough.
    pub struct Stats {
        /// Control segments that wait now.
        prio_packets: u32 [falls],
        /// Their bytes.
        prio_bytes: u64 [falls] [of(Bytes)],
        /// Ordinary packets dropped from the head to make room.
        head_drops: u64,
        /// Control segments dropped from the head to make room, or because they exceeded their
        /// share.
        prio_head_drops: u64,
        /// Packets that came and were dropped.
        refused: u64,
        /// Drops as the profile counts them: `df2013` does not count what it drops from the head.
        profile_drops: u64,
        /// Ordinary packets that left before control segments that had spent their budget.
        budget_yields: u64,
    }
}

/// Bytes of a packet for the derived limit on Ethernet: a full frame.
const ETHERNET_PACKET: u64 = 1514;
/// Bytes of a packet for the derived limit elsewhere: a packet buffer (cluster) of DragonFly.
const OTHER_PACKET: u64 = 2048;
/// Bytes of an Ethernet header.
const ETHERNET_HEADER: u32 = 14;

/// Returns the limit of bytes that is derived from one of packets.
fn byte_limit(limit: Packets, env: &Env) -> Bytes {
    let each = if env.link_header == ETHERNET_HEADER { ETHERNET_PACKET } else { OTHER_PACKET };
    Bytes(u64::from(limit.0) * each)
}

/// Two lists under one limit.
#[derive(Debug)]
pub struct Rough {
    prio: Queue,
    normal: Queue,
    packets_max: u32,
    bytes_max: u64,
    /// Most packets of control in the queue: no bound without a budget.
    prio_packets_max: u32,
    prio_bytes_max: u64,
    profile: Profile,
    budget: Budget,
    stats: Stats,
}

impl Discipline for Rough {
    const KIND: &'static str = "rough";
    const ABOUT: &'static str =
        "TCP control segments first, in one limit with everything else (not in Linux).";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const QUIET: bool = true;
    const CAPACITY: Capacity = Capacity { keys: &["bytes", "limit"], ..Capacity::KEY };
    const IN_LINUX: bool = false;
    const CONTROL_FIRST: bool = true;
    type Config = Config;
    type Rules = ();
    type Stats = Stats;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, env: &Env) -> Result<(), ConfigError> {
        if let ByteLimit::Derived(bytes) = &mut cfg.bytes {
            *bytes = byte_limit(cfg.limit, env);
        }
        cfg.ack_budget = cfg.ack_budget.filter(|share| *share < Percent::ALL);
        Ok(())
    }
    fn new(cfg: &Config, (): (), _env: &Env) -> Self {
        let mut rough = Self {
            prio: Queue::new(),
            normal: Queue::new(),
            packets_max: 0,
            bytes_max: 0,
            prio_packets_max: 0,
            prio_bytes_max: 0,
            profile: cfg.profile,
            budget: Budget::new(Percent::ALL),
            stats: Stats::default(),
        };
        rough.take_limits(cfg);
        rough
    }
    fn change(&mut self, cfg: &Config, (): (), _env: &Env, cx: &mut Cx) {
        let before = (self.packets_max, self.bytes_max);
        self.take_limits(cfg);
        self.profile = cfg.profile;
        // A backlog above the limit in bytes stays, unless a smaller limit is to be obeyed.
        if self.packets_max < before.0 || self.bytes_max < before.1 {
            let mut bound = Bound::of(self.packets() as usize + 1);
            while self.packets() > self.packets_max || self.bytes() > self.bytes_max {
                bound.turn();
                let oldest = self.take_normal(cx).or_else(|| self.prio.pop_front(&cx.pool));
                let Some(p) = oldest else { return };
                cx.drop(p, DropReason::Purged);
            }
        }
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.is_full() || m.tcp_control && self.prio_is_full() { Verdict::Full } else { Verdict::Accept }
    }
    #[inline]
    fn enqueue_quietly(&mut self, p: Pkt, _class: Option<ClassId>, pool: &mut Pool) -> Option<Pkt> {
        if self.is_full() {
            return Some(p);
        }
        if !pool.meta(&p).tcp_control {
            self.normal.push_back(pool, p);
            return None;
        }
        if self.prio_is_full() {
            return Some(p);
        }
        self.prio.push_back(pool, p);
        None
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let Some(p) = self.enqueue_quietly(p, class, &mut cx.pool) else { return };
        let control = cx.meta(&p).tcp_control;
        let room = match self.profile {
            Profile::Df2013 => self.make_room_once(control, cx),
            Profile::Df2017 => self.make_room(control, cx),
        };
        if !room {
            self.stats.refused += 1;
            self.stats.profile_drops += 1;
            return cx.drop(p, DropReason::Overlimit);
        }
        let list = if control { &mut self.prio } else { &mut self.normal };
        list.push_back(&mut cx.pool, p);
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        if self.control_goes() {
            let Some(p) = self.prio.pop_front(&cx.pool) else { return Next::Empty };
            if !self.normal.is_empty() {
                self.budget.spend(cx.meta(&p).wire_len);
            }
            return Next::Packet(p);
        }
        let Some(p) = self.normal.pop_front(&cx.pool) else { return Next::Empty };
        self.stats.budget_yields += u64::from(!self.prio.is_empty());
        self.budget.earn(cx.meta(&p).wire_len);
        self.review();
        Next::Packet(p)
    }
    fn head<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>> {
        if self.control_goes() { self.prio.first(pool) } else { self.normal.first(pool) }
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.prio.evict_all(out, pool);
        self.normal.evict_all(out, pool);
        self.review();
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.prio.waiting(pool).chain(self.normal.waiting(pool)).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        self.review();
    }
    fn transparent(&self, _wire_len: u32) -> bool {
        self.packets_max > 0 && self.bytes_max > 0
    }
    fn stats(&self) -> Stats {
        Stats { prio_packets: self.prio.packets(), prio_bytes: self.prio.bytes(), ..self.stats }
    }
}

impl Rough {
    fn take_limits(&mut self, cfg: &Config) {
        self.packets_max = cfg.limit.0;
        self.bytes_max = cfg.bytes.bytes().0;
        (self.prio_packets_max, self.prio_bytes_max) = match cfg.ack_budget {
            None => (u32::MAX, u64::MAX),
            // At least one segment: control is bounded, not shut out.
            Some(share) => {
                let part = |n: u64| (u128::from(n) * u128::from(share.0) / u128::from(u32::MAX)) as u64;
                // A part of a 32-bit number fits 32 bits.
                ((part(u64::from(self.packets_max)) as u32).max(1), part(self.bytes_max).max(1))
            }
        };
        let share = cfg.ack_budget.unwrap_or(Percent::ALL);
        if share != self.budget.share() {
            self.budget.set_share(share);
        }
    }
    #[inline]
    const fn packets(&self) -> u32 {
        self.prio.packets() + self.normal.packets()
    }
    #[inline]
    const fn bytes(&self) -> u64 {
        self.prio.bytes() + self.normal.bytes()
    }
    #[inline]
    const fn is_full(&self) -> bool {
        self.packets() >= self.packets_max || self.bytes() >= self.bytes_max
    }
    /// True if control has all that its budget allows it of the queue.
    #[inline]
    const fn prio_is_full(&self) -> bool {
        self.prio.packets() >= self.prio_packets_max || self.prio.bytes() >= self.prio_bytes_max
    }
    /// True if control has less than half of both limits: then ordinary packets make room for it.
    const fn prio_below_half(&self) -> bool {
        self.prio.packets() < self.packets_max / 2 && self.prio.bytes() < self.bytes_max / 2
    }
    /// True if the next packet is a control segment.
    #[inline]
    const fn control_goes(&self) -> bool {
        !self.prio.is_empty() && (self.budget.allows() || self.normal.is_empty())
    }
    /// Restores I4.
    #[inline]
    const fn review(&mut self) {
        if self.normal.is_empty() {
            self.budget.refill();
        }
    }
    fn take_normal(&mut self, cx: &Cx) -> Option<Pkt> {
        let p = self.normal.pop_front(&cx.pool);
        self.review();
        p
    }

    /// Drops the oldest ordinary packet in favour of control, if it may; returns true if the
    /// newcomer is to be queued.
    fn make_room_once(&mut self, control: bool, cx: &mut Cx) -> bool {
        if !control || self.prio_is_full() || !self.prio_below_half() {
            return false;
        }
        let Some(oldest) = self.take_normal(cx) else { return false };
        self.stats.head_drops += 1;
        cx.drop(oldest, DropReason::HeadDrop);
        true
    }

    /// Drops the oldest packets until there is room; returns true if there is.
    fn make_room(&mut self, control: bool, cx: &mut Cx) -> bool {
        // Each turn but the last drops a packet.
        let mut bound = Bound::of(self.packets() as usize + 1);
        loop {
            bound.turn();
            let own = control && self.prio_is_full();
            if !own && !self.is_full() {
                return true;
            }
            let spare = !own && (!control || self.prio_below_half());
            let mut oldest = if spare { self.take_normal(cx) } else { None };
            if oldest.is_some() {
                self.stats.head_drops += 1;
            } else if control {
                oldest = self.prio.pop_front(&cx.pool);
                self.stats.prio_head_drops += u64::from(oldest.is_some());
            }
            let Some(oldest) = oldest else { return false };
            self.stats.profile_drops += 1;
            cx.drop(oldest, DropReason::HeadDrop);
        }
    }
}
