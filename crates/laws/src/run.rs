//! Whole runs: a kind, a seed, a verdict. Each law that compares two runs has a function.

use txweir_core::base::rng::Rng;
use txweir_core::qdisc::KINDS;
use txweir_core::sched::node::Node;
use txweir_core::sched::spec::Spec;
use txweir_core::{Handle, Meta, Wake};

use crate::ops::{Op, Scope, Swarm, queue_of};
use crate::options::{build, chance, illegal, legal, pick, printed, shown};
use crate::setup::{Setup, Totals};
use crate::world::{END, Mode, World};
use crate::{Law, Violation};

/// All inputs of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub spec: &'static Spec,
    pub words: Vec<String>,
    pub setup: Setup,
    pub ops: Vec<Op>,
}

impl Plan {
    /// Returns the plan of a seed.
    pub fn new(spec: &'static Spec, seed: u64, scope: Scope, ops: usize) -> Self {
        let mut rng = Rng::new(seed);
        let mut setup = Setup::random(spec.kind, &mut rng);
        // At random the kind is not the root, but stands below a kind that has classes.
        let classful: Vec<_> = KINDS.iter().filter(|k| k.shape.is_classful()).collect();
        let registered = KINDS.iter().any(|k| k.kind == spec.kind);
        let below = registered && scope == Scope::All && !spec.root_only && chance(&mut rng, 1, 3);
        let spec = if below { **pick(&mut rng, &classful) } else { spec };
        if below {
            setup.nest.push(Op::Graft { place: rng.next_u64() as u32, seed: rng.next_u64() });
        }
        // A kind whose classes are made by commands is of no use without a class.
        let made = |s: &Spec| s.classes.is_some_and(|c| c.made);
        if made(spec) || below && KINDS.iter().any(|k| k.kind == setup.kind && made(k)) {
            let ops = (0..2 + rng.below(12))
                .map(|_| Op::Class { place: rng.next_u64() as u32, seed: rng.next_u64() });
            let ops: Vec<Op> = ops.collect();
            // The classes are made before the graft too, so that it finds one.
            setup.nest.splice(0..0, ops.iter().cloned());
            setup.nest.extend(ops);
        }
        let words = legal(spec, &setup.env, &mut rng);
        let swarm = Swarm::new(&mut rng, scope);
        let ops = (0..ops).map(|_| swarm.op(&mut rng)).collect();
        Self { spec, words, setup, ops }
    }

    /// Returns a world as planned, before the operations.
    pub fn world(&self) -> Result<World, Violation> {
        self.world_from(&self.words)
    }

    fn world_from(&self, words: &[String]) -> Result<World, Violation> {
        let qdisc = build(self.spec, words, &self.setup.env)
            .unwrap_or_else(|| panic!("{} refuses {words:?}, which it took before", self.spec.kind));
        World::new(&self.setup, Node::new(Handle::new(1, 0), qdisc))
    }

    /// Runs the plan.
    pub fn run(&self) -> Result<World, Violation> {
        let mut world = self.world()?;
        world.run_all(&self.ops)?;
        finish(&mut world)?;
        Ok(world)
    }

