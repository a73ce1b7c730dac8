//! QUIC connections that take turns: quinn-proto's `poll_transmit` gives as many datagrams as it is
//! asked for, and a `FairSend` says which connection has the turn, and how many datagrams it may
//! send.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant as Time};

use quinn_proto::congestion::NewRenoConfig;
use quinn_proto::rustls::RootCertStore;
use quinn_proto::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn_proto::{ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig};
use quinn_proto::{ServerConfig, StreamId, TransportConfig};
use txweir::core::turns::{Burst, Cause, FairSend, Quota, SenderId};

/// Connections of one endpoint that take turns.
pub struct FairConnections {
    endpoint: Endpoint,
    fair: FairSend,
    all: Vec<(SenderId, ConnectionHandle, Connection)>,
    /// The turn that the full device has interrupted.
    current: Option<Burst>,
    buffer: Vec<u8>,
}

impl FairConnections {
    /// Creates room for at most `most` connections.
    pub fn new(most: u32, quota: Quota) -> Self {
        let endpoint = Endpoint::new(Arc::default(), None, true, None);
        let fair = FairSend::new(most, quota);
        Self { endpoint, fair, all: Vec::new(), current: None, buffer: Vec::new() }
    }

    /// Begins a connection and returns its number.
    pub fn connect(
        &mut self,
        now: Time,
        config: ClientConfig,
        to: SocketAddr,
    ) -> Result<usize, Box<dyn std::error::Error>> {
        let (handle, connection) = self.endpoint.connect(now, config, to, "localhost")?;
        let id = self.fair.join().ok_or("as many connections as there may be")?;
        self.all.push((id, handle, connection));
        self.ready(self.all.len() - 1, Cause::Control);
        Ok(self.all.len() - 1)
    }

    /// Returns a connection, to write to and to read from; after that the caller calls
    /// [`ready`](Self::ready).
    pub fn connection(&mut self, number: usize) -> &mut Connection {
        &mut self.all[number].2
    }

    /// Says that a connection may have data to send.
    pub fn ready(&mut self, number: usize, cause: Cause) {
        let id = self.all[number].0;
        let holds_turn = self.current.as_ref().is_some_and(|burst| burst.sender() == id);
        if !holds_turn && let Some(burst) = self.fair.begin(id, cause) {
            self.fair.defer(&burst);
        }
    }

    /// Takes in a datagram.
    pub fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        let event = self.endpoint.handle(now, from, None, None, datagram.into(), &mut self.buffer);
        self.buffer.clear();
        let Some(DatagramEvent::ConnectionEvent(to, event)) = event else { return };
        if let Some(number) = self.all.iter().position(|(_, handle, _)| *handle == to) {
            self.all[number].2.handle_event(event);
            self.ready(number, Cause::Acked);
        }
    }

    /// Runs the timers that are due. Returns the time of the next one.
    pub fn advance(&mut self, now: Time) -> Option<Time> {
        for number in 0..self.all.len() {
            let (_, handle, connection) = &mut self.all[number];
            settle(&mut self.endpoint, *handle, connection);
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
                // quinn's pacing is a timer as well: a packet that it causes need not be repair, so
                // the connection takes its turn.
                self.ready(number, Cause::Data);
            }
        }
        self.all.iter_mut().filter_map(|(.., connection)| connection.poll_timeout()).min()
    }

    /// Sends as long as there is room for datagrams. `send` gets several at a time, to be cut into
    /// datagrams of that many bytes.
    pub fn send(&mut self, now: Time, room: &dyn Fn() -> usize, send: &mut dyn FnMut(&[u8], usize)) {
        while let Some(mut burst) = self.current.take().or_else(|| self.fair.next_turn()) {
            let (.., connection) = &mut self.all[burst.sender().index()];
            loop {
                let free = room();
                if free == 0 {
                    self.current = Some(burst);
                    return;
                }
                // A unit is never longer than the rest of the turn.
                let most = free.min(burst.room_segs() as usize).clamp(1, UNIT_MAX);
                let before = connection.stats().frame_tx.stream;
                self.buffer.clear();
                let Some(unit) = connection.poll_transmit(now, most, &mut self.buffer) else { break };
                let size = unit.segment_size.unwrap_or(unit.size);
                send(&self.buffer[..unit.size], size);
                // Acknowledgements alone do not use up the turn.
                if connection.stats().frame_tx.stream > before {
                    burst.count(unit.size.div_ceil(size) as u32, unit.size as u64);
                }
                if burst.is_spent() {
                    self.fair.defer(&burst);
                    break;
                }
            }
        }
    }
}

