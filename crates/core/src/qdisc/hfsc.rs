//! hfsc: a tree of classes with service curves: a leaf has deadlines of its own, and what they
//! leave is shared along the tree, up to limits (tc-hfsc(7), tc-hfsc(8); I. Stoica, H. Zhang, T. S.
//! E. Ng, SIGCOMM 1997).
//!
//! The algorithm is in `law/service.rs`, its arithmetic in [`crate::law::curve`]; here are
//! the parameters and the packets. O(log classes) per packet and level of classes. Memory per
//! class: 464 bytes there, four for each minor number up to the greatest, its parameters, its
//! qdisc.
//!
//! - I1: a leaf with a real-time curve gets that service within one packet of the deadline, as long
//!   as the curves in sum are below the link's rate.
//! - I2: by link-sharing, no class gets more than its upper limit, plus one packet.
//! - I3: after `At(t)` no packet may leave before t, unless one comes.
//! - I4: a class whose qdisc turns out to be empty leaves, and the others stay.
//! - Differs from Linux (PARITY.md: hfsc-root, hfsc-levels, hfsc-inner-qdisc, hfsc-held, hfsc-wide,
//!   drr-silent-child, class-order).

mod curves;

use alloc::format;
use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::law::curve::Tick;
use crate::law::service::{CLASSES_MAX, Criterion, LEVELS, ROOT, Service};
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Queue, Waiting};
use crate::packet::reason::{DropReason, WakeReason};
use crate::packet::route::{Candidate, Classified, FilterOutcome};
use crate::qdisc::fifo::NoStats;
use crate::qdisc::leaf::vacant;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes, MadeClasses};
use crate::sched::classful::{ClassAt, ClassShown, Classful};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline, Filtered};
use crate::sched::node::{Class, Passed, Peek};
use crate::sched::spec::{ClassShape, Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::stats::{Counter, Unit};
use crate::text::value::HexBare;

pub use curves::ClassConfig;

crate::params! {
    /// Parameters of hfsc.
    pub struct Config(env) once ["default"] cut ["default"] {
        /// Minor number of the leaf for packets that name none; without such a leaf they are
        /// dropped.
        default: HexBare = HexBare(0), keys ["default"];
    }
}

/// Hierarchical fair service curves.
#[derive(Debug)]
pub(crate) struct Hfsc {
    law: Service,
    /// Packets that wait in the qdisc itself, which is a leaf without curves while it has no
    /// classes.
    own: Queue,
    /// Most of them.
    own_room: u32,
    /// Those that have left it.
    own_sent: Passed,
    /// Classes by slot of the law. The entries of the qdisc itself, and of a class with classes
    /// below, are vacant.
    classes: Vec<Class>,
    configs: Vec<ClassConfig>,
    /// Packets that a class's qdisc has dropped as they came.
    drops: Vec<u64>,
    default: u16,
    /// Time at which it has asked to be asked again, which stays when a leaf answers for itself.
    wake: Option<Tick>,
    /// The leaf whose qdisc holds its packets back, and with them all others, until a time; or
    /// until a packet comes, or a class or a qdisc in one changes: then the choice is made anew.
    held: Option<(usize, Instant, WakeReason)>,
}

impl Discipline for Hfsc {
    const KIND: &'static str = "hfsc";
    const ABOUT: &'static str = "A tree of classes with service curves: deadlines, shares, limits.";
    const FLAGS: Flags = Flags { shapes: true, reorders: false };
    const SHAPE: ClassShape = ClassShape::Made;
    const CHANGE: ChangeRule = ChangeRule::Replace;
    const STYLE: Style = Style::BLANK;
    const FILTERS: Filtered = Filtered::Classes;
    const MADE: Option<MadeClasses<Self>> = Some(MadeClasses::of());
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    type Config = Config;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(_cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        Ok(())
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        Self {
            law: Service::new(),
            own: Queue::new(),
            own_room: env.tx_queue_len,
            own_sent: Passed::default(),
            classes: alloc::vec![vacant(env)],
            configs: alloc::vec![ClassConfig::default()],
            drops: alloc::vec![0],
            default: cfg.default.0,
            wake: None,
            held: None,
        }
    }
    fn change(&mut self, cfg: &Config, (): (), _env: &Env, _cx: &mut Cx) {
        self.default = cfg.default.0;
        self.held = None;
    }
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict {
        match self.leaf(class) {
            Some(i) => self.classes[i].node.would_accept(m),
            None if self.takes_itself(class) && self.own.packets() < self.own_room => Verdict::Accept,
            None => Verdict::Full,
        }
    }
    #[inline(always)]
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let Some(i) = self.leaf(class) else { return self.enqueue_itself(p, class, cx) };
        self.held = None;
        let (index, len) = (p.index(), cx.meta(&p).wire_len);
        let dropped = cx.dropped().packets;
        let node = &mut self.classes[i].node;
        let first = node.is_empty();
        node.enqueue(p, cx);
        if cx.has_refused(index, dropped) {
            self.drops[i] += 1;
        }
        if first && !self.classes[i].node.is_empty() {
            self.begin(i, len, cx);
        }
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        if let Some(p) = self.own.pop_front(&cx.pool) {
            let m = cx.meta(&p);
            self.own_sent.sent.add(m.wire_len);
            self.own_sent.segs += u64::from(m.segs);
            return Next::Packet(p);
        }
        if let Some((i, t, why)) = self.held.take()
            && cx.now < t
            && !self.classes[i].node.is_empty()
        {
            self.held = Some((i, t, why));
            return Next::At(t, why);
        }
        let now = Tick::of(cx.now);
        self.wake = self.wake.filter(|t| *t > now);
        // Each turn takes a class off the active ones.
        let mut bound = Bound::of(self.classes.len());
        while let Some((i, by)) = self.law.choose(now) {
            bound.turn();
            if self.classes[i].node.is_empty() {
                self.law.empty(i);
                continue;
            }
            let dropped = cx.dropped().packets;
            let node = &mut self.classes[i].node;
            match node.dequeue(cx) {
                Next::Packet(p) => {
                    let has_dropped = cx.dropped().packets != dropped;
                    self.charge(i, &p, by, has_dropped, cx);
                    return Next::Packet(p);
                }
                // The class's qdisc holds its packets back, and with them all others, as in the
                // reference.
                Next::At(t, held) => {
                    let own = self.wake.map(|t| (t.instant(), WakeReason::Tokens));
                    let (t, why) = own.filter(|own| own.0 < t).unwrap_or((t, held));
                    // A queue that is stopped starts at any time, and a plug is released at any.
                    let named = !matches!(held, WakeReason::Queue | WakeReason::Plugged);
                    self.held = named.then_some((i, t, why));
                    return Next::At(t, why);
                }
                Next::Empty => self.law.empty(i),
            }
        }
        self.sleep(now, cx)
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.own.evict_all(out, pool);
        // The caller of `evict_all` empties the classes next.
        self.law.rest();
        self.held = None;
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.own.waiting(pool).for_each(f);
    }
    fn reset(&mut self, _cx: &mut Cx) {
        self.law.reset();
        (self.wake, self.held) = (None, None);
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Classes for Hfsc {
    fn classes(&self) -> &[Class] {
        &self.classes
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        // A qdisc that is changed has another time, perhaps.
        self.held = None;
        &mut self.classes
    }
    fn slot(&self, minor: u16) -> Option<usize> {
        self.law.classes().leaf_slot(minor)
    }
    fn select(&self, _m: &Meta, class: Option<ClassId>) -> Option<&Class> {
        self.classes.get(self.leaf(class)?)
    }
    fn classify_result(&self, class: Option<ClassId>, asked: Option<Handle>, own: Handle) -> Classified {
        let nothing = Classified::Final(FilterOutcome::Nothing);
        let here = class.filter(|c| c.major() == own.major());
        let slot = here.and_then(|c| self.law.classes().slot(c.minor()));
        let Some(asked) = asked else {
            // A priority that names no leaf is none: the filters of the qdisc are asked.
            return match (here, slot) {
                (Some(class), Some(i)) if self.law.classes().is_leaf(i) => {
                    Classified::Final(FilterOutcome::Class(class))
                }
                _ => Classified::Inner(own),
            };
        };
        let (Some(class), Some(i)) = (here, slot) else { return nothing };
        let from = self.law.classes().slot(asked.minor()).unwrap_or(ROOT);
        match self.law.classes().level(i) {
            0 => Classified::Final(FilterOutcome::Class(class)),
            // Filters only lead down.
            level if level < self.law.classes().level(from) => Classified::Inner(class),
            _ => nothing,
        }
    }
}

impl Hfsc {
    /// Returns the slot of the leaf that a packet goes to; `None` if there is none, not even the
    /// default.
    #[inline(always)]
    fn leaf(&self, class: Option<ClassId>) -> Option<usize> {
        let leaf = |minor: u16| self.law.classes().leaf_slot(minor);
        class.and_then(|class| leaf(class.minor())).or_else(|| leaf(self.default))
    }

    /// True if a packet without a leaf waits in the qdisc itself: it names the qdisc, or nothing
    /// that is there while the qdisc is the default, and there are no classes.
    fn takes_itself(&self, class: Option<ClassId>) -> bool {
        self.law.classes().is_leaf(ROOT) && (self.default == 0 || class.is_some_and(|c| c.minor() == 0))
    }
    #[cold]
    fn enqueue_itself(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        if !self.takes_itself(class) {
            cx.drop(p, DropReason::NoClass);
        } else if self.own.packets() < self.own_room {
            self.own.push_back(&mut cx.pool, p);
        } else {
            self.drops[ROOT] += 1;
            cx.drop(p, DropReason::Overlimit);
        }
    }

    /// Makes a class active that has its first packet, of `len` bytes.
    #[inline(never)]
    fn begin(&mut self, i: usize, len: u32, cx: &mut Cx) {
        if self.law.is_active(i) {
            // Its qdisc was replaced, and the packets in it are gone.
            self.law.empty(i);
        }
        self.law.activate(i, len, Tick::of(cx.now));
        if self.law.classes().has_deadlines(i) {
            // Its qdisc cannot drop this packet any more, so that the deadline holds.
            let _ = self.head(i, cx);
        }
    }

    /// Charges a class for the packet that its qdisc has just returned; `has_dropped` if that has
    /// dropped others before it.
    #[inline]
    fn charge(&mut self, i: usize, p: &Pkt, by: Criterion, has_dropped: bool, cx: &mut Cx) {
        let len = cx.meta(p).wire_len;
        let is_last = self.classes[i].node.is_empty();
        if is_last && has_dropped {
            // The reference hears of the drops first, and takes the class out before it charges.
            self.law.empty(i);
        }
        self.law.charge(i, len, by, is_last);
        if is_last || !self.law.classes().has_deadlines(i) {
            return;
        }
        match self.head(i, cx) {
            Some(next) => self.law.renew(i, next, by),
            // The peek has dropped its last packets.
            None => self.law.empty(i),
        }
    }

    /// Returns the bytes of the next packet of a class: 0 if its qdisc holds it back, `None` if
    /// there is no packet.
    #[inline]
    fn head(&mut self, i: usize, cx: &mut Cx) -> Option<u32> {
        let node = &mut self.classes[i].node;
        let len = match node.peek(cx) {
            Peek::Ready { wire_len, .. } => wire_len,
            Peek::Empty | Peek::At(..) => 0,
        };
        (!node.is_empty()).then_some(len)
    }

    /// Answers that no class may send now.
    fn sleep(&mut self, now: Tick, cx: &mut Cx) -> Next {
        if self.law.is_idle() {
            return Next::Empty;
        }
        cx.overlimit();
        match self.law.next_time() {
            Some(t) => {
                // A class that could send would have been chosen: the time is after now.
                let t = t.max(Tick(now.0 + 1));
                self.wake = Some(t);
                Next::At(t.instant(), WakeReason::Tokens)
            }
            None => Next::Empty,
        }
    }
}

impl Classful for Hfsc {
    type Class = ClassConfig;
    const CLASS_SELECTS: bool = false;
    const CLASS_STATE: u64 = 1024;
    const ROOT_CLASS: bool = true;
    const CLASS_REFUSED_BY: RefusedBy = |err, _| match err.kind {
        // tc reads numbers of 32 bits.
        ErrorKind::OutOfRange if err.object == Object::Kind(Self::KIND) => Some(Refuser::Tool),
        _ => None,
    };
    const COUNTERS: &'static [Counter] = &[
        Counter::new("period", "Times that the class has become active in link-sharing."),
        Counter::new("work", "Bytes that it, or the classes below it, have sent.").of(Unit::Bytes),
        Counter::new("rtwork", "Bytes that it has sent by its real-time curve.").of(Unit::Bytes),
        Counter::new("level", "Levels of classes below it; 0 for a leaf.").falls(),
    ];

    fn complete_class(class: Object, cfg: &mut ClassConfig, _env: &Env) -> Result<(), ConfigError> {
        let curves::Said([rt, ls, ul]) = cfg.said;
        if !rt && !ls && !ul {
            let expected = "a curve: rt, ls, or sc for both";
            return Err(ConfigError::new(ErrorKind::Missing, class, expected, "").key("rt, ls or sc"));
        }
        if ul && !ls {
            let err = ConfigError::new(ErrorKind::Missing, class, "ls or sc beside ul", "");
            return Err(err.key("ls or sc beside ul").hint("an upper limit is one of link-sharing"));
        }
        Ok(())
    }
    fn resolve_class(
        &self,
        class: Object,
        at: ClassAt,
        _cfg: &mut ClassConfig,
        old: Option<&ClassConfig>,
        _env: &Env,
    ) -> Result<(), ConfigError> {
        let classes = self.law.classes();
        if old.is_some() {
            let here = self.class_parent(at.minor);
            if here != at.parent {
                let expected = format!("below class {here:x}, where it is");
                let err = ConfigError::new(ErrorKind::Conflict, class, expected, format!("{:x}", at.parent));
                return Err(err.key("parent").hint("a class cannot be moved: delete it, and add it there"));
            }
            return Ok(());
        }
        if classes.is_full() {
            let expected = format!("at most {CLASSES_MAX} classes");
            return Err(ConfigError::new(ErrorKind::OutOfRange, class, expected, "one more"));
        }
        let above = match at.parent {
            0 => ROOT,
            minor => classes.slot(minor).ok_or_else(|| {
                let given = match class {
                    Object::Class(Some(class)) => Handle::new(class.major(), minor),
                    _ => Handle::new(0, minor),
                };
                let expected = "a class that is there";
                ConfigError::new(ErrorKind::NotFound, class, expected, given).key("parent")
            })?,
        };
        if classes.is_deepest(above) {
            let expected = format!("at most {LEVELS} levels of classes");
            return Err(ConfigError::new(ErrorKind::Unsupported, class, expected, "one more").key("parent"));
        }
        Ok(())
    }
    fn add_class(&mut self, at: ClassAt, mut cfg: ClassConfig, env: &Env, cx: &mut Cx) {
        self.held = None;
        let above = self.law.classes().slot(at.parent).unwrap_or(ROOT);
        if above == ROOT {
            // Bound: the packets in it.
            while let Some(p) = self.own.pop_front(&cx.pool) {
                cx.drop(p, DropReason::Purged);
            }
        } else {
            if self.law.classes().is_leaf(above) {
                self.clear(above, env, cx);
            }
            let config = &mut self.configs[above];
            config.ls = config.ls.or(config.rt);
        }
        let slot = self.law.add(at.minor, above, &cfg.take_said());
        if slot == self.classes.len() {
            self.classes.push(vacant(env));
            self.configs.push(cfg);
            self.drops.push(0);
        } else {
            (self.configs[slot], self.drops[slot]) = (cfg, 0);
        }
        self.classes[slot].minor = at.minor;
    }
    fn change_class(&mut self, minor: u16, mut cfg: ClassConfig, _env: &Env, cx: &mut Cx) {
        let Some(slot) = self.law.classes().slot(minor) else { return };
        self.held = None;
        let said = cfg.take_said();
        self.configs[slot] = cfg;
        let head = if self.classes[slot].node.is_empty() { None } else { self.head(slot, cx) };
        self.law.change(slot, &said, Tick::of(cx.now), head);
        if head.is_none() && self.law.classes().is_leaf(slot) {
            self.law.empty(slot);
        }
    }
    fn may_delete(&self, class: Object, minor: u16) -> Result<(), ConfigError> {
        match self.law.classes().slot(minor) {
            Some(i) if !self.law.classes().is_leaf(i) => {
                let err =
                    ConfigError::new(ErrorKind::Conflict, class, "a class without classes below", "some");
                Err(err.hint("delete those first"))
            }
            _ => Ok(()),
        }
    }
    fn delete_class(&mut self, minor: u16, env: &Env, cx: &mut Cx) {
        let Some(slot) = self.law.classes().slot(minor) else { return };
        self.held = None;
        let above = self.class_parent(minor);
        self.classes[slot].node.purge(cx);
        self.classes[slot] = vacant(env);
        self.law.remove(slot);
        if let Some(slot) = self.law.classes().leaf_slot(above) {
            self.classes[slot].minor = above;
        }
    }
    fn class_config(&self, minor: u16) -> Option<&ClassConfig> {
        self.law.classes().slot(minor).map(|slot| &self.configs[slot])
    }
    fn class_parent(&self, minor: u16) -> u16 {
        self.law.classes().slot(minor).map_or(0, |slot| self.law.classes().parent(slot))
    }
    fn list_classes(&self, f: &mut dyn FnMut(ClassShown<'_>)) {
        self.show(0, ROOT, f);
        let classes = self.law.classes();
        let mut below: Vec<(u16, u16, usize)> =
            classes.iter().map(|(minor, slot)| (classes.parent(slot), minor, slot)).collect();
        below.sort_unstable();
        self.list_below(0, &below, f);
    }
}

impl Hfsc {
    /// Drops the packets of a leaf, and removes its qdisc: it has classes below from now on.
    fn clear(&mut self, slot: usize, env: &Env, cx: &mut Cx) {
        self.classes[slot].node.purge(cx);
        let mut empty = vacant(env);
        empty.node.follow(&self.classes[slot].node);
        self.classes[slot] = empty;
    }

    /// Lists the classes below one, each before those below it; the recursion is no deeper than the
    /// levels of classes. `below` are all classes, with the class above first, in order.
    fn list_below(&self, above: u16, below: &[(u16, u16, usize)], f: &mut dyn FnMut(ClassShown<'_>)) {
        let from = below.partition_point(|c| c.0 < above);
        for (_, minor, slot) in below[from..].iter().take_while(|c| c.0 == above) {
            self.show(*minor, *slot, f);
            self.list_below(*minor, below, f);
        }
    }
    fn show(&self, minor: u16, slot: usize, f: &mut dyn FnMut(ClassShown<'_>)) {
        let shown = self.law.classes().shown(slot);
        let node = &self.classes[slot].node;
        let leaf = (slot != ROOT && self.law.classes().is_leaf(slot)).then_some(node);
        let (Passed { sent, segs }, backlog) = match slot {
            ROOT => (self.own_sent, Tally { packets: self.own.packets().into(), bytes: self.own.bytes() }),
            _ => (node.account().passed(), node.account().queued()),
        };
        // Counts of bytes are far below 2^63.
        let values = [shown.period.into(), shown.work as i64, shown.rtwork as i64, shown.level.into()];
        f(ClassShown {
            at: ClassAt { minor, parent: self.law.classes().parent(slot) },
            leaf,
            sent,
            sent_segs: segs,
            drops: self.drops[slot],
            overlimits: 0,
            backlog,
            values: &values,
        });
    }
}
