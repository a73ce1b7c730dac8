//! `--metrics` of `txweir daemon`: the socket at which collectors get metrics.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use txweir::daemon::socket::own_group;
use txweir::daemon::{Entrance, Listener};

use crate::Failure;

/// The place of the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address with a port, for TCP.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// Reads a place.
pub fn place(text: &str) -> Result<Place, String> {
    if text.contains('/') {
        return Ok(Place::Unix(text.into()));
    }
    let expected = "expected an address with a port (127.0.0.1:9477, [::1]:9477), or a path with a /";
    text.parse().map(Place::Tcp).map_err(|_| format!("{expected}, given {text}"))
}

impl Place {
    /// Makes the socket. One with a path is for the members of the daemon's group as well.
    ///
    /// # Errors
    /// The system refuses, or another daemon serves at the path.
    pub fn bind(&self) -> Result<Entrance, Failure> {
        match self {
            Self::Tcp(address) => {
                let bound = TcpListener::bind(address);
                let bound = bound.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
                bound.map(Entrance::Tcp).map_err(|e| Failure::usage(format!("--metrics {address}: {e}")))
            }
            Self::Unix(path) => {
                let bound = Listener::bind(path).and_then(|listener| listener.open_to(own_group()));
                bound.map(Entrance::Unix).map_err(|e| Failure::usage(format!("--metrics: {e}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_or_a_path() {
        let is = |text: &str| place(text).ok();
        assert_eq!(is("127.0.0.1:9477"), Some(Place::Tcp(([127, 0, 0, 1], 9477).into())));
        assert_eq!(is("[::1]:1"), "[::1]:1".parse().ok().map(Place::Tcp));
        assert_eq!(is("./m.sock"), Some(Place::Unix("./m.sock".into())));
        let refused = place("9477").err();
        assert_eq!(
            refused.as_deref(),
            Some(
                "expected an address with a port (127.0.0.1:9477, [::1]:9477), or a path with a /, given 9477"
            )
        );
    }
}
