//! A band for TCP control segments before a qdisc of any kind: what `tcpctl SHARE` makes of fq, fq_codel and prio.
//!
//! SYN, SYN-ACK and pure ACK (`Meta::tcp_control`) wait in a list of their own and leave before what waits in the kind, as long
//! as they have credit (`crate::law::budget`): at most `SHARE` of what leaves while the kind has something that may leave. The
//! kind knows nothing of it: without the option there is no band, and a packet costs what it costs without this file.
//!
//! O(1) per packet. No memory beyond the packets.
//!
//! - I1: at most `BAND_PACKETS` wait in the band, beside the limit of the kind.
//! - I2: in the band, order of arrival is order of departure; what is not control goes through the kind as it would without.
//! - I3: a packet with a launch time is the kind's, whatever it carries: none leaves before its time.
//! - Differs from Linux (PARITY.md: tcpctl-band): Linux has no such option.

use alloc::boxed::Box;

use crate::base::chance::Percent;
use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::base::time::Instant;
use crate::law::budget::Budget;
use crate::law::lease::Lease;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Queue};
use crate::packet::reason::DropReason;
use crate::packet::route::{Asked, Found};
use crate::sched::answer::{Next, Verdict};
use crate::sched::classful::{ClassSpec, UserClasses};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline, Filtered, FlowShown};
use crate::sched::erased::{Erased, Qdisc};
use crate::sched::node::{Class, Node, Peek};
use crate::sched::share::Share;
use crate::sched::spec::Flags;
use crate::text::error::ConfigError;
use crate::text::stats::Counter;

/// Most packets that wait in a band: a device's usual queue length. As many ACKs leave in 0.5 ms at 1 Gbit/s.
pub const BAND_PACKETS: u32 = 1000;

/// A kind that can have a band before it.
pub(crate) trait HasBand: Discipline {
    /// The share that was asked for; `None`: no band.
    fn band(cfg: &Self::Config) -> Option<Percent>;
}

/// The qdisc that its parameters ask for: with a band or without.
pub(crate) fn boxed<D: HasBand>(inner: D, cfg: D::Config) -> Box<dyn Qdisc> {
    match D::band(&cfg) {
        None => Box::new(Erased { inner, cfg }),
        Some(share) => Box::new(Erased { inner: Controlled::around(inner, Some(share)), cfg }),
    }
}

/// No share is no band: `tcpctl 0%` takes it away.
pub(crate) fn resolve(share: &mut Option<Percent>) {
    *share = share.filter(|share| *share > Percent(0));
}

/// A kind with a band before it.
#[derive(Debug)]
pub(crate) struct Controlled<D> {
    inner: D,
    band: Queue,
    budget: Budget,
    /// Whether packets still come into the band; where not, it empties in its turn.
    on: bool,
    /// Whether the last packet was the kind's own.
    own: bool,
}

impl<D: Discipline> Controlled<D> {
    fn around(inner: D, share: Option<Percent>) -> Self {
        let budget = Budget::new(share.unwrap_or(Percent::ALL));
        Self { inner, band: Queue::new(), budget, on: share.is_some(), own: false }
    }
    /// Whether a packet is for the band.
    #[inline]
    fn takes(&self, m: &Meta) -> bool {
        m.tcp_control && m.txtime == Instant::ZERO && self.on
    }
    #[inline]
    const fn has_room(&self) -> bool {
        self.band.packets() < BAND_PACKETS
    }
    /// Whether the next packet is the band's, whatever waits in the kind.
    #[inline]
    const fn goes_first(&self) -> bool {
        !self.band.is_empty() && self.budget.allows()
    }
    fn take(&mut self, cx: &Cx) -> Next {
        self.own = false;
        match self.band.pop_front(&cx.pool) {
            Some(p) => {
                self.budget.spend(cx.meta(&p).wire_len);
                Next::Packet(p)
            }
            None => Next::Empty,
        }
    }
}

impl<D: HasBand> Discipline for Controlled<D> {
    const KIND: &'static str = D::KIND;
    const ABOUT: &'static str = D::ABOUT;
    const FLAGS: Flags = D::FLAGS;
    const CHANGE: ChangeRule = D::CHANGE;
    const TAKES_CLASS: bool = D::TAKES_CLASS;
    const ROOT_ONLY: bool = D::ROOT_ONLY;
    const FILTERS: Filtered = D::FILTERS;
    const CLASSES: Option<&'static ClassSpec> = D::CLASSES;
    const ONE_CLASS: bool = D::ONE_CLASS;
    const WANTS_DETAIL: bool = D::WANTS_DETAIL;
    const CONTROL_FIRST: bool = true;
    const PARTS: &'static [Counter] = D::PARTS;
    type Config = D::Config;
    type Stats = D::Stats;

