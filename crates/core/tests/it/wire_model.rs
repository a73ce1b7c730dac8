//! The line of a wire against a slow model written independently of it: every unit is a list entry,
//! every rate an exact fraction, every decision a search. And the laws of a line, checked on its
//! departures: no rest while a unit may go, the strict order, the shares, the rates, the order in
//! each ring, no loss.

use std::collections::VecDeque;

use txweir_core::base::rng::Rng;
use txweir_core::{Instant, Meta, Nanos, Rate, TxQueue};
use txweir_core::{
    model::wire::{Completion, Wire, WireConfig},
    sched::schedule::{ClassConfig, LineConfig, Service},
};

/// Bytes per second: a byte per nanosecond, so that times are whole.
const LINE: u64 = 1_000_000_000;
const QUANTUM: u64 = 1538;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gone {
    id: u32,
    ring: u16,
    start: u64,
    finish: u64,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    id: u32,
    ring: u16,
    at: u64,
    len: u64,
}

/// A rate as the exact time, in billionths of a nanosecond times the rate, at which the next unit
/// is due.
#[derive(Clone, Copy, Debug)]
struct Rated {
    rate: u64,
    /// Due time in whole ns, and the remaining fraction, in parts of `rate`.
    due: u64,
    part: u128,
}

impl Rated {
    fn charge(&mut self, now: u64, len: u64, longest: u64) {
        let exact = u128::from(len) * 1_000_000_000 + self.part;
        let whole = (exact / u128::from(self.rate)) as u64;
        self.part = exact % u128::from(self.rate);
        let not_before = now.saturating_sub(whole.max(longest));
        self.due = self.due.max(not_before) + whole;
    }
}

/// A line that knows all arrivals in advance.
struct Model {
    line: LineConfig,
    rings: Vec<VecDeque<Packet>>,
    last: Vec<usize>,
    min: Vec<Option<Rated>>,
    max: Vec<Option<Rated>>,
    ring_max: Vec<Option<Rated>>,
    credit: Vec<u64>,
    turns: VecDeque<usize>,
    longest: u64,
}

impl Model {
    fn new(line: &LineConfig) -> Self {
        let rated = |rate: Option<Rate>| rate.map(|r| Rated { rate: r.0, due: 0, part: 0 });
        Self {
            rings: vec![VecDeque::new(); usize::from(line.rings)],
            last: line.classes.iter().map(|c| usize::from(c.offset + c.count) - 1).collect(),
            min: line.classes.iter().map(|c| rated(c.min_rate)).collect(),
            max: line.classes.iter().map(|c| rated(c.max_rate)).collect(),
            ring_max: (0..line.rings)
                .map(|i| rated(line.ring_max.iter().find(|(r, _)| *r == i).map(|(_, rate)| *rate)))
                .collect(),
            credit: vec![0; line.classes.len()],
            turns: VecDeque::new(),
            longest: 0,
            line: line.clone(),
        }
    }

    fn quantum(&self, class: usize) -> u64 {
        let weight = |c: &ClassConfig| match c.service {
            Service::Ets(w) => Some(u64::from(w)),
            Service::Strict => None,
        };
        let least = self.line.classes.iter().filter_map(weight).min().unwrap_or(1);
        (weight(&self.line.classes[class]).unwrap_or(1) * QUANTUM).div_ceil(least)
    }
    fn range(&self, class: usize) -> std::ops::Range<usize> {
        let c = &self.line.classes[class];
        usize::from(c.offset)..usize::from(c.offset + c.count)
    }
    fn busy(&self, class: usize) -> bool {
        self.range(class).any(|r| !self.rings[r].is_empty())
    }
    fn ets(&self, class: usize) -> bool {
        matches!(self.line.classes[class].service, Service::Ets(_))
    }

    fn arrive(&mut self, p: Packet) {
        let class =
            (0..self.line.classes.len()).find(|c| self.range(*c).contains(&usize::from(p.ring))).unwrap();
        if self.ets(class) && !self.busy(class) {
            self.credit[class] = self.quantum(class);
            self.turns.push_back(class);
        }
        self.rings[usize::from(p.ring)].push_back(p);
    }

