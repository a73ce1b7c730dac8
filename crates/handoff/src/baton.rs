//! `Baton`: something that one thread at a time has the use of, without anybody waiting for it. Who finds it taken leaves a
//! flag, and who has it cannot put it down without seeing the flag.
//!
//! All of it is one word: a bit that says whether it is taken, and flags. A [`knock`](Baton::knock) is one atomic operation
//! that sets flags and takes the baton if it is free, so that there is no moment between "I saw that it is taken" and "I have
//! left word". [`Turn::leave`] succeeds only while no flag is set that the one who leaves has not declared to leave behind.
//! So for every flag that is ever set, either who set it has the baton, or who has the baton will see it (the race in which
//! Linux lost packets from 4.16 to 5.14: a failed try-lock beside an owner past its last look).
//!
//! Memory order: taking acquires what the last owner released; a flag releases what its setter did before, and clearing it
//! acquires that. All changes of the word are read-modify-write, so that each continues the release sequence of the last.
//!
//! A baton may be biased to one thread, which then takes it without such an operation: see `bias.rs`.

mod bias;

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::sync::{AtomicU32, Ordering, UnsafeCell};

pub(crate) use bias::Inside;

/// The bit that says that somebody has it.
const TAKEN: u32 = 1 << 31;
/// The bit that says that the owner may take it without asking.
const BIASED: u32 = 1 << 30;
/// The bit that says, beside `TAKEN`, that the owner has it, by the doing of who knocked.
const YOURS: u32 = 1 << 29;
/// The bits that are flags.
const FLAGS: u32 = 0xffff;

/// Flags that are left for whoever has the baton.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// None.
    pub(crate) const NONE: Self = Self(0);
    /// The flag of that number, 0 to 15.
    #[must_use]
    pub(crate) const fn of(number: u32) -> Self {
        Self(1 << (number & 15))
    }
    /// These and those.
    #[must_use]
    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
    /// Whether any of `others` is among these.
    #[must_use]
    pub(crate) const fn has(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
    /// These without `others`.
    #[must_use]
    pub(crate) const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

/// Something that one thread at a time has the use of.
pub(crate) struct Baton<T> {
    state: AtomicU32,
    /// 1: the owner is in, by the bias. Only the owner writes it.
    busy: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through a `Turn` or an `Inside`, of which there is at most one at any time (`TAKEN`; the
// bias), so a reference to the baton gives no more than moving the value between threads does.
unsafe impl<T: Send> Sync for Baton<T> {}
// SAFETY: it owns its value and nothing else.
unsafe impl<T: Send> Send for Baton<T> {}

impl<T> fmt::Debug for Baton<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Baton").field("taken", &self.is_taken()).field("flags", &self.flags()).finish()
    }
}

impl<T> Baton<T> {
    /// One that nobody has.
    pub(crate) fn new(value: T) -> Self {
        Self { state: AtomicU32::new(0), busy: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Takes it if nobody has it and no flag is set: the way of who expects to be alone.
    #[inline(always)]
    pub(crate) fn try_take(&self) -> Option<Turn<'_, T>> {
        self.take_or_see().ok()
    }

    /// As `try_take`; `Err` says whether somebody else was at it.
    #[inline(always)]
    pub(crate) fn take_or_see(&self) -> Result<Turn<'_, T>, bool> {
        match self.state.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Turn { baton: self }),
            Err(word) => Err(word & TAKEN != 0),
        }
    }

    /// Leaves flags, and takes it if nobody has it; the flags are then for the taker itself. If somebody has it, they see them.
    #[inline]
    pub(crate) fn knock(&self, flags: Flags) -> Option<Turn<'_, T>> {
        let before = self.state.fetch_or(TAKEN | flags.0, Ordering::AcqRel);
        // A turn that is made and let fall would put it down: none is made for nothing.
        match before & (TAKEN | BIASED) {
            0 => Some(Turn { baton: self }),
            BIASED => self.revoke(),
            _ => None,
        }
    }

    /// Leaves flags without taking it: true if nobody has it and one of them is new, so that nobody knows yet.
    #[inline]
    pub(crate) fn flag(&self, flags: Flags) -> bool {
        let before = self.state.fetch_or(flags.0, Ordering::AcqRel);
        before & TAKEN == 0 && before & flags.0 != flags.0
    }

    /// Whether somebody has it who has not seen to these flags yet: to set them again would change nothing. For who has passed a
    /// full barrier since what the flags are about, as does whoever clears them before looking for that.
    #[inline]
    pub(crate) fn knows(&self, flags: Flags) -> bool {
        let wanted = TAKEN | flags.0;
        self.state.load(Ordering::Relaxed) & wanted == wanted
    }

    /// Whether somebody has it now.
    pub(crate) fn is_taken(&self) -> bool {
        self.state.load(Ordering::Relaxed) & TAKEN != 0 || self.busy.load(Ordering::Relaxed) != 0
    }

    /// The flags that are set now.
    pub(crate) fn flags(&self) -> Flags {
        Flags(self.state.load(Ordering::Relaxed) & FLAGS)
    }
}

