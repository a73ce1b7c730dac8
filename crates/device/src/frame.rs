//! A frame as a system call takes it, and the bounds of one call.

use crate::vnet::VnetHdr;

/// Bytes that a receive buffer needs to hold any frame that a link delivers. An IP packet has at
/// most 65 535 bytes, the largest value of its length field; an Ethernet header with two
/// 802.1Q/802.1ad tags stands in front of it. One byte more tells a longer frame from one that fits
/// exactly. Longer frames (BIG TCP) are counted as
/// [`Counters::rx_oversize`](crate::Counters::rx_oversize) and left out.
pub const MAX_FRAME: usize = 65_535 + 14 + 2 * 4 + 1;

/// Most frames that one system call sends. Beyond some tens of frames the cost of the call is
/// negligible beside the cost of the frames.
pub const BATCH_MAX: usize = 64;

/// Most frames that one receive leaves out before it returns, so that a flood of such frames cannot
/// hold the caller.
pub(crate) const SKIP_MAX: usize = 64;

/// A frame to send, with its bytes in any memory.
#[derive(Clone, Copy, Debug)]
pub struct FrameRef<'a> {
    /// The work that is left undone on it.
    pub hdr: VnetHdr,
    /// Its bytes, from the Ethernet header on.
    pub bytes: &'a [u8],
}

/// Moves the bytes behind `at` of a frame of `len` bytes in `room`, and writes `bytes` there.
/// Returns the new length; `None`, with nothing changed, if there is no such place or no room.
pub(crate) fn insert(room: &mut [u8], len: usize, at: usize, bytes: &[u8]) -> Option<usize> {
    let longer = len.checked_add(bytes.len()).filter(|longer| at <= len && *longer <= room.len())?;
    room.copy_within(at..len, at + bytes.len());
    room[at..at + bytes.len()].copy_from_slice(bytes);
    Some(longer)
}

/// Takes `gone` bytes at `at` out of a frame of `len` bytes in `room`. Returns the new length;
/// `None`, with nothing changed, if the frame does not have that many there.
pub(crate) fn remove(room: &mut [u8], len: usize, at: usize, gone: usize) -> Option<usize> {
    let end = at.checked_add(gone).filter(|end| *end <= len)?;
    room.copy_within(end..len, at);
    Some(len - gone)
}
