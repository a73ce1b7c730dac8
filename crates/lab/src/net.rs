//! A network: hosts, the links between them, and what talks over them.

mod flows;
mod group;
mod measure;
mod observe;
mod replay;
mod single;
mod turns;
mod watch;

use std::collections::VecDeque;

use txweir_core::base::rng::Rng;
use txweir_core::path::rates::SharedRates;
use txweir_core::{DropReason, Instant, Nanos, Rate, Tally};
use txweir_tc::{Diagnostic, Policy};

use crate::cpu::Cpu;
use crate::engine::{Alarm, Engine, Event, Trace};
use crate::event::What;
use crate::frame::Frame;
use crate::nic::{Nic, NicConfig, Taken};
use crate::quic;
use crate::tcp::{Handed, TcpConfig};

pub use flows::{AT_ONCE_MAX, CLASSES, FlowCounts, Flows, LISTED_MAX, Short};
pub use group::{Choice, Group, GroupState, Load};
use group::{End, Receiver, Sender, Sink, Source};
pub use measure::{CbrCounts, Totals, VideoCounts, VoiceCounts};
pub use observe::Observer;
pub use replay::Replay;
pub use single::Single;
pub use watch::GroupWatch;
use watch::Watch;

/// Code of the note that a packet reached its end.
const NOTE_DELIVER: u32 = 1;

/// Destinations from here on are QUIC ends; below are TCP ends.
const QUICS: u32 = 1 << 29;
/// Destinations from here on are UDP sinks.
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

/// One end of a QUIC connection, at its host.
#[derive(Debug)]
struct QuicEnd {
    conn: quic::Conn,
    alarm: Alarm,
    host: u32,
    /// It is among those that wait for room at its NIC.
    waiting: bool,
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
    /// For each NIC the one that sends the other way, if there is one: what comes in comes in by
    /// it.
    ways_back: Vec<Option<u32>>,
    /// Rates that qdiscs of any NICs share by name.
    rates: SharedRates,
    /// For each host and destination host, the NIC that leads there; `u32::MAX` if none does.
    routes: Vec<Vec<u32>>,
    ends: Vec<End>,
    quics: Vec<QuicEnd>,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    groups: Vec<GroupState>,
    steps: Vec<RateStep>,
    measuring_from: Option<Instant>,
    connections: u32,
    /// Short flows that may be under way at once.
    at_once: u32,
    replay: Option<Replay>,
    watch: Option<Box<Watch>>,
    observer: Option<Box<dyn Observer>>,
    /// Ends whose applications run once nothing more happens at this instant, in the order in which
    /// they were woken.
    woken: VecDeque<u32>,
    /// Ends of which enough has left the host that they may send again. They do ahead of the
    /// applications.
    freed: VecDeque<u32>,
    /// How long a process takes for a reading of the clock, and the readings of this instant. They
    /// delay nothing but what a reader notes as the time.
    reading: Nanos,
    readings: (Instant, u32),
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
            quics: Vec::new(),
            sources: Vec::new(),
            sinks: Vec::new(),
            groups: Vec::new(),
            steps: Vec::new(),
            measuring_from: None,
            connections: 0,
            at_once: 0,
            replay: None,
            watch: None,
            observer: None,
            woken: VecDeque::new(),
            freed: VecDeque::new(),
            reading: Nanos::ZERO,
            readings: (Instant::ZERO, 0),
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
        self.nics.push(Nic::new(config, nic, (from, to))?);
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

