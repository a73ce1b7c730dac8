//! The targets of filters, the filters that can never match, and the classes that no filter leads
//! to.

use std::collections::{BTreeMap, BTreeSet};

use txweir_core::Handle;
use txweir_tc::ast::At;
use txweir_tc::language::{Action, Settings};
use txweir_tc::lex::Word;

use super::findings::{Findings, nearest};
use super::kinds::Classes;
use super::matching::of;
use super::model::{Attached, Class, Device, Filter};
use super::shadow::Earlier;
use crate::code;
use crate::machine::Marking;

/// Kinds whose class is computed from each packet.
const COMPUTED: [&str; 6] = ["flow", "bpf", "cgroup", "tcindex", "route", "rsvp"];

/// The rules about the filters of a device.
pub(super) struct Filters<'a, 's> {
    pub(super) out: &'a mut Findings<'s>,
    pub(super) device: &'a Device,
    /// The marks and classes that the firewall gives to packets; `None` if that is not known.
    pub(super) marking: Option<&'a Marking>,
}

impl Filters<'_, '_> {
    pub(super) fn check(&mut self) {
        let places: BTreeSet<Attached> = self.device.filters.iter().map(|f| f.at).collect();
        for filter in self.device.filters.iter().filter(|f| !f.unsure) {
            self.target(filter, &places);
        }
        self.shadows();
        self.unreachable();
        self.unset_marks();
    }

    /// Reports filters for marks that nothing sets, if all that could set one is known.
    fn unset_marks(&mut self) {
        let Some(marking) = self.marking.filter(|m| !m.any) else { return };
        // Actions of any filter may set marks, also by restoring that of the connection.
        let acts = |f: &Filter| f.settings.actions().iter().any(|a| marks(a));
        if self.device.partial || self.device.filters.iter().any(acts) {
            return;
        }
        for filter in self.device.filters.iter().filter(|f| f.kind == "fw") {
            let Some((mark, mask)) = filter.handle.as_deref().and_then(mark_of) else { continue };
            if marking.marks.iter().any(|(set, bits)| (set ^ mark) & mask & bits == 0) {
                continue;
            }
            let message =
                format!("this takes packets with the mark {mark:#x}, and the script sets no such mark");
            let d = self.out.error(code::UNSET_MARK, &filter.span, message).warning();
            let hint = format!(
                "a rule of the firewall sets it: iptables -t mangle -A POSTROUTING ... -j MARK --set-mark {mark:#x}"
            );
            self.out.say(d.hint(Some(hint)));
        }
    }

    /// Reports a filter that leads to no class that holds packets. Filters stand at `places`.
    fn target(&mut self, filter: &Filter, places: &BTreeSet<Attached>) {
        let Some((class, span)) = leads_to(filter) else { return };
        if self.device.partial || class.minor() == 0 || class == Handle::ROOT || class.is_none() {
            return;
        }
        let Some(qdisc) = self.device.qdisc(class) else {
            let message = format!("this leads to class {class}, and no line makes qdisc {}", class.qdisc());
            let near = match filter.at {
                Attached::To(at) => {
                    Some(Handle::new(at.major(), class.minor())).filter(|c| self.device.has_class(*c))
                }
                _ => None,
            };
            let d =
                self.out.error(code::DANGLING_FLOWID, &span, message).suggest(near.map(|n| n.to_string()));
            return self.out.say(d);
        };
        if !self.device.has_class(class) {
            let fate = match qdisc.kind.as_str() {
                "htb" => "packets that match go where unclassified ones go",
                "prio" | "ets" => "packets that match go to the band of priority 0",
                _ => "packets that match are unclassified",
            };
            let message =
                format!("this leads to class {class}, which {} does not have: {fate}", qdisc.name());
            let there = match qdisc.classes() {
                Classes::Made => self.device.near(class).filter(|c| self.device.is_leaf(*c)).collect(),
                Classes::Upto(most) => {
                    (1..=most.min(64)).map(|n| Handle::new(class.major(), n as u16)).collect()
                }
                _ => Vec::new(),
            };
            let near = nearest(class, there.iter().copied());
            // Of very many classes the list names the first.
            let list: Vec<_> = there.iter().take(64).map(ToString::to_string).collect();
            let d = self.out.error(code::DANGLING_FLOWID, &span, message);
            let d = d.expected(format!("one of {}", list.join(", "))).suggest(near.map(|n| n.to_string()));
            return self.out.say(d);
        }
        if matches!(qdisc.kind.as_str(), "htb" | "hfsc") && !self.device.is_leaf(class) {
            if places.contains(&Attached::To(class)) {
                return;
            }
            let message = format!(
                "class {class} has classes below it and holds no packets: they go where unclassified ones go"
            );
            let leaf = self
                .device
                .children(class)
                .find(|(id, _)| self.device.is_leaf(**id))
                .map(|(id, _)| id.to_string());
            let d =
                self.out.error(code::INNER_CLASS, &span, message).expected("a class that has none below it");
            self.out.say(d.suggest(leaf).warning());
        }
    }

