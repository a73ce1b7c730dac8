//! XDP sockets (AF_XDP): the rings of a card, or of a veth, without the machine's own stack
//! between.
//!
//! An interface is opened with a socket for each of its queues, over one area of memory that all
//! share ([`Port`]). A small program on the interface hands each frame that comes in to the socket
//! of its queue. The kernel takes the program off when the device is closed, or when the process
//! ends. An interface that has an address of its own loses its traffic meanwhile.
//!
//! The interface reports each frame that it has sent. So a byte limit learns what the card needs,
//! where a TAP device and a packet socket only tell that they took a frame. Reports may come out of
//! order: a frame is known by its address.
//!
//! An XDP socket carries frames of at most 2048 bytes, of 4096 on an interface with a larger MTU,
//! and of 64 KiB, in several pieces of memory, on one whose MTU is above 3818 (Linux 6.6; not with
//! [`XdpPlaces`]), without work left undone. Super-frames are cut here and checksums completed.

mod port;
mod store;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use txweir_core::path::device::{Completed, DeviceError, TxQueue, flip_bit};
use txweir_core::{DropReason, Meta, Nanos};

use crate::backend::{Backend, Fates, Source, Store};
use crate::counters::Counters;
use crate::error::{OpenCause, OpenError};
use crate::frames::Frames;
use crate::name::IfName;
use crate::nic::Nic;
use crate::queue::PLACES;
pub use crate::sys::xsk::XdpMode;
use crate::vnet::VnetHdr;
use crate::xdp::port::Port;
pub use crate::xdp::store::{Place, Places, XdpStore};

/// The options with which an interface is opened by XDP sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// The way in which the kernel and the card exchange frames. Default `Auto`.
    pub mode: XdpMode,
    /// Slots of each of the four rings of a queue, a power of two from 64 to 32768. Default 2048.
    /// A queue has twice as many chunks of memory.
    pub ring: u32,
}

impl Default for XdpOptions {
    fn default() -> Self {
        Self { mode: XdpMode::Auto, ring: 2048 }
    }
}

/// XDP sockets as a transmit queue whose frames are buffers of this process, so that frames wait in
/// qdiscs without the memory of the rings. Each is copied once.
pub type XdpQueue = Xdp<Frames>;
/// XDP sockets as a transmit queue whose frames are written where the interface reads them.
pub type XdpPlaces = Xdp<Places>;

/// An interface with XDP sockets, as a transmit queue.
#[derive(Debug)]
pub struct Xdp<S: XdpStore> {
    port: Port,
    store: S,
    /// Frames that were pushed and found no room yet, in order: each with its bytes on the wire and
    /// its queue.
    batch: VecDeque<(S::Frame, u32, u16)>,
    /// Number of frames in the batch that found no room at the last doorbell.
    shown: usize,
}

impl<S: XdpStore> Xdp<S> {
    /// Opens the interface `name` in the network namespace of the calling thread. `memory`: most
    /// bytes of frame buffers beside the memory of the rings.
    ///
    /// # Errors
    /// [`OpenError`]: one sentence that says what to do.
    pub fn open(name: &IfName, options: &XdpOptions, memory: usize) -> Result<Self, OpenError> {
        Self::attach(name, options, memory).map_err(|cause| OpenError { interface: name.to_string(), cause })
    }

    pub(crate) fn attach(name: &IfName, options: &XdpOptions, memory: usize) -> Result<Self, OpenCause> {
        Ok(Self::on(Port::open(name, options)?, memory))
    }

    /// Opens the interface as up to `most` devices, each with its part of the queues and of the
    /// memory, but not more than it has queues.
    pub(crate) fn attach_all(
        name: &IfName,
        options: &XdpOptions,
        memory: usize,
        most: usize,
    ) -> Result<Vec<Self>, OpenCause> {
        let ports = Port::open_all(name, options, most)?;
        let each = memory / ports.len().max(1);
        Ok(ports.into_iter().map(|port| Self::on(port, each)).collect())
    }

