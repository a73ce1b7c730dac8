//! skbmod: sets or swaps fields of an Ethernet header, or marks a packet as having met congestion
//! (tc-skbmod(8)).
//!
//! Addresses and type are set first, then swapped. Frames without an Ethernet header stay as they
//! are, and `ecn` leaves packets alone whose transport does not take marks (RFC 3168 section 5).
//! Later filters go on by the protocol that the packet had, whatever type was set.
//!
//! Differs from Linux (PARITY.md: action-tags, vlan-in-place).

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;
use crate::packet::headers;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of its two addresses.
const ADDRESSES: usize = 12;

/// Parameters of skbmod: `None` leaves a field as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skbmod {
    /// Destination address.
    pub dmac: Option<[u8; 6]>,
    /// Source address.
    pub smac: Option<[u8; 6]>,
    /// Ethertype; that of the outermost tag, if there are any. Of a packet that has arrived it is
    /// the one behind that tag, which Linux has taken off.
    pub etype: Option<u16>,
    /// True if the two addresses are swapped.
    pub swap: bool,
    /// True if ECN-capable packets are marked as congestion experienced.
    pub ecn: bool,
}

impl Skbmod {
    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        _: &mut Memory,
        _: &mut Run<'_>,
    ) -> Control {
        let ethernet = usize::from(packet.headers.link_len) == ETHERNET;
        let tag = packet.tag_taken_off() as usize; // 4 or 0
        let bytes = packet.frame.bytes_mut();
        if let Some(link) = bytes.first_chunk_mut::<ADDRESSES>().filter(|_| ethernet) {
            let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *link;
            let dst = self.dmac.unwrap_or([d0, d1, d2, d3, d4, d5]);
            let src = self.smac.unwrap_or([s0, s1, s2, s3, s4, s5]);
            let (dst, src) = if self.swap { (src, dst) } else { (dst, src) };
            link[..6].copy_from_slice(&dst);
            link[6..].copy_from_slice(&src);
        }
        let kind = bytes.get_mut(ADDRESSES + tag..ETHERNET + tag).filter(|_| ethernet);
        if let (Some(kind), Some(etype)) = (kind, self.etype) {
            kind.copy_from_slice(&etype.to_be_bytes());
        }
        if self.ecn {
            headers::set_ce(packet.frame.bytes_mut(), packet.headers.network_header());
        }
        packet.edited();
        control
    }
}
