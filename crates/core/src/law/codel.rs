//! The CoDel control law on numbers: when to drop or mark, given how long packets waited. No queue
//! and no packet here.
//!
//! A queue is bad when its packets have waited at least `target` for a whole `interval`; then one
//! packet is dropped (or marked), and further ones at intervals of `interval / sqrt(count)` until a
//! packet has waited less. Source: RFC 8289 (K. Nichols and others, January 2018), section 5 for
//! the algorithm and its pseudocode.
//!
//! A qdisc pops packets and asks about each, until one is delivered or none is left:
//!
//! ```
//! # use txweir_core::law::codel::{CodelParams, CodelState, Decision, Head, Ticks};
//! # use txweir_core::base::time::{Instant, Nanos};
//! # let p = CodelParams::new(Nanos::from_millis(5), Nanos::from_millis(100), 1514).unwrap();
//! # let mut law = CodelState::default();
//! # let mut backlog = 3000_u64;
//! # let mut fifo = vec![Instant::ZERO, Instant::ZERO].into_iter();
//! let now = Ticks::at(Instant::from_millis(1));
//! let delivered = loop {
//!     let Some(enqueued) = fifo.next() else {
//!         law.on_empty();
//!         break None;
//!     };
//!     backlog -= 1500;
//!     let head = Head::new(now.since(Ticks::at(enqueued)), backlog);
//!     match law.on_dequeue(&p, &head, now) {
//!         Decision::Drop => continue, // count it and free the packet
//!         Decision::Deliver(marks) => break Some(marks.any()),
//!     }
//! };
//! assert_eq!(delivered, Some(false));
//! ```
//!
//! The point at which a dequeue stopped is part of the state, so nothing is lost if a caller gives
//! up in the middle. Cost: a few comparisons per packet, one short multiplication chain per drop or
//! mark, no division. Memory: 20 bytes per queue.
//!
//! Three details are those of the Linux implementation rather than the RFC's pseudocode, so that
//! decisions can be compared with it one by one. Time is in ticks of 1024 ns, kept in 32 bits and
//! compared as signed differences: a queue untouched for more than 2^31 ticks (36 minutes) may be
//! misjudged once. A delay is bad strictly after an interval, not at its end. The inverse square
//! root of the count is a 16-bit fraction improved by one Newton step at each change of the count,
//! so the second spacing is 29 % shorter than the ideal and the third 3 %.
//! [`CodelParams::with_strict_linux`] names the point where Linux is not followed.

use core::fmt;

use crate::base::bound::Bound;
use crate::base::time::{Instant, Nanos};

/// A tick is 2^10 ns.
const TICK_SHIFT: u32 = 10;

/// The longest span that a comparison of signed 32-bit differences can tell from a negative one.
const SPAN_MAX: u32 = u32::MAX / 2;

/// The longest interval: sixteen of them are compared with a time difference.
const INTERVAL_MAX: u32 = SPAN_MAX / RECENT_INTERVALS;

/// A queue that left the dropping state less than this many intervals ago resumes near the rate it
/// had reached (RFC 8289 section 5.5 chose sixteen).
const RECENT_INTERVALS: u32 = 16;

/// A point in time, or a span of it, in the law's ticks of 1024 ns. Points wrap every 73 minutes;
/// there is no order on them, only [`is_before`](Self::is_before).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks(pub u32);

impl Ticks {
    /// Returns the tick that contains a point in time: the low 32 bits of its number.
    #[inline]
    #[must_use]
    pub const fn at(time: Instant) -> Self {
        Self((time.as_nanos() >> TICK_SHIFT) as u32)
    }

    /// Returns the whole ticks in a span, at most 2^31 - 1 (36 minutes).
    #[inline]
    #[must_use]
    pub const fn span(span: Nanos) -> Self {
        let ticks = span.as_nanos() >> TICK_SHIFT;
        Self(if ticks > SPAN_MAX as u64 { SPAN_MAX } else { ticks as u32 })
    }

    /// Returns the span from `earlier` to this point.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.wrapping_sub(earlier.0))
    }

    /// Returns the point that lies `span` after this one.
    #[inline]
    #[must_use]
    pub const fn after(self, span: Self) -> Self {
        Self(self.0.wrapping_add(span.0))
    }

    /// True if this point lies before `other`, given that they are less than 2^31 ticks apart.
    #[inline]
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.since(other).0.cast_signed() < 0
    }

    /// Returns this span in nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> Nanos {
        Nanos((self.0 as u64) << TICK_SHIFT)
    }
}

