//! The words of a service to its manager, systemd: `sd_notify(3)` over a datagram socket, and the
//! sockets that the manager has opened before, `sd_listen_fds(3)`.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use txweir_core::{Instant, Nanos};

/// The manager of this service, if there is one.
#[derive(Debug, Default)]
pub struct Manager {
    socket: Option<UnixDatagram>,
    /// The time between two signs of life that the manager wants at most.
    watchdog: Option<Nanos>,
}

/// A state of the service that its manager wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Clients can connect.
    Ready,
    /// The configuration is read again from this time on.
    Reloading(Instant),
    /// The service ends.
    Stopping,
    /// The loop goes on.
    Alive,
}

impl Manager {
    /// Returns the manager that the environment names (`NOTIFY_SOCKET`, `WATCHDOG_USEC`,
    /// `WATCHDOG_PID`). The connection is made here: a confined process can make none.
    ///
    /// # Errors
    /// One sentence that names the variable, what is expected and what it has.
    pub fn of_environment() -> Result<Self, String> {
        let text = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let Some(path) = text("NOTIFY_SOCKET") else { return Ok(Self::default()) };
        let number = |name: &str| -> Result<Option<u64>, String> {
            let Some(given) = text(name) else { return Ok(None) };
            let number = given.to_str().and_then(|digits| digits.parse().ok());
            number.map(Some).ok_or_else(|| format!("{name}: expected a number, given {}", given.display()))
        };
        let is_mine = number("WATCHDOG_PID")?.is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC")?.filter(|us| is_mine && *us > 0);
        let socket = connect(&path).map_err(|e| format!("NOTIFY_SOCKET {}: {e}", path.display()))?;
        Ok(Self { socket: Some(socket), watchdog: watchdog.map(|us| Nanos(us.saturating_mul(1000))) })
    }

    /// Returns the time between two signs of life: half of what the manager wants at most.
    #[must_use]
    pub fn interval(&self) -> Option<Nanos> {
        self.watchdog.map(|most| Nanos(most.0 / 2))
    }

    /// Tells the manager a state. A manager that does not listen loses it: the service goes on.
    pub fn tell(&self, told: Told) {
        let Some(socket) = &self.socket else { return };
        let text = match told {
            Told::Ready => "READY=1".to_owned(),
            Told::Reloading(now) => format!("RELOADING=1\nMONOTONIC_USEC={}", now.0 / 1000),
            Told::Stopping => "STOPPING=1".to_owned(),
            Told::Alive => "WATCHDOG=1".to_owned(),
        };
        // The socket does not wait: packets would.
        let _ = socket.send(text.as_bytes());
    }
}

/// Connects to a path, or to an abstract name that begins with `@`.
fn connect(path: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(path)?,
        _ => {
            let expected = "expected a path from / on, or @ and a name";
            return Err(io::Error::new(ErrorKind::InvalidInput, expected));
        }
    };
    socket.connect_addr(&address)?;
    Ok(socket)
}
