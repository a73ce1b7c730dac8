//! The PIE control law (RFC 8033), on numbers: a probability, moved at a steady pace by the
//! distance of a queue's delay from its target and by the trend of that delay, and its effect on a
//! packet that arrives.
//!
//! One record of parameters and one of state per queue; no queue, no packet, no clock. The owner
//! reports arrivals and departures, and makes an update each `tupdate` ([`PieState::update`];
//! several at once, after a silence, by [`PieState::catch_up`]). O(1) per packet and update; any
//! number of updates is made up for in at most about 3000 steps.
//!
//! Arithmetic is on integers: a probability is a part of 2^56 - 1, time runs in ticks of 64 ns.

use crate::base::time::{Instant, Nanos};

/// A tick is 64 ns.
const TICK_SHIFT: u32 = 6;

/// Ticks in a second.
const TICKS_PER_S: u64 = 1_000_000_000 >> TICK_SHIFT;

/// A probability of one. The eight bits above it are room for the sum of several (RFC 8033 section
/// 5.4).
pub const ONE: u64 = u64::MAX >> 8;

/// Two percent: the most that one update adds once the probability is 10 % (RFC 8033 section 5.5),
/// and its addition beyond the law while the delay is above `HIGH` (section 5.6).
const TWO_PERCENT: u64 = ONE / 50;

/// Ten percent: from here on the gains are as configured (RFC 8033 section 4.2), and a packet is
/// dropped even if it could be marked (section 5.1).
const TEN_PERCENT: u64 = ONE / 10;

/// A delay that requires more than the law: 250 ms (RFC 8033 section 5.6).
const HIGH: Ticks = Ticks::span(Nanos::from_millis(250));

/// Time for which a burst that begins at an idle queue passes: 150 ms (RFC 8033 section 4.4,
/// MAX_BURST).
const MAX_BURST: Ticks = Ticks::span(Nanos::from_millis(150));

/// A queue of less than this many full frames is never bad (RFC 8033 section 4.1: 2 x
/// MEAN_PKTSIZE).
const FRAMES_MIN: u64 = 2;

/// Bounds of the sum of probabilities: below 85 % of a drop no packet is dropped, from 8.5 drops on
/// one is (RFC 8033 section 5.4).
const SUM_LOW: u64 = ONE / 100 * 85;
const SUM_HIGH: u64 = ONE / 2 * 17;

/// Number of steps by which the gains shrink with the probability: below 10 % to a half, below 1 %
/// and each decade down to 0.0001 % to a further quarter (RFC 8033 section 4.2 has the same steps,
/// rounded to 1/2, 1/8, 1/32, ... 1/2048).
const DECADES: u32 = 6;

/// A time after every other: no span has passed since. The first packet that leaves after a calm
/// begins the time for which a burst passes, however long ago the packet before it left.
const NEVER: Ticks = Ticks(u64::MAX);

/// Number of departed bytes that make one measurement of the rate (RFC 8033 section 5.3,
/// DQ_THRESHOLD: 2^14).
const MEASURE_BYTES: u64 = 1 << 14;

/// Binary places of a measured rate.
const RATE_SHIFT: u32 = 8;

/// The decay takes a 64th off at each update (RFC 8033 section 4.2: 2 %; here 1/64, as in Linux).
const DECAY_SHIFT: u32 = 6;

/// A point in time, or a span of it, in the law's ticks of 64 ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Returns the tick that contains a point in time.
    #[inline]
    #[must_use]
    pub const fn at(time: Instant) -> Self {
        Self(time.0 >> TICK_SHIFT)
    }
    /// Returns the whole ticks in a span.
    #[inline]
    #[must_use]
    pub const fn span(span: Nanos) -> Self {
        Self(span.0 >> TICK_SHIFT)
    }
    /// Returns the span from `earlier` to this point; zero if it is not earlier.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
    /// Returns this span in nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> Nanos {
        Nanos(self.0.saturating_mul(1 << TICK_SHIFT))
    }
}

