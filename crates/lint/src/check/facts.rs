//! The longest wait of a packet in each leaf: from its limit and its guaranteed rate, or from the
//! target of its AQM.

use std::ops::Range;

use txweir_core::text::value::text_of;
use txweir_core::{Bytes, Handle, Nanos, Rate};
use txweir_tc::json::Object;

use super::CheckOptions;
use super::kinds::{self, Classes};
use super::model::{Class, Device, Qdisc};
use super::rates::promised;

/// The latency of one leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The device; empty if no line names it.
    pub dev: String,
    /// The leaf: `root`, a class.
    pub place: String,
    /// The kind of its queue.
    pub kind: String,
    /// Its limit: `1000p`, `60Kb`.
    pub holds: String,
    /// Its guaranteed rate, if that is known.
    pub rate: Option<Rate>,
    /// The longest wait of a queued packet, if a rate is known or the time is configured.
    pub bound: Option<Nanos>,
    /// The target of its AQM, if it has one: a standing queue is no longer than this.
    pub target: Option<Nanos>,
    /// The assumptions.
    pub because: String,
    /// The words of the file that make the queue, or its class.
    pub span: Range<usize>,
}

impl Fact {
    /// Returns a JSON object; times in microseconds, rates in bytes per second.
    pub fn json(&self) -> String {
        let mut o = Object::new()
            .text("dev", &self.dev)
            .text("place", &self.place)
            .text("kind", &self.kind)
            .text("holds", &self.holds);
        for (key, n) in [
            ("rate", self.rate.map(|r| r.0)),
            ("bound_us", self.bound.map(Nanos::as_micros)),
            ("target_us", self.target.map(Nanos::as_micros)),
        ] {
            if let Some(n) = n {
                o = o.uint(key, n);
            }
        }
        o.text("because", &self.because).finish()
    }
    /// Returns a text: `1.21s (1000p at 10Mbit)`.
    pub fn text(&self) -> String {
        let bound = self.bound.map(|b| format!("at most {}", text_of(&b)));
        let target = self.target.map(|t| format!("about {} (its target)", text_of(&t)));
        let said: Vec<_> = [target, bound].into_iter().flatten().collect();
        match said.is_empty() {
            true => format!("unknown ({})", self.because),
            false => format!("{} ({})", said.join(", "), self.because),
        }
    }
}

/// Most classes and qdiscs above a leaf that are followed; htb has 8 levels.
const DEEPEST: usize = 64;

/// The limit of a queue: in bytes, and as text.
struct Held {
    bytes: u64,
    text: String,
}

/// The latency of the leaves of a device.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) options: &'a CheckOptions,
    pub(super) device: &'a Device,
}

