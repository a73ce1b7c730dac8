//! htb: a tree of classes, each with a guaranteed rate, a ceiling, and a priority; the classes
//! below another may borrow the rate that their siblings do not use (tc-htb(8); M. Devera,
//! "Hierarchical token bucket theory" and the HTB user guide, 2002).
//!
//! The algorithm is in `law/borrow.rs`; here are its parameters and its packets. O(depth)
//! per packet, whatever the number of classes. Memory per class: 184 bytes there, four for each
//! minor number up to the greatest, its parameters, its qdisc.
//!
//! - I1: over any interval, a class sends at most ceil x time + the ceiling's bucket.
//! - I2: a class that has packets gets its rate, as long as those above do not run out of their
//!   ceilings' tokens.
//! - I3: after `At(t)` no packet may leave before t; the wait covers every class that cannot send.
//! - I4: an active class has had packets; a class whose qdisc turns out to be empty leaves, and its
//!   siblings stay.
//! - Differs from Linux (PARITY.md: htb-same-change, htb-move, htb-range, htb-class-drops,
//!   htb-wakes, htb-shared, class-number, class-order).

mod config;

use alloc::format;
use alloc::vec::Vec;

use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::base::units::Rate;
use crate::law::borrow::{Borrow, CLASSES_MAX, LEVELS, Shape, Shown};
use crate::law::lease::Lease;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use crate::packet::reason::{DropReason, WakeReason};
use crate::packet::route::{Candidate, Classified, FilterOutcome};
use crate::packet::scouts::{AHEAD, Scouts};
use crate::qdisc::leaf::vacant;
use crate::qdisc::turns::ways_out;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes, MadeClasses, Shares};
use crate::sched::classful::{ClassAt, ClassShown, Classful};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline, Filtered};
use crate::sched::node::Class;
use crate::sched::share::{Share, Wanted};
use crate::sched::spec::{ClassShape, Flags, Style};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::stats::{Counter, Unit};

use config::PRIO_MAX;
pub use config::{ClassConfig, Config, Stats};

/// Hierarchical token buckets.
#[derive(Debug)]
pub(crate) struct Htb {
    law: Borrow,
    /// Classes by slot. The entry of a class with classes below is vacant.
    classes: Vec<Class>,
    configs: Vec<ClassConfig>,
    direct: Queue,
    direct_packets: u64,
    direct_qlen: u32,
    default: u16,
    r2q: u32,
    scouts: Scouts,
    /// The leaf that the last packet left.
    served: usize,
}

impl Discipline for Htb {
    const KIND: &'static str = "htb";
    const ABOUT: &'static str = "A tree of classes with rates and ceilings, which borrow from those above.";
    const FLAGS: Flags = Flags { shapes: true, reorders: false };
    const SHAPE: ClassShape = ClassShape::Made;
    const STYLE: Style = Style { counters_in_options: true, ..Style::PLAIN };
    const FILTERS: Filtered = Filtered::Classes;
    const MADE: Option<MadeClasses<Self>> = Some(MadeClasses::of());
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    const SHARES: Option<Capability<Self, dyn Shares>> = crate::capability!();
    // The wheel and the rows of its levels.
    const TABLES: fn(&Config, &Env) -> u64 = |_, _| 64 << 10;
    type Config = Config;
    type Rules = ();
    type Stats = Stats;

