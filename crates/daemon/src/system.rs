//! `System`: the time, the connections and the wait that the loop takes from the machine. [`Host`]
//! is this machine; a test has one in virtual time.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use txweir_core::{Instant, Nanos};
use txweir_device::LinkIo;
use txweir_device::clock::now_ns;
use txweir_device::poll::{self, PollFd, PollFlags};

use crate::links::Links;
use crate::session::{Door, Session};
use crate::socket::Listener;
use crate::stream::Stream;

/// Time before a deadline that is spent polling instead of sleeping: a wake-up from sleep is late
/// by some 15 us, and a frame that takes less time on the wire need not wait that long. This time
/// is shorter than one wake-up from sleep, and so negligible where deadlines are far apart.
const SPIN: Nanos = Nanos::from_micros(10);

/// The machine below a loop.
pub trait System {
    /// The connection of a client.
    type Stream: Stream;

    /// Returns the time, which never goes back.
    fn now(&self) -> Instant;

    /// Waits until something is ready, or the deadline has come.
    ///
    /// # Errors
    /// Waiting itself fails.
    fn wait(&mut self, waits: &Waits<'_, Self::Stream>) -> io::Result<Ready>;

    /// Returns the doors by which clients come.
    fn doors(&self) -> Vec<Door>;

    /// Accepts a connection that waits at a door, and never waits itself.
    ///
    /// # Errors `WouldBlock`: no connection waits. `Interrupted` and `ConnectionAborted`: the next
    /// one may be accepted. Others: the system has no room for one more.
    fn accept(&mut self, door: Door) -> io::Result<Self::Stream>;
}

/// The things for which a loop waits.
#[derive(Debug)]
pub struct Waits<'a, S> {
    /// It is readable once the loop has to stop.
    pub stop: BorrowedFd<'a>,
    /// True for each door at which connections are accepted now.
    pub accepts: &'a [bool],
    /// The time until which to wait; `None` for no bound.
    pub deadline: Option<Instant>,
    pub(crate) sessions: &'a [Session<S>],
    pub(crate) links: &'a Links,
}

impl<S: Stream> Waits<'_, S> {
    /// Returns the connections with the events to wait for, in the order of [`Ready::sessions`].
    pub fn connections(&self) -> impl Iterator<Item = (&S, PollFlags)> {
        self.sessions.iter().map(|session| (session.stream(), session.events()))
    }

    /// Returns the interfaces with the events to wait for, in the order of [`Ready::links`].
    pub fn interfaces(&self) -> impl Iterator<Item = (&LinkIo, PollFlags)> {
        self.links.interfaces()
    }
}

/// The result of a wait.
#[derive(Debug, Default)]
pub struct Ready {
    /// True if the loop has to stop.
    pub stop: bool,
    /// True for each door at which a connection waits to be accepted.
    pub connections: Vec<bool>,
    /// The events of each connection.
    pub sessions: Vec<PollFlags>,
    /// True for each interface that may have frames, or an error.
    pub links: Vec<bool>,
}

/// This machine, with the sockets that clients connect to.
#[derive(Debug)]
pub struct Host {
    doors: Vec<(Door, Listener)>,
}

impl Host {
    /// Makes a machine whose clients come by this socket, or by none.
    pub fn new(door: Option<(Door, Listener)>) -> Self {
        Self { doors: Vec::from_iter(door) }
    }

    /// Adds a socket.
    pub fn add(&mut self, door: Door, listener: Listener) {
        self.doors.push((door, listener));
    }
}

impl System for Host {
    type Stream = UnixStream;

    fn now(&self) -> Instant {
        Instant(now_ns())
    }

    fn wait(&mut self, waits: &Waits<'_, UnixStream>) -> io::Result<Ready> {
        let mut fds = vec![PollFd::from_borrowed_fd(waits.stop, PollFlags::IN)];
        let accepting = |accepts: &bool| if *accepts { PollFlags::IN } else { PollFlags::empty() };
        let doors = self.doors.iter().zip(waits.accepts);
        fds.extend(doors.map(|((_, listener), accepts)| PollFd::new(listener.socket(), accepting(accepts))));
        let first = fds.len();
        fds.extend(waits.connections().map(|(stream, events)| PollFd::new(stream, events)));
        let last = fds.len();
        fds.extend(waits.interfaces().map(|(io, events)| PollFd::new(io, events)));
        poll::wait(&mut fds, waits.deadline.map(|at| at.0), SPIN.0)?;
        Ok(Ready {
            stop: !fds[0].revents().is_empty(),
            connections: fds[1..first].iter().map(|fd| !fd.revents().is_empty()).collect(),
            sessions: fds[first..last].iter().map(PollFd::revents).collect(),
            // Errors and hang-ups lead to a reception as well, which returns the error.
            links: fds[last..].iter().map(|fd| fd.revents().intersects(!PollFlags::OUT)).collect(),
        })
    }

    fn doors(&self) -> Vec<Door> {
        self.doors.iter().map(|(door, _)| *door).collect()
    }

    fn accept(&mut self, door: Door) -> io::Result<UnixStream> {
        let Some((_, listener)) = self.doors.iter().find(|(at, _)| *at == door) else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let (stream, _) = listener.socket().accept()?;
        // A connection that cannot be made non-blocking is not served: it could hold up all others.
        stream.set_nonblocking(true).map_err(|_| ErrorKind::ConnectionAborted)?;
        Ok(stream)
    }
}
