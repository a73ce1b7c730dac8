//! `Qdisc`, a qdisc of any kind, and `Erased`, which makes one of every `Discipline`.

use alloc::boxed::Box;
use core::fmt::Debug;

use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::time::Instant;
use crate::law::lease::Lease;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool};
use crate::packet::reason::DropReason;
use crate::packet::route::{Asked, Found};
use crate::sched::answer::{Next, Verdict, Within};
use crate::sched::classful::UserClasses;
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline, FlowShown};
use crate::sched::node::{Account, Class, Node, Peek};
use crate::sched::share::Share;
use crate::sched::spec::Spec;
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::params::{Params, Shown, apply};
use crate::text::stats::{Counter, Counters};
use crate::text::value::Words;

/// A qdisc of any kind. Implemented once, for every `Discipline`.
pub trait Qdisc: Debug + Send + Sync {
    /// Its entry in the registry.
    fn spec(&self) -> &'static Spec;
    /// See `Discipline::TAKES_CLASS`.
    fn takes_class(&self) -> bool;
    /// See `Discipline`.
    fn fits(&self) -> bool;
    /// The qdisc that its parameters ask for, with everything that waits in this one, which is empty and of no use then.
    fn refit(&mut self) -> Box<dyn Qdisc>;
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
    fn default_child(&self, env: &Env) -> Option<Node>;
}

/// A discipline with its parameters.
#[derive(Debug)]
pub struct Erased<D: Discipline> {
    pub(crate) inner: D,
    pub(crate) cfg: D::Config,
}

impl<D: Discipline> Erased<D> {
    const SPEC: &'static Spec = &Spec::of::<D>();

    /// One with these parameters.
    pub fn new(mut cfg: D::Config, env: &Env) -> Result<Self, ConfigError> {
        if let Some((param, given)) = cfg.out_of_range(env) {
            let err = ConfigError::new(ErrorKind::OutOfRange, Object::Kind(D::KIND), param.range, given);
            return Err(err.key(param.key).reason(Reason::DeclaredRange));
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
    fn refit(&mut self) -> Box<dyn Qdisc> {
        let inner = core::mem::replace(&mut self.inner, D::new(&self.cfg, &Env::default()));
        inner.boxed(self.cfg.clone())
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
    fn default_child(&self, env: &Env) -> Option<Node> {
        D::default_child(&self.cfg, env)
    }
}
