//! The counters of a group, since the start and since measuring began.

use hdrhistogram::Histogram;

use super::datagrams::{Receiver, Sender, Sink};
use super::traffic::Traffic;
use super::{Flows, GroupState, Load};
use crate::app::App;
use crate::dist::Dist;
use crate::udp;
use crate::udp::ask::Asked;
use crate::udp::voice::Heard;

/// Packets of UDP senders and their receivers, one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CbrCounts {
    /// Packets made by the senders.
    pub sent: u64,
    /// Packets among them that a full queue of their own host refused.
    pub refused: u64,
    /// Packets received.
    pub received: u64,
    /// Packets missing at the receivers: refused, dropped or lost, and noticed by a later packet
    /// that was received.
    pub lost: u64,
    /// Packets received after a packet sent later.
    pub reordered: u64,
}

/// Counters of the listeners of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VoiceCounts {
    /// Sum over all of them; for the jitter the maximum.
    pub heard: Heard,
}

/// Measurements of the viewers of a group.
#[derive(Clone, Debug, Default)]
pub struct VideoCounts {
    /// Frames made.
    pub frames: u64,
    /// Frames that were complete only after the deadline.
    pub late: u64,
    /// Ages of the complete frames.
    pub ages: Dist,
}

/// Counters of a group since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    /// Bytes that each member has delivered.
    bytes: Vec<u64>,
    /// Counters of its one-way UDP members.
    cbr: CbrCounts,
    /// Bytes that its senders have sent again.
    retransmitted: u64,
    /// Counters of its clients, and frames of its cameras.
    asked: Asked,
    frames: u64,
}

/// The counters of one group.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    traffic: &'a Traffic,
    state: &'a GroupState,
}

impl<'a> Counted<'a> {
    pub(super) const fn new(traffic: &'a Traffic, state: &'a GroupState) -> Self {
        Self { traffic, state }
    }

    /// Returns all counters since the start.
    pub(super) fn counters(self) -> Counters {
        Counters {
            bytes: self.delivered(),
            cbr: self.cbr_total(),
            retransmitted: self.retransmitted_total(),
            asked: self.asked_total(),
            frames: self.frames_total(),
        }
    }

    /// Returns the number of transactions that a group has finished since the start; zero for
    /// groups of other kinds.
    pub fn transactions(&self) -> u64 {
        let GroupState { group: g, first, .. } = self.state;
        match g.load {
            Load::Rr { .. } => (0..g.count)
                .map(|n| match self.traffic.ends[(first + 2 * n) as usize].conn.app() {
                    App::Client(c) => c.done,
                    _ => 0,
                })
                .sum(),
            _ => 0,
        }
    }
    /// Returns the bytes of payload (frames, for UDP) that each member of a group has delivered
    /// since the start. All short flows of a group are one member.
    pub fn delivered(&self) -> Vec<u64> {
        let GroupState { group: g, first, flows, .. } = self.state;
        if let Some(flows) = flows {
            return vec![flows.bytes(&self.traffic.ends).0];
        }
        let pair = |n: u32| (first + 2 * n) as usize;
        (0..g.count)
            .map(|n| match g.load {
                Load::Cbr { .. } | Load::Voice | Load::Video(_) => self.traffic.datagrams.sinks
                    [(first + n) as usize]
                    .receiver
                    .counted()
                    .map_or(0, udp::Sink::bytes),
                Load::Ask(ask) => match &self.traffic.datagrams.sources
                    [self.traffic.datagrams.sinks[pair(n)].source as usize]
                    .sender
                {
                    Sender::Ask(c) => c.counts().answered * u64::from(ask.request + ask.response),
                    _ => 0,
                },
                Load::Quic(_) => self.traffic.quics[pair(n) + 1].conn.read(),
                _ => match self.traffic.ends[pair(n) + 1].conn.app() {
                    App::Sink(s) => s.read,
                    App::Server(s) => s.done * s.request,
                    _ => 0,
                },
            })
            .collect()
    }

    /// Returns the bytes that each member of a group has delivered since measuring began.
    pub fn bytes(&self) -> Vec<u64> {
        let before = &self.state.before.bytes;
        let now = self.delivered();
        now.iter().enumerate().map(|(i, n)| n - before.get(i).copied().unwrap_or(0)).collect()
    }

    /// Returns the receivers of a group of UDP senders, one way; none for other groups.
    fn receivers(&self) -> &[Sink] {
        let GroupState { group: g, first, .. } = self.state;
        match g.load {
            Load::Cbr { .. } | Load::Voice | Load::Video(_) => {
                &self.traffic.datagrams.sinks[*first as usize..(first + g.count) as usize]
            }
            _ => &[],
        }
    }

