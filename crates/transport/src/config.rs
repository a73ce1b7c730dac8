//! Configuration of an end.

use std::sync::Arc;

use txweir_core::Nanos;

use crate::rtt::RTO_INITIAL_US;
use crate::tick::Tick;

/// Congestion control of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// NewReno's window (RFC 5681).
    Reno,
    /// RFC 9438 as in Linux, with HyStart.
    #[default]
    Cubic,
    /// RFC 9438 with HyStart++ (RFC 9406) in place of HyStart.
    CubicPlus,
    /// RFC 8257.
    Dctcp,
    /// BBR version 1 as in Linux 6.12.
    Bbr,
    /// BBR version 3 (draft-ietf-ccwg-bbr).
    Bbr3,
    /// Prague (draft-briscoe-iccrg-prague-congestion-control), for queues of L4S.
    Prague,
}

impl Algorithm {
    /// All algorithms, with the names by which commands and files know them.
    pub const ALL: [(&'static str, Self); 7] = [
        ("reno", Self::Reno),
        ("cubic", Self::Cubic),
        ("cubic+", Self::CubicPlus),
        ("dctcp", Self::Dctcp),
        ("bbr", Self::Bbr),
        ("bbr3", Self::Bbr3),
        ("prague", Self::Prague),
    ];

    /// Returns the name of the algorithm.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, a)| *a == self).map_or("?", |(name, _)| name)
    }
    /// Returns the algorithm of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|(_, a)| *a)
    }
}

/// Kind of congestion marks that an end negotiates in place of drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// None.
    #[default]
    Off,
    /// RFC 3168: one echo per round trip.
    Classic,
    /// RFC 9768: the number of marks, in three flags.
    Accurate,
}

/// Way of spreading departures over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// The connection paces if its congestion control asks for it; otherwise departures are not
    /// spread.
    #[default]
    Auto,
    /// The queue below (`fq`) paces, by the departure times that segments carry.
    Queue,
    /// The connection paces, whatever its congestion control.
    Always,
}

/// Way of finding losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detection {
    /// By time, with loss probes (RFC 8985); the window is reduced in proportion (RFC 6937bis).
    #[default]
    RackTlp,
    /// By number: a segment is lost once three segments beyond it have arrived (RFC 6675,
    /// `IsLost`). The window is halved at once. A lost retransmission waits for the timeout.
    DupThresh,
}

/// Policy of acknowledging data in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// As Linux: quick at the start, delayed by the gaps between segments, compressed beyond a
    /// loss.
    #[default]
    Adaptive,
    /// One acknowledgement for this number of full segments, and `Config::ack_delay` after the
    /// first of them at the latest (RFC 1122 section 4.2.3.2: two). Data out of order is
    /// acknowledged at once. 0 counts as 1.
    Every(u8),
}

