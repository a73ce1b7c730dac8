//! The connection of a frontend: whole messages with their descriptors, without ever waiting.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, Shutdown, recvmsg, send, shutdown,
};

use super::message::{BODY_MAX, FDS_MAX, HEADER, Header, Refused, name, reply};

/// A message, with the descriptors that came beside it.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) header: Header,
    pub(super) body: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

/// The end of a connection.
#[derive(Debug)]
pub(super) enum Ended {
    /// The frontend has closed it.
    Closed,
    /// The system's error.
    System(io::Error),
    /// The frontend does not speak the protocol, in words that complete "the frontend ".
    Wrong(String),
}

impl From<Errno> for Ended {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::CONNRESET | Errno::PIPE => Self::Closed,
            errno => Self::System(errno.into()),
        }
    }
}

/// The connection of a frontend.
///
/// Its end closes the connection at once, though a process that this one has just begun holds a
/// copy of the descriptor until it runs its program.
#[derive(Debug)]
pub(super) struct Stream {
    socket: UnixStream,
    /// The message that is under way.
    buffer: [u8; HEADER + BODY_MAX],
    have: usize,
    fds: Vec<OwnedFd>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The frontend may have gone already, which is no less an end.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl Stream {
    /// Takes over a connection, which has to be non-blocking.
    pub(super) const fn new(socket: UnixStream) -> Self {
        Self { socket, buffer: [0; HEADER + BODY_MAX], have: 0, fds: Vec::new() }
    }

    /// Returns the next message if all of it is there.
    ///
    /// # Errors
    /// The connection has ended, or can make no sense any more.
    pub(super) fn next(&mut self) -> Result<Option<Message>, Ended> {
        if !self.fill(HEADER)? {
            return Ok(None);
        }
        let mut raw = [0; HEADER];
        raw.copy_from_slice(&self.buffer[..HEADER]);
        let header = Header::read(&raw).map_err(|Refused(why)| {
            let number = u32::from_ne_bytes([raw[0], raw[1], raw[2], raw[3]]);
            Ended::Wrong(format!("sent message {}: {why}", name(number)))
        })?;
        if !self.fill(HEADER + header.size)? {
            return Ok(None);
        }
        self.have = 0;
        let body = self.buffer[HEADER..HEADER + header.size].to_vec();
        Ok(Some(Message { header, body, fds: std::mem::take(&mut self.fds) }))
    }

    /// Reads until the buffer has `want` bytes, at most its length. Returns false if they are not
    /// there yet. It reads no byte of a further message, whose descriptors would come too early.
    fn fill(&mut self, want: usize) -> Result<bool, Ended> {
        // Bound: each round reads at least one of the missing bytes.
        while self.have < want {
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(FDS_MAX))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let room = &mut self.buffer[self.have..want];
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let got = match recvmsg(&self.socket, &mut [IoSliceMut::new(room)], &mut control, flags) {
                Ok(got) => got.bytes,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = message {
                    self.fds.extend(fds);
                }
            }
            if self.fds.len() > FDS_MAX {
                let given = self.fds.len();
                return Err(Ended::Wrong(format!(
                    "sent too many descriptors: expected at most {FDS_MAX}, given {given}"
                )));
            }
            if got == 0 {
                return Err(Ended::Closed);
            }
            self.have += got;
        }
        Ok(true)
    }

    /// Sends a reply.
    ///
    /// # Errors
    /// The frontend is gone, or does not read its replies.
    pub(super) fn reply(&mut self, number: u32, body: &[u8]) -> Result<(), Ended> {
        let raw = reply(number, body);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::io::retry_on_intr(|| send(&self.socket, &raw, flags)) {
            Ok(sent) if sent == raw.len() => Ok(()),
            Ok(_) | Err(Errno::AGAIN) => Err(Ended::Wrong("does not read the replies".to_owned())),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
