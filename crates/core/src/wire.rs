//! `Wire`: a device modelled in time. A ring counted in descriptors, serialisation at a rate, and completions
//! that come when an interrupt would bring them. The lab drives it by virtual time, the live loop by the
//! monotonic clock; it is the same arithmetic.
//!
//! Order of effects at one instant: a unit finishes on the wire, its completion is recorded, then the
//! completion round runs. Whoever drives it then reaps and drains.

use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::cx::Tally;
use crate::device::{Completed, DeviceError, TxQueue};
use crate::error::{ConfigError, ErrorKind};
use crate::meta::Meta;
use crate::rng::Rng;
use crate::time::{Instant, Nanos};
use crate::units::Rate;

/// When finished packets are reported and their descriptors freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// As each packet finishes.
    Immediate,
    /// At every multiple of this time, if anything has finished (interrupt moderation).
    Periodic(Nanos),
    /// When so many packets have finished, or so long after the first of them.
    Every {
        /// Packets.
        packets: u32,
        /// Time after the first.
        within: Nanos,
    },
}

/// The time from the interrupt to the handler's work: uniform between the two, ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Shortest.
    pub min: Nanos,
    /// Longest.
    pub max: Nanos,
}

/// Descriptors that a packet occupies, by its length: straight lines between given points, flat outside them.
/// Costs are in hundredths; the fraction is settled per packet by a seeded draw, so that the mean is exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorCost {
    points: Vec<(u32, u32)>,
}

impl DescriptorCost {
    /// One descriptor per packet, whatever its size.
    pub fn one() -> Self {
        Self { points: alloc::vec![(0, 100)] }
    }

    /// From points (frame length in bytes, hundredths of a descriptor), in any order; each at least 1.00.
    pub fn from_points(points: &[(u32, u32)]) -> Result<Self, ConfigError> {
        let mut points = points.to_vec();
        points.sort_unstable();
        let bad = |given: &str| {
            let expected =
                "one or more points (bytes, hundredths of a descriptor) of distinct sizes, each at least 100";
            Err(ConfigError::new(ErrorKind::BadValue, "wire", expected, given).key("descriptors"))
        };
        if points.is_empty() {
            return bad("none");
        }
        if let Some(p) = points.iter().find(|p| !(100..=6_500_000).contains(&p.1)) {
            return bad(&p.1.to_string());
        }
        if points.windows(2).any(|w| w[0].0 == w[1].0) {
            return bad("the same size twice");
        }
        Ok(Self { points })
    }

    /// The points, by length: frame length in bytes, hundredths of a descriptor.
    pub fn points(&self) -> &[(u32, u32)] {
        &self.points
    }

    /// The cost of a packet of `len` bytes, in hundredths.
    pub fn hundredths(&self, len: u32) -> u32 {
        let after = self.points.partition_point(|p| p.0 <= len);
        match (after.checked_sub(1).map(|i| self.points[i]), self.points.get(after)) {
            (Some((x0, y0)), Some(&(x1, y1))) => {
                let (dx, at) = (i64::from(x1 - x0), i64::from(len - x0));
                let y = i64::from(y0) + (i64::from(y1) - i64::from(y0)) * at / dx;
                u32::try_from(y).unwrap_or(100)
            }
            (Some((_, y)), None) | (None, Some(&(_, y))) => y,
            (None, None) => 100,
        }
    }

    /// The most descriptors that any packet takes.
    fn worst(&self) -> u32 {
        self.points.iter().map(|p| p.1.div_ceil(100)).max().unwrap_or(1)
    }
}

