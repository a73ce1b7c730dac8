//! The admission list: bounded, in order of arrival. Many threads append and one takes; no thread
//! waits for another.
//!
//! It is a ring of slots, each with a turn number (after D. Vyukov's bounded queue). A producer
//! takes the place at the tail with one compare-and-swap, writes its slot, and publishes the slot
//! by its number. The consumer takes slots in order and stops at one that is not published yet: the
//! producer of that slot is between two instructions, and knocks when it is done. So items leave in
//! the order of their places, and the items of one producer stay in their order.
//!
//! A burst takes its places with one compare-and-swap. A place for which its iterator has no item,
//! because its size hint was wrong or it panicked, is published as blank, and the consumer passes
//! it by.
//!
//! Each item may have an extra, in an array apart, so that an item without an extra is as short as
//! possible.

use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::share::{Counted, Shares};
use crate::sync::{Apart, AtomicU64, Ordering, UnsafeCell};

struct Slot<T> {
    /// Place `p` may be written while this is `p`, and taken while it is `p + 1`.
    turn: AtomicU64,
    /// The item, and its mark: the item is there in a published place whose mark is not blank.
    item: UnsafeCell<(MaybeUninit<T>, Mark)>,
}

/// Facts about an item, in one word that is 0 for nearly all: the row in which it was counted, and
/// in the last bit whether its extra was written.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark(u16);

impl Mark {
    const NONE: Self = Self(0);
    /// A place without an item.
    const BLANK: Self = Self(u16::MAX);
}

struct Ring<T, E> {
    /// The place that a producer takes next.
    tail: Apart<AtomicU64>,
    /// The place up to which the consumer has said that it has taken items.
    head: Apart<AtomicU64>,
    slots: Box<[Slot<T>]>,
    /// One cell for each slot, or none at all.
    extras: Box<[UnsafeCell<MaybeUninit<E>>]>,
    mask: u64,
    shares: Shares,
}

// SAFETY: only the producer that took a slot's place writes the slot's item and extra, before it
// publishes the slot (release). Only the consumer reads them, after it has seen the slot published
// (acquire). The next producer writes after the consumer has handed the slot on in the same way. So
// items only move between threads.
unsafe impl<T: Send, E: Send> Sync for Ring<T, E> {}
// SAFETY: the ring owns its items and nothing else.
unsafe impl<T: Send, E: Send> Send for Ring<T, E> {}

/// The end at which any thread appends.
pub struct Append<T, E = ()>(Arc<Ring<T, E>>);

/// The end at which one thread takes.
pub struct Take<T, E = ()> {
    ring: Arc<Ring<T, E>>,
    /// The next place to take.
    head: u64,
}

/// The state of the list after an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Free places at least: the consumer may have freed more.
    pub free: u64,
}

/// Creates a list of `places` places, rounded up to a power of two and at least 2; with room for
/// extras if `extras`.
pub fn list<T, E>(places: usize, extras: bool) -> (Append<T, E>, Take<T, E>) {
    make(places, extras, |_| Shares::none())
}

/// Creates such a list whose last quarter is divided among flows: see [`Shares`].
pub(crate) fn shared_list<T, E>(places: usize, extras: bool) -> (Append<T, E>, Take<T, E>) {
    make(places, extras, Shares::of)
}

fn make<T, E>(places: usize, extras: bool, shares: fn(u64) -> Shares) -> (Append<T, E>, Take<T, E>) {
    let places = places.max(2).next_power_of_two();
    let slot = |turn| Slot {
        turn: AtomicU64::new(turn),
        item: UnsafeCell::new((MaybeUninit::uninit(), Mark::NONE)),
    };
    let ring = Arc::new(Ring {
        tail: Apart(AtomicU64::new(0)),
        head: Apart(AtomicU64::new(0)),
        slots: (0..places as u64).map(slot).collect(),
        extras: (0..if extras { places } else { 0 })
            .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
            .collect(),
        mask: places as u64 - 1,
        shares: shares(places as u64),
    });
    (Append(Arc::clone(&ring)), Take { ring, head: 0 })
}

impl<T, E> Ring<T, E> {
    #[inline(always)]
    fn slot(&self, place: u64) -> &Slot<T> {
        &self.slots[(place & self.mask) as usize]
    }
    fn extra(&self, place: u64) -> Option<&UnsafeCell<MaybeUninit<E>>> {
        self.extras.get((place & self.mask) as usize)
    }
}

