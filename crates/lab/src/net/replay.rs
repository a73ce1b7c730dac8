//! Packets that arrive at a host at the times of a capture, whatever their fate.

use std::sync::Arc;

use txweir_core::{Instant, Tally};

use super::watch::GroupWatch;
use super::{Net, REPLAY, What};
use crate::frame::Frame;

/// A replay in action.
#[derive(Debug)]
pub struct Replay {
    packets: Arc<[Frame]>,
    next: usize,
    pub(super) from: u32,
    pub(super) to: u32,
    /// One-way times.
    pub(super) watch: GroupWatch,
    offered: Tally,
    received: Tally,
}

impl Replay {
    /// Returns the one-way times, from the arrival at the host that forwards them.
    pub const fn watch(&self) -> &GroupWatch {
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
}

impl Net {
    /// Lets these packets arrive at `from` on their way to `to`, each at its sending time
    /// (`Frame::sent`), by which they are ordered. A net has one replay. Errors: no links lead
    /// there.
    pub fn replay(&mut self, from: u32, to: u32, packets: Arc<[Frame]>) -> Result<(), String> {
        if !self.reaches(from, to) {
            return Err("replay: no links lead from one host to the other".into());
        }
        if let Some(first) = packets.first() {
            self.engine.schedule(first.sent, 0, What::Replay);
        }
        let (watch, offered, received) = (GroupWatch::default(), Tally::default(), Tally::default());
        self.replay = Some(Replay { packets, next: 0, from, to, watch, offered, received });
        Ok(())
    }

    /// Returns the replay, if there is one.
    pub const fn replayed(&self) -> Option<&Replay> {
        self.replay.as_ref()
    }

    /// Lets the next packet arrive, and all packets of the same time.
    pub(super) fn replay_next(&mut self) {
        let now = self.engine.now();
        let Some(replay) = &mut self.replay else { return };
        let nic = self.routes[replay.from as usize][replay.to as usize];
        while let Some(frame) = replay.packets.get(replay.next).filter(|f| f.sent <= now) {
            let mut frame = frame.clone();
            frame.to = REPLAY;
            replay.next += 1;
            replay.offered.add(frame.wire_len());
            if let Err(frame) = self.nics[nic as usize].submit(&self.engine, frame) {
                // Only a path of the role of an origin gives it back.
                self.refused.add(frame.wire_len());
            }
        }
        if let Some(next) = replay.packets.get(replay.next) {
            self.engine.schedule(next.sent, 0, What::Replay);
        }
        self.kick(nic);
    }

    pub(super) fn replay_arrived(&mut self, now: Instant, frame: &Frame) {
        if let Some(replay) = &mut self.replay {
            replay.received.add(frame.wire_len());
            replay.watch.add(now.saturating_since(frame.sent));
        }
    }
}
