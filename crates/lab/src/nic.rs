//! A host's transmit side: a `Port` over the rings of a `Wire`, both txweir's own, driven by
//! virtual time, and the link that the wire sends into.

mod counts;
mod device;
mod filtering;
mod policy;
mod probe;
mod timetable;
mod transmit;
mod waiting;

use txweir_core::model::wire::{Completion, Wire, WireConfig};
use txweir_core::path::port::Port;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::txpath::PathConfig;
use txweir_core::{Instant, Nanos, Rate, Tally};

use crate::engine::{Alarm, Engine};
use crate::event::NetEvent;
use crate::frame::Frame;
use crate::link::{Link, LinkConfig};
use transmit::Transmit;

pub use counts::{Gauge, NicCounts};
pub(crate) use device::Released;
pub use filtering::{Moved, Site};
pub use policy::{HostDevice, apply, targets};
pub use probe::{NodeProbe, PartProbe, Probe, Stage};
pub use timetable::Timetable;
pub use transmit::Taken;
pub use waiting::Waiting;

/// How to make a NIC.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// The transmit path of each queue. The device has as many queues as the wire has rings, and
    /// offers the scheduler of the wire, whatever its `env` says of them.
    pub path: PathConfig,
    /// The device.
    pub wire: WireConfig,
    /// The link into which the device sends.
    pub link: LinkConfig,
    /// Seed of the link's draws.
    pub seed: u64,
}

impl NicConfig {
    /// Length of the queue of an ifb, packets: Linux makes it with this one.
    pub const IFB_QUEUE: u32 = 32;

    /// Returns an ifb: qdiscs, and a device that hands on at once what leaves them.
    pub fn ifb(path: PathConfig, seed: u64) -> Self {
        // A full packet takes 12 ns on it.
        let rate = Rate::from_bits(1_000_000_000_000);
        let wire = WireConfig { rate, completion: Completion::Immediate, ..WireConfig::default() };
        Self { path: PathConfig { bql: None, ..path }, wire, link: LinkConfig::default(), seed }
    }
}

/// A transmit side in action.
#[derive(Debug)]
pub struct Nic {
    transmit: Transmit,
    link: Link<NetEvent>,
    actor: u32,
    wire_alarm: Alarm,
    wake_alarm: Alarm,
    /// Time by which the timer of the qdiscs is late.
    late: Nanos,
    /// Bytes that the device holds.
    ring: Gauge,
    /// Bytes that the qdiscs hold.
    backlog: Gauge,
    departed: Tally,
    /// The counts when measuring began.
    before: NicCounts,
}

impl Nic {
    /// A NIC at the first of these hosts, which sends to the other, and is `actor` to the engine.
    /// Its root qdisc is the default one. Errors are those of its parts, in words.
    pub fn new(c: NicConfig, actor: u32, hosts: (u32, u32)) -> Result<Self, String> {
        Ok(Self {
            transmit: Transmit::new(c.path, c.wire, hosts)?,
            link: Link::new(c.link, actor, NetEvent::Arrival, NetEvent::Late, c.seed),
            actor,
            wire_alarm: Alarm::default(),
            wake_alarm: Alarm::default(),
            late: Nanos::ZERO,
            ring: Gauge::default(),
            backlog: Gauge::default(),
            departed: Tally::default(),
            before: NicCounts::default(),
        })
    }

    /// Its queues: qdiscs, byte limits, counters.
    pub const fn port(&self) -> &Port<Frame> {
        &self.transmit.port
    }
    /// The device.
    pub const fn wire(&self) -> &Wire<Frame> {
        &self.transmit.device.wire
    }
    /// The link.
    pub const fn link(&self) -> &Link<NetEvent> {
        &self.link
    }
    /// The link, to record and to take what has arrived.
    pub(crate) const fn link_mut(&mut self) -> &mut Link<NetEvent> {
        &mut self.link
    }
    /// Bytes held by the device, and by the qdiscs, over time.
    pub const fn gauges(&self) -> [&Gauge; 2] {
        [&self.ring, &self.backlog]
    }
    /// A qdisc of it keeps packets until the times that senders give them.
    pub fn paces(&self) -> bool {
        self.transmit.paces
    }

    /// Returns its work since the start.
    pub fn counts(&self) -> NicCounts {
        let link = self.link.stats();
        NicCounts { departed: self.departed, link, ..self.transmit.counts() }
    }
    /// Returns the copies that its qdiscs have made of packets since the start, and their bytes on
    /// the wire.
    pub(crate) const fn copied(&self) -> Tally {
        self.transmit.device.copied
    }
    /// Returns its work since measuring began.
    pub fn measured(&self) -> NicCounts {
        self.counts().since(&self.before)
    }
    /// Starts measuring.
    pub fn restart(&mut self, now: Instant) {
        self.before = self.counts();
        self.ring.restart(now);
        self.backlog.restart(now);
        let Transmit { port, device, .. } = &mut self.transmit;
        if let Some(probe) = &mut device.probe {
            probe.restart(now, port);
        }
    }

