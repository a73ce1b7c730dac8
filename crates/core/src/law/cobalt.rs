//! The COBALT control law on numbers: CoDel (RFC 8289) whose rate of signals falls off again when the queue is good, and
//! BLUE (Feng, Kandlur, Saha and Shin, "BLUE: a new class of active queue management algorithms", 1999) for what does
//! not answer signals (Hoiland-Jorgensen, Taht and Morton, "Piece of CAKE", 2018, section III-D). O(1) per packet, but
//! that the count falls by one for each signal that would have been due while nothing was asked: at most `DECAY_MAX`.

use crate::base::time::{Instant, Nanos};

/// One: the inverse square root of 1, as near as 32 bits of fraction come.
const ONE: u32 = u32::MAX;

/// Counts whose inverse square roots are looked up; above, one Newton step from the last value is near enough.
const TABLE: usize = 16;

/// Newton steps that an entry of the table takes, from the one before it: after these no step changes it by more than the
/// rounding.
const TABLE_STEPS: u32 = 8;

/// Most signals that a count forgets in one look: what had more is forgotten by then.
const DECAY_MAX: u32 = 1 << 16;

/// How BLUE's probability rises each time that the queue overflows: 1/256, of 2^32.
const RISE: u32 = 1 << 24;
/// How it falls each time that the queue runs empty: 1/4096, of 2^32.
const FALL: u32 = 1 << 20;

/// `1 / sqrt(count)` in units of 2^-32, for small counts.
static ROOTS: [u32; TABLE] = roots();

const fn roots() -> [u32; TABLE] {
    let mut table = [ONE; TABLE];
    let mut count = 1;
    while count < TABLE {
        // Each starts from the one before it.
        let mut root = table[count - 1];
        let mut step = 0;
        while step < TABLE_STEPS {
            root = newton(root, count as u32);
            step += 1;
        }
        table[count] = root;
        count += 1;
    }
    table
}

/// One Newton step from `x` towards `1 / sqrt(count)`: x (3 - count x^2) / 2, rounded down at each operation.
const fn newton(x: u32, count: u32) -> u32 {
    let x = x as u64;
    let square = (x * x) >> 32;
    let rest = (3u64 << 32).wrapping_sub((count as u64).wrapping_mul(square));
    // Two bits are given up before the multiplication, so that it fits 64.
    ((rest >> 2).wrapping_mul(x) >> 31) as u32
}

/// What the law is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CobaltParams {
    /// Standing delay that is acceptable, ns.
    pub target: u64,
    /// Time over which it must stay above, ns.
    pub interval: u64,
    /// Time that a full frame takes at the rate, ns: a queue of less than four is no queue.
    pub mtu_time: u64,
}

/// Longer ago than any target or interval: when a law that has seen nothing last did anything.
const LONG_AGO: Instant = Instant(0u64.wrapping_sub(1 << 62));

/// What the law remembers of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CobaltState {
    /// When the next signal is due while there is a count; before, when the queue counts as idle.
    drop_next: Instant,
    /// When BLUE last changed its mind.
    blue_timer: Instant,
    count: u32,
    /// BLUE's probability, of 2^32.
    p_drop: u32,
    /// `1 / sqrt(count)`, of 2^32.
    root: u32,
    dropping: bool,
}

impl Default for CobaltState {
    /// Nothing is remembered. The first spacing is none at all (`root` is 0): the second packet above target is
    /// signalled, as in the reference, and not only the first after an interval.
    fn default() -> Self {
        Self { drop_next: LONG_AGO, blue_timer: LONG_AGO, count: 0, p_drop: 0, root: 0, dropping: false }
    }
}

/// `later - earlier` in ns, negative if it is the other way round.
const fn since(later: Instant, earlier: Instant) -> i64 {
    later.0.wrapping_sub(earlier.0).cast_signed()
}

impl CobaltState {
    /// The queue overflowed and lost its oldest packet: true if BLUE begins to drop by that.
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

    /// The queue was found empty: true if BLUE stops dropping by that.
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

    /// A packet that waited `sojourn` is at the head. `lenient` is the number of flows for whose sake a delay of two
    /// frames each is borne. `signal` marks the packet, and says whether it could; `draw` is a uniform 32-bit number.
    /// True if the packet is to be dropped.
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
        // BLUE: what does not answer marks is dropped although it takes them.
        drop |= self.p_drop > 0 && draw() < self.p_drop;
        if self.count == 0 {
            // The time of the next signal doubles as the time until which the queue is active.
            self.drop_next = now + Nanos(p.interval);
        } else if late > 0 && !drop {
            self.drop_next = now;
        }
        drop
    }

    /// The queue is good: forgets each signal that would have been due by now. Gives how late the next one is.
    fn forget(&mut self, p: &CobaltParams, now: Instant) -> i64 {
        for _ in 0..DECAY_MAX {
            self.forget_one(p);
            if !self.due(now) {
                break;
            }
        }
        since(now, self.drop_next)
    }

    /// How long ago the next signal was due, ns; negative if it is to come.
    #[must_use]
    pub(crate) const fn lag(&self, now: Instant) -> i64 {
        since(now, self.drop_next)
    }

    /// Whether nothing is remembered that matters: then the queue need not be looked at again.
    #[must_use]
    pub const fn at_rest(&self, now: Instant) -> bool {
        self.p_drop == 0 && self.count == 0 && since(now, self.drop_next) >= 0
    }

    /// Whether the law is signalling.
    #[must_use]
    pub const fn dropping(&self) -> bool {
        self.dropping
    }
    /// Signals since it began, less those forgotten.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }
    /// BLUE's probability, of 2^32.
    #[must_use]
    pub const fn p_drop(&self) -> u32 {
        self.p_drop
    }
    /// How long ago BLUE last changed its mind, ns.
    #[must_use]
    pub(crate) const fn blue_age(&self, now: Instant) -> i64 {
        since(now, self.blue_timer)
    }
    /// When the next signal is due.
    #[must_use]
    pub const fn drop_next(&self) -> Instant {
        self.drop_next
    }

    const fn due(&self, now: Instant) -> bool {
        self.count > 0 && since(now, self.drop_next) >= 0
    }

    /// BLUE moves at most once per target.
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

    /// One spacing after `t`: `interval / sqrt(count)`, rounded down.
    fn after(&self, t: Instant, p: &CobaltParams) -> Instant {
        let spacing = (u128::from(p.interval) * u128::from(self.root)) >> 32;
        t + Nanos(u64::try_from(spacing).unwrap_or(u64::MAX))
    }
}
