//! Either kind of link behind one type.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::counters::{Counters, Sent};
use crate::frame::Frame;
use crate::name::IfName;
use crate::packet::{Packet, PacketOptions};
use crate::tap::{Tap, TapOptions};
use crate::vnet::VnetHdr;

/// How to open a link of either kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// For a TAP device.
    pub tap: TapOptions,
    /// For a packet socket.
    pub packet: PacketOptions,
}

/// A TAP device or a packet socket.
#[derive(Debug)]
pub enum LinkIo {
    /// The kernel's stack is on the other side of the interface.
    Tap(Tap),
    /// A wire, or a veth's peer, is on the other side.
    Packet(Packet),
}

impl LinkIo {
    /// The interface's name, as it was when opened.
    #[must_use]
    pub fn name(&self) -> &IfName {
        match self {
            Self::Tap(tap) => tap.name(),
            Self::Packet(packet) => packet.name(),
        }
    }

    /// Receives one frame: [`Tap::recv`], [`Packet::recv`].
    ///
    /// # Errors
    /// The interface is gone, or the system is in trouble; nothing that concerns one frame only.
    pub fn recv(&mut self, frame: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        match self {
            Self::Tap(tap) => tap.recv(frame),
            Self::Packet(packet) => packet.recv(frame),
        }
    }

    /// Sends one frame: [`Tap::send`], [`Packet::send`]. Both take super-frames and frames without checksum.
    ///
    /// # Errors
    /// The interface is gone; what concerns the frame is in [`Sent`].
    pub fn send(&mut self, hdr: &VnetHdr, frame: &[u8]) -> io::Result<Sent> {
        match self {
            Self::Tap(tap) => tap.send(hdr, frame),
            Self::Packet(packet) => packet.send(hdr, frame),
        }
    }

    /// Sends frames in order until all are gone or the link is full. Returns how many are gone, taken or lost, and
    /// what became of the last one that was tried; `Taken` for no frames. A TAP device takes one per system call, a
    /// packet socket up to [`BATCH_MAX`](crate::BATCH_MAX).
    ///
    /// # Errors
    /// The interface is gone. The frames before the error were sent and counted.
    pub fn send_batch(&mut self, frames: &[Frame<'_>]) -> io::Result<(usize, Sent)> {
        let tap = match self {
            Self::Tap(tap) => tap,
            Self::Packet(packet) => return packet.send_batch(frames),
        };
        let mut last = Sent::Taken;
        for (gone, frame) in frames.iter().enumerate() {
            last = tap.send(&frame.hdr, frame.bytes)?;
            if last == Sent::Full {
                return Ok((gone, last));
            }
        }
        Ok((frames.len(), last))
    }

    /// Tallies since it was opened.
    pub fn counters(&mut self) -> Counters {
        match self {
            Self::Tap(tap) => tap.counters(),
            Self::Packet(packet) => packet.counters(),
        }
    }

    /// Whether the interface is administratively up.
    ///
    /// # Errors
    /// The interface is gone, or was moved to another namespace after opening.
    pub fn is_up(&self) -> io::Result<bool> {
        match self {
            Self::Tap(tap) => tap.is_up(),
            Self::Packet(packet) => packet.is_up(),
        }
    }

    /// The interface's MTU in bytes, Ethernet header not counted.
    ///
    /// # Errors
    /// As [`is_up`](Self::is_up).
    pub fn mtu(&self) -> io::Result<usize> {
        match self {
            Self::Tap(tap) => tap.mtu(),
            Self::Packet(packet) => packet.mtu(),
        }
    }
}

impl AsFd for LinkIo {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tap(tap) => tap.as_fd(),
            Self::Packet(packet) => packet.as_fd(),
        }
    }
}
