//! A UDP socket as the device of a path.
//!
//! Datagrams of one size for one peer that follow each other leave as a train, by one system call,
//! where the system cuts trains (`UDP_SEGMENT` of Linux, `UDP_SEND_MSG_SIZE` of Windows); elsewhere
//! they leave one by one. Each datagram has the ECN field of its `Meta`, so that a mark that a
//! qdisc sets is on the wire. No memory is allocated for a datagram: a train has one buffer for
//! all, and buffers of datagrams come back by `TxPath::reap`.
//!
//! ```
//! use txweir::core::packet::hash::FlowHasher;
//! use txweir::udp::{Datagram, UdpQueue};
//! use txweir::{Admitted, Instant, PathConfig, TxPath, Wake};
//!
//! let peer = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! let mut device = UdpQueue::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
//! let mut path = TxPath::new(PathConfig::for_socket())?.with_qdisc("fq_codel", &[])?;
//! let (now, hasher) = (Instant::ZERO, FlowHasher::new(1));
//! for n in 0..3u8 {
//!     let datagram = Datagram { to: peer.local_addr()?, from: None, bytes: vec![n; 100] };
//!     let meta = datagram.meta(&hasher);
//!     assert_eq!(path.submit(now, datagram, meta, &mut device), Admitted::Sent);
//! }
//! assert_eq!(path.drain(now, 64, &mut device), Wake::Idle);
//! assert_eq!(device.counts().sent, 3);
//! let mut buffer = [0; 200];
//! assert_eq!((peer.recv(&mut buffer)?, buffer[0]), (100, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

pub use quinn_udp;
use quinn_udp::{EcnCodepoint, Transmit, UdpSockRef, UdpSocketState};

use txweir_core::packet::detail::Detail;
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::{Headers, L3, L4, ethertype};
use txweir_core::{Completed, DeviceError, DropReason, Ecn, Meta, TxQueue};

/// Most datagrams that a queue keeps: those of a burst (`core::path::txpath::BULK`).
const PLACES: usize = 64;
/// Most bytes of a train: UDP over IPv4 carries 65 507.
const TRAIN_MAX: usize = 65_000;
/// Bytes of a UDP header.
const UDP_HEADER: u32 = 8;
/// The number of UDP (RFC 768).
const UDP: u8 = 17;

/// A datagram and its peer. `B` is any buffer: `Vec<u8>`, `Bytes`, one of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram<B> {
    /// The peer. Its version of IP is that of the socket.
    pub to: SocketAddr,
    /// The address that it leaves from, for a socket that is bound to several; `None` leaves the
    /// choice to the system. A reply comes from the address to which its question was sent.
    pub from: Option<IpAddr>,
    /// The payload.
    pub bytes: B,
}

impl<B: AsRef<[u8]>> Datagram<B> {
    /// Returns its metadata: the length with the headers of IP and UDP, and its peer (address and
    /// port) as its flow. The caller adds the ECN field that it is to have (`Meta::ecn`), without
    /// which no qdisc marks it.
    pub fn meta(&self, hasher: &FlowHasher) -> Meta {
        let header = UDP_HEADER + if self.to.is_ipv4() { 20 } else { 40 };
        let len = u32::try_from(self.bytes.as_ref().len()).unwrap_or(u32::MAX).saturating_add(header);
        Meta::of(&self.headers(), len, hasher)
    }

    /// Returns its further facts, for `TxPath::submit_with` where `TxPath::wants_detail` is true.
    pub fn detail(&self, hasher: &FlowHasher) -> Detail {
        Detail::of(&self.headers(), &[], hasher)
    }

    /// Returns the headers that it will have, as far as they are known here.
    fn headers(&self) -> Headers {
        let (dst, l3, ethertype) = match self.to.ip() {
            IpAddr::V4(ip) => (ip.to_ipv6_mapped(), L3::Ipv4, ethertype::IPV4),
            IpAddr::V6(ip) => (ip, L3::Ipv6, ethertype::IPV6),
        };
        let (dst, dst_port, protocol) = (dst.octets(), self.to.port(), UDP);
        Headers { dst, dst_port, l3, l4: L4::Udp, protocol, ethertype, ..Headers::EMPTY }
    }
}

