//! `Stab`, a size table at a qdisc (tc-stab(8)): the size that a packet is charged there and below,
//! instead of its wire bytes.
//!
//! A link may carry more than the frame: a header per packet, a smallest packet, padded cells. A
//! qdisc with a size table, and everything below it, counts and charges the bytes that the link
//! carries: books, quanta, tokens, limits in bytes. The device, its byte limit and the qdiscs above
//! still use the wire bytes.
//!
//! `overhead` is added to a packet's wire bytes. A sum below `mpu` is raised to `mpu`. On `atm` the
//! result is carried in cells of 53 bytes with 48 each. A super-packet is charged as its segments
//! are: each with its overhead and cells.
//!
//! The sizes are those of a table: `tsize` slots, each as wide as a power of two, that reach up to
//! `mtu`. Every packet of a slot is charged as the largest of the slot. The table itself is not
//! stored: the size of a slot is three operations on its number.
//!
//! Differs from Linux (PARITY.md: stab-gso, stab-mq, stab-once).

use crate::base::link::CELL;
use crate::base::link::CELL_PAYLOAD;
use crate::base::link::LinkLayer;
use crate::packet::meta::Meta;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Configuration of a size table. The default changes no size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stab {
    /// Bytes added to each packet; may be negative.
    pub overhead: i32,
    /// Smallest charged size, bytes, after the overhead and before cells; 0 for none.
    pub mpu: u32,
    /// Link layer; `None`, which tc does not print, is as `Ethernet`.
    pub linklayer: Option<LinkLayer>,
    /// Largest size that the table covers, bytes; 0 is 2047.
    pub mtu: u32,
    /// Slots of the table, at most 32 700; 0 is 512.
    pub tsize: u32,
}

/// iproute2 6.1 shows this value although tc-stab(8) has 2048.
const MTU: u32 = 2047;
/// Default number of slots of a table (tc-stab(8)).
const TSIZE: u32 = 512;
/// Most slots: larger tables do not fit into a message of tc.
const TSIZE_MAX: u32 = 32_700;

/// A size table, which maps sizes to charges.
///
/// ```
/// use txweir_core::{base::link::LinkLayer, sched::stab::{SizeTable, Stab}};
///
/// let adsl = SizeTable::new(Stab { linklayer: Some(LinkLayer::Atm), ..Stab::default() })?;
/// // 100 bytes fill three cells (tc-stab(8)).
/// assert_eq!(adsl.size(100), 159);
/// # Ok::<(), txweir_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeTable {
    stab: Stab,
    /// Width of a slot, as its binary logarithm in bytes.
    slot_log: u32,
}

impl SizeTable {
    /// Returns a table with this configuration. Without cells and without a smallest size there is
    /// no table: then only the overhead counts.
    ///
    /// # Errors
    /// `tsize` is above the largest number of slots.
    pub fn new(mut stab: Stab) -> Result<Self, ConfigError> {
        if stab.tsize > TSIZE_MAX {
            let expected = alloc::format!("at most {TSIZE_MAX} slots");
            return Err(
                ConfigError::new(ErrorKind::OutOfRange, Object::SizeTable, expected, stab.tsize).key("tsize")
            );
        }
        if stab.linklayer != Some(LinkLayer::Atm) && stab.mpu == 0 {
            (stab.mtu, stab.tsize) = (0, 0);
            return Ok(Self { stab, slot_log: 0 });
        }
        for (value, default) in [(&mut stab.mtu, MTU), (&mut stab.tsize, TSIZE)] {
            if *value == 0 {
                *value = default;
            }
        }
        // The slots are the narrowest that reach the largest size.
        let slot_log = (0..32).find(|log| stab.mtu >> log < stab.tsize).unwrap_or(32);
        Ok(Self { stab, slot_log })
    }

    /// Returns its configuration: defaults filled in, `mtu` and `tsize` 0 if there is no table.
    pub const fn stab(&self) -> &Stab {
        &self.stab
    }

