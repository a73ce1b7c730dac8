//! `Env`, the properties of a device that a qdisc may know, and the abilities of the device itself.

use crate::base::units::Rate;

/// The device that a tree of qdiscs sits on, as far as defaults depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Env {
    /// Largest network-layer packet, bytes.
    pub mtu: u32,
    /// Link-layer header, bytes (14 for Ethernet).
    pub link_header: u32,
    /// The device's transmit queue length, packets: the default limit of the FIFO kinds.
    pub tx_queue_len: u32,
    /// Number of transmit queues, all fed by this tree; at least 1, at most `QueueSet::QUEUES_MAX`.
    pub queues: u16,
    /// The link's rate, if known: the base of a rate in percent (`rate 50%`). No default depends on
    /// it.
    pub link_rate: Option<Rate>,
    /// Largest number of packets that can wait on the path at once, in all qdiscs together: no
    /// qdisc needs more room.
    pub packets: u32,
    /// Most bytes of tables that the qdiscs on the device may have together, without packets and
    /// filters: what commands ask for is bounded by it before anything is made.
    pub memory: u64,
    /// Most bytes of tables that other devices leave to this one, where several devices have a
    /// budget together; `u64::MAX` without one.
    pub room: u64,
    /// Abilities of the device's own scheduler.
    pub offload: Offload,
    /// True if a qdisc takes its tables of flows with the first packet that needs them, and not
    /// when it is made: an idle one is small then, and a first packet allocates. The packets that
    /// wait and leave do not depend on it.
    pub lazy: bool,
    /// Seed of keyed hashes and random draws.
    pub seed: u64,
    /// True if the laws of codel, fq_codel, fq_pie and pie follow Linux where it deviates from
    /// their RFCs (`CodelParams::with_strict_linux`, `PieParams::strict_linux`), cake where it does
    /// not find its longest queue, and fq to the end of its timer's slack: for comparison with
    /// Linux only.
    pub strict_linux: bool,
}

impl Env {
    /// The default of `memory`: 256 MiB, or 3500 times fq_codel as it is made without options.
    pub const MEMORY: u64 = 256 << 20;

    /// Returns the largest frame that is not a super-packet: MTU plus link header.
    pub const fn frame_max(&self) -> u32 {
        self.mtu.saturating_add(self.link_header)
    }
}

impl Default for Env {
    /// Returns Ethernet: MTU 1500, header 14, queue length 1000, one queue.
    fn default() -> Self {
        Self {
            mtu: 1500,
            link_header: 14,
            tx_queue_len: 1000,
            queues: 1,
            link_rate: None,
            packets: 16_384,
            memory: Self::MEMORY,
            room: u64::MAX,
            offload: Offload::NONE,
            lazy: false,
            seed: 0,
            strict_linux: false,
        }
    }
}

/// Abilities of a device's scheduler: a control plane may hand these tasks over to it, and must
/// refuse others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Number of traffic classes; 0 and 1 mean none.
    pub classes: u8,
    /// True if it takes the classes of mqprio in mode `dcb` (tc-mqprio(8)).
    pub dcb: bool,
    /// True if it takes the classes of mqprio in mode `channel`.
    pub channel: bool,
    /// True if it keeps minimum and maximum rates of classes: the shaper `bw_rlimit` of mqprio.
    pub bw_rlimit: bool,
    /// True if it shares the line by weight (IEEE 802.1Q, enhanced transmission selection).
    pub ets: bool,
    /// True if it keeps a maximum rate of a single queue (`tx_maxrate`).
    pub queue_rate: bool,
    /// True if it interrupts frames of preemptible classes (IEEE 802.1Qbu, 802.3br).
    pub fp: bool,
}

impl Offload {
    /// No abilities: queues take turns.
    pub const NONE: Self = Self {
        classes: 0,
        dcb: false,
        channel: false,
        bw_rlimit: false,
        ets: false,
        queue_rate: false,
        fp: false,
    };
    /// All abilities, with as many classes as mqprio has.
    pub const ALL: Self = Self {
        classes: 16,
        dcb: true,
        channel: true,
        bw_rlimit: true,
        ets: true,
        queue_rate: true,
        fp: true,
    };
}

/// Resources and abilities of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Number of transmit queues.
    pub queues: u16,
    /// Abilities of its scheduler.
    pub offload: Offload,
}
