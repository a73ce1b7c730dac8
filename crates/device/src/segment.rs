//! Software segmentation: the cutting of a super-frame that a network card with TSO does, and the
//! checksum completion that a card does for every frame. It serves outputs without these offloads,
//! and schedulers that must cut (a token bucket whose burst is smaller than 64 KiB).
//!
//! Each segment repeats the Ethernet, VLAN, IP and transport headers. These fields change: the IP
//! length; the IPv4 identification (one more per segment; RFC 6864 section 4 leaves the value to
//! the sender) and header checksum; TCP's sequence number, FIN and PSH (on the last segment only)
//! and CWR (on the first only, RFC 3168 section 6.1.2); UDP's length; and the transport checksum,
//! which is complete in the segments.
//!
//! The transport checksum is derived from the pseudo-header sum that the sender left in the field
//! (VIRTIO 1.2 section 5.1.6.2), with the length exchanged, and not from the addresses. So an IPv6
//! routing header needs no special case, although the sum covers the final destination and not the
//! current one (RFC 8200 section 8.1).
//!
//! All functions here are total: no bytes and no header make them panic. Their time is linear in
//! the bytes that they write.

use std::fmt;

use txweir_core::packet::checksum::Sum;

use crate::vnet::{Gso, VnetHdr};

/// Ethernet addresses and type, without tags.
const ETHERNET_LEN: usize = 14;
/// Most 802.1Q/802.1ad tags that the parser passes over. The standards have two; the rest is slack.
const TAGS_MAX: usize = 4;
/// Most IPv6 extension headers that the parser passes over. RFC 8200 section 4.1 names six that may
/// stand before the transport header, one of them twice; RFC 8883 calls eight a sensible limit.
const EXTENSIONS_MAX: usize = 8;

/// Most segments of a super-frame. Linux makes none of more: its TCP refuses a segment size below
/// 48 bytes less the options (`tcp_min_snd_mss`), its UDP more than 128 segments. A frame of 64 KB
/// whose header asks for segments of one byte would keep the thread of all links busy for 60 ms.
pub const SEGMENTS_MAX: usize = 2048;

const PROTO_TCP: u8 = 6;
const PROTO_UDP: u8 = 17;

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// The reason for which a frame could not be cut or completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentError {
    /// The frame ends inside its headers, or a header has an impossible length.
    Truncated,
    /// The frame is neither IPv4 nor IPv6; the Ethernet type is given.
    NotIp(u16),
    /// An IP fragment has no transport header to repeat.
    Fragment,
    /// More than eight IPv6 extension headers.
    Extensions,
    /// The vnet header names another protocol than the frame has; the frame's is given.
    Protocol(u8),
    /// The vnet header's type is none of those that this module cuts.
    Unsupported(u8),
    /// A super-frame without a segment size, or one whose segments would exceed an IP packet.
    Size,
    /// A super-frame of more than [`SEGMENTS_MAX`] segments; their number is given.
    Segments(usize),
    /// A super-frame whose checksum is not described as left undone where its transport header is.
    Checksum,
    /// The buffer is too small; the bytes needed are given.
    Room(usize),
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "the frame ends inside its headers"),
            Self::NotIp(kind) => write!(f, "Ethernet type {kind:#06x} is neither IPv4 nor IPv6"),
            Self::Fragment => write!(f, "an IP fragment cannot be segmented"),
            Self::Extensions => write!(f, "more than {EXTENSIONS_MAX} IPv6 extension headers"),
            Self::Protocol(proto) => {
                write!(f, "the vnet header does not fit the frame's IP protocol {proto}")
            }
            Self::Unsupported(code) => write!(f, "segmentation type {code} is not supported"),
            Self::Size => write!(f, "the segment size is 0 or too large"),
            Self::Segments(n) => {
                write!(f, "the segment size makes {n} segments of the frame: at most {SEGMENTS_MAX} expected")
            }
            Self::Checksum => write!(f, "the checksum is not described where the transport header is"),
            Self::Room(need) => write!(f, "the buffer is too small: {need} bytes are needed"),
        }
    }
}

impl std::error::Error for SegmentError {}

/// The offsets of the layers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layers {
    /// First byte of the IP header.
    ip: usize,
    /// True for IPv6.
    v6: bool,
    /// First byte of the transport header.
    l4: usize,
    /// IP protocol of the transport header.
    proto: u8,
}

