//! pedit: changes bytes of a packet (tc-pedit(8)). It changes words of 32 bits at offsets from a
//! header: a word becomes `(old & mask) ^ value`, or the value is added in the bits outside the
//! mask.
//!
//! A word outside the frame, or at an offset that was read from the packet and is not a multiple of
//! four, ends the list, and is counted (`overlimits`); earlier changes stay. The part of a word in
//! front of the frame is ignored. Checksums are not updated: csum does that.
//!
//! Cost: one step for each word, at most `KEYS_MAX`.
//!
//! Differs from Linux (PARITY.md: pedit-add, pedit-fragment).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;
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
        packet.rewritten(0);
        control
    }
}

impl Key {
    /// Changes the word; `None` if it is outside the frame.
    fn edit(&self, packet: &mut Packet<'_>) -> Option<()> {
        let base = match self.header {
            Header::Eth if packet.headers.link_len == 0 => return None,
            Header::Eth => 0,
            Header::Network | Header::Ip4 | Header::Ip6 => i64::try_from(packet.network()).ok()?,
            Header::Tcp | Header::Udp => i64::from(packet.headers.l4_offset?),
        };
        let bytes = packet.frame.bytes_mut();
        let mut place = base + i64::from(self.offset);
        if let Some(at) = self.at {
            let from = usize::try_from(base + i64::from(at.at)).ok()?;
            let byte = u32::from(*bytes.get(from)?);
            let further = i64::from((byte & at.mask).checked_shr(at.shift).unwrap_or(0));
            if (i64::from(self.offset) + further) % WORD as i64 != 0 {
                return None;
            }
            place += further;
        }
        // Number of bytes of the word in front of the frame: at most three, or the word is outside.
        let before = usize::try_from(0.max(-place)).ok().filter(|n| *n < WORD)?;
        let start = usize::try_from(place.max(0)).ok()?;
        let there = bytes.get_mut(start..start.checked_add(WORD - before)?)?;
        let mut word = [0; WORD];
        word[before..].copy_from_slice(there);
        let old = u32::from_be_bytes(word);
        let new = match self.add {
            true => self.mask & old | !self.mask & old.wrapping_add(self.value),
            false => old & self.mask ^ self.value,
        };
        there.copy_from_slice(&new.to_be_bytes()[before..]);
        Some(())
    }
}