    fn resolve(cfg: &mut Config, old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        if cfg.offload {
            let err =
                ConfigError::new(ErrorKind::Unsupported, Object::Kind(Self::KIND), "no offload", "offload");
            return Err(err.key("offload").hint("there is no hardware here that could shape: leave it out"));
        }
        cfg.r2q = cfg.r2q.max(1);
        if old.is_some_and(|old| old != cfg) {
            let expected = "the options that it was made with";
            let err =
                ConfigError::new(ErrorKind::Unsupported, Object::Kind(Self::KIND), expected, "a change")
                    .reason(Reason::Unchangeable);
            return Err(err.hint("delete it and add it anew"));
        }
        Ok(())
    }
    fn new(cfg: &Config, (): (), _env: &Env) -> Self {
        Self {
            law: Borrow::new(),
            classes: Vec::new(),
            configs: Vec::new(),
            direct: Queue::new(),
            direct_packets: 0,
            direct_qlen: cfg.direct_qlen,
            default: cfg.default.minor(),
            r2q: cfg.r2q,
            scouts: Scouts::default(),
            served: 0,
        }
    }
    /// Only a change without an effect comes here.
    fn change(&mut self, _cfg: &Config, (): (), _env: &Env, _cx: &mut Cx) {}
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict {
        match self.leaf(class) {
            Some(i) => self.classes[i].node.would_accept(m),
            None if self.direct.packets() < self.direct_qlen => Verdict::Accept,
            None => Verdict::Full,
        }
    }
    #[inline(always)]
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let Some(i) = self.leaf(class) else { return self.enqueue_direct(p, cx) };
        let index = p.index();
        let dropped = cx.dropped().packets;
        let node = &mut self.classes[i].node;
        // A class that has packets is active already.
        let first = node.is_empty();
        node.enqueue(p, cx);
        if cx.has_refused(index, dropped) {
            self.law.count_drop(i);
        }
        if first && !node.is_empty() {
            self.law.ladder.activate(i);
        }
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        if let Some(p) = self.direct.pop_front(&cx.pool) {
            return Next::Packet(p);
        }
        if self.law.ladder.is_idle() {
            return Next::Empty;
        }
        if Scouts::are_worth(self.classes.len(), &cx.pool) {
            self.scout(&mut cx.pool);
        }
        self.law.begin(cx.now);
        let (mut wake, mut found) = (None, None);
        let mut from = 0;
        // Bound: `LEVELS` turns, because the level rises.
        while let Some(level) = self.law.next_level(from) {
            self.law.serve_due(level, cx.now);
            found = self.serve_level(level, &mut wake, cx);
            if found.is_some() {
                break;
            }
            from = level + 1;
        }
        for _ in 0..self.law.take_overlimits() {
            cx.overlimit();
        }
        if let Some(p) = found {
            return Next::Packet(p);
        }
        let due = self.law.next_due().map(|t| (t, WakeReason::Tokens));
        match wake.into_iter().chain(due).min_by_key(|(t, _)| *t) {
            Some((t, why)) if !self.law.ladder.is_idle() => Next::At(t, why),
            _ => Next::Empty,
        }
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.direct.evict_all(out, pool);
        // The caller of `evict_all` empties the classes next.
        self.law.ladder.rest();
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.direct.waiting(pool).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        self.law.reset();
    }
    fn stats(&self) -> Stats {
        Stats { direct_packets_stat: self.direct_packets }
    }
}

impl Shares for Htb {
    fn shares(&self, f: &mut dyn FnMut(Share<'_>)) {
        self.law.classes().iter().filter_map(|(minor, _)| self.shared(minor)).for_each(f);
    }
    fn shared(&self, minor: u16) -> Option<Share<'_>> {
        let slot = self.law.classes().slot(minor)?;
        let (name, rate, burst) = self.configs[slot].shares()?;
        Some(Share { minor, name, rate, burst, lease: self.law.shared(slot)? })
    }
    fn share(&mut self, minor: u16, lease: Lease) {
        if let Some(slot) = self.law.classes().slot(minor) {
            self.law.share(slot, Some(lease));
        }
    }
}

impl Classes for Htb {
    fn classes(&self) -> &[Class] {
        &self.classes
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        &mut self.classes
    }
    fn slot(&self, minor: u16) -> Option<usize> {
        self.law.classes().leaf_slot(minor)
    }
    fn select(&self, _m: &Meta, class: Option<ClassId>) -> Option<&Class> {
        self.classes.get(self.leaf(class)?)
    }
    fn expect(&self, class: Option<ClassId>) {
        if let Some(i) = self.leaf(class) {
            self.law.classes().ask(i);
        }
    }
    fn classify_result(&self, class: Option<ClassId>, _asked: Option<Handle>, own: Handle) -> Classified {
        let Some(class) = class.filter(|c| c.major() == own.major()) else {
            return Classified::Final(FilterOutcome::Nothing);
        };
        match class.minor() {
            // The class is the qdisc itself: the packet is unshaped.
            0 => Classified::Final(FilterOutcome::Class(class)),
            minor if self.law.classes().leaf_slot(minor).is_some() => {
                Classified::Final(FilterOutcome::Class(class))
            }
            minor if self.law.classes().slot(minor).is_some() => Classified::Inner(class),
            _ => Classified::Final(FilterOutcome::Nothing),
        }
    }
}

