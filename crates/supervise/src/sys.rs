//! The system calls that no crate offers safely: the filter and its notifications
//! (seccomp_unotify(2)).

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use libc::{c_int, seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp, sock_filter, sock_fprog};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer};
use rustix::net::{SendAncillaryMessage, SendFlags, recvmsg, sendmsg};

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
        let answer = seccomp_notif_addfd {
            id,
            flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
            srcfd: u32::try_from(fd.as_raw_fd()).unwrap_or(u32::MAX),
            newfd: 0,
            newfd_flags: if close_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        // SAFETY: the request reads a `seccomp_notif_addfd`, which lives until it returns.
        result(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const answer) })
    }
}

/// Installs the filter for this thread and its children, and returns the descriptor by which calls
/// are told. It allocates nothing.
fn install(filter: &[sock_filter]) -> io::Result<OwnedFd> {
    rustix::thread::set_no_new_privs(true)?;
    let len = u16::try_from(filter.len()).unwrap_or(u16::MAX);
    let program = sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `program` points to `len` instructions that live until the call returns; the kernel
    // checks them, and does not write.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    match c_int::try_from(fd) {
        // SAFETY: the kernel has just made this descriptor, and nothing else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Starts a program under the filter.
///
/// # Errors
/// The program cannot be started, or the system has no such filters.
pub(crate) fn spawn(command: &mut Command, filter: Vec<sock_filter>) -> io::Result<(Child, Notifications)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let in_child = move || {
        let notifications = install(&filter)?;
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
    let child = command.spawn()?;
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
