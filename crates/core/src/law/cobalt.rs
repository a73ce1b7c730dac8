//! The COBALT control law on numbers: CoDel (RFC 8289) with a rate of signals that decays once the
//! queue is good, and BLUE (Feng, Kandlur, Saha and Shin, "BLUE: a new class of active queue
//! management algorithms", 1999) for flows that do not answer signals (Hoiland-Jorgensen, Taht and
//! Morton, "Piece of CAKE", 2018, section III-D). O(1) per packet, except that the count falls by
//! one for each signal that fell due since the last call: at most `DECAY_MAX`.

use crate::base::time::{Instant, Nanos};

/// One: the inverse square root of 1, as near as a fraction of 32 bits comes.
const ONE: u32 = u32::MAX;

/// Number of counts whose inverse square roots come from a table; above, one Newton step from the
/// last value is accurate enough.
const TABLE: usize = 16;

/// Newton steps from one entry of the table to the next: further steps change the entry by no more
/// than the rounding.
const TABLE_STEPS: u32 = 8;

/// Largest number of signals that one call forgets; a bound on its time.
const DECAY_MAX: u32 = 1 << 16;

/// Rise of BLUE's probability at each overflow of the queue: 1/256, in units of 2^-32.
const RISE: u32 = 1 << 24;
/// Fall of BLUE's probability each time the queue runs empty: 1/4096, in units of 2^-32.
const FALL: u32 = 1 << 20;

/// `1 / sqrt(count)` in units of 2^-32, for small counts.
static ROOTS: [u32; TABLE] = roots();

const fn roots() -> [u32; TABLE] {
    let mut table = [ONE; TABLE];
    let mut count = 1;
    // Bound: `TABLE` turns, in the compiler.
    while count < TABLE {
        // Each entry starts from the one before it.
        let mut root = table[count - 1];
        let mut step = 0;
        // Bound: `TABLE_STEPS` turns, in the compiler.
        while step < TABLE_STEPS {
            root = newton(root, count as u32);
            step += 1;
        }
        table[count] = root;
        count += 1;
    }
    table
}

/// Returns `x` after one Newton step towards `1 / sqrt(count)`: x (3 - count x^2) / 2, rounded down
/// at each operation.
const fn newton(x: u32, count: u32) -> u32 {
    let x = x as u64;
    let square = (x * x) >> 32;
    let rest = (3u64 << 32).wrapping_sub((count as u64).wrapping_mul(square));
    // A right shift by two bits before the multiplication keeps the product within 64 bits.
    ((rest >> 2).wrapping_mul(x) >> 31) as u32
}

/// The parameters of the law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CobaltParams {
    /// Acceptable standing delay, ns.
    pub target: u64,
    /// Time for which the delay must stay above the target, ns.
    pub interval: u64,
    /// Transmission time of a full frame at the rate, ns: a queue of less than four frames is never
    /// bad.
    pub mtu_time: u64,
    /// True to derive the time between signals from 32 bits of the interval, as Linux does
    /// (PARITY.md: cake-long-interval).
    pub strict_linux: bool,
}

/// State of the law for one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CobaltState {
    /// While there is a count, the time at which the next signal is due; otherwise the time at
    /// which the queue becomes idle.
    drop_next: Instant,
    /// Time of the last change of BLUE's probability.
    blue_timer: Instant,
    count: u32,
    /// BLUE's probability, in units of 2^-32.
    p_drop: u32,
    /// `1 / sqrt(count)`, in units of 2^-32.
    root: u32,
    dropping: bool,
}

impl Default for CobaltState {
    /// Returns the state of a new queue. The first spacing is zero (`root` is 0): as in the
    /// reference, the second packet above target is signalled, not only the first one after an
    /// interval. Its last events were at the start of the clock: as in the reference, BLUE does not
    /// move within a target of that time, which is half a minute at 512 bit/s.
    fn default() -> Self {
        let start = Instant::ZERO;
        Self { drop_next: start, blue_timer: start, count: 0, p_drop: 0, root: 0, dropping: false }
    }
}

/// Returns `later - earlier` in ns, negative if `later` lies before `earlier`.
const fn since(later: Instant, earlier: Instant) -> i64 {
    later.0.wrapping_sub(earlier.0).cast_signed()
}

