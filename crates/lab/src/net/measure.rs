//! Measurements of a net: counts since measuring began, and the sums that check conservation.

use hdrhistogram::Histogram;
use txweir_core::{Instant, Tally};

use super::group::{Receiver, Sender, Sink};
use super::{Flows, GroupState, Load, Net};
use crate::app::{App, Pace};
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

/// Places of all packets since the start, in packets and bytes on the wire. In bytes, `submitted =
/// delivered + dropped + stolen + refused + lost + backlog + in_devices + in_links` holds between
/// any two events, unless actions make packets longer or shorter; in packets only if TSO units are
/// not cut, which count as one before and as many after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets taken by the NICs of the hosts that sent them.
    pub submitted: Tally,
    /// Packets that arrived at their end.
    pub delivered: Tally,
    /// Packets dropped by qdiscs and by filters.
    pub dropped: Tally,
    /// Packets taken away by actions.
    pub stolen: Tally,
    /// Packets refused by full queues on the way, where no sender takes a packet back.
    pub refused: Tally,
    /// Packets lost by links.
    pub lost: Tally,
    /// Packets in qdiscs.
    pub backlog: Tally,
    /// Packets handed to devices and not yet off the wire.
    pub in_devices: Tally,
    /// Packets off the wire and not yet arrived.
    pub in_links: Tally,
}

impl Net {
    /// Returns the groups.
    pub fn groups(&self) -> &[GroupState] {
        &self.groups
    }
    /// Sets the pace of a group's clients, before the run; does nothing to groups of other kinds.
    pub fn set_pace(&mut self, group: usize, pace: Pace) {
        for end in self.ends.iter_mut().filter(|e| e.group as usize == group) {
            end.conn.app_mut().set_pace(pace);
        }
    }
    /// Returns the time at which measuring began.
    pub fn measuring_from(&self) -> Instant {
        self.measuring_from.unwrap_or(Instant::ZERO)
    }

    /// Starts measuring now: earlier events do not count.
    pub fn measure(&mut self) {
        let now = self.engine.now();
        self.measuring_from = Some(now);
        for nic in &mut self.nics {
            nic.restart(now);
        }
        for g in 0..self.groups.len() {
            let (bytes, cbr, again) = (self.delivered(g), self.cbr_total(g), self.retransmitted_total(g));
            let (asked, frames) = (self.asked_total(g), self.frames_total(g));
            let state = &mut self.groups[g];
            (state.bytes_before, state.cbr_before, state.retransmitted_before) = (bytes, cbr, again);
            (state.asked_before, state.frames_before) = (asked, frames);
            state.latency.reset();
            if let Some(flows) = &mut state.flows {
                flows.restart();
            }
        }
        for sink in &mut self.sinks {
            sink.receiver.restart();
        }
        self.watch.iter_mut().flat_map(|w| &mut w.groups).for_each(|g| g.whole.reset());
    }

    /// Returns the number of transactions that a group has finished since the start; zero for
    /// groups of other kinds.
    pub fn transactions(&self, group: usize) -> u64 {
        let GroupState { group: g, first, .. } = &self.groups[group];
        match g.load {
            Load::Rr { .. } => (0..g.count)
                .map(|n| match self.ends[(first + 2 * n) as usize].conn.app() {
                    App::Client(c) => c.done,
                    _ => 0,
                })
                .sum(),
            _ => 0,
        }
    }
    /// Returns the bytes of payload (frames, for UDP) that each member of a group has delivered
    /// since the start. All short flows of a group are one member.
    pub fn delivered(&self, group: usize) -> Vec<u64> {
        let GroupState { group: g, first, flows, .. } = &self.groups[group];
        if let Some(flows) = flows {
            return vec![self.flow_bytes(flows).0];
        }
        let pair = |n: u32| (first + 2 * n) as usize;
        (0..g.count)
            .map(|n| match g.load {
                Load::Cbr { .. } | Load::Voice | Load::Video(_) => {
                    self.sinks[(first + n) as usize].receiver.counted().map_or(0, udp::Sink::bytes)
                }
                Load::Ask(ask) => match &self.sources[self.sinks[pair(n)].source as usize].sender {
                    Sender::Ask(c) => c.counts().answered * u64::from(ask.request + ask.response),
                    _ => 0,
                },
                Load::Quic(_) => self.quics[pair(n) + 1].conn.read(),
                _ => match self.ends[pair(n) + 1].conn.app() {
                    App::Sink(s) => s.read,
                    App::Server(s) => s.done * s.request,
                    _ => 0,
                },
            })
            .collect()
    }

    /// Returns the bytes that each member of a group has delivered since measuring began.
    pub fn bytes(&self, group: usize) -> Vec<u64> {
        let before = &self.groups[group].bytes_before;
        let now = self.delivered(group);
        now.iter().enumerate().map(|(i, n)| n - before.get(i).copied().unwrap_or(0)).collect()
    }

