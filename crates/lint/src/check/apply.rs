//! The effect of one line on a device, by the kernel's rules.

use std::ops::Range;

use txweir_core::Handle;
use txweir_core::sched::discipline::Filtered;
use txweir_tc::ast::{At, ClassCommand, Command, FilterCommand, Place, QdiscCommand, Verb};
use txweir_tc::suggest;

use super::Check;
use super::kinds::Classes;
use super::model::{Attached, Class, Device, Filter, Qdisc, attached, settings};
use crate::code;

/// Kinds whose qdiscs take no changes after their creation.
const UNCHANGING: [&str; 7] = ["htb", "drr", "qfq", "mq", "mqprio", "pfifo_fast", "teql0"];

impl Check<'_> {
    pub(super) fn apply(&mut self, device: &mut Device, cmd: &Command) {
        match cmd {
            Command::Qdisc(c) => self.qdisc(device, c, cmd),
            Command::Class(c) => self.class(device, c, cmd),
            Command::Filter(c) => self.filter(device, c, cmd),
            Command::Chain(_) | Command::Actions(_) => {}
        }
    }

    fn qdisc(&mut self, device: &mut Device, c: &QdiscCommand, cmd: &Command) {
        let Some(place) = &c.place else { return };
        let hook = matches!(place.value, Place::Ingress | Place::Clsact);
        let hook = hook || c.kind.as_ref().is_some_and(|k| k.text == "ingress" || k.text == "clsact");
        if hook {
            device.hooks = (c.verb != Verb::Delete).then_some("ingress");
            if c.verb == Verb::Delete {
                device.filters.retain(|f| matches!(f.at, Attached::To(_)));
            }
            return;
        }
        let parent = match place.value {
            Place::Below(parent) => device.named(parent),
            Place::Handle(handle) => match device.qdisc(handle) {
                Some(q) => q.parent,
                None => return,
            },
            _ => return,
        };
        let present = device.below(parent).map(|q| (q.handle, q.kind.clone(), q.span.clone()));
        match (c.verb, present) {
            (Verb::Delete, Some((handle, ..))) => device.remove(handle),
            (Verb::Add, Some((handle, kind, span))) => {
                let at = self.line(&span);
                let whom =
                    if parent == Handle::ROOT { device.called().into() } else { format!("class {parent}") };
                let message = format!("{whom} has a qdisc already: {kind} {handle}, from {at}");
                let d = self.error(code::EXISTS, &place.span, message);
                let hint = "replace takes its place, del takes it away";
                self.say(d.hint(Some(hint.into())));
            }
            (Verb::Add, None) => self.make(device, c, cmd, parent),
            (Verb::Replace | Verb::Link, None) => self.make(device, c, cmd, parent),
            (Verb::Change | Verb::Replace | Verb::Link, Some((handle, kind, _))) => {
                self.over(device, c, cmd, parent, (handle, &kind));
            }
            (Verb::Change, None) if device.root().is_some() => {
                let message = format!("there is no qdisc at {}", place_text(parent));
                let d = self.error(code::NOT_FOUND, &place.span, message);
                self.say(d.hint(Some("change needs an object of an earlier line; add makes one".into())));
            }
            _ => {}
        }
    }

    /// Checks a line about a qdisc whose place is taken.
    fn over(
        &mut self,
        device: &mut Device,
        c: &QdiscCommand,
        cmd: &Command,
        parent: Handle,
        (handle, kind): (Handle, &str),
    ) {
        let Some(new) = &c.kind else { return };
        let other_handle = c.handle.as_ref().is_some_and(|h| h.value != handle);
        if c.verb == Verb::Replace && other_handle {
            self.replaces(device, c, handle, kind);
            device.remove(handle);
            return self.make(device, c, cmd, parent);
        }
        if new.text != kind {
            if c.verb != Verb::Replace || c.handle.is_some() {
                let message = format!("{handle} is {kind} and cannot become {}", new.text);
                let d = self.error(code::CONFLICT, &new.span, message).expected(kind.to_string());
                let hint = "give another handle: then it takes the place of the old one";
                return self.say(d.hint(Some(hint.into())));
            }
            self.replaces(device, c, handle, kind);
            device.remove(handle);
            return self.make(device, c, cmd, parent);
        }
        if UNCHANGING.contains(&kind) && !c.options.is_empty() {
            let message = format!("{kind} cannot be changed once it is there");
            let d = self.error(code::CANNOT_CHANGE, &new.span, message);
            let hint = "del it and add it again, or replace it under another handle: its packets are lost";
            return self.say(d.hint(Some(hint.into())));
        }
        let new_settings = settings(self.source, cmd);
        if let Some(q) = device.qdisc_mut(handle) {
            q.settings = new_settings;
        }
    }

    fn replaces(&mut self, device: &Device, c: &QdiscCommand, handle: Handle, kind: &str) {
        let classes = device.classes_of(handle).count();
        let filters =
            device.filters.iter().filter(|f| matches!(f.at, Attached::To(h) if h.major() == handle.major()));
        let filters = filters.count();
        if classes + filters == 0 {
            return;
        }
        let message =
            format!("this throws {kind} {handle} away with its {classes} classes and {filters} filters");
        let d = self.error(code::REPLACES, &c.span, message).warning();
        self.say(d.hint(Some("until the lines after it have run, nothing is classified".into())));
    }

    fn make(&mut self, device: &mut Device, c: &QdiscCommand, cmd: &Command, parent: Handle) {
        let (Some(kind), Some(place)) = (&c.kind, &c.place) else { return };
        let there = parent == Handle::ROOT || device.partial || device.has_class(parent);
        if !there && !self.known_parent(device, parent, &place.span, "the qdisc is refused") {
            return;
        }
        let handle = match &c.handle {
            Some(h) => h.value.qdisc(),
            None => device.free_handle(),
        };
        if let Some(other) = device.qdisc(handle) {
            let at = self.line(&other.span);
            let message = format!("handle {handle} is in use: {} of {at}", other.kind);
            let span = c.handle.as_ref().map_or(&c.span, |h| &h.span);
            let free = (1..=0xfff).map(|n| Handle::new(n, 0)).find(|h| device.qdisc(*h).is_none());
            let d = self.error(code::EXISTS, span, message).suggest(free.map(|h| h.to_string()));
            return self.say(d);
        }
        device.insert(Qdisc {
            handle,
            parent,
            kind: kind.text.clone(),
            spec: self.source.kinds.get(&kind.text),
            settings: settings(self.source, cmd),
            span: c.span.clone(),
            kind_span: kind.span.clone(),
            place_span: place.span.clone(),
        });
    }

    /// Reports a missing parent; returns true if the check goes on as if it existed.
    fn known_parent(
        &mut self,
        device: &Device,
        parent: Handle,
        span: &std::ops::Range<usize>,
        otherwise: &str,
    ) -> bool {
        let Some(qdisc) = device.qdisc(parent) else {
            let message = format!("no line makes qdisc {}", parent.qdisc());
            let d = self.error(code::DANGLING_PARENT, span, message);
            // A file may add to qdiscs that exist already.
            let partial = device.is_empty();
            let d = if partial { d.warning() } else { d };
            let near = self.nearest(parent.qdisc(), device.qdiscs().into_iter().map(|q| q.handle));
            let near = near.map(|h| Handle::new(h.major(), parent.minor()).to_string());
            let hint = match near {
                Some(_) => None,
                None => Some(format!("add qdisc {} first, or {otherwise}", parent.qdisc())),
            };
            self.say(d.hint(hint).suggest(near.map(|n| self.like_written(span, &n))));
            return partial;
        };
        let (message, hint) = match qdisc.classes() {
            Classes::None => (format!("{} has no classes, and so no {parent}", qdisc.name()), None),
            Classes::Made => (format!("no line makes class {parent}: {otherwise}"), None),
            Classes::Upto(most) if matches!(qdisc.kind.as_str(), "mqprio" | "taprio") => (
                format!(
                    "{} has {most} queues, and {parent} would be queue {}",
                    qdisc.name(),
                    i32::from(parent.minor()) - 1
                ),
                Some("the class of a queue is its number and one: queue 0 is :1".to_string()),
            ),
            Classes::Upto(most) => {
                let last = Handle::new(parent.major(), most.min(u64::from(u16::MAX)) as u16);
                let first = Handle::new(parent.major(), 1);
                (format!("{} has no class {parent}: {first} to {last}", qdisc.name()), None)
            }
            Classes::Any => return true,
        };
        let near = match qdisc.classes() {
            Classes::Made => self.nearest(parent, device.classes.keys().copied()),
            _ => None,
        };
        let d = self.error(code::DANGLING_PARENT, span, message).hint(hint);
        self.say(match near {
            Some(near) => {
                let d = d.expected("a class that an earlier line makes");
                d.suggest(Some(self.like_written(span, &near.to_string())))
            }
            None if qdisc.classes() == Classes::Made => {
                let hint =
                    format!("make class {parent} on a line before this one, or write {}", parent.qdisc());
                d.hint(Some(hint))
            }
            None => d,
        });
        false
    }

    /// Returns a handle in the form of the span: `parent 1:9` is replaced as a whole if the span is
    /// both words.
    fn like_written(&self, span: &std::ops::Range<usize>, handle: &str) -> String {
        match self.source.text.get(span.clone()).and_then(|t| t.split_once(char::is_whitespace)) {
            Some((key, _)) => format!("{key} {handle}"),
            None => handle.to_string(),
        }
    }

    /// Returns the existing name most similar to a missing one.
    pub(super) fn nearest(&self, given: Handle, there: impl Iterator<Item = Handle>) -> Option<Handle> {
        let there: Vec<(String, Handle)> = there.map(|h| (h.to_string(), h)).collect();
        // Of equally similar names, one of the same length comes first.
        let mut there = there;
        there.sort_by_key(|(name, _)| name.len().abs_diff(given.to_string().len()));
        let near = suggest::closest(&given.to_string(), there.iter().map(|(name, _)| name.as_str()))?;
        there.iter().find(|(name, _)| name == near).map(|(_, h)| *h)
    }

    fn class(&mut self, device: &mut Device, c: &ClassCommand, cmd: &Command) {
        let id = c.classid.as_ref();
        if c.verb == Verb::Delete {
            if let Some(id) = id {
                device.remove_class(id.value);
            }
            return;
        }
        let (Some(kind), Some(id)) = (&c.kind, id) else { return };
        let present = device.classes.get(&id.value).map(|class| class.span.clone());
        match (c.verb, present) {
            (Verb::Add, Some(span)) => {
                let message = format!("class {} is there already, from {}", id.value, self.line(&span));
                let d = self.error(code::EXISTS, &id.span, message);
                return self.say(d.hint(Some("change gives it other rates, replace does either".into())));
            }
            (Verb::Change | Verb::Replace, Some(_)) => {
                let new = settings(self.source, cmd);
                if let Some(class) = device.classes.get_mut(&id.value) {
                    class.settings = new;
                }
                return;
            }
            (Verb::Change, None) if device.qdisc(id.value).is_some_and(Qdisc::needs_filters) => {
                let d = self.error(code::NOT_FOUND, &id.span, format!("no line makes class {}", id.value));
                return self
                    .say(d.hint(Some("change needs an object of an earlier line; add makes one".into())));
            }
            _ => {}
        }
        let parent = match &c.parent {
            Some(p) if p.value != Handle::ROOT => p.clone(),
            _ => At { value: id.value.qdisc(), span: id.span.clone() },
        };
        if id.value.major() != parent.value.major() {
            let message = format!(
                "class {} cannot be below {}, its name must begin with {:x}:",
                id.value,
                parent.value,
                parent.value.major()
            );
            let d = self.error(code::WRONG_MAJOR, &id.span, message);
            let right = Handle::new(parent.value.major(), id.value.minor()).to_string();
            return self.say(d.suggest(Some(self.like_written(&id.span, &right))));
        }
        let mut below = parent.value;
        let top = parent.value.minor() == 0;
        if top && device.qdisc(below).is_none() || !top && !device.has_class(below) {
            let otherwise = format!("tc makes {} a class at the top silently", id.value);
            if device.partial || self.known_parent(device, below, &parent.span, &otherwise) {
                return;
            }
            // Linux does so too; later findings are then about the state that Linux would have.
            below = parent.value.qdisc();
        }
        if let Some(q) = device.qdisc(id.value).filter(|q| q.kind != kind.text) {
            let message = format!("{} has no {} classes", q.name(), kind.text);
            let d = self.error(code::CONFLICT, &kind.span, message).suggest(Some(q.kind.clone()));
            return self.say(d);
        }
        device.insert_class(
            id.value,
            Class {
                parent: below,
                kind: kind.text.clone(),
                settings: settings(self.source, cmd),
                span: c.span.clone(),
                id_span: id.span.clone(),
            },
        );
    }

    /// Reports a filter on a qdisc that asks no filters; returns true if it does so.
    fn asks_none(&mut self, device: &Device, at: Handle, span: &Range<usize>) -> bool {
        let Some(qdisc) = device.qdisc(at) else { return false };
        let Some(spec) = qdisc.spec.filter(|spec| spec.filters == Filtered::No) else { return false };
        let message = format!("{} asks no filters: this one is refused", qdisc.name());
        let d = self.error(code::NO_FILTERS, span, message);
        let dev = if device.name.is_empty() { String::new() } else { format!(" dev {}", device.name) };
        let egress =
            format!("the queue is chosen before it: qdisc add{dev} clsact, and the filter at egress");
        self.say(d.hint(Some(egress).filter(|_| spec.root_only)));
        true
    }

    fn filter(&mut self, device: &mut Device, c: &FilterCommand, cmd: &Command) {
        let root = device.root().map(|q| q.handle);
        let place = c.place.as_ref().map_or(Place::Below(Handle::ROOT), |p| p.value);
        let at = attached(place, root);
        let prio = c.prio.as_ref().map_or(0, |p| p.value);
        let chain = c.chain.as_ref().map_or(0, |p| p.value);
        let handle = c.handle.as_ref().map(|h| h.text.clone());
        let same = |f: &Filter| {
            f.at == at
                && f.chain == chain
                && (prio == 0 || f.prio == prio)
                && (handle.is_none() || f.handle == handle)
                && c.kind.as_ref().is_none_or(|k| k.text == f.kind)
        };
        if c.verb == Verb::Delete {
            device.filters.retain(|f| !same(f));
            return;
        }
        let Some(kind) = c.kind.as_ref().filter(|_| !matches!(c.verb, Verb::Get | Verb::Show)) else {
            return;
        };
        if let (Attached::To(to), false) = (at, device.partial) {
            let span = c.place.as_ref().map_or(&c.span, |p| &p.span).clone();
            let there = to != Handle::ROOT
                && if to.minor() == 0 { device.qdisc(to).is_some() } else { device.has_class(to) };
            if !there && to == Handle::ROOT {
                let message = format!("{} has no root qdisc that could have a filter", device.called());
                let d = self.error(code::DANGLING_PARENT, &span, message).warning();
                return self.say(d.hint(Some("add the qdisc first".into())));
            }
            if !there {
                self.known_parent(device, to, &span, "the filter is refused");
                return;
            }
            if self.asks_none(device, to, &span) {
                return;
            }
        }
        if matches!(at, Attached::Ingress | Attached::Egress) && device.hooks.is_none() && !device.is_empty()
        {
            let span = c.place.as_ref().map_or(&c.span, |p| &p.span).clone();
            let message = format!("no line makes the hook of {} that this filter is for", device.called());
            let d = self.error(code::DANGLING_PARENT, &span, message).warning();
            let dev = if device.name.is_empty() { String::new() } else { format!(" dev {}", device.name) };
            self.say(d.hint(Some(format!("qdisc add{dev} clsact"))));
        }
        let replaces = c.verb != Verb::Add && handle.is_some();
        if replaces {
            device.filters.retain(|f| !same(f));
        }
        let first = device.filters.iter().filter(|f| f.at == at && f.chain == chain).map(|f| f.prio).min();
        let prio = match (prio, first) {
            // The kernel puts a filter without a priority before all others.
            (0, None) => 49152,
            (0, Some(first)) => first.saturating_sub(1),
            (prio, _) => prio,
        };
        device.filters.push(Filter {
            at,
            chain,
            protocol: c.protocol.as_ref().map_or_else(|| "all".into(), |p| p.text.to_ascii_lowercase()),
            prio,
            kind: kind.text.clone(),
            handle,
            settings: settings(self.source, cmd),
            span: c.span.clone(),
        });
    }
}

fn place_text(parent: Handle) -> String {
    if parent == Handle::ROOT { "the root".into() } else { parent.to_string() }
}