    /// Returns the counters of a group of UDP senders, one way, since the start; zeros for other
    /// groups.
    fn cbr_total(&self) -> CbrCounts {
        let mut all = CbrCounts::default();
        for sink in self.receivers() {
            let source = &self.traffic.datagrams.sources[sink.source as usize];
            all.sent += source.sender.sent();
            all.refused += source.refused;
            if let Some(sink) = sink.receiver.counted() {
                all.received += sink.received();
                all.lost += sink.lost();
                all.reordered += sink.reordered();
            }
        }
        all
    }

    /// Returns the counters of a group of UDP senders, one way, since measuring began; zeros for
    /// other groups. Packets sent shortly before are received after, and packets on their way at
    /// the end are not received.
    pub fn cbr(&self) -> CbrCounts {
        let (now, before) = (self.cbr_total(), self.state.before.cbr);
        CbrCounts {
            sent: now.sent - before.sent,
            refused: now.refused - before.refused,
            received: now.received - before.received,
            // A packet that was missing may have come late since.
            lost: now.lost.saturating_sub(before.lost),
            reordered: now.reordered - before.reordered,
        }
    }

    /// Returns the one-way delays, in nanoseconds, of the packets that a group of UDP senders, one
    /// way, has received since measuring began, all members together.
    pub fn delays(&self) -> Histogram<u64> {
        let mut all = crate::dist::histogram();
        for sink in self.receivers().iter().filter_map(|s| s.receiver.counted()) {
            // Both histograms have the same bounds.
            let _ = all.add(&sink.delay);
        }
        all
    }

    /// Returns the counters of the listeners of a group since measuring began.
    pub fn voice(&self) -> VoiceCounts {
        let mut heard = Heard::default();
        for sink in self.receivers() {
            if let Receiver::Voice(l) = &sink.receiver {
                let c = l.counts();
                heard.late += c.late;
                heard.behind_sum += c.behind_sum;
                heard.jitter = heard.jitter.max(c.jitter);
            }
        }
        VoiceCounts { heard }
    }

    fn frames_total(&self) -> u64 {
        let sources =
            self.receivers().iter().map(|s| &self.traffic.datagrams.sources[s.source as usize].sender);
        sources.map(|s| if let Sender::Video(c) = s { c.frames() } else { 0 }).sum()
    }

    /// Returns the measurements of the viewers of a group since measuring began.
    pub fn video(&self) -> VideoCounts {
        let frames = self.frames_total() - self.state.before.frames;
        let mut seen = VideoCounts { frames, ..VideoCounts::default() };
        for sink in self.receivers() {
            if let Receiver::Video(v) = &sink.receiver {
                seen.late += v.late();
                seen.ages.join(&v.ages);
            }
        }
        seen
    }

    fn asked_total(&self) -> Asked {
        let GroupState { group: g, first, .. } = self.state;
        let Load::Ask(_) = g.load else { return Asked::default() };
        (0..g.count).fold(Asked::default(), |sum, n| {
            match &self.traffic.datagrams.sources
                [self.traffic.datagrams.sinks[(first + 2 * n) as usize].source as usize]
                .sender
            {
                Sender::Ask(c) => sum.plus(c.counts()),
                _ => sum,
            }
        })
    }

    /// Returns the counters of the clients of a group since measuring began; zeros for other
    /// groups.
    pub fn asked(&self) -> Asked {
        self.asked_total().since(self.state.before.asked)
    }

    /// Returns the short flows of a group, if it has them.
    pub fn short_flows(&self) -> Option<&'a Flows> {
        self.state.flows.as_deref()
    }

    /// Returns the payload bytes sent again by a group, both ways, since the start. QUIC counts the
    /// bytes of lost packets.
    fn retransmitted_total(&self) -> u64 {
        let GroupState { group: g, first, flows, .. } = self.state;
        let both = |n: u32| (first + n) as usize;
        match (g.load, flows) {
            (_, Some(flows)) => flows.bytes(&self.traffic.ends).1,
            (Load::Stream | Load::Rr { .. }, _) => {
                (0..2 * g.count).map(|n| self.traffic.ends[both(n)].conn.stats().retransmitted).sum()
            }
            (Load::Quic(_), _) => {
                (0..2 * g.count).map(|n| self.traffic.quics[both(n)].conn.lost_bytes()).sum()
            }
            _ => 0,
        }
    }

    /// Returns the payload bytes sent again by a group, both ways, since measuring began.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted_total() - self.state.before.retransmitted
    }
}
