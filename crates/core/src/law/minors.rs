//! `Minors`: from the minor numbers of classes to slots.

use alloc::vec::Vec;

/// From minor numbers to slots: one look-up in a table that is as long as the greatest number needs, at most 128 KiB.
#[derive(Clone, Debug, Default)]
pub struct Minors(Vec<u16>);

/// No slot: of 65 535 minor numbers at most 65 535 slots are used, and they count from 0.
const NO_SLOT: u16 = u16::MAX;

impl Minors {
    /// The slot of a class.
    #[inline]
    pub fn slot(&self, minor: u16) -> Option<usize> {
        self.0.get(usize::from(minor)).filter(|slot| **slot != NO_SLOT).map(|slot| usize::from(*slot))
    }
    /// Gives a class a slot, or takes it away. `slot` is below 65 535.
    pub fn set(&mut self, minor: u16, slot: Option<usize>) {
        let at = usize::from(minor);
        if self.0.len() <= at {
            self.0.resize(at + 1, NO_SLOT);
        }
        self.0[at] = slot.and_then(|slot| u16::try_from(slot).ok()).unwrap_or(NO_SLOT);
    }
    /// Every class and its slot, by minor number.
    pub fn iter(&self) -> impl Iterator<Item = (u16, usize)> + '_ {
        (0..=u16::MAX).zip(&self.0).filter(|(_, slot)| **slot != NO_SLOT).map(|(m, s)| (m, usize::from(*s)))
    }
}
