//! taprio: traffic classes of transmit queues, whose gates open and close by a schedule
//! (tc-taprio(8); IEEE 802.1Qbv, now 802.1Q-2018 sections 8.6.8 and 8.6.9). While several gates are
//! open, the highest class goes first, and the queues of a class take turns.
//!
//! The law is [`crate::law::gates`]: O(1) per packet, and a pass over the entries where time has
//! passed. Memory per queue is its qdisc, per entry 144 bytes.
//!
//! - I1: a packet leaves while the gate of its class is open, and early enough to be sent before
//!   that closes, at the rate of the link as it was when the qdisc was made.
//! - I2: a packet waits in a queue of the class of its priority.
//! - I3: a packet that no opening of its class is long enough for, or that is longer than its
//!   class may send, is dropped when it comes.
//! - I4: a queue's bit in `active` is set from its first packet until it has answered that it is
//!   empty.
//! - Differs from Linux (PARITY.md: taprio-assist, taprio-change, taprio-clock,
//!   taprio-cut-drops, taprio-drops, taprio-entries, taprio-graft, taprio-launch, taprio-link-rate,
//!   taprio-pending, taprio-queue, taprio-same-change, taprio-sdu, taprio-stuck).

mod entries;
mod sdus;

use alloc::format;
use alloc::vec::Vec;
use core::any::Any;

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::queues::QueueSet;
use crate::base::time::Instant;
use crate::base::units::Rate;
use crate::law::gates::{ByteTime, Gates, Schedule};
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::{DropReason, WakeReason};
use crate::packet::route::Candidate;
use crate::qdisc::etf::Clock;
use crate::qdisc::fifo::NoStats;
use crate::qdisc::leaf;
use crate::qdisc::mqprio::{Preemption, Ranges};
use crate::qdisc::multiq::several_queues;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline};
use crate::sched::erased::{Erased, Qdisc};
use crate::sched::node::{Class, Peek};
use crate::sched::spec::{ClassShape, Flags};
use crate::sched::traffic::{CLASSES_MAX, Range, TrafficClasses};
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::value::{Hex, PrioMap, Value as _, exact_of, text_of};

pub use entries::Entries;
pub use sdus::Sdus;

crate::params! {
    /// Parameters of taprio.
    pub struct Config(env)
        once ["cycle_time", "cycle_time_extension", "txtime_delay", "flags", "clockid"]
    {
        /// Traffic classes. A change keeps them.
        num_tc: u32 = 0, keys ["num_tc"], "0 to 16": |n| *n <= CLASSES_MAX as u32;
        /// The traffic class of each priority from 0; those left out are class 0.
        map: PrioMap = PrioMap([0; 16]), keys ["map"];
        /// The queues of each class, COUNT@OFFSET.
        queues: Ranges = Ranges(Vec::new()), keys ["queues"];
        /// Clock of the schedule. Must be given. It is the clock of the path.
        clockid: Option<Clock> = None, keys ["clockid"];
        /// Time at which the schedule begins, nanoseconds. If it is over, the first cycle after the
        /// present is the first one.
        base_time: u64 = 0, keys ["base-time"];
        /// Duration of a cycle, nanoseconds; 0 for the sum of the entries. A shorter one cuts the
        /// entries off.
        cycle_time: u64 = 0, keys ["cycle-time"];
        /// Most nanoseconds by which an entry is extended, so that a schedule that comes after this
        /// one begins without a gap.
        cycle_time_extension: u64 = 0, keys ["cycle-time-extension"];
        /// The entries of the schedule, each `S` (set gates), the classes whose gates are open as
        /// the bits of a hexadecimal number, and nanoseconds. At least one must be given.
        sched_entry: Entries = Entries::default(), keys ["sched-entry"];
        /// Longest packet of each class from class 0, bytes without the link header (IEEE
        /// 802.1Q's queueMaxSDU); 0 for no bound. A super-packet is cut into segments first. A
        /// change keeps those left out, and a new value comes with its schedule.
        max_sdu: Sdus = Sdus(Vec::new()), keys ["max-sdu"];
        /// For each class, express frames (E) or preemptible ones (P), IEEE 802.1Qbu. P is refused,
        /// because only a card that keeps the schedule itself can interrupt frames.
        fp: Preemption = Preemption(Vec::new()), keys ["fp"];
        /// Work of the network card: 1 to give packets launch times, 2 to keep the schedule.
        /// Refused but for 0, because the engine keeps the schedule.
        flags: Hex = Hex(0), keys ["flags"];
        /// Delay of launch times. Has no effect without `flags`.
        txtime_delay: u32 = 0, keys ["txtime-delay"];
    }
}

