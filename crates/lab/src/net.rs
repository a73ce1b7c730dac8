//! A network: hosts, the links between them, and what talks over them.

mod measure;
mod observe;
mod replay;
mod single;
mod watch;

use hdrhistogram::Histogram;
use txweir_core::rates::SharedRates;
use txweir_core::rng::Rng;
use txweir_core::{Instant, Nanos, Rate, Tally};
use txweir_tc::{Diagnostic, Policy};

use crate::app::App;
use crate::cpu::Cpu;
use crate::engine::{Alarm, Engine, Event, Payload, Trace};
use crate::frame::Frame;
use crate::nic::{Nic, NicConfig};
use crate::tcp::{Addr, Conn, Label, TcpConfig};
use crate::udp;

pub use measure::{CbrCounts, Totals};
pub use observe::Observer;
pub use replay::Replay;
pub use single::Single;
pub use watch::GroupWatch;
use watch::Watch;

/// What an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A connection end's deadline.
    Timer,
    /// A constant-rate source's next packet.
    Source,
    /// Something happens on a NIC's wire.
    Wire,
    /// A NIC's qdisc asked to be woken.
    Wake,
    /// The next packet on a NIC's link arrives.
    Arrival,
    /// A packet made late arrives.
    Late(u32),
    /// A NIC's rate changes: the step of that number.
    Rate(u32),
    /// The next packet of a replay arrives.
    Replay,
}

impl Payload for What {
    fn word(self) -> u64 {
        match self {
            Self::Timer => 0,
            Self::Source => 1,
            Self::Wire => 2,
            Self::Wake => 3,
            Self::Arrival => 4,
            Self::Late(slot) => 5 | u64::from(slot) << 8,
            Self::Rate(step) => 6 | u64::from(step) << 8,
            Self::Replay => 7,
        }
    }
}

/// Code of the note that a packet reached its end.
const NOTE_DELIVER: u32 = 1;

/// Destinations from here on are UDP sinks; below are connection ends.
const SINKS: u32 = 1 << 30;
/// Destination of replayed packets.
const REPLAY: u32 = 1 << 31;

/// Most connections of a net: each has a port of its own.
pub const CONNECTIONS_MAX: u32 = 60_000;

/// A host.
#[derive(Debug)]
struct Host {
    cpu: Cpu,
    tcp: TcpConfig,
    /// NICs, with the host at the other side of each link.
    nics: Vec<(u32, u32)>,
}

/// One end of a connection, at its host.
#[derive(Debug)]
struct End {
    conn: Conn,
    alarm: Alarm,
    host: u32,
    group: u32,
    /// It is among those that wait for room at its NIC.
    waiting: bool,
}

/// A constant-rate sender.
#[derive(Debug)]
struct Source {
    source: udp::Source,
    host: u32,
    /// Packets that its NIC had no room for.
    refused: u64,
}

/// A constant-rate receiver.
#[derive(Debug)]
struct Sink {
    sink: udp::Sink,
    host: u32,
    source: u32,
    group: u32,
}

/// What a group of connections does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Bulk, as much as TCP takes.
    Stream,
    /// Requests and responses, one after the other.
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
        /// Bit/s of such frames.
        rate: u64,
    },
}

/// A group of like connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name in reports.
    pub name: String,
    /// Sending (opening) host.
    pub from: u32,
    /// Other host.
    pub to: u32,
    /// What it does.
    pub load: Load,
    /// How many.
    pub count: u32,
    /// Priority of its packets, both ways.
    pub priority: u32,
    /// When it starts.
    pub start: Instant,
    /// Each of its connections starts up to so much later.
    pub stagger: Nanos,
}

/// A group and its measurements.
#[derive(Debug)]
pub struct GroupState {
    /// What it is.
    pub group: Group,
    /// Times of the transactions that ended while measuring, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Ends, sources or sinks that belong to it: the first, in their own list.
    first: u32,
    /// Bytes that each member had delivered when measuring began.
    bytes_before: Vec<u64>,
    /// What its constant-rate members had done when measuring began.
    cbr_before: CbrCounts,
    /// What its senders had sent again when measuring began.
    retransmitted_before: u64,
}

