//! htb against a model of it that is slow and plain, on random trees, rates and arrivals: the same packets leave at the same
//! nanosecond, the same wakes are asked for, and every class shows the same numbers.
//!
//! The model keeps classes in one list. Who stands in a row or borrows from a class is found by looking at all of them whenever
//! it is asked; deadlines are a field of the class. So it shares no structure with the kind: no sets of bits, no lists, no
//! wheel, no marks of who is active above. `TXWEIR_SEED` chooses one run (a failure prints it), `TXWEIR_RUNS` how many.

use std::collections::VecDeque;

use crate::common;
use crate::common::lane::{Lane, Out};
use crate::common::options::{chance, log_uniform, pick};
use txweir_core::base::rng::Rng;
use txweir_core::law::bucket::ticks;
use txweir_core::sched::classful::ClassShown;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, Bytes, ConfigError, DropReason, Handle, Instant, Meta, Rate};

const MINUTE: i64 = 60_000_000_000;
/// Packets that a leaf's own queue holds, and that wait to be sent unshaped.
const ROOM: usize = 1000;
const DIRECT_ROOM: usize = 5;

// --- the model

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    CanSend,
    MayBorrow,
    CantSend,
}

/// Whose turn it is: a class, or the first from a number on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Turn {
    holder: Option<u16>,
    from: u16,
}

/// Who has turns: those that can send at a level, or those that borrow from a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ring {
    Row(usize),
    Feed(u16),
}

/// What a class is given.
#[derive(Clone, Copy, Debug)]
struct Given {
    rate: u64,
    ceil: Option<u64>,
    burst: Option<u64>,
    cburst: Option<u64>,
    prio: usize,
    quantum: Option<i64>,
    overhead: u64,
    mpu: u64,
    atm: bool,
}

impl Given {
    fn random(rng: &mut Rng, base: u64) -> Self {
        let some = |rng: &mut Rng, n: u64| chance(rng, n, 4);
        let prios = *pick(rng, &[1, 3, 8]);
        let any_quantum = 1 + log_uniform(rng, 20_000) as i64;
        let rate = 1 + base * (1 + rng.below(40)) / *pick(rng, &[10, 10, 400]);
        Self {
            rate,
            ceil: some(rng, 3).then(|| 1 + (rate + base) * (1 + rng.below(60)) / 15),
            burst: some(rng, 2).then(|| 1 + log_uniform(rng, 60_000)),
            cburst: some(rng, 2).then(|| 1 + log_uniform(rng, 60_000)),
            prio: rng.below(prios) as usize,
            quantum: some(rng, 3).then(|| *pick(rng, &[60, 1000, 1514, 3000, any_quantum])),
            overhead: *pick(rng, &[0, 0, 4, 38]),
            mpu: *pick(rng, &[0, 0, 64, 1000]),
            atm: chance(rng, 1, 6),
        }
    }
    fn options(&self) -> String {
        let mut text =
            format!("rate {}bps prio {} overhead {} mpu {}", self.rate, self.prio, self.overhead, self.mpu);
        let mut say = |key: &str, value: Option<String>| {
            text += &value.map_or_else(String::new, |v| format!(" {key} {v}"));
        };
        say("ceil", self.ceil.map(|r| format!("{r}bps")));
        say("burst", self.burst.map(|b| b.to_string()));
        say("cburst", self.cburst.map(|b| b.to_string()));
        say("quantum", self.quantum.map(|q| q.to_string()));
        say("linklayer", self.atm.then(|| "atm".into()));
        text
    }
    fn ceiling(&self) -> u64 {
        self.ceil.unwrap_or(self.rate)
    }
    /// Depth of a bucket, ns. How tc cuts a size to ticks has literal vectors of its own.
    fn depth(rate: u64, size: Option<u64>) -> i64 {
        i64::from(ticks(Rate(rate), Bytes(size.unwrap_or(1600 + rate / 1_000_000_000)))) * 64
    }
    fn depths(&self) -> (i64, i64) {
        (Self::depth(self.rate, self.burst), Self::depth(self.ceiling(), self.cburst))
    }
    /// What a packet costs at a rate, ns: a product and a shift, as the reference has it.
    fn price(&self, rate: u64, len: u32) -> i64 {
        let size = (u64::from(len) + self.overhead).max(self.mpu);
        let size = if self.atm { size.div_ceil(48) * 53 } else { size };
        let fits = |shift: &u32| (1_000_000_000_u128 << shift) / u128::from(rate) >= 1 << 31;
        let shift = (0..34).find(fits).unwrap_or(34);
        let factor = (1_000_000_000_u128 << shift) / u128::from(rate);
        ((u128::from(size) * factor) >> shift) as i64
    }
}

