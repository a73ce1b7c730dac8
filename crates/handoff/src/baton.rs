//! `Baton`: a value that one thread at a time uses and that no thread waits for. A thread that
//! finds the baton taken sets a flag, and the holder cannot put the baton down without seeing that
//! flag.
//!
//! The whole state is one word: a bit that is set while the baton is taken, and flags.
//! [`knock`](Baton::knock) is one atomic operation that sets flags and takes the baton if it is
//! free, so that no moment lies between "I saw that it is taken" and "I have set the flag".
//! [`Turn::leave`] succeeds only while no flag is set but those that the holder declares to leave
//! behind. So for every flag that is ever set, either its setter has the baton, or the holder will
//! see the flag. (Linux lost packets from 4.16 to 5.14 in this race: a failed try-lock beside an
//! owner past its last look.)
//!
//! Memory order: taking the baton acquires the writes that the last holder released. Setting a flag
//! releases the earlier writes of its setter, and clearing the flag acquires them. All changes of
//! the word are read-modify-write, so that each continues the release sequence of the last.
//!
//! A baton may be biased to one thread, which then takes it without an atomic exchange: see
//! `bias.rs`.

mod bias;

use std::fmt;
use std::marker::PhantomData;
#[cfg(not(loom))]
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use crate::sync::{Apart, AtomicU32, Ordering, UnsafeCell, in_panic};
use crate::wake::Wakeup;

pub(crate) use bias::Inside;

/// This bit is set while a thread has the baton.
const TAKEN: u32 = 1 << 31;
/// This bit is set while the owner may take the baton by plain stores.
const BIASED: u32 = 1 << 30;
/// This bit is set beside `TAKEN` while the owner has the baton because another thread knocked.
const YOURS: u32 = 1 << 29;
/// This bit is set beside `TAKEN` while no thread has the baton because its holder has passed it
/// on.
const PASSED: u32 = 1 << 28;
/// The bits that are flags.
const FLAGS: u32 = 0xffff;

/// Flags that are left for the holder of the baton.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// No flag.
    pub(crate) const NONE: Self = Self(0);
    /// Returns the flag of that number, 0 to 15.
    #[must_use]
    pub(crate) const fn of(number: u32) -> Self {
        Self(1 << (number & 15))
    }
    /// Returns these flags and `others`.
    #[must_use]
    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
    /// True if any of `others` is among these.
    #[must_use]
    pub(crate) const fn has(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
    /// Returns these flags without `others`.
    #[must_use]
    pub(crate) const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

/// Puts a value in order after a panic of its holder, before the baton is put down. Returns the
/// flags to set, and the wakeup of the thread that is to come for them.
pub(crate) type Mend<T> = fn(&mut T) -> (Flags, Option<Wakeup>);

/// A value that one thread at a time uses.
pub(crate) struct Baton<T> {
    /// Apart from the value: a thread that looks at it does not delay the holder.
    state: Apart<AtomicU32>,
    mend: Mend<T>,
    /// Ends the value where the baton ends with it.
    end: fn(&mut T),
    /// 1 while the owner is inside by the bias. Only the owner writes it.
    busy: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through a `Turn` or an `Inside`, of which there is at most one
// at any time (`TAKEN`; the bias), so a reference to the baton gives no more than moving the value
// between threads does.
unsafe impl<T: Send> Sync for Baton<T> {}
// SAFETY: the baton owns its value and nothing else.
unsafe impl<T: Send> Send for Baton<T> {}

impl<T> Drop for Baton<T> {
    fn drop(&mut self) {
        if cfg!(loom) && std::thread::panicking() {
            // The verdict of a model is there, and a second panic would hide it.
            return;
        }
        let end = self.end;
        // SAFETY: the baton is borrowed mutably, so no turn of it exists.
        self.value.with_mut(|value| end(unsafe { &mut *value }));
    }
}

impl<T> fmt::Debug for Baton<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Baton").field("taken", &self.is_taken()).field("flags", &self.flags()).finish()
    }
}

