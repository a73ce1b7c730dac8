//! `Timeline`: packets that wait for a deadline each, handed out in the order of the deadlines;
//! those with the same deadline in the order of arrival. It also remembers the order of arrival of
//! all its packets, for a caller that takes all of them back.
//!
//! O(1) per packet: see `Wheel`. 40 bytes for each packet that it has room for, allocated when it
//! is made.

use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::time::Instant;
use crate::base::wheel::Wheel;
use crate::packet::pool::{List, Pkt, Pool, Waiting};

/// Index of no place.
const NIL: u32 = u32::MAX;

/// Room for one packet, in the list of waiting packets by arrival, or in the list of free places.
#[derive(Debug)]
struct Place {
    /// At most one packet.
    packet: List,
    prev: u32,
    next: u32,
}

/// Packets with a deadline each.
#[derive(Debug)]
pub struct Timeline {
    wheel: Wheel,
    places: Vec<Place>,
    free: u32,
    oldest: u32,
    newest: u32,
    /// The latest deadline since it was empty.
    latest: Instant,
}

impl Timeline {
    /// Returns an empty timeline with room for this many packets.
    pub fn with_capacity(packets: u32) -> Self {
        let mut line = Self {
            wheel: Wheel::with_capacity(0),
            places: Vec::new(),
            free: NIL,
            oldest: NIL,
            newest: NIL,
            latest: Instant::ZERO,
        };
        line.reserve(packets);
        line
    }

    /// Makes room for this many packets; room is never given up. Allocates: not for the data path.
    pub fn reserve(&mut self, packets: u32) {
        let there = self.places.len();
        let wanted = (packets as usize).max(there);
        self.wheel.reserve(packets);
        self.places.reserve_exact(wanted - there);
        self.places.resize_with(wanted, || Place { packet: List::new(), prev: NIL, next: NIL });
        for at in (there..wanted).rev() {
            self.places[at].next = self.free;
            // `packets` counts the places in 32 bits.
            self.free = at as u32;
        }
    }

