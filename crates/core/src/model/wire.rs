//! `Wire`: a device modelled in time. It has rings counted in descriptors, a scheduler that gives
//! them turns or knows traffic classes, one line that serialises at a rate, and completions at the
//! times at which interrupts would bring them. The lab drives it by virtual time, the live loop by
//! the monotonic clock; the arithmetic is the same.
//!
//! A ring is a [`TxQueue`] ([`Wire::ring`]); the wire itself is one too, its first ring. A value,
//! [`LineConfig`], defines how rings share the line, and can be changed while packets flow
//! ([`Wire::configure_scheduler`]):
//!
//! - *Turns*: one class; rings take turns, unit by unit, and a super-packet is one unit.
//! - *Strict* classes, the highest first (IEEE 802.1Q-2018 clause 8.6.8.1); below them classes that
//!   share the line by weight, counted in bytes on the line (clauses 8.6.8.3 and 37, enhanced
//!   transmission selection).
//! - *Rates*: a maximum rate of a ring or a class; a minimum rate of a class, served before others
//!   that share.
//! - *Preemption*: frames of preemptible classes are interrupted for all others (clause 6.7.2;
//!   802.3-2018 clause 99).
//!
//! Order of effects at one instant: a unit finishes on the wire, its completion is recorded, the
//! next one starts; then the completion rounds run, by index of the ring. After that the driver
//! reaps and drains.
//!
//! - I1: units of one ring leave in the order in which they were pushed.
//! - I2: the line does not rest while the device knows of a unit that the rates allow to go.
//! - I3: the counts of all rings add up to those of the device, and so do the counts of all
//!   classes.
//!
//! A step costs at most a pass over the classes, and one over the rings if a completion round runs
//! or a ring has a rate of its own; a single ring without rates avoids the scheduler.

mod config;
mod framing;
mod gate;
mod line;
mod ring;
mod rings;

pub use config::{Completion, DescriptorCost, Latency, RINGS_MAX, RingConfig, WireConfig};
pub use ring::{RingQueue, RingStats};

use crate::base::env::Caps;
use crate::base::tally::Tally;
use crate::base::time::{Instant, Nanos};
use crate::base::units::Rate;
use crate::packet::meta::Meta;
use crate::path::device::{Completed, DeviceError, TxQueue};
use crate::sched::schedule::LineConfig;
use crate::text::error::ConfigError;
use framing::Framing;
use line::{Line, Pick};
use rings::Rings;

/// A packet that has left the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure<F> {
    /// The frame.
    pub frame: F,
    /// Its metadata.
    pub meta: Meta,
    /// The ring that held it.
    pub ring: u16,
    /// Time at which its first bit left.
    pub start: Instant,
    /// Time at which its last bit left, overhead included. An interrupted unit had others on the
    /// line in between.
    pub finish: Instant,
}

/// Sums over units that have left the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets (a super-packet is one).
    pub units: u64,
    /// Their bytes on the wire, without the line's overhead.
    pub bytes: u64,
    /// Time for which the line was busy with them and with parts of them, overhead included.
    pub busy: Nanos,
}

impl Counts {
    fn plus(self, o: Self) -> Self {
        Self { units: self.units + o.units, bytes: self.bytes + o.bytes, busy: self.busy + o.busy }
    }
    fn since(self, o: Self) -> Self {
        let busy = self.busy.saturating_sub(o.busy);
        Self { units: self.units - o.units, bytes: self.bytes - o.bytes, busy }
    }
}

/// The unit on the line.
#[derive(Clone, Copy, Debug)]
struct Sending {
    ring: usize,
    start: Instant,
    finish: Instant,
    /// The line's rate in bits per second, and the remainder of the division before: both determine
    /// `finish`.
    rate: u64,
    carried: u64,
    /// Bytes of its frames sent by `finish`, if the unit is interrupted there.
    cut: Option<u64>,
}

/// A device modelled in time: rings, and one line.
#[derive(Debug)]
pub struct Wire<F> {
    config: WireConfig,
    framing: Framing,
    rings: Rings<F>,
    line: Line,
    /// The driver's present time, set by `advance`.
    now: Instant,
    sending: Option<Sending>,
    /// While nothing is sent: the time of the device's next look at the rings, after a doorbell or
    /// when a rate allows more.
    look_at: Option<Instant>,
    /// Remainder of the last division, in the numerator's units, while the line is busy.
    remainder: u64,
}

impl<F> Wire<F> {
    /// Returns an idle wire.
    pub fn new(config: WireConfig) -> Result<Self, ConfigError> {
        let mut rings = Rings::new(&config)?;
        let line = config.line.clone().unwrap_or_else(|| LineConfig::round_robin(config.rings));
        line.check(&Caps { queues: config.rings, offload: config.offload }, config.rate)?;
        let line = Line::new(line, rings.all.len());
        for (i, ring) in rings.all.iter_mut().enumerate() {
            ring.class = line.class_of(i);
        }
        Ok(Self {
            framing: Framing { overhead: config.overhead.into(), min_frame: config.min_frame.into() },
            rings,
            line,
            now: Instant::ZERO,
            sending: None,
            look_at: None,
            remainder: 0,
            config,
        })
    }

