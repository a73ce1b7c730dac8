//! `Line`: what a direction's paths send into, and where the frames that it is done with go: a [`Wire`], modelled in
//! time, or a `Passage`, which takes as long as the output does.

use std::collections::VecDeque;
use std::io;

use txweir_core::model::wire::{Departure, Wire, WireConfig};
use txweir_core::packet::headers;
use txweir_core::path::device::{Completed, DeviceError, TxQueue, flip_bit};
use txweir_core::path::port::Queues;
use txweir_core::path::txpath::BULK;
use txweir_core::turns::{Gate, Load};
use txweir_core::{ConfigError, DropReason, Instant, Meta};
use txweir_device::Sent;

use crate::arrival::Arrival;
use crate::frame::{Frame, Frames};
use crate::io::FrameIo;

/// Frames that a queue of a passage holds while its output is full: one promise. More would be a queue that no qdisc sees.
const PASSAGE_MAX: usize = BULK as usize;

/// A device without a model: it hands each frame on at once, and what the output does not take waits. A frame is
/// finished once the output has taken it, so that a slow output is felt by the qdiscs. Its queues take turns, frame by frame.
#[derive(Debug)]
struct Passage {
    queues: Vec<PassQueue>,
    /// Those that hold frames, in the order of their turns.
    turns: VecDeque<u16>,
    /// Bytes that they hold.
    held: u64,
    /// The time last told, at which a doorbell takes effect.
    now: Instant,
    /// When to try the output; `None` if nothing is held, or the output is full.
    due: Option<Instant>,
    /// Queues with frames that are finished and not reaped.
    reported: usize,
}

/// A queue of a passage.
#[derive(Debug, Default)]
struct PassQueue {
    held: VecDeque<(Frame, Meta)>,
    /// Finished and not reaped.
    packets: u32,
    bytes: u32,
}

impl Passage {
    fn new() -> Self {
        let queues = vec![PassQueue::default()];
        Self { queues, turns: VecDeque::new(), held: 0, now: Instant::ZERO, due: None, reported: 0 }
    }

    fn push(&mut self, index: u16, frame: Frame, m: &Meta) {
        let Some(queue) = self.queues.get_mut(usize::from(index)) else { return };
        if queue.held.is_empty() {
            self.turns.push_back(index);
        }
        self.held += u64::from(m.wire_len);
        queue.held.push_back((frame, *m));
    }

    /// The frame whose turn it is.
    fn pop(&mut self) -> Option<(u16, Frame, Meta)> {
        let index = self.turns.pop_front()?;
        let queue = self.queues.get_mut(usize::from(index))?;
        let (frame, meta) = queue.held.pop_front()?;
        self.held -= u64::from(meta.wire_len);
        if !queue.held.is_empty() {
            self.turns.push_back(index);
        }
        Some((index, frame, meta))
    }

    /// It is this one's turn still.
    fn put_back(&mut self, index: u16, frame: Frame, meta: Meta) {
        let Some(queue) = self.queues.get_mut(usize::from(index)) else { return };
        if !queue.held.is_empty() {
            self.turns.pop_back();
        }
        self.turns.push_front(index);
        self.held += u64::from(meta.wire_len);
        queue.held.push_front((frame, meta));
    }

