//! The RED control law, on numbers: an average of the queue and its effect on a packet that arrives
//! (Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993; here: the
//! paper), with the adaptive probability of Floyd, Gummadi and Shenker, "Adaptive RED", 2001 (here:
//! Adaptive RED).
//!
//! The average moves by `2^-wlog` of its distance from the queue with each arrival, and towards
//! zero while nothing is queued. Below `min` no packet is marked, from `max` on every packet is,
//! and between them the gaps between marks are drawn so that they are uniform, as section 7 of the
//! paper prefers: one number is drawn per mark, not per packet. "Queue" is the quantity that the
//! caller counts, bytes or packets, always in the same unit as `min` and `max`.
//!
//! All arithmetic of packets is on integers; logarithms and powers are computed once, from the
//! parameters.

use core::fmt;

use crate::base::rng::Rng;
use crate::base::time::{Instant, Nanos};

/// Entries of the table of shifts that shrink an average after an idle time.
pub(crate) const IDLE_CELLS: usize = 256;

/// The last entry of the table: a shift by this much leaves nothing of an average.
const SHIFT_MAX: u8 = 31;

/// Time between two steps of the adaptive probability (Adaptive RED section 4.1: 0.5 s).
pub(crate) const ADAPT_INTERVAL: Nanos = Nanos::from_millis(500);

/// One percent of 2^32, rounded: the least probability that is still lowered, and the most that one
/// step adds (Adaptive RED section 4.2).
const PERCENT: u32 = 42_949_673;

/// The probability is no longer raised above this (Adaptive RED section 4.1: at most 0.5).
const HALF: u32 = 50 * PERCENT;

/// More steps than can change anything: from the least probability to the highest takes below 60,
/// back below 40.
const STEPS_MAX: u64 = 128;

/// Units of 64 ns in 8 microseconds: idle tables are laid out in them, see `IdleTable::new`.
const GRAINS_PER_8_US: u64 = 125;

/// Reason why parameters were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedError {
    /// `burst` packets of `avpkt` do not even reach `min`; this number would.
    BurstTooSmall(u64),
    /// No weight is small enough for the burst.
    BurstTooLarge,
    /// `min`, shifted by the weight, does not fit 32 bits.
    MinTooLarge,
    /// `max` is below `min`, or does not fit 32 bits when shifted by the weight.
    Max,
    /// A probability of zero.
    NoProbability,
}

impl fmt::Display for RedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BurstTooSmall(enough) => write!(f, "a burst of at least {enough} packets"),
            Self::BurstTooLarge => f.write_str("a burst that some weight down to 2^-31 allows"),
            Self::MinTooLarge => f.write_str("a min that times the weight is below 2^32"),
            Self::Max => f.write_str("a max that is not below min and times the weight is below 2^32"),
            Self::NoProbability => f.write_str("a probability above 0"),
        }
    }
}

impl core::error::Error for RedError {}

/// Returns the weight of one arrival, as a negative power of two, for which `burst` packets of
/// `avpkt` bytes that arrive at an empty queue just fail to bring the average to `min` bytes (the
/// paper, section 6, equation 3): from 1 to 31.
///
/// The inequality is that of numbers with 53 bits, in which tc has it: where `burst` is the least
/// that tc accepts, a power below 2^-54 vanishes beside one, and the weight is larger by a factor
/// of two than that of exact numbers.
///
/// # Errors
/// [`RedError::BurstTooSmall`], [`RedError::BurstTooLarge`].
pub fn weight_for_burst(min: u32, burst: u32, avpkt: u32) -> Result<u8, RedError> {
    let avpkt = avpkt.max(1);
    // The packets by which the burst exceeds min.
    let over = f64::from(burst) + 1.0 - f64::from(min) / f64::from(avpkt);
    if over < 1.0 {
        return Err(RedError::BurstTooSmall(1 + u64::from(min / avpkt)));
    }
    let fits = |wlog: &u8| over <= (1.0 - power_of_rest(*wlog, burst)) * f64::from(1u32 << wlog);
    (1..=31).find(fits).ok_or(RedError::BurstTooLarge)
}

