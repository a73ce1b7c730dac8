//! One TCP segment, or a super-segment that stands for several, as numbers.

use std::fmt;

use txweir_core::{Ecn, Instant};

/// TCP flags as on the wire (RFC 9293 section 3.1), with AE (RFC 9768) above the eight of the
/// classic octet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The sender has no more data.
    pub const FIN: Self = Self(1);
    /// Synchronises sequence numbers.
    pub const SYN: Self = Self(2);
    /// Aborts the connection.
    pub const RST: Self = Self(4);
    /// The data should reach the reader at once.
    pub const PSH: Self = Self(8);
    /// The acknowledgement number is valid.
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
    /// Returns the flags of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// Returns the flags with `other` as well if `condition` holds.
    #[must_use]
    pub(crate) const fn with_if(self, other: Self, condition: bool) -> Self {
        if condition { self.with(other) } else { self }
    }
    /// Returns the counter of marks that accurate ECN keeps in three flags, 0 to 7.
    pub const fn ace(self) -> u8 {
        (self.has(Self::AE) as u8) << 2 | (self.has(Self::CWR) as u8) << 1 | self.has(Self::ECE) as u8
    }
    /// Returns the flags that hold this value of the counter.
    #[must_use]
    pub(crate) const fn of_ace(count: u8) -> Self {
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

/// Blocks of a selective acknowledgement, the most recent first (RFC 2018); a block below the
/// acknowledgement, or inside the second one, tells of a duplicate (RFC 2883).
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
    /// Returns the blocks, each from its first number to the one behind its last.
    pub fn blocks(&self) -> &[(u64, u64)] {
        &self.blocks[..usize::from(self.len)]
    }
    /// True if there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Bytes of payload that have arrived by code point, modulo 2^24: the option of accurate ECN (RFC
/// 9768 section 3.2.3). The option may leave out its last counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnBytes {
    /// True if ECT(1) comes first and ECT(0) last (kind 174, order 1); false for the other order
    /// (kind 172, order 0).
    ect1_first: bool,
    /// Counters present, 0 to 3.
    fields: u8,
    /// The counters, in their order.
    bytes: [u32; 3],
}

impl EcnBytes {
    /// Returns the option with the first two or three counters, as many as `room` bytes of options
    /// hold with the kind and the length; `None` if there is no room for two, as the second one
    /// counts marks.
    pub const fn fitting(ect1_first: bool, ect0: u32, ce: u32, ect1: u32, room: usize) -> Option<Self> {
        let fields = match room {
            0..8 => return None,
            8..11 => 2,
            _ => 3,
        };
        let (first, last) = if ect1_first { (ect1, ect0) } else { (ect0, ect1) };
        let last = if fields == 3 { last } else { 0 };
        Some(Self { ect1_first, fields, bytes: [first & 0xff_ffff, ce & 0xff_ffff, last & 0xff_ffff] })
    }
    /// Returns the option with these counters, in order 0 or 1; counters beyond the third are left
    /// out.
    pub fn of(ect1_first: bool, counters: &[u32]) -> Self {
        let mut option = Self { ect1_first, ..Self::default() };
        for (slot, counter) in option.bytes.iter_mut().zip(counters) {
            *slot = counter & 0xff_ffff;
            option.fields += 1;
        }
        option
    }
    /// True if ECT(1) comes first.
    pub(crate) const fn ect1_first(&self) -> bool {
        self.ect1_first
    }
    /// Returns the counters present, in their order.
    pub fn counters(&self) -> &[u32] {
        &self.bytes[..usize::from(self.fields)]
    }
    /// Returns the marked bytes, if present.
    pub const fn ce(&self) -> Option<u32> {
        if self.fields > 1 { Some(self.bytes[1]) } else { None }
    }
    /// Returns the bytes with ECT(0), if present.
    pub const fn ect0(&self) -> Option<u32> {
        self.outer(!self.ect1_first)
    }
    /// Returns the bytes with ECT(1), if present.
    pub const fn ect1(&self) -> Option<u32> {
        self.outer(self.ect1_first)
    }
    const fn outer(&self, first: bool) -> Option<u32> {
        match (first, self.fields) {
            (true, 1..) => Some(self.bytes[0]),
            (false, 3..) => Some(self.bytes[2]),
            _ => None,
        }
    }
}