/// The parameters of the law: one record per qdisc, shared by all its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieParams {
    /// The delay to hold, 15 ms (RFC 8033 section 4.2, QDELAY_REF).
    pub target: Ticks,
    /// Gain of the distance from the target, in 16ths of a drop per second of delay.
    pub alpha: u32,
    /// Gain of the change since the last update, in 16ths of a drop per second of delay.
    pub beta: u32,
    /// True if a packet shorter than a full frame is dropped with a smaller probability, by its
    /// length.
    pub bytemode: bool,
    /// True if the delay is the backlog over a measured rate (RFC 8033 section 5.3), and not the
    /// time that packets waited.
    pub estimates_rate: bool,
    /// A full frame, bytes.
    pub mtu: u32,
    /// Follows Linux where it deviates from RFC 8033. For differential tests only:
    /// - the probability is not bounded by one, so that the excess from a long overload must be
    ///   worked off again;
    /// - a mark made because none was made for long does not reset the sum, so that every packet
    ///   after it is marked, until one is dropped or the queue is calm;
    /// - the step of the probability keeps its lowest 64 bits, so that it may have the wrong sign
    ///   where packets wait for minutes.
    pub strict_linux: bool,
}

/// State of the law for one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieState {
    /// Probability, as a part of `ONE`.
    prob: u64,
    /// Sum of the probabilities since the last drop.
    sum: u64,
    /// Rest of the time for which a burst passes.
    burst: Ticks,
    delay: Ticks,
    /// `delay` at the last update.
    delay_old: Ticks,
    /// Time at which a packet last left since the queue was calm (`NEVER` if none did); during a
    /// measurement, the time at which it began.
    left: Ticks,
    /// Bytes that have left in the present measurement; `None` outside a measurement.
    measured: Option<u64>,
    /// Bytes per tick, with `RATE_SHIFT` binary places; 0 before the first measurement.
    rate: u64,
}

impl Default for PieState {
    /// Returns the state of a queue that was never long.
    fn default() -> Self {
        Self {
            prob: 0,
            sum: 0,
            burst: MAX_BURST,
            delay: Ticks(0),
            delay_old: Ticks(0),
            left: NEVER,
            measured: None,
            rate: 0,
        }
    }
}

impl PieState {
    /// True if a packet of `len` bytes that arrives at a backlog of `backlog` bytes is to be
    /// dropped, or marked instead. `coin` returns 64 random bits, and is called only if the sum of
    /// probabilities leaves the decision open (RFC 8033 sections 4.1, 5.4).
    #[inline]
    pub fn drops(&mut self, p: &PieParams, len: u32, backlog: u64, coin: impl FnOnce() -> u64) -> bool {
        let calm = self.delay.0 < p.target.0 / 2 && self.prob < ONE / 5;
        if self.burst.0 > 0 || calm || backlog < FRAMES_MIN * u64::from(p.mtu) {
            return false;
        }
        let prob = match p.bytemode && len <= p.mtu {
            true => u64::from(len) * (self.prob / u64::from(p.mtu.max(1))),
            false => self.prob,
        };
        self.sum = if prob == 0 { 0 } else { self.sum.wrapping_add(prob) };
        if self.sum < SUM_LOW {
            return false;
        }
        if self.sum >= SUM_HIGH {
            if !p.strict_linux {
                self.sum = 0;
            }
            return true;
        }
        let unlucky = coin() >> 8 < prob;
        if unlucky {
            self.sum = 0;
        }
        unlucky
    }

    /// Resets the sum, because a packet was dropped on arrival, for whatever reason (RFC 8033
    /// section 5.4).
    #[inline]
    pub const fn dropped(&mut self) {
        self.sum = 0;
    }

    /// True if a packet that can be marked is still marked; otherwise it is dropped as any other
    /// (RFC 8033 section 5.1: up to 10 %).
    #[inline]
    #[must_use]
    pub const fn marks(&self) -> bool {
        self.prob <= TEN_PERCENT
    }

