//! flower: matches fields of headers, each under a mask (tc-flower(8)).
//!
//! Filters with the same mask are together, and found by one look-up in a hash table. Masks are
//! tried in the order of their addition, and the first that has a filter for the packet decides,
//! even if its actions return `continue`. Filters with a range of ports are searched as in the
//! reference: the filters of a mask are tried in order, and each range that contains the packet's
//! ports is completed to a key, which is looked up.
//!
//! - Cost: one read of the fields that any mask has, then for each mask one hash of its words and
//!   one comparison. A mask with few filters is not hashed. Ranges cost a comparison for each
//!   filter.
//! - Memory of a filter: the words that its mask has (8 bytes each, mostly two to four), 50 bytes,
//!   and an entry in two indexes.
//! - Bounds: the number of masks and filters is that of the commands; nothing else is walked.
//!
//! Invariants:
//! - W1: no two filters of a table have the same mask and, under it, the same key;
//! - W2: every filter is in `handles`, and in the index of its mask.
//!
//! The hash is keyed (see [`crate::packet::hash`]): strangers whose filters are added cannot make
//! them collide.
//!
//! Differences from Linux (PARITY.md): `flower-atomic-fragment`, `flower-authentication`,
//! `flower-replace-twin`.

use alloc::boxed::Box;

mod index;
mod key;
mod table;

pub use table::Table;

/// Number of words of a key.
const WORDS: usize = 16;
/// Index of the word of a range of ports, which is behind those of the key.
const RANGE: usize = WORDS;

/// A field that a filter may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    word: u8,
    shift: u8,
    bits: u8,
}

const fn field(word: u8, shift: u8, bits: u8) -> Field {
    Field { word, shift, bits }
}

impl Field {
    /// Destination address of Ethernet.
    pub const DST_MAC: Self = field(0, 0, 48);
    /// Ethertype behind all tags; in a session of PPPoE that carries IP or MPLS, that of the
    /// payload.
    pub const ETH_TYPE: Self = field(0, 48, 16);
    /// Source address of Ethernet.
    pub const SRC_MAC: Self = field(1, 0, 48);
    /// Ethertype of the outermost VLAN tag itself.
    pub const VLAN_TPID: Self = field(1, 48, 16);
    /// Identifier of the outermost tag.
    pub const VLAN_ID: Self = field(2, 0, 12);
    /// Priority of the outermost tag.
    pub const VLAN_PRIO: Self = field(2, 12, 3);
    /// Ethertype behind the outermost tag.
    pub const VLAN_ETHTYPE: Self = field(2, 16, 16);
    /// Identifier of the second tag.
    pub const CVLAN_ID: Self = field(2, 32, 12);
    /// Priority of the second tag.
    pub const CVLAN_PRIO: Self = field(2, 44, 3);
    /// Ethertype behind the second tag.
    pub const CVLAN_ETHTYPE: Self = field(2, 48, 16);
    /// Protocol over IP.
    pub const IP_PROTO: Self = field(3, 0, 8);
    /// TOS of IPv4, traffic class of IPv6.
    pub const IP_TOS: Self = field(3, 8, 8);
    /// TTL of IPv4, hop limit of IPv6.
    pub const IP_TTL: Self = field(3, 16, 8);
    /// Type of an ICMP message, except in fragments.
    pub const ICMP_TYPE: Self = field(3, 24, 8);
    /// Code of an ICMP message, except in fragments.
    pub const ICMP_CODE: Self = field(3, 32, 8);
    /// Operation of ARP: 1 request, 2 reply; in packets of other operations all ARP fields are
    /// zero.
    pub const ARP_OP: Self = field(3, 40, 8);
    /// Bit 0: a fragment; bit 1: the first one.
    pub const IP_FLAGS: Self = field(3, 48, 2);
    /// Number of VLAN tags.
    pub const VLAN_COUNT: Self = field(3, 56, 8);
    /// Source port, except in fragments.
    pub const SRC_PORT: Self = field(4, 0, 16);
    /// Destination port, except in fragments.
    pub const DST_PORT: Self = field(4, 16, 16);
    /// The twelve bits in front of TCP's window.
    pub const TCP_FLAGS: Self = field(4, 32, 12);
    /// Session of PPPoE.
    pub const PPPOE_SID: Self = field(4, 48, 16);
    /// Protocol of PPP in a session of PPPoE.
    pub const PPP_PROTO: Self = field(5, 0, 16);
    /// Ethertype of the second VLAN tag itself.
    pub const CVLAN_TPID: Self = field(5, 16, 16);
    /// The port that received the packet.
    pub const INDEV: Self = field(5, 32, 32);
    /// Source address of IP, or sender's of ARP; IPv4 in the low 32 bits, with zeros before them.
    pub const SRC_IP: Self = field(6, 0, 128);
    /// Destination address of IP, or target's of ARP.
    pub const DST_IP: Self = field(8, 0, 128);
    /// Ethernet address of ARP's sender.
    pub const ARP_SHA: Self = field(10, 0, 48);
    /// Ethernet address of ARP's target.
    pub const ARP_THA: Self = field(11, 0, 48);
    /// Entries of a label stack, one bit each, the outermost in the lowest.
    pub const LSES: Self = field(10, 48, 7);
    /// 1 for a session of PPPoE with a valid header.
    pub const PPPOE: Self = field(10, 55, 1);