/// A step of a NIC's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RateStep {
    nic: u32,
    rate: Rate,
}

/// Hosts, links, connections, and the clock.
#[derive(Debug)]
pub struct Net {
    engine: Engine<What>,
    rng: Rng,
    hosts: Vec<Host>,
    nics: Vec<Nic>,
    /// The host at the other side of each NIC's link.
    far_sides: Vec<u32>,
    /// For each NIC the one that sends the other way, if there is one: what comes in comes in by it.
    ways_back: Vec<Option<u32>>,
    /// Rates that qdiscs of any NICs share by name.
    rates: SharedRates,
    /// For each host and destination host, the NIC that leads there; `u32::MAX` if none does.
    routes: Vec<Vec<u32>>,
    ends: Vec<End>,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    groups: Vec<GroupState>,
    steps: Vec<RateStep>,
    measuring_from: Option<Instant>,
    connections: u32,
    replay: Option<Replay>,
    watch: Option<Box<Watch>>,
    observer: Option<Box<dyn Observer>>,
    /// Packets that reached their end, and their bytes on the wire.
    delivered: Tally,
    /// Packets that a host in between passed on, and their bytes on the wire.
    forwarded: Tally,
    /// Packets that it had no room for and that have no other owner.
    refused: Tally,
}

impl Net {
    /// An empty net. The seed decides start times, flow hashes and sequence numbers.
    pub fn new(seed: u64) -> Self {
        Self {
            engine: Engine::new(),
            rng: Rng::new(seed),
            hosts: Vec::new(),
            nics: Vec::new(),
            far_sides: Vec::new(),
            ways_back: Vec::new(),
            rates: SharedRates::new(),
            routes: Vec::new(),
            ends: Vec::new(),
            sources: Vec::new(),
            sinks: Vec::new(),
            groups: Vec::new(),
            steps: Vec::new(),
            measuring_from: None,
            connections: 0,
            replay: None,
            watch: None,
            observer: None,
            delivered: Tally::default(),
            forwarded: Tally::default(),
            refused: Tally::default(),
        }
    }

    /// With an event log.
    #[must_use]
    pub fn with_trace(mut self, trace: Trace) -> Self {
        self.engine = self.engine.with_trace(trace);
        self
    }

    /// Adds a host and gives its number.
    pub fn host(&mut self, tcp: TcpConfig, cpu: Cpu) -> u32 {
        self.hosts.push(Host { cpu, tcp, nics: Vec::new() });
        self.hosts.len() as u32 - 1
    }

    /// Adds one direction of a link, with the NIC that sends into it, and gives the NIC's number.
    pub fn link(&mut self, from: u32, to: u32, config: NicConfig) -> Result<u32, String> {
        let nic = self.nics.len() as u32;
        let mut made = Nic::new(config, nic)?;
        made.set_hosts(from, to);
        self.nics.push(made);
        self.far_sides.push(to);
        let back = self.hosts[to as usize]
            .nics
            .iter()
            .find(|(back, there)| *there == from && self.ways_back[*back as usize].is_none());
        self.ways_back.push(back.map(|(back, _)| *back));
        if let Some(back) = self.ways_back[nic as usize] {
            self.ways_back[back as usize] = Some(nic);
        }
        self.hosts[from as usize].nics.push((nic, to));
        self.routes = (0..self.hosts.len()).map(|h| self.routes_from(h as u32)).collect();
        Ok(nic)
    }

