//! Size of a unit on a line: frames with their padding and overhead, and the places at which they
//! may be interrupted.
//!
//! An interrupted frame is sent as fragments, each a packet on the line of its own (IEEE 802.3-2018
//! clause 99, from 802.3br; its mPacket): 8 bytes of preamble and delimiter before, a check
//! sequence of 4 and a gap of 12 after, as around a whole frame. A cut is made only where at least
//! 60 bytes have been sent, and 64 with the frame's check sequence are left: no fragment is below
//! 64.

use crate::packet::meta::Meta;

/// Smallest number of bytes of a frame in a fragment; the check sequence makes them 64.
const FRAGMENT_MIN: u64 = 60;
/// The part of the overhead in front of the frame.
const PREAMBLE: u64 = 8;

/// Additions of a line to frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framing {
    pub overhead: u64,
    pub min_frame: u64,
}

/// The place at which a unit is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Bytes of its frames sent by then.
    pub sent: u64,
    /// Bytes on the line since it last started.
    pub line: u64,
}

impl Framing {
    /// Returns the bytes of all frames.
    #[inline]
    fn data(&self, m: &Meta) -> u64 {
        let len = u64::from(m.wire_len);
        match m.segs {
            0 | 1 => len + self.min_frame.saturating_sub(u64::from(m.len)),
            _ => len,
        }
    }
    /// Returns the bytes of each frame but the last.
    fn frame(&self, m: &Meta) -> u64 {
        if m.segs > 1 { u64::from(m.segment_len()).max(1) } else { self.data(m).max(1) }
    }
    /// Returns the bytes of a whole unit on the line.
    #[inline]
    pub fn line_bytes(&self, m: &Meta) -> u64 {
        self.data(m) + u64::from(m.segs.max(1)) * self.overhead
    }
    /// Returns the bytes on the line for the rest of a unit after `sent` bytes of its frames.
    pub fn left(&self, m: &Meta, sent: u64) -> u64 {
        let frames = u64::from(m.segs.max(1)).saturating_sub(sent / self.frame(m)).max(1);
        self.data(m).saturating_sub(sent) + frames * self.overhead
    }
    /// Returns the place at which to interrupt a unit that went on from `sent`, and of which `line`
    /// bytes have passed since: the first that is allowed before its end, if there is one.
    pub fn cut(&self, m: &Meta, sent: u64, line: u64) -> Option<Cut> {
        let (frame, last) = (self.frame(m), u64::from(m.segs.max(1)) - 1);
        let len = |i: u64| if i < last { frame } else { self.data(m).saturating_sub(last * frame) };
        // The frame that is on the line: its number, the bytes of it sent before, and the bytes on
        // the line before it.
        let (first, gone) = (sent / frame, sent % frame);
        let rest = len(first).saturating_sub(gone) + self.overhead;
        let (index, gone, start) = if line < rest {
            (first, gone, 0)
        } else {
            let whole = (line - rest) / (frame + self.overhead);
            (first + 1 + whole, 0, rest + whole * (frame + self.overhead))
        };
        if index > last {
            return None;
        }
        let left = len(index).saturating_sub(gone);
        let now = (line - start).saturating_sub(PREAMBLE.min(self.overhead)).max(FRAGMENT_MIN);
        if left >= now + FRAGMENT_MIN {
            Some(Cut { sent: index * frame + gone + now, line: start + now + self.overhead })
        } else if index < last {
            Some(Cut { sent: (index + 1) * frame, line: start + left + self.overhead })
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETHERNET: Framing = Framing { overhead: 24, min_frame: 60 };

    #[test]
    fn a_full_frame_is_cut_where_both_parts_have_64_bytes() {
        let m = Meta::new(1514);
        for (line, cut) in [
            (0, Some((60, 84))),
            (68, Some((60, 84))),
            (69, Some((61, 85))),
            (1462, Some((1454, 1478))),
            (1463, None),
            (1537, None),
        ] {
            let found = ETHERNET.cut(&m, 0, line).map(|c| (c.sent, c.line));
            assert_eq!(found, cut, "{line}");
        }
        // The rest has a preamble, a check sequence and a gap again.
        assert_eq!(ETHERNET.left(&m, 60), 1454 + 24);
    }

    #[test]
    fn a_frame_below_two_fragments_goes_whole() {
        assert_eq!(ETHERNET.cut(&Meta::new(119), 0, 0), None);
        assert_eq!(ETHERNET.cut(&Meta::new(120), 0, 0), Some(Cut { sent: 60, line: 84 }));
        assert_eq!(ETHERNET.cut(&Meta::new(60), 0, 0), None);
    }

    #[test]
    fn the_rest_of_a_frame_is_cut_as_if_it_were_one() {
        let m = Meta::new(1514);
        assert_eq!(ETHERNET.cut(&m, 60, 0), Some(Cut { sent: 120, line: 84 }));
        assert_eq!(ETHERNET.cut(&m, 1400, 0), None);
    }

    #[test]
    fn a_super_packet_ends_a_frame_where_that_is_sooner() {
        // Three frames of 1502, 1502 and 502 bytes.
        let m = Meta::new(54 + 2 * 1448 + 448).gso(54, 1448);
        assert_eq!((m.segs, ETHERNET.line_bytes(&m)), (3, 1502 + 1502 + 502 + 3 * 24));
        assert_eq!(ETHERNET.cut(&m, 0, 1500), Some(Cut { sent: 1502, line: 1526 }));
        assert_eq!(ETHERNET.cut(&m, 0, 1600), Some(Cut { sent: 1502 + 66, line: 1526 + 66 + 24 }));
        assert_eq!(ETHERNET.cut(&m, 1502, 1600), Some(Cut { sent: 3004 + 66, line: 1526 + 66 + 24 }));
        assert_eq!(ETHERNET.cut(&m, 3004, 480), None);
        assert_eq!([0, 1502, 1568, 3004].map(|s| ETHERNET.left(&m, s)), [3578, 2052, 1986, 526]);
    }
}
