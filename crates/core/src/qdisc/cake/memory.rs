//! Memory of waiting packets, and its limit.

use crate::base::time::Nanos;
use crate::base::units::Rate;
use crate::packet::meta::Meta;

/// Least default limit of memory at any rate, in bytes.
pub const LEAST: u64 = 4 << 20;
/// Frames of the device that a default limit holds at most.
const PACKETS_MAX: u64 = 10_240;
/// Bytes of a page.
const PAGE: u64 = 4096;

/// Returns the memory that a waiting packet is charged: that of Linux's buffers, so that a limit
/// means the same. A frame with its headroom and the 320 bytes that follow it in a buffer come in
/// the sizes of Linux's allocator, and 256 bytes describe them. A frame that does not fit one page
/// with its headroom lies in pages of its own, but for the link header, and for all headers of a
/// super-frame.
#[inline]
pub fn of(m: &Meta) -> u64 {
    let len = u64::from(m.len);
    if len + 16 < PAGE { buffer(len) } else { in_pages(m) }
}

/// Returns the memory of a frame that lies in pages.
#[cold]
#[inline(never)]
fn in_pages(m: &Meta) -> u64 {
    let len = u64::from(m.len);
    let head = if m.segs > 1 { u64::from(m.header_len).clamp(14, len) } else { 14 };
    buffer(head) + (len - head).next_multiple_of(PAGE)
}

/// Returns the memory of a buffer with `linear` bytes of a frame, and of its description.
#[inline]
fn buffer(linear: u64) -> u64 {
    let data = (linear + 16).next_multiple_of(64) + 320;
    256 + if data <= 576 { 576 } else { data.next_power_of_two() }
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