    fn on(mut port: Port, memory: usize) -> Self {
        let store = S::over(&mut port, memory);
        Self { port, store, batch: VecDeque::with_capacity(PLACES), shown: 0 }
    }

    /// Returns the number of transmit queues. A packet leaves by queue `Meta::queue` modulo this
    /// number.
    #[must_use]
    pub const fn queues(&self) -> usize {
        self.port.transmit_queues()
    }
}

impl<S: XdpStore> TxQueue for Xdp<S> {
    type Frame = S::Frame;

    fn reserve(&mut self, want: u32) -> u32 {
        let free = PLACES.saturating_sub(self.batch.len());
        want.min(u32::try_from(free).unwrap_or(u32::MAX))
    }

    fn push(&mut self, mut frame: S::Frame, m: &Meta) {
        if m.marked || m.washed {
            let beside = *Store::beside(&self.store, &frame);
            beside.mark(self.store.bytes_mut(&mut frame), m);
        }
        self.batch.push_back((frame, m.wire_len, m.queue));
    }

    fn commit(&mut self) -> Result<(), DeviceError> {
        // The loop is bounded by the batch: each round takes a frame off it, or is the last one.
        while let Some((frame, wire_len, queue)) = self.batch.pop_front() {
            if let Err(frame) = self.store.load(&mut self.port, frame, wire_len, queue) {
                self.batch.push_front((frame, wire_len, queue));
                break;
            }
        }
        self.shown = self.batch.len();
        if let Err(error) = self.port.ring() {
            self.abandon();
            return Err(DeviceError(error.to_string()));
        }
        Ok(())
    }

    fn reap(&mut self, sink: &mut dyn FnMut(Completed<S::Frame>)) {
        self.port.reap(sink);
        self.store.refill(&mut self.port);
    }

    fn copy(&mut self, frame: &S::Frame) -> Option<S::Frame> {
        self.store.copy(frame)
    }

    fn corrupt(&mut self, frame: &mut S::Frame, bit: u32) {
        flip_bit(self.store.bytes_mut(frame), bit);
    }

    fn discard(&mut self, frame: S::Frame, _: &Meta, _: DropReason) {
        self.store.give(frame);
    }
}

impl<S: XdpStore> Backend for Xdp<S>
where
    S::Frame: Debug + Send,
{
    type Store = S;
    fn store(&mut self) -> &mut S {
        &mut self.store
    }
    fn is_full(&self) -> bool {
        self.shown > 0 || self.port.is_stuck()
    }
    /// The readiness of the sockets says nothing about frames that were sent.
    fn is_busy(&self) -> bool {
        false
    }
    fn look_again(&self) -> Option<Nanos> {
        (self.shown > 0 || self.port.is_awaited()).then(|| self.port.patience())
    }
    /// The interface is woken and its other end scheduled once a doorbell, and there are no
    /// super-frames: only the number of frames counts.
    fn batch_bytes(&self) -> u64 {
        u64::MAX
    }
    fn take_fates(&mut self) -> Fates {
        self.port.take_fates()
    }
    fn abandon(&mut self) {
        for (frame, wire_len, _) in self.batch.drain(..) {
            self.port.lose(wire_len);
            self.store.give(frame);
        }
        self.shown = 0;
        self.port.abandon();
    }
}

impl<S: XdpStore> Source for Xdp<S> {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        self.port.recv(room)
    }
}

impl<S: XdpStore> AsFd for Xdp<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

impl<S: XdpStore + Debug> Nic for Xdp<S> {
    fn kind(&self) -> &'static str {
        "xdp"
    }
    fn mode(&self) -> Option<&'static str> {
        Some(self.port.mode())
    }
    fn name(&self) -> &IfName {
        self.port.name()
    }
    fn counters(&mut self) -> Counters {
        self.port.counters()
    }
    fn is_up(&self) -> io::Result<bool> {
        self.port.is_up()
    }
    fn mtu(&self) -> io::Result<usize> {
        self.port.mtu()
    }
}
