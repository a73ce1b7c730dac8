//! Dynamic queue limits: the amount that a device queue may hold, learned from the arrival of its
//! completions.
//!
//! The engine reports every object it posts to the device (`queued`) and every batch the device has
//! finished (`completed`); `available() >= 0` means one more object may be posted. The limit is the
//! smallest amount that did not let the device run dry between completions: it grows at once when
//! the device starved, and shrinks by the least slack seen during a hold time. The algorithm is Tom
//! Herbert's byte queue limits (netdev, "bql: Byte Queue Limits", November 2011, and the
//! dynamic_queue_limits library that came with it).
//!
//! Cost: `queued` and `available` together are a dozen instructions, without division; `completed`
//! is about eighty per completion round. Memory: one fixed record per transmit queue.
//!
//! Totals are `u32` and wrap; only differences of totals are ever compared, as signed 32-bit
//! numbers.
//!
//! Invariants, with `A` the admission threshold that `available` subtracts from, `L` the limit, `C`
//! completed:
//! - queued minus completed is the amount that the device holds (`inflight`);
//! - after each completion and after `reset`, `A = L + C`;
//! - a poster that asks `available` before each post never has more than `L` plus one object in
//!   flight.
//!
//! With a saturating sender, completions every `T` and a drain rate `R`, the limit settles at about
//! `2 * R * T`, or at one to two objects where an object is larger than that. It therefore follows
//! interrupt coalescing. To bound delay, set `limit_max` to [`Dql::cap_for`] the acceptable delay.
//! [`DqlStats::completion_interval`] explains a large limit.
//!
//! Differs from Linux: `reset` makes the threshold valid at once (Linux leaves the old one in place
//! until the next completion, and ignores `limit_min` until then); `strict_linux` restores that.
//! `limit_min > limit_max` is refused. Slack of 2^31 or more counts.

mod cadence;
mod stall;

use core::fmt;

use crate::base::time::{Instant, Nanos};
use cadence::Cadence;

pub use stall::{STALL_TICKS_MAX, STALL_TICKS_MIN, StallWatch};

/// The largest object that can be posted, in the queue's unit: one sixteenth of the counters'
/// range, so that signed comparison of totals keeps its meaning.
pub const OBJECT_MAX: u32 = u32::MAX / 16;

/// The largest limit: a limit plus one object still is a positive signed 32-bit number.
pub const LIMIT_MAX: u32 = u32::MAX / 2 - OBJECT_MAX;

/// Default time that slack must persist before the limit shrinks: one second, as in the 2011
/// library.
pub(crate) const HOLD_TIME: Nanos = Nanos::from_millis(1_000);

/// Default grain of stall detection.
pub(crate) const STALL_TICK: Nanos = Nanos::from_millis(1);

/// Unit that a queue limit counts in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Bytes on the wire: for devices whose time per object depends on its length.
    #[default]
    Bytes,
    /// Packets, one per object handed over: for devices where a process consumes (TAP, veth), whose
    /// time per object depends little on its length.
    Packets,
}

impl Unit {
    /// Returns the cost of an object of `wire_len` bytes that counts as `packets` packets. The same
    /// cost must be reported at post and at completion.
    #[inline]
    #[must_use]
    pub const fn cost(self, wire_len: u32, packets: u32) -> u32 {
        match self {
            Self::Bytes => wire_len,
            Self::Packets => packets,
        }
    }
}

/// Configuration of a queue limit. `Default` is an unbounded limit in bytes with a hold time of one
/// second and no stall detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DqlConfig {
    /// The limit never falls below this; at most `limit_max`.
    pub limit_min: u32,
    /// The limit never rises above this; at most [`LIMIT_MAX`]. Below one object the device still
    /// makes progress, one object at a time.
    pub limit_max: u32,
    /// Time that slack must persist before the limit shrinks.
    pub hold_time: Nanos,
    /// A completion that comes later than this after a post is a stall; zero turns detection off.
    /// Rounded up to ticks, [`STALL_TICKS_MIN`] to [`STALL_TICKS_MAX`] of them.
    pub stall_thrs: Nanos,
    /// The grain of stall detection; not zero.
    pub stall_tick: Nanos,
    /// Unit of the limit. Carried for the engine and its reports: the arithmetic is the same.
    pub unit: Unit,
    /// True to keep the reference's stale threshold over `reset`, and to ignore `limit_min` before
    /// the first completion. For differential tests only: after a reset the stale threshold permits
    /// one unbounded burst, or only one object at a time, until the first completion.
    pub strict_linux: bool,
}

