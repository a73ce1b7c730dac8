//! Dynamic queue limits: how much a device queue may hold, learned from when its completions arrive.
//!
//! The engine reports every object it posts to the device (`queued`) and every batch the device has finished
//! (`completed`); `available() >= 0` means one more object may be posted. The limit is the smallest amount
//! that did not let the device run dry between completions: it grows at once when the device starved, and
//! shrinks by the least slack seen during a hold time. The algorithm is Tom Herbert's byte queue limits
//! (netdev, "bql: Byte Queue Limits", November 2011, and the dynamic_queue_limits library that came with it).
//!
//! Cost: `queued` and `available` together are a dozen instructions, without division; `completed` is about
//! eighty per completion round. Memory: one fixed record per transmit queue.
//!
//! Totals are `u32` and wrap; only differences of totals are ever compared, as signed 32-bit numbers.
//!
//! Invariants, with `A` the admission threshold that `available` subtracts from, `L` the limit, `C`
//! completed:
//! - queued minus completed is what the device holds (`inflight`);
//! - after each completion and after `reset`, `A = L + C`;
//! - a poster that asks `available` before each post never has more than `L` plus one object in flight.
//!
//! With a saturating sender, completions every `T` and a drain rate `R`, the limit settles at about `2 * R *
//! T`, or at one to two objects where an object is larger than that. It therefore follows interrupt
//! coalescing: to bound delay, set `limit_max` to [`Dql::cap_for`] the delay that is acceptable, and look at
//! [`DqlStats::completion_interval`] to see why a limit is as large as it is.
//!
//! Differs from Linux: `reset` makes the threshold valid at once (Linux leaves the old one in place until the
//! next completion, and ignores `limit_min` until then); `strict_linux` restores that. `limit_min >
//! limit_max` is refused.

use core::fmt;

use crate::time::{Instant, Nanos};

/// The largest object that can be posted, in the queue's unit: one sixteenth of the counters' range, so that
/// signed comparison of totals keeps its meaning.
pub const OBJECT_MAX: u32 = u32::MAX / 16;

/// The largest limit: a limit plus one object still is a positive signed 32-bit number.
pub const LIMIT_MAX: u32 = u32::MAX / 2 - OBJECT_MAX;

/// How long slack must persist before the limit shrinks, unless configured: one second, as in the 2011
/// library.
pub const HOLD_TIME: Nanos = Nanos::from_millis(1_000);

/// The grain of stall detection, unless configured.
pub const STALL_TICK: Nanos = Nanos::from_millis(1);

/// The smallest stall threshold, in ticks: half of it must leave room for the tick of the post and that of
/// the completion.
pub const STALL_TICKS_MIN: u64 = 4;

/// The largest stall threshold, in ticks: half of the history, so that a post is still on record when its
/// stall is looked for.
pub const STALL_TICKS_MAX: u64 = HISTORY_TICKS / 2;

/// Words in the post history.
const HISTORY_WORDS: usize = 4;
/// Ticks that one word records, one bit of a `u64` each.
const WORD_TICKS: u64 = 64;
/// Ticks that the whole history reaches back, at most.
const HISTORY_TICKS: u64 = HISTORY_WORDS as u64 * WORD_TICKS;
/// Weight of a new sample in the smoothed completion interval is 1/8, the weight of a round-trip sample in
/// RFC 6298 section 2.3.
const INTERVAL_SHIFT: u32 = 3;

/// What a queue limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Bytes on the wire: for devices whose time per object depends on its length.
    #[default]
    Bytes,
    /// Packets, one per object handed over: for devices where a process consumes (TAP, veth), whose time per
    /// object hardly depends on its length.
    Packets,
}

impl Unit {
    /// What an object of `wire_len` bytes that counts as `packets` packets costs. The same cost must be
    /// reported at post and at completion.
    #[inline]
    #[must_use]
    pub const fn cost(self, wire_len: u32, packets: u32) -> u32 {
        match self {
            Self::Bytes => wire_len,
            Self::Packets => packets,
        }
    }
}

/// Configuration of a queue limit. `Default` is an unbounded limit in bytes with a hold time of one second
/// and no stall detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DqlConfig {
    /// The limit never falls below this; at most `limit_max`.
    pub limit_min: u32,
    /// The limit never rises above this; at most [`LIMIT_MAX`]. Below one object the device still makes
    /// progress, one object at a time.
    pub limit_max: u32,
    /// How long slack must persist before the limit shrinks.
    pub hold_time: Nanos,
    /// A completion that comes later than this after a post is a stall; zero turns detection off. Rounded up
    /// to ticks, [`STALL_TICKS_MIN`] to [`STALL_TICKS_MAX`] of them.
    pub stall_thrs: Nanos,
    /// The grain of stall detection; not zero.
    pub stall_tick: Nanos,
    /// What the limit counts. Carried for the engine and its reports: the arithmetic is the same.
    pub unit: Unit,
    /// Keep the reference's stale threshold over `reset`, and no effect of `limit_min` before the first
    /// completion. For differential tests only: after a reset the stale threshold permits one unbounded
    /// burst, or nothing but one object at a time, until something completes.
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

/// Why a configuration, a post or a completion was refused. The queue limit is unchanged by the refused call.
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
    /// A post of more than [`OBJECT_MAX`] in one object. Refused here because ignoring it would surface as an
    /// accounting error at its completion, far from the cause.
    ObjectTooLarge {
        /// The size of the object.
        given: u32,
    },
    /// More was reported complete than is in flight: the posted and the completed sizes of some object
    /// differ, or a reset forgot objects that the device kept. The totals cannot be trusted any more; the
    /// engine must reset the queue.
    Overcompleted {
        /// What was reported.
        completed: u32,
        /// What was in flight.
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
    /// What the amounts count.
    pub unit: Unit,
    /// The limit now.
    pub limit: u32,
    /// Its lower bound.
    pub limit_min: u32,
    /// Its upper bound.
    pub limit_max: u32,
    /// How long slack must persist before the limit shrinks.
    pub hold_time: Nanos,
    /// Posted and not yet completed.
    pub inflight: u32,
    /// What [`Dql::available`] answers.
    pub available: i32,
    /// The stall threshold; zero is off.
    pub stall_thrs: Nanos,
    /// Stalls seen.
    pub stall_cnt: u64,
    /// The longest stall since it was last cleared.
    pub stall_max: Nanos,
    /// Completion rounds that reported work.
    pub completions: u64,
    /// Completions that found the device had run dry while more was waiting: the limit grew.
    pub starved: u64,
    /// Completions that lowered the limit.
    pub shrinks: u64,
    /// Of those, the ones decided with no slack observed in the hold time before: after an idle time, one
    /// busy interval spoke for the whole hold time.
    pub idle_shrinks: u64,
    /// Posts refused because the object was too large.
    pub refused: u64,
    /// Smoothed time that the device, having work, takes to report a completion; `None` before the first. The
    /// limit is about twice what the device sends in this time.
    pub completion_interval: Option<Nanos>,
}

