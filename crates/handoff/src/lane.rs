//! `Lane`: the part of a device that one queue of a port feeds: its own queue where each queue has
//! qdiscs of its own; all queues of the device, or none, where the qdiscs of one queue feed all.
//!
//! A sender may have chosen a queue just before a change left that queue without a device. Its
//! packet passes through the empty lane to the queue that feeds the device now.

use std::collections::VecDeque;
use std::fmt;

use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::path::port::{All, Flight};
use txweir_core::{DropReason, Meta};

/// Sends a packet by another queue; gives the frame back if there is no room.
pub(crate) type Forward<F> = Box<dyn FnMut(F, Meta) -> Option<F> + Send>;

/// A part of a device: see [`SharedControl`](crate::SharedControl).
pub struct Lane<D: TxQueue> {
    devs: Vec<D>,
    /// For each of them, the packets that it has.
    flight: Flight,
    /// The way of late packets, while there is no device.
    forward: Forward<D::Frame>,
    /// Late packets for which there was no room.
    late: VecDeque<(D::Frame, Meta)>,
}

impl<D: TxQueue> fmt::Debug for Lane<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("devices", &self.devs.len())
            .field("flight", &self.flight)
            .finish_non_exhaustive()
    }
}

impl<D: TxQueue> Lane<D> {
    /// Creates the lane of one queue of a device.
    pub(crate) fn new(dev: D) -> Self {
        let forward: Forward<D::Frame> = Box::new(|frame, _| Some(frame));
        Self { devs: vec![dev], flight: Flight::of([(0, 0)]), forward, late: VecDeque::new() }
    }

    /// Sets the way of packets that come while the lane has no device.
    pub(crate) fn set_forward(&mut self, forward: Forward<D::Frame>) {
        self.forward = forward;
    }

    /// Returns the queues of the device that the lane feeds, each with its number in the lane.
    pub fn devices(&mut self) -> &mut [D] {
        &mut self.devs
    }

    /// Takes the queues of the device out, each with the number of packets that it has.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (D, u64)> {
        let flight = std::mem::replace(&mut self.flight, Flight::of([]));
        (0..).zip(std::mem::take(&mut self.devs)).map(move |(at, dev)| (dev, flight.queue(at).0))
    }

    /// Iterates over the packets that each queue of the device has.
    pub(crate) fn counted(&self) -> impl Iterator<Item = u64> + '_ {
        (0..).zip(&self.devs).map(|(at, _)| self.flight.queue(at).0)
    }

    /// Puts queues of the device in.
    pub(crate) fn put(&mut self, all: impl IntoIterator<Item = (D, u64)>) {
        let (devs, flight): (Vec<D>, Vec<_>) = all.into_iter().map(|(dev, n)| (dev, (n, 0))).unzip();
        (self.devs, self.flight) = (devs, Flight::of(flight));
    }

    /// Takes the late packets out for which there was no room elsewhere.
    pub(crate) fn take_late(&mut self) -> VecDeque<(D::Frame, Meta)> {
        std::mem::take(&mut self.late)
    }

    /// Sends late packets on, as far as there is room.
    fn send_late(&mut self) {
        // Bound: each turn sends a packet.
        while let Some((frame, meta)) = self.late.pop_front() {
            if let Some(frame) = (self.forward)(frame, meta) {
                return self.late.push_front((frame, meta));
            }
        }
    }

    /// Returns the queue of the device that a packet is for; there is one at least.
    fn device_of(&mut self, m: &Meta) -> Option<&mut D> {
        let at = if self.devs.len() > usize::from(m.queue) { usize::from(m.queue) } else { 0 };
        self.devs.get_mut(at)
    }
}

impl<D: TxQueue> TxQueue for Lane<D> {
    type Frame = D::Frame;

    #[inline]
    fn reserve(&mut self, want: u32) -> u32 {
        match &mut self.devs[..] {
            [dev] => dev.reserve(want),
            [] => {
                self.send_late();
                if self.late.is_empty() { want } else { 0 }
            }
            _ => All::of(&mut self.devs, &mut self.flight).reserve(want),
        }
    }
    #[inline]
    fn push(&mut self, frame: D::Frame, m: &Meta) {
        match &mut self.devs[..] {
            [dev] => {
                self.flight.posted(0, 1);
                dev.push(frame, m);
            }
            [] => {
                self.late.push_back((frame, *m));
                self.send_late();
            }
            _ => All::of(&mut self.devs, &mut self.flight).push(frame, m),
        }
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        let mut done = Ok(());
        for (at, dev) in (0..).zip(&mut self.devs) {
            done = done.and(dev.commit());
            if dev.is_done_at_commit() {
                self.flight.empty(at);
            }
        }
        done
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<D::Frame>)) {
        if self.devs.is_empty() {
            return self.send_late();
        }
        for (at, dev) in (0..).zip(&mut self.devs) {
            let mut packets = 0;
            dev.reap(&mut |c| {
                packets += u64::from(c.packets);
                sink(c);
            });
            self.flight.finished(at, packets);
        }
    }
    fn is_done_at_commit(&mut self) -> bool {
        // A packet is another queue's as soon as it has left an empty lane.
        self.devs.first_mut().is_none_or(TxQueue::is_done_at_commit)
    }
    fn copy(&mut self, frame: &D::Frame) -> Option<D::Frame> {
        self.devs.first_mut()?.copy(frame)
    }
    fn corrupt(&mut self, frame: &mut D::Frame, bit: u32) {
        if let Some(dev) = self.devs.first_mut() {
            dev.corrupt(frame, bit);
        }
    }
    fn was_reset(&mut self) {
        for (at, dev) in (0..).zip(&mut self.devs) {
            dev.was_reset();
            self.flight.empty(at);
        }
    }
    fn discard(&mut self, frame: D::Frame, m: &Meta, reason: DropReason) {
        if let Some(dev) = self.device_of(m) {
            dev.discard(frame, m, reason);
        }
    }
}