impl Default for DqlConfig {
    fn default() -> Self {
        Self {
            limit_min: 0,
            limit_max: LIMIT_MAX,
            hold_time: HOLD_TIME,
            stall_thrs: Nanos::ZERO,
            stall_tick: STALL_TICK,
            unit: Unit::Bytes,
            strict_linux: false,
        }
    }
}

/// Refusal of a configuration, a post or a completion. The refused call leaves the queue limit
/// unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DqlError {
    /// A limit above [`LIMIT_MAX`].
    LimitTooLarge {
        /// The value given.
        given: u32,
    },
    /// The lower bound is above the upper one.
    MinAboveMax {
        /// The lower bound that would result.
        limit_min: u32,
        /// The upper bound that would result.
        limit_max: u32,
    },
    /// The stall threshold is outside [`STALL_TICKS_MIN`] to [`STALL_TICKS_MAX`] ticks.
    StallRange {
        /// The threshold given, in ticks, rounded up.
        ticks: u64,
    },
    /// The tick of stall detection is zero.
    ZeroTick,
    /// A post of more than [`OBJECT_MAX`] in one object. Refused here because ignoring it would
    /// surface as an accounting error at its completion, far from the cause.
    ObjectTooLarge {
        /// The size of the object.
        given: u32,
    },
    /// More was reported complete than is in flight. Either the posted and the completed sizes of
    /// some object differ, or a reset forgot objects that the device kept. The totals cannot be
    /// trusted any more; the engine must reset the queue.
    Overcompleted {
        /// The amount reported.
        completed: u32,
        /// The amount in flight.
        inflight: u32,
    },
}

impl fmt::Display for DqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitTooLarge { given } => write!(f, "limit {given} is above the maximum {LIMIT_MAX}"),
            Self::MinAboveMax { limit_min, limit_max } => {
                write!(f, "limit_min {limit_min} is above limit_max {limit_max}")
            }
            Self::StallRange { ticks } => write!(
                f,
                "stall threshold of {ticks} ticks is outside {STALL_TICKS_MIN} to {STALL_TICKS_MAX} ticks"
            ),
            Self::ZeroTick => f.write_str("the tick of stall detection is zero"),
            Self::ObjectTooLarge { given } => {
                write!(f, "object of {given} is above the maximum {OBJECT_MAX}")
            }
            Self::Overcompleted { completed, inflight } => {
                write!(f, "{completed} reported complete with {inflight} in flight")
            }
        }
    }
}

impl core::error::Error for DqlError {}

/// The state and counters of a queue limit at one moment. Amounts are in `unit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DqlStats {
    /// Unit of the amounts.
    pub unit: Unit,
    /// The limit now.
    pub limit: u32,
    /// Its lower bound.
    pub limit_min: u32,
    /// Its upper bound.
    pub limit_max: u32,
    /// Time that slack must persist before the limit shrinks.
    pub hold_time: Nanos,
    /// Amount posted and not yet completed.
    pub inflight: u32,
    /// Value of [`Dql::available`].
    pub available: i32,
    /// The stall threshold; zero is off.
    pub stall_thrs: Nanos,
    /// Stalls seen.
    pub stall_cnt: u64,
    /// The longest stall since it was last cleared.
    pub stall_max: Nanos,
    /// Completion rounds that reported work.
    pub completions: u64,
    /// Completions that found that the device had run dry while more was waiting: the limit grew.
    pub starved: u64,
    /// Completions that lowered the limit.
    pub shrinks: u64,
    /// Of `shrinks`, the number decided with no slack observed in the hold time before: after an
    /// idle time, one busy interval stood for the whole hold time.
    pub idle_shrinks: u64,
    /// Posts refused because the object was too large.
    pub refused: u64,
    /// Smoothed time in which the device, having work, reports a completion; `None` before the
    /// first. The limit is about twice the amount that the device sends in this time.
    pub completion_interval: Option<Nanos>,
}

/// A dynamic queue limit: one per transmit queue, written by its one owner.
#[derive(Clone, Debug)]
pub struct Dql {
    /// Total ever posted.
    queued: u32,
    /// Limit plus completed at the last completion; posting is allowed while `queued` has not
    /// passed it.
    threshold: u32,
    /// Size of the latest post.
    last_post: u32,
    /// Total ever completed.
    completed: u32,

    limit: u32,
    limit_min: u32,
    limit_max: u32,
    hold_time: Nanos,

