//! The place of the daemon's socket, and the socket itself.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

pub use rustix::fs::Gid;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, chmod, chownat};
use rustix::io::Errno;
use txweir_device::{ListenError, Listening, SOCKET_PATH_MAX, file_of};

/// The environment variable that names the path on which the daemon listens and to which clients
/// connect.
pub const VARIABLE: &str = "TXWEIR_SOCKET";

/// Returns the path to use: the given one, else the one that `TXWEIR_SOCKET` names, else
/// `txweir.sock` in `XDG_RUNTIME_DIR`, else, for root, `/run/txweir.sock`.
///
/// # Errors
/// There is none of these.
pub fn path(given: Option<&Path>) -> Result<PathBuf, SocketError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let root = rustix::process::geteuid().is_root();
    choose(given, variable(VARIABLE), variable("XDG_RUNTIME_DIR"), root).ok_or(SocketError::NoPath)
}

fn choose(
    given: Option<&Path>,
    named: Option<OsString>,
    runtime: Option<OsString>,
    root: bool,
) -> Option<PathBuf> {
    given
        .map(Path::to_path_buf)
        .or_else(|| named.map(PathBuf::from))
        .or_else(|| runtime.map(|dir| PathBuf::from(dir).join("txweir.sock")))
        .or_else(|| root.then(|| PathBuf::from("/run/txweir.sock")))
}

/// The reason for which there is no socket.
#[derive(Debug)]
#[non_exhaustive]
pub enum SocketError {
    /// No option and no variable names the path.
    NoPath,
    /// The path does not fit into the address of a socket.
    TooLong(PathBuf),
    /// Another daemon serves there.
    Taken(PathBuf),
    /// The file at the path is not a socket.
    NotASocket(PathBuf),
    /// No daemon serves there.
    NoDaemon(PathBuf),
    /// The system refused a step.
    System {
        /// The step, as a verb that the path completes.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPath => {
                write!(f, "no path for the socket: give --socket PATH, or set {VARIABLE} or XDG_RUNTIME_DIR")
            }
            Self::TooLong(path) => write!(
                f,
                "socket {}: the path of a socket has at most {SOCKET_PATH_MAX} bytes, this one has {}",
                path.display(),
                path.as_os_str().len()
            ),
            Self::Taken(path) => write!(
                f,
                "socket {}: a daemon serves there already: stop it, or give another --socket",
                path.display()
            ),
            Self::NotASocket(path) => {
                write!(f, "socket {}: there is a file of this name that is not a socket", path.display())
            }
            Self::NoDaemon(path) => write!(
                f,
                "no daemon at {path}: start one with `txweir daemon --socket {path}`, or say where it is with --socket \
                 or {VARIABLE}",
                path = path.display()
            ),
            Self::System { what, path, error } => write!(f, "cannot {what} {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for SocketError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Returns the group of this name in /etc/group (group(5)), or of this number.
///
/// # Errors
/// There is no such group, in words that complete `--socket-read-group`.
pub fn group(text: &str) -> Result<Gid, String> {
    let numbered = |number: &str| number.parse().ok().filter(|id| *id != u32::MAX).map(Gid::from_raw);
    if let Some(gid) = numbered(text) {
        return Ok(gid);
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let line = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut found = line.filter_map(|fields| match fields.as_slice() {
        [name, _, number, ..] if *name == text => numbered(number),
        _ => None,
    });
    found.next().ok_or_else(|| format!("expected a group of /etc/group, or its number, given \"{text}\""))
}

/// Returns the group of this process, to which its new files belong.
#[must_use]
pub fn own_group() -> Gid {
    rustix::process::getegid()
}

fn system(what: &'static str, path: &Path) -> impl Fn(io::Error) -> SocketError {
    move |error| SocketError::System { what, path: path.to_path_buf(), error }
}

/// Connects to a daemon.
///
/// # Errors
/// No daemon serves there, or this process may not connect to it.
pub fn connect(path: &Path) -> Result<UnixStream, SocketError> {
    check_length(path)?;
    UnixStream::connect(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => SocketError::NoDaemon(path.to_path_buf()),
        _ => system("connect to the daemon at", path)(error),
    })
}

fn check_length(path: &Path) -> Result<(), SocketError> {
    match path.as_os_str().len() {
        0..=SOCKET_PATH_MAX => Ok(()),
        _ => Err(SocketError::TooLong(path.to_path_buf())),
    }
}

/// A socket that clients connect to, removed when dropped.
///
/// Only its owner may connect ([`bind`](Self::bind)), from the moment the socket exists: on Linux
/// the mode of the unbound socket becomes that of the file that binding makes. A group may connect
/// too, if it is asked for ([`open_to`](Self::open_to)). A lock, `PATH.lock`, lies beside it while
/// the daemon lives: two daemons that find the socket of a dead one cannot both replace it.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    /// Dropped last.
    _lock: Option<Lock>,
}

/// The socket, and the owner of its file.
#[derive(Debug)]
enum Socket {
    /// This process has made it.
    Made(Listening),
    /// A service manager has made it at this path.
    Given(UnixListener, PathBuf),
}

/// The locked file beside a socket, removed when dropped. The lock lasts as long as it is open.
#[derive(Debug)]
struct Lock {
    _locked: File,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file is removed while it is still locked: a process that gets the removed lock tries
        // again.
        let _ = fs::remove_file(&self.path);
    }
}

