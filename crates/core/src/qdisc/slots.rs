//! Classes that commands make, in slots, with their parameters: the common part of kinds whose
//! classes are one list (drr, qfq). A slot is the number by which the law of the kind knows a
//! class; that of a deleted class is used again. A packet that names no class is dropped.

use alloc::vec::Vec;

use crate::base::env::Env;
use crate::base::handle::{ClassId, Handle};
use crate::law::minors::Minors;
use crate::packet::meta::Meta;
use crate::packet::route::{Classified, FilterOutcome};
use crate::qdisc::leaf::vacant;
use crate::sched::capability::Classes;
use crate::sched::cx::Cx;
use crate::sched::node::Class;

/// The classes of a qdisc; `C` are the parameters of one.
#[derive(Debug)]
pub(super) struct Slots<C> {
    pub classes: Vec<Class>,
    pub configs: Vec<C>,
    minors: Minors,
    free: Vec<usize>,
}

impl<C> Default for Slots<C> {
    fn default() -> Self {
        Self { classes: Vec::new(), configs: Vec::new(), minors: Minors::default(), free: Vec::new() }
    }
}

impl<C> Slots<C> {
    /// Returns the slot of a minor number.
    pub fn of(&self, minor: u16) -> Option<usize> {
        self.minors.slot(minor)
    }
    /// Returns the slot of the class that a packet names.
    #[inline]
    pub fn named(&self, class: Option<ClassId>) -> Option<usize> {
        self.minors.slot(class?.minor())
    }
    /// True if one class more would make more than so many slots.
    pub fn is_full(&self, most: usize) -> bool {
        self.free.is_empty() && self.classes.len() >= most
    }
    /// Adds a class with a new number; returns its slot, the next one or that of a deleted class.
    pub fn add(&mut self, minor: u16, cfg: C, env: &Env) -> usize {
        let slot = self.free.pop().unwrap_or(self.classes.len());
        if slot == self.classes.len() {
            self.classes.push(vacant(env));
            self.configs.push(cfg);
        } else {
            self.configs[slot] = cfg;
        }
        self.classes[slot].minor = minor;
        self.minors.set(minor, Some(slot));
        slot
    }
    /// Deletes a class and drops its packets; returns its slot.
    pub fn remove(&mut self, minor: u16, env: &Env, cx: &mut Cx) -> Option<usize> {
        let slot = self.minors.slot(minor)?;
        self.classes[slot].node.purge(cx);
        self.classes[slot] = vacant(env);
        self.minors.set(minor, None);
        self.free.push(slot);
        Some(slot)
    }
    /// Returns the parameters of a class.
    pub fn config(&self, minor: u16) -> Option<&C> {
        self.minors.slot(minor).map(|slot| &self.configs[slot])
    }
    /// Iterates over the slots, by minor number.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.minors.iter().map(|(_, slot)| slot)
    }
}

impl<C> Classes for Slots<C> {
    fn classes(&self) -> &[Class] {
        &self.classes
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        &mut self.classes
    }
    fn slot(&self, minor: u16) -> Option<usize> {
        self.minors.slot(minor)
    }
    fn select(&self, _m: &Meta, class: Option<ClassId>) -> Option<&Class> {
        self.classes.get(self.named(class)?)
    }
    fn classify_result(&self, class: Option<ClassId>, _asked: Option<Handle>, own: Handle) -> Classified {
        let here = class.filter(|c| c.major() == own.major() && self.named(Some(*c)).is_some());
        Classified::Final(here.map_or(FilterOutcome::Drop, FilterOutcome::Class))
    }
}
