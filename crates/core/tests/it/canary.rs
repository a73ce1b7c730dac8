//! The canaries: for each law a discipline with a planted bug, which that law must detect. A law
//! that cannot fail proves nothing.
//!
//! All canaries are the same FIFO with one defect each.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common;
use crate::common::Law;
use crate::common::edges::check;
use crate::common::ops::Scope;
use crate::common::run::{Plan, direct_is_queued, printed_is_used, purged_is_fresh, swarm};
use txweir_core::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use txweir_core::packet::route::Candidate;
use txweir_core::qdisc::fifo::NoStats;
use txweir_core::sched::cx::Cx;
use txweir_core::sched::spec::{Flags, Spec};
use txweir_core::sched::{
    answer::{Next, Verdict},
    discipline::Discipline,
};
use txweir_core::text::params::{Param, Params, SetOutcome, Shown};
use txweir_core::text::value::{Show, Value, Words};
use txweir_core::{ClassId, ConfigError, DropReason, Env, MarkReason, Nanos, Packets, WakeReason};

/// The possible defects of a FIFO; the default has none.
trait Bug: Send + Sync + Debug + Sized + 'static {
    const KIND: &'static str;
    const SHAPES: bool = false;
    fn resolve(_cfg: &mut Limit, _first: bool) {}
    fn limit(cfg: &Limit) -> u32 {
        cfg.limit.0
    }
    fn enqueue(q: &mut Bugged<Self>, p: Pkt, cx: &mut Cx) {
        q.put(p, cx);
    }
    fn dequeue(q: &mut Bugged<Self>, cx: &mut Cx) -> Next {
        q.pop(cx)
    }
    fn evict_all(q: &mut Bugged<Self>, out: &mut List, pool: &mut Pool) {
        q.hand_out(out, pool);
    }
    fn queued(q: &Bugged<Self>, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        q.queue.waiting(pool).chain(q.aside.waiting(pool)).for_each(f);
    }
    fn reset(q: &mut Bugged<Self>) {
        q.count = 0;
    }
    fn change(q: &mut Bugged<Self>, cfg: &Limit, cx: &mut Cx) {
        q.obey(cfg, cx);
    }
    fn transparent(q: &Bugged<Self>) -> bool {
        q.limit > 0
    }
    fn show(limit: &Packets, f: &mut dyn FnMut(Shown<'_>)) {
        f(Shown { param: LIMIT, word: Some("limit"), value: limit });
    }
}