/// The size of a frame on the wire: the numbers by which a scheduler accounts for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of all headers that each segment repeats, Ethernet to transport; 0 for an ordinary
    /// frame, for which no caller uses it.
    pub header_len: usize,
    /// Segments it will be cut into; 1 for an ordinary frame.
    pub segments: usize,
    /// Bytes of all segments together, each with its headers, without preamble, FCS and gap.
    pub wire_len: usize,
}

impl Shape {
    /// Measures a frame. An ordinary frame is not parsed, and measuring it never fails.
    ///
    /// # Errors
    /// For a super-frame, the same errors as [`Segmenter::new`].
    pub fn of(hdr: &VnetHdr, frame: &[u8]) -> Result<Self, SegmentError> {
        if !hdr.is_gso() {
            return Ok(Self { header_len: 0, segments: 1, wire_len: frame.len() });
        }
        let cut = Segmenter::new(hdr, frame)?;
        let segments = cut.segments();
        Ok(Self {
            header_len: cut.header_len,
            segments,
            wire_len: frame.len().saturating_add((segments - 1).saturating_mul(cut.header_len)),
        })
    }
}

/// Cuts one super-frame into its segments, one with each [`next_into`](Self::next_into).
#[derive(Clone, Debug)]
pub struct Segmenter {
    /// Bytes of the super-frame.
    len: usize,
    layers: Layers,
    header_len: usize,
    /// First byte of the transport checksum field.
    csum_at: usize,
    gso_size: usize,
    /// Payload bytes of the segments already written.
    sent: usize,
    /// Index of the next segment.
    index: usize,
}

impl Segmenter {
    /// Checks a super-frame. It reads headers only.
    ///
    /// # Errors
    /// [`SegmentError`], all but `Room`, when frame and header do not describe a TCP or UDP
    /// super-frame whose checksum was left to the device.
    pub fn new(hdr: &VnetHdr, frame: &[u8]) -> Result<Self, SegmentError> {
        let layers = parse(frame)?;
        let (proto, csum_offset) = match (hdr.gso, layers.v6) {
            (Gso::TcpV4, false) | (Gso::TcpV6, true) => (PROTO_TCP, 16),
            (Gso::UdpL4, _) => (PROTO_UDP, 6),
            (Gso::TcpV4 | Gso::TcpV6, _) => return Err(SegmentError::Protocol(layers.proto)),
            (other, _) => return Err(SegmentError::Unsupported(other.code())),
        };
        if layers.proto != proto {
            return Err(SegmentError::Protocol(layers.proto));
        }
        if !hdr.needs_csum
            || usize::from(hdr.csum_start) != layers.l4
            || usize::from(hdr.csum_offset) != csum_offset
        {
            return Err(SegmentError::Checksum);
        }
        let l4_len = match proto {
            PROTO_TCP => usize::from(byte(frame, layers.l4 + 12)? >> 4) * 4,
            _ => 8,
        };
        let least = if proto == PROTO_TCP { 20 } else { 8 };
        let header_len = layers.l4 + l4_len;
        if l4_len < least || header_len > frame.len() {
            return Err(SegmentError::Truncated);
        }
        let gso_size = usize::from(hdr.gso_size);
        let longest = header_len - layers.ip + gso_size.min(frame.len() - header_len);
        if gso_size == 0 || longest > usize::from(u16::MAX) {
            return Err(SegmentError::Size);
        }
        let csum_at = layers.l4 + csum_offset;
        let cut = Self { len: frame.len(), layers, header_len, csum_at, gso_size, sent: 0, index: 0 };
        match cut.segments() {
            n if n > SEGMENTS_MAX => Err(SegmentError::Segments(n)),
            _ => Ok(cut),
        }
    }

    /// Returns the number of segments of the whole super-frame, at least 1, those already written
    /// included.
    #[must_use]
    pub fn segments(&self) -> usize {
        (self.len - self.header_len).div_ceil(self.gso_size).max(1)
    }

