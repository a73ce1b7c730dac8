//! The groups of quick fair queueing: an approximate priority queue of start and finish times, with
//! O(1) words of bits per operation (F. Checconi, L. Rizzo, P. Valente, "QFQ: Efficient Packet
//! Scheduling with Tight Guarantees", IEEE/ACM Transactions on Networking 21(3), 2013, sections 3
//! and 4).
//!
//! Virtual times are fixed-point numbers that wrap around; two times compared are less than 2^63
//! apart. A group has the items whose slots have one size, and sorts them into slots by their start
//! times, rounded down. A set of groups is a word of bits.
//!
//! - I1: a group with items is in exactly one of four sets, one without is in none: it is ready, or
//!   early (its start lies ahead of the virtual time), or blocked (a ready group above it finishes
//!   earlier), or both.
//! - I2: the ready group of the lowest index has the least finish time of all ready groups.
//! - I3: the slots in use of a group lie within 32 from its first, and the first is in use.

use alloc::vec::Vec;

/// Groups: slots of the highest are 2^24 times as long as those of the lowest.
pub(super) const GROUPS: usize = 25;
/// Slots of a group.
const SLOTS: u32 = 32;
/// Furthest slot in which an item is put: the one behind it stays free, because the first slot may
/// go back by one.
const FURTHEST: u64 = SLOTS as u64 - 2;
/// No item.
const NONE: u32 = u32::MAX;

const READY: usize = 0;
const EARLY: usize = 1;
const BLOCKED: usize = 2;

/// True if the time `a` is after `b`.
pub(super) const fn after(a: u64, b: u64) -> bool {
    let ahead = a.wrapping_sub(b);
    ahead != 0 && ahead >> 63 == 0
}

const fn round_down(time: u64, shift: u32) -> u64 {
    time & !((1 << shift) - 1)
}

/// Returns the bits below this one.
const fn below(bit: u32) -> u32 {
    (1 << bit) - 1
}

#[derive(Clone, Copy, Debug)]
struct Group {
    /// Start and finish time of its first slot.
    start: u64,
    finish: u64,
    /// Place of the first slot.
    front: u32,
    /// Slots in use, the first one as the lowest bit.
    used: u32,
    /// First item of each slot.
    slots: [u32; SLOTS as usize],
}

/// An item that a group can hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Virtual time at which its service starts.
    pub(super) start: u64,
    /// Virtual time at which its service ends.
    pub(super) finish: u64,
    group: u32,
    prev: u32,
    next: u32,
}

/// The groups, and their items by index.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    groups: [Group; GROUPS],
    /// The sets, by state.
    sets: [u32; 4],
    items: Vec<Item>,
    /// Virtual time, and its value at the last choice.
    pub(super) now: u64,
    chosen_at: u64,
    /// Logarithm of the slots of the lowest group.
    shift: u32,
}

impl Groups {
    /// Returns groups of which the lowest has slots of 2^`shift`, below 2^39.
    pub(super) const fn new(shift: u32) -> Self {
        let group = Group { start: 0, finish: 0, front: 0, used: 0, slots: [NONE; SLOTS as usize] };
        Self { groups: [group; GROUPS], sets: [0; 4], items: Vec::new(), now: 0, chosen_at: 0, shift }
    }
    /// Adds an item with the next index, for which `set_span` is called before it is put in.
    pub(super) fn add(&mut self) {
        self.items.push(Item { start: 0, finish: 0, group: 0, prev: NONE, next: NONE });
    }
    pub(super) fn item(&self, i: u32) -> &Item {
        &self.items[i as usize]
    }
    pub(super) fn item_mut(&mut self, i: u32) -> &mut Item {
        &mut self.items[i as usize]
    }
    /// Gives a new item its group: the lowest whose slots are at least as long as `span`, the time
    /// from the start to the finish of its longest service. The item is as new.
    pub(super) fn set_span(&mut self, i: u32, span: u64) {
        let slots = span.div_ceil(1 << self.shift).max(1);
        let group = slots.next_power_of_two().trailing_zeros().min(GROUPS as u32 - 1);
        *self.item_mut(i) = Item { start: 0, finish: 0, group, prev: NONE, next: NONE };
    }
    /// Forgets all times and takes all items out.
    pub(super) fn reset(&mut self) {
        let spans = core::mem::take(&mut self.items);
        *self = Self::new(self.shift);
        self.items = spans;
        self.items.iter_mut().for_each(|item| (item.start, item.finish) = (0, 0));
    }
    /// Takes all items out; times stay.
    pub(super) fn clear(&mut self) {
        let fresh = Self::new(self.shift);
        (self.groups, self.sets) = (fresh.groups, fresh.sets);
    }
    /// Sets the virtual time to that of an item which is served although no other waits.
    pub(super) const fn begin(&mut self, start: u64) {
        (self.now, self.chosen_at) = (start, start);
    }
    /// Length of a group's slots, as a logarithm.
    const fn shift_of(&self, group: u32) -> u32 {
        self.shift + group
    }
    /// Returns the ready group of the lowest index from `from` on.
    fn ready_from(&self, from: u32) -> Option<&Group> {
        let set = self.sets[READY] & !below(from);
        (set != 0).then(|| &self.groups[set.trailing_zeros() as usize])
    }

