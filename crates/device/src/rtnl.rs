//! Questions to the kernel by rtnetlink(7): the number of frames that it dropped ahead of a TAP
//! device's reader, which the device file does not tell (the interface's `tx_dropped`), and the MTU
//! of the way to another machine.

use std::net::{IpAddr, SocketAddr};

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// `NLM_F_REQUEST` (netlink(7)).
const REQUEST: u16 = 1;
/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of the header of an attribute.
const ATTRIBUTE: usize = 4;
/// Bits of an attribute's number that are the number (netlink(7)).
const NUMBER: u16 = 0x3fff;
/// Bytes of a reply that are read. The attributes of a link take one or two thousand.
const REPLY: usize = 32 << 10;

/// A question by a message that has one answer.
struct Question {
    /// The type of the message.
    kind: u16,
    /// The type of the answer.
    answer: u16,
    /// Bytes of the structure in front of the attributes, in the question and in the answer.
    head: usize,
}

/// `RTM_GETLINK`, `RTM_NEWLINK` and `struct ifinfomsg` (rtnetlink(7), linux/rtnetlink.h).
const LINK: Question = Question { kind: 18, answer: 16, head: 16 };
/// `RTM_GETROUTE`, `RTM_NEWROUTE` and `struct rtmsg`.
const ROUTE: Question = Question { kind: 26, answer: 24, head: 12 };

/// `IFLA_MTU` (linux/if_link.h): a number of 32 bits.
const MTU: u16 = 4;
/// `IFLA_STATS64`: a `struct rtnl_link_stats64`.
const STATS: u16 = 23;
/// Byte of `tx_dropped` in that structure: its eighth counter of 64 bits.
const TX_DROPPED: usize = 7 * 8;
/// `IFLA_AF_SPEC`: the attributes of each family of addresses, by its number.
const FAMILIES: u16 = 26;
/// That of IPv6, `AF_INET6`.
const V6: u16 = 10;
/// `IFLA_INET6_CONF`: numbers of 32 bits, of which `DEVCONF_MTU6` (linux/ipv6.h) is the third.
const V6_NUMBERS: u16 = 2;
const V6_MTU: usize = 2 * 4;

/// `RTA_DST`, `RTA_SRC`, `RTA_OIF` and `RTA_METRICS` (linux/rtnetlink.h).
const DST: u16 = 1;
const SRC: u16 = 2;
const OIF: u16 = 4;
const METRICS: u16 = 8;
/// `RTAX_MTU`: the MTU that the route itself has, or that the kernel has found out.
const METRIC_MTU: u16 = 2;
/// Longest packet: its length has 16 bits (RFC 791 section 3.1).
const PACKET_MAX: usize = 65_535;

/// A socket for questions, in the network namespace of the thread that has opened it.
#[derive(Debug)]
struct Questions(OwnedFd);

impl Questions {
    fn open() -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None).map(Self)
    }

    /// Asks, and returns the attributes of the answer; `None` if another message comes, such as a
    /// refusal.
    fn ask(&self, question: &Question, body: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        let len = HEADER + body.len();
        let mut request = Vec::with_capacity(len);
        request.extend_from_slice(&(len as u32).to_ne_bytes()); // below 100
        request.extend_from_slice(&question.kind.to_ne_bytes());
        request.extend_from_slice(&REQUEST.to_ne_bytes());
        // No number of the request, and the port of the socket.
        request.extend_from_slice(&[0; 8]);
        request.extend_from_slice(body);
        send(&self.0, &request, SendFlags::empty())?;
        let mut reply = vec![0; REPLY];
        // The kernel has answered when the call above returns.
        let (got, _) = recv(&self.0, reply.as_mut_slice(), RecvFlags::DONTWAIT)?;
        Ok(question.attributes(&reply[..got.min(REPLY)]).map(<[u8]>::to_vec))
    }

    /// Returns the attributes of an interface.
    fn link(&self, index: u32) -> Result<Option<Vec<u8>>, Errno> {
        let mut body = [0; LINK.head];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        self.ask(&LINK, &body)
    }
}

impl Question {
    /// Returns the attributes of an answer; `None` for another message.
    fn attributes<'a>(&self, reply: &'a [u8]) -> Option<&'a [u8]> {
        if short(reply, 4)? != self.answer {
            return None;
        }
        reply.get(HEADER + self.head..)
    }
}

/// The drops of one interface, in the network namespace of the thread that made this value.
#[derive(Debug)]
pub(crate) struct Dropped {
    questions: Questions,
    index: u32,
    before: u64,
    /// The last number that the kernel told, for an interface that has left the namespace.
    last: u64,
}

impl Dropped {
    /// Begins to count. `None` where the kernel does not tell.
    pub(crate) fn count(index: u32) -> Option<Self> {
        let mut made = Self { questions: Questions::open().ok()?, index, before: 0, last: 0 };
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
        let link = self.questions.link(self.index)?;
        Ok(link.as_deref().and_then(tx_dropped))
    }
}

/// Returns the MTU of the way from an address of this machine to another machine, as the kernel
/// knows it now; `None` if it knows no way. A socket would learn the same by connect(2), which a
/// confined process may not call.
pub(crate) fn path_mtu(from: IpAddr, to: SocketAddr) -> Option<usize> {
    let questions = Questions::open().ok()?;
    let route = questions.ask(&ROUTE, &way(from, to)).ok()??;
    let own = attribute(&route, METRICS).and_then(|metrics| number(attribute(metrics, METRIC_MTU)?, 0));
    let mtu = match own {
        Some(mtu) => mtu,
        None => {
            let index = number(attribute(&route, OIF)?, 0)?;
            mtu_of(&questions.link(index).ok()??, to.is_ipv6())?
        }
    };
    usize::try_from(mtu).ok().map(|mtu| mtu.min(PACKET_MAX))
}

