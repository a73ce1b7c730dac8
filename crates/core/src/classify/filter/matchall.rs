//! matchall: matches every packet (tc-matchall(8)). A table has one filter.

use alloc::vec::Vec;

use super::single::Single;
use super::{Bound, Decision, Existence, Filtering, Visit};
use crate::classify::action::Run;
use crate::classify::counters::Counters;
use crate::classify::packet::Packet;
use crate::text::error::ConfigError;

/// Parameters of matchall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matchall {
    /// True if the command asked not to offload to hardware; nothing is ever offloaded.
    pub skip_hw: bool,
}

/// The one filter of a table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    filter: Single<Matchall>,
}

impl Filtering for Table {
    type Rule = Matchall;

    fn put(
        &mut self,
        handle: Option<u32>,
        rule: &Matchall,
        goal: Bound,
        existence: Existence,
        ids: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        self.filter.put("matchall", handle, rule, goal, existence, (ids, 1))
    }

    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        self.filter.delete("matchall", handle)
    }

    fn is_empty(&self) -> bool {
        self.filter.get().is_none()
    }

    fn visit(&self, f: Visit<'_, Matchall>) {
        self.filter.visit(f);
    }

    #[inline]
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        let Some(filter) = self.filter.get() else { return Decision::Next };
        run.state.hit(filter.goal.hits);
        filter.goal.decide(packet, run)
    }
}