impl Htb {
    /// Returns the slot of the leaf that a packet goes to; `None` for a packet that is sent
    /// unshaped.
    #[inline(always)]
    fn leaf(&self, class: Option<ClassId>) -> Option<usize> {
        let leaf = |minor: u16| self.law.classes().leaf_slot(minor);
        match class {
            // The class is the qdisc itself.
            Some(class) if class.minor() == 0 => None,
            Some(class) => leaf(class.minor()).or_else(|| leaf(self.default)),
            None => leaf(self.default),
        }
    }

    fn enqueue_direct(&mut self, p: Pkt, cx: &mut Cx) {
        if self.direct.packets() < self.direct_qlen {
            self.direct.push_back(&mut cx.pool, p);
            self.direct_packets += 1;
        } else {
            cx.drop(p, DropReason::Overlimit);
        }
    }

    /// Returns a packet from the leaves that the rows of a level lead to, lowest priority number
    /// first.
    #[inline]
    fn serve_level(
        &mut self,
        level: usize,
        wake: &mut Option<(Instant, WakeReason)>,
        cx: &mut Cx,
    ) -> Option<Pkt> {
        let mut prios = self.law.ladder.prios(level);
        // Bound: 8 turns, one for each bit.
        while prios != 0 {
            let prio = prios.trailing_zeros() as usize;
            prios &= prios - 1;
            if let Some(p) = self.serve(level, prio, wake, cx) {
                return Some(p);
            }
        }
        None
    }

    /// Returns a packet from the leaves that one row leads to.
    #[inline]
    fn serve(
        &mut self,
        level: usize,
        prio: usize,
        wake: &mut Option<(Instant, WakeReason)>,
        cx: &mut Cx,
    ) -> Option<Pkt> {
        let mut at = self.law.ladder.leaf(level, prio)?;
        let mut first = at;
        // Bound: the active leaves. Each turn takes a leaf off them, or goes on to the next until
        // it is the first again.
        let mut turns = self.law.ladder.active_leaves();
        while turns > 0 {
            turns -= 1;
            let node = &mut self.classes[at].node;
            if node.is_empty() {
                self.law.ladder.deactivate(at);
                let next = self.law.ladder.leaf(level, prio)?;
                first = if at == first { next } else { first };
                at = next;
                continue;
            }
            let dropped = cx.dropped().packets;
            let next = node.dequeue(cx);
            let empty = node.is_empty();
            if empty && cx.dropped().packets != dropped {
                // Its qdisc has dropped its last packets: the reference hears of the drops first,
                // and takes the class out before its turn.
                self.law.ladder.deactivate(at);
            }
            match next {
                Next::Packet(p) => {
                    let m = cx.meta(&p);
                    let (wire_len, segs) = (m.wire_len, m.segs);
                    self.law.ladder.spend(at, level, prio, wire_len);
                    if empty {
                        self.law.ladder.deactivate(at);
                    }
                    self.law.charge(at, level, cx.now, wire_len, segs);
                    self.served = at;
                    return Some(p);
                }
                // The class's qdisc holds its packets back.
                Next::At(t, why) => wake_by(wake, t, why),
                Next::Empty => {}
            }
            self.law.ladder.pass(at, level, prio);
            at = self.law.ladder.leaf(level, prio)?;
            if at == first {
                return None;
            }
        }
        None
    }