    /// Returns the configuration. Its `line` is that given to `new`; for the current one see
    /// [`scheduler`](Self::scheduler).
    pub const fn config(&self) -> &WireConfig {
        &self.config
    }
    /// Returns the capabilities that a control plane may rely on.
    pub const fn caps(&self) -> Caps {
        Caps { queues: self.config.rings, offload: self.config.offload }
    }
    /// Returns the scheduler's configuration.
    pub const fn scheduler(&self) -> &LineConfig {
        self.line.config()
    }

    /// Changes the sharing of the line, from the next unit on; the unit being sent goes on, and an
    /// interrupted one is finished. Packets in the rings stay there, in order. A ring that is no
    /// longer in use grants no room, and its packets go before all others; the owner must drain a
    /// ring that is in use again. An error changes nothing.
    pub fn configure_scheduler(&mut self, line: &LineConfig) -> Result<(), ConfigError> {
        line.check(&self.caps(), self.config.rate)?;
        self.rings.close_counts();
        self.line = self.line.reconfigured(line.clone(), &mut self.rings.all);
        if self.sending.is_none() && self.look_at.is_some() {
            // A unit that waited for a rate may have another now.
            self.look_at = Some(self.now);
        }
        Ok(())
    }

    /// Checks that the wire can have this number of rings.
    pub fn check_rings(&self, rings: u16) -> Result<(), ConfigError> {
        WireConfig { rings: rings.max(self.config.rings), ..self.config.clone() }.checked_rings().map(|_| ())
    }

    /// Adds rings until there are `rings`. New ones are not in use until a scheduler uses them
    /// ([`configure_scheduler`](Self::configure_scheduler)); existing ones stay as they are.
    /// Allocates. An error changes nothing.
    pub fn add_rings(&mut self, rings: u16) -> Result<(), ConfigError> {
        if usize::from(rings) <= self.rings.all.len() {
            return Ok(());
        }
        let config = WireConfig { rings, ..self.config.clone() };
        self.rings.extend(&config)?;
        self.config = config;
        let line = self.scheduler().clone();
        self.configure_scheduler(&line)
    }

    /// Changes the line rate from the next unit on; the unit being sent keeps its time. Minimum
    /// rates may then exceed the line: the class most behind goes first.
    pub const fn set_rate(&mut self, rate: Rate) {
        if rate.0 > 0 {
            self.config.rate = rate;
            self.remainder = 0;
            self.line.forget_longest();
        }
    }