    /// Compares the filters of one place, in the order in which they are asked, with those before.
    fn shadows(&mut self) {
        let mut order: Vec<&Filter> = self.device.filters.iter().filter(|f| !f.unsure).collect();
        // The sort is stable: filters of equal priority stay in the order of their lines.
        order.sort_by_key(|f| f.prio);
        // Filters that leave no matching packet to later ones, by place and chain.
        let mut earlier: BTreeMap<(Attached, u32), Earlier<&Filter>> = BTreeMap::new();
        for late in order {
            let Some(late_match) = of(late) else { continue };
            let earlier = earlier.entry((late.at, late.chain)).or_default();
            let protocol = protocol(&late.protocol);
            let Some((early, early_match)) = earlier.first_that_covers(protocol, &late_match) else {
                if takes(late) {
                    earlier.push(late, protocol, late_match);
                }
                continue;
            };
            let how = match late_match.covers(early_match) {
                true => "matches the same",
                false => "matches all of it",
            };
            let at = self.out.line(&early.span);
            let message = format!(
                "this filter never matches: that of {at} (prio {}) {how} and comes first",
                early.prio
            );
            let d = self.out.error(code::SHADOWED_FILTER, &late.span, message).warning();
            let hint = match early.prio {
                0 | 1 => "give the one that matches less the lower prio".to_string(),
                prio => format!("give this one a prio below {prio}"),
            };
            self.out.say(d.hint(Some(hint)));
        }
    }

    /// Reports leaves of htb, hfsc, drr and qfq that no filter and no default leads to.
    fn unreachable(&mut self) {
        let marks = self.device.filters.iter().any(|f| {
            f.settings
                .actions()
                .iter()
                .any(|a| a.kind.text == "skbedit" && a.words.iter().any(|w| w.text.starts_with("prio")))
        });
        for qdisc in self.device.qdiscs().into_iter().filter(|q| q.needs_filters()) {
            let on: Vec<&Filter> = self.device.filters.find(Device::of_qdisc(qdisc.handle)).collect();
            let unknown = on.iter().any(|f| COMPUTED.contains(&f.kind.as_str()));
            let unknown = unknown || self.marking.is_some_and(|m| m.any);
            if unknown || marks || self.device.partial {
                continue;
            }
            let default =
                qdisc.settings.hex("default").map(|d| Handle::new(qdisc.handle.major(), d.value as u16));
            let given = self.marking.iter().flat_map(|m| m.classes.iter().copied());
            let led: BTreeSet<Handle> =
                on.iter().filter_map(|f| Some(leads_to(f)?.0)).chain(default).chain(given).collect();
            let missed: Vec<_> = self
                .device
                .classes_of(qdisc.handle)
                .filter(|(id, _)| !led.contains(id) && self.device.is_leaf(**id))
                .collect();
            let Some((id, class)) = missed.first() else { continue };
            let message = match missed.len() {
                1 => format!(
                    "nothing leads to class {id}: no filter, and it is not the default of {}",
                    qdisc.name()
                ),
                many => {
                    let of = qdisc.name();
                    format!("nothing leads to {many} classes of {of} ({})", named(&missed))
                }
            };
            let d = self.out.error(code::UNREACHABLE_CLASS, &class.id_span, message).warning();
            let dev = if self.device.name.is_empty() {
                String::new()
            } else {
                format!(" dev {}", self.device.name)
            };
            let hint = format!(
                "only a sender that sets priority {id} on its socket reaches it; a filter does: \
                 filter add{dev} parent {} protocol ip prio 1 u32 match ... flowid {id}",
                qdisc.handle
            );
            self.out.say(d.hint(Some(hint)));
        }
    }
}

