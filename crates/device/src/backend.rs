//! The parts of a live device: a transmit queue that owns its frames ([`Backend`]), the store that they are in
//! ([`Store`]), and the origin of frames ([`Source`]).
//!
//! Bytes are written once: by the sender's kernel, or its process, into a frame of the device that they leave by.
//! Whether that frame is a buffer, a place in an area shared with a card, or a number, is the store's own business:
//! all others ask the store for the bytes.

use std::fmt::Debug;
use std::io;

use txweir_core::Meta;
use txweir_core::packet::headers::{self, Network};
use txweir_core::path::device::{Completed, TxQueue};

use crate::vnet::VnetHdr;

/// An origin of frames: an interface, a capture, a generator.
pub trait Source {
    /// Writes the next frame into the front of `room`: its header and its length; `None` if there is none now.
    ///
    /// # Errors
    /// The source is gone. A fault of one frame is no error.
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>>;
}

/// Facts about a frame that travel beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Checksum and segmentation left undone.
    pub hdr: VnetHdr,
    /// The place of its network header, for a CE mark and a cleared DSCP.
    pub network: Network,
}

impl Beside {
    /// Of a frame whose headers were not read yet.
    #[must_use]
    pub fn of(hdr: VnetHdr) -> Self {
        Self { hdr, network: Network::default() }
    }

    /// Writes the marks of a packet's metadata into its bytes.
    pub fn mark(&self, bytes: &mut [u8], m: &Meta) {
        if m.marked {
            headers::set_ce(bytes, self.network);
        }
        if m.washed {
            headers::clear_dscp(bytes, self.network);
        }
    }
}

/// The result of a reception.
#[derive(Debug)]
#[must_use]
pub enum Landed<F> {
    /// The source has no frame now.
    Nothing,
    /// The source had a frame, and the store had no room for it: the frame is lost.
    NoRoom,
    /// A frame of the store.
    Frame(F),
}

/// Writes a frame into the second slice, out of the bytes of another in the first; the length, `None` for no frame.
pub type Write<'a> = &'a mut dyn FnMut(&[u8], &mut [u8]) -> Option<usize>;

/// Frames of one backend: their memory, bounded in sum.
///
/// The default value has no frame and room for none. It stands in while the real store is elsewhere, and takes frames
/// back meanwhile; [`absorb`](Self::absorb) returns them.
pub trait Store: Default + Send {
    /// A handle to a frame. A frame that is let go without [`give`](Self::give) may be lost to the store.
    type Frame: Debug + Send;

    /// Receives one frame, into memory from which the backend sends it.
    ///
    /// # Errors
    /// Those of the source.
    fn receive(&mut self, source: &mut dyn Source) -> io::Result<Landed<Self::Frame>>;