#[derive(Clone, Debug)]
struct Class {
    minor: u16,
    parent: u16,
    given: Given,
    /// Of a leaf; kept for when it is one again.
    prio: usize,
    quantum: i64,
    tokens: i64,
    ctokens: i64,
    checked: u64,
    mode: Mode,
    /// When it is to be looked at, and the how-manieth to ask for that.
    due: Option<(u64, u64)>,
    /// Of a leaf: the priority in which it has packets, what it may still send at each level, and those packets.
    active: Option<usize>,
    deficit: [i64; 8],
    queue: VecDeque<(u32, u32)>,
    /// Of one with classes below, by priority.
    turns: [Turn; 8],
    sent: u64,
    lent: i64,
    borrowed: i64,
    overlimits: u64,
}

impl Class {
    fn mode_at(&self, since: i64) -> (Mode, u64) {
        let (tokens, ctokens) = (self.tokens + since, self.ctokens + since);
        match (tokens < 0, ctokens < 0) {
            (_, true) => (Mode::CantSend, ctokens.unsigned_abs()),
            (true, false) => (Mode::MayBorrow, tokens.unsigned_abs()),
            (false, false) => (Mode::CanSend, 0),
        }
    }
    fn since(&self, now: u64) -> i64 {
        ((now - self.checked) as i64).min(MINUTE)
    }
    fn fill(&mut self, now: u64) {
        (self.tokens, self.ctokens) = self.given.depths();
        (self.checked, self.mode, self.due, self.deficit) = (now, Mode::CanSend, None, [0; 8]);
    }
}

#[derive(Debug, Default)]
struct Model {
    /// By minor number.
    classes: Vec<Class>,
    rows: [[Turn; 8]; 8],
    direct: VecDeque<(u32, u32)>,
    default: u16,
    asked: u64,
}

impl Model {
    fn place(&self, minor: u16) -> Option<usize> {
        self.classes.iter().position(|c| c.minor == minor)
    }
    fn class(&mut self, minor: u16) -> &mut Class {
        self.classes.iter_mut().find(|c| c.minor == minor).expect("a class of the model")
    }
    fn get(&self, minor: u16) -> &Class {
        self.classes.iter().find(|c| c.minor == minor).expect("a class of the model")
    }
    fn is_leaf(&self, minor: u16) -> bool {
        self.classes.iter().all(|c| c.parent != minor)
    }
    /// Itself and those above it.
    fn way_up(&self, minor: u16) -> Vec<u16> {
        std::iter::successors(Some(minor), |m| Some(self.get(*m).parent).filter(|p| *p != 0)).collect()
    }
    fn level(&self, minor: u16) -> usize {
        if self.is_leaf(minor) { 0 } else { 8 - self.way_up(minor).len() }
    }
    /// It has packets of this priority, or lends to somebody who has.
    fn wants(&self, minor: u16, prio: usize) -> bool {
        self.get(minor).active == Some(prio) || !self.members(Ring::Feed(minor), prio).is_empty()
    }
    /// Who is in a ring, by number.
    fn members(&self, ring: Ring, prio: usize) -> Vec<u16> {
        let member = |c: &&Class| match ring {
            Ring::Row(level) => c.mode == Mode::CanSend && self.level(c.minor) == level,
            Ring::Feed(above) => c.mode == Mode::MayBorrow && c.parent == above,
        };
        self.classes.iter().filter(member).map(|c| c.minor).filter(|m| self.wants(*m, prio)).collect()
    }
    fn turn(&mut self, ring: Ring, prio: usize) -> &mut Turn {
        match ring {
            Ring::Row(level) => &mut self.rows[level][prio],
            Ring::Feed(above) => &mut self.class(above).turns[prio],
        }
    }

