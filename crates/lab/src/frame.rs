//! A packet of the lab: its headers, its length, and its destination.
//!
//! Schedulers and links act on lengths, and TCP on headers; no part of the lab reads payload. So a
//! frame keeps the first bytes of the IP packet and its length. Only frames of QUIC have bytes
//! behind their headers, which copies share. A frame is a plain value of two cache lines: there is
//! no pool, and no allocation per packet, except for QUIC's bytes and for headers of more than 80
//! bytes, which only long acknowledgements over IPv6 have.
//!
//! Lengths that links and qdiscs see count a 14-byte Ethernet header that is not in the bytes,
//! unless an action has changed it.

mod head;

use std::sync::Arc;

use txweir_core::Ecn;
use txweir_core::base::time::Instant;

use crate::frame::head::KEPT;
pub(crate) use crate::frame::head::put;
pub use crate::frame::head::{FIN, HEADER_MAX, Head, PSH, SYN};
use crate::ip::Family;
use crate::tagged::{Asked, Detour, ETHERNET, LinkHeader};

/// One packet, or one TSO unit that the wire will cut.
#[derive(Clone, Debug)]
pub struct Frame {
    /// First bytes of the packet, if `long` has not more.
    kept: [u8; KEPT],
    /// Bytes of headers.
    header_len: u8,
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
    /// DS field: IPv4 TOS, IPv6 traffic class.
    pub ds: u8,
    /// True if a bit of it is wrong, which the receiver's checksums will detect.
    pub damaged: bool,
    /// Earliest departure after `sent` from the host that sends it, nanoseconds: queues that pace
    /// (`fq`) keep it until then.
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

impl Below {
    /// Notes that a queue has cut the frame's unit, and that the frame counts as a segment of its
    /// own. Returns 1 if its sender counts it.
    pub(crate) fn cut(&mut self) -> u32 {
        let counted = *self != Self::Not;
        if counted {
            *self = Self::Cut;
        }
        u32::from(counted)
    }

    /// Returns the number of bytes that the sender has counted for a frame with this payload.
    pub(crate) const fn bytes(self, payload: u32) -> u32 {
        match self {
            Self::Not => 0,
            Self::Whole => txweir_transport::below_socket(payload),
            Self::Rest => payload,
            Self::Cut => txweir_transport::below_socket_cut(payload),
        }
    }
}

/// Fields that few frames have.
#[derive(Clone, Debug, Default)]
struct Extra {
    /// First bytes of a packet whose headers take more than a frame keeps in itself. They have no
    /// box of their own: with one more part to free, the compiler frees every frame by a call.
    long: Option<[u8; HEADER_MAX]>,
    /// A link header that is not the ordinary one.
    link: Option<LinkHeader>,
    /// Results of filters, while its sender has it back.
    asked: Option<Asked>,
    /// Payload that matters to the receiver: shared bytes, and the place in them where it begins.
    payload: Option<(Arc<[u8]>, u32)>,
    /// The detour on which an action has sent it.
    detour: Option<Detour>,
    /// Redirections since it was last in a queue.
    depth: u8,
}

impl Extra {
    /// Returns the fields of a packet with these headers, which are longer than what a frame keeps
    /// in itself.
    #[cold]
    fn long(headers: &[u8]) -> Box<Self> {
        let mut long = [0; HEADER_MAX];
        let len = headers.len().min(HEADER_MAX);
        long[..len].copy_from_slice(&headers[..len]);
        Box::new(Self { long: Some(long), ..Self::default() })
    }
}

impl Frame {
    /// Returns a unit of TCP, or one segment, from its headers and the length of the IP packet.
    /// `gso_size` is the payload of one segment of a TSO unit, else 0.
    pub fn unit(headers: &[u8], ip_len: u32, gso_size: u16) -> Self {
        let mut frame = Self::headers(headers, headers.len(), ip_len);
        frame.gso_size = if frame.payload_len() > u32::from(gso_size) { gso_size } else { 0 };
        frame
    }

