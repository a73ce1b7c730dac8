//! The filters of a device: by their place, and in the order of their lines.

use std::collections::BTreeMap;

use super::model::{Attached, Filter};

/// Place, chain, priority and handle of a filter, and its number in the order of the lines.
type Key = (Attached, u32, u32, Option<String>, usize);

/// Filters. Those of a place, of a chain, of a priority or of a handle are found in a time that
/// does not grow with the number of the others beyond its logarithm.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// The filters, by number.
    all: BTreeMap<usize, Filter>,
    places: BTreeMap<Key, ()>,
    next: usize,
    /// By place, chain and priority, the number below which all without a handle are in doubt.
    doubted: BTreeMap<(Attached, u32, u32), usize>,
}

/// Filters to be found: those of some places, and there of one chain, priority and handle.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) from: Attached,
    pub(super) to: Attached,
    pub(super) chain: Option<u32>,
    pub(super) prio: Option<u32>,
    pub(super) handle: Option<String>,
}

impl Wanted {
    /// Returns all filters from one place to another.
    pub(super) const fn between(from: Attached, to: Attached) -> Self {
        Self { from, to, chain: None, prio: None, handle: None }
    }
}

impl Placed {
    pub(super) fn insert(&mut self, filter: Filter) {
        let key = (filter.at, filter.chain, filter.prio, filter.handle.clone(), self.next);
        self.places.insert(key, ());
        self.all.insert(self.next, filter);
        self.next += 1;
    }
    /// Iterates over the filters in the order of their lines.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Filter> {
        self.all.values()
    }
    /// Iterates over the filters that are wanted, by place, chain, priority and handle.
    pub(super) fn find(&self, wanted: Wanted) -> impl Iterator<Item = &Filter> {
        self.numbers(wanted).into_iter().filter_map(|number| self.all.get(&number))
    }
    /// Removes those of the wanted filters of which `gone` is true.
    pub(super) fn remove(&mut self, wanted: Wanted, gone: impl Fn(&Filter) -> bool) {
        for number in self.numbers(wanted) {
            if let Some(filter) = self.all.get(&number).filter(|filter| gone(filter)) {
                let key = (filter.at, filter.chain, filter.prio, filter.handle.clone(), number);
                self.places.remove(&key);
                self.all.remove(&number);
            }
        }
    }
    /// Notes that the wanted filters that have no handle may be gone.
    pub(super) fn doubt(&mut self, wanted: &Wanted) {
        let (at, chain) = (wanted.from, wanted.chain.unwrap_or(0));
        let numbers = match wanted.prio {
            Some(prio) => {
                let from = self.doubted.insert((at, chain, prio), self.next).unwrap_or(0);
                let places =
                    self.places.range((at, chain, prio, None, from)..=(at, chain, prio, None, usize::MAX));
                places.map(|(key, ())| key.4).collect()
            }
            None => self.numbers(wanted.clone()),
        };
        for number in numbers {
            if let Some(filter) = self.all.get_mut(&number).filter(|filter| filter.handle.is_none()) {
                filter.unsure = true;
            }
        }
    }
    /// Returns the least priority in a chain.
    pub(super) fn least_prio(&self, at: Attached, chain: u32) -> Option<u32> {
        let first = self.places.range((at, chain, 0, None, 0)..=(at, chain, u32::MAX, None, usize::MAX));
        first.map(|((_, _, prio, ..), ())| *prio).next()
    }

    fn numbers(&self, wanted: Wanted) -> Vec<usize> {
        let Wanted { from, to, chain, prio, handle } = wanted;
        let (first, last) = (chain.unwrap_or(0), chain.unwrap_or(u32::MAX));
        let (low, high) = (prio.unwrap_or(0), prio.unwrap_or(u32::MAX));
        let exact = from == to && chain.is_some() && prio.is_some() && handle.is_some();
        let start = (from, first, low, if exact { handle.clone() } else { None }, 0);
        let same = |(key, ()): &(&Key, &())| {
            let (_, in_chain, of_prio, of_handle, _) = key;
            (first..=last).contains(in_chain)
                && (low..=high).contains(of_prio)
                && handle.as_ref().is_none_or(|handle| of_handle.as_ref() == Some(handle))
        };
        let before_end = |(key, ()): &(&Key, &())| {
            let (at, in_chain, of_prio, of_handle, _) = key;
            (*at, *in_chain, *of_prio) <= (to, last, high) && (!exact || *of_handle == handle)
        };
        self.places.range(start..).take_while(before_end).filter(same).map(|(key, ())| key.4).collect()
    }
}
