//! Many timers by their times: a wheel of lists for those that are far, a heap for those that are
//! near.
//!
//! Time is cut into slots of 4 microseconds. The timers of the present slot, and of those before,
//! lie in a heap. A later timer lies in a list of the wheel: the level is the highest digit, of 6
//! bits, in which its slot differs from the present one, and the place is that digit. When the heap
//! is empty, the first list that is not takes its turn: its first slot becomes the present one, and
//! each of its timers moves to the heap or to a lower level. A timer of 200 ms moves three times,
//! whatever the number of timers is, and the order of the events is exactly that of their keys
//! (Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987, scheme 7).

use txweir_core::base::time::Instant;

use super::Event;
use super::heap::Heap;

/// Bits of a time within its slot.
const SLOT_BITS: u32 = 12;
/// Bits of a digit of a slot.
const DIGIT_BITS: u32 = 6;
/// Number of places of a level.
const PLACES: usize = 1 << DIGIT_BITS;
/// Number of levels: each slot has so many digits.
const LEVELS: usize = (64 - SLOT_BITS).div_ceil(DIGIT_BITS) as usize;
/// End of a list.
const END: u32 = u32::MAX;
/// Most timers that [`Wheel::coming`] tells.
const COMING: usize = 4;

/// A timer in a list.
#[derive(Clone, Copy, Debug)]
struct Node<P> {
    at: Instant,
    seq: u64,
    actor: u32,
    next: u32,
    what: P,
}

/// The first nodes of the lists of a level, and a bit for each list that is not empty.
#[derive(Clone, Copy, Debug)]
struct Level {
    busy: u64,
    first: [u32; PLACES],
}

/// Timers to come.
#[derive(Debug)]
pub(super) struct Wheel<P> {
    near: Heap<P>,
    /// The present slot: timers of later slots are in the lists.
    slot: u64,
    levels: Vec<Level>,
    nodes: Vec<Node<P>>,
    /// First of the nodes that are in no list.
    free: u32,
    far: usize,
}

const fn slot_of(at: Instant) -> u64 {
    at.0 >> SLOT_BITS
}

impl<P: Copy> Wheel<P> {
    pub(super) fn new() -> Self {
        let (levels, nodes) = (Vec::new(), Vec::new());
        Self { near: Heap::new(), slot: 0, levels, nodes, free: END, far: 0 }
    }

    /// Returns the number of timers.
    pub(super) fn len(&self) -> usize {
        self.near.len() + self.far
    }

