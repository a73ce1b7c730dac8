//! Hosts with a transport of another author: any protocol above UDP that does no I/O and reads no
//! clock, by one trait.
//!
//! A [`Transport`] takes datagrams and times, and gives datagrams. [`Foreign`] makes a host of a
//! [`Net`](crate::net::Net) of it: its datagrams have real bytes, pass the NICs, qdiscs and links
//! of the net, and carry the ECN field both ways. `examples/quinn_bottleneck.rs` of the crate
//! `txweir` has quinn-proto in one.

use std::cell::RefCell;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::sync::Arc;

use txweir_core::{Ecn, Instant};

use crate::frame::Frame;
use crate::ip::{Addr, Family};
use crate::machine::{Machine, Outcome};
use crate::tcp::Label;
use crate::udp::{HEADERS_MAX, headers, write_headers};

/// Most bytes of a datagram: an IPv4 packet has at most 65 535.
const DATAGRAM_MAX: usize = 65_507;

/// The peer and the ECN field of a datagram; its bytes are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The other end: the address of a host of the net ([`address`]), and a port.
    pub peer: SocketAddrV4,
    /// The ECN field.
    pub ecn: Ecn,
}

/// A transport without I/O, in the lab's time. The time of a call is never before that of another.
pub trait Transport {
    /// Takes a datagram that has arrived.
    fn receive(&mut self, now: Instant, from: Envelope, datagram: &[u8]);

    /// Writes the next datagram that is to leave now into `datagram`, which is empty. Returns
    /// `None` if there is none. While its NIC has no room it is not asked.
    fn transmit(&mut self, now: Instant, datagram: &mut Vec<u8>) -> Option<Envelope>;

    /// Returns the time of the next call of [`timeout`](Self::timeout), if no datagram comes
    /// before.
    fn deadline(&mut self) -> Option<Instant>;

    /// Does what is due: at the start of the run, and at each deadline.
    fn timeout(&mut self, now: Instant);
}

/// A transport that the caller keeps a handle of, to read its results.
impl<T: Transport> Transport for Rc<RefCell<T>> {
    fn receive(&mut self, now: Instant, from: Envelope, datagram: &[u8]) {
        self.borrow_mut().receive(now, from, datagram);
    }
    fn transmit(&mut self, now: Instant, datagram: &mut Vec<u8>) -> Option<Envelope> {
        self.borrow_mut().transmit(now, datagram)
    }
    fn deadline(&mut self) -> Option<Instant> {
        self.borrow_mut().deadline()
    }
    fn timeout(&mut self, now: Instant) {
        self.borrow_mut().timeout(now);
    }
}

/// Returns the address of a host of a net.
pub const fn address(host: u32) -> Ipv4Addr {
    let [a, b, c, d] = crate::net::address(host);
    Ipv4Addr::new(a, b, c, d)
}

/// The next thing that a host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It waits for a datagram or its deadline.
    Waits,
    /// It runs at this time, and is asked for one datagram then.
    Runs(Instant),
    /// It has run, and is asked for a datagram.
    Offers(Instant),
    /// It was not asked: its NIC has no room. It runs once it is asked again, at that time.
    Blocked,
}

/// A transport at a host: [`Net::machine`](crate::net::Net::machine) takes it.
pub struct Foreign<T> {
    transport: T,
    local: Addr,
    state: State,
    /// The deadline of the transport, as it was after the last call.
    due: Option<Instant>,
    /// The time of the last call for what is due.
    last: Instant,
    /// True if it was asked for a datagram since it was last told the time.
    asked: bool,
    /// Datagrams that have arrived and were not handed over, with their time not yet known.
    inbox: Vec<Frame>,
    buffer: Vec<u8>,
}

