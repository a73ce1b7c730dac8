//! tcpctl: matches TCP segments that carry control and no data (`Headers::is_tcp_control`): SYN,
//! SYN-ACK, pure ACK. A table has one filter. Linux has no such kind; its u32 and flower can match
//! flags, but not empty segments behind headers of any length.
//!
//! The filter reads the bytes of the packet after the changes of earlier actions, not the mark
//! (`Meta::tcp_control`): where marking is switched off, a policy can still select such segments.
//!
//! Cost: reads headers that are already parsed. Memory: a class and a number for each action.
//!
//! Differs from Linux: `tcpctl-filter`.

use alloc::vec::Vec;

use super::single::Single;
use super::{Bound, Decision, Existence, Filtering, Visit};
use crate::classify::action::Run;
use crate::classify::counters::Counters;
use crate::classify::packet::Packet;
use crate::text::error::ConfigError;

/// Parameters of tcpctl: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcpctl {}

/// The one filter of a table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    filter: Single<Tcpctl>,
}

impl Filtering for Table {
    type Rule = Tcpctl;

    fn put(
        &mut self,
        handle: Option<u32>,
        rule: &Tcpctl,
        goal: Bound,
        existence: Existence,
        ids: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        self.filter.put("tcpctl", handle, rule, goal, existence, (ids, 2))
    }

    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        self.filter.delete("tcpctl", handle)
    }

    fn is_empty(&self) -> bool {
        self.filter.get().is_none()
    }

    fn visit(&self, f: Visit<'_, Tcpctl>) {
        self.filter.visit(f);
    }

    #[inline]
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        let Some(filter) = self.filter.get() else { return Decision::Next };
        run.state.hit(filter.goal.hits);
        if !packet.headers.is_tcp_control() {
            return Decision::Next;
        }
        run.state.hit(filter.goal.hits + 1);
        filter.goal.decide(packet, run)
    }
}
