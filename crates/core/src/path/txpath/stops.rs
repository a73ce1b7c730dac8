//! `Stops`: the causes that keep a transmit queue from transmitting.

/// Causes that keep a queue from transmitting: three independent bits (the reference's driver,
/// stack and frozen states). A fourth bit keeps packets off the direct way and stops nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops(u8);

impl Stops {
    /// Nothing stops it.
    pub const NONE: Self = Self(0);
    /// The device promised no slot; cleared by a completion.
    pub const DRV: Self = Self(1);
    /// The byte limit is reached; cleared by a completion that makes room.
    pub const STACK: Self = Self(2);
    /// Frozen by the owner, as while a device is being reset; cleared by `thaw`.
    pub const FROZEN: Self = Self(4);
    /// Every packet is queued before it is sent (`Transmitter::set_direct`); it may be sent at
    /// once.
    pub const QUEUED: Self = Self(8);

    /// True if any bit of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    /// True if a transmit attempt proceeds.
    pub const fn may_transmit(self) -> bool {
        self.0 & !Self::QUEUED.0 == 0
    }
    /// True if nothing keeps a packet from going past the qdiscs.
    pub(super) const fn may_go_direct(self) -> bool {
        self.0 == 0
    }
    /// True if the device or the byte limit stopped it (frozen is not stopped).
    pub const fn stopped(self) -> bool {
        self.has(Self(Self::DRV.0 | Self::STACK.0))
    }
    pub(super) const fn set(&mut self, bit: Self) {
        self.0 |= bit.0;
    }
    pub(super) const fn clear(&mut self, bit: Self) {
        self.0 &= !bit.0;
    }
}
