//! `txweir daemon` as a service of systemd: the sockets that it was started with, and the form of
//! its log.

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use txweir::daemon::{Entrance, Listener};
use txweir::device::inherited;
use txweir::runtime::Stamp;

use crate::Failure;

/// The sockets that the service manager has opened (`FileDescriptorName=`).
#[derive(Debug, Default)]
pub struct Sockets {
    /// The Unix socket for clients: the one of any other name.
    pub control: Option<Listener>,
    /// `readers`: the Unix socket whose clients may only look.
    pub readers: Option<Listener>,
    /// `metrics`: the socket for metrics, or any that is no Unix socket.
    pub metrics: Option<Entrance>,
}

impl Sockets {
    /// Takes over the sockets of this process.
    ///
    /// # Errors
    /// One of them is no socket that the daemon can serve, or there are two of a kind.
    pub fn take() -> Result<Self, Failure> {
        let mut all = Self::default();
        for (name, socket) in inherited().map_err(Failure::usage)? {
            all.add(&name, socket).map_err(|e| Failure::usage(format!("LISTEN_FDS: {name}: {e}")))?;
        }
        Ok(all)
    }

    fn add(&mut self, name: &str, socket: OwnedFd) -> Result<(), String> {
        let text = |e: std::io::Error| format!("expected a listening stream socket, given another: {e}");
        // A Unix socket has no address of TCP, and the reverse.
        let is_tcp = TcpListener::from(socket.try_clone().map_err(text)?).local_addr().is_ok();
        let taken = match (name, is_tcp) {
            (_, true) => {
                let socket = TcpListener::from(socket);
                socket.set_nonblocking(true).map_err(text)?;
                self.metrics.replace(Entrance::Tcp(socket)).is_some()
            }
            ("metrics", false) => {
                self.metrics.replace(Entrance::Unix(Listener::given(socket).map_err(text)?)).is_some()
            }
            ("readers", false) => self.readers.replace(Listener::given(socket).map_err(text)?).is_some(),
            _ => self.control.replace(Listener::given(socket).map_err(text)?).is_some(),
        };
        if taken {
            return Err(
                "expected one socket for clients, one for readers and one for metrics, given two".into()
            );
        }
        Ok(())
    }
}

/// Returns the text ahead of each line of the log: its level if the standard error is the journal
/// (`JOURNAL_STREAM`, systemd.exec(5)), else the time if it is wanted.
pub fn stamp(log_times: bool) -> Stamp {
    let journal = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    // The variable may be that of a parent whose standard error was another one.
    let here = fs::metadata("/proc/self/fd/2").map(|there| format!("{}:{}", there.dev(), there.ino()));
    match here.is_ok_and(|here| here == journal) {
        true => Stamp::Level,
        false if log_times => Stamp::Time,
        false => Stamp::None,
    }
}
