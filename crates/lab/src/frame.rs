//! A packet of the lab: its headers, its length, and its destination.
//!
//! Schedulers and links act on lengths, and TCP on headers; no part of the lab reads payload. So a
//! frame keeps the first bytes of the IP packet and its length. Only frames of QUIC have bytes
//! behind their headers, which copies share. A frame is a plain value of two cache lines: there is
//! no pool, and no allocation per packet, except for QUIC's bytes.
//!
//! Lengths that links and qdiscs see count a 14-byte Ethernet header that is not in the bytes,
//! unless an action has changed it.

use std::sync::Arc;

use txweir_core::Ecn;
use txweir_core::base::time::Instant;

use crate::tagged::{Asked, ETHERNET, LinkHeader};

/// Ethertype of IPv4, which the lab's hosts send.
const IPV4: u16 = 0x0800;
/// Largest number of header bytes that a frame keeps: IPv4 without options (20) and the longest TCP
/// header (60).
pub const HEADER_MAX: usize = 80;

/// One packet, or one TSO unit that the wire will cut.
#[derive(Clone, Debug)]
pub struct Frame {
    header: [u8; HEADER_MAX],
    /// Time at which its sender's stack handed it over.
    pub sent: Instant,
    /// Fields that few frames have.
    extra: Option<Box<Extra>>,
    /// Bytes of the IP packet.
    len: u32,
    /// The connection end or sink that it is for: an index that the lab assigns.
    pub to: u32,
    /// Flow hash for qdiscs, the same for all packets of one direction of a connection.
    pub hash: u32,
    /// Packet priority (set by SO_PRIORITY).
    pub priority: u32,
    /// Packet mark (set by SO_MARK).
    pub mark: u32,
    /// Ethertype.
    pub protocol: u16,
    gso_size: u16,
    header_len: u8,
    /// DS field: IPv4 TOS, IPv6 traffic class.
    pub ds: u8,
    /// True if a bit of it is wrong, which the receiver's checksums will detect.
    pub damaged: bool,
    /// Earliest departure after `sent`, nanoseconds: queues that pace (`fq`) keep it until then.
    pub ahead: u32,
    /// Bytes that its sender counts as lying below the socket, until its first device has sent it.
    pub below: Below,
}

/// Part of a frame that its sender counts as lying below the socket (TCP small queues).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Below {
    /// No part.
    #[default]
    Not,
    /// The whole frame.
    Whole,
    /// Its payload, as a later part of a unit: the first part accounts for the rest of the unit's
    /// memory.
    Rest,
    /// The whole frame, as a segment of a unit that was cut below the socket.
    Cut,
}

/// Fields that few frames have.
#[derive(Clone, Debug, Default)]
struct Extra {
    /// A link header that is not the ordinary one.
    link: Option<LinkHeader>,
    /// Results of filters, while its sender has it back.
    asked: Option<Asked>,
    /// Payload that matters to the receiver: shared bytes, and the place in them where it begins.
    payload: Option<(Arc<[u8]>, u32)>,
}

impl Frame {
    /// Returns a unit of TCP, or one segment, from its headers and the length of the IP packet.
    /// `gso_size` is the payload of one segment of a TSO unit, else 0.
    pub fn unit(headers: &[u8], ip_len: u32, gso_size: u16) -> Self {
        let mut frame = Self::headers(headers, headers.len(), ip_len);
        frame.gso_size = if frame.payload_len() > u32::from(gso_size) { gso_size } else { 0 };
        frame
    }

    /// Returns a packet of `ip_len` bytes whose first bytes are `first` (at most [`HEADER_MAX`] of
    /// them are kept), of which `header_len` are headers.
    pub fn headers(first: &[u8], header_len: usize, ip_len: u32) -> Self {
        let kept = first.len().min(HEADER_MAX);
        let mut header = [0; HEADER_MAX];
        header[..kept].copy_from_slice(&first[..kept]);
        let header_len = header_len.min(kept) as u8;
        let (sent, extra) = (Instant::ZERO, None);
        let (to, hash, priority, mark, protocol, ds) = (0, 0, 0, 0, IPV4, 0);
        let (gso_size, damaged, ahead, below) = (0, false, 0, Below::Not);
        Self {
            header,
            sent,
            extra,
            len: ip_len,
            to,
            hash,
            priority,
            mark,
            protocol,
            gso_size,
            header_len,
            ds,
            damaged,
            ahead,
            below,
        }
    }

    /// Notes that a queue has cut its unit, and that it counts as a segment of its own below its
    /// sender's socket. Returns 1 if its sender counts it.
    pub(crate) fn cut_below(&mut self) -> u32 {
        let counted = self.below != Below::Not;
        if counted {
            self.below = Below::Cut;
        }
        u32::from(counted)
    }

