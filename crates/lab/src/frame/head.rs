//! The first bytes of a packet, and the fields in them.

/// Largest number of header bytes that a frame keeps: IPv4 without options (20) and the longest TCP
/// header (60).
pub const HEADER_MAX: usize = 80;

/// Offsets into an IPv4 packet without options, the only kind that the lab's hosts send.
const IP_LEN: usize = 2;
const PROTOCOL: usize = 9;
const UDP_LEN: usize = 24;
const TCP_SEQ: usize = 24;
const TCP_ACK: usize = 28;
const TCP_FLAGS: usize = 33;
/// Bytes of an IPv4 header without options.
const IP: u32 = 20;
/// The protocol UDP (RFC 768).
const UDP: u8 = 17;
/// TCP flags (RFC 9293 section 3.1).
pub const FIN: u8 = 1;
/// The SYN flag.
pub const SYN: u8 = 2;
/// The PSH flag.
pub const PSH: u8 = 8;

/// The first bytes of a packet: its headers, and the bytes after them if there is room.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: [u8; HEADER_MAX],
    /// Bytes of headers.
    len: u8,
}

impl Head {
    /// Keeps the first bytes of `first`, of which `len` are headers.
    pub(super) fn new(first: &[u8], len: usize) -> Self {
        let kept = first.len().min(HEADER_MAX);
        let mut bytes = [0; HEADER_MAX];
        bytes[..kept].copy_from_slice(&first[..kept]);
        Self { bytes, len: len.min(kept) as u8 }
    }

    /// Returns the number of bytes of headers.
    pub(super) const fn len(&self) -> u32 {
        self.len as u32
    }
    /// Returns the headers: IP and transport.
    pub(super) fn headers(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
    /// Returns the bytes kept of a packet of `ip_len` bytes.
    pub(super) fn kept(&self, ip_len: u32) -> &[u8] {
        &self.bytes[..HEADER_MAX.min(ip_len as usize)]
    }
    pub(super) fn kept_mut(&mut self, ip_len: u32) -> &mut [u8] {
        &mut self.bytes[..HEADER_MAX.min(ip_len as usize)]
    }

    /// Returns the first bytes of a part of `ip_len` bytes, whose payload begins `from` bytes
    /// behind the unit's. `last`: the payload of the part ends the unit's.
    pub(super) fn part(&self, ip_len: u32, from: u32, last: bool) -> Self {
        let mut part = *self;
        part.put(IP_LEN, (ip_len as u16).to_be_bytes());
        if self.bytes[PROTOCOL] == UDP {
            part.put(UDP_LEN, ((ip_len - IP) as u16).to_be_bytes());
            return part;
        }
        part.put(TCP_SEQ, self.tcp_seq().wrapping_add(from).to_be_bytes());
        if !last {
            part.bytes[TCP_FLAGS] &= !(FIN | PSH);
        }
        part
    }

    fn put<const N: usize>(&mut self, at: usize, field: [u8; N]) {
        self.bytes[at..at + N].copy_from_slice(&field);
    }

    fn u32_at(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.bytes[at], self.bytes[at + 1], self.bytes[at + 2], self.bytes[at + 3]])
    }

    fn word_after(&self, bytes: usize) -> Option<u64> {
        let at = usize::from(self.len) + bytes;
        self.bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
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

    /// Returns the TCP sequence number.
    pub fn tcp_seq(&self) -> u32 {
        self.u32_at(TCP_SEQ)
    }
    /// Returns the TCP acknowledgement number.
    pub fn tcp_ack(&self) -> u32 {
        self.u32_at(TCP_ACK)
    }
    /// Returns the TCP flags, as on the wire.
    pub const fn tcp_flags(&self) -> u8 {
        self.bytes[TCP_FLAGS]
    }
}
