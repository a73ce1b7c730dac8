//! The first bytes of a packet, and the fields in them.

use txweir_core::packet::headers::protocol;

use crate::ip::Family;

/// Bytes that a frame keeps in itself: more headers than 80 bytes have only long acknowledgements
/// over IPv6, with blocks of SACK or counters of accurate ECN behind time stamps.
pub(super) const KEPT: usize = 80;
/// Largest number of header bytes that a frame keeps: IPv6 (40) and the longest TCP header (60).
pub const HEADER_MAX: usize = 100;

/// Offsets into a transport header.
const UDP_LEN: usize = 4;
const TCP_SEQ: usize = 4;
const TCP_ACK: usize = 8;
const TCP_FLAGS: usize = 13;
/// TCP flags (RFC 9293 section 3.1).
pub const FIN: u8 = 1;
/// The SYN flag.
pub const SYN: u8 = 2;
/// The PSH flag.
pub const PSH: u8 = 8;

/// A view of the first bytes of a packet: its headers, and the bytes after them if there is room.
/// The fields are those of the transport of a packet without options of IPv4 and extensions of
/// IPv6, the only kind that the lab's hosts send.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// All bytes that a frame keeps.
    pub(super) bytes: &'a [u8],
    /// Those of them that have the fields.
    pub(super) first: &'a [u8; KEPT],
    /// Bytes of headers.
    pub(super) len: u8,
}

impl<'a> Head<'a> {
    fn u32_at(&self, at: usize) -> u32 {
        let at = self.family().header() + at;
        let b = self.first;
        u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
    }

    fn word_after(&self, bytes: usize) -> Option<u64> {
        let at = usize::from(self.len) + bytes;
        self.bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
    }

    /// Returns the version of IP.
    pub const fn family(&self) -> Family {
        Family::of(self.first)
    }
    /// Returns the transport header.
    pub fn transport(&self) -> &'a [u8] {
        self.bytes.get(self.family().header()..usize::from(self.len)).unwrap_or_default()
    }

    /// Returns the number of a packet of [`crate::udp::Source`]: the eight bytes after its headers,
    /// kept with them.
    pub fn number(&self) -> Option<u64> {
        self.word_after(0)
    }
    /// Returns the word after the number, if it is kept.
    pub(crate) fn word(&self) -> Option<u64> {
        self.word_after(8)
    }

    /// True if the packet is a datagram of UDP (RFC 768).
    pub(crate) fn is_udp(&self) -> bool {
        self.first[self.family().protocol_at()] == protocol::UDP
    }
    /// Returns the TCP sequence number.
    pub fn tcp_seq(&self) -> u32 {
        self.u32_at(TCP_SEQ)
    }
    /// Returns the TCP acknowledgement number.
    pub(crate) fn tcp_ack(&self) -> u32 {
        self.u32_at(TCP_ACK)
    }
    /// Returns the TCP flags, as on the wire.
    pub fn tcp_flags(&self) -> u8 {
        self.first[self.family().header() + TCP_FLAGS]
    }
}

/// Makes the first bytes of a unit those of a part of `ip_len` bytes, whose payload begins `from`
/// bytes behind the unit's. `last`: the payload of the part ends the unit's.
pub(super) fn cut(bytes: &mut [u8], ip_len: u32, from: u32, last: bool) {
    let family = Family::of(bytes);
    family.put_len(bytes, ip_len);
    let is_udp = bytes.get(family.protocol_at()) == Some(&protocol::UDP);
    let Some(transport) = bytes.get_mut(family.header()..) else { return };
    if is_udp {
        let len = ip_len.saturating_sub(family.header() as u32) as u16;
        put(transport, UDP_LEN, len.to_be_bytes());
        return;
    }
    if let Some(seq) = transport.get_mut(TCP_SEQ..).and_then(|at| at.first_chunk_mut()) {
        *seq = u32::from_be_bytes(*seq).wrapping_add(from).to_be_bytes();
    }
    if let Some(flags) = transport.get_mut(TCP_FLAGS).filter(|_| !last) {
        *flags &= !(FIN | PSH);
    }
}

/// Writes a field, if the bytes have it.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..).and_then(|at| at.first_chunk_mut()) {
        *place = field;
    }
}
