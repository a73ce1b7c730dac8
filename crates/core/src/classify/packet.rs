//! A packet while filters read it and actions change it: its bytes, its metadata and its headers,
//! and its place. Both work before the packet is queued; qdiscs see metadata only.

use crate::packet::headers::Headers;
use crate::packet::meta::{Ecn, Meta};

/// A port among those of one owner, to which actions redirect. The owner assigns the numbers; 0 is
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl PortId {
    /// No port.
    pub const NONE: Self = Self(0);
}

/// Direction of a packet through a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Way {
    /// The packet was received.
    Ingress,
    /// The packet is to be sent.
    #[default]
    Egress,
}

/// The bytes of a frame, for reading and changing. A frame may hold only its first bytes if its
/// owner never reads the rest (as in the lab): its length is `Meta::len`.
pub trait FrameBytes {
    /// Returns the bytes.
    fn bytes(&self) -> &[u8];
    /// Returns the bytes, mutably.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Inserts bytes at an offset. False, without a change, if there is no room or no such offset.
    fn insert(&mut self, at: usize, bytes: &[u8]) -> bool;
    /// Removes `len` bytes at an offset. False, without a change, if the frame has fewer bytes
    /// there.
    fn remove(&mut self, at: usize, len: usize) -> bool;
    /// Returns the offset at which the device begins to sum, if a checksum was left to it. Until
    /// then the checksum field holds the sum of the pseudo-header. (Linux: CHECKSUM_PARTIAL;
    /// virtio: NEEDS_CSUM.)
    fn checksum_left(&self) -> Option<usize> {
        None
    }
    /// Returns the other work that is left to be done on the frame, in a form that only its owner
    /// reads (for virtio-net, the header). A copy must be passed on with the same value.
    fn undone(&self) -> Undone {
        Undone::default()
    }
}

/// Work left to be done on a frame; only the owner of the frames can read it. Zeros mean none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undone(pub [u8; 12]);

impl FrameBytes for alloc::vec::Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
    fn insert(&mut self, at: usize, bytes: &[u8]) -> bool {
        let room = at <= self.len();
        if room {
            self.splice(at..at, bytes.iter().copied());
        }
        room
    }
    fn remove(&mut self, at: usize, len: usize) -> bool {
        let there = at.checked_add(len).is_some_and(|end| end <= self.len());
        if there {
            self.drain(at..at + len);
        }
        there
    }
}

/// Bytes of a VLAN tag.
const TAG: u32 = 4;
/// Offset of the outermost tag: behind two addresses.
const TAG_AT: usize = 12;
/// Offset behind the outermost tag: of two addresses and the tag.
const BEHIND_TAG: i64 = 16;

/// Returns where the byte at the offset `at` stands in a frame, with `front` as [`Packet::front`]
/// returns it; below 0 in front of the frame.
#[inline]
pub(crate) const fn place(at: i64, front: i64) -> i64 {
    if front > 0 && at < front { at - TAG as i64 } else { at }
}

/// Sink for everything that actions send besides the packet itself; implemented by the owner of the
/// ports. The implementation copies the data that it keeps.
pub trait Outlet {
    /// Takes a copy of a packet for another port, `depth` redirections deep. False if the port does
    /// not exist or is down, or if the packet is too deep.
    fn send(&mut self, to: PortId, way: Way, frame: &dyn FrameBytes, m: &Meta, depth: u8) -> bool;
    /// Takes the packet itself for another port, as `send` takes a copy: its verdict is `Stolen`.
    /// The default calls `send`, for an owner to which the two are alike.
    fn redirect(&mut self, to: PortId, way: Way, frame: &dyn FrameBytes, m: &Meta, depth: u8) -> bool {
        self.send(to, way, frame, m, depth)
    }
    /// Takes a sample of a packet: its first bytes, as many as the action asks for.
    fn sample(&mut self, _group: u32, _rate: u32, _frame: &[u8], _m: &Meta) {}
    /// Takes a line of text that an action asks to be written.
    fn say(&mut self, _text: &str, _count: u64) {}
}

/// An outlet that discards everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOutlet;

impl Outlet for NoOutlet {
    fn send(&mut self, _: PortId, _: Way, _: &dyn FrameBytes, _: &Meta, _: u8) -> bool {
        false
    }
}

/// A packet before it is queued.
pub struct Packet<'a> {
    /// The bytes. After a change to them, call `rewritten`.
    pub frame: &'a mut dyn FrameBytes,
    /// The metadata that qdiscs will see.
    pub meta: &'a mut Meta,
    /// The headers parsed from the bytes.
    pub headers: Headers,
    /// The port at which the packet is.
    pub port: PortId,
    /// The port that received the packet, if any.
    pub iif: PortId,
    /// Direction of the packet.
    pub way: Way,
    /// True once an action has chosen the transmit queue, which is then in `Meta::queue`.
    pub queue_chosen: bool,
    /// Number of redirections of the packet so far.
    pub depth: u8,
    /// True if TCP control segments are marked (`Meta::tcp_control`) when the bytes are parsed
    /// again: the port's `prio_synack`.
    pub marks: bool,
}

