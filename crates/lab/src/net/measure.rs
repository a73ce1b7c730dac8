//! What a net has measured: counts since measuring began, and the sums that conservation is checked with.

use hdrhistogram::Histogram;
use txweir_core::{Instant, Tally};

use super::{GroupState, Load, Net};
use crate::app::{App, Pace};
use crate::udp;

/// Packets of constant-rate senders and their receivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CbrCounts {
    /// Made by the senders.
    pub sent: u64,
    /// Of those, refused by a full queue of their own host.
    pub refused: u64,
    /// Received.
    pub received: u64,
    /// Missing at the receivers: refused, dropped or lost, and noticed by a later one that was received.
    pub lost: u64,
    /// Received after one sent later.
    pub reordered: u64,
}

/// Where every packet since the start is, in packets and bytes on the wire. In bytes,
/// `submitted = delivered + dropped + stolen + refused + lost + backlog + in_devices + in_links` holds between any two events,
/// unless actions make packets longer or shorter; in packets only if nothing cuts TSO units, which count as one before and
/// as many after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Taken by the NICs of the hosts that sent them.
    pub submitted: Tally,
    /// Arrived at their end.
    pub delivered: Tally,
    /// Dropped by qdiscs and by filters.
    pub dropped: Tally,
    /// Taken away by actions.
    pub stolen: Tally,
    /// Refused by full queues on the way, where nobody takes a packet back.
    pub refused: Tally,
    /// Lost by links.
    pub lost: Tally,
    /// In qdiscs.
    pub backlog: Tally,
    /// Handed to devices and not yet off the wire.
    pub in_devices: Tally,
    /// Off the wire and not yet arrived.
    pub in_links: Tally,
}

impl Net {
    /// The groups.
    pub fn groups(&self) -> &[GroupState] {
        &self.groups
    }
    /// Sets the pace of a group's clients, before the run; nothing to groups of other kinds.
    pub fn set_pace(&mut self, group: usize, pace: Pace) {
        for end in self.ends.iter_mut().filter(|e| e.group as usize == group) {
            end.conn.app_mut().set_pace(pace);
        }
    }
    /// When measuring began.
    pub fn measuring_from(&self) -> Instant {
        self.measuring_from.unwrap_or(Instant::ZERO)
    }

    /// Starts measuring now: what was before does not count.
    pub fn measure(&mut self) {
        let now = self.engine.now();
        self.measuring_from = Some(now);
        for nic in &mut self.nics {
            nic.restart(now);
        }
        for g in 0..self.groups.len() {
            let (bytes, cbr, again) = (self.delivered(g), self.cbr_total(g), self.retransmitted_total(g));
            let state = &mut self.groups[g];
            (state.bytes_before, state.cbr_before, state.retransmitted_before) = (bytes, cbr, again);
            state.latency.reset();
        }
        for sink in &mut self.sinks {
            sink.sink.delay.reset();
        }
        self.watch.iter_mut().flat_map(|w| &mut w.groups).for_each(|g| g.whole.reset());
    }

    /// Transactions that a group has finished since the start; zero for groups of other kinds.
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
    /// Bytes of payload (frames, for constant rate) that each member of a group has delivered since the start.
    pub fn delivered(&self, group: usize) -> Vec<u64> {
        let GroupState { group: g, first, .. } = &self.groups[group];
        (0..g.count)
            .map(|n| match g.load {
                Load::Cbr { .. } => self.sinks[(first + n) as usize].sink.bytes(),
                _ => match self.ends[(first + 2 * n + 1) as usize].conn.app() {
                    App::Sink(s) => s.read,
                    App::Server(s) => s.done * s.request,
                    _ => 0,
                },
            })
            .collect()
    }

    /// Bytes that each member of a group has delivered since measuring began.
    pub fn bytes(&self, group: usize) -> Vec<u64> {
        let before = &self.groups[group].bytes_before;
        let now = self.delivered(group);
        now.iter().enumerate().map(|(i, n)| n - before.get(i).copied().unwrap_or(0)).collect()
    }

    /// Counts of a constant-rate group since the start; zeros for other groups.
    fn cbr_total(&self, group: usize) -> CbrCounts {
        let GroupState { group: g, first, .. } = &self.groups[group];
        let mut all = CbrCounts::default();
        if let Load::Cbr { .. } = g.load {
            for sink in &self.sinks[*first as usize..(first + g.count) as usize] {
                let source = &self.sources[sink.source as usize];
                all.sent += source.source.sent();
                all.refused += source.refused;
                all.received += sink.sink.received();
                all.lost += sink.sink.lost();
                all.reordered += sink.sink.reordered();
            }
        }
        all
    }

    /// Counts of a constant-rate group since measuring began; zeros for other groups. What was sent shortly before
    /// is received after, and what is on its way at the end is not received.
    pub fn cbr(&self, group: usize) -> CbrCounts {
        let (now, before) = (self.cbr_total(group), self.groups[group].cbr_before);
        CbrCounts {
            sent: now.sent - before.sent,
            refused: now.refused - before.refused,
            received: now.received - before.received,
            // One that was missing may have come late since.
            lost: now.lost.saturating_sub(before.lost),
            reordered: now.reordered - before.reordered,
        }
    }

    /// One-way delays, in nanoseconds, of what a constant-rate group received since measuring began, all members
    /// together.
    pub fn delays(&self, group: usize) -> Histogram<u64> {
        let GroupState { group: g, first, .. } = &self.groups[group];
        let mut all = udp::histogram();
        if let Load::Cbr { .. } = g.load {
            for sink in &self.sinks[*first as usize..(first + g.count) as usize] {
                // Both histograms have the same bounds.
                let _ = all.add(&sink.sink.delay);
            }
        }
        all
    }

    /// Payload bytes sent again by a group, both ways, since the start.
    fn retransmitted_total(&self, group: usize) -> u64 {
        let GroupState { group: g, first, .. } = &self.groups[group];
        match g.load {
            Load::Cbr { .. } => 0,
            _ => (0..2 * g.count).map(|n| self.ends[(first + n) as usize].conn.stats().retransmitted).sum(),
        }
    }

    /// Payload bytes sent again by a group, both ways, since measuring began.
    pub fn retransmitted(&self, group: usize) -> u64 {
        self.retransmitted_total(group) - self.groups[group].retransmitted_before
    }

    /// Where every packet is.
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
                (&mut t.backlog, nic.waits()),
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