    /// Returns the ring of a class that would be next at `now`.
    fn candidate(&self, class: usize, now: u64) -> Option<usize> {
        if self.max[class].is_some_and(|m| m.due > now) {
            return None;
        }
        let range = self.range(class);
        let (first, count) = (range.start, range.len());
        (1..=count)
            .map(|i| first + (self.last[class] - first + i) % count)
            .find(|r| !self.rings[*r].is_empty() && self.ring_max[*r].is_none_or(|m| m.due <= now))
    }

    fn choose(&mut self, now: u64) -> Option<usize> {
        for class in (0..self.line.classes.len()).rev().filter(|c| !self.ets(*c)) {
            if let Some(ring) = self.candidate(class, now) {
                return Some(ring);
            }
        }
        let mut behind: Vec<(u64, usize)> = (0..self.line.classes.len())
            .filter(|c| self.ets(*c) && self.candidate(*c, now).is_some())
            .filter_map(|c| self.min[c].filter(|m| m.due <= now).map(|m| (m.due, c)))
            .collect();
        behind.sort_unstable();
        if let Some((_, class)) = behind.first() {
            return self.candidate(*class, now);
        }
        if !self.turns.iter().any(|c| self.candidate(*c, now).is_some()) {
            return None;
        }
        // One turn after the other, as many as necessary.
        loop {
            let at = self.turns.iter().position(|c| self.candidate(*c, now).is_some()).unwrap();
            // Each round examines every ring that may send once; those before `at` keep their
            // place.
            let mut waiting: Vec<usize> = Vec::new();
            let mut passed: Vec<usize> = Vec::new();
            let mut chosen = None;
            let turns: Vec<usize> = self.turns.iter().copied().collect();
            for (i, class) in turns.iter().copied().enumerate() {
                let ring = if i < at || chosen.is_some() { None } else { self.candidate(class, now) };
                match ring {
                    Some(ring) => {
                        let len = self.rings[ring][0].len;
                        if self.credit[class] >= len {
                            self.credit[class] -= len;
                            chosen = Some(ring);
                            waiting.push(class);
                        } else {
                            self.credit[class] += self.quantum(class);
                            passed.push(class);
                        }
                    }
                    None => waiting.push(class),
                }
            }
            self.turns = waiting.into_iter().chain(passed).collect();
            if chosen.is_some() {
                return chosen;
            }
        }
    }

    fn take(&mut self, ring: usize, now: u64) -> Gone {
        let p = self.rings[ring].pop_front().unwrap();
        self.longest = self.longest.max(p.len);
        let class = (0..self.line.classes.len()).find(|c| self.range(*c).contains(&ring)).unwrap();
        self.last[class] = ring;
        for rated in
            [&mut self.min[class], &mut self.max[class], &mut self.ring_max[ring]].into_iter().flatten()
        {
            rated.charge(now, p.len, self.longest);
        }
        Gone { id: p.id, ring: p.ring, start: now, finish: now + p.len }
    }

    /// Returns all departures of these arrivals, which are in order of time.
    fn run(mut self, arrivals: &[Packet]) -> Vec<Gone> {
        let mut gone: Vec<Gone> = Vec::new();
        let mut now = 0;
        let mut todo: VecDeque<Packet> = arrivals.iter().copied().collect();
        // The unit on the line counts as waiting in its ring until it has left it.
        let mut sending: Option<(Gone, usize)> = None;
        loop {
            if let Some((unit, class)) = sending {
                while todo.front().is_some_and(|p| p.at < unit.finish) {
                    let p = todo.pop_front().unwrap();
                    self.arrive_behind(p, class);
                }
                now = unit.finish;
                gone.push(unit);
                if self.ets(class) && !self.busy(class) {
                    self.turns.retain(|c| *c != class);
                }
            }
            sending = self.choose(now).map(|ring| {
                let class = (0..self.line.classes.len()).find(|c| self.range(*c).contains(&ring)).unwrap();
                (self.take(ring, now), class)
            });
            if sending.is_some() {
                continue;
            }
            // No unit may go: the next event that changes that.
            let due = (0..self.line.classes.len()).filter(|c| self.busy(*c)).flat_map(|c| {
                let rings = self.range(c).filter(|r| !self.rings[*r].is_empty());
                let rates = rings.filter_map(|r| self.ring_max[r]).chain(self.max[c]);
                rates.map(|m| m.due).filter(|t| *t > now).collect::<Vec<_>>()
            });
            let due = due.min();
            let Some(next) = due.into_iter().chain(todo.front().map(|p| p.at)).min() else { return gone };
            now = next;
            // Arrivals while the line rests are examined one by one, in their order, after
            // departures that a rate allows at the same time.
            if due != Some(next)
                && let Some(p) = todo.pop_front()
            {
                self.arrive(p);
            }
        }
    }

