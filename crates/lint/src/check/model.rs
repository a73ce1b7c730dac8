//! The qdiscs, classes and filters of one device, as lines make them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use txweir_core::Handle;
use txweir_core::sched::spec::{ClassShape, Spec};
use txweir_tc::ast::{Command, Place};
use txweir_tc::language::{Object, Settings};
use txweir_tc::lex::Word;
use txweir_tc::source::Source;

use super::kinds::{self, Classes};
use super::placed::{Placed, Wanted};

/// Most objects below a number, and most from it on, among which a similar name is looked for.
const NEAR: usize = 100;

/// A device: the state that its lines have made, from an empty one.
#[derive(Debug)]
pub(super) struct Device {
    /// Its name, behind its network namespace and a slash if one was given; empty if no line names
    /// it.
    pub name: String,
    /// The qdiscs by the major of their handles.
    qdiscs: BTreeMap<u16, Qdisc>,
    /// The majors of the qdiscs by their places.
    placed: BTreeMap<Handle, u16>,
    pub classes: BTreeMap<Handle, Class>,
    /// The classes directly below a class, or at the top of a qdisc.
    children: BTreeMap<Handle, BTreeSet<Handle>>,
    pub filters: Placed,
    /// The line that added a hook, ingress or clsact.
    pub hooks: Option<Range<usize>>,
    /// True if lines are missing, so that a missing object may exist.
    pub partial: bool,
    /// True while a line is followed that the engine refuses: it changes nothing.
    pub held: bool,
    /// The next handle that the kernel gives if a line names none.
    next: u16,
}

#[derive(Debug)]
pub(super) struct Qdisc {
    pub handle: Handle,
    /// `ROOT` or a class.
    pub parent: Handle,
    pub kind: String,
    /// The entry of the kind, if the engine has it.
    pub spec: Option<&'static Spec>,
    pub settings: Settings,
    pub span: Range<usize>,
    pub kind_span: Range<usize>,
    /// Span that names its place.
    pub place_span: Range<usize>,
}

#[derive(Debug)]
pub(super) struct Class {
    pub parent: Handle,
    pub kind: String,
    pub settings: Settings,
    pub span: Range<usize>,
    /// Span that names it.
    pub id_span: Range<usize>,
}

#[derive(Debug)]
pub(super) struct Filter {
    pub at: Attached,
    pub chain: u32,
    pub protocol: String,
    pub prio: u32,
    pub kind: String,
    pub handle: Option<String>,
    pub settings: Settings,
    pub span: Range<usize>,
    /// True if a line may have removed it: it named a handle that the kernel chose.
    pub unsure: bool,
}

/// The place of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Attached {
    /// A qdisc, or a class.
    To(Handle),
    Ingress,
    Egress,
}

impl Device {
    pub(super) fn new(name: String, partial: bool) -> Self {
        Self {
            name,
            qdiscs: BTreeMap::new(),
            placed: BTreeMap::new(),
            classes: BTreeMap::new(),
            children: BTreeMap::new(),
            filters: Placed::default(),
            hooks: None,
            partial,
            held: false,
            next: 0x8001,
        }
    }

    /// Returns a name for messages: its own, or "the device".
    pub(super) fn called(&self) -> &str {
        if self.name.is_empty() { "the device" } else { &self.name }
    }

    /// Returns a handle as the kernel gives it: from 8001: on, the next that no qdisc has.
    pub(super) fn free_handle(&mut self) -> Handle {
        loop {
            let handle = Handle::new(self.next, 0);
            self.next = self.next.wrapping_add(1).max(0x8001);
            // There are fewer qdiscs than numbers: a device has at most as many as lines.
            if self.qdisc(handle).is_none() || self.qdiscs.len() > 0x7ffe {
                return handle;
            }
        }
    }