    fn finish(&mut self, index: u16, m: &Meta) {
        let Some(queue) = self.queues.get_mut(usize::from(index)) else { return };
        self.reported += usize::from(queue.packets == 0);
        queue.packets += 1;
        // At most as many frames as it holds, each far below 2^32 / 64 bytes, finish before they are reaped.
        queue.bytes = queue.bytes.saturating_add(m.wire_len);
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
    /// What stands ahead of the paths, and is told of what leaves them.
    pub gate: Option<Box<Gate<Arrival>>>,
}

impl Line {
    /// A wire if one is given, a passage otherwise, with at most `memory` bytes of frame buffers.
    pub fn new(wire: Option<WireConfig>, memory: usize) -> Result<Self, ConfigError> {
        let device = match wire {
            Some(config) => Device::Wire(Wire::new(config)?),
            None => Device::Passage(Passage::new()),
        };
        Ok(Self { device, frames: Frames::new(memory), units: 0, dropped: 0, gate: None })
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

    /// Whether it can have so many queues.
    pub fn check_queues(&self, queues: u16) -> Result<(), ConfigError> {
        self.wire().map_or(Ok(()), |wire| wire.check_rings(queues))
    }

    /// Gives it more queues, if it has fewer than so many.
    pub fn add_queues(&mut self, queues: u16) -> Result<(), ConfigError> {
        match &mut self.device {
            Device::Wire(wire) => wire.add_rings(queues),
            Device::Passage(p) => {
                let known = p.queues.len().max(usize::from(queues));
                p.queues.resize_with(known, PassQueue::default);
                Ok(())
            }
        }
    }

    /// Its queues, those included that are not in use any more.
    pub fn queues(&self) -> u16 {
        match &self.device {
            Device::Wire(wire) => wire.config().rings,
            // As many as were asked for.
            Device::Passage(p) => p.queues.len() as u16,
        }
    }

    /// Whether a queue has finished something that was not reaped.
    pub fn reported(&self, queue: u16) -> bool {
        match &self.device {
            Device::Wire(wire) => wire.ring_stats(queue).reported,
            Device::Passage(p) => p.queues.get(usize::from(queue)).is_some_and(|q| q.packets > 0),
        }
    }

    /// Bytes pushed and not yet reported as finished.
    pub fn held_bytes(&self) -> u64 {
        match &self.device {
            Device::Wire(wire) => wire.held().bytes,
            Device::Passage(passage) => passage.held,
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
        matches!(&self.device, Device::Passage(p) if p.due.is_none() && !p.turns.is_empty())
    }

    /// Has a full output asked again at `now`.
    pub fn retry(&mut self, now: Instant) {
        if let Device::Passage(passage) = &mut self.device
            && !passage.turns.is_empty()
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
        output: &mut impl FrameIo,
        mut left: impl FnMut(&Meta, bool),
    ) -> io::Result<bool> {
        let Self { device: Device::Passage(passage), frames, units, .. } = self else { return Ok(false) };
        passage.now = passage.now.max(now);
        if passage.due.is_none_or(|due| due > now) {
            return Ok(passage.reported > 0);
        }
        passage.due = None;
        while let Some((queue, frame, meta)) = passage.pop() {
            let sent = output.send(&frame.hdr, frame.bytes());
            if matches!(sent, Ok(Sent::Full)) {
                passage.put_back(queue, frame, meta);
                break;
            }
            *units -= 1;
            passage.finish(queue, &meta);
            frames.give(frame);
            left(&meta, matches!(sent, Ok(Sent::Taken)));
            if let Err(error) = sent {
                passage.due = Some(now);
                return Err(error);
            }
        }
        Ok(passage.reported > 0)
    }
}

impl Queues for Line {
    type Frame = Frame;
    type Queue<'a> = LineQueue<'a>;
    #[inline]
    fn queue(&mut self, index: u16) -> Option<LineQueue<'_>> {
        (index < self.queues()).then_some(LineQueue { line: self, index })
    }
}

/// One queue of a line.
#[derive(Debug)]
pub struct LineQueue<'a> {
    line: &'a mut Line,
    index: u16,
}

impl TxQueue for LineQueue<'_> {
    type Frame = Frame;

    fn reserve(&mut self, want: u32) -> u32 {
        match &mut self.line.device {
            Device::Wire(wire) => wire.ring(self.index).map_or(0, |mut ring| ring.reserve(want)),
            Device::Passage(p) => {
                let held = p.queues.get(usize::from(self.index)).map_or(PASSAGE_MAX, |q| q.held.len());
                want.min(u32::try_from(PASSAGE_MAX.saturating_sub(held)).unwrap_or(u32::MAX))
            }
        }
    }
    fn push(&mut self, mut frame: Frame, m: &Meta) {
        self.line.units += 1;
        self.line.left(m);
        let network = frame.network;
        if m.marked {
            headers::set_ce(frame.bytes_mut(), network);
        }
        if m.washed {
            headers::clear_dscp(frame.bytes_mut(), network);
        }
        match &mut self.line.device {
            Device::Wire(wire) => {
                if let Some(mut ring) = wire.ring(self.index) {
                    ring.push(frame, m);
                }
            }
            Device::Passage(passage) => passage.push(self.index, frame, m),
        }
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        match &mut self.line.device {
            Device::Wire(wire) => wire.ring(self.index).map_or(Ok(()), |mut ring| ring.commit()),
            Device::Passage(passage) => {
                passage.due = Some(passage.now);
                Ok(())
            }
        }
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        match &mut self.line.device {
            Device::Wire(wire) => {
                if let Some(mut ring) = wire.ring(self.index) {
                    ring.reap(sink);
                }
            }
            Device::Passage(passage) => {
                let Some(queue) = passage.queues.get_mut(usize::from(self.index)) else { return };
                let (packets, bytes) = (std::mem::take(&mut queue.packets), std::mem::take(&mut queue.bytes));
                if packets > 0 {
                    passage.reported -= 1;
                    sink(Completed { packets, bytes, frame: None });
                }
            }
        }
    }
    fn corrupt(&mut self, frame: &mut Frame, bit: u32) {
        flip_bit(frame.bytes_mut(), bit);
    }
    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        self.line.frames.copy(frame)
    }
    fn discard(&mut self, frame: Frame, m: &Meta, _: DropReason) {
        self.line.left(m);
        self.line.discard(frame);
    }
}

impl Line {
    /// A packet is not in the qdiscs any more.
    #[inline]
    pub fn left(&mut self, m: &Meta) {
        if let Some(gate) = &mut self.gate {
            gate.left(m.hash, Load::of(m));
        }
    }

    /// A frame that does not leave.
    pub fn discard(&mut self, frame: Frame) {
        self.dropped += 1;
        self.frames.give(frame);
    }
}