    /// Notes an arrival while a unit of `class` is on the line: the class has not left its turns
    /// yet.
    fn arrive_behind(&mut self, p: Packet, class: usize) {
        if self.range(class).contains(&usize::from(p.ring)) {
            self.rings[usize::from(p.ring)].push_back(p);
        } else {
            self.arrive(p);
        }
    }
}

/// A line with its services, and the arrivals.
struct Plan {
    line: LineConfig,
    arrivals: Vec<Packet>,
}

fn plan(seed: u64) -> Plan {
    let mut rng = Rng::new(seed);
    let mut below = |n: u64| rng.below(n);
    let count = 1 + below(6);
    let mut classes = Vec::new();
    let mut rings = 0_u16;
    let limits = below(3) == 0;
    for _ in 0..count {
        let size = 1 + below(3) as u16;
        let heaviest = 1 + below(100);
        let service = if below(3) == 0 { Service::Strict } else { Service::Ets(1 + below(heaviest) as u32) };
        let mut class = ClassConfig::new(size, rings, service);
        if limits && below(2) == 0 {
            class = class.min_rate(Rate(1 + below(LINE / count)));
        }
        if limits && below(2) == 0 {
            let least = class.min_rate.map_or(LINE / 50, |r| r.0);
            class = class.max_rate(Rate(least + below(LINE)));
        }
        classes.push(class);
        rings += size;
    }
    let mut line = LineConfig::classes(rings, &classes);
    if below(4) == 0 {
        for ring in 0..rings {
            if below(3) == 0 {
                line.ring_max.push((ring, Rate(LINE / 50 + below(LINE))));
            }
        }
    }
    let (mut at, load) = (below(5000), 1 + below(2500));
    let arrivals = (0..400)
        .map(|id| {
            at += if below(3) > 0 { below(load) } else { 0 };
            let len = if below(20) == 0 { 1 + below(20_000) } else { 1 + below(1538) };
            Packet { id, ring: below(rings.into()) as u16, at, len }
        })
        .collect();
    Plan { line, arrivals }
}

fn real(plan: &Plan) -> Vec<Gone> {
    let mut wire = Wire::new(WireConfig {
        rate: Rate(LINE),
        overhead: 0,
        min_frame: 0,
        completion: Completion::Immediate,
        rings: plan.line.rings,
        line: Some(plan.line.clone()),
        ..WireConfig::default()
    })
    .unwrap();
    let mut gone = Vec::new();
    let mut until = |wire: &mut Wire<u32>, at: u64| {
        wire.advance(Instant(at), |d| {
            gone.push(Gone { id: d.frame, ring: d.ring, start: d.start.0, finish: d.finish.0 });
        });
    };
    for p in &plan.arrivals {
        until(&mut wire, p.at);
        let mut ring = wire.ring(p.ring).unwrap();
        assert_eq!(ring.reserve(1), 1);
        ring.push(p.id, &Meta::new(p.len as u32));
        ring.commit().unwrap();
    }
    while let Some(at) = wire.next_event() {
        until(&mut wire, at.0);
    }
    let sums = |f: fn(&Wire<u32>, usize) -> (u64, u64, Nanos), n: usize| {
        (0..n).map(|i| f(&wire, i)).fold((0, 0, 0), |s, c| (s.0 + c.0, s.1 + c.1, s.2 + c.2.0))
    };
    let ring = |w: &Wire<u32>, i: usize| {
        let c = w.ring_stats(i as u16).sent;
        (c.units, c.bytes, c.busy)
    };
    let class = |w: &Wire<u32>, i: usize| {
        let c = w.class_counts(i);
        (c.units, c.bytes, c.busy)
    };
    let all = wire.counts();
    assert_eq!(sums(ring, plan.line.rings.into()), (all.units, all.bytes, all.busy.0));
    assert_eq!(sums(class, plan.line.classes.len()), (all.units, all.bytes, all.busy.0));
    gone
}

