//! `Line`: what a direction's path sends into, and where the frames that it is done with go: a [`Wire`], modelled in
//! time, or a `Passage`, which takes as long as the output does.

use std::collections::VecDeque;
use std::io;

use txweir_core::device::{Completed, DeviceError, TxQueue, flip_bit};
use txweir_core::headers::{self, Headers};
use txweir_core::txpath::BULK;
use txweir_core::wire::{Departure, Wire, WireConfig};
use txweir_core::{ConfigError, DropReason, Instant, Meta};
use txweir_device::Sent;

use crate::direction::Port;
use crate::frame::{Frame, Frames};

/// Frames that a passage holds while its output is full: one promise. More would be a queue that no qdisc sees.
const PASSAGE_MAX: usize = BULK as usize;

/// A device without a model: it hands each frame on at once, and what the output does not take waits. A frame is
/// finished once the output has taken it, so that a slow output is felt by the qdiscs.
#[derive(Debug, Default)]
pub struct Passage {
    held: VecDeque<(Frame, Meta)>,
    /// The time last told, at which a doorbell takes effect.
    now: Instant,
    /// When to try the output; `None` if nothing is held, or the output is full.
    due: Option<Instant>,
    packets: u32,
    bytes: u32,
}

impl Passage {
    fn finish(&mut self, m: &Meta) {
        self.packets += 1;
        // At most as many frames as it holds, each far below 2^32 / 64 bytes, finish before they are reaped.
        self.bytes = self.bytes.saturating_add(m.wire_len);
    }
}

/// What is between a path and its output.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one a direction, and the wire is on the path of every packet")]
enum Device {
    Wire(Wire<Frame>),
    Passage(Passage),
}

/// A device, and the frames of its direction.
#[derive(Debug)]
pub struct Line {
    device: Device,
    pub frames: Frames,
    /// Pushed and not departed.
    pub units: usize,
    pub dropped: u64,
}

impl Line {
    /// A wire if one is given, a passage otherwise, with at most `memory` bytes of frame buffers.
    pub fn new(wire: Option<WireConfig>, memory: usize) -> Result<Self, ConfigError> {
        let device = match wire {
            Some(config) => Device::Wire(Wire::new(config)?),
            None => Device::Passage(Passage::default()),
        };
        Ok(Self { device, frames: Frames::new(memory), units: 0, dropped: 0 })
    }

    pub const fn wire(&self) -> Option<&Wire<Frame>> {
        match &self.device {
            Device::Wire(wire) => Some(wire),
            Device::Passage(_) => None,
        }
    }

    pub const fn wire_mut(&mut self) -> Option<&mut Wire<Frame>> {
        match &mut self.device {
            Device::Wire(wire) => Some(wire),
            Device::Passage(_) => None,
        }
    }

    /// Bytes pushed and not yet reported as finished.
    pub fn held_bytes(&self) -> u64 {
        match &self.device {
            Device::Wire(wire) => wire.held().bytes,
            Device::Passage(passage) => passage.held.iter().map(|(_, m)| u64::from(m.wire_len)).sum(),
        }
    }

    /// When something happens next on it.
    pub fn next_event(&self) -> Option<Instant> {
        match &self.device {
            Device::Wire(wire) => wire.next_event(),
            Device::Passage(passage) => passage.due,
        }
    }

    /// True if it holds frames that a full output did not take.
    pub fn is_blocked(&self) -> bool {
        matches!(&self.device, Device::Passage(p) if p.due.is_none() && !p.held.is_empty())
    }

    /// Has a full output asked again at `now`.
    pub fn retry(&mut self, now: Instant) {
        if let Device::Passage(passage) = &mut self.device
            && !passage.held.is_empty()
        {
            passage.due = Some(now);
        }
    }

    /// Runs a wire up to `now`. Each frame that has left it goes to `left`, with where its buffer goes back to. True if
    /// there is something to reap.
    pub fn advance_wire(
        &mut self,
        now: Instant,
        mut left: impl FnMut(Departure<Frame>, &mut Frames),
    ) -> bool {
        let Self { device, frames, units, .. } = self;
        let Device::Wire(wire) = device else { return false };
        wire.advance(now, |departure| {
            *units -= 1;
            left(departure, frames);
        })
    }

    /// Hands what a passage holds to `output` until that is full; `left` learns of each frame that has left, and
    /// whether the output took it. True if there is something to reap.
    ///
    /// # Errors
    /// The output is gone; the frame that was tried is lost.
    pub fn pass(
        &mut self,
        now: Instant,
        output: &mut impl Port,
        mut left: impl FnMut(&Meta, bool),
    ) -> io::Result<bool> {
        let Self { device: Device::Passage(passage), frames, units, .. } = self else { return Ok(false) };
        passage.now = passage.now.max(now);
        if passage.due.is_none_or(|due| due > now) {
            return Ok(passage.packets > 0);
        }
        passage.due = None;
        while let Some((frame, meta)) = passage.held.pop_front() {
            let sent = output.send(&frame.hdr, frame.bytes());
            if matches!(sent, Ok(Sent::Full)) {
                passage.held.push_front((frame, meta));
                break;
            }
            *units -= 1;
            passage.finish(&meta);
            frames.give(frame);
            left(&meta, matches!(sent, Ok(Sent::Taken)));
            if let Err(error) = sent {
                passage.due = Some(now);
                return Err(error);
            }
        }
        Ok(passage.packets > 0)
    }
}

impl TxQueue for Line {
    type Frame = Frame;

    fn reserve(&mut self, want: u32) -> u32 {
        match &mut self.device {
            Device::Wire(wire) => wire.reserve(want),
            Device::Passage(p) => {
                let room = PASSAGE_MAX.saturating_sub(p.held.len());
                want.min(u32::try_from(room).unwrap_or(u32::MAX))
            }
        }
    }
    fn push(&mut self, mut frame: Frame, m: &Meta) {
        self.units += 1;
        if m.marked || m.washed {
            let headers = Headers::parse_ethernet(frame.bytes());
            if m.marked {
                headers::set_ce(frame.bytes_mut(), &headers);
            }
            if m.washed {
                headers::clear_dscp(frame.bytes_mut(), &headers);
            }
        }
        match &mut self.device {
            Device::Wire(wire) => wire.push(frame, m),
            Device::Passage(passage) => passage.held.push_back((frame, *m)),
        }
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        match &mut self.device {
            Device::Wire(wire) => wire.commit(),
            Device::Passage(passage) => {
                passage.due = Some(passage.now);
                Ok(())
            }
        }
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        match &mut self.device {
            Device::Wire(wire) => wire.reap(sink),
            Device::Passage(passage) => {
                let (packets, bytes) =
                    (std::mem::take(&mut passage.packets), std::mem::take(&mut passage.bytes));
                if packets > 0 {
                    sink(Completed { packets, bytes, frame: None });
                }
            }
        }
    }
    fn corrupt(&mut self, frame: &mut Frame, bit: u32) {
        flip_bit(frame.bytes_mut(), bit);
    }
    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        self.frames.copy(frame)
    }
    fn discard(&mut self, frame: Frame, _: &Meta, _: DropReason) {
        self.dropped += 1;
        self.frames.give(frame);
    }
}