    /// Returns the bytes of the longest segment: the room that [`next_into`](Self::next_into)
    /// needs.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.header_len + self.gso_size.min(self.len - self.header_len)
    }

    /// True if all segments have been written.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.index == self.segments()
    }

    /// Writes the next segment of `frame`, the one that `new` has checked, to the front of `out`.
    /// The segment is a complete ordinary frame, whose vnet header is `VnetHdr::default()`. Returns
    /// its length, or `None` after the last.
    ///
    /// # Errors
    /// `Room` when `out` is shorter than [`longest`](Self::longest), `Truncated` for a frame of
    /// another length. Nothing is written then, and no segment is skipped.
    pub fn next_into(&mut self, frame: &[u8], out: &mut [u8]) -> Result<Option<usize>, SegmentError> {
        if self.is_done() {
            return Ok(None);
        }
        if frame.len() != self.len {
            return Err(SegmentError::Truncated);
        }
        let longest = self.longest();
        if out.len() < longest {
            return Err(SegmentError::Room(longest));
        }
        let from = self.header_len + self.sent;
        let to = self.len.min(from + self.gso_size);
        let last = to == self.len;
        let len = self.header_len + (to - from);
        let out = &mut out[..len];
        out[..self.header_len].copy_from_slice(&frame[..self.header_len]);
        out[self.header_len..].copy_from_slice(&frame[from..to]);
        self.write_ip(out);
        self.write_transport(out, last);
        self.sent += to - from;
        self.index += 1;
        Ok(Some(len))
    }

    /// Writes the IP length, and for IPv4 the identification and the header checksum.
    fn write_ip(&self, out: &mut [u8]) {
        let ip = self.layers.ip;
        if self.layers.v6 {
            put(out, ip + 4, out.len() - ip - 40);
            return;
        }
        put(out, ip + 2, out.len() - ip);
        let id = u16::from_be_bytes([out[ip + 4], out[ip + 5]]);
        put(out, ip + 4, usize::from(id).wrapping_add(self.index));
        put(out, ip + 10, 0);
        let header = ip..ip + usize::from(out[ip] & 0xf) * 4;
        let sum = Sum::default().bytes(&out[header]).finish();
        put(out, ip + 10, sum.into());
    }

    /// Writes the sequence number and flags or the UDP length, then the checksum from the partial
    /// one.
    fn write_transport(&self, out: &mut [u8], last: bool) {
        let l4 = self.layers.l4;
        let seed = u16::from_be_bytes([out[self.csum_at], out[self.csum_at + 1]]);
        let (old_len, new_len) = (self.len - l4, out.len() - l4);
        if self.layers.proto == PROTO_TCP {
            let seq = u32::from_be_bytes([out[l4 + 4], out[l4 + 5], out[l4 + 6], out[l4 + 7]]);
            let seq = seq.wrapping_add(self.sent as u32); // modulo 2^32 by definition (RFC 9293 section 3.4)
            out[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
            let first = self.index == 0;
            let cleared = if last { 0 } else { TCP_FIN | TCP_PSH } | if first { 0 } else { TCP_CWR };
            out[l4 + 13] &= !cleared;
        } else {
            put(out, l4 + 4, new_len);
        }
        // The pseudo-header holds the length as 32 bits in IPv6 and as 16 in IPv4; folded, both are
        // the same.
        let pseudo = Sum::default().word(seed).minus(fold_len(old_len)).word(fold_len(new_len)).partial();
        put(out, self.csum_at, pseudo.into());
        let sum = Sum::default().bytes(&out[l4..]).finish();
        put(out, self.csum_at, sum.into());
    }
}

/// Completes the checksum of an ordinary frame in place, if its header says that it was left
/// undone, and resets the header. Does nothing otherwise. The cost is one pass over the transport
/// header and payload.
///
/// # Errors
/// `Checksum` when the described field lies outside the frame; `Unsupported` for a super-frame,
/// which must be cut instead. Frame and header are unchanged then.
pub fn complete_checksum(hdr: &mut VnetHdr, frame: &mut [u8]) -> Result<(), SegmentError> {
    if hdr.is_gso() {
        return Err(SegmentError::Unsupported(hdr.gso.code()));
    }
    if !hdr.needs_csum {
        return Ok(());
    }
    let start = usize::from(hdr.csum_start);
    let at = start + usize::from(hdr.csum_offset);
    if at + 2 > frame.len() {
        return Err(SegmentError::Checksum);
    }
    let sum = Sum::default().bytes(&frame[start..]).finish();
    put(frame, at, sum.into());
    *hdr = VnetHdr::default();
    Ok(())
}

