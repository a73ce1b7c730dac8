//! csum: recomputes the checksums of a packet after changes to its bytes (tc-csum(8)): of the IPv4
//! header (RFC 791), ICMP (RFC 792, RFC 4443), IGMP (RFC 2236), TCP (RFC 9293), UDP (RFC 768, RFC
//! 8200 section 8.1), UDP-Lite (RFC 3828), SCTP (RFC 9260 appendix A).
//!
//! Flags select the checksums; of a packet with another transport only the IPv4 header is updated.
//! The transport checksum of a super-packet is left to the host that cuts it and that of a fragment
//! to the host that reassembles it; that of a frame with only its first bytes cannot be computed.
//! UDP over IPv4 without a checksum stays without one. A UDP or UDP-Lite length that contradicts
//! that of the IP packet makes the checksum 0, as in the reference. A packet that ends before its
//! headers do, or before the length that its IP header declares, is dropped and counted.
//!
//! If the TCP or UDP checksum of a frame was left to the device
//! ([`FrameBytes::checksum_left`](crate::classify::packet::FrameBytes::checksum_left)), the sum of
//! the pseudo-header is recomputed, of a super-packet too, and the rest is still the device's:
//! completed here it would be completed twice. If the device begins to sum elsewhere, inside a
//! tunnel, the transport is left alone.
//!
//! Cost: linear in the bytes that are summed. Memory: none.
//!
//! Differs from Linux (PARITY.md: action-tags, csum-fragment, csum-short-header, csum-udplite).

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;
use crate::packet::checksum::{Sum, crc32c};
use crate::packet::headers::{Fragment, L3, ethertype, protocol};

/// IGMP's protocol number (IANA "Protocol Numbers").
const IGMP: u8 = 2;
/// UDP-Lite's protocol number.
const UDPLITE: u8 = 136;

/// Parameters of csum: one flag per checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Csum {
    /// Checksum of the IPv4 header.
    pub iph: bool,
    /// Checksum of ICMP and ICMPv6.
    pub icmp: bool,
    /// Checksum of IGMP.
    pub igmp: bool,
    /// Checksum of TCP.
    pub tcp: bool,
    /// Checksum of UDP.
    pub udp: bool,
    /// Checksum of UDP-Lite.
    pub udplite: bool,
    /// Checksum of SCTP.
    pub sctp: bool,
}

impl Csum {
    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        mine: &mut Memory,
        _: &mut Run<'_>,
    ) -> Control {
        let done = match packet.headers.ethertype {
            ethertype::IPV4 => self.ipv4(packet),
            ethertype::IPV6 => self.ipv6(packet),
            _ => Some(()),
        };
        if done.is_none() {
            mine.drops += 1;
            return Control::Drop;
        }
        packet.edited();
        control
    }

    /// True if the transport's checksum is selected and can be computed.
    fn wants(&self, packet: &Packet<'_>, proto: u8) -> bool {
        let flag = match (packet.headers.l3, proto) {
            (L3::Ipv4, protocol::ICMP) | (L3::Ipv6, protocol::ICMPV6) => self.icmp,
            (L3::Ipv4, IGMP) => self.igmp,
            (_, protocol::TCP) => self.tcp,
            (_, protocol::UDP) => self.udp,
            (_, UDPLITE) => self.udplite,
            (_, protocol::SCTP) => self.sctp,
            _ => false,
        };
        let own = packet.meta.segs <= 1 || packet.frame.checksum_left().is_some();
        flag && packet.headers.fragment == Fragment::Whole && own && is_whole(packet)
    }

    /// Updates an IPv4 packet; `None` if it is shorter than its headers declare.
    fn ipv4(&self, packet: &mut Packet<'_>) -> Option<()> {
        let at = packet.network();
        let fixed = packet.frame.bytes().get(at..)?.first_chunk::<20>()?;
        let (header, proto) = (usize::from(fixed[0] & 15) * 4, fixed[9]);
        let declared = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let wanted = self.wants(packet, proto);
        let left = packet.frame.checksum_left();
        let ip = packet.frame.bytes_mut().get_mut(at..)?;
        if header < fixed_len(L3::Ipv4) || header > ip.len() {
            return None;
        }
        if wanted {
            let (head, segment) = ip.get_mut(..declared)?.split_at_mut_checked(header)?;
            let pseudo = Sum::default().bytes(&head[12..20]).word(u16::from(proto));
            match left {
                Some(start) => partly(proto, segment, pseudo, start == at + header)?,
                None => transport(proto, segment, pseudo, true)?,
            }
        }
        if self.iph {
            ip[10..12].fill(0);
            let sum = Sum::default().bytes(&ip[..header]).checksum();
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(())
    }

    fn ipv6(&self, packet: &mut Packet<'_>) -> Option<()> {
        let h = packet.headers;
        let at = packet.network();
        let short = packet.frame.bytes().len() < at + fixed_len(L3::Ipv6);
        let Some(upper) = h.l4_offset.map(usize::from).filter(|_| self.wants(packet, h.protocol)) else {
            return (!short).then_some(());
        };
        let end = at + h.ip_len as usize;
        let left = packet.frame.checksum_left();
        let bytes = packet.frame.bytes_mut();
        let pseudo = Sum::default().bytes(bytes.get(at + 8..at + 40)?).word(u16::from(h.protocol));
        let segment = bytes.get_mut(upper..end)?;
        match left {
            Some(start) => partly(h.protocol, segment, pseudo, start == upper),
            None => transport(h.protocol, segment, pseudo, false),
        }
    }
}

