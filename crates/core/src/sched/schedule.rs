//! The way in which rings share a line, as a value: the traffic class of each ring, and the service
//! of each class.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::base::env::{Caps, Offload};
use crate::base::units::Rate;
use crate::sched::traffic::CLASSES_MAX;
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::value::text_of;

/// Greatest weight: shares in percent (IEEE 802.1Q, the bandwidth table of enhanced transmission
/// selection).
pub(crate) const WEIGHT_MAX: u32 = 100;

/// Service that a class gets from the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Before every class with a lower number, and before those that share.
    Strict,
    /// By weight, 1 to 100, in the part of the line that the strict classes leave.
    Ets(u32),
}

/// A traffic class: adjacent rings, and the service that they get together. Within it rings take
/// turns, unit by unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// First ring.
    pub offset: u16,
    /// Number of rings, at least 1.
    pub count: u16,
    /// Its service.
    pub service: Service,
    /// Rate that it gets before others that share the line get more, in bytes on the line. Unused
    /// in a strict class.
    pub min_rate: Option<Rate>,
    /// Rate that it never exceeds, in bytes on the line.
    pub max_rate: Option<Rate>,
    /// True if its frames may be interrupted for frames of classes that are not preemptible, which
    /// all go first.
    pub preemptible: bool,
}

impl ClassConfig {
    /// Returns a class of `count` rings from ring `offset` on, without limits.
    pub const fn new(count: u16, offset: u16, service: Service) -> Self {
        Self { offset, count, service, min_rate: None, max_rate: None, preemptible: false }
    }
    /// Sets the guaranteed rate.
    #[must_use]
    pub const fn min_rate(mut self, rate: Rate) -> Self {
        self.min_rate = Some(rate);
        self
    }
    /// Sets the greatest rate.
    #[must_use]
    pub const fn max_rate(mut self, rate: Rate) -> Self {
        self.max_rate = Some(rate);
        self
    }
    /// Makes its frames preemptible.
    #[must_use]
    pub const fn preemptible(mut self) -> Self {
        self.preemptible = true;
        self
    }
    /// Returns the rings, `count@offset` as mqprio writes them.
    fn queues(&self) -> String {
        format!("{}@{}", self.count, self.offset)
    }
    const fn end(&self) -> u32 {
        self.offset as u32 + self.count as u32
    }
}

/// The way in which the rings of a wire share its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineConfig {
    /// Number of rings in use, from the first; each is in one class. Rings beyond take no more
    /// packets.
    pub rings: u16,
    /// Traffic classes, the lowest first; at least one.
    pub classes: Vec<ClassConfig>,
    /// Rings with a greatest rate of their own, in bytes on the line.
    pub ring_max: Vec<(u16, Rate)>,
}

impl LineConfig {
    /// Returns one class: rings take turns, unit by unit.
    pub fn round_robin(rings: u16) -> Self {
        Self::classes(rings, &[ClassConfig::new(rings, 0, Service::Strict)])
    }
    /// Returns one ring per class, all strict, the last one first.
    pub fn strict(rings: u16) -> Self {
        let class = |ring| ClassConfig::new(1, ring, Service::Strict);
        Self { rings, classes: (0..rings).map(class).collect(), ring_max: Vec::new() }
    }
    /// Returns a configuration of these classes.
    pub fn classes(rings: u16, classes: &[ClassConfig]) -> Self {
        Self { rings, classes: classes.to_vec(), ring_max: Vec::new() }
    }

    /// Checks that a device of these abilities and this line rate supports it. The error names the
    /// obstacle.
    pub fn check(&self, caps: &Caps, rate: Rate) -> Result<(), ConfigError> {
        if self.rings == 0 || self.rings > caps.queues {
            let expected = format!("1 to {}, the rings of the device", caps.queues);
            return Err(error(ErrorKind::OutOfRange, "queues", expected, self.rings));
        }
        let known = usize::from(caps.offload.classes).clamp(1, CLASSES_MAX);
        if self.classes.is_empty() || self.classes.len() > CLASSES_MAX {
            let expected = format!("1 to {CLASSES_MAX}");
            return Err(error(ErrorKind::OutOfRange, "num_tc", expected, self.classes.len()));
        }
        if self.classes.len() > known {
            let expected = format!("at most {known}, the traffic classes of the device");
            return Err(error(ErrorKind::Unsupported, "num_tc", expected, self.classes.len()));
        }
        self.check_queues()?;
        for (i, class) in self.classes.iter().enumerate() {
            class.check(i, &caps.offload)?;
        }
        let sum = self.classes.iter().filter_map(|c| c.min_rate).map(|r| u128::from(r.0)).sum::<u128>();
        if sum > u128::from(rate.0) {
            let [most, given] = apart(rate, Rate(u64::try_from(sum).unwrap_or(u64::MAX)));
            let expected = format!("at most {most} in sum, the line's rate");
            return Err(error(ErrorKind::Conflict, "min_rate", expected, given));
        }
        self.check_rings(&caps.offload)
    }

