//! `Frames`: buffers for frames on their way through, recycled, and bounded in sum.
//!
//! Buffers come in a few sizes. One that was used goes back to the others of its size, the warmest on top, and a
//! path that has seen its peak allocates nothing any more. All buffers together, used and free, never exceed the
//! budget: without room a frame is not kept, and the caller counts it.

use txweir_core::packet::headers::Network;
use txweir_device::{MAX_FRAME, VnetHdr};

/// Bytes of the smallest buffer: a request, an acknowledgement, ARP.
const SMALLEST: usize = 256;
/// Sizes double from the smallest to the largest, which holds any frame.
const CLASSES: usize = 9;

const _: () = assert!(SMALLEST << (CLASSES - 2) < MAX_FRAME && MAX_FRAME < SMALLEST << CLASSES);

/// A frame and what is left to be done on it.
#[derive(Debug)]
pub struct Frame {
    /// Checksum and segmentation left undone.
    pub hdr: VnetHdr,
    /// Where its network header is: what a CE mark goes by.
    pub(crate) network: Network,
    buffer: Box<[u8]>,
    len: usize,
}

impl Frame {
    /// The frame, from its Ethernet header on.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
    /// The same, to change it.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.len]
    }
}

impl Frame {
    /// Puts bytes in at an offset, if the buffer has room.
    pub(crate) fn widen(&mut self, at: usize, bytes: &[u8]) -> bool {
        let len = self.len + bytes.len();
        if at > self.len || len > self.buffer.len().min(MAX_FRAME) {
            return false;
        }
        self.buffer.copy_within(at..self.len, at + bytes.len());
        self.buffer[at..at + bytes.len()].copy_from_slice(bytes);
        self.len = len;
        true
    }

    /// Takes bytes out at an offset, if there are so many.
    pub(crate) fn narrow(&mut self, at: usize, len: usize) -> bool {
        let Some(end) = at.checked_add(len).filter(|end| *end <= self.len) else { return false };
        self.buffer.copy_within(end..self.len, at);
        self.len -= len;
        true
    }
}

/// Frame buffers of one direction.
#[derive(Debug)]
pub struct Frames {
    free: [Vec<Box<[u8]>>; CLASSES],
    /// Where the next frame is received, of the largest size. A long frame stays in it, and the next one gets
    /// another; a short one is copied out. So a super-frame is never copied, and none takes more than twice its
    /// length.
    landing: Box<[u8]>,
    /// Bytes of all buffers, used and free.
    owned: usize,
    budget: usize,
}

impl Frames {
    /// With at most `budget` bytes of buffers; at least one frame always fits.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        Self {
            free: std::array::from_fn(|_| Vec::new()),
            landing: vec![0; MAX_FRAME].into(),
            owned: MAX_FRAME,
            budget: budget.max(2 * MAX_FRAME),
        }
    }

    /// None, and no room for any: to stand in while the real ones are elsewhere.
    pub(crate) fn empty() -> Self {
        Self { free: std::array::from_fn(|_| Vec::new()), landing: Box::default(), owned: 0, budget: 0 }
    }

    /// Takes back the buffers that were given to a stand-in.
    pub(crate) fn absorb(&mut self, other: Self) {
        for (free, given) in self.free.iter_mut().zip(other.free) {
            free.extend(given);
        }
    }

    /// Where to receive: [`MAX_FRAME`] bytes.
    pub fn landing(&mut self) -> &mut [u8] {
        &mut self.landing
    }

    /// The first `len` bytes received there.
    #[must_use]
    pub fn landed(&self, len: usize) -> &[u8] {
        &self.landing[..len.min(MAX_FRAME)]
    }

    /// Keeps the first `len` bytes of the landing buffer as a frame; `None` if there is no room.
    pub fn keep(&mut self, hdr: VnetHdr, len: usize) -> Option<Frame> {
        let len = len.min(MAX_FRAME);
        let mut buffer = self.take(len)?;
        if buffer.len() == self.landing.len() {
            std::mem::swap(&mut buffer, &mut self.landing);
        } else {
            buffer[..len].copy_from_slice(&self.landing[..len]);
        }
        Some(Frame { hdr, network: Network::default(), buffer, len })
    }

    /// An ordinary frame of up to `room` bytes that `write` fills; it answers the length. `None` if there is no
    /// room, or nothing was written.
    pub fn build(&mut self, room: usize, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Frame> {
        let mut buffer = self.take(room)?;
        match write(&mut buffer) {
            Some(len) => Some(Frame {
                hdr: VnetHdr::default(),
                network: Network::default(),
                len: len.min(buffer.len()),
                buffer,
            }),
            None => {
                self.free[class(buffer.len())].push(buffer);
                None
            }
        }
    }

    /// A copy of a frame; `None` if there is no room.
    pub fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        let mut buffer = self.take(frame.len)?;
        buffer[..frame.len].copy_from_slice(frame.bytes());
        Some(Frame { hdr: frame.hdr, network: frame.network, buffer, len: frame.len })
    }

    /// Takes a frame's buffer back.
    pub fn give(&mut self, frame: Frame) {
        self.free[class(frame.buffer.len())].push(frame.buffer);
    }

    /// Bytes of all buffers, used and free.
    #[must_use]
    pub const fn owned(&self) -> usize {
        self.owned
    }

    fn take(&mut self, len: usize) -> Option<Box<[u8]>> {
        if len > MAX_FRAME {
            return None;
        }
        let class = class(len);
        if let Some(buffer) = self.free[class].pop() {
            return Some(buffer);
        }
        let size = size(class);
        self.make_room(size);
        if self.owned + size > self.budget {
            return None;
        }
        self.owned += size;
        Some(vec![0; size].into())
    }

    /// Lets free buffers of other sizes go until one of `size` bytes fits, the largest first.
    fn make_room(&mut self, size: usize) {
        for class in (0..CLASSES).rev() {
            while self.owned + size > self.budget {
                let Some(buffer) = self.free[class].pop() else { break };
                self.owned -= buffer.len();
            }
        }
    }
}