    /// State at the previous completion round.
    prev: Round,
    /// The least slack seen since `slack_start`.
    lowest_slack: u32,
    slack_start: Instant,
    /// Time at which slack was last observed, or `slack_start`: only for the `idle_shrinks`
    /// counter.
    slack_seen: Instant,

    stall: StallWatch,
    cadence: Cadence,
    unit: Unit,
    strict_linux: bool,
    counts: Counts,
}

/// State that one completion round leaves for the next to compare with.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// Amount by which the posted total exceeded the limit when the round began.
    over_limit: u32,
    /// The total posted when the round ran.
    queued: u32,
    /// The size of the latest post when the round ran.
    last_post: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    completions: u64,
    starved: u64,
    shrinks: u64,
    idle_shrinks: u64,
    refused: u64,
}

/// Returns `a - b` of two wrapping totals, or zero when `b` is ahead.
#[inline]
const fn positive_diff(a: u32, b: u32) -> u32 {
    let d = a.wrapping_sub(b);
    if d.cast_signed() > 0 { d } else { 0 }
}

impl Dql {
    /// Returns a queue limit with nothing in flight.
    ///
    /// # Errors
    /// [`DqlError::LimitTooLarge`], [`DqlError::MinAboveMax`], [`DqlError::StallRange`] and
    /// [`DqlError::ZeroTick`] name the fault of `config`.
    pub fn new(config: &DqlConfig, now: Instant) -> Result<Self, DqlError> {
        let mut dql = Self {
            queued: 0,
            threshold: 0,
            last_post: 0,
            completed: 0,
            limit: 0,
            limit_min: 0,
            limit_max: LIMIT_MAX,
            hold_time: config.hold_time,
            prev: Round::default(),
            lowest_slack: u32::MAX,
            slack_start: now,
            slack_seen: now,
            stall: StallWatch::new(config.stall_tick)?,
            cadence: Cadence::new(now),
            unit: config.unit,
            strict_linux: config.strict_linux,
            counts: Counts::default(),
        };
        dql.set_bounds(config.limit_min, config.limit_max)?;
        dql.set_stall_thrs(config.stall_thrs, now)?;
        dql.reset(now);
        Ok(dql)
    }

    /// Reports one object of size `n` posted to the device at `now`. `now` matters to stall
    /// detection and to the completion interval only.
    ///
    /// # Errors
    /// [`DqlError::ObjectTooLarge`] above [`OBJECT_MAX`]: nothing is recorded, and the object must
    /// not be handed to the device.
    #[inline]
    pub fn queued(&mut self, n: u32, now: Instant) -> Result<(), DqlError> {
        if n > OBJECT_MAX {
            self.counts.refused += 1;
            return Err(DqlError::ObjectTooLarge { given: n });
        }
        if self.queued == self.completed {
            self.cadence.busy_since = now;
        }
        self.last_post = n;
        self.queued = self.queued.wrapping_add(n);
        if self.stall.thrs_ticks != 0 {
            self.stall.posted(now);
        }
        Ok(())
    }

    /// Returns the amount that may still be posted. Zero or more allows one more object of any
    /// size: the amount in flight may exceed the limit by up to one object.
    #[inline]
    #[must_use]
    pub const fn available(&self) -> i32 {
        self.threshold.wrapping_sub(self.queued).cast_signed()
    }

    /// Reports that the device has finished `n` since the previous call. The engine calls it once
    /// per completion round, with the sum of the amounts given to `queued` for the finished
    /// objects. Zero is not a completion and changes nothing.
    ///
    /// # Errors
    /// [`DqlError::Overcompleted`] when `n` is more than is in flight: nothing changes, and the
    /// engine must [`reset`](Self::reset) the queue.
    pub fn completed(&mut self, n: u32, now: Instant) -> Result<(), DqlError> {
        if n == 0 {
            return Ok(());
        }
        let inflight = self.inflight();
        if n > inflight {
            return Err(DqlError::Overcompleted { completed: n, inflight });
        }
        let total = self.completed.wrapping_add(n);
        let mut over_limit = positive_diff(inflight, self.limit);
        // Everything that the previous round left in flight is done. Equality counts: a device that
        // carries single objects larger than the limit completes exactly the previous batch each
        // time, and starves in between.
        let prev_done = total.wrapping_sub(self.prev.queued).cast_signed() >= 0;
        let drained = total == self.queued;

        let mut limit = self.limit;
        if (over_limit > 0 && drained) || (self.prev.over_limit > 0 && prev_done) {
            // The device ran dry while the limit held posts back. The limit grows by the amount
            // posted and done since the previous round, plus the amount that was then over the
            // limit.
            limit =
                limit.wrapping_add(positive_diff(total, self.prev.queued)).wrapping_add(self.prev.over_limit);
            self.counts.starved += 1;
            self.restart_slack(now);
        } else if !prev_done {
            // Something posted before the previous round is still there, so the device never ran
            // dry in between.
            limit = self.busy_interval(n, now);
        }
        limit = limit.clamp(self.limit_min, self.limit_max);
        if limit != self.limit {
            self.limit = limit;
            over_limit = 0;
        }

        self.threshold = limit.wrapping_add(total);
        self.completed = total;
        self.prev = Round { over_limit, queued: self.queued, last_post: self.last_post };
        self.counts.completions += 1;
        self.cadence.completed(now);
        if self.stall.thrs_ticks != 0 {
            self.stall.completed(now);
        }
        Ok(())
    }