    /// Checks that every ring in use is in one class.
    fn check_queues(&self) -> Result<(), ConfigError> {
        let mut order: Vec<&ClassConfig> = self.classes.iter().collect();
        order.sort_by_key(|c| c.offset);
        let mut next = 0;
        for class in order {
            if class.count == 0 {
                let given = class.queues();
                return Err(error(ErrorKind::OutOfRange, "queues", "at least one ring in each class", given));
            }
            if u32::from(class.offset) != next {
                let expected = format!("ring {next} in one class, as in COUNT@{next}");
                return Err(error(ErrorKind::Conflict, "queues", expected, class.queues()));
            }
            next = class.end();
            if next > u32::from(self.rings) {
                let expected = format!("rings below {}", self.rings);
                return Err(error(ErrorKind::OutOfRange, "queues", expected, class.queues()));
            }
        }
        if next < u32::from(self.rings) {
            return Err(error(ErrorKind::Conflict, "queues", format!("ring {next} in one class"), ""));
        }
        Ok(())
    }

    fn check_rings(&self, offload: &Offload) -> Result<(), ConfigError> {
        for (i, (ring, rate)) in self.ring_max.iter().enumerate() {
            if !offload.queue_rate {
                let expected = "a device that keeps rates of its rings";
                return Err(error(ErrorKind::Unsupported, "tx_maxrate", expected, rate.0));
            }
            if *ring >= self.rings {
                let expected = format!("rings below {}", self.rings);
                return Err(error(ErrorKind::OutOfRange, "tx_maxrate", expected, ring));
            }
            if rate.0 == 0 {
                let expected = "at least 1 byte/s";
                return Err(error(ErrorKind::OutOfRange, "tx_maxrate", expected, rate.0));
            }
            if self.ring_max[..i].iter().any(|(r, _)| r == ring) {
                return Err(error(ErrorKind::Conflict, "tx_maxrate", "each ring once", ring));
            }
        }
        Ok(())
    }
}

impl ClassConfig {
    fn check(&self, index: usize, offload: &Offload) -> Result<(), ConfigError> {
        let refuse = |kind, key: &str, expected: &str, given: u64| {
            let class = Object::WireClass(index);
            Err(ConfigError::new(kind, class, expected, given).key(key))
        };
        let (no, range) = (ErrorKind::Unsupported, ErrorKind::OutOfRange);
        if let Service::Ets(weight) = self.service {
            if !offload.ets {
                let expected = "a device that shares its line by weight";
                return refuse(no, "ets", expected, weight.into());
            }
            if !(1..=WEIGHT_MAX).contains(&weight) {
                return refuse(range, "ets", &format!("a weight of 1 to {WEIGHT_MAX}"), weight.into());
            }
        }
        for (key, rate) in [("min_rate", self.min_rate), ("max_rate", self.max_rate)] {
            let Some(rate) = rate else { continue };
            if !offload.bw_rlimit {
                return refuse(no, key, "a device with the shaper bw_rlimit", rate.0);
            }
            if rate.0 == 0 {
                return refuse(range, key, "at least 1 byte/s", 0);
            }
        }
        if let (Some(min), Some(max)) = (self.min_rate, self.max_rate)
            && min > max
        {
            let [most, given] = apart(max, min);
            let expected = format!("at most max_rate, {most}");
            let class = Object::WireClass(index);
            let err = ConfigError::new(ErrorKind::Conflict, class, expected, given);
            return Err(err.key("min_rate"));
        }
        if self.preemptible && !offload.fp {
            let class = Object::WireClass(index);
            let expected = "a device that interrupts frames";
            return Err(ConfigError::new(no, class, expected, "P").key("fp"));
        }
        Ok(())
    }
}

/// Returns two rates as texts: rounded as tc prints them, unless both would be the same then.
fn apart(a: Rate, b: Rate) -> [String; 2] {
    let texts = [a, b].map(|rate| text_of(&rate));
    if texts[0] == texts[1] { [a, b].map(|rate| format!("{}bit", rate.bits())) } else { texts }
}

fn error(kind: ErrorKind, key: &str, expected: impl ToString, given: impl ToString) -> ConfigError {
    ConfigError::new(kind, Object::Wire, expected, given).key(key)
}
