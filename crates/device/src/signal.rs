//! Signals as readable events, so that a loop ends, or reads its configuration again, between two
//! frames and not in the middle of one.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::sys;

/// A request from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// SIGINT: Ctrl-C at the terminal.
    Interrupt,
    /// SIGTERM: a service manager, or kill(1).
    Terminate,
    /// SIGHUP: the terminal is closed, or a daemon is to read its configuration again.
    Hangup,
    /// SIGUSR1.
    User1,
    /// SIGUSR2.
    User2,
}

impl Signal {
    /// All signals that can be taken.
    pub const ALL: [Self; 5] = [Self::Interrupt, Self::Terminate, Self::Hangup, Self::User1, Self::User2];

    const fn number(self) -> libc::c_int {
        match self {
            Self::Interrupt => libc::SIGINT,
            Self::Terminate => libc::SIGTERM,
            Self::Hangup => libc::SIGHUP,
            Self::User1 => libc::SIGUSR1,
            Self::User2 => libc::SIGUSR2,
        }
    }

    /// Returns the name, as signal(7) has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::Hangup => "SIGHUP",
            Self::User1 => "SIGUSR1",
            Self::User2 => "SIGUSR2",
        }
    }
}

/// Signals, withheld from their default action while this value lives.
///
/// Take them before starting other threads: the kernel delivers a signal to any thread that does
/// not block it, and threads inherit the mask of their parent. Programs that this thread starts
/// inherit it too, and receive none of the signals unless they unblock them. Dropping the value
/// restores the signals' action, which also applies to signals still pending. Not `Send`, because
/// the mask to be restored belongs to the thread.
///
/// ```
/// use txweir_device::Signals;
/// let signals = Signals::take()?;
/// assert_eq!(signals.pending()?, None); // no Ctrl-C so far
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
    of_this_thread: PhantomData<*const ()>,
}

impl Signals {
    /// Takes the two requests to end, SIGINT and SIGTERM: see [`Signals::take_these`].
    ///
    /// # Errors
    /// As [`Signals::take_these`].
    pub fn take() -> io::Result<Self> {
        Self::take_these(&[Signal::Interrupt, Signal::Terminate])
    }

    /// Blocks these signals and opens the descriptor from which they are read (signalfd(2)).
    ///
    /// # Errors
    /// Those of pthread_sigmask(3) and signalfd(2); the mask is unchanged then.
    pub fn take_these(signals: &[Signal]) -> io::Result<Self> {
        let numbers: Vec<libc::c_int> = signals.iter().map(|signal| signal.number()).collect();
        let before = sys::block_signals(&numbers)?;
        match sys::signal_fd(&numbers) {
            Ok(fd) => Ok(Self { fd, before, of_this_thread: PhantomData }),
            Err(errno) => {
                sys::restore_signals(&before);
                Err(errno.into())
            }
        }
    }

    /// Returns the next signal that has come, if any, without waiting. The descriptor is readable
    /// when there is one.
    ///
    /// # Errors
    /// Those of read(2), `EAGAIN` excepted.
    pub fn pending(&self) -> io::Result<Option<Signal>> {
        // struct signalfd_siginfo (signalfd(2)) has 128 bytes; the first four are the signal's
        // number.
        let mut info = [0; 128];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut info)) {
            Ok(_) => Ok(Signal::ALL.into_iter().find(|signal| info[..4] == signal.number().to_ne_bytes())),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        sys::restore_signals(&self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ns;
    use crate::poll::{PollFd, PollFlags, wait};

    /// The test sends the signals to this thread alone, so that other tests of the process never
    /// receive them.
    #[test]
    fn signals_are_read_and_wake_a_wait() {
        let signals = Signals::take().unwrap();
        assert_eq!(signals.pending().unwrap(), None);
        sys::raise(libc::SIGTERM);
        let mut fds = [PollFd::new(&signals, PollFlags::IN)];
        assert_eq!(wait(&mut fds, Some(now_ns() + 60_000_000_000), 0).unwrap(), 1);
        assert_eq!(signals.pending().unwrap(), Some(Signal::Terminate));
        sys::raise(libc::SIGINT);
        assert_eq!(signals.pending().unwrap(), Some(Signal::Interrupt));
        assert_eq!(signals.pending().unwrap(), None);
        assert_eq!(blocked() & BOTH, BOTH);
        drop(signals);
        assert_eq!(blocked() & BOTH, 0);
        let all = Signals::take_these(&Signal::ALL).unwrap();
        for signal in Signal::ALL {
            sys::raise(signal.number());
            assert_eq!(all.pending().unwrap(), Some(signal));
        }
    }

    /// Bits of SIGINT (2) and SIGTERM (15) in the mask that proc(5) shows.
    const BOTH: u64 = 1 << 1 | 1 << 14;

    /// Returns this thread's mask of blocked signals.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap()
    }
}
