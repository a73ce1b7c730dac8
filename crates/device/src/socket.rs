//! A Unix socket that others connect to, and its file.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, listen, sendto, socket_with,
};

/// Longest path of a socket: the 108 bytes of `sun_path` (unix(7)), with the zero that ends it.
pub const SOCKET_PATH_MAX: usize = 107;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// A Unix socket that others connect to, non-blocking. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct Listening {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
}

/// The reason for which there is no socket.
#[derive(Debug)]
pub enum ListenError {
    /// The path does not fit into the address of a socket; its bytes are given.
    TooLong(usize),
    /// Another process listens there.
    Taken,
    /// The file at the path is not a socket.
    NotASocket,
    /// The system refused a step.
    System {
        /// The step, as a verb that the path completes.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl ListenError {
    fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { what, error }
    }
}

/// Returns the device and the inode of a file; those of a symbolic link itself.
///
/// # Errors
/// Those of the system.
pub fn file_of(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Listening {
    /// Makes the socket, and replaces one whose owner is dead. `mode`: the rights to connect, from
    /// the moment the socket exists (on Linux the mode of the unbound socket becomes that of the
    /// file that binding makes); those that the umask leaves without one.
    ///
    /// # Errors
    /// Another process listens there, or the system refuses.
    pub fn at(path: &Path, mode: Option<Mode>) -> Result<Self, ListenError> {
        Self::of(path, mode, SocketType::STREAM)
    }

    /// Makes a socket whose connections keep the bounds of packets (`SOCK_SEQPACKET`, unix(7)), as
    /// [`at`](Self::at) makes one of bytes.
    ///
    /// # Errors
    /// As those of [`at`](Self::at).
    pub fn packets_at(path: &Path, mode: Option<Mode>) -> Result<Self, ListenError> {
        Self::of(path, mode, SocketType::SEQPACKET)
    }

    fn of(path: &Path, mode: Option<Mode>, kind: SocketType) -> Result<Self, ListenError> {
        let len = path.as_os_str().len();
        let address = match len {
            0..=SOCKET_PATH_MAX => SocketAddrUnix::new(path).map_err(|_| ListenError::TooLong(len))?,
            _ => return Err(ListenError::TooLong(len)),
        };
        remove_stale(path, &address)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            socket_with(AddressFamily::UNIX, kind, flags, None).map_err(refused("open a socket for"))?;
        if let Some(mode) = mode {
            fchmod(&socket, mode).map_err(refused("set the mode of the socket"))?;
        }
        bind(&socket, &address).map_err(refused("make the socket"))?;
        listen(&socket, BACKLOG).map_err(refused("listen at"))?;
        let file = file_of(path).map_err(ListenError::system("look at the socket"))?;
        Ok(Self { listener: socket.into(), path: path.to_path_buf(), file })
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the socket itself.
    #[must_use]
    pub const fn socket(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Another process may have put another file there since.
        if file_of(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the error of a step that the system has refused.
fn refused(what: &'static str) -> impl Fn(Errno) -> ListenError {
    move |errno| ListenError::system(what)(errno.into())
}

/// Removes the socket of a dead process.
///
/// An empty datagram is sent to it, and the system tells by its refusal whether a process has the
/// socket (unix(7)): `ECONNREFUSED` if none has, `EPROTOTYPE` if one has a socket of another type
/// there. The system knows the processes of all network namespaces, which `/proc/net/unix` does not
/// list. A confined process may send datagrams, while connect(2) is forbidden there. Only a socket
/// of datagrams gets the empty one, and it is taken as well.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), ListenError> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(ListenError::system("look at")(e)),
        Ok(found) if !found.file_type().is_socket() => return Err(ListenError::NotASocket),
        Ok(_) => {}
    }
    let probe = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(refused("open a socket for"))?;
    match sendto(&probe, &[], SendFlags::DONTWAIT | SendFlags::NOSIGNAL, address) {
        Err(Errno::CONNREFUSED) => {
            fs::remove_file(path).map_err(ListenError::system("remove the stale socket"))
        }
        // A socket of datagrams has room for one more, or is full.
        Ok(_) | Err(Errno::PROTOTYPE | Errno::AGAIN) => Err(ListenError::Taken),
        Err(errno) => Err(refused("find the owner of the socket")(errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// A socket that a process has is left alone, whether it listens or not, and whatever its type;
    /// one that no process has is replaced.
    #[test]
    fn only_the_socket_of_a_dead_process_is_replaced() {
        let path = std::env::temp_dir().join(format!("txw-{}-dead.sock", std::process::id()));
        let address = SocketAddrUnix::new(path.as_path()).unwrap();
        for kind in [SocketType::STREAM, SocketType::SEQPACKET] {
            let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
            bind(&socket, &address).unwrap();
            assert!(matches!(Listening::at(&path, None), Err(ListenError::Taken)));
            listen(&socket, BACKLOG).unwrap();
            assert!(matches!(Listening::at(&path, None), Err(ListenError::Taken)));
            drop(socket);
            drop(Listening::at(&path, None).unwrap());
            assert!(!path.exists());
        }
        let socket = UnixDatagram::bind(&path).unwrap();
        assert!(matches!(Listening::at(&path, None), Err(ListenError::Taken)));
        drop(socket);
        drop(Listening::at(&path, None).unwrap());
        assert!(!path.exists());
    }
}
