//! The shaper: each packet moves the time of the next departure on by its own duration. There is no
//! bucket and so no first burst; unused time is not saved.

use crate::base::time::{Instant, Nanos};
use crate::base::units::Rate;

/// The least rate that a shaper keeps to, bytes/s.
const RATE_MIN: u64 = 64;

/// A rate as time per byte: `len * mult >> shift` ns. The factor has 34 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    mult: u64,
    shift: u32,
}

impl Pace {
    /// Returns the pace of a rate; at 0 no packet takes any time.
    pub fn new(rate: Rate) -> Self {
        if rate.0 == 0 {
            return Self::default();
        }
        let mut pace = Self { mult: (1_000_000_000u64 << 34) / rate.0.max(RATE_MIN), shift: 34 };
        // Bound: 30 turns, because the number has 64 bits.
        while pace.mult >> 34 != 0 {
            pace.mult >>= 1;
            pace.shift -= 1;
        }
        pace
    }
    /// True if no packet takes any time.
    pub(crate) const fn is_unlimited(self) -> bool {
        self.mult == 0
    }
    /// Returns the time for `len` bytes, rounded down. 32 bits by 34 bits does not fit 64, but no
    /// packet is that long: the byte limit's largest object has 28.
    #[inline]
    pub const fn time(self, len: u32) -> Nanos {
        Nanos((len as u64).wrapping_mul(self.mult) >> self.shift)
    }
}

/// The schedule of the whole link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Schedule {
    pub pace: Pace,
    /// Time at which the next packet may leave.
    next: Instant,
    /// Time at which a packet may leave whatever `next` says: it keeps the link at two thirds of
    /// its rate if packets dropped on ingress have used up all of it.
    failsafe: Instant,
}

impl Schedule {
    /// Forgets earlier departures.
    pub fn reset(&mut self) {
        *self = Self { pace: self.pace, ..Self::default() };
    }
    /// Returns the time at which a packet may leave; one in the past means at once.
    #[inline]
    pub fn due(&self) -> Instant {
        self.next.min(self.failsafe)
    }
    /// Notes an arrival while no packet waits: unused time is lost. Returns true if the packet has
    /// to wait.
    pub fn wake(&mut self, now: Instant) -> bool {
        if self.next < now {
            (self.next, self.failsafe) = (now, now);
            return false;
        }
        self.due() > now
    }
    /// Charges a packet; a `dropped` one is not charged to the failsafe.
    #[inline]
    pub fn charge(&mut self, len: u32, dropped: bool) {
        let time = self.pace.time(len);
        self.next += time;
        if !dropped {
            self.failsafe += Nanos(time.0 + (time.0 >> 1));
        }
    }
}

/// The schedule of a tin: the time until which it has used its share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threshold {
    pub pace: Pace,
    next: Instant,
}

impl Threshold {
    /// Notes an arrival while no packet waits.
    #[inline]
    pub fn wake(&mut self, now: Instant) {
        self.next = self.next.max(now);
    }
    /// Returns the time since the tin came within its share, in nanoseconds: negative if it is
    /// above.
    #[inline]
    pub const fn slack(&self, now: Instant) -> i64 {
        now.0.wrapping_sub(self.next.0).cast_signed()
    }
    /// Charges a packet. A `next` in the past moves on by the packet's time; a later one is raised
    /// to at least that time after `now`.
    #[inline]
    pub fn charge(&mut self, len: u32, now: Instant) {
        let time = self.pace.time(len);
        if self.next < now {
            self.next += time;
        } else if self.next < now + time {
            self.next = now + time;
        }
    }
}