    /// Returns the receivers of a group of UDP senders, one way; none for other groups.
    fn sinks_of(&self, group: usize) -> &[Sink] {
        let GroupState { group: g, first, .. } = &self.groups[group];
        match g.load {
            Load::Cbr { .. } | Load::Voice | Load::Video(_) => {
                &self.sinks[*first as usize..(first + g.count) as usize]
            }
            _ => &[],
        }
    }

    /// Returns the counters of a group of UDP senders, one way, since the start; zeros for other
    /// groups.
    fn cbr_total(&self, group: usize) -> CbrCounts {
        let mut all = CbrCounts::default();
        for sink in self.sinks_of(group) {
            let source = &self.sources[sink.source as usize];
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
    pub fn cbr(&self, group: usize) -> CbrCounts {
        let (now, before) = (self.cbr_total(group), self.groups[group].cbr_before);
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
    pub fn delays(&self, group: usize) -> Histogram<u64> {
        let mut all = crate::dist::histogram();
        for sink in self.sinks_of(group).iter().filter_map(|s| s.receiver.counted()) {
            // Both histograms have the same bounds.
            let _ = all.add(&sink.delay);
        }
        all
    }

    /// Returns the counters of the listeners of a group since measuring began.
    pub fn voice(&self, group: usize) -> VoiceCounts {
        let mut heard = Heard::default();
        for sink in self.sinks_of(group) {
            if let Receiver::Voice(l) = &sink.receiver {
                let c = l.counts();
                heard.late += c.late;
                heard.behind_sum += c.behind_sum;
                heard.jitter = heard.jitter.max(c.jitter);
            }
        }
        VoiceCounts { heard }
    }

    fn frames_total(&self, group: usize) -> u64 {
        let sources = self.sinks_of(group).iter().map(|s| &self.sources[s.source as usize].sender);
        sources.map(|s| if let Sender::Video(c) = s { c.frames() } else { 0 }).sum()
    }

    /// Returns the measurements of the viewers of a group since measuring began.
    pub fn video(&self, group: usize) -> VideoCounts {
        let frames = self.frames_total(group) - self.groups[group].frames_before;
        let mut seen = VideoCounts { frames, ..VideoCounts::default() };
        for sink in self.sinks_of(group) {
            if let Receiver::Video(v) = &sink.receiver {
                seen.late += v.late();
                seen.ages.join(&v.ages);
            }
        }
        seen
    }

    fn asked_total(&self, group: usize) -> Asked {
        let GroupState { group: g, first, .. } = &self.groups[group];
        let Load::Ask(_) = g.load else { return Asked::default() };
        (0..g.count).fold(Asked::default(), |sum, n| {
            match &self.sources[self.sinks[(first + 2 * n) as usize].source as usize].sender {
                Sender::Ask(c) => sum.plus(c.counts()),
                _ => sum,
            }
        })
    }

    /// Returns the counters of the clients of a group since measuring began; zeros for other
    /// groups.
    pub fn asked(&self, group: usize) -> Asked {
        self.asked_total(group).since(self.groups[group].asked_before)
    }

    /// Returns the short flows of a group, if it has them.
    pub fn short_flows(&self, group: usize) -> Option<&Flows> {
        self.groups[group].flows.as_deref()
    }

    /// Returns the payload bytes sent again by a group, both ways, since the start. QUIC counts the
    /// bytes of lost packets.
    fn retransmitted_total(&self, group: usize) -> u64 {
        let GroupState { group: g, first, flows, .. } = &self.groups[group];
        let both = |n: u32| (first + n) as usize;
        match (g.load, flows) {
            (_, Some(flows)) => self.flow_bytes(flows).1,
            (Load::Stream | Load::Rr { .. }, _) => {
                (0..2 * g.count).map(|n| self.ends[both(n)].conn.stats().retransmitted).sum()
            }
            (Load::Quic(_), _) => (0..2 * g.count).map(|n| self.quics[both(n)].conn.lost_bytes()).sum(),
            _ => 0,
        }
    }

    /// Returns the payload bytes sent again by a group, both ways, since measuring began.
    pub fn retransmitted(&self, group: usize) -> u64 {
        self.retransmitted_total(group) - self.groups[group].retransmitted_before
    }

    /// Returns the place of every packet.
    pub fn totals(&self) -> Totals {
        let mut t = Totals { delivered: self.delivered, refused: self.refused, ..Totals::default() };
        let mut taken = Tally::default();
        for nic in &self.nics {
            let c = nic.counts();
            for (sum, part) in [
                (&mut taken, c.taken),
                (&mut t.dropped, c.dropped.plus(c.turned_away)),
                (&mut t.stolen, c.stolen),
                (&mut t.lost, c.link.lost),
                (&mut t.backlog, nic.port().backlog()),
                (&mut t.in_devices, c.tx.since(c.departed)),
                (&mut t.in_links, nic.link().in_flight()),
            ] {
                sum.packets += part.packets;
                sum.bytes += part.bytes;
            }
        }
        t.submitted = taken.since(self.forwarded);
        t
    }
}
