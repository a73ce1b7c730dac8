//! `Run`: context of filters and actions while a packet is classified.

use crate::base::time::Instant;
use crate::classify::action::{Actions, State};
use crate::classify::packet::Outlet;

/// Context of filters and actions while a packet is classified.
pub struct Run<'a> {
    /// The owner's actions.
    pub actions: &'a Actions,
    /// The reader's state.
    pub state: &'a mut State,
    /// Sink of copies, samples and text.
    pub outlet: &'a mut dyn Outlet,
    /// The present time.
    pub now: Instant,
    /// Number of transmit queues of the packet's port.
    pub queues: u32,
}

impl core::fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Run").field("now", &self.now).field("queues", &self.queues).finish_non_exhaustive()
    }
}