impl Listener {
    /// Makes the socket, and replaces one that a dead daemon left behind.
    ///
    /// # Errors
    /// Another daemon serves there, or the system refuses.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        Self::made(path, Listening::at)
    }

    /// Makes a socket for messages of rtnetlink, each a packet, as [`bind`](Self::bind) makes one
    /// for lines.
    ///
    /// # Errors
    /// As those of [`bind`](Self::bind).
    pub fn bind_packets(path: &Path) -> Result<Self, SocketError> {
        Self::made(path, Listening::packets_at)
    }

    fn made(
        path: &Path,
        listen: fn(&Path, Option<Mode>) -> Result<Listening, ListenError>,
    ) -> Result<Self, SocketError> {
        check_length(path)?;
        let mut lock = path.as_os_str().to_os_string();
        lock.push(".lock");
        // A refusal from here on removes the lock again.
        let lock = take_lock(path, PathBuf::from(lock))?;
        let made = listen(path, Some(Mode::RUSR | Mode::WUSR)).map_err(|error| match error {
            ListenError::TooLong(_) => SocketError::TooLong(path.to_path_buf()),
            ListenError::Taken => SocketError::Taken(path.to_path_buf()),
            ListenError::NotASocket => SocketError::NotASocket(path.to_path_buf()),
            ListenError::System { what, error } => system(what, path)(error),
        })?;
        Ok(Self { socket: Socket::Made(made), _lock: Some(lock) })
    }

    /// Lets the members of a group connect too: the file gets this group and the mode 0660.
    ///
    /// # Errors
    /// The system refuses: without `CAP_CHOWN` the owner has to be a member of the group.
    pub fn open_to(self, group: Gid) -> Result<Self, SocketError> {
        let path = self.path();
        let step = |what: &'static str| move |e: Errno| system(what, path)(e.into());
        // No other file is changed: only the owner of the directory could put one there, who could
        // give the socket away as well.
        chownat(CWD, path, None, Some(group), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(step("set the group of the socket"))?;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP;
        chmod(path, mode).map_err(step("set the mode of the socket"))?;
        Ok(self)
    }

    /// Takes over a socket that a service manager has made, with its file and its mode, and that
    /// listens. The manager keeps the file.
    ///
    /// # Errors
    /// It is no Unix socket, or the system refuses.
    pub fn given(socket: OwnedFd) -> io::Result<Self> {
        let listener = UnixListener::from(socket);
        let path = listener.local_addr()?.as_pathname().map_or_else(PathBuf::new, Path::to_path_buf);
        listener.set_nonblocking(true)?;
        Ok(Self { socket: Socket::Given(listener, path), _lock: None })
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.socket {
            Socket::Made(made) => made.path(),
            Socket::Given(_, path) => path,
        }
    }

    /// Returns the socket itself, which is non-blocking.
    pub const fn socket(&self) -> &UnixListener {
        match &self.socket {
            Socket::Made(made) => made.socket(),
            Socket::Given(listener, _) => listener,
        }
    }
}

/// Number of attempts to take a lock that is removed in between. Before each further attempt, a
/// daemon has just ended.
const TRIES: usize = 100;

