//! Counters of cake as a whole; those of a tin are `tin::TinStats`.

crate::stats! {
    /// Counters of cake.
    pub struct Stats {
        /// Most memory that waiting packets have taken, bytes.
        memory_used: u64,
        /// Limit of `memory_used`, bytes.
        memory_limit: u64,
        /// Estimate of the arrival rate with `autorate-ingress`, bytes/s; without it, the first
        /// rate.
        capacity_estimate: u64,
        /// Smallest network packet, bytes (frame, if the framing is raw).
        min_network_size: u32,
        /// Largest network packet, bytes.
        max_network_size: u32,
        /// Smallest size that a packet was charged, bytes.
        min_adj_size: u32,
        /// Largest size that a packet was charged, bytes.
        max_adj_size: u32,
        /// Mean bytes in front of the network header.
        avg_hdr_offset: u32,
    }
}
