//! prio: 2 to 16 classes, each with a qdisc of its own, served in strict order.
//!
//! A priority whose major is this qdisc's handle names the band directly (minor - 1); otherwise the
//! low four bits of the priority choose it through the map, a priority with a foreign major
//! counting as 0 (tc-prio(8)). One bit test per dequeue finds the first band with work; at most 16
//! bands are asked.
//!
//! - I1: a packet leaves band b only when every band below b answered that nothing may leave now.
//! - I2: if no band has a packet ready, the answer is the earliest wake-up among them.
//! - I3: a band's bit in `active` is set from its first packet until it has answered `Empty`, so
//!   that an AQM below learns of its empty queue.
//! - Differs from Linux (PARITY.md: tcpctl-band): `tcpctl` puts a band for TCP control segments
//!   before all.

use alloc::vec::Vec;

use crate::base::chance::Percent;
use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::route::Candidate;
use crate::qdisc::fifo::NoStats;
use crate::qdisc::leaf;
use crate::qdisc::pfifo_fast::PRIOMAP;
use crate::qdisc::turns::{strictly_in_turn, take_strictly};
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline, Filtered};
use crate::sched::node::{Class, Peek, band_share};
use crate::sched::spec::{ClassShape, Flags, RefusedBy, Refuser};
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::value::PrioMap;

crate::params! {
    /// Parameters of prio.
    pub struct Config(env) once ["priomap"]
        own ["tcpctl"]
    {
        /// Number of bands.
        bands: u32 = 3, keys ["bands"], "2 to 16": |b| (2..=BANDS_MAX).contains(b);
        /// Band of each priority 0..15.
        priomap: PrioMap = PrioMap(PRIOMAP), keys ["priomap"];
        /// Share of departing traffic for which TCP control segments have a band before all others;
        /// none unless given (not in Linux).
        tcpctl: Option<Percent> = None, keys ["tcpctl"];
        /// A band for each queue of the device, before Linux 2.6.27. Has no effect, as in Linux
        /// since then: multiq has a band for each queue.
        multiqueue: bool = false, flags ["multiqueue" = true];
    }
}

/// Strict priority among classes.
#[derive(Debug)]
pub struct Prio {
    bands: Vec<Class>,
    active: u32,
    priomap: [u8; 16],
}

/// One class for each value of the four priority bits (tc-prio(8)).
const BANDS_MAX: u32 = 16;

impl Discipline for Prio {
    const KIND: &'static str = "prio";
    const ABOUT: &'static str = "Classes in strict order of priority.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const SHAPE: ClassShape = ClassShape::Bands;
    const FILTERS: Filtered = Filtered::Qdisc;
    const CHANGE: ChangeRule = ChangeRule::Replace;
    const BAND: fn(&Config) -> Option<Percent> = |cfg| cfg.tcpctl;
    // tc compares a map with the number of bands it has read by then; it does not check the default
    // map.
    const REFUSED_BY: RefusedBy = |err, words| {
        let at = |key: &str| words.iter().position(|w| *w == key);
        let seen = at("priomap").is_some_and(|map| at("bands").is_none_or(|bands| bands < map));
        (err.kind == ErrorKind::Conflict && err.key.as_deref() == Some("priomap") && seen)
            .then_some(Refuser::Tool)
    };
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    // The bands, each with a qdisc.
    const TABLES: fn(&Config, &Env) -> u64 = |_, _| 16 * Class::BYTES;
    type Config = Config;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(cfg: &mut Config, _old: Option<&Config>, _env: &Env) -> Result<(), ConfigError> {
        cfg.tcpctl = band_share(cfg.tcpctl);
        cfg.multiqueue = false;
        match cfg.priomap.0.iter().find(|b| u32::from(**b) >= cfg.bands) {
            None => Ok(()),
            Some(bad) => {
                let expected = alloc::format!("bands 0 to {}", cfg.bands - 1);
                Err(ConfigError::new(ErrorKind::Conflict, Object::Kind(Self::KIND), expected, bad)
                    .key("priomap"))
            }
        }
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        let mut prio =
            Self { bands: Vec::with_capacity(BANDS_MAX as usize), active: 0, priomap: cfg.priomap.0 };
        prio.grow(cfg.bands, env);
        prio
    }
    fn change(&mut self, cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        for class in self.bands.iter_mut().skip(cfg.bands as usize) {
            class.node.purge(cx);
        }
        self.bands.truncate(cfg.bands as usize);
        self.active &= (1 << cfg.bands) - 1;
        self.grow(cfg.bands, env);
        self.priomap = cfg.priomap.0;
    }
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict {
        self.bands[self.band(m, class)].node.would_accept(m)
    }
    #[inline(always)]
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let band = self.band(cx.meta(&p), class);
        self.active |= 1 << band;
        self.bands[band].node.enqueue(p, cx);
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        take_strictly(&mut self.active, &mut self.bands, cx)
    }
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        let mut earliest = Peek::Empty;
        let mut todo = self.active;
        // Bound: 32 turns, one for each bit.
        while todo != 0 {
            let band = todo.trailing_zeros();
            todo &= todo - 1;
            match self.bands[band as usize].node.peek(cx) {
                ready @ Peek::Ready { .. } => {
                    if let Peek::At(t, why) = earliest {
                        cx.wakes.may_be_ready(t, why);
                    }
                    return Some(ready);
                }
                Peek::Empty => self.active &= !(1 << band),
                Peek::At(t, why) => {
                    if !matches!(&earliest, Peek::At(u, _) if *u <= t) {
                        earliest = Peek::At(t, why);
                    }
                }
            }
        }
        Some(earliest)
    }
    fn evict_all(&mut self, _out: &mut List, _pool: &mut Pool) {}
    fn queued(&self, _pool: &Pool, _f: &mut dyn FnMut(Waiting<'_>)) {}
    fn reset(&mut self, _cx: &mut Cx) {
        self.active = 0;
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Classes for Prio {
    fn classes(&self) -> &[Class] {
        &self.bands
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        &mut self.bands
    }
    #[inline]
    fn select(&self, m: &Meta, class: Option<ClassId>) -> Option<&Class> {
        self.bands.get(self.band(m, class))
    }
    fn in_turn(&self, turns: u32) -> Option<usize> {
        strictly_in_turn(self.active, turns)
    }
}

impl Prio {
    fn grow(&mut self, bands: u32, env: &Env) {
        for minor in self.bands.len() as u16 + 1..=bands as u16 {
            self.bands.push(Class { minor, node: leaf::default_child(env) });
        }
    }

    /// Returns the packet's band, always in range: `resolve` has checked the map.
    fn band(&self, m: &Meta, class: Option<ClassId>) -> usize {
        let by_map = |priority: u32| usize::from(self.priomap[(priority & 15) as usize]);
        match class {
            Some(class) => match usize::from(class.minor()) {
                minor if (1..=self.bands.len()).contains(&minor) => minor - 1,
                _ => by_map(0),
            },
            None if m.priority > 0xffff => by_map(0),
            None => by_map(m.priority),
        }
    }
}
