//! Links of any kind behind one type.

use crate::backend::Backend;
use crate::frames::{Frame, Frames};
use crate::nic::Nic;
use crate::packet::{Packet, PacketOptions};
use crate::queue::Batched;
use crate::tap::{Tap, TapOptions};
use crate::vxlan::Vxlan;
use crate::xdp::XdpOptions;

/// A TAP device as a transmit queue.
pub type TapQueue = Batched<Tap>;
/// A packet socket as a transmit queue.
pub type PacketQueue = Batched<Packet>;
/// A tunnel as a transmit queue.
pub type VxlanQueue = Batched<Vxlan>;

/// A network interface by which frames of this process leave and come in.
pub trait Interface: Backend<Frame = Frame, Store = Frames> + Nic {}

impl<B: Backend<Frame = Frame, Store = Frames> + Nic> Interface for B {}

/// A link of any kind.
pub type LinkIo = Box<dyn Interface>;

/// The options with which a link of any kind is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOptions {
    /// Options of a TAP device.
    pub tap: TapOptions,
    /// Options of a packet socket.
    pub packet: PacketOptions,
    /// Options of XDP sockets.
    pub xdp: XdpOptions,
    /// Bytes of all frame buffers. The default of 256 MiB holds the 1000 super-frames of 64 KiB
    /// that may wait in pfifo_fast, as much again for frames that take their places, and a ring.
    pub memory: usize,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            tap: TapOptions::default(),
            packet: PacketOptions::default(),
            xdp: XdpOptions::default(),
            memory: FRAME_MEMORY,
        }
    }
}

/// The default of [`LinkOptions::memory`]: bytes of all frame buffers of a link.
pub const FRAME_MEMORY: usize = 256 << 20;
