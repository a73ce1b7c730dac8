//! mpls: pushes a label in front of a packet, pops the outermost one, or changes it (tc-mpls(8),
//! RFC 3032).
//!
//! Labels stand behind the Ethernet header and its VLAN tags, whose type then is that of MPLS.
//! `mac_push` puts a label in front of the Ethernet header instead (RFC 4448 without a control
//! word); `push_eth` of [vlan](super::vlan) gives such a packet a header of its own, and `pop_eth`
//! takes that off again.
//!
//! A pushed label has the bit of the bottom of the stack if no label is behind it, unless the
//! parameters say the bit. A packet without a label passes `pop` unchanged, and is dropped and
//! counted by `modify` and `dec_ttl`; so is one whose time to live becomes 0, one that ends inside
//! its label, and one whose frame has no room for another. A pop copies no time to live to the
//! packet behind the label.
//!
//! Memory: none. Cost: the bytes behind the label are moved.
//!
//! Differs from Linux (PARITY.md: action-tags).

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;
use crate::packet::headers::ethertype;

/// Bytes of a label stack entry.
const ENTRY: usize = 4;
/// The largest label, of 20 bits.
pub const LABEL_MAX: u32 = 0xf_ffff;
/// The label that no packet carries: its receiver is to be sent the packet without it (RFC 3032
/// section 2.1).
pub const IMPLICIT_NULL: u32 = 3;
/// The time to live of a pushed label, unless the parameters say it.
pub const TTL: u8 = 255;
/// The bit of the bottom of the stack.
const BOTTOM: u32 = 1 << 8;

/// Parts of a label stack entry; `None` leaves a part as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The label, 20 bits.
    pub label: Option<u32>,
    /// The traffic class, 3 bits (RFC 5462).
    pub tc: Option<u8>,
    /// The time to live.
    pub ttl: Option<u8>,
    /// True at the bottom of the stack.
    pub bos: Option<bool>,
}

impl Label {
    /// Returns an entry with these parts in place of its own.
    fn on(self, entry: u32) -> u32 {
        let parts = [
            (self.label.map(|n| n & LABEL_MAX), LABEL_MAX, 12),
            (self.tc.map(|n| u32::from(n & 7)), 7, 9),
            (self.bos.map(u32::from), 1, 8),
            (self.ttl.map(u32::from), 0xff, 0),
        ];
        parts.into_iter().fold(entry, |entry, (part, mask, shift)| match part {
            Some(part) => entry & !(mask << shift) | part << shift,
            None => entry,
        })
    }
}

/// Parameters of mpls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpls {
    /// Remove the outermost label.
    Pop {
        /// Ethertype of the packet behind it.
        protocol: u16,
    },
    /// Insert a label.
    Push {
        /// The label.
        label: Label,
        /// Ethertype of the packet then, 0x8847 or 0x8848.
        protocol: u16,
    },
    /// Insert a label in front of the Ethernet header.
    MacPush {
        /// The label.
        label: Label,
        /// Ethertype of the packet then, 0x8847 or 0x8848.
        protocol: u16,
    },
    /// Change the outermost label.
    Modify(Label),
    /// Decrement the time to live of the outermost label.
    DecTtl,
}

impl Mpls {
    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        mine: &mut Memory,
        _: &mut Run<'_>,
    ) -> Control {
        let longer = match *self {
            Self::Pop { protocol } => pop(packet, protocol),
            Self::Push { label, protocol } => push(packet, label, protocol),
            Self::MacPush { label, protocol } => mac_push(packet, label, protocol),
            Self::Modify(label) => modify(packet, |entry| Some(label.on(entry))),
            Self::DecTtl => modify(packet, dec_ttl),
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

/// True if a packet begins with a label.
const fn is_labelled(packet: &Packet<'_>) -> bool {
    matches!(packet.headers.ethertype, ethertype::MPLS | ethertype::MPLS_MULTICAST)
}

/// Pops the outermost label. Returns, as the functions below, the growth of the frame in bytes;
/// `None` if the change is impossible.
fn pop(packet: &mut Packet<'_>, protocol: u16) -> Option<i32> {
    if !is_labelled(packet) {
        return Some(0);
    }
    let at = packet.network();
    if !packet.frame.remove(at, ENTRY) {
        return None;
    }
    set_protocol(packet, at, protocol);
    Some(-(ENTRY as i32)) // 4
}

fn push(packet: &mut Packet<'_>, label: Label, protocol: u16) -> Option<i32> {
    let at = usize::from(packet.headers.l3_offset?);
    let bottom = if is_labelled(packet) { 0 } else { BOTTOM };
    if !packet.frame.insert(at, &label.on(bottom).to_be_bytes()) {
        return None;
    }
    set_protocol(packet, at, protocol);
    Some(ENTRY as i32) // 4
}

fn mac_push(packet: &mut Packet<'_>, label: Label, protocol: u16) -> Option<i32> {
    let bare = packet.headers.link_len == 0;
    let bottom = if bare && is_labelled(packet) { 0 } else { BOTTOM };
    if !packet.frame.insert(0, &label.on(bottom).to_be_bytes()) {
        return None;
    }
    // The rest is a packet that begins with its label.
    (packet.headers.link_len, packet.headers.l3_offset) = (0, Some(0));
    set_protocol(packet, 0, protocol);
    Some(ENTRY as i32) // 4
}

/// Sets the type of the network header at an offset: in the link header in front of it, or, if the
/// packet has none, in what is known of the packet.
fn set_protocol(packet: &mut Packet<'_>, at: usize, protocol: u16) {
    packet.headers.ethertype = protocol;
    let link = packet.frame.bytes_mut().get_mut(..at).and_then(<[u8]>::last_chunk_mut::<2>);
    if let Some(kind) = link {
        *kind = protocol.to_be_bytes();
    }
}

/// Changes the outermost label.
fn modify(packet: &mut Packet<'_>, new: impl Fn(u32) -> Option<u32>) -> Option<i32> {
    if !is_labelled(packet) {
        return None;
    }
    let at = packet.network();
    let entry = packet.frame.bytes_mut().get_mut(at..)?.first_chunk_mut::<ENTRY>()?;
    *entry = new(u32::from_be_bytes(*entry))?.to_be_bytes();
    Some(0)
}

/// Returns an entry that has a smaller time to live; `None` if that is 0. From 0 it becomes 255, as
/// in the reference.
fn dec_ttl(entry: u32) -> Option<u32> {
    let [.., ttl] = entry.to_be_bytes();
    let ttl = ttl.wrapping_sub(1);
    (ttl > 0).then(|| Label { ttl: Some(ttl), ..Label::default() }.on(entry))
}
