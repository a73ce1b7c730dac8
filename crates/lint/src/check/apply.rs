//! The effect of one line on a device, by the kernel's rules.

use std::ops::Range;

use txweir_core::Handle;
use txweir_core::sched::discipline::Filtered;
use txweir_tc::ast::{At, ClassCommand, Command, FilterCommand, Place, QdiscCommand, Verb};

use super::findings::{Findings, nearest};
use super::kinds::Classes;
use super::model::{Attached, Class, Device, Filter, Qdisc, attached, settings};
use super::placed::Wanted;
use crate::code;

/// Kinds whose qdiscs take no changes after their creation.
const UNCHANGING: [&str; 9] = ["htb", "drr", "qfq", "mq", "mqprio", "pfifo_fast", "teql0", "sfq", "etf"];
/// Those of which tc sends options even if a line has none, so that the kernel refuses this line
/// too.
const ALWAYS_OPTIONS: [&str; 2] = ["htb", "etf"];

/// The place that Linux has for both hooks.
const HOOK: Handle = Handle::new(0xffff, 0xfff1);

/// The lines of a device, in order.
pub(super) struct Apply<'a, 's> {
    pub(super) out: &'a mut Findings<'s>,
    pub(super) device: &'a mut Device,
}

impl Apply<'_, '_> {
    /// Applies one line.
    pub(super) fn line(&mut self, cmd: &Command) {
        match cmd {
            Command::Qdisc(c) => self.qdisc(c, cmd),
            Command::Class(c) => self.class(c, cmd),
            Command::Filter(c) => self.filter(c, cmd),
            Command::Chain(_) | Command::Actions(_) => {}
        }
    }

    fn qdisc(&mut self, c: &QdiscCommand, cmd: &Command) {
        let Some(place) = &c.place else { return self.by_handle(c, cmd) };
        let hook = matches!(place.value, Place::Ingress | Place::Clsact) || place.value == Place::Below(HOOK);
        let hook = hook || c.kind.as_ref().is_some_and(|k| k.text == "ingress" || k.text == "clsact");
        if hook {
            return self.hook(c, place.span.clone());
        }
        let parent = match place.value {
            Place::Below(parent) => self.device.named(parent),
            Place::Handle(handle) => match self.device.qdisc(handle) {
                Some(q) => q.parent,
                None => return,
            },
            _ => return,
        };
        let present = self.device.below(parent).map(|q| (q.handle, q.kind.clone(), q.span.clone()));
        match (c.verb, present) {
            (Verb::Delete, Some((handle, ..))) => self.device.remove(handle),
            (Verb::Add, Some((handle, kind, span))) => {
                let at = self.out.line(&span);
                let whom = if parent == Handle::ROOT {
                    self.device.called().into()
                } else {
                    format!("class {parent}")
                };
                let message = format!("{whom} has a qdisc already: {kind} {handle}, from {at}");
                let d = self.out.error(code::EXISTS, &place.span, message);
                let hint = "replace takes its place, del takes it away";
                self.out.say(d.hint(Some(hint.into())));
            }
            (Verb::Add, None) => self.make(c, cmd, parent),
            (Verb::Replace | Verb::Link, None) => self.make(c, cmd, parent),
            (Verb::Change | Verb::Replace | Verb::Link, Some((handle, kind, _))) => {
                self.over(c, cmd, parent, (handle, &kind));
            }
            (Verb::Change, None) if self.device.root().is_some() => {
                let message = format!("there is no qdisc at {}", place_text(parent));
                let d = self.out.error(code::NOT_FOUND, &place.span, message);
                self.out.say(d.hint(Some("change needs an object of an earlier line; add makes one".into())));
            }
            _ => {}
        }
    }

    /// Applies a change that names a qdisc by its handle alone.
    fn by_handle(&mut self, c: &QdiscCommand, cmd: &Command) {
        let Some(handle) = c.handle.as_ref().filter(|_| c.verb == Verb::Change) else { return };
        let Some(q) = self.device.qdisc(handle.value) else { return };
        let (parent, handle, kind) = (q.parent, q.handle, q.kind.clone());
        self.over(c, cmd, parent, (handle, &kind));
    }