    pub(super) fn qdisc(&self, handle: Handle) -> Option<&Qdisc> {
        self.qdiscs.get(&handle.major())
    }
    /// Gives a qdisc other settings.
    pub(super) fn set_qdisc(&mut self, handle: Handle, settings: Settings) {
        if let Some(qdisc) = self.qdiscs.get_mut(&handle.major()).filter(|_| !self.held) {
            qdisc.settings = settings;
        }
    }
    /// Gives a class other settings.
    pub(super) fn set_class(&mut self, id: Handle, settings: Settings) {
        if let Some(class) = self.classes.get_mut(&id).filter(|_| !self.held) {
            class.settings = settings;
        }
    }
    /// Sets the line that made the hook; without one the filters of hooks go too.
    pub(super) fn set_hook(&mut self, span: Option<Range<usize>>) {
        if self.held {
            return;
        }
        if span.is_none() {
            self.filters.remove(Wanted::between(Attached::Ingress, Attached::Egress), |_| true);
        }
        self.hooks = span;
    }
    /// Removes those of the wanted filters of which `gone` is true.
    pub(super) fn remove_filters(&mut self, wanted: Wanted, gone: impl Fn(&Filter) -> bool) {
        if !self.held {
            self.filters.remove(wanted, gone);
        }
    }
    /// Notes that the wanted filters that have no handle may be gone.
    pub(super) fn doubt_filters(&mut self, wanted: &Wanted) {
        if !self.held {
            self.filters.doubt(wanted);
        }
    }
    pub(super) fn insert_filter(&mut self, filter: Filter) {
        if !self.held {
            self.filters.insert(filter);
        }
    }
    /// Returns the qdiscs in the order of their lines.
    pub(super) fn qdiscs(&self) -> Vec<&Qdisc> {
        let mut all: Vec<&Qdisc> = self.qdiscs.values().collect();
        all.sort_by_key(|q| q.span.start);
        all
    }
    pub(super) fn is_empty(&self) -> bool {
        self.qdiscs.is_empty()
    }
    pub(super) fn below(&self, parent: Handle) -> Option<&Qdisc> {
        self.qdiscs.get(self.placed.get(&parent)?)
    }
    pub(super) fn root(&self) -> Option<&Qdisc> {
        self.below(Handle::ROOT)
    }
    pub(super) fn insert(&mut self, qdisc: Qdisc) {
        if self.held {
            return;
        }
        self.placed.insert(qdisc.parent, qdisc.handle.major());
        self.qdiscs.insert(qdisc.handle.major(), qdisc);
    }
    pub(super) fn insert_class(&mut self, id: Handle, class: Class) {
        if self.held {
            return;
        }
        self.children.entry(class.parent).or_default().insert(id);
        self.classes.insert(id, class);
    }
    /// Returns the classes directly below a class, or at the top of a qdisc.
    pub(super) fn children(&self, parent: Handle) -> impl Iterator<Item = (&Handle, &Class)> {
        let below = self.children.get(&parent).into_iter().flatten();
        below.filter_map(|id| Some((id, self.classes.get(id)?)))
    }
    /// Returns classes whose numbers are near a handle's: all of them, if they are few.
    pub(super) fn near(&self, handle: Handle) -> impl Iterator<Item = Handle> {
        let mut below: Vec<Handle> =
            self.classes.range(..handle).rev().take(NEAR).map(|(id, _)| *id).collect();
        below.reverse();
        below.into_iter().chain(self.classes.range(handle..).take(NEAR).map(|(id, _)| *id))
    }
    /// Returns qdiscs whose numbers are near a handle's: all of them, if they are few.
    pub(super) fn qdiscs_near(&self, handle: Handle) -> impl Iterator<Item = Handle> {
        let below = self.qdiscs.range(..handle.major()).rev().take(NEAR);
        below.chain(self.qdiscs.range(handle.major()..).take(NEAR)).map(|(_, q)| q.handle)
    }
    pub(super) fn is_leaf(&self, class: Handle) -> bool {
        self.children.get(&class).is_none_or(BTreeSet::is_empty)
    }
    /// Returns the classes of a qdisc that lines made.
    pub(super) fn classes_of(&self, qdisc: Handle) -> impl Iterator<Item = (&Handle, &Class)> {
        let (first, last) = (Handle::new(qdisc.major(), 0), Handle::new(qdisc.major(), u16::MAX));
        self.classes.range(first..=last)
    }

    /// Returns the place that a handle names: any number, 0 too, names the class of a kind that
    /// has only one.
    pub(super) fn named(&self, place: Handle) -> Handle {
        let spec = self.qdisc(place).and_then(|q| q.spec);
        match spec.is_some_and(|s| s.shape == ClassShape::One) && place != Handle::ROOT {
            true => Handle::new(place.major(), 1),
            false => place,
        }
    }

