//! The numbers of a block's tables: which are taken, and by the table in which slot.

use alloc::collections::BTreeMap;

/// Automatic numbers of tables and of filters begin here.
pub(super) const FIRST: u32 = 0x800;
/// Numbers of tables and of filters end here.
pub(super) const LAST: u32 = 0xfff;
/// Number of automatic numbers: the last number stands for the root.
const SPAN: u32 = LAST - FIRST;
/// Words of a bit for each automatic number.
const WORDS: usize = (SPAN as usize).div_ceil(64);

/// The numbers that tables have. A number is found and given in a time that does not grow with the
/// number of tables beyond its logarithm.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// The slot of the table with a number.
    slots: BTreeMap<u32, u32>,
    /// A bit for each automatic number that is taken.
    taken: [u64; WORDS],
    /// The next automatic number, less `FIRST`.
    next: u32,
    /// Words of `taken` read, for the test of the cost.
    #[cfg(test)]
    read: u64,
}

impl Numbers {
    /// Returns the slot of a table by its number.
    pub(super) fn slot(&self, id: u32) -> Option<u32> {
        self.slots.get(&id).copied()
    }

    /// Gives a number to the table in a slot. A table without a number can be walked, but not
    /// named: its number is beyond `LAST`.
    pub(super) fn give(&mut self, id: u32, slot: u32) {
        if id <= LAST {
            self.slots.insert(id, slot);
            self.mark(id, true);
        }
    }

    /// Takes the number of a removed table back.
    pub(super) fn take_back(&mut self, id: u32) {
        if self.slots.remove(&id).is_some() {
            self.mark(id, false);
        }
    }

    fn mark(&mut self, id: u32, taken: bool) {
        let Some(at) = id.checked_sub(FIRST).filter(|at| *at < SPAN) else { return };
        if let Some(word) = self.taken.get_mut(at as usize / 64) {
            let bit = 1 << (at % 64);
            *word = if taken { *word | bit } else { *word & !bit };
        }
    }

    /// Returns a free automatic number: the next from the last one given on, cyclically.
    pub(super) fn free(&mut self) -> Option<u32> {
        let at = self.free_from(self.next).or_else(|| self.free_from(0))?;
        self.next = (at + 1) % SPAN;
        Some(FIRST + at)
    }

    /// Returns the first free place from `at` on.
    fn free_from(&mut self, at: u32) -> Option<u32> {
        let mut skip = at % 64;
        for (word, bits) in (0u32..).zip(&self.taken).skip(at as usize / 64) {
            #[cfg(test)]
            {
                self.read += 1;
            }
            let free = (!bits >> skip) << skip;
            skip = 0;
            if free != 0 {
                return Some(word * 64 + free.trailing_zeros()).filter(|at| *at < SPAN);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of a model that looks at each in turn.
    fn model(taken: &alloc::collections::BTreeSet<u32>, next: u32) -> Option<u32> {
        (0..SPAN).map(|n| FIRST + (next + n) % SPAN).find(|id| !taken.contains(id))
    }

    #[test]
    fn numbers_are_given_in_a_circle() {
        let (mut numbers, mut taken, mut next) = (Numbers::default(), alloc::collections::BTreeSet::new(), 0);
        let mut rng = crate::base::rng::Rng::new(7);
        for step in 0..30_000 {
            // Numbers fill up, and run out, before they become free again.
            let out = rng.below(if step % 9000 < 6000 { 4 } else { 2 }) == 0;
            if out && !taken.is_empty() {
                let id = FIRST + u32::try_from(rng.below(SPAN.into())).expect("below");
                numbers.take_back(id);
                taken.remove(&id);
                continue;
            }
            let expected = model(&taken, next);
            assert_eq!(numbers.free(), expected, "step {step}");
            let Some(id) = expected else { continue };
            next = (id - FIRST + 1) % SPAN;
            numbers.give(id, step);
            taken.insert(id);
            assert_eq!(numbers.slot(id), Some(step));
        }
    }

    /// Far more priorities than there are numbers: each costs what one of them costs.
    #[test]
    fn a_number_costs_the_same_however_many_are_taken() {
        let mut read = [0; 2];
        for (read, tables) in read.iter_mut().zip([20_000, 40_000]) {
            let mut numbers = Numbers::default();
            for slot in 0..tables {
                let id = numbers.free().unwrap_or(LAST + 1);
                numbers.give(id, slot);
            }
            assert_eq!((numbers.free(), numbers.slots.len()), (None, SPAN as usize));
            *read = numbers.read / u64::from(tables);
        }
        assert!(read.iter().all(|n| *n <= 2 * WORDS as u64), "words read per table: {read:?}");
    }
}
