//! Filters in the order of their addition, by handle: for kinds that try one after the other.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::chain::{exists, not_found};
use super::{Bound, Existence};
use crate::base::free::FreeNumbers;
use crate::text::error::ConfigError;

/// A filter.
#[derive(Clone, Debug)]
pub(super) struct Entry<R> {
    pub(super) handle: u32,
    pub(super) rule: R,
    pub(super) goal: Bound,
}

/// A list of filters, in order.
#[derive(Clone, Debug)]
pub(super) struct Ordered<R> {
    /// The filters, by a growing number.
    all: BTreeMap<u64, Entry<R>>,
    made: u64,
    /// Number of each handle's filter.
    handles: BTreeMap<u32, u64>,
    free: FreeNumbers,
}

impl<R> Default for Ordered<R> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), made: 0, handles: BTreeMap::new(), free: FreeNumbers::default() }
    }
}

impl<R> Ordered<R> {
    /// Does the work of `Filtering::put`; `make` returns the parameters, from the old ones if there
    /// are any.
    pub(super) fn put(
        &mut self,
        kind: &'static str,
        handle: Option<u32>,
        goal: Bound,
        existence: Existence,
        make: impl FnOnce(Option<&R>) -> Result<R, ConfigError>,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        let handle = handle.filter(|h| *h != 0);
        let there = handle.and_then(|h| self.handles.get(&h));
        match there.and_then(|number| self.all.get_mut(number)) {
            Some(filter) if existence == Existence::Add => Err((exists(kind, filter.handle), goal)),
            Some(filter) => match make(Some(&filter.rule)) {
                Ok(rule) => {
                    filter.rule = rule;
                    Ok((filter.handle, Some(filter.goal.replace(goal))))
                }
                Err(err) => Err((err, goal)),
            },
            None if existence == Existence::Change => Err((not_found(kind, handle.unwrap_or(0)), goal)),
            None => match make(None) {
                Ok(rule) => {
                    let handle = handle.unwrap_or_else(|| self.free.lowest());
                    self.free.take(handle);
                    self.handles.insert(handle, self.made);
                    self.all.insert(self.made, Entry { handle, rule, goal });
                    self.made += 1;
                    Ok((handle, None))
                }
                Err(err) => Err((err, goal)),
            },
        }
    }

    pub(super) fn delete(&mut self, kind: &'static str, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        match self.handles.remove(&handle) {
            Some(number) => {
                self.free.give(handle);
                Ok(self.all.remove(&number).map(|filter| filter.goal).into_iter().collect())
            }
            None => Err(not_found(kind, handle)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn get(&self, handle: u32) -> Option<&Entry<R>> {
        self.all.get(self.handles.get(&handle)?)
    }

    /// Returns all filters, in the order of their addition.
    #[inline]
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry<R>> {
        self.all.values()
    }
}