    /// True if a class exists, as far as that can be known.
    pub(super) fn has_class(&self, class: Handle) -> bool {
        let Some(qdisc) = self.qdisc(class) else { return false };
        match qdisc.classes() {
            Classes::None => false,
            Classes::Made => self.classes.contains_key(&class),
            Classes::Upto(most) => (1..=most).contains(&u64::from(class.minor())),
            Classes::Any => class.minor() > 0,
        }
    }

    /// Removes a qdisc, with all qdiscs, classes and filters below it.
    pub(super) fn remove(&mut self, handle: Handle) {
        if self.held {
            return;
        }
        let mut gone = vec![handle.major()];
        let mut at = 0;
        // A qdisc is taken out of the map before those below it are added, so that the list ends.
        while let Some(major) = gone.get(at).copied() {
            at += 1;
            let Some(qdisc) = self.qdiscs.remove(&major) else { continue };
            self.placed.remove(&qdisc.parent);
            let (first, last) = (Handle::new(major, 0), Handle::new(major, u16::MAX));
            // The root's place is the greatest of all handles, and below no qdisc.
            let below = self.placed.range(first..=last).filter(|(place, _)| **place != Handle::ROOT);
            gone.extend(below.map(|(_, major)| *major));
        }
        for major in gone {
            let (first, last) = (Handle::new(major, 0), Handle::new(major, u16::MAX));
            let classes: Vec<Handle> = self.classes.range(first..=last).map(|(id, _)| *id).collect();
            classes.iter().for_each(|id| drop(self.classes.remove(id)));
            let parents: Vec<Handle> = self.children.range(first..=last).map(|(id, _)| *id).collect();
            parents.iter().for_each(|id| drop(self.children.remove(id)));
            self.filters.remove(Self::of_qdisc(first), |_| true);
        }
    }

    /// Returns the filters of a qdisc and its classes.
    pub(super) const fn of_qdisc(handle: Handle) -> Wanted {
        let (first, last) = (Handle::new(handle.major(), 0), Handle::new(handle.major(), u16::MAX));
        Wanted::between(Attached::To(first), Attached::To(last))
    }

    /// Removes a class, with the filters on it and the qdiscs below it.
    pub(super) fn remove_class(&mut self, class: Handle) {
        if self.held {
            return;
        }
        if let Some(gone) = self.classes.remove(&class)
            && let Some(siblings) = self.children.get_mut(&gone.parent)
        {
            siblings.remove(&class);
        }
        if let Some(below) = self.below(class).map(|q| q.handle) {
            self.remove(below);
        }
        self.filters.remove(Wanted::between(Attached::To(class), Attached::To(class)), |_| true);
    }
}

impl Qdisc {
    /// Returns the classes that it has.
    pub(super) fn classes(&self) -> Classes {
        kinds::classes(&self.kind, self.spec, &self.settings)
    }
    /// True if only filters lead packets to its classes, so that a class without one gets none.
    pub(super) fn needs_filters(&self) -> bool {
        self.classes() == Classes::Made
    }
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.kind, self.handle)
    }
}

/// Returns the settings in the words after the kind of a line.
pub(super) fn settings(source: &Arc<Source>, cmd: &Command) -> Settings {
    let (object, kind, words): (Object, Option<&Word>, &[Word]) = match cmd {
        Command::Qdisc(c) => (Object::Qdisc, c.kind.as_ref(), &c.options),
        Command::Class(c) => (Object::Class, c.kind.as_ref(), &c.options),
        Command::Filter(c) => (Object::Filter, c.kind.as_ref(), &c.options),
        Command::Chain(_) | Command::Actions(_) => return Settings::default(),
    };
    kind.map_or_else(Settings::default, |k| Settings::of(object, &k.text, source, words))
}

/// Returns the place that a filter is attached to.
pub(super) const fn attached(place: Place, root: Option<Handle>) -> Attached {
    match place {
        // `parent 0:` is the root as well, whatever its handle.
        Place::Below(Handle::ROOT | Handle::NONE) => match root {
            Some(root) => Attached::To(root),
            None => Attached::To(Handle::ROOT),
        },
        Place::Below(handle) | Place::Handle(handle) => match handle.major() {
            // ffff: is the ingress qdisc; its minors are the hooks of clsact.
            0xffff if handle.minor() == 0xfff3 => Attached::Egress,
            0xffff => Attached::Ingress,
            _ => Attached::To(handle),
        },
        Place::Ingress | Place::Clsact => Attached::Ingress,
        Place::Egress => Attached::Egress,
    }
}
