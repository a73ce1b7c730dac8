//! Traffic at the ends of every parameter: a qdisc with one parameter at its least or greatest
//! value gets every sort of packet, at the first and the last years of the clock, and the parameter
//! goes from one end to the other while packets wait. The world checks the laws after every call;
//! debug builds check arithmetic and the bounds of loops.

use txweir_core::base::env::Offload;
use txweir_core::base::link::LinkLayer;
use txweir_core::base::rng::Rng;
use txweir_core::sched::node::Node;
use txweir_core::sched::spec::Spec;
use txweir_core::sched::stab::Stab;
use txweir_core::{Ecn, Env, Handle, Instant, Meta, Nanos, Role};

use crate::ends::{Reader, Setting};
use crate::ops::{Op, queue_of};
use crate::options::build;
use crate::run::finish;
use crate::setup::{Setup, Totals};
use crate::world::{END, World};
use crate::{Law, Violation};

/// Two days before the end of the clock: a run lasts less.
const LATE: Instant = Instant(END.0 - 48 * HOUR);
/// Two days before the last instant: shapers may keep a packet for good there, but nothing panics
/// and no packet is lost.
const BEYOND: Instant = Instant(u64::MAX - 48 * HOUR);
const HOUR: u64 = 3_600_000_000_000;
/// Most bytes of tables of a qdisc: the default of an embedded device, so that the greatest tables
/// are made quickly.
const MEMORY: u64 = 16 << 20;
/// Rounds of overload: 800 ms, many times the targets of the AQMs.
const ROUNDS: u32 = 40;
/// The number of the class that is at its ends, and that of a class beside it.
const CLASSES: [u16; 2] = [1, 2];

/// The ends of a size table: the greatest charge, the least, and an overhead near the greatest.
const STABS: [Stab; 3] = [
    Stab { mpu: u32::MAX, ..NO_STAB },
    Stab { overhead: i32::MIN, ..NO_STAB },
    Stab { overhead: i32::MAX, linklayer: Some(LinkLayer::Atm), ..NO_STAB },
];
const NO_STAB: Stab = Stab { overhead: 0, mpu: 0, linklayer: None, mtu: 0, tsize: 0 };

/// Counts of a check, to show that it put the laws to the test.
#[derive(Clone, Debug, Default)]
pub struct Met {
    /// Parameters at one of their ends, and at two.
    pub ends: u64,
    pub pairs: u64,
    pub worlds: u64,
    pub sent: u64,
    pub dropped: u64,
    pub marked: u64,
    pub changed: u64,
    pub at: u64,
}

impl Met {
    /// Adds the counts of a check.
    pub const fn add(&mut self, more: &Self) {
        self.ends += more.ends;
        self.pairs += more.pairs;
        self.worlds += more.worlds;
        self.sent += more.sent;
        self.dropped += more.dropped;
        self.marked += more.marked;
        self.changed += more.changed;
        self.at += more.at;
    }
    fn met(&mut self, world: &World) {
        let Totals { sent, dropped, marked, changed, classes_changed, at, .. } = world.totals;
        let dropped = dropped.iter().sum();
        let changed = changed + classes_changed;
        self.add(&Self { worlds: 1, sent, dropped, marked, changed, at, ..Self::default() });
    }
}

/// The options of a qdisc, and of the class in it that is tested, if commands make classes; and its
/// size table.
#[derive(Clone, Debug, Default)]
struct Lines {
    stab: Option<Stab>,
    qdisc: Vec<String>,
    class: Vec<String>,
}

/// The part whose parameters are at their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Qdisc,
    Class,
}

impl Lines {
    const fn of(&self, part: Part) -> &Vec<String> {
        match part {
            Part::Qdisc => &self.qdisc,
            Part::Class => &self.class,
        }
    }
    fn with(&self, part: Part, line: Vec<String>) -> Self {
        match part {
            Part::Qdisc => Self { qdisc: line, ..self.clone() },
            Part::Class => Self { class: line, ..self.clone() },
        }
    }
}

/// The kind under test at its ends.
struct Edges {
    spec: &'static Spec,
    env: Env,
    /// Options with which most packets leave.
    usual: Lines,
}

/// Checks a kind with each of its parameters, and each of those of its classes, at each end; and
/// with every `nth` pair of ends.
///
/// # Errors
/// Names the options, the violated law and the observation; or the parameter without ends.
///
/// # Panics
/// Panics if the kind does.
pub fn check(spec: &'static Spec, nth: usize) -> Result<Met, String> {
    let env = Env { queues: 4, memory: MEMORY, offload: Offload::ALL, ..Env::default() };
    let mut edges = Edges { spec, env, usual: Lines::default() };
    edges.choose();
    let mut met = Met::default();
    edges.each(&Reader::of_kind(spec, &env), Part::Qdisc, nth, &mut met)?;
    if let Some(classes) = Reader::of_classes(spec, &env) {
        edges.each(&classes, Part::Class, nth, &mut met)?;
    }
    Ok(met)
}