impl<T> Baton<T> {
    /// Creates a baton that no thread has.
    pub(crate) fn new(value: T, mend: Mend<T>) -> Self {
        let (state, busy, value) = (Apart(AtomicU32::new(0)), AtomicU32::new(0), UnsafeCell::new(value));
        Self { state, mend, end: |_| {}, busy, value }
    }

    /// Sets the function that ends the value where the baton ends with it.
    pub(crate) fn ending(mut self, end: fn(&mut T)) -> Self {
        self.end = end;
        self
    }

    /// Ends the baton and returns its value, as it is.
    #[cfg(not(loom))]
    pub(crate) fn into_inner(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: the baton is owned, so no turn of it exists, and it is not dropped: the value is
        // read once. Its other parts own nothing.
        this.value.with(|value| unsafe { value.read() })
    }

    /// Returns the one turn of this baton, for the thread that has just taken it.
    #[inline(always)]
    const fn turn(&self) -> Turn<'_, T> {
        Turn { baton: self, value: PhantomData }
    }

    /// Takes the baton if no thread has it and no flag is set: for a thread that expects to be
    /// alone.
    #[inline(always)]
    pub(crate) fn try_take(&self) -> Option<Turn<'_, T>> {
        self.take_or_see().ok()
    }

    /// Does the same as `try_take`. `Err` is true if another thread has the baton.
    #[inline(always)]
    pub(crate) fn take_or_see(&self) -> Result<Turn<'_, T>, bool> {
        // An exchange in vain would take the word's cache line from its holder, who then waits for
        // it.
        let seen = self.state.0.load(Ordering::Relaxed);
        if seen != 0 {
            return Err(seen & TAKEN != 0);
        }
        match self.state.0.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(self.turn()),
            Err(word) => Err(word & TAKEN != 0),
        }
    }

    /// Sets flags, and takes the baton if no thread has it. The flags are then for the taker
    /// itself. Otherwise the holder sees them.
    #[inline]
    pub(crate) fn knock(&self, flags: Flags) -> Option<Turn<'_, T>> {
        let before = self.state.0.fetch_or(TAKEN | flags.0, Ordering::AcqRel);
        // Dropping a `Turn` puts the baton down, so none is made unless the baton was taken.
        match before & (TAKEN | BIASED) {
            0 => Some(self.turn()),
            BIASED => self.revoke(),
            _ => None,
        }
    }

    /// Sets flags without taking the baton. True if no thread has the baton and one of the flags is
    /// new: then no thread knows of it yet.
    #[inline]
    pub(crate) fn flag(&self, flags: Flags) -> bool {
        let before = self.state.0.fetch_or(flags.0, Ordering::AcqRel);
        before & TAKEN == 0 && before & flags.0 != flags.0
    }

    /// Takes the baton that its last holder has passed on ([`Turn::pass`]), unless another thread
    /// has.
    pub(crate) fn claim(&self) -> Option<Turn<'_, T>> {
        let before = self.state.0.fetch_and(!PASSED, Ordering::AcqRel);
        // Of the threads that clear the bit, one has found it set.
        (before & PASSED != 0).then(|| self.turn())
    }

    /// True if a thread has the baton and has not cleared these flags yet: to set them again would
    /// change nothing. The caller has passed a full barrier since it published the work that the
    /// flags are about, as the holder does between clearing the flags and looking for that work.
    #[inline]
    pub(crate) fn knows(&self, flags: Flags) -> bool {
        self.has(TAKEN | flags.0)
    }

    /// True if these flags are set and no holder has cleared them yet, under the same condition:
    /// for a baton that one thread alone takes, which each setter of a new flag wakes.
    #[inline]
    pub(crate) fn is_flagged(&self, flags: Flags) -> bool {
        self.has(flags.0)
    }

    #[inline(always)]
    fn has(&self, bits: u32) -> bool {
        self.state.0.load(Ordering::Relaxed) & bits == bits
    }

    /// True if a thread has the baton now.
    pub(crate) fn is_taken(&self) -> bool {
        self.state.0.load(Ordering::Relaxed) & TAKEN != 0 || self.busy.load(Ordering::Relaxed) != 0
    }

    /// Returns the flags that are set now.
    pub(crate) fn flags(&self) -> Flags {
        Flags(self.state.0.load(Ordering::Relaxed) & FLAGS)
    }
}