/// A number above 0, at most 1: `mantissa * 2^-(63 + below)`, with the highest bit of the mantissa
/// set. It has 11 bits more than a double, so that a power of it rounds to the right double.
#[derive(Clone, Copy)]
struct Fraction {
    mantissa: u64,
    below: u64,
}

impl Fraction {
    const fn times(self, other: Self) -> Self {
        let whole = self.mantissa as u128 * other.mantissa as u128;
        let below = self.below.saturating_add(other.below);
        // A product of two numbers of 64 bits has 127 or 128; the upper 64 of them are kept.
        match whole >> 127 {
            0 => Self { mantissa: (whole >> 63) as u64, below },
            _ => Self { mantissa: (whole >> 64) as u64, below: below.saturating_sub(1) },
        }
    }

    /// Returns the nearest double; zero for a number that is none beside one.
    fn double(self) -> f64 {
        // The exponent of a double of value one is 1023, and its mantissa has 52 bits.
        match self.below {
            below @ 0..=900 => self.mantissa as f64 * f64::from_bits((1023 - 63 - below) << 52),
            _ => 0.0,
        }
    }
}

/// Returns `(1 - 2^-wlog) ^ n`; `wlog` is from 1 to 63.
fn power_of_rest(wlog: u8, mut n: u32) -> f64 {
    let mut square = Fraction { mantissa: u64::MAX << (64 - wlog), below: 1 };
    let mut power = Fraction { mantissa: 1 << 63, below: 0 };
    // Bound: 32 turns, one for each bit.
    while n > 0 {
        if n & 1 == 1 {
            power = power.times(square);
        }
        square = square.times(square);
        n >>= 1;
    }
    power.double()
}

/// Returns the probability that the reference has for a configured one, which its 32 bits do not
/// hold: the largest power of two below `1 / delta`, times `delta`, in units of 2^-32. That is
/// about one half or more.
pub(crate) fn probability_of_one(delta: u32) -> u32 {
    let plog = u32::BITS - delta.leading_zeros();
    u32::MAX.checked_shr(plog).unwrap_or(0).saturating_mul(delta.max(1)).max(1)
}

/// Number of halvings by which an average shrinks over an idle time: as if packets of the average
/// size had arrived at an empty queue at the link's rate throughout that time (the paper, section
/// 11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleTable {
    /// Binary logarithm of the length of a cell in microseconds.
    cell_log: u8,
    shifts: [u8; IDLE_CELLS],
}

impl IdleTable {
    /// Computes the table for a weight of `2^-wlog` and packets that take `packet_time` each.
    ///
    /// As in the reference the table is laid out in units of 64 ns and read in microseconds, so
    /// that an average is remembered about sixteen times as long as the paper says; and the
    /// shrinkage per packet is computed with the natural logarithm, although a shift halves.
    pub fn new(wlog: u8, packet_time: Nanos) -> Self {
        // Whole microseconds, then whole units of 64 ns, as the reference rounds; its 32 bits hold
        // at most 274 s.
        let grains = u128::from((packet_time.as_micros() * GRAINS_PER_8_US / 8).min(u32::MAX.into()));
        let shrink = shrink_per_packet(wlog);
        let mut shifts = [0; IDLE_CELLS];
        // The largest distinct time is the one that leaves nothing; it must lie in the first 512
        // cells.
        let wide = |log: &u8| (u128::from(SHIFT_MAX) * grains) << 62 < (512 * shrink) << log;
        let cell_log = (0..31).find(wide).unwrap_or(31);
        for (cell, shift) in shifts.iter_mut().enumerate().skip(1) {
            let halvings = ((cell as u128 * shrink) << cell_log).checked_div(grains << 62);
            *shift = halvings.and_then(|h| u8::try_from(h).ok()).map_or(SHIFT_MAX, |h| h.min(SHIFT_MAX));
        }
        // Any time beyond the table forgets the average.
        shifts[IDLE_CELLS - 1] = SHIFT_MAX;
        Self { cell_log, shifts }
    }

