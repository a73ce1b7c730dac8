//! The path of a queue while a port of several queues is changed: it goes, and another comes.

use std::sync::Arc;

use txweir_core::path::device::TxQueue;
use txweir_core::{Admitted, Meta, TxPath};

use crate::fence::Fence;
use crate::owned::Owned;

impl<D: TxQueue> Owned<D> {
    /// Puts another path in the place of this one, whose device has this many packets. Returns the
    /// old path. Freezes stay; the fence of a change, with its number, is one of them.
    pub(crate) fn exchange(
        &mut self,
        path: TxPath<D::Frame>,
        in_flight: u64,
        fence: Option<(u64, Arc<Fence>)>,
    ) -> TxPath<D::Frame> {
        let old = std::mem::replace(&mut self.path, path);
        self.earlier = in_flight.wrapping_add(self.counts.reaped).wrapping_sub(self.path.stats().tx_packets);
        // The counts of the new path say nothing about room that the old one had.
        (self.path_full, self.room_from) = (false, 0);
        let was_fenced = self.fenced.is_some();
        let freezes = self.frozen.saturating_sub(u32::from(was_fenced));
        self.frozen = freezes + u32::from(fence.is_some());
        (self.fenced, self.fence) = fence.unzip();
        self.fence = self.fence.take().filter(|_| in_flight > 0);
        match self.frozen {
            0 if was_fenced => self.path.tx_mut().thaw(),
            // Other code may have frozen the path.
            0 => {}
            _ => self.path.tx_mut().freeze(),
        }
        old
    }

    /// Prepares the path for another owner: takes listed packets in, as far as there is room, and
    /// announces to the device the packets that it was given.
    pub(crate) fn settle(&mut self) {
        // Bound: the places of the list.
        self.admit_listed(u32::try_from(self.list.places()).unwrap_or(u32::MAX));
        self.path.doorbell(&mut self.dev);
    }

    /// True while nothing leaves because of a change of the queues.
    pub(crate) const fn is_fenced(&self) -> bool {
        self.fenced.is_some()
    }

    /// Takes a packet in whose sender is not there any more.
    pub(crate) fn enter_late(&mut self, frame: D::Frame, meta: Meta) {
        match self.path.submit(self.now, frame, meta, &mut self.dev) {
            Admitted::Full(frame) => self.drop_late(frame, &meta),
            Admitted::Cut(frame, max) => self.cut(frame, &meta, max),
            Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => {}
        }
    }

    /// Drops a packet whose sender is not there any more, and counts it.
    pub(crate) fn drop_late(&mut self, frame: D::Frame, meta: &Meta) {
        self.asker_has_gone(frame, meta);
    }

    /// Ends the fence of the change of this number.
    pub(crate) fn unfence(&mut self, change: u64) {
        if self.fenced == Some(change) {
            self.fenced = None;
            self.thaw();
        }
    }
}
