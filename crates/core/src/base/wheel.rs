//! `Wheel`: ids with a deadline each, returned in order of deadline. One wheel serves all timed
//! waits of a qdisc: throttled flows, classes out of tokens, packets with a launch time, gates that
//! open.
//!
//! A hierarchical timing wheel (Varghese and Lauck, SOSP 1987): 8 levels of 256 slots; a slot of
//! level `l` is 256^l ns wide, which covers every `u64`. A deadline lies on the level of the
//! highest base-256 digit in which it differs from the wheel's `base`, in the slot of its own digit
//! there; so level 0 holds exact nanoseconds, and the first occupied slot of the lowest occupied
//! level holds the earliest deadline. Nothing ticks: each slot knows a lower bound of its
//! deadlines, and the base jumps there when that is due. The slot's ids then move to lower levels,
//! in order.
//!
//! **Order.** Strict: by deadline to the nanosecond, and among equal deadlines first in, first out.
//! (Equal deadlines share a slot at any time, lists are first in first out, and a slot is emptied
//! before the base enters its span.)
//!
//! **Cost.** Insert and remove are O(1): a count of leading zeroes, a list link, a bit. A pop is
//! O(1), plus a move of each id at most once per level that it descends: at most 7 moves in its
//! stay, whatever is removed in between, and 1 or 2 where deadlines are microseconds to
//! milliseconds ahead; an id that is alone in its slot is popped from there. No cost grows with the
//! number of ids that wait. The one exception is documented at [`Wheel::insert`].
//!
//! **Memory.** 24 bytes for each id of the capacity, 37 kB for the wheel. Only
//! [`Wheel::with_capacity`] and [`Wheel::reserve`] allocate.

mod packed;

use alloc::vec;
use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::time::Instant;

pub(crate) use packed::PackedWheel;

/// "No id" in a link.
const NIL: u32 = u32::MAX;
/// Bits of a digit. With whole bytes, a level is found without a division; and an id that waits for
/// some microseconds to seconds, as most do, descends 1 to 3 levels.
const BITS: u32 = 8;
/// 8 digits of 8 bits are the 64 bits of a deadline.
const LEVELS: usize = 8;
/// Slots of all levels, and of an extra level below them, of which only `LATE` is used.
const SLOTS: usize = (LEVELS + 1) << BITS;
/// In place of a slot: the list of ids that were late when they were inserted. It comes before all
/// others.
const LATE: usize = 0;
/// In place of a slot: the id does not wait.
const NOWHERE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    when: u64,
    prev: u32,
    next: u32,
    slot: u16,
}

#[cfg(target_pointer_width = "64")] // a 32-bit ABI may align 64-bit words to 4
const _: () = assert!(size_of::<Entry>() == 24, "the module header states the size of an id");

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
    /// Lower bound of its deadlines; equal to the earliest, unless an id was removed.
    min: u64,
}

const EMPTY: Slot = Slot { head: NIL, tail: NIL, min: u64::MAX };

/// Ids that wait for their deadlines. An id is the caller's index of a flow, a class, or a packet's
/// slot.
#[derive(Clone, Debug)]
pub struct Wheel {
    /// Not later than any deadline outside `LATE`, and not later than the latest given `now`.
    base: u64,
    len: u32,
    levels: Levels,
    slots: Vec<Slot>,
    entries: Vec<Entry>,
}

impl Wheel {
    /// Returns an empty wheel with room for the ids below `capacity`.
    pub fn with_capacity(capacity: u32) -> Self {
        let mut wheel =
            Self { base: 0, len: 0, levels: Levels::NONE, slots: vec![EMPTY; SLOTS], entries: Vec::new() };
        wheel.reserve(capacity);
        wheel
    }

