//! What qdiscs answer: the next packet, or why there is none; whether a packet would be taken.

use crate::base::time::Instant;
use crate::packet::pool::Pkt;
use crate::packet::reason::WakeReason;

/// The answer to "next?". It is never ambiguous: nothing there, or not yet and why.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// This packet is to be sent now.
    Packet(Pkt),
    /// Nothing is queued.
    Empty,
    /// Something is queued, but nothing may leave before this instant.
    At(Instant, WakeReason),
}

/// The answer of a qdisc to a request for a packet of at most so many bytes.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Within {
    /// It cannot tell without giving a packet, or has none that may leave: to be peeked at.
    Unknown,
    /// This packet is to be sent now.
    Packet(Pkt),
    /// The next packet has more wire bytes than that, so many; it stays.
    Larger(u32),
}

/// The answer to "would you take it?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It would be queued, and nothing would be dropped for it.
    Accept,
    /// Something would be dropped: a sender that can wait should.
    Full,
    /// Its segments are larger than this many bytes, which is the most that can ever leave here.
    TooLarge(u32),
    /// It is a super-packet that can only leave in pieces of at most this many bytes: cut it first.
    Cut(u32),
}
