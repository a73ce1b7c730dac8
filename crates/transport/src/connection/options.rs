//! The TCP options that both ends have agreed on.

use crate::config::{Config, STAMP_BYTES};
use crate::segment::Segment;

/// Most bytes of options (RFC 9293 section 3.1).
const OPTIONS_MAX: usize = 40;
/// Payload of a full segment to a peer whose SYN names none (RFC 9293 section 3.7.1).
const MSS_DEFAULT: u32 = 536;

/// The options of an end: those that it offers, and from the peer's SYN on those that both take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Window scale of the peer.
    pub(super) peer_scale: u8,
    /// True if the peer scales windows.
    pub(super) scaled: bool,
    pub(super) sack: bool,
    pub(super) stamps: bool,
}

impl Options {
    pub(super) const fn offered(config: &Config) -> Self {
        Self { peer_scale: 0, scaled: false, sack: config.sack, stamps: config.stamps }
    }

    /// Keeps the options that the peer's SYN has as well. Returns the payload of a full segment
    /// that the peer takes.
    pub(super) fn agree(&mut self, seg: &Segment) -> u32 {
        let syn = seg.syn.unwrap_or_default();
        self.sack &= syn.sack;
        self.stamps &= seg.stamps.is_some();
        self.scaled = syn.scale.is_some();
        self.peer_scale = syn.scale.unwrap_or(0).min(14);
        if syn.mss == 0 { MSS_DEFAULT } else { u32::from(syn.mss) }
    }

    /// Returns the bytes of options that every segment carries.
    pub(super) const fn always(self) -> u32 {
        if self.stamps { STAMP_BYTES } else { 0 }
    }

    /// Returns the bytes that are left for further options in a segment with this number of blocks.
    pub(super) const fn room(self, blocks: usize) -> usize {
        OPTIONS_MAX - self.always() as usize - if blocks > 0 { 4 + 8 * blocks } else { 0 }
    }

    /// Returns the bytes for further options in the answer to a SYN, beside those that it has
    /// itself.
    pub(super) const fn room_in_answer() -> usize {
        OPTIONS_MAX / 2
    }
}
