//! The state of each frame of a run, and the output by which runs are compared.

use txweir_core::{Handle, Instant};

use crate::device::Fate;

/// The place of a frame.
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

/// The record of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The key within which frames must leave in order: hash, priority, class, and for a TCP
    /// control segment a number that separates control segments that may overtake each other.
    pub flow: (u32, u32, Handle, Option<u32>),
    /// Number of times that classes had been assigned anew when the frame came.
    pub epoch: u32,
    /// Position in the order of arrival. A piece of a super-packet has the position of the whole
    /// plus its own index.
    pub turn: u64,
    /// Wire bytes.
    pub wire_len: u32,
    /// The place of the frame.
    pub at: Where,
}

/// An event at the output of the path, for the comparison of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Time of the event.
    pub at: Instant,
    /// Number of the frame.
    pub id: u32,
    /// The fate of the frame.
    pub fate: Fate,
    /// Wire bytes, ECN field, marked.
    pub look: (u32, u8, bool),
}