#[test]
fn the_line_does_what_the_model_does() {
    let (mut units, mut limited) = (0, 0);
    for seed in 0..1000 {
        let plan = plan(seed);
        let (found, expected) = (real(&plan), Model::new(&plan.line).run(&plan.arrivals));
        let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
        if let Some(i) = differs {
            panic!("seed {seed}, unit {i}: {:?}, in the model {:?}; {:?}", found[i], expected[i], plan.line);
        }
        assert_eq!(found.len(), plan.arrivals.len(), "seed {seed}");
        units += found.len();
        limited += usize::from(plan.line.classes.iter().any(|c| c.max_rate.is_some()));
    }
    assert!(units == 400_000 && limited > 150, "{units} {limited}");
}

fn class_of(line: &LineConfig, ring: u16) -> usize {
    line.classes.iter().position(|c| (c.offset..c.offset + c.count).contains(&ring)).unwrap()
}

#[test]
fn the_laws_of_a_line_hold() {
    for seed in 10_000..10_400 {
        let plan = plan(seed);
        let gone = real(&plan);
        let context = |what: &str| format!("seed {seed}: {what}; {:?}", plan.line);
        // No unit is lost or doubled, and each ring is in order.
        for ring in 0..plan.line.rings {
            let of = |id: &u32| plan.arrivals[*id as usize].ring == ring;
            let left: Vec<u32> = gone.iter().map(|g| g.id).filter(of).collect();
            assert_eq!(left, (0..400).filter(of).collect::<Vec<_>>(), "{}", context("order"));
        }
        let limited =
            plan.line.classes.iter().any(|c| c.max_rate.is_some()) || !plan.line.ring_max.is_empty();
        let longest = gone.iter().map(|g| g.finish - g.start).max().unwrap();
        for (i, unit) in gone.iter().enumerate() {
            let before = if i == 0 { 0 } else { gone[i - 1].finish };
            assert!(unit.start >= before.max(plan.arrivals[unit.id as usize].at), "{}", context("too soon"));
            // Units that are still there when this one starts.
            let waits = gone[i + 1..].iter().filter(|g| plan.arrivals[g.id as usize].at < unit.start);
            if limited {
                continue;
            }
            // The line does not rest while a unit waits.
            let first = gone[i..].iter().map(|g| plan.arrivals[g.id as usize].at).min().unwrap();
            assert_eq!(unit.start, before.max(first), "{}", context("rest"));
            // No unit of a strict class waits that precedes this one.
            let rank = |ring| {
                let class = class_of(&plan.line, ring);
                if plan.line.classes[class].service == Service::Strict { class + 1 } else { 0 }
            };
            let waiting = waits.map(|g| rank(g.ring)).max().unwrap_or(0);
            assert!(waiting <= rank(unit.ring), "{}", context("strict order"));
        }
        // The class never exceeds its greatest rate by more than two units.
        let check = |rate: Rate, of: &dyn Fn(u16) -> bool, own: &str| {
            let mine: Vec<&Gone> = gone.iter().filter(|g| of(g.ring)).collect();
            for (i, first) in mine.iter().enumerate() {
                let mut bytes = 0;
                for unit in &mine[i..] {
                    bytes += unit.finish - unit.start;
                    let time = u128::from(unit.start - first.start) + 1;
                    let allowed = (u128::from(rate.0) * time / 1_000_000_000) as u64 + 1;
                    let ahead = (u128::from(rate.0) * u128::from(longest)).div_ceil(1_000_000_000) as u64;
                    let most = mine[i..].iter().map(|u| u.finish - u.start).max().unwrap();
                    assert!(bytes <= allowed + most + most.max(ahead), "{}", context(own));
                }
            }
        };
        for (c, class) in plan.line.classes.iter().enumerate() {
            if let Some(rate) = class.max_rate {
                check(rate, &|ring| class_of(&plan.line, ring) == c, "rate of a class");
            }
        }
        for (ring, rate) in &plan.line.ring_max {
            check(*rate, &|r| r == *ring, "rate of a ring");
        }
    }
}

