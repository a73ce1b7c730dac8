//! The ladder: the rows and feeds in which classes stand, and the turn in each.

use super::classes::{Classes, Hot, Mode, Turn};
use super::rows::Rows;
use super::{LEVELS, NONE, STEPS_MAX, bits};
use crate::base::bound::Bound;

/// Marks the row of a level, in place of the slot of an inner class.
const ROW: u16 = NONE;

/// The classes and their turns.
#[derive(Clone, Debug)]
pub(crate) struct Ladder {
    pub(super) classes: Classes,
    pub(super) rows: Rows,
    /// Number of active leaves.
    leaves: u32,
}

impl Ladder {
    pub(super) fn new() -> Self {
        Self { classes: Classes::default(), rows: Rows::new(), leaves: 0 }
    }

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
        if self.classes.hot[i].active == 0 {
            self.classes.hot[i].active = 1 << self.classes.cold[i].prio;
            self.leaves += 1;
            self.join(i);
        }
    }

    /// Makes a leaf inactive, because it has no packets left. Does nothing to an inactive leaf.
    #[inline(never)]
    pub(crate) fn deactivate(&mut self, i: usize) {
        if self.classes.hot[i].active != 0 {
            self.leave(i);
            self.classes.hot[i].active = 0;
            self.leaves -= 1;
        }
    }

    /// Makes all leaves inactive.
    pub fn rest(&mut self) {
        for i in 0..self.classes.hot.len() {
            if self.classes.hot[i].level == 0 {
                self.deactivate(i);
            }
        }
    }

    /// Makes room in every row and feed in which a class or those above may stand for its packets.
    pub(super) fn make_room(&mut self, i: usize) {
        let prio = usize::from(self.classes.cold[i].prio);
        let mut at = i;
        let mut bound = Bound::of(LEVELS);
        loop {
            bound.turn();
            let Hot { level, minor, parent, .. } = self.classes.hot[at];
            self.rows.reserve(level, prio, minor);
            let Some(above) = self.classes.hot.get(usize::from(parent)) else { return };
            self.classes.inner[usize::from(above.inner)].make_room(prio);
            at = usize::from(parent);
        }
    }

    /// Returns the priorities of a level whose rows have members, one bit each.
    #[inline]
    pub const fn prios(&self, level: usize) -> u8 {
        self.rows.prios(level)
    }

    /// Returns the leaf whose turn it is at a level, in a priority.
    #[inline]
    pub fn leaf(&mut self, level: usize, prio: usize) -> Option<usize> {
        let mut at = self.rows.turn(level, prio);
        // While every class on the way has a member in turn, no turn needs to be sought.
        let mut bound = Bound::of(LEVELS);
        while let Some(hot) = self.classes.hot.get(usize::from(at)) {
            bound.turn();
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
            if self.classes.hot[usize::from(next)].level == 0 {
                return Some(usize::from(next));
            }
            at = next;
        }
        None
    }

    /// Passes the turn of a leaf at a level on to the next member.
    #[inline]
    pub fn pass(&mut self, i: usize, level: usize, prio: usize) {
        let at = if level == 0 { ROW } else { self.classes.hot[i].parent };
        self.advance(at, level, prio);
    }

    /// Returns the leaf that has its turn `turns` turns behind a leaf, if all between have packets
    /// until then and stand below the same class: a hint. Asks for its state.
    pub(crate) fn ask_ahead(&self, i: usize, turns: u32) -> Option<usize> {
        let Hot { parent, rank, minor, mode, .. } = *self.classes.hot.get(i)?;
        let prio = usize::from(self.classes.cold.get(i)?.prio);
        let slot = match self.classes.hot.get(usize::from(parent)).filter(|_| mode != Mode::CanSend) {
            None => {
                let row = |from| self.rows.next(0, prio, from);
                self.classes.slot(nth_behind(minor.into(), turns, row)? as u16)?
            }
            Some(above) => {
                let below = &self.classes.inner[usize::from(above.inner)];
                below.at(nth_behind(rank.into(), turns, |from| below.feeds[prio].next(from))?)
            }
        };
        self.classes.ask(slot);
        Some(slot)
    }

    /// Charges a packet's bytes to a leaf's turn at a level and passes the turn on once it is used
    /// up.
    #[inline]
    pub fn spend(&mut self, i: usize, level: usize, prio: usize, wire_len: u32) {
        let hot = &mut self.classes.hot[i];
        // The word holds the bits of an `i32`. With quanta below packet sizes it would sink for
        // ever; it saturates.
        let left = (hot.turns[level] as i32).saturating_sub_unsigned(wire_len);
        let over = left < 0;
        hot.turns[level] = if over { left.saturating_add_unsigned(hot.quantum) } else { left } as u32;
        if over {
            self.pass(i, level, prio);
        }
    }

    /// Puts an active class into the row or feed of its mode, and classes above it as far as
    /// necessary.
    pub(super) fn join(&mut self, mut i: usize) {
        let mut mask = self.classes.hot[i].active;
        let mut bound = Bound::of(LEVELS);
        while mask != 0 && self.classes.hot[i].mode == Mode::MayBorrow {
            bound.turn();
            let Hot { parent, rank, .. } = self.classes.hot[i];
            let Some(above) = self.classes.hot.get_mut(usize::from(parent)) else { return };
            let inner = &mut self.classes.inner[usize::from(above.inner)];
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
        let Hot { mode, level, minor, .. } = self.classes.hot[i];
        if mode == Mode::CanSend {
            self.rows.join(level, mask, minor);
        }
    }

    /// Takes an active class out of its row or feed, and classes above it as far as necessary.
    pub(super) fn leave(&mut self, mut i: usize) {
        let mut mask = self.classes.hot[i].active;
        let mut bound = Bound::of(LEVELS);
        while mask != 0 && self.classes.hot[i].mode == Mode::MayBorrow {
            bound.turn();
            let Hot { parent, rank, minor, .. } = self.classes.hot[i];
            let Some(above) = self.classes.hot.get_mut(usize::from(parent)) else { return };
            let inner = &mut self.classes.inner[usize::from(above.inner)];
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
        let Hot { mode, level, minor, .. } = self.classes.hot[i];
        if mode != Mode::CanSend {
            return;
        }
        for prio in bits(mask) {
            if usize::from(self.rows.turn(level.into(), prio)) == i {
                self.advance(ROW, level.into(), prio);
            }
            self.rows.leave(level, prio, minor);
        }
    }

    /// Returns the turn in the row, or in the feed of a class.
    #[inline]
    fn turn(&self, at: u16, level: usize, prio: usize) -> Turn {
        match self.classes.hot.get(usize::from(at)) {
            None => Turn { at: self.rows.turn(level, prio), from: 0 },
            Some(hot) => Turn::of(hot.turns[prio]),
        }
    }
    #[inline]
    fn set_turn(&mut self, at: u16, level: usize, prio: usize, turn: Turn) {
        match self.classes.hot.get_mut(usize::from(at)) {
            None => self.rows.set_turn(level, prio, turn.at),
            Some(hot) => hot.turns[prio] = turn.bits(),
        }
    }
    /// Returns the first member of the row from a minor number on, or of a feed from a rank on;
    /// `NONE` if there is none.
    #[inline]
    fn member(&self, at: u16, level: usize, prio: usize, from: usize) -> u16 {
        let found = match self.classes.hot.get(usize::from(at)) {
            // Every minor number in a row belongs to an existing class.
            None => self.rows.next(level, prio, from).and_then(|m| self.classes.slot(m as u16)),
            Some(hot) => {
                let inner = &self.classes.inner[usize::from(hot.inner)];
                inner.feeds[prio].next(from).map(|rank| inner.at(rank))
            }
        };
        found.map_or(NONE, |i| i as u16)
    }
    /// Returns the first member of a feed from a minor number on.
    fn member_from(&self, at: u16, prio: usize, minor: u16) -> u16 {
        let siblings = &self.classes.inner[usize::from(self.classes.hot[usize::from(at)].inner)];
        self.member(at, 0, prio, siblings.rank_from(&self.classes.hot, minor))
    }
    /// Gives the turn to the next member, or at the end to none.
    #[inline(never)]
    fn advance(&mut self, at: u16, level: usize, prio: usize) {
        let turn = self.turn(at, level, prio);
        let Some(hot) = self.classes.hot.get(usize::from(turn.at)) else { return };
        let behind = usize::from(if at == ROW { hot.minor } else { hot.rank }) + 1;
        let next = self.member(at, level, prio, behind);
        self.set_turn(at, level, prio, Turn { at: next, from: turn.from });
    }
    /// Returns the class above on the way up to a row of `level`, or `ROW` above the members of
    /// that row.
    #[inline]
    fn above(&self, at: u16, level: usize) -> u16 {
        let hot = &self.classes.hot[usize::from(at)];
        if usize::from(hot.level) == level { ROW } else { hot.parent }
    }
}

/// Returns the member `turns` places behind one of a set, of which `next` finds the first from a
/// place on. The first follows the last.
fn nth_behind(from: usize, turns: u32, next: impl Fn(usize) -> Option<usize>) -> Option<usize> {
    let mut at = from;
    for _ in 0..turns {
        at = next(at + 1).or_else(|| next(0))?;
    }
    Some(at)
}