impl Edges {
    /// Chooses usual options: those with which most packets leave.
    fn choose(&mut self) {
        let sent = |lines: &Lines| {
            let run = self.world(lines, Instant::ZERO).and_then(|mut world| {
                burst(&mut world, 0)?;
                world.run(&Op::Step(HOUR))?;
                world.drain(u32::MAX)?;
                Ok(world.totals.sent)
            });
            run.unwrap_or(0)
        };
        let qdiscs = Reader::of_kind(self.spec, &self.env).lines();
        let classes = Reader::of_classes(self.spec, &self.env).map_or(vec![Vec::new()], |r| r.lines());
        let lines = qdiscs.iter().flat_map(|qdisc| {
            classes.iter().map(|class| Lines { qdisc: qdisc.clone(), class: class.clone(), stab: None })
        });
        self.usual = lines.max_by_key(sent).unwrap_or_default();
    }

    /// Runs every setting of a part's parameters, and each `nth` pair of them.
    fn each(&self, reader: &Reader<'_>, part: Part, nth: usize, met: &mut Met) -> Result<(), String> {
        let settings = reader.settings(self.usual.of(part))?;
        let mut run = |line: Vec<String>, to: &[String], start: Instant, stab: Option<Stab>| {
            let lines = Lines { stab, ..self.usual.with(part, line) };
            match self.run(&lines, part, to, start) {
                Ok(world) => met.met(&world),
                Err(v) if start == BEYOND && matches!(v.law, Law::HonestWake | Law::Liveness) => {}
                Err(v) => {
                    let kind = self.spec.kind;
                    return Err(format!("{kind} {lines:?}, changed to {to:?}, from {start}: {v}"));
                }
            }
            Ok::<(), String>(())
        };
        // A kind without parameters is checked too.
        run(self.usual.of(part).clone(), self.usual.of(part), Instant::ZERO, None)?;
        for (at, setting) in settings.iter().enumerate() {
            // The next end of the same parameter; after the last comes the first.
            let mut ends = settings[at + 1..].iter().chain(&settings).filter(|s| s.key == setting.key);
            let to = ends.next().map_or(Vec::new(), Setting::line);
            for start in [Instant::ZERO, LATE, BEYOND] {
                run(setting.line(), &to, start, None)?;
            }
            run(setting.line(), &to, Instant::ZERO, Some(STABS[at % STABS.len()]))?;
        }
        let others = |(i, a)| settings[i + 1..].iter().map(move |b| (a, b));
        let pairs = settings.iter().enumerate().flat_map(others).filter(|(a, b)| a.key != b.key);
        let lines = pairs.map(|(a, b)| ([a.line(), b.words.clone()].concat(), a.line()));
        let legal: Vec<_> = lines.filter(|(line, _)| reader.read(line).is_ok()).step_by(nth.max(1)).collect();
        for (line, to) in &legal {
            run(line.clone(), to, Instant::ZERO, None)?;
        }
        met.ends += settings.len() as u64;
        met.pairs += legal.len() as u64;
        Ok(())
    }

    /// Returns a world at `start` with these options.
    fn world(&self, lines: &Lines, start: Instant) -> Result<World, Violation> {
        let mut setup = Setup::random(self.spec.kind, &mut Rng::new(0));
        (setup.env, setup.role, setup.pool, setup.slots) = (self.env, Role::Forwarder, 400, 1000);
        (setup.bql, setup.nest, setup.start) = (None, Vec::new(), start);
        let refused = |what: String| Violation { law: Law::Change, what, op: 0 };
        let qdisc = build(self.spec, &lines.qdisc, &self.env)
            .ok_or_else(|| refused(format!("{:?} was read and is refused", lines.qdisc)))?;
        let mut world = World::new(&setup, Node::new(Handle::new(1, 0), qdisc))?;
        if let Some(stab) = lines.stab {
            world.stab_line(stab)?;
        }
        let Some(classes) = self.spec.classes else { return Ok(world) };
        for minor in CLASSES {
            let line = if minor == CLASSES[0] { &lines.class } else { &self.usual.class };
            world.class_line(classes.made, minor, line)?;
        }
        Ok(world)
    }

