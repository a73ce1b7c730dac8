//! `Frames`: a store of frames in buffers of this process, recycled, and bounded in sum.
//!
//! Buffers come in a few sizes. A buffer that was used goes back to the others of its size, the
//! warmest on top, and a store that has seen its peak allocates nothing any more. All buffers
//! together, used and free, never exceed the budget: a frame without room is not kept, and the
//! caller counts it.

use std::io;

use crate::backend::{Beside, Landed, Source, Store, Write};
use crate::frame::{FrameRef, MAX_FRAME, insert, remove};

/// Bytes of the smallest buffer, which holds a request, an acknowledgement or ARP.
const SMALLEST: usize = 256;
/// Number of sizes. They double from the smallest to the largest, which holds any frame.
const CLASSES: usize = 9;

const _: () = assert!(SMALLEST << (CLASSES - 2) < MAX_FRAME && MAX_FRAME < SMALLEST << CLASSES);

/// A frame in a buffer of a [`Frames`].
///
/// It is moved often, and its facts are written by parts, so that these stay in one place: a
/// processor that copies them soon afterwards waits for each part.
#[derive(Debug)]
pub struct Frame(Box<Held>);

/// The buffer of a frame, and the facts about what is in it.
#[derive(Debug)]
struct Held {
    beside: Beside,
    len: usize,
    buffer: Box<[u8]>,
}

impl Frame {
    /// Returns a frame without contents, with a buffer of this size.
    fn empty(size: usize) -> Self {
        Self(Box::new(Held { beside: Beside::default(), len: 0, buffer: vec![0; size].into() }))
    }
    /// Returns the bytes, from the Ethernet header on.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0.buffer[..self.0.len]
    }
    /// Returns the bytes, to change them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let Held { buffer, len, .. } = &mut *self.0;
        &mut buffer[..*len]
    }
    /// Returns the facts beside the bytes.
    #[must_use]
    pub fn beside(&self) -> &Beside {
        &self.0.beside
    }
    /// Returns the facts beside the bytes, to change them.
    pub fn beside_mut(&mut self) -> &mut Beside {
        &mut self.0.beside
    }
    /// Returns the frame as a system call takes it.
    #[must_use]
    pub fn as_ref(&self) -> FrameRef<'_> {
        FrameRef { hdr: self.0.beside.hdr, bytes: self.bytes() }
    }
    /// Returns the bytes of its buffer.
    fn size(&self) -> usize {
        self.0.buffer.len()
    }
}

/// The answer of a store whose buffers are at their budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// An unused buffer on its way from one store to another.
#[derive(Debug)]
pub struct Spare(Frame);

/// Frame buffers of one backend.
#[derive(Debug)]
pub struct Frames {
    /// Unused buffers, as frames of any contents.
    free: [Vec<Frame>; CLASSES],
    /// Buffer of the largest size that receives the next frame. A long frame stays in it, and
    /// another buffer replaces it; a short frame is copied out. So a super-frame is never copied,
    /// and no frame takes more than twice its length.
    landing: Box<[u8]>,
    /// Bytes of all buffers, used and free; what a frame has beside its buffer is not counted.
    owned: usize,
    budget: usize,
}

