//! Sums and limits of rates, ceilings, buckets and quanta: of each class, of it and its children,
//! of all and the link.

use std::ops::Range;

use txweir_core::text::value::text_of;
use txweir_core::{Bytes, Handle, Rate};
use txweir_tc::ast::At;
use txweir_tc::language::Settings;
use txweir_tc::suggest::is_number;

use super::CheckOptions;
use super::findings::{Findings, nearest};
use super::model::{Class, Device, Qdisc};
use crate::code;

/// Quanta, in bytes, that the kernel derives from a rate without a warning (tc-htb(8)).
const QUANTUM: Range<u64> = 1000..200_001;
/// Default ratio of a rate in bytes per second to its quantum in bytes (tc-htb(8)).
const R2Q: u64 = 10;

/// Returns the rate that a class is promised: the rate of htb, the share of hfsc.
pub(super) fn promised(class: &Class) -> Option<At<Rate>> {
    match class.kind.as_str() {
        "htb" => class.settings.rate("rate"),
        "hfsc" => ["rt", "sc", "ls"].iter().find_map(|curve| {
            let part = |part| class.settings.part_rate(curve, part);
            part("m2").or_else(|| part("rate"))
        }),
        _ => None,
    }
}

/// The rules about the rates of a device.
pub(super) struct Rates<'a, 's> {
    pub(super) out: &'a mut Findings<'s>,
    pub(super) options: &'a CheckOptions,
    pub(super) device: &'a Device,
}

impl Rates<'_, '_> {
    pub(super) fn check(&mut self) {
        for (id, class) in &self.device.classes {
            if class.kind == "htb" {
                self.htb_class(*id, class);
            }
            self.sum(*id, Some(class));
            self.above_link(&format!("class {id}"), promised(class));
        }
        for qdisc in self.device.qdiscs() {
            match qdisc.kind.as_str() {
                "htb" | "hfsc" => {
                    self.sum(qdisc.handle, None);
                    self.default(qdisc);
                }
                "tbf" => {
                    self.above_link(&qdisc.name(), qdisc.settings.rate("rate"));
                    // The second bucket is that of the peak rate.
                    for (rate, key) in [("rate", "burst"), ("peakrate", "mtu")] {
                        self.burst(&qdisc.name(), &qdisc.settings, qdisc.settings.rate(rate), key, true);
                    }
                }
                "cake" | "cake_mq" => {
                    self.above_link(&qdisc.name(), qdisc.settings.rate("bandwidth"));
                }
                _ => {}
            }
        }
    }

    fn htb_class(&mut self, id: Handle, class: &Class) {
        let name = format!("class {id}");
        let (Some(rate), ceil) = (class.settings.rate("rate"), class.settings.rate("ceil")) else { return };
        if let Some(ceil) = ceil.as_ref().filter(|c| c.value < rate.value) {
            let (low, high) = (text_of(&ceil.value), text_of(&rate.value));
            let message = format!("{name} ceil {low} is below its rate {high}: it never gets its rate");
            let d = self.out.error(code::CEIL_BELOW_RATE, &ceil.span, message);
            let d = d.expected(format!("at least {high}")).suggest(Some(high.to_lowercase()));
            self.out.say(d.warning());
        }
        self.burst(&name, &class.settings, Some(rate.clone()), "burst", false);
        self.burst(&name, &class.settings, ceil.or_else(|| Some(rate.clone())), "cburst", false);
        if self.device.is_leaf(id) {
            self.quantum(id, class, rate.value);
        }
    }

