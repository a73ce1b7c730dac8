//! `Instant` and `Nanos`: whole nanoseconds in a `u64`, with no link to any operating-system clock.
//!
//! The caller provides the time; core never reads a clock. An `Instant` counts from an origin that
//! the caller chooses (a lab run starts at zero; the live loop uses the monotonic clock). 2^64 ns
//! is 584 years, so the additions below saturate instead of failing.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A point in time: nanoseconds since the caller's origin.
///
/// The clock has 2^62 ns, 146 years: beyond them a shared rate or an emulated link may keep a
/// packet for good, because they count signed differences. No packet is lost there, and nothing
/// panics.
///
/// It must not go back: it comes from a clock such as `CLOCK_MONOTONIC`, not from the system's
/// real-time clock, which is set. Shapers and AQMs stand still until a clock that has gone back has
/// caught up, and a path that is called at the time that it has asked for may then ask again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

/// A span of time: nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Instant {
    /// The caller's origin.
    pub const ZERO: Self = Self(0);
    /// An instant later than all others: "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Returns an instant from nanoseconds since the origin.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }
    /// Returns an instant from microseconds since the origin (saturating).
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }
    /// Returns an instant from milliseconds since the origin (saturating).
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
    /// Returns an instant from seconds since the origin (saturating).
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
    /// Returns the nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Nanos {
    /// A span of zero.
    pub const ZERO: Self = Self(0);

    /// Returns a span from nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }
    /// Returns a span from microseconds (saturating).
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }
    /// Returns a span from milliseconds (saturating).
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
    /// Returns a span from seconds (saturating).
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
    /// Returns the whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Returns the whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Returns `self - other`, at least zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add<Nanos> for Instant {
    type Output = Self;
    fn add(self, d: Nanos) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl AddAssign<Nanos> for Instant {
    fn add_assign(&mut self, d: Nanos) {
        *self = *self + d;
    }
}

impl Sub<Nanos> for Instant {
    type Output = Self;
    fn sub(self, d: Nanos) -> Self {
        Self(self.0.saturating_sub(d.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, d: Self) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl fmt::Display for Nanos {
    /// Writes the exact span in the largest unit of which it has at least one: `1.5ms`, `250us`,
    /// `17ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            n if n >= 1_000_000_000 => (1_000_000_000, "s"),
            n if n >= 1_000_000 => (1_000_000, "ms"),
            n if n >= 1_000 => (1_000, "us"),
            _ => (1, "ns"),
        };
        let (whole, mut part) = (self.0 / unit, self.0 % unit);
        if part == 0 {
            return write!(f, "{whole}{name}");
        }
        let mut width = match unit {
            1_000_000_000 => 9,
            1_000_000 => 6,
            _ => 3,
        };
        while part % 10 == 0 {
            part /= 10;
            width -= 1;
        }
        write!(f, "{whole}.{part:0width$}{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Instant::MAX + Nanos(1), Instant::MAX);
        assert_eq!(Instant(5) - Nanos(9), Instant::ZERO);
        assert_eq!(Instant(5).saturating_since(Instant(9)), Nanos::ZERO);
        assert_eq!(Instant(9).saturating_since(Instant(5)), Nanos(4));
    }

    #[test]
    fn prints_the_largest_fitting_unit() {
        for (ns, text) in [
            (0, "0ns"),
            (17, "17ns"),
            (1_500, "1.5us"),
            (250_000, "250us"),
            (1_000_001, "1.000001ms"),
            (2_000_000_000, "2s"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
    }
}
