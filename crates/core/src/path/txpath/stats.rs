//! `PathStats`: counters of a transmit path.

crate::stats! {
    /// Counters of a transmit path.
    pub struct PathStats {
        /// Packets that went to the device without waiting.
        direct: u64,
        /// Packets that entered the root qdisc, including pieces that a swap cut.
        queued: u64,
        /// Copies that entered the root qdisc, because an emulated link asked for them.
        copies: u64,
        /// Requested copies of frames that the device does not copy.
        uncopied: u64,
        /// Packets handed to the device, direct ones included.
        tx_packets: u64,
        /// Wire bytes handed to the device.
        tx_bytes: u64 [of(Bytes)],
        /// Times a sender got its frame back because there was no room.
        full: u64,
        /// Times a sender was told to cut a super-packet.
        cut: u64,
        /// Times the device promised no slot while packets waited.
        stop_drv: u64,
        /// Times the byte limit stopped the queue while packets waited.
        stop_stack: u64,
        /// Times waiting senders were woken.
        tx_wake: u64,
        /// Doorbells.
        commits: u64,
        /// Doorbells that the device refused.
        device_errors: u64,
        /// Completions that did not match the posts; the byte limit was reset each time.
        dql_errors: u64,
    }
}

impl PathStats {
    /// Returns the sum of the counters of two paths.
    #[must_use]
    pub const fn plus(&self, o: &Self) -> Self {
        Self {
            direct: self.direct + o.direct,
            queued: self.queued + o.queued,
            copies: self.copies + o.copies,
            uncopied: self.uncopied + o.uncopied,
            tx_packets: self.tx_packets + o.tx_packets,
            tx_bytes: self.tx_bytes + o.tx_bytes,
            full: self.full + o.full,
            cut: self.cut + o.cut,
            stop_drv: self.stop_drv + o.stop_drv,
            stop_stack: self.stop_stack + o.stop_stack,
            tx_wake: self.tx_wake + o.tx_wake,
            commits: self.commits + o.commits,
            device_errors: self.device_errors + o.device_errors,
            dql_errors: self.dql_errors + o.dql_errors,
        }
    }
}
