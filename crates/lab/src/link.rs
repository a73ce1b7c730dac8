//! The path between two hosts: delay, jitter, loss, reordering. The rate is not here: it belongs to
//! the wire.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use txweir_core::base::rng::Rng;
use txweir_core::{Instant, Nanos, Tally};

use crate::engine::{Engine, Lane, Payload};
use crate::frame::Frame;

/// One direction of a link. Probabilities are in parts per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkConfig {
    /// One-way delay.
    pub delay: Nanos,
    /// Largest additional delay, uniformly distributed; order is kept.
    pub jitter: Nanos,
    /// Packets lost, per million.
    pub loss_ppm: u32,
    /// Packets that are late by `reorder_by` and overtaken meanwhile, per million.
    pub reorder_ppm: u32,
    /// Delay of these packets.
    pub reorder_by: Nanos,
    /// True if a TSO unit arrives whole with its last bit, as with receive offload, instead of
    /// segment by segment.
    pub whole_units: bool,
}

/// Counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets that entered the link (segments, unless units arrive whole), and their bytes on the
    /// wire.
    pub carried: Tally,
    /// Packets lost.
    pub lost: Tally,
    /// Packets made late.
    pub late: u64,
}

/// Fate of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet arrives in order.
    Arrives,
    /// The packet does not arrive.
    Lost,
    /// The packet arrives later than in order, by this time.
    Late(Nanos),
}

/// Sees every packet as it leaves the wire, before the link.
pub trait Witness: std::fmt::Debug {
    /// A packet whose last bit leaves at this time, and its fate on the link.
    fn packet(&mut self, frame: &Frame, at: Instant, fate: Fate);
}

/// One direction of a link, in action.
#[derive(Debug)]
pub struct Link<P> {
    config: LinkConfig,
    rng: Rng,
    lane: Lane<Frame, P>,
    /// Packets made late, by slot; a free slot is `None`.
    late: Vec<Option<Frame>>,
    /// Free slots. The lowest is taken first: events name slots, and so the event log has them.
    free: BinaryHeap<Reverse<u32>>,
    late_event: fn(u32) -> P,
    actor: u32,
    stats: LinkStats,
    witnesses: Vec<Box<dyn Witness>>,
}

impl<P: Payload> Link<P> {
    /// Returns a link whose arrivals are events of `actor`: `arrival` for the next packet in order,
    /// `late_event(slot)` for a packet made late.
    pub fn new(config: LinkConfig, actor: u32, arrival: P, late_event: fn(u32) -> P, seed: u64) -> Self {
        let (lane, late) = (Lane::new(actor, arrival), Vec::new());
        Self {
            config,
            rng: Rng::new(seed),
            lane,
            late,
            free: BinaryHeap::new(),
            late_event,
            actor,
            stats: LinkStats::default(),
            witnesses: Vec::new(),
        }
    }

    /// Counts a packet of `bytes` that the link has carried as lost.
    pub(crate) const fn count_lost(&mut self, bytes: u32) {
        self.stats.lost.add(bytes);
    }

    /// Returns the counters.
    pub const fn stats(&self) -> LinkStats {
        self.stats
    }

    /// Returns the packets on their way, and their bytes on the wire.
    pub fn in_flight(&self) -> Tally {
        let mut sum = Tally::default();
        self.lane.iter().chain(self.late.iter().flatten()).for_each(|f| sum.add(f.wire_len()));
        sum
    }

    /// Shows every packet to a witness from now on.
    pub(crate) fn add_witness(&mut self, witness: Box<dyn Witness>) {
        self.witnesses.push(witness);
    }

    /// Takes a packet that leaves the wire between the two instants of `line`. A unit leaves as
    /// segments, each of which takes `overhead` bytes in addition to its own on the line.
    pub fn push(&mut self, engine: &mut Engine<P>, frame: Frame, line: (Instant, Instant), overhead: u32) {
        let finish = line.1;
        if frame.segs() == 1 {
            let fate = self.decide(frame.wire_len());
            self.record(&frame, finish, fate);
            return self.send(engine, frame, finish, fate);
        }
        if self.config.whole_units {
            let fate = self.decide(frame.wire_len());
            if !self.witnesses.is_empty() {
                cut(&frame, line, overhead, |segment, at| self.record(&segment, at, fate));
            }
            return self.send(engine, frame, finish, fate);
        }
        cut(&frame, line, overhead, |segment, at| {
            let fate = self.decide(segment.len());
            self.record(&segment, at, fate);
            self.send(engine, segment, at, fate);
        });
    }

