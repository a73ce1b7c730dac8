//! Errors of opening a link: one sentence each, which names the interface and says what to do.

use std::net::IpAddr;
use std::{fmt, io};

use rustix::io::Errno;

use crate::netns::{EnterError, Netns};
use crate::socket::SOCKET_PATH_MAX;

/// A link that could not be opened.
#[derive(Debug)]
pub struct OpenError {
    /// The interface, or the endpoint as it was written (`client/tap0`).
    pub interface: String,
    /// The reason.
    pub cause: OpenCause,
}

/// The reason for which a link could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenCause {
    /// There is no such interface, and the options did not ask for its creation.
    Missing,
    /// There is no such network namespace.
    NoNamespace(Netns),
    /// No interface has the local address of a tunnel; the address is given.
    NoAddress(IpAddr),
    /// Entering the network namespace needs `CAP_SYS_ADMIN`.
    NamespaceDenied(Netns),
    /// `/dev/net/tun` is missing.
    NoTunDevice,
    /// `/dev/net/tun` may not be opened.
    TunDeviceDenied,
    /// Attaching to the TAP device needs `CAP_NET_ADMIN` or ownership.
    TapDenied,
    /// The TAP device already has all the queues it may have.
    Busy,
    /// A packet socket of txweir is on the interface already: each frame would leave twice.
    Forwarded,
    /// The interface exists but is not a TAP device; its driver is given.
    NotTap(String),
    /// The interface is a TUN device: layer 3, without Ethernet headers.
    IsTun,
    /// Opening a packet socket needs `CAP_NET_RAW`.
    PacketDenied,
    /// XDP sockets need `CAP_NET_RAW`, `CAP_NET_ADMIN` and `CAP_BPF`.
    XdpDenied,
    /// The interface has an XDP program, or one of its queues an XDP socket, already.
    XdpBusy,
    /// The memory of the rings exceeds what this process may lock (`RLIMIT_MEMLOCK`); the bytes
    /// needed are given.
    XdpMemory(usize),
    /// The kernel has no XDP sockets.
    NoXdp,
    /// The path of the socket does not fit into an address; its bytes are given.
    SocketTooLong(usize),
    /// Another process listens at the socket.
    SocketTaken,
    /// There is a file at the path that is not a socket.
    NotASocket,
    /// Frames of the interface do not begin with an Ethernet header.
    NotEthernet,
    /// The system refused a step for a reason that has no sentence of its own.
    System {
        /// The step, as a verb that the interface's name completes: "bind a packet socket to".
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl OpenError {
    /// True if another user has the interface, and may let go of it.
    #[must_use]
    pub const fn is_in_use(&self) -> bool {
        matches!(
            self.cause,
            OpenCause::Forwarded | OpenCause::Busy | OpenCause::XdpBusy | OpenCause::SocketTaken
        )
    }
    /// True if the interface, its network namespace, or the local address of a tunnel does not
    /// exist: each may be made later.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        matches!(self.cause, OpenCause::Missing | OpenCause::NoNamespace(_) | OpenCause::NoAddress(_))
    }
}

impl OpenCause {
    pub(crate) fn system(what: &'static str, errno: Errno) -> Self {
        Self::System { what, error: errno.into() }
    }