    /// Returns the charge of a packet of `len` bytes: at least 1.
    pub fn size(&self, len: u32) -> u32 {
        let len = u64::try_from(i64::from(len) + i64::from(self.stab.overhead)).unwrap_or(0).max(1);
        let slots = u64::from(self.stab.tsize);
        let slot = (len - 1) >> self.slot_log;
        let size = match slot.checked_sub(slots) {
            _ if slots == 0 => len,
            None => self.slot_size(slot),
            // Beyond the table: the last slot as many times as it fits, and the rest.
            Some(_) => slot / slots * self.slot_size(slots - 1) + self.slot_size(slot % slots),
        };
        u32::try_from(size).unwrap_or(u32::MAX)
    }

    /// Returns the charge of a packet: for a super-packet the sum of its segments.
    pub fn charge(&self, m: &Meta) -> u32 {
        let full = u32::from(m.segs).saturating_sub(1);
        let segment = m.segment_len();
        let last = m.wire_len.saturating_sub(full.saturating_mul(segment));
        let full = if full == 0 { 0 } else { full.saturating_mul(self.size(segment)) };
        full.saturating_add(self.size(last))
    }

    /// Returns the largest packet, in wire bytes, that is charged at most `max`; 0 if there is
    /// none.
    pub(crate) fn largest_within(&self, max: u32) -> u32 {
        let (mut fits, mut above) = (0u32, u32::MAX);
        // Bound: 32 turns, because each halves a range of 32 bits.
        while above - fits > 1 {
            let mid = fits + (above - fits) / 2;
            if self.size(mid) <= max {
                fits = mid;
            } else {
                above = mid;
            }
        }
        fits
    }

