//! ife: puts metadata of a packet in front of it, in a frame of its own, or takes such metadata off
//! again (tc-ife(8), RFC 8013).
//!
//! The frame around a packet has an Ethernet header with the type of ife, the length of the
//! metadata in 16 bits, and the metadata as type, length and value, each padded to four bytes. The
//! packet follows with its own Ethernet header, whose addresses the outer header repeats unless the
//! parameters say others.
//!
//! `encode` writes each allowed part of the packet, and the parts that have values of their own; a
//! part that is 0 is not written, and a packet without any part passes unchanged and counts as an
//! overlimit. `decode` sets all parts that it knows, and counts each other one as an overlimit. A
//! frame that ends inside its metadata or behind it is dropped and counted, and so is one that has
//! no room for a second header.
//!
//! Memory: none. Cost: the bytes behind the metadata are moved.
//!
//! Differs from Linux (PARITY.md: ife-index, ife-line, ife-mtu).

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;

/// The type of the frame, unless the parameters say another (RFC 8013 section 6).
pub const ETHERTYPE: u16 = 0xed3e;
const ETHERNET: usize = 14;
/// Bytes of the length of the metadata.
const LENGTH: usize = 2;
/// Bytes of a type and a length.
const TL: usize = 4;
/// Bytes of a part with its padding.
const PART: usize = 8;
/// Most bytes in front of a packet.
const FRONT_MAX: usize = ETHERNET + LENGTH + PARTS.len() * PART;

/// A part of the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// The mark, 32 bits.
    Mark = 0,
    /// The priority, 32 bits.
    Prio = 1,
    /// The index for traffic control, 16 bits.
    TcIndex = 2,
}

/// The parts, in the order in which they are written.
pub const PARTS: [Part; 3] = [Part::Mark, Part::Prio, Part::TcIndex];

impl Part {
    /// Returns the word of the part in tc.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Prio => "prio",
            Self::TcIndex => "tcindex",
        }
    }
    /// Returns the type of the part in a frame.
    pub const fn number(self) -> u16 {
        match self {
            Self::Mark => 1,
            Self::Prio => 3,
            Self::TcIndex => 5,
        }
    }
    /// Returns the bytes of its value.
    pub const fn size(self) -> usize {
        match self {
            Self::Mark | Self::Prio => 4,
            Self::TcIndex => 2,
        }
    }
}

/// The value that is written of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The part of the packet.
    Allow,
    /// A value in its place.
    Value(u32),
}

/// Parameters of ife.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ife {
    /// True if metadata is put in front, false if it is taken off.
    pub encode: bool,
    /// The type of the frame; 0 for `decode`, which does not look at it.
    pub ethertype: u16,
    /// The destination of the frame, if it is not that of the packet.
    pub dst: Option<[u8; 6]>,
    /// The source of the frame, if it is not that of the packet.
    pub src: Option<[u8; 6]>,
    /// The parts that `encode` writes, in the order of [`PARTS`].
    pub parts: [Option<Use>; PARTS.len()],
}

/// The end of a change: the growth of the frame in bytes, and whether it exceeds something.
struct Done {
    longer: i32,
    over: u64,
}

impl Ife {
    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        mine: &mut Memory,
        _: &mut Run<'_>,
    ) -> Control {
        let done = if self.encode { self.encoded(packet) } else { self.decoded(packet) };
        match done {
            Some(Done { longer, over }) => {
                mine.overlimits += over;
                packet.rewritten(longer);
                control
            }
            None => {
                mine.drops += 1;
                Control::Drop
            }
        }
    }

    /// Puts the metadata in front. `None`, as below, if the change is impossible.
    fn encoded(&self, packet: &mut Packet<'_>) -> Option<Done> {
        let mut front = [0; FRONT_MAX];
        let mut len = ETHERNET + LENGTH;
        for (part, way) in PARTS.into_iter().zip(self.parts) {
            let value = match way {
                Some(Use::Value(value)) => value,
                Some(Use::Allow) => of_packet(part, packet),
                None => 0,
            };
            if value != 0 {
                write(part, value, front.get_mut(len..)?.first_chunk_mut()?);
                len += PART;
            }
        }
        if len == ETHERNET + LENGTH {
            return Some(Done { longer: 0, over: 1 });
        }
        let inner = *packet.frame.bytes().first_chunk::<ETHERNET>()?;
        if usize::from(packet.headers.link_len) < ETHERNET {
            return None;
        }
        let front = front.get_mut(..len)?;
        let (dst, src) = inner[..12].split_at(6);
        front[..6].copy_from_slice(self.dst.as_ref().map_or(dst, |mac| mac));
        front[6..12].copy_from_slice(self.src.as_ref().map_or(src, |mac| mac));
        front[12..14].copy_from_slice(&self.ethertype.to_be_bytes());
        // At most 26.
        front[14..16].copy_from_slice(&((len - ETHERNET) as u16).to_be_bytes());
        packet.frame.insert(0, front).then_some(Done { longer: len as i32, over: 0 }) // 40 at most
    }

    /// Takes the metadata off.
    fn decoded(&self, packet: &mut Packet<'_>) -> Option<Done> {
        let bytes = packet.frame.bytes();
        let len = usize::from(u16::from_be_bytes(*bytes.get(ETHERNET..)?.first_chunk()?));
        let end = ETHERNET + len;
        if len < LENGTH || bytes.len() < end + ETHERNET {
            return None;
        }
        let (mut at, mut over) = (ETHERNET + LENGTH, 0);
        let mut read = [None; PARTS.len()];
        // Bound: each pass takes four bytes or more of the metadata.
        while at < end {
            let [t0, t1, l0, l1] = *bytes.get(at..end)?.first_chunk::<TL>()?;
            let size = usize::from(u16::from_be_bytes([l0, l1])).checked_sub(TL)?.next_multiple_of(4);
            let value = at + TL;
            at = value + size;
            if at > end {
                return None;
            }
            match PARTS.iter().find(|part| part.number() == u16::from_be_bytes([t0, t1])) {
                // As in the reference, a part has its own number of bytes, not the length.
                Some(part) => read[*part as usize] = bytes.get(value..value + part.size()).map(number_of),
                None => over += 1,
            }
        }
        if !packet.frame.remove(0, end) {
            return None;
        }
        for (part, value) in PARTS.into_iter().zip(read) {
            if let Some(value) = value {
                set(part, value, packet);
            }
        }
        Some(Done { longer: -(end as i32), over }) // 16 bits and 14
    }
}

/// Returns a number of up to four bytes, the first of which is the highest.
fn number_of(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |all, byte| all << 8 | u32::from(*byte))
}

/// Writes a part with its type and its length.
fn write(part: Part, value: u32, to: &mut [u8; PART]) {
    let size = part.size();
    to[..2].copy_from_slice(&part.number().to_be_bytes());
    to[2..4].copy_from_slice(&((TL + size) as u16).to_be_bytes()); // 8 at most
    to[TL..TL + size].copy_from_slice(&value.to_be_bytes()[4 - size..]);
}

/// Returns a part of a packet.
const fn of_packet(part: Part, packet: &Packet<'_>) -> u32 {
    match part {
        Part::Mark => packet.meta.mark,
        Part::Prio => packet.meta.priority,
        Part::TcIndex => 0,
    }
}

const fn set(part: Part, value: u32, packet: &mut Packet<'_>) {
    match part {
        Part::Mark => packet.meta.mark = value,
        Part::Prio => packet.meta.priority = value,
        Part::TcIndex => {}
    }
}