    /// True if a packet that can be marked is still marked, where that holds up to a probability of
    /// `percent`.
    #[inline]
    #[must_use]
    pub(crate) const fn marks_up_to(&self, percent: u32) -> bool {
        self.prob <= (ONE / 100).saturating_mul(percent as u64)
    }

    /// Records that a packet of `len` bytes leaves at `now`, after a wait of `sojourn`, and leaves
    /// `backlog` bytes behind.
    #[inline]
    pub fn departed(&mut self, p: &PieParams, len: u32, sojourn: Ticks, now: Ticks, backlog: u64) {
        let spent = match p.estimates_rate {
            true => self.measure(len, now, backlog),
            false => {
                self.delay = if backlog == 0 { Ticks(0) } else { sojourn };
                Some(now.since(core::mem::replace(&mut self.left, now)))
            }
        };
        if let Some(spent) = spent {
            self.burst = self.burst.since(spent);
        }
    }

    /// Makes one step of the measurement of the departure rate, which runs while enough bytes wait
    /// (RFC 8033 section 5.3). Returns the time that the measurement took, if this step ends it.
    fn measure(&mut self, len: u32, now: Ticks, backlog: u64) -> Option<Ticks> {
        if backlog >= MEASURE_BYTES && self.measured.is_none() {
            (self.left, self.measured) = (now, Some(0));
        }
        let bytes = self.measured? + u64::from(len);
        self.measured = Some(bytes);
        let took = now.since(self.left);
        if bytes < MEASURE_BYTES || took.0 == 0 {
            return None;
        }
        let rate = (bytes << RATE_SHIFT) / took.0;
        self.rate = if self.rate == 0 { rate } else { self.rate - (self.rate >> 3) + (rate >> 3) };
        self.measured = (backlog >= MEASURE_BYTES).then_some(0);
        self.left = now;
        Some(took)
    }

    /// Makes one update of the probability, with `backlog` bytes waiting. The owner calls it each
    /// `tupdate` (RFC 8033 section 4.2).
    pub fn update(&mut self, p: &PieParams, backlog: u64) {
        let old = if p.estimates_rate { self.delay } else { self.delay_old };
        if p.estimates_rate {
            self.delay = Ticks((backlog << RATE_SHIFT).checked_div(self.rate).unwrap_or(0));
        }
        self.move_prob(p, self.step(p, self.delay, old));
        // A delay of zero with a backlog means that a packet has just begun to wait: the queue is
        // not calm.
        if self.delay.0 == 0 && old.0 == 0 && backlog == 0 {
            self.prob -= self.prob >> DECAY_SHIFT;
        }
        let calm = self.delay.0.max(old.0) < p.target.0 / 2 && self.prob == 0;
        if calm && (!p.estimates_rate || self.rate > 0) {
            (self.burst, self.left) = (MAX_BURST, NEVER);
            (self.sum, self.measured, self.rate) = (0, None, 0);
        }
        if !p.estimates_rate {
            self.delay_old = self.delay;
        }
    }

    /// Makes `updates` updates in a row, without arrivals or departures between them. The result is
    /// that of as many calls of [`update`](Self::update), in a bounded number of steps: a steady
    /// delay moves the probability in a straight line within each decade, so that a line takes one
    /// step and ends at zero, at one, or in the next decade; an idle queue decays to zero within
    /// 3000 updates, and then nothing changes any more. If a delay above 250 ms is below the
    /// target, the probability can swing between two decades for ever; it is left somewhere on its
    /// way after `ROUNDS_MAX` steps.
    pub fn catch_up(&mut self, p: &PieParams, backlog: u64, updates: u64) {
        let mut left = updates;
        for _ in 0..ROUNDS_MAX {
            if left == 0 {
                return;
            }
            let before = *self;
            self.update(p, backlog);
            left -= 1;
            if *self == before {
                return;
            }
            left -= self.glide(p, backlog, left);
        }
    }