impl CobaltState {
    /// Records that the queue overflowed and lost its oldest packet. True if BLUE begins to drop by
    /// that.
    pub fn on_full(&mut self, p: &CobaltParams, now: Instant) -> bool {
        let mut began = false;
        if self.blue_may_move(p, now) {
            began = self.p_drop == 0;
            self.p_drop = self.p_drop.saturating_add(RISE);
            self.blue_timer = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
        began
    }

    /// Records that the queue was found empty. True if BLUE stops dropping by that.
    pub fn on_empty(&mut self, p: &CobaltParams, now: Instant) -> bool {
        let mut ended = false;
        if self.p_drop > 0 && self.blue_may_move(p, now) {
            self.p_drop = self.p_drop.saturating_sub(FALL);
            self.blue_timer = now;
            ended = self.p_drop == 0;
        }
        self.dropping = false;
        if self.due(now) {
            self.forget_one(p);
        }
        ended
    }

    /// Decides about the packet at the head, which waited `sojourn`. True if it is to be dropped.
    /// For each of `lenient` flows a delay of two frames is tolerated. `signal` marks the packet
    /// and returns true if that was possible; `draw` returns a uniform 32-bit number.
    pub fn on_dequeue(
        &mut self,
        p: &CobaltParams,
        now: Instant,
        sojourn: Nanos,
        lenient: u32,
        signal: impl FnOnce() -> bool,
        draw: impl FnOnce() -> u32,
    ) -> bool {
        let frames = p.mtu_time.saturating_mul((u64::from(lenient) * 2).max(4));
        let over = sojourn.0 > p.target && sojourn.0 > frames;
        let mut late = since(now, self.drop_next);
        let due = self.count > 0 && late >= 0;
        if over && !self.dropping {
            self.drop_next = self.after(now, p);
        }
        self.dropping = over;
        if over {
            self.count = self.count.max(1);
        }
        let mut drop = false;
        if due && over {
            drop = !signal();
            self.count = self.count.saturating_add(1);
            self.recompute();
            self.drop_next = self.after(self.drop_next, p);
            late = since(now, self.drop_next);
        } else if due {
            late = self.forget(p, now);
        }
        // BLUE drops packets of flows that accept marks but do not answer them.
        drop |= self.p_drop > 0 && draw() < self.p_drop;
        if self.count == 0 {
            // The time of the next signal doubles as the time until which the queue is active.
            self.drop_next = now + Nanos(p.interval);
        } else if late > 0 && !drop {
            self.drop_next = now;
        }
        drop
    }

    /// Forgets each signal that was due by now, because the queue is good. Returns the lateness of
    /// the next signal, ns.
    fn forget(&mut self, p: &CobaltParams, now: Instant) -> i64 {
        for _ in 0..DECAY_MAX {
            self.forget_one(p);
            if !self.due(now) {
                break;
            }
        }
        since(now, self.drop_next)
    }

    /// Returns the time since the next signal was due, ns; negative if it is still to come.
    #[must_use]
    pub(crate) const fn lag(&self, now: Instant) -> i64 {
        since(now, self.drop_next)
    }

    /// True if the state has no effect on later decisions: the queue need not be looked at again.
    #[must_use]
    pub const fn at_rest(&self, now: Instant) -> bool {
        self.p_drop == 0 && self.count == 0 && since(now, self.drop_next) >= 0
    }

    /// True if the law is signalling.
    #[must_use]
    pub const fn dropping(&self) -> bool {
        self.dropping
    }
    /// Returns the number of signals since signalling began, less the forgotten ones.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }
    /// Returns BLUE's probability, in units of 2^-32.
    #[must_use]
    pub const fn p_drop(&self) -> u32 {
        self.p_drop
    }
    /// Returns the time since the last change of BLUE's probability, ns.
    #[must_use]
    pub(crate) const fn blue_age(&self, now: Instant) -> i64 {
        since(now, self.blue_timer)
    }
    /// Returns the time at which the next signal is due.
    #[must_use]
    pub const fn drop_next(&self) -> Instant {
        self.drop_next
    }

    const fn due(&self, now: Instant) -> bool {
        self.count > 0 && since(now, self.drop_next) >= 0
    }

    /// True if BLUE may change its probability: at most once per target.
    const fn blue_may_move(&self, p: &CobaltParams, now: Instant) -> bool {
        since(now, self.blue_timer) > p.target.cast_signed()
    }

    fn forget_one(&mut self, p: &CobaltParams) {
        self.count -= 1;
        self.recompute();
        self.drop_next = self.after(self.drop_next, p);
    }

    fn recompute(&mut self) {
        self.root = match ROOTS.get(self.count as usize) {
            Some(root) => *root,
            None => newton(self.root, self.count),
        };
    }

    /// Returns the time one spacing after `t`: `interval / sqrt(count)`, rounded down.
    fn after(&self, t: Instant, p: &CobaltParams) -> Instant {
        let interval = if p.strict_linux { p.interval & u64::from(u32::MAX) } else { p.interval };
        let spacing = (u128::from(interval) * u128::from(self.root)) >> 32;
        t + Nanos(u64::try_from(spacing).unwrap_or(u64::MAX))
    }
}
