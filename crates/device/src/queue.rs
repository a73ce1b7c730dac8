//! Transmit queues over system calls: frames wait in a batch, and a doorbell hands the whole batch
//! to the kernel.
//!
//! A packet socket takes a batch by one `sendmmsg`, a TAP device by one `writev` a frame. Frames
//! for which the kernel has no room (`EAGAIN`) stay in the batch, in order, ahead of all that are
//! pushed later; the next doorbell tries again. A frame that the kernel refuses is lost and counted
//! by its reason ([`Counters`](crate::Counters)). `ENOBUFS` is such a reason, because a packet
//! socket answers it after the interface's own queue has dropped the frame.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use txweir_core::path::device::{Completed, DeviceError, TxQueue, flip_bit};
use txweir_core::{DropReason, Meta};

use crate::backend::{Backend, Fates, Finished, Source, Store};
use crate::counters::{Counters, Rest};
use crate::frame::{BATCH_MAX, FrameRef};
use crate::frames::{Frame, Frames};
use crate::name::IfName;
use crate::nic::{Calls, Nic};
use crate::vnet::VnetHdr;

/// Most frames that a queue holds: several batches, so that a paced wire whose output is full for a
/// moment has room.
pub const PLACES: usize = 256;

/// A transmit queue over an interface that is driven by system calls.
#[derive(Debug)]
pub struct Batched<C> {
    calls: C,
    frames: Frames,
    /// Frames that were pushed and are not gone, in order, each with its bytes on the wire.
    batch: VecDeque<(Frame, u32)>,
    /// Number of frames in the batch that found no room at the last doorbell.
    shown: usize,
    finished: Finished,
}

impl<C: Calls> Batched<C> {
    /// Makes a queue over this interface, with at most `memory` bytes of frame buffers.
    #[must_use]
    pub fn new(calls: C, memory: usize) -> Self {
        let batch = VecDeque::with_capacity(PLACES);
        Self { calls, frames: Frames::new(memory), batch, shown: 0, finished: Finished::default() }
    }

    /// Returns the interface.
    pub const fn calls(&self) -> &C {
        &self.calls
    }

    /// Finishes the first `gone` frames of the batch, of which the interface took `taken`.
    fn finish(&mut self, gone: usize, taken: usize) {
        for (at, (frame, wire_len)) in self.batch.drain(..gone.min(self.batch.len())).enumerate() {
            self.finished.add(wire_len, at < taken);
            self.frames.give(frame);
        }
    }
}

impl<C: Calls> TxQueue for Batched<C> {
    type Frame = Frame;

    fn reserve(&mut self, want: u32) -> u32 {
        let free = PLACES.saturating_sub(self.batch.len());
        want.min(u32::try_from(free).unwrap_or(u32::MAX))
    }

    fn push(&mut self, mut frame: Frame, m: &Meta) {
        let beside = *frame.beside();
        beside.mark(frame.bytes_mut(), m);
        self.batch.push_back((frame, m.wire_len));
    }

    fn commit(&mut self) -> Result<(), DeviceError> {
        // The loop is bounded: each round takes frames off the batch, or is the last one.
        while !self.batch.is_empty() {
            let mut refs = [FrameRef { hdr: VnetHdr::default(), bytes: &[] }; BATCH_MAX];
            let count = self.batch.len().min(BATCH_MAX);
            for (to, (frame, _)) in refs.iter_mut().zip(&self.batch) {
                *to = frame.as_ref();
            }
            let sent = self.calls.send_batch(&refs[..count]);
            self.finish(sent.gone(), sent.taken);
            match sent.rest {
                Rest::None => {}
                Rest::Full => break,
                Rest::Gone(error) => {
                    self.abandon();
                    return Err(DeviceError(error.to_string()));
                }
            }
        }
        self.shown = self.batch.len();
        Ok(())
    }

    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Frame>)) {
        self.finished.reap(sink);
    }

    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        self.frames.copy(frame)
    }

    fn corrupt(&mut self, frame: &mut Frame, bit: u32) {
        flip_bit(frame.bytes_mut(), bit);
    }

    fn discard(&mut self, frame: Frame, _: &Meta, _: DropReason) {
        self.frames.give(frame);
    }
}

impl<C: Calls> Backend for Batched<C> {
    type Store = Frames;
    fn store(&mut self) -> &mut Frames {
        &mut self.frames
    }
    fn is_full(&self) -> bool {
        self.shown > 0
    }
    fn take_fates(&mut self) -> Fates {
        self.finished.take_fates()
    }
    fn abandon(&mut self) {
        self.finish(self.batch.len(), 0);
        self.shown = 0;
        self.calls.abandoned();
    }
}

impl<C: Calls> Source for Batched<C> {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        self.calls.recv(room)
    }
}

impl<C: Calls> AsFd for Batched<C> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.calls.as_fd()
    }
}

impl<C: Calls> Nic for Batched<C> {
    fn kind(&self) -> &'static str {
        self.calls.kind()
    }
    fn name(&self) -> &IfName {
        self.calls.name()
    }
    fn counters(&mut self) -> Counters {
        self.calls.counters()
    }
    fn is_up(&self) -> io::Result<bool> {
        self.calls.is_up()
    }
    fn comes_up(&self) -> String {
        self.calls.comes_up()
    }
    fn attend(&mut self) -> io::Result<()> {
        self.calls.attend()
    }
    fn senders_wait(&self) -> bool {
        self.calls.senders_wait()
    }
    fn has_frames(&self) -> bool {
        self.calls.has_frames()
    }
    fn first_may_have_all(&self) -> bool {
        self.calls.first_may_have_all()
    }
    fn take_news(&mut self) -> Option<String> {
        self.calls.take_news()
    }
    fn mtu(&self) -> io::Result<usize> {
        self.calls.mtu()
    }
}
