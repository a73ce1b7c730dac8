//! Groups of traffic: their work.

use std::sync::Arc;

use hdrhistogram::Histogram;
use txweir_core::{Instant, Nanos};

use super::flows::{Flows, Short};
use super::measure::Counters;
use crate::ip::Family;
use crate::quic;
use crate::tcp::{Algorithm, EcnMode, Label, TcpConfig};
use crate::udp::ask::Ask;
use crate::udp::video::Video;

/// Work of a group of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// Bulk, as many bytes as TCP takes.
    #[default]
    Stream,
    /// Requests and responses, in turn.
    Rr {
        /// Bytes of a request.
        request: u64,
        /// Bytes of a response.
        response: u64,
    },
    /// Packets at a constant rate.
    Cbr {
        /// Bytes of a frame.
        len: u32,
        /// Rate of such frames, bit/s.
        rate: u64,
        /// Launch time of a frame, from the time at which it is sent on; zero for frames without.
        launch: Nanos,
    },
    /// Short flows over TCP, each a connection of its own.
    Short(Short),
    /// Calls.
    Voice,
    /// Video.
    Video(Video),
    /// Questions and answers over UDP.
    Ask(Ask),
    /// Bulk over QUIC.
    Quic(quic::Config),
}

impl Load {
    /// Returns its name in scenarios and reports.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Rr { .. } => "rr",
            Self::Cbr { .. } => "cbr",
            Self::Short(_) => "short",
            Self::Voice => "voice",
            Self::Video(_) => "video",
            Self::Ask(Ask { gap: Some(_), .. }) => "dns",
            Self::Ask(_) => "udprr",
            Self::Quic(_) => "quic",
        }
    }
    /// True if packets return from `to` to `from`.
    pub(crate) const fn goes_back(&self) -> bool {
        !matches!(self, Self::Cbr { .. } | Self::Voice | Self::Video(_))
    }
    /// True if its members are pairs of TCP ends that exist from the start.
    pub(super) const fn is_tcp(&self) -> bool {
        matches!(self, Self::Stream | Self::Rr { .. })
    }
}

/// Differences of a group's TCP from that of its hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Congestion control, at both ends.
    pub congestion: Option<Algorithm>,
    /// Mode of congestion marks, at both ends.
    pub ecn: Option<EcnMode>,
}

impl Choice {
    pub(crate) fn of(self, host: &TcpConfig) -> TcpConfig {
        let (congestion, ecn) = (self.congestion.unwrap_or(host.congestion), self.ecn.unwrap_or(host.ecn));
        TcpConfig { congestion, ecn, ..host.clone() }
    }
}

/// A group of like connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name in reports.
    pub name: String,
    /// The host that sends (opens).
    pub from: u32,
    /// The other host.
    pub to: u32,
    /// Its work.
    pub load: Load,
    /// Number of members.
    pub count: u32,
    /// Priority of its packets, both ways.
    pub priority: u32,
    /// DS field of its packets, both ways, without the ECN bits.
    pub ds: u8,
    /// Mark of its packets at the host that sends them, both ways.
    pub mark: u32,
    /// Version of IP of its packets.
    pub family: Family,
    /// Start time.
    pub start: Instant,
    /// Largest random addition to the start time of each connection.
    pub stagger: Nanos,
    /// Its TCP.
    pub choice: Choice,
    /// Start times of short flows after `start`, in order; empty if they begin at random times.
    pub arrivals: Arc<[Nanos]>,
}

impl Group {
    /// Returns the label of the frames of a member in one direction.
    pub(super) const fn label(&self, to: u32, hash: u32) -> Label {
        Label { to, hash, priority: self.priority, ds: self.ds, family: self.family, mark: self.mark }
    }
}

/// A group and its measurements.
#[derive(Debug)]
pub struct GroupState {
    /// The group.
    pub group: Group,
    /// Times of the transactions, or answers, that ended while measuring, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Index of the first end, source or sink that belongs to it, in its own list.
    pub(super) first: u32,
    /// Its counters when measuring began.
    pub(super) before: Counters,
    /// Its short flows.
    pub(super) flows: Option<Box<Flows>>,
}

impl GroupState {
    /// Returns a group whose first member has this index in its list, and nothing measured.
    pub(super) fn new(group: Group, first: u32, flows: Option<Box<Flows>>) -> Self {
        let (latency, before) = (crate::dist::histogram(), Counters::default());
        Self { group, latency, first, before, flows }
    }

    /// Returns the time since which an end of the group sends for itself: units that were sent
    /// before are those of an earlier flow of its place.
    pub(super) fn since(&self, end: u32) -> Instant {
        self.flows.as_ref().map_or(Instant::ZERO, |flows| flows.opened(end & !1))
    }
}
