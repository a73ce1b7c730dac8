//! `TxPath::pull`: packets for the caller itself, without a device: a poll loop that fills the
//! descriptors of a ring, a simulator.

use crate::base::time::Instant;
use crate::packet::meta::Meta;
use crate::packet::reason::DropReason;
use crate::path::device::{Completed, DeviceError, TxQueue};
use crate::path::dql::Dql;
use crate::path::txpath::{TxPath, Wake};

impl<F> TxPath<F> {
    /// Takes at most `max` packets out of the qdiscs and hands each to `each`, in the order and
    /// with the metadata in which `drain` would push them. `Meta::marked` asks for a CE mark on the
    /// bytes, `Meta::washed` for a DSCP of 0. Returns the time of the next call, as `drain` does:
    /// `Wake::More` says that `max` packets were taken and others wait.
    ///
    /// `owner` stands for the owner of the frames alone: its `discard` gets those of dropped
    /// packets, its `copy` and `corrupt` serve emulated links. It is asked for no slot and no
    /// doorbell, so [`NoDevice`](crate::path::device::NoDevice) serves here and in `submit`, which
    /// then queues every packet.
    ///
    /// A pulled packet is finished at once. The counters show it as sent, and one doorbell for a
    /// call that hands any over. The byte limit does not count it and stops none, because nothing
    /// of it is in flight; the packets that a device has meanwhile, and a doorbell that is due to
    /// them, stay as they are. `Transmitter::freeze` stops pulls too: `Wake::Device`.
    ///
    /// ```
    /// use txweir_core::{Instant, Meta, NoDevice, PathConfig, TxPath, Wake};
    ///
    /// let config = PathConfig { bql: None, ..PathConfig::default() };
    /// let mut path = TxPath::new(config)?.with_qdisc("prio", &[])?;
    /// let (now, mut none) = (Instant::ZERO, NoDevice::new());
    /// for (frame, priority) in [(1, 2), (2, 2), (3, 6)] {
    ///     let _ = path.submit(now, frame, Meta::new(100).priority(priority), &mut none);
    /// }
    /// let mut burst = Vec::with_capacity(2);
    /// assert_eq!(path.pull(now, 2, &mut none, |frame, _| burst.push(frame)), Wake::More);
    /// assert_eq!(burst, [3, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pull<D>(&mut self, now: Instant, max: u32, owner: &mut D, each: impl FnMut(F, &Meta)) -> Wake
    where
        D: TxQueue<Frame = F>,
    {
        Apart::of(self).path.drain(now, max, &mut Handing { owner, each })
    }
}

/// A path whose state towards its device is set apart, until this value ends: by a panic too.
struct Apart<'a, F> {
    path: &'a mut TxPath<F>,
    limit: Option<Dql>,
    uncommitted: bool,
}

impl<'a, F> Apart<'a, F> {
    fn of(path: &'a mut TxPath<F>) -> Self {
        let (limit, uncommitted) = path.tx.set_apart();
        Self { path, limit, uncommitted }
    }
}

impl<F> Drop for Apart<'_, F> {
    fn drop(&mut self) {
        self.path.tx.put_back(self.limit.take(), self.uncommitted);
    }
}

/// A device of any number of slots that hands each packet on at once.
struct Handing<'a, D, E> {
    owner: &'a mut D,
    each: E,
}

impl<D: TxQueue, E: FnMut(D::Frame, &Meta)> TxQueue for Handing<'_, D, E> {
    type Frame = D::Frame;
    #[inline]
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    #[inline]
    fn push(&mut self, frame: D::Frame, m: &Meta) {
        (self.each)(frame, m);
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, _: &mut dyn FnMut(Completed<D::Frame>)) {}
    fn is_done_at_commit(&mut self) -> bool {
        true
    }
    fn copy(&mut self, frame: &D::Frame) -> Option<D::Frame> {
        self.owner.copy(frame)
    }
    fn corrupt(&mut self, frame: &mut D::Frame, bit: u32) {
        self.owner.corrupt(frame, bit);
    }
    fn discard(&mut self, frame: D::Frame, m: &Meta, reason: DropReason) {
        self.owner.discard(frame, m, reason);
    }
}