/// A dynamic queue limit: one per transmit queue, written by its one owner.
#[derive(Clone, Debug)]
pub struct Dql {
    /// Everything ever posted.
    queued: u32,
    /// Limit plus completed at the last completion; posting is allowed while `queued` has not passed it.
    threshold: u32,
    /// Size of the latest post.
    last_post: u32,
    /// Everything ever completed.
    completed: u32,

    limit: u32,
    limit_min: u32,
    limit_max: u32,
    hold_time: Nanos,

    /// What the previous completion round left behind.
    prev: Round,
    /// The least slack seen since `slack_start`.
    lowest_slack: u32,
    slack_start: Instant,
    /// When slack was last observed, or `slack_start`: only for the `idle_shrinks` counter.
    slack_seen: Instant,

    stall: StallWatch,
    cadence: Cadence,
    unit: Unit,
    strict_linux: bool,
    counts: Counts,
}

/// What one completion round leaves for the next to compare with.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// By how much the posted amount exceeded the limit when the round began.
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

/// `a - b` of two wrapping totals, or zero when `b` is ahead.
#[inline]
const fn positive_diff(a: u32, b: u32) -> u32 {
    let d = a.wrapping_sub(b);
    if d.cast_signed() > 0 { d } else { 0 }
}

impl Dql {
    /// A queue limit with nothing in flight.
    ///
    /// # Errors
    /// [`DqlError::LimitTooLarge`], [`DqlError::MinAboveMax`], [`DqlError::StallRange`] and
    /// [`DqlError::ZeroTick`] name what is wrong with `config`.
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

    /// Reports one object of size `n` posted to the device at `now`. `now` matters to stall detection and to
    /// the completion interval only.
    ///
    /// # Errors
    /// [`DqlError::ObjectTooLarge`] above [`OBJECT_MAX`]: nothing is recorded, and the object must not be
    /// handed to the device.
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

    /// How much may still be posted. Zero or more allows one more object of any size: what is in flight may
    /// exceed the limit by up to one object.
    #[inline]
    #[must_use]
    pub const fn available(&self) -> i32 {
        self.threshold.wrapping_sub(self.queued).cast_signed()
    }

    /// Reports that the device has finished `n` since the previous call: once per completion round, with the
    /// sum of what `queued` was given for the finished objects. Zero is not a completion and changes nothing.
    ///
    /// # Errors
    /// [`DqlError::Overcompleted`] when `n` is more than is in flight: nothing changes, and the engine must
    /// [`reset`](Self::reset) the queue.
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
        // Everything that the previous round left in flight is done. Equality counts: a device that carries
        // single objects larger than the limit completes exactly the previous batch each time, and starves in
        // between.
        let prev_done = total.wrapping_sub(self.prev.queued).cast_signed() >= 0;
        let drained = total == self.queued;

        let mut limit = self.limit;
        if (over_limit > 0 && drained) || (self.prev.over_limit > 0 && prev_done) {
            // The device ran dry while the limit held posts back: grow by what was posted and done since the
            // previous round, plus what was then over the limit.
            limit =
                limit.wrapping_add(positive_diff(total, self.prev.queued)).wrapping_add(self.prev.over_limit);
            self.counts.starved += 1;
            self.restart_slack(now);
        } else if !prev_done {
            // Something posted before the previous round is still there, so the device never ran dry in
            // between.
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

    /// The device was busy throughout the interval that ends with `n` completed: note how much of the limit
    /// was not needed for that, and after a hold time give the least of it up. Returns the limit that
    /// results, before its bounds.
    fn busy_interval(&mut self, n: u32, now: Instant) -> u32 {
        // Twice the amount completed covers one interval in flight and one being refilled.
        let unneeded = positive_diff(self.limit.wrapping_add(self.prev.over_limit), n.wrapping_mul(2));
        // The part of the last object that lay within the limit.
        let last_object = match self.prev.over_limit {
            0 => 0,
            over => positive_diff(self.prev.last_post, over),
        };
        self.lowest_slack = self.lowest_slack.min(unneeded.max(last_object));

        if now <= self.slack_start + self.hold_time {
            self.slack_seen = now;
            return self.limit;
        }
        let limit = positive_diff(self.limit, self.lowest_slack);
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

    /// Forgets everything in flight and everything learned: the limit falls to `limit_min`. Counters stay.
    ///
    /// To be called whenever posted objects were freed without a completion, and never while the device keeps
    /// any of them: their completion would be an accounting error.
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

    /// The upper bound of the limit that keeps the delay behind a full device queue at `target`, if the
    /// device drains `rate_bytes_per_s`: for [`set_limit_max`](Self::set_limit_max). Rounded down, at most
    /// [`LIMIT_MAX`].
    ///
    /// What is in flight may exceed the limit by one object, so the delay is bounded by `target` plus the
    /// time of one object. A cap below one object makes the device stop and wait: it carries one object per
    /// completion.
    ///
    /// ```
    /// # use txweir_core::{dql::Dql, time::Nanos};
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
    /// The limit now.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Overwrites the limit. Takes effect, and is brought within its bounds, at the next completion.
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

    /// The lower bound of the limit.
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

    /// The upper bound of the limit.
    #[must_use]
    pub const fn limit_max(&self) -> u32 {
        self.limit_max
    }

    /// Sets the upper bound of the limit, from the next completion on.
    ///
    /// # Errors
    /// [`DqlError::MinAboveMax`] below `limit_min`, [`DqlError::LimitTooLarge`] above [`LIMIT_MAX`].
    pub fn set_limit_max(&mut self, limit_max: u32) -> Result<(), DqlError> {
        self.set_bounds(self.limit_min, limit_max)
    }

    /// Sets both bounds at once, so that their order of change does not matter; from the next completion on.
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

    /// How long slack must persist before the limit shrinks.
    #[must_use]
    pub const fn hold_time(&self) -> Nanos {
        self.hold_time
    }

    /// Sets how long slack must persist before the limit shrinks, from the next completion on.
    pub fn set_hold_time(&mut self, hold_time: Nanos) {
        self.hold_time = hold_time;
    }

    /// Posted and not yet completed.
    #[inline]
    #[must_use]
    pub const fn inflight(&self) -> u32 {
        self.queued.wrapping_sub(self.completed)
    }

    /// The stall threshold, in whole ticks; zero is off.
    #[must_use]
    pub fn stall_thrs(&self) -> Nanos {
        self.stall.span(u64::from(self.stall.thrs_ticks))
    }

    /// Sets the stall threshold, rounded up to ticks; zero turns detection off.
    ///
    /// A completion that comes later than this after the first post that follows the completion before it is
    /// counted, and so are some that come later than half of it. The history reaches back 192 to 256 ticks,
    /// so a longer wait may go unseen when posts went on during it.
    ///
    /// # Errors
    /// [`DqlError::StallRange`] outside [`STALL_TICKS_MIN`] to [`STALL_TICKS_MAX`] ticks.
    pub fn set_stall_thrs(&mut self, stall_thrs: Nanos, now: Instant) -> Result<(), DqlError> {
        self.stall.set_threshold(stall_thrs, now)
    }

    /// Stalls seen.
    #[must_use]
    pub const fn stall_cnt(&self) -> u64 {
        self.stall.count
    }

    /// The longest stall since [`clear_stall_max`](Self::clear_stall_max), in whole ticks.
    #[must_use]
    pub fn stall_max(&self) -> Nanos {
        self.stall.span(self.stall.max_ticks)
    }

    /// Forgets the longest stall, as any write to `stall_max` does in sysfs.
    pub fn clear_stall_max(&mut self) {
        self.stall.max_ticks = 0;
    }

    /// What the limit counts.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// Everything above and the counters, at once.
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
            stall_thrs: self.stall_thrs(),
            stall_cnt: self.stall_cnt(),
            stall_max: self.stall_max(),
            completions: self.counts.completions,
            starved: self.counts.starved,
            shrinks: self.counts.shrinks,
            idle_shrinks: self.counts.idle_shrinks,
            refused: self.counts.refused,
            completion_interval: self.cadence.interval(),
        }
    }
}

