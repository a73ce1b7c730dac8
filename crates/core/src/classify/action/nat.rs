//! nat: rewrites an address of IPv4 packets, without state (tc-nat(8); RFC 3022 sections 4.1 to
//! 4.3).
//!
//! An address that is the old one in the bits of the mask gets these bits of the new one, and keeps
//! the rest. The checksums of the IPv4 header, of TCP and of UDP change with it (RFC 1624), so that
//! a wrong one stays wrong; UDP without a checksum stays without one. A fragment is rewritten like
//! a whole packet; a later one has no transport header.
//!
//! An ICMP error quotes a packet that went the other way: if the address on the other side of the
//! quoted header is an old one, it is rewritten too, with the checksum of that header, so that the
//! sum over the ICMP message stays as it is.
//!
//! A packet that ends before its IPv4 header, or before the part of the transport header that
//! changes, is dropped and counted. If a checksum was left to the device, the sum of the
//! pseudo-header changes.
//!
//! Cost: a few words. Memory: none.
//!
//! Differs from Linux (PARITY.md: nat-not-ipv4, nat-quoted-checksum).

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;
use crate::packet::checksum::{Sum, update};
use crate::packet::headers::{ethertype, protocol};

/// Bytes of an IPv4 header without options, and offsets in it.
const IPV4: usize = 20;
const CHECKSUM_AT: usize = 10;
/// The bits of the fragment's offset.
const FRAGMENT_OFFSET: u16 = 0x1fff;
/// Bytes of the header of an ICMP message.
const ICMP: usize = 8;
/// Types of ICMP messages that quote a packet: unreachable, source quench, redirect, time exceeded,
/// parameter problem (RFC 792).
const ERRORS: [u8; 5] = [3, 4, 5, 11, 12];

/// The address of a packet that is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The destination: `ingress` in tc.
    Destination,
    /// The source: `egress` in tc.
    Source,
}

impl Side {
    /// Returns the offset of the address in an IPv4 header.
    const fn at(self) -> usize {
        match self {
            Self::Source => 12,
            Self::Destination => 16,
        }
    }
    const fn other(self) -> Self {
        match self {
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
        }
    }
}

/// Parameters of nat. Addresses and the mask have their first byte in the high bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat {
    /// The address that is rewritten.
    pub side: Side,
    /// The old address.
    pub old: u32,
    /// The new address.
    pub new: u32,
    /// The bits of an address that are compared and rewritten.
    pub mask: u32,
}

impl Nat {
    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        mine: &mut Memory,
        _: &mut Run<'_>,
    ) -> Control {
        match self.rewrite(packet) {
            Some(false) => control,
            Some(true) => {
                packet.edited();
                control
            }
            None => {
                mine.drops += 1;
                Control::Drop
            }
        }
    }

    /// Rewrites a packet. Returns true if it has changed, `None` if it is too short.
    fn rewrite(&self, packet: &mut Packet<'_>) -> Option<bool> {
        if packet.headers.ethertype != ethertype::IPV4 {
            return Some(false);
        }
        let (at, left) = (packet.network(), packet.frame.checksum_left());
        let ip = packet.frame.bytes_mut().get_mut(at..)?;
        let fixed = *ip.first_chunk::<IPV4>()?;
        let header = usize::from(fixed[0] & 15) * 4;
        if fixed[0] >> 4 != 4 || header < IPV4 {
            return Some(false);
        }
        let later = u16::from_be_bytes([fixed[6], fixed[7]]) & FRAGMENT_OFFSET != 0;
        let change = self.change(ip, self.side)?;
        if let Some(change) = change {
            change.put(ip, self.side)?;
        }
        let segment = ip.get_mut(header..)?;
        let own = left == Some(at + header);
        match (fixed[9], change) {
            _ if later => {}
            (protocol::TCP, Some(change)) => change.transport(segment.get_mut(..20)?, 16, own)?,
            (protocol::UDP, Some(change)) => {
                let udp = segment.first_chunk_mut::<8>()?;
                // A checksum of 0 is none (RFC 768), unless the device has yet to compute it.
                if own || udp[6..] != [0, 0] {
                    change.transport(udp, 6, own)?;
                    if !own && udp[6..] == [0, 0] {
                        udp[6..].fill(0xff);
                    }
                }
            }
            (protocol::ICMP, _) => return Some(self.quoted(segment)? || change.is_some()),
            _ => {}
        }
        Some(change.is_some())
    }

    /// Rewrites the packet that an ICMP error quotes. Returns true if it has changed.
    fn quoted(&self, icmp: &mut [u8]) -> Option<bool> {
        let (message, quoted) = icmp.split_at_mut_checked(ICMP)?;
        if !ERRORS.contains(&message[0]) {
            return Some(false);
        }
        let ip = quoted.get_mut(..IPV4)?;
        let side = self.side.other();
        let Some(change) = self.change(ip, side)? else { return Some(false) };
        // The checksum of the quoted header balances the address: the sum of both stays, and so
        // does the checksum of the message.
        change.put(ip, side)?;
        Some(true)
    }

    /// Returns the change of the address on a side, if it is an old one.
    fn change(&self, ip: &[u8], side: Side) -> Option<Option<Change>> {
        let from = u32::from_be_bytes(*ip.get(side.at()..)?.first_chunk()?);
        let to = self.new & self.mask | from & !self.mask;
        Some(((from ^ self.old) & self.mask == 0).then_some(Change { from, to }))
    }
}

/// The change of an address.
#[derive(Clone, Copy)]
struct Change {
    from: u32,
    to: u32,
}

impl Change {
    /// Returns the high and the low word, before and after.
    const fn words(self) -> [(u16, u16); 2] {
        let Self { from, to } = self;
        // Each half of 32 bits fits 16.
        [((from >> 16) as u16, (to >> 16) as u16), ((from & 0xffff) as u16, (to & 0xffff) as u16)]
    }

    /// Writes the address on a side of an IPv4 header, and the checksum of the header.
    fn put(self, ip: &mut [u8], side: Side) -> Option<()> {
        ip.get_mut(side.at()..)?.first_chunk_mut::<4>()?.copy_from_slice(&self.to.to_be_bytes());
        self.sum(ip, CHECKSUM_AT)
    }

    /// Changes a checksum over the address.
    fn sum(self, bytes: &mut [u8], at: usize) -> Option<()> {
        let field = bytes.get_mut(at..)?.first_chunk_mut::<2>()?;
        let sum =
            self.words().iter().fold(u16::from_be_bytes(*field), |sum, (old, new)| update(sum, *old, *new));
        *field = sum.to_be_bytes();
        Some(())
    }

    /// Changes the checksum of TCP or UDP at an offset; `own` if the field holds the sum of the
    /// pseudo-header, and the device adds the rest.
    fn transport(self, segment: &mut [u8], at: usize, own: bool) -> Option<()> {
        if !own {
            return self.sum(segment, at);
        }
        let field = segment.get_mut(at..)?.first_chunk_mut::<2>()?;
        let sum = Sum::default().word(u16::from_be_bytes(*field));
        let sum = self.words().iter().fold(sum, |sum, (old, new)| sum.minus(*old).word(*new));
        *field = sum.partial().to_be_bytes();
        Some(())
    }
}
