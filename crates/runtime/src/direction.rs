//! One direction of a forwarder: a [`TxPort`] with its paths, and the device by which frames leave,
//! paced by a [`Wire`] or not. It reads no clock, so that it runs in virtual time as well.
//!
//! The wire is a model, and a model is never late: when [`Direction::advance`] is called after the
//! time of an event, the event and all its consequences (completions, the byte limit, the refill
//! from the qdiscs) still happen at their own times, in order, and only the frames leave late. So
//! the rate over any longer time, and the values that the byte limit learns, are those of the wire
//! and not of this machine's scheduler. The worst delay is counted.
//!
//! A frame is in the store of the device from its reception on ([`Direction::receive`]), and its
//! bytes stay at their place. [`Direction::admit`] takes a frame into the qdiscs and on towards the
//! device; [`Direction::advance`], after a burst of frames, rings the device's doorbell for all of
//! them.
//!
//! A direction of several queues has a ring of the wire for each, and below mq and mqprio a path
//! for each. An mqprio at the root says how the rings share the line (`hw 1`); without one they
//! take turns.

use std::io;

use txweir_core::base::queues::QueueSet;
use txweir_core::classify::packet::Packet;
use txweir_core::model::wire::{Wire, WireConfig};
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::route::Route;
use txweir_core::path::device::DeviceError;
use txweir_core::path::dql::DqlConfig;
use txweir_core::path::entry::{Entry, Passed};
use txweir_core::path::port::Port as TxPort;
use txweir_core::text::error::Object;
use txweir_core::turns::{Gate, Quota};
use txweir_core::{ConfigError, Env, ErrorKind, Instant, PathConfig, Role, TxPath};
use txweir_device::{Backend, Landed, Source, Store};

use crate::arrival::{Arrival, Facts};
use crate::classify::Classifier;
use crate::control::{Control, fit_scheduler};
use crate::delays::Delays;
use crate::drain::Drain;
use crate::filtering::InStore;
use crate::line::{Exit, Line};
use crate::stats::DirectionStats;

/// The configuration of a new direction.
#[derive(Clone, Debug)]
pub struct DirectionConfig {
    /// The wire; `None` for a path that is as fast as its device.
    pub wire: Option<WireConfig>,
    /// The byte queue limit; `None` leaves only the ring.
    pub bql: Option<DqlConfig>,
    /// The description of the output that qdiscs get. Its seed keys the flow hash; random draws
    /// have a seed of their own, from which the key cannot be computed ([`FlowHasher::draws`]). The
    /// wire has a ring for each of its queues, and adds its own scheduling abilities.
    pub env: Env,
    /// Most packets that can wait in the qdiscs: of each queue, where each has its own
    /// (`txweir_core::path::port::Port::new`).
    pub packets: usize,
    /// True if the time that frames spend in each stage is counted ([`Direction::delays`]).
    pub delays: bool,
}

impl Default for DirectionConfig {
    /// Returns the default wire and byte limit, and 16 384 packets, whose delays are counted.
    fn default() -> Self {
        Self {
            wire: Some(WireConfig::default()),
            bql: Some(DqlConfig::default()),
            env: Env::default(),
            packets: 16_384,
            delays: true,
        }
    }
}

/// One direction of a forwarder, to the device `D`.
#[derive(Debug)]
pub struct Direction<D: Backend> {
    classifier: Classifier,
    /// The time of the look by which frames are received.
    looked: Instant,
    pub(crate) drain: Drain<D>,
}

impl<D: Backend> Direction<D> {
    /// Makes a direction with the default root qdisc. This call allocates the memory for packets.
    ///
    /// # Errors
    /// The wire or the byte limit is impossible.
    pub fn new(config: DirectionConfig, device: D) -> Result<Self, ConfigError> {
        let queues = config.env.queues.clamp(1, QueueSet::QUEUES_MAX);
        let offload = config.wire.as_ref().map_or(config.env.offload, |wire| wire.offload);
        let path = PathConfig {
            env: Env { queues, offload, seed: FlowHasher::new(config.env.seed).draws(), ..config.env },
            pool: config.packets,
            role: Role::Forwarder,
            bql: config.bql,
            trace: 0,
        };
        let refused = |e| ConfigError::new(ErrorKind::OutOfRange, Object::Wire, e, "").key("bql");
        let mut line = Line::new(config.wire, device)?;
        line.add_queues(queues)?;
        let port = TxPort::new(path).map_err(refused)?;
        let mut drain = Drain::new(port, Exit::new(line), config.env.seed);
        fit_scheduler(&mut drain);
        if !config.delays {
            drain.exit.stamps(Instant::ZERO).delays = None;
        }
        Ok(Self { classifier: Classifier::new(config.env.seed), looked: Instant::ZERO, drain })
    }

