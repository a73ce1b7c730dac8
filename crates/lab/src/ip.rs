//! The network layer of the lab's hosts: their addresses, and the headers of IPv4 without options
//! and of IPv6 without extensions.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use txweir_core::packet::headers::ethertype;

/// The first twelve bytes of every IPv6 address of a host, unique local ones (RFC 4193); the host's
/// IPv4 address follows.
const PREFIX: [u8; 12] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Hops of a new packet, and "don't fragment" of IPv4 (RFC 791 section 3.1).
const HOPS: u8 = 64;
const DONT_FRAGMENT: u8 = 0x40;

/// A version of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Bytes of the longest of the headers.
    pub const HEADER_MAX: usize = Self::V6.header();

    /// Returns the version of a packet; other bytes than IPv6's count as IPv4.
    #[inline]
    pub const fn of(packet: &[u8]) -> Self {
        match packet {
            [first, ..] if *first >> 4 == 6 => Self::V6,
            _ => Self::V4,
        }
    }
    /// Returns the bytes of its header.
    pub const fn header(self) -> usize {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }
    /// Returns the bytes by which its header is longer than that of IPv4.
    pub(crate) const fn beyond_v4(self) -> u16 {
        (self.header() - Self::V4.header()) as u16
    }
    /// Returns its ethertype.
    pub const fn ethertype(self) -> u16 {
        match self {
            Self::V4 => ethertype::IPV4,
            Self::V6 => ethertype::IPV6,
        }
    }
    /// Returns the place of the protocol number in its header.
    pub(crate) const fn protocol_at(self) -> usize {
        match self {
            Self::V4 => 9,
            Self::V6 => 6,
        }
    }
    /// Writes the length of a packet of `ip_len` bytes, at most 65535, into its header.
    pub(crate) fn put_len(self, header: &mut [u8], ip_len: u32) {
        // IPv6 counts the bytes behind its header (RFC 8200 section 3).
        let (at, len) = match self {
            Self::V4 => (2, ip_len),
            Self::V6 => (4, ip_len.saturating_sub(Self::V6.header() as u32)),
        };
        if let Some(field) = header.get_mut(at..at + 2) {
            field.copy_from_slice(&(len as u16).to_be_bytes());
        }
    }
}

/// A host and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addr {
    /// The host's IPv4 address, by which its IPv6 address ends.
    pub ip: [u8; 4],
    /// Port, not zero.
    pub port: u16,
}

impl Addr {
    /// Returns the address in a version of IP.
    pub fn over(self, family: Family) -> SocketAddr {
        let ip = match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::from(self.ip)),
            Family::V6 => IpAddr::V6(Ipv6Addr::from(v6(self.ip))),
        };
        SocketAddr::new(ip, self.port)
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.over(Family::V4).fmt(f)
    }
}

/// Returns the IPv6 address of the host with this IPv4 address.
fn v6(ip: [u8; 4]) -> [u8; 16] {
    let mut all = [0; 16];
    all[..12].copy_from_slice(&PREFIX);
    all[12..].copy_from_slice(&ip);
    all
}

/// Returns the flow label of the packets of one direction of a flow with this hash: 20 bits, never
/// 0, which would be no label (RFC 6437 sections 2 and 3).
const fn flow_label(hash: u32) -> u32 {
    match hash >> 12 {
        0 => 1,
        label => label,
    }
}

/// The header of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// IPv4 addresses of the sending host and of the other.
    pub(crate) hosts: [[u8; 4]; 2],
    pub(crate) family: Family,
    /// Protocol above IP.
    pub(crate) protocol: u8,
    /// DS field.
    pub(crate) ds: u8,
    /// Flow hash, from which IPv6 has its flow label.
    pub(crate) hash: u32,
    /// Bytes of the packet.
    pub(crate) ip_len: u32,
}

impl Header {
    /// Writes the header at the beginning of `out`, which is all zeros. The checksum of IPv4 stays
    /// zero: devices compute it.
    #[inline]
    pub(crate) fn write<const N: usize>(&self, out: &mut [u8; N]) {
        const { assert!(N >= Family::HEADER_MAX, "room for the longest header") };
        let Self { hosts: [local, remote], protocol, ds, hash, ip_len, .. } = *self;
        match self.family {
            Family::V4 => {
                (out[0], out[1]) = (0x45, ds);
                out[2..4].copy_from_slice(&(ip_len as u16).to_be_bytes());
                (out[6], out[8], out[9]) = (DONT_FRAGMENT, HOPS, protocol);
                out[12..16].copy_from_slice(&local);
                out[16..20].copy_from_slice(&remote);
            }
            Family::V6 => {
                let word = 6 << 28 | u32::from(ds) << 20 | flow_label(hash);
                out[..4].copy_from_slice(&word.to_be_bytes());
                Family::V6.put_len(out, ip_len);
                (out[6], out[7]) = (protocol, HOPS);
                out[8..24].copy_from_slice(&v6(local));
                out[24..40].copy_from_slice(&v6(remote));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use txweir_core::packet::headers::{Headers, L3};

    use super::*;

    const A: Addr = Addr { ip: [10, 0, 0, 1], port: 2000 };
    const B: Addr = Addr { ip: [10, 0, 0, 2], port: 2001 };

    fn written(family: Family, hash: u32) -> Headers {
        let mut packet = [0; 1400];
        let hosts = [A.ip, B.ip];
        Header { hosts, family, protocol: 17, ds: 0xb9, hash, ip_len: 1400 }.write(&mut packet);
        Headers::parse_ip(&packet)
    }

    #[test]
    fn the_parser_reads_the_header_that_is_written() {
        for family in [Family::V4, Family::V6] {
            let h = written(family, 0xabcd_e123);
            assert_eq!((h.ip_len, h.ds, h.ttl, h.protocol), (1400, 0xb9, 64, 17));
            assert_eq!(h.ethertype, family.ethertype());
            assert_eq!(usize::from(h.l4_offset.unwrap()), family.header());
            assert_eq!((&h.src[12..], &h.dst[12..]), (&A.ip[..], &B.ip[..]));
        }
        let h = written(Family::V6, 0xabcd_e123);
        assert_eq!((h.l3, h.flow_label, h.src[0]), (L3::Ipv6, 0xa_bcde, 0xfd));
    }

    #[test]
    fn no_flow_is_without_a_label() {
        assert_eq!(written(Family::V6, 0xfff).flow_label, 1);
        assert_eq!(written(Family::V6, u32::MAX).flow_label, 0xf_ffff);
    }

    #[test]
    fn addresses_are_written_as_their_version_has_them() {
        assert_eq!(A.to_string(), "10.0.0.1:2000");
        assert_eq!(A.over(Family::V6).to_string(), "[fd00::a00:1]:2000");
    }

    #[test]
    fn lengths_count_what_their_version_counts() {
        let mut header = [0; 40];
        Family::V4.put_len(&mut header, 1500);
        Family::V6.put_len(&mut header, 1500);
        assert_eq!((&header[2..4], &header[4..6]), (&[5, 220][..], &[5, 180][..]));
        Family::V6.put_len(&mut [0; 3], 1500);
        assert_eq!(Family::of(&[0x60]), Family::V6);
        assert_eq!([&[][..], &[0x45], &[0]].map(Family::of), [Family::V4; 3]);
    }
}