/// Reason why parameters were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodelError {
    /// A target of more than 2^31 - 1 ticks (36 minutes).
    Target(Nanos),
    /// An interval of less than one tick (1024 ns) or more than 2^27 - 1 ticks (137 s).
    Interval(Nanos),
}

impl fmt::Display for CodelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(given) => write!(f, "target {given} is above 36 minutes"),
            Self::Interval(given) => write!(f, "interval {given} is outside 1024ns to 137s"),
        }
    }
}

impl core::error::Error for CodelError {}

/// The parameters of the law: one record per qdisc, shared by all its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelParams {
    target: Ticks,
    interval: Ticks,
    ce_threshold: Option<Ticks>,
    mtu: u32,
    ecn: bool,
    strict_linux: bool,
}

impl CodelParams {
    /// Returns parameters without ECN and CE threshold. `target` is the standing delay that is
    /// acceptable, 5 ms on the Internet (RFC 8289 section 4.3). `interval` is the time a sender
    /// needs to react, 100 ms there (section 4.2). `mtu` is in bytes: a backlog of no more than one
    /// packet is never bad, however slow the link.
    ///
    /// # Errors
    /// [`CodelError`] if `target` or `interval` does not fit the law's clock.
    pub fn new(target: Nanos, interval: Nanos, mtu: u32) -> Result<Self, CodelError> {
        if target.as_nanos() >> TICK_SHIFT > u64::from(SPAN_MAX) {
            return Err(CodelError::Target(target));
        }
        let ticks = Ticks::span(interval);
        if ticks.0 == 0 || ticks.0 > INTERVAL_MAX {
            return Err(CodelError::Interval(interval));
        }
        let (target, interval) = (Ticks::span(target), ticks);
        Ok(Self { target, interval, ce_threshold: None, mtu, ecn: false, strict_linux: false })
    }

    /// Marks packets of ECN-capable transports instead of dropping them (RFC 3168 section 5).
    #[must_use]
    pub(crate) const fn with_ecn(mut self, ecn: bool) -> Self {
        self.ecn = ecn;
        self
    }

    /// Marks, beside the law, each packet of an ECN-capable transport that waited longer than this.
    #[must_use]
    pub(crate) const fn with_ce_threshold(mut self, threshold: Option<Nanos>) -> Self {
        self.ce_threshold = match threshold {
            Some(span) => Some(Ticks::span(span)),
            None => None,
        };
        self
    }

    /// Follows Linux 6.x where it deviates from RFC 8289. For differential tests only: after
    /// overflow drops made a count jump, the Newton step leaves its range, and the spacing becomes
    /// arbitrary or stays zero for ever. Without this option the start of the step is first brought
    /// into range.
    #[must_use]
    pub const fn with_strict_linux(mut self, strict: bool) -> Self {
        self.strict_linux = strict;
        self
    }
}

/// Properties of the packet just taken from the queue that the law needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Time that the packet waited.
    pub sojourn: Ticks,
    /// Bytes left in the whole qdisc after the packet was taken (in fq_codel too: not those of its
    /// flow).
    pub backlog_bytes: u64,
    /// True if the packet can carry a mark: its ECN field is ECT(0), ECT(1) or CE (RFC 3168 section
    /// 5).
    pub ecn_capable: bool,
    /// True if the CE threshold applies: the packet is ECN-capable and matches the qdisc's
    /// selector, if there is one.
    pub ce_threshold_applies: bool,
}

impl Head {
    /// Returns the head for a packet that cannot carry a mark.
    #[must_use]
    pub const fn new(sojourn: Ticks, backlog_bytes: u64) -> Self {
        Self { sojourn, backlog_bytes, ecn_capable: false, ce_threshold_applies: false }
    }

    /// Allows or forbids both kinds of mark.
    #[must_use]
    pub(crate) const fn with_ecn_capable(mut self, capable: bool) -> Self {
        self.ecn_capable = capable;
        self.ce_threshold_applies = capable;
        self
    }
}

/// Decision about the packet just taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Drop the packet, take the next one and ask again with the same `now`.
    Drop,
    /// Send the packet, with CE set if either mark is.
    Deliver(Marks),
}