    /// Returns the operations that change the direction at `now`.
    pub fn control(&mut self, now: Instant) -> Control<'_, D> {
        Control { drain: &mut self.drain, now }
    }

    /// Checks that the direction can have this number of transmit queues.
    ///
    /// # Errors
    /// As [`Control::set_queues`].
    pub fn check_queues(&self, queues: u16) -> Result<(), ConfigError> {
        self.drain.port.check_queues(queues)?;
        self.drain.exit.line.check_queues(queues)
    }

    /// Says that the frames that are received from now on were found at their interface at this
    /// time. The delay of their arrival counts from then ([`Delays::arrival`]).
    pub const fn looks(&mut self, now: Instant) {
        self.looked = now;
    }

    /// Receives one frame into the device's store and reads its headers. A frame that cannot be
    /// forwarded is counted and left out.
    ///
    /// # Errors
    /// The source is gone.
    #[inline]
    pub fn receive(&mut self, source: &mut dyn Source) -> io::Result<Received<D::Frame>> {
        Ok(match self.drain.exit.store().receive(source)? {
            Landed::Nothing => Received::Nothing,
            Landed::NoRoom => {
                self.drain.stats.no_memory += 1;
                Received::LeftOut
            }
            Landed::Frame(frame) => self.take_in(frame),
        })
    }

    /// Like [`receive`](Self::receive), for a frame that is in the device's store already.
    #[inline]
    pub fn take_in(&mut self, frame: D::Frame) -> Received<D::Frame> {
        let Drain { exit, stats, unused, .. } = &mut self.drain;
        let store = exit.store();
        let mut facts = unused.pop().unwrap_or_default();
        let Facts { meta, headers, .. } = &mut *facts;
        if self.classifier.read_to(&store.beside(&frame).hdr, store.bytes(&frame), meta, headers).is_err() {
            stats.malformed += 1;
            store.give(frame);
            self.drain.put_by(facts);
            return Received::LeftOut;
        }
        stats.received += 1;
        stats.received_bytes += u64::from(meta.wire_len);
        (facts.route, facts.queue_chosen, facts.at) = (Route::default(), false, self.looked);
        Received::Frame(Arrival { frame, facts })
    }

    /// Runs the filters on a frame that is to be admitted, and chooses its queue. The filters may
    /// change the frame. Returns `None` for a frame that they drop before it is queued, or that an
    /// action takes: it is counted. `depth` is the number of redirections behind it.
    pub fn classify(
        &mut self,
        mut arrival: Arrival<D::Frame>,
        depth: u8,
        entry: &mut Entry<'_>,
    ) -> Option<Arrival<D::Frame>> {
        let Drain { port, exit, stats, sender, .. } = &mut self.drain;
        let Arrival { frame, facts } = &mut arrival;
        let Facts { meta, headers, route, queue_chosen, .. } = &mut **facts;
        let mut frame = InStore { store: exit.store(), frame };
        let mut packet = Packet::new(&mut frame, meta, *headers);
        (packet.depth, packet.marks) = (depth, self.classifier.prio_synack());
        let passed = port.pass(entry, &mut packet, sender, None);
        *headers = packet.headers;
        match passed {
            Passed::Queue(_, said) => {
                (*route, *queue_chosen) = (said, true);
                return Some(arrival);
            }
            Passed::Dropped => {
                stats.filtered += 1;
                exit.discard(arrival.frame);
                self.drain.put_by(arrival.facts);
            }
            Passed::Stolen => {
                stats.taken += 1;
                exit.store().give(arrival.frame);
                self.drain.put_by(arrival.facts);
            }
        }
        None
    }

    /// Takes a frame into the path at `now`. The time never goes back from one call of this
    /// function or of [`advance`](Self::advance) to the next. Call `advance` after the last frame
    /// of a burst: until then frames may wait for the device's doorbell.
    ///
    /// # Errors
    /// The device is gone.
    pub fn admit(&mut self, now: Instant, arrival: Arrival<D::Frame>) -> Result<(), DeviceError> {
        let drain = &mut self.drain;
        drain.run(now);
        drain.take(now, arrival);
        if drain.exit.line.batch_is_due() { drain.advance(now) } else { Ok(()) }
    }

    /// Like [`admit`](Self::admit), for a frame whose sender can wait: instead of a packet being
    /// dropped because the qdiscs are full, the frame is held here until there is room. While
    /// [`is_holding`](Self::is_holding) is true the caller receives no more from such senders;
    /// frames that it has received by then are held in order. A frame that can never fit, or that
    /// is too many pieces for the qdiscs once it is cut, is dropped as by `admit`.
    ///
    /// # Errors
    /// The device is gone.
    pub fn admit_or_hold(&mut self, now: Instant, arrival: Arrival<D::Frame>) -> Result<(), DeviceError> {
        let drain = &mut self.drain;
        drain.run(now);
        if drain.enter_or_hold(now, arrival) || drain.exit.line.batch_is_due() {
            return drain.advance(now);
        }
        Ok(())
    }

    /// True while a frame of a sender that waits is held.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        self.holding() > 0
    }

    /// Returns the number of frames that are held because their senders wait.
    #[must_use]
    pub fn holding(&self) -> usize {
        self.drain.held.len()
    }

    /// Runs every event that is due at `now`, each at its own time: frames that have left the wire
    /// go to the device, completions to the byte limit, packets from the qdiscs to the ring. Then
    /// rings the device's doorbell, if the device got frames or was full.
    ///
    /// # Errors
    /// The device is gone; the frames that it held are lost.
    pub fn advance(&mut self, now: Instant) -> Result<(), DeviceError> {
        self.drain.advance(now)
    }

    /// Returns the time of the next call of [`advance`](Self::advance) if no frame arrives: the
    /// time of the next event, or up to 50 us after `now` while more events follow soon.
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        self.drain.deadline(now)
    }

    /// True if [`advance`](Self::advance) is to be called when the device is writable.
    #[must_use]
    pub fn waits_for_device(&self) -> bool {
        self.device().is_busy()
    }

    /// Returns its queues: qdiscs, byte limits, counters.
    #[must_use]
    pub const fn port(&self) -> &TxPort<D::Frame> {
        &self.drain.port
    }
    /// Returns the path of the first queue, which all queues share unless each has a path of its
    /// own.
    #[must_use]
    pub fn path(&self) -> &TxPath<D::Frame> {
        &self.drain.port.paths()[0]
    }
    /// Returns its wire, if it has one.
    #[must_use]
    pub const fn wire(&self) -> Option<&Wire<D::Frame>> {
        self.drain.exit.line.wire()
    }
    /// Returns the gate ahead of its qdiscs, if flows take turns.
    #[must_use]
    pub fn gate(&self) -> Option<&Gate<Arrival<D::Frame>>> {
        self.drain.exit.gate.as_deref()
    }
    /// Returns the share of the qdiscs that a flow may have.
    #[must_use]
    pub fn fairsend(&self) -> Quota {
        self.gate().map_or(Quota::OFF, Gate::quota)
    }
    /// Returns the reader of its frames' headers.
    #[must_use]
    pub const fn classifier(&self) -> &Classifier {
        &self.classifier
    }
    /// Returns the reader of its frames' headers, to change it.
    pub const fn classifier_mut(&mut self) -> &mut Classifier {
        &mut self.classifier
    }
    /// Returns the device by which frames leave.
    #[must_use]
    pub const fn device(&self) -> &D {
        &self.drain.exit.line.output().device
    }
    /// Returns the device, to receive from it or to change it.
    pub const fn device_mut(&mut self) -> &mut D {
        &mut self.drain.exit.line.output_mut().device
    }
    /// Returns the bytes that the path has handed on and that the wire, or the device without one,
    /// has not finished.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.drain.exit.line.held_bytes()
    }
    /// Returns the number of frames on the wire, if there is one, and in the device.
    pub(crate) fn frames_in_flight(&self) -> u64 {
        let line = &self.drain.exit.line;
        line.units() as u64 + line.output().held()
    }
    /// True if the device holds frames that it has not finished, or takes none although frames wait
    /// for it.
    #[must_use]
    pub const fn device_holds(&self) -> bool {
        let line = &self.drain.exit.line;
        line.output().held() > 0 || line.is_kept_waiting()
    }
    /// Returns the number of frames that the device has finished, those included that it has lost,
    /// but not those for which it had no place.
    #[must_use]
    pub const fn device_finished(&self) -> u64 {
        self.drain.exit.line.output().finished()
    }
    /// Returns the times that frames spent in each stage, if they are counted.
    #[must_use]
    pub const fn delays(&self) -> Option<&Delays> {
        self.drain.exit.line.output().stamps.delays.as_ref()
    }
    /// Returns its counters.
    #[must_use]
    pub fn stats(&self) -> DirectionStats {
        DirectionStats { dropped: self.drain.exit.dropped, ..self.drain.stats }
    }
}

/// The result of a reception.
#[must_use]
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives on the stack, for one frame")]
pub enum Received<F> {
    /// A frame, to be admitted.
    Frame(Arrival<F>),
    /// A frame that cannot be forwarded; there may be more.
    LeftOut,
    /// The source has no frame now.
    Nothing,
}