    /// Returns the number of bytes below the socket that its sender has counted for it.
    pub const fn below_socket(&self) -> u32 {
        match self.below {
            Below::Not => 0,
            Below::Whole => txweir_transport::below_socket(self.payload_len()),
            Below::Rest => self.payload_len(),
            Below::Cut => txweir_transport::below_socket_cut(self.payload_len()),
        }
    }

    /// Returns the number of a packet of [`crate::udp::Source`]: the eight bytes after its headers,
    /// kept with them.
    pub fn number(&self) -> Option<u64> {
        let at = usize::from(self.header_len);
        self.header.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
    }

    /// Returns the word after the number, if it is kept.
    pub(crate) fn word(&self) -> Option<u64> {
        let at = usize::from(self.header_len) + 8;
        self.header.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
    }

    /// Returns the ECN code point, which says whether a mark may replace a drop.
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_ds(self.ds)
    }
    /// Returns the headers: IP and transport.
    pub fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len)]
    }
    /// Returns its first bytes without the link header, as far as they are kept: headers and
    /// following bytes.
    pub fn kept(&self) -> &[u8] {
        &self.header[..HEADER_MAX.min(self.len as usize)]
    }
    pub(crate) fn kept_mut(&mut self) -> &mut [u8] {
        &mut self.header[..HEADER_MAX.min(self.len as usize)]
    }
    /// Returns its link header, if it is not the ordinary one.
    pub fn link(&self) -> Option<&LinkHeader> {
        self.extra.as_ref()?.link.as_ref()
    }
    pub(crate) fn set_link(&mut self, link: Option<LinkHeader>) {
        if link.is_some() || self.extra.is_some() {
            self.extra.get_or_insert_default().link = link;
        }
    }
    /// Returns the number of bytes of its link header.
    pub fn link_len(&self) -> u32 {
        self.link().map_or(ETHERNET, LinkHeader::len)
    }
    /// Takes the results of filters from before it was returned to its sender.
    pub(crate) fn take_asked(&mut self) -> Option<Asked> {
        self.extra.as_mut()?.asked.take()
    }
    /// Returns the bytes after its headers, if it carries them.
    pub(crate) fn payload(&self) -> Option<&[u8]> {
        let (bytes, at) = self.extra.as_ref()?.payload.as_ref()?;
        bytes.get(*at as usize..)?.get(..self.payload_len() as usize)
    }
    pub(crate) fn with_payload(mut self, bytes: Arc<[u8]>) -> Self {
        self.extra.get_or_insert_default().payload = Some((bytes, 0));
        self
    }
    pub(crate) fn with_asked(mut self, asked: Asked) -> Self {
        self.extra.get_or_insert_default().asked = Some(asked);
        self
    }
    /// Returns the bytes of the IP packet.
    pub const fn ip_len(&self) -> u32 {
        self.len
    }
    /// Returns the bytes of the frame, the Ethernet header included: the length that a qdisc counts
    /// for a packet that is not a unit.
    pub fn len(&self) -> u32 {
        self.len + self.link_len()
    }
    /// Returns false: a frame is never empty.
    pub const fn is_empty(&self) -> bool {
        false
    }
    /// Returns the bytes of headers, Ethernet included, which each segment of a unit repeats.
    pub fn header_len(&self) -> u32 {
        u32::from(self.header_len) + self.link_len()
    }
    /// Returns the number of bytes after the headers.
    pub const fn payload_len(&self) -> u32 {
        self.len - self.header_len as u32
    }
    /// Returns the payload of one segment of a TSO unit, else 0.
    pub const fn gso_size(&self) -> u16 {
        self.gso_size
    }
    /// Returns the number of segments that it becomes on the wire.
    pub const fn segs(&self) -> u32 {
        match self.gso_size {
            0 => 1,
            size => self.payload_len().div_ceil(size as u32),
        }
    }
    /// Returns the bytes of all its segments, each with its headers.
    pub fn wire_len(&self) -> u32 {
        self.len() + (self.segs() - 1) * self.header_len()
    }

    /// Returns the `i`th segment of a unit, as segmentation offload makes it. TCP: the sequence
    /// number advances, and only the last segment keeps PSH and FIN; UDP: each segment is a
    /// datagram of its own. A frame that is no unit is its own segment 0.
    pub fn segment(&self, i: u32) -> Self {
        self.part(i, 1)
    }

    /// Returns `count` segments from the `i`th on as one frame: a unit again if there are several.
    pub fn part(&self, i: u32, count: u32) -> Self {
        if self.gso_size == 0 {
            return self.clone();
        }
        let size = u32::from(self.gso_size);
        let from = (i * size).min(self.payload_len());
        let to = (from + count * size).min(self.payload_len());
        let mut part = Self {
            len: u32::from(self.header_len) + to - from,
            gso_size: if to - from > size { self.gso_size } else { 0 },
            extra: self.extra.clone(),
            below: match self.below {
                Below::Whole if i > 0 => Below::Rest,
                below => below,
            },
            ..Self { extra: None, ..*self }
        };
        part.put_u16(2, part.len as u16);
        if let Some((_, at)) = part.extra.as_mut().and_then(|e| e.payload.as_mut()) {
            *at += from;
        }
        if self.header[PROTOCOL] == UDP {
            part.put_u16(UDP_LEN, (part.len - 20) as u16);
            return part;
        }
        let seq = self.u32_at(TCP_SEQ).wrapping_add(from);
        part.header[TCP_SEQ..TCP_SEQ + 4].copy_from_slice(&seq.to_be_bytes());
        if to < self.payload_len() {
            part.header[TCP_FLAGS] &= !(FIN | PSH);
        }
        part
    }

    fn put_u16(&mut self, at: usize, v: u16) {
        self.header[at..at + 2].copy_from_slice(&v.to_be_bytes());
    }

    fn u32_at(&self, at: usize) -> u32 {
        u32::from_be_bytes([self.header[at], self.header[at + 1], self.header[at + 2], self.header[at + 3]])
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
        self.header[TCP_FLAGS]
    }
}

