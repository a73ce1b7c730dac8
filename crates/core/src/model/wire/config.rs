//! Configuration of a wire: its line, its rings, and the cost and the completions of each ring.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::base::env::Offload;
use crate::base::queues::QueueSet;
use crate::base::time::Nanos;
use crate::base::units::Rate;
use crate::sched::schedule::LineConfig;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Largest number of rings of a wire: that of a device's queues in Linux.
pub const RINGS_MAX: u16 = QueueSet::QUEUES_MAX;
/// Largest number of descriptors of a ring.
const RING_MAX: u32 = 1 << 20;
/// Largest number of descriptors of all rings together: their memory is taken when the wire is
/// made.
const DESCRIPTORS_MAX: u64 = 1 << 22;

/// Difference between the seeds of two rings: any odd number other than SplitMix64's own increment.
const SEED_STEP: u64 = 0xd1b5_4a32_d192_ed03;

/// Time at which finished packets are reported and their descriptors freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// At the end of each packet.
    Immediate,
    /// At every multiple of this time, if a packet has finished (interrupt moderation).
    Periodic(Nanos),
    /// After a number of packets, or a time after the first of them.
    Every {
        /// Number of packets.
        packets: u32,
        /// Time after the first.
        within: Nanos,
    },
}

/// Time from the interrupt to the handler's work: uniform between the two, ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Shortest time.
    pub min: Nanos,
    /// Longest time.
    pub max: Nanos,
}

/// Number of descriptors of a packet, by its length: straight lines between given points, flat
/// outside them. Costs are in hundredths; a seeded draw per packet settles the fraction, so that
/// the mean is exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorCost {
    points: Vec<(u32, u32)>,
}

impl DescriptorCost {
    /// Returns a cost of one descriptor per packet, whatever its size.
    pub fn one() -> Self {
        Self { points: alloc::vec![(0, 100)] }
    }

    /// Returns the cost through points (frame length in bytes, hundredths of a descriptor), in any
    /// order; each at least 1.00.
    pub fn from_points(points: &[(u32, u32)]) -> Result<Self, ConfigError> {
        let mut points = points.to_vec();
        points.sort_unstable();
        let bad = |given: &str| {
            let expected =
                "one or more points (bytes, hundredths of a descriptor) of distinct sizes, each at least 100";
            Err(ConfigError::new(ErrorKind::BadValue, Object::Wire, expected, given).key("descriptors"))
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

    /// Returns the points, by length: frame length in bytes, hundredths of a descriptor.
    pub fn points(&self) -> &[(u32, u32)] {
        &self.points
    }

    /// Returns the cost of a packet of `len` bytes, in hundredths.
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

    /// Returns the largest number of descriptors of any packet.
    pub(super) fn worst(&self) -> u32 {
        self.points.iter().map(|p| p.1.div_ceil(100)).max().unwrap_or(1)
    }
}

/// Configuration of one ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Number of descriptors in the ring.
    pub ring: u32,
    /// Descriptors per packet.
    pub descriptors: DescriptorCost,
    /// Times of completions: every ring has an interrupt of its own.
    pub completion: Completion,
    /// Delay of the handler.
    pub latency: Latency,
    /// Time from the doorbell to the device's first look at the ring, if the device is idle: a busy
    /// device looks at every ring whenever a unit ends.
    pub doorbell: Nanos,
}

impl RingConfig {
    fn check(&self) -> Result<(), ConfigError> {
        let refuse = |key: &str, expected: &str, given: u64| {
            Err(ConfigError::new(ErrorKind::OutOfRange, Object::Wire, expected, given).key(key))
        };
        let worst = self.descriptors.worst();
        if self.ring < worst || self.ring > RING_MAX {
            let expected = alloc::format!("{worst} (the largest packet's descriptors) to {RING_MAX}");
            return refuse("ring", &expected, u64::from(self.ring));
        }
        if self.latency.min > self.latency.max {
            return refuse("latency", "a minimum not above the maximum", self.latency.min.0);
        }
        if let Completion::Periodic(Nanos(0)) | Completion::Every { packets: 0, .. } = self.completion {
            return refuse("completion", "a period above zero, or at least one packet", 0);
        }
        Ok(())
    }
}

/// Configuration of a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireConfig {
    /// Line rate.
    pub rate: Rate,
    /// Number of descriptors in each ring.
    pub ring: u32,
    /// Descriptors per packet.
    pub descriptors: DescriptorCost,
    /// Bytes that each segment takes on the wire beyond its frame: 24 for Ethernet (preamble 8, FCS
    /// 4, gap 12).
    pub overhead: u32,
    /// Smallest frame, without FCS: 60 for Ethernet.
    pub min_frame: u32,
    /// Times of completions.
    pub completion: Completion,
    /// Delay of the handler.
    pub latency: Latency,
    /// Time from the doorbell to the device's first look at the ring, if the device is idle.
    pub doorbell: Nanos,
    /// Seed of random draws.
    pub seed: u64,
    /// Number of rings, 1 to [`RINGS_MAX`].
    pub rings: u16,
    /// Rings with a configuration of their own, by index.
    pub own: Vec<(u16, RingConfig)>,
    /// Abilities of the line's scheduler.
    pub offload: Offload,
    /// Sharing of the line; without it rings take turns, unit by unit.
    pub line: Option<LineConfig>,
}