    /// Adds a timer.
    pub(super) fn add(&mut self, e: Event<P>) {
        if slot_of(e.at) <= self.slot {
            return self.near.add(e);
        }
        let node = Node { at: e.at, seq: e.seq, actor: e.actor, next: END, what: e.what };
        let n = match self.nodes.get_mut(self.free as usize) {
            Some(free) => {
                let n = std::mem::replace(&mut self.free, free.next);
                *free = node;
                n
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        self.far += 1;
        self.hang(n);
    }

    /// Puts a node of a later slot into its list.
    fn hang(&mut self, n: u32) {
        if self.levels.is_empty() {
            self.levels = vec![Level { busy: 0, first: [END; PLACES] }; LEVELS];
        }
        let node = &mut self.nodes[n as usize];
        let slot = slot_of(node.at);
        let level = (slot ^ self.slot).ilog2() / DIGIT_BITS;
        let place = (slot >> (level * DIGIT_BITS)) as usize % PLACES;
        let level = &mut self.levels[level as usize];
        node.next = std::mem::replace(&mut level.first[place], n);
        level.busy |= 1 << place;
    }

    /// Returns the first timer.
    pub(super) fn first(&mut self) -> Option<&Event<P>> {
        if self.near.first().is_none() {
            self.turn();
        }
        self.near.first()
    }

    /// Moves the timers of the first list that is not empty to the heap, which is empty, and to
    /// lower levels.
    fn turn(&mut self) {
        let Some(level) = self.levels.iter_mut().find(|level| level.busy != 0) else { return };
        let place = level.busy.trailing_zeros();
        level.busy &= level.busy - 1;
        let list = std::mem::replace(&mut level.first[place as usize], END);
        let slots = self.list(list).map(|n| slot_of(self.nodes[n as usize].at));
        self.slot = slots.min().unwrap_or(self.slot);
        let mut next = list;
        // Bound: the nodes of a list, each of which leaves it.
        while let Some(&Node { at, seq, actor, next: behind, what }) = self.nodes.get(next as usize) {
            if slot_of(at) == self.slot {
                self.nodes[next as usize].next = std::mem::replace(&mut self.free, next);
                self.far -= 1;
                self.near.add(Event { at, seq, actor, what });
            } else {
                self.hang(next);
            }
            next = behind;
        }
    }

    /// Returns the nodes of a list.
    fn list(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(first).filter(|n| *n != END), |n| {
            Some(self.nodes[*n as usize].next).filter(|n| *n != END)
        })
    }

    /// Takes the timer that [`first`](Self::first) has returned.
    pub(super) fn take_first(&mut self) {
        self.near.take_first();
    }

    /// Returns up to four actors whose timers come soon: when the first timer has been taken and
    /// the next one is due soon, it is among them.
    pub(super) fn coming(&self) -> impl Iterator<Item = u32> {
        let near = self.near.coming();
        let level = self.levels.iter().find(|level| level.busy != 0);
        let first = level.map_or(END, |level| level.first[level.busy.trailing_zeros() as usize]);
        let far = self.list(first).map(|n| self.nodes[n as usize].actor);
        near.iter().map(|e| e.actor).chain(far).take(COMING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir_core::base::rng::Rng;

    /// Timers of all distances, and many of one time, come in the order of their keys, whatever is
    /// added meanwhile.
    #[test]
    fn timers_come_in_the_order_of_their_keys() {
        for seed in 0..200 {
            let (mut wheel, mut rng) = (Wheel::new(), Rng::new(seed));
            let mut model: Vec<(Instant, u64)> = Vec::new();
            let (mut now, mut seq, mut next_known) = (0, 0, 0);
            while seq < 300 || !model.is_empty() {
                for _ in 0..rng.below(if seq < 300 { 6 } else { 1 }) {
                    let bits = rng.below(64);
                    let distance = rng.below(1 << bits);
                    let at = match rng.below(8) {
                        0 => Instant(now),
                        1 => Instant(u64::MAX),
                        2 => model.last().map_or(Instant(now), |m| m.0),
                        _ => Instant(now.saturating_add(distance)),
                    };
                    wheel.add(Event { at, seq, actor: seq as u32, what: 0_u32 });
                    model.push((at, seq));
                    seq += 1;
                }
                assert_eq!(wheel.len(), model.len(), "seed {seed}");
                // An event of another kind may come before: the first timer is looked at, and stays.
                let first = wheel.first().map(|e| (e.at, e.seq));
                assert_eq!(first, model.iter().min().copied(), "seed {seed}");
                let Some(first) = first.filter(|_| rng.below(3) > 0) else {
                    let until = first.map_or(now, |f| f.0.0);
                    now += rng.below((until - now).saturating_add(1));
                    continue;
                };
                wheel.take_first();
                model.retain(|m| *m != first);
                now = first.0.0;
                let next = model.iter().min();
                let near = next.is_some_and(|n| slot_of(n.0) == slot_of(first.0));
                let coming: Vec<u32> = wheel.coming().collect();
                assert!(coming.len() <= COMING);
                if let Some(next) = next.filter(|_| near && model.len() < 3) {
                    assert!(coming.contains(&(next.1 as u32)), "seed {seed}");
                    next_known += 1;
                }
            }
            assert!(seed > 0 || next_known > 0);
        }
    }

    /// The memory is that of the most timers at one time.
    #[test]
    fn nodes_are_used_again() {
        let mut wheel = Wheel::new();
        for seq in 0..10_000 {
            let at = Instant((seq + 1) << 16);
            wheel.add(Event { at, seq, actor: 0, what: 0_u32 });
            assert_eq!(wheel.first().map(|e| e.seq), Some(seq));
            wheel.take_first();
        }
        assert!(wheel.first().is_none());
        assert_eq!((wheel.len(), wheel.nodes.len()), (0, 1));
        assert_eq!(std::mem::size_of::<Node<crate::event::NetEvent>>(), 32);
    }
}
