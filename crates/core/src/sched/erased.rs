//! `Qdisc`, a qdisc of any kind, and `Erased`, which makes a `Qdisc` of every `Discipline`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Debug;

use crate::base::bound::Bound;
use crate::base::chance::Percent;
use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::time::Instant;
use crate::law::lease::Lease;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::DropReason;
use crate::packet::route::{Candidate, Classified};
use crate::packet::scouts::Way;
use crate::sched::answer::{Next, Verdict, Within};
use crate::sched::capability::{FlowShown, classify_by_minor};
use crate::sched::classful::UserClasses;
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline};
use crate::sched::node::{Account, Class, Node, Peek, Soon};
use crate::sched::share::{Share, Wanted};
use crate::sched::spec::Spec;
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::params::{Params, Shown, apply};
use crate::text::stats::{Counter, Counters};
use crate::text::value::Words;

/// A qdisc of any kind. Implemented once, for every `Discipline`.
pub trait Qdisc: Any + Debug + Send + Sync {
    /// Returns its entry in the registry.
    fn spec(&self) -> &'static Spec;
    /// See `Discipline::TAKES_CLASS`.
    fn takes_class(&self) -> bool;
    /// See `Discipline::BAND`.
    fn band(&self) -> Option<Percent>;
    /// See `Discipline`.
    fn start(&mut self, now: Instant);
    /// See `Discipline`.
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict;
    /// See `Discipline`.
    fn classify_result(&self, class: Option<ClassId>, asked: Option<Handle>, own: Handle) -> Classified;
    /// See `Discipline`.
    fn select(&self, m: &Meta, class: Option<ClassId>) -> Option<&Class>;
    /// See `Discipline`; of a kind with classes, for the class.
    fn expect(&self, m: &Meta, step: u32, account: &Account, pool: &Pool) -> Soon<'_>;
    /// Asks for the memory of the qdisc itself.
    fn ask(&self);
    /// See `Class::way_out`; the memory of the qdisc itself is there.
    fn way_out(&self, step: u8, queue: u8, pool: &mut Pool) -> Way;
    /// See `Discipline`; keeps the account of its node.
    fn enqueue(&mut self, p: Pkt, account: &mut Account, cx: &mut Cx);
    /// See `Discipline`; keeps the account of its node. Without a packet, `Wakes::answer` returns
    /// the reason.
    fn dequeue(&mut self, account: &mut Account, cx: &mut Cx) -> Option<Pkt>;
    /// As `dequeue`, if `head` knows the next packet and it has at most `most` wire bytes. Then
    /// nothing is dropped.
    fn dequeue_within(&mut self, most: u64, account: &mut Account, cx: &mut Cx) -> Within;
    /// See `Discipline`.
    fn head<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>>;
    /// See `Discipline`.
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek>;
    /// See `Discipline`.
    fn holding(&mut self, held: bool);
    /// See `Discipline`.
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool);
    /// See `Discipline`.
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>));
    /// Drops every packet, here and below, and forgets everything but parameters and counters.
    fn purge(&mut self, cx: &mut Cx);
    /// See `Discipline`.
    fn transparent(&self, wire_len: u32) -> bool;
    /// See `Discipline::COPIES`.
    fn copies(&self) -> bool;
    /// Returns the bytes of it and its tables, without its classes that commands made.
    fn memory(&self, env: &Env) -> u64;
    /// Reads and applies new parameters, all or nothing.
    fn change(&mut self, words: &mut Words<'_>, env: &Env, cx: &mut Cx) -> Result<(), ConfigError>;
    /// Reads new parameters as `change` does, and changes nothing.
    fn revised(&self, words: &mut Words<'_>, env: &Env) -> Result<Revised, ConfigError>;
    /// Applies parameters that `revised` has read, if the qdisc has not changed since.
    fn revise(&mut self, revision: &mut Revision, env: &Env, cx: &mut Cx);
    /// Calls `f` on every parameter with its present value.
    fn options(&self, f: &mut dyn FnMut(Shown<'_>));
    /// Calls `f` on every counter.
    fn counters(&self, f: &mut dyn FnMut(&'static Counter, u64));
    /// See `Discipline`.
    fn parts(&self, f: &mut dyn FnMut(&'static str, &'static Counter, u64));
    /// See `Discipline::WANTS_DETAIL`.
    fn wants_detail(&self) -> bool;
    /// See `Discipline`.
    fn classes(&self) -> &[Class];
    /// See `Discipline`.
    fn classes_mut(&mut self) -> &mut [Class];
    /// Returns the class of a minor number above 0.
    fn class(&self, minor: u16) -> Option<&Class>;
    /// Returns the same, to change.
    fn class_mut(&mut self, minor: u16) -> Option<&mut Class>;
    /// See `Discipline`.
    fn user_classes(&self) -> Option<&dyn UserClasses>;
    /// See `Discipline`.
    fn user_classes_mut(&mut self) -> Option<&mut dyn UserClasses>;
    /// See `Discipline`.
    fn shares(&self, f: &mut dyn FnMut(Share<'_>));
    /// See `Discipline`.
    fn shared(&self, minor: u16) -> Option<Share<'_>>;
    /// See `Discipline`.
    fn share(&mut self, minor: u16, lease: Lease);
    /// Returns the rate that it would ask to share after `change` with these words; `None` also if
    /// that refuses them.
    fn wanted(&self, words: &mut Words<'_>, env: &Env) -> Option<Wanted>;
    /// See `Discipline`.
    fn flows(&self, pool: &Pool, f: &mut dyn FnMut(FlowShown<'_>));
    /// See `Discipline`.
    fn default_child(&self, env: &Env) -> Option<Node>;
}

/// New parameters of a qdisc, or of some of its classes, read and checked, that are not applied
/// yet. Those of the classes lie one behind the other, so that memory is read in its order.
#[derive(Debug)]
pub struct Revision(Box<dyn Batch>);

impl Revision {
    /// Holds parameters of the class of this minor number; 0 is the qdisc itself.
    pub(crate) fn of<T: Any + Debug + Send>(minor: u16, parameters: T) -> Self {
        Self(Box::new(alloc::vec![(minor, parameters)]))
    }
    /// Takes over the parameters of other classes of the same qdisc.
    pub(crate) fn absorb(&mut self, mut more: Self) {
        self.0.absorb(more.0.as_any());
    }
    /// Takes the parameters out, each with its minor number.
    pub(crate) fn drain<T: Any>(&mut self) -> impl Iterator<Item = (u16, T)> {
        self.0.as_any().downcast_mut().into_iter().flat_map(|all: &mut Vec<(u16, T)>| all.drain(..))
    }
}

/// A list of parameters of one type.
trait Batch: Debug + Send {
    /// Moves the parameters of a list of the same type to the end of this one.
    fn absorb(&mut self, more: &mut dyn Any);
    fn as_any(&mut self) -> &mut dyn Any;
}

impl<T: Any + Debug + Send> Batch for Vec<(u16, T)> {
    fn absorb(&mut self, more: &mut dyn Any) {
        if let Some(more) = more.downcast_mut::<Self>() {
            self.append(more);
        }
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Effect of words on the parameters of a qdisc or a class that exists.
#[derive(Debug)]
pub enum Revised {
    /// None: they are as they were.
    Same,
    /// New parameters, which concern this object alone.
    Alone(Revision),
    /// New parameters that rules about several objects may refuse, or by which packets may be
    /// classified otherwise: only `change` applies them.
    Wide,
}

/// A discipline with its parameters.
#[derive(Debug)]
pub struct Erased<D: Discipline> {
    pub(crate) inner: D,
    pub(crate) cfg: D::Config,
}

impl<D: Discipline> Erased<D> {
    const SPEC: &'static Spec = &Spec::of::<D>();

    /// Returns a qdisc with these parameters, which are resolved.
    fn of(cfg: D::Config, rules: D::Rules, env: &Env) -> Self {
        Self { inner: D::new(&cfg, rules, env), cfg }
    }
}

impl<D: Discipline<Rules = ()>> Erased<D> {
    /// Returns a qdisc of a kind that refuses no parameters in their ranges.
    pub(crate) fn plain(cfg: D::Config, env: &Env) -> Self {
        Self::of(cfg, (), env)
    }
    /// Gives the qdisc new parameters.
    pub(crate) fn change_plain(&mut self, cfg: D::Config, env: &Env, cx: &mut Cx) {
        if !(cx.swapping() && cfg == self.cfg) {
            self.inner.change(&cfg, (), env, cx);
            self.cfg = cfg;
        }
    }
}

/// Resolves parameters.
///
/// # Errors
/// A parameter is out of its range, or the kind refuses them.
pub(crate) fn resolved<D: Discipline>(
    mut cfg: D::Config,
    env: &Env,
) -> Result<Box<dyn Resolved>, ConfigError> {
    let rules = rules_of::<D>(&mut cfg, env)?;
    Ok(Box::new(Parameters::<D> { cfg, rules }))
}

fn rules_of<D: Discipline>(cfg: &mut D::Config, env: &Env) -> Result<D::Rules, ConfigError> {
    if let Some((param, given)) = cfg.out_of_range(env) {
        let err = ConfigError::new(ErrorKind::OutOfRange, Object::Kind(D::KIND), param.range, given);
        return Err(err.key(param.key).reason(Reason::DeclaredRange));
    }
    D::resolve(cfg, None, env)
}

/// Returns a qdisc with these parameters.
///
/// # Errors
/// A parameter is out of its range, or the kind refuses them.
pub(crate) fn made<D: Discipline>(mut cfg: D::Config, env: &Env) -> Result<Box<dyn Qdisc>, ConfigError> {
    let rules = rules_of::<D>(&mut cfg, env)?;
    Ok(Box::new(Erased::<D>::of(cfg, rules, env)))
}

/// Resolved parameters of a qdisc of any kind that is not made yet: read, checked against all rules
/// of the kind, and brought to its form.
pub trait Resolved {
    /// Calls `f` on every parameter with its value.
    fn options(&self, f: &mut dyn FnMut(Shown<'_>));
    /// See `Discipline::COPIES`.
    fn copies(&self) -> bool;
    /// Returns the bytes that `make` allocates.
    fn memory(&self, env: &Env) -> u64;
    /// See `Discipline::WANTS`.
    fn wanted(&self) -> Option<Wanted>;
    /// Makes the qdisc, which allocates all the memory that it will need.
    fn make(self: Box<Self>, env: &Env) -> Box<dyn Qdisc>;
}

struct Parameters<D: Discipline> {
    cfg: D::Config,
    rules: D::Rules,
}

impl<D: Discipline> Resolved for Parameters<D> {
    fn options(&self, f: &mut dyn FnMut(Shown<'_>)) {
        self.cfg.visit(f);
    }
    fn copies(&self) -> bool {
        copies::<D>(&self.cfg)
    }
    fn memory(&self, env: &Env) -> u64 {
        memory::<D>(&self.cfg, env)
    }
    fn wanted(&self) -> Option<Wanted> {
        (D::WANTS)(&self.cfg)
    }
    fn make(self: Box<Self>, env: &Env) -> Box<dyn Qdisc> {
        Box::new(Erased::<D>::of(self.cfg, self.rules, env))
    }
}

fn refresh<D: Discipline>(inner: &D, cfg: &mut D::Config) {
    if let Some(made) = &D::MADE {
        (made.refresh)(inner, cfg);
    }
}

/// Returns the parameters of a qdisc that has the `old` ones after a change.
fn changed<D: Discipline>(
    old: &D::Config,
    words: &mut Words<'_>,
    env: &Env,
) -> Result<(D::Config, D::Rules), ConfigError> {
    let mut cfg = match D::CHANGE {
        ChangeRule::Merge => old.clone(),
        ChangeRule::Replace => D::Config::defaults(env),
    };
    words.know_link_rate(env.link_rate);
    apply(&mut cfg, D::KIND, words)?;
    let rules = D::resolve(&mut cfg, Some(old), env)?;
    Ok((cfg, rules))
}

fn classes<D: Discipline>(inner: &D) -> &[Class] {
    match &D::CLASSES {
        Some(classes) => (classes.of)(inner).classes(),
        None => &[],
    }
}

fn classes_mut<D: Discipline>(inner: &mut D) -> &mut [Class] {
    match &D::CLASSES {
        Some(classes) => (classes.of_mut)(inner).classes_mut(),
        None => &mut [],
    }
}

/// Returns the place of a class among the classes. A slot with minor 0 is vacant.
fn slot<D: Discipline>(inner: &D, minor: u16) -> Option<usize> {
    let of = (D::CLASSES.as_ref()?.of)(inner);
    let slot = if minor == 0 { None } else { of.slot(minor) };
    slot.filter(|slot| of.classes().get(*slot).is_some_and(|class| class.minor == minor))
}

/// Returns the bytes of a qdisc with these parameters.
fn memory<D: Discipline>(cfg: &D::Config, env: &Env) -> u64 {
    (D::TABLES)(cfg, env).saturating_add(size_of::<Erased<D>>() as u64) // a size in memory
}

fn copies<D: Discipline>(cfg: &D::Config) -> bool {
    let Some(key) = D::COPIES else { return false };
    let mut set = false;
    cfg.visit(&mut |o| set |= o.param.key == key && o.value.is_set());
    set
}

impl<D: Discipline> Erased<D> {
    /// Does the work of `enqueue` when `enqueue_quietly` has not queued the packet. Out of line:
    /// inlined, it would make the common quiet path spill registers.
    #[inline(never)]
    fn enqueue_loudly(&mut self, p: Pkt, class: Option<ClassId>, account: &mut Account, cx: &mut Cx) {
        self.offer(p, class, account, cx);
    }

    /// As `offer`, after an effect beside this qdisc.
    #[cold]
    #[inline(never)]
    fn offer_owing(&mut self, p: Pkt, class: Option<ClassId>, account: &mut Account, cx: &mut Cx) {
        let outer = cx.effects.begin_call();
        self.enqueue_loudly(p, class, account, cx);
        cx.effects.end_call(outer);
    }

    /// Offers a packet to the discipline, and settles the effects.
    #[inline(always)]
    fn offer(&mut self, p: Pkt, class: Option<ClassId>, account: &mut Account, cx: &mut Cx) {
        if cx.effects.any() {
            return self.offer_owing(p, class, account, cx);
        }
        self.inner.enqueue(p, class, cx);
        if cx.effects.any() {
            account.settle(cx.effects.before(), cx);
        }
    }

    /// As `Qdisc::dequeue`, after an effect beside this qdisc.
    #[cold]
    #[inline(never)]
    fn dequeue_owing(&mut self, account: &mut Account, cx: &mut Cx) -> Option<Pkt> {
        let outer = cx.effects.begin_call();
        let next = Qdisc::dequeue(self, account, cx);
        cx.effects.end_call(outer);
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
    fn band(&self) -> Option<Percent> {
        (D::BAND)(&self.cfg)
    }
    fn start(&mut self, now: Instant) {
        self.inner.start(now);
    }
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict {
        self.inner.would_accept(m, class)
    }
    fn classify_result(&self, class: Option<ClassId>, asked: Option<Handle>, own: Handle) -> Classified {
        match (&D::CLASSES, self.inner.as_flows()) {
            (Some(classes), _) => (classes.of)(&self.inner).classify_result(class, asked, own),
            (None, Some(flows)) => flows.classify_result(class, asked, own),
            (None, None) => classify_by_minor(class, own),
        }
    }
    fn select(&self, m: &Meta, class: Option<ClassId>) -> Option<&Class> {
        (D::CLASSES.as_ref()?.of)(&self.inner).select(m, class)
    }
    fn expect(&self, m: &Meta, step: u32, account: &Account, pool: &Pool) -> Soon<'_> {
        let class = if D::TAKES_CLASS { account.choice().of(m) } else { None };
        let Some(classes) = &D::CLASSES else {
            return if self.inner.expect(m, class, step, pool) { Soon::More } else { Soon::Nothing };
        };
        let classes = (classes.of)(&self.inner);
        match classes.select(m, class) {
            Some(place) => {
                txweir_ahead::first_line(place);
                classes.expect(class);
                Soon::Class(place)
            }
            None => Soon::Nothing,
        }
    }
    fn ask(&self) {
        // A packet does not touch the parameters.
        txweir_ahead::value(&self.inner);
    }
    fn way_out(&self, step: u8, queue: u8, pool: &mut Pool) -> Way {
        let Some(classes) = &D::CLASSES else {
            let first = if queue == 0 { self.inner.head(pool) } else { None };
            let Some(Waiting { index, .. }) = first else { return Way::End };
            pool.ask(index);
            return Way::Packet(index);
        };
        let classes = (classes.of)(&self.inner);
        match classes.in_turn(queue.into()).and_then(|i| classes.classes().get(i)) {
            Some(class) => class.way_out(step, 0, pool),
            None => Way::End,
        }
    }
    #[inline]
    fn enqueue(&mut self, p: Pkt, account: &mut Account, cx: &mut Cx) {
        let m = cx.pool.meta(&p);
        account.enter(m.wire_len);
        let class = if D::TAKES_CLASS { account.choice().of(m) } else { None };
        if !D::QUIET {
            self.offer(p, class, account, cx);
        } else if let Some(p) = self.inner.enqueue_quietly(p, class, &mut cx.pool) {
            self.enqueue_loudly(p, class, account, cx);
        }
    }
    #[inline]
    fn dequeue(&mut self, account: &mut Account, cx: &mut Cx) -> Option<Pkt> {
        if cx.effects.any() {
            return self.dequeue_owing(account, cx);
        }
        let next = self.inner.dequeue(cx);
        if cx.effects.any() {
            account.settle(cx.effects.before(), cx);
        }
        match next {
            Next::Packet(p) => {
                account.leave(cx.pool.meta(&p));
                Some(p)
            }
            other => {
                cx.wakes.set_answer(other);
                None
            }
        }
    }
    #[inline]
    fn dequeue_within(&mut self, most: u64, account: &mut Account, cx: &mut Cx) -> Within {
        match self.inner.head(&cx.pool).map(|w| w.meta.wire_len) {
            Some(wire_len) if u64::from(wire_len) > most => Within::Larger,
            Some(_) => match self.dequeue(account, cx) {
                None => Within::Unknown,
                Some(p) => Within::Packet(p),
            },
            None => Within::Unknown,
        }
    }
    fn head<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>> {
        self.inner.head(pool)
    }
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        self.inner.peek(cx)
    }
    fn holding(&mut self, held: bool) {
        self.inner.holding(held);
    }
    fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        self.inner.evict_all(out, pool);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.inner.queued(pool, f);
    }
    fn purge(&mut self, cx: &mut Cx) {
        let mut own = List::new();
        self.inner.evict_all(&mut own, &mut cx.pool);
        let mut bound = Bound::of(cx.pool.capacity());
        while let Some(p) = own.pop_front(&cx.pool) {
            bound.turn();
            cx.drop(p, DropReason::Purged);
        }
        for class in classes_mut(&mut self.inner) {
            class.node.purge(cx);
        }
        self.inner.reset(cx);
    }
    fn transparent(&self, wire_len: u32) -> bool {
        self.inner.transparent(wire_len)
    }
    fn copies(&self) -> bool {
        copies::<D>(&self.cfg)
    }
    fn memory(&self, env: &Env) -> u64 {
        memory::<D>(&self.cfg, env)
    }
    fn revised(&self, words: &mut Words<'_>, env: &Env) -> Result<Revised, ConfigError> {
        let mut old = self.cfg.clone();
        refresh(&self.inner, &mut old);
        let (cfg, _) = changed::<D>(&old, words, env)?;
        let grows = || memory::<D>(&cfg, env) > memory::<D>(&old, env);
        Ok(match cfg == old {
            true => Revised::Same,
            false if D::SHAPE.is_classful() || copies::<D>(&cfg) || grows() => Revised::Wide,
            false => Revised::Alone(Revision::of(0, cfg)),
        })
    }
    fn revise(&mut self, revision: &mut Revision, env: &Env, cx: &mut Cx) {
        for (_, mut cfg) in revision.drain::<D::Config>() {
            // They were resolved beside the same parameters, and not refused.
            if let Ok(rules) = D::resolve(&mut cfg, Some(&self.cfg), env) {
                self.inner.change(&cfg, rules, env, cx);
                self.cfg = cfg;
            }
        }
    }
    fn change(&mut self, words: &mut Words<'_>, env: &Env, cx: &mut Cx) -> Result<(), ConfigError> {
        refresh(&self.inner, &mut self.cfg);
        let (cfg, rules) = changed::<D>(&self.cfg, words, env)?;
        if cx.swapping() && cfg == self.cfg {
            // The new policy keeps the qdisc unchanged.
            return Ok(());
        }
        self.inner.change(&cfg, rules, env, cx);
        self.cfg = cfg;
        Ok(())
    }
    fn options(&self, f: &mut dyn FnMut(Shown<'_>)) {
        let mut cfg = self.cfg.clone();
        refresh(&self.inner, &mut cfg);
        cfg.visit(f);
    }
    fn counters(&self, f: &mut dyn FnMut(&'static Counter, u64)) {
        self.inner.stats().visit(f);
    }
    fn parts(&self, f: &mut dyn FnMut(&'static str, &'static Counter, u64)) {
        if let Some(flows) = self.inner.as_flows() {
            flows.parts(f);
        }
    }
    fn wants_detail(&self) -> bool {
        D::WANTS_DETAIL
    }
    fn classes(&self) -> &[Class] {
        classes(&self.inner)
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        classes_mut(&mut self.inner)
    }
    fn class(&self, minor: u16) -> Option<&Class> {
        classes(&self.inner).get(slot(&self.inner, minor)?)
    }
    fn class_mut(&mut self, minor: u16) -> Option<&mut Class> {
        let slot = slot(&self.inner, minor)?;
        classes_mut(&mut self.inner).get_mut(slot)
    }
    fn user_classes(&self) -> Option<&dyn UserClasses> {
        match &D::MADE {
            Some(made) => Some((made.classes.of)(&self.inner)),
            None => None,
        }
    }
    fn user_classes_mut(&mut self) -> Option<&mut dyn UserClasses> {
        match &D::MADE {
            Some(made) => Some((made.classes.of_mut)(&mut self.inner)),
            None => None,
        }
    }
    fn shares(&self, f: &mut dyn FnMut(Share<'_>)) {
        if let Some(shares) = &D::SHARES {
            (shares.of)(&self.inner).shares(f);
        }
    }
    fn shared(&self, minor: u16) -> Option<Share<'_>> {
        (D::SHARES.as_ref()?.of)(&self.inner).shared(minor)
    }
    fn share(&mut self, minor: u16, lease: Lease) {
        if let Some(shares) = &D::SHARES {
            (shares.of_mut)(&mut self.inner).share(minor, lease);
        }
    }
    fn wanted(&self, words: &mut Words<'_>, env: &Env) -> Option<Wanted> {
        let mut old = self.cfg.clone();
        refresh(&self.inner, &mut old);
        changed::<D>(&old, words, env).ok().and_then(|(cfg, _)| (D::WANTS)(&cfg))
    }
    fn flows(&self, pool: &Pool, f: &mut dyn FnMut(FlowShown<'_>)) {
        if let Some(flows) = self.inner.as_flows() {
            flows.flows(pool, f);
        }
    }
    fn default_child(&self, env: &Env) -> Option<Node> {
        (D::CLASSES.as_ref()?.of)(&self.inner).default_child(env)
    }
}
