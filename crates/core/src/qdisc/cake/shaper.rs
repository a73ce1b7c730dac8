//! The shaper: the time at which the next packet may leave is moved on by what each packet takes. There is no bucket and
//! so no first burst; what was not used is not saved.

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
    /// That of a rate; at 0 nothing takes any time.
    pub fn new(rate: Rate) -> Self {
        if rate.0 == 0 {
            return Self::default();
        }
        let mut pace = Self { mult: (1_000_000_000u64 << 34) / rate.0.max(RATE_MIN), shift: 34 };
        while pace.mult >> 34 != 0 {
            pace.mult >>= 1;
            pace.shift -= 1;
        }
        pace
    }
    /// Whether nothing takes any time.
    pub(crate) const fn is_unlimited(self) -> bool {
        self.mult == 0
    }
    /// The time for `len` bytes, rounded down. 32 bits by 34 bits does not fit 64, but no packet is that long: the
    /// byte limit's largest object has 28.
    #[inline]
    pub const fn time(self, len: u32) -> Nanos {
        Nanos((len as u64).wrapping_mul(self.mult) >> self.shift)
    }
}

/// The schedule of the whole link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Schedule {
    pub pace: Pace,
    /// When the next packet may leave.
    next: Instant,
    /// When it may leave whatever `next` says: behind this, the link sends at two thirds of its rate although packets
    /// that were dropped on ingress have used up all of it.
    failsafe: Instant,
}

impl Schedule {
    /// Forgets what was sent.
    pub fn reset(&mut self) {
        *self = Self { pace: self.pace, ..Self::default() };
    }
    /// When something may leave; a time in the past if at once.
    #[inline]
    pub fn due(&self) -> Instant {
        self.next.min(self.failsafe)
    }
    /// Something comes while nothing waits: time that was not used is lost. True if it has to wait.
    pub fn wake(&mut self, now: Instant) -> bool {
        if self.next < now {
            (self.next, self.failsafe) = (now, now);
            return false;
        }
        self.due() > now
    }
    /// Charges a packet; what was `dropped` is not charged to the failsafe.
    #[inline]
    pub fn charge(&mut self, len: u32, dropped: bool) {
        let time = self.pace.time(len);
        self.next += time;
        if !dropped {
            self.failsafe += Nanos(time.0 + (time.0 >> 1));
        }
    }
}

/// The schedule of a tin: until when it is within its share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threshold {
    pub pace: Pace,
    next: Instant,
}

impl Threshold {
    /// Something comes while nothing waits.
    #[inline]
    pub fn wake(&mut self, now: Instant) {
        self.next = self.next.max(now);
    }
    /// How long ago it came within its share: negative if it is above.
    #[inline]
    pub const fn slack(&self, now: Instant) -> i64 {
        now.0.wrapping_sub(self.next.0).cast_signed()
    }
    /// Charges a packet. A tin that lags behind does not catch up by more than one packet.
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
