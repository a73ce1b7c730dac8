//! Work between two packets: classes become due, leaves take turns, classes are charged.

use super::{Borrow, Hot, Mode, NONE, OUT, PRIOS, SPAN, STEPS_MAX, Turn, bits};
use crate::base::time::{Instant, Nanos};
use crate::base::units::RateMul;
use crate::law::bucket::{Sizing, to_i64};

/// Marks the row of a level, in place of the slot of an inner class.
const ROW: u16 = NONE;

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
    let full = i64::from(depth) * super::TICK_NS as i64;
    // All prices above any bucket's depth leave the same tokens, so the cap only prevents an
    // overflow.
    let price = rate.time_floor(size).0.min(PRICE_MAX) as i64;
    ((tokens + since).min(full) - price).max(1 - SPAN)
}

/// A price beyond all tokens: those are within 2^38 of zero.
const PRICE_MAX: u64 = 1 << 62;

impl Borrow {
    /// True if no leaf is active.
    #[inline]
    pub(crate) const fn is_idle(&self) -> bool {
        self.leaves == 0
    }
    /// Returns the number of active leaves.
    #[inline]
    pub(crate) const fn active_leaves(&self) -> u32 {
        self.leaves
    }

    /// Makes a leaf active, because it has its first packet. Does nothing to an active leaf.
    #[inline(never)]
    pub(crate) fn activate(&mut self, i: usize) {
        if self.hot[i].active == 0 {
            self.hot[i].active = 1 << self.cold[i].prio;
            self.leaves += 1;
            self.join(i);
        }
    }

    /// Makes a leaf inactive, because it has no packets left. Does nothing to an inactive leaf.
    #[inline(never)]
    pub(crate) fn deactivate(&mut self, i: usize) {
        if self.hot[i].active != 0 {
            self.leave(i);
            self.hot[i].active = 0;
            self.leaves -= 1;
        }
    }

    /// Moves the classes whose deadline has passed from the wheel to the list of due classes.
    #[inline]
    pub fn begin(&mut self, now: Instant) {
        if now >= self.asleep {
            self.awake(now);
        }
    }

    #[inline(never)]
    fn awake(&mut self, now: Instant) {
        while let Some((i, _)) = self.wheel.pop_due(now) {
            // Ids in the wheel are slots, fewer than `CLASSES_MAX`.
            self.list_due(i as u16);
        }
        self.asleep = self.wheel.next().unwrap_or(Instant::MAX);
    }

    /// Returns the first level from `from` on at which a class is due or stands in a row.
    #[inline]
    pub(crate) fn next_level(&self, from: usize) -> Option<usize> {
        // A shift past the last level leaves nothing of the mask.
        let left = u32::from(self.level_mask | self.due_mask) & (u32::MAX << from);
        (left != 0).then_some(left.trailing_zeros() as usize)
    }

    /// Updates the due classes of a level.
    #[inline]
    pub(crate) fn serve_due(&mut self, level: usize, now: Instant) {
        if self.due_mask >> level & 1 != 0 {
            self.look_at_due(level, now);
        }
    }

    #[inline(never)]
    fn look_at_due(&mut self, level: usize, now: Instant) {
        // A class that must wait further goes back to the wheel, so the loop meets each class once.
        while self.due_mask >> level & 1 != 0 {
            let i = usize::from(self.due[level].head);
            self.unlist_due(i);
            let since = self.hot[i].since(now);
            let (mode, wait) = self.shared_mode(i, self.hot[i].mode_after(since), now, 0);
            self.take_mode(i, mode);
            if mode != Mode::CanSend {
                self.wait(i, now, wait);
            }
        }
    }

    /// Returns the priorities of a level whose rows have members, one bit each.
    #[inline]
    pub const fn prios(&self, level: usize) -> u8 {
        self.row_mask[level]
    }

