//! `NetEvent`: the events of a network.

use crate::engine::Payload;

/// Meaning of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetEvent {
    /// The deadline of a connection end has come.
    Timer,
    /// The next packet of a UDP sender is due.
    Source,
    /// A NIC's wire has something to do.
    Wire,
    /// A NIC's qdisc asked to be woken.
    Wake,
    /// The next packet on a NIC's link arrives.
    Arrival,
    /// A packet made late arrives, from this slot.
    Late(u32),
    /// A NIC's rate changes: the number of the step.
    Rate(u32),
    /// The next packet of a replay arrives.
    Replay,
    /// A group's next short flow begins.
    Flow,
    /// A machine wants to run.
    Machine,
}

impl Payload for NetEvent {
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
            Self::Machine => 9,
        }
    }
    fn is_timer(self) -> bool {
        matches!(self, Self::Timer | Self::Source | Self::Flow)
    }
}