    /// Runs the traffic, with two changes of the options on the way: to those of another end, and
    /// back.
    fn run(&self, lines: &Lines, part: Part, to: &[String], start: Instant) -> Result<World, Violation> {
        let rounds = if start == Instant::ZERO { ROUNDS } else { 0 };
        let mut world = self.world(lines, start)?;
        let change = |world: &mut World, line: &[String]| match part {
            Part::Qdisc => world.change_line(line),
            Part::Class => world.class_line(false, CLASSES[0], line),
        };
        burst(&mut world, 0)?;
        world.drain(3)?;
        change(&mut world, to)?;
        world.drain(2)?;
        world.run(&Op::Step(1_000_000))?;
        world.drain(u32::MAX)?;
        burst(&mut world, 1)?;
        world.run(&Op::Early(128))?;
        world.run(&Op::Follow(4))?;
        show(&world);
        world.now += Nanos(HOUR);
        world.run(&Op::Finish(1000))?;
        world.reap()?;
        world.drain(5)?;
        change(&mut world, lines.of(part))?;
        burst(&mut world, 2)?;
        world.now += Nanos(10 * HOUR);
        world.drain(u32::MAX)?;
        show(&world);
        overload(&mut world, rounds)?;
        finish(&mut world)?;
        show(&world);
        world.run(&Op::Purge)?;
        Ok(world)
    }
}

/// Submits packets of every sort while the device takes none, then lets it take them.
fn burst(world: &mut World, turn: u32) -> Result<(), Violation> {
    world.run(&Op::Freeze(true))?;
    for n in 0..26_u32 {
        // ARP is no flow of IP: cake has another tin for it.
        let arp = n % 3 == 2;
        let hash = (n % 7 + turn).wrapping_mul(0x9e37_79b9) ^ u32::from(arp) << 16;
        let mut meta = match n {
            0 => Meta::new(0),
            1 => Meta::new(1),
            2..8 => Meta::new(60),
            8..10 => Meta::new(9014),
            10 => Meta::new(65_550).gso(66, 1448),
            11 => Meta::new(3000).gso(54, 1),
            12 => Meta::new(u32::MAX).gso(54, 1),
            13 => Meta::new(u32::MAX / 16).gso(54, 60_000),
            14 => Meta::new(u32::MAX / 16),
            15 => Meta::new(u32::MAX),
            _ => Meta::new(1514),
        };
        meta = meta.hash(hash).ecn(Ecn::from_ds(n as u8)).priority(n % 16);
        meta.protocol = [0x0800, 0x86dd, 0x0806][n as usize % 3];
        meta.tcp_control = n % 6 == 3 && meta.len == 60;
        // A flow has one mark, which may choose its tin.
        (meta.queue, meta.mark) = (queue_of(&meta) % 4, n % 7 * 0x0101_0101);
        if n % 5 < 3 {
            meta.priority = Handle::new(1, [1, 1, 2][n as usize % 5]).0;
        }
        if n == 5 {
            meta = meta.txtime(world.now + Nanos(1_000_000));
        }
        world.run(&Op::Submit { meta, class: 1, burst: 1 + n % 3 })?;
    }
    world.run(&Op::Freeze(false))
}

/// Submits twice as many packets as the device takes, for a time in which an AQM decides.
fn overload(world: &mut World, rounds: u32) -> Result<(), Violation> {
    for n in 0..rounds {
        let mut meta = Meta::new(1000).hash((n % 3).wrapping_mul(0x9e37_79b9)).ecn(Ecn::from_ds(n as u8));
        (meta.queue, meta.priority) = (queue_of(&meta) % 4, Handle::new(1, CLASSES[0]).0);
        world.run(&Op::Freeze(true))?;
        world.run(&Op::Submit { meta, class: 1, burst: 2 })?;
        world.run(&Op::Freeze(false))?;
        world.now += Nanos(20_000_000);
        world.drain(1)?;
        world.dev.finish(usize::MAX);
        world.reap()?;
    }
    Ok(())
}

/// Shows all that a command shows.
fn show(world: &World) {
    let mut sum = 0_u64;
    let mut note = |n: u64| sum = sum.wrapping_add(n);
    world.path.tree().visit(&mut |_, node| {
        let qdisc = node.qdisc();
        qdisc.counters(&mut |_, n| note(n));
        qdisc.parts(&mut |_, _, n| note(n));
        qdisc.flows(&world.path.cx().pool, &mut |_| note(1));
        if let Some(classes) = qdisc.user_classes() {
            classes.list(&mut |class| note(class.sent.packets));
        }
    });
    std::hint::black_box(sum);
}
