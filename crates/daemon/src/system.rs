//! `System`: the time, the connections and the wait that the loop takes from the machine. [`Host`]
//! is this machine; a test has one in virtual time.

use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};

use txweir_core::Instant;
use txweir_device::LinkIo;
use txweir_device::clock::now_ns;
use txweir_device::poll::{self, PollFd, PollFlags};

use crate::faces::Faces;
use crate::links::{Links, silence};
use crate::metrics::Scrapes;
use crate::run::SPIN;
use crate::session::{Door, Session};
use crate::socket::Listener;
use crate::stream::{Connection, Stream};

/// The machine below a loop.
pub trait System {
    /// The connection of a client.
    type Stream: Stream;

    /// Returns the time, which never goes back.
    fn now(&self) -> Instant;

    /// Returns the clock of [`now`](Self::now).
    fn clock(&self) -> Box<dyn Fn() -> Instant + Send>;

    /// True if links may have workers on threads of their own.
    fn has_threads(&self) -> bool {
        false
    }

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
    pub(crate) scrapes: &'a Scrapes<S>,
    pub(crate) faces: &'a Faces<S>,
    pub(crate) links: &'a Links,
}

impl<S: Stream> Waits<'_, S> {
    /// Returns the connections with the events to wait for, in the order of [`Ready::sessions`].
    pub fn connections(&self) -> impl Iterator<Item = (&S, PollFlags)> {
        let sessions = self.sessions.iter().map(|session| (session.stream(), session.events()));
        sessions.chain(self.scrapes.connections()).chain(self.faces.connections())
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
    doors: Vec<(Door, Entrance)>,
}

/// A socket that clients connect to, which never waits.
#[derive(Debug)]
pub enum Entrance {
    /// A Unix socket.
    Unix(Listener),
    /// A TCP socket, which has to be non-blocking.
    Tcp(TcpListener),
}

impl AsFd for Entrance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.socket().as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Entrance {
    fn accept(&self) -> io::Result<Connection> {
        // A connection that cannot be made non-blocking is not served: it could hold up all others.
        let aborted = |_| io::Error::from(ErrorKind::ConnectionAborted);
        match self {
            Self::Unix(listener) => {
                let (stream, _) = listener.socket().accept()?;
                stream.set_nonblocking(true).map_err(aborted)?;
                Ok(Connection::Unix(stream))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true).map_err(aborted)?;
                Ok(Connection::Tcp(stream))
            }
        }
    }
}

impl Host {
    /// Makes a machine whose clients come by this socket, or by none.
    pub fn new(door: Option<(Door, Listener)>) -> Self {
        Self { doors: door.map(|(door, listener)| (door, Entrance::Unix(listener))).into_iter().collect() }
    }

    /// Adds a socket.
    pub fn add(&mut self, door: Door, entrance: Entrance) {
        self.doors.push((door, entrance));
    }
}

impl System for Host {
    type Stream = Connection;

    fn now(&self) -> Instant {
        Instant(now_ns())
    }

    fn clock(&self) -> Box<dyn Fn() -> Instant + Send> {
        Box::new(|| Instant(now_ns()))
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn wait(&mut self, waits: &Waits<'_, Connection>) -> io::Result<Ready> {
        let mut fds = vec![PollFd::from_borrowed_fd(waits.stop, PollFlags::IN)];
        let accepting = |accepts: &bool| if *accepts { PollFlags::IN } else { PollFlags::empty() };
        let doors = self.doors.iter().zip(waits.accepts);
        fds.extend(doors.map(|((_, entrance), accepts)| PollFd::new(entrance, accepting(accepts))));
        let first = fds.len();
        fds.extend(waits.connections().map(|(stream, events)| PollFd::new(stream, events)));
        let last = fds.len();
        fds.extend(waits.interfaces().map(|(io, events)| PollFd::new(io, events)));
        let bell = fds.len();
        fds.extend(waits.links.bell().map(|bell| PollFd::new(bell, PollFlags::IN)));
        poll::wait(&mut fds, waits.deadline.map(|at| at.0), SPIN.0)?;
        if let Some((fd, bell)) = fds.get(bell).zip(waits.links.bell())
            && !fd.revents().is_empty()
        {
            silence(bell);
        }
        Ok(Ready {
            stop: !fds[0].revents().is_empty(),
            connections: fds[1..first].iter().map(|fd| !fd.revents().is_empty()).collect(),
            sessions: fds[first..last].iter().map(PollFd::revents).collect(),
            // Errors and hang-ups lead to a reception as well, which returns the error.
            links: fds[last..bell].iter().map(|fd| fd.revents().intersects(!PollFlags::OUT)).collect(),
        })
    }

    fn doors(&self) -> Vec<Door> {
        self.doors.iter().map(|(door, _)| *door).collect()
    }

    fn accept(&mut self, door: Door) -> io::Result<Connection> {
        match self.doors.iter().find(|(at, _)| *at == door) {
            Some((_, entrance)) => entrance.accept(),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }
}