    /// Does something that may make classes leave rings. Who leaves a row gives its turn to the next; who leaves a feed keeps
    /// the place, for itself or for whoever comes behind.
    fn edit(&mut self, change: impl FnOnce(&mut Self)) {
        change(self);
        let feeds: Vec<Ring> = self.classes.iter().map(|c| Ring::Feed(c.minor)).collect();
        for ring in (0..8).map(Ring::Row).chain(feeds) {
            for prio in 0..8 {
                let Some(holder) = self.turn(ring, prio).holder else { continue };
                let members = self.members(ring, prio);
                if members.contains(&holder) {
                    continue;
                }
                *self.turn(ring, prio) = match ring {
                    Ring::Row(_) => Turn { holder: members.into_iter().find(|m| *m > holder), from: 0 },
                    Ring::Feed(_) => Turn { holder: None, from: holder },
                };
            }
        }
    }
    /// The next one's turn; nobody's behind the last.
    fn advance(&mut self, ring: Ring, prio: usize) {
        let Some(holder) = self.turn(ring, prio).holder else { return };
        let next = self.members(ring, prio).into_iter().find(|m| *m > holder);
        self.turn(ring, prio).holder = next;
    }
    /// The leaf whose turn it is.
    fn find(&mut self, level: usize, prio: usize) -> Option<u16> {
        let mut way = vec![Ring::Row(level)];
        for _ in 0..10_000 {
            let ring = *way.last()?;
            let members = self.members(ring, prio);
            let Turn { holder, from } = *self.turn(ring, prio);
            let kept = || members.iter().copied().find(|m| from != 0 && *m >= from);
            let holder = holder.or_else(kept);
            let begins = members.first().copied();
            *self.turn(ring, prio) = Turn { holder: holder.or(begins), from: 0 };
            match holder {
                Some(minor) if self.is_leaf(minor) => return Some(minor),
                Some(minor) => way.push(Ring::Feed(minor)),
                None if way.len() == 1 => _ = begins?,
                None => {
                    // One round is over: the next one's turn above.
                    way.pop();
                    self.advance(*way.last()?, prio);
                }
            }
        }
        panic!("no leaf, and no end");
    }

    fn set_mode(&mut self, minor: u16, mode: Mode) {
        if mode == Mode::CantSend && self.get(minor).mode != mode {
            self.class(minor).overlimits += 1;
        }
        self.edit(|model| model.class(minor).mode = mode);
    }
    fn look_again(&mut self, minor: u16, now: u64, mode: Mode, wait: u64) {
        self.asked += 1;
        let due = (now + wait.max(1), self.asked);
        self.class(minor).due = (mode != Mode::CanSend).then_some(due);
    }
    /// Looks at the classes of a level whose time has come, in that order.
    fn look(&mut self, level: usize, now: u64) {
        loop {
            let due = |c: &Class| {
                c.due.filter(|(t, _)| *t <= now && self.level(c.minor) == level).map(|d| (d, c.minor))
            };
            let Some((_, minor)) = self.classes.iter().filter_map(due).min() else { return };
            let class = self.get(minor);
            let (mode, wait) = class.mode_at(class.since(now));
            self.set_mode(minor, mode);
            self.look_again(minor, now, mode, wait);
        }
    }
    fn charge(&mut self, leaf: u16, lender: usize, now: u64, len: u32) {
        for minor in self.way_up(leaf) {
            let level = self.level(minor);
            let class = self.class(minor);
            let (since, given) = (class.since(now), class.given);
            let (depth, cdepth) = given.depths();
            let pay =
                |tokens: i64, depth: i64, price: i64| ((tokens + since).min(depth) - price).max(1 - MINUTE);
            class.ctokens = pay(class.ctokens, cdepth, given.price(given.ceiling(), len));
            if level < lender {
                class.tokens += since;
                class.borrowed += 1;
            } else {
                class.tokens = pay(class.tokens, depth, given.price(given.rate, len));
                class.lent += i64::from(level == lender);
            }
            class.checked = now;
            class.sent += u64::from(len);
            let (mode, wait) = class.mode_at(0);
            if mode != class.mode {
                self.set_mode(minor, mode);
                self.look_again(minor, now, mode, wait);
            }
        }
    }