impl<T> Slot<T> {
    /// Returns the mark of this slot, which has that place, if the place is published.
    #[inline(always)]
    fn mark(&self, place: u64) -> Option<Mark> {
        // SAFETY: the producer wrote the mark before it published the place.
        (self.turn.load(Ordering::Acquire) == place + 1).then(|| self.item.with(|i| unsafe { (*i).1 }))
    }
}

impl<T, E> Ring<T, E> {
    /// The state of the list after an append of the items before `end`, by the word of the consumer
    /// that was read before.
    #[inline(always)]
    const fn appended(&self, end: u64, head: u64) -> Appended {
        Appended { free: (self.mask + 1).saturating_sub(end.saturating_sub(head)) }
    }

    /// Takes up to `most` places in a row that are free. Returns the first, the end, and the word
    /// of the consumer.
    #[inline]
    fn claim(&self, most: u64) -> Option<(u64, u64, u64)> {
        let all = self.shares.before().min(self.mask + 1);
        let mut place = self.tail.0.load(Ordering::Relaxed);
        // Bound: each round but the last sees that other producers have moved the tail.
        loop {
            let head = self.head.0.load(Ordering::Relaxed);
            let used = place.saturating_sub(head);
            let end = place + most.min(all.saturating_sub(used));
            if end == place {
                return None;
            }
            // The consumer frees places in order: the last is free if all are.
            if self.slot(end - 1).turn.load(Ordering::Acquire) == end - 1 {
                match self.tail.0.compare_exchange_weak(place, end, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Some((place, end, head)),
                    Err(now) => place = now,
                }
            } else {
                let now = self.tail.0.load(Ordering::Relaxed);
                if now == place {
                    // The consumer's word came before those of the slots.
                    return None;
                }
                place = now;
            }
        }
    }
}

/// The places that a burst has taken; at the end those without an item are published as blank.
struct Places<'a, T, E> {
    ring: &'a Ring<T, E>,
    next: u64,
    end: u64,
}

impl<T, E> Places<'_, T, E> {
    #[inline(always)]
    fn publish(&mut self, item: MaybeUninit<T>, mark: Mark) {
        let slot = self.ring.slot(self.next);
        // SAFETY: this thread alone has the place: its compare-and-swap took it when it was free,
        // and no thread reads the cell before `turn` is stored below.
        slot.item.with_mut(|i| unsafe { *i = (item, mark) });
        slot.turn.store(self.next + 1, Ordering::Release);
        self.next += 1;
    }
}

impl<T, E> Drop for Places<'_, T, E> {
    #[inline]
    fn drop(&mut self) {
        while self.next < self.end {
            self.publish(MaybeUninit::uninit(), Mark::BLANK);
        }
    }
}

impl<T, E: Copy> Append<T, E> {
    /// Appends an item, and its extra if there is one and the list has room for extras. A full list
    /// gives the item back.
    #[inline]
    pub fn push(&self, item: T, extra: Option<&E>) -> Result<Appended, T> {
        self.place(|_, _| Some(Counted(0)), item, extra)
    }

    /// Does the same for an item of a flow, by its hash: a shared list also gives an item back
    /// whose row has its share.
    #[inline(always)]
    pub(crate) fn push_of(&self, hash: u32, item: T, extra: Option<&E>) -> Result<Appended, T> {
        self.place(|shares, used| shares.ask(hash, used, self.0.mask + 1), item, extra)
    }

    /// Appends an item if `ask`, which gets the number of places in use, lets it be counted.
    #[inline(always)]
    fn place(
        &self,
        ask: impl FnOnce(&Shares, u64) -> Option<Counted>,
        item: T,
        extra: Option<&E>,
    ) -> Result<Appended, T> {
        let ring = &*self.0;
        let head = ring.head.0.load(Ordering::Relaxed);
        let mut place = ring.tail.0.load(Ordering::Relaxed);
        let Some(counted) = ask(&ring.shares, place.saturating_sub(head)) else { return Err(item) };
        let slot = loop {
            let slot = ring.slot(place);
            let turn = slot.turn.load(Ordering::Acquire);
            if turn == place {
                match ring.tail.0.compare_exchange_weak(
                    place,
                    place + 1,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => break slot,
                    Err(now) => place = now,
                }
            } else if turn < place {
                // The slot still has the item of the last round: the list is full, unless others
                // have moved on meanwhile.
                let now = ring.tail.0.load(Ordering::Relaxed);
                if now == place {
                    ring.shares.leave(counted);
                    return Err(item);
                }
                place = now;
            } else {
                place = ring.tail.0.load(Ordering::Relaxed);
            }
        };
        let mut mark = Mark(counted.0 << 1);
        if let (Some(extra), Some(cell)) = (extra, ring.extra(place)) {
            // SAFETY: this thread alone has the place: its compare-and-swap took it, and no thread
            // reads the cell before `turn` is stored below.
            cell.with_mut(|e| unsafe { (*e).write(*extra) });
            mark.0 |= 1;
        }
        // SAFETY: as above.
        slot.item.with_mut(|i| unsafe { *i = (MaybeUninit::new(item), mark) });
        slot.turn.store(place + 1, Ordering::Release);
        Ok(ring.appended(place + 1, head))
    }