    /// Returns a packet of `ip_len` bytes whose first bytes are `first` (at least 80, at most
    /// [`HEADER_MAX`] of them are kept), of which `header_len` are headers.
    pub fn headers(first: &[u8], header_len: usize, ip_len: u32) -> Self {
        let len = first.len().min(KEPT);
        let mut kept = [0; KEPT];
        kept[..len].copy_from_slice(&first[..len]);
        let header_len = header_len.min(first.len()).min(HEADER_MAX);
        let extra = if header_len > KEPT { Some(Extra::long(&first[..header_len])) } else { None };
        let (sent, protocol) = (Instant::ZERO, Family::of(first).ethertype());
        let (to, hash, priority, mark, ds) = (0, 0, 0, 0, 0);
        let (gso_size, damaged, ahead, below) = (0, false, 0, Below::Not);
        Self {
            kept,
            header_len: header_len as u8,
            sent,
            extra,
            len: ip_len,
            to,
            hash,
            priority,
            mark,
            protocol,
            gso_size,
            ds,
            damaged,
            ahead,
            below,
        }
    }

    /// Returns its first bytes if they are more than it keeps in itself.
    #[inline]
    fn long(&self) -> Option<&[u8; HEADER_MAX]> {
        if usize::from(self.header_len) <= KEPT {
            return None;
        }
        self.extra.as_ref()?.long.as_ref()
    }
    /// Returns the ECN code point, which says whether a mark may replace a drop.
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_ds(self.ds)
    }
    /// Returns its first bytes, to read fields of the headers.
    #[inline]
    pub fn head(&self) -> Head<'_> {
        let (bytes, first) = match self.long() {
            Some(long) => (&long[..], long.first_chunk().unwrap_or(&self.kept)),
            None => (&self.kept[..], &self.kept),
        };
        Head { bytes, first, len: self.header_len }
    }
    /// Returns the headers: IP and transport.
    #[inline]
    pub fn header(&self) -> &[u8] {
        let bytes = self.long().map_or(&self.kept[..], |long| long);
        bytes.get(..usize::from(self.header_len)).unwrap_or(bytes)
    }
    /// Returns its first bytes without the link header, as far as they are kept: headers and
    /// following bytes.
    pub fn kept(&self) -> &[u8] {
        let bytes = self.long().map_or(&self.kept[..], |long| long);
        bytes.get(..self.len as usize).unwrap_or(bytes)
    }
    pub(crate) fn kept_mut(&mut self) -> &mut [u8] {
        let long = usize::from(self.header_len) > KEPT;
        let room = match self.extra.as_mut().and_then(|extra| extra.long.as_mut()).filter(|_| long) {
            Some(long) => &mut long[..],
            None => &mut self.kept[..],
        };
        let len = room.len().min(self.len as usize);
        &mut room[..len]
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
    /// Returns the detour that it is on.
    pub(crate) fn detour(&self) -> Option<Detour> {
        self.extra.as_ref()?.detour
    }
    /// Sends it on a detour, or ends it.
    pub(crate) fn set_detour(&mut self, detour: Option<Detour>) {
        if detour.is_some() || self.extra.is_some() {
            self.extra.get_or_insert_default().detour = detour;
        }
    }
    /// Returns the number of redirections since it was last in a queue.
    pub(crate) fn depth(&self) -> u8 {
        self.extra.as_ref().map_or(0, |extra| extra.depth)
    }
    pub(crate) fn set_depth(&mut self, depth: u8) {
        if depth > 0 || self.extra.is_some() {
            self.extra.get_or_insert_default().depth = depth;
        }
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
        let len = u32::from(self.header_len) + to - from;
        let mut part = Self {
            len,
            gso_size: if to - from > size { self.gso_size } else { 0 },
            extra: self.extra.clone(),
            below: match self.below {
                Below::Whole if i > 0 => Below::Rest,
                below => below,
            },
            ..Self { extra: None, ..*self }
        };
        if let Some((_, at)) = part.extra.as_mut().and_then(|e| e.payload.as_mut()) {
            *at += from;
        }
        head::cut(part.kept_mut(), len, from, to == self.payload_len());
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(payload: usize, gso: u16) -> Frame {
        let mut bytes: Vec<u8> = (0..40 + payload).map(|i| i as u8).collect();
        bytes[24..28].copy_from_slice(&u32::MAX.to_be_bytes());
        bytes[33] = FIN | PSH | 0x10;
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

    /// Returns a packet of TCP over IPv6 with so many bytes of headers and of payload.
    fn of_ipv6(headers: usize, payload: u32, gso: u16) -> Frame {
        let mut bytes: Vec<u8> = (0..headers).map(|i| i as u8).collect();
        (bytes[0], bytes[6]) = (0x60, 6);
        bytes[44..48].copy_from_slice(&7_u32.to_be_bytes());
        bytes[53] = FIN | PSH | 0x10;
        Frame::unit(&bytes, headers as u32 + payload, gso)
    }

    #[test]
    fn segments_of_ipv6_have_their_own_numbers_and_lengths() {
        let f = of_ipv6(72, 2500, 1428);
        assert_eq!((f.protocol, f.segs(), f.wire_len()), (0x86dd, 2, 2 * 86 + 2500));
        let cut: Vec<Frame> = (0..2).map(|i| f.segment(i)).collect();
        assert_eq!(cut.iter().map(|c| c.head().tcp_seq()).collect::<Vec<_>>(), [7, 1435]);
        assert_eq!(cut.iter().map(|c| c.head().tcp_flags()).collect::<Vec<_>>(), [0x10, 0x19]);
        let payload_len = |c: &Frame| u16::from_be_bytes([c.header()[4], c.header()[5]]);
        assert_eq!(cut.iter().map(payload_len).collect::<Vec<_>>(), [1460, 32 + 1072]);
        assert_eq!(cut[0].header()[24..40], f.header()[24..40], "IPv4 has its number there");
        let mut header = [0; 48];
        (header[0], header[6]) = (0x60, 17);
        let f = Frame::unit(&header, 48 + 25, 10);
        assert_eq!((0..3).map(|i| f.segment(i).header()[45]).collect::<Vec<_>>(), [18, 18, 13]);
        assert_eq!((0..3).map(|i| f.segment(i).header()[5]).collect::<Vec<_>>(), [18, 18, 13]);
    }

    #[test]
    fn headers_that_are_longer_than_what_a_frame_keeps_are_kept_whole() {
        let f = of_ipv6(100, 2500, 1428);
        assert_eq!((f.header().len(), f.header()[99], f.kept().len()), (100, 99, 100));
        assert_eq!((f.head().transport().len(), f.header_len()), (60, 114));
        let mut part = f.part(1, 1);
        assert_eq!((part.head().tcp_seq(), part.header()[99], f.head().tcp_seq()), (1435, 99, 7));
        part.kept_mut()[99] = 1;
        assert_eq!((part.header()[99], f.header()[99]), (1, 99), "each has its own");
        // No frame has longer headers, and none of at most 80 bytes needs a box.
        assert_eq!(of_ipv6(120, 0, 0).header().len(), HEADER_MAX);
        assert!(of_ipv6(80, 0, 0).extra.is_none());
    }

    #[test]
    fn segments_are_the_unit_cut() {
        let f = unit(2500, 1000);
        let cut: Vec<Frame> = (0..f.segs()).map(|i| f.segment(i)).collect();
        assert_eq!(cut.iter().map(Frame::payload_len).collect::<Vec<_>>(), [1000, 1000, 500]);
        assert_eq!(cut.iter().map(|c| c.head().tcp_seq()).collect::<Vec<_>>(), [u32::MAX, 999, 1999]);
        assert_eq!(cut.iter().map(|c| c.head().tcp_flags()).collect::<Vec<_>>(), [0x10, 0x10, 0x19]);
        assert_eq!(cut.iter().map(|c| u16::from_be_bytes([c.header()[2], c.header()[3]])).max(), Some(1040));
        let rest = f.part(1, 2);
        assert_eq!((rest.payload_len(), rest.segs(), rest.head().tcp_seq()), (1500, 2, 999));
    }
}