impl Default for WireConfig {
    /// Returns 1 Gbit/s Ethernet with one ring of 1024 descriptors, one per packet, a completion
    /// round every 250 us (as bulk moderation of a gigabit device, 4000 interrupts/s), and a
    /// scheduler that can do everything.
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
            rings: 1,
            own: Vec::new(),
            offload: Offload::ALL,
            line: None,
        }
    }
}

impl WireConfig {
    /// Returns the configuration of ring `index`.
    pub fn ring_config(&self, index: u16) -> RingConfig {
        let own = self.own.iter().find(|(i, _)| *i == index);
        own.map_or_else(
            || RingConfig {
                ring: self.ring,
                descriptors: self.descriptors.clone(),
                completion: self.completion,
                latency: self.latency,
                doorbell: self.doorbell,
            },
            |(_, config)| config.clone(),
        )
    }

    /// Returns the seed of a ring's draws.
    pub(super) const fn seed_of(&self, ring: u64) -> u64 {
        self.seed.wrapping_add(ring.wrapping_mul(SEED_STEP))
    }

    /// Checks the rings and returns their configurations.
    pub(super) fn checked_rings(&self) -> Result<Vec<RingConfig>, ConfigError> {
        let refuse = |key: &str, expected: &str, given: u64| {
            Err(ConfigError::new(ErrorKind::OutOfRange, Object::Wire, expected, given).key(key))
        };
        if self.rate.0 == 0 {
            return refuse("rate", "at least 8 bit/s", self.rate.bits());
        }
        if self.rings == 0 || self.rings > RINGS_MAX {
            return refuse("rings", &alloc::format!("1 to {RINGS_MAX}"), u64::from(self.rings));
        }
        for (i, (ring, _)) in self.own.iter().enumerate() {
            if *ring >= self.rings {
                let expected = alloc::format!("0 to {}", self.rings - 1);
                return refuse("own", &expected, u64::from(*ring));
            }
            if self.own[..i].iter().any(|(r, _)| r == ring) {
                return refuse("own", "each ring once", u64::from(*ring));
            }
        }
        let rings: Vec<RingConfig> = (0..self.rings).map(|i| self.ring_config(i)).collect();
        rings.iter().try_for_each(RingConfig::check)?;
        let descriptors: u64 = rings.iter().map(|r| u64::from(r.ring)).sum();
        if descriptors > DESCRIPTORS_MAX {
            let expected = alloc::format!("at most {DESCRIPTORS_MAX} descriptors in all rings together");
            return refuse("rings", &expected, descriptors);
        }
        Ok(rings)
    }
}
