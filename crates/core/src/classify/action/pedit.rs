//! pedit: changes bytes of a packet (tc-pedit(8)). It changes words of 32 bits at offsets from a
//! header: a word becomes `(old & mask) ^ value`, or the value is added in the bits outside the
//! mask.
//!
//! A word outside the frame, or at an offset that was read from the packet and is not a multiple of
//! four, ends the list, and is counted (`overlimits`); earlier changes stay. The part of a word in
//! front of the frame is ignored. Over IPv6 a word of `tcp` or `udp` needs that transport; over
//! IPv4 it may be in any. Checksums are not updated: csum does that. Later filters go on by the
//! protocol that the packet had, even if its ethertype was changed.
//!
//! Offsets in front of the network header pass over the outermost tag of a packet that has arrived,
//! as in Linux, which has taken it off.
//!
//! Cost: one step for each word, at most `KEYS_MAX`.
//!
//! Differs from Linux (PARITY.md: pedit-add, pedit-authentication, pedit-fragment, vlan-in-place).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::{Packet, place};
use crate::packet::headers::{L3, protocol};
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Largest number of words that one action changes, as in tc.
pub const KEYS_MAX: usize = 128;

/// Bytes of a word.
const WORD: usize = 4;

/// Base of an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// The network header of any protocol.
    #[default]
    Network,
    /// The Ethernet header.
    Eth,
    /// The IPv4 header.
    Ip4,
    /// The IPv6 header.
    Ip6,
    /// The TCP header.
    Tcp,
    /// The UDP header.
    Udp,
}

/// A byte of the packet that is added to an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Offset of the byte.
    pub at: u32,
    /// Bits of the byte that count.
    pub mask: u32,
    /// Bits by which they are shifted right.
    pub shift: u32,
}

/// Change of one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Base of the offset.
    pub header: Header,
    /// Bytes from the base.
    pub offset: i32,
    /// Byte that is added to the offset.
    pub at: Option<At>,
    /// True if the value is added, and not written.
    pub add: bool,
    /// Bits that stay, in network byte order.
    pub mask: u32,
    /// New value of the other bits, or the addend.
    pub value: u32,
}

/// Parameters of pedit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pedit {
    keys: Box<[Key]>,
    extended: bool,
}

impl Pedit {
    /// Returns an action that changes these words, in their order; `extended` if the command was in
    /// the extended form.
    ///
    /// # Errors
    /// There are no words, or more than `KEYS_MAX`.
    pub fn new(keys: Vec<Key>, extended: bool) -> Result<Self, ConfigError> {
        match keys.len() {
            1..=KEYS_MAX => Ok(Self { keys: keys.into(), extended }),
            n => {
                let expected = alloc::format!("1 to {KEYS_MAX} words");
                Err(ConfigError::new(ErrorKind::OutOfRange, Object::ActionOptions("pedit"), expected, n)
                    .key("munge"))
            }
        }
    }

    /// Returns the words.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }
    /// True if the command was in the extended form.
    pub const fn extended(&self) -> bool {
        self.extended
    }

    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        mine: &mut Memory,
        _: &mut Run<'_>,
    ) -> Control {
        if !self.keys.iter().all(|key| key.edit(packet).is_some()) {
            mine.overlimits += 1;
        }
        packet.edited();
        control
    }
}

/// Returns the offset of the transport header. Over IPv6 it is that of this protocol; over IPv4,
/// as in the reference, of any.
fn transport(packet: &Packet<'_>, wanted: u8) -> Option<i64> {
    let h = &packet.headers;
    h.l4_offset.filter(|_| h.l3 != L3::Ipv6 || h.protocol == wanted).map(i64::from)
}

impl Key {
    /// Changes the word; `None` if it is outside the frame.
    fn edit(&self, packet: &mut Packet<'_>) -> Option<()> {
        let base = match self.header {
            Header::Eth if packet.headers.link_len == 0 => return None,
            Header::Eth => i64::from(packet.tag_taken_off()),
            Header::Network | Header::Ip4 | Header::Ip6 => i64::try_from(packet.network()).ok()?,
            Header::Tcp => transport(packet, protocol::TCP)?,
            Header::Udp => transport(packet, protocol::UDP)?,
        };
        let front = packet.front();
        let bytes = packet.frame.bytes_mut();
        let mut start = base + i64::from(self.offset);
        if let Some(at) = self.at {
            let from = usize::try_from(place(base + i64::from(at.at), front)).ok()?;
            let byte = u32::from(*bytes.get(from)?);
            let further = i64::from((byte & at.mask).checked_shr(at.shift).unwrap_or(0));
            if (i64::from(self.offset) + further) % WORD as i64 != 0 {
                return None;
            }
            start += further;
        }
        // The places of the bytes of the word, `None` in front of the frame: at most three are
        // there, or the word is outside.
        let mut places = [None; WORD];
        for (slot, at) in places.iter_mut().zip(start..) {
            *slot = usize::try_from(place(at, front)).ok();
        }
        places[WORD - 1]?;
        let mut word = [0; WORD];
        for (byte, at) in word.iter_mut().zip(places) {
            *byte = at.map_or(Some(0), |at| bytes.get(at).copied())?;
        }
        let old = u32::from_be_bytes(word);
        let new = match self.add {
            true => self.mask & old | !self.mask & old.wrapping_add(self.value),
            false => old & self.mask ^ self.value,
        };
        for (byte, at) in new.to_be_bytes().into_iter().zip(places) {
            let Some(at) = at else { continue };
            if let Some(there) = bytes.get_mut(at) {
                *there = byte;
            }
        }
        Some(())
    }
}
