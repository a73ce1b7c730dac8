//! The bias: a baton that one thread, its *owner*, takes and puts down by plain stores, as long as nobody else asks for it. Where
//! an atomic exchange costs 8 ns and a packet 5, that is most of the price.
//!
//! The owner writes `busy` and then looks at the word; everybody else changes the word and then looks at `busy`. Between the two
//! there is a full barrier on both sides, of which the owner's costs nothing: the other side's is membarrier(2), which has every
//! processor that runs a thread of this process pass through one, so that the compiler's alone is left to the owner. (In the
//! models each is a sequentially consistent fence.) So at least one of the two sees the other:
//!
//! - Who knocks at a biased baton sets `TAKEN` beside `BIASED` and sees whether the owner is in. If not, the owner will see
//!   `TAKEN` and stay out: the bias is taken away, and who has knocked has the baton.
//! - If the owner is in, or was just coming or going, whoever of the two first takes `BIASED` away decides. The one who knocked
//!   makes it `YOURS`: the owner has an ordinary turn, sees the flags, and puts it down as everybody does. The owner, on its
//!   way out, makes it nothing: who knocked has the baton.
//!
//! Nobody waits for anybody; the owner gets the bias back by an atomic exchange of its own ([`Baton::bias`]).

use crate::baton::{BIASED, Baton, TAKEN, Turn, YOURS};
use crate::sync::{Ordering, heavy_barrier, light_barrier};

/// The use of a baton's value by its owner, by the bias.
#[must_use = "it is put down with exit"]
pub(crate) struct Inside<'a, T> {
    pub(super) baton: &'a Baton<T>,
}

impl<T> Baton<T> {
    /// Biases it to the owner, if nobody has it and no flag is set. For the owner alone, of which there is one at a time.
    pub(crate) fn bias(&self) -> bool {
        self.state.compare_exchange(0, BIASED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes it by the bias. Without the bias, or if somebody has asked for it, there is perhaps an ordinary turn to see to.
    /// For the owner alone.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<Inside<'_, T>, Option<Turn<'_, T>>> {
        self.busy.store(1, Ordering::Relaxed);
        light_barrier();
        match self.state.load(Ordering::Acquire) {
            BIASED => Ok(Inside { baton: self }),
            _ => Err(self.step_out()),
        }
    }

    /// Ends the bias, on the owner's side: an ordinary turn if nobody else has it. For the owner alone, outside.
    #[cold]
    #[inline(never)]
    pub(crate) fn step_out(&self) -> Option<Turn<'_, T>> {
        self.busy.store(0, Ordering::Release);
        let mut word = self.state.load(Ordering::Relaxed);
        // Each failure is another's success: a knock, or the end of the bias, which comes once.
        loop {
            let (mine, next) = match (word & YOURS != 0, word & BIASED != 0, word & TAKEN != 0) {
                (true, _, _) => (true, word & !YOURS),
                (_, false, _) => return None,
                (_, true, true) => (false, word & !BIASED),
                (_, true, false) => (true, word & !BIASED | TAKEN),
            };
            match self.state.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                // A turn that is made and let fall would put it down: none is made for nothing.
                Ok(_) => return mine.then(|| Turn { baton: self }),
                Err(now) => word = now,
            }
        }
    }

    /// Takes the bias away, for who has just set `TAKEN` beside it: the turn, unless it is the owner's now.
    #[cold]
    #[inline(never)]
    pub(super) fn revoke(&self) -> Option<Turn<'_, T>> {
        heavy_barrier();
        if self.busy.load(Ordering::Acquire) == 0 {
            self.state.fetch_and(!BIASED, Ordering::AcqRel);
            return Some(Turn { baton: self });
        }
        let mut word = self.state.load(Ordering::Acquire);
        while word & BIASED != 0 {
            let next = word & !BIASED | YOURS;
            match self.state.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return None,
                Err(now) => word = now,
            }
        }
        Some(Turn { baton: self })
    }
}

impl<'a, T> Inside<'a, T> {
    /// Puts it down. `Err` if somebody has asked for it meanwhile: the bias is gone, and perhaps there is a turn to see to.
    #[inline(always)]
    pub(crate) fn exit(self) -> Result<(), Option<Turn<'a, T>>> {
        let baton = self.baton;
        std::mem::forget(self);
        baton.busy.store(0, Ordering::Release);
        light_barrier();
        match baton.state.load(Ordering::Relaxed) {
            BIASED => Ok(()),
            _ => Err(baton.step_out()),
        }
    }

    /// Puts it down and gives up the bias: an ordinary turn, unless somebody else has asked for one first.
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
    /// By a panic inside: the baton is put down, with whatever flags there are.
    fn drop(&mut self) {
        drop(self.baton.step_out());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::baton::Flags;
    use crate::sync::can_bar;

    const WORD: Flags = Flags::of(0);

    #[test]
    fn the_owner_comes_and_goes_and_others_take_the_bias_away() {
        if !can_bar() {
            println!("skipped, because the system has no membarrier(2)");
            return;
        }
        let baton = Baton::new(7);
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
        assert!(matches!(baton.enter(), Err(None)), "it has no bias and is not waited for");
        turn.leave(Flags::NONE).expect("nothing is left");
        // Inside, the owner gets to know.
        assert!(baton.bias());
        let inside = baton.enter().expect("biased");
        assert!(baton.knock(WORD).is_none(), "the owner is in");
        let mut turn = inside.exit().expect_err("there is word").expect("it is the owner's");
        assert_eq!(turn.clear(WORD), WORD);
        turn.leave(Flags::NONE).expect("nothing is left");
        assert_eq!(baton.flags(), Flags::NONE);
        assert!(baton.bias(), "as before");
        let turn = baton.enter().expect("biased").give_up().expect("nobody has asked");
        turn.leave(Flags::NONE).expect("nothing is left");
    }
}