    /// Updates the slack after an interval in which the device was busy throughout and completed
    /// `n`: notes the part of the limit that the interval did not need, and after a hold time gives
    /// up the least of these parts. Returns the resulting limit, before its bounds apply.
    fn busy_interval(&mut self, n: u32, now: Instant) -> u32 {
        // Twice the amount completed covers one interval in flight and one being refilled. These
        // are amounts and no totals: they do not wrap.
        let unneeded = self.limit.saturating_add(self.prev.over_limit).saturating_sub(n.saturating_mul(2));
        // Part of the last object that lay within the limit.
        let last_object = match self.prev.over_limit {
            0 => 0,
            over => positive_diff(self.prev.last_post, over),
        };
        self.lowest_slack = self.lowest_slack.min(unneeded.max(last_object));

        if now <= self.slack_start + self.hold_time {
            self.slack_seen = now;
            return self.limit;
        }
        let limit = self.limit.saturating_sub(self.lowest_slack);
        if limit.max(self.limit_min) < self.limit {
            self.counts.shrinks += 1;
            if now > self.slack_seen + self.hold_time {
                self.counts.idle_shrinks += 1;
            }
        }
        self.restart_slack(now);
        limit
    }

    fn restart_slack(&mut self, now: Instant) {
        self.slack_start = now;
        self.slack_seen = now;
        self.lowest_slack = u32::MAX;
    }

    /// Forgets everything in flight and everything learned: the limit falls to `limit_min`.
    /// Counters stay.
    ///
    /// The engine must call this whenever posted objects were freed without a completion, and never
    /// while the device keeps any of them: their completion would be an accounting error.
    pub fn reset(&mut self, now: Instant) {
        self.queued = 0;
        self.completed = 0;
        self.last_post = 0;
        self.limit = self.limit_min;
        self.prev = Round::default();
        self.restart_slack(now);
        if !self.strict_linux {
            self.threshold = self.limit;
        }
        self.stall.reset(now);
        self.cadence.restart(now);
    }

    /// Returns the upper bound of the limit that keeps the delay behind a full device queue at
    /// `target`, if the device drains `rate_bytes_per_s`: for
    /// [`set_limit_max`](Self::set_limit_max). Rounded down, at most [`LIMIT_MAX`].
    ///
    /// The amount in flight may exceed the limit by one object, so the delay is bounded by `target`
    /// plus the time of one object. A cap below one object makes the device stop and wait: it
    /// carries one object per completion.
    ///
    /// ```
    /// # use txweir_core::{path::dql::Dql, base::time::Nanos};
    /// assert_eq!(Dql::cap_for(125_000_000, Nanos::from_micros(200)), 25_000);
    /// ```
    #[must_use]
    pub fn cap_for(rate_bytes_per_s: u64, target: Nanos) -> u32 {
        let bytes = u128::from(rate_bytes_per_s) * u128::from(target.as_nanos()) / 1_000_000_000;
        u32::try_from(bytes).map_or(LIMIT_MAX, |bytes| bytes.min(LIMIT_MAX))
    }
}

/// The control surface, under the names of Linux's `byte_queue_limits` directory in sysfs.
impl Dql {
    /// Returns the limit now.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Overwrites the limit. The new limit takes effect, brought within its bounds, at the next
    /// completion.
    ///
    /// # Errors
    /// [`DqlError::LimitTooLarge`] above [`LIMIT_MAX`].
    pub fn set_limit(&mut self, limit: u32) -> Result<(), DqlError> {
        if limit > LIMIT_MAX {
            return Err(DqlError::LimitTooLarge { given: limit });
        }
        self.limit = limit;
        Ok(())
    }