    /// Returns the binary logarithm of the length of a cell in microseconds: `Scell_log` in tc.
    pub const fn cell_log(&self) -> u8 {
        self.cell_log
    }

    /// Returns the halvings of an average after an idle time of each number of cells.
    pub const fn shifts(&self) -> &[u8; IDLE_CELLS] {
        &self.shifts
    }

    /// Returns the average after an idle time.
    fn shrink(&self, average: u64, idle: Nanos) -> u64 {
        let longest = (IDLE_CELLS as u64 - 1) << self.cell_log;
        let idle = idle.as_micros().min(longest);
        let shift = self.shifts[(idle >> self.cell_log) as usize & (IDLE_CELLS - 1)];
        if shift > 0 {
            return average >> shift;
        }
        // Less than one halving: a straight line towards half, instead of no change.
        let less = ((u128::from(average) * u128::from(idle)) >> self.cell_log) as u64;
        if less < average >> 1 { average - less } else { average >> 1 }
    }
}

/// Returns `-ln(1 - 2^-wlog)` in units of 2^-62: the series of 2^-(wlog n) / n.
fn shrink_per_packet(wlog: u8) -> u128 {
    let wlog = u32::from(wlog.clamp(1, 62));
    (1..=62 / wlog).map(|n| (1u128 << (62 - wlog * n)) / u128::from(n)).sum()
}

/// Decision of the law about a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum RedAction {
    /// No mark.
    Pass,
    /// A mark, because a number drawn for it demands one: the average is between `min` and `max`.
    Early,
    /// A mark, because the average is at `max` or above.
    Forced,
}

/// The parameters of the law: one record for all averages that share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedParams {
    min: u64,
    max: u64,
    wlog: u8,
    /// Probability of a mark just below `max`, as given, in units of 2^-32.
    probability: u32,
    /// `max - min`, at least 1, not shifted.
    delta: u32,
    /// Targets, not shifted: the adaptive probability is lowered below the first and raised above
    /// the second.
    targets: (u64, u64),
    idle: IdleTable,
}

impl RedParams {
    /// Returns the parameters. `min` and `max` are in the unit of the queue; `wlog` is from
    /// [`weight_for_burst`]; `probability` of a mark just below `max` is in units of 2^-32.
    ///
    /// # Errors
    /// [`RedError`] for the parameter that does not fit.
    pub fn new(min: u32, max: u32, wlog: u8, probability: u32, idle: IdleTable) -> Result<Self, RedError> {
        let shifted =
            |n: u32| (wlog < 32).then(|| u64::from(n) << wlog).filter(|n| *n <= u64::from(u32::MAX));
        let min_shifted = shifted(min).ok_or(RedError::MinTooLarge)?;
        let max_shifted = shifted(max).filter(|_| max >= min).ok_or(RedError::Max)?;
        if probability == 0 {
            return Err(RedError::NoProbability);
        }
        let delta = max - min;
        // Adaptive RED section 4.1: the average should stay between 0.4 and 0.6 of the way from min
        // to max.
        let fifth = u64::from(delta / 5);
        let targets = (u64::from(min) + 2 * fifth, u64::from(min) + 3 * fifth);
        Ok(Self { min: min_shifted, max: max_shifted, wlog, probability, delta: delta.max(1), targets, idle })
    }

    /// Returns the probability of a mark just below `max`, as given, in units of 2^-32.
    pub const fn probability(&self) -> u32 {
        self.probability
    }
    /// Returns `Scell_log` in tc.
    pub const fn cell_log(&self) -> u8 {
        self.idle.cell_log
    }
}

