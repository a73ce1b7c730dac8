//! Groups of traffic: their work, and the creation of their members in a net.

use std::sync::Arc;

use hdrhistogram::Histogram;
use txweir_core::{Instant, Nanos};

use super::flows::{Flows, Short};
use super::{CONNECTIONS_MAX, Net, QUICS, SINKS, What};
use crate::app::App;
use crate::engine::Alarm;
use crate::quic;
use crate::tcp::{Addr, Algorithm, Conn, EcnMode, Label, TcpConfig};
use crate::udp::ask::{self, Ask, Asked};
use crate::udp::video::{Camera, Video, Viewer};
use crate::udp::voice::{Listener, Talker};
use crate::udp::{self, voice};

use super::measure::CbrCounts;

/// Work of a group of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// Bulk, as many bytes as TCP takes.
    #[default]
    Stream,
    /// Requests and responses, in turn.
    Rr {
        /// Bytes of a request.
        request: u64,
        /// Bytes of a response.
        response: u64,
    },
    /// Packets at a constant rate.
    Cbr {
        /// Bytes of a frame.
        len: u32,
        /// Rate of such frames, bit/s.
        rate: u64,
    },
    /// Short flows over TCP, each a connection of its own.
    Short(Short),
    /// Calls.
    Voice,
    /// Video.
    Video(Video),
    /// Questions and answers over UDP.
    Ask(Ask),
    /// Bulk over QUIC.
    Quic(quic::Config),
}

impl Load {
    /// Returns its name in scenarios and reports.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Rr { .. } => "rr",
            Self::Cbr { .. } => "cbr",
            Self::Short(_) => "short",
            Self::Voice => "voice",
            Self::Video(_) => "video",
            Self::Ask(Ask { gap: Some(_), .. }) => "dns",
            Self::Ask(_) => "udprr",
            Self::Quic(_) => "quic",
        }
    }
    /// True if packets return from `to` to `from`.
    pub const fn goes_back(&self) -> bool {
        !matches!(self, Self::Cbr { .. } | Self::Voice | Self::Video(_))
    }
    /// True if its members are pairs of TCP ends that exist from the start.
    const fn is_tcp(&self) -> bool {
        matches!(self, Self::Stream | Self::Rr { .. })
    }
}

/// Differences of a group's TCP from that of its hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Congestion control, at both ends.
    pub congestion: Option<Algorithm>,
    /// Mode of congestion marks, at both ends.
    pub ecn: Option<EcnMode>,
}

impl Choice {
    fn of(self, host: &TcpConfig) -> TcpConfig {
        let (congestion, ecn) = (self.congestion.unwrap_or(host.congestion), self.ecn.unwrap_or(host.ecn));
        TcpConfig { congestion, ecn, ..host.clone() }
    }
}

/// A group of like connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name in reports.
    pub name: String,
    /// The host that sends (opens).
    pub from: u32,
    /// The other host.
    pub to: u32,
    /// Its work.
    pub load: Load,
    /// Number of members.
    pub count: u32,
    /// Priority of its packets, both ways.
    pub priority: u32,
    /// Start time.
    pub start: Instant,
    /// Largest random addition to the start time of each connection.
    pub stagger: Nanos,
    /// Its TCP.
    pub choice: Choice,
    /// Start times of short flows after `start`, in order; empty if they begin at random times.
    pub arrivals: Arc<[Nanos]>,
}

/// A group and its measurements.
#[derive(Debug)]
pub struct GroupState {
    /// The group.
    pub group: Group,
    /// Times of the transactions, or answers, that ended while measuring, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Index of the first end, source or sink that belongs to it, in its own list.
    pub(super) first: u32,
    /// Bytes that each member had delivered when measuring began.
    pub(super) bytes_before: Vec<u64>,
    /// Counters of its one-way UDP members when measuring began.
    pub(super) cbr_before: CbrCounts,
    /// Bytes that its senders had sent again when measuring began.
    pub(super) retransmitted_before: u64,
    /// Counters of its clients, and frames of its cameras, when measuring began.
    pub(super) asked_before: Asked,
    pub(super) frames_before: u64,
    /// Its short flows.
    pub(super) flows: Option<Box<Flows>>,
}

/// One end of a connection, at its host.
#[derive(Debug)]
pub(super) struct End {
    pub(super) conn: Conn,
    pub(super) alarm: Alarm,
    pub(super) host: u32,
    /// The host of the other end.
    pub(super) far: u32,
    pub(super) group: u32,
    /// True if it is among the ends that wait for room at its NIC.
    pub(super) waiting: bool,
    /// True if it belongs to a short flow that is over: packets do not reach it, and it does
    /// nothing.
    pub(super) idle: bool,
    /// True if its application runs when no more events happen at this instant.
    pub(super) woken: bool,
}

