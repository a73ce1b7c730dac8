//! drr: classes made by commands, served in turn, each up to its quantum of bytes a round
//! (tc-drr(8); Shreedhar & Varghese, "Efficient Fair Queueing using Deficit Round Robin", SIGCOMM
//! 1995).
//!
//! Packets that name no class are dropped. O(1) per packet as long as quanta cover packets; memory
//! per class is its qdisc and 16 bytes of the round, and two bytes for each minor number up to the
//! greatest.
//!
//! - I1: a class is in the round from its first packet until it has none, and gets its turns while
//!   it is.
//! - I2: over any time in which two classes are never empty, bytes sent divided by quanta differ by
//!   at most one packet and one quantum each.
//! - Differs from Linux (PARITY.md: drr-silent-child, class-number, class-order): a class whose
//!   qdisc turns out to be empty when it is asked loses its turn, and the next is served at once.

use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::units::Bytes;
use crate::law::deficit::Round;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::DropReason;
use crate::packet::route::Candidate;
use crate::packet::scouts::{AHEAD, Scouts};
use crate::qdisc::fifo::NoStats;
use crate::qdisc::slots::Slots;
use crate::qdisc::turns::{quantum_in_range, take_turn, ways_out};
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes, MadeClasses};
use crate::sched::classful::{ClassAt, ClassShown, Classful};
use crate::sched::cx::Cx;
use crate::sched::discipline::{Discipline, Filtered};
use crate::sched::node::Passed;
use crate::sched::spec::{ClassShape, Flags, Style};
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::stats::{Counter, Unit};

crate::params! {
    /// Parameters of drr: it has none; its classes have them.
    pub struct Config(env) {}
}

crate::params! {
    /// Parameters of a class of drr.
    pub struct ClassConfig(env) {
        /// Bytes that the class may send in one round; at least one full frame saves turns. Below
        /// 256 it counts as 256, above 1 MiB as 1 MiB.
        quantum: Bytes = Bytes(env.frame_max().into()), keys ["quantum"] @ u32 1, "1 to 4294967295 bytes": in_u32;
    }
}

fn in_u32(b: &Bytes) -> bool {
    (1..=u64::from(u32::MAX)).contains(&b.0)
}

/// Deficit round robin among classes.
#[derive(Debug, Default)]
pub(crate) struct Drr {
    slots: Slots<ClassConfig>,
    round: Round,
    scouts: Scouts,
}

impl Discipline for Drr {
    const KIND: &'static str = "drr";
    const ABOUT: &'static str = "Classes that take turns, each by its quantum of bytes.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const SHAPE: ClassShape = ClassShape::Made;
    const STYLE: Style = Style::BLANK;
    const FILTERS: Filtered = Filtered::Qdisc;
    const MADE: Option<MadeClasses<Self>> = Some(MadeClasses::of());
    const CLASSES: Option<Capability<Self, dyn Classes>> =
        Some(Capability { of: |drr| &drr.slots, of_mut: |drr| &mut drr.slots });
    type Config = Config;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(_cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        Ok(())
    }
    fn new(_cfg: &Config, (): (), _env: &Env) -> Self {
        Self::default()
    }
    fn change(&mut self, _cfg: &Config, (): (), _env: &Env, _cx: &mut Cx) {}
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict {
        match self.slots.named(class) {
            Some(i) => self.slots.classes[i].node.would_accept(m),
            None => Verdict::Full,
        }
    }
    #[inline(always)]
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let Some(i) = self.slots.named(class) else { return cx.drop(p, DropReason::NoClass) };
        let node = &mut self.slots.classes[i].node;
        let first = node.is_empty();
        node.enqueue(p, cx);
        if first && !node.is_empty() {
            self.round.join(i);
        }
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        if Scouts::are_worth(self.slots.classes.len(), &cx.pool) {
            self.scout(&mut cx.pool);
        }
        take_turn(&mut self.round, &mut self.slots.classes, cx)
    }
    fn evict_all(&mut self, _out: &mut List, _pool: &mut Pool) {
        // The caller of `evict_all` empties the classes next.
        self.round.clear();
    }
    fn queued(&self, _pool: &Pool, _f: &mut dyn FnMut(Waiting<'_>)) {}
    fn reset(&mut self, _cx: &mut Cx) {
        self.round.clear();
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Drr {
    /// Asks for the memory of packets that leave after that of the class in turn.
    #[inline(never)]
    fn scout(&mut self, pool: &mut Pool) {
        let Self { slots, round, scouts } = self;
        // There are fewer classes than minor numbers.
        let in_turn = |turns| round.ahead(turns).map(|i| i as u32);
        if let Some(served) = in_turn(0) {
            scouts.go_on(served, || in_turn(AHEAD), ways_out(&slots.classes), pool);
        }
    }
}

impl Classful for Drr {
    type Class = ClassConfig;
    const CLASS_SELECTS: bool = false;
    const COUNTERS: &'static [Counter] =
        &[Counter::new("deficit", "Bytes that the class may still send in this round.")
            .falls()
            .of(Unit::Bytes)];

    fn resolve_class(
        &self,
        class: Object,
        _at: ClassAt,
        cfg: &mut ClassConfig,
        old: Option<&ClassConfig>,
        _env: &Env,
    ) -> Result<(), ConfigError> {
        if old.is_none() && self.slots.is_full(Round::MEMBERS_MAX) {
            let expected = alloc::format!("at most {} classes", Round::MEMBERS_MAX);
            return Err(ConfigError::new(ErrorKind::OutOfRange, class, expected, "one more"));
        }
        cfg.quantum = Bytes(quantum(cfg).into());
        Ok(())
    }
    fn add_class(&mut self, at: ClassAt, cfg: ClassConfig, env: &Env, _cx: &mut Cx) {
        let (known, quantum) = (self.slots.classes.len(), quantum(&cfg));
        let slot = self.slots.add(at.minor, cfg, env);
        if slot == known {
            self.round.add(0);
        }
        self.round.set_quantum(slot, quantum);
    }
    fn change_class(&mut self, minor: u16, cfg: ClassConfig, _env: &Env, _cx: &mut Cx) {
        if let Some(slot) = self.slots.of(minor) {
            self.round.set_quantum(slot, quantum(&cfg));
            self.slots.configs[slot] = cfg;
        }
    }
    fn delete_class(&mut self, minor: u16, env: &Env, cx: &mut Cx) {
        if let Some(slot) = self.slots.remove(minor, env, cx) {
            self.round.leave(slot);
        }
    }
    fn class_config(&self, minor: u16) -> Option<&ClassConfig> {
        self.slots.config(minor)
    }
    fn list_classes(&self, f: &mut dyn FnMut(ClassShown<'_>)) {
        for slot in self.slots.iter() {
            let class = &self.slots.classes[slot];
            let deficit = if class.node.is_empty() { 0 } else { self.round.deficit(slot) };
            let values = [i64::try_from(deficit).unwrap_or(i64::MAX)];
            let Passed { sent, segs: sent_segs } = class.node.account().passed();
            f(ClassShown { values: &values, sent, sent_segs, ..ClassShown::of(class) });
        }
    }
}

/// Returns the effective quantum. `resolve` has checked the range of 32 bits.
fn quantum(cfg: &ClassConfig) -> u32 {
    quantum_in_range(u32::try_from(cfg.quantum.0).unwrap_or(u32::MAX))
}