/// A socket that takes trains of datagrams.
pub trait Trains {
    /// Sends a train.
    ///
    /// # Errors
    /// `WouldBlock`: it has no room now, and has taken nothing. Any other: the train is lost.
    fn send(&mut self, train: &Transmit<'_>) -> io::Result<()>;

    /// Returns the most datagrams of a train; 1 if the system does not cut. It may fall after a
    /// failed [`send`](Self::send): the same datagrams are then sent in shorter trains.
    fn longest(&self) -> usize;
}

/// A socket of the system. `S` is `std::net::UdpSocket`, or one of a runtime, or an `Arc` of it.
pub struct Plain<S> {
    socket: S,
    state: UdpSocketState,
    /// False once the system has refused a train.
    cuts: bool,
}

impl<S> Plain<S>
where
    for<'a> UdpSockRef<'a>: From<&'a S>,
{
    /// Wraps a socket, and sets it up: it does not block, and reports the ECN field.
    ///
    /// # Errors
    /// The system refuses an option.
    pub fn new(socket: S) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self { socket, state, cuts: true })
    }

    /// Returns the socket.
    pub const fn socket(&self) -> &S {
        &self.socket
    }
}

impl<S> fmt::Debug for Plain<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<S> Trains for Plain<S>
where
    for<'a> UdpSockRef<'a>: From<&'a S>,
{
    fn send(&mut self, train: &Transmit<'_>) -> io::Result<()> {
        let sent = self.state.try_send((&self.socket).into(), train);
        if sent.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::InvalidInput) {
            // `UdpSocketState` takes such a refusal for that of a system without ECN fields, and
            // sends none from then on. It has tried without one: they are not the reason.
            self.cuts &= train.segment_size.is_none();
            if let Ok(state) = UdpSocketState::new((&self.socket).into()) {
                self.state = state;
            }
        }
        sent
    }
    fn longest(&self) -> usize {
        if self.cuts { self.state.max_gso_segments() } else { 1 }
    }
}

/// Counts of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams that the system took.
    pub sent: u64,
    /// Datagrams that the system refused, for another reason than want of room.
    pub lost: u64,
    /// Trains that the system took.
    pub trains: u64,
    /// Times that the socket had no room.
    pub full: u64,
}

/// A UDP socket as a transmit queue.
///
/// The kernel copies what it takes, so a path over it has `PathConfig::for_socket`. While the
/// socket has no room ([`is_full`](Self::is_full)), datagrams wait in the qdiscs; the owner calls
/// `TxPath::reap` and `TxPath::drain` once the socket is writable.
///
/// Order: datagrams leave as they were pushed. Memory: the train, 65 000 bytes; 64 datagrams; and
/// the buffers that [`keeping`](Self::keeping) allows.
///
/// A datagram that is longer than the path's MTU is lost and counted. It leaves alone before
/// shorter ones, as a probe of the MTU does. Several of its size are a train: on Linux the system
/// then refuses trains from this socket for good, and datagrams leave one by one.
#[derive(Debug)]
pub struct UdpQueue<B, T = Plain<UdpSocket>> {
    socket: T,
    /// Datagrams that the socket has not taken, in order.
    waiting: VecDeque<(Datagram<B>, Ecn)>,
    train: Vec<u8>,
    /// Datagrams that are done, until `reap` gives them back.
    done: Vec<Datagram<B>>,
    /// Most of these.
    keeps: usize,
    is_full: bool,
    counts: Counts,
}

impl<B: AsRef<[u8]>> UdpQueue<B> {
    /// Wraps a bound socket, which does not block from now on.
    ///
    /// # Errors
    /// The system refuses an option.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        Plain::new(socket).map(Self::over)
    }
}

impl<B: AsRef<[u8]>, T: Trains> UdpQueue<B, T> {
    /// Makes a queue over a socket of any kind.
    pub fn over(socket: T) -> Self {
        Self {
            socket,
            waiting: VecDeque::with_capacity(PLACES),
            train: Vec::with_capacity(TRAIN_MAX),
            done: Vec::new(),
            keeps: 0,
            is_full: false,
            counts: Counts::default(),
        }
    }

    /// Keeps at most so many datagrams that were sent or dropped, and gives them back by
    /// `TxPath::reap`. Their buffers are then filled again, and nothing is allocated. Further ones
    /// are dropped, as all are without this.
    #[must_use]
    pub fn keeping(mut self, most: usize) -> Self {
        self.done.reserve_exact(most);
        self.keeps = most;
        self
    }

