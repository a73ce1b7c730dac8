//! One TCP segment, or a super-segment that stands for several, as numbers.

use std::fmt;

use txweir_core::{Ecn, Instant};

/// TCP flags as on the wire (RFC 9293 section 3.1), with AE (RFC 9768) above the eight of the classic octet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(1);
    /// Synchronises sequence numbers.
    pub const SYN: Self = Self(2);
    /// Aborts the connection.
    pub const RST: Self = Self(4);
    /// The data should reach the reader at once.
    pub const PSH: Self = Self(8);
    /// The acknowledgement number is meant.
    pub const ACK: Self = Self(16);
    /// A congestion mark is echoed (RFC 3168), or a bit of the ACE counter (RFC 9768).
    pub const ECE: Self = Self(64);
    /// The window was reduced (RFC 3168), or a bit of the ACE counter.
    pub const CWR: Self = Self(128);
    /// Accurate ECN: the topmost bit of the ACE counter.
    pub const AE: Self = Self(256);

    /// True if all of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// `other` as well if `condition` holds.
    #[must_use]
    pub const fn with_if(self, other: Self, condition: bool) -> Self {
        if condition { self.with(other) } else { self }
    }
    /// The counter of marks that accurate ECN keeps in three flags, 0 to 7.
    pub const fn ace(self) -> u8 {
        (self.has(Self::AE) as u8) << 2 | (self.has(Self::CWR) as u8) << 1 | self.has(Self::ECE) as u8
    }
    /// The flags that hold such a counter.
    #[must_use]
    pub const fn of_ace(count: u8) -> Self {
        Self(0)
            .with_if(Self::AE, count & 4 != 0)
            .with_if(Self::CWR, count & 2 != 0)
            .with_if(Self::ECE, count & 1 != 0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::FIN, 'F'),
            (Self::SYN, 'S'),
            (Self::RST, 'R'),
            (Self::PSH, 'P'),
            (Self::ACK, 'A'),
            (Self::ECE, 'E'),
            (Self::CWR, 'W'),
            (Self::AE, 'Y'),
        ];
        names.iter().filter(|(flag, _)| self.has(*flag)).try_for_each(|(_, c)| write!(f, "{c}"))
    }
}

/// Blocks of a selective acknowledgement, the most recent first (RFC 2018); a block below the acknowledgement, or inside
/// the second one, tells of a duplicate (RFC 2883).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sacks {
    blocks: [(u64, u64); 4],
    len: u8,
}

impl Sacks {
    /// Appends a block if there is room: four fit a header without timestamps, three one with them.
    pub fn push(&mut self, start: u64, end: u64, most: usize) {
        if usize::from(self.len) < most.min(4) && start < end {
            self.blocks[usize::from(self.len)] = (start, end);
            self.len += 1;
        }
    }
    /// The blocks, each from its first number to the one behind its last.
    pub fn blocks(&self) -> &[(u64, u64)] {
        &self.blocks[..usize::from(self.len)]
    }
    /// True if there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// What only a SYN says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynOptions {
    /// Payload of a full segment that its sender takes.
    pub mss: u16,
    /// By how many bits the sender shifts its windows, 0 to 14.
    pub scale: Option<u8>,
    /// It takes selective acknowledgements.
    pub sack: bool,
}

/// A segment. Sequence numbers count from 0, the SYN, and do not wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Number of the first byte, or of the SYN.
    pub seq: u64,
    /// Number of the next byte that its sender expects.
    pub ack: u64,
    /// Bytes of payload.
    pub len: u32,
    /// The window field, not yet shifted.
    pub window: u16,
    /// Payload of each part if it stands for several segments, else 0.
    pub gso: u16,
    /// Flags.
    pub flags: Flags,
    /// What a router may do to it instead of a drop.
    pub ecn: Ecn,
    /// Selective acknowledgements.
    pub sacks: Sacks,
    /// Time stamps (RFC 7323): the sender's own, and the one echoed, in milliseconds.
    pub stamps: Option<(u32, u32)>,
    /// What only a SYN says.
    pub syn: Option<SynOptions>,
    /// The earliest time at which it may leave, for a queue that paces (`fq`).
    pub departs: Instant,
    /// The sender has sent some of it before.
    pub again: bool,
}

impl Segment {
    /// The number behind its last byte, SYN and FIN counted.
    pub const fn end(&self) -> u64 {
        self.seq + self.len as u64 + self.flags.has(Flags::SYN) as u64 + self.flags.has(Flags::FIN) as u64
    }
    /// Segments that it stands for.
    pub const fn segments(&self) -> u32 {
        match self.gso {
            0 => 1,
            size => {
                let n = self.len.div_ceil(size as u32);
                if n == 0 { 1 } else { n }
            }
        }
    }
}
