//! Choice of the next unit: the scheduler of a line over many rings.
//!
//! Frames of classes that may not be interrupted go first. Each of these two levels has this order:
//! strict classes, the highest first; then the classes that share the line and are behind their
//! minimum rate, the one most behind first; then the rest by deficit round robin on bytes
//! (Shreedhar & Varghese, SIGCOMM 1995). Within a class rings take turns, unit by unit. Ties go to
//! the lower index. `law::deficit` does not serve here, because its front member may always send: a
//! class that its own maximum rate holds back must keep its place and its credit while others send,
//! or it would fall behind its share.
//!
//! - I1: `ready` has a ring's bit, and its class counts it, while the device knows of a unit in it.
//! - I2: a class is in `order` of its level while it shares the line and one of its rings is ready.
//! - One decision costs at most a pass over the classes, a word per 64 rings, and a pass over the
//!   rings that their own rates hold back.

use alloc::vec;
use alloc::vec::Vec;

use super::framing::Framing;
use super::gate::Gate;
use super::ring::Ring;
use crate::base::time::{Instant, Nanos};
use crate::sched::schedule::{LineConfig, Service};
use crate::sched::traffic::CLASSES_MAX;

/// The class of rings that are not in use and still hold packets: they go first, and are empty
/// soon.
pub(super) const RETIRED: u8 = CLASSES_MAX as u8;
/// Bytes of a turn with the smallest weight: one full Ethernet frame on the line, so that at least
/// one such frame goes in each turn.
const QUANTUM: u64 = 1538;

/// Decision about the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// Send the unit at the front of this ring.
    Ring(usize),
    /// Send nothing before this time: rates hold all rings back.
    Wait(Instant),
    /// Send nothing: every ring is empty.
    Idle,
}

/// A traffic class.
#[derive(Debug)]
struct Class {
    first: usize,
    end: usize,
    /// The ring behind the last one served.
    next: usize,
    /// Number of ready rings.
    ready: usize,
    strict: bool,
    level: usize,
    min: Gate,
    max: Gate,
    quantum: u64,
    deficit: u64,
}

/// The classes that may be interrupted, or those that may not.
#[derive(Debug)]
struct Level {
    /// A bit for each strict class with a unit to send.
    strict: u32,
    /// Sharing classes with a unit to send, in order of their turns.
    order: Vec<usize>,
}

/// The scheduler.
#[derive(Debug)]
pub(super) struct Line {
    config: LineConfig,
    classes: Vec<Class>,
    levels: [Level; 2],
    /// A bit for each ring with a unit to send.
    ready: Vec<u64>,
    /// Number of ready rings that are not in use.
    retired: usize,
    /// Maximum rates, by ring.
    gates: Vec<Gate>,
    ring_limits: bool,
    /// True with one ring in one class without limits: there is nothing to decide.
    plain: bool,
    /// True if some class may be interrupted.
    preemption: bool,
    /// The ring whose unit was interrupted and has not gone on yet.
    pub(super) interrupted: Option<usize>,
    /// The time on the line of the longest unit so far.
    longest: Nanos,
}

impl Line {
    /// Returns a scheduler of `rings` rings, all empty. The configuration must have been checked.
    pub(super) fn new(config: LineConfig, rings: usize) -> Self {
        let least = config.classes.iter().filter_map(|c| weight(c.service)).min().unwrap_or(1);
        let mut gates = vec![Gate::default(); rings];
        for (ring, rate) in &config.ring_max {
            gates[usize::from(*ring)] = Gate::new(Some(*rate));
        }
        let classes: Vec<Class> = config
            .classes
            .iter()
            .map(|c| Class {
                first: c.offset.into(),
                end: usize::from(c.offset) + usize::from(c.count),
                next: c.offset.into(),
                ready: 0,
                strict: c.service == Service::Strict,
                level: usize::from(c.preemptible),
                min: Gate::new(c.min_rate),
                max: Gate::new(c.max_rate),
                quantum: (weight(c.service).unwrap_or(1) * QUANTUM).div_ceil(least),
                deficit: 0,
            })
            .collect();
        let limited = classes.iter().any(|c| c.max.is_set()) || !config.ring_max.is_empty();
        let level = || Level { strict: 0, order: Vec::with_capacity(CLASSES_MAX) };
        Self {
            plain: rings == 1 && !limited,
            levels: [level(), level()],
            ready: vec![0; rings.div_ceil(64)],
            retired: 0,
            ring_limits: !config.ring_max.is_empty(),
            gates,
            preemption: classes.iter().any(|c| c.level > 0),
            classes,
            interrupted: None,
            longest: Nanos::ZERO,
            config,
        }
    }

