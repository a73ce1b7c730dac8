//! Answers of qdiscs: the next packet, or the reason why there is none; whether a packet would be
//! accepted.

use crate::base::time::Instant;
use crate::law::share;
use crate::packet::meta::Meta;
use crate::packet::pool::Pkt;
use crate::packet::reason::WakeReason;

/// Answer of a dequeue. It is never ambiguous: the queue is empty, or the time of the next attempt
/// and its reason.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// This packet is to be sent now.
    Packet(Pkt),
    /// Nothing is queued.
    Empty,
    /// Packets are queued, but none may leave before this instant.
    At(Instant, WakeReason),
}

/// Answer of a qdisc to a request for a packet of at most a given number of bytes.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Within {
    /// The qdisc cannot tell without dequeueing, or has no packet that may leave: the caller must
    /// peek.
    Unknown,
    /// This packet is to be sent now.
    Packet(Pkt),
    /// The next packet has more wire bytes than that. It stays.
    Larger,
}

/// Answer to the question whether a packet would be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet would be queued, and nothing would be dropped for it.
    Accept,
    /// A packet would be dropped: a sender that can wait should wait.
    Full,
    /// Its flow has its part of the room: its sender should wait if it can. Packets of other flows
    /// may still find room.
    FlowFull,
    /// Its segments are larger than this many bytes, which is the most that can ever leave here.
    TooLarge(u32),
    /// It is a super-packet that can only leave in pieces of at most this many bytes: it must be
    /// cut first.
    Cut(u32),
}

impl Verdict {
    /// Returns the answer for one more packet of a flow that has `own` of the `waiting` units in a
    /// buffer of `limit` units.
    pub(crate) fn shared(own: u64, waiting: u64, limit: u64) -> Self {
        match share::has_room(own, waiting, limit) {
            true => Self::Accept,
            false if waiting < limit => Self::FlowFull,
            false => Self::Full,
        }
    }
    /// Returns the answer of a qdisc that takes the segments of a super-packet only. A size table
    /// above translates the size in it: none of the segments is charged more than the whole.
    pub(crate) fn cut_into_segments(m: &Meta) -> Self {
        let more = u32::from(m.segs).saturating_sub(1);
        let real = m.len.saturating_add(more.saturating_mul(m.header_len.into()));
        Self::Cut(if m.wire_len == real { m.segment_len() } else { m.wire_len.max(m.segment_len()) })
    }
    /// Returns the answer where there are two limits.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Accept, other) | (Self::FlowFull, other @ Self::Full) => other,
            (first, _) => first,
        }
    }
}