    fn put(&mut self, id: u32, len: u32, minor: u16) -> Admitted<u32> {
        let leaf = |m: u16| self.place(m).is_some() && self.is_leaf(m);
        let to = [minor, self.default].into_iter().find(|m| leaf(*m)).filter(|_| minor != 0);
        let (queue, room) = match to {
            Some(minor) => (&mut self.class(minor).queue, ROOM),
            None => (&mut self.direct, DIRECT_ROOM),
        };
        if queue.len() >= room {
            return Admitted::Dropped(DropReason::Overlimit);
        }
        queue.push_back((id, len));
        if let Some(minor) = to.filter(|m| self.get(*m).active.is_none()) {
            self.edit(|model| model.class(minor).active = Some(model.get(minor).prio));
        }
        Admitted::Queued
    }
    fn take(&mut self, now: u64) -> Result<u32, Option<u64>> {
        if let Some((id, _)) = self.direct.pop_front() {
            return Ok(id);
        }
        if self.classes.iter().all(|c| c.active.is_none()) {
            return Err(None);
        }
        for level in 0..8 {
            self.look(level, now);
            for prio in 0..8 {
                let Some(leaf) = self.find(level, prio) else { continue };
                let class = self.class(leaf);
                let (id, len) = class.queue.pop_front().expect("who is active has packets");
                class.deficit[level] -= i64::from(len);
                if class.deficit[level] < 0 {
                    class.deficit[level] += class.quantum;
                    let above = class.parent;
                    self.advance(if level == 0 { Ring::Row(0) } else { Ring::Feed(above) }, prio);
                }
                if self.get(leaf).queue.is_empty() {
                    self.edit(|model| model.class(leaf).active = None);
                }
                self.charge(leaf, level, now, len);
                return Ok(id);
            }
        }
        Err(self.classes.iter().filter_map(|c| c.due).map(|(t, _)| t).min())
    }

    /// True if the class is made.
    fn add(&mut self, now: u64, minor: u16, parent: u16, given: Given) -> bool {
        let parent = self.place(parent).map_or(0, |_| parent);
        if self.place(minor).is_some() || parent != 0 && self.way_up(parent).len() == 8 {
            return false;
        }
        if parent != 0 && self.is_leaf(parent) {
            self.edit(|model| model.class(parent).active = None);
            let above = self.class(parent);
            above.queue.clear();
            (above.mode, above.due, above.turns) = (Mode::CanSend, None, Default::default());
        }
        let mut class = Class {
            minor,
            parent,
            given,
            prio: 0,
            quantum: 0,
            tokens: 0,
            ctokens: 0,
            checked: 0,
            mode: Mode::CanSend,
            due: None,
            active: None,
            deficit: [0; 8],
            queue: VecDeque::new(),
            turns: Default::default(),
            sent: 0,
            lent: 0,
            borrowed: 0,
            overlimits: 0,
        };
        class.fill(now);
        self.classes.push(class);
        self.classes.sort_by_key(|c| c.minor);
        self.give(minor, given);
        true
    }
    fn give(&mut self, minor: u16, given: Given) {
        let leaf = self.is_leaf(minor);
        let class = self.class(minor);
        class.given = given;
        if leaf {
            class.prio = given.prio.min(7);
            class.quantum = given.quantum.unwrap_or((given.rate / 10).clamp(1000, 200_000) as i64);
        }
    }
    fn delete(&mut self, now: u64, minor: u16) -> bool {
        if self.place(minor).is_none() || !self.is_leaf(minor) {
            return false;
        }
        self.edit(|model| model.class(minor).active = None);
        let above = self.get(minor).parent;
        self.classes.retain(|c| c.minor != minor);
        if above != 0 && self.is_leaf(above) {
            self.class(above).fill(now);
        }
        true
    }
}

// --- both at once

/// What a run met, so that no rule goes without its case.
#[derive(Debug, Default)]
struct Met {
    sent: u64,
    waits: u64,
    early: u64,
    dropped: u64,
    depth: usize,
    lenders: [u64; 8],
    overlimits: u64,
    reshaped: u64,
    removed: u64,
    direct: u64,
}

struct Pair {
    lane: Lane,
    model: Model,
    rng: Rng,
    base: u64,
    now: u64,
    next: u32,
    met: Met,
}

