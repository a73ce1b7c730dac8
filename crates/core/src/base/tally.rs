//! `Tally`: packets and bytes, counted together.

/// A count of packets and their wire bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets (a super-packet is one).
    pub packets: u64,
    /// Wire bytes.
    pub bytes: u64,
}

impl Tally {
    /// Adds one packet of `bytes`.
    #[inline]
    pub const fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
    /// Returns the sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
    /// Returns the difference to `earlier`.
    #[inline]
    pub const fn since(self, earlier: Self) -> Self {
        Self { packets: self.packets - earlier.packets, bytes: self.bytes - earlier.bytes }
    }
}
