//! Memory of waiting packets, and its limit.

use crate::base::time::Nanos;
use crate::base::units::Rate;
use crate::packet::meta::Meta;

/// Least default limit of memory at any rate, in bytes.
pub const LEAST: u64 = 4 << 20;
/// Frames of the device that a default limit holds at most.
const PACKETS_MAX: u64 = 10_240;

/// Returns the memory that a waiting packet is charged: that of Linux's buffers, so that a limit
/// means the same. A frame with its headroom and the 320 bytes that follow it in a buffer come in
/// the sizes of Linux's allocator, and 256 bytes describe them. A frame that does not fit one page
/// with its headroom lies in pages of its own, but for the link header, and for all headers of a
/// super-frame.
#[inline]
pub fn of(m: &Meta) -> u64 {
    const PAGE: u64 = 4096;
    let len = u64::from(m.len);
    let head = if m.segs > 1 { u64::from(m.header_len).clamp(14, len.max(14)) } else { 14 };
    let (linear, pages) =
        if len + 16 < PAGE { (len, 0) } else { (head, (len - head).next_multiple_of(PAGE)) };
    let data = (linear + 16).next_multiple_of(64) + 320;
    let room = if data <= 576 { 576 } else { data.next_power_of_two() };
    room + 256 + pages
}

/// Returns the default limit of memory: four times the bytes of the rate in an `interval`, and not
/// more than full frames of the device's `frame` bytes.
pub fn limit(rate: Rate, interval: Nanos, frame: u32) -> u64 {
    let frames = PACKETS_MAX * u64::from(frame);
    match rate.0 {
        0 => frames,
        _ => frames.min(rate.bytes_floor(interval).0.saturating_mul(4).max(LEAST)),
    }
}