    /// Returns a ring as a device queue; `None` beyond the last.
    #[inline]
    pub fn ring(&mut self, index: u16) -> Option<RingQueue<'_, F>> {
        let index = usize::from(index);
        (index < self.rings.all.len()).then_some(RingQueue { wire: self, index })
    }
    /// Returns the state and counts of a ring; zeros beyond the last.
    pub fn ring_stats(&self, index: u16) -> RingStats {
        self.rings.stats(index)
    }
    /// Returns the counts of units that left while their ring was in this class; `CLASSES_MAX`
    /// stands for rings not in use.
    pub fn class_counts(&self, class: usize) -> Counts {
        self.rings.class_counts(class)
    }
    /// Returns the counts of all units that have left the line.
    pub fn counts(&self) -> Counts {
        self.rings.counts()
    }
    /// Returns the packets and wire bytes pushed and not yet reaped: the content of the device.
    pub const fn held(&self) -> Tally {
        self.rings.held
    }
    /// Returns the number of descriptors in use.
    pub fn descriptors_used(&self) -> u32 {
        self.rings.descriptors_used()
    }
    /// Returns the number of completion rounds so far.
    pub const fn rounds(&self) -> u64 {
        self.rings.rounds
    }
    /// Returns the number of doorbells so far.
    pub const fn doorbells(&self) -> u64 {
        self.rings.doorbells
    }

    /// Returns the next instant at which something happens on the wire; `None` if it is idle.
    #[inline]
    pub fn next_event(&self) -> Option<Instant> {
        let next = self.line_event().map_or(self.rings.round_at, |line| line.min(self.rings.round_at));
        (next < Instant::MAX).then_some(next)
    }
    #[inline]
    fn line_event(&self) -> Option<Instant> {
        match &self.sending {
            Some(s) => Some(s.finish),
            None => self.look_at,
        }
    }

    /// Runs the wire up to `now` and passes each unit that has left to `left`. True if completions
    /// can be reaped. The caller also runs it with the present time before `submit`, `drain` and
    /// `reap`, because a doorbell takes effect at the last known time.
    pub fn advance(&mut self, now: Instant, mut left: impl FnMut(Departure<F>)) -> bool {
        loop {
            let line = self.line_event().unwrap_or(Instant::MAX);
            let next = line.min(self.rings.round_at);
            if next > now || next == Instant::MAX {
                break;
            }
            self.now = next;
            if line > next {
                self.rings.round(self.now);
                continue;
            }
            if let Some(departure) = self.end() {
                left(departure);
            }
            self.start();
        }
        self.now = self.now.max(now);
        self.rings.has_reported()
    }

    /// Takes the unit off the line. Returns it, unless it was interrupted.
    #[inline]
    fn end(&mut self) -> Option<Departure<F>> {
        let Sending { ring, start, finish, cut, .. } = self.sending.take()?;
        self.rings.end(ring, (start, finish), cut, &mut self.line)
    }

    /// Starts the next unit at the present time, if one may go. No unit may be on the line.
    #[inline]
    fn start(&mut self) {
        self.look_at = None;
        let index = match self.line.pick(self.now, &self.rings.all, self.framing) {
            Pick::Ring(index) => index,
            Pick::Wait(at) => {
                (self.look_at, self.remainder) = (Some(at), 0);
                return;
            }
            Pick::Idle => {
                self.remainder = 0;
                return;
            }
        };
        let ring = &mut self.rings.all[index];
        let Some(meta) = ring.front() else { return };
        let goes_on = ring.sent > 0;
        let bytes = if goes_on { self.framing.left(meta, ring.sent) } else { self.framing.line_bytes(meta) };
        let (rate, carried) = (self.config.rate.bits(), self.remainder);
        let (time, remainder) = time_of(bytes, rate, carried);
        self.remainder = remainder;
        if goes_on {
            self.line.interrupted = None;
        } else {
            ring.begun = self.now;
            self.line.starts(index, ring.class, self.now, bytes, time);
        }
        let (start, finish) = (self.now, self.now + time);
        self.sending = Some(Sending { ring: index, start, finish, rate, carried, cut: None });
    }

    /// Lets the unit on the line end at the first place that allows it, for a unit that may
    /// interrupt it.
    #[cold]
    fn interrupt(&mut self) {
        let Some(s) = &mut self.sending else { return };
        let ring = &self.rings.all[s.ring];
        let Some(meta) = ring.front().filter(|_| s.cut.is_none() && self.line.interrupted.is_none()) else {
            return;
        };
        let passed = u128::from(self.now.saturating_since(s.start).0) * u128::from(s.rate / 8);
        let passed = u64::try_from(passed.div_ceil(1_000_000_000)).unwrap_or(u64::MAX);
        if let Some(cut) = self.framing.cut(meta, ring.sent, passed) {
            let (time, remainder) = time_of(cut.line, s.rate, s.carried);
            self.remainder = remainder;
            (s.finish, s.cut) = (s.start + time, Some(cut.sent));
        }
    }

    /// Returns the bytes that a packet takes on the line: each segment with its headers, padding
    /// and overhead.
    pub fn line_bytes(&self, m: &Meta) -> u64 {
        self.framing.line_bytes(m)
    }

    #[inline]
    fn commit_in(&mut self, index: usize) {
        self.rings.doorbells += 1;
        let ring = &mut self.rings.all[index];
        let (joins, class) = (ring.commit(), ring.class);
        let (ready, doorbell) = (ring.ready(), ring.doorbell());
        if joins {
            self.line.joins(index, class);
        }
        match &self.sending {
            Some(s) if self.line.interrupts(class, self.rings.all[s.ring].class, self.now) => {
                self.interrupt()
            }
            Some(_) => {}
            None if !ready => {}
            None if doorbell == Nanos::ZERO => self.start(),
            None => {
                let at = self.now + doorbell;
                self.look_at = Some(self.look_at.map_or(at, |l| l.min(at)));
            }
        }
    }
}

/// The wire as its first ring.
impl<F> TxQueue for Wire<F> {
    type Frame = F;

    #[inline]
    fn reserve(&mut self, want: u32) -> u32 {
        self.rings.reserve(0, want)
    }
    #[inline]
    fn push(&mut self, frame: F, m: &Meta) {
        self.rings.push(0, frame, m);
    }
    #[inline]
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.commit_in(0);
        Ok(())
    }
    #[inline]
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<F>)) {
        self.rings.reap(0, sink);
    }
}

/// Returns the time that `bytes` take on a line of `rate` bits per second, given the remainder
/// `carried` of the division before, and the remainder of this one.
#[inline]
fn time_of(bytes: u64, rate: u64, carried: u64) -> (Nanos, u64) {
    // Below 2 GB, 64 bits hold the product.
    match (bytes * 8).checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(carried)) {
        Some(ns) => (Nanos(ns / rate), ns % rate),
        None => {
            let ns = u128::from(bytes * 8) * 1_000_000_000 + u128::from(carried);
            // The remainder is below the rate, which has 64 bits.
            let remainder = (ns % u128::from(rate)) as u64;
            (Nanos(u64::try_from(ns / u128::from(rate)).unwrap_or(u64::MAX)), remainder)
        }
    }
}
