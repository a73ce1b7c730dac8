//! `Packet`: a packet while filters look at it and actions change it: its bytes, what is known of them, and where it is.
//! That is before it is queued: qdiscs see metadata only.

use crate::packet::headers::Headers;
use crate::packet::meta::{Ecn, Meta};

/// A port among those of one owner: what an action redirects to. The owner gives the numbers out; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl PortId {
    /// No port.
    pub const NONE: Self = Self(0);
}

/// Which way a packet goes through a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Way {
    /// It has come in.
    Ingress,
    /// It is to be sent.
    #[default]
    Egress,
}

/// The bytes of a frame, to read and to change. A frame may hold only its first bytes, where nobody looks at the rest
/// (the lab): its length is `Meta::len`.
pub trait FrameBytes {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, to change.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Puts bytes in at an offset; false, and nothing done, if there is no room or no such offset.
    fn insert(&mut self, at: usize, bytes: &[u8]) -> bool;
    /// Takes bytes out at an offset; false, and nothing done, if there are not so many.
    fn remove(&mut self, at: usize, len: usize) -> bool;
    /// Where the sum begins that the device is to reckon and to write, if a checksum was left to it: the field has the sum of
    /// the pseudo-header until then. (Linux: CHECKSUM_PARTIAL; virtio: NEEDS_CSUM.)
    fn checksum_left(&self) -> Option<usize> {
        None
    }
    /// What else is left to be done on the frame, in its owner's own words (of virtio-net: the header): a copy has to be
    /// handed on with the same.
    fn undone(&self) -> Undone {
        Undone::default()
    }
}

/// What is left to be done on a frame; only whose frames they are can read it. Zeros: nothing.
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

/// What actions send besides the packet itself; implemented by whoever owns the ports. What is handed over is to be copied.
pub trait Outlet {
    /// Takes a copy of a packet for another port, `depth` redirections deep; false if the port is not there or is down, or
    /// the packet is too deep.
    fn send(&mut self, to: PortId, way: Way, frame: &dyn FrameBytes, m: &Meta, depth: u8) -> bool;
    /// Takes a sample of a packet: the first bytes of it, as many as asked for.
    fn sample(&mut self, _group: u32, _rate: u32, _frame: &[u8], _m: &Meta) {}
    /// Takes a line that an action wants to have written.
    fn say(&mut self, _text: &str, _count: u64) {}
}

/// An outlet that takes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOutlet;

impl Outlet for NoOutlet {
    fn send(&mut self, _: PortId, _: Way, _: &dyn FrameBytes, _: &Meta, _: u8) -> bool {
        false
    }
}

/// A packet on its way to a queue.
pub struct Packet<'a> {
    /// Its bytes. After a change to them, say so: `rewritten`.
    pub frame: &'a mut dyn FrameBytes,
    /// What qdiscs will know of it.
    pub meta: &'a mut Meta,
    /// What was read of its bytes.
    pub headers: Headers,
    /// The port that it is at.
    pub port: PortId,
    /// The port that it has come in by, if any.
    pub iif: PortId,
    /// Which way it goes.
    pub way: Way,
    /// True once an action has chosen its transmit queue, which is `Meta::queue` then.
    pub queue_chosen: bool,
    /// How many redirections it has behind it.
    pub depth: u8,
    /// Whether TCP control segments are marked (`Meta::tcp_control`) when its bytes are read again: the port's `prio_synack`.
    pub marks: bool,
}

impl core::fmt::Debug for Packet<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Packet").field("meta", &self.meta).field("way", &self.way).finish_non_exhaustive()
    }
}

impl<'a> Packet<'a> {
    /// A packet that is sent from here.
    pub fn new(frame: &'a mut dyn FrameBytes, meta: &'a mut Meta, headers: Headers) -> Self {
        let (port, iif, way) = (PortId::NONE, PortId::NONE, Way::Egress);
        Self { frame, meta, headers, port, iif, way, queue_chosen: false, depth: 0, marks: true }
    }

    /// At this port, going this way.
    #[must_use]
    pub const fn at(mut self, port: PortId, way: Way) -> Self {
        self.port = port;
        self.way = way;
        self
    }

    /// The offset of its network header; behind the link header if there is none that was understood.
    #[inline]
    pub fn network(&self) -> usize {
        usize::from(self.headers.l3_offset.unwrap_or(u16::from(self.headers.link_len)))
    }

    /// The protocol in its link header, which filters are asked by: that of the outermost VLAN tag, if it has any.
    #[inline]
    pub const fn protocol(&self) -> u16 {
        self.headers.link_protocol
    }

    /// An action has changed bytes, and made the frame so much longer or shorter: what is known of it is read again. The
    /// flow hash stays, so that a flow is not torn apart by what is done to it here.
    pub fn rewritten(&mut self, longer: i32) {
        let ip_alone = self.headers.link_len == 0 && self.headers.l3_offset == Some(0);
        self.headers = match ip_alone {
            true => Headers::parse_ip(self.frame.bytes()),
            false => Headers::parse_ethernet(self.frame.bytes()),
        };
        let m = &mut *self.meta;
        m.len = m.len.saturating_add_signed(longer);
        m.wire_len = m.wire_len.saturating_add_signed(longer.saturating_mul(i32::from(m.segs)));
        if m.segs > 1 {
            // A cut repeats what was put in, and not what was taken out.
            m.header_len = m.header_len.saturating_add_signed(i16::try_from(longer).unwrap_or(0));
        }
        m.protocol = self.headers.ethertype;
        m.ds = self.headers.ds;
        if m.ecn != Ecn::Ce || !m.marked {
            m.ecn = self.headers.ecn();
        }
        m.tcp_control = self.marks && self.headers.is_tcp_control();
    }
}
