//! matchall: matches every packet (tc-matchall(8)). A table has one filter.

use alloc::vec::Vec;

use super::only::Only;
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
    only: Only<Matchall>,
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
        self.only.put("matchall", handle, rule, goal, existence, (ids, 1))
    }

    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        self.only.delete("matchall", handle)
    }

    fn is_empty(&self) -> bool {
        self.only.get().is_none()
    }

    fn visit(&self, f: Visit<'_, Matchall>) {
        self.only.visit(f);
    }

    #[inline]
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        let Some(only) = self.only.get() else { return Decision::Next };
        run.state.hit(only.goal.hits);
        only.goal.decide(packet, run)
    }
}