/// Over any time in which two classes that share are never empty, their bytes per weight differ by
/// at most one quantum and one unit of each.
#[test]
fn shares_differ_by_a_quantum_and_a_unit_at_most() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let count = 2 + rng.below(5) as u16;
        let heaviest = 1 + rng.below(30);
        let weights: Vec<u32> = (0..count).map(|_| 1 + rng.below(heaviest) as u32).collect();
        let classes: Vec<ClassConfig> =
            (0..count).map(|i| ClassConfig::new(1, i, Service::Ets(weights[usize::from(i)]))).collect();
        let line = LineConfig::classes(count, &classes);
        let mut wire = Wire::new(WireConfig {
            rate: Rate(LINE),
            overhead: 24,
            ring: 600,
            rings: count,
            line: Some(line),
            ..WireConfig::default()
        })
        .unwrap();
        let large = if rng.below(2) == 0 { 1514 } else { 9000 };
        for ring in 0..count {
            let mut ring = wire.ring(ring).unwrap();
            assert_eq!(ring.reserve(500), 500);
            for id in 0..500 {
                ring.push(id, &Meta::new(60 + rng.below(large - 59) as u32));
            }
            ring.commit().unwrap();
        }
        // Bytes on the line by class after each unit, while all classes have units left.
        let mut sent = vec![vec![0_u64; usize::from(count)]];
        let mut left = vec![500; usize::from(count)];
        while left.iter().all(|n| *n > 1) {
            let at = wire.next_event().unwrap();
            wire.advance(at, |d| {
                let mut now = sent.last().unwrap().clone();
                now[usize::from(d.ring)] += d.finish.0 - d.start.0;
                left[usize::from(d.ring)] -= 1;
                sent.push(now);
            });
        }
        let least = u64::from(*weights.iter().min().unwrap());
        let quantum = |c: usize| (u64::from(weights[c]) * QUANTUM).div_ceil(least);
        let unit = large + 24;
        // The first unit left before the others were there.
        for (i, from) in sent.iter().enumerate().skip(1).step_by(7) {
            for to in sent[i..].iter().step_by(11) {
                let served = |c: usize| (to[c] - from[c]) as f64 / quantum(c) as f64;
                for a in 0..usize::from(count) {
                    for b in 0..a {
                        let bound = 1.0 + unit as f64 / quantum(a) as f64 + unit as f64 / quantum(b) as f64;
                        let apart = (served(a) - served(b)).abs();
                        assert!(apart <= bound, "seed {seed}: {apart} turns apart, {bound} allowed");
                    }
                }
            }
        }
    }
}

/// Draws classes, preemptible ones among them, over the first `rings` rings.
fn any_line(rng: &mut Rng, most: u16) -> LineConfig {
    let (mut classes, mut rings) = (Vec::new(), 0_u16);
    while rings < most && classes.len() < 16 && (classes.is_empty() || rng.below(4) > 0) {
        let count = 1 + rng.below(u64::from(most - rings).min(3)) as u16;
        let service =
            if rng.below(2) == 0 { Service::Strict } else { Service::Ets(1 + rng.below(100) as u32) };
        let mut class = ClassConfig::new(count, rings, service);
        class.preemptible = rng.below(2) == 0;
        class.max_rate = (rng.below(4) == 0).then(|| Rate(LINE / 10 + rng.below(LINE)));
        classes.push(class);
        rings += count;
    }
    let mut line = LineConfig::classes(rings, &classes);
    if rng.below(3) == 0 {
        line.ring_max.push((rng.below(rings.into()) as u16, Rate(LINE / 10 + rng.below(LINE))));
    }
    line
}

