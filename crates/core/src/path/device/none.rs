//! `NoDevice`: the owner of the frames of a path that has no device.

use core::fmt;
use core::marker::PhantomData;

use crate::packet::meta::Meta;
use crate::packet::reason::DropReason;
use crate::path::device::{Completed, DeviceError, TxQueue};

/// A device that promises no slot. A path that has no device yet is configured and filled with it;
/// [`TxPath::pull`](crate::TxPath::pull) takes the packets out.
///
/// ```
/// use txweir_core::{Admitted, DropReason, Instant, Meta, NoDevice, PathConfig, Role, TxPath};
///
/// let config = PathConfig { role: Role::Forwarder, ..PathConfig::default() };
/// let mut path = TxPath::new(config)?.with_qdisc("pfifo", &["limit", "1"])?;
/// let mut free = vec![];
/// let mut none = NoDevice::giving_back(|buffer: u32, _, _| free.push(buffer));
/// assert_eq!(path.submit(Instant::ZERO, 7, Meta::new(100), &mut none), Admitted::Queued);
/// let second = path.submit(Instant::ZERO, 8, Meta::new(100), &mut none);
/// assert_eq!((second, free), (Admitted::Dropped(DropReason::Overlimit), vec![8]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NoDevice<F, B = fn(F, &Meta, DropReason)> {
    back: B,
    frames: PhantomData<fn(F)>,
}

impl<F> NoDevice<F> {
    /// Returns one that drops the frames of dropped packets.
    #[must_use]
    pub const fn new() -> Self {
        Self { back: |_, _, _| {}, frames: PhantomData }
    }
}

impl<F> Default for NoDevice<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F, B: FnMut(F, &Meta, DropReason)> NoDevice<F, B> {
    /// Returns one that gives the frame of each dropped packet to `back`, with the reason: for
    /// frames that are numbers or addresses of buffers.
    pub const fn giving_back(back: B) -> Self {
        Self { back, frames: PhantomData }
    }
}

impl<F, B> fmt::Debug for NoDevice<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoDevice")
    }
}

impl<F, B: FnMut(F, &Meta, DropReason)> TxQueue for NoDevice<F, B> {
    type Frame = F;
    #[inline]
    fn reserve(&mut self, _: u32) -> u32 {
        0
    }
    /// Takes back a packet for which no slot was promised: as a dropped one.
    fn push(&mut self, frame: F, m: &Meta) {
        (self.back)(frame, m, DropReason::Purged);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, _: &mut dyn FnMut(Completed<F>)) {}
    fn is_done_at_commit(&mut self) -> bool {
        true
    }
    fn discard(&mut self, frame: F, m: &Meta, reason: DropReason) {
        (self.back)(frame, m, reason);
    }
}
