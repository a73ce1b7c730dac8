//! The device below a NIC's transmit path: a wire, and what a probe notes of the packets that go in and out.

use txweir_core::model::wire::{Departure, Wire};
use txweir_core::path::device::{Completed, DeviceError};
use txweir_core::{DropReason, Ecn, Instant, Meta, TxQueue};

use super::probe::Probe;
use crate::frame::{Below, Frame};

/// A wire that may be watched: as the queue of a path, the ring that the path feeds.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) wire: Wire<Frame>,
    pub(super) probe: Option<Box<Probe>>,
    /// The ring that it is now.
    pub(super) ring: u16,
    /// What has left or was dropped and lay below a socket: the end that sent it, and how much it counts.
    pub(super) released: Vec<(u32, u32)>,
}

impl Device {
    pub(super) const fn new(wire: Wire<Frame>) -> Self {
        Self { wire, probe: None, ring: 0, released: Vec::new() }
    }

    /// What is pushed from here on is pushed at `now`.
    #[inline]
    pub(super) fn begin(&mut self, now: Instant) {
        if let Some(probe) = &mut self.probe {
            probe.now = now;
        }
    }

    /// Brings the wire to the present, see [`Wire::advance`].
    pub(super) fn advance(&mut self, now: Instant, mut left: impl FnMut(Departure<Frame>)) -> bool {
        let Self { wire, probe, released, .. } = self;
        wire.advance(now, |mut d| {
            if let Some(probe) = probe {
                probe.departed(&d);
            }
            release(released, &mut d.frame);
            left(d);
        })
    }
}

impl TxQueue for Device {
    type Frame = Frame;

    #[inline]
    fn reserve(&mut self, want: u32) -> u32 {
        self.wire.ring(self.ring).map_or(0, |mut ring| ring.reserve(want))
    }
    #[inline]
    fn push(&mut self, mut frame: Frame, m: &Meta) {
        if m.washed {
            frame.ds &= 3;
        }
        if m.marked && frame.ecn().capable() {
            frame.ds |= Ecn::Ce as u8;
        }
        if let Some(probe) = &mut self.probe {
            probe.pushed();
        }
        if let Some(mut ring) = self.wire.ring(self.ring) {
            ring.push(frame, m);
        }
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.wire.ring(self.ring).map_or(Ok(()), |mut ring| ring.commit())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        if let Some(mut ring) = self.wire.ring(self.ring) {
            ring.reap(sink);
        }
    }
    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        Some(frame.clone())
    }
    fn corrupt(&mut self, frame: &mut Frame, _bit: u32) {
        // One wrong bit is one that every checksum of the Internet finds; which one makes no difference.
        frame.damaged = true;
    }
    fn discard(&mut self, mut frame: Frame, _m: &Meta, _reason: DropReason) {
        release(&mut self.released, &mut frame);
    }
}

/// The frame lies no longer below the socket of whom it is from, which is the other end of whom it is for.
fn release(released: &mut Vec<(u32, u32)>, frame: &mut Frame) {
    if frame.below != Below::Not {
        released.push((frame.to ^ 1, frame.below_socket()));
        frame.below = Below::Not;
    }
}
