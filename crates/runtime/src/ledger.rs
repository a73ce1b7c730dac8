//! The frames of a direction by their fate: a sum that holds at every instant.

use txweir_core::text::stats::Counters as _;
use txweir_device::Backend;

use crate::direction::Direction;

txweir_core::stats! {
    /// All frames of a direction at one instant. A super-frame is one frame, and each of its pieces
    /// is one as well. The sum of the first [`Ledger::SOURCES`] counters is the sum of the others.
    pub struct Ledger {
        /// Frames given to the direction: received, copied by actions, or generated.
        submitted: u64,
        /// Pieces that replaced super-frames.
        pieces: u64,
        /// Copies that an emulated link made of frames.
        copies: u64,
        /// Super-frames dropped because their headers do not describe one.
        malformed: u64,
        /// Frames dropped because the buffers were at their budget.
        no_memory: u64,
        /// Frames that the filters of a hook dropped.
        filtered: u64,
        /// Frames that an action took away, or sent elsewhere.
        taken: u64,
        /// Super-frames that pieces replaced.
        cut: u64,
        /// Pieces that were not made: no buffer, or an action has changed the headers so that the
        /// frame cannot be cut.
        unmade: u64,
        /// Frames that the qdiscs dropped, or that were refused on the way into them.
        dropped: u64,
        /// Frames that wait ahead of the qdiscs: for the turn of their flow, or for room.
        waiting: u64 [falls],
        /// Frames that wait in qdiscs.
        queued: u64 [falls],
        /// Frames on the wire and in the device.
        inflight: u64 [falls],
        /// Frames that the device took.
        delivered: u64,
        /// Frames that the device refused, or for which it stayed full for too long.
        lost: u64,
    }
}

impl Ledger {
    /// Number of counters, from the first, that say where frames came from.
    pub const SOURCES: usize = 3;

    /// Returns the number of frames that came, and the number of frames whose fate or place is
    /// known. They are equal.
    #[must_use]
    pub fn sums(&self) -> [u64; 2] {
        let (mut sums, mut at) = ([0; 2], 0);
        self.visit(&mut |_, n| {
            sums[usize::from(at >= Self::SOURCES)] += n;
            at += 1;
        });
        sums
    }
}

impl<D: Backend> Direction<D> {
    /// Returns all its frames by their fate or place.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let (stats, port) = (self.stats(), self.port());
        Ledger {
            submitted: stats.received + stats.malformed + stats.no_memory,
            pieces: stats.pieces,
            copies: port.totals().stats().copies,
            malformed: stats.malformed,
            no_memory: stats.no_memory,
            filtered: stats.filtered,
            taken: stats.taken,
            cut: stats.cut,
            unmade: stats.unmade,
            dropped: stats.dropped - stats.filtered,
            waiting: self.gate().map_or(0, |gate| gate.waiting() as u64) + self.holding() as u64,
            queued: port.totals().backlog().packets,
            inflight: self.frames_in_flight(),
            delivered: stats.delivered,
            lost: stats.lost,
        }
    }
}
