//! Map from the minor numbers of classes to slots.

use alloc::vec::Vec;

/// A map from minor numbers to slots: one look-up in a table up to the greatest number, at most 128
/// KiB.
#[derive(Clone, Debug, Default)]
pub struct Minors(Vec<u16>);

/// No slot: 65 535 minor numbers use at most 65 535 slots, counted from 0.
const NO_SLOT: u16 = u16::MAX;

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
    /// Returns every class and its slot, by minor number.
    pub fn iter(&self) -> impl Iterator<Item = (u16, usize)> + '_ {
        (0..=u16::MAX).zip(&self.0).filter(|(_, slot)| **slot != NO_SLOT).map(|(m, s)| (m, usize::from(*s)))
    }
}