    /// Makes room for the ids below `capacity`; the capacity never shrinks. Allocates: not for the
    /// data path.
    pub fn reserve(&mut self, capacity: u32) {
        let capacity = capacity as usize;
        if capacity > self.entries.len() {
            self.entries.reserve_exact(capacity - self.entries.len());
            self.entries.resize(capacity, Entry { when: 0, prev: NIL, next: NIL, slot: NOWHERE });
        }
    }

    /// Returns the capacity: the wheel has room for smaller ids.
    pub fn capacity(&self) -> u32 {
        self.entries.len() as u32
    }
    /// Returns the number of ids that wait.
    pub const fn len(&self) -> u32 {
        self.len
    }
    /// True if no id waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// True if this id waits.
    pub fn contains(&self, id: u32) -> bool {
        self.deadline(id).is_some()
    }
    /// Returns the deadline of this id, if it waits.
    pub fn deadline(&self, id: u32) -> Option<Instant> {
        self.entries.get(id as usize).filter(|e| e.slot != NOWHERE).map(|e| Instant(e.when))
    }

    /// Makes `id` wait for `when`. An id that waits already is moved there, behind ids with the
    /// same deadline.
    ///
    /// O(1), with one exception: a deadline before the wheel's base, while others wait, is sorted
    /// among the late ids from the end, which costs a step for each later one. Deadlines in the
    /// future never take this path.
    ///
    /// # Panics
    /// If `id` is not below the capacity.
    #[inline]
    pub fn insert(&mut self, id: u32, when: Instant) {
        if self.entries[id as usize].slot != NOWHERE {
            self.unlink(id);
        }
        self.entries[id as usize].when = when.0;
        if self.len == 0 {
            self.base = self.base.min(when.0);
        }
        self.len += 1;
        if when.0 < self.base {
            return self.insert_late(id, when.0);
        }
        let slot = place(when.0, self.base);
        self.push(id, when.0, slot);
    }

    /// Ends the wait of `id`. True if it waited. O(1).
    #[inline]
    pub fn remove(&mut self, id: u32) -> bool {
        let waits = self.contains(id);
        if waits {
            self.unlink(id);
        }
        waits
    }

