//! `Line`: the stage between the paths of a direction and its device. It is a wire over the device
//! ([`Paced`]), or the device alone ([`Direct`]). `Exit`: the line's queues as the paths see them,
//! and the gate that is told of departures from the qdiscs.

use txweir_core::model::wire::{Wire, WireConfig};
use txweir_core::path::device::{Completed, DeviceError, TxQueue, flip_bit};
use txweir_core::path::port::Queues;
use txweir_core::turns::{Gate, Load};
use txweir_core::{ConfigError, DropReason, Instant, Meta};
use txweir_device::{Backend, Store};

use crate::arrival::Arrival;
use crate::delays::Stamps;
use crate::direct::Direct;
use crate::output::Output;
use crate::paced::Paced;
use crate::stats::DirectionStats;

/// The device, and the model or the turns ahead of it.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one a direction, and the wire is on the path of every packet")]
pub enum Line<D: Backend> {
    Paced(Paced<D>),
    Direct(Direct<D>),
}

impl<D: Backend> Line<D> {
    /// Makes a paced line if a wire is given, a direct one otherwise.
    pub fn new(wire: Option<WireConfig>, device: D) -> Result<Self, ConfigError> {
        Ok(match wire {
            Some(wire) => Self::Paced(Paced::new(wire, device)?),
            None => Self::Direct(Direct::new(device)),
        })
    }

    pub const fn output(&self) -> &Output<D> {
        match self {
            Self::Paced(Paced { output, .. }) | Self::Direct(Direct { output, .. }) => output,
        }
    }

    pub const fn output_mut(&mut self) -> &mut Output<D> {
        match self {
            Self::Paced(Paced { output, .. }) | Self::Direct(Direct { output, .. }) => output,
        }
    }

    pub const fn wire(&self) -> Option<&Wire<D::Frame>> {
        match self {
            Self::Paced(paced) => Some(&paced.wire),
            Self::Direct(_) => None,
        }
    }

    pub const fn wire_mut(&mut self) -> Option<&mut Wire<D::Frame>> {
        match self {
            Self::Paced(paced) => Some(&mut paced.wire),
            Self::Direct(_) => None,
        }
    }

    /// Checks that the line can have this number of queues.
    pub fn check_queues(&self, queues: u16) -> Result<(), ConfigError> {
        self.wire().map_or(Ok(()), |wire| wire.check_rings(queues))
    }

    /// Adds queues if the line has fewer than this number.
    pub fn add_queues(&mut self, queues: u16) -> Result<(), ConfigError> {
        match self {
            Self::Paced(paced) => paced.wire.add_rings(queues),
            Self::Direct(direct) => {
                direct.add_queues(queues.into());
                Ok(())
            }
        }
    }

    /// Returns the number of its queues, including those no longer in use.
    pub fn queues(&self) -> u16 {
        match self {
            Self::Paced(paced) => paced.wire.config().rings,
            // The number of queues was requested as a `u16`.
            Self::Direct(direct) => direct.queues() as u16,
        }
    }

    /// True if a queue has finished frames that were not reaped.
    pub fn reported(&self, queue: u16) -> bool {
        match self {
            Self::Paced(paced) => paced.wire.ring_stats(queue).reported,
            Self::Direct(direct) => direct.reported(queue),
        }
    }

    /// Returns the bytes pushed and not yet reported as finished.
    pub fn held_bytes(&self) -> u64 {
        match self {
            Self::Paced(paced) => paced.wire.held().bytes,
            Self::Direct(direct) => direct.held_bytes(),
        }
    }

    /// Returns the number of frames pushed that have not gone on to the device.
    pub const fn units(&self) -> usize {
        match self {
            Self::Paced(paced) => paced.units,
            Self::Direct(direct) => direct.gathered(),
        }
    }

    /// True if frames wait for a device that has no wire ahead of it.
    pub const fn is_kept_waiting(&self) -> bool {
        matches!(self, Self::Direct(direct) if direct.gathered() > 0)
    }

    /// Returns the time of the next event on the wire.
    pub fn next_event(&self) -> Option<Instant> {
        self.wire()?.next_event()
    }

    /// Runs the wire up to `now`. Returns true if there are completions to reap.
    pub fn advance(&mut self, now: Instant, stats: &mut DirectionStats) -> bool {
        match self {
            Self::Paced(paced) => paced.advance(now, stats),
            Self::Direct(_) => false,
        }
    }

