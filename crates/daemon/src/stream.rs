//! `Stream`: a client's connection as a session uses it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::net::sockopt::socket_peercred;

/// A connection that never waits: reading and writing answer `WouldBlock` instead.
pub trait Stream: Read + Write {
    /// Returns the user, the group and the process of the client as they were when it connected,
    /// for people.
    fn who(&self) -> String;

    /// Tells the other side that nothing more will be sent.
    ///
    /// # Errors
    /// Those of the system.
    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection of this machine.
#[derive(Debug)]
pub enum Connection {
    /// By a Unix socket.
    Unix(UnixStream),
    /// By TCP.
    Tcp(TcpStream),
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Connection {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(room),
            Self::Tcp(stream) => stream.read(room),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Connection {
    fn who(&self) -> String {
        match self {
            Self::Unix(stream) => stream.who(),
            Self::Tcp(stream) => {
                stream.peer_addr().map_or_else(|_| "unknown".to_owned(), |peer| peer.to_string())
            }
        }
    }
    fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

impl Stream for UnixStream {
    // unix(7), `SO_PEERCRED`.
    fn who(&self) -> String {
        socket_peercred(self).map_or_else(
            |_| "unknown user".to_owned(),
            |who| {
                let (uid, gid, pid) = (who.uid.as_raw(), who.gid.as_raw(), who.pid.as_raw_nonzero());
                format!("uid {uid}, gid {gid}, pid {pid}")
            },
        )
    }
}
