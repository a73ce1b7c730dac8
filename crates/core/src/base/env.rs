//! `Env`, what a qdisc may know of its device, and what that device can do by itself.

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
    /// Its transmit queues, all fed by this tree; at least 1, at most `QueueSet::QUEUES_MAX`.
    pub queues: u16,
    /// The link's rate, if known: what a rate in percent is a part of (`rate 50%`). No default depends on it.
    pub link_rate: Option<Rate>,
    /// Packets that can wait on the path at once, in all qdiscs together: more room than that nobody needs to take.
    pub packets: u32,
    /// What the device's own scheduler can do.
    pub offload: Offload,
    /// Seed of keyed hashes and random draws.
    pub seed: u64,
    /// Has the laws of codel, fq_codel and pie do what Linux does where they leave it (`CodelParams::with_strict_linux`,
    /// `PieParams::strict_linux`): for comparison with Linux only.
    pub strict_linux: bool,
}

impl Env {
    /// The largest frame that is not a super-packet: MTU plus link header.
    pub const fn frame_max(&self) -> u32 {
        self.mtu.saturating_add(self.link_header)
    }
}

impl Default for Env {
    /// Ethernet: MTU 1500, header 14, queue length 1000, one queue.
    fn default() -> Self {
        Self {
            mtu: 1500,
            link_header: 14,
            tx_queue_len: 1000,
            queues: 1,
            link_rate: None,
            packets: 16_384,
            offload: Offload::NONE,
            seed: 0,
            strict_linux: false,
        }
    }
}

/// What a device's scheduler can do by itself: what a control plane may hand over to it, and has to refuse otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Traffic classes that it tells apart; 0 and 1: it knows none.
    pub classes: u8,
    /// It takes the classes of mqprio in mode `dcb` (tc-mqprio(8)).
    pub dcb: bool,
    /// It takes the classes of mqprio in mode `channel`.
    pub channel: bool,
    /// It keeps least and greatest rates of classes: the shaper `bw_rlimit` of mqprio.
    pub bw_rlimit: bool,
    /// It shares the line by weight (IEEE 802.1Q, enhanced transmission selection).
    pub ets: bool,
    /// It keeps a greatest rate of a single queue (`tx_maxrate`).
    pub queue_rate: bool,
    /// It interrupts frames of preemptible classes (IEEE 802.1Qbu, 802.3br).
    pub fp: bool,
}

impl Offload {
    /// Nothing: queues take turns.
    pub const NONE: Self = Self {
        classes: 0,
        dcb: false,
        channel: false,
        bw_rlimit: false,
        ets: false,
        queue_rate: false,
        fp: false,
    };
    /// Everything, with as many classes as mqprio has.
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

/// What a device has and can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Transmit queues.
    pub queues: u16,
    /// What its scheduler can do by itself.
    pub offload: Offload,
}
