//! pedit: changes bytes of a packet (tc-pedit(8)): words of 32 bits at places relative to a header, each of which is
//! `(old & mask) ^ value`, or has something added to what the mask leaves out.
//!
//! A word that does not lie in the frame, or whose offset was made from the packet and is not a multiple of four, ends the
//! list, and is counted (`overlimits`); what was changed before stays so.
//! The part of a word that lies in front of the frame is not there to be changed. Checksums are not looked after: csum is.
//!
//! Cost: one step for each word, `KEYS_MAX` at most.
//!
//! Differs from Linux (PARITY.md: pedit-add, pedit-fragment).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Words that one action changes, at most, as tc has it.
pub const KEYS_MAX: usize = 128;

/// Bytes that are changed at once.
const WORD: usize = 4;

/// What an offset counts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// The network header, whatever it is.
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

/// A byte of the packet from which an offset is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Where it is.
    pub at: u32,
    /// Which of its bits count.
    pub mask: u32,
    /// By how many bits they are moved down.
    pub shift: u32,
}

/// One word that is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// What the offset counts from.
    pub header: Header,
    /// Bytes from there.
    pub offset: i32,
    /// What comes to the offset.
    pub at: Option<At>,
    /// The value is added, and not put in.
    pub add: bool,
    /// The bits that stay, in the order of the wire.
    pub mask: u32,
    /// What the others become, or what is added.
    pub value: u32,
}

/// Parameters of pedit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pedit {
    keys: Box<[Key]>,
    extended: bool,
}

impl Pedit {
    /// These words, in their order; `extended` if they were given so.
    ///
    /// # Errors
    /// There is none, or there are more than `KEYS_MAX`.
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

    /// The words.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }
    /// Whether they were given in the extended form.
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
    /// Changes the word; none if it is not there.
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
        // The bytes of the word that lie in front of the frame: at most three, or it is not there at all.
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
