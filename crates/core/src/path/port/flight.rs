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
    /// Returns the packets of a device whose queues have these: handed over and not yet finished,
    /// and those of them from before a change of the queues that are still to be finished.
    pub fn of(queues: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let (packets, before) =
            queues.into_iter().map(|(packets, before)| (packets, before.min(packets))).unzip();
        Self { packets, before }
    }
    /// Returns both numbers of a queue: see `of`.
    pub fn queue(&self, queue: u16) -> (u64, u64) {
        let at = usize::from(queue);
        let of = |all: &[u64]| all.get(at).copied().unwrap_or(0);
        (of(&self.packets), of(&self.before))
    }
    /// Books packets that were handed to a queue.
    #[inline]
    pub fn posted(&mut self, queue: u16, packets: u64) {
        if let Some(n) = self.packets.get_mut(usize::from(queue)) {
            *n += packets;
        }
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
    pub fn empty(&mut self, queue: u16) -> bool {
        self.finished(queue, u64::MAX)
    }
    /// Books packets of a queue that the device has finished; true if the last of them ended the
    /// fence.
    pub fn finished(&mut self, queue: u16, packets: u64) -> bool {
        let at = usize::from(queue);
        let Some(in_flight) = self.packets.get_mut(at) else { return false };
        *in_flight = in_flight.saturating_sub(packets);
        let before = &mut self.before[at];
        let was_fenced = *before > 0;
        *before = before.saturating_sub(packets);
        was_fenced && !self.is_fenced()
    }
}
