//! One end of a QUIC connection of the lab: quinn-proto in virtual time, with datagrams below and
//! one bulk stream above.
//!
//! It is a second transport, with other authors than the lab's TCP: an effect of a qdisc on both is
//! no artefact of one of them. quinn-proto does no I/O and reads no clock; its connections take and
//! give datagrams and times. The session is `null`: without encryption and authentication.
//!
//! **Units.** If its host has TSO, up to ten datagrams leave as one unit (`UDP_SEGMENT`), which the
//! device cuts.
//!
//! **Determinism.** quinn-proto draws from a generator that is seeded here. Connection ids are
//! numbers. The endpoint sends no tokens, which would contain the time of day.

mod null;

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant as Clock};

use bytes::{Bytes, BytesMut};
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir,
    EcnCodepoint, Endpoint, EndpointConfig, Event, ServerConfig, StreamId, Transmit, TransportConfig,
    ValidationTokenConfig, VarInt,
};
use txweir_core::base::rng::Rng;
use txweir_core::{Ecn, Instant};

use crate::frame::Frame;
use crate::ip::{Addr, Family};
use crate::tagged::ETHERNET;
use crate::tcp::Label;
use crate::udp::{HEADERS_MAX, headers, write_headers};
use null::Null;

/// Payload of a full datagram: the size that quinn finds on a path of Ethernet.
const MTU: u16 = 1_452;
/// Largest number of datagrams of a unit, as in quinn's own driver.
const UNIT_MAX: u32 = 10;
/// Window of the stream and the connection, bytes: larger than the paths of a lab need.
const WINDOW: u32 = 16 << 20;
/// Bytes of one piece handed to the stream.
const PIECE: usize = 64 << 10;

/// Congestion control of quinn-proto.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// The NewReno of RFC 9002.
    NewReno,
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// BBR version 1, which quinn-proto calls experimental.
    Bbr,
}

impl Control {
    /// All congestion controls, by name.
    pub const ALL: [(&'static str, Self); 3] =
        [("newreno", Self::NewReno), ("cubic", Self::Cubic), ("bbr", Self::Bbr)];

    fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::NewReno => Arc::new(NewRenoConfig::default()),
            Self::Cubic => Arc::new(CubicConfig::default()),
            Self::Bbr => Arc::new(BbrConfig::default()),
        }
    }
}

/// Configuration of an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Congestion control.
    pub control: Control,
    /// True if its packets may be marked (ECT(0)); marks count as losses, once a round trip.
    pub ecn: bool,
}

/// The instant that stands for time zero. quinn-proto counts in instants of the machine's clock,
/// which cannot be made from numbers: the lab takes one, and from then on only adds to it. So no
/// result depends on its value.
static ZERO: LazyLock<Clock> = LazyLock::new(Clock::now);

fn clock(now: Instant) -> Clock {
    *ZERO + Duration::from_nanos(now.0)
}

fn instant(at: Clock) -> Instant {
    Instant(u64::try_from(at.saturating_duration_since(*ZERO).as_nanos()).unwrap_or(u64::MAX))
}

/// Connection ids: consecutive numbers.
#[derive(Debug, Default)]
struct Numbers(u64);

impl ConnectionIdGenerator for Numbers {
    fn generate_cid(&mut self) -> ConnectionId {
        self.0 += 1;
        ConnectionId::new(&self.0.to_be_bytes())
    }
    fn cid_len(&self) -> usize {
        8
    }
    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// One end of a connection with its stream.
pub struct Conn {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Start time and configuration of the client, until it has opened the connection.
    opens: Option<(Instant, ClientConfig)>,
    stream: Option<StreamId>,
    local: Addr,
    remote: Addr,
    label: Label,
    ecn: bool,
    /// Largest number of datagrams of a unit.
    unit: usize,
    held: Option<Frame>,
    blocked: bool,
    read: u64,
    piece: Bytes,
    buffer: Vec<u8>,
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local, remote, blocked, read, .. } = self;
        f.debug_struct("Conn")
            .field("local", local)
            .field("remote", remote)
            .field("blocked", blocked)
            .field("read", read)
            .finish_non_exhaustive()
    }
}

fn transport(c: &Config, unit: usize) -> Arc<TransportConfig> {
    let mut t = TransportConfig::default();
    let window = VarInt::from_u32(WINDOW);
    t.congestion_controller_factory(c.control.factory())
        .receive_window(window)
        .stream_receive_window(window)
        .send_window(2 * u64::from(WINDOW))
        .max_idle_timeout(None)
        .initial_mtu(MTU)
        .min_mtu(MTU)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(unit > 1);
    Arc::new(t)
}

