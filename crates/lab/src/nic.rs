//! A host's transmit side: a `TxPath` over a `Wire`, both txweir's own, driven by virtual time.

use std::collections::VecDeque;

use txweir_core::txpath::PathConfig;
use txweir_core::wire::{Wire, WireConfig};
use txweir_core::{Admitted, Instant, Meta, Rate, TxPath, Wake};

use crate::engine::{Alarm, Engine};
use crate::frame::Frame;
use crate::link::{Link, LinkConfig};
use crate::net::What;

/// A quantity that changes at known times: its time-weighted mean, and its extremes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauge {
    value: u64,
    since: Instant,
    from: Instant,
    area: u128,
    max: u64,
}

impl Gauge {
    /// It has this value from `now` on.
    #[inline]
    pub fn set(&mut self, now: Instant, value: u64) {
        self.area += u128::from(self.value) * u128::from(now.saturating_since(self.since).0);
        self.since = now;
        self.value = value;
        self.max = self.max.max(value);
    }
    /// Forgets everything before `now`.
    pub fn restart(&mut self, now: Instant) {
        *self = Self { value: self.value, since: now, from: now, area: 0, max: self.value };
    }
    /// Mean until `now`.
    pub fn mean(&self, now: Instant) -> u64 {
        let area = self.area + u128::from(self.value) * u128::from(now.saturating_since(self.since).0);
        match now.saturating_since(self.from).0 {
            0 => self.value,
            t => (area / u128::from(t)) as u64,
        }
    }
    /// Largest value.
    pub const fn max(&self) -> u64 {
        self.max
    }
    /// Present value.
    pub const fn value(&self) -> u64 {
        self.value
    }
}

/// How to make a NIC.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// The transmit path.
    pub path: PathConfig,
    /// The device.
    pub wire: WireConfig,
    /// What the device sends into.
    pub link: LinkConfig,
    /// Seed of the link's draws.
    pub seed: u64,
}

/// A transmit side in action.
#[derive(Debug)]
pub struct Nic {
    path: TxPath<Frame>,
    wire: Wire<Frame>,
    link: Link<What>,
    actor: u32,
    wire_alarm: Alarm,
    wake_alarm: Alarm,
    /// Connection ends that were given a frame back, oldest first.
    waiting: VecDeque<u32>,
    /// Bytes that the device holds.
    ring: Gauge,
    /// Bytes that the qdiscs hold.
    backlog: Gauge,
}

impl Nic {
    /// A NIC that is `actor` to the engine. Errors are those of its parts, in words.
    pub fn new(c: NicConfig, actor: u32) -> Result<Self, String> {
        Ok(Self {
            path: TxPath::new(c.path).map_err(|e| e.to_string())?,
            wire: Wire::new(c.wire).map_err(|e| e.to_string())?,
            link: Link::new(c.link, actor, What::Arrival, What::Late, c.seed),
            actor,
            wire_alarm: Alarm::default(),
            wake_alarm: Alarm::default(),
            waiting: VecDeque::new(),
            ring: Gauge::default(),
            backlog: Gauge::default(),
        })
    }

    /// The transmit path.
    pub const fn path(&self) -> &TxPath<Frame> {
        &self.path
    }
    /// The device.
    pub const fn wire(&self) -> &Wire<Frame> {
        &self.wire
    }
    /// The link.
    pub const fn link(&self) -> &Link<What> {
        &self.link
    }
    /// Bytes held by the device, and by the qdiscs, over time.
    pub const fn gauges(&self) -> [&Gauge; 2] {
        [&self.ring, &self.backlog]
    }
    /// Starts measuring.
    pub fn restart(&mut self, now: Instant) {
        self.ring.restart(now);
        self.backlog.restart(now);
    }
    /// Changes the tree of qdiscs.
    pub fn configure<R>(
        &mut self,
        now: Instant,
        f: impl FnOnce(&mut txweir_core::Tree, &mut txweir_core::cx::Cx) -> R,
    ) -> R {
        self.path.configure(now, &mut self.wire, f)
    }
    /// Changes the line rate.
    pub fn set_rate(&mut self, rate: Rate) {
        self.wire.set_rate(rate);
    }

