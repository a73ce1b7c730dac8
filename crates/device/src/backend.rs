//! The parts of a live device: a transmit queue that owns its frames ([`Backend`]), the store that
//! holds them ([`Store`]), and the origin of frames ([`Source`]).
//!
//! The bytes of a frame are written once: the sender's kernel, or its process, writes them into a
//! frame of the device by which they leave. A frame may be a buffer, a place in an area shared with
//! a card, or a number. Only the store knows which: all other code asks the store for the bytes.

use std::fmt::Debug;
use std::io;

use txweir_core::packet::headers::{self, Network};
use txweir_core::path::device::{Completed, TxQueue};
use txweir_core::{Meta, Nanos};

use crate::vnet::VnetHdr;

/// An origin of frames: an interface, a capture, a generator.
pub trait Source {
    /// Writes the next frame to the front of `room` and returns its header and its length; `None`
    /// if there is none now.
    ///
    /// # Errors
    /// The source is gone. A fault of one frame is no error.
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>>;
}

/// Facts about a frame that travel beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Checksum and segmentation that were left undone.
    pub hdr: VnetHdr,
    /// The place of its network header, which setting a CE mark and clearing the DSCP need.
    pub network: Network,
}

impl Beside {
    /// Returns the facts of a frame whose headers were not read yet.
    #[must_use]
    pub fn of(hdr: VnetHdr) -> Self {
        Self { hdr, network: Network::default() }
    }

    /// Writes the marks in a packet's metadata into its bytes.
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

/// Writes a frame into the second slice, out of the bytes of another frame in the first. Returns
/// the length; `None` for no frame.
pub type Write<'a> = &'a mut dyn FnMut(&[u8], &mut [u8]) -> Option<usize>;

/// The frames of one backend: their memory, bounded in sum.
///
/// The default value has no frame and no room for one. It stands in while the real store is
/// elsewhere, and takes frames back meanwhile; [`absorb`](Self::absorb) hands them to the real
/// store.
pub trait Store: Default + Send {
    /// A handle to a frame. A frame that is dropped without [`give`](Self::give) may be lost to the
    /// store.
    type Frame: Debug + Send;

    /// Receives one frame into memory from which the backend sends it.
    ///
    /// # Errors
    /// The errors of the source.
    fn receive(&mut self, source: &mut dyn Source) -> io::Result<Landed<Self::Frame>>;

    /// Returns a frame of up to `room` bytes that `write` fills out of another one; the answer of
    /// `write` is the length. Returns `None` if there is no room or if nothing was written. The new
    /// frame has no work left undone, and none of its headers are known.
    fn build_from(&mut self, other: &Self::Frame, room: usize, write: Write<'_>) -> Option<Self::Frame>;

    /// Returns a second frame with the same bytes and the same facts beside them; `None` if there
    /// is no room.
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

    /// Takes back the frames that a stand-in store was given.
    fn absorb(&mut self, other: Self);

    /// Returns the bytes of a frame, from its Ethernet header on.
    fn bytes<'a>(&'a self, frame: &'a Self::Frame) -> &'a [u8];

    /// Returns the bytes of a frame, to change them.
    fn bytes_mut<'a>(&'a mut self, frame: &'a mut Self::Frame) -> &'a mut [u8];

    /// Returns the facts beside a frame's bytes.
    fn beside<'a>(&'a self, frame: &'a Self::Frame) -> &'a Beside;

    /// Returns the facts beside a frame's bytes, to change them.
    fn beside_mut<'a>(&'a mut self, frame: &'a mut Self::Frame) -> &'a mut Beside;

    /// Inserts bytes at an offset. Returns false, and changes nothing, if there is no room or no
    /// such offset.
    fn insert(&mut self, frame: &mut Self::Frame, at: usize, bytes: &[u8]) -> bool;

    /// Removes bytes at an offset. Returns false, and changes nothing, if the frame does not have
    /// that many there.
    fn remove(&mut self, frame: &mut Self::Frame, at: usize, len: usize) -> bool;
}

/// A transmit queue that owns its frames.
///
/// A frame that was pushed belongs to the backend: it stays in the batch of the backend, in order,
/// until the interface takes it. No caller ever gets it back to send it again. Each doorbell
/// (`commit`) shows the interface the whole batch by as few system calls as possible. A frame is
/// finished, and reported once by `reap`, when the interface has taken it or has lost it. After an
/// error of `commit` the interface is gone: every frame of the batch is lost and finished.
pub trait Backend: TxQueue<Frame: Debug + Send> + Send {
    /// The store of its frames.
    type Store: Store<Frame = Self::Frame>;

    /// Returns the store of its frames.
    fn store(&mut self) -> &mut Self::Store;

    /// True if the interface had no room for some of the frames that the last doorbell has shown.
    /// They wait here, and another doorbell makes sense once the interface is writable.
    fn is_full(&self) -> bool;

    /// True while the interface has frames that it has not finished, so that the owner has to come
    /// back for them. The default is right for an interface that is done with a frame once it takes
    /// it.
    fn is_busy(&self) -> bool {
        self.is_full()
    }

    /// Returns the time after which to come back for frames that the interface has, if no
    /// descriptor tells when it has finished them. The default is `None`.
    fn look_again(&self) -> Option<Nanos> {
        None
    }

    /// Returns the bytes of frames that are worth a doorbell before there is a batch of them. The
    /// default is 32 KiB: a system call takes some hundred nanoseconds, and the copy of so many
    /// bytes some microseconds. So a super-frame goes while it is still in the processor's cache.
    fn batch_bytes(&self) -> u64 {
        32 << 10
    }

    /// Returns how many frames were delivered and lost since the last call.
    fn take_fates(&mut self) -> Fates;

    /// Loses and finishes all frames that it holds: the interface is gone, or finishes none. A
    /// later report about one of them counts for nothing, and the backend takes further frames.
    fn abandon(&mut self);
}

/// Frames that have reached their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Fates {
    /// Frames that the interface took.
    pub delivered: u64,
    /// Frames that it refused for good, or that it held when it disappeared.
    pub lost: u64,
}

/// Frames that a backend is done with and has not reported to its owner yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Finished {
    packets: u32,
    bytes: u32,
    fates: Fates,
}

impl Finished {
    /// Adds a frame of `wire_len` bytes on the wire (`Meta::wire_len`).
    pub fn add(&mut self, wire_len: u32, delivered: bool) {
        // The loop reaps at each turn, so that the sum stays far below 2^32 bytes.
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(wire_len);
        *(if delivered { &mut self.fates.delivered } else { &mut self.fates.lost }) += 1;
    }

    /// Reports one round of completions, as `TxQueue::reap` does; no round if there is nothing to
    /// report.
    pub fn reap<F>(&mut self, sink: &mut dyn FnMut(Completed<F>)) {
        let (packets, bytes) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.bytes));
        if packets > 0 {
            sink(Completed { packets, bytes, frame: None });
        }
    }

    /// Returns the fates since the last call, as [`Backend::take_fates`] does.
    pub fn take_fates(&mut self) -> Fates {
        std::mem::take(&mut self.fates)
    }

    /// Adds the completions that a backend has not reported. The caller uses that backend no more.
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
    fn look_again(&self) -> Option<Nanos> {
        (**self).look_again()
    }
    fn batch_bytes(&self) -> u64 {
        (**self).batch_bytes()
    }
    fn take_fates(&mut self) -> Fates {
        (**self).take_fates()
    }
    fn abandon(&mut self) {
        (**self).abandon();
    }
}