/// What a wire is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireConfig {
    /// Line rate.
    pub rate: Rate,
    /// Descriptors in the ring.
    pub ring: u32,
    /// Descriptors per packet.
    pub descriptors: DescriptorCost,
    /// Bytes that each segment takes on the wire beyond its frame: 24 for Ethernet (preamble 8, FCS 4, gap 12).
    pub overhead: u32,
    /// Smallest frame, without FCS: 60 for Ethernet.
    pub min_frame: u32,
    /// When completions come.
    pub completion: Completion,
    /// How late the handler runs.
    pub latency: Latency,
    /// From the doorbell to the device's first look at the ring.
    pub doorbell: Nanos,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for WireConfig {
    /// 1 Gbit/s Ethernet, 1024 descriptors of one packet each, a completion round every 250 us (what a gigabit
    /// device's bulk moderation of 4000 interrupts/s gives).
    fn default() -> Self {
        Self {
            rate: Rate::from_bits(1_000_000_000),
            ring: 1024,
            descriptors: DescriptorCost::one(),
            overhead: 24,
            min_frame: 60,
            completion: Completion::Periodic(Nanos::from_micros(250)),
            latency: Latency::default(),
            doorbell: Nanos::ZERO,
            seed: 1,
        }
    }
}

/// A packet that has left the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure<F> {
    /// The frame.
    pub frame: F,
    /// Its metadata.
    pub meta: Meta,
    /// When its first bit left.
    pub start: Instant,
    /// When its last bit left, overhead included.
    pub finish: Instant,
}

/// A packet in the ring.
#[derive(Debug)]
struct Unit<F> {
    frame: F,
    meta: Meta,
    cost: u32,
}

/// A sum of finished packets.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    packets: u32,
    bytes: u32,
    descriptors: u32,
}

impl Batch {
    fn add(&mut self, o: Self) {
        self.packets += o.packets;
        self.bytes += o.bytes;
        self.descriptors += o.descriptors;
    }
}

/// A device modelled in time: one ring, one line.
#[derive(Debug)]
pub struct Wire<F> {
    config: WireConfig,
    worst: u32,
    rng: Rng,
    /// The driver's view of the time, set by `advance` and `at`.
    now: Instant,
    ring: VecDeque<Unit<F>>,
    /// Units at the front of `ring` that the device has been told of.
    visible: usize,
    /// Descriptors not yet freed.
    used: u32,
    /// Promised and not pushed.
    promised: u32,
    /// The ring was full and has not yet half emptied again.
    stopped: bool,
    /// Start and finish of the unit at the front, if it is being sent.
    sending: Option<(Instant, Instant)>,
    /// Nanoseconds numerator left over by the last division, while the line is busy.
    remainder: u64,
    finished: Batch,
    round_at: Option<Instant>,
    reported: Batch,
    held: Tally,
    rounds: u64,
    doorbells: u64,
}

impl<F> Wire<F> {
    /// A wire, idle.
    pub fn new(config: WireConfig) -> Result<Self, ConfigError> {
        let refuse = |key: &str, expected: &str, given: u64| {
            Err(ConfigError::new(ErrorKind::OutOfRange, "wire", expected, given).key(key))
        };
        let worst = config.descriptors.worst();
        if config.rate.0 == 0 {
            return refuse("rate", "at least 8 bit/s", config.rate.bits());
        }
        if config.ring < worst || config.ring > 1 << 20 {
            let expected = alloc::format!("{worst} (the largest packet's descriptors) to 1048576");
            return refuse("ring", &expected, u64::from(config.ring));
        }
        if config.latency.min > config.latency.max {
            return refuse("latency", "a minimum not above the maximum", config.latency.min.0);
        }
        if let Completion::Periodic(Nanos(0)) | Completion::Every { packets: 0, .. } = config.completion {
            return refuse("completion", "a period above zero, or at least one packet", 0);
        }
        Ok(Self {
            worst,
            rng: Rng::new(config.seed),
            now: Instant::ZERO,
            ring: VecDeque::with_capacity(config.ring as usize),
            visible: 0,
            used: 0,
            promised: 0,
            stopped: false,
            sending: None,
            remainder: 0,
            finished: Batch::default(),
            round_at: None,
            reported: Batch::default(),
            held: Tally::default(),
            rounds: 0,
            doorbells: 0,
            config,
        })
    }

