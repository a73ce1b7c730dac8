//! ets: up to 16 bands, the first of them served in strict order; the others take turns by deficit
//! round robin in the remaining capacity (tc-ets(8); IEEE 802.1Q-2018 clause 37, "enhanced
//! transmission selection"; Shreedhar & Varghese, SIGCOMM 1995).
//!
//! A packet's band is found as in prio. One bit test finds the first strict band with work; the
//! sharing bands cost as much as in drr. O(1) per packet; memory per band is its qdisc and 16 bytes
//! of the round.
//!
//! - I1: a sharing band sends only when every strict band has answered that nothing may leave now.
//! - I2: over any time in which two sharing bands are never empty, bytes sent divided by quanta
//!   differ by at most one packet and one quantum each.
//! - I3: a strict band's bit in `active` is set from its first packet until it has answered
//!   `Empty`; a sharing band is in the round from its first packet until it has none.
//! - Differs from Linux (PARITY.md: drr-silent-child, ets-asks-again): a sharing band whose qdisc
//!   turns out to be empty when it is asked loses its turn, and the next is served at once; a
//!   strict band is asked once for each packet.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use crate::base::env::Env;
use crate::base::handle::ClassId;
use crate::law::deficit::Round;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::route::Candidate;
use crate::qdisc::fifo::NoStats;
use crate::qdisc::leaf;
use crate::qdisc::turns::{earlier, quantum_in_range, strictly_in_turn, take_strictly, take_turn};
use crate::sched::answer::{Next, Verdict};
use crate::sched::capability::{Capability, Classes, MadeClasses};
use crate::sched::classful::{ClassAt, ClassShown, Classful};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline, Filtered};
use crate::sched::node::Class;
use crate::sched::spec::{ClassShape, Flags, RefusedBy, Refuser, Style};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::value::{Json, PrioMap, Refusal, Show, Value, Words};

crate::params! {
    /// Parameters of ets.
    pub struct Config(env)
        once ["bands", "strict", "quanta", "priomap"]
    {
        /// Number of bands; by default the number of strict bands and of quanta. This, `strict` or
        /// `quanta` must be given.
        bands: Option<u32> = None, keys ["bands"], "1 to 16": |b| b.is_none_or(|b| (1..=BANDS_MAX).contains(&b));
        /// Number of bands, from the first, that are served in strict order.
        strict: Option<u32> = None, keys ["strict"], "0 to 16": |s| s.is_none_or(|s| s <= BANDS_MAX);
        /// Bytes that each band after the strict ones may send in a round, below 256 as 256 and
        /// above 1 MiB as 1 MiB; those not listed have one full frame.
        quanta: Quanta = Quanta::default(), keys ["quanta"];
        /// Band of each priority 0..15; those not listed have the last band.
        priomap: BandMap = BandMap::default(), keys ["priomap"];
    }
}

crate::params! {
    /// Parameters of a band of ets.
    pub struct ClassConfig(env)
        once ["quantum"]
    {
        /// Bytes that the band may send in one round; a strict band has none. Below 256 it counts
        /// as 256, above 1 MiB as 1 MiB.
        quantum: Option<u32> = None, keys ["quantum"], "1 to 4294967295": |q| q.is_none_or(|q| q > 0);
    }
}

/// The quanta of the first sharing bands, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quanta(pub Vec<u32>);

impl Show for Quanta {
    fn is_set(&self) -> bool {
        !self.0.is_empty()
    }
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        for (i, quantum) in self.0.iter().enumerate() {
            let before = if i > 0 { " " } else { "" };
            write!(f, "{before}{quantum}")?;
        }
        Ok(())
    }
    fn json(&self) -> Json {
        Json::List(self.0.iter().copied().map(u64::from).collect())
    }
}

