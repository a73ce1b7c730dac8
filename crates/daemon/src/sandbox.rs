//! `Sandbox`: the process gives up the privileges that it does not need after its start:
//! capabilities(7), new privileges by execve(2), and the system calls that no link needs
//! (seccomp(2)).

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod calls;

use std::{fmt, fs, io};

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// The privileges that a process keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// True to keep `CAP_SYS_ADMIN`, by which a thread enters a network namespace (setns(2)).
    pub keep_netns: bool,
    /// True to keep `CAP_BPF`, bpf(2) and `CAP_IPC_LOCK`, by which an interface is opened by XDP
    /// sockets and the memory of their rings locked.
    pub keep_xdp: bool,
    /// True to keep making, renaming and removing files, by which the state is saved.
    pub keep_files: bool,
    /// The effect of a system call that the process does not need.
    pub forbidden: Forbidden,
}

/// The effect of a system call that the process does not need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forbidden {
    /// The call fails with `EPERM`.
    #[default]
    Fails,
    /// The kernel kills the process by `SIGSYS`, and logs the call (audit).
    Kills,
}

/// The result of [`Sandbox::enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confined {
    /// The capabilities that the process still has.
    pub kept: CapabilitySet,
    /// True if the bounding set is empty. It stays as it was without `CAP_SETPCAP`.
    pub bounded: bool,
    /// True if system calls are filtered. There is a filter for x86_64 and aarch64.
    pub filtered: bool,
}

/// The reason for which privileges were not given up.
#[derive(Debug)]
#[non_exhaustive]
pub enum SandboxError {
    /// The process has more than one thread: the number is given. Capabilities are an attribute of
    /// a thread, and the others would keep theirs.
    Threads(usize),
    /// The system refused a step.
    System {
        /// The step, as a verb phrase.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl SandboxError {
    fn system(what: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::System { what, error: errno.into() }
    }
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(count) => {
                write!(f, "cannot drop capabilities: the process has {count} threads, expected 1")
            }
            Self::System { what, error } => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for SandboxError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Threads(_) => None,
            Self::System { error, .. } => Some(error),
        }
    }
}

impl Confined {
    /// Returns the parts of the sandbox that are missing here, one sentence each, for the log.
    pub fn missing(&self) -> impl Iterator<Item = &'static str> {
        let bounded = "the bounding set of capabilities stays as it is, because CAP_SETPCAP is missing; \
                       no_new_privs keeps it without effect";
        let filtered = "system calls are not filtered on this processor";
        let said = [(!self.bounded, bounded), (!self.filtered, filtered)];
        said.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, text)| text)
    }
}

impl Sandbox {
    /// Gives up all other privileges, for good. Links can be opened afterwards: in other network
    /// namespaces only with [`keep_netns`](Self::keep_netns), and by XDP sockets only with
    /// [`keep_xdp`](Self::keep_xdp).
    ///
    /// The permitted and effective capabilities become those of `CAP_NET_RAW`, `CAP_NET_ADMIN` and,
    /// if kept, `CAP_SYS_ADMIN`, `CAP_BPF` and `CAP_IPC_LOCK` that the process has; the
    /// inheritable, ambient and bounding sets become empty. A process without capabilities gives up
    /// none. No program that the process starts has more privileges. A filter
    /// ([`filter_calls`](Self::filter_calls)) admits the system calls of links, clients, threads
    /// and memory; it holds for threads that start later as well.
    ///
    /// # Errors
    /// The process has more than one thread, or the system refuses a step; a part of the
    /// privileges may be gone then.
    pub fn enter(&self) -> Result<Confined, SandboxError> {
        let threads = threads();
        if threads > 1 {
            return Err(SandboxError::Threads(threads));
        }
        let bounded = empty_bounding_set().map_err(SandboxError::system("empty the bounding set"))?;
        let kept = self.drop_capabilities().map_err(SandboxError::system("drop capabilities"))?;
        set_no_new_privs(true).map_err(SandboxError::system("set no_new_privs"))?;
        Ok(Confined { kept, bounded, filtered: self.filter_calls()? })
    }

    /// Installs the filter of system calls alone, for all threads of the process. Returns false on
    /// a processor for which there is none.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn filter_calls(&self) -> Result<bool, SandboxError> {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        calls::filter(self).map_err(|error| SandboxError::System { what: "filter system calls", error })?;
        Ok(cfg!(any(target_arch = "x86_64", target_arch = "aarch64")))
    }

    /// Returns the capabilities that the process keeps. The ambient set follows the inheritable
    /// one (capabilities(7)).
    fn drop_capabilities(&self) -> Result<CapabilitySet, Errno> {
        let mut wanted = CapabilitySet::NET_RAW | CapabilitySet::NET_ADMIN;
        wanted.set(CapabilitySet::SYS_ADMIN, self.keep_netns);
        wanted.set(CapabilitySet::BPF | CapabilitySet::IPC_LOCK, self.keep_xdp);
        let kept = capabilities(None)?.permitted & wanted;
        let inheritable = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
        Ok(kept)
    }
}

/// Returns the number of threads of this process, or 1 without procfs. A thread that ends is not
/// counted: it runs no program any more, and after its join the kernel lists it for a moment.
fn threads() -> usize {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return 1 };
    tasks
        .flatten()
        .filter(|task| fs::read_to_string(task.path().join("stat")).is_ok_and(|stat| runs(&stat)))
        .count()
}

/// Returns true if the thread of this line of `/proc/PID/task/TID/stat` (proc_pid_stat(5)) does not
/// end: its flags, the seventh word after its name, lack `PF_EXITING`. The name may hold blanks and
/// parentheses. A line that is not understood is that of a thread that runs.
fn runs(stat: &str) -> bool {
    const PF_EXITING: u64 = 4;
    let (_, words) = stat.rsplit_once(')').unwrap_or_default();
    words
        .split_whitespace()
        .nth(6)
        .and_then(|flags| flags.parse::<u64>().ok())
        .is_none_or(|flags| flags & PF_EXITING == 0)
}

/// Returns true if the bounding set is empty; false if `CAP_SETPCAP` is missing to empty it.
fn empty_bounding_set() -> Result<bool, Errno> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) => {}
            Ok(false) => continue,
            // The kernel has no capability of this number, and none above it.
            Err(Errno::INVAL) => return Ok(true),
            Err(errno) => return Err(errno),
        }
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            Err(Errno::PERM) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ends_is_not_counted() {
        assert!(runs("7 (a name) R) S 1 7 7 0 -1 4194368 108 0"));
        assert!(!runs("7 (a name) R) R 1 7 7 0 -1 4194372 108 0"));
        assert!(runs("7 (a name"));
        assert!(runs(""));
        assert!(runs(&fs::read_to_string("/proc/thread-self/stat").expect("procfs")));
    }

    /// The kernel lists a thread that was joined until its parent, the kernel itself, has taken it
    /// away.
    #[test]
    fn a_joined_thread_is_not_counted() {
        for _ in 0..2_000 {
            let id = std::thread::spawn(rustix::thread::gettid).join().expect("no panic");
            let stat = fs::read_to_string(format!("/proc/self/task/{}/stat", id.as_raw_nonzero()));
            assert!(!stat.is_ok_and(|stat| runs(&stat)));
        }
    }
}
