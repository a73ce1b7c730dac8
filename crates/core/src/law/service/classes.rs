//! The classes: their curves and numbers, and their places in the tree.

use alloc::vec::Vec;

use super::{CLASSES_MAX, Curves, LEVELS, ROOT, Shown};
use crate::law::curve::{Anchored, Slopes, Tick};
use crate::law::minors::Minors;
use crate::law::ranks::Set;

/// No class.
const NONE: u16 = u16::MAX;

/// A class.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    /// Its curves, and then the places of those that it has.
    pub(super) real_time: Option<Slopes>,
    pub(super) share: Option<Slopes>,
    pub(super) limit: Option<Slopes>,
    /// Deadlines by the bytes of real-time service.
    pub(super) deadline: Anchored,
    /// Virtual times by the bytes of all service.
    pub(super) virtually: Anchored,
    /// Fit times by the bytes of all service.
    pub(super) limited: Anchored,
    /// Bytes sent, by it or below it.
    pub(super) total: u64,
    /// Bytes sent by the real-time criterion.
    pub(super) served: u64,
    /// Its virtual time, and the part of it that makes up for times at which it did not fit.
    pub(super) vt: u64,
    pub(super) vt_skipped: u64,
    /// Least virtual time of those that were served below it, in this period.
    pub(super) vt_least: u64,
    /// Greatest virtual time at which a class below it has become inactive.
    pub(super) vt_past: u64,
    /// Time from which it may share: by its own limit, by those below it, and by both.
    pub(super) fit_alone: u64,
    pub(super) fit_below: u64,
    pub(super) fit: u64,
    /// Times that it has become active; that number of the class above, when it last did.
    pub(super) period: u32,
    pub(super) period_above: u32,
    /// Active classes below it; 1 for an active leaf.
    pub(super) active: u32,
    /// The active classes below it, by virtual time.
    pub(super) below: Set,
    /// True if it stands among the real-time leaves.
    pub(super) is_eligible: bool,
    pub(super) above: u16,
    pub(super) minor: u16,
    /// Levels of classes below it.
    pub(super) level: u8,
    /// Classes below it, by their level.
    levels: [u16; LEVELS],
}

const _: () = assert!(size_of::<Class>() <= 384, "the module header states the size of a class");

impl Class {
    /// Takes the given curves, from its present service on: those of time start at `now`.
    pub(super) fn place(&mut self, curves: &Curves, now: Tick) {
        if let Some(curve) = curves.real_time.map(Slopes::new) {
            self.deadline = Anchored::new(&curve, now.0, self.served);
            self.real_time = Some(curve);
        }
        if let Some(curve) = curves.share.map(Slopes::new) {
            self.virtually = Anchored::new(&curve, self.vt, self.total);
            self.share = Some(curve);
        }
        if let Some(curve) = curves.limit.map(Slopes::new) {
            self.limited = Anchored::new(&curve, now.0, self.total);
            self.limit = Some(curve);
        }
    }
    /// Forgets everything but the curves and the place in the tree.
    pub(super) fn reset(&mut self) {
        let Self { real_time, share, limit, above, minor, level, levels, .. } = *self;
        let start = |curve: Option<Slopes>| curve.map_or_else(Anchored::default, |c| Anchored::new(&c, 0, 0));
        let (deadline, virtually, limited) = (start(real_time), start(share), start(limit));
        let kept = Self { real_time, share, limit, deadline, virtually, limited, ..Self::default() };
        *self = Self { above, minor, level, levels, ..kept };
    }
}

/// The classes, by slot; slot 0 is the qdisc itself.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    pub(super) at: Vec<Class>,
    minors: Minors,
    free: Vec<u16>,
}

