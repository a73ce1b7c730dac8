//! A network: hosts, the links between them, and the traffic on them.

mod datagrams;
mod ends;
mod flows;
mod foresight;
mod group;
mod links;
mod machines;
mod measure;
mod members;
mod meters;
mod observe;
mod replay;
mod single;
mod traffic;
mod turns;
mod watch;
mod ways;

use std::sync::Arc;

use txweir_core::base::rng::Rng;
use txweir_core::{Instant, Rate};
use txweir_tc::{Diagnostic, Policy};

use crate::cpu::Cpu;
use crate::engine::{Engine, Event, Trace};
use crate::event::NetEvent;
use crate::frame::Frame;
use crate::machine::Machine;
use crate::nic::{Nic, NicConfig};
use crate::tcp::TcpConfig;

pub use flows::{AT_ONCE_MAX, CLASSES, FlowCounts, Flows, LISTED_MAX, Short};
pub use group::{Choice, Group, GroupState, Load};
use links::Arrived;
pub use links::{Links, Totals};
pub use machines::MachineCounts;
pub use measure::{CbrCounts, Counted, VideoCounts, VoiceCounts};
use members::{Members, Quota};
pub use meters::Meters;
pub use observe::Observer;
pub use replay::Replay;
pub use single::Single;
use traffic::Host;
pub use traffic::Traffic;
use watch::Watch;

/// Destinations from here on are hosts that are machines; below are TCP ends.
const MACHINES: u32 = 1 << 28;
/// Destinations from here on are QUIC ends.
const QUICS: u32 = 1 << 29;
/// Destinations from here on are UDP sinks.
const SINKS: u32 = 1 << 30;
/// Destination of replayed packets.
const REPLAY: u32 = 1 << 31;

/// Most connections of a net: each has a port of its own.
pub const CONNECTIONS_MAX: u32 = 60_000;

/// The surroundings of the traffic: the clock and the events, the links, the measurements.
#[derive(Debug)]
struct Ground {
    engine: Engine<NetEvent>,
    links: Links,
    meters: Meters,
}

/// Returns the IPv4 address of a host.
pub(crate) const fn address(host: u32) -> [u8; 4] {
    members::addr(host, 1).ip
}

/// Hosts, links, connections, and the clock.
#[derive(Debug)]
pub struct Net {
    ground: Ground,
    traffic: Traffic,
    quota: Quota,
    rng: Rng,
    replay: Option<Replay>,
}

impl Net {
    /// Returns an empty net. The seed decides start times, flow hashes and sequence numbers.
    pub fn new(seed: u64) -> Self {
        let (links, meters) = (Links::default(), Meters::default());
        let mut traffic = Traffic::default();
        traffic.machines.set_seed(seed);
        Self {
            ground: Ground { engine: Engine::new(), links, meters },
            traffic,
            quota: Quota::default(),
            rng: Rng::new(seed),
            replay: None,
        }
    }

    /// Adds an event log.
    #[must_use]
    pub fn with_trace(mut self, trace: Trace) -> Self {
        self.ground.engine = self.ground.engine.with_trace(trace);
        self
    }

    /// Adds a host and returns its number.
    pub fn host(&mut self, tcp: TcpConfig, cpu: Cpu) -> u32 {
        self.traffic.hosts.push(Host { cpu, tcp });
        self.ground.links.add_host();
        self.traffic.hosts.len() as u32 - 1
    }

    /// Adds one direction of a link, with the NIC that sends into it, and returns the NIC's number.
    ///
    /// # Errors
    /// Fails if the configuration of the NIC is wrong.
    pub fn link(&mut self, from: u32, to: u32, config: NicConfig) -> Result<u32, String> {
        self.ground.links.link(from, to, config)
    }

    /// Adds an ifb to a host, and returns the number of its NIC. Packets that an action redirects
    /// to it pass its qdiscs, and go on where they were taken.
    ///
    /// # Errors
    /// Fails if the configuration of the NIC is wrong.
    pub fn ifb(&mut self, host: u32, name: &str, config: NicConfig) -> Result<u32, String> {
        self.ground.links.ifb(host, name, config)
    }

    /// Gives a NIC the name by which policies of its host know it.
    pub(crate) fn set_name(&mut self, nic: u32, name: &str) {
        self.ground.links.set_name(nic, name);
    }

