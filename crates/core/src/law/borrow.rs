//! Hierarchical token buckets with borrowing, on numbers: the classes that may send, their turns,
//! and the charge for each packet (M. Devera, "Hierarchical token bucket theory", 2002).
//!
//! A class has tokens for its rate and for its ceiling. With both it *can send*; without those of
//! its rate it *may borrow* from the class above; without those of its ceiling it can do neither. A
//! class that can send stands, if it or a class below it has packets, in the *row* of its level and
//! of the packets' priority. A class that may borrow stands in the *feed* of the class above. A row
//! leads to a leaf through feeds: the leaf sends, with the tokens of the class in the row. Rows and
//! feeds are in the order of minor numbers, and each has a turn. A class out of tokens waits for
//! the time at which it has them again.
//!
//! - I1: a class is in one row, or in one feed, or in none, for each priority that waits in it or
//!   below.
//! - I2: a class that cannot send waits on the wheel or stands in the list of due classes.
//! - I3: a feed has members if and only if the class above is active in that priority.
//!
//! Beside its own ceiling, a class may share one with classes of other trees, on other threads
//! ([`super::lease`]). The traffic of the class and of those below it is paid for there; while that
//! is impossible, the class can neither send nor borrow.
//!
//! **Cost.** To find a leaf takes a step for each level of the tree (16-bit sets, see
//! [`super::bits`]); so does a charge. A class that becomes due is O(1) ([`crate::base::wheel`]),
//! once between two packets of its own. No cost of a packet grows with the number of classes. The
//! addition or removal of a class moves those of its siblings that stand between it and the last
//! such change (`siblings`).
//!
//! **Memory.** 128 bytes for each class (two cache lines), 32 of numbers that few packets touch, 24
//! of the wheel, four for each minor number; for a class with classes below 300 and at most four
//! bytes for each of them; bits for each row and feed in use.

mod classes;
mod ladder;
mod leases;
mod rows;
mod siblings;
mod waits;

use super::bucket::{Sizing, TICK_NS, to_i64};
use super::lease::Lease;
use crate::base::bound::Bound;
use crate::base::time::Instant;
use crate::base::units::RateMul;
use classes::{Classes, Hot, Mode};
use ladder::Ladder;
use leases::Leases;
use waits::Waits;

/// Levels of classes (tc-htb(8): "depth 8"). Leaves are level 0, a root class with classes below is
/// level 7.
pub const LEVELS: usize = 8;
/// Priorities of packets.
pub(crate) const PRIOS: usize = 8;
/// Largest number of classes: higher indexes are sentinels.
pub const CLASSES_MAX: usize = OUT as usize;

/// No class.
const NONE: u16 = u16::MAX;
/// `due_prev` of a class that is not listed.
const OUT: u16 = u16::MAX - 1;
/// Tokens stay within this of zero, ns: savings and debts of a class are forgotten after a minute.
const SPAN: i64 = 60_000_000_000;
/// Bound on the steps of one search for a leaf: it resets the turn of each feed at most once.
const STEPS_MAX: usize = u16::MAX as usize;

/// Parameters of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rate that the class has of its own right.
    pub rate: RateMul,
    /// Highest rate, with borrowed tokens.
    pub ceil: RateMul,
    /// Depth of the rate's bucket, in ticks of 64 ns.
    pub buffer: u32,
    /// Depth of the ceiling's bucket, in ticks of 64 ns.
    pub cbuffer: u32,
    /// Charge for its packets; overhead and mpu are 16 bits.
    pub sizing: Sizing,
    /// Bytes that the class sends in one turn, at most 2^31 - 1.
    pub quantum: u32,
    /// Priority, below 8; lower ones go first.
    pub prio: u8,
}

/// Numbers of a class for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Wire bytes and segments that left through the class.
    pub sent: (u64, u64),
    /// Packets sent with the class's own tokens, by itself or by a class below.
    pub lent: u32,
    /// Packets sent with the tokens of a class above.
    pub borrowed: u32,
    /// Tokens of its rate, in ticks.
    pub tokens: i64,
    /// Tokens of its ceiling, in ticks.
    pub ctokens: i64,
    /// Times that the class ran out of the ceiling's tokens.
    pub overlimits: u32,
    /// Packets dropped on their way into the class.
    pub drops: u32,
    /// Bytes of a turn.
    pub quantum: u32,
    /// Level; 0 for a leaf.
    pub level: u8,
}

impl Hot {
    /// Returns the mode `since` ns after `checked`, and the time in ns until a better mode, 0 for
    /// the best.
    #[inline]
    fn mode_after(&self, since: i64) -> (Mode, i64) {
        let ctokens = self.ctokens + since;
        if ctokens < 0 {
            return (Mode::CantSend, -ctokens);
        }
        let tokens = self.tokens + since;
        if tokens < 0 { (Mode::MayBorrow, -tokens) } else { (Mode::CanSend, 0) }
    }
    /// Returns the nanoseconds since `checked`, at most `SPAN`.
    #[inline]
    fn since(&self, now: Instant) -> i64 {
        to_i64(now.saturating_since(self.checked)).min(SPAN)
    }
}