impl Value for Quanta {
    const EXPECTED: &'static str = "numbers of bytes, at least 1, one for each band";
    /// Takes words while they are numbers.
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let mut quanta = Vec::new();
        // Bound: the words. No packet waits for this loop.
        while let Some(quantum) = words.peek().and_then(|w| w.parse().ok()) {
            if quantum == 0 {
                let expected = "at least 1 byte for each band";
                return Err(Refusal::because(ErrorKind::OutOfRange, expected, None).at(words.at()));
            }
            quanta.push(quantum);
            words.take();
        }
        if quanta.is_empty() { Err(Refusal::NotSuch) } else { Ok(Self(quanta)) }
    }
}

/// The bands of the first priorities; the other priorities go to the last band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandMap {
    map: [u8; 16],
    given: u8,
}

impl BandMap {
    /// Returns a map of these bands for the first priorities; bands beyond 16 are ignored.
    pub fn new(bands: &[u8]) -> Self {
        let mut map = [0; 16];
        let mut given = 0;
        for (to, band) in map.iter_mut().zip(bands) {
            *to = *band;
            given += 1;
        }
        Self { map, given }
    }
    fn given(&self) -> &[u8] {
        &self.map[..usize::from(self.given)]
    }
    fn filled(&self, band: u8) -> Self {
        let mut map = self.map;
        map[usize::from(self.given)..].fill(band);
        Self { map, given: 16 }
    }
}

impl Show for BandMap {
    fn is_set(&self) -> bool {
        self.given > 0
    }
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        for (i, band) in self.given().iter().enumerate() {
            let before = if i > 0 { " " } else { "" };
            write!(f, "{before}{band}")?;
        }
        Ok(())
    }
    fn json(&self) -> Json {
        Json::List(self.given().iter().copied().map(u64::from).collect())
    }
}

impl Value for BandMap {
    const EXPECTED: &'static str = PrioMap::EXPECTED;
    /// Takes words while they are numbers, at most 16.
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let mut bands = Vec::new();
        // Bound: 16 turns. No packet waits for this loop.
        while bands.len() < 16 {
            let Some(band) = words.peek().and_then(|w| w.parse().ok()) else { break };
            bands.push(band);
            words.take();
        }
        if bands.is_empty() { Err(Refusal::NotSuch) } else { Ok(Self::new(&bands)) }
    }
}

/// Strict bands, and bands that share the remaining capacity.
#[derive(Debug)]
pub struct Ets {
    bands: Vec<Class>,
    /// The part that class commands may change, by band.
    configs: Vec<ClassConfig>,
    /// Number of strict bands.
    strict: usize,
    /// Strict bands with work.
    active: u32,
    /// Members are bands; the strict ones are never listed.
    round: Round,
    priomap: [u8; 16],
}

/// One band for each value of the four priority bits (tc-ets(8)).
const BANDS_MAX: u32 = 16;

impl Discipline for Ets {
    const KIND: &'static str = "ets";
    const ABOUT: &'static str =
        "Bands in strict order, then bands that take turns, each by its quantum of bytes.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const SHAPE: ClassShape = ClassShape::Bands;
    const STYLE: Style = Style::BLANK;
    const FILTERS: Filtered = Filtered::Qdisc;
    const CHANGE: ChangeRule = ChangeRule::Replace;
    const MADE: Option<MadeClasses<Self>> = Some(MadeClasses::of());
    // tc checks all bounds but that on strict bands and quanta together.
    const REFUSED_BY: RefusedBy = |err, _| match (err.kind, err.key.as_deref()) {
        (ErrorKind::OutOfRange, Some("quanta")) if err.reason == Some(Reason::TooMany) => None,
        (ErrorKind::OutOfRange | ErrorKind::Conflict, _) => Some(Refuser::Tool),
        _ => None,
    };
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    // The bands, each with a qdisc.
    const TABLES: fn(&Config, &Env) -> u64 = |_, _| 16 * Class::BYTES;
    type Config = Config;
    type Rules = ();
    type Stats = NoStats;

