//! Packets that arrive at a host at the times of a capture, whatever their fate.

use std::sync::Arc;

use txweir_core::{Instant, Tally};

use super::{Ground, REPLAY};
use crate::dist::Stepped;
use crate::engine::Engine;
use crate::event::NetEvent;
use crate::frame::Frame;

/// A replay in action.
#[derive(Debug)]
pub struct Replay {
    packets: Arc<[Frame]>,
    next: usize,
    from: u32,
    pub(super) to: u32,
    /// One-way times.
    pub(super) watch: Stepped,
    offered: Tally,
    received: Tally,
}

impl Replay {
    /// Returns the one-way times, from the arrival at the host that forwards them.
    pub const fn watch(&self) -> &Stepped {
        &self.watch
    }
    /// Returns the packets that have arrived at the host, and their bytes.
    pub const fn offered(&self) -> Tally {
        self.offered
    }
    /// Returns the packets that have reached the other host, and their bytes.
    pub const fn received(&self) -> Tally {
        self.received
    }

    /// Returns a replay of which nothing has arrived.
    pub(super) fn new(from: u32, to: u32, packets: Arc<[Frame]>) -> Self {
        let (watch, offered, received) = (Stepped::default(), Tally::default(), Tally::default());
        Self { packets, next: 0, from, to, watch, offered, received }
    }

    /// Schedules the event of the next packet.
    pub(super) fn schedule(&self, engine: &mut Engine<NetEvent>) {
        if let Some(next) = self.packets.get(self.next) {
            engine.schedule(next.sent, 0, NetEvent::Replay);
        }
    }

    /// Lets the next packet arrive, and all packets of the same time; returns the NIC.
    pub(super) fn next(&mut self, ground: &mut Ground) -> u32 {
        let Ground { engine, links, .. } = ground;
        let now = engine.now();
        let nic = links.route(self.from, self.to);
        while let Some(frame) = self.packets.get(self.next).filter(|f| f.sent <= now) {
            let mut frame = frame.clone();
            frame.to = REPLAY;
            self.next += 1;
            self.offered.add(frame.wire_len());
            links.offer(engine, nic, frame);
        }
        self.schedule(engine);
        nic
    }

    /// Takes a packet that has reached the other host.
    pub(super) fn receive(&mut self, now: Instant, frame: &Frame) {
        self.received.add(frame.wire_len());
        self.watch.add(now.saturating_since(frame.sent));
    }
}