/// Offsets into an IPv4 packet without options, the only kind that the lab's hosts send.
const PROTOCOL: usize = 9;
const UDP_LEN: usize = 24;
const TCP_SEQ: usize = 24;
const TCP_ACK: usize = 28;
const TCP_FLAGS: usize = 33;
/// The protocol UDP (RFC 768).
const UDP: u8 = 17;
/// TCP flags (RFC 9293 section 3.1).
pub const FIN: u8 = 1;
/// The SYN flag.
pub const SYN: u8 = 2;
/// The PSH flag.
pub const PSH: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(payload: usize, gso: u16) -> Frame {
        let mut bytes: Vec<u8> = (0..40 + payload).map(|i| i as u8).collect();
        bytes[TCP_SEQ..TCP_SEQ + 4].copy_from_slice(&u32::MAX.to_be_bytes());
        bytes[TCP_FLAGS] = FIN | PSH | 0x10;
        Frame::unit(&bytes[..40], bytes.len() as u32, gso)
    }

    #[test]
    fn a_frame_is_two_cache_lines() {
        assert!(size_of::<Frame>() <= 128, "{}", size_of::<Frame>());
    }

    #[test]
    fn lengths_of_a_unit() {
        let f = unit(44 * 1460, 1460);
        assert_eq!((f.len(), f.header_len(), f.segs()), (64_294, 54, 44));
        assert_eq!(f.wire_len(), 44 * 1514);
        let one = unit(1460, 1460);
        assert_eq!((one.segs(), one.gso_size(), one.wire_len()), (1, 0, 1514));
    }

    #[test]
    fn segments_of_udp_are_datagrams_with_their_bytes() {
        let bytes: Arc<[u8]> = (0..25_u8).collect();
        let mut header = [0; 28];
        header[9] = 17;
        let f = Frame::unit(&header, 53, 10).with_payload(bytes);
        let cut: Vec<Frame> = (0..f.segs()).map(|i| f.segment(i)).collect();
        assert_eq!(cut.iter().map(|c| c.payload().unwrap()[0]).collect::<Vec<_>>(), [0, 10, 20]);
        assert_eq!(cut.iter().map(|c| c.payload().unwrap().len()).collect::<Vec<_>>(), [10, 10, 5]);
        assert_eq!(cut.iter().map(|c| c.header()[25]).collect::<Vec<_>>(), [18, 18, 13]);
        assert_eq!(f.part(1, 2).payload().unwrap(), (10..25).collect::<Vec<u8>>());
        assert_eq!(unit(100, 1000).payload(), None);
    }

    #[test]
    fn segments_are_the_unit_cut() {
        let f = unit(2500, 1000);
        let cut: Vec<Frame> = (0..f.segs()).map(|i| f.segment(i)).collect();
        assert_eq!(cut.iter().map(Frame::payload_len).collect::<Vec<_>>(), [1000, 1000, 500]);
        assert_eq!(cut.iter().map(Frame::tcp_seq).collect::<Vec<_>>(), [u32::MAX, 999, 1999]);
        assert_eq!(cut.iter().map(Frame::tcp_flags).collect::<Vec<_>>(), [0x10, 0x10, 0x19]);
        assert_eq!(cut.iter().map(|c| u16::from_be_bytes([c.header[2], c.header[3]])).max(), Some(1040));
        let rest = f.part(1, 2);
        assert_eq!((rest.payload_len(), rest.segs(), rest.tcp_seq()), (1500, 2, 999));
    }
}
