//! hfsc against a slow and plain model of it, on random trees, curves and arrivals: the same
//! packets leave at the same nanosecond, the same wakes are requested, and every class shows the
//! same numbers.
//!
//! The model keeps classes in one list and scans it at each use: for the earliest deadline, for the
//! least virtual time, for the earliest fit time, which it derives from the leaves up, for the
//! active classes below another. Its curves are computed in 128 bits, each product whole. So it
//! shares no structure with the kind: no trees, no counts, no cached minima, no halves of numbers.
//! `TXWEIR_SEED` chooses one run (a failure prints it), `TXWEIR_RUNS` the number of runs.

use std::collections::VecDeque;

use crate::common;
use crate::common::lane::{Lane, Out};
use crate::common::options::{chance, log_uniform, pick};
use txweir_core::base::rng::Rng;
use txweir_core::sched::classful::ClassShown;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, ConfigError, DropReason, Handle, Instant, Meta};

/// Most packets in a leaf's own queue.
const ROOM: usize = 1000;
/// Ticks in a second.
const TICKS: u128 = 15_625_000;
/// Levels of classes.
const LEVELS: usize = 8;

fn tick(ns: u64) -> u64 {
    ns / 64
}

// --- curves

/// A curve as it is given: slopes in bytes/s, the time of the first in us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Curve {
    m1: u64,
    d: u64,
    m2: u64,
}

impl Curve {
    fn random(rng: &mut Rng, base: u64) -> Self {
        let rate = |rng: &mut Rng| 1 + base * (1 + rng.below(40)) / *pick(rng, &[10, 20, 400]);
        let m2 = rate(rng);
        let steep = rate(rng);
        // A pause of some packets at the base's rate.
        let d = 1_000_000 * (1 + log_uniform(rng, 20_000)) / base;
        let [m1, m2] = *pick(rng, &[[0, m2], [0, m2], [steep, m2], [steep, m2], [m2, m2], [steep, 0]]);
        let d = if m1 == 0 && chance(rng, 2, 3) { 0 } else { d };
        Self { m1: m1.min(u32::MAX.into()), d: d.min(4_000_000_000), m2: m2.min(u32::MAX.into()) }
    }
    fn words(&self, key: &str) -> String {
        format!(" {key} m1 {}bps d {}us m2 {}bps", self.m1, self.d, self.m2)
    }
    /// Returns the ticks of the first part.
    fn length(&self) -> u128 {
        (u128::from(self.d) * TICKS).div_ceil(1_000_000)
    }
    /// Returns the bytes of one slope after some ticks.
    fn bytes(rate: u64, ticks: u128) -> u128 {
        (ticks * (u128::from(rate) << 24).div_ceil(TICKS)) >> 24
    }
    /// Returns the ticks of some bytes at one slope; -1 if they never come.
    fn ticks(rate: u64, bytes: u128) -> i128 {
        match (bytes, rate) {
            (0, _) => 0,
            (_, 0) => -1,
            _ => ((bytes * (TICKS << 14).div_ceil(u128::from(rate))) >> 14) as i128,
        }
    }
    fn is_convex(&self) -> bool {
        (u128::from(self.m1) << 24).div_ceil(TICKS) <= (u128::from(self.m2) << 24).div_ceil(TICKS)
    }
}

/// A curve from a point on, with the first part that it has there.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    x: u64,
    y: u64,
    dx: u128,
    dy: u128,
}

