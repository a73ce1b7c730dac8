//! The targets of filters, the filters that can never match, and the classes that no filter leads
//! to.

use std::collections::{BTreeMap, BTreeSet};

use txweir_core::Handle;
use txweir_tc::ast::At;

use super::kinds::Classes;
use super::matching::{Match, of};
use super::model::{Attached, Device, Filter};
use super::{Check, ends, goes_on};
use crate::code;

/// Kinds whose class is computed from each packet.
const COMPUTED: [&str; 6] = ["flow", "bpf", "cgroup", "tcindex", "route", "rsvp"];

impl Check<'_> {
    pub(super) fn filters(&mut self, device: &Device) {
        for filter in &device.filters {
            self.target(device, filter);
        }
        self.shadows(device);
        self.unreachable(device);
    }

    fn target(&mut self, device: &Device, filter: &Filter) {
        let Some((class, span)) = leads_to(filter) else { return };
        if device.partial || class.minor() == 0 || class == Handle::ROOT || class.is_none() {
            return;
        }
        let Some(qdisc) = device.qdisc(class) else {
            let message = format!("this leads to class {class}, and no line makes qdisc {}", class.qdisc());
            let near = match filter.at {
                Attached::To(at) => {
                    Some(Handle::new(at.major(), class.minor())).filter(|c| device.has_class(*c))
                }
                _ => None,
            };
            let d = self.error(code::DANGLING_FLOWID, &span, message).suggest(near.map(|n| n.to_string()));
            return self.say(d);
        };
        if !device.has_class(class) {
            let fate = match qdisc.kind.as_str() {
                "htb" => "packets that match go where unclassified ones go",
                "prio" | "ets" => "packets that match go to the band of priority 0",
                _ => "packets that match are unclassified",
            };
            let message =
                format!("this leads to class {class}, which {} does not have: {fate}", qdisc.name());
            let there = match qdisc.classes() {
                Classes::Made => device.classes.keys().filter(|c| device.is_leaf(**c)).copied().collect(),
                Classes::Upto(most) => {
                    (1..=most.min(64)).map(|n| Handle::new(class.major(), n as u16)).collect()
                }
                _ => Vec::new(),
            };
            let near = self.nearest(class, there.iter().copied());
            let list: Vec<_> = there.iter().map(ToString::to_string).collect();
            let d = self.error(code::DANGLING_FLOWID, &span, message);
            let d = d.expected(format!("one of {}", list.join(", "))).suggest(near.map(|n| n.to_string()));
            return self.say(d);
        }
        if qdisc.kind == "htb" && !device.is_leaf(class) {
            let inner = Attached::To(class);
            if device.filters.iter().any(|f| f.at == inner) {
                return;
            }
            let message = format!(
                "class {class} has classes below it and holds no packets: they go where unclassified ones go"
            );
            let leaf =
                device.children(class).find(|(id, _)| device.is_leaf(**id)).map(|(id, _)| id.to_string());
            let d = self.error(code::INNER_CLASS, &span, message).expected("a class that has none below it");
            self.say(d.suggest(leaf).warning());
        }
    }

    /// Compares the filters of one place, in the order in which they are asked, with those before.
    fn shadows(&mut self, device: &Device) {
        let mut order: Vec<&Filter> = device.filters.iter().collect();
        // The sort is stable: filters of equal priority stay in the order of their lines.
        order.sort_by_key(|f| f.prio);
        // Filters that leave no matching packet to later ones, by place and chain.
        let mut earlier: BTreeMap<(Attached, u32), Vec<(&Filter, Match)>> = BTreeMap::new();
        for late in order {
            let Some(late_match) = of(late) else { continue };
            let earlier = earlier.entry((late.at, late.chain)).or_default();
            let by = earlier.iter().find(|(early, early_match)| {
                covers_protocol(&early.protocol, &late.protocol) && early_match.covers(&late_match)
            });
            let Some((early, early_match)) = by else {
                if takes(late) {
                    earlier.push((late, late_match));
                }
                continue;
            };
            let how = match late_match.covers(early_match) {
                true => "matches the same",
                false => "matches all of it",
            };
            let at = self.line(&early.span);
            let message = format!(
                "this filter never matches: that of {at} (prio {}) {how} and comes first",
                early.prio
            );
            let d = self.error(code::SHADOWED_FILTER, &late.span, message).warning();
            let hint = match early.prio {
                0 | 1 => "give the one that matches less the lower prio".to_string(),
                prio => format!("give this one a prio below {prio}"),
            };
            self.say(d.hint(Some(hint)));
        }
    }

    /// Reports leaves of htb, hfsc, drr and qfq that no filter and no default leads to.
    fn unreachable(&mut self, device: &Device) {
        for qdisc in device.qdiscs().into_iter().filter(|q| q.needs_filters()) {
            let here = |f: &&Filter| matches!(f.at, Attached::To(to) if to.major() == qdisc.handle.major());
            let on: Vec<&Filter> = device.filters.iter().filter(here).collect();
            let unknown = on.iter().any(|f| COMPUTED.contains(&f.kind.as_str()));
            let marks = device.filters.iter().any(|f| {
                f.settings
                    .actions()
                    .iter()
                    .any(|a| a.kind.text == "skbedit" && a.words.iter().any(|w| w.text.starts_with("prio")))
            });
            if unknown || marks || device.partial {
                continue;
            }
            let default =
                qdisc.settings.hex("default").map(|d| Handle::new(qdisc.handle.major(), d.value as u16));
            let led: BTreeSet<Handle> =
                on.iter().filter_map(|f| Some(leads_to(f)?.0)).chain(default).collect();
            for (id, class) in device.classes_of(qdisc.handle) {
                if led.contains(id) || !device.is_leaf(*id) {
                    continue;
                }
                let message = format!(
                    "nothing leads to class {id}: no filter, and it is not the default of {}",
                    qdisc.name()
                );
                let d = self.error(code::UNREACHABLE_CLASS, &class.id_span, message).warning();
                let dev =
                    if device.name.is_empty() { String::new() } else { format!(" dev {}", device.name) };
                let hint = format!(
                    "only a sender that sets priority {id} on its socket reaches it; a filter does: \
                     filter add{dev} parent {} protocol ip prio 1 u32 match ... flowid {id}",
                    qdisc.handle
                );
                self.say(d.hint(Some(hint)));
            }
        }
    }
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

/// True if the filter decides about every packet that it matches: by a class, or by an action.
fn takes(filter: &Filter) -> bool {
    let actions = filter.settings.actions();
    let decided = filter.settings.has("classid") || actions.iter().any(ends);
    decided && !goes_on(&filter.settings)
}

fn covers_protocol(early: &str, late: &str) -> bool {
    let one = |p: &str| match p {
        "ipv4" | "0x0800" | "0x800" => "ip".to_string(),
        "0x86dd" => "ipv6".into(),
        p => p.to_string(),
    };
    early == "all" || one(early) == one(late)
}
