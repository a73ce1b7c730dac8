//! The PI2 control law and its coupling to a low-latency queue (RFC 9332 appendix A), on numbers:
//! one base probability p', moved at a steady pace by the distance of a delay from its target and
//! by the trend of that delay. Its square p'^2 is for Classic packets, and its multiple k * p' for
//! packets of scalable congestion controls.
//!
//! One record of parameters and one of state per pair of queues; no queue, no packet, no clock. The
//! owner makes an update each `tupdate` ([`Pi2State::update`]; several at once, after a silence, by
//! [`Pi2State::catch_up`]), and asks for each packet which signal it gets. O(1) per packet and
//! update. Any number of missed updates is made up for in at most 60 steps at the defaults, and 50
//! 000 with the shortest `tupdate` and the smallest gain.
//!
//! Arithmetic is on integers, in the granularity of the Linux reference: a probability is a part of
//! 2^32 - 1, and a gain is a whole number of such parts per 64 ns of delay.

use crate::base::bound::Bound;
use crate::base::time::Nanos;

/// Most updates that one call makes, one by one: the least gain and interval take 50 000, and the
/// default ones 60.
const STEPS_MAX: usize = 1 << 16;
/// A probability of one.
pub const ONE: u32 = u32::MAX;

/// A delay is measured in units of 64 ns.
const UNIT_SHIFT: u32 = 6;

/// Parts of a probability per 64 ns for a gain of 1/256 Hz, times 10^9: (2^32 - 1) * 64 / 256,
/// rounded down.
const GRAIN: u64 = (ONE >> 2) as u64;

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

/// A gain: the change of probability per second of delay, in 256ths of one per second (Hz).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gain(pub u32);

/// A gain counts in units of 1/256 Hz.
pub(crate) const GAIN_UNITS: u32 = 256;

impl Gain {
    /// The largest: just below 2^23 Hz, so that the law's own unit holds it in 32 bits.
    pub const MAX: Self = Self((1 << 31) - 1);

    /// Returns the gain in the law's own unit, parts of [`ONE`] per 64 ns, rounded down.
    const fn per_unit(self) -> i128 {
        (self.0 as u64 * GRAIN / NANOS) as i128
    }
    /// Returns the gain as Linux shows it: rounded down to the law's own unit, then back to 256ths
    /// of one per second, again rounded down.
    #[must_use]
    pub const fn kept(self) -> Self {
        // The result is not above the given gain, so the cast is exact.
        Self((self.per_unit() as u64 * NANOS / GRAIN) as u32)
    }
}

/// The parameters of the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pi2Params {
    /// The delay to hold.
    pub target: Nanos,
    /// Time from update to update.
    pub tupdate: Nanos,
    /// Gain of the distance from the target (RFC 9332 figure 2, alpha).
    pub alpha: Gain,
    /// Gain of the change since the last update (figure 2, beta).
    pub beta: Gain,
    /// Ratio of the marking probability of a scalable packet to the base probability (figure 2, k);
    /// at least 1.
    pub coupling: u32,
    /// True if packets are dropped whatever their ECN field says once the coupled probability is
    /// above one. Otherwise the base probability ends where the coupled one is one, and the queue
    /// grows.
    pub drops_on_overload: bool,
}

impl Pi2Params {
    /// Returns the highest base probability.
    const fn most(&self) -> u32 {
        if self.drops_on_overload { ONE } else { ONE / self.coupling }
    }
    /// Returns the change that an update makes, in 64ths of a part of [`ONE`].
    const fn delta(&self, delay: Nanos, last: Nanos) -> i128 {
        let (delay, last, target) = (delay.0 as i128, last.0 as i128, self.target.0 as i128);
        self.alpha.per_unit() * (delay - target) + self.beta.per_unit() * (delay - last)
    }
}

/// Congestion signal for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// No signal.
    Pass,
    /// A CE mark.
    Mark,
    /// A drop.
    Drop,
}

/// State of the law for one pair of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pi2State {
    /// Base probability, as a part of `ONE`.
    prob: u32,
    /// The delay at the last update.
    delay: Nanos,
}

impl Pi2State {
    /// Makes one update of the base probability, with the greater of the two queues' delays (RFC
    /// 9332 figure 8).
    pub fn update(&mut self, p: &Pi2Params, delay: Nanos) {
        let delta = p.delta(delay, self.delay);
        self.delay = delay;
        self.shift(p, delta, 1);
    }

    /// Moves the probability `times` times by the same `delta`, each time rounded towards zero.
    fn shift(&mut self, p: &Pi2Params, delta: i128, times: u64) {
        let step = (delta.unsigned_abs() >> UNIT_SHIFT).saturating_mul(times.into());
        let step = u32::try_from(step).unwrap_or(u32::MAX);
        let prob = if delta < 0 { self.prob.saturating_sub(step) } else { self.prob.saturating_add(step) };
        self.prob = prob.min(p.most());
    }

