//! The sockets that programs got in the place of rtnetlink's: how one is known, and its port.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::net::sockopt::socket_cookie;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, getpeername, send,
    socket_with,
};
use txweir_netlink::message::Told;

/// Most sockets that are remembered. A socket that is forgotten has the port 0, and loses a message
/// if a signal interrupts its reception.
const SOCKETS_MAX: usize = 65_536;
/// The first port. The kernel gives a process its own number, and further sockets others.
const FIRST_PORT: u32 = 0x1000;

/// The sockets.
#[derive(Debug)]
pub(crate) struct Sockets {
    address: SocketAddrUnix,
    /// The path under which the daemon listens, as its sockets show it; `None` until there is one.
    peer: Option<Vec<u8>>,
    next: u32,
    known: VecDeque<Known>,
}

/// A socket that was given.
#[derive(Debug)]
struct Known {
    /// The kernel's number of the socket, which no other socket gets.
    cookie: u64,
    port: u32,
    /// A message that was taken out for a call that a signal has interrupted.
    kept: Option<Vec<u8>>,
}

impl Sockets {
    /// Returns the sockets that connect to a daemon.
    ///
    /// # Errors
    /// The path does not fit into an address.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        Ok(Self { address, peer: None, next: FIRST_PORT, known: VecDeque::new() })
    }

    /// Makes a socket.
    ///
    /// # Errors
    /// No daemon is there, or it has no place.
    pub(crate) fn open(&mut self, nonblocking: bool) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &self.address)?;
        self.peer = peer(&socket);
        let port = self.next;
        self.next = self.next.wrapping_add(1).max(FIRST_PORT);
        tell(&socket, Told::Port(port))?;
        if self.known.len() >= SOCKETS_MAX {
            self.known.pop_front();
        }
        self.known.push_back(Known { cookie: socket_cookie(&socket)?, port, kept: None });
        rustix::io::ioctl_fionbio(&socket, nonblocking)?;
        Ok(socket)
    }

    /// True if a socket is connected to the daemon, however its owner came by it.
    pub(crate) fn has(&self, socket: impl AsFd) -> bool {
        self.peer.is_some() && peer(socket) == self.peer
    }

    fn find(&mut self, socket: impl AsFd) -> Option<&mut Known> {
        let cookie = socket_cookie(socket).ok()?;
        self.known.iter_mut().rfind(|known| known.cookie == cookie)
    }

    /// Returns the port of a socket.
    pub(crate) fn port(&mut self, socket: impl AsFd) -> u32 {
        self.find(socket).map_or(0, |known| known.port)
    }

    /// Gives a socket the port that its owner wants.
    ///
    /// # Errors
    /// The daemon is gone.
    pub(crate) fn bind(&mut self, socket: &OwnedFd, port: u32) -> io::Result<()> {
        tell(socket, Told::Port(port))?;
        self.find(socket).into_iter().for_each(|known| known.port = port);
        Ok(())
    }

    /// Keeps a message for the next reception.
    pub(crate) fn keep(&mut self, socket: &OwnedFd, message: Vec<u8>) {
        self.find(socket).into_iter().for_each(|known| known.kept = Some(message.clone()));
    }
    /// Takes the message that was kept.
    pub(crate) fn take_kept(&mut self, socket: &OwnedFd) -> Option<Vec<u8>> {
        self.find(socket)?.kept.take()
    }
}

/// Returns the path of the other side of a socket.
fn peer(socket: impl AsFd) -> Option<Vec<u8>> {
    let address = SocketAddrUnix::try_from(getpeername(socket).ok()??).ok()?;
    address.path_bytes().map(<[u8]>::to_vec)
}

/// Tells the daemon a fact about a socket.
///
/// # Errors
/// The daemon is gone.
pub(crate) fn tell(socket: &OwnedFd, told: Told) -> io::Result<()> {
    send(socket, &told.message(), SendFlags::NOSIGNAL)?;
    Ok(())
}
