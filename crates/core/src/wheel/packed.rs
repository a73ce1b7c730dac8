//! `PackedWheel`: a `Wheel` whose ids cannot be taken back. Who waits in it is found by its deadline only, so its ids need
//! no place of their own: they lie side by side in the slots, with their deadlines, and move from level to level in
//! cache lines that are full of them. Where a million ids wait, that is the difference between a few lines read in a row
//! and a line somewhere in memory for each id and move.
//!
//! Order, cost and levels are those of [`Wheel`](super::Wheel). What is late when it is inserted costs a step, when it is
//! popped, for each of the others that were.
//!
//! **Memory.** 64 bytes for each 5 ids that it has room for and for each two slots that are occupied, at most 64 for each
//! id; 12.3 kB for the wheel. Nothing is allocated after [`PackedWheel::with_capacity`] but by [`PackedWheel::reserve`].

use alloc::vec;
use alloc::vec::Vec;

use super::{LATE, Levels, NIL, SLOTS, is_exact, place};
use crate::time::Instant;

/// Ids in a chunk.
const CELLS: u32 = 5;
/// Bits of a cell's number in its chunk.
const CELL_BITS: u32 = 3;

/// One cache line of ids.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Chunk {
    whens: [u64; CELLS as usize],
    ids: [u32; CELLS as usize],
    /// The next chunk of the same slot, or the next free one.
    next: u32,
}

const _: () = assert!(size_of::<Chunk>() == 64, "a chunk fills exactly one cache line");

/// The ids of a slot, first in first out: the cells from `head` to `tail`. A cell is its chunk's number and, in the lowest
/// `CELL_BITS`, its own.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
    /// The earliest of its deadlines.
    min: u64,
}

const EMPTY: Slot = Slot { head: NIL, tail: NIL, min: u64::MAX };

/// Ids that wait for their deadlines, each until then.
#[derive(Clone, Debug)]
pub struct PackedWheel {
    /// Not later than any deadline but those that are late, and never later than a `now` that was given.
    base: u64,
    len: u32,
    capacity: u32,
    levels: Levels,
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
                self.chunks.push(Chunk { whens: [0; CELLS as usize], ids: [NIL; CELLS as usize], next });
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
        self.push(id, when.0, slot);
    }

    /// The earliest deadline. O(1).
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        self.levels.first().map(|slot| Instant(self.slots[slot].min))
    }

    /// Takes the earliest of what is due at `now`, its deadline included.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<(u32, Instant)> {
        // Each turn but the last moves ids to a lower level: at most 10 turns.
        loop {
            let Some(slot) = self.levels.first() else {
                self.base = self.base.max(now.0);
                return None;
            };
            let Slot { head, tail, min } = self.slots[slot];
            if min > now.0 {
                return None;
            }
            if is_exact(slot) || head == tail {
                self.len -= 1;
                self.base = self.base.max(min);
                let id = if slot == LATE { self.pop_late(min) } else { self.pop_front(slot) };
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
        (self.base, self.len) = (0, 0);
    }

    /// Moves the base to `min`, which lies in the span of the first slot and is due, and the slot's ids where they
    /// belong then: all to lower levels.
    fn cascade(&mut self, slot: usize, min: u64) {
        let Slot { head, tail, .. } = core::mem::replace(&mut self.slots[slot], EMPTY);
        self.levels.clear(slot);
        self.base = min;
        let (mut at, last) = (head >> CELL_BITS, tail >> CELL_BITS);
        let mut cell = head % (1 << CELL_BITS);
        loop {
            let Chunk { whens, ids, next } = self.chunks[at as usize];
            let end = if at == last { tail % (1 << CELL_BITS) + 1 } else { CELLS };
            for (&when, &id) in whens.iter().zip(&ids).take(end as usize).skip(cell as usize) {
                self.push(id, when, place(when, min));
            }
            self.give_back(at);
            if at == last {
                return;
            }
            (at, cell) = (next, 0);
        }
    }

    /// Appends an id to a slot.
    #[inline]
    fn push(&mut self, id: u32, when: u64, slot: usize) {
        let list = &mut self.slots[slot];
        let mut cell = list.tail.wrapping_add(1);
        if list.tail == NIL || cell % (1 << CELL_BITS) == CELLS {
            let chunk = self.free;
            self.free = self.chunks[chunk as usize].next;
            cell = chunk << CELL_BITS;
            if list.tail == NIL {
                list.head = cell;
                self.levels.set(slot);
            } else {
                self.chunks[(list.tail >> CELL_BITS) as usize].next = chunk;
            }
        }
        list.tail = cell;
        list.min = list.min.min(when);
        let (chunk, cell) = (&mut self.chunks[(cell >> CELL_BITS) as usize], cell % (1 << CELL_BITS));
        (chunk.whens[cell as usize], chunk.ids[cell as usize]) = (when, id);
    }

    /// Takes the first id of an occupied slot. Its `min` stays.
    #[inline]
    fn pop_front(&mut self, slot: usize) -> u32 {
        let Slot { head, tail, .. } = self.slots[slot];
        let at = head >> CELL_BITS;
        let Chunk { ids, next, .. } = &self.chunks[at as usize];
        let (id, next) = (ids[(head % (1 << CELL_BITS)) as usize], *next);
        if head == tail {
            self.slots[slot] = EMPTY;
            self.levels.clear(slot);
            self.give_back(at);
        } else if (head + 1) % (1 << CELL_BITS) == CELLS {
            self.slots[slot].head = next << CELL_BITS;
            self.give_back(at);
        } else {
            self.slots[slot].head = head + 1;
        }
        id
    }

    /// Takes the first of the late whose deadline is `min`. Those in front of it move up into its cell.
    #[cold]
    fn pop_late(&mut self, min: u64) -> u32 {
        let Slot { head, tail, .. } = self.slots[LATE];
        let (mut found, mut ahead, mut least) = (false, (NIL, u64::MAX), u64::MAX);
        let mut cell = head;
        loop {
            let chunk = &mut self.chunks[(cell >> CELL_BITS) as usize];
            let i = (cell % (1 << CELL_BITS)) as usize;
            let here = (chunk.ids[i], chunk.whens[i]);
            if !found {
                // The first cell is given up: it gets what was found.
                (chunk.ids[i], chunk.whens[i]) = ahead;
                ahead = here;
                found = here.1 == min;
            }
            if !(found && ahead == here) {
                least = least.min(here.1);
            }
            if cell == tail {
                break;
            }
            cell = if i + 1 == CELLS as usize { chunk.next << CELL_BITS } else { cell + 1 };
        }
        self.slots[LATE].min = least;
        self.pop_front(LATE);
        ahead.0
    }

    /// A chunk is free.
    #[inline]
    fn give_back(&mut self, chunk: u32) {
        self.chunks[chunk as usize].next = self.free;
        self.free = chunk;
    }
}
