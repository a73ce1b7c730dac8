//! `Index`: the places of the qdiscs of a tree by their handles, so that an operation looks at the
//! qdiscs on the way to its own and at no others.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::base::handle::Handle;
use crate::sched::node::Node;

/// First major number of qdiscs that are added without a handle, as in the reference.
const AUTO_MAJOR: u16 = 0x8001;

/// Bits of a word of the map of numbers.
const BITS: usize = u64::BITS as usize;

/// The qdiscs of a tree that have a handle, and their places.
#[derive(Clone, Debug, Default)]
pub(in crate::path) struct Index {
    /// The major number of the qdisc at a place.
    at: BTreeMap<Handle, u16>,
    /// The place of the qdisc of a major number, and whether the qdisc wants details.
    place: BTreeMap<u16, (Handle, bool)>,
    /// The number of these qdiscs that want details.
    detailed: usize,
    /// True if a qdisc without a handle may want details.
    unnamed: bool,
    /// Bit `n` is set if the major number `AUTO_MAJOR + n` is in use.
    numbers: Vec<u64>,
}

impl Index {
    /// Notes that a qdisc is at a place: below a class, or at `Handle::ROOT`.
    pub(in crate::path) fn insert(&mut self, place: Handle, node: &Node) {
        let (major, detailed) = (node.handle().major(), node.qdisc().wants_detail());
        self.at.insert(place, major);
        let was = self.place.insert(major, (place, detailed));
        self.detailed -= usize::from(was.is_some_and(|(_, detailed)| detailed));
        self.detailed += usize::from(detailed);
        self.number(major, true);
    }
    /// Notes a qdisc that no handle names, with those below it, until the root is forgotten.
    pub(super) fn insert_unnamed(&mut self, node: &Node) {
        fn wants(node: &Node) -> bool {
            node.qdisc().wants_detail() || node.qdisc().classes().iter().any(|c| wants(&c.node))
        }
        self.unnamed |= wants(node);
    }
    /// True if any qdisc wants details.
    pub(super) const fn wants_detail(&self) -> bool {
        self.detailed > 0 || self.unnamed
    }
    /// Frees at most so many names of an index that nobody asks any more; true once all are freed.
    pub(super) fn shrink(&mut self, most: usize) -> bool {
        // Bound: `most` turns.
        for _ in 0..most {
            let place = self.place.pop_first().is_some();
            if self.at.pop_first().is_none() && !place {
                return true;
            }
        }
        false
    }
    /// Forgets the qdiscs at a place and below, and calls `f` with the major number of each.
    pub(super) fn remove(&mut self, place: Handle, f: &mut dyn FnMut(u16)) {
        if place == Handle::ROOT {
            let gone = core::mem::take(self);
            gone.at.values().for_each(|major| f(*major));
            return;
        }
        // Bound: the qdiscs below the place, each once.
        let mut places = alloc::vec![place];
        while let Some(place) = places.pop() {
            let Some(major) = self.at.remove(&place) else { continue };
            let gone = self.place.remove(&major);
            self.detailed -= usize::from(gone.is_some_and(|(_, detailed)| detailed));
            self.number(major, false);
            f(major);
            places.extend(self.below(major));
        }
    }
    /// Iterates over the classes of a qdisc that have a qdisc with a handle.
    pub(super) fn below(&self, major: u16) -> impl Iterator<Item = Handle> + '_ {
        let classes = self.at.range(Handle::new(major, 0)..=Handle::new(major, u16::MAX));
        // The root's place is no class of a qdisc ffff:.
        classes.map(|(place, _)| *place).filter(|place| *place != Handle::ROOT)
    }
    /// Returns the place of a qdisc.
    pub(super) fn place(&self, major: u16) -> Option<Handle> {
        self.place.get(&major).map(|(place, _)| *place)
    }

    /// Returns the least major number from 8001 that is in use in none of the trees, or `own` if
    /// that is less: the number of the qdisc that is replaced is free.
    pub(in crate::path) fn free(all: &[&Self], own: u16) -> Option<u16> {
        let own = own.checked_sub(AUTO_MAJOR).map(usize::from);
        let word = |at: usize| {
            let used = all.iter().fold(0, |used, index| used | index.numbers.get(at).unwrap_or(&0));
            used & !own.filter(|own| own / BITS == at).map_or(0, |own| 1 << (own % BITS))
        };
        let numbers = usize::from(u16::MAX - AUTO_MAJOR);
        let free = (0..=numbers / BITS).find_map(|at| {
            let free = (!word(at)).trailing_zeros() as usize; // at most 64
            (free < BITS).then_some(at * BITS + free)
        });
        free.filter(|free| *free < numbers).and_then(|free| AUTO_MAJOR.checked_add(u16::try_from(free).ok()?))
    }
    fn number(&mut self, major: u16, used: bool) {
        let Some(number) = major.checked_sub(AUTO_MAJOR).map(usize::from) else { return };
        let (at, bit) = (number / BITS, 1 << (number % BITS));
        if self.numbers.len() <= at {
            self.numbers.resize(at + 1, 0);
        }
        match used {
            true => self.numbers[at] |= bit,
            false => self.numbers[at] &= !bit,
        }
    }
}