/// Configuration of an end. The defaults are those of Linux 6.12 on Ethernet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Payload of a full segment without options; 1460 for Ethernet. At least 64.
    pub mss: u16,
    /// True if segments carry time stamps (RFC 7323), which take 12 bytes of each.
    pub stamps: bool,
    /// True if the end offers selective acknowledgements (RFC 2018). Without them no duplicate
    /// acknowledgement shows a loss: the first loss of a window waits for the timeout.
    pub sack: bool,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// Congestion marks (ECN).
    pub ecn: EcnMode,
    /// Pacing of departures.
    pub pacing: Pacing,
    /// Segments of the first window (RFC 6928).
    pub initial_window: u32,
    /// Largest payload of a super-segment, bytes; below two segments there are no super-segments.
    /// More than 65215 counts as 65215: headers take the rest of 64 KiB (`sk_gso_max_size`).
    pub gso_max: u32,
    /// Largest number of segments of a super-segment.
    pub gso_segs: u32,
    /// Largest number of bytes that a sender may have below the socket before small queues stop it.
    pub small_queue_max: u64,
    /// True if a sender waits until the device has sent the bytes below the socket (small queues).
    /// Off where nothing reports this (a device that hands packets to another host at once). A
    /// sender of which `Below::released` reports nothing never counts as limited by its
    /// application, which matters to BBR.
    pub small_queues: bool,
    /// True if super-segments have the size that suits the pacing rate (Linux since 3.12);
    /// otherwise they have the largest size.
    pub size_by_rate: bool,
    /// Largest number of bytes handed over and not acknowledged; with 0 the buffer tunes itself to
    /// the memory of two windows.
    pub send_buffer: u64,
    /// The receive buffer at the start, bytes of memory (`tcp_rmem`, second number). More than 1
    /// GiB counts as 1 GiB.
    pub receive_buffer: u64,
    /// The upper bound of tuning for the receive buffer (`tcp_rmem`, third number); not above 1
    /// GiB.
    pub receive_buffer_max: u64,
    /// Memory that a full segment takes in the receive buffer, bytes. A unit takes the same
    /// overhead beside its payload.
    pub segment_memory: u32,
    /// Number of full segments that share one buffer while they wait for the reader, which then
    /// takes them at once. 1: each segment has its own buffer.
    pub merged: u32,
    /// Policy of acknowledging data in order.
    pub acks: Acks,
    /// Shortest delay of an acknowledgement.
    pub ack_delay: Nanos,
    /// Way of finding losses.
    pub detection: Detection,
    /// True if a sender of super-segments waits a little for room for a larger one.
    pub defers: bool,
    /// Timeout before there is a sample of the round trip, of a SYN as well (RFC 6298 section 2.1).
    pub rto_initial: Nanos,
    /// True if small segments wait for the acknowledgement of the one before (RFC 896). Off by
    /// default, as in programs that measure latency.
    pub nagle: bool,
    /// True if the window starts anew after the sender was silent for a timeout (RFC 2861).
    pub restart_after_idle: bool,
    /// The tick that timers count.
    pub tick: Tick,
    /// Seed of the random numbers of congestion control; the same seed gives the same connection.
    /// Connections with one seed probe in step; `Connection::reseed` gives each its own.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1460,
            stamps: true,
            sack: true,
            algorithm: Algorithm::Cubic,
            ecn: EcnMode::Off,
            pacing: Pacing::Auto,
            initial_window: 10,
            gso_max: 65_536,
            gso_segs: 65_535,
            small_queue_max: 4 << 20,
            small_queues: true,
            size_by_rate: true,
            send_buffer: 0,
            receive_buffer: 131_072,
            receive_buffer_max: 6 << 20,
            segment_memory: 2_280,
            merged: 17,
            acks: Acks::Adaptive,
            ack_delay: Nanos::from_millis(40),
            detection: Detection::RackTlp,
            defers: true,
            rto_initial: Nanos(RTO_INITIAL_US * 1_000),
            nagle: false,
            restart_after_idle: true,
            tick: Tick::default(),
            seed: 0,
        }
    }
}

impl From<&Config> for Arc<Config> {
    fn from(config: &Config) -> Self {
        Self::new(config.clone())
    }
}

/// Bytes that time stamps take of each segment, padding included (RFC 7323 appendix A).
pub(crate) const STAMP_BYTES: u32 = 12;

impl Config {
    /// Returns the configuration of a host of about 2010, BSD among them. The window is NewReno's
    /// (RFC 5681), losses are found by number (RFC 6675), the first window is three segments (RFC
    /// 3390), a SYN is sent again after 3 s (RFC 1122 section 4.2.3.1), and two segments are
    /// acknowledged at a time, or one after 100 ms. Buffers have a fixed size: 32 KiB to send,
    /// 57344 bytes of payload to receive. There are no super-segments, no pacing and no small
    /// queues. The timeout is 200 ms and more beyond a round trip, as in both Linux and DragonFly
    /// BSD.
    pub fn rfc6675() -> Self {
        // From the first segment on, half of the memory counts as payload.
        let receive_buffer = 2 * 57_344;
        Self {
            algorithm: Algorithm::Reno,
            initial_window: 3,
            gso_max: 0,
            small_queues: false,
            size_by_rate: false,
            send_buffer: 32_768,
            receive_buffer,
            receive_buffer_max: receive_buffer,
            segment_memory: 2 * 1_448,
            merged: 1,
            acks: Acks::Every(2),
            ack_delay: Nanos::from_millis(100),
            detection: Detection::DupThresh,
            defers: false,
            rto_initial: Nanos::from_millis(3_000),
            ..Self::default()
        }
    }

    /// Returns the payload of a full segment, options subtracted.
    pub fn segment(&self) -> u32 {
        u32::from(self.mss.max(64)) - if self.stamps { STAMP_BYTES } else { 0 }
    }
}