/// Describes a frame whose TCP or UDP checksum was left undone and whose header got lost: the field
/// holds the sum of the pseudo-header. A veth hands such frames to a program ahead of the stack.
/// `None` for a complete frame, and for any other. The sum of a complete frame may be the same by
/// chance: then all its bytes are summed.
#[must_use]
pub(crate) fn left_undone(frame: &[u8]) -> Option<VnetHdr> {
    let Layers { ip, v6, l4, proto } = parse(frame).ok()?;
    let offset = match proto {
        PROTO_TCP => 16,
        PROTO_UDP => 6,
        _ => return None,
    };
    let held = word(frame, l4 + offset).ok()?;
    let (end, addresses) = if v6 {
        (ip + 40 + usize::from(word(frame, ip + 4).ok()?), ip + 8..ip + 40)
    } else {
        (ip + usize::from(word(frame, ip + 2).ok()?), ip + 12..ip + 20)
    };
    let covered = frame.get(l4..end)?;
    let pseudo = Sum::default().bytes(frame.get(addresses)?).word(proto.into()).word(fold_len(covered.len()));
    let undone = held == pseudo.partial() && pseudo.bytes(covered).partial() != 0xffff;
    let (csum_start, csum_offset) = (u16::try_from(l4).ok()?, u16::try_from(offset).ok()?);
    undone.then(|| VnetHdr { needs_csum: true, csum_start, csum_offset, ..VnetHdr::default() })
}

/// Stores the low 16 bits of `value`, big-endian. The callers' lengths fit, as [`Segmenter::new`]
/// has checked; an IPv4 identification wraps as it should.
fn put(out: &mut [u8], at: usize, value: usize) {
    out[at..at + 2].copy_from_slice(&((value & 0xffff) as u16).to_be_bytes());
}

/// Returns a length as the 16-bit word that it adds to a one's-complement sum.
fn fold_len(len: usize) -> u16 {
    Sum::default().bytes(&(len as u64).to_be_bytes()).partial()
}

fn byte(frame: &[u8], at: usize) -> Result<u8, SegmentError> {
    frame.get(at).copied().ok_or(SegmentError::Truncated)
}

fn word(frame: &[u8], at: usize) -> Result<u16, SegmentError> {
    Ok(u16::from_be_bytes([byte(frame, at)?, byte(frame, at + 1)?]))
}

/// Finds the layers of an Ethernet frame.
fn parse(frame: &[u8]) -> Result<Layers, SegmentError> {
    let mut ip = ETHERNET_LEN;
    let mut kind = word(frame, ip - 2)?;
    for _ in 0..TAGS_MAX {
        if !matches!(kind, 0x8100 | 0x88a8) {
            break;
        }
        ip += 4;
        kind = word(frame, ip - 2)?;
    }
    match (kind, byte(frame, ip)? >> 4) {
        (0x0800, 4) => parse_v4(frame, ip),
        (0x86dd, 6) => parse_v6(frame, ip),
        (0x0800 | 0x86dd, _) => Err(SegmentError::Truncated),
        _ => Err(SegmentError::NotIp(kind)),
    }
}

fn parse_v4(frame: &[u8], ip: usize) -> Result<Layers, SegmentError> {
    let header_len = usize::from(byte(frame, ip)? & 0xf) * 4;
    let l4 = ip + header_len;
    if header_len < 20 || l4 > frame.len() {
        return Err(SegmentError::Truncated);
    }
    // The fragment is told by the more-fragments flag or an offset (RFC 791 section 3.1); the flag
    // bit above them is don't-fragment.
    if word(frame, ip + 6)? & 0x3fff != 0 {
        return Err(SegmentError::Fragment);
    }
    Ok(Layers { ip, v6: false, l4, proto: byte(frame, ip + 9)? })
}

fn parse_v6(frame: &[u8], ip: usize) -> Result<Layers, SegmentError> {
    let mut proto = byte(frame, ip + 6)?;
    let mut l4 = ip + 40;
    for _ in 0..EXTENSIONS_MAX {
        // Length fields count units of 8 bytes beyond the first 8 (RFC 8200 section 4); that of AH
        // counts units of 4 bytes beyond the first 8 (RFC 4302 section 2.2).
        let len = match proto {
            0 | 43 | 60 | 135 => usize::from(byte(frame, l4 + 1)?) * 8 + 8,
            51 => usize::from(byte(frame, l4 + 1)?) * 4 + 8,
            44 => return Err(SegmentError::Fragment),
            _ if l4 > frame.len() => return Err(SegmentError::Truncated),
            _ => return Ok(Layers { ip, v6: true, l4, proto }),
        };
        proto = byte(frame, l4)?;
        l4 += len;
    }
    match proto {
        0 | 43 | 44 | 51 | 60 | 135 => Err(SegmentError::Extensions),
        _ if l4 > frame.len() => Err(SegmentError::Truncated),
        _ => Ok(Layers { ip, v6: true, l4, proto }),
    }
}

#[cfg(test)]
pub(crate) mod tests;
