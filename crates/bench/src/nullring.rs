//! A device of the least possible cost: descriptors are written into a ring, a counter stands for
//! the doorbell, and a shown frame is finished at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use txweir_core::Meta;
use txweir_core::path::device::{Completed, DeviceError, TxQueue};

/// Descriptors of the ring.
const SLOTS: usize = 1024;

/// The ring. A descriptor is a frame's address and its length.
pub(crate) struct NullRing<F> {
    ring: Box<[Option<(F, u32)>; SLOTS]>,
    pushed: u64,
    bytes: u64,
    reaped: (u64, u64),
    doorbell: Arc<AtomicU64>,
}

impl<F: Copy> NullRing<F> {
    /// Creates a ring, and its doorbell: the number of frames that it was shown.
    pub(crate) fn new() -> (Self, Arc<AtomicU64>) {
        let doorbell = Arc::new(AtomicU64::new(0));
        let ring = Box::new([None; SLOTS]);
        (Self { ring, pushed: 0, bytes: 0, reaped: (0, 0), doorbell: Arc::clone(&doorbell) }, doorbell)
    }
}

impl<F: Copy> TxQueue for NullRing<F> {
    type Frame = F;
    #[inline]
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    #[inline]
    fn push(&mut self, frame: F, m: &Meta) {
        self.ring[self.pushed as usize & (SLOTS - 1)] = Some((frame, m.wire_len));
        self.pushed += 1;
        self.bytes += u64::from(m.wire_len);
    }
    #[inline]
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.doorbell.store(self.pushed, Ordering::Release);
        Ok(())
    }
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<F>)) {
        let (packets, bytes) = (self.pushed - self.reaped.0, self.bytes - self.reaped.1);
        if packets > 0 {
            self.reaped = (self.pushed, self.bytes);
            let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
            sink(Completed { packets: narrow(packets), bytes: narrow(bytes), frame: None });
        }
    }
}
