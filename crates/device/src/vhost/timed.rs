//! `TimedCard`: the card of a guest that does not live in the machine's time.
//!
//! A kernel whose clock another program moves (User-Mode Linux with `time-travel=ext`) stands still
//! unless that program lets it run, and awaits the reply to each notification. Notifications are
//! therefore messages (`VHOST_USER_PROTOCOL_F_INBAND_NOTIFICATIONS`). The rings are looked at while
//! the guest stands still, so that nothing depends on the speed of the machine.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::guest::{Guest, Put};
use super::message::{CALLED, call, is_called, protocol};
use super::session::Session;
use super::stream::Ended;
use crate::counters::Counters;
use crate::frame::FrameRef;
use crate::vnet::VnetHdr;

/// The network card of a guest whose clock the caller moves.
///
/// The caller waits for the descriptors of the card and of the guest's clock together. It calls
/// [`serve`](Self::serve) when the card is readable. While the guest stands still, the caller takes
/// and gives frames, tells the guest of them by [`call`](Self::call), and then reads
/// [`backend`](Self::backend) by [`called`](Self::called) before it calls again.
#[derive(Debug)]
pub struct TimedCard {
    session: Session,
    /// No descriptor of it is waited for: no ring has one.
    guest: Guest,
    counters: Counters,
    /// The reply that is under way.
    reply: [u8; CALLED],
    have: usize,
}

impl TimedCard {
    /// Takes over the connection of a guest's frontend.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let guest = Guest::handles(1)?.remove(0);
        let session = Session::new(socket, protocol::ALL | protocol::IN_BAND);
        Ok(Self { session, guest, counters: Counters::default(), reply: [0; CALLED], have: 0 })
    }

    /// Serves the messages of the frontend that are there, and replies to them.
    ///
    /// # Errors
    /// The connection has ended: the kind is `UnexpectedEof` if the frontend has closed it, and
    /// `InvalidData` if a message makes no sense.
    pub fn serve(&mut self) -> io::Result<()> {
        self.session.serve(&mut self.guest).map_err(|ended| match ended {
            Ended::Closed => ErrorKind::UnexpectedEof.into(),
            Ended::System(error) => error,
            Ended::Wrong(what) => io::Error::new(ErrorKind::InvalidData, format!("the frontend {what}")),
        })
    }

    /// Takes the next frame of the guest, into `room`, which should have
    /// [`MAX_FRAME`](crate::MAX_FRAME) bytes. Returns the work that is left undone on it, and its
    /// bytes.
    ///
    /// # Errors
    /// A ring of the guest makes no sense, and has stopped.
    pub fn take(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        let taken = self.guest.pop(room, &mut self.counters);
        self.fault().map(|()| taken)
    }

    /// Gives the guest a frame. Returns false if it has no room for it now, or no card that works:
    /// the frame is lost, and the guest may have the first segments of one that it does not take
    /// whole.
    ///
    /// # Errors
    /// A ring of the guest makes no sense, and has stopped.
    pub fn give(&mut self, frame: &FrameRef<'_>) -> io::Result<bool> {
        let put = self.guest.put(frame, 0);
        self.guest.forget();
        self.fault().map(|()| put == Put::All)
    }

    fn fault(&mut self) -> io::Result<()> {
        match self.guest.take_fault() {
            None => Ok(()),
            Some((at, error)) => {
                Err(io::Error::new(ErrorKind::InvalidData, format!("ring {at} of the guest: {error}")))
            }
        }
    }

    /// Tells the guest of a ring of which it wants to know that frames have passed. Returns false
    /// if there is none. The caller waits for [`called`](Self::called) before the next one.
    ///
    /// # Errors
    /// The system's error, or the guest does not read.
    pub fn call(&mut self) -> io::Result<bool> {
        self.guest.flush();
        let Some(ring) = self.guest.take_due() else { return Ok(false) };
        let Some(backend) = &self.session.backend else {
            return Err(io::Error::new(ErrorKind::InvalidData, "the frontend has no way for notifications"));
        };
        let raw = call(ring as u32); // one of few rings
        let sent =
            rustix::io::retry_on_intr(|| send(backend, &raw, SendFlags::DONTWAIT | SendFlags::NOSIGNAL))?;
        self.have = 0;
        if sent == raw.len() { Ok(true) } else { Err(ErrorKind::WriteZero.into()) }
    }

    /// Returns true once the guest has obeyed the last [`call`](Self::call).
    ///
    /// # Errors
    /// The guest has gone, or refuses.
    pub fn called(&mut self) -> io::Result<bool> {
        let Some(backend) = &self.session.backend else { return Ok(true) };
        let room = &mut self.reply[self.have..];
        match recv(backend, room, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok((_, read)) => self.have += read,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        if self.have < CALLED {
            return Ok(false);
        }
        self.have = 0;
        if is_called(&self.reply) {
            return Ok(true);
        }
        Err(io::Error::new(ErrorKind::InvalidData, "the frontend refuses a notification"))
    }

    /// Returns the descriptor by which replies to notifications come, once the guest has given it.
    #[must_use]
    pub fn backend(&self) -> Option<BorrowedFd<'_>> {
        self.session.backend.as_ref().map(AsFd::as_fd)
    }
}

impl AsFd for TimedCard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.session.as_fd()
    }
}