    /// Applies a line about ingress or clsact, of which a device has one.
    fn hook(&mut self, c: &QdiscCommand, span: Range<usize>) {
        if c.verb == Verb::Delete {
            self.device.set_hook(None);
        } else if let Some(first) = self.device.hooks.as_ref().filter(|_| c.verb == Verb::Add) {
            let (whom, at) = (self.device.called(), self.out.line(first));
            let message = format!("{whom} has a hook already, from {at}");
            let d = self.out.error(code::EXISTS, &span, message);
            self.out.say(d.hint(Some("a device has one of ingress and clsact; clsact does both".into())));
        } else {
            self.device.set_hook(Some(span));
        }
    }

    /// Checks a line about a qdisc whose place is taken.
    fn over(&mut self, c: &QdiscCommand, cmd: &Command, parent: Handle, (handle, kind): (Handle, &str)) {
        let Some(new) = &c.kind else { return };
        let given = c.handle.as_ref().filter(|h| h.value.major() != 0);
        let other_handle = given.is_some_and(|h| h.value.qdisc() != handle);
        if c.verb == Verb::Replace && other_handle {
            self.replaces(c, handle, kind);
            self.device.remove(handle);
            return self.make(c, cmd, parent);
        }
        if new.text != kind {
            if c.verb != Verb::Replace || given.is_some() {
                let message = format!("{handle} is {kind} and cannot become {}", new.text);
                let d = self.out.error(code::CONFLICT, &new.span, message).expected(kind.to_string());
                let hint = "give another handle: then it takes the place of the old one";
                return self.out.say(d.hint(Some(hint.into())));
            }
            self.replaces(c, handle, kind);
            self.device.remove(handle);
            return self.make(c, cmd, parent);
        }
        let has_options = !c.options.is_empty() || ALWAYS_OPTIONS.contains(&kind);
        if UNCHANGING.contains(&kind) && has_options {
            let message = format!("{kind} cannot be changed once it is there");
            let d = self.out.error(code::CANNOT_CHANGE, &new.span, message);
            let hint = "del it and add it again, or replace it under another handle: its packets are lost";
            return self.out.say(d.hint(Some(hint.into())));
        }
        let settings = settings(self.out.source, cmd);
        // A line about a virtual queue leaves the words of the qdisc.
        if kind != "gred" || settings.has("setup") {
            self.device.set_qdisc(handle, settings);
        }
    }

    fn replaces(&mut self, c: &QdiscCommand, handle: Handle, kind: &str) {
        let classes = self.device.classes_of(handle).count();
        let filters = self.device.filters.find(Device::of_qdisc(handle)).count();
        if classes + filters == 0 {
            return;
        }
        let message =
            format!("this throws {kind} {handle} away with its {classes} classes and {filters} filters");
        let d = self.out.error(code::REPLACES, &c.span, message).warning();
        self.out.say(d.hint(Some("until the lines after it have run, nothing is classified".into())));
    }

    fn make(&mut self, c: &QdiscCommand, cmd: &Command, parent: Handle) {
        let (Some(kind), Some(place)) = (&c.kind, &c.place) else { return };
        let there = parent == Handle::ROOT || self.device.partial || self.device.has_class(parent);
        if !there && !self.known_parent(parent, &place.span, "the qdisc is refused") {
            return;
        }
        let handle = match c.handle.as_ref().filter(|h| h.value.major() != 0) {
            Some(h) => h.value.qdisc(),
            None => self.device.free_handle(),
        };
        if let Some(other) = self.device.qdisc(handle) {
            let at = self.out.line(&other.span);
            let message = format!("handle {handle} is in use: {} of {at}", other.kind);
            let span = c.handle.as_ref().map_or(&c.span, |h| &h.span);
            let free = (1..=0xfff).map(|n| Handle::new(n, 0)).find(|h| self.device.qdisc(*h).is_none());
            let d = self.out.error(code::EXISTS, span, message).suggest(free.map(|h| h.to_string()));
            return self.out.say(d);
        }
        self.device.insert(Qdisc {
            handle,
            parent,
            kind: kind.text.clone(),
            spec: self.out.source.kinds.get(&kind.text),
            settings: settings(self.out.source, cmd),
            span: c.span.clone(),
            kind_span: kind.span.clone(),
            place_span: place.span.clone(),
        });
    }