    /// Returns the bytes of the slot's largest packet on the link.
    fn slot_size(&self, slot: u64) -> u64 {
        let size = ((slot + 1) << self.slot_log).max(u64::from(self.stab.mpu));
        match self.stab.linklayer {
            Some(LinkLayer::Atm) => size.div_ceil(CELL_PAYLOAD) * CELL,
            None | Some(LinkLayer::Ethernet) => size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn table(words: &str) -> SizeTable {
        let mut stab = Stab::default();
        let words: Vec<&str> = words.split(' ').collect();
        for pair in words.chunks(2) {
            match pair[0] {
                "linklayer" => stab.linklayer = Some(LinkLayer::Atm),
                "overhead" => stab.overhead = pair[1].parse().unwrap(),
                "mpu" => stab.mpu = pair[1].parse().unwrap(),
                "mtu" => stab.mtu = pair[1].parse().unwrap(),
                _ => stab.tsize = pair[1].parse().unwrap(),
            }
        }
        SizeTable::new(stab).unwrap()
    }

    /// Sizes that a kernel's bfifo counted for frames of these lengths.
    #[test]
    fn sizes_are_those_of_a_kernel() {
        const LENS: [u32; 20] =
            [14, 15, 16, 48, 60, 63, 64, 97, 100, 101, 104, 105, 511, 512, 513, 1000, 1499, 1500, 1501, 1514];
        #[rustfmt::skip]
        let cases: [(&str, [u32; 20]); 12] = [
            ("overhead 24 linklayer atm", [
                53, 53, 53, 106, 106, 106, 106, 159, 159, 159,
                159, 159, 636, 636, 636, 1166, 1696, 1696, 1696, 1749,
            ]),
            ("overhead 10", [
                24, 25, 26, 58, 70, 73, 74, 107, 110, 111,
                114, 115, 521, 522, 523, 1010, 1509, 1510, 1511, 1524,
            ]),
            ("overhead -40", [
                1, 1, 1, 8, 20, 23, 24, 57, 60, 61,
                64, 65, 471, 472, 473, 960, 1459, 1460, 1461, 1474,
            ]),
            ("mpu 64", [
                64, 64, 64, 64, 64, 64, 64, 100, 100, 104,
                104, 108, 512, 512, 516, 1000, 1500, 1500, 1504, 1516,
            ]),
            ("overhead 5 mpu 64", [
                64, 64, 64, 64, 68, 68, 72, 104, 108, 108,
                112, 112, 516, 520, 520, 1008, 1504, 1508, 1508, 1520,
            ]),
            ("mpu 64 tsize 7", [
                512, 512, 512, 512, 512, 512, 512, 512, 512, 512,
                512, 512, 512, 512, 1024, 1024, 1536, 1536, 1536, 1536,
            ]),
            ("mpu 100 mtu 500 tsize 16", [
                100, 100, 100, 100, 100, 100, 100, 128, 128, 128,
                128, 128, 512, 512, 612, 1024, 1504, 1504, 1504, 1536,
            ]),
            ("overhead 10 linklayer atm mtu 500 tsize 16", [
                53, 53, 53, 106, 106, 106, 106, 159, 159, 159,
                159, 159, 636, 636, 636, 1166, 1749, 1749, 1749, 1749,
            ]),
            ("overhead -40 mpu 30", [
                30, 30, 30, 30, 30, 30, 30, 60, 60, 64,
                64, 68, 472, 472, 476, 960, 1460, 1460, 1464, 1476,
            ]),
            ("overhead -40 linklayer atm", [
                53, 53, 53, 53, 53, 53, 53, 106, 106, 106,
                106, 106, 530, 530, 530, 1060, 1643, 1643, 1643, 1643,
            ]),
            ("mpu 64 mtu 1", [
                64, 64, 64, 64, 64, 64, 64, 97, 100, 101,
                104, 105, 511, 512, 576, 1000, 1499, 1500, 1501, 1514,
            ]),
            ("mpu 1 mtu 2048 tsize 512", [
                16, 16, 16, 48, 64, 64, 64, 104, 104, 104,
                104, 112, 512, 512, 520, 1000, 1504, 1504, 1504, 1520,
            ]),
        ];
        for (words, sizes) in cases {
            assert_eq!(LENS.map(|len| table(words).size(len)), sizes, "{words}");
        }
        assert_eq!((table("mpu 70000").size(14), table("mpu 64 tsize 1").size(1514)), (70_000, 2048));
    }

    #[test]
    fn defaults_are_filled_in_and_no_table_is_made_for_nothing() {
        let shown = |words: &str| (table(words).stab().mtu, table(words).stab().tsize);
        assert_eq!(shown("mpu 64"), (2047, 512));
        assert_eq!(shown("linklayer atm mtu 100000"), (100_000, 512));
        assert_eq!(shown("overhead 10 mtu 100 tsize 10"), (0, 0));
        let refused = SizeTable::new(Stab { tsize: 32_768, ..Stab::default() }).unwrap_err();
        assert_eq!(refused.to_string(), "stab tsize: expected at most 32700 slots, given \"32768\"");
        use alloc::string::ToString;
    }

    #[test]
    fn extremes_do_not_overflow_and_larger_packets_cost_no_less() {
        for stab in [
            Stab {
                overhead: i32::MAX,
                mpu: u32::MAX,
                mtu: u32::MAX,
                tsize: 1,
                linklayer: Some(LinkLayer::Atm),
            },
            Stab { overhead: i32::MIN, mpu: 0, mtu: 1, tsize: 32_700, linklayer: Some(LinkLayer::Atm) },
            Stab { overhead: i32::MIN, ..Stab::default() },
            Stab { overhead: 9, mpu: 64, mtu: 1000, tsize: 20, linklayer: Some(LinkLayer::Ethernet) },
        ] {
            let table = SizeTable::new(stab).unwrap();
            let mut before = 1;
            for len in (0..40_000).chain([1 << 20, 1 << 31, u32::MAX]) {
                let size = table.size(len);
                assert!(size >= before, "{stab:?}: {len} costs {size}, less {before}");
                before = size;
            }
            for max in [1, 53, 1500, 65_535, u32::MAX] {
                let largest = table.largest_within(max);
                assert!(largest == 0 || table.size(largest) <= max, "{stab:?} {max}");
                assert!(
                    largest >= u32::MAX - 1 || table.size(largest + 1) > max,
                    "{stab:?} {max}: {largest}"
                );
            }
        }
    }

    #[test]
    fn a_super_packet_costs_what_its_segments_do() {
        let table = table("overhead 24 linklayer atm");
        let m = Meta::new(54 + 10 * 1448 + 100).gso(54, 1448);
        assert_eq!((m.segs, table.charge(&m)), (11, 10 * table.size(1502) + table.size(154)));
        assert_eq!(table.charge(&Meta::new(100)), table.size(100));
        let _ = table.charge(&Meta::new(u32::MAX).gso(54, 1));
    }
}
