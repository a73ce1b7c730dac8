//! Changes of the DS field in the bytes of a packet, where its headers were read.

use super::{L3, Network, be16};
use crate::packet::checksum;
use crate::packet::meta::Ecn;

/// Sets the DSCP of the IP header at `n` to 0 and leaves the ECN field (RFC 2474 section 3). A
/// packet that is not IP stays unchanged. The IPv4 header checksum is updated as for `set_ce`.
pub fn clear_dscp(bytes: &mut [u8], n: Network) {
    change(bytes, n, |ds| Some(ds & 3));
}

/// Sets the ECN field of the IP header at `n` to CE, if the transport takes marks: true if the
/// field is CE afterwards. A packet that is Not-ECT or not IP stays unchanged, and the answer is
/// false (RFC 3168 section 5: CE must not be set on a packet that is not ECN-capable).
///
/// The field is read from the bytes, not from parsed headers. The IPv4 header checksum is updated,
/// not computed anew, so that a wrong one stays wrong (RFC 1624, equation 3).
pub fn set_ce(bytes: &mut [u8], n: Network) -> bool {
    change(bytes, n, |ds| Ecn::from_ds(ds).capable().then_some(ds | 3))
}

/// Sets the ECN field of the IP header at `n`, whatever it was: the egress of a tunnel does (RFC
/// 6040 section 4.2). True if there is an IP header. Its checksum is updated as for `set_ce`.
pub fn set_ecn(bytes: &mut [u8], n: Network, ecn: Ecn) -> bool {
    change(bytes, n, |ds| Some(ds & !3 | ecn as u8))
}

/// Changes the DS field of the IP header at `n` to what `new` makes of it, and the checksum with
/// it. False, with nothing changed, if there is no IP header or `new` returns none.
fn change(bytes: &mut [u8], n: Network, new: impl FnOnce(u8) -> Option<u8>) -> bool {
    let Some(ip) = n.offset.and_then(|at| bytes.get_mut(usize::from(at)..)) else { return false };
    match n.l3 {
        L3::Ipv4 => {
            let Some([version, tos, .., c0, c1]) = ip.first_chunk_mut::<12>() else { return false };
            if *version >> 4 != 4 {
                return false;
            }
            let Some(ds) = new(*tos) else { return false };
            let (old, new) = (be16(*version, *tos), be16(*version, ds));
            if old != new {
                *tos = ds;
                [*c0, *c1] = checksum::update(be16(*c0, *c1), old, new).to_be_bytes();
            }
            true
        }
        L3::Ipv6 => {
            let Some([b0, b1]) = ip.first_chunk_mut::<2>() else { return false };
            if *b0 >> 4 != 6 {
                return false;
            }
            // The traffic class straddles two bytes: the low half of the first, the high half of
            // the second.
            let Some(ds) = new(*b0 << 4 | *b1 >> 4) else { return false };
            (*b0, *b1) = (*b0 & 0xf0 | ds >> 4, ds << 4 | *b1 & 0xf);
            true
        }
        L3::None | L3::Arp => false,
    }
}