/// Writes the sum of the pseudo-header if the device begins to sum at the start of the segment
/// (`here`). `None` if the segment ends before the checksum field.
fn partly(proto: u8, segment: &mut [u8], pseudo: Sum, here: bool) -> Option<()> {
    let at = match proto {
        protocol::TCP => 16,
        protocol::UDP => 6,
        // Devices compute no other checksums.
        _ => return Some(()),
    };
    let sum = with_len(pseudo, segment.len()).partial();
    let field = segment.get_mut(at..at + 2)?;
    if here {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    Some(())
}

/// Adds the length of a segment, at most 65 575 bytes of datagram and headers: the carry is a word
/// of its own.
fn with_len(sum: Sum, len: usize) -> Sum {
    sum.word((len >> 16) as u16).word((len & 0xffff) as u16)
}

/// True if the frame has all its bytes, and not only the first.
fn is_whole(packet: &Packet<'_>) -> bool {
    packet.frame.bytes().len() >= packet.meta.len as usize
}

const fn fixed_len(l3: L3) -> usize {
    match l3 {
        L3::Ipv6 => 40,
        _ => 20,
    }
}

/// Computes a transport's checksum over its segment; `None` if the segment is shorter than the
/// transport's header. `pseudo` is the sum of the addresses and the protocol, without the length.
fn transport(proto: u8, segment: &mut [u8], pseudo: Sum, ipv4: bool) -> Option<()> {
    let len = segment.len();
    let (least, at, start) = match proto {
        protocol::TCP => (20, 16, with_len(pseudo, len)),
        protocol::UDP | UDPLITE => (8, 6, with_len(pseudo, len)),
        protocol::ICMPV6 => (8, 2, with_len(pseudo, len)),
        protocol::SCTP => (12, 8, Sum::default()),
        // ICMP and IGMP sum only themselves.
        _ => (8, 2, Sum::default()),
    };
    if len < least {
        return None;
    }
    if proto == protocol::SCTP {
        let crc = crc32c(&[&segment[..at], &[0; 4], &segment[at + 4..]]);
        segment[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        return Some(());
    }
    let covered = match proto {
        protocol::UDP | UDPLITE => {
            let said = usize::from(u16::from_be_bytes([segment[4], segment[5]]));
            if proto == protocol::UDP && ipv4 && segment[6..8] == [0, 0] {
                return Some(());
            }
            coverage(proto, said, len)
        }
        _ => len,
    };
    segment[at..at + 2].fill(0);
    if covered > 0 {
        let sum = start.bytes(&segment[..covered]);
        // A checksum of 0 would mean none for UDP, so its equal is written.
        let sum = if matches!(proto, protocol::UDP | UDPLITE) { sum.finish() } else { sum.checksum() };
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    Some(())
}

/// Returns the bytes that the checksum of a UDP or UDP-Lite segment covers; 0 if its length field
/// is wrong. UDP-Lite's 0 covers all (RFC 3828 section 3.1).
const fn coverage(proto: u8, said: usize, len: usize) -> usize {
    match said {
        0 if proto == UDPLITE => len,
        _ if proto == UDPLITE && said >= 8 && said <= len => said,
        _ if said == len => len,
        _ => 0,
    }
}
