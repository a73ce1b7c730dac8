//! A table with at most one filter, for kinds that have no more.

use alloc::vec;
use alloc::vec::Vec;

use super::chain::{exists, not_found};
use super::{Bound, Existence, Visit};
use crate::classify::counters::Counters;
use crate::text::error::ConfigError;

/// At most one filter.
#[derive(Clone, Debug)]
pub(super) struct Single<R>(Option<Entry<R>>);

/// The filter.
#[derive(Clone, Debug)]
pub(super) struct Entry<R> {
    handle: u32,
    rule: R,
    /// The goal; its counters are the table's.
    pub(super) goal: Bound,
}

impl<R> Default for Single<R> {
    fn default() -> Self {
        Self(None)
    }
}

impl<R: Copy> Single<R> {
    /// Does the work of `Filtering::put`, with `counters` counters for the filter.
    pub(super) fn put(
        &mut self,
        kind: &'static str,
        handle: Option<u32>,
        rule: &R,
        goal: Bound,
        existence: Existence,
        (ids, counters): (&mut Counters, u16),
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        match &mut self.0 {
            Some(there) if existence == Existence::Add || handle.is_some_and(|h| h != there.handle) => {
                Err((exists(kind, there.handle), goal))
            }
            Some(there) => {
                there.rule = *rule;
                Ok((there.handle, Some(there.goal.replace(goal))))
            }
            None if existence == Existence::Change => Err((not_found(kind, handle.unwrap_or(1)), goal)),
            None => {
                let handle = handle.filter(|h| *h != 0).unwrap_or(1);
                let goal = Bound { hits: ids.take(counters), ..goal };
                self.0 = Some(Entry { handle, rule: *rule, goal });
                Ok((handle, None))
            }
        }
    }

    /// Does the work of `Filtering::delete`.
    pub(super) fn delete(&mut self, kind: &'static str, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        match self.0.take_if(|filter| filter.handle == handle) {
            Some(filter) => Ok(vec![filter.goal]),
            None => Err(not_found(kind, handle)),
        }
    }

    /// Returns the filter.
    #[inline]
    pub(super) const fn get(&self) -> Option<&Entry<R>> {
        self.0.as_ref()
    }

    /// Does the work of `Filtering::visit`.
    pub(super) fn visit(&self, f: Visit<'_, R>) {
        if let Some(filter) = &self.0 {
            f(filter.handle, &filter.rule, &filter.goal, filter.goal.hits);
        }
    }
}