fn at(minor: u16) -> Handle {
    Handle::new(0x8001, minor)
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let default = rng.below(12) as u16;
        let lane = Lane::new("htb", &format!("default {default:x} direct_qlen {DIRECT_ROOM}"));
        let base = 1 + log_uniform(&mut rng, 200_000_000);
        let model = Model { default, ..Model::default() };
        Self { lane, model, rng, base, now: 0, next: 0, met: Met::default() }
    }
    /// The time of so many bytes at the base's rate.
    fn time_of(&self, bytes: u64) -> u64 {
        bytes * 1_000_000_000 / self.base
    }
    fn minor(&mut self) -> u16 {
        self.rng.below(16) as u16
    }
    /// Mostly a class that is there.
    fn known(&mut self) -> u16 {
        if self.model.classes.is_empty() || chance(&mut self.rng, 1, 8) {
            return self.minor();
        }
        let leaves = self.model.classes.iter().map(|c| c.minor).filter(|m| self.model.is_leaf(*m));
        let leaves: Vec<u16> = leaves.collect();
        if chance(&mut self.rng, 3, 4) {
            return *pick(&mut self.rng, &leaves);
        }
        pick(&mut self.rng, &self.model.classes).minor
    }
    fn command(
        &mut self,
        f: impl FnOnce(&mut txweir_core::Tree, &mut txweir_core::sched::cx::Cx) -> Result<(), ConfigError>,
    ) -> bool {
        self.lane.path.configure(Instant(self.now), &mut self.lane.dev, f).is_ok()
    }

    fn make(&mut self, minor: u16, parent: u16) {
        let given = Given::random(&mut self.rng, self.base);
        let options = given.options();
        let words: Vec<&str> = options.split_whitespace().collect();
        let made = self.command(|tree, cx| {
            tree.edit(cx).add_class(at(parent), at(minor), Some("htb"), &mut Words::new(&words))
        });
        assert_eq!(
            made,
            self.model.add(self.now, minor, parent, given),
            "add {minor:x} below {parent:x}: {options}"
        );
        if made {
            self.met.depth = self.met.depth.max(self.model.way_up(minor).len());
        }
    }
    fn anywhere(&mut self) {
        let (minor, parent) = (self.minor().max(1), self.known());
        self.make(minor, parent);
    }
    /// Makes the deepest class there is one deeper.
    fn deepen(&mut self) {
        let deepest = self.model.classes.iter().map(|c| c.minor).max_by_key(|m| self.model.way_up(*m).len());
        let free = (1..16).find(|m| self.model.place(*m).is_none());
        let (Some(parent), Some(minor)) = (deepest, free) else { return };
        self.make(minor, parent);
    }
    fn change(&mut self) {
        let minor = self.known();
        let given = Given::random(&mut self.rng, self.base);
        let options = given.options();
        let words: Vec<&str> = options.split_whitespace().collect();
        let known = self.model.place(minor).is_some();
        let done = self.command(|tree, cx| {
            tree.edit(cx).change_class(None, at(minor), Some("htb"), &mut Words::new(&words))
        });
        assert_eq!(done, known, "change {minor:x}: {options}");
        if known {
            self.model.give(minor, given);
            self.met.reshaped += 1;
        }
    }
    fn delete(&mut self) {
        let minor = self.known();
        let done = self.command(|tree, cx| tree.edit(cx).delete_class(at(minor)));
        assert_eq!(done, self.model.delete(self.now, minor), "delete {minor:x}");
        self.met.removed += u64::from(done);
    }
    fn arrivals(&mut self) {
        let minor = self.known();
        let usual = *pick(&mut self.rng, &[60, 1000, 1514]);
        for _ in 0..1 + self.rng.below(12) {
            let len = *pick(&mut self.rng, &[usual, usual, usual, 64, 590, 9000]);
            self.next += 1;
            let m = Meta::new(len).priority(at(minor).0);
            let answer = self.lane.put(Instant(self.now), self.next, m);
            assert_eq!(answer, self.model.put(self.next, len, minor), "packet {} for {minor:x}", self.next);
            self.met.dropped += u64::from(answer != Admitted::Queued);
        }
    }
    /// Takes packets until a time; now and then earlier than was asked for, or later.
    fn departures(&mut self, end: u64) {
        loop {
            self.met.direct += u64::from(!self.model.direct.is_empty());
            match (self.lane.take(Instant(self.now)), self.model.take(self.now)) {
                (Out::Sent(id, _), Ok(expected)) if id == expected => {
                    self.met.sent += 1;
                    if chance(&mut self.rng, 1, 2) {
                        self.now += self.rng.below(1 + self.time_of(1500));
                    }
                }
                // Earlier is allowed (htb-wakes): a class that has left the wheel may have been the one it thought of.
                (Out::Wait(t), Err(Some(expected))) if t.0 <= expected => {
                    self.met.early += u64::from(t.0 < expected);
                    self.met.waits += 1;
                    assert!(t.0 > self.now, "a wake in the past");
                    if t.0 > end {
                        break;
                    }
                    self.now = match self.rng.below(6) {
                        0 => self.now + self.rng.below(t.0 - self.now),
                        1 => t.0 + self.rng.below(1 + self.time_of(3000)),
                        _ => t.0,
                    };
                }
                (Out::Nothing, Err(None)) => break,
                (got, expected) => panic!("at {}: {got:?}, expected {expected:?}", self.now),
            }
            if self.now >= end {
                return;
            }
        }
        self.now = end;
    }
    /// What every class shows.
    fn compare(&mut self) {
        let mut shown = Vec::new();
        self.lane.root().qdisc().user_classes().expect("classes").list(&mut |c: ClassShown<'_>| {
            shown.push((
                c.at.minor,
                c.at.parent,
                c.sent.bytes,
                c.overlimits,
                c.backlog.packets,
                c.values.to_vec(),
            ));
        });
        shown.sort_unstable();
        let ticks = |ns: i64| ns.div_euclid(64).clamp(i32::MIN.into(), i32::MAX.into());
        let expected = self.model.classes.iter().map(|c| {
            let (tokens, ctokens) = (ticks(c.tokens), ticks(c.ctokens));
            let level = self.model.level(c.minor) as i64;
            let values = vec![c.lent, c.borrowed, 0, tokens, ctokens, c.quantum, level];
            (c.minor, c.parent, c.sent, c.overlimits, c.queue.len() as u64, values)
        });
        assert_eq!(shown, expected.collect::<Vec<_>>(), "at {}", self.now);
    }

    fn run(&mut self) {
        for _ in 0..2 + self.rng.below(12) {
            if chance(&mut self.rng, 1, 2) {
                self.deepen();
            } else {
                self.anywhere();
            }
        }
        let pace = *pick(&mut self.rng, &[500, 2000, 8000, 40_000]);
        for _ in 0..120 {
            match self.rng.below(40) {
                0 => self.anywhere(),
                1 => self.delete(),
                2 => self.change(),
                3 => self.now += self.time_of(self.rng.clone().below(1_000_000)).min(100_000_000_000),
                4..24 => self.arrivals(),
                _ => {
                    let end = self.now + self.rng.below(1 + self.time_of(pace));
                    self.departures(end);
                }
            }
            self.compare();
        }
        self.departures(self.now.saturating_add(self.time_of(100_000)));
        self.compare();
        for class in &self.model.classes {
            let level = self.model.level(class.minor);
            self.met.lenders[level] += class.lent as u64;
            self.met.overlimits += class.overlimits;
        }
    }
}