/// Returns the tokens after `since` ns and a packet of `size` bytes at a rate, in a bucket of
/// `depth` ticks.
#[inline(always)]
fn spent(tokens: i64, since: i64, depth: u32, rate: RateMul, size: u64) -> i64 {
    let full = i64::from(depth) * TICK_NS as i64;
    // All prices above any bucket's depth leave the same tokens, so the cap only prevents an
    // overflow.
    let price = rate.time_floor(size).0.min(PRICE_MAX) as i64;
    ((tokens + since).min(full) - price).max(1 - SPAN)
}

/// A price beyond all tokens: those are within 2^38 of zero.
const PRICE_MAX: u64 = 1 << 62;

/// The classes with their turns, tokens and waits.
#[derive(Clone, Debug)]
pub(crate) struct Borrow {
    pub(crate) ladder: Ladder,
    waits: Waits,
    leases: Leases,
    /// Times that a class ran out of its ceiling's tokens since the last `take_overlimits`.
    overlimits: u32,
}

impl Default for Borrow {
    fn default() -> Self {
        Self::new()
    }
}

impl Borrow {
    /// Returns an empty set of classes.
    pub fn new() -> Self {
        Self { ladder: Ladder::new(), waits: Waits::new(), leases: Leases::default(), overlimits: 0 }
    }

    /// Returns the classes.
    #[inline]
    pub(crate) const fn classes(&self) -> &Classes {
        &self.ladder.classes
    }

    /// Adds a class with full buckets and a minor number not yet in use, below the class in a slot
    /// or at the root. A leaf above it, in which no packet may wait, is a leaf no longer. Returns
    /// the slot of the new class.
    pub fn add(&mut self, minor: u16, parent: Option<usize>, shape: &Shape, now: Instant) -> usize {
        let i = self.ladder.classes.insert(minor, now);
        self.waits.reserve(i + 1);
        if let Some(p) = parent {
            if self.classes().is_leaf(p) {
                self.ladder.deactivate(p);
                self.waits.unwait(&mut self.ladder.classes.hot, p);
            }
            self.ladder.classes.adopt(p, i);
        }
        self.set(i, shape);
        self.ladder.classes.fill(i, now);
        i
    }

    /// Gives a class another shape. Its tokens, mode and turns stay, and so does the priority in
    /// which it waits.
    pub fn set(&mut self, i: usize, shape: &Shape) {
        self.ladder.classes.set(i, shape);
        self.ladder.make_room(i);
    }

    /// Sets the ceiling that a class shares with classes elsewhere, beside its own, or removes it.
    pub fn share(&mut self, i: usize, lease: Option<Lease>) {
        self.leases.share(i, lease);
    }
    /// Returns the ceiling that a class shares.
    pub fn shared(&self, i: usize) -> Option<&Lease> {
        self.leases.of(i)
    }

    /// Removes a leaf in which no packet waits. Returns the slot of the class above if that is a
    /// leaf again, with full buckets.
    pub fn remove(&mut self, i: usize, now: Instant) -> Option<usize> {
        self.ladder.deactivate(i);
        self.waits.unwait(&mut self.ladder.classes.hot, i);
        self.leases.share(i, None);
        let p = self.ladder.classes.remove(i)?;
        self.waits.unwait(&mut self.ladder.classes.hot, p);
        self.ladder.classes.bare(p);
        self.ladder.classes.fill(p, now);
        Some(p)
    }

    /// Makes all classes inactive and restores the buckets of a class that never sent a packet.
    pub fn reset(&mut self) {
        self.ladder.rest();
        let classes = &mut self.ladder.classes;
        for i in 0..classes.hot.len() {
            self.waits.unwait(&mut classes.hot, i);
            classes.refill(i);
        }
        self.leases.restart();
        self.waits.clear();
        self.ladder.rows.restart();
        self.overlimits = 0;
    }

    /// Counts a packet that was dropped on its way into a class.
    #[cold]
    pub(crate) fn count_drop(&mut self, i: usize) {
        let cold = &mut self.ladder.classes.cold[i];
        cold.drops = cold.drops.wrapping_add(1);
    }

    /// Moves the classes whose deadline has passed to the classes that are due.
    #[inline]
    pub fn begin(&mut self, now: Instant) {
        self.waits.begin(&mut self.ladder.classes.hot, now);
    }

