//! A thread whose call waits: its memory and its descriptors, looked at only while it waits.
//!
//! The number of a thread may be that of another one as soon as the first has ended. So a
//! descriptor of its memory and of its process is opened first, and the call is asked for again: if
//! it still waits, they are those of the caller, and stay so.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::sys::{Notification, Notifications};

/// The thread of a notification.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    all: &'a Notifications,
    notification: Notification,
}

impl<'a> Target<'a> {
    pub(crate) const fn new(all: &'a Notifications, notification: Notification) -> Self {
        Self { all, notification }
    }

    /// Fails if the call does not wait any more.
    fn check(&self) -> io::Result<()> {
        if self.all.waits(self.notification.id) { Ok(()) } else { Err(Errno::SRCH.into()) }
    }

    /// Returns a copy of one of its descriptors.
    ///
    /// # Errors
    /// There is none of that number, the caller is gone, or its process may not be looked at.
    pub(crate) fn descriptor(&self, number: u64) -> io::Result<OwnedFd> {
        let number = i32::try_from(number as u32).map_err(|_| Errno::BADF)?;
        // Only the first thread of a process has a descriptor of it.
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.notification.thread))?;
        let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
        let process = process.and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let process = pidfd_open(process, PidfdFlags::empty())?;
        self.check()?;
        Ok(pidfd_getfd(process, number, PidfdGetfdFlags::empty())?)
    }

    fn memory(&self, write: bool) -> io::Result<File> {
        let path = format!("/proc/{}/mem", self.notification.thread);
        let memory = OpenOptions::new().read(true).write(write).open(path)?;
        self.check()?;
        Ok(memory)
    }

    /// Reads its memory.
    ///
    /// # Errors
    /// `EFAULT`: there is none at this address; the caller is gone.
    pub(crate) fn read<const N: usize>(&self, at: u64) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_into(at, &mut bytes).map(|()| bytes)
    }

    /// Reads its memory into `bytes`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn read_into(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.memory(false)?.read_exact_at(bytes, at).map_err(|_| Errno::FAULT.into())
    }

    /// Writes its memory.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory(true)?.write_all_at(bytes, at).map_err(|_| Errno::FAULT.into())
    }
}