impl Config {
    /// Returns the traffic classes that it makes of a port's queues.
    pub fn classes(&self) -> Result<TrafficClasses, ConfigError> {
        TrafficClasses::new(self.map.0, &self.queues.0)
    }
    fn schedule(&self, now: Instant) -> Option<Schedule> {
        let Self { cycle_time, cycle_time_extension, base_time, .. } = *self;
        let schedule = Schedule::new(&self.sched_entry.0, cycle_time, cycle_time_extension, base_time, now)?;
        Some(schedule.with_frames(self.max_sdu.frames()))
    }
    /// Brings the longest packets to one for each class: a change keeps those that it leaves out.
    fn fill_sdus(&mut self, old: Option<&Self>) -> Result<(), ConfigError> {
        let Sdus(sdus) = &mut self.max_sdu;
        if let Some(large) = sdus.iter().find(|sdu| **sdu > MTU_MAX) {
            let expected = format!("at most {MTU_MAX} bytes, the largest MTU of a device");
            let err = ConfigError::new(ErrorKind::OutOfRange, Object::Kind(Taprio::KIND), expected, large);
            return Err(err.key("max-sdu"));
        }
        let kept = old.map_or(&[][..], |old| &old.max_sdu.0);
        sdus.extend(kept.iter().skip(sdus.len()));
        sdus.resize(self.num_tc as usize, 0);
        if sdus.iter().all(|sdu| *sdu == 0) {
            sdus.clear();
        }
        Ok(())
    }
    fn check_classes(&self, env: &Env) -> Result<(), ConfigError> {
        let bad = |key: &str, expected: &dyn core::fmt::Display, given: &dyn core::fmt::Display| {
            Err(ConfigError::new(ErrorKind::OutOfRange, Object::Kind(Taprio::KIND), expected, given).key(key))
        };
        let num_tc = self.num_tc as usize;
        if self.num_tc > u32::from(env.queues) {
            return bad("num_tc", &format!("at most {}, the queues of the device", env.queues), &self.num_tc);
        }
        if let Some((priority, tc)) =
            self.map.0.iter().enumerate().find(|(_, tc)| usize::from(**tc) >= num_tc)
        {
            let expected = format!("traffic classes below {num_tc}");
            return bad("map", &expected, &format!("{tc} for priority {priority}"));
        }
        if self.queues.0.len() != num_tc {
            let expected = format!("one for each of the {num_tc} traffic classes");
            return bad("queues", &expected, &self.queues.0.len());
        }
        for (tc, range) in self.queues.0.iter().enumerate() {
            let given = format!("{}@{} for traffic class {tc}", range.count, range.offset);
            if range.count == 0 {
                return bad("queues", &"at least one queue for each traffic class", &given);
            }
            if u32::from(range.offset) + u32::from(range.count) > u32::from(env.queues) {
                return bad("queues", &format!("queues below {}, which the device has", env.queues), &given);
            }
            let meets =
                |r: &&Range| range.offset < r.offset + r.count && r.offset < range.offset + range.count;
            if let Some(other) = self.queues.0[..tc].iter().find(meets) {
                let expected = format!("queues that no other class has ({}@{})", other.count, other.offset);
                return bad("queues", &expected, &given);
            }
        }
        Ok(())
    }
    fn check_schedule(&self, env: &Env) -> Result<(), ConfigError> {
        let bad = |kind, key: &str, expected: &dyn core::fmt::Display, given: &dyn core::fmt::Display| {
            Err(ConfigError::new(kind, Object::Kind(Taprio::KIND), expected, given).key(key))
        };
        if self.sched_entry.0.is_empty() {
            return bad(ErrorKind::Missing, "sched-entry", &"at least one entry", &"");
        }
        let least = byte_time(env).ns_of(FRAME_MIN).max(1);
        if let Some(short) = self.sched_entry.0.iter().find(|entry| u64::from(entry.ns) < least) {
            let expected = format!("entries of at least {least} ns, the time of a frame");
            return bad(ErrorKind::OutOfRange, "sched-entry", &expected, &short.ns);
        }
        let sum: u64 = self.sched_entry.0.iter().map(|entry| u64::from(entry.ns)).sum();
        if self.cycle_time == 0 && sum > CYCLE_MAX {
            return bad(ErrorKind::Conflict, "sched-entry", &"a cycle of at most 2147483647 ns", &sum);
        }
        if self.cycle_time > i64::MAX as u64 {
            return bad(ErrorKind::OutOfRange, "cycle-time", &"a time below 2^63 ns", &self.cycle_time);
        }
        let least = least.saturating_mul(self.sched_entry.0.len() as u64);
        if self.cycle_time != 0 && self.cycle_time < least {
            let expected = format!("at least {least}, the time of a frame in each entry");
            return bad(ErrorKind::Conflict, "cycle-time", &expected, &self.cycle_time);
        }
        Ok(())
    }
}