/// Options that only a SYN carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynOptions {
    /// Payload of a full segment that the sender of the option accepts.
    pub mss: u16,
    /// Number of bits by which the sender shifts its windows, 0 to 14.
    pub scale: Option<u8>,
    /// True if the sender takes selective acknowledgements.
    pub sack: bool,
}

/// A segment. Sequence numbers count from 0, the SYN, and do not wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Number of the first byte, or of the SYN.
    pub seq: u64,
    /// Number of the next byte that the sender of the segment expects.
    pub ack: u64,
    /// Bytes of payload.
    pub len: u32,
    /// The window field, not yet shifted.
    pub window: u16,
    /// Payload of each part of a super-segment; 0 for a single segment.
    pub gso: u16,
    /// Flags.
    pub flags: Flags,
    /// True if AE, CWR and ECE are a counter (RFC 9768), which each part of a super-segment has.
    pub accurate: bool,
    /// The ECN code point of the IP header.
    pub ecn: Ecn,
    /// Selective acknowledgements.
    pub sacks: Sacks,
    /// Time stamps (RFC 7323): the sender's own, and the one echoed, in milliseconds.
    pub stamps: Option<(u32, u32)>,
    /// Bytes received by code point (RFC 9768).
    pub ecn_bytes: Option<EcnBytes>,
    /// Options that only a SYN carries.
    pub syn: Option<SynOptions>,
    /// The earliest departure time, for a queue that paces (`fq`).
    pub departs: Instant,
    /// True if some of its data has been sent before.
    pub again: bool,
}

impl Segment {
    /// Returns the number behind its last byte; SYN and FIN count.
    pub const fn end(&self) -> u64 {
        self.seq + self.len as u64 + self.flags.has(Flags::SYN) as u64 + self.flags.has(Flags::FIN) as u64
    }
    /// Returns part `i`, from 0, of a super-segment, as a device cuts it: the last part keeps FIN
    /// and PSH, and the first part alone keeps CWR, unless CWR is a part of a counter (RFC 3168
    /// section 6.1.2). `None` if there are fewer parts.
    pub fn part(&self, i: u32) -> Option<Self> {
        let (n, size) = (self.segments(), u32::from(self.gso));
        if i >= n || n == 1 {
            return (i == 0).then_some(*self);
        }
        let mut part = *self;
        part.seq += u64::from(i) * u64::from(size);
        part.len = size.min(self.len - i * size);
        part.gso = 0;
        if i + 1 < n {
            part.flags.0 &= !(Flags::FIN.0 | Flags::PSH.0);
        }
        if i > 0 && !self.accurate {
            part.flags.0 &= !Flags::CWR.0;
        }
        Some(part)
    }
    /// Returns the number of segments that it stands for.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_the_flags_out() {
        let flags = Flags::ACK.with(Flags::PSH).with(Flags::CWR);
        let whole = Segment { seq: 10, len: 2_500, gso: 1_000, flags, ..Segment::default() };
        let parts: Vec<_> = (0..4).map_while(|i| whole.part(i)).collect();
        let what: Vec<_> = parts.iter().map(|p| (p.seq, p.len, p.segments())).collect();
        assert_eq!(what, [(10, 1_000, 1), (1_010, 1_000, 1), (2_010, 500, 1)]);
        let cwr: Vec<_> = parts.iter().map(|p| p.flags.has(Flags::CWR)).collect();
        assert_eq!(cwr, [true, false, false]);
        let push: Vec<_> = parts.iter().map(|p| p.flags.has(Flags::PSH)).collect();
        assert_eq!(push, [false, false, true]);
        let counter = Segment { accurate: true, ..whole };
        assert!(counter.part(2).is_some_and(|p| p.flags.has(Flags::CWR)));
    }

    #[test]
    fn an_option_that_does_not_fit_loses_its_last_counters() {
        let fit = |room| EcnBytes::fitting(true, 1, 2, 3, room).map(|o| (o.ect0(), o.ce(), o.ect1()));
        assert_eq!(fit(7), None);
        assert_eq!(fit(8), Some((None, Some(2), Some(3))));
        assert_eq!(fit(11), Some((Some(1), Some(2), Some(3))));
        let o = EcnBytes::of(false, &[9]);
        assert_eq!((o.ect0(), o.ce(), o.ect1()), (Some(9), None, None));
    }
}
