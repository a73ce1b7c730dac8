//! `Flight`: the packets that the device of a port has, and the fence after a change of the queues:
//! nothing leaves until the device has finished the packets from before the change.

use alloc::vec::Vec;

/// The packets that a port has handed to its device, by queue.
#[derive(Debug)]
pub struct Flight {
    /// For each queue of the device, the packets handed over and not yet finished.
    pub(super) packets: Vec<u64>,
    /// For each queue, those of these packets that are from before the queues were changed.
    before: Vec<u64>,
}

impl Flight {
    pub(super) fn new(queues: u16) -> Self {
        let none = alloc::vec![0; usize::from(queues)];
        Self { packets: none.clone(), before: none }
    }
    /// Returns the number of packets handed to the device and not yet finished, of all queues.
    pub fn packets(&self) -> u64 {
        self.packets.iter().sum()
    }
    /// True while nothing leaves because of a change of the queues.
    pub fn is_fenced(&self) -> bool {
        self.before.iter().any(|n| *n > 0)
    }
    /// Raises the fence: a device of this many queues is to finish all packets that it has.
    pub(super) fn fence(&mut self, queues: u16) {
        // Removed queues may still have packets in flight.
        let known = self.packets.len().max(usize::from(queues));
        self.packets.resize(known, 0);
        self.before.clone_from(&self.packets);
    }
    /// Books all packets of a queue as finished; true if the last of them ended the fence.
    pub(super) fn empty(&mut self, queue: u16) -> bool {
        self.finished(queue, u64::MAX)
    }
    /// Books packets of a queue that the device has finished; true if the last of them ended the
    /// fence.
    pub(super) fn finished(&mut self, queue: u16, packets: u64) -> bool {
        let at = usize::from(queue);
        let Some(in_flight) = self.packets.get_mut(at) else { return false };
        *in_flight = in_flight.saturating_sub(packets);
        let before = &mut self.before[at];
        let was_fenced = *before > 0;
        *before = before.saturating_sub(packets);
        was_fenced && !self.is_fenced()
    }
}