/// Reasons to mark a delivered packet CE; each has its own counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// A mark instead of a drop (`ecn_mark` in tc).
    pub ecn: bool,
    /// A mark for the delay alone (`ce_mark` in tc).
    pub ce_threshold: bool,
}

impl Marks {
    /// True if CE is to be set.
    #[inline]
    #[must_use]
    pub const fn any(self) -> bool {
        self.ecn || self.ce_threshold
    }
}

/// Phase of the law between two packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Not dropping.
    #[default]
    Idle,
    /// Dropping; the next drop comes at `drop_next`.
    Dropping,
    /// The law has just asked for the drop that begins dropping: the next packet is delivered in
    /// any case.
    Entered,
    /// The law has just asked for a drop while dropping: the next packet decides whether another is
    /// due.
    Resuming,
}

/// State of the law for one queue: 20 bytes.
#[derive(Clone, Copy, Debug)]
pub struct CodelState {
    /// Drops and marks since dropping began.
    count: u32,
    /// Value of `count` when dropping last began.
    lastcount: u32,
    /// Time at which a delay that stays above target becomes bad; meaningful while `armed`.
    first_above: Ticks,
    /// Time at which the next drop is due, or was due when dropping ended.
    drop_next: Ticks,
    inv_sqrt: InvSqrt,
    armed: bool,
    phase: Phase,
}

impl Default for CodelState {
    /// Returns the state of a queue that was never bad.
    fn default() -> Self {
        Self {
            count: 0,
            lastcount: 0,
            first_above: Ticks(0),
            drop_next: Ticks(0),
            inv_sqrt: InvSqrt::ONE,
            armed: false,
            phase: Phase::Idle,
        }
    }
}

impl CodelState {
    /// Decides about the packet just taken. `now` must be the same for all packets of one dequeue.
    #[inline]
    pub fn on_dequeue(&mut self, p: &CodelParams, head: &Head, now: Ticks) -> Decision {
        let bad = self.delay_is_bad(p, head, now);
        let marks = Marks {
            ecn: false,
            ce_threshold: head.ce_threshold_applies
                && p.ce_threshold.is_some_and(|t| t.is_before(head.sojourn)),
        };
        match (self.phase, bad) {
            (Phase::Idle, false) => Decision::Deliver(marks),
            (Phase::Entered, _) => {
                self.phase = Phase::Dropping;
                Decision::Deliver(marks)
            }
            (Phase::Dropping | Phase::Resuming, false) => {
                self.phase = Phase::Idle;
                Decision::Deliver(marks)
            }
            (Phase::Idle, true) => {
                self.start_dropping(p, now);
                self.phase = Phase::Entered;
                self.drop_or_mark(p, head, marks)
            }
            (Phase::Dropping | Phase::Resuming, true) => {
                if self.phase == Phase::Resuming {
                    self.schedule(p, self.drop_next);
                    self.phase = Phase::Dropping;
                }
                if now.is_before(self.drop_next) {
                    return Decision::Deliver(marks);
                }
                self.count = self.count.wrapping_add(1);
                self.inv_sqrt.step(self.count, p.strict_linux);
                self.phase = Phase::Resuming;
                self.drop_or_mark(p, head, marks)
            }
        }
    }

    /// Ends dropping, because the queue has no packet left. The drop that begins dropping may take
    /// the last packet: the law is then dropping until it is asked again (RFC 8289 section 5.5).
    #[inline]
    pub fn on_empty(&mut self) {
        self.armed = false;
        self.phase = if self.phase == Phase::Entered { Phase::Dropping } else { Phase::Idle };
    }

    /// Counts `drops` for lack of room, which the law did not ask for. The law then drops faster
    /// when it next has a reason to (fq_codel drops from the flow with the largest backlog, RFC
    /// 8290 section 4.1).
    pub(crate) fn count_overflow(&mut self, drops: u32) {
        self.count = self.count.wrapping_add(drops);
    }

    /// True if the law remembers no standing queue: a packet that did not wait would change
    /// nothing.
    #[inline]
    #[must_use]
    pub const fn at_rest(&self) -> bool {
        !self.armed && matches!(self.phase, Phase::Idle)
    }

    /// True if the law is dropping.
    #[must_use]
    pub const fn dropping(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }

