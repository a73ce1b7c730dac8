//! `Run`: what filters and actions have at hand while a packet is classified.

use crate::base::time::Instant;
use crate::classify::action::{Actions, State};
use crate::classify::packet::Outlet;

/// What filters and actions have at hand while a packet is classified.
pub struct Run<'a> {
    /// The actions that there are.
    pub actions: &'a Actions,
    /// The reader's own.
    pub state: &'a mut State,
    /// Where copies go.
    pub outlet: &'a mut dyn Outlet,
    /// The time.
    pub now: Instant,
    /// Transmit queues of the port that the packet is at.
    pub queues: u32,
}

impl core::fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Run").field("now", &self.now).field("queues", &self.queues).finish_non_exhaustive()
    }
}
