//! The sockets that programs got in the place of rtnetlink's: how one is known, and its port.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::sockopt::socket_cookie;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with,
};
use txweir_netlink::message::Told;

/// Most sockets at once. The daemon takes fewer.
const SOCKETS_MAX: usize = 4096;
/// Most messages that are kept, each of at most 256 KiB; one more is lost.
const KEPT_MAX: usize = 64;
/// The first port. The kernel gives a process its own number, and further sockets others.
const FIRST_PORT: u32 = 0x1000;

/// The sockets.
#[derive(Debug)]
pub(crate) struct Sockets {
    address: SocketAddrUnix,
    next: u32,
    /// By the kernel's numbers (`SO_COOKIE`), which no other sockets get.
    known: BTreeMap<u64, Known>,
}

/// A socket that was given.
#[derive(Debug)]
struct Known {
    /// The number in its links, which another socket may get after it.
    inode: u64,
    port: u32,
    /// The type that its owner asked for: raw, or datagrams.
    style: u32,
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
        Ok(Self { address, next: FIRST_PORT, known: BTreeMap::new() })
    }

    /// Makes a socket of a type that its owner will see, and returns it with its number.
    ///
    /// # Errors
    /// No daemon is there, or it has no place; `ENFILE`: there are 4096 already.
    pub(crate) fn open(&mut self, style: u32, nonblocking: bool) -> io::Result<(OwnedFd, u64)> {
        if self.known.len() >= SOCKETS_MAX {
            self.forget_closed()?;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &self.address)?;
        let port = self.next;
        self.next = self.next.wrapping_add(1).max(FIRST_PORT);
        tell(&socket, Told::Port(port))?;
        let (cookie, inode) = (socket_cookie(&socket)?, rustix::fs::fstat(&socket)?.st_ino);
        self.known.insert(cookie, Known { inode, port, style, kept: None });
        rustix::io::ioctl_fionbio(&socket, nonblocking)?;
        Ok((socket, cookie))
    }

    /// Forgets a socket that nobody has got.
    pub(crate) fn forget(&mut self, cookie: u64) {
        self.known.remove(&cookie);
    }

    /// Forgets the sockets that the system does not have any more (proc_net_unix, proc(5)).
    fn forget_closed(&mut self) -> io::Result<()> {
        let list = std::fs::read_to_string("/proc/net/unix")?;
        let number = |line: &str| line.split_ascii_whitespace().nth(6)?.parse().ok();
        let there: BTreeSet<u64> = list.lines().filter_map(number).collect();
        self.known.retain(|_, known| there.contains(&known.inode));
        if self.known.len() < SOCKETS_MAX { Ok(()) } else { Err(Errno::NFILE.into()) }
    }

    /// True if a socket with this number in its link was given.
    pub(crate) fn has_inode(&self, inode: u64) -> bool {
        self.known.values().any(|known| known.inode == inode)
    }

    /// True if this descriptor is that socket.
    pub(crate) fn has(&self, socket: impl AsFd, inode: u64) -> bool {
        let cookie = socket_cookie(socket).ok();
        cookie.and_then(|cookie| self.known.get(&cookie)).is_some_and(|known| known.inode == inode)
    }

    fn find(&mut self, socket: impl AsFd) -> Option<&mut Known> {
        self.known.get_mut(&socket_cookie(socket).ok()?)
    }

    /// Returns the port of a socket.
    pub(crate) fn port(&mut self, socket: impl AsFd) -> u32 {
        self.find(socket).map_or(0, |known| known.port)
    }

    /// Returns the type of a socket that its owner asked for.
    pub(crate) fn style(&mut self, socket: impl AsFd) -> u32 {
        self.find(socket).map_or(0, |known| known.style)
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
        if self.known.values().filter(|known| known.kept.is_some()).count() < KEPT_MAX
            && let Some(known) = self.find(socket)
        {
            known.kept = Some(message);
        }
    }
    /// Takes the message that was kept.
    pub(crate) fn take_kept(&mut self, socket: &OwnedFd) -> Option<Vec<u8>> {
        self.find(socket)?.kept.take()
    }
}

/// Tells the daemon a fact about a socket. It does not wait: the socket's owner may have filled it.
///
/// # Errors
/// `ENOBUFS`: the daemon does not take more now; or it is gone.
pub(crate) fn tell(socket: &OwnedFd, told: Told) -> io::Result<()> {
    match send(socket, &told.message(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
        Ok(_) => Ok(()),
        Err(Errno::AGAIN) => Err(Errno::NOBUFS.into()),
        Err(e) => Err(e.into()),
    }
}