    /// Breadth-first: for each destination the NIC of the first hop on a shortest way.
    fn routes_from(&self, host: u32) -> Vec<u32> {
        let mut first = vec![u32::MAX; self.hosts.len()];
        let mut seen = vec![false; self.hosts.len()];
        seen[host as usize] = true;
        let mut queue: std::collections::VecDeque<(u32, u32)> = [(host, u32::MAX)].into();
        while let Some((at, via)) = queue.pop_front() {
            for &(nic, to) in &self.hosts[at as usize].nics {
                if !std::mem::replace(&mut seen[to as usize], true) {
                    let via = if via == u32::MAX { nic } else { via };
                    first[to as usize] = via;
                    queue.push_back((to, via));
                }
            }
        }
        first
    }

    /// True if links lead from one host to the other.
    pub fn reaches(&self, from: u32, to: u32) -> bool {
        self.routes.get(from as usize).is_some_and(|r| r[to as usize] != u32::MAX)
    }

    /// Applies a policy to a NIC before the run: see [`Nic::apply`]. Qdiscs of all NICs of the net share the rates that they
    /// name.
    ///
    /// # Errors
    /// As there.
    pub fn apply(&mut self, nic: u32, policy: &Policy) -> Result<(), Diagnostic> {
        self.nics[nic as usize].apply(self.engine.now(), policy, &mut self.rates)
    }

    /// Changes a NIC's rate at a time.
    pub fn rate_step(&mut self, nic: u32, at: Instant, rate: Rate) {
        let step = self.steps.len() as u32;
        self.steps.push(RateStep { nic, rate });
        self.engine.schedule(at, nic, What::Rate(step));
    }

    /// Adds a group of connections. Errors: no way from one host to the other and back, or too many connections.
    pub fn group(&mut self, group: Group) -> Result<(), String> {
        let back = !matches!(group.load, Load::Cbr { .. });
        if !self.reaches(group.from, group.to) || (back && !self.reaches(group.to, group.from)) {
            return Err(format!("group {}: no links lead from one host to the other and back", group.name));
        }
        self.connections = self.connections.saturating_add(group.count);
        if self.connections > CONNECTIONS_MAX {
            return Err(format!("group {}: more than {CONNECTIONS_MAX} connections in all", group.name));
        }
        let number = self.groups.len() as u32;
        let first = match group.load {
            Load::Cbr { .. } => self.sinks.len(),
            _ => self.ends.len(),
        } as u32;
        for n in 0..group.count {
            let start = group.start + Nanos(self.rng.below(group.stagger.0.max(1)));
            let port = 2000 + (self.connections - group.count + n) as u16;
            let addr = |host: u32| Addr {
                ip: [10, (host / 65_025) as u8, (host / 255 % 255) as u8, 1 + (host % 255) as u8],
                port,
            };
            let (a, b) = (addr(group.from), addr(group.to));
            match group.load {
                Load::Stream => self.connect(&group, number, a, b, start, (App::stream(None), App::sink())),
                Load::Rr { request, response } => {
                    let apps = (App::client(request, response), App::server(request, response));
                    self.connect(&group, number, a, b, start, apps);
                }
                Load::Cbr { len, rate } => self.add_cbr(&group, number, (a, b), start, (len, rate)),
            }
        }
        let latency = udp::histogram();
        self.groups.push(GroupState {
            group,
            latency,
            first,
            bytes_before: Vec::new(),
            cbr_before: CbrCounts::default(),
            retransmitted_before: 0,
        });
        Ok(())
    }

    fn connect(&mut self, g: &Group, number: u32, a: Addr, b: Addr, start: Instant, apps: (App, App)) {
        let tcp = |host: u32| self.hosts[host as usize].tcp.clone();
        let tcp = (tcp(g.from), tcp(g.to));
        self.join(g, number, (a, b), start, apps, (&tcp.0, &tcp.1));
    }

