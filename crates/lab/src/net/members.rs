//! The making of a group: its members, in the places that the net has left.

use txweir_core::base::rng::Rng;
use txweir_core::{Instant, Nanos};

use super::datagrams::{Receiver, Sender, Sink};
use super::ends::QuicEnd;
use super::traffic::Traffic;
use super::{AT_ONCE_MAX, CONNECTIONS_MAX, Flows, Group, Load, Net, QUICS, SINKS, Short};
use crate::app::App;
use crate::engine::{Alarm, Engine};
use crate::event::NetEvent;
use crate::quic;
use crate::tcp::{Addr, Conn, Label, TcpConfig};
use crate::udp::ask::{self, Ask};
use crate::udp::video::{Camera, Viewer};
use crate::udp::{self, voice};

/// Port of the first connection.
const FIRST_PORT: u16 = 2000;

/// Returns the address of a host, with a port.
pub(super) const fn addr(host: u32, port: u16) -> Addr {
    Addr { ip: [10, (host / 65_025) as u8, (host / 255 % 255) as u8, 1 + (host % 255) as u8], port }
}

/// The places that the groups of a net have taken.
#[derive(Debug, Default)]
pub(super) struct Quota {
    connections: u32,
    /// Short flows that may be under way at once.
    at_once: u32,
}

impl Quota {
    /// Takes places for so many connections; returns false if the net has too few.
    pub(super) const fn connect(&mut self, count: u32) -> bool {
        self.connections = self.connections.saturating_add(count);
        self.connections <= CONNECTIONS_MAX
    }
    /// Takes places for short flows; returns false if the net has too few.
    pub(super) const fn short(&mut self, at_once: u32) -> bool {
        self.at_once = self.at_once.saturating_add(at_once);
        self.at_once <= AT_ONCE_MAX
    }
    /// Returns the port of the connection that took the `nth` last place, from 1.
    pub(super) const fn port(&self, nth_last: u32) -> u16 {
        FIRST_PORT + (self.connections - nth_last) as u16
    }
}

/// A group whose members are being made.
pub(super) struct Members<'a> {
    group: &'a Group,
    number: u32,
    traffic: &'a mut Traffic,
    quota: &'a mut Quota,
    engine: &'a mut Engine<NetEvent>,
    rng: &'a mut Rng,
}

impl<'a> Members<'a> {
    /// Returns the maker of the members of a group, whose places are the last that were taken.
    pub(super) const fn of(net: &'a mut Net, group: &'a Group, number: u32) -> Self {
        let Net { ground, traffic, quota, rng, .. } = net;
        Self { group, number, traffic, quota, engine: &mut ground.engine, rng }
    }

    /// Returns the short flows of the group, none of them open. Their server has the group's port.
    pub(super) fn flows(&mut self, short: Short) -> Result<Flows, String> {
        let Group { name, .. } = self.group;
        if !self.quota.short(short.at_once) {
            return Err(format!("group {name}: more than {AT_ONCE_MAX} short flows at once in all groups"));
        }
        let mut flows = Flows::new(short, self.rng.next_u64(), self.quota.port(1));
        if let Some(first) = flows.first(self.group) {
            self.engine.schedule(first, self.number, NetEvent::Flow);
        }
        Ok(flows)
    }

    /// Makes all members that exist from the start.
    pub(super) fn make(&mut self) {
        let g = self.group;
        if g.load.is_tcp() {
            self.traffic.ends.reserve_exact(2 * g.count as usize);
        }
        for n in 0..g.count {
            let start = g.start + Nanos(self.rng.below(g.stagger.0.max(1)));
            let port = self.quota.port(g.count - n);
            let ab = (addr(g.from, port), addr(g.to, port));
            match g.load {
                Load::Stream => self.connect(ab, start, (App::stream(None), App::sink())),
                Load::Rr { request, response } => {
                    self.connect(ab, start, (App::client(request, response), App::server(request, response)));
                }
                Load::Quic(config) => self.quic(ab, start, &config),
                Load::Ask(ask) => self.ask(ab, start, ask),
                Load::Cbr { .. } | Load::Voice | Load::Video(_) => self.sender(ab, start),
                Load::Short(_) => {}
            }
        }
    }

