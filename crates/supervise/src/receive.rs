//! Reception: recvfrom(2) and recvmsg(2) with netlink's addresses, in the place of those of Unix
//! sockets.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, socket_timeout};
use rustix::net::{RecvFlags, recv};

use crate::sockets::Sockets;
use crate::sys::Notification;
use crate::target::Target;

/// Largest message: more than the daemon's socket holds.
const MESSAGE_MAX: usize = 256 << 10;
/// Most pieces of memory of a reception (`UIO_MAXIOV`).
const PIECES_MAX: u64 = 1024;
/// Flags of receptions.
const PEEK: u64 = 2;
const TRUNC: u64 = 0x20;
const DONT_WAIT: u64 = 0x40;
/// Offsets in `struct msghdr` of 64 bits, and its size.
const MSG_NAMELEN: u64 = 8;
const MSG_IOV: usize = 16;
const MSG_IOVLEN: usize = 24;
const MSG_CONTROLLEN: u64 = 40;
const MSG_FLAGS: u64 = 48;
const MSG_SIZE: usize = 56;
/// Bytes of `struct sockaddr_nl`.
pub(crate) const ADDRESS: usize = 12;

/// A reception that waits for a message.
#[derive(Debug)]
pub(crate) struct Reception {
    pub(crate) notification: Notification,
    pub(crate) socket: OwnedFd,
    /// The time at which it ends without one.
    pub(crate) until: Option<Instant>,
}

/// The end of a reception, or of a try.
pub(crate) enum Received {
    /// It is answered by these bytes and this result; the bytes are kept if that fails.
    Done(Option<Vec<u8>>, Result<i64, i32>),
    /// It waits.
    Waits(Reception),
}

/// Returns the address of the kernel, or of a port.
pub(crate) fn address(port: u32) -> [u8; ADDRESS] {
    let mut address = [0; ADDRESS];
    address[..2].copy_from_slice(&16u16.to_ne_bytes());
    address[4..8].copy_from_slice(&port.to_ne_bytes());
    address
}

/// Pieces of memory to write, each with its address.
type Pieces = Vec<(u64, Vec<u8>)>;

/// Returns an address where the caller wants one, and its length.
fn address_pieces(target: &Target<'_>, to: u64, len: u64, port: u32) -> io::Result<Pieces> {
    let room = u32::from_ne_bytes(target.read(len)?);
    let room = usize::try_from(room).unwrap_or(0).min(ADDRESS);
    let size = (ADDRESS as u32).to_ne_bytes();
    Ok(vec![(to, address(port)[..room].to_vec()), (len, size.to_vec())])
}

/// Writes an address where the caller wants one, and its length.
pub(crate) fn write_address(target: &Target<'_>, to: u64, len: u64, port: u32) -> io::Result<()> {
    target.write(address_pieces(target, to, len, port)?)
}

/// Receives a message for a call.
pub(crate) fn receive(
    target: &Target<'_>,
    sockets: &mut Sockets,
    notification: Notification,
    socket: OwnedFd,
    until: Option<Instant>,
) -> io::Result<Received> {
    let is_msg = notification.call == libc::SYS_recvmsg;
    let arguments = notification.arguments;
    let flags = arguments[if is_msg { 2 } else { 3 }];
    let message = match sockets.take_kept(&socket) {
        Some(kept) if flags & PEEK != 0 => {
            sockets.keep(&socket, kept.clone());
            kept
        }
        Some(kept) => kept,
        None => match take(&socket, flags & PEEK != 0) {
            Ok(message) => message,
            Err(Errno::AGAIN) => return wait(notification, socket, flags, until),
            Err(e) => return Ok(Received::Done(None, Err(e.raw_os_error()))),
        },
    };
    let delivered = if is_msg {
        to_message(target, arguments[1], &message)
    } else {
        to_buffer(target, &arguments, &message)
    };
    let fits = match delivered {
        Ok(fits) => fits,
        // The caller is gone: the message is there for the next one.
        Err(e) if Errno::from_io_error(&e) == Some(Errno::SRCH) => {
            return Ok(Received::Done((flags & PEEK == 0).then_some(message), Err(libc::EINTR)));
        }
        // A message that the caller cannot take is lost for it, as in the kernel.
        Err(e) => return Ok(Received::Done(None, Err(e.raw_os_error().unwrap_or(libc::EFAULT)))),
    };
    let len = if flags & TRUNC != 0 { message.len() } else { fits };
    let result = i64::try_from(len).unwrap_or(i64::MAX);
    if flags & PEEK != 0 {
        // The message stays in the socket.
        return Ok(Received::Done(None, Ok(result)));
    }
    Ok(Received::Done(Some(message), Ok(result)))
}