impl Frames {
    /// Makes a store of at most `budget` bytes of buffers. At least one frame always fits.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        Self {
            free: std::array::from_fn(|_| Vec::new()),
            landing: vec![0; MAX_FRAME].into(),
            owned: MAX_FRAME,
            budget: budget.max(2 * MAX_FRAME),
        }
    }

    /// Returns the bytes of all buffers, used and free.
    #[must_use]
    pub const fn owned(&self) -> usize {
        self.owned
    }

    /// Returns a frame without contents, with a buffer for so many bytes.
    fn take(&mut self, len: usize) -> Option<Frame> {
        if len > MAX_FRAME {
            return None;
        }
        let class = class(len);
        if let Some(frame) = self.free[class].pop() {
            return Some(frame);
        }
        let size = size(class);
        self.make_room(size);
        if self.owned + size > self.budget {
            return None;
        }
        self.owned += size;
        Some(Frame::empty(size))
    }

    /// Lets a frame go to another store: its buffer counts there.
    pub fn let_go(&mut self, frame: &Frame) {
        self.owned = self.owned.saturating_sub(frame.size());
    }

    /// Counts the buffer of a frame that another store has let go. Also returns an unused buffer of
    /// the same size for the other store, if there is one.
    ///
    /// # Errors
    /// The budget has no room for the frame, which is freed.
    pub fn adopt(&mut self, frame: Frame) -> Result<(Frame, Option<Spare>), NoRoom> {
        let size = frame.size();
        if let Some(spare) = self.free[class(size)].pop() {
            return Ok((frame, Some(Spare(spare))));
        }
        self.make_room(size);
        if self.owned + size > self.budget {
            return Err(NoRoom);
        }
        self.owned += size;
        Ok((frame, None))
    }

    /// Takes the buffer of a frame that another store has let go, and that is dropped.
    pub fn take_over(&mut self, frame: Frame) {
        self.take_spare(Spare(frame));
    }

    /// Takes an unused buffer of another store, if the budget has room for it.
    pub fn take_spare(&mut self, spare: Spare) {
        let size = spare.0.size();
        if self.owned + size <= self.budget {
            self.owned += size;
            self.free[class(size)].push(spare.0);
        }
    }

    /// Frees unused buffers, those of the largest size first, until one of `size` bytes fits.
    fn make_room(&mut self, size: usize) {
        for class in (0..CLASSES).rev() {
            while self.owned + size > self.budget {
                let Some(frame) = self.free[class].pop() else { break };
                self.owned -= frame.size();
            }
        }
    }
}

impl Default for Frames {
    /// Returns a store without buffers and without room for any.
    fn default() -> Self {
        let free = std::array::from_fn(|_| Vec::new());
        Self { free, landing: Box::default(), owned: 0, budget: 0 }
    }
}

impl Store for Frames {
    type Frame = Frame;

    fn receive(&mut self, source: &mut dyn Source) -> io::Result<Landed<Frame>> {
        let Some((hdr, len)) = source.recv(&mut self.landing)? else { return Ok(Landed::Nothing) };
        let len = len.min(self.landing.len());
        let Some(mut frame) = self.take(len) else { return Ok(Landed::NoRoom) };
        let held = &mut *frame.0;
        if held.buffer.len() == self.landing.len() {
            std::mem::swap(&mut held.buffer, &mut self.landing);
        } else {
            held.buffer[..len].copy_from_slice(&self.landing[..len]);
        }
        (held.beside, held.len) = (Beside::of(hdr), len);
        Ok(Landed::Frame(frame))
    }

    fn build_from(&mut self, other: &Frame, room: usize, write: Write<'_>) -> Option<Frame> {
        let mut frame = self.take(room)?;
        let held = &mut *frame.0;
        let Some(len) = write(other.bytes(), &mut held.buffer) else {
            self.give(frame);
            return None;
        };
        (held.beside, held.len) = (Beside::default(), len.min(held.buffer.len()));
        Some(frame)
    }

    fn give(&mut self, frame: Frame) {
        self.free[class(frame.size())].push(frame);
    }

    fn absorb(&mut self, other: Self) {
        for (free, given) in self.free.iter_mut().zip(other.free) {
            free.extend(given);
        }
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        frame.bytes()
    }

    fn bytes_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        frame.bytes_mut()
    }

    fn beside<'a>(&'a self, frame: &'a Frame) -> &'a Beside {
        frame.beside()
    }

    fn beside_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut Beside {
        frame.beside_mut()
    }

    fn insert(&mut self, frame: &mut Frame, at: usize, bytes: &[u8]) -> bool {
        let room = frame.size().min(MAX_FRAME);
        let Held { buffer, len, .. } = &mut *frame.0;
        let Some(now) = insert(&mut buffer[..room], *len, at, bytes) else { return false };
        *len = now;
        true
    }

    fn remove(&mut self, frame: &mut Frame, at: usize, count: usize) -> bool {
        let Held { buffer, len, .. } = &mut *frame.0;
        let Some(now) = remove(buffer, *len, at, count) else { return false };
        *len = now;
        true
    }
}