type ShowLimit = fn(&Packets, &mut dyn FnMut(Shown<'_>));

/// The parameter of all canaries, declared by hand so that it can be shown wrongly.
#[derive(Clone, Debug)]
struct Limit {
    limit: Packets,
    /// True if it was set, and is not the default.
    given: bool,
    show: ShowLimit,
}

impl PartialEq for Limit {
    fn eq(&self, other: &Self) -> bool {
        self.limit == other.limit
    }
}

const LIMIT: &Param = &Param {
    key: "limit",
    words: &["limit"],
    alone: &[],
    flag: false,
    about: "Most packets that wait.",
    expected: Packets::EXPECTED,
    quantity: Packets::QUANTITY,
    range: "",
    default: "Packets(20)",
    attribute: None,
};

fn honest(limit: &Packets, f: &mut dyn FnMut(Shown<'_>)) {
    f(Shown { param: LIMIT, word: Some("limit"), value: limit });
}

impl Params for Limit {
    const TABLE: &'static [Param] = std::slice::from_ref(LIMIT);
    fn defaults(_env: &Env) -> Self {
        Self { limit: Packets(20), given: false, show: honest }
    }
    fn set(&mut self, key: &str, words: &mut Words<'_>) -> SetOutcome {
        match (key, Packets::take(words)) {
            ("limit", Ok(limit)) => {
                (self.limit, self.given) = (limit, true);
                SetOutcome::Set
            }
            ("limit", Err(refusal)) => SetOutcome::BadValue(LIMIT, refusal),
            _ => SetOutcome::UnknownKey,
        }
    }
    fn visit(&self, f: &mut dyn FnMut(Shown<'_>)) {
        (self.show)(&self.limit, f);
    }
}

/// A FIFO with a defect.
#[derive(Debug)]
struct Bugged<B> {
    queue: Queue,
    aside: List,
    limit: u32,
    count: u64,
    bug: PhantomData<B>,
}

impl<B> Bugged<B> {
    fn put(&mut self, p: Pkt, cx: &mut Cx) {
        if self.queue.packets() < self.limit {
            self.queue.push_back(&mut cx.pool, p);
        } else {
            cx.drop(p, DropReason::Overlimit);
        }
    }
    fn pop(&mut self, cx: &mut Cx) -> Next {
        self.queue.pop_front(&cx.pool).map_or(Next::Empty, Next::Packet)
    }
    fn hand_out(&mut self, out: &mut List, pool: &mut Pool) {
        self.queue.evict_all(out, pool);
        out.append(pool, &mut self.aside);
    }
    fn obey(&mut self, cfg: &Limit, cx: &mut Cx) {
        self.limit = cfg.limit.0;
        while self.queue.packets() > self.limit {
            let Some(p) = self.queue.pop_front(&cx.pool) else { return };
            cx.drop(p, DropReason::Purged);
        }
    }
}

impl<B: Bug> Discipline for Bugged<B> {
    const KIND: &'static str = B::KIND;
    const ABOUT: &'static str = "A FIFO with a bug.";
    const FLAGS: Flags = Flags { shapes: B::SHAPES, reorders: false };
    type Config = Limit;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(cfg: &mut Limit, old: Option<&Limit>, _env: &Env) -> Result<(), ConfigError> {
        cfg.show = B::show;
        B::resolve(cfg, old.is_none());
        Ok(())
    }
    fn new(cfg: &Limit, (): (), _env: &Env) -> Self {
        let (queue, aside) = (Queue::new(), List::new());
        Self { queue, aside, limit: B::limit(cfg), count: 0, bug: PhantomData }
    }
    fn change(&mut self, cfg: &Limit, (): (), _env: &Env, cx: &mut Cx) {
        B::change(self, cfg, cx);
    }
    fn would_accept(&self, _m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        if self.queue.packets() < self.limit { Verdict::Accept } else { Verdict::Full }
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        B::enqueue(self, p, cx);
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        B::dequeue(self, cx)
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        B::evict_all(self, out, pool);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        B::queued(self, pool, f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        B::reset(self);
    }
    fn transparent(&self, _wire_len: u32) -> bool {
        B::transparent(self)
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

/// Declares a bug: its name and its differences.
macro_rules! bug {
    ($name:ident { $($item:item)* }) => {
        #[derive(Debug)]
        struct $name;
        impl Bug for $name {
            const KIND: &'static str = stringify!($name);
            $($item)*
        }
    };
}

bug!(Faultless {});

bug!(LosesOne {
    fn enqueue(q: &mut Bugged<Self>, p: Pkt, cx: &mut Cx) {
        q.count += 1;
        if q.count.is_multiple_of(10) {
            std::mem::forget(p);
        } else {
            q.put(p, cx);
        }
    }
});

bug!(FreesBehindTheBooks {
    fn enqueue(q: &mut Bugged<Self>, p: Pkt, cx: &mut Cx) {
        q.count += 1;
        if q.count.is_multiple_of(10) {
            cx.pool.free(p);
        } else {
            q.put(p, cx);
        }
    }
});

bug!(SwapsTwo {
    fn dequeue(q: &mut Bugged<Self>, cx: &mut Cx) -> Next {
        let first = q.pop(cx);
        match first {
            Next::Packet(first) if q.queue.packets() > 5 => {
                let second = q.pop(cx);
                q.queue.push_back(&mut cx.pool, first);
                second
            }
            other => other,
        }
    }
});

bug!(SaysEmptyWithBacklog {
    fn dequeue(q: &mut Bugged<Self>, cx: &mut Cx) -> Next {
        q.count += 1;
        if q.count.is_multiple_of(7) { Next::Empty } else { q.pop(cx) }
    }
});

bug!(ShapesWithoutSayingSo {
    fn dequeue(q: &mut Bugged<Self>, cx: &mut Cx) -> Next {
        if (cx.now.0 / 1000).is_multiple_of(2) && !q.queue.is_empty() {
            return Next::At(cx.now + Nanos(1000), WakeReason::Tokens);
        }
        q.pop(cx)
    }
});

bug!(SendsBeforeItSaid {
    const SHAPES: bool = true;
    fn dequeue(q: &mut Bugged<Self>, cx: &mut Cx) -> Next {
        q.count += 1;
        if q.count.is_multiple_of(2) && !q.queue.is_empty() {
            return Next::At(cx.now + Nanos(1_000_000), WakeReason::Tokens);
        }
        q.pop(cx)
    }
});

bug!(AlwaysLater {
    const SHAPES: bool = true;
    fn dequeue(q: &mut Bugged<Self>, cx: &mut Cx) -> Next {
        if q.queue.is_empty() { q.pop(cx) } else { Next::At(cx.now + Nanos(1000), WakeReason::Tokens) }
    }
});

bug!(WakesInThePast {
    const SHAPES: bool = true;
    fn dequeue(q: &mut Bugged<Self>, cx: &mut Cx) -> Next {
        q.count += 1;
        if q.count.is_multiple_of(3) && !q.queue.is_empty() {
            return Next::At(cx.now, WakeReason::Tokens);
        }
        q.pop(cx)
    }
});

bug!(TakesOneTooMany {
    fn limit(cfg: &Limit) -> u32 {
        cfg.limit.0 + 1
    }
});

bug!(IgnoresAShrunkLimit {
    fn change(q: &mut Bugged<Self>, cfg: &Limit, _cx: &mut Cx) {
        q.limit = cfg.limit.0;
    }
});

bug!(KeepsOneOverAPurge {
    fn evict_all(q: &mut Bugged<Self>, out: &mut List, pool: &mut Pool) {
        if let Some(p) = q.queue.pop_front(pool) {
            q.hand_out(out, pool);
            q.queue.push_back(pool, p);
        }
    }
});

bug!(RemembersOverAPurge {
    fn enqueue(q: &mut Bugged<Self>, p: Pkt, cx: &mut Cx) {
        q.count += 1;
        if q.count.is_multiple_of(50) { cx.drop(p, DropReason::Congested) } else { q.put(p, cx) }
    }
    fn reset(_q: &mut Bugged<Self>) {}
    fn transparent(_: &Bugged<Self>) -> bool {
        false
    }
});

bug!(HidesTheNewest {
    fn queued(q: &Bugged<Self>, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        q.queue.waiting(pool).take(9).for_each(f);
    }
});

bug!(ShowsAnotherLimit {
    fn show(limit: &Packets, f: &mut dyn FnMut(Shown<'_>)) {
        f(Shown { param: LIMIT, word: Some("limit"), value: &Packets(limit.0 / 2) });
    }
});

/// A value that text shows exactly, and JSON shows wrongly.
#[derive(Debug)]
struct Torn(Packets);

impl Show for Torn {
    fn text(&self, f: &mut dyn std::fmt::Write) -> std::fmt::Result {
        self.0.text(f)
    }
    fn json(&self) -> txweir_core::text::value::Json {
        txweir_core::text::value::Json::Uint(u64::from(self.0.0) + 1)
    }
}

bug!(TellsJsonOtherwise {
    fn show(limit: &Packets, f: &mut dyn FnMut(Shown<'_>)) {
        f(Shown { param: LIMIT, word: Some("limit"), value: &Torn(*limit) });
    }
});

bug!(UsesAnotherDefault {
    fn limit(cfg: &Limit) -> u32 {
        if cfg.given { cfg.limit.0 } else { 3 }
    }
});

bug!(DependsOnWhatRanBefore {
    fn enqueue(q: &mut Bugged<Self>, p: Pkt, cx: &mut Cx) {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(97) {
            cx.drop(p, DropReason::Congested);
        } else {
            q.put(p, cx);
        }
    }
});

bug!(MarksWhatItSees {
    fn dequeue(q: &mut Bugged<Self>, cx: &mut Cx) -> Next {
        let next = q.pop(cx);
        if let Next::Packet(p) = &next {
            cx.mark(p, MarkReason::Congested);
        }
        next
    }
});

bug!(DropsWhatItWouldAccept {
    fn enqueue(q: &mut Bugged<Self>, p: Pkt, cx: &mut Cx) {
        if q.queue.packets() + 1 < q.limit { q.put(p, cx) } else { cx.drop(p, DropReason::Overlimit) }
    }
});

bug!(LosesAtTheGreatestLimit {
    fn enqueue(q: &mut Bugged<Self>, p: Pkt, cx: &mut Cx) {
        q.count += 1;
        if q.limit == u32::MAX && q.count.is_multiple_of(10) { cx.pool.free(p) } else { q.put(p, cx) }
    }
});

bug!(TakesOneWithoutALimit {
    fn limit(cfg: &Limit) -> u32 {
        cfg.limit.0.max(1)
    }
});

bug!(ForgetsAChangeFromTheGreatest {
    fn change(q: &mut Bugged<Self>, cfg: &Limit, cx: &mut Cx) {
        if q.limit == u32::MAX { q.limit = cfg.limit.0 } else { q.obey(cfg, cx) }
    }
});

/// Returns the spec of a FIFO with that bug.
fn spec<B: Bug>() -> &'static Spec {
    Box::leak(Box::new(Spec::of::<Bugged<B>>()))
}

/// Returns the laws that the swarm finds broken in 30 runs.
fn swarm_finds<B: Bug>() -> Vec<Law> {
    let spec = spec::<B>();
    let mut laws: Vec<Law> =
        (0..30).filter_map(|seed| swarm(spec, seed, 200).err()).map(|(v, _)| v.law).collect();
    laws.sort_unstable();
    laws.dedup();
    laws
}

/// Returns the laws that 30 runs of one of the comparisons find broken.
fn finds<B: Bug, T>(law: fn(&'static Spec, u64, usize) -> Result<T, common::Violation>) -> Vec<Law> {
    let spec = spec::<B>();
    let mut laws: Vec<Law> = (0..30).filter_map(|seed| law(spec, seed, 200).err()).map(|v| v.law).collect();
    laws.sort_unstable();
    laws.dedup();
    laws
}

#[test]
fn a_fifo_without_a_bug_breaks_nothing() {
    assert_eq!(swarm_finds::<Faultless>(), []);
    assert_eq!(finds::<Faultless, _>(purged_is_fresh), []);
    assert_eq!(finds::<Faultless, _>(printed_is_used), []);
    assert_eq!(finds::<Faultless, _>(direct_is_queued), []);
}

#[test]
fn the_swarm_cries_out() {
    type Case = (fn() -> Vec<Law>, Law);
    let cases: [Case; 16] = [
        (swarm_finds::<LosesOne>, Law::Conservation),
        (swarm_finds::<FreesBehindTheBooks>, Law::Conservation),
        (swarm_finds::<SwapsTwo>, Law::Order),
        (swarm_finds::<SaysEmptyWithBacklog>, Law::WorkConservation),
        (swarm_finds::<ShapesWithoutSayingSo>, Law::WorkConservation),
        (swarm_finds::<SendsBeforeItSaid>, Law::HonestWake),
        (swarm_finds::<AlwaysLater>, Law::HonestWake),
        (swarm_finds::<WakesInThePast>, Law::HonestWake),
        (swarm_finds::<TakesOneTooMany>, Law::Bounds),
        (swarm_finds::<IgnoresAShrunkLimit>, Law::Bounds),
        (swarm_finds::<HidesTheNewest>, Law::Conservation),
        (swarm_finds::<KeepsOneOverAPurge>, Law::Reset),
        (swarm_finds::<ShowsAnotherLimit>, Law::RoundTrip),
        (swarm_finds::<TellsJsonOtherwise>, Law::RoundTrip),
        (swarm_finds::<DependsOnWhatRanBefore>, Law::Determinism),
        (swarm_finds::<DropsWhatItWouldAccept>, Law::Bounds),
    ];
    for (i, (run, law)) in cases.into_iter().enumerate() {
        let found = run();
        assert!(found.contains(&law), "case {i}: {law:?} was planted, {found:?} was found");
    }
}

#[test]
fn the_comparisons_cry_out() {
    assert_eq!(finds::<RemembersOverAPurge, _>(purged_is_fresh), [Law::Reset]);
    assert!(finds::<ShowsAnotherLimit, _>(printed_is_used).contains(&Law::RoundTrip));
    let found = finds::<UsesAnotherDefault, _>(printed_is_used);
    assert!(found.contains(&Law::Defaults), "{found:?}");
    assert_eq!(finds::<MarksWhatItSees, _>(direct_is_queued), [Law::Direct]);
}

/// Bugs at the ends of the limit: the swarm draws limits up to 2000, and cannot find two of them.
#[test]
fn the_ends_cry_out() {
    let found = |spec: &'static Spec| check(spec, 1).map(|_| ()).unwrap_err();
    check(spec::<Faultless>(), 1).unwrap();
    for (spec, law) in [
        (spec::<LosesAtTheGreatestLimit>(), Law::Conservation),
        (spec::<TakesOneWithoutALimit>(), Law::Bounds),
        (spec::<ForgetsAChangeFromTheGreatest>(), Law::Bounds),
    ] {
        let found = found(spec);
        assert!(found.contains(&format!("{law:?}")), "{law:?} was planted, {found}");
    }
    assert_eq!(swarm_finds::<LosesAtTheGreatestLimit>(), []);
    assert_eq!(swarm_finds::<ForgetsAChangeFromTheGreatest>(), []);
}

#[test]
fn a_failure_is_cut_down_to_what_it_needs() {
    let spec = spec::<SwapsTwo>();
    let (violation, plan) = (0..30).find_map(|seed| swarm(spec, seed, 200).err()).unwrap();
    let small = plan.cut_down(violation.law);
    assert!(small.ops.len() * 4 < plan.ops.len(), "{} of {}", small.ops.len(), plan.ops.len());
    assert_eq!(small.run().map(|_| ()).unwrap_err().law, violation.law);
    assert_eq!(Plan::new(spec, 1, Scope::All, 50).ops, Plan::new(spec, 1, Scope::All, 50).ops);
}
