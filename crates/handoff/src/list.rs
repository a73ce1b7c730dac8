//! The admission list: bounded, in order of arrival, many threads append, one takes. Nobody waits for anybody.
//!
//! A ring of slots, each with a turn number (after D. Vyukov's bounded queue): a producer takes the place at the tail with one
//! compare-and-swap, writes its slot, and publishes it with the slot's number. The consumer takes slots in order and stops at
//! one that is not published yet; its producer is between two instructions, and knocks when it is through. So order of places
//! is order of leaving, and what a producer appends stays in its order.
//!
//! Beside each item there may be an extra, in an array of its own, so that an item without one is as short as it can be.

use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::sync::{AtomicU64, Ordering, UnsafeCell};

/// One cache line to itself: what producers write and what the consumer writes are not to share one.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

struct Slot<T> {
    /// Place `p` may be written when this is `p`, and taken when it is `p + 1`.
    turn: AtomicU64,
    /// The item, and whether its extra was written.
    item: UnsafeCell<MaybeUninit<(T, bool)>>,
}

struct Ring<T, E> {
    /// The place that is taken next by a producer.
    tail: Apart<AtomicU64>,
    /// The place up to which the consumer is through, as far as it has said.
    head: Apart<AtomicU64>,
    slots: Box<[Slot<T>]>,
    /// Of each slot, or none at all.
    extras: Box<[UnsafeCell<MaybeUninit<E>>]>,
    mask: u64,
}

// SAFETY: a slot's item and extra are written by the one producer that took its place, before it publishes the slot
// (release), and read by the one consumer after it has seen that (acquire); the next producer writes after the consumer has
// handed the slot on in the same way. So items only move between threads.
unsafe impl<T: Send, E: Send> Sync for Ring<T, E> {}
// SAFETY: it owns its items and nothing else.
unsafe impl<T: Send, E: Send> Send for Ring<T, E> {}

/// Where anybody appends.
pub struct Append<T, E = ()>(Arc<Ring<T, E>>);

/// Where one thread takes.
pub struct Take<T, E = ()> {
    ring: Arc<Ring<T, E>>,
    /// The next place to take.
    head: u64,
}

/// How it stands after an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Places that are free now, at least: the consumer may have freed more.
    pub free: u64,
}

/// A list of so many places, rounded up to a power of two and at least 2; with room for extras or without.
pub fn list<T, E>(places: usize, extras: bool) -> (Append<T, E>, Take<T, E>) {
    let places = places.max(2).next_power_of_two();
    let slot = |turn| Slot { turn: AtomicU64::new(turn), item: UnsafeCell::new(MaybeUninit::uninit()) };
    let ring = Arc::new(Ring {
        tail: Apart(AtomicU64::new(0)),
        head: Apart(AtomicU64::new(0)),
        slots: (0..places as u64).map(slot).collect(),
        extras: (0..if extras { places } else { 0 })
            .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
            .collect(),
        mask: places as u64 - 1,
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

impl<T, E: Copy> Append<T, E> {
    /// Appends an item, with an extra if there is one and room was made for extras. A full list gives the item back.
    #[inline]
    pub fn push(&self, item: T, extra: Option<&E>) -> Result<Appended, T> {
        let ring = &*self.0;
        let mut place = ring.tail.0.load(Ordering::Relaxed);
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
                // Still what was appended a round ago: full, unless others have moved on meanwhile.
                let now = ring.tail.0.load(Ordering::Relaxed);
                if now == place {
                    return Err(item);
                }
                place = now;
            } else {
                place = ring.tail.0.load(Ordering::Relaxed);
            }
        };
        let mut has_extra = false;
        if let (Some(extra), Some(cell)) = (extra, ring.extra(place)) {
            // SAFETY: this thread alone has the place: its compare-and-swap took it, and nobody reads it before `turn` says so.
            cell.with_mut(|e| unsafe { (*e).write(*extra) });
            has_extra = true;
        }
        // SAFETY: as above.
        slot.item.with_mut(|i| unsafe { (*i).write((item, has_extra)) });
        slot.turn.store(place + 1, Ordering::Release);
        let used = (place + 1).saturating_sub(ring.head.0.load(Ordering::Relaxed));
        Ok(Appended { free: (ring.mask + 1).saturating_sub(used) })
    }

    /// Places of the list.
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
    /// Takes the oldest item, if it is published. If it has an extra, that is written to `extra`, and true is said.
    #[inline]
    pub fn pop(&mut self, extra: &mut E) -> Option<(T, bool)> {
        let ring = &*self.ring;
        let slot = ring.slot(self.head);
        if slot.turn.load(Ordering::Acquire) != self.head + 1 {
            return None;
        }
        // SAFETY: its producer wrote it before it published the place, and it is read once: the place is handed on below.
        let (item, has_extra) = slot.item.with(|i| unsafe { (*i).assume_init_read() });
        if has_extra && let Some(cell) = ring.extra(self.head) {
            // SAFETY: `has_extra` says that it was written, before the place was published.
            *extra = cell.with(|e| unsafe { (*e).assume_init() });
        }
        slot.turn.store(self.head + ring.mask + 1, Ordering::Release);
        self.head += 1;
        Some((item, has_extra))
    }

    /// Says how far the consumer is through: what producers take the free places to be.
    #[inline]
    pub fn tell(&self) {
        self.ring.head.0.store(self.head, Ordering::Relaxed);
    }

    /// Whether nothing has been appended that was not taken; what is just being appended counts.
    #[inline]
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.tail.0.load(Ordering::Relaxed) == self.head
    }

    /// Whether the oldest item can be taken.
    #[must_use]
    pub(crate) fn is_ready(&self) -> bool {
        self.ring.slot(self.head).turn.load(Ordering::Acquire) == self.head + 1
    }

    /// Items and places that are taken, those just being written included.
    #[must_use]
    pub(crate) fn used(&self) -> u64 {
        self.ring.tail.0.load(Ordering::Relaxed).saturating_sub(self.head)
    }
}

impl<T, E> Drop for Ring<T, E> {
    fn drop(&mut self) {
        for (at, slot) in (0u64..).zip(&self.slots) {
            // A published place has the number after it, a free one its own, both modulo the length, which is at least 2.
            if slot.turn.load(Ordering::Acquire) & self.mask != at {
                // SAFETY: it is published and was not taken, and nobody has the ring any more.
                slot.item.with_mut(|i| unsafe { (*i).assume_init_drop() });
            }
        }
    }
}