/// The use of a baton's value. Dropping it puts the baton down: flags stay set, and the next holder
/// sees them. A panic that drops it puts the value in order first ([`Mend`]).
#[must_use = "the baton is put down with leave"]
pub(crate) struct Turn<'a, T> {
    baton: &'a Baton<T>,
    /// A turn may be shared or moved between threads as a mutable reference to the value may.
    value: PhantomData<&'a mut T>,
}

impl<T> fmt::Debug for Turn<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("flags", &self.flags()).finish()
    }
}

impl<T> Turn<'_, T> {
    /// Returns the flags that are set now.
    #[inline]
    pub(crate) fn flags(&self) -> Flags {
        self.baton.flags()
    }

    /// Clears flags, and returns those that were set. Earlier writes of their setters are visible
    /// from here on.
    #[inline]
    pub(crate) fn clear(&mut self, flags: Flags) -> Flags {
        let before = self.baton.state.0.fetch_and(!flags.0, Ordering::AcqRel);
        Flags(before & flags.0)
    }

    /// Puts the baton down if no flags but `behind` are set. Otherwise returns the turn: the other
    /// flags have to be handled first.
    #[inline(always)]
    pub(crate) fn leave(self, behind: Flags) -> Result<(), Self> {
        let (taken, free) = (TAKEN | behind.0, behind.0);
        match self.baton.state.0.compare_exchange(taken, free, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => {
                std::mem::forget(self);
                Ok(())
            }
            Err(_) => Err(self),
        }
    }

    /// Passes the baton on without putting it down, to a thread that [`claim`](Baton::claim)s it.
    /// Meanwhile it is taken for all others.
    pub(crate) fn pass(self) {
        self.baton.state.0.fetch_or(PASSED, Ordering::AcqRel);
        std::mem::forget(self);
    }

    /// Sets flags and puts the baton down: another thread is to come for it. Returns the flags that
    /// are set then.
    pub(crate) fn abandon(self, flags: Flags) -> Flags {
        self.baton.state.0.fetch_or(flags.0, Ordering::AcqRel);
        let before = self.baton.state.0.fetch_and(!TAKEN, Ordering::AcqRel);
        std::mem::forget(self);
        Flags(before & FLAGS)
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the one `Turn` of this baton is borrowed, so no mutable reference to the value
        // exists.
        self.baton.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the one `Turn` of this baton is borrowed mutably, so no other reference to the
        // value exists.
        self.baton.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Inside<'_, T> {
    /// Calls `f` with the value.
    #[inline(always)]
    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the owner is inside, and there is one owner, so that this is the only `Inside`.
        // There is no `Turn`: while `BIASED` is set, only a thread that has seen that the owner is
        // out and stays out makes one, or the owner itself outside.
        self.baton.value.with_mut(|value| f(unsafe { &mut *value }))
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let mut wakeup = None;
        if in_panic() {
            wakeup = self.mend();
        }
        self.baton.state.0.fetch_and(!TAKEN, Ordering::AcqRel);
        if let Some(wakeup) = wakeup {
            wakeup.wake_in_panic();
        }
    }
}