    /// Shows the device the frames that it was given, and those for which it had no room before.
    /// Returns true if there are completions to reap.
    pub fn ring(&mut self, stats: &mut DirectionStats) -> bool {
        match self {
            Self::Paced(paced) => {
                paced.show(stats);
                false
            }
            Self::Direct(direct) => direct.show(stats),
        }
    }

    /// True if frames wait for the doorbell, and the device may have room.
    pub fn has_news(&self) -> bool {
        match self {
            Self::Paced(paced) => paced.output.has_news(),
            Self::Direct(direct) => direct.gathered() > 0 && !direct.output.device.is_full(),
        }
    }

    /// True if the waiting frames are worth a doorbell, and the device may have room. Always false
    /// with a wire, which rings the doorbell for a batch itself.
    pub fn batch_is_due(&self) -> bool {
        matches!(self, Self::Direct(direct) if direct.batch_is_due())
    }
}

/// The line as the paths see it.
#[derive(Debug)]
pub struct Exit<D: Backend> {
    pub line: Line<D>,
    /// Frames that were dropped.
    pub dropped: u64,
    /// The turns ahead of the paths. The gate is told of each packet that leaves the qdiscs.
    pub gate: Option<Box<Gate<Arrival<D::Frame>>>>,
}

impl<D: Backend> Exit<D> {
    pub const fn new(line: Line<D>) -> Self {
        Self { line, dropped: 0, gate: None }
    }

    /// Returns the store of the device's frames.
    pub fn store(&mut self) -> &mut D::Store {
        self.line.output_mut().device.store()
    }

    /// Returns the times of the stages, at a step of this time.
    #[inline]
    pub const fn stamps(&mut self, now: Instant) -> &mut Stamps {
        let stamps = &mut self.line.output_mut().stamps;
        stamps.now = now;
        stamps
    }

    /// Tells the gate that a packet is not in the qdiscs any more.
    #[inline]
    pub fn left(&mut self, m: &Meta) {
        if let Some(gate) = &mut self.gate {
            gate.left(m.hash, Load::of(m));
        }
    }

    /// Drops a frame: counts it and returns it to the store.
    pub fn discard(&mut self, frame: D::Frame) {
        self.dropped += 1;
        self.store().give(frame);
    }
}

impl<D: Backend> Queues for Exit<D> {
    type Frame = D::Frame;
    type Queue<'a>
        = ExitQueue<'a, D>
    where
        D: 'a;
    #[inline]
    fn queue(&mut self, index: u16) -> Option<ExitQueue<'_, D>> {
        (index < self.line.queues()).then_some(ExitQueue { exit: self, index })
    }
}

/// One queue of a line.
#[derive(Debug)]
pub struct ExitQueue<'a, D: Backend> {
    exit: &'a mut Exit<D>,
    index: u16,
}

impl<D: Backend> TxQueue for ExitQueue<'_, D> {
    type Frame = D::Frame;

    fn reserve(&mut self, want: u32) -> u32 {
        match &mut self.exit.line {
            Line::Paced(paced) => paced.wire.ring(self.index).map_or(0, |mut ring| ring.reserve(want)),
            Line::Direct(direct) => direct.reserve(self.index, want),
        }
    }
    fn push(&mut self, frame: D::Frame, m: &Meta) {
        self.exit.left(m);
        match &mut self.exit.line {
            Line::Paced(paced) => {
                let m = paced.output.stamps.leaves(m);
                if let Some(mut ring) = paced.wire.ring(self.index) {
                    ring.push(frame, &m);
                    paced.units += 1;
                }
            }
            Line::Direct(direct) => direct.push(self.index, frame, m),
        }
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        match &mut self.exit.line {
            Line::Paced(paced) => paced.wire.ring(self.index).map_or(Ok(()), |mut ring| ring.commit()),
            // One doorbell of the device serves many doorbells of the paths: `Line::ring`.
            Line::Direct(_) => Ok(()),
        }
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<D::Frame>)) {
        match &mut self.exit.line {
            Line::Paced(paced) => {
                if let Some(mut ring) = paced.wire.ring(self.index) {
                    ring.reap(sink);
                }
            }
            Line::Direct(direct) => direct.reap(self.index, sink),
        }
    }
    fn corrupt(&mut self, frame: &mut D::Frame, bit: u32) {
        flip_bit(self.exit.store().bytes_mut(frame), bit);
    }
    fn copy(&mut self, frame: &D::Frame) -> Option<D::Frame> {
        self.exit.store().copy(frame)
    }
    fn discard(&mut self, frame: D::Frame, m: &Meta, _: DropReason) {
        self.exit.left(m);
        self.exit.discard(frame);
    }
}