    /// Returns the first level from `from` on at which a class is due or stands in a row.
    #[inline]
    pub(crate) fn next_level(&self, from: usize) -> Option<usize> {
        // A shift past the last level leaves nothing of the mask.
        let left = u32::from(self.ladder.rows.levels() | self.waits.levels()) & (u32::MAX << from);
        (left != 0).then_some(left.trailing_zeros() as usize)
    }

    /// Updates the due classes of a level.
    #[inline]
    pub(crate) fn serve_due(&mut self, level: usize, now: Instant) {
        if self.waits.levels() >> level & 1 != 0 {
            self.look_at_due(level, now);
        }
    }

    #[inline(never)]
    fn look_at_due(&mut self, level: usize, now: Instant) {
        // A class that must wait further goes back to the wheel, so the loop meets each class once.
        let mut bound = Bound::of(self.classes().hot.len());
        while let Some(i) = self.waits.take_due(&mut self.ladder.classes.hot, level) {
            bound.turn();
            let hot = &self.classes().hot[i];
            let alone = hot.mode_after(hot.since(now));
            let (mode, wait) = self.shared_mode(i, alone, now, 0);
            self.take_mode(i, mode);
            if mode != Mode::CanSend {
                self.waits.wait(i, now, wait);
            }
        }
    }

    /// Returns a time no later than the next deadline, if all due classes have been served.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waits.next()
    }

    /// Charges a leaf and the classes above it for a packet that left with the tokens of the class
    /// of `level` on the way up.
    #[inline]
    pub fn charge(&mut self, i: usize, level: usize, now: Instant, wire_len: u32, segs: u16) {
        let mut at = i;
        let mut bound = Bound::of(LEVELS);
        loop {
            bound.turn();
            let hot = &mut self.ladder.classes.hot[at];
            let since = hot.since(now);
            let sizing = Sizing { overhead: hot.overhead.into(), mpu: hot.mpu.into(), layer: hot.layer };
            let size = sizing.size(wire_len);
            if usize::from(hot.level) >= level {
                hot.lent = hot.lent.wrapping_add(u32::from(usize::from(hot.level) == level));
                hot.tokens = spent(hot.tokens, since, hot.buffer, hot.rate, size);
            } else {
                hot.borrowed = hot.borrowed.wrapping_add(1);
                // Time passes without a payment; the next payment cuts the excess over the depth.
                hot.tokens += since;
            }
            hot.ctokens = spent(hot.ctokens, since, hot.cbuffer, hot.ceil, size);
            hot.checked = now;
            hot.bytes += u64::from(wire_len);
            hot.segs += u64::from(segs);
            let (old, above) = (hot.mode, usize::from(hot.parent));
            let alone = hot.mode_after(0);
            let (mode, wait) = self.shared_mode(at, alone, now, size);
            if mode != old {
                self.change_mode(at, mode, now, wait);
            }
            if above >= self.ladder.classes.hot.len() {
                return;
            }
            at = above;
        }
    }

    /// Takes the mode that a payment has led to; the wait for a better one begins at `now`.
    #[inline(never)]
    fn change_mode(&mut self, i: usize, mode: Mode, now: Instant, wait: i64) {
        self.take_mode(i, mode);
        self.waits.unwait(&mut self.ladder.classes.hot, i);
        if mode != Mode::CanSend {
            self.waits.wait(i, now, wait);
        }
    }

    /// Returns the mode of a class and the time in ns until a better one, after a packet of `size`
    /// bytes left through it; 0 for no packet. `alone` is the same by the class's own tokens.
    #[inline(always)]
    fn shared_mode(&mut self, i: usize, alone: (Mode, i64), now: Instant, size: u64) -> (Mode, i64) {
        if self.leases.is_empty() {
            return alone;
        }
        let waiting = self.classes().hot[i].active != 0;
        self.leases.mode(i, waiting, alone, now, size)
    }

    /// Returns and clears the number of times that a class ran out of its ceiling's tokens.
    #[inline]
    pub(crate) const fn take_overlimits(&mut self) -> u32 {
        core::mem::replace(&mut self.overlimits, 0)
    }

    /// Sets the mode of a class and moves an active class to the place of that mode.
    fn take_mode(&mut self, i: usize, mode: Mode) {
        let old = self.ladder.classes.hot[i].mode;
        if old == mode {
            return;
        }
        if mode == Mode::CantSend {
            self.ladder.classes.cold[i].overlimits = self.ladder.classes.cold[i].overlimits.wrapping_add(1);
            self.overlimits += 1;
        }
        if self.ladder.classes.hot[i].active != 0 && old != Mode::CantSend {
            self.ladder.leave(i);
        }
        self.ladder.classes.hot[i].mode = mode;
        if self.ladder.classes.hot[i].active != 0 && mode != Mode::CantSend {
            self.ladder.join(i);
        }
    }
}

/// Returns the bits of a mask, lowest first.
fn bits(mut mask: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (bit < 8).then_some(bit)
    })
}