    /// A frame of up to `room` bytes that `write` fills out of another one; its answer is the length. `None` without
    /// room, or if nothing was written. Nothing is left undone on the frame, and no header of it is known.
    fn build_from(&mut self, other: &Self::Frame, room: usize, write: Write<'_>) -> Option<Self::Frame>;

    /// A second frame with the same bytes, and the same beside them; `None` without room.
    fn copy(&mut self, frame: &Self::Frame) -> Option<Self::Frame> {
        let (len, beside) = (self.bytes(frame).len(), *self.beside(frame));
        let mut copy = self.build_from(frame, len, &mut |from, room| {
            room.get_mut(..len)?.copy_from_slice(from);
            Some(len)
        })?;
        *self.beside_mut(&mut copy) = beside;
        Some(copy)
    }

    /// Takes a frame back.
    fn give(&mut self, frame: Self::Frame);

    /// Takes back the frames that a stand-in was given.
    fn absorb(&mut self, other: Self);

    /// The frame, from its Ethernet header on.
    fn bytes<'a>(&'a self, frame: &'a Self::Frame) -> &'a [u8];

    /// The same, to change it.
    fn bytes_mut<'a>(&'a mut self, frame: &'a mut Self::Frame) -> &'a mut [u8];

    /// The facts beside a frame's bytes.
    fn beside<'a>(&'a self, frame: &'a Self::Frame) -> &'a Beside;

    /// The same, to change it.
    fn beside_mut<'a>(&'a mut self, frame: &'a mut Self::Frame) -> &'a mut Beside;

    /// Puts bytes in at an offset; false, and nothing done, without room or such an offset.
    fn insert(&mut self, frame: &mut Self::Frame, at: usize, bytes: &[u8]) -> bool;

    /// Takes bytes out at an offset; false, and nothing done, if there are not so many.
    fn remove(&mut self, frame: &mut Self::Frame, at: usize, len: usize) -> bool;
}

/// A transmit queue that owns its frames.
///
/// A frame that was pushed is the backend's: in its own batch until the interface takes it, in order, so that no
/// caller ever gets it back to send it again. Each doorbell (`commit`) shows the interface the whole batch by as few
/// system calls as possible. A frame is finished, and reported once by `reap`, when the interface has it or has lost
/// it. After an error of `commit` the interface is gone: everything in the batch is lost and finished.
pub trait Backend: TxQueue<Frame: Debug + Send> + Send {
    /// Its frames.
    type Store: Store<Frame = Self::Frame>;

    /// Its frames.
    fn store(&mut self) -> &mut Self::Store;

    /// True if the interface had no room for all that the last doorbell has shown: the rest waits here, and another
    /// doorbell makes sense once the interface is writable.
    fn is_full(&self) -> bool;

    /// True while the interface has frames that it has not finished, so that the owner has to come back for them. The
    /// default is right where an interface is done with what it takes.
    fn is_busy(&self) -> bool {
        self.is_full()
    }

    /// How many frames were delivered and lost since the last call.
    fn take_fates(&mut self) -> Fates;

    /// Loses all frames that it holds, which are finished then: the interface is gone.
    fn abandon(&mut self);
}

/// Frames that have reached their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Fates {
    /// Frames that the interface took.
    pub delivered: u64,
    /// Frames that it refused for good, or that it held when it went.
    pub lost: u64,
}

/// Frames that a backend is done with, until its owner has heard of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Finished {
    packets: u32,
    bytes: u32,
    fates: Fates,
}

impl Finished {
    /// Adds a frame of so many wire bytes (`Meta::wire_len`).
    pub fn add(&mut self, wire_len: u32, delivered: bool) {
        // Reaped at each turn of the loop: far below 2^32 bytes.
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(wire_len);
        *(if delivered { &mut self.fates.delivered } else { &mut self.fates.lost }) += 1;
    }

    /// One round of completions, as `TxQueue::reap` reports it; none if there is nothing to report.
    pub fn reap<F>(&mut self, sink: &mut dyn FnMut(Completed<F>)) {
        let (packets, bytes) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.bytes));
        if packets > 0 {
            sink(Completed { packets, bytes, frame: None });
        }
    }

    /// As [`Backend::take_fates`].
    pub fn take_fates(&mut self) -> Fates {
        std::mem::take(&mut self.fates)
    }

    /// Adds what a backend has finished and not reported, which is to be used no more.
    pub fn absorb<B: Backend + ?Sized>(&mut self, backend: &mut B) {
        backend.reap(&mut |done| {
            self.packets += done.packets;
            self.bytes = self.bytes.saturating_add(done.bytes);
        });
        let fates = backend.take_fates();
        self.fates.delivered += fates.delivered;
        self.fates.lost += fates.lost;
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        (**self).recv(room)
    }
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    type Store = B::Store;
    fn store(&mut self) -> &mut B::Store {
        (**self).store()
    }
    fn is_full(&self) -> bool {
        (**self).is_full()
    }
    fn is_busy(&self) -> bool {
        (**self).is_busy()
    }
    fn take_fates(&mut self) -> Fates {
        (**self).take_fates()
    }
    fn abandon(&mut self) {
        (**self).abandon();
    }
}
