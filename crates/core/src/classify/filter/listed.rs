//! Filters in the order of their addition, by handle: for kinds that try one after the other.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::chain::{exists, not_found};
use super::{Bound, Existence};
use crate::base::free::FreeNumbers;
use crate::text::error::ConfigError;

/// A filter.
#[derive(Clone, Debug)]
pub(super) struct One<R> {
    pub(super) handle: u32,
    pub(super) rule: R,
    pub(super) goal: Bound,
}

/// A list of filters, in order.
#[derive(Clone, Debug)]
pub(super) struct List<R> {
    /// The filters, by a growing number.
    all: BTreeMap<u64, One<R>>,
    made: u64,
    /// Number of each handle's filter.
    handles: BTreeMap<u32, u64>,
    free: FreeNumbers,
}

impl<R> Default for List<R> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), made: 0, handles: BTreeMap::new(), free: FreeNumbers::default() }
    }
}

impl<R> List<R> {
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
            Some(one) if existence == Existence::Add => Err((exists(kind, one.handle), goal)),
            Some(one) => match make(Some(&one.rule)) {
                Ok(rule) => {
                    one.rule = rule;
                    Ok((one.handle, Some(one.goal.replace(goal))))
                }
                Err(err) => Err((err, goal)),
            },
            None if existence == Existence::Change => Err((not_found(kind, handle.unwrap_or(0)), goal)),
            None => match make(None) {
                Ok(rule) => {
                    let handle = handle.unwrap_or_else(|| self.free.lowest());
                    self.free.take(handle);
                    self.handles.insert(handle, self.made);
                    self.all.insert(self.made, One { handle, rule, goal });
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
                Ok(self.all.remove(&number).map(|one| one.goal).into_iter().collect())
            }
            None => Err(not_found(kind, handle)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn get(&self, handle: u32) -> Option<&One<R>> {
        self.all.get(self.handles.get(&handle)?)
    }

    /// Returns all filters, in the order of their addition.
    #[inline]
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &One<R>> {
        self.all.values()
    }
}