impl Classes {
    pub(super) fn new() -> Self {
        let root = Class { above: NONE, ..Class::default() };
        Self { at: alloc::vec![root], minors: Minors::default(), free: Vec::new() }
    }
    /// True if there is no room for one more class.
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.at.len() > CLASSES_MAX
    }
    /// Returns the slot of a class.
    #[inline]
    pub(crate) fn slot(&self, minor: u16) -> Option<usize> {
        self.minors.slot(minor)
    }
    /// Returns the slot of a class without classes below.
    #[inline]
    pub(crate) fn leaf_slot(&self, minor: u16) -> Option<usize> {
        self.slot(minor).filter(|i| self.is_leaf(*i))
    }
    /// Returns the classes and their slots, by minor number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, usize)> + '_ {
        self.minors.iter()
    }
    /// Returns the minor number of the class above; 0 for the qdisc.
    pub(crate) fn parent(&self, i: usize) -> u16 {
        self.at.get(usize::from(self.at[i].above)).map_or(0, |above| above.minor)
    }
    /// True if the class has no classes below.
    #[inline]
    pub(crate) fn is_leaf(&self, i: usize) -> bool {
        self.at[i].level == 0
    }
    /// Returns the levels of classes below a class.
    #[inline]
    pub(crate) fn level(&self, i: usize) -> u8 {
        self.at[i].level
    }
    /// True if a class below this one would be too deep.
    pub(crate) fn is_deepest(&self, i: usize) -> bool {
        let above = |i: &usize| Some(usize::from(self.at[*i].above)).filter(|above| *above < self.at.len());
        core::iter::successors(Some(i), above).count() > LEVELS
    }
    /// True if the class has a real-time curve.
    #[inline]
    pub(crate) fn has_deadlines(&self, i: usize) -> bool {
        self.at[i].real_time.is_some()
    }
    /// Returns the numbers of a class.
    pub(crate) fn shown(&self, i: usize) -> Shown {
        let Class { period, total, served, level, .. } = self.at[i];
        Shown { period, work: total, rtwork: served, level }
    }

    /// Adds a class without curves. Returns its slot.
    pub(super) fn insert(&mut self, minor: u16, above: usize) -> usize {
        // Slots are below `CLASSES_MAX + 1`.
        let class = Class { minor, above: above as u16, ..Class::default() };
        let i = match self.free.pop() {
            Some(i) => {
                self.at[usize::from(i)] = class;
                usize::from(i)
            }
            None => {
                self.at.push(class);
                self.at.len() - 1
            }
        };
        self.minors.set(minor, Some(i));
        self.at[above].levels[0] += 1;
        self.adjust(above);
        i
    }
    /// Removes a class that has none below.
    pub(super) fn remove(&mut self, i: usize) {
        let Class { above, minor, .. } = self.at[i];
        self.minors.set(minor, None);
        self.at[i] = Class { above: NONE, ..Class::default() };
        // Slots are below `CLASSES_MAX + 1`.
        self.free.push(i as u16);
        let above = usize::from(above);
        self.at[above].levels[0] -= 1;
        self.adjust(above);
    }
    /// Computes the levels from a class upwards, after one below it has come or gone.
    fn adjust(&mut self, from: usize) {
        let mut at = from;
        // Bound: the levels of classes.
        loop {
            let class = &mut self.at[at];
            let deepest = class.levels.iter().rposition(|n| *n > 0);
            // At most `LEVELS`.
            let level = deepest.map_or(0, |deepest| deepest as u8 + 1);
            let old = core::mem::replace(&mut class.level, level);
            let above = usize::from(class.above);
            if old == level || at == ROOT {
                return;
            }
            let levels = &mut self.at[above].levels;
            levels[usize::from(old)] -= 1;
            levels[usize::from(level)] += 1;
            at = above;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_the_deepest_class() {
        let mut classes = Classes::new();
        assert!(classes.is_leaf(ROOT));
        let mut above = ROOT;
        for minor in 1..=LEVELS as u16 {
            assert!(!classes.is_deepest(above));
            above = classes.insert(minor, above);
        }
        assert!(classes.is_deepest(above));
        let short = classes.insert(100, ROOT);
        assert_eq!((classes.level(ROOT), classes.level(above), classes.level(short)), (8, 0, 0));
        assert_eq!((classes.slot(1).map(|i| classes.level(i)), classes.parent(above)), (Some(7), 7));
        classes.remove(above);
        assert_eq!((classes.level(ROOT), classes.leaf_slot(7), classes.leaf_slot(8)), (7, Some(7), None));
        for minor in (1..LEVELS as u16).rev() {
            classes.remove(classes.slot(minor).unwrap());
        }
        assert_eq!((classes.level(ROOT), classes.leaf_slot(100)), (1, Some(short)));
        assert_eq!(classes.insert(7, short), 1);
        assert_eq!((classes.parent(1), classes.level(ROOT), classes.leaf_slot(100)), (100, 2, None));
    }
}
