//! A device that keeps records: promises, pushes, discards, and breaches of the protocol.

use std::collections::VecDeque;

use txweir_core::{Completed, DeviceError, DropReason, Meta, TxQueue};

/// A packet of the test: its number. Not `Clone`, so that each exists once.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame(pub u32);

/// The fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Pushed to the device.
    Sent,
    /// Given back because it was dropped.
    Discarded(DropReason),
}

/// A device of a number of slots that finishes packets when told to.
#[derive(Debug, Default)]
pub struct Device {
    /// Number of slots.
    pub slots: u32,
    pending: VecDeque<(Frame, u32)>,
    finished: VecDeque<(Frame, u32)>,
    promised: u32,
    /// Frames pushed since the last doorbell.
    pub unseen: u32,
    /// The result of the last reserve.
    pub last_promise: Option<u32>,
    /// The largest number that was requested at once.
    pub most_wanted: u32,
    /// The fates of frames, in order.
    pub log: Vec<(u32, Fate, Meta)>,
    /// Breaches of the protocol.
    pub breaches: Vec<String>,
}

impl Device {
    /// Makes a device with this number of slots.
    pub fn new(slots: u32) -> Self {
        Self { slots, ..Self::default() }
    }
    /// Finishes the `n` oldest packets.
    pub fn finish(&mut self, n: usize) {
        let n = n.min(self.pending.len());
        self.finished.extend(self.pending.drain(..n));
    }
    /// Returns the number of packets pushed and not yet reaped.
    pub fn held_packets(&self) -> u32 {
        (self.pending.len() + self.finished.len()) as u32
    }
    /// Returns the wire bytes of these packets.
    pub fn held_bytes(&self) -> u64 {
        self.pending.iter().chain(&self.finished).map(|(_, bytes)| u64::from(*bytes)).sum()
    }
    /// Forgets all pushed packets, as a reset of the hardware does.
    pub fn reset(&mut self) {
        self.pending.clear();
        self.finished.clear();
    }
}

impl TxQueue for Device {
    type Frame = Frame;

    fn reserve(&mut self, want: u32) -> u32 {
        self.most_wanted = self.most_wanted.max(want);
        self.promised = want.min(self.slots.saturating_sub(self.held_packets()));
        self.last_promise = Some(self.promised);
        self.promised
    }
    fn push(&mut self, frame: Frame, m: &Meta) {
        if self.promised == 0 {
            self.breaches.push(format!("frame {} was pushed without a promise", frame.0));
        }
        self.promised = self.promised.saturating_sub(1);
        self.unseen += 1;
        self.log.push((frame.0, Fate::Sent, *m));
        self.pending.push_back((frame, m.wire_len));
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.promised = 0;
        self.unseen = 0;
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        for (frame, bytes) in self.finished.drain(..) {
            sink(Completed { packets: 1, bytes, frame: Some(frame) });
        }
    }
    fn discard(&mut self, frame: Frame, m: &Meta, reason: DropReason) {
        self.log.push((frame.0, Fate::Discarded(reason), *m));
    }
}