fn env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn htb_is_what_the_model_is() {
    let seed = env("TXWEIR_SEED");
    let runs = env("TXWEIR_RUNS").unwrap_or(if seed.is_some() { 1 } else { 500 });
    let mut all = Met::default();
    for seed in (seed.unwrap_or(0)..).take(runs as usize) {
        common::reproduce_with(format!("TXWEIR_SEED={seed} cargo test -p txweir-core --test it htb_model::"));
        let mut pair = Pair::new(seed);
        pair.run();
        let Met { sent, waits, early, dropped, depth, lenders, overlimits, reshaped, removed, direct } =
            pair.met;
        all.sent += sent;
        all.waits += waits;
        all.early += early;
        all.dropped += dropped;
        all.depth = all.depth.max(depth);
        all.lenders.iter_mut().zip(lenders).for_each(|(sum, n)| *sum += n);
        all.overlimits += overlimits;
        all.reshaped += reshaped;
        all.removed += removed;
        all.direct += direct;
    }
    common::reproduce_with(String::new());
    println!("{all:?}");
    if runs >= 500 {
        assert_eq!(all.depth, 8, "the deepest tree");
        assert!(all.lenders.iter().all(|n| *n > 100), "each level lends: {all:?}");
        let few = [
            all.sent / 20,
            all.waits / 20,
            all.dropped,
            all.overlimits,
            all.reshaped,
            all.removed,
            all.direct,
        ];
        assert!(few.iter().all(|n| *n > 50), "{all:?}");
    }
}
