//! Messages (netlink(7), rtnetlink(7)): the head of each, and the head of those about traffic
//! control.

use crate::refusal::Refusal;
use crate::wire::{Record, Writer, aligned};

/// Types of messages.
pub mod kind {
    /// An error, or the acknowledgement.
    pub const ERROR: u16 = 2;
    /// The end of a listing.
    pub const DONE: u16 = 3;
    /// A fact about the client's socket, which the kernel would know: [`Told`](super::Told). The
    /// number is one of those that netlink keeps for control messages and does not use.
    pub const TOLD: u16 = 15;
    /// A link.
    pub const NEW_LINK: u16 = 16;
    /// A link that is gone.
    pub const DEL_LINK: u16 = 17;
    /// Asks for links.
    pub const GET_LINK: u16 = 18;
    /// Asks for addresses.
    pub const GET_ADDR: u16 = 22;
    /// A qdisc.
    pub const NEW_QDISC: u16 = 36;
    /// A qdisc that is removed.
    pub const DEL_QDISC: u16 = 37;
    /// Asks for qdiscs.
    pub const GET_QDISC: u16 = 38;
    /// A class.
    pub const NEW_CLASS: u16 = 40;
    /// A class that is removed.
    pub const DEL_CLASS: u16 = 41;
    /// Asks for classes.
    pub const GET_CLASS: u16 = 42;
    /// A filter.
    pub const NEW_FILTER: u16 = 44;
    /// A filter that is removed.
    pub const DEL_FILTER: u16 = 45;
    /// Asks for filters.
    pub const GET_FILTER: u16 = 46;
    /// Actions.
    pub const NEW_ACTION: u16 = 48;
    /// Actions that are removed.
    pub const DEL_ACTION: u16 = 49;
    /// Asks for actions.
    pub const GET_ACTION: u16 = 50;
    /// A chain of filters.
    pub const NEW_CHAIN: u16 = 100;
    /// A chain that is removed.
    pub const DEL_CHAIN: u16 = 101;
    /// Asks for chains.
    pub const GET_CHAIN: u16 = 102;

    /// Returns the name of a type that changes something (rtnetlink(7)).
    pub(crate) const fn name(kind: u16) -> &'static str {
        match kind {
            NEW_QDISC => "RTM_NEWQDISC",
            DEL_QDISC => "RTM_DELQDISC",
            NEW_CLASS => "RTM_NEWTCLASS",
            DEL_CLASS => "RTM_DELTCLASS",
            NEW_FILTER => "RTM_NEWTFILTER",
            DEL_FILTER => "RTM_DELTFILTER",
            NEW_ACTION => "RTM_NEWACTION",
            DEL_ACTION => "RTM_DELACTION",
            NEW_CHAIN => "RTM_NEWCHAIN",
            DEL_CHAIN => "RTM_DELCHAIN",
            _ => "a message of another type",
        }
    }
}

/// Flags of messages.
pub mod flag {
    /// A request.
    pub const REQUEST: u16 = 1;
    /// A part of a listing.
    pub const MULTI: u16 = 2;
    /// The listing is of no single moment: something changed meanwhile.
    pub const DUMP_INTR: u16 = 16;
    /// The client wants an acknowledgement.
    pub const ACK: u16 = 4;
    /// Asks for a listing: both bits.
    pub const DUMP: u16 = 0x300;
    /// Removes all of a kind.
    pub const ROOT: u16 = 0x100;
    /// Replaces an object that is there.
    pub const REPLACE: u16 = 0x100;
    /// Does not touch an object that is there.
    pub const EXCL: u16 = 0x200;
    /// Makes the object if there is none.
    pub const CREATE: u16 = 0x400;
    /// In an acknowledgement: the message that it repeats is cut short.
    pub const CAPPED: u16 = 0x100;
    /// In an acknowledgement: attributes follow.
    pub const ACK_TLVS: u16 = 0x200;
}

/// Bytes of the head of a message.
pub const HEAD: usize = 16;
/// Bytes of `struct tcmsg`.
pub const TC_HEAD: usize = 20;

/// The head of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// One of [`kind`].
    pub kind: u16,
    /// Of [`flag`].
    pub flags: u16,
    /// The client's number of the request.
    pub seq: u32,
    /// The port of the client's socket.
    pub port: u32,
}

/// A message: its head, and what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its head.
    pub header: Header,
    /// The bytes behind the head.
    pub body: &'a [u8],
    /// All of its bytes.
    pub whole: &'a [u8],
}

