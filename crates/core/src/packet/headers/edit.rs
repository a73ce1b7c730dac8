//! Changes of the DS field in the bytes of a packet, where its headers were read.

use super::{L3, Network, be16};
use crate::packet::checksum;

/// Sets the DSCP of the IP header at `n` to 0 and leaves the ECN field (RFC 2474 section 3). A
/// packet that is not IP stays unchanged. The IPv4 header checksum is updated as for `set_ce`.
pub fn clear_dscp(bytes: &mut [u8], n: Network) {
    let Some(ip) = n.offset.and_then(|at| bytes.get_mut(usize::from(at)..)) else { return };
    match n.l3 {
        L3::Ipv4 => {
            let Some([version, tos, .., c0, c1]) = ip.first_chunk_mut::<12>() else { return };
            let (old, new) = (be16(*version, *tos), be16(*version, *tos & 3));
            if old != new {
                *tos &= 3;
                [*c0, *c1] = checksum::update(be16(*c0, *c1), old, new).to_be_bytes();
            }
        }
        L3::Ipv6 => {
            // The traffic class straddles two bytes: the low half of the first, the high half of
            // the second.
            if let Some([b0, b1]) = ip.first_chunk_mut::<2>() {
                *b0 &= 0xf0;
                *b1 &= 0x3f;
            }
        }
        L3::None | L3::Arp => {}
    }
}

/// Sets the ECN field of the IP header at `n` to CE, if the transport takes marks: true if the
/// field is CE afterwards. A packet that is Not-ECT or not IP stays unchanged, and the answer is
/// false (RFC 3168 section 5: CE must not be set on a packet that is not ECN-capable).
///
/// The field is read from the bytes, not from parsed headers. The IPv4 header checksum is updated,
/// not computed anew, so that a wrong one stays wrong (RFC 1624, equation 3).
pub fn set_ce(bytes: &mut [u8], n: Network) -> bool {
    let Some(ip) = n.offset.and_then(|at| bytes.get_mut(usize::from(at)..)) else { return false };
    match n.l3 {
        L3::Ipv4 => {
            let Some([version, tos, .., c0, c1]) = ip.first_chunk_mut::<12>() else { return false };
            if *version >> 4 != 4 || *tos & 3 == 0 {
                return false;
            }
            let (old, new) = (be16(*version, *tos), be16(*version, *tos | 3));
            if old != new {
                *tos |= 3;
                [*c0, *c1] = checksum::update(be16(*c0, *c1), old, new).to_be_bytes();
            }
            true
        }
        L3::Ipv6 => {
            let Some([b0, b1]) = ip.first_chunk_mut::<2>() else { return false };
            // The traffic class lies across the two bytes; its low two bits are 0x30 of the second.
            if *b0 >> 4 != 6 || *b1 & 0x30 == 0 {
                return false;
            }
            *b1 |= 0x30;
            true
        }
        L3::None | L3::Arp => false,
    }
}
