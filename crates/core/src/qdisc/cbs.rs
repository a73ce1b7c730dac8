//! cbs: a credit-based shaper over one child qdisc (tc-cbs(8); IEEE 802.1Q-2014 section 8.6.8.2):
//! a traffic class gets `idleslope` of the port, and its packets are spread, so that bursts do not
//! add up along a path. The law is `law::credit`. O(1) per packet.
//!
//! - I1: while packets wait, at most `idleslope` leaves, and `hicredit` and a packet more at once.
//! - I2: no packet leaves while the one before it is on the port, at the rate of the link.
//! - I3: after `At(t)`, the packet at the head may leave at t.
//! - I4: credit is charged for a packet that leaves, and for no other.
//! - I5: an empty child is asked once the debt is paid, as by the timer of Linux: flows that are
//!   empty leave their lists. Here that is done before the next packet, and needs no timer.
//! - Differs from Linux (PARITY.md: cbs-offload, cbs-range, cbs-grain, cbs-long-wait, cbs-drops,
//!   cbs-idle-ask, cbs-reset, cbs-link-rate, class-only): the law runs here and never in a card; a
//!   packet that is asked for often loses no credit; a wait of any length earns what it should.

use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::base::units::Rate;
use crate::law::credit::{CreditParams, CreditState};
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::{DropReason, WakeReason};
use crate::packet::route::Candidate;
use crate::qdisc::fifo::NoStats;
use crate::qdisc::leaf;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline};
use crate::sched::node::{Class, Node};
use crate::sched::spec::{ClassShape, Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind, Object};

crate::params! {
    /// Parameters of cbs.
    pub struct Config(env)
        once ["offload", "hicredit", "locredit", "sendslope", "idleslope"]
        cut ["offload", "hicredit", "locredit", "sendslope", "idleslope"]
    {
        /// Most credit, bytes: `idleslope` over the link's rate, times the largest burst of other
        /// traffic that may come before a packet.
        hicredit: i32 = 0, keys ["hicredit"], "0 to 2147483647": |n| *n >= 0;
        /// Least credit, bytes: `sendslope` over the link's rate, times the largest frame.
        locredit: i32 = 0, keys ["locredit"];
        /// Credit that is spent while a packet leaves, kbit/s: `idleslope` less the link's rate, so
        /// below zero.
        sendslope: i32 = 0, keys ["sendslope"];
        /// Credit that is earned while a packet waits, kbit/s: the rate of the queue, with the
        /// headers of all layers.
        idleslope: i32 = 0, keys ["idleslope"], "0 to 2147483647": |n| *n >= 0;
        /// 1 gives the law to the network card: refused, because the engine has none.
        offload: u32 = 0, keys ["offload"], "0 to 255": |n| *n <= 255;
    }
}

/// Bytes in a kilobit, of which the slopes are multiples.
const KILOBIT: i64 = 125;

/// Rate of a link that does not say its rate: 10 Mbit/s, as Linux assumes.
const LINK: Rate = Rate::from_bits(10_000_000);

/// A credit-based shaper.
#[derive(Debug)]
pub struct Cbs {
    inner: [Class; 1],
    params: CreditParams,
    law: CreditState,
    /// True if a peek has taken the next packet out.
    held: bool,
}

impl Discipline for Cbs {
    const KIND: &'static str = "cbs";
    const ABOUT: &'static str = "Credit-based shaper: a share of the link for a class, without bursts.";
    const FLAGS: Flags = Flags { shapes: true, reorders: false };
    const SHAPE: ClassShape = ClassShape::One;
    const STYLE: Style = Style { lists_child: true, ..Style::BLANK };
    const CHANGE: ChangeRule = ChangeRule::Replace;
    // tc reads it as a number of 8 bits.
    const REFUSED_BY: RefusedBy = |err, _| {
        let offload = err.kind == ErrorKind::OutOfRange && err.key.as_deref() == Some("offload");
        offload.then_some(Refuser::Tool)
    };
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    type Config = Config;
    type Rules = CreditParams;
    type Stats = NoStats;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, env: &Env) -> Result<CreditParams, ConfigError> {
        if cfg.offload != 0 {
            let object = Object::Kind(Self::KIND);
            let err = ConfigError::new(ErrorKind::Unsupported, object, "offload 0", cfg.offload);
            return Err(err.key("offload").hint("the law runs here: leave it out"));
        }
        let rate = env.link_rate.filter(|rate| rate.0 > 0).unwrap_or(LINK);
        Ok(CreditParams {
            idle: i64::from(cfg.idleslope) * KILOBIT,
            send: i64::from(cfg.sendslope) * KILOBIT,
            high: cfg.hicredit.into(),
            low: cfg.locredit.into(),
            port: rate.0,
            strict_linux: env.strict_linux,
        })
    }
    fn new(_cfg: &Config, params: CreditParams, env: &Env) -> Self {
        let inner = [Class { minor: 1, node: leaf::default_child(env) }];
        Self { inner, params, law: CreditState::default(), held: false }
    }
    fn change(&mut self, _cfg: &Config, params: CreditParams, _env: &Env, _cx: &mut Cx) {
        self.params = params;
    }
    fn would_accept(&self, m: &Candidate<'_>, _class: Option<ClassId>) -> Verdict {
        self.inner[0].node.would_accept(m)
    }
    #[inline]
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        let inner = &mut self.inner[0].node;
        if inner.is_empty() && !self.held && self.law.begin(&self.params, cx.now) {
            Self::settle(inner, cx);
        }
        inner.enqueue(p, cx);
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let inner = &mut self.inner[0].node;
        if inner.is_empty() {
            if self.law.ask(&self.params, cx.now).is_ok() {
                Self::settle(inner, cx);
            }
            return Next::Empty;
        }
        if let Err(t) = self.law.ask(&self.params, cx.now) {
            return Next::At(t, WakeReason::Tokens);
        }
        let next = inner.dequeue(cx);
        if let Next::Packet(p) = &next {
            self.law.spend(&self.params, cx.meta(p).wire_len, cx.now);
        }
        next
    }
    fn holding(&mut self, held: bool) {
        self.held = held;
    }
    fn evict_all(&mut self, _out: &mut List, _pool: &mut Pool) {}
    fn queued(&self, _pool: &Pool, _f: &mut dyn FnMut(Waiting<'_>)) {}
    fn reset(&mut self, _cx: &mut Cx) {
        self.law = CreditState::default();
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Cbs {
    /// Asks an empty child, so that it forgets flows and a standing queue.
    fn settle(inner: &mut Node, cx: &mut Cx) {
        match inner.dequeue(cx) {
            Next::Empty | Next::At(..) => {}
            // An empty node returns no packet; if it did, the packet would still be counted.
            Next::Packet(p) => cx.drop(p, DropReason::Purged),
        }
    }
}

impl Classes for Cbs {
    fn classes(&self) -> &[Class] {
        &self.inner
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        &mut self.inner
    }
}