impl Line {
    fn new(c: &Curve, x: u64, y: u64) -> Self {
        Self { x, y, dx: c.length(), dy: Curve::bytes(c.m1, c.length()) }
    }
    fn due(&self, c: &Curve, x: u128) -> u128 {
        let Some(since) = x.checked_sub(self.x.into()) else { return self.y.into() };
        let more = if since <= self.dx {
            Curve::bytes(c.m1, since)
        } else {
            self.dy + Curve::bytes(c.m2, since - self.dx)
        };
        u128::from(self.y) + more
    }
    fn time(&self, c: &Curve, y: u64) -> u64 {
        let Some(more) = y.checked_sub(self.y) else { return self.x };
        let more = u128::from(more);
        let ticks = if more > self.dy {
            self.dx as i128 + Curve::ticks(c.m2, more - self.dy)
        } else if self.dy == 0 {
            self.dx as i128
        } else {
            Curve::ticks(c.m1, more)
        };
        (i128::from(self.x) + ticks) as u64
    }
    /// Restarts at a point, if the curve is above the one from there; continues to the crossing.
    fn restart(&mut self, c: &Curve, x: u64, y: u64) {
        let anew = Self::new(c, x, y);
        let (now, then) = (self.due(c, x.into()), self.due(c, u128::from(x) + c.length()));
        let (y128, end) = (u128::from(y), u128::from(y) + anew.dy);
        if c.is_convex() {
            if now >= y128 {
                (self.x, self.y) = (x, y);
            }
        } else if now > y128 && then >= end {
            *self = anew;
        } else if now > y128 {
            let slope = |rate: u64| (u128::from(rate) << 24).div_ceil(TICKS);
            let lead = ((now - y128) << 24) / (slope(c.m1) - slope(c.m2));
            let left = (u128::from(self.x) + self.dx).saturating_sub(x.into());
            *self = Self { x, y, dx: lead + left, dy: Curve::bytes(c.m1, lead + left) };
        }
    }
}

// --- the model

/// The curves of a class: rt, ls, ul.
type Three = [Option<Curve>; 3];

#[derive(Clone, Debug, Default)]
struct Class {
    minor: u16,
    parent: u16,
    curves: Three,
    lines: [Line; 3],
    queue: VecDeque<(u32, u32)>,
    /// Eligible time, the order of requests, deadline: while it has packets and a real-time curve.
    due: Option<(u64, u64, u64)>,
    /// The order of requests in the list of the class above, while it shares.
    listed: Option<u64>,
    vt: u64,
    skipped: u64,
    least: u64,
    past: u64,
    fit_alone: u64,
    total: u64,
    served: u64,
    period: u32,
    period_above: u32,
    sent: u64,
}

#[derive(Debug, Default)]
struct Model {
    /// By minor number; the first is the qdisc.
    classes: Vec<Class>,
    default: u16,
    asked: u64,
}

impl Model {
    fn get(&self, minor: u16) -> &Class {
        self.classes.iter().find(|c| c.minor == minor).expect("a class of the model")
    }
    fn class(&mut self, minor: u16) -> &mut Class {
        self.classes.iter_mut().find(|c| c.minor == minor).expect("a class of the model")
    }
    fn has(&self, minor: u16) -> bool {
        minor != 0 && self.classes.iter().any(|c| c.minor == minor)
    }
    fn below(&self, minor: u16) -> impl Iterator<Item = &Class> {
        self.classes.iter().filter(move |c| c.parent == minor && c.minor != 0)
    }
    fn level(&self, minor: u16) -> usize {
        self.below(minor).map(|c| 1 + self.level(c.minor)).max().unwrap_or(0)
    }
    /// Returns the class itself and those above it, without the qdisc.
    fn way_up(&self, minor: u16) -> Vec<u16> {
        std::iter::successors(Some(minor), |m| Some(self.get(*m).parent)).take_while(|m| *m != 0).collect()
    }
    fn ask(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }
    fn listed(&self, minor: u16) -> impl Iterator<Item = &Class> {
        self.below(minor).filter(|c| c.listed.is_some())
    }
    /// Returns the time from which a class may share.
    fn fit(&self, minor: u16) -> u64 {
        self.get(minor).fit_alone.max(self.fit_below(minor))
    }
    fn fit_below(&self, minor: u16) -> u64 {
        self.listed(minor).map(|c| self.fit(c.minor)).min().unwrap_or(0)
    }

