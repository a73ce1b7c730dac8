//! Named network namespaces, entered for the time of one call.

use std::path::PathBuf;
use std::{fmt, io, thread};

use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::sys;

/// Where ip-netns(8) keeps its names.
const NAMED: &str = "/run/netns";

/// A network namespace: a name that `ip netns` gave, or an absolute path such as `/proc/4711/ns/net`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Netns(String);

/// Why a network namespace could not be entered.
#[derive(Debug)]
pub(crate) enum EnterError {
    /// There is no such network namespace.
    Missing,
    /// Entering it needs `CAP_SYS_ADMIN`.
    Denied,
    /// The system refused a step for another reason.
    System {
        /// The step, as a verb that the name of what is used there completes: "enter the network namespace of".
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

    /// The file that stands for the namespace.
    #[must_use]
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(NAMED).join(&self.0) // an absolute path replaces the directory
    }

    /// Runs `f` in this namespace and gives back what it returns. Descriptors opened there stay in the namespace
    /// they belong to. It runs on a thread of its own, because a namespace is an attribute of the thread, and a
    /// failed way back would leave the caller's in the wrong one.
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
                    // Whatever the file is, it is no network namespace.
                    Err(Errno::INVAL) => Err(EnterError::Missing),
                    Err(errno) => Err(EnterError::system("enter the network namespace of", errno)),
                }
            });
            let thread = thread.map_err(|error| EnterError::System { what: "start a thread for", error })?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Runs `f` in a new network namespace without a name, on a thread of its own, and gives back what it returns. Commands that
/// `f` starts are in it as well. The namespace ends with the last thread, process and descriptor in it.
///
/// # Errors
/// The system's, above all that this process may not make one (`CAP_SYS_ADMIN`).
///
/// # Panics
/// Only when `f` does.
pub fn within_new<T: Send>(f: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, || {
            sys::unshare_net()?;
            Ok(f())
        })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
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
