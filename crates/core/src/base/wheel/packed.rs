//! `PackedWheel`: a `Wheel` whose ids cannot be taken back. Who waits in it is found by its deadline only, so its ids need
//! no place of their own: they lie side by side in the slots, with their deadlines, and move from level to level in
//! cache lines that are full of them. Where a million ids wait, that is the difference between a few lines read in a row
//! and a line somewhere in memory for each id and move.
//!
//! Order and levels are those of [`Wheel`](super::Wheel), and so is the bound of what an id costs. What came into a slot in
//! order of deadline, as where all wait for as long, is popped from there and never moved; and so are few ids in
//! whatever order. What is late when it is inserted, and out of order there too, costs a step for each of its like when it
//! is popped.
//!
//! **Memory.** 64 bytes for each 5 ids that it has room for and for each two slots that are occupied, at most 64 for each
//! id; 37 kB for the wheel. Nothing is allocated after [`PackedWheel::with_capacity`] but by [`PackedWheel::reserve`].

use alloc::vec;
use alloc::vec::Vec;

use super::{LATE, Levels, NIL, SLOTS, place};
use crate::base::time::Instant;

/// Ids in a chunk.
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

/// The ids of a slot: the cells from `head` to `tail`. A cell is named by its chunk's number and, in the lowest `CELL_BITS`,
/// its own.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
    /// The earliest of its deadlines.
    min: u64,
}

const EMPTY: Slot = Slot { head: NIL, tail: NIL, min: u64::MAX };

/// The number of a cell's chunk, and its own there.
#[inline]
const fn split(cell: u32) -> (usize, usize) {
    ((cell >> CELL_BITS) as usize, (cell % (1 << CELL_BITS)) as usize)
}

/// Ids that wait for their deadlines, each until then.
#[derive(Clone, Debug)]
pub struct PackedWheel {
    /// Not later than any deadline but those that are late, and never later than a `now` that was given.
    base: u64,
    len: u32,
    capacity: u32,
    /// Slots in which something waits.
    levels: Levels,
    /// Those of them whose ids are not in order of deadline.
    mixed: Levels,
    free: u32,
    slots: Vec<Slot>,
    chunks: Vec<Chunk>,
}

impl PackedWheel {
    /// An empty wheel with room for `capacity` ids, at most 2^28.
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

    /// Makes room for `capacity` ids; room is never given up. Allocates: not for the data path.
    pub fn reserve(&mut self, capacity: u32) {
        self.capacity = self.capacity.max(capacity);
        // The first and the last chunk of a slot may be filled in part; those between are full. The one that is being
        // emptied gives up its place after its ids have found theirs.
        let needed = (capacity as usize).min(capacity.div_ceil(CELLS) as usize + 2 * SLOTS) + 1;
        let there = self.chunks.len();
        if needed > there {
            self.chunks.reserve_exact(needed - there);
            // In order, so that few ids stay in few cache lines.
            for at in there..needed {
                let next = if at + 1 == needed { self.free } else { at as u32 + 1 };
                self.chunks.push(Chunk { cells: [Cell { when: 0, id: NIL }; CELLS as usize], next });
            }
            self.free = there as u32;
        }
    }

    /// How many ids wait.
    pub const fn len(&self) -> u32 {
        self.len
    }
    /// True if none waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lets `id`, which does not wait yet, wait for `when`.
    ///
    /// # Panics
    /// If there is no room.
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

    /// The earliest deadline. O(1).
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        self.levels.first().map(|slot| Instant(self.slots[slot].min))
    }

    /// Takes the earliest of what is due at `now`, its deadline included.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<(u32, Instant)> {
        // Each turn but the last moves ids to a lower level: at most 7 turns.
        loop {
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

    /// Nothing waits any longer, and the wheel is as it was made. O(number that waited).
    pub fn clear(&mut self) {
        while let Some(slot) = self.levels.first() {
            self.pop_front(slot);
        }
        (self.base, self.len, self.mixed) = (0, 0, Levels::NONE);
    }

    /// Moves the base to `min`, which lies in the span of the first slot and is due, and the slot's ids where they
    /// belong then: all to lower levels.
    fn cascade(&mut self, slot: usize, min: u64) {
        let Slot { head, tail, .. } = core::mem::replace(&mut self.slots[slot], EMPTY);
        self.levels.clear(slot);
        self.mixed.clear(slot);
        self.base = min;
        let ((mut at, mut from), (last, end)) = (split(head), split(tail));
        loop {
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

    /// Puts an id into a slot: at the end, or sorted if all of the slot are in one chunk, which costs at most as many steps
    /// as it has cells.
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

    /// Takes the first id of an occupied slot: if that is not mixed, the earliest there.
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
            // Nothing is left in the span of the slot, so that the base may be there.
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

    /// Takes the first of the late whose deadline is `min`. Those in front of it move up into its cell.
    #[cold]
    fn pop_late(&mut self, min: u64) -> u32 {
        let Slot { head, tail, .. } = self.slots[LATE];
        let (mut ahead, mut least) = (Cell { when: u64::MAX, id: NIL }, u64::MAX);
        let mut cell = head;
        loop {
            let (at, i) = split(cell);
            let here = self.chunks[at].cells[i];
            if ahead.when == min {
                least = least.min(here.when);
            } else {
                // The first cell is given up, and what is sought ends in none.
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

    /// A chunk is free.
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

    /// Few of them, so that slots are crowded; as many as there is room for.
    const IDS: u32 = 40;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Against a sorted map, as `Wheel`. `spread` of a bit crowds the deadlines.
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

    /// However the ids are strewn and whatever is popped in between, there are chunks for all of them.
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

    #[test]
    #[should_panic(expected = "room for 1 ids")]
    fn more_than_there_is_room_for_is_a_bug() {
        let mut w = PackedWheel::with_capacity(1);
        w.insert(0, Instant(1));
        w.insert(1, Instant(1));
    }
}
