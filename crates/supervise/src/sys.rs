//! The system calls that no crate offers safely: the filter and its notifications
//! (seccomp_unotify(2)).

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use libc::{c_int, seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp, sock_filter, sock_fprog};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer};
use rustix::net::{SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg};

/// A system call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notification {
    /// Its number, which no other call has until it is answered.
    pub(crate) id: u64,
    /// The thread that made it.
    pub(crate) thread: u32,
    pub(crate) call: i64,
    pub(crate) arguments: [u64; 6],
}

/// The end of the supervisor: system calls of the programs under the filter come by it.
#[derive(Debug)]
pub(crate) struct Notifications(OwnedFd);

impl std::os::fd::AsFd for Notifications {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn result(n: c_int) -> io::Result<()> {
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Notifications {
    /// Takes the next system call; waits if there is none.
    ///
    /// # Errors
    /// `NotFound`: its thread is gone.
    pub(crate) fn receive(&self) -> io::Result<Notification> {
        // SAFETY: all fields are numbers, for which zero is a value.
        let mut n: seccomp_notif = unsafe { zeroed() };
        // SAFETY: the request takes a `seccomp_notif` of zeros and fills it; `n` lives until it
        // returns.
        result(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut n) })?;
        let call = i64::from(n.data.nr);
        Ok(Notification { id: n.id, thread: n.pid, call, arguments: n.data.args })
    }

    /// Fails unless the call waits for its answer.
    ///
    /// # Errors
    /// `ESRCH`: it does not, and its thread may be another one, or none.
    pub(crate) fn check(&self, id: u64) -> io::Result<()> {
        if self.waits(id) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    }

    /// True while the call waits for its answer: then its thread is the one that made it.
    pub(crate) fn waits(&self, id: u64) -> bool {
        // SAFETY: the request reads a number of 64 bits.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }

    fn send(&self, mut answer: seccomp_notif_resp) -> io::Result<()> {
        // SAFETY: the request reads a `seccomp_notif_resp`, which lives until it returns.
        result(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) })
    }

    /// Answers a call in the place of the kernel: a result, or a number of errno(3).
    ///
    /// # Errors
    /// The call does not wait any more.
    pub(crate) fn answer(&self, id: u64, result: Result<i64, i32>) -> io::Result<()> {
        let (val, error) = match result {
            Ok(val) => (val, 0),
            Err(error) => (0, -error),
        };
        self.send(seccomp_notif_resp { id, val, error, flags: 0 })
    }

    /// Lets the kernel perform the call.
    ///
    /// # Errors
    /// The call does not wait any more.
    pub(crate) fn go_on(&self, id: u64) -> io::Result<()> {
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        self.send(seccomp_notif_resp { id, val: 0, error: 0, flags })
    }

    /// Answers a call with a new descriptor of the caller, a copy of `fd`, in one step.
    ///
    /// # Errors
    /// The call does not wait any more, the caller has no free descriptor, or Linux is older than
    /// 5.14.
    pub(crate) fn give(&self, id: u64, fd: &OwnedFd, close_on_exec: bool) -> io::Result<()> {
        give(&self.0, id, fd, close_on_exec)
    }
}

fn give(notifications: &OwnedFd, id: u64, fd: &OwnedFd, close_on_exec: bool) -> io::Result<()> {
    let answer = seccomp_notif_addfd {
        id,
        flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
        srcfd: u32::try_from(fd.as_raw_fd()).unwrap_or(u32::MAX),
        newfd: 0,
        newfd_flags: if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
    };
    let request = libc::SECCOMP_IOCTL_NOTIF_ADDFD;
    // SAFETY: the request reads a `seccomp_notif_addfd`, which lives until it returns.
    result(unsafe { libc::ioctl(notifications.as_raw_fd(), request, &raw const answer) })
}

/// Installs the filter for this thread and its children, and returns the descriptor by which calls
/// are told. It allocates nothing.
///
/// Signals that do not kill leave a call alone once it was told (Linux 5.19). Without this, a
/// signal can end a call after its answer was taken, and the kernel tells nobody that it is lost.
fn install(filter: &[sock_filter]) -> io::Result<OwnedFd> {
    rustix::thread::set_no_new_privs(true)?;
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    match install_with(filter, flags | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => install_with(filter, flags),
        done => done,
    }
}

fn install_with(filter: &[sock_filter], flags: libc::c_ulong) -> io::Result<OwnedFd> {
    let len = u16::try_from(filter.len()).unwrap_or(u16::MAX);
    let program = sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `program` points to `len` instructions that live until the call returns; the kernel
    // checks them, and does not write.
    let fd =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    match c_int::try_from(fd) {
        // SAFETY: the kernel has just made this descriptor, and nothing else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// True if a call can be answered by a descriptor in one step (Linux 5.14). A system that can asks
/// for the call, and no call has this number; an older one does not know the flag.
fn gives(notifications: &OwnedFd) -> bool {
    give(notifications, u64::MAX, notifications, true).is_err_and(|e| e.raw_os_error() == Some(libc::ENOENT))
}

/// Returns the reason for which there is no filter.
fn no_filter(error: &io::Error, release: &str) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::EBUSY) => {
            "it runs under a supervisor of system calls already, and a program may have one".to_owned()
        }
        Some(libc::ENOSYS | libc::EINVAL) => format!(
            "it needs Linux 5.14 or later with notifications of system calls \
             (CONFIG_SECCOMP_FILTER), and this is Linux {release}"
        ),
        _ => format!("there is no filter of system calls: {error}"),
    };
    io::Error::new(error.kind(), text)
}

/// Starts a program under the filter.
///
/// # Errors
/// The program cannot be started, it has a supervisor already, or the system has no such filters.
pub(crate) fn spawn(command: &mut Command, filter: Vec<sock_filter>) -> io::Result<(Child, Notifications)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let in_child = move || {
        let notifications = install(&filter)?;
        if !gives(&notifications) {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        let fds = [std::os::fd::AsFd::as_fd(&notifications)];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        sendmsg(&theirs, &[io::IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls alone, which are
    // async-signal-safe (signal-safety(7)); it takes no lock and allocates nothing.
    unsafe { command.pre_exec(in_child) };
    let child = command.spawn().map_err(|error| {
        // The child has sent its descriptor if the filter is not the reason.
        match recv(&ours, &mut [0; 1], RecvFlags::DONTWAIT) {
            Ok(_) => error,
            Err(_) => no_filter(&error, &rustix::system::uname().release().to_string_lossy()),
        }
    })?;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(&ours, &mut [io::IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let missing = || io::Error::other("the child has sent no descriptor");
    fds.next().map(|fd| (child, Notifications(fd))).ok_or_else(missing)
}

/// Ignores the signals of the terminal, which reach the program as well: it decides.
pub(crate) fn ignore_the_terminal() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: no handler runs.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_no_filter_names_what_is_needed() {
        let text = |number| no_filter(&io::Error::from_raw_os_error(number), "5.10.0-9-amd64").to_string();
        let old = "it needs Linux 5.14 or later with notifications of system calls (CONFIG_SECCOMP_FILTER), \
                   and this is Linux 5.10.0-9-amd64";
        assert_eq!((text(libc::ENOSYS), text(libc::EINVAL)), (old.into(), old.into()));
        let two = "it runs under a supervisor of system calls already, and a program may have one";
        assert_eq!(text(libc::EBUSY), two);
        let other = "there is no filter of system calls: Operation not permitted (os error 1)";
        assert_eq!(text(libc::EPERM), other);
    }
}