    fn quantum(&mut self, id: Handle, class: &Class, rate: Rate) {
        let given = class.settings.number("quantum");
        let htb = self.device.qdisc(id);
        let r2q = htb.and_then(|q| q.settings.number("r2q")).map_or(R2Q, |n| n.value.max(1));
        let quantum = given.as_ref().map_or(rate.0 / r2q, |q| q.value);
        // If the rate has no unit, the rate is the mistake.
        if class.settings.word("rate").is_some_and(|w| is_number(&w.text)) {
            return;
        }
        // A single class has no other to share with.
        let leaves = self.device.classes_of(id).filter(|(c, _)| self.device.is_leaf(**c));
        let alone = leaves.take(2).count() < 2;
        if QUANTUM.contains(&quantum) || alone && given.is_none() {
            return;
        }
        let (is, takes) =
            if quantum < QUANTUM.start { ("small", QUANTUM.start) } else { ("big", QUANTUM.end - 1) };
        let frame = self.options.frame();
        let (span, suggestion) = match &given {
            Some(q) => (q.span.clone(), frame.max(takes.min(60_000)).to_string()),
            None => {
                let rate = class.settings.words("rate").unwrap_or(&[]);
                let start = rate.first().map_or(class.span.start, |w| w.span.start);
                let span = start..rate.get(1).map_or(class.span.end, |w| w.span.end);
                let written = self.out.source.text.get(span.clone()).unwrap_or("").to_string();
                (span, format!("{written} quantum {}", if is == "small" { frame } else { 60_000 }))
            }
        };
        // The kernel takes a given quantum as it is, and brings a derived one into its range.
        let (why, instead) = match &given {
            Some(_) => Default::default(),
            None => (format!(" (its rate in bytes/s by r2q {r2q})"), format!("; the kernel takes {takes}")),
        };
        let message = format!(
            "class {id} has a quantum of {quantum} bytes{why}, which is {is}: classes of one parent share \
             unevenly{instead}"
        );
        let d = self.out.error(code::QUANTUM, &span, message).expected("1000 to 200000 bytes");
        self.out.say(d.suggest(Some(suggestion)).warning());
    }

    /// Compares a bucket with one packet, one tick of the clock, and one second.
    fn burst(&mut self, name: &str, settings: &Settings, rate: Option<At<Rate>>, key: &str, drops: bool) {
        let (Some(burst), Some(rate)) = (settings.bytes(key), rate) else { return };
        let frame = self.options.frame();
        let Rate(per_second) = rate.value;
        // A kernel with high-resolution timers refills a bucket at any time.
        let tick = self.options.hz.map_or(0, |hz| per_second / u64::from(hz.max(1)));
        let (size, bits) = (text_of(&burst.value), text_of(&rate.value));
        let d = |code, message| self.out.error(code, &burst.span, message);
        let enough = format!("{}b", frame.max(tick));
        let d = match burst.value.0 {
            b if b < frame && drops => {
                let message =
                    format!("{name} {key} {size} holds no packet of {frame} bytes: such packets are dropped");
                d(code::SMALL_BURST, message).expected(format!("at least {frame}b")).suggest(Some(enough))
            }
            b if b < frame => {
                let message = format!("{name} {key} {size} holds no packet of {frame} bytes");
                let d = d(code::SMALL_BURST, message).expected(format!("at least {frame}b"));
                d.suggest(Some(enough)).warning()
            }
            b if b < tick => {
                let hz = self.options.hz.unwrap_or(0);
                let message = format!(
                    "{name} {key} {size} is less than {bits} brings in one tick of the clock ({tick} bytes at {hz} Hz): \
                     the rate may not be reached"
                );
                let d = d(code::SMALL_BURST, message).expected(format!("at least {tick}b"));
                d.suggest(Some(enough)).warning()
            }
            b if b > per_second && per_second > frame => {
                let message =
                    format!("{name} {key} {size} lets more than a second of {bits} through at once");
                let some = (per_second / 10).max(frame);
                let d = d(code::LARGE_BURST, message)
                    .expected(format!("at most {}", text_of(&Bytes(per_second))));
                d.suggest(Some(format!("{some}b"))).warning()
            }
            _ => return,
        };
        self.out.say(d);
    }