    /// Returns the socket.
    pub const fn socket(&self) -> &T {
        &self.socket
    }

    /// True if the socket had no room for a datagram when it was last asked.
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the counts.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Sends what the socket takes.
    fn flush(&mut self) {
        self.is_full = false;
        // Bound: each turn takes a datagram at least, or is the last one, but for those in which
        // the system takes shorter trains from then on.
        while let Some((first, ecn)) = self.waiting.front() {
            let longest = self.socket.longest();
            let count = self.train_of(longest);
            // A datagram alone is sent as it is.
            let (contents, segment_size) = match count {
                1 => (first.bytes.as_ref(), None),
                _ => {
                    self.train.clear();
                    for (datagram, _) in self.waiting.iter().take(count) {
                        self.train.extend_from_slice(datagram.bytes.as_ref());
                    }
                    (&self.train[..], Some(first.bytes.as_ref().len()))
                }
            };
            let ecn = EcnCodepoint::from_bits(*ecn as u8);
            let (destination, src_ip) = (first.to, first.from);
            let train = Transmit { destination, ecn, contents, segment_size, src_ip };
            match self.socket.send(&train) {
                Ok(()) => {
                    self.counts.trains += 1;
                    self.counts.sent += count as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.counts.full += 1;
                    self.is_full = true;
                    return;
                }
                Err(_) if count > 1 && self.socket.longest() < longest => continue,
                Err(_) => self.counts.lost += count as u64,
            }
            for _ in 0..count {
                let Some((datagram, _)) = self.waiting.pop_front() else { break };
                self.put(datagram);
            }
        }
    }

    /// Returns the number of waiting datagrams, from the first on, that are a train: at least 1.
    fn train_of(&self, longest: usize) -> usize {
        let mut all = self
            .waiting
            .iter()
            .map(|(datagram, ecn)| (datagram.bytes.as_ref().len(), datagram.to, *ecn, datagram.from));
        let Some((size, to, ecn, from)) = all.next().filter(|(size, ..)| *size > 0) else { return 1 };
        let (mut count, mut bytes) = (1, size);
        for (len, other, mark, source) in all {
            // Only the last of a train may be shorter, and none is empty. A longer one before it
            // may be a probe of the MTU: refused, it takes no other datagram with it.
            if count >= longest
                || (other, mark) != (to, ecn)
                || source != from
                || len > size
                || (count == 1 && len != size)
                || len == 0
                || bytes + len > TRAIN_MAX
            {
                break;
            }
            (count, bytes) = (count + 1, bytes + len);
            if len < size {
                break;
            }
        }
        count
    }

    /// Keeps a datagram that is done, if it may.
    fn put(&mut self, datagram: Datagram<B>) {
        if self.done.len() < self.keeps {
            self.done.push(datagram);
        }
    }
}

impl<B: AsRef<[u8]>, T: Trains> TxQueue for UdpQueue<B, T> {
    type Frame = Datagram<B>;

    fn reserve(&mut self, want: u32) -> u32 {
        // A burst without a doorbell has filled the places: the socket is asked now, so that an
        // answer of 0 always means that the socket has no room.
        if self.waiting.len() >= PLACES && !self.is_full {
            self.flush();
        }
        let free = if self.is_full { 0 } else { PLACES - self.waiting.len() };
        want.min(free as u32)
    }

    fn push(&mut self, datagram: Datagram<B>, m: &Meta) {
        self.waiting.push_back((datagram, m.ecn));
    }

    fn commit(&mut self) -> Result<(), DeviceError> {
        self.flush();
        Ok(())
    }

    fn reap(&mut self, sink: &mut dyn FnMut(Completed<Datagram<B>>)) {
        if self.is_full {
            self.flush();
        }
        for datagram in self.done.drain(..) {
            sink(Completed { packets: 0, bytes: 0, frame: Some(datagram) });
        }
    }

    fn is_done_at_commit(&mut self) -> bool {
        true
    }

    fn discard(&mut self, datagram: Datagram<B>, _: &Meta, _: DropReason) {
        self.put(datagram);
    }
}

#[cfg(test)]
mod tests;
