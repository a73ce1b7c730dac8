//! One ring: descriptors, packets in order, completions reported by an interrupt of its own.

use alloc::collections::VecDeque;

use super::config::{Completion, Latency, RingConfig};
use super::{Counts, Wire};
use crate::base::rng::Rng;
use crate::base::tally::Tally;
use crate::base::time::{Instant, Nanos};
use crate::packet::meta::Meta;
use crate::path::device::{Completed, DeviceError, TxQueue};

/// A packet in the ring.
#[derive(Debug)]
pub(super) struct Unit<F> {
    pub frame: F,
    pub meta: Meta,
    cost: u32,
}

/// A sum of finished packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batch {
    packets: u32,
    /// A large ring that reports rarely has more than 4 GiB of them.
    bytes: u64,
    descriptors: u32,
}

impl Batch {
    fn add(&mut self, o: Self) {
        self.packets += o.packets;
        self.bytes += o.bytes;
        self.descriptors += o.descriptors;
    }
    pub(super) const fn is_empty(&self) -> bool {
        self.packets == 0
    }
}

/// A ring. I1: units leave in the order in which they were pushed. I2: `used` is the descriptors of
/// the packets pushed and not yet reaped, `held` their number and bytes.
#[derive(Debug)]
pub(super) struct Ring<F> {
    config: RingConfig,
    worst: u32,
    rng: Rng,
    units: VecDeque<Unit<F>>,
    /// Number of units at the front that the device knows of.
    visible: usize,
    /// Number of descriptors not yet freed.
    used: u32,
    /// Number of packets granted and not yet pushed.
    promised: u32,
    /// True if the ring was full and has not had room for two of the largest packets since.
    stopped: bool,
    /// For the unit at the front: its bytes sent before an interruption, and the time of its start.
    pub(super) sent: u64,
    pub(super) begun: Instant,
    finished: Batch,
    /// Time of the completion round; `MAX` if there is none.
    pub(super) round_at: Instant,
    reported: Batch,
    pub(super) held: Tally,
    pub(super) counts: Counts,
    /// The counts at the last change of the scheduler.
    pub(super) counted: Counts,
    pub(super) rounds: u64,
    pub(super) doorbells: u64,
    /// Its traffic class.
    pub(super) class: u8,
}

impl<F> Ring<F> {
    pub(super) fn new(config: RingConfig, seed: u64) -> Self {
        Self {
            worst: config.descriptors.worst(),
            rng: Rng::new(seed),
            units: VecDeque::with_capacity(config.ring as usize),
            visible: 0,
            used: 0,
            promised: 0,
            stopped: false,
            sent: 0,
            begun: Instant::ZERO,
            finished: Batch::default(),
            round_at: Instant::MAX,
            reported: Batch::default(),
            held: Tally::default(),
            counts: Counts::default(),
            counted: Counts::default(),
            rounds: 0,
            doorbells: 0,
            class: 0,
            config,
        }
    }

    pub(super) const fn descriptors_used(&self) -> u32 {
        self.used
    }
    pub(super) const fn doorbell(&self) -> Nanos {
        self.config.doorbell
    }
    /// True if the device knows of a unit.
    #[inline]
    pub(super) const fn ready(&self) -> bool {
        self.visible > 0
    }
    /// Returns the counts since the last change of the scheduler.
    pub(super) fn since_counted(&self) -> Counts {
        self.counts.since(self.counted)
    }
    /// True if completions wait to be reaped.
    pub(super) const fn has_reported(&self) -> bool {
        !self.reported.is_empty()
    }
    /// Returns the unit at the front, if the device knows of it.
    #[inline]
    pub(super) fn front(&self) -> Option<&Meta> {
        if self.visible == 0 { None } else { self.units.front().map(|u| &u.meta) }
    }

    /// Grants room for up to `want` packets, each of the largest cost. A full ring grants nothing
    /// until there is room for two such packets, so that it is not refilled packet by packet.
    #[inline]
    pub(super) fn reserve(&mut self, want: u32) -> u32 {
        let room = self.config.ring - self.used;
        let start = (2 * self.worst).min(self.config.ring);
        if self.stopped && room < start {
            return 0;
        }
        self.promised = want.min(room / self.worst);
        self.stopped = self.promised == 0;
        self.promised
    }

