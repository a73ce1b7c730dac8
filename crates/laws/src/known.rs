//! What is known of the frames of a run, and what came out of it.

use txweir_core::{Handle, Instant};

use crate::device::Fate;

/// Where a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// Being submitted.
    Offered,
    /// In a qdisc.
    Waiting,
    /// With the device, or done.
    Sent,
    /// Dropped and given back to the device's `discard`.
    Discarded,
    /// Given back to the sender.
    Returned,
}

/// What is known of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its flow, and of a control segment in it what it is to leave in order with. Packets alike in this do.
    pub flow: (u32, u32, Handle, Option<u32>),
    /// How often classes had been assigned anew when it came.
    pub epoch: u32,
    /// Its place in the order of arrival; of a piece, that of the whole and a bit.
    pub turn: u64,
    /// Its wire bytes.
    pub wire_len: u32,
    /// Where it is.
    pub at: Where,
}

/// What came out of the path, to compare runs by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When.
    pub at: Instant,
    /// Which frame.
    pub id: u32,
    /// What happened to it.
    pub fate: Fate,
    /// Wire bytes, ECN field, marked.
    pub look: (u32, u8, bool),
}
