//! A frame as a system call takes it, and the bounds of what one call does with frames.

use crate::vnet::VnetHdr;

/// Bytes that a receive buffer needs to hold any frame a link delivers: an IP packet of 65 535 bytes, which is the
/// most that its length field can say, behind an Ethernet header with two 802.1Q/802.1ad tags, and one byte more, by
/// which a longer frame is told from one that fits exactly. Frames beyond it (BIG TCP) are counted as
/// [`Counters::rx_oversize`](crate::Counters::rx_oversize) and left out.
pub const MAX_FRAME: usize = 65_535 + 14 + 2 * 4 + 1;

/// Most frames that one system call sends. Beyond some tens the cost of the call is gone in that of the frames.
pub const BATCH_MAX: usize = 64;

/// Most frames that one receive leaves out before it returns, so that a flood of them cannot hold the caller.
pub(crate) const SKIP_MAX: usize = 64;

/// A frame to send, wherever its bytes are.
#[derive(Clone, Copy, Debug)]
pub struct FrameRef<'a> {
    /// What is left to do on it.
    pub hdr: VnetHdr,
    /// From the Ethernet header on.
    pub bytes: &'a [u8],
}
