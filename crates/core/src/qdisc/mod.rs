//! The author trait `Discipline`, its erased form `Qdisc`, and the registry: one line per kind.

pub mod by_queue;
pub mod cake;
pub mod classful;
pub mod codel;
pub mod control;
pub mod drr;
pub mod dualpi2;
pub mod ets;
pub mod fifo;
pub mod fq;
pub mod fq_codel;
pub mod htb;
pub mod mq;
pub mod mqprio;
pub mod multiq;
pub mod netem;
pub mod pfifo_fast;
pub mod pie;
pub mod prio;
pub mod red;
pub mod rough;
pub mod sfq;
pub mod skbprio;
pub mod tbf;
pub mod turns;

use alloc::boxed::Box;
use core::fmt::Debug;

use crate::base::handle::{ClassId, Handle};
use crate::base::time::Instant;
use crate::law::lease::Lease;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool};
use crate::packet::reason::{DropReason, WakeReason};
use crate::packet::route::{Asked, Found, Said};
use crate::path::rates::Share;
use crate::qdisc::classful::{ClassSpec, UserClasses};
use crate::sched::cx::{Cx, Tally};
use crate::sched::node::{Account, Class, Node, Peek};
use crate::sched::spec::{Env, Flags, Spec};
use crate::text::error::{ConfigError, ErrorKind};
use crate::text::params::{Params, Shown, apply};
use crate::text::stats::{Counter, Counters};
use crate::text::value::Words;

/// Every kind, in alphabetical order.
pub static KINDS: &[&Spec] = &[
    &Spec::of::<fifo::Bfifo>(),
    &Spec::of::<cake::Cake>(),
    &Spec::of::<codel::Codel>(),
    &Spec::of::<drr::Drr>(),
    &Spec::of::<dualpi2::Dualpi2>(),
    &Spec::of::<ets::Ets>(),
    &Spec::of::<fq::Fq>(),
    &Spec::of::<fq_codel::FqCodel>(),
    &Spec::of::<htb::Htb>(),
    &Spec::of::<mq::Mq>(),
    &Spec::of::<mqprio::Mqprio>(),
    &Spec::of::<multiq::Multiq>(),
    &Spec::of::<netem::Netem>(),
    &Spec::of::<fifo::Pfifo>(),
    &Spec::of::<pfifo_fast::PfifoFast>(),
    &Spec::of::<fifo::PfifoHeadDrop>(),
    &Spec::of::<pie::Pie>(),
    &Spec::of::<prio::Prio>(),
    &Spec::of::<red::Red>(),
    &Spec::of::<rough::Rough>(),
    &Spec::of::<sfq::Sfq>(),
    &Spec::of::<skbprio::Skbprio>(),
    &Spec::of::<tbf::Tbf>(),
];

/// The kind of that name.
pub fn kind(name: &str) -> Result<&'static Spec, ConfigError> {
    KINDS.iter().copied().find(|s| s.kind == name).ok_or_else(|| {
        let mut known = alloc::string::String::from("one of ");
        for (i, s) in KINDS.iter().enumerate() {
            known.push_str(if i > 0 { ", " } else { "" });
            known.push_str(s.kind);
        }
        ConfigError::new(ErrorKind::UnknownKind, "qdisc", known, name)
    })
}

/// The answer to "next?". It is never ambiguous: nothing there, or not yet and why.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// This packet is to be sent now.
    Packet(Pkt),
    /// Nothing is queued.
    Empty,
    /// Something is queued, but nothing may leave before this instant.
    At(Instant, WakeReason),
}

/// The answer of a qdisc to a request for a packet of at most so many bytes.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Within {
    /// It cannot tell without giving a packet, or has none that may leave: to be peeked at.
    Unknown,
    /// This packet is to be sent now.
    Packet(Pkt),
    /// The next packet has more wire bytes than that, so many; it stays.
    Larger(u32),
}

