//! `Copies`: the copies of all devices of a rehearsal, found by name.

use std::collections::{BTreeMap, BTreeSet};

use super::shadow::Shadow;
use crate::tool::Device;

/// The copies, in the order of their making. A line costs the same, however many there are: what
/// depends on all of them is kept, and renewed for those that a line has had since.
#[derive(Default)]
pub(super) struct Copies {
    all: Vec<Shadow>,
    /// The places of the copies by the names of their devices.
    places: BTreeMap<String, usize>,
    /// The bytes of tables of each copy, as last counted, and their sum.
    tables: (Vec<u64>, u128),
    /// The copies that were lent since their tables were counted.
    uncounted: BTreeSet<usize>,
    /// The copies that may have replaced qdiscs to free.
    unburied: BTreeSet<usize>,
}

impl Copies {
    /// Returns the number of copies.
    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }
    /// Returns all copies.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Shadow> {
        self.all.iter()
    }
    /// Lends all copies, none of which gets other tables or replaced qdiscs.
    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Shadow> {
        self.all.iter_mut()
    }
    /// Adds the copy of a device that has none.
    pub(super) fn push(&mut self, shadow: Shadow) {
        let at = self.all.len();
        self.places.insert(shadow.name.clone(), at);
        self.all.push(shadow);
        self.tables.0.push(0);
        self.uncounted.insert(at);
        self.unburied.insert(at);
    }
    /// True if there is a copy of a device.
    pub(super) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }
    /// Returns the copy of a device.
    pub(super) fn get(&self, name: &str) -> Option<&Shadow> {
        self.places.get(name).and_then(|at| self.all.get(*at))
    }
    /// Lends the copy of a device to be changed.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Shadow> {
        let at = *self.places.get(name)?;
        self.uncounted.insert(at);
        self.unburied.insert(at);
        self.all.get_mut(at)
    }
    /// Returns the bytes of tables of all copies but those of `names`.
    pub(super) fn tables_but(&mut self, names: &[&str]) -> u64 {
        let (each, sum) = &mut self.tables;
        while let Some(at) = self.uncounted.pop_first() {
            let now = self.all[at].tree.tables();
            *sum = *sum - u128::from(each[at]) + u128::from(now);
            each[at] = now;
        }
        let places: BTreeSet<&usize> = names.iter().filter_map(|name| self.places.get(*name)).collect();
        let left = places.into_iter().fold(*sum, |sum, at| sum - u128::from(each[*at]));
        u64::try_from(left).unwrap_or(u64::MAX)
    }
    /// Frees parts of the replaced qdiscs of copies. Returns true if none is left.
    pub(super) fn bury(&mut self) -> bool {
        self.unburied.retain(|at| !self.all[*at].bury());
        self.unburied.is_empty()
    }
    /// Ends the copies and returns them.
    pub(super) fn into_all(self) -> Vec<Shadow> {
        self.all
    }
}