/// Under any changes of the scheduler, rings in and out of use, and interruptions: no unit is lost,
/// each ring keeps its order, the line carries one bit at a time, its counted busy time is right,
/// and rings and classes add up.
#[test]
fn nothing_is_lost_whatever_changes() {
    let (mut total, mut cuts, mut retired) = (0_u64, 0_u64, 0_u64);
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let rings = 1 + rng.below(9) as u16;
        let completion = match rng.below(3) {
            0 => Completion::Immediate,
            1 => Completion::Periodic(Nanos(1 + rng.below(50_000))),
            _ => Completion::Every { packets: 1 + rng.below(9) as u32, within: Nanos(rng.below(9_000)) },
        };
        let doorbell = Nanos(rng.below(2) * rng.below(500));
        let config =
            WireConfig { rate: Rate(LINE), ring: 40, completion, rings, doorbell, ..WireConfig::default() };
        let mut wire = Wire::<(u16, u32)>::new(config).unwrap();
        let mut pushed = vec![0_u32; usize::from(rings)];
        let mut left = vec![0_u32; usize::from(rings)];
        let (mut now, mut bytes, mut finish) = (Instant::ZERO, 0, Instant::ZERO);
        let mut step = |wire: &mut Wire<(u16, u32)>, to: Instant, left: &mut [u32]| {
            wire.advance(to, |d| {
                assert_eq!(d.frame, (d.ring, left[usize::from(d.ring)]), "seed {seed}");
                left[usize::from(d.ring)] += 1;
                // Units end one after the other, and none is shorter than its time on the line.
                let least = d.meta.wire_len.max(60) + u32::from(d.meta.segs) * 24;
                assert!(
                    d.finish > finish && d.finish.0 - d.start.0 >= u64::from(least),
                    "seed {seed}: {d:?}"
                );
                finish = d.finish;
                bytes += u64::from(least);
            });
            for ring in 0..rings {
                let mut reaped = 0;
                wire.ring(ring).unwrap().reap(&mut |c| reaped += c.packets);
                assert!(u64::from(reaped) <= 40);
            }
        };
        for _ in 0..600 {
            now += Nanos(rng.below(3000));
            step(&mut wire, now, &mut left);
            if rng.below(25) == 0 {
                let line = any_line(&mut rng, rings);
                retired += u64::from(line.rings < wire.scheduler().rings);
                wire.configure_scheduler(&line).unwrap();
            }
            let index = rng.below(rings.into()) as u16;
            let in_use = index < wire.scheduler().rings;
            let mut ring = wire.ring(index).unwrap();
            let room = ring.reserve(1 + rng.below(4) as u32);
            assert!(in_use || room == 0, "seed {seed}");
            for _ in 0..room {
                let m = match rng.below(6) {
                    0 => Meta::new(1600 + rng.below(9_000) as u32).gso(54, 1000),
                    _ => Meta::new(1 + rng.below(1514) as u32),
                };
                ring.push((index, pushed[usize::from(index)]), &m);
                pushed[usize::from(index)] += 1;
            }
            ring.commit().unwrap();
        }
        while let Some(at) = wire.next_event() {
            step(&mut wire, at, &mut left);
        }
        assert_eq!((&left, wire.held().packets, wire.descriptors_used()), (&pushed, 0, 0), "seed {seed}");
        let all = wire.counts();
        let classes = (0..=txweir_core::sched::traffic::CLASSES_MAX).map(|c| wire.class_counts(c));
        let sum = classes.fold((0, 0, 0), |s, c| (s.0 + c.units, s.1 + c.bytes, s.2 + c.busy.0));
        assert_eq!(sum, (all.units, all.bytes, all.busy.0), "seed {seed}");
        // Each interruption costs a preamble, a check sequence and a gap; an interruption
        // between frames of a super-packet costs nothing.
        assert_eq!((all.busy.0 - bytes) % 24, 0, "seed {seed}");
        cuts += (all.busy.0 - bytes) / 24;
        total += all.units;
    }
    assert!(total > 100_000 && cuts > 1000 && retired > 1000, "{total} {cuts} {retired}");
}