/// The answer to "would you take it?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It would be queued, and nothing would be dropped for it.
    Accept,
    /// Something would be dropped: a sender that can wait should.
    Full,
    /// Its segments are larger than this many bytes, which is the most that can ever leave here.
    TooLarge(u32),
    /// It is a super-packet that can only leave in pieces of at most this many bytes: cut it first.
    Cut(u32),
}

/// A flow that a kind keeps inside, as `tc -s class show` lists it: a class without a qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowShown<'a> {
    /// Its minor number: the class that a packet names to be put into it. 65 536 has no name in 16 bits.
    pub minor: u32,
    /// Packets and bytes that wait in it.
    pub backlog: Tally,
    /// What is known of it, by tc's words and in tc's units: times are microseconds, truths are 0 and 1.
    pub values: &'a [(&'static str, i64)],
}

/// What changing an option does to those not named (as tc behaves for the kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRule {
    /// They keep their values.
    Merge,
    /// They go back to their defaults.
    Replace,
}

/// Whether a kind asks filters, and where it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filtered {
    /// It asks none.
    #[default]
    No,
    /// At the qdisc.
    Qdisc,
    /// At the qdisc, and at each of its classes.
    Classes,
}

/// What the author of a qdisc writes: the algorithm. Parsing, printing, packet counting, peeking, dropping
/// and tracing are done around it, once for all kinds.
pub trait Discipline: Debug + Send + Sync + Sized + 'static {
    /// The tc word.
    const KIND: &'static str;
    /// One sentence.
    const ABOUT: &'static str;
    /// What it does to packets.
    const FLAGS: Flags;
    /// What a change does to options not named.
    const CHANGE: ChangeRule = ChangeRule::Merge;
    /// True if it looks at the class that a packet names in it. If not, nobody works it out.
    const TAKES_CLASS: bool = Self::FLAGS.classful;
    /// True if it stands at the root of a device only: its classes are the device's transmit queues.
    const ROOT_ONLY: bool = false;
    /// Where filters can be put: at it, and at its classes.
    const FILTERS: Filtered = Filtered::No;
    /// What is declared of its classes, if commands make or change them: `Some(&ClassSpec::of::<Self>())`.
    const CLASSES: Option<&'static ClassSpec> = None;
    /// True if it has one class, number 1, which any other number names as well.
    const ONE_CLASS: bool = false;
    /// True if it wants to know more of a packet than its metadata (`crate::packet::detail`).
    const WANTS_DETAIL: bool = false;
    /// True if it may send TCP control segments (`Meta::tcp_control`) before other packets of their flows that came earlier.
    const CONTROL_FIRST: bool = false;
    /// The counters of each of its `parts`, if it has any: the table of a `stats!`.
    const PARTS: &'static [Counter] = &[];
    /// Its parameters, from `params!`.
    type Config: Params;
    /// Its counters, from `stats!`.
    type Stats: Counters;

    /// Brings parameters that can be said in several ways to one form, and refuses those that contradict each
    /// other, or (with `old`, the present ones) cannot be changed while running. After it nothing can fail.
    fn resolve(_cfg: &mut Self::Config, _old: Option<&Self::Config>, _env: &Env) -> Result<(), ConfigError> {
        Ok(())
    }
    /// Makes one from resolved parameters. All memory it will need is taken here.
    fn new(cfg: &Self::Config, env: &Env) -> Self;
    /// Whether it is what its parameters ask for, or a change of them wants it made anew around what it is: see `boxed`.
    fn fits(&self, _cfg: &Self::Config) -> bool {
        true
    }
    /// The qdisc that these parameters ask for, made of this one.
    fn boxed(self, cfg: Self::Config) -> Box<dyn Qdisc> {
        Box::new(Erased { inner: self, cfg })
    }
    /// It is part of a tree from `now` on: what it does at times of its own, packets or not, counts from here. A kind that
    /// is never told counts from zero.
    fn start(&mut self, _now: Instant) {}
    /// Takes new, resolved parameters; may drop packets to obey them. Not called while `Cx::swapping` if nothing
    /// changes.
    fn change(&mut self, cfg: &Self::Config, env: &Env, cx: &mut Cx);
    /// Whether this packet would be queued without a drop.
    fn admit(&self, m: &Asked<'_>, class: Option<ClassId>) -> Verdict;
    /// What it makes of what its filters have found: this class, or nothing (`None`), at a qdisc with this handle. The default
    /// takes the class's minor number, whatever its major, and without one goes by what it goes by otherwise.
    fn found(&self, class: Option<ClassId>, own: Handle) -> Found {
        Found::Said(class.map_or(Said::Nothing, |c| Said::Class(Handle::new(own.major(), c.minor()))))
    }
    /// The class that a packet would wait in, if it has a qdisc; the default is that of kinds with one class.
    fn select(&self, _m: &Meta, _class: Option<ClassId>) -> Option<&Class> {
        self.classes().first()
    }
    /// Takes the packet: queues it, hands it to a child, or drops it (or others) through `cx`.
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx);
    /// Queues the packet, if that is all there is to do: nobody else is asked, nothing is dropped. Otherwise gives it back,
    /// for `enqueue`. Where most packets go this way, the node is spared to look what else has happened.
    #[inline]
    fn enqueue_quietly(&mut self, p: Pkt, _class: Option<ClassId>, _pool: &mut Pool) -> Option<Pkt> {
        Some(p)
    }
    /// Gives the next packet. It must leave now: the device has promised a slot.
    fn dequeue(&mut self, cx: &mut Cx) -> Next;
    /// The packet that `dequeue` would give, and without a drop, if that can be told without taking it; `None` if not, or
    /// if there is none. A kind that tells it leaves `peek` as it is.
    fn head<'a>(&self, _pool: &'a Pool) -> Option<&'a Meta> {
        None
    }
    /// What `dequeue` would give, if that can be told without taking a packet out of here; `None` if not: then the node
    /// takes it out and holds it. A kind with classes asks those.
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        self.head(&cx.pool).map(|m| Peek::Ready { wire_len: m.wire_len, segs: m.segs })
    }
    /// A packet that it gave is held by a peek and has not left: a limit on what waits counts it. Or it is no longer.
    fn holding(&mut self, _held: bool) {}
    /// Hands out every packet that waits in here, to the back of `out`, in the order in which `queued` shows them. What
    /// waits in its classes is not its own. Everything else stays as it is: what a law remembers, tokens, counters.
    fn drain(&mut self, out: &mut List, pool: &mut Pool);
    /// Shows every packet that `drain` would hand out; packets of one flow in their order.
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(&Meta));
    /// Forgets everything but parameters and counters: it is then like new. Nothing is queued, here or below.
    fn reset(&mut self, cx: &mut Cx);
    /// True if a packet of `wire_len` bytes that came now, with nothing queued, would leave at once and leave no
    /// trace in here: then it may go to the device directly. Asked by its size alone, because a reference to
    /// metadata that is still in registers would cost more than the rest of the direct path.
    fn transparent(&self, _wire_len: u32) -> bool {
        false
    }
    /// True if it may ask for copies of packets. Of all qdiscs in a tree that emulate a link it must be the only one, so
    /// that copies are not copied again, here or further on.
    fn copies(&self) -> bool {
        false
    }
    /// Brings its parameters up to date, where commands to its classes change them.
    fn refresh(&self, _cfg: &mut Self::Config) {}
    /// Its counters.
    fn stats(&self) -> Self::Stats;
    /// Shows the counters of `PARTS` that it keeps apart for each of its parts, part after part, each by its name.
    fn parts(&self, _f: &mut dyn FnMut(&'static str, &'static Counter, u64)) {}
    /// Its classes that have a qdisc. A slot with minor 0 is vacant.
    fn classes(&self) -> &[Class] {
        &[]
    }
    /// The same, to graft into.
    fn classes_mut(&mut self) -> &mut [Class] {
        &mut []
    }
    /// Its classes, if commands make or change them: `Some(self)` where `CLASSES` is.
    fn user_classes(&self) -> Option<&dyn UserClasses> {
        None
    }
    /// The same, to change.
    fn user_classes_mut(&mut self) -> Option<&mut dyn UserClasses> {
        None
    }
    /// Shows the rates that it shares, or its classes share, by a name (`crate::path::rates`).
    fn shares(&self, _f: &mut dyn FnMut(Share<'_>)) {}
    /// Shares a rate from now on, it itself (`minor` 0) or one of its classes, of those that `shares` shows.
    fn share(&mut self, _minor: u16, _lease: Lease) {}
    /// Shows the flows that it keeps apart from one another, those only in which something waits or whose turn comes.
    fn flows(&self, _pool: &Pool, _f: &mut dyn FnMut(FlowShown<'_>)) {}
    /// What a class has when nothing is grafted: at creation, and after a delete.
    fn default_child(_cfg: &Self::Config, env: &Env) -> Node {
        Node::default_child(env)
    }
}

/// A qdisc of any kind. Implemented once, for every `Discipline`.
pub trait Qdisc: Debug + Send + Sync {
    /// Its entry in the registry.
    fn spec(&self) -> &'static Spec;
    /// See `Discipline::TAKES_CLASS`.
    fn takes_class(&self) -> bool;
    /// See `Discipline`.
    fn fits(&self) -> bool;
    /// The qdisc that its parameters ask for, with everything that waits in this one.
    fn refit(self: Box<Self>) -> Box<dyn Qdisc>;
    /// See `Discipline`.
    fn start(&mut self, now: Instant);
    /// See `Discipline`.
    fn admit(&self, m: &Asked<'_>, class: Option<ClassId>) -> Verdict;
    /// See `Discipline`.
    fn found(&self, class: Option<ClassId>, own: Handle) -> Found;
    /// See `Discipline`.
    fn select(&self, m: &Meta, class: Option<ClassId>) -> Option<&Class>;
    /// See `Discipline`; keeps the account of its node.
    fn enqueue(&mut self, p: Pkt, account: &mut Account, cx: &mut Cx);
    /// See `Discipline`; keeps the account of its node. Without a packet, `Cx::answer` tells why.
    fn dequeue(&mut self, account: &mut Account, cx: &mut Cx) -> Option<Pkt>;
    /// As `dequeue`, if `head` can tell the next packet and it has at most so many wire bytes. Then nothing is dropped.
    fn dequeue_within(&mut self, most: u64, account: &mut Account, cx: &mut Cx) -> Within;
    /// See `Discipline`.
    fn head<'a>(&self, pool: &'a Pool) -> Option<&'a Meta>;
    /// See `Discipline`.
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek>;
    /// See `Discipline`.
    fn holding(&mut self, held: bool);
    /// See `Discipline`.
    fn drain(&mut self, out: &mut List, pool: &mut Pool);
    /// See `Discipline`.
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(&Meta));
    /// Drops every packet, here and below, and forgets everything but parameters and counters.
    fn purge(&mut self, cx: &mut Cx);
    /// See `Discipline`.
    fn transparent(&self, wire_len: u32) -> bool;
    /// See `Discipline`.
    fn copies(&self) -> bool;
    /// Reads and applies new parameters, all or nothing.
    fn change(&mut self, words: &mut Words<'_>, env: &Env, cx: &mut Cx) -> Result<(), ConfigError>;
    /// Shows every parameter with its present value.
    fn options(&self, f: &mut dyn FnMut(Shown<'_>));
    /// Shows every counter.
    fn counters(&self, f: &mut dyn FnMut(&'static Counter, u64));
    /// See `Discipline`.
    fn parts(&self, f: &mut dyn FnMut(&'static str, &'static Counter, u64));
    /// See `Discipline::WANTS_DETAIL`.
    fn wants_detail(&self) -> bool;
    /// See `Discipline`.
    fn classes(&self) -> &[Class];
    /// See `Discipline`.
    fn classes_mut(&mut self) -> &mut [Class];
    /// See `Discipline`.
    fn user_classes(&self) -> Option<&dyn UserClasses>;
    /// See `Discipline`.
    fn user_classes_mut(&mut self) -> Option<&mut dyn UserClasses>;
    /// See `Discipline`.
    fn shares(&self, f: &mut dyn FnMut(Share<'_>));
    /// See `Discipline`.
    fn share(&mut self, minor: u16, lease: Lease);
    /// See `Discipline`.
    fn flows(&self, pool: &Pool, f: &mut dyn FnMut(FlowShown<'_>));
    /// See `Discipline`.
    fn default_child(&self, env: &Env) -> Node;
}

/// A discipline with its parameters.
#[derive(Debug)]
pub struct Erased<D: Discipline> {
    inner: D,
    cfg: D::Config,
}

impl<D: Discipline> Erased<D> {
    const SPEC: &'static Spec = &Spec::of::<D>();

    /// One with these parameters.
    pub fn new(mut cfg: D::Config, env: &Env) -> Result<Self, ConfigError> {
        if let Some((param, given)) = cfg.out_of_range(env) {
            return Err(ConfigError::new(ErrorKind::OutOfRange, D::KIND, param.range, given).key(param.key));
        }
        D::resolve(&mut cfg, None, env)?;
        Ok(Self { inner: D::new(&cfg, env), cfg })
    }

    /// The qdisc that the parameters ask for.
    pub fn boxed(self) -> Box<dyn Qdisc> {
        self.inner.boxed(self.cfg)
    }
}

impl<D: Discipline> Erased<D> {
    /// Apart, so that what is quiet has few registers to save.
    #[inline(never)]
    fn enqueue_loudly(&mut self, p: Pkt, class: Option<ClassId>, account: &mut Account, cx: &mut Cx) {
        if cx.owing() {
            let outer = cx.begin_call();
            self.enqueue_loudly(p, class, account, cx);
            return cx.end_call(outer);
        }
        self.inner.enqueue(p, class, cx);
        if cx.owing() {
            account.settle(cx.before(), cx);
        }
    }

    /// As `Qdisc::dequeue`, after something was dropped beside it.
    #[cold]
    #[inline(never)]
    fn dequeue_owing(&mut self, account: &mut Account, cx: &mut Cx) -> Option<Pkt> {
        let outer = cx.begin_call();
        let next = Qdisc::dequeue(self, account, cx);
        cx.end_call(outer);
        next
    }
}

impl<D: Discipline> Qdisc for Erased<D> {
    fn spec(&self) -> &'static Spec {
        Self::SPEC
    }
    fn takes_class(&self) -> bool {
        D::TAKES_CLASS
    }
    fn fits(&self) -> bool {
        self.inner.fits(&self.cfg)
    }
    fn refit(self: Box<Self>) -> Box<dyn Qdisc> {
        self.inner.boxed(self.cfg)
    }
    fn start(&mut self, now: Instant) {
        self.inner.start(now);
    }
    fn admit(&self, m: &Asked<'_>, class: Option<ClassId>) -> Verdict {
        self.inner.admit(m, class)
    }
    fn found(&self, class: Option<ClassId>, own: Handle) -> Found {
        self.inner.found(class, own)
    }
    fn select(&self, m: &Meta, class: Option<ClassId>) -> Option<&Class> {
        self.inner.select(m, class)
    }
    #[inline]
    fn enqueue(&mut self, p: Pkt, account: &mut Account, cx: &mut Cx) {
        let m = cx.pool.meta(&p);
        account.enter(m.wire_len);
        let class = if D::TAKES_CLASS { account.classify(m) } else { None };
        if let Some(p) = self.inner.enqueue_quietly(p, class, &mut cx.pool) {
            self.enqueue_loudly(p, class, account, cx);
        }
    }
    #[inline]
    fn dequeue(&mut self, account: &mut Account, cx: &mut Cx) -> Option<Pkt> {
        if cx.owing() {
            return self.dequeue_owing(account, cx);
        }
        let next = self.inner.dequeue(cx);
        if cx.owing() {
            account.settle(cx.before(), cx);
        }
        match next {
            Next::Packet(p) => {
                account.leave(cx.pool.meta(&p));
                Some(p)
            }
            other => {
                cx.set_answer(other);
                None
            }
        }
    }
    #[inline]
    fn dequeue_within(&mut self, most: u64, account: &mut Account, cx: &mut Cx) -> Within {
        match self.inner.head(&cx.pool).map(|m| m.wire_len) {
            Some(wire_len) if u64::from(wire_len) > most => Within::Larger(wire_len),
            Some(_) => match self.dequeue(account, cx) {
                None => Within::Unknown,
                Some(p) => Within::Packet(p),
            },
            None => Within::Unknown,
        }
    }
    fn head<'a>(&self, pool: &'a Pool) -> Option<&'a Meta> {
        self.inner.head(pool)
    }
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        self.inner.peek(cx)
    }
    fn holding(&mut self, held: bool) {
        self.inner.holding(held);
    }
    fn drain(&mut self, out: &mut List, pool: &mut Pool) {
        self.inner.drain(out, pool);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(&Meta)) {
        self.inner.queued(pool, f);
    }
    fn purge(&mut self, cx: &mut Cx) {
        let mut own = List::new();
        self.inner.drain(&mut own, &mut cx.pool);
        while let Some(p) = own.pop_front(&cx.pool) {
            cx.drop(p, DropReason::Purged);
        }
        for class in self.inner.classes_mut() {
            class.node.purge(cx);
        }
        self.inner.reset(cx);
    }
    fn transparent(&self, wire_len: u32) -> bool {
        self.inner.transparent(wire_len)
    }
    fn copies(&self) -> bool {
        self.inner.copies()
    }
    fn change(&mut self, words: &mut Words<'_>, env: &Env, cx: &mut Cx) -> Result<(), ConfigError> {
        self.inner.refresh(&mut self.cfg);
        let mut cfg = match D::CHANGE {
            ChangeRule::Merge => self.cfg.clone(),
            ChangeRule::Replace => D::Config::defaults(env),
        };
        words.know_link_rate(env.link_rate);
        apply(&mut cfg, D::KIND, words)?;
        D::resolve(&mut cfg, Some(&self.cfg), env)?;
        if cx.swapping() && cfg == self.cfg {
            // The new policy has it as it is.
            return Ok(());
        }
        self.inner.change(&cfg, env, cx);
        self.cfg = cfg;
        Ok(())
    }
    fn options(&self, f: &mut dyn FnMut(Shown<'_>)) {
        let mut cfg = self.cfg.clone();
        self.inner.refresh(&mut cfg);
        cfg.visit(f);
    }
    fn counters(&self, f: &mut dyn FnMut(&'static Counter, u64)) {
        self.inner.stats().visit(f);
    }
    fn parts(&self, f: &mut dyn FnMut(&'static str, &'static Counter, u64)) {
        self.inner.parts(f);
    }
    fn wants_detail(&self) -> bool {
        D::WANTS_DETAIL
    }
    fn classes(&self) -> &[Class] {
        self.inner.classes()
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        self.inner.classes_mut()
    }
    fn user_classes(&self) -> Option<&dyn UserClasses> {
        self.inner.user_classes()
    }
    fn user_classes_mut(&mut self) -> Option<&mut dyn UserClasses> {
        self.inner.user_classes_mut()
    }
    fn shares(&self, f: &mut dyn FnMut(Share<'_>)) {
        self.inner.shares(f);
    }
    fn share(&mut self, minor: u16, lease: Lease) {
        self.inner.share(minor, lease);
    }
    fn flows(&self, pool: &Pool, f: &mut dyn FnMut(FlowShown<'_>)) {
        self.inner.flows(pool, f);
    }
    fn default_child(&self, env: &Env) -> Node {
        D::default_child(&self.cfg, env)
    }
}
