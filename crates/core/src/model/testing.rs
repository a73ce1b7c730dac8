//! A device for tests and examples that only keeps lists.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::packet::meta::Meta;
use crate::packet::reason::DropReason;
use crate::path::device::{Completed, DeviceError, TxQueue};

/// A device with a number of slots that finishes packets on request.
#[derive(Debug)]
pub struct VecDevice<F> {
    slots: u32,
    pending: VecDeque<u32>,
    finished: VecDeque<u32>,
    sent: Vec<F>,
    metas: Vec<Meta>,
    discarded: Vec<(F, DropReason)>,
    doorbells: u64,
    flipped: Vec<u32>,
}

impl<F> VecDevice<F> {
    /// Returns a device with this number of slots.
    pub fn with_slots(slots: u32) -> Self {
        Self {
            slots,
            pending: VecDeque::new(),
            finished: VecDeque::new(),
            sent: Vec::new(),
            metas: Vec::new(),
            discarded: Vec::new(),
            doorbells: 0,
            flipped: Vec::new(),
        }
    }
    /// Finishes the `n` oldest packets (fewer if there are fewer): the next reap reports them.
    pub fn finish(&mut self, n: usize) {
        let n = n.min(self.pending.len());
        self.finished.extend(self.pending.drain(..n));
    }
    /// Returns the number of packets pushed and not yet reaped.
    pub fn in_flight(&self) -> usize {
        self.pending.len() + self.finished.len()
    }
    /// Returns every frame sent, in order.
    pub fn sent(&self) -> &[F] {
        &self.sent
    }
    /// Returns the metadata of every frame sent, in order.
    pub fn metas(&self) -> &[Meta] {
        &self.metas
    }
    /// Returns every frame dropped, with its reason.
    pub fn discarded(&self) -> &[(F, DropReason)] {
        &self.discarded
    }
    /// Returns every bit that was to be flipped, in order.
    pub fn flipped(&self) -> &[u32] {
        &self.flipped
    }
    /// Returns the number of doorbells rung.
    pub fn doorbells(&self) -> u64 {
        self.doorbells
    }
    /// Changes the number of slots, as a throttled device does.
    pub fn set_slots(&mut self, slots: u32) {
        self.slots = slots;
    }
}

impl<F: Clone> TxQueue for VecDevice<F> {
    type Frame = F;

    fn reserve(&mut self, want: u32) -> u32 {
        want.min(self.slots.saturating_sub(self.in_flight() as u32))
    }
    fn push(&mut self, frame: F, m: &Meta) {
        self.pending.push_back(m.wire_len);
        self.sent.push(frame);
        self.metas.push(*m);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.doorbells += 1;
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<F>)) {
        for bytes in self.finished.drain(..) {
            sink(Completed { packets: 1, bytes, frame: None });
        }
    }
    fn corrupt(&mut self, _frame: &mut F, bit: u32) {
        self.flipped.push(bit);
    }
    fn copy(&mut self, frame: &F) -> Option<F> {
        Some(frame.clone())
    }
    fn discard(&mut self, frame: F, _m: &Meta, reason: DropReason) {
        self.discarded.push((frame, reason));
    }
}