/// The use of a baton's value. Letting it fall puts the baton down as it is: flags stay set, and whoever comes next has them.
#[must_use = "the baton is put down with leave"]
pub(crate) struct Turn<'a, T> {
    baton: &'a Baton<T>,
}

impl<T> fmt::Debug for Turn<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("flags", &self.flags()).finish()
    }
}

impl<T> Turn<'_, T> {
    /// The flags that are set now.
    #[inline]
    pub(crate) fn flags(&self) -> Flags {
        self.baton.flags()
    }

    /// Takes flags away; those of them that were set. What their setters did before is seen from here on.
    #[inline]
    pub(crate) fn clear(&mut self, flags: Flags) -> Flags {
        let before = self.baton.state.fetch_and(!flags.0, Ordering::AcqRel);
        Flags(before & flags.0)
    }

    /// Puts the baton down if no flags but `behind` are set. Otherwise there is something to do first.
    #[inline(always)]
    pub(crate) fn leave(self, behind: Flags) -> Result<(), Self> {
        let (taken, free) = (TAKEN | behind.0, behind.0);
        match self.baton.state.compare_exchange(taken, free, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => {
                std::mem::forget(self);
                Ok(())
            }
            Err(_) => Err(self),
        }
    }

    /// Sets flags and puts the baton down: somebody else is to come for it. The flags that are set then.
    pub(crate) fn abandon(self, flags: Flags) -> Flags {
        self.baton.state.fetch_or(flags.0, Ordering::AcqRel);
        let before = self.baton.state.fetch_and(!TAKEN, Ordering::AcqRel);
        std::mem::forget(self);
        Flags(before & FLAGS)
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the one `Turn` of this baton is borrowed, so nobody has a mutable reference to the value.
        self.baton.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the one `Turn` of this baton is borrowed mutably, so nobody has any other reference to the value.
        self.baton.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Inside<'_, T> {
    /// The value.
    #[inline(always)]
    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the owner is inside, of which there is one, so that this is the only `Inside`; and there is no `Turn`: one
        // is made while `BIASED` is set only by who has seen that the owner is out and stays out, or by the owner outside.
        self.baton.value.with_mut(|value| f(unsafe { &mut *value }))
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.baton.state.fetch_and(!TAKEN, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const WORD: Flags = Flags::of(0);
    const SIGN: Flags = Flags::of(1);

    #[test]
    fn who_has_it_cannot_leave_past_a_flag() {
        let baton = Baton::new(7);
        let turn = baton.try_take().expect("free");
        assert!(baton.try_take().is_none());
        assert!(baton.knock(WORD).is_none());
        assert!(baton.is_taken(), "who knocks in vain changes nothing");
        let mut turn = turn.leave(Flags::NONE).expect_err("there is word");
        assert_eq!(turn.clear(WORD.and(SIGN)), WORD);
        *turn += 1;
        turn.leave(Flags::NONE).expect("nothing is left");
        assert_eq!(*baton.knock(Flags::NONE).expect("free"), 8);
        assert!(!baton.is_taken(), "a turn that falls puts it down");
    }

    #[test]
    fn what_is_left_behind_stays_and_keeps_the_hasty_away() {
        let baton = Baton::new(());
        let turn = baton.knock(SIGN).expect("free");
        turn.leave(SIGN).expect("declared");
        assert!(baton.try_take().is_none(), "not for who expects to be alone");
        let turn = baton.knock(Flags::NONE).expect("free");
        assert_eq!(turn.flags(), SIGN);
        assert_eq!(turn.abandon(WORD), WORD.and(SIGN));
        assert!(!baton.flag(WORD), "it was set already");
        let mut turn = baton.knock(Flags::NONE).expect("free");
        turn.clear(WORD.and(SIGN));
        assert!(!baton.flag(WORD), "somebody has it");
        turn.clear(WORD);
        turn.leave(Flags::NONE).expect("nothing is left");
        assert!(baton.flag(WORD), "nobody knows");
    }
}