    /// Makes `updates` updates in a row, one each `tupdate`, in which no packet comes or leaves:
    /// exactly as many calls of [`update`](Self::update). `first` is the delay at the first of
    /// them, and the packet at the head grows older by `tupdate` with each. `None` means that no
    /// packet waits, and the delay stays zero.
    ///
    /// A constant change is made in one step. With a growing delay the change grows too: the
    /// probability falls to zero, stays there until the delay is near the target, rises, and stays
    /// at its highest. The loop makes the steps on the way, which are few because each is larger
    /// than the one before, and skips the rest.
    pub fn catch_up(&mut self, p: &Pi2Params, first: Option<Nanos>, updates: u64) {
        match first {
            Some(delay) => _ = self.catch_up_waiting(p, delay, updates),
            None => self.catch_up_idle(p, updates),
        }
    }

    /// Does the work of `catch_up` with a packet at the head. Returns the number of steps.
    fn catch_up_waiting(&mut self, p: &Pi2Params, first: Nanos, updates: u64) -> u64 {
        let (mut left, mut steps, mut delay) = (updates, 0, first);
        let mut bound = Bound::of(STEPS_MAX);
        while left > 0 {
            bound.turn();
            self.update(p, delay);
            left -= 1;
            let passed = self.unchanging(p, left);
            left -= passed;
            self.delay = Nanos(self.delay.0.saturating_add(p.tupdate.0.saturating_mul(passed)));
            delay = self.delay + p.tupdate;
            steps += 1;
        }
        steps
    }

    /// Does the work of `catch_up` with no packet waiting.
    fn catch_up_idle(&mut self, p: &Pi2Params, updates: u64) {
        if let Some(rest) = updates.checked_sub(1) {
            self.update(p, Nanos::ZERO);
            // The delay stays zero: the change is the same from here on.
            self.shift(p, p.delta(Nanos::ZERO, Nanos::ZERO), rest);
        }
    }

    /// Returns how many of the next `most` updates of a growing delay need no step of their own:
    /// they leave the probability at an end of its range, or, without `alpha`, are made here.
    fn unchanging(&mut self, p: &Pi2Params, most: u64) -> u64 {
        let next = self.delay + p.tupdate;
        let delta = p.delta(next, self.delay);
        if p.alpha.per_unit() == 0 {
            self.shift(p, delta, most);
            return most;
        }
        match (delta > 0, self.prob) {
            (true, prob) if prob == p.most() => most,
            (false, 0) => {
                // Each further update adds the same amount to the change, until it is above zero.
                let growth = p.alpha.per_unit() * i128::from(p.tupdate.0);
                let until = delta.unsigned_abs().checked_div(growth.unsigned_abs()).unwrap_or(0) + 1;
                u64::try_from(until).unwrap_or(u64::MAX).min(most)
            }
            _ => 0,
        }
    }

    /// Returns the signal for a Classic packet: with the square of the base probability a drop, or
    /// a mark if the packet can be marked (`capable`; RFC 9332 figure 7, lines 10 to 17). `coin`
    /// returns 32 random bits, and is called at most twice.
    #[inline]
    pub fn classic(&self, p: &Pi2Params, capable: bool, mut coin: impl FnMut() -> u32) -> Signal {
        match self.squared(&mut coin) {
            false => Signal::Pass,
            true if capable && !self.overloaded(p) => Signal::Mark,
            true => Signal::Drop,
        }
    }

    /// Returns the signal for a packet of the low-latency queue: a mark with the coupled
    /// probability; in overload a drop with the square of the base probability, and otherwise a
    /// mark (RFC 9332 figure 7, lines 4b to 8j). A packet that cannot be marked is dropped in place
    /// of a mark, except in overload. `coin` is as for [`classic`](Self::classic).
    #[inline]
    pub fn scalable(&self, p: &Pi2Params, capable: bool, mut coin: impl FnMut() -> u32) -> Signal {
        match u32::try_from(self.coupled(p)) {
            Err(_) if self.squared(&mut coin) => Signal::Drop,
            Err(_) => Signal::Mark,
            Ok(prob) if !tossed(prob, &mut coin) => Signal::Pass,
            Ok(_) if capable => Signal::Mark,
            Ok(_) => Signal::Drop,
        }
    }

    /// Tosses twice with the base probability. True with the square of it (RFC 9332 section 2.1 has
    /// both ways to square).
    #[inline]
    fn squared(&self, coin: &mut impl FnMut() -> u32) -> bool {
        tossed(self.prob, coin) && tossed(self.prob, coin)
    }

    /// Returns the base probability p', as a part of [`ONE`].
    #[must_use]
    pub const fn prob(&self) -> u32 {
        self.prob
    }
    /// Returns the coupled probability k * p', in parts of [`ONE`]; above [`ONE`] is overload.
    #[must_use]
    pub const fn coupled(&self, p: &Pi2Params) -> u64 {
        self.prob as u64 * p.coupling as u64
    }
    /// True if the coupled probability is above one.
    #[must_use]
    pub const fn overloaded(&self, p: &Pi2Params) -> bool {
        self.coupled(p) > ONE as u64
    }
    /// Returns the delay at the last update.
    #[must_use]
    pub const fn delay(&self) -> Nanos {
        self.delay
    }
}

/// Makes one toss. A probability of zero does not call the coin.
#[inline]
fn tossed(prob: u32, coin: &mut impl FnMut() -> u32) -> bool {
    prob > 0 && coin() <= prob
}

#[cfg(test)]
mod tests;
