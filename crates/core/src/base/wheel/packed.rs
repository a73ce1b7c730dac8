//! `PackedWheel`: a `Wheel` without removal of ids. An id in it is found by its deadline only, so
//! it needs no place of its own: ids lie side by side in the slots, with their deadlines, and move
//! from level to level in full cache lines. With a million waiting ids, that is the difference
//! between a few lines read in a row and a line somewhere in memory for each id and move.
//!
//! Order and levels are those of [`Wheel`](super::Wheel), and so is the bound on the cost of an id.
//! Ids that came into a slot in order of deadline, as where all wait equally long, are popped from
//! there and never moved; and so are a few ids in any order. An id that is late when it is
//! inserted, and out of order there too, costs a step for each late id when it is popped.
//!
//! **Memory.** 64 bytes for each 5 ids of the capacity and for each two occupied slots, at most 64
//! for each id; 37 kB for the wheel. Only [`PackedWheel::with_capacity`] and
//! [`PackedWheel::reserve`] allocate.

use alloc::vec;
use alloc::vec::Vec;

use super::{LATE, LEVELS, Levels, NIL, SLOTS, place};
use crate::base::bound::Bound;
use crate::base::time::Instant;

/// Number of ids in a chunk.
const CELLS: u32 = 5;
/// Bits of a cell's number in its chunk.
const CELL_BITS: u32 = 3;

/// An id with its deadline, without the padding that would make it 16 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Cell {
    when: u64,
    id: u32,
}

/// One cache line of ids.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Chunk {
    cells: [Cell; CELLS as usize],
    /// The next chunk of the same slot, or the next free one.
    next: u32,
}

const _: () = assert!(size_of::<Chunk>() == 64, "a chunk fills exactly one cache line");

/// The ids of a slot: the cells from `head` to `tail`. The name of a cell is its chunk's number
/// and, in the lowest `CELL_BITS`, its own.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
    /// The earliest of its deadlines.
    min: u64,
}

const EMPTY: Slot = Slot { head: NIL, tail: NIL, min: u64::MAX };

/// Returns the number of a cell's chunk, and the cell's own number there.
#[inline]
const fn split(cell: u32) -> (usize, usize) {
    ((cell >> CELL_BITS) as usize, (cell % (1 << CELL_BITS)) as usize)
}

/// Ids that wait for their deadlines and cannot be removed before.
#[derive(Clone, Debug)]
pub(crate) struct PackedWheel {
    /// Not later than any deadline outside `LATE`, and not later than the latest given `now`.
    base: u64,
    len: u32,
    capacity: u32,
    /// Occupied slots.
    levels: Levels,
    /// Occupied slots whose ids are not in order of deadline.
    mixed: Levels,
    free: u32,
    slots: Vec<Slot>,
    chunks: Vec<Chunk>,
}

impl PackedWheel {
    /// Returns an empty wheel with room for `capacity` ids, at most 2^28.
    pub fn with_capacity(capacity: u32) -> Self {
        let mut wheel = Self {
            base: 0,
            len: 0,
            capacity: 0,
            levels: Levels::NONE,
            mixed: Levels::NONE,
            free: NIL,
            slots: vec![EMPTY; SLOTS],
            chunks: Vec::new(),
        };
        wheel.reserve(capacity);
        wheel
    }

    /// Makes room for `capacity` ids; the capacity never shrinks. Allocates: not for the data path.
    pub fn reserve(&mut self, capacity: u32) {
        self.capacity = self.capacity.max(capacity);
        // The first and the last chunk of a slot may be partly filled; those between are full. A
        // chunk that is being emptied is freed only after its ids have their new places.
        let needed = (capacity as usize).min(capacity.div_ceil(CELLS) as usize + 2 * SLOTS) + 1;
        let there = self.chunks.len();
        if needed > there {
            self.chunks.reserve_exact(needed - there);
            // Free chunks are linked in order, so that few ids stay in few cache lines.
            for at in there..needed {
                let next = if at + 1 == needed { self.free } else { at as u32 + 1 };
                self.chunks.push(Chunk { cells: [Cell { when: 0, id: NIL }; CELLS as usize], next });
            }
            self.free = there as u32;
        }
    }

    /// Returns the number of ids that wait.
    #[cfg(test)]
    pub const fn len(&self) -> u32 {
        self.len
    }
    /// True if no id waits.
    #[cfg(test)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes `id`, which must not wait yet, wait for `when`.
    ///
    /// # Panics
    /// If as many ids as the capacity wait already.
    #[inline]
    pub fn insert(&mut self, id: u32, when: Instant) {
        assert!(self.len < self.capacity, "the wheel has room for {} ids", self.capacity);
        if self.len == 0 {
            self.base = self.base.min(when.0);
        }
        self.len += 1;
        let slot = if when.0 < self.base { LATE } else { place(when.0, self.base) };
        self.push(Cell { when: when.0, id }, slot);
    }

