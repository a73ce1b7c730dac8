//! The classes that wait for tokens: those with a deadline to come, and those that are due.

use super::classes::Hot;
use super::{LEVELS, NONE, OUT};
use crate::base::bound::Bound;
use crate::base::time::{Instant, Nanos};
use crate::base::wheel::Wheel;

/// First and last member of a list.
#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u16,
    tail: u16,
}

/// The classes that wait. The links of the lists of due classes are in the classes.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    /// Classes that wait for tokens.
    wheel: Wheel,
    /// No class on the wheel is due before this time: at most the wheel's next deadline.
    asleep: Instant,
    /// For each level, the classes that are due and have not been updated.
    due: [Ends; LEVELS],
    /// A bit for each level with due classes.
    levels: u8,
}

impl Waits {
    pub(super) fn new() -> Self {
        Self {
            wheel: Wheel::with_capacity(0),
            asleep: Instant::MAX,
            due: [Ends { head: NONE, tail: NONE }; LEVELS],
            levels: 0,
        }
    }

    /// Makes room for so many classes.
    pub(super) fn reserve(&mut self, classes: usize) {
        // There are at most `CLASSES_MAX`.
        self.wheel.reserve(classes as u32);
    }
    /// Forgets all deadlines; no class may be due.
    pub(super) fn clear(&mut self) {
        self.wheel.clear();
        self.asleep = Instant::MAX;
    }

    /// Returns a bit for each level with due classes.
    #[inline]
    pub(super) const fn levels(&self) -> u8 {
        self.levels
    }
    /// Returns a time no later than the next deadline.
    #[inline]
    pub(super) fn next(&self) -> Option<Instant> {
        self.wheel.next()
    }

    /// Moves the classes whose deadline has passed from the wheel to the list of due classes.
    #[inline]
    pub(super) fn begin(&mut self, hot: &mut [Hot], now: Instant) {
        if now >= self.asleep {
            self.awake(hot, now);
        }
    }
    #[inline(never)]
    fn awake(&mut self, hot: &mut [Hot], now: Instant) {
        let mut bound = Bound::of(hot.len());
        while let Some((i, _)) = self.wheel.pop_due(now) {
            bound.turn();
            // Ids in the wheel are slots, fewer than `CLASSES_MAX`.
            self.list_due(hot, i as u16);
        }
        self.asleep = self.wheel.next().unwrap_or(Instant::MAX);
    }

    /// Takes a due class of a level.
    #[inline]
    pub(super) fn take_due(&mut self, hot: &mut [Hot], level: usize) -> Option<usize> {
        if self.levels >> level & 1 == 0 {
            return None;
        }
        let i = usize::from(self.due[level].head);
        self.unlist_due(hot, i);
        Some(i)
    }

    /// Makes a class wait for tokens.
    #[inline]
    pub(super) fn wait(&mut self, i: usize, now: Instant, ns: i64) {
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
    pub(super) fn unwait(&mut self, hot: &mut [Hot], i: usize) {
        if hot[i].due_prev == OUT {
            self.wheel.remove(i as u32);
        } else {
            self.unlist_due(hot, i);
        }
    }

    fn list_due(&mut self, hot: &mut [Hot], i: u16) {
        let level = usize::from(hot[usize::from(i)].level);
        let last = core::mem::replace(&mut self.due[level].tail, i);
        match hot.get_mut(usize::from(last)) {
            Some(before) => before.due_next = i,
            None => self.due[level].head = i,
        }
        let last_now = &mut hot[usize::from(i)];
        (last_now.due_prev, last_now.due_next) = (last, NONE);
        self.levels |= 1 << level;
    }
    fn unlist_due(&mut self, hot: &mut [Hot], i: usize) {
        let Hot { due_prev, due_next, level, .. } = hot[i];
        let level = usize::from(level);
        match hot.get_mut(usize::from(due_prev)) {
            Some(before) => before.due_next = due_next,
            None => self.due[level].head = due_next,
        }
        match hot.get_mut(usize::from(due_next)) {
            Some(after) => after.due_prev = due_prev,
            None => self.due[level].tail = due_prev,
        }
        hot[i].due_prev = OUT;
        if self.due[level].head == NONE {
            self.levels &= !(1 << level);
        }
    }
}
