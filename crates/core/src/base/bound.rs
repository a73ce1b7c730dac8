//! `Bound`: the most turns of a loop, stated where the loop begins.

/// Counts the turns of a loop of the data path. Debug builds assert that there are at most as many
/// as stated; in other builds it is nothing.
///
/// `cargo xtask tidy` requires it, or a comment `// Bound: ` with the reason, beside each loop of
/// the data path whose end is not in its head.
#[derive(Debug)]
pub(crate) struct Bound {
    #[cfg(debug_assertions)]
    left: usize,
}

impl Bound {
    /// Returns a count of at most this many turns.
    #[inline]
    pub(crate) const fn of(turns: usize) -> Self {
        #[cfg(not(debug_assertions))]
        let _ = turns;
        Self {
            #[cfg(debug_assertions)]
            left: turns,
        }
    }
    /// Counts a turn.
    #[inline]
    #[track_caller]
    pub(crate) const fn turn(&mut self) {
        #[cfg(debug_assertions)]
        {
            assert!(self.left > 0, "the turns of a loop have a bound");
            self.left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_turns_as_stated_are_made() {
        let mut bound = Bound::of(3);
        (0..3).for_each(|_| bound.turn());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "the turns of a loop have a bound")]
    fn one_turn_more_panics() {
        let mut bound = Bound::of(3);
        (0..4).for_each(|_| bound.turn());
    }
}