    fn label(&mut self, to: u32) -> Label {
        self.group.label(to, self.rng.next_u64() as u32)
    }

    fn connect(&mut self, ab: (Addr, Addr), start: Instant, apps: (App, App)) {
        let tcp = [self.group.from, self.group.to].map(|host| self.traffic.tcp_of(host, self.group));
        self.join(ab, start, apps, (&tcp[0], &tcp[1]));
    }

    /// Adds both ends of a connection.
    pub(super) fn join(
        &mut self,
        (a, b): (Addr, Addr),
        start: Instant,
        apps: (App, App),
        tcp: (&TcpConfig, &TcpConfig),
    ) {
        let end = self.traffic.ends.len() as u32;
        let (to_server, to_client) = (self.label(end + 1), self.label(end));
        let client = Conn::connect(tcp.0, (a, b), start, apps.0, to_server, self.rng.next_u64());
        let server = Conn::listen(tcp.1, (b, a), apps.1, to_client, self.rng.next_u64());
        self.traffic.add_ends([client, server], self.group, self.number);
        let alarm = &mut self.traffic.ends[end as usize].alarm;
        alarm.set(self.engine, Some(start), end, NetEvent::Timer);
    }

    /// Adds a sender of UDP and its receiver.
    fn sender(&mut self, (a, b): (Addr, Addr), start: Instant) {
        let label = self.label(SINKS + self.traffic.datagrams.sinks.len() as u32);
        let (sender, receiver) = match self.group.load {
            Load::Cbr { len, rate, launch } => {
                let made = udp::Source::new(a, b, label, len, rate, start, Instant::MAX).launch(launch);
                (Sender::Cbr(made), Receiver::Cbr(Box::default()))
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
        self.add(sender, [(receiver, self.group.to)]);
    }

    /// Adds a client that asks, the server, and the receiver of the answers.
    fn ask(&mut self, (a, b): (Addr, Addr), start: Instant, ask: Ask) {
        let sink = SINKS + self.traffic.datagrams.sinks.len() as u32;
        let (there, back) = (self.label(sink), self.label(sink + 1));
        let client = ask::Client::new(a, b, there, ask, start, self.rng.next_u64());
        let server = Receiver::Server(ask::Server::new(b, a, back, ask.response));
        let Group { from, to, .. } = *self.group;
        self.add(Sender::Ask(Box::new(client)), [(server, to), (Receiver::Client, from)]);
    }

    fn add<const N: usize>(&mut self, sender: Sender, receivers: [(Receiver, u32); N]) {
        let datagrams = &mut self.traffic.datagrams;
        let source = datagrams.add(self.engine, sender, self.group.from, self.group.to);
        let group = self.number;
        datagrams.sinks.extend(receivers.map(|(receiver, host)| Sink { receiver, host, source, group }));
    }

    /// Adds both ends of a QUIC connection.
    fn quic(&mut self, (a, b): (Addr, Addr), start: Instant, c: &quic::Config) {
        let Group { from, to, .. } = *self.group;
        let end = self.traffic.quics.len() as u32;
        let (to_server, to_client) = (self.label(QUICS + end + 1), self.label(QUICS + end));
        let tso = [from, to].map(|host| self.traffic.hosts[host as usize].tcp.tso_max);
        let client = quic::Conn::connect(c, (a, b), start, to_server, tso[0], self.rng.next_u64());
        let server = quic::Conn::listen(c, (b, a), to_client, tso[1], self.rng.next_u64());
        for (conn, host, far) in [(client, from, to), (server, to, from)] {
            let alarm = Alarm::default();
            self.traffic.quics.push(QuicEnd { conn, alarm, host, far, waiting: false });
        }
        let alarm = &mut self.traffic.quics[end as usize].alarm;
        alarm.set(self.engine, Some(start), QUICS + end, NetEvent::Timer);
    }
}
