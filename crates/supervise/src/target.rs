//! A thread whose call waits: its memory and its descriptors, looked at only while it waits.
//!
//! The number of a thread may be that of another one as soon as the first has ended. So its memory
//! is opened first, and the call is asked for after that: if it still waits, the memory is that of
//! the caller, and stays so. It is asked for again before each write, and after each access: bytes
//! of a caller that is gone are not used.
//!
//! A descriptor is taken only if its link names a socket that was given, because a copy of any
//! other one may do harm when it is closed: a socket can linger, a file can ask its owner. A
//! program can exchange it in between; then a thread closes it that may be held up.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::hands::Hands;
use crate::sockets::Sockets;
use crate::sys::{Notification, Notifications};

/// A descriptor of a thread, not of the first thread of its process (`PIDFD_THREAD`, Linux 6.9):
/// threads may have descriptors of their own.
const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);

/// The error by which the kernel makes a call again after a signal, or ends it with `EINTR`
/// (`ERESTARTSYS`). No program sees it while a signal waits.
const RESTART: i32 = 512;

/// Returns whether a signal waits for a thread, or for any of its process, that it does not block;
/// and whether it is the only one: by its `status`, proc_pid_status(5).
fn pending(status: &str) -> (bool, bool, bool) {
    let word = |name: &str, base| {
        let text = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        text.and_then(|text| u64::from_str_radix(text.trim(), base).ok()).unwrap_or(0)
    };
    let open = !word("SigBlk", 16);
    (word("SigPnd", 16) & open != 0, word("ShdPnd", 16) & open != 0, word("Threads", 10) == 1)
}

/// The thread of a notification.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    all: Arc<Notifications>,
    notification: Notification,
    hands: &'a RefCell<Hands>,
}

impl<'a> Target<'a> {
    pub(crate) fn new(
        all: &Arc<Notifications>,
        notification: Notification,
        hands: &'a RefCell<Hands>,
    ) -> Self {
        Self { all: Arc::clone(all), notification, hands }
    }

    /// Fails if the call does not wait any more.
    fn check(&self) -> io::Result<()> {
        self.all.check(self.notification.id)
    }

    /// Returns a copy of one of its descriptors, if that is a socket that was given.
    ///
    /// # Errors
    /// The caller is gone, or may not be looked at.
    pub(crate) fn socket(&self, number: u64, sockets: &Sockets) -> io::Result<Option<OwnedFd>> {
        let number = i32::try_from(number as u32).map_err(|_| Errno::BADF)?;
        let link = std::fs::read_link(format!("/proc/{}/fd/{number}", self.notification.thread))?;
        let link = link.to_string_lossy();
        let inode = link.strip_prefix("socket:[").and_then(|link| link.strip_suffix(']')?.parse().ok());
        let Some(inode) = inode.filter(|inode| sockets.has_inode(*inode)) else { return Ok(None) };
        if !self.hands.borrow().are_there() {
            return Err(Errno::FAULT.into());
        }
        let owner = self.owner()?;
        self.check()?;
        let socket = pidfd_getfd(owner, number, PidfdGetfdFlags::empty())?;
        if self.check().is_ok() && sockets.has(&socket, inode) {
            return Ok(Some(socket));
        }
        let _ = self.hands.borrow_mut().run(move || {
            drop(socket);
            Ok(())
        });
        self.check().map(|()| None)
    }

    /// Returns a descriptor of the thread.
    fn owner(&self) -> io::Result<OwnedFd> {
        let thread = self.notification.thread;
        let pid = |number: u32| i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH);
        match pidfd_open(pid(thread)?, THREAD) {
            Err(Errno::INVAL) => {}
            other => return Ok(other?),
        }
        let status = std::fs::read_to_string(format!("/proc/{thread}/status"))?;
        let first = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
        Ok(pidfd_open(pid(first.unwrap_or(0))?, PidfdFlags::empty())?)
    }

    /// Returns the error that ends its call for a signal that waits, if there is one: the kernel
    /// leaves that to the supervisor.
    ///
    /// A call without a time limit is made again after the handler, if that was asked for
    /// (`SA_RESTART`), as by the kernel. That takes a signal that no other thread can get.
    pub(crate) fn interrupted(&self, has_limit: bool) -> Option<i32> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.notification.thread)).ok()?;
        self.check().ok()?;
        let (own, shared, is_alone) = pending(&status);
        match (own, shared) {
            (false, false) => None,
            (true, _) | (_, true) if !has_limit && (own || is_alone) => Some(RESTART),
            _ => Some(libc::EINTR),
        }
    }

    /// Returns the result of an access to its memory.
    fn access<T: Send + 'static>(
        &self,
        write: bool,
        access: impl FnOnce(&File, &dyn Fn() -> io::Result<()>) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (all, Notification { id, thread, .. }) = (Arc::clone(&self.all), self.notification);
        self.hands.borrow_mut().run(move || {
            let memory = OpenOptions::new().read(true).write(write).open(format!("/proc/{thread}/mem"))?;
            let check = || all.check(id);
            check()?;
            let done = access(&memory, &check);
            check()?;
            done
        })
    }

    /// Reads its memory.
    ///
    /// # Errors
    /// `EFAULT`: there is none at this address; `ESRCH`: the caller is gone.
    pub(crate) fn read<const N: usize>(&self, at: u64) -> io::Result<[u8; N]> {
        let bytes = self.read_all(at, N)?;
        bytes.try_into().map_err(|_| Errno::FAULT.into())
    }

    /// Reads `len` bytes of its memory.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn read_all(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        self.access(false, move |memory, _| {
            let mut bytes = vec![0; len];
            memory.read_exact_at(&mut bytes, at).map_err(|_| Errno::FAULT)?;
            Ok(bytes)
        })
    }

    /// Writes its memory, piece by piece.
    ///
    /// # Errors
    /// As [`read`](Self::read); the pieces before it are written.
    pub(crate) fn write(&self, pieces: Vec<(u64, Vec<u8>)>) -> io::Result<()> {
        self.access(true, move |memory, check| {
            for (at, bytes) in pieces {
                check()?;
                memory.write_all_at(&bytes, at).map_err(|_| Errno::FAULT)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::pending;

    #[test]
    fn signals_that_are_blocked_do_not_count() {
        let status = |own: u64, shared: u64, blocked: u64, threads: u64| {
            pending(&format!(
                "Name:\tx\nThreads:\t{threads}\nSigQ:\t1/95\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n\
                 SigBlk:\t{blocked:016x}\nSigIgn:\t{:016x}\n",
                u64::MAX
            ))
        };
        assert_eq!(status(0, 0, 0, 1), (false, false, true));
        assert_eq!(status(1 << 63, 0, 0, 2), (true, false, false));
        assert_eq!(status(0, 0x2000, 0x1000, 10), (false, true, false));
        assert_eq!(status(0x2000, 0x2000, 0x2000, 1), (false, false, true));
        assert_eq!(pending(""), (false, false, false));
    }
}