impl<T: Transport> Foreign<T> {
    /// Puts a transport at a host of a net, with the port of its socket.
    pub const fn new(transport: T, host: u32, port: u16) -> Self {
        let local = Addr { ip: crate::net::address(host), port };
        let state = State::Runs(Instant::ZERO);
        Self {
            transport,
            local,
            state,
            due: None,
            last: Instant::ZERO,
            asked: false,
            inbox: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Hands a datagram to the transport.
    fn hand_over(&mut self, now: Instant, frame: &Frame) {
        let head = frame.head();
        let ports = head.transport().first_chunk::<4>();
        let (Some(bytes), Some([a, b, ..]), Some([_, _, to @ ..])) = (frame.payload(), ports, ports) else {
            return;
        };
        let from = txweir_core::packet::headers::Headers::parse_ip(frame.kept()).src;
        let [.., w, x, y, z] = from;
        let to = u16::from_be_bytes(*to);
        // The net has counted and taken a damaged packet before.
        if to != self.local.port {
            return;
        }
        let peer = SocketAddrV4::new(Ipv4Addr::new(w, x, y, z), u16::from_be_bytes([*a, *b]));
        self.transport.receive(now, Envelope { peer, ecn: frame.ecn() }, bytes);
    }

    /// Returns the packet of a datagram.
    fn frame(&self, to: Envelope) -> Frame {
        let bytes: Arc<[u8]> = self.buffer[..self.buffer.len().min(DATAGRAM_MAX)].into();
        let (family, ds) = (Family::V4, to.ecn as u8);
        // The net sets the other fields of a machine's packet.
        let label = Label { to: 0, hash: 0, priority: 0, ds, family, mark: 0 };
        let remote = Addr { ip: to.peer.ip().octets(), port: to.peer.port() };
        let (len, mut header) = (headers(family), [0; HEADERS_MAX]);
        let ip_len = len + bytes.len() as u32;
        write_headers(&mut header, (self.local, remote), &label, ds, ip_len);
        Frame::unit(&header[..len as usize], ip_len, 0).with_payload(bytes)
    }
}

impl<T: Transport> Machine for Foreign<T> {
    fn next(&self) -> Option<Instant> {
        match self.state {
            State::Runs(at) => Some(at),
            // A transport whose deadline stays in the past must not stop the time.
            _ => self.due.map(|at| at.max(Instant(self.last.0 + 1))),
        }
    }

    fn run(&mut self, now: Instant, _: Instant) -> Result<(), String> {
        if now == Instant::ZERO || self.due.is_some_and(|at| at <= now) {
            self.transport.timeout(now);
            self.last = now;
            self.due = self.transport.deadline();
        }
        // One datagram for each run, so that each leaves at the time that the transport was told.
        if self.state != State::Blocked {
            self.state = State::Offers(now);
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Frame>, String> {
        self.asked = true;
        let State::Offers(now) = self.state else { return Ok(None) };
        self.buffer.clear();
        let to = self.transport.transmit(now, &mut self.buffer);
        self.due = self.transport.deadline();
        let Some(to) = to else {
            self.state = State::Waits;
            return Ok(None);
        };
        self.state = State::Runs(now);
        Ok(Some(self.frame(to)))
    }

    fn give(&mut self, frame: &Frame) -> Result<bool, String> {
        self.inbox.push(frame.clone());
        Ok(true)
    }

    fn tell(&mut self, now: Instant) -> Result<(), String> {
        let asked = std::mem::take(&mut self.asked);
        self.state = match self.state {
            State::Offers(_) if !asked => State::Blocked,
            State::Blocked if asked => State::Runs(now),
            state => state,
        };
        if !self.inbox.is_empty() {
            let mut inbox = std::mem::take(&mut self.inbox);
            inbox.drain(..).for_each(|frame| self.hand_over(now, &frame));
            self.inbox = inbox;
            self.due = self.transport.deadline();
            if self.state != State::Blocked {
                self.state = State::Runs(now);
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Outcome>, String> {
        Ok(Vec::new())
    }
}

impl<T> fmt::Debug for Foreign<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign")
            .field("local", &self.local)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Returns the address of an end as quinn-proto and others want it.
impl From<Envelope> for SocketAddr {
    fn from(of: Envelope) -> Self {
        Self::V4(of.peer)
    }
}
