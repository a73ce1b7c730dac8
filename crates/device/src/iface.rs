//! Interfaces by name: the facts that the kernel reports about them.

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::name::IfName;
use crate::sys;

/// The kind that an interface turned out to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Tap,
    Tun,
    Other { driver: String },
}

/// Questions about the interfaces of one network namespace: that of the thread which opened it, for
/// good.
///
/// All questions go through ioctls on a socket, and none through `/sys/class/net`: a mounted sysfs
/// shows the namespace in which it was mounted, not that of the thread that reads it. It would
/// report the wrong interfaces as soon as a thread has moved (namespaces(7), sysfs(5)).
#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

impl Control {
    pub(crate) fn open() -> Result<Self, Errno> {
        let fd = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            // A kernel may be built without IPv4; any other family answers the same questions.
            .or_else(|_| socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None))?;
        Ok(Self(fd))
    }

    /// Returns the interface's index, or `None` when there is no such interface.
    pub(crate) fn index(&self, name: &IfName) -> Result<Option<u32>, Errno> {
        match rustix::net::netdevice::name_to_index(&self.0, name.as_str()) {
            Ok(index) => Ok(Some(index)),
            Err(Errno::NODEV) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Returns the present name of the interface with this index. An index belongs to one interface
    /// while that exists, also where the interface is renamed.
    ///
    /// # Errors
    /// `NODEV`: there is no such interface in this namespace.
    pub(crate) fn name_of(&self, index: u32) -> Result<IfName, Errno> {
        let name = rustix::net::netdevice::index_to_name(&self.0, index)?;
        IfName::new(&name).map_err(|_| Errno::NODEV)
    }

    /// Returns the kind of an interface. The TUN driver tells its two kinds apart by its bus
    /// information.
    pub(crate) fn kind(&self, name: &IfName) -> Result<Found, Errno> {
        match sys::if_driver(self.0.as_fd(), name) {
            Ok((driver, bus)) if driver == "tun" => Ok(if bus == "tap" { Found::Tap } else { Found::Tun }),
            Ok((driver, _)) => Ok(Found::Other { driver }),
            // A driver without ethtool support is not the TUN driver.
            Err(Errno::OPNOTSUPP) => Ok(Found::Other { driver: "unknown".to_owned() }),
            Err(errno) => Err(errno),
        }
    }

    /// True if frames begin with an Ethernet header: the hardware type is `ARPHRD_ETHER` or the
    /// loopback's.
    pub(crate) fn is_ethernet(&self, name: &IfName) -> Result<bool, Errno> {
        let kind = sys::if_hardware(self.0.as_fd(), name)?;
        Ok(kind == libc::ARPHRD_ETHER || kind == libc::ARPHRD_LOOPBACK)
    }

    /// Returns the number of receive and of transmit queues. A driver that does not tell has one of
    /// each.
    pub(crate) fn queues(&self, name: &IfName) -> Result<[u32; 2], Errno> {
        match sys::if_channels(self.0.as_fd(), name) {
            Err(Errno::OPNOTSUPP) => Ok([1, 1]),
            told => told.map(|both| both.map(|n| n.max(1))),
        }
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

    /// The loopback exists in every namespace and needs no privilege.
    #[test]
    fn the_loopback_is_known() {
        let control = Control::open().unwrap();
        let lo = IfName::new("lo").unwrap();
        let index = control.index(&lo).unwrap().unwrap();
        assert_eq!(control.name_of(index).unwrap(), lo);
        assert_eq!(control.name_of(u32::MAX >> 1).unwrap_err(), Errno::NODEV);
        assert!(control.is_ethernet(&lo).unwrap());
        assert!(matches!(control.kind(&lo).unwrap(), Found::Other { .. }));
        assert!(control.mtu(&lo).unwrap() >= 1280);
        assert_eq!(control.index(&IfName::new("no-such-if").unwrap()).unwrap(), None);
    }
}