/// A sender of UDP.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) sender: Sender,
    pub(super) alarm: Alarm,
    pub(super) host: u32,
    /// The host that its packets are for.
    pub(super) to: u32,
    /// Packets refused by its full NIC.
    pub(super) refused: u64,
}

/// Kinds of senders of UDP.
#[derive(Debug)]
pub(super) enum Sender {
    Cbr(udp::Source),
    Voice(Talker),
    Video(Camera),
    Ask(Box<ask::Client>),
}

impl Sender {
    pub(super) fn poll_at(&self) -> Option<Instant> {
        match self {
            Self::Cbr(s) => s.poll_at(),
            Self::Voice(s) => s.poll_at(),
            Self::Video(s) => s.poll_at(),
            Self::Ask(s) => s.poll_at(),
        }
    }
    pub(super) fn poll(&mut self, now: Instant) -> Option<crate::frame::Frame> {
        match self {
            Self::Cbr(s) => s.poll(now),
            Self::Voice(s) => s.poll(now),
            Self::Video(s) => s.poll(now),
            Self::Ask(s) => s.poll(now),
        }
    }
    pub(super) const fn sent(&self) -> u64 {
        match self {
            Self::Cbr(s) => s.sent(),
            Self::Voice(s) => s.sent(),
            Self::Video(s) => s.sent(),
            Self::Ask(s) => s.counts().asked + s.counts().again,
        }
    }
}

/// A receiver of UDP.
#[derive(Debug)]
pub(super) struct Sink {
    pub(super) receiver: Receiver,
    pub(super) host: u32,
    pub(super) source: u32,
    pub(super) group: u32,
}

/// Kinds of receivers of UDP.
#[derive(Debug)]
pub(super) enum Receiver {
    Cbr(udp::Sink),
    Voice(Box<Listener>),
    Video(Box<Viewer>),
    /// Answers questions, through the NIC that leads to the source's host.
    Server(ask::Server),
    /// Hands answers to the source.
    Client,
}

impl Receiver {
    /// Returns the sink, if it counts packets by number.
    pub(super) fn counted(&self) -> Option<&udp::Sink> {
        match self {
            Self::Cbr(s) => Some(s),
            Self::Voice(l) => Some(&l.sink),
            Self::Video(v) => Some(&v.sink),
            Self::Server(_) | Self::Client => None,
        }
    }
    pub(super) fn restart(&mut self) {
        match self {
            Self::Cbr(s) => s.delay.reset(),
            Self::Voice(l) => {
                l.sink.delay.reset();
                l.restart();
            }
            Self::Video(v) => {
                v.sink.delay.reset();
                v.restart();
            }
            Self::Server(_) | Self::Client => {}
        }
    }
}

impl Net {
    /// Adds a group of connections. Errors: there is no way from one host to the other and back, or
    /// there are too many connections.
    pub fn group(&mut self, group: Group) -> Result<(), String> {
        let back = group.load.goes_back();
        if !self.reaches(group.from, group.to) || (back && !self.reaches(group.to, group.from)) {
            return Err(format!("group {}: no links lead from one host to the other and back", group.name));
        }
        self.connections = self.connections.saturating_add(group.count);
        if self.connections > CONNECTIONS_MAX {
            return Err(format!("group {}: more than {CONNECTIONS_MAX} connections in all", group.name));
        }
        let number = self.groups.len() as u32;
        let first = match group.load {
            Load::Quic(_) => self.quics.len(),
            load if load.is_tcp() || matches!(load, Load::Short(_)) => self.ends.len(),
            _ => self.sinks.len(),
        } as u32;
        let flows = match group.load {
            Load::Short(short) => Some(self.flows(&group, number, short)?),
            _ => {
                self.members(&group, number);
                None
            }
        };
        self.groups.push(GroupState {
            group,
            latency: crate::dist::histogram(),
            first,
            bytes_before: Vec::new(),
            cbr_before: CbrCounts::default(),
            retransmitted_before: 0,
            asked_before: Asked::default(),
            frames_before: 0,
            flows,
        });
        Ok(())
    }

    /// Returns the address of a host, with a port.
    pub(super) const fn addr(host: u32, port: u16) -> Addr {
        Addr { ip: [10, (host / 65_025) as u8, (host / 255 % 255) as u8, 1 + (host % 255) as u8], port }
    }

    /// Creates the members of a group that exist from the start.
    fn members(&mut self, group: &Group, number: u32) {
        if group.load.is_tcp() {
            self.ends.reserve_exact(2 * group.count as usize);
        }
        for n in 0..group.count {
            let start = group.start + Nanos(self.rng.below(group.stagger.0.max(1)));
            let port = 2000 + (self.connections - group.count + n) as u16;
            let ab = (Self::addr(group.from, port), Self::addr(group.to, port));
            match group.load {
                Load::Stream => self.connect(group, number, ab, start, (App::stream(None), App::sink())),
                Load::Rr { request, response } => {
                    let apps = (App::client(request, response), App::server(request, response));
                    self.connect(group, number, ab, start, apps);
                }
                Load::Quic(config) => self.add_quic(group, ab, start, &config),
                Load::Ask(ask) => self.add_ask(group, number, ab, start, ask),
                Load::Cbr { .. } | Load::Voice | Load::Video(_) => self.add_sender(group, number, ab, start),
                Load::Short(_) => {}
            }
        }
    }