    fn add_cbr(
        &mut self,
        g: &Group,
        number: u32,
        (a, b): (Addr, Addr),
        start: Instant,
        (len, rate): (u32, u64),
    ) {
        let (source, sink) = (self.sources.len() as u32, self.sinks.len() as u32);
        let label = Label { to: SINKS + sink, hash: self.rng.next_u64() as u32, priority: g.priority };
        let made = udp::Source::new(a, b, label, len, rate, start, Instant::MAX);
        self.engine.schedule(start, source, What::Source);
        self.sources.push(Source { source: made, host: g.from, refused: 0 });
        self.sinks.push(Sink { sink: udp::Sink::default(), host: g.to, source, group: number });
    }

    /// The clock, the event count, the event log.
    pub const fn engine(&self) -> &Engine<What> {
        &self.engine
    }
    /// The event log, to finish it.
    pub fn trace_mut(&mut self) -> Option<&mut Trace> {
        self.engine.trace_mut()
    }
    /// A NIC.
    pub fn nic(&self, nic: u32) -> &Nic {
        &self.nics[nic as usize]
    }
    /// A NIC, to configure before the run.
    pub fn nic_mut(&mut self, nic: u32) -> &mut Nic {
        &mut self.nics[nic as usize]
    }
    /// Runs until `until`.
    pub fn run(&mut self, until: Instant) {
        while let Some(e) = self.engine.next(until) {
            self.handle(e);
        }
    }

    fn handle(&mut self, e: Event<What>) {
        match e.what {
            What::Timer => {
                if self.ends[e.actor as usize].alarm.fired(e.at) {
                    self.poll(e.actor);
                }
            }
            What::Source => self.source(e.actor),
            What::Wire | What::Wake => {
                if self.nics[e.actor as usize].fired(e.at, e.what) {
                    self.kick(e.actor);
                }
            }
            What::Arrival => {
                let frame = self.nics[e.actor as usize].arrive(&mut self.engine);
                self.arrive(e.actor, frame);
            }
            What::Late(slot) => {
                let frame = self.nics[e.actor as usize].arrive_late(slot);
                self.arrive(e.actor, frame);
            }
            What::Replay => self.replay_next(),
            What::Rate(step) => {
                let RateStep { nic, rate } = self.steps[step as usize];
                self.nics[nic as usize].set_rate(rate);
            }
        }
    }

    /// A packet reaches the host at the other side of a NIC's link.
    fn arrive(&mut self, nic: u32, frame: Option<Frame>) {
        let Some(mut frame) = frame else { return };
        if let Some(by) = self.ways_back[nic as usize].map(|n| &mut self.nics[n as usize])
            && by.asks_arrived()
            && !by.arrived(self.engine.now(), &mut frame)
        {
            return;
        }
        // Whoever passes it on writes a link header of its own.
        frame.set_link(None);
        let destination = match frame.to {
            REPLAY => self.replay.as_ref().map_or(0, |r| r.to),
            sink @ SINKS.. => self.sinks[(sink - SINKS) as usize].host,
            end => self.ends[end as usize].host,
        };
        let here = self.far_sides[nic as usize];
        if here != destination {
            return self.forward(here, destination, frame);
        }
        if frame.damaged {
            return self.nics[nic as usize].spoilt(&frame);
        }
        self.delivered.add(frame.wire_len());
        self.engine.note(frame.to, NOTE_DELIVER, u64::from(frame.ip_len()));
        let now = self.engine.now();
        if frame.to == REPLAY {
            return self.replay_arrived(now, &frame);
        }
        if let Some(sink) = frame.to.checked_sub(SINKS) {
            let Sink { sink, group, .. } = &mut self.sinks[sink as usize];
            if let Some(watch) = &mut self.watch {
                watch.add(*group, now.saturating_since(frame.sent));
            }
            return sink.deliver(now, &frame);
        }
        if let Some(observer) = &mut self.observer {
            observer.delivered(now, &frame);
        }
        let end = &mut self.ends[frame.to as usize];
        if let Some(watch) = &mut self.watch {
            watch.arrived(now, frame.to, end.group, &frame);
        }
        end.conn.deliver(now, &frame);
        self.poll(frame.to);
    }