/// Reads the messages of a packet up to the first that is shorter than its head, or longer than
/// the rest: netlink ignores such a rest.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let head = Record::of(bytes, HEAD, "").ok()?;
        let len = usize::try_from(head.u32(0)).ok()?;
        let (whole, body) = (bytes.get(..len)?, bytes.get(HEAD..len)?);
        bytes = bytes.get(aligned(len)..).unwrap_or(&[]);
        let header = Header { kind: head.u16(4), flags: head.u16(6), seq: head.u32(8), port: head.u32(12) };
        Some(Message { header, body, whole })
    })
}

/// Returns a message whose body `f` writes.
pub fn message(header: Header, f: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::default();
    w.put(&[0; 4]);
    w.put(&header.kind.to_ne_bytes());
    w.put(&header.flags.to_ne_bytes());
    w.put_all(&[header.seq, header.port]);
    f(&mut w);
    let len = u32::try_from(w.0.len()).unwrap_or(u32::MAX);
    w.0[..4].copy_from_slice(&len.to_ne_bytes());
    w.finish()
}

/// `struct tcmsg`: the place of a qdisc, a class or a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcHead {
    /// Index of the link.
    pub link: u32,
    /// Its own handle.
    pub handle: u32,
    /// The handle of its parent.
    pub parent: u32,
    /// A number that depends on the kind of message.
    pub info: u32,
}

impl TcHead {
    /// Reads the head, and returns the attributes behind it.
    ///
    /// # Errors
    /// There are fewer than 20 bytes.
    pub fn read(body: &[u8]) -> Result<(Self, &[u8]), Refusal> {
        let r = Record::of(body, TC_HEAD, "struct tcmsg")?;
        let head = Self { link: r.u32(4), handle: r.u32(8), parent: r.u32(12), info: r.u32(16) };
        Ok((head, body.get(TC_HEAD..).unwrap_or(&[])))
    }
    /// Writes the head.
    pub fn write(&self, w: &mut Writer) {
        w.put_all(&[0, self.link, self.handle, self.parent, self.info]);
    }
}

/// A fact about the client's socket. Linux knows it from system calls on the socket, which do not
/// reach the daemon; the program that stands between tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The port of the socket (`nl_pid`), which replies carry.
    Port(u32),
    /// It joins a group of notifications, by number.
    Join(u32),
    /// It leaves a group.
    Leave(u32),
    /// It wants, or does not want, attributes in acknowledgements (`NETLINK_EXT_ACK`).
    ExtAck(bool),
    /// It wants acknowledgements without the message (`NETLINK_CAP_ACK`).
    CapAck(bool),
}

impl Told {
    /// Returns the message.
    #[must_use]
    pub fn message(self) -> Vec<u8> {
        let (what, value) = match self {
            Self::Port(port) => (1, port),
            Self::Join(group) => (2, group),
            Self::Leave(group) => (3, group),
            Self::ExtAck(on) => (4, on.into()),
            Self::CapAck(on) => (5, on.into()),
        };
        message(Header { kind: kind::TOLD, ..Header::default() }, |w| w.put_all(&[what, value]))
    }
    /// Reads the body of such a message; `None` if it is none.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let r = Record::of(body, 8, "").ok()?;
        let value = r.u32(4);
        Some(match r.u32(0) {
            1 => Self::Port(value),
            2 => Self::Join(value),
            3 => Self::Leave(value),
            4 => Self::ExtAck(value != 0),
            5 => Self::CapAck(value != 0),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_packet_are_read_one_by_one() {
        let header = Header { kind: kind::GET_QDISC, flags: flag::DUMP, seq: 7, port: 9 };
        let head = TcHead { link: 3, handle: 0x1_0000, parent: u32::MAX, info: 2 };
        let mut packet = message(header, |w| head.write(w));
        packet.extend(message(header, |w| w.put(&[1])));
        packet.resize(aligned(packet.len()), 0);
        packet.extend([15, 0, 0, 0, 1, 1]);
        let all: Vec<Message<'_>> = messages(&packet).collect();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].header, header);
        assert_eq!(TcHead::read(all[0].body), Ok((head, &[][..])));
        assert_eq!(all[1].body, [1]);
        assert!(TcHead::read(all[1].body).is_err());
    }

    #[test]
    fn what_is_told_is_read_back() {
        for told in [Told::Port(4711), Told::Join(4), Told::Leave(4), Told::ExtAck(true), Told::CapAck(false)]
        {
            let bytes = told.message();
            let read = messages(&bytes).next().map(|m| (m.header.kind, Told::read(m.body)));
            assert_eq!(read, Some((kind::TOLD, Some(told))));
        }
        assert_eq!(Told::read(&[9, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