    #[inline]
    pub(super) fn push(&mut self, frame: F, m: &Meta) {
        let exact = self.config.descriptors.hundredths(m.len);
        let (whole, part) = (exact / 100, exact % 100);
        let cost = whole + u32::from(part > 0 && self.rng.below(100) < u64::from(part));
        debug_assert!(self.promised > 0, "pushed without a promise");
        self.promised = self.promised.saturating_sub(1);
        self.used += cost;
        self.held.add(m.wire_len);
        self.units.push_back(Unit { frame, meta: *m, cost });
    }

    /// Shows the pushed packets to the device. True if the device knew of none before and does now.
    #[inline]
    pub(super) fn commit(&mut self) -> bool {
        self.promised = 0;
        self.doorbells += 1;
        let before = core::mem::replace(&mut self.visible, self.units.len());
        before == 0 && self.visible > 0
    }

    /// Removes the unit at the front, which has left the line at `now`.
    #[inline]
    pub(super) fn finish(&mut self, now: Instant) -> Option<Unit<F>> {
        let unit = self.units.pop_front()?;
        self.visible = self.visible.saturating_sub(1);
        self.sent = 0;
        let first = self.finished.is_empty();
        self.finished.add(Batch { packets: 1, bytes: unit.meta.wire_len.into(), descriptors: unit.cost });
        self.schedule_round(now, first);
        Some(unit)
    }

    /// Schedules the report of the packets finished so far.
    #[inline]
    fn schedule_round(&mut self, now: Instant, first: bool) {
        let (due, decides) = match self.config.completion {
            Completion::Immediate => (now, first),
            Completion::Periodic(t) => (Instant(now.0.div_ceil(t.0).saturating_mul(t.0)), first),
            Completion::Every { packets, .. } if self.finished.packets == packets => (now, true),
            Completion::Every { within, .. } => (now + within, first),
        };
        if decides {
            let Latency { min, max } = self.config.latency;
            let at = due + min + Nanos(self.rng.below(max.0.saturating_sub(min.0).saturating_add(1)));
            self.round_at = self.round_at.min(at);
        }
    }

    /// Reports all packets finished so far.
    pub(super) fn round(&mut self) {
        self.round_at = Instant::MAX;
        self.rounds += 1;
        self.reported.add(core::mem::take(&mut self.finished));
    }

    /// Returns the packets and bytes reported since the last call.
    #[inline]
    pub(super) fn reap(&mut self) -> Option<(u32, u64)> {
        let Batch { packets, bytes, descriptors } = core::mem::take(&mut self.reported);
        if packets == 0 {
            return None;
        }
        self.used -= descriptors;
        self.held.packets -= u64::from(packets);
        self.held.bytes -= bytes;
        Some((packets, bytes))
    }
}

/// State and counts of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStats {
    /// Packets pushed and not yet reaped.
    pub held: Tally,
    /// Number of descriptors in use.
    pub descriptors_used: u32,
    /// Units that have left the line.
    pub sent: Counts,
    /// Number of completion rounds so far.
    pub rounds: u64,
    /// Number of doorbells so far.
    pub doorbells: u64,
    /// The traffic class; `None` for a ring that is not in use.
    pub class: Option<u8>,
    /// True if completions wait to be reaped.
    pub reported: bool,
}

/// A ring of a wire, borrowed as a device queue.
#[derive(Debug)]
pub struct RingQueue<'a, F> {
    pub(super) wire: &'a mut Wire<F>,
    pub(super) index: usize,
}

impl<F> TxQueue for RingQueue<'_, F> {
    type Frame = F;

    #[inline]
    fn reserve(&mut self, want: u32) -> u32 {
        self.wire.rings.reserve(self.index, want)
    }
    #[inline]
    fn push(&mut self, frame: F, m: &Meta) {
        self.wire.rings.push(self.index, frame, m);
    }
    #[inline]
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.wire.commit_in(self.index);
        Ok(())
    }
    #[inline]
    fn reap(&mut self, sink: &mut dyn FnMut(Completed<F>)) {
        self.wire.rings.reap(self.index, sink);
    }
}
