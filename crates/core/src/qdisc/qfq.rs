//! qfq: classes made by commands share the link by weights, with a guarantee for each that is
//! within a few packets of an ideal share (tc-qfq(8); F. Checconi, L. Rizzo, P. Valente, "QFQ:
//! Efficient Packet Scheduling with Tight Guarantees", IEEE/ACM Transactions on Networking 21(3),
//! 2013).
//!
//! The law is `law/quick.rs`, with aggregates of up to eight classes as in the reference.
//! Packets that name no class are dropped. O(1) per packet, except that the first packet of a class
//! that is longer than `maxpkt` goes over the aggregates. Memory per class is 568 bytes with its
//! default qdisc, and two bytes for each minor number up to the greatest; 3.6 KiB beside them.
//!
//! - I1: a class is listed in the law from its first packet until it has none.
//! - I2: a class that always has packets gets its share of the bytes sent, less the bound of the
//!   paper.
//! - Differs from Linux (PARITY.md: qfq-unblock, drr-silent-child, class-number, class-order): a
//!   class that is emptied by a command frees the classes that waited for it.

use alloc::format;
use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::law::quick::{PACKET_MAX, PACKET_MIN, Quick, Share, WEIGHT_MAX, WEIGHTS_MAX};
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::DropReason;
use crate::packet::route::Candidate;
use crate::qdisc::fifo::NoStats;
use crate::qdisc::slots::Slots;
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes, MadeClasses};
use crate::sched::classful::{ClassAt, ClassShown, Classful};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline, Filtered};
use crate::sched::node::{Passed, Peek};
use crate::sched::spec::{ClassShape, Flags, Style};
use crate::text::error::{ConfigError, ErrorKind, Object};

crate::params! {
    /// Parameters of qfq: it has none; its classes have them.
    pub struct Config(env) {}
}

crate::params! {
    /// Parameters of a class of qfq.
    pub struct ClassConfig(env) cut ["weight", "maxpkt"] {
        /// Share of the class, in relation to the other weights; their sum is at most 65536.
        weight: u32 = 1, keys ["weight"] @ u32 1, "1 to 1024": |w| (1..=WEIGHT_MAX).contains(w);
        /// Largest packet, bytes; a larger one raises it.
        maxpkt: u32 = env.frame_max(), keys ["maxpkt"] @ u32 2, "512 to 65536": in_range;
    }
}

fn in_range(bytes: &u32) -> bool {
    (PACKET_MIN..=PACKET_MAX).contains(bytes)
}

/// Quick fair queueing among classes.
#[derive(Debug)]
pub(crate) struct Qfq {
    slots: Slots<ClassConfig>,
    /// Largest packets as commands gave them, which longer ones have raised since.
    given: Vec<u32>,
    /// Packets that have come to each class and were not refused: as in the reference, they are
    /// what a class counts as sent.
    came: Vec<Passed>,
    law: Quick,
}

