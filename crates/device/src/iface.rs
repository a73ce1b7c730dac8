//! Interfaces by name: what may be one, and what the kernel says about it.

use std::fmt;
use std::str::FromStr;

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::sys;

/// The name of a network interface: 1 to 15 bytes, as the kernel allows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IfName(String);

/// Why a text is not the name of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameError {
    /// Nothing, or more than 15 bytes (`IFNAMSIZ` - 1); how many there are is given.
    Length(usize),
    /// A character that the kernel does not take (white space, `/`, `:`), or that stands for something else
    /// (`%`, by which the kernel numbers new interfaces).
    Character(char),
    /// `.` or `..`.
    Dots,
}

impl IfName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`NameError`] for what can never be the name of an interface. Whether there is one is another question.
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(NameError::Length(name.len()));
        }
        if matches!(name, "." | "..") {
            return Err(NameError::Dots);
        }
        let wrong = |c: &char| matches!(c, '/' | ':' | '%') || c.is_whitespace() || c.is_control();
        match name.chars().find(wrong) {
            Some(c) => Err(NameError::Character(c)),
            None => Ok(Self(name.to_owned())),
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IfName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for IfName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(0) => write!(f, "an interface name cannot be empty"),
            Self::Length(len) => write!(f, "an interface name has at most 15 bytes, this one has {len}"),
            Self::Character(c) => write!(f, "an interface name cannot contain {c:?}"),
            Self::Dots => write!(f, "`.` and `..` cannot be interface names"),
        }
    }
}

impl std::error::Error for NameError {}

/// What an interface turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Tap,
    Tun,
    Other { driver: String },
}

/// Questions about interfaces of one network namespace: that of the thread which opened it, for good.
///
/// All go through ioctls on a socket, and none through `/sys/class/net`: a mounted sysfs shows the namespace in
/// which it was mounted, not that of the thread that looks, so that it answers for the wrong interfaces as soon as
/// a thread has moved (namespaces(7), sysfs(5)).
#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

impl Control {
    pub(crate) fn open() -> Result<Self, Errno> {
        let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            // A kernel may be built without IPv4; any other family answers the same questions.
            .or_else(|_| socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None))?;
        Ok(Self(fd))
    }

    /// The interface's index, or `None` when there is no such interface.
    pub(crate) fn index(&self, name: &IfName) -> Result<Option<u32>, Errno> {
        match rustix::net::netdevice::name_to_index(&self.0, name.as_str()) {
            Ok(index) => Ok(Some(index)),
            Err(Errno::NODEV) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// What kind of interface this is. The TUN driver tells its two kinds apart by its bus information.
    pub(crate) fn kind(&self, name: &IfName) -> Result<Found, Errno> {
        match sys::if_driver(self.0.as_fd(), name) {
            Ok((driver, bus)) if driver == "tun" => Ok(if bus == "tap" { Found::Tap } else { Found::Tun }),
            Ok((driver, _)) => Ok(Found::Other { driver }),
            // A driver without ethtool support is not the TUN driver.
            Err(Errno::OPNOTSUPP) => Ok(Found::Other { driver: "unknown".to_owned() }),
            Err(errno) => Err(errno),
        }
    }

    /// Whether frames begin with an Ethernet header: `ARPHRD_ETHER`, or the loopback's.
    pub(crate) fn is_ethernet(&self, name: &IfName) -> Result<bool, Errno> {
        let kind = sys::if_hardware(self.0.as_fd(), name)?;
        Ok(kind == libc::ARPHRD_ETHER || kind == libc::ARPHRD_LOOPBACK)
    }

    pub(crate) fn is_up(&self, name: &IfName) -> Result<bool, Errno> {
        Ok(sys::if_flags(self.0.as_fd(), name)? & libc::IFF_UP != 0)
    }

    pub(crate) fn mtu(&self, name: &IfName) -> Result<usize, Errno> {
        usize::try_from(sys::if_mtu(self.0.as_fd(), name)?).map_err(|_| Errno::INVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "eth0", "tap-client", "enp0s31f6.100", "fifteen-bytes-0", "übertragung"] {
            assert_eq!(IfName::new(good).unwrap().as_str(), good);
        }
        let message = |name: &str| IfName::new(name).unwrap_err().to_string();
        assert_eq!(message(""), "an interface name cannot be empty");
        assert_eq!(message("sixteen-bytes-00"), "an interface name has at most 15 bytes, this one has 16");
        assert_eq!(message("tap%d"), "an interface name cannot contain '%'");
        assert_eq!(message("tap 0"), "an interface name cannot contain ' '");
        assert_eq!(message("tap\0"), "an interface name cannot contain '\\0'");
        assert_eq!(message(".."), "`.` and `..` cannot be interface names");
    }

    /// The loopback exists in every namespace and needs no privilege.
    #[test]
    fn the_loopback_is_known() {
        let control = Control::open().unwrap();
        let lo = IfName::new("lo").unwrap();
        assert!(control.index(&lo).unwrap().is_some());
        assert!(control.is_ethernet(&lo).unwrap());
        assert!(matches!(control.kind(&lo).unwrap(), Found::Other { .. }));
        assert!(control.mtu(&lo).unwrap() >= 1280);
        assert_eq!(control.index(&IfName::new("no-such-if").unwrap()).unwrap(), None);
    }
}