    /// Appends the next items of a burst in places that one compare-and-swap takes: as many as
    /// `most`, the iterator's size hint and the free places allow, of a shared list those before
    /// its last quarter. Returns their number. `None`: there is no such place, or none is asked
    /// for, and the iterator was not asked for an item.
    ///
    /// The iterator runs while items that others append later wait behind these.
    #[inline]
    pub fn push_burst(
        &self,
        most: u64,
        items: &mut (impl Iterator<Item = T> + ?Sized),
    ) -> Option<(u64, Appended)> {
        let ring = &*self.0;
        let most = most.min(items.size_hint().0 as u64);
        let (first, end, head) = ring.claim(most)?;
        let mut places = Places { ring, next: first, end };
        while places.next < end
            && let Some(item) = items.next()
        {
            places.publish(MaybeUninit::new(item), Mark::NONE);
        }
        Some((places.next - first, ring.appended(end, head)))
    }

    /// Returns the places of the list.
    #[must_use]
    pub(crate) fn places(&self) -> usize {
        self.0.slots.len()
    }
}

impl<T, E> Clone for Append<T, E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T, E: Copy> Take<T, E> {
    /// Takes the oldest item, if it is published. The flag is true if the item has an extra, which
    /// is written to `extra`.
    #[inline(always)]
    pub fn pop(&mut self, extra: &mut E) -> Option<(T, bool)> {
        let mut slot = self.ring.slot(self.head);
        let mut mark = slot.mark(self.head)?;
        if mark.0 > 1 {
            // It does not return the item, which would then be copied once more on either way.
            mark = self.pass_blanks(mark)?;
            slot = self.ring.slot(self.head);
        }
        // SAFETY: the producer wrote the item before it published the place, which is not blank.
        // The item is read once: the place is handed on below.
        let item = slot.item.with(|i| unsafe { (*i).0.assume_init_read() });
        let has_extra = mark.0 & 1 != 0;
        if has_extra && let Some(cell) = self.ring.extra(self.head) {
            // SAFETY: `has_extra` is true, so the extra was written before the place was published.
            *extra = cell.with(|e| unsafe { (*e).assume_init() });
        }
        slot.turn.store(self.head + self.ring.mask + 1, Ordering::Release);
        self.head += 1;
        Some((item, has_extra))
    }

    /// Passes by blank places, of which the first may have this mark. Returns the mark of the next
    /// that has an item, which leaves its row if it was counted in one.
    #[cold]
    #[inline(never)]
    fn pass_blanks(&mut self, mut mark: Mark) -> Option<Mark> {
        // Bound: the places that producers have left blank.
        while mark == Mark::BLANK {
            self.ring.slot(self.head).turn.store(self.head + self.ring.mask + 1, Ordering::Release);
            self.head += 1;
            self.tell();
            mark = self.ring.slot(self.head).mark(self.head)?;
        }
        if mark.0 > 1 {
            self.ring.shares.leave(Counted(mark.0 >> 1));
        }
        Some(mark)
    }

    /// Publishes how far the consumer is: producers reckon the free places by it.
    #[inline]
    pub fn tell(&self) {
        self.ring.head.0.store(self.head, Ordering::Relaxed);
    }

    /// True if no item has been appended that was not taken. An item that is just being appended
    /// counts.
    #[inline]
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.tail.0.load(Ordering::Relaxed) == self.head
    }

    /// True if the oldest item can be taken.
    #[must_use]
    pub(crate) fn is_ready(&self) -> bool {
        self.ring.slot(self.head).turn.load(Ordering::Acquire) == self.head + 1
    }

    /// Returns the places of the list.
    #[must_use]
    pub(crate) fn places(&self) -> usize {
        self.ring.slots.len()
    }

    /// Returns the places in use, those just being written included.
    #[must_use]
    pub(crate) fn used(&self) -> u64 {
        self.ring.tail.0.load(Ordering::Relaxed).saturating_sub(self.head)
    }
}