impl Facts<'_> {
    /// Returns a fact for each place where packets wait.
    pub(super) fn all(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        for qdisc in self.device.qdiscs() {
            let place = if qdisc.parent == Handle::ROOT { "root".into() } else { qdisc.parent.to_string() };
            match qdisc.classes() {
                // tbf and similar kinds hold their packets in a queue of their own unless a line
                // gives another.
                Classes::Upto(1) if self.device.below(first_class(qdisc)).is_some() => continue,
                Classes::Upto(1) | Classes::None => facts.push(self.queue(qdisc, place)),
                Classes::Any if !kinds::is_for_queues(qdisc.spec) => {
                    facts.push(self.queue(qdisc, place));
                }
                Classes::Made => {
                    for (id, _) in self.device.classes_of(qdisc.handle) {
                        if self.device.is_leaf(*id) && self.device.below(*id).is_none() {
                            facts.push(self.bare_leaf(*id));
                        }
                    }
                }
                Classes::Upto(most) => {
                    for minor in 1..=most.min(64) {
                        let id = Handle::new(qdisc.handle.major(), minor as u16);
                        if self.device.below(id).is_none() {
                            facts.push(self.bare_leaf(id));
                        }
                    }
                }
                Classes::Any => {}
            }
        }
        facts
    }

    /// Removes the bound of a queue that is served after others, because they may hold packets for
    /// ever.
    fn after_others(&self, mut class: Handle, fact: &mut Fact) {
        // The loop ends at a depth that no valid chain of classes has.
        for _ in 0..=DEEPEST {
            let Some(qdisc) = self.device.qdisc(class) else { return };
            let strict = match qdisc.kind.as_str() {
                "prio" => u64::MAX,
                "ets" => qdisc.settings.number("strict").map_or(0, |n| n.value),
                _ => 0,
            };
            if class.minor() > 1 && strict > 0 {
                fact.bound = None;
                fact.because = format!("served after the bands before it in {}", qdisc.name());
                return;
            }
            class = match self.device.classes.get(&class) {
                Some(made) if made.parent.minor() > 0 => made.parent,
                _ if qdisc.parent == Handle::ROOT => return,
                _ => qdisc.parent,
            };
        }
    }

    /// Returns the fact of a class without a qdisc: it has a pfifo as long as the device's queue; a
    /// transmit queue has a pfifo_fast.
    fn bare_leaf(&self, id: Handle) -> Fact {
        let held = self.packets(u64::from(self.options.txqueuelen));
        let rate = self.sure_rate(id);
        let of_queue = self.device.qdisc(id).is_some_and(|q| matches!(q.kind.as_str(), "mqprio" | "taprio"));
        let kind = if of_queue { "pfifo_fast" } else { "pfifo" };
        let mut fact = self.fact((id.to_string(), kind), &held, rate, None);
        let qdisc = || self.device.qdisc(id).map(|q| &q.kind_span);
        fact.span = self.device.classes.get(&id).map(|c| &c.id_span).or_else(qdisc).cloned().unwrap_or(0..0);
        self.after_others(id, &mut fact);
        fact
    }

    fn queue(&self, qdisc: &Qdisc, place: String) -> Fact {
        let rate = if qdisc.parent == Handle::ROOT { self.link() } else { self.sure_rate(qdisc.parent) };
        let own = qdisc.settings.rate("rate").or_else(|| qdisc.settings.rate("bandwidth"));
        let rate = match (own.map(|r| r.value), rate) {
            (Some(own), Some((outer, why))) if outer < own => Some((outer, why)),
            (Some(own), _) => Some((own, "its rate")),
            (None, rate) => rate,
        };
        let held = self.held(qdisc);
        let mut fact = self.fact((place, &qdisc.kind), &held, rate, kinds::target(qdisc));
        fact.span = qdisc.kind_span.clone();
        if let Some(latency) = qdisc.settings.time("latency").filter(|_| qdisc.kind == "tbf") {
            fact.bound = Some(latency.value);
            fact.because = "its latency".into();
        }
        if let Some(delay) = qdisc.settings.time("delay").filter(|_| qdisc.kind == "netem") {
            fact.bound = fact.bound.map(|b| Nanos(b.0.saturating_add(delay.value.0)));
            fact.because.push_str(&format!(", and a delay of {}", text_of(&delay.value)));
        }
        if qdisc.parent != Handle::ROOT {
            self.after_others(qdisc.parent, &mut fact);
        }
        fact
    }

    fn fact(
        &self,
        (place, kind): (String, &str),
        held: &Held,
        rate: Option<(Rate, &'static str)>,
        target: Option<Nanos>,
    ) -> Fact {
        // A queue that holds no packet has none that waits, at any rate.
        let holds = held.bytes > 0;
        let bound = match holds {
            true => rate.filter(|(r, _)| r.0 > 0).map(|(r, _)| r.time_ceil(held.bytes)),
            false => Some(Nanos::ZERO),
        };
        let because = match rate {
            _ if !holds => held.text.clone(),
            Some((rate, why)) => format!("{} at {}, {why}", held.text, text_of(&rate)),
            None => format!("{}, no rate is known: give --link", held.text),
        };
        Fact {
            dev: self.device.name.clone(),
            place,
            kind: kind.to_string(),
            holds: held.text.clone(),
            rate: rate.map(|(r, _)| r),
            bound,
            target,
            because,
            span: 0..0,
        }
    }

    pub(super) fn link(&self) -> Option<(Rate, &'static str)> {
        self.options.link_of(&self.device.name).map(|r| (r, "the link's rate"))
    }

    /// Returns the guaranteed rate at a class: that of the nearest class or qdisc that has one.
    pub(super) fn sure_rate(&self, mut class: Handle) -> Option<(Rate, &'static str)> {
        // The loop ends at a depth that no valid chain of classes has.
        for _ in 0..=DEEPEST {
            let made: Option<&Class> = self.device.classes.get(&class);
            if let Some(rate) = made.and_then(promised) {
                return Some((rate.value, "its class's rate"));
            }
            let qdisc = self.device.qdisc(class)?;
            if let Some(rate) = qdisc.settings.rate("rate").filter(|_| qdisc.kind == "tbf") {
                return Some((rate.value, "the rate of the tbf above"));
            }
            class = match made {
                Some(made) if made.parent.minor() > 0 => made.parent,
                _ if qdisc.parent == Handle::ROOT => return self.link(),
                _ => qdisc.parent,
            };
        }
        None
    }

    fn packets(&self, packets: u64) -> Held {
        let bytes = packets.saturating_mul(self.options.frame());
        Held { bytes, text: format!("{packets} packets of {} bytes", self.options.frame()) }
    }

    /// Returns the most that a queue holds.
    fn held(&self, qdisc: &Qdisc) -> Held {
        match kinds::held(qdisc, self.options) {
            kinds::Held::Bytes(bytes) => {
                Held { bytes, text: format!("{} of packets", text_of(&Bytes(bytes))) }
            }
            kinds::Held::Packets(packets) => self.packets(packets),
        }
    }
}

fn first_class(qdisc: &Qdisc) -> Handle {
    Handle::new(qdisc.handle.major(), 1)
}
