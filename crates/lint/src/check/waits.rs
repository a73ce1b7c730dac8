//! The rules about the time that packets wait: long FIFOs behind slow classes, and delays that hold
//! more packets than their limit.

use std::collections::BTreeMap;

use txweir_core::text::value::text_of;
use txweir_core::{Handle, Nanos, Rate};
use txweir_tc::suggest::is_number;

use super::CheckOptions;
use super::facts::{Fact, Facts};
use super::findings::Findings;
use super::model::{Device, Qdisc};
use crate::code;

/// The longest wait in a FIFO without a warning. A new TCP connection has then sent its first
/// packet three times: after 1 s and after 2 s more it repeats it (RFC 6298 sections 2.1 and 5.5).
const LONGEST: Nanos = Nanos(3_000_000_000);

/// The kinds that drop nothing before they are full.
const FIFOS: [&str; 4] = ["pfifo", "bfifo", "pfifo_fast", "pfifo_head_drop"];

/// The default limit of netem, packets.
const NETEM_LIMIT: u64 = 1000;

/// The rules about the waits in a device.
pub(super) struct Waits<'a, 's> {
    pub(super) out: &'a mut Findings<'s>,
    pub(super) options: &'a CheckOptions,
    pub(super) device: &'a Device,
}

impl Waits<'_, '_> {
    /// Checks the device, whose queues have these waits.
    pub(super) fn check(&mut self, facts: &[Fact]) {
        self.long(facts);
        for qdisc in self.device.qdiscs().into_iter().filter(|q| q.kind == "netem") {
            self.held_up(qdisc);
        }
    }

    /// Reports FIFOs in which packets wait for seconds: one finding for those of one qdisc.
    fn long(&mut self, facts: &[Fact]) {
        let is_long = |f: &&Fact| FIFOS.contains(&f.kind.as_str()) && f.bound.is_some_and(|b| b > LONGEST);
        let mut of: BTreeMap<u16, Vec<&Fact>> = BTreeMap::new();
        for fact in facts.iter().filter(is_long).filter(|f| !self.rate_is_wrong(f)) {
            of.entry(place(fact).map_or(0, Handle::major)).or_default().push(fact);
        }
        for all in of.values() {
            let Some(worst) = all.iter().max_by_key(|f| f.bound) else { continue };
            let others = match all.len() {
                1 => String::new(),
                2 => format!(", and more than {} in 1 other", text_of(&LONGEST)),
                many => format!(", and more than {} in {} others", text_of(&LONGEST), many - 1),
            };
            let bound = worst.bound.map(|b| text_of(&b)).unwrap_or_default();
            let message =
                format!("a packet waits up to {bound} in the {} of {}{others}", worst.kind, worst.place);
            let d = self.out.error(code::LONG_WAIT, &worst.span, message).warning();
            let dev = match self.device.name.as_str() {
                "" => String::new(),
                name => format!(" dev {name}"),
            };
            let hint = match worst.place.as_str() {
                "root" => format!("fq_codel keeps it short: qdisc replace{dev} root fq_codel"),
                place => format!("fq_codel keeps it short: qdisc replace{dev} parent {place} fq_codel"),
            };
            self.out.say(d.hint(Some(hint)));
        }
    }

    /// True if the rate of the class has no unit: then the rate is the mistake.
    fn rate_is_wrong(&self, fact: &Fact) -> bool {
        let class = place(fact).and_then(|place| self.device.classes.get(&place));
        class.and_then(|c| c.settings.word("rate")).is_some_and(|w| is_number(&w.text))
    }

    /// Reports a netem whose limit is smaller than the packets that its delay holds at the rate.
    fn held_up(&mut self, netem: &Qdisc) {
        let Some(delay) = netem.settings.time("delay").filter(|d| d.value.0 > 0) else { return };
        // If the delay has no unit, the delay is the mistake.
        let bare = |key: &str| netem.settings.word(key).is_some_and(|w| is_number(&w.text));
        let own = netem.settings.rate("rate").map(|r| r.value);
        let facts = Facts { options: self.options, device: self.device };
        let outer = match netem.parent {
            Handle::ROOT => facts.link(),
            parent => facts.sure_rate(parent),
        };
        let outer = outer.map(|(rate, _)| rate);
        let Some(rate) = own.into_iter().chain(outer).min().filter(|_| !bare("delay")) else { return };
        let limit = netem.settings.number("limit").map_or(NETEM_LIMIT, |n| n.value);
        let frame = self.options.frame();
        let held = u128::from(rate.0) * u128::from(delay.value.0) / 1_000_000_000;
        let needed = u64::try_from(held.div_ceil(u128::from(frame))).unwrap_or(u64::MAX);
        if needed <= limit {
            return;
        }
        let passes = u128::from(limit) * u128::from(frame) * 1_000_000_000 / u128::from(delay.value.0);
        let passes = text_of(&Rate(u64::try_from(passes).unwrap_or(u64::MAX)));
        let message = format!(
            "{} holds {limit} packets: with a delay of {} at most {passes} pass, of {}",
            netem.name(),
            text_of(&delay.value),
            text_of(&rate)
        );
        let at = netem.settings.number("limit").map_or_else(|| delay.span.clone(), |n| n.span);
        let d = self.out.error(code::NETEM_LIMIT, &at, message).warning();
        self.out.say(d.hint(Some(format!("limit {}", needed.saturating_add(needed / 4)))));
    }
}

/// Returns the class that a queue is in.
fn place(fact: &Fact) -> Option<Handle> {
    let (major, minor) = fact.place.split_once(':')?;
    Some(Handle::new(u16::from_str_radix(major, 16).ok()?, u16::from_str_radix(minor, 16).ok()?))
}
