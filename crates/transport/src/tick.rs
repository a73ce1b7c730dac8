//! The tick that timers of a kernel count: its phase, its number, and the lateness of a timer
//! wheel.

use txweir_core::{Instant, Nanos};

/// A periodic tick. Tick number `first + n` begins at `phase + n * period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Time between two ticks; 1 ms for a kernel built with HZ=1000.
    pub period: Nanos,
    /// Time at which the first tick begins; less than the period.
    pub phase: Nanos,
    /// The number of the first tick. The slots of a timer wheel are multiples of powers of two.
    pub first: u64,
}

impl Default for Tick {
    fn default() -> Self {
        Self { period: Nanos::from_millis(1), phase: Nanos::ZERO, first: FIRST }
    }
}

/// The default number of the first tick: large enough that the tick before it has a number.
const FIRST: u64 = 1 << 20;
/// Slots of one level of the wheel less one: the largest delay that the first level holds exactly.
const LEVEL_SPAN: u64 = 63;
/// Binary logarithm of the ratio between the slots of a level and those of the level below.
const LEVEL_SHIFT: u32 = 3;
/// Levels of the wheel.
const LEVELS: u32 = 9;

impl Tick {
    const fn period(&self) -> u64 {
        if self.period.0 == 0 { 1 } else { self.period.0 }
    }

    /// Returns the number of the tick in which `now` lies.
    pub const fn count(&self, now: Instant) -> u64 {
        match now.0.checked_sub(self.phase.0) {
            Some(since) => self.first + since / self.period(),
            None => self.first.saturating_sub(1),
        }
    }

    /// Returns the time at which tick number `n` begins; time 0 for ticks before the first.
    pub const fn start(&self, n: u64) -> Instant {
        match n.checked_sub(self.first) {
            Some(n) => Instant(self.phase.0.saturating_add(n.saturating_mul(self.period()))),
            None => Instant::ZERO,
        }
    }

    /// Returns the time stamp of an instant (RFC 7323): milliseconds, in phase with the ticks. It
    /// is never zero, which means "none".
    pub const fn stamp(&self, at: Instant) -> u32 {
        let since = at.0.saturating_add(self.period() - self.phase.0 % self.period());
        match ((since / 1_000_000) as u32).wrapping_add(1) {
            0 => 1,
            stamp => stamp,
        }
    }

    /// Returns microseconds as ticks, rounded up.
    pub const fn from_micros(&self, us: u64) -> u64 {
        us.saturating_mul(1_000).div_ceil(self.period())
    }

    /// Returns ticks as microseconds.
    pub const fn micros(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(self.period.0) / 1_000
    }

    /// Returns milliseconds as ticks, rounded up.
    pub const fn from_millis(&self, ms: u64) -> u64 {
        self.from_micros(ms.saturating_mul(1_000))
    }

    /// Returns the time at which a timer fires that is set at `now` for tick `expires`. A
    /// hierarchical wheel never fires early: it rounds up by one slot of the level that holds the
    /// timer, and a slot is eight times as long at each further level (Varghese and Lauck 1987,
    /// scheme 7 without cascades).
    pub(crate) const fn expiry(&self, now: Instant, expires: u64) -> Instant {
        let current = self.count(now);
        let delta = expires.saturating_sub(current + 1);
        let mut level = 0;
        while level + 1 < LEVELS && delta >= LEVEL_SPAN << (LEVEL_SHIFT * level) {
            level += 1;
        }
        let shift = LEVEL_SHIFT * level;
        let due = if expires > current { expires } else { current };
        self.start(((due >> shift) + 1) << shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn short_timers_fire_at_the_next_tick() {
        let t = Tick { first: 0, ..Tick::default() };
        assert_eq!(t.expiry(Instant(10 * MS + 5), 50), Instant(51 * MS));
        assert_eq!(t.expiry(Instant(10 * MS), 10), Instant(11 * MS));
        assert_eq!(t.expiry(Instant(10 * MS), 3), Instant(11 * MS), "a due timer fires at the next tick");
    }

    #[test]
    fn long_timers_fire_at_the_next_slot_of_their_level() {
        let t = Tick { first: 0, ..Tick::default() };
        // 200 ticks lie on the second level, with slots of eight ticks.
        assert_eq!(t.expiry(Instant(0), 200), Instant(208 * MS));
        assert_eq!(t.expiry(Instant(3 * MS), 203), Instant(208 * MS));
        // 1000 ticks lie on the third level, with slots of 64.
        assert_eq!(t.expiry(Instant(0), 1000), Instant(1024 * MS));
        // Another number of the first tick moves the slots.
        let t = Tick { first: 5, ..t };
        assert_eq!(t.expiry(Instant(0), 205), Instant(203 * MS));
    }

    #[test]
    fn phase_moves_the_edges() {
        let t = Tick { phase: Nanos(300_000), first: 100, ..Tick::default() };
        assert_eq!([t.count(Instant(299_999)), t.count(Instant(1_299_999))], [99, 100]);
        assert_eq!(t.count(Instant(1_300_000)), 101);
        assert_eq!(t.start(107), Instant(7_300_000));
        assert_eq!((t.from_micros(1), t.from_micros(2000), t.micros(3)), (1, 2, 3000));
    }

    /// The stamp of 32 bits begins anew after 49.7 days, and leaves out zero.
    #[test]
    fn a_stamp_is_never_zero() {
        let t = Tick::default();
        let last = u64::from(u32::MAX) - 2;
        let stamps = [0, 1, 2, 3].map(|ms| t.stamp(Instant((last + ms) * MS)));
        assert_eq!(stamps, [u32::MAX, 1, 1, 2]);
    }
}