    /// Returns the number of packets that wait.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.wheel.len()
    }
    /// True if no packet waits.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }
    /// Returns the latest deadline since the timeline was empty; `None` if it is empty.
    #[inline]
    pub fn latest(&self) -> Option<Instant> {
        (!self.is_empty()).then_some(self.latest)
    }
    /// Returns the earliest deadline of the waiting packets.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        self.wheel.next()
    }
    /// Returns the metadata of the packet that has waited longest.
    #[cfg(test)]
    pub fn oldest<'a>(&self, pool: &'a Pool) -> Option<&'a crate::packet::meta::Meta> {
        self.places.get(self.oldest as usize)?.packet.front(pool)
    }

    /// Lets a packet wait until `when`; returns it if there is no room.
    #[inline]
    pub fn push(&mut self, pool: &mut Pool, p: Pkt, when: Instant) -> Result<(), Pkt> {
        let at = self.free;
        let Some(place) = self.places.get_mut(at as usize) else { return Err(p) };
        self.free = place.next;
        place.packet.push_back(pool, p);
        (place.prev, place.next) = (self.newest, NIL);
        match self.places.get_mut(self.newest as usize) {
            Some(before) => before.next = at,
            None => self.oldest = at,
        }
        self.newest = at;
        self.latest = if self.wheel.is_empty() { when } else { self.latest.max(when) };
        self.wheel.insert(at, when);
        Ok(())
    }

    /// Takes the first packet whose deadline is `now` or earlier.
    #[inline]
    pub fn pop_due(&mut self, pool: &Pool, now: Instant) -> Option<Pkt> {
        let (at, _) = self.wheel.pop_due(now)?;
        self.take(at, pool)
    }

    /// Takes the packet that has waited longest, whatever its deadline.
    pub(crate) fn pop_oldest(&mut self, pool: &Pool) -> Option<Pkt> {
        let at = self.oldest;
        self.places.get(at as usize)?;
        self.wheel.remove(at);
        self.take(at, pool)
    }

    fn take(&mut self, at: u32, pool: &Pool) -> Option<Pkt> {
        let place = self.places.get_mut(at as usize)?;
        let packet = place.packet.pop_front(pool);
        let (prev, next) = (place.prev, place.next);
        place.next = self.free;
        self.free = at;
        match self.places.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => self.oldest = next,
        }
        match self.places.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => self.newest = prev,
        }
        packet
    }

    /// Moves every packet to the back of `out`, by arrival.
    pub fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
        let mut bound = Bound::of(self.places.len());
        while let Some(p) = self.pop_oldest(pool) {
            bound.turn();
            out.push_back(pool, p);
        }
        self.wheel.clear();
    }

    /// Iterates over all packets, by arrival.
    pub fn waiting<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = Waiting<'a>> {
        let place = |at: u32| self.places.get(at as usize);
        core::iter::successors(place(self.oldest), move |p| place(p.next))
            .filter_map(|p| p.packet.first(pool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::meta::Meta;
    use std::vec;
    use std::vec::Vec;

    fn waiting(line: &Timeline, pool: &Pool) -> Vec<u32> {
        line.waiting(pool).map(|w| w.meta.len).collect()
    }

    #[test]
    fn packets_leave_by_deadline_and_are_remembered_by_arrival() {
        let (mut pool, mut line) = (Pool::new(9), Timeline::with_capacity(4));
        for (len, when) in [(1, 50), (2, 20), (3, 50), (4, 10)] {
            let p = pool.alloc(Meta::new(len), Instant::ZERO).unwrap();
            line.push(&mut pool, p, Instant(when)).unwrap();
        }
        let p = pool.alloc(Meta::new(5), Instant::ZERO).unwrap();
        let p = line.push(&mut pool, p, Instant(5)).unwrap_err();
        assert_eq!((line.len(), line.next(), line.latest()), (4, Some(Instant(10)), Some(Instant(50))));
        assert_eq!(waiting(&line, &pool), [1, 2, 3, 4]);
        assert!(line.pop_due(&pool, Instant(9)).is_none());
        let mut left = vec![];
        while let Some(p) = line.pop_due(&pool, Instant(20)) {
            left.push(pool.meta(&p).len);
            pool.free(p);
        }
        assert_eq!((left, waiting(&line, &pool)), (vec![4, 2], vec![1, 3]));
        line.push(&mut pool, p, Instant(50)).unwrap();
        let mut left = vec![];
        while let Some(p) = line.pop_due(&pool, Instant(50)) {
            left.push(pool.meta(&p).len);
            pool.free(p);
        }
        assert_eq!((left, line.latest(), pool.live()), (vec![1, 3, 5], None, 0));
    }

    #[test]
    fn all_of_them_can_be_had_back() {
        let (mut pool, mut line, mut out) = (Pool::new(9), Timeline::with_capacity(3), List::new());
        for round in 0..3 {
            for (len, when) in [(1, 9), (2, 1), (3, 5)] {
                let p = pool.alloc(Meta::new(len), Instant::ZERO).unwrap();
                line.push(&mut pool, p, Instant(when + round)).unwrap();
            }
            let p = line.pop_oldest(&pool).unwrap();
            assert_eq!((pool.meta(&p).len, line.oldest(&pool).map(|m| m.len)), (1, Some(2)));
            pool.free(p);
            line.evict_all(&mut out, &mut pool);
            assert_eq!((line.len(), line.next(), line.oldest(&pool)), (0, None, None));
        }
        let all: Vec<u32> = out.metas(&pool).map(|m| m.len).collect();
        assert_eq!(all, [2, 3, 2, 3, 2, 3]);
        while let Some(p) = out.pop_front(&pool) {
            pool.free(p);
        }
    }
}