    /// Makes those of `most` updates that move the probability by the same step without leaving its
    /// decade. Returns their number.
    fn glide(&mut self, p: &PieParams, backlog: u64, most: u64) -> u64 {
        let steady = match p.estimates_rate {
            true => self.delay.0 == (backlog << RATE_SHIFT).checked_div(self.rate).unwrap_or(0),
            false => self.delay == self.delay_old,
        };
        let decays = self.delay.0 == 0 && backlog == 0;
        let calm = self.delay.0 < p.target.0 / 2 && self.prob == 0;
        if !steady || decays || calm {
            return 0;
        }
        let step = self.step(p, self.delay, self.delay);
        let (low, high) = decade_bounds(decade(self.prob));
        let room = if step > 0 { high.saturating_sub(self.prob) } else { self.prob.saturating_sub(low) };
        let room = room.saturating_sub(1).min(i64::MAX.cast_unsigned());
        let n = room.checked_div(step.unsigned_abs()).unwrap_or(0).min(most);
        self.move_prob(p, step.saturating_mul(n.cast_signed()));
        n
    }

    /// Returns the change of the probability by one update.
    fn step(&self, p: &PieParams, delay: Ticks, old: Ticks) -> i64 {
        // The gains are for a distance of one tick. Below 10 % they are those of RFC 8033's table,
        // so that a small probability moves in small steps.
        let shift = match decade(self.prob) {
            0 => 0,
            n => 2 * n - 1,
        };
        let gain = |g: u32| i128::from((u64::from(g) * (ONE / TICKS_PER_S)) >> 4 >> shift);
        let between = |a: Ticks, b: Ticks| i128::from(a.0) - i128::from(b.0);
        let mut step = gain(p.alpha) * between(delay, p.target) + gain(p.beta) * between(delay, old);
        if p.strict_linux {
            // Its lowest 64 bits, with their sign.
            step = i128::from(step as i64);
        }
        if self.prob >= TEN_PERCENT {
            step = step.min(i128::from(TWO_PERCENT));
        }
        if delay > HIGH {
            step += i128::from(TWO_PERCENT);
        }
        // The bounds are more than any probability can move.
        step.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    fn move_prob(&mut self, p: &PieParams, step: i64) {
        self.prob = match (p.strict_linux, self.prob.checked_add_signed(step)) {
            (_, None) if step < 0 => 0,
            (_, None) => ONE,
            (true, Some(prob)) => prob,
            (false, Some(prob)) => prob.min(ONE),
        };
    }

    /// Returns the probability of a drop, as a part of [`ONE`].
    #[must_use]
    pub const fn prob(&self) -> u64 {
        self.prob
    }
    /// Returns the delay at the last update or departure.
    #[must_use]
    pub const fn delay(&self) -> Ticks {
        self.delay
    }
    /// Returns the measured departure rate, bytes per second; 0 before the first measurement.
    #[must_use]
    pub const fn rate(&self) -> u64 {
        self.rate.saturating_mul(TICKS_PER_S) >> RATE_SHIFT
    }
}

/// Largest number of steps of `catch_up`: more than a decay and all decades take.
const ROUNDS_MAX: u32 = 8192;

/// Returns the decade below 10 % that contains a probability: 0 above 10 %, at most `DECADES`.
fn decade(prob: u64) -> u32 {
    (0..DECADES).find(|n| prob >= decade_bounds(*n).0).unwrap_or(DECADES)
}

/// Returns the least probability of a decade, and the least of the next higher one.
const fn decade_bounds(decade: u32) -> (u64, u64) {
    const fn least(n: u32) -> u64 {
        if n >= DECADES { 0 } else { ONE / 10u64.pow(n + 1) }
    }
    (least(decade), if decade == 0 { u64::MAX } else { least(decade - 1) })
}

#[cfg(test)]
mod tests;