    /// Returns the same line under another configuration, which must have been checked. Classes and
    /// rings keep the state of their rates.
    pub(super) fn reconfigured<F>(&self, config: LineConfig, rings: &mut [Ring<F>]) -> Self {
        let mut line = Self::new(config, rings.len());
        for (class, old) in line.classes.iter_mut().zip(&self.classes) {
            class.min = old.min.at_rate(class.min.rate());
            class.max = old.max.at_rate(class.max.rate());
        }
        for (gate, old) in line.gates.iter_mut().zip(&self.gates) {
            *gate = old.at_rate(gate.rate());
        }
        line.longest = self.longest;
        line.interrupted = self.interrupted;
        for (i, ring) in rings.iter_mut().enumerate() {
            ring.class = line.class_of(i);
            if ring.ready() {
                line.joins(i, ring.class);
            }
        }
        line
    }

    pub(super) const fn config(&self) -> &LineConfig {
        &self.config
    }
    /// Returns the class of a ring.
    pub(super) fn class_of(&self, ring: usize) -> u8 {
        let class = self.classes.iter().position(|c| (c.first..c.end).contains(&ring));
        // There are fewer than 256 classes.
        class.map_or(RETIRED, |c| c as u8)
    }
    /// Forgets the longest unit, because the line has another rate.
    pub(super) const fn forget_longest(&mut self) {
        self.longest = Nanos::ZERO;
    }

    /// Adds a ring that has a unit to send.
    #[inline]
    pub(super) fn joins(&mut self, ring: usize, class: u8) {
        if self.plain {
            return;
        }
        self.ready[ring / 64] |= 1 << (ring % 64);
        let index = usize::from(class);
        let Some(class) = self.classes.get_mut(index) else {
            self.retired += 1;
            return;
        };
        class.ready += 1;
        if class.ready == 1 {
            let level = &mut self.levels[class.level];
            if class.strict {
                level.strict |= 1 << index;
            } else {
                class.deficit = class.quantum;
                level.order.push(index);
            }
        }
    }

    /// Removes a ring that has no unit left to send.
    #[inline]
    pub(super) fn leaves(&mut self, ring: usize, class: u8) {
        if self.plain {
            return;
        }
        self.ready[ring / 64] &= !(1 << (ring % 64));
        let index = usize::from(class);
        let Some(class) = self.classes.get_mut(index) else {
            self.retired -= 1;
            return;
        };
        class.ready -= 1;
        if class.ready == 0 {
            let level = &mut self.levels[class.level];
            level.strict &= !(1 << index);
            level.order.retain(|c| *c != index);
        }
    }

    /// Decides which ring sends the next unit.
    #[inline]
    pub(super) fn pick<F>(&mut self, now: Instant, rings: &[Ring<F>], framing: Framing) -> Pick {
        if self.plain {
            return if rings[0].ready() { Pick::Ring(0) } else { Pick::Idle };
        }
        self.decide(now, rings, framing)
    }

    fn decide<F>(&mut self, now: Instant, rings: &[Ring<F>], framing: Framing) -> Pick {
        if self.retired > 0 {
            let retired = (usize::from(self.config.rings)..rings.len()).find(|i| rings[*i].ready());
            if let Some(ring) = retired {
                return Pick::Ring(ring);
            }
        }
        let mut wait = None;
        for level in 0..self.levels.len() {
            if let (1, Some(ring)) = (level, self.interrupted) {
                return Pick::Ring(ring);
            }
            if let Some(ring) = self.strict(level, now, &mut wait) {
                return Pick::Ring(ring);
            }
            if let Some(ring) = self.behind(level, now) {
                return Pick::Ring(ring);
            }
            let head = |ring: usize| rings[ring].front().map_or(0, |m| framing.line_bytes(m));
            if let Some(ring) = self.turn(level, now, head, &mut wait) {
                return Pick::Ring(ring);
            }
        }
        wait.map_or(Pick::Idle, Pick::Wait)
    }

    /// Returns a ring of the highest strict class that may send.
    fn strict(&self, level: usize, now: Instant, wait: &mut Option<Instant>) -> Option<usize> {
        let mut todo = self.levels[level].strict;
        while todo != 0 {
            let class = todo.ilog2();
            todo &= !(1 << class);
            if let Some(ring) = self.ring_in(class as usize, now, wait) {
                return Some(ring);
            }
        }
        None
    }

