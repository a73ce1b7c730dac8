//! `What`: the events of a network.

use crate::engine::Payload;

/// What an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A connection end's deadline.
    Timer,
    /// A UDP sender's next packet.
    Source,
    /// Something happens on a NIC's wire.
    Wire,
    /// A NIC's qdisc asked to be woken.
    Wake,
    /// The next packet on a NIC's link arrives.
    Arrival,
    /// A packet made late arrives.
    Late(u32),
    /// A NIC's rate changes: the step of that number.
    Rate(u32),
    /// The next packet of a replay arrives.
    Replay,
    /// A group's next short flow begins.
    Flow,
}

impl Payload for What {
    fn word(self) -> u64 {
        match self {
            Self::Timer => 0,
            Self::Source => 1,
            Self::Wire => 2,
            Self::Wake => 3,
            Self::Arrival => 4,
            Self::Late(slot) => 5 | u64::from(slot) << 8,
            Self::Rate(step) => 6 | u64::from(step) << 8,
            Self::Replay => 7,
            Self::Flow => 8,
        }
    }
}
