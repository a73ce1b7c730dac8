//! What lies between two hosts: delay, jitter, loss, reordering. The rate is not here: it belongs to the wire.

use txweir_core::rng::Rng;
use txweir_core::{Instant, Nanos};

use crate::engine::{Engine, Lane, Payload};
use crate::frame::Frame;

/// One direction of a link. Probabilities are in parts per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkConfig {
    /// One-way delay.
    pub delay: Nanos,
    /// Up to so much more, uniformly; order is kept.
    pub jitter: Nanos,
    /// Packets lost, per million.
    pub loss_ppm: u32,
    /// Packets that are late by `reorder_by` and overtaken meanwhile, per million.
    pub reorder_ppm: u32,
    /// How late they are.
    pub reorder_by: Nanos,
    /// A TSO unit arrives whole when its last bit does, as with receive offload, instead of segment by segment.
    pub whole_units: bool,
}

/// What a link has done to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets that went in (segments, unless units arrive whole).
    pub packets: u64,
    /// Packets lost.
    pub lost: u64,
    /// Packets made late.
    pub late: u64,
}

/// One direction of a link, in action.
#[derive(Debug)]
pub struct Link<P> {
    config: LinkConfig,
    rng: Rng,
    lane: Lane<Frame, P>,
    /// Packets made late, by slot; a free slot is `None`.
    late: Vec<Option<Frame>>,
    late_event: fn(u32) -> P,
    actor: u32,
    stats: LinkStats,
}

impl<P: Payload> Link<P> {
    /// A link whose arrivals are events of `actor`: `arrival` for the next packet in order, `late_event(slot)`
    /// for one made late.
    pub fn new(config: LinkConfig, actor: u32, arrival: P, late_event: fn(u32) -> P, seed: u64) -> Self {
        let (lane, late) = (Lane::new(actor, arrival), Vec::new());
        Self { config, rng: Rng::new(seed), lane, late, late_event, actor, stats: LinkStats::default() }
    }

    /// What it has done.
    pub const fn stats(&self) -> LinkStats {
        self.stats
    }

    /// A packet leaves the wire between `start` and `finish`.
    pub fn push(&mut self, engine: &mut Engine<P>, frame: Frame, start: Instant, finish: Instant) {
        let segs = frame.segs();
        if segs == 1 || self.config.whole_units {
            return self.send(engine, frame, finish);
        }
        // The last bit of each segment leaves in proportion to the bytes before it; only the last is shorter.
        let time = finish.saturating_since(start).0;
        let total = u64::from(frame.wire_len());
        let mut sent = 0;
        for i in 0..segs {
            let segment = frame.segment(i);
            sent += u64::from(segment.len());
            let at = start + Nanos((u128::from(time) * u128::from(sent) / u128::from(total)) as u64);
            self.send(engine, segment, at);
        }
    }

    fn send(&mut self, engine: &mut Engine<P>, frame: Frame, left: Instant) {
        self.stats.packets += 1;
        if self.hit(self.config.loss_ppm) {
            self.stats.lost += 1;
            return;
        }
        let LinkConfig { delay, jitter, reorder_ppm, reorder_by, .. } = self.config;
        let jitter = if jitter.0 == 0 { 0 } else { self.rng.below(jitter.0 + 1) };
        let at = left + delay + Nanos(jitter);
        if !self.hit(reorder_ppm) {
            return self.lane.push(engine, at, frame);
        }
        self.stats.late += 1;
        let slot = self.late.iter().position(Option::is_none).unwrap_or(self.late.len());
        if slot == self.late.len() {
            self.late.push(None);
        }
        self.late[slot] = Some(frame);
        engine.schedule(at + reorder_by, self.actor, (self.late_event)(slot as u32));
    }

    fn hit(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.rng.below(1_000_000) < u64::from(ppm)
    }

    /// The packet whose arrival event has come.
    pub fn arrive(&mut self, engine: &mut Engine<P>) -> Option<Frame> {
        self.lane.pop(engine)
    }
    /// The packet whose late event has come.
    pub fn arrive_late(&mut self, slot: u32) -> Option<Frame> {
        self.late.get_mut(slot as usize)?.take()
    }
}