/// Returns the body of the question for a way: a `struct rtmsg`, and attributes.
fn way(from: IpAddr, to: SocketAddr) -> Vec<u8> {
    let (family, bits) = match to {
        SocketAddr::V4(_) => (libc::AF_INET as u8, 32),   // 2
        SocketAddr::V6(_) => (libc::AF_INET6 as u8, 128), // 10
    };
    let source = (!from.is_unspecified()).then_some(from);
    // The family, and the bits of both addresses that count; the rest of the structure is 0.
    let mut body = vec![0; ROUTE.head];
    body[..3].copy_from_slice(&[family, bits, if source.is_some() { bits } else { 0 }]);
    put(&mut body, DST, &octets(to.ip()));
    if let Some(from) = source {
        put(&mut body, SRC, &octets(from));
    }
    match to {
        // The interface of an address that is one on its link only.
        SocketAddr::V6(to) if to.scope_id() != 0 => put(&mut body, OIF, &to.scope_id().to_ne_bytes()),
        _ => {}
    }
    body
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// Adds an attribute whose value has 4 or 16 bytes.
fn put(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = (ATTRIBUTE + value.len()) as u16; // at most 20
    body.extend_from_slice(&len.to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the value of the first attribute of a number; `None` if there is none in front of the
/// first whose length lies.
fn attribute(mut rest: &[u8], wanted: u16) -> Option<&[u8]> {
    // The loop is bounded: each attribute has at least its own header of four bytes.
    while rest.len() >= ATTRIBUTE {
        let (len, kind) = (usize::from(short(rest, 0)?), short(rest, 2)?);
        let value = rest.get(ATTRIBUTE..len)?;
        if kind & NUMBER == wanted {
            return Some(value);
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    None
}

/// Returns the counter of drops out of the attributes of an interface.
fn tx_dropped(link: &[u8]) -> Option<u64> {
    let field = attribute(link, STATS)?.get(TX_DROPPED..TX_DROPPED + 8)?;
    Some(u64::from_ne_bytes(field.try_into().ok()?))
}

/// Returns the MTU out of the attributes of an interface: for IPv6 that of its packets there, which
/// a router may have lowered (RFC 4861 section 6.3.4).
fn mtu_of(link: &[u8], is_v6: bool) -> Option<u32> {
    let of_v6 = || {
        let family = attribute(attribute(link, FAMILIES)?, V6)?;
        number(attribute(family, V6_NUMBERS)?, V6_MTU)
    };
    let lowered = if is_v6 { of_v6() } else { None };
    lowered.or_else(|| number(attribute(link, MTU)?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iface::Control;
    use crate::name::IfName;

    fn attribute_of(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = u16::try_from(ATTRIBUTE + value.len()).unwrap();
        let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0xff);
        bytes
    }

    #[test]
    fn the_counter_is_found_among_the_attributes() {
        let mut reply = vec![0; HEADER + LINK.head];
        reply[4..6].copy_from_slice(&LINK.answer.to_ne_bytes());
        let dropped = |reply: &[u8]| LINK.attributes(reply).and_then(tx_dropped);
        assert_eq!(dropped(&reply), None);
        let counters: Vec<u8> = (1..=10u64).flat_map(u64::to_ne_bytes).collect();
        let all = [reply.clone(), attribute_of(3, b"lo\0"), attribute_of(STATS, &counters)].concat();
        assert_eq!(dropped(&all), Some(8));
        // Any part of it, and lengths that lie, give no number and no panic.
        (0..all.len()).for_each(|len| assert_eq!(dropped(&all[..len]), None, "{len}"));
        assert_eq!(dropped(&[reply.clone(), vec![0, 0, 23, 0]].concat()), None);
        reply[4] = 2;
        assert_eq!(LINK.attributes(&reply), None, "a refusal");
    }

    #[test]
    fn the_loopback_has_dropped_nothing_meanwhile() {
        let lo = Control::open().unwrap().index(&IfName::new("lo").unwrap()).unwrap().unwrap();
        assert_eq!(Dropped::count(lo).unwrap().frames(), 0);
        assert!(Dropped::count(u32::MAX >> 1).is_none());
    }

    #[test]
    fn the_mtu_of_an_interface_is_that_of_the_version_of_ip() {
        let numbers: Vec<u8> = [0u32, 64, 1280].into_iter().flat_map(u32::to_ne_bytes).collect();
        let family = attribute_of(V6, &attribute_of(V6_NUMBERS, &numbers));
        let own = attribute_of(MTU, &1500u32.to_ne_bytes());
        let link = [own.clone(), attribute_of(FAMILIES | 1 << 15, &family)].concat();
        assert_eq!([false, true].map(|is_v6| mtu_of(&link, is_v6)), [Some(1500), Some(1280)]);
        assert_eq!(mtu_of(&own, true), Some(1500), "an interface without IPv6");
        assert_eq!(mtu_of(&[], false), None);
    }

    /// The loopback needs no privilege.
    #[test]
    fn the_mtu_of_a_way_is_known_without_a_connection() {
        let lo = Control::open().unwrap().mtu(&IfName::new("lo").unwrap()).unwrap().min(PACKET_MAX);
        for (from, to) in [("127.0.0.1", "127.0.0.2:9"), ("0.0.0.0", "127.0.0.1:9")] {
            assert_eq!(path_mtu(from.parse().unwrap(), to.parse().unwrap()), Some(lo), "{from} {to}");
        }
        // An address that this machine does not have.
        let away = "198.51.100.7".parse().unwrap();
        assert_eq!(path_mtu(away, "198.51.100.8:9".parse().unwrap()), None);
    }
}