    /// Returns the earliest deadline. After a removal it may return an earlier instant, at which
    /// [`Wheel::pop_due`] returns `None` and corrects the answer; it never returns a later instant
    /// than the earliest deadline. `None` if no id waits. O(1).
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        self.levels.first().map(|slot| Instant(self.slots[slot].min))
    }

    /// Removes and returns the earliest id that is due at `now`, with its deadline.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<(u32, Instant)> {
        // Each turn but the last moves ids to a lower level.
        let mut bound = Bound::of(LEVELS);
        loop {
            bound.turn();
            let Some(slot) = self.levels.first() else {
                self.base = self.base.max(now.0);
                return None;
            };
            let Slot { head, tail, min } = self.slots[slot];
            if min > now.0 {
                return None;
            }
            if is_exact(slot) || head == tail {
                let when = self.entries[head as usize].when;
                if when > now.0 {
                    // The id that set the lower bound was removed.
                    self.slots[slot].min = when;
                    return None;
                }
                self.base = self.base.max(when);
                self.unlink(head);
                return Some((head, Instant(when)));
            }
            self.cascade(slot, min);
        }
    }

    /// Removes all ids and restores a new wheel. O(number of ids that wait).
    pub fn clear(&mut self) {
        let mut bound = Bound::of(self.entries.len());
        while let Some(slot) = self.levels.first() {
            bound.turn();
            self.unlink(self.slots[slot].head);
        }
        self.base = 0;
    }

    /// Moves the base to `min`, which is due and lies in the span of the first slot, and the slot's
    /// ids to their new places: all at lower levels.
    fn cascade(&mut self, slot: usize, min: u64) {
        let mut id = core::mem::replace(&mut self.slots[slot], EMPTY).head;
        self.levels.clear(slot);
        self.base = min;
        let mut bound = Bound::of(self.entries.len());
        while id != NIL {
            bound.turn();
            let Entry { when, next, .. } = self.entries[id as usize];
            self.push(id, when, place(when, min));
            id = next;
        }
    }

    /// Appends an id with a deadline to a slot.
    #[inline]
    fn push(&mut self, id: u32, when: u64, slot: usize) {
        let list = &mut self.slots[slot];
        let tail = core::mem::replace(&mut list.tail, id);
        if tail == NIL {
            *list = Slot { head: id, tail: id, min: when };
            self.levels.set(slot);
        } else {
            list.min = list.min.min(when);
            self.entries[tail as usize].next = id;
        }
        let e = &mut self.entries[id as usize];
        (e.prev, e.next, e.slot) = (tail, NIL, slot as u16);
    }

    /// Sorts an id into the list of late ids.
    #[cold]
    fn insert_late(&mut self, id: u32, when: u64) {
        let list = self.slots[LATE];
        let (mut prev, mut next) = (list.tail, NIL);
        let mut bound = Bound::of(self.entries.len());
        while let Some(e) = self.entries.get(prev as usize).filter(|e| e.when > when) {
            bound.turn();
            (prev, next) = (e.prev, prev);
        }
        self.entries[id as usize] = Entry { when, prev, next, slot: LATE as u16 };
        self.levels.set(LATE);
        self.link(LATE, prev, next, (id, id));
        let list = &mut self.slots[LATE];
        list.min = list.min.min(when);
    }

    /// Makes `prev` and `next` (or the ends of the list of `slot`) point to these two.
    #[inline]
    fn link(&mut self, slot: usize, prev: u32, next: u32, (after_prev, before_next): (u32, u32)) {
        match self.entries.get_mut(prev as usize) {
            Some(e) => e.next = after_prev,
            None => self.slots[slot].head = after_prev,
        }
        match self.entries.get_mut(next as usize) {
            Some(e) => e.prev = before_next,
            None => self.slots[slot].tail = before_next,
        }
    }

    /// Takes a waiting id out of its list.
    #[inline]
    fn unlink(&mut self, id: u32) {
        let Entry { prev, next, slot, .. } = self.entries[id as usize];
        let slot = usize::from(slot);
        self.entries[id as usize].slot = NOWHERE;
        self.len -= 1;
        self.link(slot, prev, next, (next, prev));
        let head = self.slots[slot].head;
        if head == NIL {
            self.levels.clear(slot);
        }
        if slot == LATE {
            // The list is sorted: its head is the earliest.
            self.slots[LATE].min = self.entries.get(head as usize).map_or(u64::MAX, |e| e.when);
        }
    }
}

/// The set of occupied slots. Slot `d` of level `l` has the number 256 (l + 1) + d.
#[derive(Clone, Copy, Debug)]
struct Levels {
    /// Bit `w` is set if word `w` is not 0.
    summary: u64,
    /// A bit for each slot.
    words: [u64; SLOTS / 64],
}

impl Levels {
    const NONE: Self = Self { summary: 0, words: [0; SLOTS / 64] };

    #[inline]
    fn set(&mut self, slot: usize) {
        self.words[slot / 64] |= 1 << (slot % 64);
        self.summary |= 1 << (slot / 64);
    }
    #[inline]
    fn clear(&mut self, slot: usize) {
        let word = &mut self.words[slot / 64];
        *word &= !(1 << (slot % 64));
        self.summary &= !(u64::from(*word == 0) << (slot / 64));
    }
    #[inline]
    fn has(&self, slot: usize) -> bool {
        self.words[slot / 64] >> (slot % 64) & 1 != 0
    }
    /// Returns the first slot of the set: that with the earliest deadlines, if the set is that of
    /// the occupied slots.
    #[inline]
    fn first(&self) -> Option<usize> {
        let at = self.summary.trailing_zeros() as usize;
        let word = self.words.get(at)?;
        Some(at * 64 + word.trailing_zeros() as usize)
    }
}