    /// Puts a probe in, before the run and after the last change of the qdiscs. It changes nothing
    /// of what it sees.
    pub fn watch(&mut self, now: Instant) {
        let Transmit { port, device, .. } = &mut self.transmit;
        device.probe = Some(Box::new(Probe::new(port, now)));
    }
    /// Brings what the probe knows of the qdiscs to the present.
    pub fn look(&mut self, now: Instant) {
        let Transmit { port, device, .. } = &mut self.transmit;
        if let Some(probe) = &mut device.probe {
            probe.ask(now, port);
        }
    }
    /// Begins a step of what the probe times.
    pub(crate) fn next_step(&mut self) {
        if let Some(probe) = &mut self.transmit.device.probe {
            probe.next_step();
        }
    }
    /// The probe, if there is one.
    pub fn probe(&self) -> Option<&Probe> {
        self.transmit.device.probe.as_deref()
    }

    /// Changes its qdiscs, by their handles, before a run.
    pub fn configure<R>(&mut self, now: Instant, f: impl FnOnce(&mut Qdiscs<'_>) -> R) -> R {
        self.transmit.configure(now, f)
    }
    /// Lets the timer of the qdiscs fire so much later than they ask for. Their schedules stay as
    /// they are.
    pub(crate) const fn set_late(&mut self, late: Nanos) {
        self.late = late;
    }
    /// Changes the line rate.
    pub const fn set_rate(&mut self, rate: Rate) {
        self.transmit.device.wire.set_rate(rate);
    }

    /// A host hands a frame over, with its filters; it comes back if there is no room. To be
    /// followed by `kick`.
    pub fn submit(
        &mut self,
        engine: &Engine<NetEvent>,
        site: Option<&mut Site>,
        frame: Frame,
    ) -> Result<Taken, Frame> {
        self.transmit.submit(engine.now(), site, frame)
    }

    /// A frame has come in over the link that leads back from where this NIC sends to; false if the
    /// filters let it go no further.
    #[inline]
    pub fn arrived(&mut self, now: Instant, site: Option<&mut Site>, frame: &mut Frame) -> bool {
        self.transmit.arrived(now, site, frame)
    }

    /// Moves everything that can move at this instant, and sees to the next one.
    pub fn kick(&mut self, engine: &mut Engine<NetEvent>) {
        let now = engine.now();
        let Self { transmit, link, departed, .. } = self;
        let overhead = transmit.device.wire.config().overhead;
        let reported = transmit.device.advance(now, |mut d| {
            d.frame.set_depth(0);
            departed.add(d.meta.wire_len);
            link.push(engine, d.frame, (d.start, d.finish), overhead);
        });
        let wake = transmit.refill(now, reported);
        let Transmit { port, device, .. } = transmit;
        if wake.is_some() {
            self.wake_alarm.set(engine, wake.map(|at| at + self.late), self.actor, NetEvent::Wake);
        }
        self.wire_alarm.set(engine, device.wire.next_event(), self.actor, NetEvent::Wire);
        self.ring.set(now, device.wire.held().bytes);
        self.backlog.set(now, port.totals().backlog().bytes);
        if let Some(probe) = &mut device.probe {
            probe.look(now, port);
        }
    }

    /// An event of the device or of a wake-up; false if it was overtaken.
    pub fn fired(&mut self, at: Instant, what: NetEvent) -> bool {
        match what {
            NetEvent::Wire => self.wire_alarm.fired(at),
            _ => self.wake_alarm.fired(at),
        }
    }

    /// Takes a unit that has left it, or was dropped, and lay below a socket of its host.
    pub(crate) fn take_released(&mut self) -> Option<Released> {
        self.transmit.device.released.pop()
    }
    /// Passes packets on within the call that handed one over, if the device takes every packet at
    /// once, as one does that hands packets to another host of the same machine. Takes the units of
    /// this end that have left or were dropped; returns how much those count that it has sent
    /// `since`.
    pub(crate) fn pass_on(&mut self, engine: &mut Engine<NetEvent>, end: u32, since: Instant) -> u32 {
        if !matches!(self.transmit.device.wire.config().completion, Completion::Immediate) {
            return 0;
        }
        self.kick(engine);
        let mut sum = 0;
        self.transmit.device.released.retain(|unit| {
            sum += if unit.end == end && unit.sent >= since { unit.bytes } else { 0 };
            unit.end != end
        });
        sum
    }
    /// Notes that this unit has left.
    #[cfg(test)]
    pub(crate) fn has_released(&mut self, unit: Released) {
        self.transmit.device.released.push(unit);
    }
    /// Takes the ends that will be told later of units that the device has got since the last call.
    pub(crate) fn take_pushed(&mut self) -> impl Iterator<Item = u32> {
        self.transmit.device.pushed.drain(..)
    }
    /// The connection ends that wait for room.
    pub const fn waiting(&mut self) -> &mut Waiting {
        &mut self.transmit.waiting
    }
    /// The number of a path whose ends may try again: see [`Waiting::next`].
    pub fn take_wake(&mut self) -> Option<usize> {
        let Transmit { port, waiting, .. } = &mut self.transmit;
        // There are at most as many paths as queues.
        let mut paths = 0..port.paths().len() as u16;
        let woken = paths.find(|path| port.take_wake(*path) && waiting.is_waiting(usize::from(*path)));
        woken.map(usize::from)
    }
}