    /// Returns the plan without the operations that the violation does not need: those after it,
    /// then halves, quarters and so on that can be left out (delta debugging, Zeller 2002).
    pub fn cut_down(&self, law: Law) -> Self {
        let fails = |ops: &[Op]| {
            let plan = Self { ops: ops.to_vec(), ..self.clone() };
            matches!(plan.run(), Err(v) if v.law == law)
        };
        let mut ops = self.ops.clone();
        let mut size = ops.len();
        while size > 0 {
            let mut at = 0;
            while at < ops.len() {
                let mut fewer = ops.clone();
                fewer.drain(at..(at + size).min(ops.len()));
                if fails(&fewer) {
                    ops = fewer;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        Self { ops, ..self.clone() }
    }
}

/// Lets every packet out: a waiting packet leaves in bounded time once no obstacle remains.
pub(crate) fn finish(world: &mut World) -> Result<(), Violation> {
    world.path.tx_mut().thaw();
    (0..64).for_each(|queue| world.path.stopped_queues().remove(queue));
    world.checker.input();
    world.dev.slots = 1000;
    // Each round either sends a packet or advances to the next named instant; a shaper may need a
    // round per packet and level.
    for _ in 0..40_000 {
        world.dev.finish(usize::MAX);
        world.reap()?;
        match world.ask(u32::MAX)? {
            Wake::Idle => return Ok(()),
            Wake::At(t, _) if t < END => world.now = t,
            Wake::At(..) => return Ok(()),
            Wake::Device | Wake::More => {}
        }
    }
    world.fail(Law::Liveness, format!("{:?} still wait without an obstacle", world.path.backlog()))
}

/// Checks laws 1 to 8, 13, 18 and 20 after every call, and law 10 by running twice.
pub fn swarm(spec: &'static Spec, seed: u64, ops: usize) -> Result<Totals, (Violation, Plan)> {
    let plan = Plan::new(spec, seed, Scope::All, ops);
    let again = Plan::new(spec, seed, Scope::All, ops);
    let verdict = plan.run().and_then(|first| {
        let second = again.run()?;
        let trace = |w: &World| (w.path.cx().trace.digest(), w.path.cx().trace.total());
        if trace(&first) != trace(&second) || first.seen != second.seen || first.answers != second.answers {
            return first.fail(Law::Determinism, "the same seed gave another run");
        }
        let mut totals = first.totals.clone();
        totals.stops = first.path.stats().stop_drv + first.path.stats().stop_stack;
        totals.wakes = first.path.stats().tx_wake;
        Ok(totals)
    });
    verdict.map_err(|v| (v, plan))
}

/// Checks law 6: after a purge the qdisc behaves like a fresh one.
pub fn purged_is_fresh(spec: &'static Spec, seed: u64, ops: usize) -> Result<(), Violation> {
    let mut plan = Plan::new(spec, seed, Scope::Traffic, ops);
    // The byte limit's state does not belong to the qdiscs.
    plan.setup.bql = None;
    let mut rng = Rng::new(seed);
    let (before, after) = plan.ops.split_at(ops / 2);
    // A standing queue gives an AQM some state, and a second standing queue shows the effect of
    // that state.
    let stand = standing(&mut rng);
    let (before, after) = ([before, &stand].concat(), [&stand, after].concat());
    let mut used = plan.world()?;
    used.run_all(&before)?;
    used.path.tx_mut().thaw();
    used.dev.reset();
    used.path.tx_mut().device_reset(used.now);
    used.dev.slots = plan.setup.slots;
    used.run(&Op::Purge)?;
    used.drain(u32::MAX)?;
    used.run(&Op::TakeWake)?;
    let mut fresh = plan.world()?;
    if used.path.cx().rng != fresh.path.cx().rng {
        // The kind draws random numbers: the generator continues at its state, so the runs differ
        // by design.
        return Ok(());
    }
    fresh.now = used.now;
    fresh.frames = used.frames.clone();
    fresh.drain(u32::MAX)?;
    let (seen, answers) = (used.seen.len(), used.answers.len());
    let fresh_answers = fresh.answers.len();
    used.run_all(&after)?;
    fresh.run_all(&after)?;
    let seen = first_difference(&used.seen[seen..], &fresh.seen);
    let answers = first_difference(&used.answers[answers..], &fresh.answers[fresh_answers..]);
    match seen.or(answers) {
        None => Ok(()),
        Some(d) => used.fail(Law::Reset, format!("purged and fresh differ: {d}")),
    }
}

/// Returns operations in which more packets come than leave, for a time, from a few flows.
fn standing(rng: &mut Rng) -> Vec<Op> {
    let (step, flows) = (1 << (20 + rng.below(6)), 1 + rng.below(3) as u32);
    let round = |i: u32| {
        let mut meta = Meta::new(1000).hash((i % flows).wrapping_mul(0x9e37_79b9));
        meta.queue = queue_of(&meta);
        [
            Op::Slots(1000),
            // Direct dispatch is off; otherwise no queue would stand.
            Op::Freeze(true),
            Op::Submit { meta, class: 1, burst: 3 },
            Op::Freeze(false),
            Op::Drain(2),
            Op::Finish(1000),
            Op::Reap,
            Op::Step(step),
        ]
    };
    (0..150).flat_map(round).collect()
}

/// Checks laws 8 and 9: a qdisc made from printed options, or from the printed defaults, behaves
/// the same.
pub fn printed_is_used(spec: &'static Spec, seed: u64, ops: usize) -> Result<(), Violation> {
    let mut plan = Plan::new(spec, seed, Scope::Traffic, ops);
    let env = plan.setup.env;
    let default = seed.is_multiple_of(2) && build(spec, &[], &env).is_some();
    if default {
        plan.words.clear();
    }
    plan.ops.extend(standing(&mut Rng::new(seed)));
    let law = if default { Law::Defaults } else { Law::RoundTrip };
    let broken = |what: String| Err(Violation { law, what, op: 0 });
    let Some(original) = build(spec, &plan.words, &env) else { return broken("refused".into()) };
    let words = printed(&*original);
    let Some(copy) = build(spec, &words, &env) else { return broken(format!("{words:?} is refused")) };
    if shown(&*original) != shown(&*copy) {
        return broken(format!("{words:?} shows {:?}, it was {:?}", shown(&*copy), shown(&*original)));
    }
    let (mut a, mut b) = (plan.world()?, plan.world_from(&words)?);
    a.run_all(&plan.ops)?;
    b.run_all(&plan.ops)?;
    match first_difference(&a.seen, &b.seen).or(first_difference(&a.answers, &b.answers)) {
        None => Ok(()),
        Some(d) => broken(format!("made from {words:?}, it behaves otherwise: {d}")),
    }
}

/// Checks law 11, direct dispatch against enqueue-then-dequeue: order, times, marks, sizes, answers
/// and root books. Returns the number of packets that were sent directly.
pub fn direct_is_queued(spec: &'static Spec, seed: u64, ops: usize) -> Result<u64, Violation> {
    let mut plan = Plan::new(spec, seed, Scope::Traffic, ops);
    plan.ops.retain(|op| !matches!(op, Op::Freeze(_)));
    let (mut direct, mut queued) = (plan.world()?, plan.world()?);
    (direct.mode, queued.mode) = (Mode::Direct, Mode::Queued);
    for op in &plan.ops {
        direct.run(op)?;
        queued.run(op)?;
        let books = |w: &World| w.path.tree().root().books();
        if books(&direct) != books(&queued) {
            let what = format!("books: direct {:?}, queued {:?}", books(&direct), books(&queued));
            return direct.fail(Law::Direct, what);
        }
    }
    if queued.totals.direct > 0 {
        return queued.fail(Law::Direct, "a frozen queue sent a packet");
    }
    let d =
        first_difference(&direct.seen, &queued.seen).or(first_difference(&direct.answers, &queued.answers));
    match d {
        None => Ok(direct.totals.direct),
        Some(d) => direct.fail(Law::Direct, format!("direct and queued differ: {d}")),
    }
}

/// Checks law 7, without traffic: this kind refuses words that no kind accepts, at creation and as
/// a change.
pub fn refuses(spec: &'static Spec, seed: u64) -> Result<(), Violation> {
    let plan = Plan::new(spec, seed, Scope::All, 0);
    let words = illegal(spec, &plan.setup.env, &mut Rng::new(seed));
    match build(spec, &words, &plan.setup.env) {
        None => Ok(()),
        Some(_) => Err(Violation { law: Law::Change, what: format!("{words:?} was taken"), op: 0 }),
    }
}

/// Returns the first difference of two lists, in words; `None` if they are equal.
pub fn first_difference<T: PartialEq + std::fmt::Debug>(a: &[T], b: &[T]) -> Option<String> {
    let at = a.iter().zip(b).position(|(x, y)| x != y);
    match at {
        Some(i) => Some(format!("number {i}: {:?} against {:?}", a[i], b[i])),
        None if a.len() != b.len() => {
            let (longer, n) = if a.len() > b.len() { (a, b.len()) } else { (b, a.len()) };
            Some(format!("{} against {}, first extra {:?}", a.len(), b.len(), longer[n]))
        }
        None => None,
    }
}