    fn connect(&mut self, g: &Group, number: u32, ab: (Addr, Addr), start: Instant, apps: (App, App)) {
        let tcp = (self.tcp_of(g.from, g), self.tcp_of(g.to, g));
        self.join(g, number, ab, start, apps, (&tcp.0, &tcp.1));
    }

    /// Adds both ends of a connection: of the host that opens it, and of the other.
    pub(super) fn add_ends(&mut self, conns: [Conn; 2], g: &Group, number: u32) {
        for (mut conn, (host, far)) in conns.into_iter().zip([(g.from, g.to), (g.to, g.from)]) {
            if let Some(like) = self.ends.len().checked_sub(2).map(|n| &self.ends[n]) {
                conn.share_config(&like.conn);
            }
            let (alarm, waiting, idle, woken) = (Alarm::default(), false, false, false);
            self.ends.push(End { conn, alarm, host, far, group: number, waiting, idle, woken });
        }
    }

    /// Returns the TCP of a host for a group.
    pub(super) fn tcp_of(&self, host: u32, g: &Group) -> TcpConfig {
        g.choice.of(&self.hosts[host as usize].tcp)
    }

    /// Adds a sender of UDP and its receiver.
    fn add_sender(&mut self, g: &Group, number: u32, (a, b): (Addr, Addr), start: Instant) {
        let sink = self.sinks.len() as u32;
        let label = Label { to: SINKS + sink, hash: self.rng.next_u64() as u32, priority: g.priority };
        let (sender, receiver) = match g.load {
            Load::Cbr { len, rate } => {
                let made = udp::Source::new(a, b, label, len, rate, start, Instant::MAX);
                (Sender::Cbr(made), Receiver::Cbr(udp::Sink::default()))
            }
            Load::Video(video) => {
                let camera = Camera::new(a, b, label, video, start);
                (Sender::Video(camera), Receiver::Video(Box::new(Viewer::new(video.deadline))))
            }
            _ => {
                let talker = voice::Talker::new(a, b, label, start, self.rng.next_u64());
                (Sender::Voice(talker), Receiver::Voice(Box::default()))
            }
        };
        let source = self.add_source(sender, g);
        self.sinks.push(Sink { receiver, host: g.to, source, group: number });
    }

    fn add_source(&mut self, sender: Sender, g: &Group) -> u32 {
        let source = self.sources.len() as u32;
        let mut alarm = Alarm::default();
        alarm.set(&mut self.engine, sender.poll_at(), source, What::Source);
        self.sources.push(Source { sender, alarm, host: g.from, to: g.to, refused: 0 });
        source
    }

    /// Adds a client that asks, the server, and the receiver of the answers.
    fn add_ask(&mut self, g: &Group, number: u32, (a, b): (Addr, Addr), start: Instant, ask: Ask) {
        let sink = self.sinks.len() as u32;
        let mut label = |to| Label { to: SINKS + to, hash: self.rng.next_u64() as u32, priority: g.priority };
        let (there, back) = (label(sink), label(sink + 1));
        let client = ask::Client::new(a, b, there, ask, start, self.rng.next_u64());
        let source = self.add_source(Sender::Ask(Box::new(client)), g);
        let server = Receiver::Server(ask::Server::new(b, a, back, ask.response));
        self.sinks.push(Sink { receiver: server, host: g.to, source, group: number });
        self.sinks.push(Sink { receiver: Receiver::Client, host: g.from, source, group: number });
    }

    /// Adds both ends of a QUIC connection.
    fn add_quic(&mut self, g: &Group, (a, b): (Addr, Addr), start: Instant, c: &quic::Config) {
        let end = self.quics.len() as u32;
        let mut label = |to| Label { to: QUICS + to, hash: self.rng.next_u64() as u32, priority: g.priority };
        let (to_server, to_client) = (label(end + 1), label(end));
        let tso = |host: u32| self.hosts[host as usize].tcp.tso_max;
        let client = quic::Conn::connect(c, (a, b), start, to_server, tso(g.from), self.rng.next_u64());
        let server = quic::Conn::listen(c, (b, a), to_client, tso(g.to), self.rng.next_u64());
        for (conn, host) in [(client, g.from), (server, g.to)] {
            let alarm = Alarm::default();
            self.quics.push(super::QuicEnd { conn, alarm, host, waiting: false });
        }
        self.quics[end as usize].alarm.set(&mut self.engine, Some(start), QUICS + end, What::Timer);
    }
}