    /// A host hands a frame over; it comes back if there is no room. To be followed by `kick`.
    pub fn submit(&mut self, engine: &mut Engine<What>, frame: Frame) -> Result<(), Frame> {
        let m = meta_of(&frame);
        match self.path.submit(engine.now(), frame, m, &mut self.wire) {
            Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => Ok(()),
            Admitted::Full(frame) => Err(frame),
            Admitted::Cut(frame, _) => self.submit_segments(engine, &frame),
        }
    }

    /// A unit that a qdisc wants in pieces goes as segments; the rest of it comes back if there is no room.
    fn submit_segments(&mut self, engine: &mut Engine<What>, unit: &Frame) -> Result<(), Frame> {
        for i in 0..unit.segs() {
            let segment = unit.segment(i);
            let m = meta_of(&segment);
            if let Admitted::Full(_) | Admitted::Cut(..) =
                self.path.submit(engine.now(), segment, m, &mut self.wire)
            {
                return Err(unit.part(i, unit.segs() - i));
            }
        }
        Ok(())
    }

    /// Moves everything that can move at this instant, and sees to the next one.
    pub fn kick(&mut self, engine: &mut Engine<What>) {
        let now = engine.now();
        if self.advance(engine) {
            self.path.reap(now, &mut self.wire, |_| {});
        }
        let wake = loop {
            match self.path.drain(now, 64, &mut self.wire) {
                Wake::More => {}
                wake => break wake,
            }
        };
        if let Wake::At(at, _) = wake {
            self.wake_alarm.set(engine, Some(at), self.actor, What::Wake);
        }
        self.wire_alarm.set(engine, self.wire.next_event(), self.actor, What::Wire);
        self.ring.set(now, self.wire.held().bytes);
        self.backlog.set(now, self.path.backlog().bytes);
    }

    /// Brings the device to the present; true if it has completions.
    pub fn advance(&mut self, engine: &mut Engine<What>) -> bool {
        let link = &mut self.link;
        self.wire.advance(engine.now(), |d| link.push(engine, d.frame, d.start, d.finish))
    }

    /// An event of the device or of a wake-up; false if it was overtaken.
    pub fn fired(&mut self, at: Instant, what: What) -> bool {
        match what {
            What::Wire => self.wire_alarm.fired(at),
            _ => self.wake_alarm.fired(at),
        }
    }

    /// The packet whose arrival event has come.
    pub fn arrive(&mut self, engine: &mut Engine<What>) -> Option<Frame> {
        self.link.arrive(engine)
    }
    /// The packet whose late event has come.
    pub fn arrive_late(&mut self, slot: u32) -> Option<Frame> {
        self.link.arrive_late(slot)
    }

    /// This end waits for room.
    pub fn wait(&mut self, end: u32) {
        if !self.waiting.contains(&end) {
            self.waiting.push_back(end);
        }
    }
    /// True if ends that wait may try again.
    pub fn take_wake(&mut self) -> bool {
        self.path.take_wake() && !self.waiting.is_empty()
    }
    /// The end that has waited longest.
    pub fn next_waiting(&mut self) -> Option<u32> {
        self.waiting.pop_front()
    }
}

/// What a qdisc sees of a frame.
fn meta_of(frame: &Frame) -> Meta {
    // Headers are at most 78 bytes.
    let header_len = u16::try_from(frame.header_len()).unwrap_or(u16::MAX);
    let m = Meta::new(frame.len()).hash(frame.hash).priority(frame.priority);
    if frame.gso_size() == 0 { m } else { m.gso(header_len, frame.gso_size()) }
}