/// Returns the class of the smallest buffers that hold `len` bytes.
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
    use crate::vnet::VnetHdr;

    /// A source whose frames have this length and are filled with this byte.
    struct Full(usize, u8);

    impl Source for Full {
        fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
            room[..self.0].fill(self.1);
            Ok(Some((VnetHdr::default(), self.0)))
        }
    }

    fn received(frames: &mut Frames, len: usize, fill: u8) -> Option<Frame> {
        match frames.receive(&mut Full(len, fill)).unwrap() {
            Landed::Frame(frame) => Some(frame),
            Landed::NoRoom | Landed::Nothing => None,
        }
    }

    fn kept(frames: &mut Frames, len: usize, fill: u8) -> Frame {
        received(frames, len, fill).unwrap()
    }

    #[test]
    fn every_length_has_a_buffer_that_is_not_much_larger() {
        for len in 0..=MAX_FRAME {
            let size = size(class(len));
            assert!(size >= len && (size < 2 * len + 32 || size == SMALLEST), "{len}: {size}");
            assert_eq!(class(size), class(len), "a buffer goes back to its own class");
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
        let first = &all[0].2;
        let built = frames.build_from(first, 100, &mut |from, room| {
            room[..3].copy_from_slice(&from[..3]);
            Some(3)
        });
        assert_eq!(built.unwrap().bytes(), [1; 3]);
        let copied = frames.copy(first).unwrap();
        assert_eq!((copied.bytes(), copied.beside()), (first.bytes(), first.beside()));
        for (len, fill, frame) in all {
            assert_eq!(frame.bytes(), vec![fill; len]);
            frames.give(frame);
        }
    }

    #[test]
    fn a_frame_that_crosses_takes_its_buffer_along_and_sends_one_back() {
        let (mut from, mut to) = (Frames::new(10 * MAX_FRAME), Frames::new(10 * MAX_FRAME));
        let both = from.owned() + to.owned();
        let frame = kept(&mut from, 1000, 7);
        from.let_go(&frame);
        let (frame, spare) = to.adopt(frame).unwrap();
        assert!(spare.is_none(), "none to spare yet");
        assert_eq!((frame.bytes(), from.owned() + to.owned()), (&[7; 1000][..], both + 1024));
        to.give(frame);
        let next = kept(&mut from, 1000, 8);
        from.let_go(&next);
        let (next, spare) = to.adopt(next).unwrap();
        from.take_spare(spare.expect("the buffer of the first"));
        assert_eq!((from.owned(), to.owned()), (MAX_FRAME + 1024, MAX_FRAME + 1024));
        // The buffer that came back is used again.
        let last = kept(&mut from, 1000, 9);
        assert_eq!((from.owned(), last.bytes()), (MAX_FRAME + 1024, &[9; 1000][..]));
        to.give(next);
        from.give(last);
        // A store at its budget takes neither a spare buffer nor a frame.
        let mut full = Frames::new(0);
        let used = kept(&mut full, MAX_FRAME, 1);
        full.take_spare(Spare(Frame::empty(1024)));
        let frame = kept(&mut from, 1000, 9);
        from.let_go(&frame);
        assert_eq!(full.adopt(frame).err(), Some(NoRoom));
        assert_eq!(full.owned(), 2 * MAX_FRAME);
        full.give(used);
    }

    #[test]
    fn the_budget_holds_and_free_buffers_make_room() {
        let mut frames = Frames::new(10 * MAX_FRAME);
        let large: Vec<_> = (0..9).map(|_| kept(&mut frames, 60_000, 1)).collect();
        assert_eq!(frames.owned(), 10 * MAX_FRAME);
        assert!(received(&mut frames, 60, 1).is_none());
        large.into_iter().for_each(|f| frames.give(f));
        let small: Vec<_> = (0..2000).map(|_| kept(&mut frames, 60, 2)).collect();
        assert!(frames.owned() <= 10 * MAX_FRAME);
        small.into_iter().for_each(|f| frames.give(f));
        // Buffers that came back are used again: nothing is allocated anew.
        let before = frames.owned();
        let again: Vec<_> = (0..2000).map(|_| kept(&mut frames, 60, 3)).collect();
        assert_eq!((frames.owned(), again.len()), (before, 2000));
    }
}