    /// Returns the start time of an item that comes after a pause: its old finish time, if that is
    /// still ahead and not too far; otherwise the present, or as near to it as the groups that
    /// would serve before it allow.
    pub(super) fn start_anew(&self, i: u32) -> u64 {
        let item = self.item(i);
        let shift = self.shift_of(item.group);
        let finish = round_down(item.finish, shift);
        let limit = round_down(self.now, shift).wrapping_add(1 << shift);
        if after(item.finish, self.now) && !after(finish, limit) {
            return item.finish;
        }
        match self.ready_from(item.group) {
            Some(next) if !after(finish, next.finish) => self.now,
            Some(next) if after(limit, next.finish) => next.finish,
            Some(_) => limit,
            None => self.now,
        }
    }

    /// Puts an item in by its times. `idle` says that no item is being served.
    pub(super) fn put(&mut self, i: u32, idle: bool) {
        let Item { start, group: index, .. } = *self.item(i);
        let shift = self.shift_of(index);
        let mut rounded = round_down(start, shift);
        let group = &mut self.groups[index as usize];
        if group.used == 0 || after(group.start, start) {
            if group.used != 0 {
                // The first slot goes back, as far as slots are free behind the last.
                let free = u64::from(group.used.leading_zeros());
                let back = group.start.wrapping_sub(rounded) >> shift;
                if back > free {
                    let later = (back - free) << shift;
                    rounded = rounded.wrapping_add(later);
                    let item = &mut self.items[i as usize];
                    item.start = item.start.wrapping_add(later);
                    item.finish = item.finish.wrapping_add(later);
                }
                // It is at most 31: a slot is in use.
                let back = back.min(free) as u32;
                group.used <<= back;
                group.front = group.front.wrapping_sub(back) % SLOTS;
            } else if self.sets[READY] == 0 && after(rounded, self.now) && idle {
                self.now = rounded;
            }
            self.place(index, rounded);
        }
        self.insert(i, rounded);
    }
    /// Gives a group its times, and puts it into the set that they choose.
    fn place(&mut self, index: u32, start: u64) {
        self.sets.iter_mut().for_each(|set| *set &= !(1 << index));
        let finish = start.wrapping_add(2 << self.shift_of(index));
        let blocked = self.ready_from(index).is_some_and(|next| after(finish, next.finish));
        let early = after(start, self.now);
        let group = &mut self.groups[index as usize];
        (group.start, group.finish) = (start, finish);
        self.sets[(usize::from(early) * EARLY) | (usize::from(blocked) * BLOCKED)] |= 1 << index;
    }
    /// Puts an item at the head of its slot. An item too far ahead is brought nearer.
    fn insert(&mut self, i: u32, rounded: u64) {
        let index = self.item(i).group;
        let shift = self.shift_of(index);
        let group = &mut self.groups[index as usize];
        let mut slot = rounded.wrapping_sub(group.start) >> shift;
        if slot > FURTHEST {
            let nearer = (slot - FURTHEST) << shift;
            slot = FURTHEST;
            let item = &mut self.items[i as usize];
            item.start = item.start.wrapping_sub(nearer);
            item.finish = item.finish.wrapping_sub(nearer);
        }
        // It is below 31.
        let slot = slot as u32;
        group.used |= 1 << slot;
        let first = &mut group.slots[((group.front + slot) % SLOTS) as usize];
        let next = core::mem::replace(first, i);
        (self.items[i as usize].prev, self.items[i as usize].next) = (NONE, next);
        if let Some(next) = self.items.get_mut(next as usize) {
            next.prev = i;
        }
    }
    /// Takes an item out of its slot. Returns its group and whether that has lost its first slot.
    fn extract(&mut self, i: u32) -> (u32, bool) {
        let Item { start, group: index, prev, next, .. } = *self.item(i);
        let shift = self.shift_of(index);
        let group = &mut self.groups[index as usize];
        let slot = (round_down(start, shift).wrapping_sub(group.start) >> shift) as u32 % SLOTS;
        if let Some(next) = self.items.get_mut(next as usize) {
            next.prev = prev;
        }
        if let Some(prev) = self.items.get_mut(prev as usize) {
            prev.next = next;
            return (index, false);
        }
        group.slots[((group.front + slot) % SLOTS) as usize] = next;
        if next == NONE {
            group.used &= !(1 << slot);
        }
        (index, slot == 0 && next == NONE)
    }
    /// Moves a group on to its first slot in use, and returns the rounded start time there; `None`
    /// if the group has no items.
    fn advance(&mut self, index: u32) -> Option<u64> {
        let shift = self.shift_of(index);
        let group = &mut self.groups[index as usize];
        if group.used == 0 {
            return None;
        }
        let by = group.used.trailing_zeros();
        group.front = (group.front + by) % SLOTS;
        group.used >>= by;
        let first = group.slots[group.front as usize];
        Some(round_down(self.items[first as usize].start, shift))
    }