/// Most datagrams that Linux cuts out of one send (`UDP_MAX_SEGMENTS`).
const UNIT_MAX: usize = 64;

/// Passes the events between a connection and its endpoint.
fn settle(endpoint: &mut Endpoint, handle: ConnectionHandle, connection: &mut Connection) {
    while connection.poll().is_some() {}
    while let Some(event) = connection.poll_endpoint_events() {
        if let Some(event) = endpoint.handle_event(handle, event) {
            connection.handle_event(event);
        }
    }
}

/// The other end: reads and counts the bytes that arrive.
struct Server {
    endpoint: Endpoint,
    all: HashMap<ConnectionHandle, Connection>,
    /// Bytes of each connection that have arrived, in the order in which the connections were
    /// accepted.
    got: Vec<(ConnectionHandle, u64)>,
    buffer: Vec<u8>,
}

impl Server {
    fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        self.buffer.clear();
        match self.endpoint.handle(now, from, None, None, datagram.into(), &mut self.buffer) {
            Some(DatagramEvent::ConnectionEvent(to, event)) => {
                if let Some(connection) = self.all.get_mut(&to) {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                if let Ok((handle, connection)) = self.endpoint.accept(incoming, now, &mut self.buffer, None)
                {
                    self.all.insert(handle, connection);
                    self.got.push((handle, 0));
                }
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    /// Reads the arrived data and runs the timers that are due; its datagrams go to `send`.
    fn advance(&mut self, now: Time, send: &mut dyn FnMut(&[u8])) -> Option<Time> {
        let mut next = None;
        for (handle, got) in &mut self.got {
            let Some(connection) = self.all.get_mut(handle) else { continue };
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
            settle(&mut self.endpoint, *handle, connection);
            let stream = StreamId::new(quinn_proto::Side::Client, Dir::Uni, 0);
            let _ = connection.streams().accept(Dir::Uni);
            if let Ok(mut chunks) = connection.recv_stream(stream).read(true) {
                while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                    *got += chunk.bytes.len() as u64;
                }
                let _ = chunks.finalize();
            }
            self.buffer.clear();
            while let Some(unit) = connection.poll_transmit(now, 1, &mut self.buffer) {
                send(&self.buffer[..unit.size]);
                self.buffer.clear();
            }
            next = next.into_iter().chain(connection.poll_timeout()).min();
        }
        next
    }
}

/// A ring of a few slots before a line of 100 Mbit/s, in virtual time.
struct Line {
    ring: VecDeque<Vec<u8>>,
    until: Time,
}

const SLOTS: usize = 16;
/// Bytes that IP and UDP add to each datagram.
const HEADERS: usize = 28;

impl Line {
    fn takes(datagram: &[u8]) -> Duration {
        Duration::from_nanos(((datagram.len() + HEADERS) * 80) as u64)
    }
    fn push(&mut self, now: Time, datagram: &[u8]) {
        if self.ring.is_empty() {
            self.until = now + Self::takes(datagram);
        }
        self.ring.push_back(datagram.to_vec());
    }
    fn left(&mut self, now: Time) -> Option<(Time, Vec<u8>)> {
        let datagram = self.ring.front().filter(|_| self.until <= now)?.clone();
        self.ring.pop_front();
        let at = self.until;
        self.until += self.ring.front().map_or(Duration::ZERO, |next| Self::takes(next));
        Some((at, datagram))
    }
}

/// The results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Bytes of each bulk connection that have arrived.
    pub bulk: Vec<u64>,
    /// The time that each request took to arrive, in virtual time.
    pub requests: Vec<Duration>,
}

/// Connections with more data to send than the line takes.
pub const BULK: usize = 8;
/// Bytes of a request, and the time between two.
const REQUEST: u64 = 100;
const EVERY: Duration = Duration::from_millis(10);
/// The time that a datagram is on its way, in each direction.
const AWAY: Duration = Duration::from_millis(10);

/// Takes the first datagram on a way, if it has arrived by now.
fn arrived(way: &mut VecDeque<(Time, Vec<u8>)>, now: Time) -> Option<Vec<u8>> {
    way.front().filter(|(at, _)| *at <= now)?;
    way.pop_front().map(|(_, datagram)| datagram)
}

fn configs() -> Result<(ServerConfig, ClientConfig), Box<dyn std::error::Error>> {
    // A throw-away certificate for `localhost` and its key: they protect nothing.
    let cert = CertificateDer::from(&include_bytes!("localhost/cert.der")[..]);
    let key = PrivatePkcs8KeyDer::from(&include_bytes!("localhost/key.der")[..]);
    let server = ServerConfig::with_single_cert(vec![cert.clone()], key.into())?;
    let mut roots = RootCertStore::empty();
    roots.add(cert)?;
    Ok((server, ClientConfig::with_root_certificates(Arc::new(roots))?))
}

/// A path without surprises: no probing for its MTU, and a congestion window that never limits. The
/// limit of a connection is the amount of its data that may be unacknowledged.
fn transport(window: u64) -> Arc<TransportConfig> {
    let mut reno = NewRenoConfig::default();
    reno.initial_window(4 << 20);
    let mut transport = TransportConfig::default();
    transport.initial_rtt(2 * AWAY).mtu_discovery_config(None).send_window(window);
    transport.congestion_controller_factory(Arc::new(reno));
    Arc::new(transport)
}

/// Runs eight bulk connections with windows of 48 to 216 KiB and one with short requests, for this
/// virtual time.
pub fn run(quota: Quota, virtual_time: Duration) -> Result<Outcome, Box<dyn std::error::Error>> {
    let (near, far): (SocketAddr, SocketAddr) = ("10.0.0.1:4433".parse()?, "10.0.0.2:4433".parse()?);
    // quinn takes times of the system's clock only; the choice of the start does not matter here.
    let start = Time::now();
    let (server, client) = configs()?;
    let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(server)), true, None);
    let mut server = Server { endpoint, all: HashMap::new(), got: Vec::new(), buffer: Vec::new() };
    let mut senders = FairConnections::new(BULK as u32 + 1, quota);
    for i in 0..=BULK {
        let mut client = client.clone();
        client.transport_config(transport((i as u64 + 2) * (24 << 10)));
        senders.connect(start, client, far)?;
    }
    let line = std::cell::RefCell::new(Line { ring: VecDeque::new(), until: start });
    let (mut forth, mut back) = (VecDeque::<(Time, Vec<u8>)>::new(), VecDeque::<(Time, Vec<u8>)>::new());
    let mut streams = [None; BULK + 1];
    let (mut now, mut next_request) = (start, start);
    let (mut asked, mut requests) = (VecDeque::new(), Vec::new());
    while now < start + virtual_time {
        while let Some((at, datagram)) = line.borrow_mut().left(now) {
            forth.push_back((at + AWAY, datagram));
        }
        while let Some(datagram) = arrived(&mut forth, now) {
            server.receive(now, near, &datagram);
        }
        let timer_there = server.advance(now, &mut |d| back.push_back((now + AWAY, d.to_vec())));
        let served = server.got.get(BULK).map_or(0, |(_, bytes)| bytes / REQUEST);
        while (requests.len() as u64) < served {
            requests.extend(asked.pop_front().map(|at| now - at));
        }
        while let Some(datagram) = arrived(&mut back, now) {
            senders.receive(now, far, &datagram);
        }
        for (i, stream) in streams.iter_mut().enumerate() {
            let connection = senders.connection(i);
            if connection.is_handshaking() {
                continue;
            }
            *stream = stream.or_else(|| connection.streams().open(Dir::Uni));
            let Some(stream) = *stream else { continue };
            let mut wrote = false;
            if i < BULK {
                while connection.send_stream(stream).write(&[7; 4096]).is_ok_and(|n| n > 0) {
                    wrote = true;
                }
            } else if next_request <= now {
                wrote = connection.send_stream(stream).write(&[7; REQUEST as usize]).is_ok();
                asked.push_back(now);
            }
            if wrote {
                senders.ready(i, Cause::Data);
            }
        }
        if next_request <= now {
            next_request += EVERY;
        }
        let timer_here = senders.advance(now);
        let room = || SLOTS - line.borrow().ring.len();
        senders.send(now, &room, &mut |datagrams, size| {
            datagrams.chunks(size).for_each(|datagram| line.borrow_mut().push(now, datagram));
        });
        let leaves = Some(line.borrow().until).filter(|_| !line.borrow().ring.is_empty());
        let arrives = [&forth, &back].into_iter().filter_map(|way| way.front().map(|(at, _)| *at)).min();
        let timers = [timer_here, timer_there, leaves, arrives].into_iter().flatten();
        now = timers.min().map_or(next_request, |at| at.min(next_request)).max(now + Duration::from_nanos(1));
    }
    let bulk = server.got.iter().take(BULK).map(|(_, bytes)| *bytes).collect();
    Ok(Outcome { bulk, requests })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for n in [0, 4] {
        let Outcome { bulk, requests } = run(Quota::segs(n), Duration::from_secs(2))?;
        let worst = requests.iter().max().copied().unwrap_or_default();
        println!("fairsend {n}: bulk {bulk:?} bytes, {} requests, the slowest {worst:?}", requests.len());
    }
    Ok(())
}