    /// Compares the sum that the children of a class, or the classes at the top, are promised with
    /// the rate above them.
    fn sum(&mut self, parent: Handle, class: Option<&Class>) {
        let rates: Vec<_> =
            self.device.children(parent).filter_map(|(_, c)| Some(promised(c)?.value.0)).collect();
        let total = Rate(rates.iter().fold(0u64, |sum, r| sum.saturating_add(*r)));
        let whole = match class {
            Some(class) => promised(class),
            None => None,
        };
        let count = rates.len();
        let text = text_of(&total);
        match (class, whole, self.options.link_of(&self.device.name)) {
            (Some(_), Some(whole), _) if total > whole.value => {
                let message = format!(
                    "the {count} classes below {parent} are promised {text}, and it has {}: none can count on its rate",
                    text_of(&whole.value)
                );
                let d = self.out.error(code::OVERSUBSCRIBED, &whole.span, message);
                let hint = format!(
                    "lower the rates below it to {} in all; ceil is for the part that they borrow",
                    text_of(&whole.value)
                );
                self.out.say(d.hint(Some(hint)).warning());
            }
            (None, _, Some(link)) if total > link && count > 1 => {
                let message = format!(
                    "the {count} classes at the top are promised {text}, and the link has {}",
                    text_of(&link)
                );
                let first = self.device.children(parent).next().and_then(|(_, c)| promised(c));
                let span = first.map_or(0..0, |r| r.span);
                let d = self.out.error(code::OVERSUBSCRIBED, &span, message);
                self.out.say(
                    d.hint(Some(
                        "give them a class above, or lower rates, with ceil for the borrowed part".into(),
                    ))
                    .warning(),
                );
            }
            _ => {}
        }
    }

    fn above_link(&mut self, name: &str, rate: Option<At<Rate>>) {
        let (Some(rate), Some(link)) = (rate, self.options.link_of(&self.device.name)) else { return };
        if rate.value <= link {
            return;
        }
        let (given, have) = (text_of(&rate.value), text_of(&link));
        let message =
            format!("{name} rate {given} is above the link's {have}: the queue builds in the device");
        let d = self.out.error(code::ABOVE_LINK, &rate.span, message).expected(format!("at most {have}"));
        self.out.say(d.suggest(Some(have.to_lowercase())).warning());
    }

    /// Checks the class for packets that no filter matches.
    fn default(&mut self, qdisc: &Qdisc) {
        let handle = qdisc.handle;
        let leaves: Vec<Handle> =
            self.device.classes_of(handle).map(|(id, _)| *id).filter(|id| self.device.is_leaf(*id)).collect();
        let fate = if qdisc.kind == "htb" { "are not shaped" } else { "are dropped" };
        let default = qdisc.settings.hex("default");
        let Some(default) = default.filter(|d| d.value != 0) else {
            if leaves.is_empty() {
                return;
            }
            let message = format!("{} has no default: unclassified packets {fate}", qdisc.name());
            let d = self.out.error(code::NO_DEFAULT, &qdisc.kind_span, message);
            let suggestion = leaves.last().map(|leaf| format!("{} default {:x}", qdisc.kind, leaf.minor()));
            return self.out.say(d.suggest(suggestion).note());
        };
        let class = Handle::new(handle.major(), default.value as u16);
        let near = nearest(class, leaves.iter().copied()).or(leaves.first().copied());
        let near = near.map(|h| format!("{:x}", h.minor()));
        let message = match self.device.classes.contains_key(&class) {
            true if self.device.is_leaf(class) => return,
            true => format!("class {class} has classes below it: unclassified packets of {handle} {fate}"),
            false if self.device.partial => return,
            false => format!("class {class} is never made: unclassified packets of {handle} {fate}"),
        };
        let d = self
            .out
            .error(code::UNKNOWN_DEFAULT, &default.span, message)
            .expected("the minor of a class that has none below it");
        self.out.say(d.suggest(near));
    }
}