    fn resolve(cfg: &mut D::Config, old: Option<&D::Config>, env: &Env) -> Result<(), ConfigError> {
        D::resolve(cfg, old, env)
    }
    fn new(cfg: &D::Config, env: &Env) -> Self {
        Self::around(D::new(cfg, env), D::band(cfg))
    }
    fn fits(&self, cfg: &D::Config) -> bool {
        D::band(cfg).is_some() || !self.band.is_empty()
    }
    fn boxed(self, cfg: D::Config) -> Box<dyn Qdisc> {
        match self.fits(&cfg) {
            true => Box::new(Erased { inner: self, cfg }),
            false => boxed(self.inner, cfg),
        }
    }
    fn start(&mut self, now: Instant) {
        self.inner.start(now);
    }
    fn change(&mut self, cfg: &D::Config, env: &Env, cx: &mut Cx) {
        let share = D::band(cfg);
        self.on = share.is_some();
        if let Some(share) = share.filter(|share| *share != self.budget.share()) {
            self.budget.set_share(share);
        }
        self.inner.change(cfg, env, cx);
    }
    fn admit(&self, m: &Asked<'_>, class: Option<ClassId>) -> Verdict {
        match self.takes(m) {
            true if self.has_room() => Verdict::Accept,
            true => Verdict::Full,
            false => self.inner.admit(m, class),
        }
    }
    fn found(&self, class: Option<ClassId>, own: Handle) -> Found {
        self.inner.found(class, own)
    }
    fn select(&self, m: &Meta, class: Option<ClassId>) -> Option<&Class> {
        if self.takes(m) { None } else { self.inner.select(m, class) }
    }
    #[inline]
    fn enqueue_quietly(&mut self, p: Pkt, class: Option<ClassId>, pool: &mut Pool) -> Option<Pkt> {
        if !self.takes(pool.meta(&p)) {
            return self.inner.enqueue_quietly(p, class, pool);
        }
        if !self.has_room() {
            return Some(p);
        }
        self.band.push_back(pool, p);
        None
    }
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        if !self.takes(cx.meta(&p)) {
            return self.inner.enqueue(p, class, cx);
        }
        if !self.has_room() {
            return cx.drop(p, DropReason::Overlimit);
        }
        self.band.push_back(&mut cx.pool, p);
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        if self.goes_first() {
            return self.take(cx);
        }
        let next = self.inner.dequeue(cx);
        match &next {
            Next::Packet(p) => {
                self.own = true;
                self.budget.earn(cx.meta(p).wire_len);
                return next;
            }
            // Nobody is kept waiting by the band.
            Next::Empty | Next::At(..) => self.budget.refill(),
        }
        if self.band.is_empty() {
            return next;
        }
        if let Next::At(t, why) = next {
            cx.may_be_ready(t, why);
        }
        self.take(cx)
    }
    fn head<'a>(&self, pool: &'a Pool) -> Option<&'a Meta> {
        match self.goes_first() {
            true => self.band.front(pool),
            // Which of the two goes first shows when the kind is asked.
            false if !self.band.is_empty() => None,
            false => self.inner.head(pool),
        }
    }
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        if !self.goes_first() {
            let peek = self.inner.peek(cx);
            if self.band.is_empty() || matches!(peek, None | Some(Peek::Ready { .. })) {
                return peek;
            }
            if let Some(Peek::At(t, why)) = peek {
                cx.may_be_ready(t, why);
            }
        }
        self.band.front(&cx.pool).map(|m| Peek::Ready { wire_len: m.wire_len, segs: m.segs })
    }
    fn holding(&mut self, held: bool) {
        self.inner.holding(held && self.own);
    }
    fn drain(&mut self, out: &mut List, pool: &mut Pool) {
        self.band.drain(out, pool);
        self.inner.drain(out, pool);
    }
    fn queued(&self, pool: &Pool, f: &mut dyn FnMut(&Meta)) {
        self.band.metas(pool).for_each(&mut *f);
        self.inner.queued(pool, f);
    }
    fn reset(&mut self, cx: &mut Cx) {
        self.budget.refill();
        self.inner.reset(cx);
    }
    fn transparent(&self, wire_len: u32) -> bool {
        // A control segment that goes directly spends no credit, one that was queued does.
        self.budget.share() == Percent::ALL && self.inner.transparent(wire_len)
    }
    fn copies(&self) -> bool {
        self.inner.copies()
    }
    fn refresh(&self, cfg: &mut D::Config) {
        self.inner.refresh(cfg);
    }
    fn stats(&self) -> D::Stats {
        self.inner.stats()
    }
    fn parts(&self, f: &mut dyn FnMut(&'static str, &'static Counter, u64)) {
        self.inner.parts(f);
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
    fn default_child(cfg: &D::Config, env: &Env) -> Option<Node> {
        D::default_child(cfg, env)
    }
}
