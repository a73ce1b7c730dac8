//! The datagrams that have come in.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, UdpSocket};

use quinn_udp::{RecvMeta, UdpSocketState};
use txweir_core::Ecn;

/// Number of messages that one system call receives.
const MESSAGES: usize = 4;
/// Bytes of a message: a datagram, or a train of datagrams that the kernel has joined (`UDP_GRO`).
const MESSAGE_MAX: usize = 65_535;

/// Messages that have come in, and the place of the next datagram in them.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    messages: [RecvMeta; MESSAGES],
    /// Messages that are filled.
    filled: usize,
    /// The message of the next datagram, and the datagram's place in it.
    next: (usize, usize),
}

/// A datagram, and the ECN field with which it has come.
pub(super) struct Datagram<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) ecn: Ecn,
    pub(super) from: IpAddr,
}

impl Inbox {
    pub(super) fn new() -> Self {
        let messages = [RecvMeta::default(); MESSAGES];
        Self { bytes: vec![0; MESSAGES * MESSAGE_MAX], messages, filled: 0, next: (0, 0) }
    }

    /// True if datagrams wait that the socket does not have any more.
    pub(super) const fn has_some(&self) -> bool {
        self.next.0 < self.filled
    }

    /// Receives more messages when no datagram is left. False if there are none.
    pub(super) fn fill(&mut self, socket: &UdpSocket, state: &UdpSocketState) -> io::Result<bool> {
        (self.filled, self.next) = (0, (0, 0));
        let mut parts = self.bytes.chunks_exact_mut(MESSAGE_MAX);
        let mut room: [IoSliceMut<'_>; MESSAGES] =
            std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
        match state.recv(socket.into(), &mut room, &mut self.messages) {
            Ok(filled) => self.filled = filled.min(MESSAGES),
            Err(error) if is_none(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(self.filled > 0)
    }

    /// Returns the next datagram; `None` if no datagram is left.
    pub(super) fn take(&mut self) -> Option<Datagram<'_>> {
        let (message, at) = self.next;
        let meta = self.messages[..self.filled].get(message)?;
        let (len, stride) = (meta.len.min(MESSAGE_MAX), meta.stride.max(1));
        let end = len.min(at.saturating_add(stride));
        self.next = if end >= len { (message + 1, 0) } else { (message, end) };
        let from = message * MESSAGE_MAX;
        let bytes = self.bytes.get(from + at..from + end.max(at))?;
        let ecn = meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_ds(ecn as u8));
        Some(Datagram { bytes, ecn, from: meta.addr.ip() })
    }
}

/// True if an error says that there is nothing to receive: no datagram, or the report of one that
/// this socket has sent in vain.
fn is_none(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, WouldBlock};
    matches!(
        error.kind(),
        WouldBlock | Interrupted | ConnectionRefused | HostUnreachable | NetworkUnreachable
    )
}