impl<T, E> Drop for Ring<T, E> {
    fn drop(&mut self) {
        for (at, slot) in (0u64..).zip(&self.slots) {
            // A published place has the number after it, a free one its own, both modulo the
            // length, which is at least 2.
            if slot.turn.load(Ordering::Acquire) & self.mask != at {
                // SAFETY: the place is published and was not taken, and no other thread has the
                // ring any more. It has an item unless it is blank.
                slot.item.with_mut(|i| unsafe {
                    if (*i).1 != Mark::BLANK {
                        (*i).0.assume_init_drop();
                    }
                });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A burst takes the places that are free, of a shared list those before its last quarter, and
    /// its items are taken in order, across the end of the ring too.
    #[test]
    fn a_burst_takes_what_is_free() {
        for (shared, room) in [(false, 64), (true, 48)] {
            let (append, mut take) =
                if shared { shared_list::<u64, ()>(64, false) } else { list::<u64, ()>(64, false) };
            let (mut numbers, mut want) = (0..u64::MAX, 0..u64::MAX);
            let mut waits = 0;
            for (most, taken) in [(10, 3), (50, 40), (0, 0), (64, 64), (1, 0), (64, 48), (5, 64)] {
                let (count, free) = match append.push_burst(most, &mut numbers) {
                    Some((count, appended)) => (count, Some(appended.free)),
                    None => (0, None),
                };
                assert_eq!(count, most.min(room - waits), "{most} to {waits} of {room}");
                waits += count;
                assert_eq!(free, (count > 0).then_some(64 - waits));
                for _ in 0..taken {
                    let Some((got, _)) = take.pop(&mut ()) else { break };
                    assert_eq!(Some(got), want.next());
                    waits -= 1;
                }
                take.tell();
                assert_eq!(take.used(), waits);
            }
        }
    }

    /// Places without an item are passed by: those of a size hint that is too large, and those
    /// after a panic.
    #[test]
    fn places_without_an_item_are_passed_by() {
        let item = Arc::new(());
        let (append, mut take) = list::<Arc<()>, ()>(8, false);
        for round in 0..20_usize {
            // A hint of 4 with `round % 4` items, and a panic after them in every other round.
            let (mut left, panics) = (round % 4, round / 4 % 2 == 1);
            let mut items = (0..4).map_while(|_| {
                left = left.checked_sub(1).or_else(|| panics.then(|| panic!("as planned")))?;
                Some(Arc::clone(&item))
            });
            let mut items = Hinted(&mut items);
            let done =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| append.push_burst(8, &mut items)));
            match (panics, done) {
                (true, done) => assert!(done.is_err()),
                (false, done) => assert_eq!(done.unwrap().map(|(count, _)| count), Some(round as u64 % 4)),
            }
            assert_eq!(Arc::strong_count(&item), 1 + round % 4);
            assert!(append.push(Arc::clone(&item), None).is_ok());
            for _ in 0..=round % 4 {
                assert!(take.pop(&mut ()).is_some());
            }
            assert!(take.pop(&mut ()).is_none() && take.is_empty() && take.used() == 0);
        }
        // Blank places at the end of a list are not dropped as items.
        let mut none = std::iter::empty();
        assert_eq!(append.push_burst(8, &mut Hinted(&mut none)).map(|(count, _)| count), Some(0));
        assert!(append.push(Arc::clone(&item), None).is_ok());
        drop((append, take));
        assert_eq!(Arc::strong_count(&item), 1);
    }

    /// An iterator that promises four items.
    struct Hinted<'a, I>(&'a mut I);

    impl<I: Iterator> Iterator for Hinted<'_, I> {
        type Item = I::Item;
        fn next(&mut self) -> Option<I::Item> {
            self.0.next()
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (4, None)
        }
    }

    /// The places of the items that wait are those after one that was taken, round the end of the
    /// ring.
    #[test]
    fn the_end_of_a_list_drops_the_items_that_wait() {
        let item = Arc::new(());
        for (before, waits) in [(0, 0), (0, 1), (0, 4), (3, 1), (3, 4), (4, 4)] {
            let (append, mut take) = list::<Arc<()>, ()>(4, false);
            for _ in 0..before {
                assert!(append.push(Arc::clone(&item), None).is_ok() && take.pop(&mut ()).is_some());
            }
            for _ in 0..waits {
                assert!(append.push(Arc::clone(&item), None).is_ok());
            }
            assert_eq!(Arc::strong_count(&item), 1 + waits);
            drop((append, take));
            assert_eq!(Arc::strong_count(&item), 1, "{before} taken, {waits} wait");
        }
    }
}
