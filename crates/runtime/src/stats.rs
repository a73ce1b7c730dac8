//! The counters of a direction.

use txweir_core::Meta;

txweir_core::stats! {
    /// Counters of a direction. A super-frame is one frame.
    pub struct DirectionStats {
        /// Frames received and understood.
        received: u64,
        /// Bytes of these, after segmentation.
        received_bytes: u64 [of(Bytes)],
        /// Super-frames received whose headers do not describe one; dropped.
        malformed: u64,
        /// Frames dropped on arrival because the buffers were at their budget.
        no_memory: u64,
        /// Frames that the qdiscs dropped, or that were refused on the way into them.
        dropped: u64,
        /// Frames among the dropped ones that the filters of a hook dropped.
        filtered: u64,
        /// Frames that an action took away, or sent elsewhere.
        taken: u64,
        /// Super-frames that were cut because a qdisc takes them only in pieces.
        cut: u64,
        /// Pieces into which these were cut, those included that were not made.
        pieces: u64,
        /// Pieces that were not made: no buffer, or an action has changed the headers so that the
        /// frame cannot be cut.
        unmade: u64,
        /// Frames that have left the wire.
        departed: u64,
        /// Bytes of these, after segmentation.
        departed_bytes: u64 [of(Bytes)],
        /// Time during which the wire was sending, nanoseconds.
        busy_ns: u64 [of(Nanos)],
        /// Frames that left the wire with a CE mark from a qdisc.
        marked: u64,
        /// Frames that the output took.
        delivered: u64,
        /// Frames that the output refused, or for which it stayed full for too long.
        lost: u64,
        /// Times that the output finished no frame for so long that those it held were given up.
        timeouts: u64,
        /// Most bytes that the wire, or the device without one, held.
        held_max: u64 [falls] [of(Bytes)],
        /// Largest delay between the time of an event of the wire or of a qdisc and its processing,
        /// nanoseconds.
        late_max_ns: u64 [falls] [of(Nanos)],
    }
}

impl DirectionStats {
    /// Counts a frame that has left the wire.
    pub(crate) fn left_wire(&mut self, meta: &Meta, busy_ns: u64) {
        self.departed += 1;
        self.departed_bytes += u64::from(meta.wire_len);
        self.marked += u64::from(meta.marked);
        self.busy_ns += busy_ns;
    }
}

txweir_core::stats! {
    /// Frames that crossed from one owner's direction to another's.
    pub struct Crossed {
        /// Frames that came from the directions of other workers.
        from_others: u64,
        /// Frames that went to the directions of other workers.
        to_others: u64,
        /// Frames dropped on the way: the mailbox of the other worker was full, or its buffers were
        /// at their budget.
        refused: u64,
    }
}
