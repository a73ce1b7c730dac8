//! Named network namespaces, entered for the duration of one call.

use std::path::PathBuf;
use std::{fmt, io, thread};

use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::sys;

/// The directory in which ip-netns(8) keeps its names.
const NAMED: &str = "/run/netns";

/// A network namespace: a name that `ip netns` gave, or an absolute path such as
/// `/proc/4711/ns/net`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Netns(String);

/// The reason for which a network namespace could not be entered.
#[derive(Debug)]
pub(crate) enum EnterError {
    /// There is no such network namespace.
    Missing,
    /// Entering it needs `CAP_SYS_ADMIN`.
    Denied,
    /// The system refused a step for another reason.
    System {
        /// The step, as a verb phrase that the name of the namespace completes: "enter the network
        /// namespace of".
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl EnterError {
    fn system(what: &'static str, errno: Errno) -> Self {
        Self::System { what, error: errno.into() }
    }
}

impl Netns {
    /// Takes a name or an absolute path. A name is one path component, and not `.` or `..`.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let name = !matches!(text, "" | "." | "..") && !text.contains('/');
        let usable = (name || text.starts_with('/')) && !text.contains('\0');
        usable.then(|| Self(text.to_owned()))
    }

    /// Returns the path of the file that stands for the namespace.
    #[must_use]
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(NAMED).join(&self.0) // an absolute path replaces the directory
    }

    /// Runs `f` in this namespace and returns its result. Descriptors that `f` opens stay in this
    /// namespace. `f` runs on a thread of its own, because the namespace is an attribute of the
    /// thread: if the way back failed on the caller's thread, that thread would be left in the
    /// wrong namespace.
    ///
    /// # Errors
    /// The namespace does not exist, or this process may not enter it (`CAP_SYS_ADMIN`).
    ///
    /// # Panics
    /// Only when `f` does.
    pub(crate) fn within<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, EnterError> {
        let path = self.path();
        let fd =
            rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| {
                match errno {
                    Errno::NOENT | Errno::NOTDIR => EnterError::Missing,
                    Errno::ACCESS | Errno::PERM => EnterError::Denied,
                    errno => EnterError::system("open the network namespace of", errno),
                }
            })?;
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, || {
                match move_into_link_name_space(fd.as_fd(), Some(LinkNameSpaceType::Network)) {
                    Ok(()) => Ok(f()),
                    Err(Errno::PERM) => Err(EnterError::Denied),
                    // The file exists, but it is no network namespace.
                    Err(Errno::INVAL) => Err(EnterError::Missing),
                    Err(errno) => Err(EnterError::system("enter the network namespace of", errno)),
                }
            });
            let thread = thread.map_err(|error| EnterError::System { what: "start a thread for", error })?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Runs `f` in a new network namespace without a name, on a thread of its own, and returns its
/// result. Commands that `f` starts are in the namespace as well. The namespace ends with the last
/// thread, process and descriptor in it.
///
/// # Errors
/// The system's error, above all that this process may not make a namespace (`CAP_SYS_ADMIN`).
///
/// # Panics
/// Only when `f` does.
pub fn within_new<T: Send>(f: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, || {
            sys::unshare(libc::CLONE_NEWNET)?;
            Ok(f())
        })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Moves this process, which has one thread, into a user namespace of its own, in which it is root,
/// and into new namespaces for the network, mounts, process numbers (of its children), IPC and the
/// host's name. It needs no privilege. Mounts that it makes are not seen outside.
///
/// # Errors
/// The system's error, and the step that it refused. The kernel, or the sandbox around this
/// process, may not allow user namespaces; a process with several threads cannot make one.
pub fn enclose() -> Result<(), (io::Error, &'static str)> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let all = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    sys::unshare(all).map_err(|errno| (errno.into(), "make a user namespace"))?;
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text)
            .map_err(|e| (e, "become root in the user namespace"))
    };
    // Without this the kernel refuses a map of groups from a process without privileges.
    write("setgroups", "deny".into())?;
    write("uid_map", format!("0 {user} 1"))?;
    write("gid_map", format!("0 {group} 1"))
}

impl fmt::Display for Netns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn names_and_paths() {
        assert_eq!(Netns::new("client").unwrap().path(), Path::new("/run/netns/client"));
        assert_eq!(Netns::new("/proc/1/ns/net").unwrap().path(), Path::new("/proc/1/ns/net"));
        for wrong in ["", ".", "..", "a/b", "a\0"] {
            assert_eq!(Netns::new(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_missing_namespace_is_missing() {
        let missing = Netns::new("txweir-no-such-namespace").unwrap();
        let error = missing.within(|| ()).unwrap_err();
        assert!(matches!(error, EnterError::Missing), "{error:?}");
    }
}