    /// Reports a missing parent; returns true if the check goes on as if it existed.
    fn known_parent(&mut self, parent: Handle, span: &std::ops::Range<usize>, otherwise: &str) -> bool {
        let Some(qdisc) = self.device.qdisc(parent) else {
            let message = format!("no line makes qdisc {}", parent.qdisc());
            let d = self.out.error(code::DANGLING_PARENT, span, message);
            // A file may add to qdiscs that exist already.
            let partial = self.device.is_empty();
            let d = if partial { d.warning() } else { d };
            let near = nearest(parent.qdisc(), self.device.qdiscs_near(parent));
            let near = near.map(|h| Handle::new(h.major(), parent.minor()).to_string());
            let hint = match near {
                Some(_) => None,
                None => Some(format!("add qdisc {} first, or {otherwise}", parent.qdisc())),
            };
            self.out.say(d.hint(hint).suggest(near.map(|n| self.out.like_written(span, &n))));
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
            Classes::Made => nearest(parent, self.device.near(parent)),
            _ => None,
        };
        let d = self.out.error(code::DANGLING_PARENT, span, message).hint(hint);
        self.out.say(match near {
            Some(near) => {
                let d = d.expected("a class that an earlier line makes");
                d.suggest(Some(self.out.like_written(span, &near.to_string())))
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

    fn class(&mut self, c: &ClassCommand, cmd: &Command) {
        let id = c.classid.as_ref();
        if c.verb == Verb::Delete {
            if let Some(id) = id {
                self.device.remove_class(id.value);
            }
            return;
        }
        let (Some(kind), Some(id)) = (&c.kind, id) else { return };
        // A class without a major number is of the qdisc of its parent.
        let id = &match &c.parent {
            Some(p) if id.value.major() == 0 && p.value != Handle::ROOT => {
                At { value: Handle::new(p.value.major(), id.value.minor()), span: id.span.clone() }
            }
            _ => id.clone(),
        };
        let present = self.device.classes.get(&id.value).map(|class| class.span.clone());
        match (c.verb, present) {
            (Verb::Add, Some(span)) => {
                let message = format!("class {} is there already, from {}", id.value, self.out.line(&span));
                let d = self.out.error(code::EXISTS, &id.span, message);
                return self.out.say(d.hint(Some("change gives it other rates, replace does either".into())));
            }
            (Verb::Change | Verb::Replace, Some(_)) => {
                self.device.set_class(id.value, settings(self.out.source, cmd));
                return;
            }
            (Verb::Change, None) if self.device.qdisc(id.value).is_some_and(Qdisc::needs_filters) => {
                let d =
                    self.out.error(code::NOT_FOUND, &id.span, format!("no line makes class {}", id.value));
                return self
                    .out
                    .say(d.hint(Some("change needs an object of an earlier line; add makes one".into())));
            }
            _ => {}
        }
        let parent = match &c.parent {
            // A parent without a major number is of the class's own qdisc.
            Some(p) if p.value.major() == 0 => {
                At { value: Handle::new(id.value.major(), p.value.minor()), span: p.span.clone() }
            }
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
            let d = self.out.error(code::WRONG_MAJOR, &id.span, message);
            let right = Handle::new(parent.value.major(), id.value.minor()).to_string();
            return self.out.say(d.suggest(Some(self.out.like_written(&id.span, &right))));
        }
        let mut below = parent.value;
        let top = parent.value.minor() == 0;
        if top && self.device.qdisc(below).is_none() || !top && !self.device.has_class(below) {
            let otherwise = match kind.text.as_str() {
                "hfsc" => "the class is refused".to_string(),
                "htb" => format!("tc makes {} a class at the top silently", id.value),
                flat => format!("tc makes {} all the same, as classes of {flat} have no levels", id.value),
            };
            if self.device.partial || self.known_parent(below, &parent.span, &otherwise) {
                return;
            }
            // Linux does so too; later findings are then about the state that Linux would have.
            below = parent.value.qdisc();
        }
        if let Some(q) = self.device.qdisc(id.value).filter(|q| q.kind != kind.text) {
            let message = format!("{} has no {} classes", q.name(), kind.text);
            let d = self.out.error(code::CONFLICT, &kind.span, message).suggest(Some(q.kind.clone()));
            return self.out.say(d);
        }
        self.device.insert_class(
            id.value,
            Class {
                parent: below,
                kind: kind.text.clone(),
                settings: settings(self.out.source, cmd),
                span: c.span.clone(),
                id_span: id.span.clone(),
            },
        );
    }

    /// Reports a filter on a qdisc that asks no filters; returns true if it does so.
    fn asks_none(&mut self, at: Handle, span: &Range<usize>) -> bool {
        let Some(qdisc) = self.device.qdisc(at) else { return false };
        let Some(spec) = qdisc.spec.filter(|spec| spec.filters == Filtered::No) else { return false };
        let message = format!("{} asks no filters: this one is refused", qdisc.name());
        let d = self.out.error(code::NO_FILTERS, span, message);
        let dev =
            if self.device.name.is_empty() { String::new() } else { format!(" dev {}", self.device.name) };
        let egress =
            format!("the queue is chosen before it: qdisc add{dev} clsact, and the filter at egress");
        self.out.say(d.hint(Some(egress).filter(|_| spec.root_only)));
        true
    }

    fn filter(&mut self, c: &FilterCommand, cmd: &Command) {
        let root = self.device.root().map(|q| q.handle);
        let place = c.place.as_ref().map_or(Place::Below(Handle::ROOT), |p| p.value);
        // The filters of a block are at the hooks of those that share it.
        let shared = cmd.is_for_block();
        let at = if shared { Attached::Ingress } else { attached(place, root) };
        let prio = c.prio.as_ref().map_or(0, |p| p.value);
        let chain = c.chain.as_ref().map_or(0, |p| p.value);
        let handle = c.handle.as_ref().map(|h| h.text.clone());
        let wanted = || Wanted {
            chain: Some(chain),
            prio: Some(prio).filter(|prio| *prio != 0),
            handle: handle.clone(),
            ..Wanted::between(at, at)
        };
        let same = |f: &Filter| c.kind.as_ref().is_none_or(|k| k.text == f.kind);
        if c.verb == Verb::Delete {
            if handle.is_some() && !self.device.filters.find(wanted()).any(same) {
                // The handle is one that the kernel chose for a filter without one.
                return self.device.doubt_filters(&Wanted { handle: None, ..wanted() });
            }
            self.device.remove_filters(wanted(), same);
            return;
        }
        let Some(kind) = c.kind.as_ref().filter(|_| !matches!(c.verb, Verb::Get | Verb::Show)) else {
            return;
        };
        if let (Attached::To(to), false) = (at, self.device.partial) {
            let span = c.place.as_ref().map_or(&c.span, |p| &p.span).clone();
            let there = to != Handle::ROOT
                && if to.minor() == 0 { self.device.qdisc(to).is_some() } else { self.device.has_class(to) };
            if !there && to == Handle::ROOT {
                let message = format!("{} has no root qdisc that could have a filter", self.device.called());
                let d = self.out.error(code::DANGLING_PARENT, &span, message).warning();
                return self.out.say(d.hint(Some("add the qdisc first".into())));
            }
            if !there {
                self.known_parent(to, &span, "the filter is refused");
                return;
            }
            if self.asks_none(to, &span) {
                return;
            }
        }
        if matches!(at, Attached::Ingress | Attached::Egress)
            && !shared
            && self.device.hooks.is_none()
            && !self.device.is_empty()
        {
            let span = c.place.as_ref().map_or(&c.span, |p| &p.span).clone();
            let message =
                format!("no line makes the hook of {} that this filter is for", self.device.called());
            let d = self.out.error(code::DANGLING_PARENT, &span, message).warning();
            let dev = if self.device.name.is_empty() {
                String::new()
            } else {
                format!(" dev {}", self.device.name)
            };
            self.out.say(d.hint(Some(format!("qdisc add{dev} clsact"))));
        }
        let replaces = c.verb != Verb::Add && handle.is_some();
        if replaces {
            self.device.remove_filters(wanted(), same);
        }
        let prio = match prio {
            // The kernel puts a filter without a priority before all others.
            0 => self.device.filters.least_prio(at, chain).map_or(49152, |first| first.saturating_sub(1)),
            prio => prio,
        };
        self.device.insert_filter(Filter {
            at,
            chain,
            protocol: c.protocol.as_ref().map_or_else(|| "all".into(), |p| p.text.to_ascii_lowercase()),
            prio,
            kind: kind.text.clone(),
            handle,
            settings: settings(self.out.source, cmd),
            span: c.span.clone(),
            unsure: false,
        });
    }
}

fn place_text(parent: Handle) -> String {
    if parent == Handle::ROOT { "the root".into() } else { parent.to_string() }
}