    /// Returns the drops and marks since dropping began, plus overflow drops.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the [`count`](Self::count) at which dropping last began.
    #[must_use]
    pub const fn lastcount(&self) -> u32 {
        self.lastcount
    }

    /// Returns the time at which the next drop is due while dropping, or was due when dropping
    /// ended.
    #[must_use]
    pub const fn drop_next(&self) -> Ticks {
        self.drop_next
    }

    /// True if the delay has been above target for an interval (`dodequeue` in RFC 8289 section
    /// 5.6).
    #[inline]
    fn delay_is_bad(&mut self, p: &CodelParams, head: &Head, now: Ticks) -> bool {
        if head.sojourn.is_before(p.target) || head.backlog_bytes <= u64::from(p.mtu) {
            self.armed = false;
            return false;
        }
        if !self.armed {
            self.armed = true;
            self.first_above = now.after(p.interval);
            return false;
        }
        self.first_above.is_before(now)
    }

    /// Begins dropping: at the first rate, or if the queue was bad recently, near the rate that
    /// controlled it then (RFC 8289 section 5.5).
    fn start_dropping(&mut self, p: &CodelParams, now: Ticks) {
        let reached = self.count.wrapping_sub(self.lastcount);
        let recently = now.since(self.drop_next).is_before(Ticks(RECENT_INTERVALS * p.interval.0));
        if reached > 1 && recently {
            if p.strict_linux && self.lastcount == 0 {
                // Overflow drops preceded the first use: the reference starts from a fraction of
                // zero.
                self.inv_sqrt = InvSqrt::ZERO;
            }
            self.count = reached;
            self.inv_sqrt.step(self.count, p.strict_linux);
        } else {
            self.count = 1;
            self.inv_sqrt = InvSqrt::ONE;
        }
        self.lastcount = self.count;
        self.schedule(p, now);
    }

    /// Schedules the next drop one spacing after `from`.
    #[inline]
    fn schedule(&mut self, p: &CodelParams, from: Ticks) {
        self.drop_next = from.after(self.inv_sqrt.times(p.interval));
    }

    /// Carries out a drop that is due. A mark takes its place if possible, and ends this dequeue.
    fn drop_or_mark(&mut self, p: &CodelParams, head: &Head, marks: Marks) -> Decision {
        if !(p.ecn && head.ecn_capable) {
            return Decision::Drop;
        }
        if self.phase == Phase::Resuming {
            self.schedule(p, self.drop_next);
        }
        self.phase = Phase::Dropping;
        Decision::Deliver(Marks { ecn: true, ..marks })
    }
}

/// `1 / sqrt(count)` as a fraction of 2^16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InvSqrt(u16);

impl InvSqrt {
    /// The fraction nearest to 1.
    const ONE: Self = Self(u16::MAX);
    const ZERO: Self = Self(0);

    /// Returns `span / sqrt(count)`, rounded down.
    #[inline]
    const fn times(self, span: Ticks) -> Ticks {
        // 32 bits by 16 bits, less 16 bits: fits 32 bits.
        Ticks(((span.0 as u64 * self.0 as u64) >> 16) as u32)
    }

    /// Takes one Newton step towards `1 / sqrt(count)`: x becomes x (3 - count x^2) / 2.
    ///
    /// In units of 2^-32, rounded down at each operation.
    fn step(&mut self, count: u32, strict_linux: bool) {
        const ONE: u64 = 1 << 32;
        let count = u64::from(count);
        let mut x = u64::from(self.0) << 16;
        let count_x2 = |x: u64| count * ((x * x) >> 32);
        if !strict_linux && count_x2(x) >= 3 * ONE {
            // The fraction is so far above the root that the step would turn negative. It is halved
            // until it is below the root: after 16 turns x is 2^-16 and count x^2 below one.
            let mut bound = Bound::of(16);
            while count_x2(x) > ONE {
                bound.turn();
                x >>= 1;
            }
        }
        let factor = (3 * ONE).wrapping_sub(count_x2(x)) >> 2;
        let next = (factor.wrapping_mul(x) >> 31) >> 16;
        self.0 = match strict_linux {
            true => (next & 0xffff) as u16,
            // A fraction of zero would stay zero for ever.
            false => u16::try_from(next).unwrap_or(u16::MAX).max(1),
        };
    }
}

#[cfg(test)]
mod tests;