/// How often the device reports completions while it has work.
///
/// A sample runs from the previous completion, or from the post that ended an idle time if that is later, so
/// that idle time is not mistaken for coalescing.
#[derive(Clone, Copy, Debug)]
struct Cadence {
    /// When the device last went from idle to busy, or last completed something.
    busy_since: Instant,
    /// The smoothed interval in ns, times eight; zero before the first sample.
    scaled: u64,
}

impl Cadence {
    const fn new(now: Instant) -> Self {
        Self { busy_since: now, scaled: 0 }
    }

    fn restart(&mut self, now: Instant) {
        self.busy_since = now;
    }

    fn completed(&mut self, now: Instant) {
        // Held below 2^60 ns (36 years) so that the scaled value fits, and above zero, which means "no
        // sample".
        let sample = now.saturating_since(self.busy_since).as_nanos().clamp(1, 1 << 60);
        self.busy_since = now;
        self.scaled = match self.scaled {
            0 => sample << INTERVAL_SHIFT,
            scaled => scaled - (scaled >> INTERVAL_SHIFT) + sample,
        };
    }

    const fn interval(&self) -> Option<Nanos> {
        match self.scaled {
            0 => None,
            scaled => Some(Nanos::from_nanos(scaled >> INTERVAL_SHIFT)),
        }
    }
}

/// Finds completions that came too late: a ring of bits, one per tick, set when something was posted in that
/// tick.
#[derive(Clone, Debug)]
struct StallWatch {
    /// The threshold; zero is off.
    thrs_ticks: u32,
    /// Length of a tick, not zero.
    tick_ns: u64,
    /// The tick that was last worked out, and when the next one begins: dividing once per tick is enough.
    tick: u64,
    tick_end_ns: u64,
    /// The tick of the latest completion.
    last_reap: u64,
    /// The newest word of the history, counted in words since tick zero.
    head: u64,
    history: [u64; HISTORY_WORDS],
    count: u64,
    max_ticks: u64,
}

impl StallWatch {
    fn new(tick: Nanos) -> Result<Self, DqlError> {
        if tick == Nanos::ZERO {
            return Err(DqlError::ZeroTick);
        }
        Ok(Self {
            thrs_ticks: 0,
            tick_ns: tick.as_nanos(),
            tick: 0,
            tick_end_ns: 0,
            last_reap: 0,
            head: 0,
            history: [0; HISTORY_WORDS],
            count: 0,
            max_ticks: 0,
        })
    }

    fn span(&self, ticks: u64) -> Nanos {
        Nanos::from_nanos(ticks.saturating_mul(self.tick_ns))
    }

    fn set_threshold(&mut self, thrs: Nanos, now: Instant) -> Result<(), DqlError> {
        let ticks = thrs.as_nanos().div_ceil(self.tick_ns);
        self.thrs_ticks = match u32::try_from(ticks) {
            Ok(0) => 0,
            Ok(t) if (STALL_TICKS_MIN..=STALL_TICKS_MAX).contains(&ticks) => t,
            _ => return Err(DqlError::StallRange { ticks }),
        };
        self.last_reap = self.tick_of(now);
        Ok(())
    }

    /// The tick that `now` lies in. Time does not run backwards here: an earlier `now` counts as the latest
    /// tick.
    #[inline]
    fn tick_of(&mut self, now: Instant) -> u64 {
        if now.as_nanos() >= self.tick_end_ns {
            self.tick = now.as_nanos() / self.tick_ns;
            self.tick_end_ns = self.tick.saturating_add(1).saturating_mul(self.tick_ns);
        }
        self.tick
    }

    /// Where in the ring a word of the history is kept. Exact on any pointer width: the ring's length is a
    /// power of two.
    const fn slot(word: u64) -> usize {
        word as usize % HISTORY_WORDS
    }

    /// The bit of `tick` in its word.
    const fn mask(tick: u64) -> u64 {
        1 << (tick % WORD_TICKS)
    }

    fn posted(&mut self, now: Instant) {
        let tick = self.tick_of(now);
        let word = tick / WORD_TICKS;
        // The words between the old head and the new one held ticks that are about to leave the history.
        for reused in (self.head + 1..=word).rev().take(HISTORY_WORDS) {
            self.history[Self::slot(reused)] = 0;
        }
        self.head = word;
        self.history[Self::slot(word)] |= Self::mask(tick);
    }

