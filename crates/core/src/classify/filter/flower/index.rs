//! An index of numbers by hash: open addressing with linear probing, and deletion that closes the
//! gap (Knuth, TAOCP volume 3, section 6.4, algorithm R). A place stores the hash beside the
//! number, so that growth needs no keys, and most numbers with other hashes are rejected without a
//! look at the key.

use crate::base::bound::Bound;

use alloc::vec;
use alloc::vec::Vec;

/// Number of places of the smallest table that is not empty.
const LEAST: usize = 8;

/// Numbers by hash. At most half of the places are taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// The hash in the high half, the number plus one in the low; 0 for a free place.
    places: Vec<u64>,
    taken: usize,
}

const fn hash_of(place: u64) -> u32 {
    (place >> 32) as u32
}

const fn number_of(place: u64) -> u32 {
    (place as u32).wrapping_sub(1) // the low half
}

impl Index {
    fn home(&self, hash: u32) -> usize {
        hash as usize & (self.places.len() - 1)
    }

    /// Returns the number with that hash for which `is` returns true.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.taken == 0 {
            return None;
        }
        let mut at = self.home(hash);
        // Half of the places are free.
        let mut bound = Bound::of(self.places.len());
        loop {
            bound.turn();
            let place = self.places[at];
            if place == 0 {
                return None;
            }
            if hash_of(place) == hash && is(number_of(place)) {
                return Some(number_of(place));
            }
            at = (at + 1) & (self.places.len() - 1);
        }
    }

    /// Inserts a number that is not in the index.
    pub(super) fn insert(&mut self, hash: u32, number: u32) {
        if (self.taken + 1) * 2 > self.places.len() {
            let more = (self.places.len() * 2).max(LEAST);
            for place in core::mem::replace(&mut self.places, vec![0; more]) {
                if place != 0 {
                    self.place(place);
                }
            }
        }
        self.place(u64::from(hash) << 32 | u64::from(number.wrapping_add(1)));
        self.taken += 1;
    }

    fn place(&mut self, place: u64) {
        let mut at = self.home(hash_of(place));
        let mut bound = Bound::of(self.places.len());
        while self.places[at] != 0 {
            bound.turn();
            at = (at + 1) & (self.places.len() - 1);
        }
        self.places[at] = place;
    }

    /// Removes a number. Does nothing if the number is not in the index.
    pub(super) fn remove(&mut self, hash: u32, number: u32) {
        if self.taken == 0 {
            return;
        }
        let last = self.places.len() - 1;
        let mut gap = self.home(hash);
        let mut bound = Bound::of(self.places.len());
        while self.places[gap] != 0 && number_of(self.places[gap]) != number {
            bound.turn();
            gap = (gap + 1) & last;
        }
        if self.places[gap] == 0 {
            return;
        }
        self.taken -= 1;
        let mut at = gap;
        let mut bound = Bound::of(self.places.len());
        loop {
            bound.turn();
            at = (at + 1) & last;
            let place = self.places[at];
            if place == 0 {
                break;
            }
            // An entry may move into the gap unless its home lies behind the gap, up to its own
            // place.
            let home = self.home(hash_of(place));
            if (at.wrapping_sub(home) & last) >= (at.wrapping_sub(gap) & last) {
                self.places[gap] = place;
                gap = at;
            }
        }
        self.places[gap] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;
    use alloc::collections::BTreeMap;

    #[test]
    fn is_a_map_of_many_that_collide() {
        let mut rng = Rng::new(7);
        let (mut index, mut model) = (Index::default(), BTreeMap::new());
        for _ in 0..20_000 {
            let number = rng.below(200) as u32;
            // A few hashes, at the end and the beginning of the places.
            let hash = (rng.below(5) as u32).wrapping_sub(2);
            match model.remove(&number) {
                Some(old) => index.remove(old, number),
                None => {
                    index.insert(hash, number);
                    model.insert(number, hash);
                }
            }
            for (number, hash) in model.iter().take(5) {
                assert_eq!(index.find(*hash, |n| n == *number), Some(*number));
            }
            assert_eq!(index.find(hash, |n| n == 200), None);
            assert_eq!(index.taken, model.len());
        }
        index.remove(9, 4000);
        assert_eq!(index.taken, model.len(), "the removal of an absent number changes nothing");
    }
}