/// Least frame, without its checksum.
const FRAME_MIN: u32 = 60;
/// Most nanoseconds of a cycle that is not given: the sum has 31 bits in Linux.
const CYCLE_MAX: u64 = i32::MAX as u64;
/// The rate of a link that does not tell one, as in Linux.
const RATE_UNKNOWN: Rate = Rate(1_250_000);
/// Bytes of the link header, which an SDU has not.
const LINK_HEADER: u32 = 14;
/// The largest MTU that a device has, bytes.
const MTU_MAX: u32 = 65_535;
/// Largest frame for which an opening counts as too short; a longer one is as long as all.
const FRAME_MAX: u64 = (MTU_MAX + LINK_HEADER) as u64;

fn byte_time(env: &Env) -> ByteTime {
    ByteTime::of_rate(env.link_rate.unwrap_or(RATE_UNKNOWN).0)
}

fn of(root: &dyn Qdisc) -> Option<&Taprio> {
    let any: &dyn Any = root;
    any.downcast_ref::<Erased<Taprio>>().map(|taprio| &taprio.inner)
}

/// Returns the traffic classes that a root makes of the queues; `None` if it is of another kind.
pub fn classes_of(root: &dyn Qdisc) -> Option<TrafficClasses> {
    of(root).map(|taprio| taprio.traffic.clone())
}

/// Returns the gates of a root, as of the last packet that came, or that was asked for; `None` if
/// it is of another kind.
pub fn gates_of(root: &dyn Qdisc) -> Option<&Gates> {
    of(root).map(|taprio| &taprio.gates)
}

/// Traffic classes behind gates.
#[derive(Debug)]
pub struct Taprio {
    bands: Vec<Class>,
    /// Queues with work.
    active: QueueSet,
    traffic: TrafficClasses,
    /// The queue of each class whose turn it is.
    turn: [u16; CLASSES_MAX],
    gates: Gates,
    longest: [Longest; CLASSES_MAX],
    /// Time before which the qdisc of each queue has nothing, by its own word.
    held: Vec<Instant>,
}

