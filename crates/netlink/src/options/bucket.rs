//! The description of a rate that tbf, htb and police share: `struct tc_ratespec`.

use txweir_core::law::bucket::TICK_NS;

use crate::wire::{Record, Writer, u32_of};

/// Bytes of the struct.
pub(crate) const LEN: usize = 12;

/// A rate, and the sizes that it charges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RateSpec {
    pub(crate) atm: bool,
    pub(crate) overhead: u16,
    pub(crate) mpu: u16,
    /// Bytes per second.
    pub(crate) rate: u64,
}

impl RateSpec {
    /// Reads the struct at an offset; a rate that does not fit into it is `wide`.
    pub(crate) fn read(r: Record<'_>, at: usize, wide: Option<u64>) -> Self {
        let rate = wide.unwrap_or_else(|| r.u32(at + 8).into());
        // The link layer is in the low four bits: 1 Ethernet, 2 ATM.
        Self { atm: r.u8(at + 1) & 15 == 2, overhead: r.u16(at + 2), mpu: r.u16(at + 6), rate }
    }
    /// Writes the struct.
    pub(crate) fn write(&self, w: &mut Writer) {
        w.put(&[0, if self.atm { 2 } else { 1 }]);
        w.put(&self.overhead.to_ne_bytes());
        w.put(&(-1i16).to_ne_bytes());
        w.put(&self.mpu.to_ne_bytes());
        w.put_all(&[u32_of(self.rate)]);
    }
    /// Returns the rate if it does not fit into the struct.
    pub(crate) fn wide(&self) -> Option<u64> {
        (self.rate > u64::from(u32::MAX)).then_some(self.rate)
    }
    /// Returns the words of the sizes that it charges.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (key, n) in [("overhead", self.overhead), ("mpu", self.mpu)] {
            if n > 0 {
                words.extend(super::pair(key, n));
            }
        }
        if self.atm {
            words.extend(super::pair("linklayer", "atm"));
        }
        words
    }
}

/// Returns the bytes that leave at a rate in a number of ticks, rounded down.
pub(crate) fn bytes_of(rate: u64, ticks: u32) -> u64 {
    let bytes = u128::from(rate) * u128::from(ticks) * u128::from(TICK_NS) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
