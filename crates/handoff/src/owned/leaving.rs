//! `Leaving`: a device that notes the flows of the packets that it gets.

use txweir_core::path::device::{Completed, DeviceError, TxQueue};
use txweir_core::{DropReason, Meta};

/// Most flows that are noted between two wake-ups of senders; the packets behind make room for the
/// first that waits.
const GONE_MAX: usize = 256;

/// A device while senders wait for room. It is reached through a pointer, so that there is one copy
/// of the path's code for it and not one for each sort of device.
pub(super) struct Leaving<'a, F> {
    pub(super) dev: &'a mut (dyn TxQueue<Frame = F> + 'a),
    pub(super) gone: &'a mut Vec<u32>,
}

impl<F> TxQueue for Leaving<'_, F> {
    type Frame = F;
    fn reserve(&mut self, want: u32) -> u32 {
        self.dev.reserve(want)
    }
    fn push(&mut self, frame: F, m: &Meta) {
        if self.gone.len() < GONE_MAX {
            self.gone.push(m.hash);
        }
        self.dev.push(frame, m);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.dev.commit()
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<F>)) {
        self.dev.reap(sink);
    }
    fn is_done_at_commit(&mut self) -> bool {
        self.dev.is_done_at_commit()
    }
    fn copy(&mut self, frame: &F) -> Option<F> {
        self.dev.copy(frame)
    }
    fn corrupt(&mut self, frame: &mut F, bit: u32) {
        self.dev.corrupt(frame, bit);
    }
    fn was_reset(&mut self) {
        self.dev.was_reset();
    }
    fn discard(&mut self, frame: F, m: &Meta, reason: DropReason) {
        self.dev.discard(frame, m, reason);
    }
}