    /// Returns a time no later than the next deadline, if all due classes have been served.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.wheel.next()
    }

    /// Returns the leaf whose turn it is at a level, in a priority.
    #[inline]
    pub fn leaf(&mut self, level: usize, prio: usize) -> Option<usize> {
        let mut at = self.row_turns[level * PRIOS + prio];
        // At most `LEVELS` rounds. While every class on the way has a member in turn, no turn needs
        // to be sought.
        while let Some(hot) = self.hot.get(usize::from(at)) {
            if hot.level == 0 {
                return Some(usize::from(at));
            }
            let turn = Turn::of(hot.turns[prio]);
            if turn.from != 0 {
                break;
            }
            at = turn.at;
        }
        self.seek(level, prio)
    }

    /// Does the work of `leaf` where a turn must be sought.
    #[inline(never)]
    fn seek(&mut self, level: usize, prio: usize) -> Option<usize> {
        let mut at = ROW;
        for _ in 0..STEPS_MAX {
            let turn = self.turn(at, level, prio);
            let mut next = turn.at;
            if next == NONE && turn.from != 0 {
                next = self.member_from(at, prio, turn.from);
            }
            if next == NONE {
                // End of the row or feed: it starts again from its first member, after the class
                // above has passed its turn on.
                next = self.member(at, level, prio, 0);
                self.set_turn(at, level, prio, Turn { at: next, from: 0 });
                if at != ROW {
                    at = self.above(at, level);
                    self.advance(at, level, prio);
                } else if next == NONE {
                    return None;
                }
                continue;
            }
            if next != turn.at || turn.from != 0 {
                self.set_turn(at, level, prio, Turn { at: next, from: 0 });
            }
            if self.hot[usize::from(next)].level == 0 {
                return Some(usize::from(next));
            }
            at = next;
        }
        None
    }

    /// Passes the turn of a leaf at a level on to the next member.
    #[inline]
    pub fn pass(&mut self, i: usize, level: usize, prio: usize) {
        let at = if level == 0 { ROW } else { self.hot[i].parent };
        self.advance(at, level, prio);
    }

    /// Charges a packet's bytes to a leaf's turn at a level and passes the turn on once it is used
    /// up.
    #[inline]
    pub fn spend(&mut self, i: usize, level: usize, prio: usize, wire_len: u32) {
        let hot = &mut self.hot[i];
        // The word holds the bits of an `i32`. With quanta below packet sizes it would sink for
        // ever; it saturates.
        let left = (hot.turns[level] as i32).saturating_sub_unsigned(wire_len);
        let over = left < 0;
        hot.turns[level] = if over { left.saturating_add_unsigned(hot.quantum) } else { left } as u32;
        if over {
            self.pass(i, level, prio);
        }
    }

    /// Charges a leaf and the classes above it for a packet that left with the tokens of the class
    /// of `level` on the way up.
    #[inline]
    pub fn charge(&mut self, i: usize, level: usize, now: Instant, wire_len: u32, segs: u16) {
        let mut at = i;
        // At most `LEVELS` rounds.
        loop {
            let hot = &mut self.hot[at];
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
            if above >= self.hot.len() {
                return;
            }
            at = above;
        }
    }

    /// Takes the mode that a payment has led to; the wait for a better one begins at `now`.
    #[inline(never)]
    fn change_mode(&mut self, i: usize, mode: Mode, now: Instant, wait: i64) {
        self.take_mode(i, mode);
        self.unwait(i);
        if mode != Mode::CanSend {
            self.wait(i, now, wait);
        }
    }

    /// Returns the mode of a class and the time in ns until a better one, after a packet of `size`
    /// bytes left through it; 0 for no packet. `alone` is the same by the class's own tokens.
    #[inline(always)]
    fn shared_mode(&mut self, i: usize, alone: (Mode, i64), now: Instant, size: u64) -> (Mode, i64) {
        if self.leases.is_empty() { alone } else { self.leased_mode(i, alone, now, size) }
    }

    /// Does the work of `shared_mode` where some class shares its ceiling.
    #[inline(never)]
    fn leased_mode(&mut self, i: usize, alone: (Mode, i64), now: Instant, size: u64) -> (Mode, i64) {
        let mut leases = self.leases.iter_mut();
        let Some((_, lease)) = leases.find(|(slot, _)| usize::from(*slot) == i) else { return alone };
        let waiting = self.hot[i].active != 0;
        // The backlog below the class is not known here: a busy class asks for as much as a lease
        // holds.
        match lease.owe(size, if waiting { u64::MAX } else { 0 }, now) {
            Err(t) => {
                let wait = to_i64(t.saturating_since(now));
                (Mode::CantSend, if alone.0 == Mode::CantSend { wait.max(alone.1) } else { wait })
            }
            Ok(()) if !waiting => {
                lease.rest();
                alone
            }
            Ok(()) => alone,
        }
    }

    /// Returns and clears the number of times that a class ran out of its ceiling's tokens.
    #[inline]
    pub(crate) const fn take_overlimits(&mut self) -> u32 {
        core::mem::replace(&mut self.overlimits, 0)
    }

    /// Sets the mode of a class and moves an active class to the place of that mode.
    fn take_mode(&mut self, i: usize, mode: Mode) {
        let old = self.hot[i].mode;
        if old == mode {
            return;
        }
        if mode == Mode::CantSend {
            self.cold[i].overlimits = self.cold[i].overlimits.wrapping_add(1);
            self.overlimits += 1;
        }
        if self.hot[i].active != 0 && old != Mode::CantSend {
            self.leave(i);
        }
        self.hot[i].mode = mode;
        if self.hot[i].active != 0 && mode != Mode::CantSend {
            self.join(i);
        }
    }

    /// Puts an active class into the row or feed of its mode, and classes above it as far as
    /// necessary.
    fn join(&mut self, mut i: usize) {
        let mut mask = self.hot[i].active;
        // At most `LEVELS` rounds.
        while mask != 0 && self.hot[i].mode == Mode::MayBorrow {
            let Hot { parent, rank, .. } = self.hot[i];
            let Some(above) = self.hot.get_mut(usize::from(parent)) else { return };
            let inner = &mut self.inner[usize::from(above.inner)];
            above.active |= mask;
            for prio in bits(mask) {
                let feed = &mut inner.feeds[prio];
                if !feed.is_empty() {
                    // The class above is already in its place for this priority.
                    mask &= !(1 << prio);
                }
                feed.set(usize::from(rank));
            }
            i = usize::from(parent);
        }
        let Hot { mode, level, minor, .. } = self.hot[i];
        if mode == Mode::CanSend {
            for prio in bits(mask) {
                self.rows[usize::from(level) * PRIOS + prio].set(usize::from(minor));
            }
            self.row_mask[usize::from(level)] |= mask;
            if mask != 0 {
                self.level_mask |= 1 << level;
            }
        }
    }

    /// Takes an active class out of its row or feed, and classes above it as far as necessary.
    fn leave(&mut self, mut i: usize) {
        let mut mask = self.hot[i].active;
        // At most `LEVELS` rounds.
        while mask != 0 && self.hot[i].mode == Mode::MayBorrow {
            let Hot { parent, rank, minor, .. } = self.hot[i];
            let Some(above) = self.hot.get_mut(usize::from(parent)) else { return };
            let inner = &mut self.inner[usize::from(above.inner)];
            let mut emptied = 0;
            for prio in bits(mask) {
                if usize::from(Turn::of(above.turns[prio]).at) == i {
                    // The turn goes to the next member behind this class, or to the class itself if
                    // it is back by then.
                    above.turns[prio] = Turn { at: NONE, from: minor }.bits();
                }
                inner.feeds[prio].clear(usize::from(rank));
                emptied |= u8::from(inner.feeds[prio].is_empty()) << prio;
            }
            mask = emptied;
            above.active &= !mask;
            i = usize::from(parent);
        }
        let Hot { mode, level, minor, .. } = self.hot[i];
        if mode != Mode::CanSend {
            return;
        }
        for prio in bits(mask) {
            let at = usize::from(level) * PRIOS + prio;
            if usize::from(self.row_turns[at]) == i {
                self.advance(ROW, level.into(), prio);
            }
            self.rows[at].clear(usize::from(minor));
            if self.rows[at].is_empty() {
                self.row_mask[usize::from(level)] &= !(1 << prio);
            }
        }
        if self.row_mask[usize::from(level)] == 0 {
            self.level_mask &= !(1 << level);
        }
    }

    /// Returns the turn in the row, or in the feed of a class.
    #[inline]
    fn turn(&self, at: u16, level: usize, prio: usize) -> Turn {
        match self.hot.get(usize::from(at)) {
            None => Turn { at: self.row_turns[level * PRIOS + prio], from: 0 },
            Some(hot) => Turn::of(hot.turns[prio]),
        }
    }
    #[inline]
    fn set_turn(&mut self, at: u16, level: usize, prio: usize, turn: Turn) {
        match self.hot.get_mut(usize::from(at)) {
            None => self.row_turns[level * PRIOS + prio] = turn.at,
            Some(hot) => hot.turns[prio] = turn.bits(),
        }
    }
    /// Returns the first member of the row from a minor number on, or of a feed from a rank on;
    /// `NONE` if there is none.
    #[inline]
    fn member(&self, at: u16, level: usize, prio: usize, from: usize) -> u16 {
        let found = match self.hot.get(usize::from(at)) {
            // Every minor number in a row belongs to an existing class.
            None => self.rows[level * PRIOS + prio].next(from).and_then(|m| self.minors.slot(m as u16)),
            Some(hot) => {
                let inner = &self.inner[usize::from(hot.inner)];
                inner.feeds[prio].next(from).map(|rank| usize::from(inner.children[rank]))
            }
        };
        found.map_or(NONE, |i| i as u16)
    }
    /// Returns the first member of a feed from a minor number on.
    fn member_from(&self, at: u16, prio: usize, minor: u16) -> u16 {
        let children = &self.inner[usize::from(self.hot[usize::from(at)].inner)].children;
        let rank = children.partition_point(|c| self.hot[usize::from(*c)].minor < minor);
        self.member(at, 0, prio, rank)
    }
    /// Gives the turn to the next member, or at the end to none.
    #[inline(never)]
    fn advance(&mut self, at: u16, level: usize, prio: usize) {
        let turn = self.turn(at, level, prio);
        let Some(hot) = self.hot.get(usize::from(turn.at)) else { return };
        let behind = usize::from(if at == ROW { hot.minor } else { hot.rank }) + 1;
        let next = self.member(at, level, prio, behind);
        self.set_turn(at, level, prio, Turn { at: next, from: turn.from });
    }
    /// Returns the class above on the way up to a row of `level`, or `ROW` above the members of
    /// that row.
    #[inline]
    fn above(&self, at: u16, level: usize) -> u16 {
        let hot = &self.hot[usize::from(at)];
        if usize::from(hot.level) == level { ROW } else { hot.parent }
    }

    /// Makes a class wait for tokens.
    #[inline]
    fn wait(&mut self, i: usize, now: Instant, ns: i64) {
        if self.wheel.is_empty() {
            // An idle wheel is not advanced, so its clock is first set to the present.
            let _ = self.wheel.pop_due(now);
        }
        let due = now + Nanos(ns.max(1).unsigned_abs());
        self.wheel.insert(i as u32, due);
        self.asleep = self.asleep.min(due);
    }
    /// Ends the wait of a class.
    #[inline]
    pub(super) fn unwait(&mut self, i: usize) {
        if self.hot[i].due_prev == OUT {
            self.wheel.remove(i as u32);
        } else {
            self.unlist_due(i);
        }
    }
    fn list_due(&mut self, i: u16) {
        let level = usize::from(self.hot[usize::from(i)].level);
        let last = core::mem::replace(&mut self.due[level].tail, i);
        match self.hot.get_mut(usize::from(last)) {
            Some(before) => before.due_next = i,
            None => self.due[level].head = i,
        }
        let hot = &mut self.hot[usize::from(i)];
        (hot.due_prev, hot.due_next) = (last, NONE);
        self.due_mask |= 1 << level;
    }
    fn unlist_due(&mut self, i: usize) {
        let Hot { due_prev, due_next, level, .. } = self.hot[i];
        let level = usize::from(level);
        match self.hot.get_mut(usize::from(due_prev)) {
            Some(before) => before.due_next = due_next,
            None => self.due[level].head = due_next,
        }
        match self.hot.get_mut(usize::from(due_next)) {
            Some(after) => after.due_prev = due_prev,
            None => self.due[level].tail = due_prev,
        }
        self.hot[i].due_prev = OUT;
        if self.due[level].head == NONE {
            self.due_mask &= !(1 << level);
        }
    }
}