    /// Returns the field of an entry of an MPLS label stack, 1 (the outermost) to 7: label, traffic
    /// class, bottom of stack and TTL in their order in the packet (RFC 3032 section 2.1).
    pub const fn lse(depth: u8) -> Option<Self> {
        match depth {
            1..=7 => Some(field(12 + (depth - 1) / 2, (depth - 1) % 2 * 32, 32)),
            _ => None,
        }
    }

    /// Returns a mask of all bits of the field.
    pub const fn whole(self) -> u128 {
        u128::MAX >> (128 - self.bits as u32)
    }

    fn read(self, words: &[u64; WORDS]) -> u128 {
        let at = usize::from(self.word);
        match self.bits {
            128 => u128::from(words[at]) << 64 | u128::from(words[at + 1]),
            _ => u128::from(words[at] >> self.shift) & self.whole(),
        }
    }

    fn write(self, words: &mut [u64], value: u128) {
        let at = usize::from(self.word);
        let value = value & self.whole();
        match self.bits {
            128 => {
                words[at] = (value >> 64) as u64; // the two halves
                words[at + 1] = value as u64;
            }
            _ => {
                words[at] = words[at] & !((self.whole() as u64) << self.shift) | (value as u64) << self.shift
            }
        }
    }
}

/// Parameters of flower.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flower {
    key: [u64; WORDS],
    mask: [u64; WORDS],
    /// Source ports, first and last.
    pub src_ports: Option<(u16, u16)>,
    /// Destination ports, first and last.
    pub dst_ports: Option<(u16, u16)>,
    /// True if the command asked not to offload to hardware; nothing is ever offloaded.
    pub skip_hw: bool,
    /// Name of the device in `Field::INDEV`, for display.
    pub indev: Option<Box<str>>,
}

impl Flower {
    /// Requires a value of a field, in the bits of a mask.
    pub fn set(&mut self, field: Field, value: u128, mask: u128) {
        field.write(&mut self.key, value);
        field.write(&mut self.mask, mask);
    }

    /// Returns the parameters with a value of this field added, in all its bits.
    #[must_use]
    pub fn with(mut self, field: Field, value: u128) -> Self {
        self.set(field, value, field.whole());
        self
    }

    /// Returns the required value of a field, and the bits of it that count; `None` if the field
    /// does not matter.
    pub fn get(&self, field: Field) -> Option<(u128, u128)> {
        let mask = field.read(&self.mask);
        (mask != 0).then(|| (field.read(&self.key), mask))
    }

    /// True if this reads only fields and bits that `template` reads, so that it may be in a chain
    /// with that template.
    pub fn within(&self, template: &Self) -> bool {
        let ranges = |one: &Self| [one.src_ports.is_some(), one.dst_ports.is_some()];
        self.mask.iter().zip(&template.mask).all(|(mine, its)| mine & !its == 0)
            && ranges(self).iter().zip(ranges(template)).all(|(mine, its)| !mine || its)
    }
}