    /// Draws the fate of a packet, and counts it.
    fn decide(&mut self, bytes: u32) -> Fate {
        self.stats.carried.add(bytes);
        if self.hit(self.config.loss_ppm) {
            self.stats.lost.add(bytes);
            return Fate::Lost;
        }
        if self.hit(self.config.reorder_ppm) {
            self.stats.late += 1;
            return Fate::Late(self.config.reorder_by);
        }
        Fate::Arrives
    }

    fn record(&mut self, frame: &Frame, at: Instant, fate: Fate) {
        self.witnesses.iter_mut().for_each(|witness| witness.packet(frame, at, fate));
    }

    fn send(&mut self, engine: &mut Engine<P>, frame: Frame, left: Instant, fate: Fate) {
        let LinkConfig { delay, jitter, .. } = self.config;
        let by = match fate {
            Fate::Lost => return,
            Fate::Arrives => None,
            Fate::Late(by) => Some(by),
        };
        let jitter = if jitter.0 == 0 { 0 } else { self.rng.below(jitter.0.saturating_add(1)) };
        let at = left + delay + Nanos(jitter);
        match by {
            None => self.lane.push(engine, at, frame),
            Some(by) => self.overtaken(engine, at + by, frame),
        }
    }

    /// Lets a packet arrive now that no wire has sent here.
    pub(crate) fn arrive_now(&mut self, engine: &mut Engine<P>, frame: Frame) {
        let now = engine.now();
        self.overtaken(engine, now, frame);
    }

    /// Lets a packet arrive out of the order of the others.
    fn overtaken(&mut self, engine: &mut Engine<P>, at: Instant, frame: Frame) {
        let slot = match self.free.pop() {
            Some(Reverse(slot)) => {
                self.late[slot as usize] = Some(frame);
                slot
            }
            None => {
                self.late.push(Some(frame));
                self.late.len() as u32 - 1
            }
        };
        engine.schedule(at, self.actor, (self.late_event)(slot));
    }

    fn hit(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.rng.below(1_000_000) < u64::from(ppm)
    }

    /// Returns the packet on its way that arrives after `n` others, of those in order.
    pub fn coming(&self, n: usize) -> Option<&Frame> {
        self.lane.get(n)
    }
    /// Takes the packet whose arrival event has come.
    pub fn arrive(&mut self, engine: &mut Engine<P>) -> Option<Frame> {
        self.lane.pop(engine)
    }
    /// Takes the packet whose late event has come.
    pub(crate) fn arrive_late(&mut self, slot: u32) -> Option<Frame> {
        let frame = self.late.get_mut(slot as usize)?.take()?;
        self.free.push(Reverse(slot));
        Some(frame)
    }
}

/// Hands out the segments of a unit, each with the time at which its last bit leaves, in proportion
/// to the bytes on the line so far.
fn cut(unit: &Frame, line: (Instant, Instant), overhead: u32, mut each: impl FnMut(Frame, Instant)) {
    let (overhead, segs) = (u128::from(overhead), unit.segs());
    let time = u128::from(line.1.saturating_since(line.0).0);
    let total = u128::from(unit.wire_len()) + overhead * u128::from(segs);
    let mut sent = 0;
    for i in 0..segs {
        let segment = unit.segment(i);
        sent += u128::from(segment.len()) + overhead;
        // The result is at most `time`.
        each(segment, line.0 + Nanos((time * sent / total) as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::NetEvent;

    /// Late packets take the lowest free slot, which is found without a walk over all of them: with
    /// a walk for each packet the test would take minutes.
    #[test]
    fn a_late_packet_takes_the_lowest_free_slot() {
        let reorder_by = Nanos(1_000);
        let config = LinkConfig { reorder_ppm: 1_000_000, reorder_by, ..LinkConfig::default() };
        let mut engine = Engine::new();
        let mut link = Link::new(config, 0, NetEvent::Arrival, NetEvent::Late, 1);
        let mut send = |link: &mut Link<NetEvent>, packets: usize| {
            for _ in 0..packets {
                link.push(&mut engine, Frame::headers(&[0x45; 60], 40, 60), (Instant(0), Instant(0)), 24);
            }
        };
        send(&mut link, 4);
        assert_eq!([2, 1, 1].map(|slot| link.arrive_late(slot).is_some()), [true, true, false]);
        send(&mut link, 3);
        send(&mut link, 300_000);
        assert_eq!((link.in_flight().packets, link.stats().late), (300_005, 300_007));
        let first = (0..8).filter_map(|_| engine.next(Instant(1_000)).map(|e| e.what));
        let slots: Vec<NetEvent> = first.collect();
        assert_eq!(slots, [0, 1, 2, 3, 1, 2, 4, 5].map(NetEvent::Late));
    }
}