/// Most classes that a message names.
const NAMED: usize = 4;

/// Returns the names of classes: the first ones, and the number of the others.
fn named(classes: &[(&Handle, &Class)]) -> String {
    let names: Vec<_> = classes.iter().take(NAMED).map(|(id, _)| id.to_string()).collect();
    match classes.len().saturating_sub(NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// True if the action sets the mark of a packet.
fn marks(action: &Action<'_>) -> bool {
    let sets = |w: &Word| w.text.starts_with("mark");
    match action.kind.text.as_str() {
        "connmark" | "ctinfo" | "ct" => true,
        "skbedit" => action.words.iter().any(sets),
        _ => false,
    }
}

/// Returns the mark and the mask of the handle of a fw filter.
fn mark_of(handle: &str) -> Option<(u32, u32)> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let (mark, mask) = handle.split_once('/').unwrap_or((handle, "0xffffffff"));
    Some((number(mark)?, number(mask)?))
}

/// Returns the class that a filter leads to, and the span that names it. A class without a major is
/// of the qdisc it is on.
fn leads_to(filter: &Filter) -> Option<(Handle, std::ops::Range<usize>)> {
    let At { value, span } = filter.settings.handle("classid")?;
    let major = match filter.at {
        Attached::To(at) => at.major(),
        _ => return None,
    };
    let class = if value.major() == 0 { Handle::new(major, value.minor()) } else { value };
    Some((class, span))
}

/// True if the filter decides about every packet that it matches: by a class, or by an action. One
/// that is for the device alone sees no packet that a filter of the kernel sees.
fn takes(filter: &Filter) -> bool {
    if filter.settings.has("skip_sw") {
        return false;
    }
    let actions = filter.settings.actions();
    let decided = filter.settings.has("classid") || actions.iter().any(ends);
    decided && !goes_on(&filter.settings)
}

/// Returns the one name of a protocol that has several.
fn protocol(name: &str) -> &str {
    match name {
        "ipv4" | "0x0800" | "0x800" => "ip",
        "0x86dd" => "ipv6",
        name => name,
    }
}

/// True if the action decides the fate of a packet, so that no later filter sees it.
fn ends(action: &Action<'_>) -> bool {
    let has = |any: &[&str]| action.words.iter().any(|w| any.contains(&w.text.as_str()));
    match action.kind.text.as_str() {
        "drop" | "shot" | "pass" | "ok" | "trap" => true,
        "gact" => has(&["drop", "shot", "pass", "ok", "trap"]) && !has(&["random"]),
        "mirred" => has(&["redirect"]),
        // Its program decides.
        "bpf" => false,
        _ => has(&["drop", "shot", "pass", "ok", "trap"]),
    }
}

/// True if a filter's actions may send a packet on to the next filter.
fn goes_on(settings: &Settings) -> bool {
    let said = |any: &[&str], a: &Action<'_>| {
        any.contains(&a.kind.text.as_str()) || a.words.iter().any(|w| any.contains(&w.text.as_str()))
    };
    settings.actions().iter().any(|a| {
        said(&["continue", "reclassify", "goto", "jump", "random", "conform-exceed"], a)
            || a.kind.text == "police"
    })
}