/// True if all deadlines in this slot are equal or in order.
#[inline]
const fn is_exact(slot: usize) -> bool {
    slot < 2 << BITS
}

/// Returns the slot of a deadline that is not before `base`.
#[inline]
const fn place(when: u64, base: u64) -> usize {
    // The lowest bit of the highest digit that differs; equal numbers differ in the lowest digit.
    let shift = (63 - ((when ^ base) | 1).leading_zeros()) & !(BITS - 1);
    let digit = (when >> shift) & 0xff;
    ((shift as usize + 8) << 5) + digit as usize
}

const _: () = assert!(BITS == 8 && SLOTS / 64 <= 64, "a level is 8 bits, and the words fit the summary");

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn at(ns: u64) -> Instant {
        Instant(ns)
    }

    #[test]
    fn pops_in_order_of_deadline_and_of_insertion() {
        let mut w = Wheel::with_capacity(8);
        for (id, when) in [(0, 700), (1, 5), (2, 700), (3, u64::MAX), (4, 699), (5, 700)] {
            w.insert(id, at(when));
        }
        assert_eq!((w.len(), w.next(), w.pop_due(at(4))), (6, Some(at(5)), None));
        assert_eq!(w.pop_due(at(5)), Some((1, at(5))));
        assert_eq!(w.pop_due(at(698)), None);
        // Id 6 joins the others at 700 later, and from another base.
        w.insert(6, at(700));
        assert_eq!(w.pop_due(at(699)), Some((4, at(699))));
        w.insert(7, at(700));
        assert_eq!(core::array::from_fn(|_| w.pop_due(at(700)).map(|p| p.0)), [0, 2, 5, 6, 7].map(Some));
        assert_eq!((w.pop_due(at(u64::MAX - 1)), w.next()), (None, Some(Instant::MAX)));
        assert_eq!((w.pop_due(Instant::MAX), w.len(), w.next()), (Some((3, Instant::MAX)), 0, None));
    }

    #[test]
    fn what_is_late_is_sorted_before_the_rest() {
        let mut w = Wheel::with_capacity(8);
        w.insert(0, at(1_000));
        w.insert(1, at(2_000));
        assert_eq!(w.pop_due(at(9_000)), Some((0, at(1_000))));
        for (id, when) in [(2, 500), (3, 400), (4, 500), (5, 1_000), (6, 450)] {
            w.insert(id, at(when));
        }
        assert_eq!(w.next(), Some(at(400)));
        assert!(w.remove(3) && !w.remove(3));
        assert_eq!(w.next(), Some(at(450)));
        assert_eq!(core::array::from_fn(|_| w.pop_due(at(9_000)).map(|p| p.0)), [6, 2, 4, 5, 1].map(Some));
    }

    #[test]
    fn after_a_removal_next_is_early_and_then_right() {
        let mut w = Wheel::with_capacity(3);
        // All three are in one slot.
        for (id, when) in [(0, 5_200), (1, 5_250), (2, 5_300)] {
            w.insert(id, at(when));
        }
        w.remove(0);
        assert_eq!(w.next(), Some(at(5_200)));
        assert_eq!((w.pop_due(at(5_225)), w.next()), (None, Some(at(5_250))));
        w.insert(1, at(9_000));
        assert_eq!((w.deadline(1), w.contains(0)), (Some(at(9_000)), false));
        assert_eq!((w.pop_due(at(5_300)), w.next()), (Some((2, at(5_300))), Some(at(9_000))));
        w.clear();
        assert_eq!((w.len(), w.next(), w.contains(1)), (0, None, false));
        w.reserve(5);
        w.insert(4, at(1));
        assert_eq!((w.capacity(), w.pop_due(at(1))), (5, Some((4, at(1)))));
    }

    /// Counts the moves of ids between slots, to check the cost that the module states.
    #[test]
    fn an_id_descends_each_level_once() {
        let mut w = Wheel::with_capacity(4_096);
        let mut rng = crate::base::rng::Rng::new(1);
        (0..4_096).for_each(|id| w.insert(id, at(1 + rng.below(1 << 62))));
        let (mut moves, mut popped) = (0, 0);
        while let Some(when) = w.next() {
            let slot = w.levels.first().unwrap();
            if w.slots[slot].head == w.slots[slot].tail {
                popped += 1;
                assert!(w.pop_due(when).is_some());
            } else {
                let next = |&id: &u32| Some(w.entries[id as usize].next).filter(|&id| id != NIL);
                moves += core::iter::successors(Some(w.slots[slot].head), next).count();
                w.cascade(slot, when.0);
            }
        }
        assert_eq!((popped, w.len()), (4_096, 0));
        assert!(moves < 3 * 4_096, "{moves}");
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u32, u64),
        Remove(u32),
        Pop(u64),
        Next,
        Clear,
    }

    const IDS: u32 = 24;

    pub(super) fn time() -> impl Strategy<Value = u64> {
        prop_oneof![
            4 => 0..200u64,
            4 => 0..200_000u64,
            2 => (0..64u32, -2i64..=2).prop_map(|(bit, d)| (1u64 << bit).wrapping_add_signed(d)),
            1 => any::<u64>(),
            1 => Just(u64::MAX),
        ]
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            6 => (0..IDS, time()).prop_map(|(id, d)| Op::Insert(id, d)),
            2 => (0..IDS).prop_map(Op::Remove),
            6 => time().prop_map(Op::Pop),
            2 => Just(Op::Next),
            1 => Just(Op::Clear),
        ];
        prop::collection::vec(op, 1..400)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Compares the wheel with a sorted map. Time moves on, or (`absolute`) jumps, so that late
        /// insertions occur too.
        #[test]
        fn is_a_sorted_map(ops in ops(), absolute in any::<bool>()) {
            let mut w = Wheel::with_capacity(IDS);
            let mut model = BTreeMap::new();
            let (mut now, mut removed) = (0u64, false);
            for (seq, op) in ops.into_iter().enumerate() {
                let time = |d: u64| if absolute { d } else { now.saturating_add(d) };
                match op {
                    Op::Insert(id, d) => {
                        let before = model.len();
                        model.retain(|_, &mut other| other != id);
                        removed |= before != model.len();
                        model.insert((time(d), seq), id);
                        w.insert(id, at(time(d)));
                    }
                    Op::Remove(id) => {
                        let before = model.len();
                        model.retain(|_, &mut other| other != id);
                        removed |= before != model.len();
                        prop_assert_eq!(w.remove(id), before != model.len());
                    }
                    Op::Pop(d) => {
                        now = time(d);
                        let due = model.first_entry().filter(|e| e.key().0 <= now);
                        let due = due.map(|e| { let ((when, _), id) = e.remove_entry(); (id, at(when)) });
                        prop_assert_eq!(w.pop_due(at(now)), due);
                    }
                    Op::Next => {
                        let exact = model.first_key_value().map(|((when, _), _)| at(*when));
                        prop_assert!(w.next() <= exact && w.next().is_some() == exact.is_some());
                        prop_assert!(removed || w.next() == exact, "{:?} {:?}", w.next(), exact);
                    }
                    Op::Clear => {
                        w.clear();
                        model.clear();
                    }
                }
                prop_assert_eq!(w.len() as usize, model.len());
                for id in 0..IDS {
                    let deadline = model.iter().find(|(_, v)| **v == id).map(|(k, _)| at(k.0));
                    prop_assert_eq!(w.deadline(id), deadline);
                }
            }
            while let Some(((when, _), id)) = model.pop_first() {
                prop_assert_eq!(w.pop_due(Instant::MAX), Some((id, at(when))));
            }
            prop_assert_eq!((w.pop_due(Instant::MAX), w.next()), (None, None));
        }
    }
}
