//! basic: conditions, joined by and, or, not (tc-basic(8), [`super::ematch`]).
//!
//! The filter that was added last is tried first, as in Linux. A filter whose actions return
//! `continue` leaves the packet to the next.
//!
//! - Cost: filters are tried until one decides. Memory: the filters, and an index of their handles.

use alloc::vec::Vec;

use super::ematch::Expr;
use super::ordered::Ordered;
use super::{Bound, Decision, Existence, Filtering, Visit};
use crate::classify::action::Run;
use crate::classify::counters::Counters;
use crate::classify::packet::Packet;
use crate::text::error::ConfigError;

/// Parameters of basic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Basic {
    /// Condition for a match; `None` matches every packet.
    pub expr: Option<Expr>,
}

/// The filters of a table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    filters: Ordered<Basic>,
}

impl Filtering for Table {
    type Rule = Basic;

    fn put(
        &mut self,
        handle: Option<u32>,
        rule: &Basic,
        goal: Bound,
        existence: Existence,
        _: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        if let Err(err) = rule.expr.as_ref().map_or(Ok(()), Expr::check) {
            return Err((err, goal));
        }
        self.filters.put("basic", handle, goal, existence, |_| Ok(rule.clone()))
    }

    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        self.filters.delete("basic", handle)
    }

    fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    fn visit(&self, f: Visit<'_, Basic>) {
        self.filters.iter().rev().for_each(|filter| f(filter.handle, &filter.rule, &filter.goal, 0));
    }

    fn visit_made(&self, f: Visit<'_, Basic>) {
        self.filters.iter().for_each(|filter| f(filter.handle, &filter.rule, &filter.goal, 0));
    }

    fn find(&self, handle: u32, f: &mut dyn FnMut(&Basic, &Bound, u32)) {
        if let Some(filter) = self.filters.get(handle) {
            f(&filter.rule, &filter.goal, 0);
        }
    }

    #[inline]
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        for filter in self.filters.iter().rev() {
            if filter.rule.expr.as_ref().is_none_or(|expr| expr.holds(packet, run)) {
                match filter.goal.decide(packet, run) {
                    Decision::Next => {}
                    made => return made,
                }
            }
        }
        Decision::Next
    }
}