    fn deadline(&self, minor: u16, len: u32) -> (u64, u64) {
        let c = self.get(minor);
        let curve = c.curves[0].expect("a real-time curve");
        let line = c.lines[0];
        let flat = Line { dx: 0, dy: 0, ..line };
        let eligible = if curve.is_convex() { flat } else { line };
        (eligible.time(&curve, c.served), line.time(&curve, c.served + u64::from(len)))
    }
    fn claim(&mut self, now: u64, minor: u16, len: u32) {
        let asked = self.ask();
        let c = self.class(minor);
        let Some(curve) = c.curves[0] else { return };
        c.lines[0].restart(&curve, now, c.served);
        let (e, d) = self.deadline(minor, len);
        self.class(minor).due = Some((e, asked, d));
    }
    fn join(&mut self, now: u64, minor: u16) {
        if self.get(minor).curves[1].is_none() {
            return;
        }
        for minor in self.way_up(minor) {
            if self.get(minor).listed.is_some() {
                return;
            }
            let above = self.get(minor).parent;
            let above_begins = above == 0 || self.get(above).listed.is_none();
            let greatest = self.listed(above).map(|c| c.vt).max();
            let Class { least, past, period, .. } = *self.get(above);
            let asked = self.ask();
            let c = self.class(minor);
            match greatest {
                None => c.vt = past,
                Some(greatest) => {
                    let vt = if least == 0 { greatest } else { least.wrapping_add(greatest) / 2 };
                    if c.period_above != period || vt > c.vt {
                        c.vt = vt;
                    }
                }
            }
            c.skipped = 0;
            let curve = c.curves[1].expect("a link-sharing curve");
            let (vt, total) = (c.vt, c.total);
            c.lines[1].restart(&curve, vt, total);
            c.period += 1;
            c.period_above = period + u32::from(above_begins);
            if let Some(curve) = c.curves[2] {
                c.lines[2].restart(&curve, now, total);
                c.fit_alone = c.lines[2].time(&curve, total);
            }
            c.listed = Some(asked);
            if greatest.is_none() {
                self.class(above).least = 0;
            }
        }
    }
    /// Charges a class and those above; `ends`: it has no packets any more.
    fn settle(&mut self, minor: u16, len: u32, ends: bool) {
        let shares = self.get(minor).listed.is_some();
        for minor in self.way_up(minor) {
            let asked = self.ask();
            let above = self.get(minor).parent;
            let least = self.get(above).least;
            let passive = shares && ends && self.listed(minor).next().is_none();
            let c = self.class(minor);
            c.total += u64::from(len);
            let (Some(curve), Some(_)) = (c.curves[1], c.listed) else { continue };
            c.vt = c.lines[1].time(&curve, c.total).wrapping_add(c.skipped);
            if c.vt < least {
                c.skipped = c.skipped.wrapping_add(least - c.vt);
                c.vt = least;
            }
            if passive {
                c.listed = None;
                let vt = c.vt;
                let above = self.class(above);
                above.past = above.past.max(vt);
                continue;
            }
            c.listed = Some(asked);
            if let Some(curve) = c.curves[2] {
                c.fit_alone = c.lines[2].time(&curve, c.total);
            }
        }
    }
    fn empty(&mut self, minor: u16) {
        if self.get(minor).listed.is_some() {
            self.settle(minor, 0, true);
        }
        self.class(minor).due = None;
    }

