//! The classes below a class, by minor number, and those of them that stand in its feeds.
//!
//! The classes are in an array with one gap, at the place of the last addition or removal. An
//! addition or a removal moves the classes between the gap and its own place. It moves none if the
//! minor numbers rise or fall from one to the next, as they do in most texts, and at worst it moves
//! all. The index of a class in the array is its *rank*; the feeds are sets of ranks.
//!
//! Memory: at most four bytes for each class, and the bits of each feed in use
//! ([`crate::law::bits`]).

use alloc::vec::Vec;

use super::classes::Hot;
use super::{PRIOS, bits};
use crate::law::bits::Bits;

/// Classes with the same class above.
#[derive(Clone, Debug, Default)]
pub(super) struct Siblings {
    /// Slots; those of the gap mean nothing.
    slots: Vec<u16>,
    /// First rank of the gap, and the first one behind it.
    gap: (usize, usize),
    /// For each priority, the ranks of those that may borrow and have packets.
    pub(super) feeds: [Bits; PRIOS],
}

impl Siblings {
    /// Returns the number of classes.
    pub(super) const fn len(&self) -> usize {
        self.slots.len() - (self.gap.1 - self.gap.0)
    }
    /// Returns the slots, by minor number.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let (front, back) = self.halves();
        front.iter().chain(back).map(|slot| usize::from(*slot))
    }
    /// Returns the slot of the class of a rank.
    #[inline]
    pub(super) fn at(&self, rank: usize) -> usize {
        usize::from(self.slots[rank])
    }
    /// Makes room for all classes in the feed of a priority.
    pub(super) fn make_room(&mut self, prio: usize) {
        self.feeds[prio].reserve(self.slots.len());
    }
    /// Returns the rank from which on the classes have this minor number or a higher one.
    pub(super) fn rank_from(&self, hot: &[Hot], minor: u16) -> usize {
        let (front, back) = self.halves();
        let lower = |slot: &u16| hot[usize::from(*slot)].minor < minor;
        match front.partition_point(lower) {
            at if at < front.len() => at,
            _ => self.gap.1 + back.partition_point(lower),
        }
    }
    /// Adds a class, which stands in no feed.
    pub(super) fn insert(&mut self, hot: &mut [Hot], slot: usize) {
        if self.gap.0 == self.gap.1 {
            self.grow();
        }
        let rank = self.rank_from(hot, hot[slot].minor);
        self.move_gap(hot, rank);
        // Slots and ranks are below 65 536.
        self.slots[self.gap.0] = slot as u16;
        hot[slot].rank = self.gap.0 as u16;
        self.gap.0 += 1;
    }
    /// Removes the class of a rank, which stands in no feed.
    pub(super) fn remove(&mut self, hot: &mut [Hot], rank: usize) {
        if rank < self.gap.0 {
            self.move_gap(hot, rank + 1);
            self.gap.0 -= 1;
        } else {
            self.move_gap(hot, rank);
            self.gap.1 += 1;
        }
    }

    fn halves(&self) -> (&[u16], &[u16]) {
        (&self.slots[..self.gap.0], &self.slots[self.gap.1..])
    }
    /// Makes the gap, which has no room, as wide as the classes are many.
    fn grow(&mut self) {
        let old = self.slots.len();
        // Ranks are 16 bits, and there are fewer classes than that.
        let new = (old * 2).clamp(4, 1 << 16);
        self.slots.reserve_exact(new - old);
        self.slots.resize(new, 0);
        for feed in self.feeds.iter_mut().filter(|feed| feed.capacity() > 0) {
            feed.reserve(new);
        }
        self.gap = (old, new);
    }
    /// Moves the gap to a rank: to where the class of this rank, or the end, follows it, or where
    /// the classes below this rank precede it.
    fn move_gap(&mut self, hot: &mut [Hot], rank: usize) {
        let (from, to) = self.gap;
        let room = to - from;
        let used = self.feeds.iter().enumerate().map(|(prio, feed)| u8::from(!feed.is_empty()) << prio).sum();
        if rank <= from {
            for at in (rank..from).rev() {
                self.place(hot, used, at, at + room);
            }
            self.gap = (rank, rank + room);
        } else {
            for at in to..rank {
                self.place(hot, used, at, at - room);
            }
            self.gap = (rank - room, rank);
        }
    }
    /// Gives a class another rank, in the feeds of a mask too.
    fn place(&mut self, hot: &mut [Hot], used: u8, from: usize, to: usize) {
        let slot = self.slots[from];
        self.slots[to] = slot;
        hot[usize::from(slot)].rank = to as u16;
        for prio in bits(used) {
            let feed = &mut self.feeds[prio];
            if feed.has(from) {
                feed.clear(from);
                feed.set(to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::super::classes::vacant;
    use super::*;

    const PRIO: usize = 3;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u16),
        Remove(u16),
        Join(u16),
        Leave(u16),
    }

    fn op() -> impl Strategy<Value = Op> {
        // Few numbers, so that most are met again, and the ends of the range.
        let minor = || prop_oneof![8 => 100..140u16, 1 => 1..3u16, 1 => 0xfffd..=0xffffu16];
        prop_oneof![
            4 => minor().prop_map(Op::Insert),
            2 => minor().prop_map(Op::Remove),
            2 => minor().prop_map(Op::Join),
            1 => minor().prop_map(Op::Leave),
        ]
    }

    proptest! {
        #[test]
        fn are_a_sorted_map_and_a_set_of_its_members(ops in prop::collection::vec(op(), 1..200)) {
            let (mut siblings, mut hot) = (Siblings::default(), Vec::new());
            let (mut model, mut feed) = (BTreeMap::new(), BTreeSet::new());
            for op in ops {
                match op {
                    Op::Insert(minor) if !model.contains_key(&minor) => {
                        hot.push(Hot { minor, ..vacant() });
                        let slot = hot.len() - 1;
                        siblings.insert(&mut hot, slot);
                        model.insert(minor, slot);
                    }
                    Op::Remove(minor) if !feed.contains(&minor) => {
                        if let Some(slot) = model.remove(&minor) {
                            let rank = hot[slot].rank.into();
                            siblings.remove(&mut hot, rank);
                        }
                    }
                    Op::Join(minor) => {
                        if let Some(slot) = model.get(&minor) {
                            siblings.make_room(PRIO);
                            siblings.feeds[PRIO].set(usize::from(hot[*slot].rank));
                            feed.insert(minor);
                        }
                    }
                    Op::Leave(minor) if feed.remove(&minor) => {
                        siblings.feeds[PRIO].clear(usize::from(hot[model[&minor]].rank));
                    }
                    _ => {}
                }
                prop_assert_eq!(siblings.len(), model.len());
                prop_assert_eq!(siblings.iter().collect::<Vec<_>>(), model.values().copied().collect::<Vec<_>>());
                for slot in model.values() {
                    prop_assert_eq!(siblings.at(usize::from(hot[*slot].rank)), *slot);
                }
                let ranks = core::iter::successors(siblings.feeds[PRIO].next(0), |at| siblings.feeds[PRIO].next(at + 1));
                let members: BTreeSet<u16> = ranks.map(|rank| hot[siblings.at(rank)].minor).collect();
                prop_assert_eq!(&members, &feed);
                for minor in [0, 1, 100, 117, 139, 140, 0xffff] {
                    let first = siblings.feeds[PRIO].next(siblings.rank_from(&hot, minor));
                    let first = first.map(|rank| hot[siblings.at(rank)].minor);
                    prop_assert_eq!(first, feed.range(minor..).next().copied());
                }
            }
        }
    }

    /// As many classes as there may be, in rising and falling order: one move of all for each would
    /// be four thousand million.
    #[test]
    fn as_many_as_there_are_numbers() {
        let mut hot: Vec<Hot> = (0..=u16::MAX - 2).map(|minor| Hot { minor, ..vacant() }).collect();
        for rising in [true, false] {
            let mut siblings = Siblings::default();
            let last = hot.len() - 1;
            let order: Vec<usize> = (0..=last).map(|at| if rising { at } else { last - at }).collect();
            for slot in &order {
                siblings.insert(&mut hot, *slot);
            }
            assert!(siblings.iter().eq(0..hot.len()));
            for slot in &order {
                let rank = hot[*slot].rank.into();
                siblings.remove(&mut hot, rank);
            }
            assert_eq!(siblings.len(), 0);
        }
    }
}