impl Discipline for Qfq {
    const KIND: &'static str = "qfq";
    const ABOUT: &'static str = "Classes that share the link by weights, each close to its ideal share.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const SHAPE: ClassShape = ClassShape::Made;
    const STYLE: Style = Style::BLANK;
    const FILTERS: Filtered = Filtered::Qdisc;
    const MADE: Option<MadeClasses<Self>> = Some(MadeClasses::of());
    const CLASSES: Option<Capability<Self, dyn Classes>> =
        Some(Capability { of: |qfq| &qfq.slots, of_mut: |qfq| &mut qfq.slots });
    type Config = Config;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(_cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        Ok(())
    }
    fn new(_cfg: &Config, (): (), env: &Env) -> Self {
        Self {
            slots: Slots::default(),
            given: Vec::new(),
            came: Vec::new(),
            law: Quick::new(env.tx_queue_len),
        }
    }
    fn change(&mut self, _cfg: &Config, (): (), _env: &Env, _cx: &mut Cx) {}
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict {
        match self.slots.named(class) {
            Some(_) if m.wire_len > PACKET_MAX && m.segs > 1 && m.segment_len() <= PACKET_MAX => {
                Verdict::Cut(PACKET_MAX)
            }
            Some(_) if m.wire_len > PACKET_MAX => Verdict::TooLarge(PACKET_MAX),
            Some(i) => self.slots.classes[i].node.would_accept(m),
            None => Verdict::Full,
        }
    }
    #[inline(always)]
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let Some(i) = self.slots.named(class) else { return cx.drop(p, DropReason::NoClass) };
        let (index, dropped) = (p.index(), cx.dropped().packets);
        let Meta { wire_len: len, segs, .. } = *cx.meta(&p);
        if len > self.law.share(i).packet && !self.widen(i, len) {
            return cx.drop(p, DropReason::Oversize);
        }
        let node = &mut self.slots.classes[i].node;
        let first = node.is_empty();
        if first && self.law.is_listed(i) {
            // Its qdisc was replaced, and the packets in it are gone.
            self.law.end(i);
        }
        node.enqueue(p, cx);
        if !cx.has_refused(index, dropped) && !cx.swapping() {
            self.came[i].sent.add(len);
            self.came[i].segs += u64::from(segs);
        }
        if node.is_empty() {
            return;
        }
        if first {
            self.law.begin(i);
        } else if let Peek::Ready { wire_len, .. } = node.peek(cx)
            && wire_len == len
        {
            self.law.overtaken(i, len);
        }
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let mut renewed = false;
        // Each turn but one takes a class off the list.
        let mut bound = Bound::of(self.slots.classes.len() + 2);
        while let Some(i) = self.law.front() {
            bound.turn();
            let node = &mut self.slots.classes[i].node;
            match node.peek(cx) {
                Peek::Ready { wire_len, .. } if !renewed && !self.law.affords(wire_len) => {
                    self.law.renew();
                    renewed = true;
                    continue;
                }
                Peek::Ready { .. } => {}
                // The class holds its packets back, and with them all others, as in the reference.
                Peek::At(t, why) => return Next::At(t, why),
                Peek::Empty => {
                    self.law.end(i);
                    continue;
                }
            }
            match node.dequeue(cx) {
                Next::Packet(p) => {
                    self.pay(i, &p, cx);
                    return Next::Packet(p);
                }
                Next::At(t, why) => return Next::At(t, why),
                Next::Empty => self.law.end(i),
            }
        }
        Next::Empty
    }
    fn evict_all(&mut self, _out: &mut List, _pool: &mut Pool) {
        // The caller of `evict_all` empties the classes next.
        self.law.rest();
    }
    fn queued(&self, _pool: &Pool, _f: &mut dyn FnMut(Waiting<'_>)) {}
    fn reset(&mut self, _cx: &mut Cx) {
        let Self { law, slots: Slots { classes, configs, .. }, given, .. } = self;
        configs.iter_mut().zip(given).for_each(|(cfg, given)| cfg.maxpkt = *given);
        let made = classes.iter().enumerate().filter(|(_, class)| class.minor != 0);
        law.reset(made.map(|(slot, _)| (slot, share(&configs[slot]))));
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Qfq {
    /// Raises the largest packet of a class; false if it would be too large.
    #[cold]
    fn widen(&mut self, i: usize, len: u32) -> bool {
        if len <= PACKET_MAX {
            let share = Share { packet: len, ..self.law.share(i) };
            self.slots.configs[i].maxpkt = len;
            self.law.set_share(i, share);
        }
        len <= PACKET_MAX
    }
    /// Charges a class for a packet that has left it.
    #[inline]
    fn pay(&mut self, i: usize, p: &Pkt, cx: &mut Cx) {
        let len = cx.meta(p).wire_len;
        let node = &mut self.slots.classes[i].node;
        let next = match node.is_empty() {
            true => None,
            // A qdisc that holds its packets back keeps its turn.
            false => match node.peek(cx) {
                Peek::Ready { wire_len, .. } => Some(wire_len),
                Peek::At(..) => Some(0),
                Peek::Empty => None,
            },
        };
        self.law.pay(i, len, next);
    }
}

impl Classful for Qfq {
    type Class = ClassConfig;
    const CLASS_SELECTS: bool = false;
    const CLASS_CHANGE: ChangeRule = ChangeRule::Replace;

    fn resolve_class(
        &self,
        class: Object,
        at: ClassAt,
        cfg: &mut ClassConfig,
        old: Option<&ClassConfig>,
        _env: &Env,
    ) -> Result<(), ConfigError> {
        // The default is that of the device.
        if !in_range(&cfg.maxpkt) {
            let expected = format!("{PACKET_MIN} to {PACKET_MAX}");
            let err = ConfigError::new(ErrorKind::OutOfRange, class, expected, cfg.maxpkt);
            return Err(err.key("maxpkt"));
        }
        cfg.weight = share(cfg).weight;
        let present = self.slots.of(at.minor).filter(|_| old.is_some());
        let own = present.map_or(0, |slot| self.law.share(slot).weight);
        let rest = WEIGHTS_MAX.saturating_sub(self.law.weights() - own);
        if cfg.weight > rest {
            let expected = format!("at most {rest}, so that the weights are at most {WEIGHTS_MAX} in sum");
            return Err(ConfigError::new(ErrorKind::OutOfRange, class, expected, cfg.weight).key("weight"));
        }
        Ok(())
    }
    fn add_class(&mut self, at: ClassAt, cfg: ClassConfig, env: &Env, _cx: &mut Cx) {
        let (maxpkt, share) = (cfg.maxpkt, share(&cfg));
        let slot = self.slots.add(at.minor, cfg, env);
        self.law.add(slot, share);
        if slot == self.given.len() {
            self.came.push(Passed::default());
            self.given.push(maxpkt);
        } else {
            (self.came[slot], self.given[slot]) = (Passed::default(), maxpkt);
        }
    }
    fn change_class(&mut self, minor: u16, cfg: ClassConfig, _env: &Env, _cx: &mut Cx) {
        let Some(slot) = self.slots.of(minor) else { return };
        if self.slots.classes[slot].node.is_empty() {
            self.law.end(slot);
        }
        self.law.set_share(slot, share(&cfg));
        self.given[slot] = cfg.maxpkt;
        self.slots.configs[slot] = cfg;
    }
    fn delete_class(&mut self, minor: u16, env: &Env, cx: &mut Cx) {
        if let Some(slot) = self.slots.remove(minor, env, cx) {
            self.law.remove(slot);
        }
    }
    fn class_config(&self, minor: u16) -> Option<&ClassConfig> {
        self.slots.config(minor)
    }
    fn list_classes(&self, f: &mut dyn FnMut(ClassShown<'_>)) {
        for slot in self.slots.iter() {
            let class = &self.slots.classes[slot];
            let Passed { sent, segs: sent_segs } = self.came[slot];
            f(ClassShown { sent, sent_segs, ..ClassShown::of(class) });
        }
    }
}

/// Returns the share that the parameters describe.
fn share(cfg: &ClassConfig) -> Share {
    Share { weight: cfg.weight, packet: cfg.maxpkt }.counted()
}
