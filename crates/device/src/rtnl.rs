//! The number of frames that the kernel dropped ahead of a TAP device's reader, which the device
//! file does not tell: the interface's `tx_dropped`, by rtnetlink(7).

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// `RTM_GETLINK` and `RTM_NEWLINK` (rtnetlink(7), linux/rtnetlink.h).
const GET_LINK: u16 = 18;
const NEW_LINK: u16 = 16;
/// `NLM_F_REQUEST` (netlink(7)).
const REQUEST: u16 = 1;
/// `IFLA_STATS64` (linux/if_link.h): a `struct rtnl_link_stats64`.
const STATS: u16 = 23;
/// Byte of `tx_dropped` in that structure: its eighth counter of 64 bits.
const TX_DROPPED: usize = 7 * 8;
/// Bytes of `struct nlmsghdr`, and of `struct ifinfomsg` behind it.
const HEADER: usize = 16;
const INFO: usize = 16;
/// Bytes of a reply that are read. The attributes of a link take one or two thousand.
const REPLY: usize = 32 << 10;

/// The drops of one interface, in the network namespace of the thread that made this value.
#[derive(Debug)]
pub(crate) struct Dropped {
    socket: OwnedFd,
    index: u32,
    before: u64,
    /// The last number that the kernel told, for an interface that has left the namespace.
    last: u64,
}

impl Dropped {
    /// Begins to count. `None` where the kernel does not tell.
    pub(crate) fn count(index: u32) -> Option<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None).ok()?;
        let mut made = Self { socket, index, before: 0, last: 0 };
        made.before = made.ask().ok()??;
        made.last = made.before;
        Some(made)
    }

    /// Returns the number of frames dropped since the count began.
    pub(crate) fn frames(&mut self) -> u64 {
        if let Ok(Some(dropped)) = self.ask() {
            self.last = dropped;
        }
        self.last.saturating_sub(self.before)
    }

    fn ask(&self) -> Result<Option<u64>, Errno> {
        let mut request = [0; HEADER + INFO];
        request[..4].copy_from_slice(&32u32.to_ne_bytes());
        request[4..6].copy_from_slice(&GET_LINK.to_ne_bytes());
        request[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
        request[HEADER + 4..HEADER + 8].copy_from_slice(&self.index.to_ne_bytes());
        send(&self.socket, &request, SendFlags::empty())?;
        let mut reply = vec![0; REPLY];
        // The kernel has answered when the call above returns.
        let (got, _) = recv(&self.socket, reply.as_mut_slice(), RecvFlags::DONTWAIT)?;
        Ok(tx_dropped(&reply[..got.min(REPLY)]))
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Returns the counter out of a reply; `None` if it is another message, or has no counters.
fn tx_dropped(reply: &[u8]) -> Option<u64> {
    if number(reply, 4)? != NEW_LINK {
        return None;
    }
    let mut rest = reply.get(HEADER + INFO..)?;
    // The loop is bounded: each attribute has at least its own header of four bytes.
    while rest.len() >= 4 {
        let (len, kind) = (usize::from(number(rest, 0)?), number(rest, 2)?);
        let value = rest.get(4..len)?;
        if kind == STATS {
            let field = value.get(TX_DROPPED..TX_DROPPED + 8)?;
            return Some(u64::from_ne_bytes(field.try_into().ok()?));
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iface::Control;
    use crate::name::IfName;

    #[test]
    fn the_counter_is_found_among_the_attributes() {
        let mut reply = vec![0; HEADER + INFO];
        reply[4..6].copy_from_slice(&NEW_LINK.to_ne_bytes());
        let attribute = |kind: u16, value: &[u8]| {
            let len = u16::try_from(4 + value.len()).unwrap();
            let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0xff);
            bytes
        };
        assert_eq!(tx_dropped(&reply), None);
        let counters: Vec<u8> = (1..=10u64).flat_map(u64::to_ne_bytes).collect();
        let all = [reply.clone(), attribute(3, b"lo\0"), attribute(STATS, &counters)].concat();
        assert_eq!(tx_dropped(&all), Some(8));
        // Any part of it, and lengths that lie, give no number and no panic.
        (0..all.len()).for_each(|len| assert_eq!(tx_dropped(&all[..len]), None, "{len}"));
        assert_eq!(tx_dropped(&[reply, vec![0, 0, 23, 0]].concat()), None);
    }

    #[test]
    fn the_loopback_has_dropped_nothing_meanwhile() {
        let lo = Control::open().unwrap().index(&IfName::new("lo").unwrap()).unwrap().unwrap();
        assert_eq!(Dropped::count(lo).unwrap().frames(), 0);
        assert!(Dropped::count(u32::MAX >> 1).is_none());
    }
}
