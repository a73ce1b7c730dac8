//! Waiting for links and signals, up to an absolute deadline on [`clock`](crate::clock).

use std::io;
use std::num::NonZeroU64;

pub use rustix::event::{PollFd, PollFlags};
use rustix::event::{Timespec, poll};
use rustix::io::Errno;

use crate::clock::now_ns;

/// Waits until one of `fds` is ready or `deadline_ns` (of [`now_ns`]) has come; without a deadline,
/// waits without limit. Returns how many of `fds` are ready, 0 when the deadline came first; each
/// `PollFd` then holds its own events. With a deadline in the past it polls once and returns at
/// once.
///
/// It spends the last `spin_ns` before the deadline polling instead of sleeping: a wake-up from
/// sleep is late by some 15 us, and one core for that long buys the difference. 0 never spins; with
/// a spin longer than the wait the call does not sleep at all.
///
/// An interrupted wait is resumed with the remaining time. Signals that a loop has to see are
/// therefore taken by [`Signals`](crate::Signals), whose descriptor belongs among `fds`. Errors and
/// hang-up are always reported as readiness (poll(2)); receive on such a descriptor to learn the
/// error.
///
/// # Errors
/// Those of ppoll(2), `EINTR` excepted.
pub fn wait(fds: &mut [PollFd<'_>], deadline_ns: Option<u64>, spin_ns: u64) -> io::Result<usize> {
    loop {
        let left_ns = deadline_ns.map(|at| at.saturating_sub(now_ns()));
        let sleep_ns = left_ns.map(|left| left.saturating_sub(spin_ns));
        match poll(fds, sleep_ns.map(timespec).as_ref()) {
            Ok(0) if left_ns != Some(0) => {} // woken early, or now within the spin
            Ok(ready) => return Ok(ready),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Makes the calling thread's sleeps end as near to their deadline as the kernel can, instead of up
/// to 50 us later (the default timer slack, prctl(2) `PR_SET_TIMERSLACK`).
///
/// # Errors
/// Those of prctl(2).
pub fn sharpen_timers() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Returns nanoseconds in the form of the system call. 2^64 ns are 584 years: the seconds always
/// fit.
fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: (ns % 1_000_000_000) as _, // below 10^9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_deadline_is_never_missed_early() {
        let (a, _b) = UnixStream::pair().unwrap();
        for (wait_ns, spin_ns) in [(12 * MS, 0), (12 * MS, MS), (12 * MS, 60 * MS)] {
            let deadline = now_ns() + wait_ns;
            let mut fds = [PollFd::new(&a, PollFlags::IN)];
            assert_eq!(wait(&mut fds, Some(deadline), spin_ns).unwrap(), 0);
            assert!(now_ns() >= deadline);
            assert!(fds[0].revents().is_empty());
        }
    }

    #[test]
    fn a_ready_descriptor_ends_the_wait() {
        let (a, mut b) = UnixStream::pair().unwrap();
        b.write_all(b"x").unwrap();
        for spin_ns in [0, u64::MAX] {
            let mut fds = [PollFd::new(&b, PollFlags::IN), PollFd::new(&a, PollFlags::IN)];
            assert_eq!(wait(&mut fds, Some(now_ns() + 60_000 * MS), spin_ns).unwrap(), 1);
            assert_eq!(fds[1].revents(), PollFlags::IN);
        }
        // A wait with a deadline in the past still reports the ready descriptors.
        let mut fds = [PollFd::new(&a, PollFlags::IN)];
        assert_eq!(wait(&mut fds, Some(0), 0).unwrap(), 1);
    }
}
