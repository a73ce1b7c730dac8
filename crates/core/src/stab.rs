//! `Stab`, a size table at a qdisc (tc-stab(8)): what a packet is charged there and below, instead of its wire bytes.
//!
//! A link may carry more than the frame: a header per packet, a smallest packet, cells that are filled up. A qdisc
//! with a size table, and everything below it, counts and charges what the link carries: books, quanta, tokens,
//! limits in bytes. The device, its byte limit and the qdiscs above go on with the wire bytes.
//!
//! To a packet's wire bytes `overhead` is added; what is then below `mpu` is raised to it; on `atm` that is carried in
//! cells of 53 bytes with 48 each. A super-packet is charged as its segments are: each with its overhead and cells.
//!
//! Differs from Linux (PARITY.md: stab-exact, stab-gso, stab-once): each size is reckoned exactly, where a table has
//! one size for every slot of it; so `mtu` and `tsize`, which give the table its grain, are kept only to be shown.

use crate::meta::Meta;
use crate::value::{Json, Show, Value, Words};

/// How a link carries a packet (tc-stab(8), tc-tbf(8)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkLayer {
    /// Whole.
    #[default]
    Ethernet,
    /// In cells of 53 bytes that carry 48 each; tc's `atm` and `adsl`.
    Atm,
}

impl Show for LinkLayer {
    fn text(&self, f: &mut dyn core::fmt::Write) -> core::fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "ethernet",
            Self::Atm => "atm",
        })
    }
    fn json(&self) -> Json {
        Json::Text(crate::value::text_of(self))
    }
}

impl Value for LinkLayer {
    const EXPECTED: &'static str = "ethernet, atm or adsl";
    fn take(words: &mut Words<'_>) -> Option<Self> {
        match words.take()? {
            "ethernet" => Some(Self::Ethernet),
            "atm" | "adsl" => Some(Self::Atm),
            _ => None,
        }
    }
}

/// A size table as it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stab {
    /// Bytes added to each packet; may be negative.
    pub overhead: i32,
    /// Smallest size that is charged, bytes, after the overhead and before cells; 0 for none.
    pub mpu: u32,
    /// How the link carries it; `None`, which tc does not print, is as `Ethernet`.
    pub linklayer: Option<LinkLayer>,
    /// Largest size in the table, bytes. Shown only.
    pub mtu: u32,
    /// Slots of the table. Shown only.
    pub tsize: u32,
}

/// Largest size in a table unless it is given (tc-stab(8); it says 2048, and prints this).
const MTU: u32 = 2047;
/// Slots of a table unless they are given (tc-stab(8)).
const TSIZE: u32 = 512;

/// Bytes of an ATM cell (ITU-T I.361).
pub(crate) const CELL: u64 = 53;
/// Bytes that it carries.
pub(crate) const CELL_PAYLOAD: u64 = 48;

impl Default for Stab {
    /// Nothing added, whole packets; `mtu` 2047, `tsize` 512.
    fn default() -> Self {
        Self { overhead: 0, mpu: 0, linklayer: None, mtu: MTU, tsize: TSIZE }
    }
}

/// What sizes are charged by.
///
/// ```
/// use txweir_core::stab::{LinkLayer, SizeTable, Stab};
///
/// let adsl = SizeTable::new(Stab { linklayer: Some(LinkLayer::Atm), ..Stab::default() });
/// // 100 bytes fill three cells (tc-stab(8)).
/// assert_eq!(adsl.size(100), 159);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeTable {
    stab: Stab,
}

impl SizeTable {
    /// From its configuration. An `mtu` or `tsize` of 0 is the default, as for tc.
    pub const fn new(mut stab: Stab) -> Self {
        if stab.mtu == 0 {
            stab.mtu = MTU;
        }
        if stab.tsize == 0 {
            stab.tsize = TSIZE;
        }
        Self { stab }
    }

    /// Its configuration.
    pub const fn stab(&self) -> &Stab {
        &self.stab
    }

    /// What a packet of `wire_len` bytes is charged: at least 1.
    pub fn size(&self, wire_len: u32) -> u32 {
        u32::try_from(self.exact(u64::from(wire_len))).unwrap_or(u32::MAX)
    }