    /// Returns a ring of the sharing class that is most behind its minimum rate, if one is behind.
    fn behind(&self, level: usize, now: Instant) -> Option<usize> {
        let mut found: Option<(Instant, usize, usize)> = None;
        for &class in &self.levels[level].order {
            let min = &self.classes[class].min;
            let key = (min.due(), class);
            if min.is_set() && min.due() <= now && found.is_none_or(|(due, c, _)| key < (due, c)) {
                let ring = self.ring_in(class, now, &mut None);
                found = ring.map(|ring| (key.0, key.1, ring)).or(found);
            }
        }
        found.map(|(_, _, ring)| ring)
    }

    /// Charges the sharing class whose turn it is, and returns its ring. A class that may not send
    /// at present keeps place and credit; a class that cannot pay gets a quantum and goes to the
    /// back.
    fn turn(
        &mut self,
        level: usize,
        now: Instant,
        head: impl Fn(usize) -> u64,
        wait: &mut Option<Instant>,
    ) -> Option<usize> {
        let count = self.levels[level].order.len();
        loop {
            let (mut at, mut rounds) = (0, u64::MAX);
            for _ in 0..count {
                let index = self.levels[level].order[at];
                let Some(ring) = self.ring_in(index, now, wait) else {
                    at += 1;
                    continue;
                };
                let (class, bytes) = (&mut self.classes[index], head(ring));
                if class.deficit >= bytes {
                    class.deficit -= bytes;
                    return Some(ring);
                }
                class.deficit += class.quantum;
                rounds = rounds.min(bytes.saturating_sub(class.deficit).div_ceil(class.quantum));
                self.levels[level].order[at..].rotate_left(1);
            }
            if rounds == u64::MAX {
                return None;
            }
            // Adds the quanta of all rounds in which no class could pay at once; the next pass ends
            // the search.
            for at in (0..count).filter(|_| rounds > 0) {
                let index = self.levels[level].order[at];
                if self.ring_in(index, now, &mut None).is_some() {
                    let class = &mut self.classes[index];
                    class.deficit += rounds * class.quantum;
                }
            }
        }
    }

    /// Returns the next ring of a class that its rates allow to send; otherwise lowers `wait` to
    /// the time from which one may.
    #[inline]
    fn ring_in(&self, class: usize, now: Instant, wait: &mut Option<Instant>) -> Option<usize> {
        let class = &self.classes[class];
        if class.max.due() > now {
            *wait = Some(wait.map_or(class.max.due(), |w| w.min(class.max.due())));
            return None;
        }
        let mut passed = 0;
        let mut from = class.next;
        while passed < class.ready {
            let ring = self.ready_in(from, class.end).or_else(|| self.ready_in(class.first, from))?;
            if !self.ring_limits || self.gates[ring].due() <= now {
                return Some(ring);
            }
            let due = self.gates[ring].due();
            *wait = Some(wait.map_or(due, |w| w.min(due)));
            from = if ring + 1 == class.end { class.first } else { ring + 1 };
            passed += 1;
        }
        None
    }

    /// Returns the first ready ring from `from` to before `end`.
    #[inline]
    fn ready_in(&self, from: usize, end: usize) -> Option<usize> {
        let mut at = from;
        while at < end {
            let word = self.ready[at / 64] >> (at % 64);
            if word != 0 {
                let ring = at + word.trailing_zeros() as usize;
                return (ring < end).then_some(ring);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Records that a unit of `bytes` on the line starts, for the time `time`.
    #[inline]
    pub(super) fn starts(&mut self, ring: usize, class: u8, now: Instant, bytes: u64, time: Nanos) {
        if self.plain {
            return;
        }
        self.longest = self.longest.max(time);
        let longest = self.longest;
        let Some(class) = self.classes.get_mut(usize::from(class)) else { return };
        class.next = if ring + 1 >= class.end { class.first } else { ring + 1 };
        class.min.charge(now, bytes, longest);
        class.max.charge(now, bytes, longest);
        if self.ring_limits {
            self.gates[ring].charge(now, bytes, longest);
        }
    }

    /// True if a class has a unit that may go now and may interrupt one of class `sending`.
    #[inline]
    pub(super) fn interrupts(&self, class: u8, sending: u8, now: Instant) -> bool {
        if !self.preemption {
            return false;
        }
        let level = |c: u8| self.classes.get(usize::from(c)).map(|c| c.level);
        if (level(class), level(sending)) != (Some(0), Some(1)) {
            return false;
        }
        self.ring_in(usize::from(class), now, &mut None).is_some()
    }
}

fn weight(service: Service) -> Option<u64> {
    match service {
        Service::Strict => None,
        Service::Ets(weight) => Some(u64::from(weight)),
    }
}
