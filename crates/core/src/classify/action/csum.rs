//! csum: reckons the checksums of a packet anew (tc-csum(8)), after its bytes have been changed: of the IPv4 header
//! (RFC 791), ICMP (RFC 792, RFC 4443), IGMP (RFC 2236), TCP (RFC 9293), UDP (RFC 768, RFC 8200 section 8.1), UDP-Lite
//! (RFC 3828), SCTP (RFC 9260 appendix A).
//!
//! Which ones is said by the flags; of a packet that has another transport the IPv4 header alone is looked after. The
//! transport of a super-packet is left to who cuts it, of a fragment to who puts it together, and of a frame of which only
//! the first bytes are there it cannot be reckoned. UDP over IPv4 without a checksum stays without one. A UDP or UDP-Lite
//! length that contradicts that of the IP packet leaves the checksum 0, as in the reference. A packet that ends
//! before its headers do, or before the length that its IP header declares, is dropped and counted.
//!
//! Of a frame whose TCP or UDP checksum was left to the device
//! ([`FrameBytes::checksum_left`](crate::classify::packet::FrameBytes::checksum_left)) the sum of
//! the pseudo-header is reckoned anew, of a
//! super-packet too, and the rest is still the device's: completed here it would be completed twice. Where the device begins to
//! sum elsewhere, inside a tunnel, the transport is left alone.
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
/// UDP-Lite's.
const UDPLITE: u8 = 136;

/// Parameters of csum: which checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Csum {
    /// Of the IPv4 header.
    pub iph: bool,
    /// Of ICMP and ICMPv6.
    pub icmp: bool,
    /// Of IGMP.
    pub igmp: bool,
    /// Of TCP.
    pub tcp: bool,
    /// Of UDP.
    pub udp: bool,
    /// Of UDP-Lite.
    pub udplite: bool,
    /// Of SCTP.
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
        packet.rewritten(0);
        control
    }

    /// Whether the transport's checksum is to be reckoned, if it can be.
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

    /// None if the packet is too short for what it says.
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

/// Writes the sum of the pseudo-header, if the device is to begin to sum where the segment does; none if that is shorter than
/// the transport's header.
fn partly(proto: u8, segment: &mut [u8], pseudo: Sum, here: bool) -> Option<()> {
    let at = match proto {
        protocol::TCP => 16,
        protocol::UDP => 6,
        // Devices do no others.
        _ => return Some(()),
    };
    let sum = with_len(pseudo, segment.len()).partial();
    let field = segment.get_mut(at..at + 2)?;
    if here {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    Some(())
}

/// With the length of a segment: at most a datagram of 65 575 bytes with its headers, so one carry, which is a word of its own.
fn with_len(sum: Sum, len: usize) -> Sum {
    sum.word((len >> 16) as u16).word((len & 0xffff) as u16)
}

/// Whether all the bytes are there, and not only the first.
fn is_whole(packet: &Packet<'_>) -> bool {
    packet.frame.bytes().len() >= packet.meta.len as usize
}

const fn fixed_len(l3: L3) -> usize {
    match l3 {
        L3::Ipv6 => 40,
        _ => 20,
    }
}

/// Reckons a transport's checksum over its segment; none if that is shorter than the transport's header. `pseudo` is the
/// sum of the addresses and the protocol; the length comes to it here.
fn transport(proto: u8, segment: &mut [u8], pseudo: Sum, ipv4: bool) -> Option<()> {
    let len = segment.len();
    let (least, at, start) = match proto {
        protocol::TCP => (20, 16, with_len(pseudo, len)),
        protocol::UDP | UDPLITE => (8, 6, with_len(pseudo, len)),
        protocol::ICMPV6 => (8, 2, with_len(pseudo, len)),
        protocol::SCTP => (12, 8, Sum::default()),
        // ICMP and IGMP sum nothing but themselves.
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
        // Where 0 says that there is no checksum, it is written as its equal.
        let sum = if matches!(proto, protocol::UDP | UDPLITE) { sum.finish() } else { sum.checksum() };
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    Some(())
}

/// Bytes that the checksum of a UDP or UDP-Lite segment covers; 0 if its length field is wrong. UDP-Lite's 0 is all
/// (RFC 3828 section 3.1).
const fn coverage(proto: u8, said: usize, len: usize) -> usize {
    match said {
        0 if proto == UDPLITE => len,
        _ if proto == UDPLITE && said >= 8 && said <= len => said,
        _ if said == len => len,
        _ => 0,
    }
}