impl Conn {
    /// Returns the end that opens the connection to `remote` at `start`, and then sends. `tso_max`
    /// is the largest unit of its host.
    pub fn connect(
        c: &Config,
        (local, remote): (Addr, Addr),
        start: Instant,
        label: Label,
        tso_max: u32,
        seed: u64,
    ) -> Self {
        let mut made = Self::new(c, (local, remote), label, tso_max, seed, None);
        let mut config = ClientConfig::new(Arc::new(Null));
        config
            .transport_config(transport(c, made.unit))
            .initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&seed.to_be_bytes())));
        made.opens = Some((start, config));
        made
    }

    /// Returns the end that waits for the connection from `remote`, and then reads.
    pub fn listen(c: &Config, addrs: (Addr, Addr), label: Label, tso_max: u32, seed: u64) -> Self {
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        let mut server = ServerConfig::new(Arc::new(Null), Arc::new(Null));
        server.transport_config(transport(c, units(tso_max, label.family))).validation_token_config(tokens);
        Self::new(c, addrs, label, tso_max, seed, Some(Arc::new(server)))
    }

    fn new(
        c: &Config,
        (local, remote): (Addr, Addr),
        label: Label,
        tso_max: u32,
        seed: u64,
        server: Option<Arc<ServerConfig>>,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let mut drawn = [0; 32];
        drawn.chunks_mut(8).for_each(|part| part.copy_from_slice(&rng.next_u64().to_be_bytes()));
        let mut config = EndpointConfig::new(Arc::new(Null));
        config.rng_seed(Some(drawn)).cid_generator(|| Box::<Numbers>::default());
        Self {
            endpoint: Endpoint::new(Arc::new(config), server, true, Some(drawn)),
            connection: None,
            opens: None,
            stream: None,
            local,
            remote,
            label,
            ecn: c.ecn,
            unit: units(tso_max, label.family),
            held: None,
            blocked: false,
            read: 0,
            piece: Bytes::from_static(&[0; PIECE]),
            buffer: Vec::new(),
        }
    }

    /// Returns the number of bytes that this end has read.
    pub const fn read(&self) -> u64 {
        self.read
    }
    /// Returns the bytes of packets that it has found lost.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.connection.as_ref().map_or(0, |(_, c)| c.stats().path.lost_bytes)
    }
    /// Returns the number of reductions by congestion control, for losses or marks.
    pub fn congestion_events(&self) -> u64 {
        self.connection.as_ref().map_or(0, |(_, c)| c.stats().path.congestion_events)
    }
    /// True while a full transmit path keeps it from sending.
    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked
    }
    /// Notes that the transmit path has room again. [`poll`](Self::poll) is to follow.
    pub const fn wake(&mut self) {
        self.blocked = false;
    }

    /// Takes a packet; a unit is its datagrams arriving as one. [`poll`](Self::poll) is to follow.
    pub fn deliver(&mut self, now: Instant, frame: &Frame) {
        let Some(bytes) = frame.payload() else { return };
        let ecn = match frame.ecn() {
            Ecn::NotEct => None,
            Ecn::Ect0 => Some(EcnCodepoint::Ect0),
            Ecn::Ect1 => Some(EcnCodepoint::Ect1),
            Ecn::Ce => Some(EcnCodepoint::Ce),
        };
        let size = match frame.gso_size() {
            0 => bytes.len().max(1),
            size => usize::from(size),
        };
        for datagram in bytes.chunks(size) {
            self.datagram(now, datagram, ecn);
        }
    }

    fn datagram(&mut self, now: Instant, bytes: &[u8], ecn: Option<EcnCodepoint>) {
        let Self { endpoint, connection, remote, label, buffer, .. } = self;
        buffer.clear();
        let event =
            endpoint.handle(clock(now), remote.over(label.family), None, ecn, BytesMut::from(bytes), buffer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((_, c)) = connection.as_mut().filter(|(own, _)| *own == handle) {
                    c.handle_event(event);
                }
            }
            // An end has one connection; it does not answer another.
            Some(DatagramEvent::NewConnection(incoming)) if connection.is_some() => endpoint.ignore(incoming),
            Some(DatagramEvent::NewConnection(incoming)) => {
                buffer.clear();
                *connection = endpoint.accept(incoming, clock(now), buffer, None).ok();
            }
            _ => {}
        }
    }

    /// Does the work that is due: timers, the stream, and datagrams, which go to `sink` until it
    /// returns one: the end keeps that datagram, and sends nothing more before
    /// [`wake`](Self::wake).
    pub fn poll(&mut self, now: Instant, mut sink: impl FnMut(Frame) -> Result<(), Frame>) {
        if let Some((_, config)) = self.opens.take_if(|(start, _)| *start <= now) {
            self.connection =
                self.endpoint.connect(clock(now), config, self.remote.over(self.label.family), "lab").ok();
        }
        if let Some((_, c)) = &mut self.connection
            && c.poll_timeout().is_some_and(|at| at <= clock(now))
        {
            c.handle_timeout(clock(now));
        }
        // Reading opens the peer's windows, and acknowledgements open the own window: repeat until
        // nothing more follows.
        while self.step() | self.transmit(now, &mut sink) {}
    }

    /// Runs the application, and passes events from the connection to its endpoint. True if new
    /// data to send may have resulted.
    fn step(&mut self) -> bool {
        let Self { endpoint, connection: Some((handle, c)), stream, read, piece, .. } = self else {
            return false;
        };
        let mut moved = false;
        while let Some(event) = c.poll() {
            if matches!(event, Event::Connected) && c.side().is_client() {
                *stream = c.streams().open(Dir::Uni);
            }
        }
        if let Some(id) = *stream {
            // The loop ends with an error when the window is full.
            while c.send_stream(id).write_chunks(&mut [piece.clone()]).is_ok_and(|w| w.bytes > 0) {}
        } else if c.side().is_server() {
            while c.streams().accept(Dir::Uni).is_some() {}
            // A client's first unidirectional stream.
            let mut from = c.recv_stream(StreamId::new(quinn_proto::Side::Client, Dir::Uni, 0));
            if let Ok(mut chunks) = from.read(true) {
                while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                    *read += chunk.bytes.len() as u64;
                }
                moved |= chunks.finalize().should_transmit();
            }
        }
        while let Some(event) = c.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(*handle, event) {
                c.handle_event(event);
                moved = true;
            }
        }
        moved
    }

    /// Hands out pending packets. True if at least one left.
    fn transmit(&mut self, now: Instant, sink: &mut impl FnMut(Frame) -> Result<(), Frame>) -> bool {
        let mut sent = false;
        while !self.blocked {
            let frame = match self.held.take() {
                Some(frame) => frame,
                None => {
                    let Some((_, c)) = &mut self.connection else { return sent };
                    self.buffer.clear();
                    match c.poll_transmit(clock(now), self.unit, &mut self.buffer) {
                        Some(t) => self.frame(now, &t),
                        None => return sent,
                    }
                }
            };
            match sink(frame) {
                Ok(()) => sent = true,
                Err(frame) => {
                    self.held = Some(frame);
                    self.blocked = true;
                }
            }
        }
        sent
    }

    /// Returns the packet, or unit, of a transmission.
    fn frame(&self, now: Instant, t: &Transmit) -> Frame {
        let bytes: Arc<[u8]> = self.buffer[..t.size.min(self.buffer.len())].into();
        // A unit of ten datagrams of 1452 bytes fits the 16 bits of a length.
        let len = headers(self.label.family);
        let ip_len = len + bytes.len() as u32;
        let ds = self.label.ds | t.ecn.filter(|_| self.ecn).map_or(0, |e| e as u8);
        let mut header = [0; HEADERS_MAX];
        write_headers(&mut header, (self.local, self.remote), &self.label, ds, ip_len);
        let size = t.segment_size.and_then(|s| u16::try_from(s).ok()).unwrap_or(0);
        let mut frame = Frame::unit(&header[..len as usize], ip_len, size).with_payload(bytes);
        frame.sent = now;
        self.label.put(&mut frame, ds);
        frame
    }

    /// Returns the time of the next [`poll`](Self::poll) if no packet arrives: always after `now`,
    /// which must be the time of the last poll. `None` if only a packet or a wake can cause
    /// progress.
    pub fn poll_at(&mut self, now: Instant) -> Option<Instant> {
        if let Some((start, _)) = &self.opens {
            return Some(*start);
        }
        if self.blocked {
            return None;
        }
        let (_, c) = self.connection.as_mut()?;
        c.poll_timeout().map(|at| instant(at).max(Instant(now.0 + 1)))
    }
}

/// Returns the number of datagrams of a unit of at most `tso_max` bytes.
const fn units(tso_max: u32, family: Family) -> usize {
    let fit = tso_max.saturating_sub(ETHERNET + headers(family)) / MTU as u32;
    match fit {
        0 => 1,
        n if n > UNIT_MAX => UNIT_MAX as usize,
        n => n as usize,
    }
}