/// An average, and the time since which its queue is empty: what queues that share one average have
/// in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedAverage {
    /// The average times 2^wlog.
    scaled: u64,
    /// Time since which nothing is queued.
    idle_since: Option<Instant>,
}

impl RedAverage {
    /// Records that nothing is queued any more: from `now` on the average shrinks with time.
    pub(crate) const fn start_idle(&mut self, now: Instant) {
        if self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
    }
}

/// State of the law for one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedState {
    /// The average times 2^wlog.
    average: u64,
    /// Packets since the last mark while between `min` and `max`; `None` if the average was last
    /// outside.
    count: Option<u32>,
    /// The number drawn for the next mark.
    drawn: u64,
    /// Time since which nothing is queued.
    idle_since: Option<Instant>,
    /// The probability, in units of 2^-32: adapted, or as given.
    probability: u32,
    /// Divisor of a drawn number in units of 2^-32: the probability over `delta`, at least 1.
    per_unit: u32,
    /// Time at which the probability was last adapted.
    adapted: Instant,
}

impl RedState {
    /// Returns the state of a queue that was never used. `now` starts the clock of the adaptive
    /// probability.
    pub fn new(p: &RedParams, now: Instant) -> Self {
        Self {
            average: 0,
            count: None,
            drawn: 0,
            idle_since: None,
            probability: p.probability,
            per_unit: (p.probability / p.delta).max(1),
            adapted: now,
        }
    }

    /// Returns the average in the queue's unit.
    pub const fn average(&self, p: &RedParams) -> u64 {
        self.average >> p.wlog
    }
    /// Returns the probability of a mark just below `max`, in units of 2^-32.
    pub const fn probability(&self) -> u32 {
        self.probability
    }

    /// True if the law remembers nothing: a packet that comes to an empty queue now would change
    /// nothing.
    #[inline]
    pub const fn at_rest(&self, p: &RedParams) -> bool {
        self.average == 0 && p.min > 0
    }

    /// Records that nothing is queued any more: from `now` on the average shrinks with time.
    #[inline]
    pub(crate) fn start_idle(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }

    /// Updates the average for a packet that arrives at a queue of length `queue`, without that
    /// packet, and decides about it.
    #[inline]
    pub fn on_arrival(&mut self, p: &RedParams, queue: u64, now: Instant, rng: &mut Rng) -> RedAction {
        self.learn(p, queue, now);
        self.action(p, rng)
    }

    /// Updates the average for a packet that arrives at a queue of length `queue`, without that
    /// packet.
    #[inline]
    pub fn learn(&mut self, p: &RedParams, queue: u64, now: Instant) {
        self.average = match self.idle_since.take() {
            Some(since) => p.idle.shrink(self.average, now.saturating_since(since)),
            // avg + w (queue - avg), where avg is stored times 1/w.
            None => self.average - (self.average >> p.wlog) + queue,
        };
    }

    /// Decides about the next packet by the average. Callers that keep averages by other rules use
    /// it in place of `on_arrival`.
    #[inline]
    pub fn action(&mut self, p: &RedParams, rng: &mut Rng) -> RedAction {
        self.action_at(p, self.average, rng)
    }

    /// As `action`, by the average and `more`, averages of other queues as `busy_average` has them.
    #[inline]
    pub(crate) fn action_beside(&mut self, p: &RedParams, more: u64, rng: &mut Rng) -> RedAction {
        self.action_at(p, self.average.saturating_add(more), rng)
    }

    /// Returns the average times `2^wlog`; 0 while nothing is queued.
    #[inline]
    pub(crate) const fn busy_average(&self) -> u64 {
        if self.idle_since.is_some() { 0 } else { self.average }
    }

    /// Returns the part of the state that queues may share.
    pub const fn shared(&self) -> RedAverage {
        RedAverage { scaled: self.average, idle_since: self.idle_since }
    }