/// The class of the smallest buffers that hold `len` bytes.
fn class(len: usize) -> usize {
    let doublings = len.div_ceil(SMALLEST).next_power_of_two().trailing_zeros();
    (doublings as usize).min(CLASSES - 1) // at most 64
}

fn size(class: usize) -> usize {
    if class == CLASSES - 1 { MAX_FRAME } else { SMALLEST << class }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(frames: &mut Frames, len: usize, fill: u8) -> Frame {
        frames.landing()[..len].fill(fill);
        frames.keep(VnetHdr::default(), len).unwrap()
    }

    #[test]
    fn every_length_has_a_buffer_that_is_not_much_larger() {
        for len in 0..=MAX_FRAME {
            let size = size(class(len));
            assert!(size >= len && (size < 2 * len + 32 || size == SMALLEST), "{len}: {size}");
            assert_eq!(class(size), class(len), "a buffer goes back where it came from");
        }
    }

    #[test]
    fn frames_keep_their_bytes() {
        let mut frames = Frames::new(1 << 20);
        let all: Vec<_> = [60, 256, 257, 1514, 40_000, MAX_FRAME]
            .into_iter()
            .zip(1..)
            .map(|(len, fill)| (len, fill, kept(&mut frames, len, fill)))
            .collect();
        for (len, fill, frame) in all {
            assert_eq!(frame.bytes(), vec![fill; len]);
            frames.give(frame);
        }
        let built = frames.build(100, |room| {
            room[..3].copy_from_slice(b"abc");
            Some(3)
        });
        assert_eq!(built.unwrap().bytes(), b"abc");
    }

    #[test]
    fn the_budget_holds_and_free_buffers_make_room() {
        let mut frames = Frames::new(10 * MAX_FRAME);
        let large: Vec<_> = (0..9).map(|_| kept(&mut frames, 60_000, 1)).collect();
        assert_eq!(frames.owned(), 10 * MAX_FRAME);
        assert!(frames.keep(VnetHdr::default(), 60).is_none());
        large.into_iter().for_each(|f| frames.give(f));
        let small: Vec<_> = (0..2000).map(|_| kept(&mut frames, 60, 2)).collect();
        assert!(frames.owned() <= 10 * MAX_FRAME);
        small.into_iter().for_each(|f| frames.give(f));
        // What was lent and came back is used again: nothing is made anew.
        let before = frames.owned();
        let again: Vec<_> = (0..2000).map(|_| kept(&mut frames, 60, 3)).collect();
        assert_eq!((frames.owned(), again.len()), (before, 2000));
    }
}
