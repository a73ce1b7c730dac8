//! The payload of a full segment, as the segments that come show it.

use crate::config::Config;
use crate::segment::{Flags, Segment};

/// Segment size that a receiver assumes before it has seen one (RFC 9293 section 3.7.1).
const SEGMENT_DEFAULT: u32 = 536;

/// Sizes of the segments that have come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Observed payload of a full segment.
    pub(crate) full: u32,
    last_small: u32,
}

/// Meaning of a segment's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// A full segment, which may be one of several. `shares`: it shows how much payload shares a
    /// buffer. `ends`: it may be the last for a while.
    Full { shares: bool, ends: bool },
    /// A segment shorter than full ones.
    Short,
    /// A segment like the last short one: the size of a full segment is less than assumed.
    Smaller,
}

impl Sizes {
    pub(crate) fn new(c: &Config) -> Self {
        Self { full: SEGMENT_DEFAULT.min(c.segment()), last_small: 0 }
    }

    /// Lowers the payload of a full segment to `most`, on which both ends have agreed.
    pub(crate) fn at_most(&mut self, most: u32) {
        self.full = self.full.min(most);
    }

    /// Learns from a segment.
    pub(crate) fn measure(&mut self, seg: &Segment) -> Shown {
        let len = if seg.gso > 0 { u32::from(seg.gso).min(seg.len) } else { seg.len };
        if len < self.full {
            let same = len == self.last_small && len >= SEGMENT_DEFAULT;
            self.last_small = len;
            if !same {
                return Shown::Short;
            }
            self.full = len;
            return Shown::Smaller;
        }
        let shares = len > self.full || self.full == SEGMENT_DEFAULT;
        self.full = len;
        // A super-segment is more than one segment, as a short one is less, and a full one with PSH
        // may be the last for a while: none of their acknowledgements waits once the data is read.
        let pushed = seg.len == self.full && seg.flags.has(Flags::PSH);
        Shown::Full { shares, ends: pushed || seg.len > self.full + 40 }
    }
}