    /// Returns the lower bound of the limit.
    #[must_use]
    pub const fn limit_min(&self) -> u32 {
        self.limit_min
    }

    /// Sets the lower bound of the limit, from the next completion on.
    ///
    /// # Errors
    /// [`DqlError::MinAboveMax`] above `limit_max`.
    pub fn set_limit_min(&mut self, limit_min: u32) -> Result<(), DqlError> {
        self.set_bounds(limit_min, self.limit_max)
    }

    /// Returns the upper bound of the limit.
    #[must_use]
    pub const fn limit_max(&self) -> u32 {
        self.limit_max
    }

    /// Sets the upper bound of the limit, from the next completion on.
    ///
    /// # Errors
    /// [`DqlError::MinAboveMax`] below `limit_min`, [`DqlError::LimitTooLarge`] above
    /// [`LIMIT_MAX`].
    pub fn set_limit_max(&mut self, limit_max: u32) -> Result<(), DqlError> {
        self.set_bounds(self.limit_min, limit_max)
    }

    /// Sets both bounds at once, from the next completion on. The order of their changes then does
    /// not matter.
    ///
    /// # Errors
    /// [`DqlError::MinAboveMax`], [`DqlError::LimitTooLarge`].
    pub fn set_bounds(&mut self, limit_min: u32, limit_max: u32) -> Result<(), DqlError> {
        if limit_max > LIMIT_MAX {
            return Err(DqlError::LimitTooLarge { given: limit_max });
        }
        if limit_min > limit_max {
            return Err(DqlError::MinAboveMax { limit_min, limit_max });
        }
        self.limit_min = limit_min;
        self.limit_max = limit_max;
        Ok(())
    }

    /// Returns the time that slack must persist before the limit shrinks.
    #[must_use]
    pub const fn hold_time(&self) -> Nanos {
        self.hold_time
    }

    /// Sets the time that slack must persist before the limit shrinks, from the next completion on.
    pub fn set_hold_time(&mut self, hold_time: Nanos) {
        self.hold_time = hold_time;
    }

    /// Returns the amount posted and not yet completed.
    #[inline]
    #[must_use]
    pub const fn inflight(&self) -> u32 {
        self.queued.wrapping_sub(self.completed)
    }

    /// Returns the stalls seen.
    #[must_use]
    pub const fn stalls(&self) -> &StallWatch {
        &self.stall
    }
    /// Returns the stalls seen, to forget the longest.
    pub const fn stalls_mut(&mut self) -> &mut StallWatch {
        &mut self.stall
    }

    /// Sets the stall threshold, rounded up to ticks; zero turns detection off.
    ///
    /// The first post after a completion starts the wait for the next completion. A wait longer
    /// than the threshold is counted, and so are some waits longer than half of it. The history
    /// reaches back 192 to 256 ticks, so a longer wait may go unseen when posts went on during it.
    ///
    /// # Errors
    /// [`DqlError::StallRange`] outside [`STALL_TICKS_MIN`] to [`STALL_TICKS_MAX`] ticks.
    pub fn set_stall_thrs(&mut self, stall_thrs: Nanos, now: Instant) -> Result<(), DqlError> {
        self.stall.set_threshold(stall_thrs, now)
    }

    /// True if the limit looks for stalls, and so needs the time of each post.
    #[must_use]
    pub(crate) const fn watches_stalls(&self) -> bool {
        self.stall.thrs_ticks != 0
    }

    /// Returns the unit of the limit.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// Returns all of the above and the counters.
    #[must_use]
    pub fn stats(&self) -> DqlStats {
        DqlStats {
            unit: self.unit,
            limit: self.limit,
            limit_min: self.limit_min,
            limit_max: self.limit_max,
            hold_time: self.hold_time,
            inflight: self.inflight(),
            available: self.available(),
            stall_thrs: self.stall.threshold(),
            stall_cnt: self.stall.count(),
            stall_max: self.stall.longest(),
            completions: self.counts.completions,
            starved: self.counts.starved,
            shrinks: self.counts.shrinks,
            idle_shrinks: self.counts.idle_shrinks,
            refused: self.counts.refused,
            completion_interval: self.cadence.interval(),
        }
    }
}

#[cfg(test)]
mod tests;