    /// What it is like.
    pub const fn config(&self) -> &WireConfig {
        &self.config
    }

    /// Changes the line rate from the next unit on; the one being sent keeps its time.
    pub fn set_rate(&mut self, rate: Rate) {
        if rate.0 > 0 {
            self.config.rate = rate;
            self.remainder = 0;
        }
    }

    /// Packets and wire bytes pushed and not yet reaped: what the device holds.
    pub const fn held(&self) -> Tally {
        self.held
    }
    /// Descriptors in use.
    pub const fn descriptors_used(&self) -> u32 {
        self.used
    }
    /// Completion rounds so far.
    pub const fn rounds(&self) -> u64 {
        self.rounds
    }
    /// Doorbells so far.
    pub const fn doorbells(&self) -> u64 {
        self.doorbells
    }

    /// The next instant at which something happens on it; `None` if it is idle.
    pub fn next_event(&self) -> Option<Instant> {
        match (self.sending, self.round_at) {
            (Some((_, finish)), Some(round)) => Some(finish.min(round)),
            (Some((_, finish)), None) => Some(finish),
            (None, round) => round,
        }
    }

    /// Runs it up to `now`: gives each unit that has left the wire, and answers true if completions are there to
    /// be reaped. To be called with the present time before `submit`, `drain` and `reap` as well, because a doorbell
    /// takes effect at the time last told.
    pub fn advance(&mut self, now: Instant, mut left: impl FnMut(Departure<F>)) -> bool {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.now = at;
            match self.sending {
                Some((start, finish)) if finish == at => {
                    if let Some(unit) = self.finish() {
                        left(Departure { frame: unit.frame, meta: unit.meta, start, finish });
                    }
                }
                _ => self.round(),
            }
        }
        self.now = self.now.max(now);
        self.reported.packets > 0
    }

    /// Ends the unit at the front and starts the next.
    fn finish(&mut self) -> Option<Unit<F>> {
        let unit = self.ring.pop_front();
        self.visible = self.visible.saturating_sub(1);
        self.sending = None;
        if let Some(unit) = &unit {
            let first = self.finished.packets == 0;
            self.finished.add(Batch { packets: 1, bytes: unit.meta.wire_len, descriptors: unit.cost });
            self.schedule_round(first);
        }
        self.start(self.now);
        unit
    }

    /// Starts sending the unit at the front, if there is one that the device knows of.
    fn start(&mut self, at: Instant) {
        if self.sending.is_some() || self.visible == 0 {
            self.remainder = if self.sending.is_none() { 0 } else { self.remainder };
            return;
        }
        let Some(unit) = self.ring.front() else { return };
        let bits = self.line_bytes(&unit.meta) * 8;
        let rate = self.config.rate.bits();
        let ns = u128::from(bits) * 1_000_000_000 + u128::from(self.remainder);
        self.remainder = (ns % u128::from(rate)) as u64;
        let time = Nanos(u64::try_from(ns / u128::from(rate)).unwrap_or(u64::MAX));
        self.sending = Some((at, at + time));
    }

    /// Bytes that a packet takes on the line: each segment with its headers, padding and overhead.
    pub fn line_bytes(&self, m: &Meta) -> u64 {
        let segs = u64::from(m.segs.max(1));
        let padding = match segs {
            1 => u64::from(self.config.min_frame.saturating_sub(m.len)),
            _ => 0,
        };
        u64::from(m.wire_len) + padding + segs * u64::from(self.config.overhead)
    }

    /// Decides when the packets finished so far are reported.
    fn schedule_round(&mut self, first: bool) {
        let (due, decides) = match self.config.completion {
            Completion::Immediate => (self.now, first),
            Completion::Periodic(t) => (Instant(self.now.0.div_ceil(t.0).saturating_mul(t.0)), first),
            Completion::Every { packets, .. } if self.finished.packets == packets => (self.now, true),
            Completion::Every { within, .. } => (self.now + within, first),
        };
        if decides {
            let Latency { min, max } = self.config.latency;
            let at = due + min + Nanos(self.rng.below(max.0.saturating_sub(min.0) + 1));
            self.round_at = Some(self.round_at.map_or(at, |r| r.min(at)));
        }
    }

    /// Reports everything finished so far.
    fn round(&mut self) {
        self.round_at = None;
        self.rounds += 1;
        self.reported.add(core::mem::take(&mut self.finished));
    }
}

