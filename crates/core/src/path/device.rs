//! `TxQueue`: a device's transmit queue, which promises slots before a packet leaves its qdisc.

mod none;

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use crate::packet::meta::Meta;
use crate::packet::reason::DropReason;

pub use none::NoDevice;

/// A device's transmit queue.
///
/// The order of calls is reserve, push (at most as many times as slots were promised), commit. A
/// commit also returns the promises that no push used. A packet is taken from its qdisc only after
/// a slot is promised. No packet therefore returns to the qdisc, and there is no requeue.
pub trait TxQueue {
    /// The user's own packet: a `Vec<u8>`, a buffer address, an mbuf pointer.
    type Frame;

    /// Promises up to `want` slots, each for one packet of any size that the device takes. A path
    /// counts an answer above `want` as `want`.
    fn reserve(&mut self, want: u32) -> u32;

    /// Takes a packet into a promised slot. `m.marked` asks for a CE mark on the bytes, `m.washed`
    /// for a DSCP of 0.
    fn push(&mut self, frame: Self::Frame, m: &Meta);

    /// Shows the pushed packets to the device (one doorbell) and returns unused promises.
    fn commit(&mut self) -> Result<(), DeviceError>;

    /// Reports the packets that the device has finished since the last call, in one round.
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Self::Frame>));

    /// True if the device has finished each packet by the end of the `commit` that shows it, as a
    /// socket has that copies it. The path then books its packets as finished with the doorbell,
    /// and the byte limit stops none: nothing is ever in flight. `reap` may still give frames back;
    /// the numbers of its reports count for nothing. The answer never changes.
    ///
    /// The default is false: `reap` must report each packet. A device whose `reap` reports none,
    /// and that does not answer true here, stops behind a byte limit after its first packet.
    fn is_done_at_commit(&mut self) -> bool {
        false
    }

    /// Returns a copy of a waiting frame, for an emulated link that duplicates. The default returns
    /// `None`: then there is no second packet, and `PathStats::uncopied` counts it.
    fn copy(&mut self, frame: &Self::Frame) -> Option<Self::Frame> {
        let _ = frame;
        None
    }

    /// Inverts one bit of a waiting frame, counted from the first bit of the frame, for an emulated
    /// link that corrupts: [`flip_bit`] does it. The default does nothing.
    fn corrupt(&mut self, frame: &mut Self::Frame, bit: u32) {
        let _ = (frame, bit);
    }

    /// Says that the hardware was reset and will report none of the packets that it has. The
    /// default does nothing; a device that counts them forgets them here.
    fn was_reset(&mut self) {}

    /// Takes back the frame of a dropped packet. The default drops the frame. A path that ends
    /// gives back the frames that wait if its owner calls `TxPath::purge` first.
    fn discard(&mut self, frame: Self::Frame, m: &Meta, reason: DropReason) {
        let _ = (frame, m, reason);
    }
}

/// Implements `TxQueue` for a pointer to a queue, by calling the queue.
macro_rules! reached_through {
    ($($Through:ty),*) => {$(
        impl<Q: TxQueue + ?Sized> TxQueue for $Through {
            type Frame = Q::Frame;
            fn reserve(&mut self, want: u32) -> u32 {
                (**self).reserve(want)
            }
            fn push(&mut self, frame: Q::Frame, m: &Meta) {
                (**self).push(frame, m);
            }
            fn commit(&mut self) -> Result<(), DeviceError> {
                (**self).commit()
            }
            fn reap(&mut self, sink: &mut dyn FnMut(Completed<Q::Frame>)) {
                (**self).reap(sink);
            }
            fn is_done_at_commit(&mut self) -> bool {
                (**self).is_done_at_commit()
            }
            fn copy(&mut self, frame: &Q::Frame) -> Option<Q::Frame> {
                (**self).copy(frame)
            }
            fn corrupt(&mut self, frame: &mut Q::Frame, bit: u32) {
                (**self).corrupt(frame, bit);
            }
            fn was_reset(&mut self) {
                (**self).was_reset();
            }
            fn discard(&mut self, frame: Q::Frame, m: &Meta, reason: DropReason) {
                (**self).discard(frame, m, reason);
            }
        }
    )*};
}

reached_through!(&mut Q, Box<Q>);

/// Inverts one bit of a frame, counted from its first. Does nothing past the end of the frame.
pub fn flip_bit(frame: &mut [u8], bit: u32) {
    if let Some(byte) = frame.get_mut(bit as usize / 8) {
        *byte ^= 1 << (bit % 8);
    }
}

/// Packets that the device has finished with.
#[derive(Debug)]
pub struct Completed<F> {
    /// Number of packets (a super-packet counts once, as it was pushed).
    pub packets: u32,
    /// Sum of their `wire_len`, exactly as they were pushed.
    pub bytes: u32,
    /// The frame, if the device returns frames at completion.
    pub frame: Option<F>,
}

/// Refusal of a commit by the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceError(pub String);

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for DeviceError {}
