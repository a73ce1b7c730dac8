//! Any kind of link behind one type.

use crate::backend::Backend;
use crate::frames::{Frame, Frames};
use crate::nic::Nic;
use crate::packet::{Packet, PacketOptions};
use crate::queue::Batched;
use crate::tap::{Tap, TapOptions};

/// A TAP device as a transmit queue.
pub type TapQueue = Batched<Tap>;
/// A packet socket as a transmit queue.
pub type PacketQueue = Batched<Packet>;

/// A network interface that frames of this process leave by, and come in at.
pub trait Interface: Backend<Frame = Frame, Store = Frames> + Nic {}

impl<B: Backend<Frame = Frame, Store = Frames> + Nic> Interface for B {}

/// A link of any kind.
pub type LinkIo = Box<dyn Interface>;

/// How to open a link of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOptions {
    /// For a TAP device.
    pub tap: TapOptions,
    /// For a packet socket.
    pub packet: PacketOptions,
    /// Bytes of all frame buffers. Default 256 MiB: the 1000 super-frames of 64 KiB that pfifo_fast lets wait, with as
    /// much again for frames that take their places, and a ring.
    pub memory: usize,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self { tap: TapOptions::default(), packet: PacketOptions::default(), memory: FRAME_MEMORY }
    }
}

/// Bytes of all frame buffers of a link, as [`LinkOptions::memory`] has it.
pub const FRAME_MEMORY: usize = 256 << 20;