impl Discipline for Taprio {
    const KIND: &'static str = "taprio";
    const ABOUT: &'static str = "Traffic classes whose gates open and close by a schedule.";
    const FLAGS: Flags = Flags { shapes: true, reorders: false };
    const SHAPE: ClassShape = ClassShape::ByQueue;
    const TAKES_CLASS: bool = false;
    const ROOT_ONLY: bool = true;
    const CHANGE: ChangeRule = ChangeRule::Replace;
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    // A class for each queue, and the schedule twice.
    const TABLES: fn(&Config, &Env) -> u64 =
        |cfg, env| u64::from(env.queues) * Class::BYTES + cfg.sched_entry.0.len() as u64 * 288;
    type Config = Config;
    type Rules = TrafficClasses;
    type Stats = NoStats;

    fn resolve(cfg: &mut Config, old: Option<&Config>, env: &Env) -> Result<TrafficClasses, ConfigError> {
        let object = || Object::Kind(Self::KIND);
        several_queues(Self::KIND, env)?;
        if cfg.flags.0 != 0 {
            let err = ConfigError::new(
                ErrorKind::Unsupported,
                object(),
                "0: no work of a card",
                exact_of(&cfg.flags),
            );
            return Err(err.key("flags").hint("the gates are kept here: leave it out"));
        }
        if let Some(old) = old {
            if cfg.num_tc == 0 {
                (cfg.num_tc, cfg.map, cfg.queues) = (old.num_tc, old.map, old.queues.clone());
            } else if (cfg.num_tc, &cfg.map, &cfg.queues) != (old.num_tc, &old.map, &old.queues) {
                let expected = "the traffic classes that it was made with";
                let err = ConfigError::new(ErrorKind::Unsupported, object(), expected, "others");
                return Err(err.key("num_tc"));
            }
        }
        if cfg.num_tc == 0 {
            let expected = "a number of traffic classes";
            return Err(ConfigError::new(ErrorKind::Missing, object(), expected, "").key("num_tc"));
        }
        cfg.check_classes(env)?;
        match (cfg.clockid, old.and_then(|old| old.clockid)) {
            (None, _) => {
                let err = ConfigError::new(ErrorKind::Missing, object(), Clock::EXPECTED, "");
                return Err(err.key("clockid"));
            }
            (Some(new), Some(old)) if new != old => {
                let err = ConfigError::new(ErrorKind::Unsupported, object(), old.name(), new.name());
                return Err(err.key("clockid"));
            }
            _ => {}
        }
        cfg.check_schedule(env)?;
        if cfg.fp.0.contains(&true) {
            let err =
                ConfigError::new(ErrorKind::Unsupported, object(), "E for each class", text_of(&cfg.fp));
            return Err(err.key("fp").hint("a card that keeps the schedule itself interrupts frames"));
        }
        // Frames of all classes are express ones.
        cfg.fp.0.clear();
        cfg.fill_sdus(old)?;
        cfg.classes()
    }
    fn new(cfg: &Config, traffic: TrafficClasses, env: &Env) -> Self {
        let mut turn = [0; CLASSES_MAX];
        turn.iter_mut().zip(traffic.ranges()).for_each(|(turn, range)| *turn = range.offset);
        let child = |minor| Class { minor, node: leaf::default_child(env) };
        let mut taprio = Self {
            bands: (1..=env.queues.clamp(1, QueueSet::QUEUES_MAX)).map(child).collect(),
            active: QueueSet::new(),
            traffic,
            turn,
            gates: Gates::new(byte_time(env), cfg.schedule(Instant::ZERO)),
            longest: [Longest::NO_BOUND; CLASSES_MAX],
            held: alloc::vec![Instant::ZERO; usize::from(env.queues)],
        };
        taprio.fit();
        taprio
    }
    fn start(&mut self, now: Instant) {
        self.gates.begin(now);
    }
    fn change(&mut self, cfg: &Config, _traffic: TrafficClasses, _env: &Env, cx: &mut Cx) {
        self.advance(cx.now);
        self.held.fill(Instant::ZERO);
        if let Some(schedule) = cfg.schedule(cx.now) {
            self.gates.plan(schedule);
        }
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        let tc = self.traffic.class(m.priority);
        // A schedule may have begun since the last call.
        let longest = match self.gates.due(m.enqueued) {
            Some(due) => Longest::of(due, tc, self.gates.byte()),
            None => self.longest[tc],
        };
        match longest.takes(m) {
            true => self.bands[self.queue(m)].node.would_accept(m),
            false if m.segs > 1 => Verdict::cut_into_segments(m),
            false => Verdict::TooLarge(longest.either()),
        }
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        // A schedule that begins now bounds this packet.
        self.advance(cx.now);
        let m = cx.meta(&p);
        let queue = self.queue(m);
        if !self.longest[self.traffic.class(m.priority)].takes(m) {
            return cx.drop(p, DropReason::Oversize);
        }
        // The index is below the number of queues, at most 65 535.
        self.active.insert(queue as u16);
        self.held[queue] = Instant::ZERO;
        self.bands[queue].node.enqueue(p, cx);
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        self.advance(cx.now);
        let open = self.gates.open();
        let (mut waiting, mut earliest) = (0, None::<(Instant, WakeReason)>);
        let mut sooner = |t: Instant, why| {
            if earliest.is_none_or(|(u, _)| t < u) {
                earliest = Some((t, why));
            }
        };
        // Bound: the classes, and the queues of each.
        for tc in (0..self.traffic.ranges().len()).rev() {
            let Range { count, offset } = self.traffic.ranges()[tc];
            let mut bound = Bound::of(usize::from(count));
            for _ in 0..count {
                bound.turn();
                let queue = self.turn[tc];
                let next = queue + 1;
                self.turn[tc] = if next == offset + count { offset } else { next };
                if !self.active.contains(queue) {
                    continue;
                }
                if cx.stopped_queues().contains(queue) {
                    sooner(Instant::MAX, WakeReason::Queue);
                    continue;
                }
                let class = 1 << tc;
                let held = self.held[usize::from(queue)];
                if open & class == 0 && held > cx.now {
                    sooner(self.gates.opening_after(class, held).unwrap_or(Instant::MAX), WakeReason::Gate);
                    continue;
                }
                if open & class == 0 {
                    waiting |= class;
                    continue;
                }
                match self.offer(tc, queue, cx) {
                    Offer::Packet(p) => return Next::Packet(p),
                    Offer::Empty => self.active.remove(queue),
                    Offer::Closed => waiting |= class,
                    // A queue that is stopped starts at any time.
                    Offer::At(_, WakeReason::Queue) => {
                        self.held[usize::from(queue)] = Instant::ZERO;
                        sooner(Instant::MAX, WakeReason::Queue);
                    }
                    Offer::At(t, why) => {
                        self.held[usize::from(queue)] = t;
                        match self.gates.opening_after(class, t) {
                            Some(open) if open == t => sooner(t, why),
                            open => sooner(open.unwrap_or(Instant::MAX), WakeReason::Gate),
                        }
                    }
                }
            }
        }
        if waiting != 0 {
            sooner(self.gates.next_opening(waiting).unwrap_or(Instant::MAX), WakeReason::Gate);
        }
        earliest.map_or(Next::Empty, |(t, why)| Next::At(t, why))
    }
    /// All packets wait in the classes.
    fn evict_all(&mut self, _out: &mut List, _pool: &mut Pool) {}
    fn queued(&self, _pool: &Pool, _f: &mut dyn FnMut(Waiting<'_>)) {}
    fn reset(&mut self, cx: &mut Cx) {
        self.active.clear();
        self.held.fill(Instant::ZERO);
        self.turn.iter_mut().zip(self.traffic.ranges()).for_each(|(turn, range)| *turn = range.offset);
        self.advance(cx.now);
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Classes for Taprio {
    fn classes(&self) -> &[Class] {
        &self.bands
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        // A qdisc that is changed has another time, perhaps.
        self.held.fill(Instant::ZERO);
        &mut self.bands
    }
    fn slot(&self, minor: u16) -> Option<usize> {
        usize::from(minor).checked_sub(1)
    }
    fn select(&self, m: &Meta, _class: Option<ClassId>) -> Option<&Class> {
        self.bands.get(self.queue(m))
    }
}

/// Answer of a queue whose gate is open.
enum Offer {
    Packet(Pkt),
    Empty,
    /// The rest of the opening is too short for the first packet.
    Closed,
    At(Instant, WakeReason),
}

impl Taprio {
    /// Takes the first packet of a queue of this class, if it may leave now. Drops those before it
    /// that no opening is long enough for: they have come before the schedule.
    fn offer(&mut self, tc: usize, queue: u16, cx: &mut Cx) -> Offer {
        let node = &mut self.bands[usize::from(queue)].node;
        let mut bound = Bound::of(cx.pool.capacity() + 1);
        loop {
            bound.turn();
            let len = match node.peek(cx) {
                Peek::Ready { wire_len, .. } => wire_len,
                Peek::Empty => return Offer::Empty,
                Peek::At(t, why) => return Offer::At(t, why),
            };
            let is_stuck = len > self.longest[tc].wire;
            if !is_stuck && !self.gates.pass(tc, len, cx.now) {
                return Offer::Closed;
            }
            match node.dequeue(cx) {
                Next::Packet(p) if is_stuck => cx.drop(p, DropReason::Oversize),
                Next::Packet(p) => return Offer::Packet(p),
                Next::Empty => return Offer::Empty,
                Next::At(t, why) => return Offer::At(t, why),
            }
        }
    }
    /// Returns the queue that a packet waits in: its own, if that is of the class of its priority,
    /// or the first one of that class.
    fn queue(&self, m: &Meta) -> usize {
        let Range { count, offset } = self.traffic.ranges()[self.traffic.class(m.priority)];
        let own = m.queue >= offset && m.queue - offset < count;
        usize::from(if own { m.queue } else { offset })
    }
    /// Brings the gates to the present, and with a new schedule the longest frames.
    fn advance(&mut self, now: Instant) {
        if self.gates.advance(now) {
            self.fit();
        }
    }
    /// Sets the longest frames by the schedule that runs.
    fn fit(&mut self) {
        let byte = self.gates.byte();
        for (tc, longest) in self.longest.iter_mut().enumerate() {
            *longest =
                self.gates.running().map_or(Longest::NO_BOUND, |running| Longest::of(running, tc, byte));
        }
    }
}

/// The longest frames that a schedule lets a class send.
#[derive(Clone, Copy, Debug)]
struct Longest {
    /// By its openings, bytes as qdiscs count them; `u32::MAX` for no bound.
    wire: u32,
    /// By decree (`max-sdu`), bytes of the frame as it is; `u32::MAX` for no bound.
    frame: u32,
}

impl Longest {
    const NO_BOUND: Self = Self { wire: u32::MAX, frame: u32::MAX };

    fn of(schedule: &Schedule, tc: usize, byte: ByteTime) -> Self {
        let bytes = schedule.longest(tc, byte).filter(|bytes| *bytes <= FRAME_MAX);
        Self { wire: bytes.map_or(u32::MAX, |bytes| bytes as u32), frame: schedule.frame(tc) }
    }
    /// True if the packet is not longer than both bounds.
    const fn takes(self, m: &Meta) -> bool {
        m.wire_len <= self.wire && m.len <= self.frame
    }
    /// Returns the lower of the bounds.
    fn either(self) -> u32 {
        self.wire.min(self.frame)
    }
}