    /// Sets the most bytes of the tables of all qdiscs that policies make.
    pub(crate) const fn set_tables(&mut self, bytes: u64) {
        self.ground.links.set_tables(bytes);
    }

    /// Applies a policy to the devices of a host before the run, whole or not at all. Lines that
    /// name no device are for the NIC, and so are all lines of a policy for one device whose name
    /// no device of the host has. The devices of a host share filters and actions, those of the net
    /// the rates that qdiscs name.
    ///
    /// # Errors
    /// The policy asks for something that a device or its line cannot do, or names a device that
    /// the host does not have.
    pub fn apply(&mut self, nic: u32, policy: &Policy) -> Result<(), Diagnostic> {
        self.ground.links.apply(self.ground.engine.now(), nic, policy)
    }

    /// Changes a NIC's rate at a time.
    pub fn rate_step(&mut self, nic: u32, at: Instant, rate: Rate) {
        let step = self.ground.links.rate_step(nic, rate);
        self.ground.engine.schedule(at, nic, step);
    }

    /// Returns true if links lead from one host to the other.
    pub fn reaches(&mut self, from: u32, to: u32) -> bool {
        self.ground.links.reaches(from, to)
    }

    /// Adds a group of connections.
    ///
    /// # Errors
    /// Fails if there is no way from one host to the other and back, or if there are too many
    /// connections.
    pub fn group(&mut self, group: Group) -> Result<(), String> {
        let name = &group.name;
        let back = group.load.goes_back();
        if !self.reaches(group.from, group.to) || (back && !self.reaches(group.to, group.from)) {
            return Err(format!("group {name}: no links lead from one host to the other and back"));
        }
        if !self.quota.connect(group.count) {
            return Err(format!("group {name}: more than {CONNECTIONS_MAX} connections in all"));
        }
        let number = self.traffic.groups.len() as u32;
        let first = self.traffic.place(&group.load);
        let mut members = Members::of(self, &group, number);
        let flows = match group.load {
            Load::Short(short) => Some(Box::new(members.flows(short)?)),
            _ => {
                members.make();
                None
            }
        };
        self.traffic.groups.push(GroupState::new(group, first, flows));
        Ok(())
    }

    /// Makes a host a machine, before the run: its packets are those of the machine. Groups of
    /// traffic are none of its business.
    pub fn machine(&mut self, host: u32, machine: Box<dyn Machine>) {
        self.traffic.machines.add(host, machine, &mut self.ground);
    }
    /// Returns the machines with their hosts, to end them.
    pub(crate) fn machines_mut(&mut self) -> impl Iterator<Item = (u32, &mut Box<dyn Machine>)> {
        self.traffic.machines.iter_mut()
    }
    /// Returns the packets of machines that have ended outside queues and links.
    pub fn machine_counts(&self) -> MachineCounts {
        self.traffic.machines.counts()
    }
    /// Returns the payload that the connections of machines to this port of a server have sent
    /// again.
    pub fn machines_sent_again(&self, port: u16) -> u64 {
        self.traffic.machines.again(port)
    }
    /// Returns the first machine that has failed: its host, and the reason. No machine runs any
    /// more, and what the net does from then on counts for nothing.
    pub fn fault(&self) -> Option<(u32, &str)> {
        self.traffic.machines.fault()
    }

    /// Lets these packets arrive at `from` on their way to `to`, each at its sending time
    /// (`Frame::sent`), by which they are ordered. A net has one replay.
    ///
    /// # Errors
    /// Fails if no links lead there.
    pub fn replay(&mut self, from: u32, to: u32, packets: Arc<[Frame]>) -> Result<(), String> {
        if !self.reaches(from, to) {
            return Err("replay: no links lead from one host to the other".into());
        }
        let replay = self.replay.insert(Replay::new(from, to, packets));
        replay.schedule(&mut self.ground.engine);
        Ok(())
    }
    /// Returns the replay, if there is one.
    pub const fn replayed(&self) -> Option<&Replay> {
        self.replay.as_ref()
    }