    /// Asks for the memory of packets that leave soon after the last one.
    #[inline(never)]
    fn scout(&mut self, pool: &mut Pool) {
        let Self { law, classes, scouts, served, .. } = self;
        let ahead = || law.ladder.ask_ahead(*served, AHEAD).map(|i| i as u32);
        // There are fewer classes than minor numbers.
        scouts.go_on(*served as u32, ahead, ways_out(classes), pool);
    }

    fn shape(&self, cfg: &ClassConfig) -> Shape {
        cfg.shape(self.r2q)
    }
}

/// Notes the earliest time that a class has named. Out of line, so that `wake` stays in memory and
/// takes no register.
#[inline(never)]
fn wake_by(wake: &mut Option<(Instant, WakeReason)>, t: Instant, why: WakeReason) {
    if wake.is_none_or(|(earliest, _)| t < earliest) {
        *wake = Some((t, why));
    }
}

fn conflict(class: Object, expected: impl alloc::string::ToString, given: &str) -> ConfigError {
    ConfigError::new(ErrorKind::Conflict, class, expected, given)
}

impl Classful for Htb {
    type Class = ClassConfig;
    const CLASS_SELECTS: bool = false;
    const CLASS_WANTS: fn(&ClassConfig) -> Option<Wanted> =
        |cfg| cfg.shares().map(|(name, rate, burst)| Wanted { name: name.clone(), rate, burst });
    const COUNTERS: &'static [Counter] = &[
        Counter::new("lended", "Packets that it sent, or let send, with its own tokens."),
        Counter::new("borrowed", "Packets that it sent, or let send, with those of a class above."),
        Counter::new("giants", "Always 0: no packet is too large."),
        Counter::new("tokens", "Tokens of its rate, in ticks of 64 ns.").falls(),
        Counter::new("ctokens", "Tokens of its ceiling, in ticks of 64 ns.").falls(),
        Counter::new("quantum", "Bytes of its turn, as given or derived.").falls().of(Unit::Bytes),
        Counter::new(
            "level",
            "0 for a leaf; 7 for a root class with classes below, and one less for each level.",
        )
        .falls(),
    ];
    const CLASS_CHANGE: ChangeRule = ChangeRule::Replace;

    fn complete_class(class: Object, cfg: &mut ClassConfig, _env: &Env) -> Result<(), ConfigError> {
        if cfg.rate.0 == 0 {
            return Err(ConfigError::new(ErrorKind::Missing, class, "a rate, at least 8bit", "").key("rate"));
        }
        if cfg.ceil == Some(Rate(0)) {
            cfg.ceil = None;
        }
        cfg.prio = cfg.prio.min(PRIO_MAX);
        cfg.burst = cfg.burst.filter(|b| b.0 > 0);
        cfg.cburst = cfg.cburst.filter(|b| b.0 > 0);
        cfg.quantum = cfg.quantum.filter(|q| *q > 0);
        Ok(())
    }
    fn resolve_class(
        &self,
        class: Object,
        at: ClassAt,
        cfg: &mut ClassConfig,
        old: Option<&ClassConfig>,
        _env: &Env,
    ) -> Result<(), ConfigError> {
        let parent = self.law.classes().slot(at.parent);
        if let Some(old) = old {
            let here = self.class_parent(at.minor);
            let asked = parent.map_or(0, |_| at.parent);
            if here != asked {
                let expected = format!("below class {here:x}, where it is");
                let err = conflict(class, expected, &format!("{asked:x}")).key("parent");
                return Err(err.hint("a class cannot be moved: delete it, and add it there"));
            }
            if self.law.classes().slot(at.minor).is_some_and(|i| !self.law.classes().is_leaf(i)) {
                // These are options of a leaf; the class keeps them in case it becomes a leaf
                // again.
                (cfg.prio, cfg.quantum) = (old.prio, old.quantum);
            }
            return Ok(());
        }
        if self.law.classes().is_full() {
            let expected = format!("at most {CLASSES_MAX} classes");
            return Err(ConfigError::new(ErrorKind::OutOfRange, class, expected, "one more"));
        }
        if parent.is_some_and(|p| self.law.classes().is_deepest(p)) {
            let expected = format!("at most {LEVELS} levels of classes");
            return Err(ConfigError::new(ErrorKind::Unsupported, class, expected, "one more").key("parent"));
        }
        Ok(())
    }
    fn add_class(&mut self, at: ClassAt, cfg: ClassConfig, env: &Env, cx: &mut Cx) {
        // As in the reference, a class without an existing parent is a root class.
        let parent = self.law.classes().slot(at.parent);
        if let Some(p) = parent.filter(|p| self.law.classes().is_leaf(*p)) {
            self.classes[p].node.purge(cx);
            self.classes[p] = vacant(env);
        }
        let slot = self.law.add(at.minor, parent, &self.shape(&cfg), cx.now);
        self.law.share(slot, cfg.shares().map(|(_, rate, burst)| Lease::alone(rate, burst)));
        if slot == self.classes.len() {
            self.classes.push(vacant(env));
            self.configs.push(cfg);
        } else {
            self.configs[slot] = cfg;
        }
        self.classes[slot].minor = at.minor;
    }
    fn change_class(&mut self, minor: u16, cfg: ClassConfig, _env: &Env, _cx: &mut Cx) {
        if let Some(slot) = self.law.classes().slot(minor) {
            self.law.set(slot, &self.shape(&cfg));
            if cfg.shares() != self.configs[slot].shares() {
                self.law.share(slot, cfg.shares().map(|(_, rate, burst)| Lease::alone(rate, burst)));
            }
            self.configs[slot] = cfg;
        }
    }
    fn may_delete(&self, class: Object, minor: u16) -> Result<(), ConfigError> {
        match self.law.classes().slot(minor) {
            Some(i) if !self.law.classes().is_leaf(i) => {
                let below = self.law.classes().children_len(i);
                let err = conflict(class, "a class without classes below", &format!("{below} of them"));
                Err(err.hint("delete those first"))
            }
            _ => Ok(()),
        }
    }
    fn delete_class(&mut self, minor: u16, env: &Env, cx: &mut Cx) {
        let Some(slot) = self.law.classes().slot(minor) else { return };
        self.classes[slot].node.purge(cx);
        self.classes[slot] = vacant(env);
        let above = self.class_parent(minor);
        if let Some(p) = self.law.remove(slot, cx.now) {
            self.classes[p].minor = above;
        }
    }
    fn class_config(&self, minor: u16) -> Option<&ClassConfig> {
        self.law.classes().slot(minor).map(|slot| &self.configs[slot])
    }
    fn class_parent(&self, minor: u16) -> u16 {
        self.law.classes().slot(minor).map_or(0, |slot| self.law.classes().parent(slot))
    }
    fn list_classes(&self, f: &mut dyn FnMut(ClassShown<'_>)) {
        // A class comes before those below it: a root class, its children, and so on; the recursion
        // is at most `LEVELS` deep.
        for (minor, slot) in self.law.classes().iter() {
            if self.law.classes().parent(slot) == 0 {
                self.list_below(minor, slot, f);
            }
        }
    }
}

impl Htb {
    /// Lists a class and those below it; the recursion is no deeper than the levels of classes.
    fn list_below(&self, minor: u16, slot: usize, f: &mut dyn FnMut(ClassShown<'_>)) {
        let Shown { sent, lent, borrowed, tokens, ctokens, overlimits, drops, quantum, level } =
            self.law.classes().shown(slot);
        let class = &self.classes[slot];
        let leaf = self.law.classes().is_leaf(slot).then_some(&class.node);
        let values = [lent.into(), borrowed.into(), 0, tokens, ctokens, quantum.into(), level.into()];
        f(ClassShown {
            at: ClassAt { minor, parent: self.law.classes().parent(slot) },
            leaf,
            // htb counts the segments of its packets.
            sent: Tally { packets: sent.1, bytes: sent.0 },
            sent_segs: sent.1,
            drops: drops.into(),
            overlimits: overlimits.into(),
            backlog: leaf.map_or_else(Tally::default, |leaf| leaf.account().queued()),
            values: &values,
        });
        for child in self.law.classes().children(slot) {
            self.list_below(self.law.classes().minor(child), child, f);
        }
    }
}