    /// Takes over an average that queues share.
    pub const fn adopt(&mut self, shared: RedAverage) {
        (self.average, self.idle_since) = (shared.scaled, shared.idle_since);
    }

    /// As `action`, by an average of the caller's (times `2^wlog`).
    #[inline]
    fn action_at(&mut self, p: &RedParams, average: u64, rng: &mut Rng) -> RedAction {
        if average < p.min {
            self.count = None;
            return RedAction::Pass;
        }
        if average >= p.max {
            self.count = None;
            return RedAction::Forced;
        }
        if self.between(p, average, rng) { RedAction::Early } else { RedAction::Pass }
    }

    /// Decides about the next packet as choke does, which takes an average of exactly `min` for a
    /// short queue, and one of exactly `max` for one between the two. Unless the queue is short,
    /// `victim` is asked first; if it returns true, the law does not see the packet: `None`.
    #[inline]
    pub(crate) fn action_of_choke(
        &mut self,
        p: &RedParams,
        rng: &mut Rng,
        victim: impl FnOnce(&mut Rng) -> bool,
    ) -> Option<RedAction> {
        if self.average <= p.min {
            self.count = None;
            return Some(RedAction::Pass);
        }
        if victim(rng) {
            return None;
        }
        if self.average > p.max {
            self.count = None;
            return Some(RedAction::Forced);
        }
        Some(if self.between(p, self.average, rng) { RedAction::Early } else { RedAction::Pass })
    }

    /// Decides about a packet while the average is between `min` and `max`: true for a mark.
    #[inline]
    fn between(&mut self, p: &RedParams, average: u64, rng: &mut Rng) -> bool {
        let Some(count) = self.count else {
            self.count = Some(0);
            self.draw(rng);
            return false;
        };
        let count = count.saturating_add(1);
        let share = (average - p.min) >> p.wlog;
        let mark = share * u64::from(count) >= self.drawn;
        self.count = Some(if mark { 0 } else { count });
        if mark {
            self.draw(rng);
        }
        mark
    }

    /// Draws the distance to the next mark: it comes once the packets times their distance above
    /// `min` reach the number.
    fn draw(&mut self, rng: &mut Rng) {
        self.drawn = (rng.next_u64() >> 32) / u64::from(self.per_unit);
    }

    /// Takes the steps of the adaptive probability that are due (Adaptive RED section 4): it rises
    /// by at most one percent and a quarter of itself while the average is above its target, and
    /// falls by a tenth while it is below.
    #[inline]
    pub fn adapt(&mut self, p: &RedParams, now: Instant) {
        let due = now.saturating_since(self.adapted).as_nanos() / ADAPT_INTERVAL.as_nanos();
        if due > 0 {
            self.take_steps(p, due);
        }
    }

    #[cold]
    fn take_steps(&mut self, p: &RedParams, due: u64) {
        let span = |n: u64| Nanos(ADAPT_INTERVAL.as_nanos().saturating_mul(n));
        // Steps too far back to have an effect are skipped.
        let (first, start) = (due - due.min(STEPS_MAX), self.adapted);
        for n in first + 1..=due {
            self.adapted = start + span(n);
            let average = match self.idle_since {
                Some(since) => p.idle.shrink(self.average, self.adapted.saturating_since(since)),
                None => self.average,
            } >> p.wlog;
            if average > p.targets.1 && self.probability <= HALF {
                self.probability += PERCENT.min(self.probability / 4);
            } else if average < p.targets.0 && self.probability >= PERCENT {
                self.probability = self.probability / 10 * 9;
            }
        }
        // The quotient is rounded to the nearest number.
        let rounded = (u64::from(self.probability) + u64::from(p.delta / 2)) / u64::from(p.delta);
        self.per_unit = u32::try_from(rounded).unwrap_or(u32::MAX).max(1);
    }
}

#[cfg(test)]
mod tests;