    fn put(&mut self, now: u64, id: u32, len: u32, minor: u16) -> Admitted<u32> {
        let bare = self.classes.len() == 1;
        let leaf = |m: &u16| (bare && *m == 0 || self.has(*m)) && self.level(*m) == 0;
        let Some(minor) = [minor, self.default].into_iter().find(leaf) else {
            return Admitted::Dropped(DropReason::NoClass);
        };
        let queue = &mut self.class(minor).queue;
        if queue.len() >= ROOM {
            return Admitted::Dropped(DropReason::Overlimit);
        }
        queue.push_back((id, len));
        if queue.len() == 1 {
            self.claim(tick(now), minor, len);
            self.join(tick(now), minor);
        }
        Admitted::Queued
    }
    /// Returns the leaf that sends, and if by its deadline.
    fn choose(&mut self, now: u64) -> Option<(u16, bool)> {
        let eligible = self.classes.iter().filter_map(|c| Some((c.due.filter(|d| d.0 <= now)?, c.minor)));
        if let Some((_, minor)) = eligible.min_by_key(|((e, asked, d), _)| (*d, *e, *asked)) {
            return Some((minor, true));
        }
        let mut at = 0;
        loop {
            let fits = self.listed(at).filter(|c| self.fit(c.minor) <= now);
            let (vt, _, minor) = fits.map(|c| (c.vt, c.listed, c.minor)).min()?;
            let above = self.class(at);
            above.least = above.least.max(vt);
            at = minor;
            if self.level(at) == 0 {
                return Some((at, false));
            }
        }
    }
    fn take(&mut self, now: u64) -> Result<(u32, bool), Option<u64>> {
        let own = self.class(0);
        if let Some((id, len)) = own.queue.pop_front() {
            own.sent += u64::from(len);
            return Ok((id, false));
        }
        let Some((minor, by_deadline)) = self.choose(tick(now)) else {
            let first = self.classes.iter().filter_map(|c| c.due).map(|d| d.0).min();
            let fit = Some(self.fit_below(0)).filter(|f| *f != 0);
            return Err(first.into_iter().chain(fit).min().map(|t| t.saturating_mul(64)));
        };
        let c = self.class(minor);
        let (id, len) = c.queue.pop_front().expect("an active leaf has packets");
        c.sent += u64::from(len);
        let next = c.queue.front().map(|p| p.1);
        self.settle(minor, len, next.is_none());
        let asked = self.ask();
        let c = self.class(minor);
        c.served += if by_deadline { u64::from(len) } else { 0 };
        match (c.due, next) {
            (Some((e, old, _)), Some(next)) => {
                let (new, d) = self.deadline(minor, next);
                self.class(minor).due = Some(if by_deadline { (new, asked, d) } else { (e, old, d) });
            }
            (Some(_), None) => c.due = None,
            _ => {}
        }
        Ok((id, by_deadline))
    }

    fn place(&mut self, now: u64, minor: u16, given: &Three) {
        let c = self.class(minor);
        let starts = [(now, c.served), (c.vt, c.total), (now, c.total)];
        for (at, (x, y)) in starts.into_iter().enumerate() {
            if let Some(curve) = &given[at] {
                (c.curves[at], c.lines[at]) = (Some(*curve), Line::new(curve, x, y));
            }
        }
    }
    /// True if the class is made.
    fn add(&mut self, minor: u16, parent: u16, given: &Three) -> bool {
        if self.has(minor) || parent != 0 && (!self.has(parent) || self.way_up(parent).len() == LEVELS) {
            return false;
        }
        self.class(0).queue.clear();
        if parent != 0 {
            if self.level(parent) == 0 {
                self.empty(parent);
                self.class(parent).queue.clear();
            }
            let above = self.class(parent);
            if above.curves[1].is_none() {
                let curve = above.curves[0].expect("a curve");
                (above.curves[1], above.lines[1]) = (Some(curve), Line::new(&curve, above.vt, above.total));
            }
        }
        self.classes.push(Class { minor, parent, ..Class::default() });
        self.classes.sort_by_key(|c| c.minor);
        self.place(0, minor, given);
        true
    }
    fn change(&mut self, now: u64, minor: u16, given: &Three) {
        let had = self.get(minor).curves;
        self.place(tick(now), minor, given);
        let Some((_, len)) = self.get(minor).queue.front().copied() else { return };
        let asked = self.ask();
        if self.get(minor).curves[0].is_some() {
            match had[0] {
                Some(_) => {
                    let (e, d) = self.deadline(minor, len);
                    self.class(minor).due = Some((e, asked, d));
                }
                None => self.claim(tick(now), minor, len),
            }
        }
        match had[1] {
            Some(_) => self.settle(minor, 0, false),
            None => self.join(tick(now), minor),
        }
    }
    fn delete(&mut self, minor: u16) -> bool {
        if !self.has(minor) || self.level(minor) > 0 {
            return false;
        }
        self.empty(minor);
        self.class(minor).queue.clear();
        self.classes.retain(|c| c.minor != minor);
        true
    }
}

