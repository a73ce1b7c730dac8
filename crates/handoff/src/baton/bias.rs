//! The bias: one thread, the *owner* of a baton, takes and puts down the baton by plain stores, as
//! long as no other thread asks for it. Where an atomic exchange costs 8 ns and a packet 5 ns, the
//! exchange is most of the price.
//!
//! The owner writes `busy` and then reads the word; every other thread changes the word and then
//! reads `busy`. A full barrier stands between the two on both sides. The owner's barrier is free:
//! the other side calls membarrier(2), which makes every processor that runs a thread of this
//! process pass a full barrier, so that a compiler barrier is enough for the owner. (In the models
//! each is a sequentially consistent fence.) So at least one of the two sees the other:
//!
//! - A thread that knocks at a biased baton sets `TAKEN` beside `BIASED` and sees whether the owner
//!   is inside. If not, the owner will see `TAKEN` and stay out: the knocking thread clears
//!   `BIASED` and has the baton.
//! - If the owner is inside, or is just entering or leaving, the first of the two that clears
//!   `BIASED` decides. The knocking thread replaces it by `YOURS`: the owner has an ordinary turn,
//!   sees the flags, and puts the baton down as every thread does. The owner, on its way out,
//!   replaces it by nothing: the knocking thread has the baton.
//!
//! No thread waits for another. The owner gets the bias back by an atomic exchange of its own
//! ([`Baton::bias`]).

use std::marker::PhantomData;

use crate::baton::{BIASED, Baton, Flags, TAKEN, Turn, YOURS};
use crate::sync::{Ordering, heavy_barrier, in_panic, light_barrier};

/// The owner's use of a baton's value, by the bias.
#[must_use = "it is put down with exit"]
pub(crate) struct Inside<'a, T> {
    pub(super) baton: &'a Baton<T>,
    pub(super) value: PhantomData<&'a mut T>,
}

impl<T> Baton<T> {
    /// Biases the baton to the owner, if no thread has it and no flag is set. Only the owner, of
    /// which there is one at a time, calls this.
    pub(crate) fn bias(&self) -> bool {
        self.state.0.compare_exchange(0, BIASED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the baton by the bias. Without the bias, or if another thread has asked for the baton,
    /// there may be an ordinary turn to handle. Only the owner calls this.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<Inside<'_, T>, Option<Turn<'_, T>>> {
        self.busy.store(1, Ordering::Relaxed);
        light_barrier();
        match self.state.0.load(Ordering::Acquire) {
            BIASED => Ok(Inside { baton: self, value: PhantomData }),
            _ => Err(self.step_out()),
        }
    }

    /// Ends the bias on the owner's side. Returns an ordinary turn if no other thread has the
    /// baton. Only the owner calls this, outside.
    #[cold]
    #[inline(never)]
    pub(crate) fn step_out(&self) -> Option<Turn<'_, T>> {
        self.busy.store(0, Ordering::Release);
        let mut word = self.state.0.load(Ordering::Relaxed);
        // Each failure is the success of another thread: a knock, or the end of the bias, which
        // comes once.
        loop {
            let (mine, next) = match (word & YOURS != 0, word & BIASED != 0, word & TAKEN != 0) {
                (true, _, _) => (true, word & !YOURS),
                (_, false, _) => return None,
                (_, true, true) => (false, word & !BIASED),
                (_, true, false) => (true, word & !BIASED | TAKEN),
            };
            match self.state.0.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                // Dropping a `Turn` puts the baton down, so none is made unless the baton is the
                // owner's.
                Ok(_) => return mine.then(|| self.turn()),
                Err(now) => word = now,
            }
        }
    }

    /// Takes the bias away, for a thread that has just set `TAKEN` beside it. Returns the turn,
    /// unless the turn is the owner's now.
    #[cold]
    #[inline(never)]
    pub(super) fn revoke(&self) -> Option<Turn<'_, T>> {
        heavy_barrier();
        if self.busy.load(Ordering::Acquire) == 0 {
            self.state.0.fetch_and(!BIASED, Ordering::AcqRel);
            return Some(self.turn());
        }
        let mut word = self.state.0.load(Ordering::Acquire);
        while word & BIASED != 0 {
            let next = word & !BIASED | YOURS;
            match self.state.0.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return None,
                Err(now) => word = now,
            }
        }
        Some(self.turn())
    }
}

impl<'a, T> Inside<'a, T> {
    /// Puts the baton down. `Err` if another thread has asked for it meanwhile: the bias has ended,
    /// and there may be a turn to handle.
    #[inline(always)]
    pub(crate) fn exit(self) -> Result<(), Option<Turn<'a, T>>> {
        let baton = self.baton;
        std::mem::forget(self);
        baton.busy.store(0, Ordering::Release);
        light_barrier();
        match baton.state.0.load(Ordering::Relaxed) {
            BIASED => Ok(()),
            _ => Err(baton.step_out()),
        }
    }

    /// Puts the baton down and ends the bias. Returns an ordinary turn, unless another thread has
    /// asked for one first.
    pub(crate) fn give_up(self) -> Option<Turn<'a, T>> {
        let baton = self.baton;
        std::mem::forget(self);
        baton.step_out()
    }
}

impl<T> std::fmt::Debug for Inside<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inside").field("baton", self.baton).finish()
    }
}

impl<T> Drop for Inside<'_, T> {
    /// After a panic inside: puts the value in order and the baton down, and sets the flags of that
    /// for the thread that has the baton next.
    fn drop(&mut self) {
        let (mut flags, mut wakeup) = (Flags::NONE, None);
        if in_panic() {
            (flags, wakeup) = self.with(self.baton.mend);
        }
        let unattended = match self.baton.step_out() {
            Some(turn) => turn.abandon(flags).has(flags),
            None => self.baton.flag(flags),
        };
        if unattended && let Some(wakeup) = wakeup {
            wakeup.wake_in_panic();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::can_bar;

    const WORD: Flags = Flags::of(0);

    #[test]
    fn the_owner_comes_and_goes_and_others_take_the_bias_away() {
        if !can_bar() {
            println!("skipped, because the system has no membarrier(2)");
            return;
        }
        let baton = Baton::new(7, |_| (Flags::NONE, None));
        assert!(baton.bias());
        assert!(baton.try_take().is_none(), "biased");
        let mut inside = baton.enter().expect("biased");
        assert!(baton.is_taken());
        inside.with(|value| *value += 1);
        assert!(inside.exit().is_ok());
        assert!(!baton.is_taken());
        // Outside, the owner is not asked.
        let turn = baton.knock(Flags::NONE).expect("the owner is out");
        assert_eq!(*turn, 8);
        assert!(matches!(baton.enter(), Err(None)), "the owner has no bias and waits for no thread");
        turn.leave(Flags::NONE).expect("nothing is left");
        // Inside, the owner sees the flags.
        assert!(baton.bias());
        let inside = baton.enter().expect("biased");
        assert!(baton.knock(WORD).is_none(), "the owner is in");
        let mut turn = inside.exit().expect_err("a flag is set").expect("the turn is the owner's");
        assert_eq!(turn.clear(WORD), WORD);
        turn.leave(Flags::NONE).expect("nothing is left");
        assert_eq!(baton.flags(), Flags::NONE);
        assert!(baton.bias(), "the bias can be taken again");
        let turn = baton.enter().expect("biased").give_up().expect("no thread has asked");
        turn.leave(Flags::NONE).expect("nothing is left");
    }
}
