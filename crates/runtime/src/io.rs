//! `FrameIo`: where a direction receives frames and sends them.

use std::io;

use txweir_device::{LinkIo, Sent, VnetHdr};

/// Where frames come from and go to: a live link, or a test's.
pub trait FrameIo {
    /// The next frame, into the front of `frame`; `None` if there is none now.
    ///
    /// # Errors
    /// The port is gone.
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>>;
    /// Takes a frame, refuses it, or is full.
    ///
    /// # Errors
    /// The port is gone.
    fn send(&mut self, hdr: &VnetHdr, frame: &[u8]) -> io::Result<Sent>;
}

impl FrameIo for LinkIo {
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        self.recv(frame)
    }
    fn send(&mut self, hdr: &VnetHdr, frame: &[u8]) -> io::Result<Sent> {
        self.send(hdr, frame)
    }
}