/// Takes a message, or a copy of it.
fn take(socket: &OwnedFd, peek: bool) -> Result<Vec<u8>, Errno> {
    let mut message = vec![0; MESSAGE_MAX];
    let flags = if peek { RecvFlags::PEEK | RecvFlags::DONTWAIT } else { RecvFlags::DONTWAIT };
    let (len, _) = recv(socket, &mut *message, flags)?;
    message.truncate(len);
    Ok(message)
}

/// Makes a call wait, unless it may not.
fn wait(
    notification: Notification,
    socket: OwnedFd,
    flags: u64,
    until: Option<Instant>,
) -> io::Result<Received> {
    let nonblocking = rustix::fs::fcntl_getfl(&socket)?.contains(rustix::fs::OFlags::NONBLOCK);
    if flags & DONT_WAIT != 0 || nonblocking || until.is_some_and(|until| until <= Instant::now()) {
        return Ok(Received::Done(None, Err(libc::EAGAIN)));
    }
    let limit: Option<Duration> = socket_timeout(&socket, Timeout::Recv)?;
    let until = until.or_else(|| limit.and_then(|limit| Instant::now().checked_add(limit)));
    Ok(Received::Waits(Reception { notification, socket, until }))
}

/// Delivers a message to `recvfrom`; returns the bytes that fit.
fn to_buffer(target: &Target<'_>, arguments: &[u64; 6], message: &[u8]) -> io::Result<usize> {
    let room = usize::try_from(arguments[2]).unwrap_or(usize::MAX);
    let fits = message.len().min(room);
    let mut pieces = vec![(arguments[1], message[..fits].to_vec())];
    if arguments[4] != 0 {
        pieces.extend(address_pieces(target, arguments[4], arguments[5], 0)?);
    }
    target.write(pieces)?;
    Ok(fits)
}

/// Delivers a message to `recvmsg`; returns the bytes that fit.
fn to_message(target: &Target<'_>, at: u64, message: &[u8]) -> io::Result<usize> {
    let head: [u8; MSG_SIZE] = target.read(at)?;
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&head[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    let count = word(MSG_IOVLEN);
    if count > PIECES_MAX {
        return Err(Errno::MSGSIZE.into());
    }
    let list = target.read_all(word(MSG_IOV), usize::try_from(count * 16).unwrap_or(0))?;
    let (mut pieces, mut done) = (Pieces::new(), 0);
    // Bound: `PIECES_MAX`.
    for piece in list.chunks_exact(16) {
        let (base, len) = piece.split_at(8);
        let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        let len = usize::try_from(number(len)).unwrap_or(usize::MAX).min(message.len() - done);
        pieces.push((number(base), message[done..done + len].to_vec()));
        done += len;
    }
    let name = word(0);
    let mut name_len = 0u32;
    if name != 0 {
        let mut room = [0; 4];
        room.copy_from_slice(&head[8..12]);
        let room = usize::try_from(u32::from_ne_bytes(room)).unwrap_or(0).min(ADDRESS);
        pieces.push((name, address(0)[..room].to_vec()));
        name_len = ADDRESS as u32;
    }
    let flags: u32 = if done < message.len() { TRUNC as u32 } else { 0 };
    pieces.push((at.saturating_add(MSG_NAMELEN), name_len.to_ne_bytes().to_vec()));
    pieces.push((at.saturating_add(MSG_CONTROLLEN), 0u64.to_ne_bytes().to_vec()));
    pieces.push((at.saturating_add(MSG_FLAGS), flags.to_ne_bytes().to_vec()));
    target.write(pieces)?;
    Ok(done)
}
