//! The two stores of frames ahead of XDP sockets: buffers of this process ([`Frames`]), whose bytes
//! are copied into the memory that the interface reads, and places in that memory ([`Places`]).

use std::io;

use crate::backend::{Beside, Landed, Source, Store, Write};
use crate::frame::{insert, remove};
use crate::frames::{Frame, Frames};
use crate::segment::complete_checksum;
use crate::sys::xsk::Chunk;
use crate::xdp::port::{Loaded, Port};

/// A store whose frames XDP sockets can send. This crate has the two that there are.
pub trait XdpStore: Store + Loads {}
impl<S: Store + Loads> XdpStore for S {}

/// The way of a frame from its store into the rings.
pub trait Loads: Store {
    /// Makes the store of an interface: of the memory of its rings, or of at most `memory` bytes of
    /// buffers.
    #[doc(hidden)]
    fn over(port: &mut Port, memory: usize) -> Self;
    /// Loads a frame. Gives it back if the rings have no room for it.
    #[doc(hidden)]
    fn load(
        &mut self,
        port: &mut Port,
        frame: Self::Frame,
        wire_len: u32,
        queue: u16,
    ) -> Result<(), Self::Frame>;
    /// Takes over the memory of frames that were sent.
    #[doc(hidden)]
    fn refill(&mut self, port: &mut Port);
}

impl Loads for Frames {
    fn over(_: &mut Port, memory: usize) -> Self {
        Self::new(memory)
    }
    fn load(&mut self, port: &mut Port, frame: Frame, wire_len: u32, queue: u16) -> Result<(), Frame> {
        match port.load(&frame.as_ref(), wire_len, queue) {
            Loaded::Full => Err(frame),
            Loaded::All | Loaded::Refused => {
                self.give(frame);
                Ok(())
            }
        }
    }
    fn refill(&mut self, _: &mut Port) {}
}

/// A frame in the memory that an interface reads.
#[derive(Debug)]
pub struct Place {
    chunk: Chunk,
    /// At most the bytes of a chunk.
    len: u16,
    beside: Beside,
}

impl Place {
    fn bytes(&self) -> &[u8] {
        &self.chunk.bytes()[..usize::from(self.len)]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.chunk.bytes_mut()[..usize::from(self.len)]
    }
}

/// Frames in the memory that an interface reads. There is a place for each slot of its transmit
/// rings, so that frames which wait in qdiscs take the places of frames under way.
#[derive(Debug, Default)]
pub struct Places {
    free: Vec<Chunk>,
}

impl Store for Places {
    type Frame = Place;

    fn receive(&mut self, source: &mut dyn Source) -> io::Result<Landed<Place>> {
        let Some(mut chunk) = self.free.pop() else {
            return Ok(source.recv(&mut [0; 4096])?.map_or(Landed::Nothing, |_| Landed::NoRoom));
        };
        match source.recv(chunk.bytes_mut()) {
            Ok(Some((hdr, len))) => {
                let len = len.min(chunk.bytes().len()) as u16; // at most 4096
                Ok(Landed::Frame(Place { chunk, len, beside: Beside::of(hdr) }))
            }
            other => {
                self.free.push(chunk);
                other.map(|_| Landed::Nothing)
            }
        }
    }

    fn build_from(&mut self, other: &Place, room: usize, write: Write<'_>) -> Option<Place> {
        let mut chunk = self.free.pop()?;
        let made =
            chunk.bytes_mut().get_mut(..room).and_then(|to| write(other.bytes(), to).map(|n| n.min(room)));
        match made.and_then(|len| u16::try_from(len).ok()) {
            Some(len) => Some(Place { chunk, len, beside: Beside::default() }),
            None => {
                self.free.push(chunk);
                None
            }
        }
    }

    fn give(&mut self, frame: Place) {
        self.free.push(frame.chunk);
    }

    fn absorb(&mut self, other: Self) {
        self.free.extend(other.free);
    }

    fn bytes<'a>(&'a self, frame: &'a Place) -> &'a [u8] {
        frame.bytes()
    }

    fn bytes_mut<'a>(&'a mut self, frame: &'a mut Place) -> &'a mut [u8] {
        frame.bytes_mut()
    }

    fn beside<'a>(&'a self, frame: &'a Place) -> &'a Beside {
        &frame.beside
    }

    fn beside_mut<'a>(&'a mut self, frame: &'a mut Place) -> &'a mut Beside {
        &mut frame.beside
    }

    fn insert(&mut self, frame: &mut Place, at: usize, bytes: &[u8]) -> bool {
        let Some(len) = insert(frame.chunk.bytes_mut(), frame.len.into(), at, bytes) else { return false };
        frame.len = len as u16; // at most the bytes of a chunk
        true
    }

    fn remove(&mut self, frame: &mut Place, at: usize, len: usize) -> bool {
        let Some(len) = remove(frame.chunk.bytes_mut(), frame.len.into(), at, len) else { return false };
        frame.len = len as u16; // at most the bytes of a chunk
        true
    }
}

impl Loads for Places {
    fn over(port: &mut Port, _: usize) -> Self {
        let mut places = Self::default();
        places.refill(port);
        places
    }
    fn load(&mut self, port: &mut Port, mut frame: Place, wire_len: u32, queue: u16) -> Result<(), Place> {
        let (mut hdr, len) = (frame.beside.hdr, usize::from(frame.len));
        if complete_checksum(&mut hdr, frame.bytes_mut()).is_err() {
            port.refuse(wire_len);
            self.give(frame);
            return Ok(());
        }
        frame.beside.hdr = hdr;
        let Place { chunk, len: _, beside } = frame;
        port.load_chunk(chunk, len, wire_len, queue).map_err(|chunk| Place { chunk, len: len as u16, beside }) // as it was
    }
    fn refill(&mut self, port: &mut Port) {
        self.free.append(port.free_mut());
    }
}