    /// Takes an item out that is not served any more.
    pub(super) fn take_out(&mut self, i: u32) {
        let (index, lost_first) = self.extract(i);
        if !lost_first {
            return;
        }
        let was_ready = self.sets[READY] & (1 << index) != 0;
        let old = self.groups[index as usize].finish;
        match self.advance(index) {
            Some(start) => self.place(index, start),
            None => self.sets.iter_mut().for_each(|set| *set &= !(1 << index)),
        }
        if was_ready {
            self.unblock(index, old);
        }
    }
    /// Chooses the item to serve next, and takes it out; `None` if there is none.
    pub(super) fn choose(&mut self) -> Option<u32> {
        self.make_ready();
        self.chosen_at = self.now;
        let set = self.sets[READY];
        if set == 0 {
            return None;
        }
        let index = set.trailing_zeros();
        let group = &self.groups[index as usize];
        let (i, old) = (group.slots[group.front as usize], group.finish);
        self.extract(i);
        match self.advance(index) {
            Some(start) if start == self.groups[index as usize].start => return Some(i),
            Some(start) => self.place(index, start),
            None => self.sets[READY] &= !(1 << index),
        }
        self.unblock(index, old);
        Some(i)
    }
    /// Makes the groups ready whose start the virtual time has reached; if no group is ready, the
    /// virtual time goes on to the earliest start.
    fn make_ready(&mut self) {
        let early = self.sets[EARLY] | self.sets[EARLY | BLOCKED];
        if early == 0 {
            return;
        }
        if self.sets[READY] == 0 {
            let start = self.groups[early.trailing_zeros() as usize].start;
            if after(start, self.now) {
                self.now = start;
            }
        }
        // A bit of the time that has flipped is the start of a slot of each group below it.
        let flipped = (self.now >> self.shift) ^ (self.chosen_at >> self.shift);
        let reached = if flipped >> 31 != 0 { u32::MAX } else { below(64 - flipped.leading_zeros()) };
        self.shift_sets(reached, EARLY, READY);
        self.shift_sets(reached, EARLY | BLOCKED, BLOCKED);
    }
    /// Unblocks groups below this one, which finished at `old` and is ready no more, or later:
    /// those above the next ready group, unless the one behind finishes as early.
    fn unblock(&mut self, index: u32, old: u64) {
        if self.ready_from(index + 1).is_some_and(|next| !after(next.finish, old)) {
            return;
        }
        let lower = self.sets[READY] & below(index);
        let from = 32 - lower.leading_zeros();
        let freed = below(index) & !below(from);
        self.shift_sets(freed, BLOCKED, READY);
        self.shift_sets(freed, EARLY | BLOCKED, EARLY);
    }
    const fn shift_sets(&mut self, these: u32, from: usize, to: usize) {
        let moved = self.sets[from] & these;
        self.sets[from] &= !moved;
        self.sets[to] |= moved;
    }
}
