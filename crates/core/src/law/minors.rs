//! Map from the minor numbers of classes to slots.

use alloc::vec::Vec;

/// A map from minor numbers to slots: one look-up in a table up to the greatest number, at most 128
/// KiB.
#[derive(Clone, Debug, Default)]
pub struct Minors(Vec<u16>);

/// No slot: 65 535 minor numbers use at most 65 535 slots, counted from 0.
const NO_SLOT: u16 = u16::MAX;

/// Minor numbers that an iteration passes by at once.
const STRETCH: usize = 64;

impl Minors {
    /// Returns the slot of a class.
    #[inline]
    pub fn slot(&self, minor: u16) -> Option<usize> {
        self.0.get(usize::from(minor)).filter(|slot| **slot != NO_SLOT).map(|slot| usize::from(*slot))
    }
    /// Assigns a slot, below 65 535, to a class, or removes the class.
    pub fn set(&mut self, minor: u16, slot: Option<usize>) {
        let at = usize::from(minor);
        if self.0.len() <= at {
            self.0.resize(at + 1, NO_SLOT);
        }
        self.0[at] = slot.and_then(|slot| u16::try_from(slot).ok()).unwrap_or(NO_SLOT);
    }
    /// Returns every class and its slot, by minor number. Stretches without a class are passed by
    /// whole.
    pub fn iter(&self) -> impl Iterator<Item = (u16, usize)> + '_ {
        let stretches = (0..=u16::MAX).step_by(STRETCH).zip(self.0.chunks(STRETCH));
        let used =
            stretches.filter(|(_, slots)| slots.iter().fold(false, |any, slot| any | (*slot != NO_SLOT)));
        let each = used.flat_map(|(first, slots)| (first..=u16::MAX).zip(slots));
        each.filter(|(_, slot)| **slot != NO_SLOT).map(|(minor, slot)| (minor, usize::from(*slot)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn classes_come_by_their_numbers() {
        let mut minors = Minors::default();
        let all = [(64, 3), (1, 0), (65_535, 9), (63, 1), (65, 2), (1000, 7), (65_472, 4)];
        all.iter().for_each(|(minor, slot)| minors.set(*minor, Some(*slot)));
        minors.set(1000, None);
        let left = [(1, 0), (63, 1), (64, 3), (65, 2), (65_472, 4), (65_535, 9)];
        assert_eq!(minors.iter().collect::<Vec<_>>(), left);
    }
}
