//! vlan: pushes a VLAN tag in front of a packet, pops the outermost one, or changes it; or pushes
//! or pops the whole Ethernet header (tc-vlan(8), IEEE 802.1Q).
//!
//! Tags are in the bytes of a frame: a push makes it four bytes longer, for which it needs room
//! ([`FrameBytes::insert`](crate::classify::packet::FrameBytes::insert)). An impossible change is a
//! drop, and counted: no room, a frame that ends inside its tag, a second Ethernet header, a pop of
//! an Ethernet header in front of tags. A packet without a tag passes `pop` and `modify` unchanged.
//!
//! Memory: none. Cost: the bytes behind the tag are moved.

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;
use crate::packet::headers::ethertype;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Offset of a tag: behind the two addresses.
const TAG_AT: usize = 12;
/// Bytes of a tag.
const TAG: usize = 4;
/// Fields of a tag besides its type: the VLAN in the low 12 bits, the priority in the high three.
const ID: u16 = 0x0fff;
const PRIORITY_SHIFT: u32 = 13;

/// Parameters of vlan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vlan {
    /// Remove the outermost tag.
    Pop,
    /// Insert a tag in front of all others.
    Push {
        /// VLAN, 12 bits.
        id: u16,
        /// Type of the tag.
        protocol: u16,
        /// Priority, 3 bits.
        priority: u8,
    },
    /// Change the outermost tag.
    Modify {
        /// VLAN, 12 bits.
        id: u16,
        /// Type of the tag.
        protocol: u16,
        /// Priority, 3 bits; `None` to keep it.
        priority: Option<u8>,
    },
    /// Remove the Ethernet header.
    PopEth,
    /// Give a packet without an Ethernet header one, with the packet's ethertype.
    PushEth {
        /// Destination address.
        dst: [u8; 6],
        /// Source address.
        src: [u8; 6],
    },
}

impl Vlan {
    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        mine: &mut Memory,
        _: &mut Run<'_>,
    ) -> Control {
        let longer = match *self {
            Self::Pop => pop(packet),
            Self::Push { id, protocol, priority } => push(packet, protocol, tci(0, id, Some(priority))),
            Self::Modify { id, protocol, priority } => modify(packet, id, protocol, priority),
            Self::PopEth => pop_eth(packet),
            Self::PushEth { dst, src } => push_eth(packet, dst, src),
        };
        match longer {
            Some(longer) => {
                packet.rewritten(longer);
                control
            }
            None => {
                mine.drops += 1;
                Control::Drop
            }
        }
    }
}

/// Returns a tag's control information with another VLAN and, if given, another priority.
fn tci(old: u16, id: u16, priority: Option<u8>) -> u16 {
    let old = old & !ID | id & ID;
    match priority {
        Some(priority) => old & !(7 << PRIORITY_SHIFT) | u16::from(priority & 7) << PRIORITY_SHIFT,
        None => old,
    }
}

fn is_ethernet(packet: &Packet<'_>) -> bool {
    usize::from(packet.headers.link_len) == ETHERNET && packet.frame.bytes().len() >= ETHERNET
}

/// True if the frame has a tag; `None` if the frame ends in it.
fn tagged(packet: &Packet<'_>) -> Option<bool> {
    let tag = is_ethernet(packet) && matches!(packet.protocol(), ethertype::VLAN | ethertype::SERVICE_VLAN);
    (!tag || packet.frame.bytes().len() >= ETHERNET + TAG).then_some(tag)
}

/// Pops the outermost tag. Returns, as the functions below, the growth of the frame in bytes;
/// `None` if the change is impossible.
fn pop(packet: &mut Packet<'_>) -> Option<i32> {
    match tagged(packet)? {
        true => packet.frame.remove(TAG_AT, TAG).then_some(-(TAG as i32)),
        false => Some(0),
    }
}

fn push(packet: &mut Packet<'_>, protocol: u16, tci: u16) -> Option<i32> {
    let ([p0, p1], [t0, t1]) = (protocol.to_be_bytes(), tci.to_be_bytes());
    (is_ethernet(packet) && packet.frame.insert(TAG_AT, &[p0, p1, t0, t1])).then_some(TAG as i32)
}

fn modify(packet: &mut Packet<'_>, id: u16, protocol: u16, priority: Option<u8>) -> Option<i32> {
    if tagged(packet)?
        && let Some(tag) = packet.frame.bytes_mut()[TAG_AT..].first_chunk_mut::<TAG>()
    {
        let new = tci(u16::from_be_bytes([tag[2], tag[3]]), id, priority);
        let ([p0, p1], [t0, t1]) = (protocol.to_be_bytes(), new.to_be_bytes());
        *tag = [p0, p1, t0, t1];
    }
    Some(0)
}

fn pop_eth(packet: &mut Packet<'_>) -> Option<i32> {
    if !is_ethernet(packet) || tagged(packet) != Some(false) || !packet.frame.remove(0, ETHERNET) {
        return None;
    }
    // The rest begins with its network header, of a known type, and is parsed so.
    (packet.headers.link_len, packet.headers.l3_offset) = (0, Some(0));
    Some(-(ETHERNET as i32))
}

fn push_eth(packet: &mut Packet<'_>, dst: [u8; 6], src: [u8; 6]) -> Option<i32> {
    if packet.headers.link_len != 0 || packet.headers.l3_offset != Some(0) {
        return None;
    }
    let mut link = [0; ETHERNET];
    link[..6].copy_from_slice(&dst);
    link[6..12].copy_from_slice(&src);
    link[12..].copy_from_slice(&packet.headers.ethertype.to_be_bytes());
    if !packet.frame.insert(0, &link) {
        return None;
    }
    packet.headers.link_len = ETHERNET as u8; // 14
    Some(ETHERNET as i32)
}
