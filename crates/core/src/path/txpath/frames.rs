//! The end of a path whose owner takes the waiting frames back: `IntoIterator` for `TxPath`.

use alloc::vec::{self, Vec};

use crate::packet::meta::Meta;
use crate::path::device::NoDevice;
use crate::path::txpath::{TxPath, Waiting};

/// The packets that waited on a path that has ended, in the order in which they were admitted, each
/// with its metadata.
#[derive(Debug)]
pub struct Frames<F>(vec::IntoIter<Waiting<F>>);

impl<F> Iterator for Frames<F> {
    type Item = (F, Meta);
    fn next(&mut self) -> Option<(F, Meta)> {
        self.0.next().map(|waiting| (waiting.frame, waiting.meta))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<F> ExactSizeIterator for Frames<F> {}

impl<F> IntoIterator for TxPath<F> {
    type Item = (F, Meta);
    type IntoIter = Frames<F>;

    /// Ends the path and returns the packets that wait, for another path or to free their buffers.
    /// O(n log n) in these; it allocates. Packets that a device has are not among them. A device
    /// whose `discard` is to get the frames instead gets them by [`purge`](Self::purge).
    ///
    /// ```
    /// use txweir_core::{Instant, Meta, NoDevice, PathConfig, TxPath};
    ///
    /// let mut path = TxPath::new(PathConfig::for_socket())?.with_qdisc("prio", &[])?;
    /// for (buffer, priority) in [(7, 2), (8, 6)] {
    ///     let m = Meta::new(1500).priority(priority);
    ///     let _ = path.submit(Instant::ZERO, buffer, m, &mut NoDevice::new());
    /// }
    /// let free: Vec<u32> = path.into_iter().map(|(buffer, _)| buffer).collect();
    /// assert_eq!(free, [7, 8]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn into_iter(mut self) -> Frames<F> {
        let now = self.held.cx.now;
        let mut waiting = Vec::with_capacity(self.held.cx.pool.live());
        self.held.collect_waiting(now, &mut NoDevice::new(), &mut waiting);
        Frames(waiting.into_iter())
    }
}