    /// Returns the reason for which `netns` could not be entered.
    pub(crate) fn entering(netns: &Netns, error: EnterError) -> Self {
        match error {
            EnterError::Missing => Self::NoNamespace(netns.clone()),
            EnterError::Denied => Self::NamespaceDenied(netns.clone()),
            EnterError::System { what, error } => Self::System { what, error },
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = &self.interface;
        // Commands are shown with the bare interface name: the namespace is not part of it.
        let name = at.rsplit(['/', ':']).next().unwrap_or(at);
        match &self.cause {
            OpenCause::Missing if at.starts_with("packet:") || at.starts_with("xdp:") => {
                write!(f, "interface `{at}` does not exist: `ip link` lists those that do")
            }
            OpenCause::Missing => write!(
                f,
                "interface `{at}` does not exist: create it first (`ip tuntap add dev {name} mode tap`)"
            ),
            OpenCause::NoNamespace(netns) => write!(
                f,
                "interface `{at}`: there is no network namespace `{netns}` (looked at {}): \
                 create it first (`ip netns add`)",
                netns.path().display()
            ),
            OpenCause::NoAddress(ip) => write!(
                f,
                "link `{at}`: no interface has the address {ip}: add it first \
                 (`ip address add {ip} dev NAME`)"
            ),
            OpenCause::NamespaceDenied(netns) => write!(
                f,
                "interface `{at}`: entering the network namespace `{netns}` needs CAP_SYS_ADMIN: run as root, \
                 a daemon also with --keep-netns"
            ),
            OpenCause::NoTunDevice => write!(
                f,
                "TAP device `{at}`: /dev/net/tun is missing: load the driver (`modprobe tun`), \
                 or pass the device into the container"
            ),
            OpenCause::TunDeviceDenied => {
                write!(f, "TAP device `{at}`: no permission to open /dev/net/tun: run as root")
            }
            OpenCause::TapDenied => write!(
                f,
                "TAP device `{at}`: attaching to it needs CAP_NET_ADMIN: run as root, \
                 or make it yours (`ip tuntap add dev {name} mode tap user USER`)"
            ),
            OpenCause::Busy => {
                write!(f, "TAP device `{at}` is in use by another process: stop that one first")
            }
            OpenCause::Forwarded => write!(
                f,
                "interface `{at}` has a packet socket of txweir already, and each frame would leave twice: \
                 stop the other `txweir run` or daemon, or delete its link"
            ),
            OpenCause::NotTap(driver) => write!(
                f,
                "interface `{at}` is not a TAP device, its driver is `{driver}`: open it as `packet:`"
            ),
            OpenCause::IsTun => write!(
                f,
                "interface `{at}` is a TUN device, which carries no Ethernet frames: \
                 a TAP device is needed (`ip tuntap add dev NAME mode tap`)"
            ),
            OpenCause::PacketDenied => {
                write!(f, "interface `{at}`: opening a packet socket needs CAP_NET_RAW: run as root")
            }
            OpenCause::XdpDenied => write!(
                f,
                "interface `{at}`: XDP sockets need CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: run as root, \
                 a daemon also with --keep-xdp"
            ),
            OpenCause::XdpBusy => write!(
                f,
                "interface `{at}` has an XDP program or an XDP socket already: stop its owner \
                 (`ip link show {name}` tells of a program), or open it as `packet:`"
            ),
            OpenCause::XdpMemory(bytes) => write!(
                f,
                "interface `{at}`: the rings of its XDP sockets need {} KiB of locked memory: \
                 raise the limit (`ulimit -l`), or run with CAP_IPC_LOCK, a daemon also with --keep-xdp",
                bytes.div_ceil(1024)
            ),
            OpenCause::NoXdp => write!(
                f,
                "interface `{at}`: this kernel has no XDP sockets (CONFIG_XDP_SOCKETS): open it as `packet:`"
            ),
            OpenCause::SocketTooLong(len) => write!(
                f,
                "link `{at}`: the path of a socket has at most {SOCKET_PATH_MAX} bytes, this one has {len}"
            ),
            OpenCause::SocketTaken => write!(
                f,
                "link `{at}`: another process listens at this socket already: stop it, or give another path"
            ),
            OpenCause::NotASocket => {
                write!(f, "link `{at}`: there is a file of this name that is not a socket")
            }
            OpenCause::NotEthernet => {
                write!(f, "interface `{at}` does not carry Ethernet frames")
            }
            OpenCause::System { what, error } => write!(f, "cannot {what} `{at}`: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            OpenCause::System { error, .. } => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_each() {
        let message = |cause| OpenError { interface: "client/tap0".to_owned(), cause }.to_string();
        assert_eq!(
            message(OpenCause::Missing),
            "interface `client/tap0` does not exist: create it first (`ip tuntap add dev tap0 mode tap`)"
        );
        let packet = OpenError { interface: "packet:a/eth0".to_owned(), cause: OpenCause::Missing };
        assert_eq!(
            packet.to_string(),
            "interface `packet:a/eth0` does not exist: `ip link` lists those that do"
        );
        assert_eq!(
            message(OpenCause::NoTunDevice),
            "TAP device `client/tap0`: /dev/net/tun is missing: load the driver (`modprobe tun`), or pass the \
             device into the container"
        );
        assert_eq!(
            message(OpenCause::TapDenied),
            "TAP device `client/tap0`: attaching to it needs CAP_NET_ADMIN: run as root, or make it yours \
             (`ip tuntap add dev tap0 mode tap user USER`)"
        );
        assert_eq!(
            message(OpenCause::NotTap("veth".to_owned())),
            "interface `client/tap0` is not a TAP device, its driver is `veth`: open it as `packet:`"
        );
        assert_eq!(
            message(OpenCause::NoNamespace(Netns::new("client").unwrap())),
            "interface `client/tap0`: there is no network namespace `client` (looked at /run/netns/client): \
             create it first (`ip netns add`)"
        );
        let place = "vxlan:42,198.51.100.7,198.51.100.8".to_owned();
        let ip = std::net::Ipv4Addr::new(198, 51, 100, 7).into();
        let away = OpenError { interface: place, cause: OpenCause::NoAddress(ip) };
        assert_eq!(
            away.to_string(),
            "link `vxlan:42,198.51.100.7,198.51.100.8`: no interface has the address 198.51.100.7: \
             add it first (`ip address add 198.51.100.7 dev NAME`)"
        );
        assert!(away.is_missing() && !away.is_in_use());
        assert_eq!(
            message(OpenCause::system("bind a packet socket to", Errno::NODEV)),
            "cannot bind a packet socket to `client/tap0`: No such device (os error 19)"
        );
    }
}