    fn forward(&mut self, here: u32, destination: u32, frame: Frame) {
        let nic = self.routes[here as usize][destination as usize];
        let bytes = frame.wire_len();
        if let Some(n) = self.nics.get_mut(nic as usize) {
            // A forwarder's path takes everything: what does not fit is dropped and counted there. One that is set up
            // as an origin, because its host has traffic of its own, has nobody here to give the packet back to.
            let refused = n.submit(&mut self.engine, frame).err().map_or(0, |rest| rest.wire_len());
            if refused > 0 {
                self.refused.add(refused);
            }
            if refused < bytes {
                self.forwarded.add(bytes - refused);
            }
            self.kick(nic);
        }
    }

    /// A constant-rate source's next packet. What does not fit is lost, as with a socket that does not block.
    fn source(&mut self, number: u32) {
        let now = self.engine.now();
        let Source { source, host, refused } = &mut self.sources[number as usize];
        let Some(frame) = source.poll(now) else { return };
        if let Some(at) = source.poll_at() {
            self.engine.schedule(at, number, What::Source);
        }
        let sink = (frame.to - SINKS) as usize;
        let nic = self.routes[*host as usize][self.sinks[sink].host as usize];
        *refused += u64::from(self.nics[nic as usize].submit(&mut self.engine, frame).is_err());
        self.kick(nic);
    }

    /// Lets a connection end send, and sees to its next deadline.
    fn poll(&mut self, n: u32) {
        if let Some(nic) = self.send(n) {
            self.kick(nic);
        }
    }

    /// Lets a connection end hand frames to its NIC; gives the NIC if it did.
    fn send(&mut self, n: u32) -> Option<u32> {
        let to = self.ends[(n ^ 1) as usize].host;
        let Self { engine, ends, hosts, nics, routes, watch, observer, groups, measuring_from, .. } = self;
        let end = &mut ends[n as usize];
        let number = routes[end.host as usize][to as usize];
        let nic = &mut nics[number as usize];
        let now = engine.now();
        let mut offered = false;
        end.conn.set_queue_paces(nic.paces());
        let took = end.conn.poll(now, &mut hosts[end.host as usize].cpu, |frame| {
            offered = true;
            if let Some(watch) = watch.as_deref_mut() {
                watch.sent(now, n, &frame);
            }
            nic.submit(engine, frame)
        });
        if let Some(observer) = observer {
            observer.polled(now, n, &end.conn, took);
        }
        if let Some(took) = took {
            if measuring_from.is_some() {
                groups[end.group as usize].latency.saturating_record(took.0.max(1));
            }
            if let Some(watch) = watch {
                watch.add(end.group, took);
            }
        }
        if end.conn.is_blocked() && !std::mem::replace(&mut end.waiting, true) {
            nic.wait(n);
        }
        let at = end.conn.poll_at(now);
        debug_assert!(at.is_none_or(|at| at > now), "a deadline that is due after it was served");
        end.alarm.set(engine, at, n, What::Timer);
        offered.then_some(number)
    }

    /// Moves what a NIC can move, and lets those that waited for it try again, the longest wait first, until one of
    /// them has to wait again. Senders hear of what has left.
    fn kick(&mut self, nic: u32) {
        loop {
            self.nics[nic as usize].kick(&mut self.engine);
            let mut again = false;
            while let Some((end, bytes)) = self.nics[nic as usize].take_released() {
                if self.ends[end as usize].conn.released(bytes) {
                    again |= self.send(end) == Some(nic);
                }
            }
            while let Some(queue) = self.nics[nic as usize].take_wake() {
                while let Some(end) = self.nics[nic as usize].next_waiting(queue) {
                    let woken = &mut self.ends[end as usize];
                    woken.waiting = false;
                    woken.conn.wake();
                    self.send(end);
                    if self.ends[end as usize].conn.is_blocked() {
                        break;
                    }
                }
                self.nics[nic as usize].kick(&mut self.engine);
            }
            if !again {
                return;
            }
        }
    }
}