// --- both at once

/// The events of a run, so that every rule has its case.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    by_deadline: u64,
    by_share: u64,
    waits: u64,
    dropped: u64,
    changed: u64,
    removed: u64,
    skipped: u64,
    depth: u64,
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
        let lane = Lane::new("hfsc", &format!("default {default:x}"));
        let base = 1 + log_uniform(&mut rng, 400_000_000);
        let model = Model { default, classes: vec![Class::default()], asked: 0 };
        let now = rng.below(10_000_000_000);
        Self { lane, model, rng, base, now, next: 0, met: Met::default() }
    }
    /// Returns the time of this number of bytes at the base's rate.
    fn time_of(&self, bytes: u64) -> u64 {
        bytes * 1_000_000_000 / self.base
    }
    fn minor(&mut self) -> u16 {
        self.rng.below(16) as u16
    }
    /// Returns a class that exists, most of the time, and a leaf, most of the time.
    fn known(&mut self) -> u16 {
        let all: Vec<u16> = self.model.classes[1..].iter().map(|c| c.minor).collect();
        if all.is_empty() || chance(&mut self.rng, 1, 8) {
            return self.minor();
        }
        let leaves: Vec<u16> = all.iter().copied().filter(|m| self.model.level(*m) == 0).collect();
        if chance(&mut self.rng, 3, 4) { *pick(&mut self.rng, &leaves) } else { *pick(&mut self.rng, &all) }
    }
    fn command(
        &mut self,
        f: impl FnOnce(&mut txweir_core::Tree, &mut txweir_core::sched::cx::Cx) -> Result<(), ConfigError>,
    ) -> bool {
        self.lane.path.configure(Instant(self.now), &mut self.lane.dev, f).is_ok()
    }
    /// Returns curves, and the words that give them.
    fn curves(&mut self) -> (Three, String) {
        let rng = &mut self.rng;
        let [rt, ls, ul] = *pick(
            rng,
            &[
                [true, false, false],
                [false, true, false],
                [false, true, true],
                [false, true, true],
                [true, true, false],
                [true, true, true],
            ],
        );
        let mut draw = |is: bool| is.then(|| Curve::random(rng, self.base));
        let mut three = [draw(rt), draw(ls), draw(ul)];
        let mut words = String::new();
        if rt && ls && chance(rng, 1, 2) {
            three[1] = three[0];
            words += &three[0].iter().map(|c| c.words("sc")).collect::<String>();
        } else {
            words += &three[0].iter().map(|c| c.words("rt")).collect::<String>();
            words += &three[1].iter().map(|c| c.words("ls")).collect::<String>();
        }
        words += &three[2].iter().map(|c| c.words("ul")).collect::<String>();
        (three, words)
    }

    fn make(&mut self, minor: u16, parent: u16) {
        let (three, options) = self.curves();
        let words: Vec<&str> = options.split_whitespace().collect();
        let made = self.command(|tree, cx| {
            tree.edit(cx).add_class(at(parent), at(minor), Some("hfsc"), &mut Words::new(&words))
        });
        assert_eq!(made, self.model.add(minor, parent, &three), "add {minor:x} below {parent:x}: {options}");
        if made {
            self.met.depth = self.met.depth.max(self.model.way_up(minor).len() as u64);
        }
    }
    fn anywhere(&mut self) {
        let (minor, parent) = (self.minor().max(1), self.known());
        self.make(minor, parent);
    }
    /// Adds a level below the deepest class.
    fn deepen(&mut self) {
        let deepest = self.model.classes.iter().map(|c| c.minor).max_by_key(|m| self.model.way_up(*m).len());
        let free = (1..16).find(|m| !self.model.has(*m));
        let (Some(parent), Some(minor)) = (deepest, free) else { return };
        self.make(minor, parent);
    }
    fn change(&mut self) {
        let minor = self.known();
        let (three, options) = self.curves();
        let words: Vec<&str> = options.split_whitespace().collect();
        let known = self.model.has(minor);
        let done = self.command(|tree, cx| {
            tree.edit(cx).change_class(None, at(minor), Some("hfsc"), &mut Words::new(&words))
        });
        assert_eq!(done, known, "change {minor:x}: {options}");
        if known {
            self.model.change(self.now, minor, &three);
            self.met.changed += 1;
        }
    }
    fn delete(&mut self) {
        let minor = self.known();
        let done = self.command(|tree, cx| tree.edit(cx).delete_class(at(minor)));
        assert_eq!(done, self.model.delete(minor), "delete {minor:x}");
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
            let expected = self.model.put(self.now, self.next, len, minor);
            assert_eq!(answer, expected, "packet {} for {minor:x}", self.next);
            self.met.dropped += u64::from(answer != Admitted::Queued);
        }
    }
    /// Takes packets until a time; at random earlier than requested, or later.
    fn departures(&mut self, end: u64) {
        loop {
            match (self.lane.take(Instant(self.now)), self.model.take(self.now)) {
                (Out::Sent(id, _), Ok((expected, by_deadline))) if id == expected => {
                    self.met.by_deadline += u64::from(by_deadline);
                    self.met.by_share += u64::from(!by_deadline);
                    if chance(&mut self.rng, 1, 2) {
                        self.now += self.rng.below(1 + self.time_of(1500));
                    }
                }
                (Out::Wait(t), Err(Some(expected))) if t.0 == expected => {
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
    /// Compares the shown numbers of every class.
    fn compare(&mut self) {
        let mut shown = Vec::new();
        self.lane.root().qdisc().user_classes().expect("classes").list(&mut |c: ClassShown<'_>| {
            shown.push((c.at.minor, c.at.parent, c.sent.bytes, c.backlog.packets, c.values.to_vec()));
        });
        shown.sort_unstable();
        let expected = self.model.classes.iter().map(|c| {
            let level = self.model.level(c.minor) as i64;
            let values = vec![c.period.into(), c.total as i64, c.served as i64, level];
            (c.minor, c.parent, c.sent, c.queue.len() as u64, values)
        });
        assert_eq!(shown, expected.collect::<Vec<_>>(), "at {}", self.now);
        self.met.skipped += self.model.classes.iter().filter(|c| c.skipped > 0).count() as u64;
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
                3 => {
                    let pause = log_uniform(&mut self.rng, 1_000_000);
                    self.now += self.time_of(pause).min(100_000_000_000);
                }
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
    }
}

fn env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn hfsc_is_what_the_model_is() {
    let seed = env("TXWEIR_SEED");
    let runs = env("TXWEIR_RUNS").unwrap_or(if seed.is_some() { 1 } else { 500 });
    let mut all = Met::default();
    for seed in (seed.unwrap_or(0)..).take(runs as usize) {
        common::reproduce_with(format!(
            "TXWEIR_SEED={seed} cargo test -p txweir-core --test it hfsc_model::"
        ));
        let mut pair = Pair::new(seed);
        pair.run();
        let met = pair.met;
        all.by_deadline += met.by_deadline;
        all.by_share += met.by_share;
        all.waits += met.waits;
        all.dropped += met.dropped;
        all.changed += met.changed;
        all.removed += met.removed;
        all.skipped += met.skipped;
        all.depth = all.depth.max(met.depth);
    }
    common::reproduce_with(String::new());
    println!("{all:?}");
    if runs >= 500 {
        assert_eq!(all.depth, LEVELS as u64, "the deepest tree");
        let few = [
            all.by_deadline / 20,
            all.by_share / 20,
            all.waits / 20,
            all.dropped,
            all.changed,
            all.removed,
            all.skipped,
        ];
        assert!(few.iter().all(|n| *n > 50), "{all:?}");
    }
}