impl<F> TxQueue for Wire<F> {
    type Frame = F;

    /// A slot is room for the costliest packet there can be. A full ring promises nothing again until twice
    /// that is free, so that it is not refilled packet by packet.
    fn reserve(&mut self, want: u32) -> u32 {
        let room = self.config.ring - self.used;
        let start = (2 * self.worst).min(self.config.ring);
        if self.stopped && room < start {
            return 0;
        }
        self.promised = want.min(room / self.worst);
        self.stopped = self.promised == 0;
        self.promised
    }

    fn push(&mut self, frame: F, m: &Meta) {
        let exact = self.config.descriptors.hundredths(m.len);
        let (whole, part) = (exact / 100, exact % 100);
        let cost = whole + u32::from(part > 0 && self.rng.below(100) < u64::from(part));
        debug_assert!(self.promised > 0, "pushed without a promise");
        self.promised = self.promised.saturating_sub(1);
        self.used += cost;
        self.held.add(m.wire_len);
        self.ring.push_back(Unit { frame, meta: *m, cost });
    }

    fn commit(&mut self) -> Result<(), DeviceError> {
        self.promised = 0;
        self.doorbells += 1;
        self.visible = self.ring.len();
        self.start(self.now + self.config.doorbell);
        Ok(())
    }

    fn reap(&mut self, sink: &mut dyn FnMut(Completed<F>)) {
        let Batch { packets, bytes, descriptors } = core::mem::take(&mut self.reported);
        if packets == 0 {
            return;
        }
        self.used -= descriptors;
        self.held.packets -= u64::from(packets);
        self.held.bytes -= u64::from(bytes);
        sink(Completed { packets, bytes, frame: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(config: WireConfig) -> Wire<u32> {
        Wire::new(config).unwrap()
    }

    fn send(w: &mut Wire<u32>, at: Instant, frames: &[(u32, Meta)]) {
        w.advance(at, |_| {});
        assert_eq!(w.reserve(frames.len() as u32), frames.len() as u32);
        for (f, m) in frames {
            w.push(*f, m);
        }
        w.commit().unwrap();
    }

    #[test]
    fn full_frames_take_their_time_at_a_gigabit() {
        let mut w = wire(WireConfig { completion: Completion::Immediate, ..WireConfig::default() });
        send(&mut w, Instant(100), &[(1, Meta::new(1514)), (2, Meta::new(1514)), (3, Meta::new(40))]);
        let mut seen = Vec::new();
        assert!(w.advance(Instant(1_000_000), |d| seen.push((d.frame, d.start.0, d.finish.0))));
        // 1514 + 24 bytes are 12 304 ns; 40 bytes are padded to 60, with overhead 84: 672 ns.
        assert_eq!(seen, [(1, 100, 12_404), (2, 12_404, 24_708), (3, 24_708, 25_380)]);
    }

    #[test]
    fn a_super_packet_is_cut_on_the_line() {
        let mut w = wire(WireConfig::default());
        let m = Meta::new(54 + 45 * 1448).gso(54, 1448);
        assert_eq!(w.line_bytes(&m), 45 * (54 + 1448 + 24));
        send(&mut w, Instant(0), &[(1, m)]);
        assert_eq!(w.next_event(), Some(Instant(45 * 1526 * 8)));
    }

    #[test]
    fn fractions_of_a_nanosecond_are_not_lost() {
        let rate = Rate::from_bits(10_000_000_000);
        let mut w = wire(WireConfig {
            rate,
            min_frame: 0,
            completion: Completion::Immediate,
            ..WireConfig::default()
        });
        let frames: Vec<_> = (0..10).map(|i| (i, Meta::new(37))).collect();
        send(&mut w, Instant(0), &frames);
        let mut last = 0;
        w.advance(Instant(1_000), |d| last = d.finish.0);
        // 61 bytes at 10 Gbit/s are 48.8 ns; ten of them 488.
        assert_eq!(last, 488);
    }

    #[test]
    fn periodic_rounds_come_on_the_grid_and_free_descriptors() {
        let mut w = wire(WireConfig { ring: 2, ..WireConfig::default() });
        send(&mut w, Instant(0), &[(1, Meta::new(1514)), (2, Meta::new(1514))]);
        assert_eq!(w.reserve(1), 0);
        assert!(!w.advance(Instant(249_999), |_| {}));
        assert_eq!((w.held().bytes, w.descriptors_used()), (3028, 2));
        assert!(w.advance(Instant(250_000), |_| {}));
        let mut done = Vec::new();
        w.reap(&mut |c| done.push((c.packets, c.bytes)));
        assert_eq!((done, w.held(), w.descriptors_used()), (alloc::vec![(2, 3028)], Tally::default(), 0));
        assert_eq!((w.reserve(5), w.next_event()), (2, None));
    }

    #[test]
    fn every_n_or_t_takes_whichever_is_first() {
        let completion = Completion::Every { packets: 2, within: Nanos::from_micros(100) };
        let mut w = wire(WireConfig { completion, ..WireConfig::default() });
        send(&mut w, Instant(0), &[(1, Meta::new(1514)), (2, Meta::new(1514)), (3, Meta::new(1514))]);
        assert!(!w.advance(Instant(24_607), |_| {}));
        assert!(w.advance(Instant(24_608), |_| {}), "two are finished");
        w.reap(&mut |_| {});
        assert!(!w.advance(Instant(136_911), |_| {}));
        assert!(w.advance(Instant(136_912), |_| {}), "100 us after the third");
    }

    #[test]
    fn descriptor_costs_interpolate_and_draw_to_their_mean() {
        let cost = DescriptorCost::from_points(&[(65_226, 2150), (1514, 340)]).unwrap();
        assert_eq!(
            [60, 1514, 33_370, 65_226, 70_000].map(|l| cost.hundredths(l)),
            [340, 340, 1245, 2150, 2150]
        );
        let config = WireConfig { ring: 1 << 20, descriptors: cost, ..WireConfig::default() };
        let mut w = wire(config);
        for i in 0..10_000 {
            assert_eq!(w.reserve(1), 1);
            w.push(i, &Meta::new(1514));
        }
        assert!((33_700..34_300).contains(&w.descriptors_used()), "{}", w.descriptors_used());
        assert!(DescriptorCost::from_points(&[]).is_err());
        assert!(DescriptorCost::from_points(&[(1, 50)]).is_err());
    }

    #[test]
    fn a_slower_rate_holds_from_the_next_unit() {
        let mut w = wire(WireConfig { completion: Completion::Immediate, ..WireConfig::default() });
        send(&mut w, Instant(0), &[(1, Meta::new(1514)), (2, Meta::new(1514))]);
        w.set_rate(Rate::from_bits(100_000_000));
        let mut seen = Vec::new();
        w.advance(Instant(1_000_000), |d| seen.push(d.finish.0));
        assert_eq!(seen, [12_304, 12_304 + 123_040]);
    }

    #[test]
    fn refuses_what_cannot_be() {
        for config in [
            WireConfig { rate: Rate(0), ..WireConfig::default() },
            WireConfig { ring: 0, ..WireConfig::default() },
            WireConfig { completion: Completion::Periodic(Nanos(0)), ..WireConfig::default() },
            WireConfig { latency: Latency { min: Nanos(2), max: Nanos(1) }, ..WireConfig::default() },
        ] {
            assert!(Wire::<u32>::new(config).is_err());
        }
    }
}