impl core::fmt::Debug for Packet<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Packet").field("meta", &self.meta).field("way", &self.way).finish_non_exhaustive()
    }
}

impl<'a> Packet<'a> {
    /// Returns a packet that is sent by this host.
    pub fn new(frame: &'a mut dyn FrameBytes, meta: &'a mut Meta, headers: Headers) -> Self {
        let (port, iif, way) = (PortId::NONE, PortId::NONE, Way::Egress);
        Self { frame, meta, headers, port, iif, way, queue_chosen: false, depth: 0, marks: true }
    }

    /// Places the packet at this port, in this direction.
    #[must_use]
    pub const fn at(mut self, port: PortId, way: Way) -> Self {
        self.port = port;
        self.way = way;
        self
    }

    /// Returns the offset of the network header, or the end of the link header if no network header
    /// was understood.
    #[inline]
    pub fn network(&self) -> usize {
        usize::from(self.headers.l3_offset.unwrap_or(u16::from(self.headers.link_len)))
    }

    /// Returns the protocol by which filters are selected, from the link header: that of the
    /// outermost VLAN tag, if there is one.
    #[inline]
    pub const fn protocol(&self) -> u16 {
        self.headers.link_protocol
    }

    /// Returns the bytes of the outermost tag if Linux has taken it off the packet by now: 4 for a
    /// packet that has arrived with a tag, else 0. Here the tag stays in the bytes
    /// (PARITY.md: vlan-in-place).
    #[inline]
    pub(crate) const fn tag_taken_off(&self) -> u32 {
        match (self.way, self.headers.vlan) {
            (Way::Ingress, Some(_)) => TAG,
            _ => 0,
        }
    }

    /// Returns the bytes for which hooks and actions charge the packet. A packet that is sent
    /// counts as on the wire. One that has arrived counts without its link header and its outermost
    /// tag, which have been taken off by then, and without the headers that segments repeat.
    #[inline]
    pub(crate) fn charged(&self) -> u32 {
        match self.way {
            Way::Egress => self.meta.wire_len,
            Way::Ingress => {
                let taken = u32::from(self.headers.link_len) + self.tag_taken_off();
                self.meta.len.saturating_sub(taken)
            }
        }
    }

    /// Returns the end of the outermost tag if Linux has taken it off the packet by now, else 0.
    /// Offsets that filters and actions count back from the network header pass over such a tag:
    /// in front of this end the two addresses stand where the tag does, as [`place`] says.
    #[inline]
    pub(crate) const fn front(&self) -> i64 {
        if self.tag_taken_off() > 0 { BEHIND_TAG } else { 0 }
    }

    /// Returns `len` bytes at the offset `at` from the start of the frame, without the outermost
    /// tag if Linux has taken it off the packet by now: the bytes in front of that tag and those
    /// behind it, or all and none.
    #[inline]
    pub(crate) fn link_bytes(&self, at: usize, len: usize) -> Option<[&[u8]; 2]> {
        let (bytes, tag) = (self.frame.bytes(), self.tag_taken_off() as usize); // 4 or 0
        let end = at.checked_add(len)?;
        let behind = end.checked_add(tag)?;
        let cut = if tag > 0 { TAG_AT.clamp(at, end) } else { end };
        Some([bytes.get(at..cut)?, bytes.get(cut + tag..behind)?])
    }

    /// Parses the bytes again after an action changed them in place. The length stays, and so do
    /// the number of tags and the protocols, whatever the link header says now: Linux keeps these
    /// beside the bytes.
    pub(crate) fn edited(&mut self) {
        self.headers = match self.is_bare() {
            true => Headers::parse_bare(self.headers.ethertype, self.frame.bytes()),
            false => self.headers.again(self.frame.bytes()),
        };
        self.note_headers();
    }

    /// Parses the bytes again after an action changed them and made the frame longer by `longer`
    /// bytes. The flow hash stays, so that an action does not split a flow.
    pub fn rewritten(&mut self, longer: i32) {
        self.headers = match self.is_bare() {
            true => Headers::parse_bare(self.headers.ethertype, self.frame.bytes()),
            false => Headers::parse_ethernet(self.frame.bytes()),
        };
        let m = &mut *self.meta;
        m.len = m.len.saturating_add_signed(longer);
        m.wire_len = m.wire_len.saturating_add_signed(longer.saturating_mul(i32::from(m.segs)));
        if m.segs > 1 {
            // Each segment of a cut repeats inserted bytes; removed bytes are missing in each.
            m.header_len = m.header_len.saturating_add_signed(i16::try_from(longer).unwrap_or(0));
        }
        self.note_headers();
    }

    /// True if the packet begins with its network header.
    fn is_bare(&self) -> bool {
        self.headers.link_len == 0 && self.headers.l3_offset == Some(0)
    }

    /// Copies the fields that qdiscs see from the headers into the metadata.
    fn note_headers(&mut self) {
        let m = &mut *self.meta;
        m.protocol = self.headers.ethertype;
        m.ds = self.headers.ds;
        if m.ecn != Ecn::Ce || !m.marked {
            m.ecn = self.headers.ecn();
        }
        m.tcp_control = self.marks && self.headers.is_tcp_control();
    }
}