impl<T> Turn<'_, T> {
    /// Puts the value in order after a panic, and sets the flags for the next holder.
    #[cold]
    #[inline(never)]
    fn mend(&mut self) -> Option<Wakeup> {
        let (flags, wakeup) = (self.baton.mend)(self);
        self.baton.state.0.fetch_or(flags.0, Ordering::AcqRel);
        wakeup
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const WORD: Flags = Flags::of(0);
    const SIGN: Flags = Flags::of(1);

    #[test]
    fn who_has_it_cannot_leave_past_a_flag() {
        let baton = Baton::new(7, |_| (Flags::NONE, None));
        let turn = baton.try_take().expect("free");
        assert!(baton.try_take().is_none());
        assert!(baton.knock(WORD).is_none());
        assert!(baton.is_taken(), "a knock in vain changes nothing");
        let mut turn = turn.leave(Flags::NONE).expect_err("a flag is set");
        assert_eq!(turn.clear(WORD.and(SIGN)), WORD);
        *turn += 1;
        turn.leave(Flags::NONE).expect("nothing is left");
        assert_eq!(*baton.knock(Flags::NONE).expect("free"), 8);
        assert!(!baton.is_taken(), "dropping a turn puts the baton down");
    }

    #[test]
    fn what_is_left_behind_stays_and_keeps_the_hasty_away() {
        let baton = Baton::new((), |()| (Flags::NONE, None));
        let turn = baton.knock(SIGN).expect("free");
        turn.leave(SIGN).expect("declared");
        assert!(baton.try_take().is_none(), "try_take fails while a flag is set");
        let turn = baton.knock(Flags::NONE).expect("free");
        assert_eq!(turn.flags(), SIGN);
        assert_eq!(turn.abandon(WORD), WORD.and(SIGN));
        assert!(!baton.flag(WORD), "the flag was set already");
        let mut turn = baton.knock(Flags::NONE).expect("free");
        turn.clear(WORD.and(SIGN));
        assert!(!baton.flag(WORD), "the baton is taken");
        turn.clear(WORD);
        turn.leave(Flags::NONE).expect("nothing is left");
        assert!(baton.flag(WORD), "no thread knows of the flag");
    }

    #[test]
    fn a_baton_that_is_passed_on_is_taken_until_one_thread_claims_it() {
        let baton = Baton::new(7, |_| (Flags::NONE, None));
        assert!(baton.claim().is_none(), "nobody has passed it on");
        let turn = baton.try_take().expect("free");
        assert!(baton.claim().is_none(), "its holder keeps it");
        turn.pass();
        assert!(baton.is_taken() && baton.try_take().is_none() && baton.knock(WORD).is_none());
        let mut turn = baton.claim().expect("it was passed on");
        assert!(baton.claim().is_none(), "once");
        assert_eq!((*turn, turn.clear(WORD)), (7, WORD));
        turn.leave(Flags::NONE).expect("nothing is left");
        assert!(!baton.is_taken());
    }

    #[test]
    fn a_value_ends_with_its_baton_or_leaves_it() {
        let ends = std::sync::Arc::new(AtomicU32::new(0));
        let baton = || {
            let baton = Baton::new(std::sync::Arc::clone(&ends), |_| (Flags::NONE, None));
            baton.ending(|ends| {
                ends.fetch_add(1, Ordering::Relaxed);
            })
        };
        let count = || (ends.load(Ordering::Relaxed), std::sync::Arc::strong_count(&ends));
        drop(baton());
        assert_eq!(count(), (1, 1));
        let value = baton().into_inner();
        assert_eq!(count(), (1, 2));
        drop(value);
        assert_eq!(count(), (1, 1));
    }

    #[test]
    fn a_panic_mends_the_value_and_leaves_its_flags() {
        let baton = Baton::new(1, |value| {
            *value = 0;
            (WORD, None)
        });
        let holder = std::panic::AssertUnwindSafe(|| {
            let mut turn = baton.try_take().expect("free");
            *turn = 2;
            panic!("planned");
        });
        assert!(std::panic::catch_unwind(holder).is_err());
        assert!(!baton.is_taken());
        let turn = baton.knock(Flags::NONE).expect("free");
        assert_eq!((*turn, turn.flags()), (0, WORD));
    }

    /// Tells whether a type is `Sync`: the inherent constant exists for one that is, and hides the
    /// trait's.
    struct Probe<T>(PhantomData<T>);
    impl<T: Sync> Probe<T> {
        const SYNC: bool = true;
    }
    trait Otherwise {
        const SYNC: bool = false;
    }
    impl<T> Otherwise for Probe<T> {}

    #[test]
    fn a_turn_is_shared_between_threads_only_where_its_value_may_be() {
        use std::cell::Cell;
        const { assert!(Probe::<Turn<'_, u8>>::SYNC && Probe::<Baton<Cell<u8>>>::SYNC) };
        // Two threads would have one `&Cell`.
        const { assert!(!Probe::<Turn<'_, Cell<u8>>>::SYNC) };
        const { assert!(!Probe::<Inside<'_, Cell<u8>>>::SYNC) };
    }
}