    /// Returns the earliest deadline. O(1).
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        self.levels.first().map(|slot| Instant(self.slots[slot].min))
    }

    /// Returns the id that is popped five turns after the next one, if it waits in the same slot,
    /// the slot is in order, and none comes before it. Asks for the memory of the ids behind it.
    #[inline]
    pub fn soon(&self) -> Option<u32> {
        let Slot { head, tail, .. } = self.slots[self.levels.first()?];
        let ((at, i), (last, end)) = (split(head), split(tail));
        if at == last {
            return None;
        }
        let next = self.chunks[at].next as usize;
        let chunk = &self.chunks[next];
        txweir_ahead::element(&self.chunks, chunk.next as usize);
        (next != last || i <= end).then(|| chunk.cells[i].id)
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
            let min = self.slots[slot].min;
            if min > now.0 {
                return None;
            }
            let ordered = !self.mixed.has(slot);
            if ordered || slot == LATE {
                self.len -= 1;
                let id = if ordered { self.pop_front(slot) } else { self.pop_late(min) };
                return Some((id, Instant(min)));
            }
            self.cascade(slot, min);
        }
    }

    /// Removes all ids and restores a new wheel. O(number of ids that wait).
    pub fn clear(&mut self) {
        let mut bound = Bound::of(self.len as usize);
        while let Some(slot) = self.levels.first() {
            bound.turn();
            self.pop_front(slot);
        }
        (self.base, self.len, self.mixed) = (0, 0, Levels::NONE);
    }

    /// Moves the base to `min`, which is due and lies in the span of the first slot, and the slot's
    /// ids to their new places: all at lower levels.
    fn cascade(&mut self, slot: usize, min: u64) {
        let Slot { head, tail, .. } = core::mem::replace(&mut self.slots[slot], EMPTY);
        self.levels.clear(slot);
        self.mixed.clear(slot);
        self.base = min;
        let ((mut at, mut from), (last, end)) = (split(head), split(tail));
        let mut bound = Bound::of(self.chunks.len());
        loop {
            bound.turn();
            let Chunk { cells, next } = self.chunks[at];
            let to = if at == last { end + 1 } else { CELLS as usize };
            for cell in cells.iter().take(to).skip(from) {
                self.push(*cell, place(cell.when, min));
            }
            self.give_back(at);
            if at == last {
                return;
            }
            (at, from) = (next as usize, 0);
        }
    }

    /// Puts an id into a slot: at the end, or sorted if the slot has a single chunk, which costs at
    /// most a step per cell.
    #[inline]
    fn push(&mut self, new: Cell, slot: usize) {
        let list = &mut self.slots[slot];
        let Slot { head, tail, min } = *list;
        if head == NIL {
            let chunk = self.free;
            let Chunk { cells, next } = &mut self.chunks[chunk as usize];
            self.free = *next;
            cells[0] = new;
            *list = Slot { head: chunk << CELL_BITS, tail: chunk << CELL_BITS, min: new.when };
            return self.levels.set(slot);
        }
        list.min = min.min(new.when);
        let (last, i) = split(tail);
        let Chunk { cells, next } = &mut self.chunks[last];
        let in_order = cells[i].when <= new.when;
        let mut at = i + 1;
        if at == CELLS as usize {
            let chunk = self.free;
            *next = chunk;
            list.tail = chunk << CELL_BITS;
            let Chunk { cells, next } = &mut self.chunks[chunk as usize];
            self.free = *next;
            cells[0] = new;
        } else {
            list.tail = tail + 1;
            let (first, from) = split(head);
            if !in_order && first == last {
                // Bound: the cells of a chunk.
                while at > from && cells[at - 1].when > new.when {
                    cells[at] = cells[at - 1];
                    at -= 1;
                }
                cells[at] = new;
                return;
            }
            cells[at] = new;
        }
        if !in_order {
            self.mixed.set(slot);
        }
    }

    /// Removes and returns the first id of an occupied slot: the earliest there, if the slot is not
    /// mixed.
    #[inline]
    fn pop_front(&mut self, slot: usize) -> u32 {
        let list = &mut self.slots[slot];
        let Slot { head, tail, min } = *list;
        let (at, i) = split(head);
        let chunk = &self.chunks[at];
        let id = chunk.cells[i].id;
        if head == tail {
            *list = EMPTY;
            self.levels.clear(slot);
            // The span of the slot has no ids left, so the base may move there.
            self.base = self.base.max(min);
            self.give_back(at);
        } else if let Some(cell) = chunk.cells.get(i + 1) {
            (list.head, list.min) = (head + 1, cell.when);
        } else {
            let next = chunk.next;
            (list.head, list.min) = (next << CELL_BITS, self.chunks[next as usize].cells[0].when);
            self.give_back(at);
        }
        id
    }

    /// Removes and returns the first late id with the deadline `min`. The ids in front of it move
    /// up into its cell.
    #[cold]
    fn pop_late(&mut self, min: u64) -> u32 {
        let Slot { head, tail, .. } = self.slots[LATE];
        let (mut ahead, mut least) = (Cell { when: u64::MAX, id: NIL }, u64::MAX);
        let mut cell = head;
        let mut bound = Bound::of(self.chunks.len() * CELLS as usize);
        loop {
            bound.turn();
            let (at, i) = split(cell);
            let here = self.chunks[at].cells[i];
            if ahead.when == min {
                least = least.min(here.when);
            } else {
                // The first cell is freed later; `ahead` ends with the id that is sought.
                self.chunks[at].cells[i] = ahead;
                least = least.min(ahead.when);
                ahead = here;
            }
            if cell == tail {
                break;
            }
            cell = if i + 1 == CELLS as usize { self.chunks[at].next << CELL_BITS } else { cell + 1 };
        }
        self.pop_front(LATE);
        if head == tail {
            self.mixed.clear(LATE);
        } else {
            self.slots[LATE].min = least;
        }
        ahead.id
    }

    /// Frees a chunk.
    #[inline]
    fn give_back(&mut self, chunk: usize) {
        self.chunks[chunk].next = self.free;
        self.free = chunk as u32;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::tests::time;
    use super::*;

    /// Few ids, so that slots are crowded; the wheel has room for exactly these.
    const IDS: u32 = 40;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Compares the wheel with a sorted map, as for `Wheel`. `crowded` puts the deadlines close
        /// together.
        #[test]
        fn is_a_sorted_map(
            ops in prop::collection::vec((0..16u8, time(), 0..9u64), 1..600),
            absolute in any::<bool>(),
            crowded in any::<bool>(),
        ) {
            let mut w = PackedWheel::with_capacity(IDS / 2);
            w.reserve(IDS);
            let mut model = BTreeMap::new();
            let mut free: Vec<u32> = (0..IDS).collect();
            let mut now = 0u64;
            for (seq, (op, d, near)) in ops.into_iter().enumerate() {
                let d = if crowded { near } else { d };
                let d = if absolute { d } else { now.saturating_add(d) };
                match op {
                    0..8 => if let Some(id) = free.pop() {
                        w.insert(id, Instant(d));
                        model.insert((d, seq), id);
                    },
                    8 if d % 8 == 0 => {
                        w.clear();
                        model.clear();
                        free = (0..IDS).collect();
                    }
                    _ => {
                        now = d;
                        let due = model.first_entry().filter(|e| e.key().0 <= now);
                        let due = due.map(|e| { let ((when, _), id) = e.remove_entry(); (id, Instant(when)) });
                        free.extend(due.map(|(id, _)| id));
                        prop_assert_eq!(w.pop_due(Instant(now)), due);
                    }
                }
                prop_assert_eq!(w.next(), model.first_key_value().map(|((when, _), _)| Instant(*when)));
                prop_assert_eq!((w.len() as usize, w.is_empty()), (model.len(), model.is_empty()));
            }
            while let Some(((when, _), id)) = model.pop_first() {
                prop_assert_eq!(w.pop_due(Instant::MAX), Some((id, Instant(when))));
            }
            prop_assert_eq!((w.pop_due(Instant::MAX), w.next()), (None, None));
        }
    }

    /// Checks that there are chunks for all ids, however they are spread and whatever is popped in
    /// between.
    #[test]
    fn there_is_room_for_all_ids_in_any_slots() {
        for spread in [0, 8, 20, 36, 60] {
            let mut w = PackedWheel::with_capacity(20_000);
            let mut rng = crate::base::rng::Rng::new(spread);
            let mut now = 1 << 32;
            (0..20_000).for_each(|id| w.insert(id, Instant(now + rng.below(1 << spread))));
            for _ in 0..100_000 {
                let next = w.next().unwrap();
                assert!(next.0 >= now);
                now = next.0;
                let (id, when) = w.pop_due(next).unwrap();
                assert_eq!(when, next);
                w.insert(id, Instant(now.saturating_add(rng.below(1 << spread))));
            }
            assert_eq!(w.len(), 20_000);
        }
    }

    /// The ids of a slot come in order: one of them is five turns ahead as long as the slot has so
    /// many.
    #[test]
    fn the_id_that_is_soon_is_popped_after_five_others() {
        let mut w = PackedWheel::with_capacity(40);
        assert_eq!(w.soon(), None);
        (0..23).for_each(|id| w.insert(id, Instant(1 << 20)));
        let mut seen = Vec::new();
        for id in 0..23 {
            let before = w.soon();
            assert_eq!(w.pop_due(Instant(1 << 20)), Some((id, Instant(1 << 20))));
            seen.push(before);
        }
        let expected: Vec<_> = (0..23).map(|id| (id + 5 < 23).then_some(id + 5)).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    #[should_panic(expected = "room for 1 ids")]
    fn more_than_there_is_room_for_is_a_bug() {
        let mut w = PackedWheel::with_capacity(1);
        w.insert(0, Instant(1));
        w.insert(1, Instant(1));
    }
}