/// Takes the lock beside a socket. A symbolic link in its place is refused: it would lead to any
/// other file.
fn take_lock(path: &Path, lock: PathBuf) -> Result<Lock, SocketError> {
    for _ in 0..TRIES {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default()) // 0x20000
            .open(&lock)
            .map_err(system("make the lock", &lock))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(error)) => return Err(system("lock", &lock)(error)),
        }
        let mine = file.metadata().map(|m| (m.dev(), m.ino())).map_err(system("look at", &lock))?;
        if file_of(&lock).is_ok_and(|there| there == mine) {
            return Ok(Lock { _locked: file, path: lock });
        }
    }
    Err(SocketError::Taken(path.to_path_buf()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A directory that is removed with the test.
    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("txw-{}-{name}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }
        fn socket(&self) -> PathBuf {
            self.0.join("s")
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_nearest_says_where() {
        let dir = |text: &str| Some(OsString::from(text));
        let chosen = |given: Option<&str>, named, runtime, root| {
            choose(given.map(Path::new), named, runtime, root).map(|p| p.display().to_string())
        };
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(chosen(Some("a"), dir("b"), dir("c"), true), is("a"));
        assert_eq!(chosen(None, dir("b"), dir("c"), true), is("b"));
        assert_eq!(chosen(None, None, dir("c"), true), is("c/txweir.sock"));
        assert_eq!(chosen(None, None, None, true), is("/run/txweir.sock"));
        assert_eq!(chosen(None, None, None, false), None);
    }

    #[test]
    fn the_socket_is_private_exclusive_and_removed() {
        let dir = Dir::new("bind");
        let listener = Listener::bind(&dir.socket()).unwrap();
        assert_eq!(fs::metadata(dir.socket()).unwrap().permissions().mode() & 0o777, 0o600);
        let taken = Listener::bind(&dir.socket()).unwrap_err();
        assert!(matches!(taken, SocketError::Taken(_)), "{taken}");
        assert!(connect(&dir.socket()).is_ok());
        drop(listener);
        assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 0);
        assert!(matches!(connect(&dir.socket()), Err(SocketError::NoDaemon(_))));
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_living_one_is_not() {
        let dir = Dir::new("stale");
        drop(UnixListener::bind(dir.socket()).unwrap());
        assert!(dir.socket().exists());
        drop(Listener::bind(&dir.socket()).unwrap());
        // The socket of another program, which does not know the lock.
        let other = UnixListener::bind(dir.socket()).unwrap();
        assert!(matches!(Listener::bind(&dir.socket()), Err(SocketError::Taken(_))));
        drop(other);
        fs::remove_file(dir.socket()).unwrap();
        fs::write(dir.socket(), "precious").unwrap();
        assert!(matches!(Listener::bind(&dir.socket()), Err(SocketError::NotASocket(_))));
        assert_eq!(fs::read(dir.socket()).unwrap(), b"precious");
        // Nothing but that file: a refusal leaves no lock behind.
        assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 1);
    }

    #[test]
    fn a_planted_link_makes_no_file_elsewhere() {
        let dir = Dir::new("planted");
        let elsewhere = dir.0.join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, dir.0.join("s.lock")).unwrap();
        let refused = Listener::bind(&dir.socket()).unwrap_err().to_string();
        assert!(
            refused.starts_with("cannot make the lock ") && refused.contains("symbolic link"),
            "{refused}"
        );
        assert!(!elsewhere.exists() && fs::symlink_metadata(dir.0.join("s.lock")).unwrap().is_symlink());
    }

    #[test]
    fn of_many_that_start_at_once_one_wins() {
        let dir = Dir::new("race");
        drop(UnixListener::bind(dir.socket()).unwrap());
        let won = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| Listener::bind(&dir.socket()))).collect();
            let bound: Vec<_> = all.into_iter().filter_map(|t| t.join().unwrap().ok()).collect();
            bound.len()
        });
        assert_eq!(won, 1);
    }

    #[test]
    fn refusals_say_what_to_do() {
        let long = PathBuf::from(format!("/run/{}", "x".repeat(200)));
        assert!(
            Listener::bind(&long).unwrap_err().to_string().ends_with("at most 107 bytes, this one has 205")
        );
        assert!(matches!(connect(&long), Err(SocketError::TooLong(_))));
        assert_eq!(
            SocketError::NoDaemon("/run/s".into()).to_string(),
            "no daemon at /run/s: start one with `txweir daemon --socket /run/s`, or say where it is with --socket or \
             TXWEIR_SOCKET"
        );
        let nowhere = Listener::bind(Path::new("/no-such-directory/s")).unwrap_err().to_string();
        assert_eq!(
            nowhere,
            "cannot make the lock /no-such-directory/s.lock: No such file or directory (os error 2)"
        );
    }
}