    /// What a packet is charged; a super-packet, the sum of its segments (at most 2^32 - 1).
    pub fn charge(&self, m: &Meta) -> u32 {
        if m.segs <= 1 {
            return self.size(m.wire_len);
        }
        let (full, each) = (u64::from(m.segs) - 1, u64::from(m.segment_len()));
        let last = u64::from(m.wire_len).saturating_sub(full * each);
        u32::try_from(full * self.exact(each) + self.exact(last)).unwrap_or(u32::MAX)
    }

    /// The largest packet, in wire bytes, that is charged no more than `charged`; 0 if none is.
    pub fn largest_within(&self, charged: u32) -> u32 {
        let room = match self.stab.linklayer {
            None | Some(LinkLayer::Ethernet) => u64::from(charged),
            Some(LinkLayer::Atm) => u64::from(charged) / CELL * CELL_PAYLOAD,
        };
        if room < u64::from(self.stab.mpu) {
            return 0;
        }
        let wire = room.saturating_add_signed(-i64::from(self.stab.overhead));
        u32::try_from(wire).unwrap_or(u32::MAX)
    }

    fn exact(&self, wire_len: u64) -> u64 {
        let size = wire_len.saturating_add_signed(i64::from(self.stab.overhead));
        let size = size.max(u64::from(self.stab.mpu)).max(1);
        match self.stab.linklayer {
            None | Some(LinkLayer::Ethernet) => size,
            Some(LinkLayer::Atm) => size.div_ceil(CELL_PAYLOAD) * CELL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn atm(overhead: i32, mpu: u32) -> SizeTable {
        SizeTable::new(Stab { overhead, mpu, linklayer: Some(LinkLayer::Atm), ..Stab::default() })
    }

    #[test]
    fn atm_sizes_are_those_of_whole_cells() {
        // tc-stab(8): 100 bytes need three cells. AAL5 over ADSL: a 40-byte ACK over PPPoE with LLC takes two.
        for (table, wire_len, charged) in [
            (atm(0, 0), 100, 159),
            (atm(0, 0), 0, 53),
            (atm(0, 0), 48, 53),
            (atm(0, 0), 49, 106),
            (atm(40, 0), 40, 106),
            (atm(40, 0), 1500, 33 * 53),
            (atm(-14, 0), 1514, 32 * 53),
            (atm(-100, 0), 60, 53),
            (atm(32, 96), 40, 106),
            (atm(0, 97), 40, 159),
        ] {
            assert_eq!(table.size(wire_len), charged, "{table:?} {wire_len}");
        }
    }

    #[test]
    fn ethernet_sizes_are_overhead_and_mpu() {
        let table = |overhead, mpu| SizeTable::new(Stab { overhead, mpu, ..Stab::default() });
        for (overhead, mpu, wire_len, charged) in
            [(24, 84, 60, 84), (24, 84, 61, 85), (-14, 0, 1514, 1500), (-14, 0, 10, 1), (0, 64, 0, 64)]
        {
            assert_eq!(table(overhead, mpu).size(wire_len), charged);
        }
        assert_eq!(table(i32::MAX, 0).size(u32::MAX), u32::MAX);
        assert_eq!(*SizeTable::new(Stab { mtu: 0, tsize: 0, ..Stab::default() }).stab(), Stab::default());
    }

    #[test]
    fn a_super_packet_is_charged_as_its_segments() {
        // 3 segments: 1054, 1054, 254 on the wire.
        let m = Meta::new(54 + 2200).gso(54, 1000);
        assert_eq!((m.segs, m.wire_len), (3, 2362));
        assert_eq!(SizeTable::new(Stab { overhead: 24, ..Stab::default() }).charge(&m), 2362 + 3 * 24);
        assert_eq!(atm(0, 0).charge(&m), (22 + 22 + 6) * 53);
    }

    proptest! {
        #[test]
        fn what_is_within_is_charged_no_more(
            overhead in -2000..2000i32, mpu in 0..2000u32, cells: bool, max in 0..100_000u32
        ) {
            let linklayer = cells.then_some(LinkLayer::Atm);
            let table = SizeTable::new(Stab { overhead, mpu, linklayer, ..Stab::default() });
            let wire = table.largest_within(max);
            if wire > 0 {
                prop_assert!(table.size(wire) <= max.max(1));
            }
            prop_assert!(table.size(wire + 1) > max || table.size(wire + 1) == 1);
        }
    }
}
