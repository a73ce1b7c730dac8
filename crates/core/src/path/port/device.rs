//! Adapters that show the queues of a device to a path as one queue.

use core::fmt;

use super::{Flight, Queues};
use crate::packet::meta::Meta;
use crate::packet::reason::DropReason;
use crate::path::device::{Completed, DeviceError, TxQueue};

/// One queue of a device; if it does not exist, a queue that promises nothing.
pub(super) struct One<'a, D: Queues>(Option<D::Queue<'a>>)
where
    D: 'a;

impl<'a, D: Queues> One<'a, D> {
    pub(super) fn of(dev: &'a mut D, queue: u16) -> Self {
        Self(dev.queue(queue))
    }
}

impl<D: Queues> TxQueue for One<'_, D> {
    type Frame = D::Frame;
    #[inline]
    fn reserve(&mut self, want: u32) -> u32 {
        self.0.as_mut().map_or(0, |q| q.reserve(want))
    }
    #[inline]
    fn push(&mut self, frame: D::Frame, m: &Meta) {
        if let Some(q) = &mut self.0 {
            q.push(frame, m);
        }
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.0.as_mut().map_or(Ok(()), TxQueue::commit)
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<D::Frame>)) {
        if let Some(q) = &mut self.0 {
            q.reap(sink);
        }
    }
    fn is_done_at_commit(&mut self) -> bool {
        self.0.as_mut().is_some_and(TxQueue::is_done_at_commit)
    }
    fn copy(&mut self, frame: &D::Frame) -> Option<D::Frame> {
        self.0.as_mut()?.copy(frame)
    }
    fn corrupt(&mut self, frame: &mut D::Frame, bit: u32) {
        if let Some(q) = &mut self.0 {
            q.corrupt(frame, bit);
        }
    }
    fn discard(&mut self, frame: D::Frame, m: &Meta, reason: DropReason) {
        if let Some(q) = &mut self.0 {
            q.discard(frame, m, reason);
        }
    }
}

/// Packets that a promise has to hold for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// One packet, for this queue.
    In(u16),
    /// Packets for any queue: nothing while one is full, because the next packet may be for that
    /// one.
    InAll,
    /// Packets for any queue that is not full. The path knows that this many queues are full
    /// (`TxPath::stopped_queues`), and its root keeps the packets for them. Once another queue is
    /// full, the promise is nothing until the path knows.
    InAllBut(u16),
}

/// All queues of a device, for the one path that feeds them. A packet goes to the queue that was
/// chosen for it.
pub struct All<'a, D> {
    pub(super) room: Room,
    pub(super) dev: &'a mut D,
    pub(super) queues: u16,
    /// For each queue, the packets handed over and not yet finished.
    pub(super) in_flight: &'a mut [u64],
}

impl<'a, D> All<'a, D> {
    /// Returns the queues of a device as one, for a path that feeds all of them; `flight` has an
    /// entry for each. Its `reap` does nothing: each queue is reaped by itself.
    pub fn of(dev: &'a mut D, flight: &'a mut Flight) -> Self {
        let queues = u16::try_from(flight.packets.len()).unwrap_or(u16::MAX);
        Self::any(dev, queues, &mut flight.packets)
    }
    /// Returns all queues, for packets to any of them.
    pub(super) const fn any(dev: &'a mut D, queues: u16, in_flight: &'a mut [u64]) -> Self {
        Self { room: Room::InAll, dev, queues, in_flight }
    }
}

impl<D> fmt::Debug for All<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("All").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl<D: Queues> TxQueue for All<'_, D> {
    type Frame = D::Frame;
    fn reserve(&mut self, want: u32) -> u32 {
        if let Room::In(queue) = self.room {
            return self.dev.queue(queue).map_or(0, |mut q| q.reserve(want));
        }
        let (mut least, mut full) = (None, 0);
        for queue in 0..self.queues {
            match self.dev.queue(queue).map_or(0, |mut q| q.reserve(want)) {
                0 => full += 1,
                room => least = Some(least.map_or(room, |l: u32| l.min(room))),
            }
        }
        let stopped = if let Room::InAllBut(stopped) = self.room { stopped } else { 0 };
        if full == stopped { least.unwrap_or(0) } else { 0 }
    }
    fn push(&mut self, frame: D::Frame, m: &Meta) {
        let queue = if m.queue < self.queues { m.queue } else { 0 };
        if let Some(mut q) = self.dev.queue(queue) {
            q.push(frame, m);
        }
        if let Some(n) = self.in_flight.get_mut(usize::from(queue)) {
            *n += 1;
        }
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        let mut done = Ok(());
        for queue in 0..self.queues {
            if let Some(mut q) = self.dev.queue(queue) {
                done = done.and(q.commit());
            }
        }
        done
    }
    /// Does nothing: each queue is reaped by itself (`Port::reap`).
    fn reap(&mut self, _sink: &mut dyn FnMut(Completed<D::Frame>)) {}
    fn is_done_at_commit(&mut self) -> bool {
        self.dev.queue(0).is_some_and(|mut q| q.is_done_at_commit())
    }
    fn copy(&mut self, frame: &D::Frame) -> Option<D::Frame> {
        self.dev.queue(0)?.copy(frame)
    }
    fn corrupt(&mut self, frame: &mut D::Frame, bit: u32) {
        if let Some(mut q) = self.dev.queue(0) {
            q.corrupt(frame, bit);
        }
    }
    fn discard(&mut self, frame: D::Frame, m: &Meta, reason: DropReason) {
        if let Some(mut q) = self.dev.queue(if m.queue < self.queues { m.queue } else { 0 }) {
            q.discard(frame, m, reason);
        }
    }
}

/// Takes the finished packets of a queue that no path feeds any more.
pub(super) fn reap_alone<Q: TxQueue>(queue: &mut Q, mut done: impl FnMut(Q::Frame)) -> u32 {
    let mut packets = 0u32;
    queue.reap(&mut |c: Completed<Q::Frame>| {
        packets = packets.saturating_add(c.packets);
        if let Some(frame) = c.frame {
            done(frame);
        }
    });
    packets
}
