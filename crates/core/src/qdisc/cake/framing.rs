//! The size that a packet is charged on the link: its overhead, the least size, and cells.

use crate::packet::meta::Meta;
use crate::qdisc::cake::config::{Cells, Framing};

/// Extremes and means of sizes. The fields are those that tc prints.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Smallest and largest network packet, or frame if the framing is raw.
    pub net: (u32, u32),
    /// Smallest and largest charged size.
    pub charged: (u32, u32),
    /// Mean bytes in front of the network header, in 65536ths.
    offset: u32,
}

/// Extremes before any packet: the greatest number of 16 bits as the least, as tc prints it.
const NOTHING: (u32, u32) = (65_535, 0);

/// Weight of a new sample: one part in 256.
const OFFSET_SHIFT: u32 = 8;

impl Sizes {
    /// The state before any packet.
    pub const NONE: Self = Self { net: NOTHING, charged: NOTHING, offset: 0 };

    /// Forgets the extremes, which belong to another framing.
    pub const fn restart(&mut self) {
        *self = Self { offset: self.offset, ..Self::NONE };
    }

    /// Returns the mean number of bytes in front of the network header.
    pub(crate) const fn mean_offset(&self) -> u32 {
        (self.offset + 0x8000) >> 16
    }

    /// Returns the size that a packet is charged; its network header is `offset` bytes behind its
    /// start.
    pub fn charge(&mut self, framing: &Framing, m: &Meta, offset: u32) -> u32 {
        self.offset -= self.offset >> OFFSET_SHIFT;
        self.offset += (offset << 16) >> OFFSET_SHIFT;
        if m.segs <= 1 {
            return self.one(framing, m.wire_len, offset);
        }
        let full = u32::from(m.header_len) + u32::from(m.gso_size);
        let others = u32::from(m.segs) - 1;
        let last = m.len.saturating_sub(u32::from(m.gso_size).saturating_mul(others));
        let first = self.one(framing, full, offset).saturating_mul(others);
        first.saturating_add(self.one(framing, last, offset))
    }

    fn one(&mut self, framing: &Framing, wire_len: u32, offset: u32) -> u32 {
        let net = if framing.raw { wire_len } else { wire_len.saturating_sub(offset) };
        self.net = (self.net.0.min(net), self.net.1.max(net));
        let charged = framing.charge(net);
        self.charged = (self.charged.0.min(charged), self.charged.1.max(charged));
        charged
    }
}

impl Framing {
    /// Returns the size of `len` bytes on the link.
    pub fn charge(&self, len: u32) -> u32 {
        let len = len.saturating_add_signed(self.overhead).max(self.mpu);
        match self.cells {
            Cells::None => len,
            Cells::Atm => len.div_ceil(48).saturating_mul(53),
            // A whole byte for each block begun: a little more than the line code takes.
            Cells::Ptm => len.saturating_add(len.div_ceil(64)),
        }
    }
}