    /// Makes every band, quantum and priority explicit.
    fn resolve(cfg: &mut Config, _old: Option<&Config>, env: &Env) -> Result<(), ConfigError> {
        let strict = cfg.strict.unwrap_or(0);
        let said = strict as usize + cfg.quanta.0.len();
        if cfg.bands.is_none() && cfg.strict.is_none() && !cfg.quanta.is_set() {
            let expected = "at least one of bands, strict and quanta";
            return Err(
                ConfigError::new(ErrorKind::Missing, Object::Kind(Self::KIND), expected, "").key("bands")
            );
        }
        let error =
            |kind, expected, given: usize| ConfigError::new(kind, Object::Kind(Self::KIND), expected, given);
        let bands = cfg.bands.unwrap_or(said as u32);
        if said > bands as usize {
            let expected = format!("at least {said}, for those that are strict or have a quantum");
            return Err(error(ErrorKind::Conflict, expected, bands as usize).key("bands"));
        }
        if !(1..=BANDS_MAX).contains(&bands) {
            let expected = "1 to 16 bands, strict ones and those with a quantum together".into();
            let err = error(ErrorKind::OutOfRange, expected, said).key("quanta");
            return Err(if bands > BANDS_MAX { err.reason(Reason::TooMany) } else { err });
        }
        if let Some(bad) = cfg.priomap.given().iter().find(|b| u32::from(**b) >= bands) {
            let expected = format!("bands 0 to {}", bands - 1);
            return Err(error(ErrorKind::Conflict, expected, usize::from(*bad)).key("priomap"));
        }
        cfg.bands = Some(bands);
        cfg.strict = (strict > 0).then_some(strict);
        cfg.quanta.0.resize((bands - strict) as usize, env.frame_max());
        cfg.quanta.0.iter_mut().for_each(|q| *q = quantum_in_range(*q));
        // There are at most 16 bands.
        cfg.priomap = cfg.priomap.filled(bands as u8 - 1);
        Ok(())
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        let most = BANDS_MAX as usize;
        let mut round = Round::new();
        (0..most).for_each(|_| round.add(0));
        let (bands, configs) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let mut ets = Self { bands, configs, strict: 0, active: 0, round, priomap: [0; 16] };
        ets.set(cfg, env);
        ets
    }
    fn change(&mut self, cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        let count = cfg.bands.unwrap_or(0) as usize;
        for (band, class) in self.bands.iter_mut().enumerate().skip(count) {
            class.node.purge(cx);
            self.round.leave(band);
        }
        self.bands.truncate(count);
        self.set(cfg, env);
    }
    fn would_accept(&self, m: &Candidate<'_>, class: Option<ClassId>) -> Verdict {
        self.bands[self.band(m, class)].node.would_accept(m)
    }
    #[inline(always)]
    fn enqueue(&mut self, p: Pkt, class: Option<ClassId>, cx: &mut Cx) {
        let band = self.band(cx.meta(&p), class);
        let node = &mut self.bands[band].node;
        if band < self.strict {
            self.active |= 1 << band;
            return node.enqueue(p, cx);
        }
        let first = node.is_empty();
        node.enqueue(p, cx);
        if first && !node.is_empty() {
            self.round.join(band);
        }
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        match self.active {
            0 => take_turn(&mut self.round, &mut self.bands, cx),
            _ => self.dequeue_both(cx),
        }
    }
    fn evict_all(&mut self, _out: &mut List, _pool: &mut Pool) {
        // The caller of `evict_all` empties the bands next.
        self.round.clear();
    }
    fn queued(&self, _pool: &Pool, _f: &mut dyn FnMut(Waiting<'_>)) {}
    fn reset(&mut self, _cx: &mut Cx) {
        self.active = 0;
        self.round.clear();
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
}

impl Classes for Ets {
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
        match turns.checked_sub(self.active.count_ones()) {
            None => strictly_in_turn(self.active, turns),
            Some(turns) => self.round.ahead(turns),
        }
    }
}

impl Ets {
    /// Dequeues when some strict bands have had packets: they first, then the sharing ones.
    #[inline(never)]
    fn dequeue_both(&mut self, cx: &mut Cx) -> Next {
        let earliest = match take_strictly(&mut self.active, &mut self.bands, cx) {
            Next::Packet(p) => return Next::Packet(p),
            other => other,
        };
        match take_turn(&mut self.round, &mut self.bands, cx) {
            Next::Packet(p) => Next::Packet(p),
            Next::Empty => earliest,
            at @ Next::At(..) => earlier(earliest, at),
        }
    }

    /// Creates missing bands and applies resolved parameters to all. There are no bands beyond
    /// `bands`.
    fn set(&mut self, cfg: &Config, env: &Env) {
        let count = cfg.bands.unwrap_or(0) as usize;
        for minor in self.bands.len() as u16 + 1..=count as u16 {
            self.bands.push(Class { minor, node: leaf::default_child(env) });
        }
        self.strict = cfg.strict.unwrap_or(0) as usize;
        self.priomap = cfg.priomap.map;
        self.configs.clear();
        self.active &= (1 << self.strict) - 1;
        for (band, class) in self.bands.iter().enumerate() {
            let quantum = band.checked_sub(self.strict).and_then(|i| cfg.quanta.0.get(i)).copied();
            self.configs.push(ClassConfig { quantum });
            let waits = !class.node.is_empty();
            match quantum {
                None => {
                    self.round.leave(band);
                    self.active |= u32::from(waits) << band;
                }
                Some(quantum) => {
                    self.round.set_quantum(band, quantum);
                    if waits && !self.round.listed(band) {
                        self.round.join(band);
                    }
                }
            }
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

impl Classful for Ets {
    type Class = ClassConfig;
    const CLASS_SELECTS: bool = false;
    const CLASS_REFUSED_BY: RefusedBy = |err, _| (err.kind == ErrorKind::OutOfRange).then_some(Refuser::Tool);

    fn refresh(&self, cfg: &mut Config) {
        cfg.quanta.0.clear();
        cfg.quanta.0.extend(self.configs.iter().filter_map(|c| c.quantum));
    }
    fn resolve_class(
        &self,
        class: Object,
        _at: ClassAt,
        cfg: &mut ClassConfig,
        old: Option<&ClassConfig>,
        _env: &Env,
    ) -> Result<(), ConfigError> {
        if let (Some(quantum), Some(ClassConfig { quantum: None })) = (cfg.quantum, old) {
            let err =
                ConfigError::new(ErrorKind::Conflict, class, "none: a strict band has no quantum", quantum);
            return Err(err.key("quantum"));
        }
        cfg.quantum = cfg.quantum.map(quantum_in_range);
        Ok(())
    }
    /// Never called: classes come with the qdisc.
    fn add_class(&mut self, _at: ClassAt, _cfg: ClassConfig, _env: &Env, _cx: &mut Cx) {}
    fn change_class(&mut self, minor: u16, cfg: ClassConfig, _env: &Env, _cx: &mut Cx) {
        let Some(band) = usize::from(minor).checked_sub(1).filter(|b| *b < self.configs.len()) else {
            return;
        };
        if let Some(quantum) = cfg.quantum {
            self.round.set_quantum(band, quantum);
        }
        self.configs[band] = cfg;
    }
    /// Never called: classes go with the qdisc.
    fn delete_class(&mut self, _minor: u16, _env: &Env, _cx: &mut Cx) {}
    fn class_config(&self, minor: u16) -> Option<&ClassConfig> {
        self.configs.get(usize::from(minor).checked_sub(1)?)
    }
    fn list_classes(&self, f: &mut dyn FnMut(ClassShown<'_>)) {
        self.bands.iter().for_each(|class| f(ClassShown::of(class)));
    }
}