    /// Applies a policy to a NIC before the run: see [`Nic::apply`]. Qdiscs of all NICs of the net
    /// share the rates that they name.
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
        loop {
            let waits = !(self.freed.is_empty() && self.woken.is_empty());
            if waits && self.engine.upcoming().is_none_or(|at| at > self.engine.now()) {
                self.run_later();
                continue;
            }
            let Some(e) = self.engine.next(until) else { break };
            self.handle(e);
        }
    }

    fn handle(&mut self, e: Event<What>) {
        match e.what {
            What::Timer if e.actor >= QUICS => {
                if self.quics[(e.actor - QUICS) as usize].alarm.fired(e.at) {
                    self.poll(e.actor);
                }
            }
            What::Timer => {
                if self.ends[e.actor as usize].alarm.fired(e.at) {
                    self.timer(e.actor);
                }
            }
            What::Source => {
                if self.sources[e.actor as usize].alarm.fired(e.at) {
                    self.source(e.actor);
                }
            }
            What::Wire | What::Wake => {
                if self.nics[e.actor as usize].fired(e.at, e.what) {
                    self.kick(e.actor);
                }
            }
            What::Arrival => {
                let frame = self.nics[e.actor as usize].link_mut().arrive(&mut self.engine);
                self.arrive(e.actor, frame);
            }
            What::Late(slot) => {
                let frame = self.nics[e.actor as usize].link_mut().arrive_late(slot);
                self.arrive(e.actor, frame);
            }
            What::Replay => self.replay_next(),
            What::Flow => self.next_flow(e.actor),
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
            && !by.arrived(self.engine.now(), &mut frame)
        {
            return;
        }
        // Whoever passes it on writes a link header of its own.
        frame.set_link(None);
        let destination = match frame.to {
            REPLAY => self.replay.as_ref().map_or(0, |r| r.to),
            sink @ SINKS.. => self.sinks[(sink - SINKS) as usize].host,
            quic @ QUICS.. => self.quics[(quic - QUICS) as usize].host,
            end => self.ends[end as usize].host,
        };
        let here = self.far_sides[nic as usize];
        if here != destination {
            return self.forward(here, destination, frame);
        }
        if frame.damaged {
            return self.nics[nic as usize].link_mut().count_lost(frame.wire_len());
        }
        self.delivered.add(frame.wire_len());
        self.engine.note(frame.to, NOTE_DELIVER, u64::from(frame.ip_len()));
        let now = self.engine.now();
        if frame.to == REPLAY {
            return self.replay_arrived(now, &frame);
        }
        match frame.to {
            sink @ SINKS.. => return self.deliver_udp(sink - SINKS, &frame),
            quic @ QUICS.. => self.quics[(quic - QUICS) as usize].conn.deliver(now, &frame),
            to => {
                let end = &mut self.ends[to as usize];
                if self.groups[end.group as usize].flows.is_some() && !self.is_for_flow(&frame) {
                    return;
                }
                let end = &mut self.ends[to as usize];
                if let Some(watch) = &mut self.watch {
                    watch.arrived(now, to, end.group, &frame);
                }
                if let Some(observer) = &mut self.observer {
                    observer.delivered(now, &frame);
                }
                end.conn.deliver(now, &frame);
            }
        }
        self.poll(frame.to);
    }

    /// A packet of UDP has reached what it is for.
    fn deliver_udp(&mut self, number: u32, frame: &Frame) {
        let now = self.engine.now();
        let Sink { receiver, group, source, host } = &mut self.sinks[number as usize];
        let (group, source, host) = (*group, *source, *host);
        let mut took = Some(now.saturating_since(frame.sent));
        match receiver {
            Receiver::Cbr(sink) => sink.deliver(now, frame),
            Receiver::Voice(listener) => listener.deliver(now, frame),
            Receiver::Video(viewer) => viewer.deliver(now, frame),
            Receiver::Server(server) => {
                let answer = server.answer(now, frame);
                let asks = &mut self.sources[source as usize];
                let nic = self.routes[host as usize][asks.host as usize];
                asks.refused += u64::from(self.nics[nic as usize].submit(&self.engine, answer).is_err());
                return self.kick(nic);
            }
            Receiver::Client => {
                let asks = &mut self.sources[source as usize];
                took = match &mut asks.sender {
                    Sender::Ask(client) => client.answered(now, frame),
                    _ => None,
                };
                let at = asks.sender.poll_at();
                asks.alarm.set(&mut self.engine, at, source, What::Source);
                if let Some(took) = took.filter(|_| self.measuring_from.is_some()) {
                    self.groups[group as usize].latency.saturating_record(took.0.max(1));
                }
            }
        }
        if let (Some(watch), Some(took)) = (&mut self.watch, took) {
            watch.add(group, took);
        }
    }

    fn forward(&mut self, here: u32, destination: u32, frame: Frame) {
        let nic = self.routes[here as usize][destination as usize];
        let bytes = frame.wire_len();
        if let Some(n) = self.nics.get_mut(nic as usize) {
            // A forwarder's path takes everything: what does not fit is dropped and counted there.
            // One that is set up as an origin, because its host has traffic of its own, has nobody
            // here to give the packet back to.
            let refused = n.submit(&self.engine, frame).err().map_or(0, |rest| rest.wire_len());
            if refused > 0 {
                self.refused.add(refused);
            }
            if refused < bytes {
                self.forwarded.add(bytes - refused);
            }
            self.kick(nic);
        }
    }

    /// A UDP sender's next packet. A packet that does not fit is lost, as with a socket that does
    /// not block.
    fn source(&mut self, number: u32) {
        let now = self.engine.now();
        let Source { sender, alarm, host, to, refused } = &mut self.sources[number as usize];
        let frame = sender.poll(now);
        alarm.set(&mut self.engine, sender.poll_at(), number, What::Source);
        let Some(frame) = frame else { return };
        let nic = self.routes[*host as usize][*to as usize];
        *refused += u64::from(self.nics[nic as usize].submit(&self.engine, frame).is_err());
        self.kick(nic);
    }

    /// Lets a connection end send, and sees to its next deadline.
    fn poll(&mut self, n: u32) {
        if let Some(nic) = self.send(n) {
            self.kick(nic);
        }
    }

    /// Lets a connection end hand frames to its NIC; gives the NIC if it did. Its application runs
    /// behind all that happens at this instant, as a process runs behind the interrupts of a
    /// kernel.
    fn send(&mut self, n: u32) -> Option<u32> {
        if n >= QUICS {
            return self.send_quic(n - QUICS);
        }
        if !self.ends[n as usize].idle && !std::mem::replace(&mut self.ends[n as usize].woken, true) {
            self.woken.push_back(n);
        }
        self.send_with(n, None)
    }

    /// The same without the application, or with it alone, which then reads so much after the
    /// present.
    fn send_with(&mut self, n: u32, application: Option<Nanos>) -> Option<u32> {
        if self.ends[n as usize].idle {
            return None;
        }
        let Self {
            engine, ends, hosts, nics, routes, watch, observer, groups, measuring_from, readings, ..
        } = self;
        let end = &mut ends[n as usize];
        let number = routes[end.host as usize][end.far as usize];
        let nic = &mut nics[number as usize];
        let now = engine.now();
        let mut offered = false;
        end.conn.set_queue_paces(nic.paces());
        let mut sink = |frame: Frame| {
            offered = true;
            if let Some(watch) = watch.as_deref_mut() {
                watch.sent(now, n, &frame);
            }
            match nic.submit(engine, frame) {
                Err(frame) => Handed::Back(frame),
                Ok(Taken::Whole | Taken::Pieces(0)) => Handed::Taken,
                Ok(Taken::Pieces(segments)) => Handed::Cut(segments),
                Ok(Taken::Dropped(DropReason::FlowOverlimit | DropReason::Overmemory)) => Handed::Congested,
                Ok(Taken::Dropped(_)) => Handed::Dropped,
            }
        };
        let took = if let Some(late) = application {
            let acted = end.conn.poll_application(now, late, &mut hosts[end.host as usize].cpu, &mut sink);
            readings.1 += acted.calls;
            acted.took
        } else {
            end.conn.poll_stack(now, &mut sink);
            None
        };
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
            nic.waiting().wait(n);
        }
        let at = end.conn.poll_at(now);
        debug_assert!(at.is_none_or(|at| at > now), "a deadline that is due after it was served");
        end.alarm.set(engine, at, n, What::Timer);
        if groups[end.group as usize].flows.is_some() {
            self.look_at_flow(n);
        }
        offered.then_some(number)
    }

    /// The same for an end of QUIC, by its place among them.
    fn send_quic(&mut self, n: u32) -> Option<u32> {
        let to = self.quics[(n ^ 1) as usize].host;
        let Self { engine, quics, nics, routes, .. } = self;
        let end = &mut quics[n as usize];
        let number = routes[end.host as usize][to as usize];
        let nic = &mut nics[number as usize];
        let now = engine.now();
        let mut offered = false;
        end.conn.poll(now, |frame| {
            offered = true;
            nic.submit(engine, frame).map(|_| ())
        });
        if end.conn.is_blocked() && !std::mem::replace(&mut end.waiting, true) {
            nic.waiting().wait(QUICS + n);
        }
        let at = end.conn.poll_at(now);
        debug_assert!(at.is_none_or(|at| at > now), "a deadline that is due after it was served");
        end.alarm.set(engine, at, QUICS + n, What::Timer);
        offered.then_some(number)
    }

    /// An end that waited for room may try again. True if it has to wait once more.
    fn wake(&mut self, n: u32) -> bool {
        if let Some(quic) = n.checked_sub(QUICS) {
            let end = &mut self.quics[quic as usize];
            end.waiting = false;
            end.conn.wake();
            self.send(n);
            return self.quics[quic as usize].conn.is_blocked();
        }
        let end = &mut self.ends[n as usize];
        end.waiting = false;
        end.conn.wake();
        self.send(n);
        self.ends[n as usize].conn.is_blocked()
    }

    /// Moves what a NIC can move, and lets those that waited for it try again, the longest wait
    /// first, until one of them has to wait again. Senders hear of what has left.
    fn kick(&mut self, nic: u32) {
        loop {
            self.nics[nic as usize].kick(&mut self.engine);
            while let Some((end, bytes)) = self.nics[nic as usize].take_released() {
                if self.ends[end as usize].conn.released(bytes) {
                    self.freed.push_back(end);
                }
            }
            let Some(path) = self.nics[nic as usize].take_wake() else { return };
            while let Some(end) = self.nics[nic as usize].waiting().next(path) {
                if self.wake(end) {
                    break;
                }
            }
        }
    }
}