    /// Returns the clock, the event count, the event log.
    pub const fn engine(&self) -> &Engine<NetEvent> {
        &self.ground.engine
    }
    /// Returns the event log, to finish it.
    pub(crate) fn trace_mut(&mut self) -> Option<&mut Trace> {
        self.ground.engine.trace_mut()
    }
    /// Returns the links.
    pub const fn links(&self) -> &Links {
        &self.ground.links
    }
    /// Returns a NIC, to configure before the run.
    ///
    /// # Panics
    /// Panics if there is no NIC of this number.
    pub fn nic_mut(&mut self, nic: u32) -> &mut Nic {
        self.ground.links.nic_mut(nic)
    }
    /// Returns the groups of traffic.
    pub const fn traffic(&self) -> &Traffic {
        &self.traffic
    }
    /// Returns the groups of traffic, to configure before the run.
    pub(crate) const fn traffic_mut(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
    /// Returns the times that are kept.
    pub const fn meters(&self) -> &Meters {
        &self.ground.meters
    }

    /// Reports events of connection ends to `observer` from now on. A net has one observer.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.ground.meters.observer = Some(observer);
    }
    /// Keeps the times of each group from now on. The caller calls this when all groups exist,
    /// before the run.
    pub fn watch(&mut self) {
        let watch = Watch::new(&self.traffic.groups, &self.traffic.ends);
        self.ground.meters.watch = Some(Box::new(watch));
    }
    /// Begins a step: resets `Stepped::step` of each group.
    pub(crate) fn next_step(&mut self) {
        self.ground.meters.next_step();
        if let Some(replay) = &mut self.replay {
            replay.watch.step.reset();
        }
    }
    /// Starts measuring now: earlier events do not count.
    pub fn measure(&mut self) {
        let now = self.ground.engine.now();
        self.ground.links.restart(now);
        self.traffic.restart();
        self.ground.meters.restart(now);
    }

    /// Runs until `until`.
    pub fn run(&mut self, until: Instant) {
        self.ground.links.find_ways();
        loop {
            let engine = &mut self.ground.engine;
            if self.traffic.has_turns()
                && engine.upcoming().is_none_or(|at| at > engine.now())
                && self.traffic.run_later(&mut self.ground)
            {
                continue;
            }
            let Some(e) = self.ground.engine.next(until) else { break };
            self.handle(e);
        }
    }

    fn handle(&mut self, e: Event<NetEvent>) {
        let Self { ground, traffic, .. } = self;
        match e.what {
            NetEvent::Timer => {
                foresight::timers(&traffic.ends, &ground.engine);
                traffic.timer(e.actor, ground);
            }
            NetEvent::Source => traffic.source(e.actor, ground),
            NetEvent::Flow => traffic.next_flow(e.actor, ground),
            NetEvent::Wire | NetEvent::Wake => {
                if ground.links.nic_mut(e.actor).fired(e.at, e.what) {
                    traffic.kick(e.actor, ground);
                }
            }
            NetEvent::Arrival => {
                let frame = ground.links.nic_mut(e.actor).link_mut().arrive(&mut ground.engine);
                foresight::arrivals(&traffic.ends, &ground.links, e.actor);
                self.arrive(e.actor, frame);
            }
            NetEvent::Late(slot) => {
                let frame = ground.links.nic_mut(e.actor).link_mut().arrive_late(slot);
                self.arrive(e.actor, frame);
            }
            NetEvent::Replay => {
                if let Some(replay) = &mut self.replay {
                    let nic = replay.next(ground);
                    traffic.kick(nic, ground);
                }
            }
            NetEvent::Rate(step) => ground.links.step(step),
            NetEvent::Machine => traffic.machine(e.actor, ground),
        }
    }

    /// Takes a packet that reaches the host at the other side of a NIC's link.
    fn arrive(&mut self, nic: u32, frame: Option<Frame>) {
        let Self { ground, traffic, replay, .. } = self;
        let Some(frame) = frame else { return };
        let destination = match frame.to {
            REPLAY => replay.as_ref().map_or(0, |r| r.to),
            to => traffic.host_of(to),
        };
        match (ground.links.arrive(&mut ground.engine, nic, frame, destination), replay) {
            (Arrived::Gone, _) => {}
            (Arrived::PassedOn(nic), _) => traffic.kick(nic, ground),
            (Arrived::Here(frame), Some(replay)) if frame.to == REPLAY => {
                replay.receive(ground.engine.now(), &frame);
            }
            (Arrived::Here(frame), _) => traffic.deliver(&frame, ground),
        }
    }
}