    fn completed(&mut self, now: Instant) {
        let now = self.tick_of(now);
        let thrs = u64::from(self.thrs_ticks);
        if now >= self.last_reap.saturating_add(thrs) {
            // From the tick after the latest completion, as far as the history reaches, up to half a
            // threshold ago.
            let newest = self.head * WORD_TICKS + (WORD_TICKS - 1);
            let oldest = newest.saturating_sub(HISTORY_TICKS - 1);
            let from = oldest.max(self.last_reap.saturating_add(1));
            let to = newest.min(now - thrs / 2);
            if let Some(tick) = self.first_posted(from, to) {
                self.count += 1;
                self.max_ticks = self.max_ticks.max(now - tick);
            }
        }
        self.last_reap = now;
    }

    /// The first tick from `from` to `to`, both included and both within the history, in which something was
    /// posted.
    fn first_posted(&self, from: u64, to: u64) -> Option<u64> {
        (from..=to).find(|&tick| self.history[Self::slot(tick / WORD_TICKS)] & Self::mask(tick) != 0)
    }

    fn reset(&mut self, now: Instant) {
        self.last_reap = self.tick_of(now);
        self.head = self.last_reap / WORD_TICKS;
        self.history = [0; HISTORY_WORDS];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const MTU: u32 = 1514;
    /// A full TSO frame: 45 segments of 1448 bytes behind one header of 66 bytes.
    const TSO: u32 = 65_226;

    /// A fresh limit at time zero, in the reference's reset state where no bound is set: threshold 0.
    fn fresh() -> Dql {
        Dql::new(&DqlConfig::default(), Instant::ZERO).unwrap()
    }

    /// The same limit with both totals at `start` instead of zero.
    fn starting_at(start: u32, config: &DqlConfig) -> Dql {
        let mut dql = Dql::new(config, Instant::ZERO).unwrap();
        (dql.queued, dql.completed, dql.prev.queued) = (start, start, start);
        dql.threshold = dql.threshold.wrapping_add(start);
        dql
    }

    /// Posts at time zero, where time does not matter.
    fn post(dql: &mut Dql, n: u32) -> i32 {
        dql.queued(n, Instant::ZERO).unwrap();
        dql.available()
    }

    fn complete(dql: &mut Dql, n: u32) -> u32 {
        dql.completed(n, Instant::ZERO).unwrap();
        dql.limit()
    }

    // Golden vectors V1, V2, V5, V6, V8, V9 and V10 come from an arithmetic run of the reference's rule; V3,
    // V4 and V7 were worked out by hand from the rule for this file.

    #[test]
    fn v1_grows_from_zero_by_what_was_completed() {
        let mut dql = fresh();
        assert_eq!(dql.available(), 0);
        assert_eq!(post(&mut dql, MTU), -1514);
        assert_eq!(complete(&mut dql, MTU), 1514);
        assert_eq!(dql.available(), 1514);
        assert_eq!(post(&mut dql, MTU), 0);
        assert_eq!(post(&mut dql, MTU), -1514);
        assert_eq!(complete(&mut dql, 3028), 4542);
        post(&mut dql, MTU);
        post(&mut dql, MTU);
        assert_eq!(complete(&mut dql, MTU), 4542);
        assert_eq!(dql.prev.over_limit, 0);
    }

    /// A device that carries single objects as large as the limit completes exactly the previous batch. With
    /// a strict comparison there ("more than everything previous is done") the limit would stay at one object
    /// for ever.
    #[test]
    fn v2_single_large_objects_do_not_starve() {
        let mut dql = fresh();
        let mut strict = Model { completed_means_more: true, ..Model::new(&DqlConfig::default()) };
        let mut limits = Vec::new();
        for (posts, over_limit) in [(1, 0), (1, 0), (2, 65_226), (1, 0)] {
            for _ in 0..posts {
                post(&mut dql, TSO);
                strict.post(TSO);
            }
            limits.push((complete(&mut dql, TSO), strict.complete(TSO, 0)));
            assert_eq!(dql.prev.over_limit, over_limit);
        }
        assert_eq!(limits, [(65_226, 65_226), (65_226, 65_226), (65_226, 65_226), (130_452, 65_226)]);
    }

    #[test]
    fn v3_slack_that_persists_for_the_hold_time_is_given_up() {
        let mut dql = fresh();
        dql.set_limit(30_000).unwrap();
        post(&mut dql, 1000);
        complete(&mut dql, 1000); // the written limit is in force from here
        assert_eq!(dql.available(), 30_000);
        // Each round leaves something in flight and completes less than was there: slack is 30 000 - 2 x
        // 1000.
        for _ in 0..4 {
            post(&mut dql, 1000);
        }
        let at = |ms| Instant::from_millis(ms);
        dql.completed(1000, at(1)).unwrap();
        // Nothing was in flight before this round.
        assert_eq!((dql.limit(), dql.lowest_slack), (30_000, u32::MAX));
        dql.completed(1000, at(2)).unwrap();
        assert_eq!((dql.limit(), dql.lowest_slack), (30_000, 28_000));
        dql.completed(1000, at(1000)).unwrap(); // not strictly later than the hold time
        assert_eq!((dql.limit(), dql.lowest_slack), (30_000, 28_000));
        for _ in 0..3 {
            post(&mut dql, 1000);
        }
        dql.completed(1000, at(1001)).unwrap(); // the last of the round before: that is not a busy interval
        assert_eq!(dql.limit(), 30_000);
        dql.completed(1000, at(1001)).unwrap();
        assert_eq!((dql.limit(), dql.lowest_slack), (2000, u32::MAX));
        assert_eq!((dql.stats().shrinks, dql.stats().idle_shrinks), (1, 0));
    }

    #[test]
    fn v4_over_limit_of_the_previous_round_is_added() {
        let mut dql = fresh();
        dql.set_limit(2000).unwrap();
        post(&mut dql, 100);
        assert_eq!(complete(&mut dql, 100), 2000);
        for _ in 0..3 {
            post(&mut dql, 1000);
        }
        // 3000 in flight against 2000: 1000 over the limit, and the device still busy.
        assert_eq!(complete(&mut dql, 1000), 2000);
        assert_eq!(dql.prev.over_limit, 1000);
        post(&mut dql, 1000);
        // 3000 done, 2000 of them from the round before: 1000 new, plus the 1000 over.
        assert_eq!(complete(&mut dql, 3000), 4000);
    }

    #[test]
    fn v5_totals_wrap() {
        let mut dql = starting_at(4_294_966_000, &DqlConfig::default());
        post(&mut dql, MTU);
        assert_eq!(complete(&mut dql, MTU), 1514);
        assert_eq!(dql.prev.queued, 218);
        assert_eq!((dql.inflight(), dql.available()), (0, 1514));
    }

    #[test]
    fn v6_reset_makes_the_threshold_valid_and_the_reference_does_not() {
        for (strict_linux, min, available) in
            [(true, 0, 195_678), (true, 3000, 195_678), (false, 0, 0), (false, 3000, 3000)]
        {
            let config = DqlConfig { strict_linux, ..DqlConfig::default() };
            let mut dql = Dql::new(&config, Instant::ZERO).unwrap();
            for posts in [1, 1] {
                for _ in 0..posts {
                    post(&mut dql, TSO);
                }
                complete(&mut dql, TSO);
            }
            dql.set_limit_min(min).unwrap();
            dql.reset(Instant::ZERO);
            assert_eq!((dql.limit(), dql.inflight(), dql.available()), (min, 0, available), "{config:?}");
            // From the first completion on, both agree.
            post(&mut dql, MTU);
            assert_eq!(complete(&mut dql, MTU), min.max(1514));
        }
    }

    #[test]
    fn v7_bounds_clamp_and_a_change_forgets_the_overrun() {
        let config = DqlConfig { limit_max: 5000, ..DqlConfig::default() };
        let mut dql = Dql::new(&config, Instant::ZERO).unwrap();
        for _ in 0..4 {
            post(&mut dql, 4000);
        }
        // In flight 16 000 over limit 0, not drained: no growth, and the overrun is remembered.
        assert_eq!(complete(&mut dql, 4000), 0);
        assert_eq!(dql.prev.over_limit, 16_000);
        post(&mut dql, 4000);
        // Everything of the previous round is done: 0 + 0 + 16 000, clamped; the limit changed, so no
        // overrun.
        assert_eq!(complete(&mut dql, 12_000), 5000);
        assert_eq!(dql.prev.over_limit, 0);
        // At the clamp nothing changes any more, and the overrun stays.
        for _ in 0..3 {
            post(&mut dql, 4000);
        }
        assert_eq!(complete(&mut dql, 16_000), 5000);
        assert_eq!(dql.prev.over_limit, 11_000);
    }

    #[test]
    fn v8_min_counts_at_once_and_in_the_reference_after_a_completion() {
        for (strict_linux, available) in [(true, -1514), (false, 1486)] {
            let config = DqlConfig { limit_min: 3000, strict_linux, ..DqlConfig::default() };
            let mut dql = Dql::new(&config, Instant::ZERO).unwrap();
            assert_eq!(dql.limit(), 3000);
            assert_eq!(post(&mut dql, MTU), available);
            assert_eq!(complete(&mut dql, MTU), 3000);
            assert_eq!(dql.available(), 3000);
        }
    }

    /// A limit with a stall threshold of 8 ticks of 1 ms, at tick 0.
    fn watching() -> Dql {
        let config = DqlConfig { stall_thrs: Nanos::from_millis(8), ..DqlConfig::default() };
        Dql::new(&config, Instant::ZERO).unwrap()
    }

    #[test]
    fn v9_a_late_completion_is_a_stall() {
        let mut dql = watching();
        dql.queued(100, Instant::from_millis(1)).unwrap();
        dql.completed(100, Instant::from_millis(14)).unwrap();
        assert_eq!((dql.stall_cnt(), dql.stall_max()), (1, Nanos::from_millis(13)));
        dql.clear_stall_max();
        assert_eq!((dql.stall_cnt(), dql.stall_max()), (1, Nanos::ZERO));
    }

    #[test]
    fn v10_the_tick_of_the_latest_completion_is_not_searched() {
        let mut dql = watching();
        let at = Instant::from_millis;
        dql.queued(100, at(3)).unwrap();
        dql.completed(100, at(4)).unwrap();
        dql.queued(100, at(4)).unwrap();
        dql.completed(100, at(13)).unwrap();
        assert_eq!(dql.stall_cnt(), 0);
        // One tick later it would have been.
        dql.queued(100, at(14)).unwrap();
        dql.completed(100, at(23)).unwrap();
        assert_eq!((dql.stall_cnt(), dql.stall_max()), (1, Nanos::from_millis(9)));
    }

    #[test]
    fn stall_threshold_range_and_off() {
        let mut dql = fresh();
        let ms = Nanos::from_millis;
        for (thrs, result) in [
            (Nanos(1), Err(DqlError::StallRange { ticks: 1 })),
            (ms(3), Err(DqlError::StallRange { ticks: 3 })),
            (ms(4), Ok(())),
            (ms(128), Ok(())),
            (Nanos(128_000_001), Err(DqlError::StallRange { ticks: 129 })),
            (Nanos(u64::MAX), Err(DqlError::StallRange { ticks: 18_446_744_073_710 })),
        ] {
            assert_eq!(dql.set_stall_thrs(thrs, Instant::ZERO), result);
        }
        assert_eq!(dql.stall_thrs(), ms(128)); // refused writes change nothing
        dql.set_stall_thrs(Nanos::ZERO, Instant::ZERO).unwrap();
        dql.queued(100, Instant::from_millis(1)).unwrap();
        dql.completed(100, Instant::from_secs(1)).unwrap();
        assert_eq!((dql.stall_cnt(), dql.stall_thrs()), (0, Nanos::ZERO));
        // Turning detection on counts as a completion at that moment: what was posted before is not its
        // business.
        dql.queued(100, Instant::from_millis(1001)).unwrap();
        dql.set_stall_thrs(ms(4), Instant::from_millis(1002)).unwrap();
        dql.completed(100, Instant::from_millis(1100)).unwrap();
        assert_eq!(dql.stall_cnt(), 0);
        let config = DqlConfig { stall_tick: Nanos::ZERO, ..DqlConfig::default() };
        assert_eq!(Dql::new(&config, Instant::ZERO).err(), Some(DqlError::ZeroTick));
    }

    #[test]
    fn stall_clock_survives_the_end_of_time() {
        let config = DqlConfig { stall_tick: Nanos(1), stall_thrs: Nanos(4), ..DqlConfig::default() };
        let mut dql = Dql::new(&config, Instant::ZERO).unwrap();
        for now in [Instant(0), Instant(u64::MAX - 1), Instant::MAX, Instant::MAX, Instant(7)] {
            dql.queued(100, now).unwrap();
            dql.completed(100, now).unwrap();
            dql.reset(now);
        }
        assert_eq!(dql.stall_cnt(), 0);
    }

    #[test]
    fn refusals_change_nothing() {
        let mut dql = fresh();
        post(&mut dql, OBJECT_MAX);
        assert_eq!(OBJECT_MAX, 268_435_455);
        assert_eq!(LIMIT_MAX, 1_879_048_192);
        let before = dql.stats();
        assert_eq!(
            dql.queued(268_435_456, Instant::ZERO),
            Err(DqlError::ObjectTooLarge { given: 268_435_456 })
        );
        assert_eq!(dql.stats(), DqlStats { refused: 1, ..before });
        assert_eq!(
            dql.completed(268_435_456, Instant::ZERO),
            Err(DqlError::Overcompleted { completed: 268_435_456, inflight: 268_435_455 })
        );
        assert_eq!(dql.completed(0, Instant::from_secs(9)), Ok(()));
        assert_eq!(dql.stats(), DqlStats { refused: 1, ..before });
    }

    #[test]
    fn bounds_are_validated_and_act_at_the_next_completion() {
        let mut dql = fresh();
        dql.set_bounds(1000, 8000).unwrap();
        assert_eq!(dql.set_limit_min(8001), Err(DqlError::MinAboveMax { limit_min: 8001, limit_max: 8000 }));
        assert_eq!(dql.set_limit_max(999), Err(DqlError::MinAboveMax { limit_min: 1000, limit_max: 999 }));
        assert_eq!(dql.set_limit_max(u32::MAX), Err(DqlError::LimitTooLarge { given: u32::MAX }));
        assert_eq!(dql.set_limit(LIMIT_MAX + 1), Err(DqlError::LimitTooLarge { given: LIMIT_MAX + 1 }));
        dql.set_limit(9000).unwrap();
        assert_eq!((dql.limit(), dql.available()), (9000, 0));
        post(&mut dql, 100);
        assert_eq!(complete(&mut dql, 100), 8000);
        assert_eq!(dql.available(), 8000);
        let config = DqlConfig { limit_min: 2, limit_max: 1, ..DqlConfig::default() };
        assert!(Dql::new(&config, Instant::ZERO).is_err());
    }

    #[test]
    fn an_idle_time_may_let_one_interval_shrink_the_limit() {
        let mut dql = fresh();
        dql.set_limit(30_000).unwrap();
        post(&mut dql, 1000);
        complete(&mut dql, 1000);
        let mut busy = |from_ms| {
            for step in 0..3 {
                dql.queued(1000, Instant::from_millis(from_ms)).unwrap();
                dql.queued(1000, Instant::from_millis(from_ms)).unwrap();
                dql.completed(1000, Instant::from_millis(from_ms + step)).unwrap();
            }
            dql.completed(dql.inflight(), Instant::from_millis(from_ms + 3)).unwrap();
            let s = dql.stats();
            (s.limit, s.shrinks, s.idle_shrinks)
        };
        assert_eq!(busy(1), (30_000, 0, 0));
        assert_eq!(busy(10_000), (2000, 1, 1));
    }

    #[test]
    fn completion_interval_ignores_idle_time() {
        let mut dql = fresh();
        assert_eq!(dql.stats().completion_interval, None);
        let mut now = Instant::ZERO;
        for _ in 0..64 {
            dql.queued(MTU, now).unwrap();
            now += Nanos::from_micros(250);
            dql.completed(MTU, now).unwrap();
            now += Nanos::from_secs(10);
        }
        assert_eq!(dql.stats().completion_interval, Some(Nanos::from_micros(250)));
        // A busy queue: from one completion to the next, whenever the posts came.
        dql.queued(MTU, now).unwrap();
        for _ in 0..200 {
            dql.queued(MTU, now + Nanos::from_micros(400)).unwrap();
            now += Nanos::from_micros(1000);
            dql.completed(MTU, now).unwrap();
        }
        let got = dql.stats().completion_interval.unwrap();
        assert!((999_000..=1_000_000).contains(&got.as_nanos()), "{got}");
    }

    #[test]
    fn cap_is_rate_times_delay() {
        for (rate, target, cap) in [
            (125_000_000, Nanos::from_micros(200), 25_000),
            (125_000_000, Nanos(7), 0),
            (125_000_000, Nanos(8), 1),
            (12_500_000_000, Nanos::from_millis(1), 12_500_000),
            (u64::MAX, Nanos(u64::MAX), LIMIT_MAX),
            (0, Nanos(u64::MAX), 0),
        ] {
            assert_eq!(Dql::cap_for(rate, target), cap);
        }
    }

    #[test]
    fn units() {
        assert_eq!(Unit::Bytes.cost(1514, 1), 1514);
        assert_eq!(Unit::Packets.cost(65_226, 1), 1);
    }

    // --- the steady state ---

    /// A saturating sender over a device that drains `rate` bytes per second and completes whole objects
    /// every `period`, `delay` after the interrupt; the next interrupt comes a period after that.
    struct Line {
        dql: Dql,
        rate: u128,
        object: u32,
        /// Finish times of what is in flight, and of the last post, in ns x rate.
        finish: VecDeque<u128>,
        free_at: u128,
        idle: u128,
        now: u64,
        limits: (u32, u32),
        inflight_max: u32,
    }

    impl Line {
        fn new(rate: u64, object: u32) -> Self {
            Self {
                dql: fresh(),
                rate: rate.into(),
                object,
                finish: VecDeque::new(),
                free_at: 0,
                idle: 0,
                now: 0,
                limits: (0, 0),
                inflight_max: 0,
            }
        }

        /// Fills up, waits one completion round, completes; `rounds` times. Keeps the extremes of the last
        /// half.
        fn run(&mut self, rounds: u32, period: Nanos, delay: Nanos) {
            for round in 0..rounds {
                while self.dql.available() >= 0 {
                    self.dql.queued(self.object, Instant(self.now)).unwrap();
                    let now = u128::from(self.now) * self.rate;
                    self.idle += now.saturating_sub(self.free_at);
                    self.free_at = self.free_at.max(now) + u128::from(self.object) * 1_000_000_000;
                    self.finish.push_back(self.free_at);
                }
                if round == rounds / 2 {
                    (self.limits, self.inflight_max, self.idle) = ((u32::MAX, 0), 0, 0);
                }
                self.inflight_max = self.inflight_max.max(self.dql.inflight());
                self.now += period.as_nanos() + delay.as_nanos();
                let done = self.finish.partition_point(|&f| f <= u128::from(self.now) * self.rate);
                self.finish.drain(..done);
                let n = self.object * u32::try_from(done).unwrap();
                self.dql.completed(n, Instant(self.now)).unwrap();
                let limit = self.dql.limit();
                self.limits = (self.limits.0.min(limit), self.limits.1.max(limit));
            }
        }
    }

    const GBIT: u64 = 125_000_000;

    #[test]
    fn steady_state_is_twice_rate_times_interval() {
        let us = Nanos::from_micros;
        // Rate, interval, reaction delay, object; lowest and highest limit expected.
        for (rate, period, delay, object, low, high) in [
            (GBIT, us(20), us(0), MTU, 4542, 6056),
            (GBIT, us(50), us(0), MTU, 13_626, 13_626),
            (GBIT, us(100), us(0), MTU, 25_738, 25_738),
            (GBIT, us(250), us(0), MTU, 62_074, 63_588),
            (GBIT, us(1000), us(0), MTU, 249_810, 251_324),
            (GBIT, us(20), us(0), TSO, 65_226, 130_452),
            (GBIT, us(50), us(0), TSO, 65_226, 130_452),
            (GBIT, us(100), us(0), TSO, 65_226, 130_452),
            (GBIT, us(250), us(0), TSO, 65_226, 130_452),
            (10 * GBIT, us(100), us(0), MTU, 249_810, 251_324),
            // A reaction delay stretches the round.
            (GBIT, us(80), us(20), MTU, 25_738, 25_738),
            (GBIT, us(200), us(50), MTU, 62_074, 63_588),
            (GBIT, us(500), us(500), MTU, 249_810, 251_324),
        ] {
            let mut line = Line::new(rate, object);
            // Eight simulated seconds: several hold times.
            let rounds = 8_000_000_000 / (period.as_nanos() + delay.as_nanos());
            line.run(rounds.try_into().unwrap(), period, delay);
            let case = (rate, period, delay, object, line.limits);
            assert!(line.limits.0 + object >= low && line.limits.0 <= low + object, "{case:?}");
            assert!(line.limits.1 + object >= high && line.limits.1 <= high + object, "{case:?}");
            if object == MTU {
                let law = u32::try_from(2 * rate * (period + delay).as_nanos() / 1_000_000_000).unwrap();
                assert!(line.limits.0 + object >= law && line.limits.1 <= law + object, "{case:?}");
            }
            assert_eq!(line.idle, 0, "the device idled: {case:?}");
            assert!(line.inflight_max <= line.limits.1 + object, "{case:?}");
        }
    }

    #[test]
    fn a_rate_step_reconverges_up_at_once_and_down_within_hold_times() {
        let us250 = Nanos::from_micros(250);
        let mut line = Line::new(GBIT, MTU);
        line.run(16_000, us250, Nanos::ZERO);
        assert!((62_074..=63_588).contains(&line.limits.0), "{:?}", line.limits);
        // 100 Mbit/s, 4 s: 6250 bytes by the law.
        let slow = u128::from(GBIT / 10);
        let rescale = |line: &mut Line, rate: u128| {
            let old = line.rate;
            for f in line.finish.iter_mut().chain([&mut line.free_at]) {
                let now = u128::from(line.now);
                *f = now * rate + f.saturating_sub(now * old); // bytes still to be sent, at the new rate
            }
            line.rate = rate;
        };
        rescale(&mut line, slow);
        line.run(16_000, us250, Nanos::ZERO);
        assert!(line.limits.1 <= 6250 + MTU && line.limits.0 + MTU >= 6250, "{:?}", line.limits);
        // 10 Gbit/s: 625 000 bytes by the law, reached within 20 rounds, that is 5 ms.
        rescale(&mut line, u128::from(GBIT * 10));
        line.run(20, us250, Nanos::ZERO);
        assert!(line.dql.limit() + MTU >= 625_000, "{}", line.dql.limit());
    }

    // --- against an independent model ---

    /// The same rule told differently: positions on a line of `i64` that never wraps, the slack samples of
    /// the hold time as a list, and sets instead of differences.
    #[derive(Clone, Debug)]
    struct Model {
        posted: i64,
        done: i64,
        /// May post up to and including this position.
        fence: i64,
        limit: i64,
        bounds: (i64, i64),
        hold: u64,
        last: i64,
        before: (i64, i64, i64), // posted, beyond the limit, last: at the previous round
        slack: Vec<i64>,
        since: u64,
        /// The 2011 comparison: the previous round counts as done only when more than all of it is done.
        completed_means_more: bool,
    }

    impl Model {
        fn new(config: &DqlConfig) -> Self {
            let min = i64::from(config.limit_min);
            Self {
                posted: 0,
                done: 0,
                fence: if config.strict_linux { 0 } else { min },
                limit: min,
                bounds: (min, config.limit_max.into()),
                hold: config.hold_time.as_nanos(),
                last: 0,
                before: (0, 0, 0),
                slack: Vec::new(),
                since: 0,
                completed_means_more: false,
            }
        }

        fn post(&mut self, n: u32) {
            self.last = n.into();
            self.posted += self.last;
        }

        fn complete(&mut self, n: u32, now: u64) -> u32 {
            let (n, (posted_before, beyond_before, last_before)) = (i64::from(n), self.before);
            let mut beyond = (self.posted - (self.done + self.limit)).max(0);
            let reached = self.done + n;
            let drained = reached == self.posted;
            let caught_up =
                if self.completed_means_more { reached > posted_before } else { reached >= posted_before };
            let mut limit = self.limit;
            if drained && beyond > 0 || caught_up && beyond_before > 0 {
                limit += (reached - posted_before).max(0) + beyond_before;
                self.slack.clear();
                self.since = now;
            } else if !(drained || caught_up) && posted_before > self.done {
                let spare = limit + beyond_before - 2 * n;
                let tail = if beyond_before > 0 { last_before - beyond_before } else { 0 };
                self.slack.push([0, spare, tail].into_iter().max().unwrap());
                if now > self.since + self.hold {
                    limit = (limit - self.slack.iter().min().unwrap()).max(0);
                    self.slack.clear();
                    self.since = now;
                }
            }
            limit = limit.min(self.bounds.1).max(self.bounds.0);
            if limit != self.limit {
                beyond = 0;
            }
            self.limit = limit;
            self.done = reached;
            self.fence = reached + limit;
            self.before = (self.posted, beyond, self.last);
            u32::try_from(limit).unwrap()
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Post(u32),
        /// Complete this many 256ths of what is in flight, at least one unit if there is any.
        Complete(u32),
        Wait(u64),
        Bounds(u32, u32),
        Limit(u32),
        Reset,
    }

    fn object() -> impl Strategy<Value = u32> {
        prop_oneof![6 => Just(MTU), 2 => 1..200_000_u32, 2 => Just(TSO), 1 => Just(0), 1 => 0..=OBJECT_MAX]
    }

    fn op() -> impl Strategy<Value = Op> {
        let ns = prop_oneof![Just(250_000), 0..5_000_000_u64, 0..2_000_000_000_u64];
        let limit = || prop_oneof![0..300_000_u32, 0..=LIMIT_MAX];
        prop_oneof![
            40 => object().prop_map(Op::Post),
            20 => (1..=256_u32).prop_map(Op::Complete),
            10 => Just(Op::Complete(256)),
            20 => ns.prop_map(Op::Wait),
            1 => (limit(), limit()).prop_map(|(a, b)| Op::Bounds(a.min(b), a.max(b))),
            1 => limit().prop_map(Op::Limit),
            1 => Just(Op::Reset),
        ]
    }

    fn share(inflight: u32, parts: u32) -> u32 {
        u32::try_from(u64::from(inflight) * u64::from(parts) / 256).unwrap().max(1).min(inflight)
    }

    proptest! {
        /// Any order of operations, from totals anywhere, those about to wrap included: the limit, the
        /// threshold and what is in flight agree with the model at every step; `A = L + C` after each
        /// completion; and a poster that respects `available` stays within the limit plus one object.
        #[test]
        fn agrees_with_the_model_and_keeps_its_bounds(
            start in prop_oneof![Just(0), any::<u32>(), u32::MAX - 400_000..=u32::MAX],
            strict_linux in any::<bool>(),
            respects in any::<bool>(),
            ops in prop::collection::vec(op(), 1..400),
        ) {
            let config = DqlConfig { strict_linux, ..DqlConfig::default() };
            let mut dql = starting_at(start, &config);
            let mut model = Model::new(&config);
            let mut now = 0;
            let mut force = config.limit_min; // the limit that the threshold was computed from
            for op in ops {
                match op {
                    Op::Post(n) => {
                        // In flight stays in the range that signed comparison covers, as with any poster
                        // that asks `available`.
                        let room = dql.inflight() <= LIMIT_MAX;
                        if if respects { dql.available() >= 0 } else { room } {
                            dql.queued(n, Instant(now)).unwrap();
                            model.post(n);
                            if respects && !strict_linux {
                                prop_assert!(dql.inflight() <= force + n);
                            }
                        }
                    }
                    Op::Complete(parts) => {
                        let n = share(dql.inflight(), parts);
                        dql.completed(n, Instant(now)).unwrap();
                        if n > 0 {
                            model.complete(n, now);
                            force = dql.limit();
                            let a = force.wrapping_add(dql.completed);
                            prop_assert_eq!(dql.available(), a.wrapping_sub(dql.queued).cast_signed());
                        }
                    }
                    Op::Wait(ns) => now += ns,
                    Op::Bounds(min, max) => {
                        dql.set_bounds(min, max).unwrap();
                        model.bounds = (min.into(), max.into());
                    }
                    Op::Limit(limit) => {
                        dql.set_limit(limit).unwrap();
                        model.limit = limit.into();
                    }
                    Op::Reset => {
                        if strict_linux {
                            continue; // the stale threshold needs no second description
                        }
                        dql.reset(Instant(now));
                        let (bounds, min) = (model.bounds, dql.limit_min());
                        model = Model { bounds, since: now, ..Model::new(&config) };
                        (model.limit, model.fence) = (min.into(), min.into());
                        force = min;
                        prop_assert_eq!(dql.available(), min.cast_signed());
                    }
                }
                prop_assert_eq!(i64::from(dql.limit()), model.limit);
                prop_assert_eq!(i64::from(dql.inflight()), model.posted - model.done);
                prop_assert_eq!(i64::from(dql.available()), model.fence - model.posted);
            }
        }

        /// Stall detection against the definition, over posts kept as a plain list.
        #[test]
        fn stalls_agree_with_the_definition(
            thrs in STALL_TICKS_MIN..=STALL_TICKS_MAX,
            ops in prop::collection::vec(
                (any::<bool>(), prop_oneof![0..4_u64, 0..40_u64, 0..400_u64]),
                1..200,
            ),
        ) {
            let config = DqlConfig { stall_thrs: Nanos::from_millis(thrs), ..DqlConfig::default() };
            let mut dql = Dql::new(&config, Instant::ZERO).unwrap();
            let (mut posts, mut reaped, mut tick) = (Vec::new(), 0, 0);
            let (mut count, mut longest) = (0, 0);
            for (is_post, wait) in ops {
                tick += wait;
                // Anywhere within the tick.
                let now = Instant(tick * 1_000_000 + tick * 7919 % 1_000_000);
                if is_post {
                    dql.queued(1, now).unwrap();
                    posts.push(tick);
                    continue;
                }
                if dql.inflight() == 0 {
                    continue;
                }
                dql.completed(1, now).unwrap();
                let recorded = posts.last().unwrap() / 64 * 64;
                let oldest = recorded.saturating_sub(192);
                let late = |&&t: &&u64| t >= oldest && t > reaped && t + thrs / 2 <= tick;
                let stall = posts.iter().find(late).filter(|_| tick - reaped >= thrs);
                if let Some(t) = stall {
                    count += 1;
                    longest = longest.max(tick - t);
                }
                // No stall longer than the threshold escapes while the history reaches back to its post.
                let first = posts.iter().find(|&&t| t > reaped);
                if let Some(&t) = first && tick - t > thrs && tick - t < 192 {
                    prop_assert!(stall.is_some());
                }
                prop_assert_eq!((dql.stall_cnt(), dql.stall_max()), (count, Nanos::from_millis(longest)));
                reaped = tick;
            }
        }
    }
}
