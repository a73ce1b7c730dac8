//! A heap of events by their keys.

use super::Event;

/// Number of children of an entry of the heap. With four children and thousands of timers a walk
/// through the heap visits half as many entries as with two, and the children of an entry are
/// adjacent.
const CHILDREN: usize = 4;

/// Events to come, the first one at the front.
#[derive(Debug)]
pub(super) struct Heap<P> {
    /// A heap by key. If `hole` is set, the first entry has been taken already; the next `add` puts
    /// its event there, which saves one walk through the heap per event.
    entries: Vec<Event<P>>,
    hole: bool,
}

impl<P: Copy> Heap<P> {
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new(), hole: false }
    }

    /// Returns the number of events.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - usize::from(self.hole)
    }

    /// Adds an event.
    pub(super) fn add(&mut self, e: Event<P>) {
        if self.hole {
            self.hole = false;
            self.entries[0] = e;
            self.sift_down();
        } else {
            self.entries.push(e);
            self.sift_up();
        }
    }

    /// Returns the first event.
    pub(super) fn first(&mut self) -> Option<&Event<P>> {
        if self.hole {
            self.hole = false;
            self.entries.swap_remove(0);
            self.sift_down();
        }
        self.entries.first()
    }

    /// Returns up to four events: the one behind the first is among them.
    pub(super) fn coming(&self) -> &[Event<P>] {
        let last = self.entries.len().min(1 + CHILDREN);
        self.entries.get(1..last).unwrap_or_default()
    }

    /// Takes the event that [`first`](Self::first) has returned.
    pub(super) const fn take_first(&mut self) {
        self.hole = true;
    }

    /// Moves the last entry to its place.
    fn sift_up(&mut self) {
        let mut i = self.entries.len() - 1;
        let e = self.entries[i];
        let key = e.key();
        while i > 0 {
            let parent = (i - 1) / CHILDREN;
            if self.entries[parent].key() <= key {
                break;
            }
            self.entries[i] = self.entries[parent];
            i = parent;
        }
        self.entries[i] = e;
    }

    /// Moves the first entry to its place.
    fn sift_down(&mut self) {
        let heap = &mut self.entries[..];
        let Some(&e) = heap.first() else { return };
        let key = e.key();
        let mut i = 0;
        loop {
            let first = CHILDREN * i + 1;
            let (least, least_key) = match heap.get(first..first + CHILDREN) {
                Some([a, b, c, d]) => {
                    // The comparison of children is unpredictable: additions avoid mispredicted
                    // branches.
                    let (a, b, c, d) = (a.key(), b.key(), c.key(), d.key());
                    let (left, right) = (usize::from(b < a), 2 + usize::from(d < c));
                    let (l, r) = (a.min(b), c.min(d));
                    (first + if r < l { right } else { left }, l.min(r))
                }
                // These are the last entries, at most three children.
                _ => match (first..heap.len()).min_by_key(|c| heap[*c].key()) {
                    Some(least) => (least, heap[least].key()),
                    None => break,
                },
            };
            if key <= least_key {
                break;
            }
            heap[i] = heap[least];
            i = least;
        }
        heap[i] = e;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir_core::Instant;
    use txweir_core::base::rng::Rng;

    /// While the first event is handled, the next one is among those that come.
    #[test]
    fn the_next_event_is_among_those_that_come() {
        let (mut heap, mut rng) = (Heap::new(), Rng::new(4));
        for seq in 0..200 {
            heap.add(Event { at: Instant(rng.below(50)), seq, actor: seq as u32, what: 0_u32 });
        }
        while let Some(first) = heap.first().copied() {
            heap.take_first();
            let coming: Vec<u32> = heap.coming().iter().map(|e| e.actor).collect();
            assert!(coming.len() <= 4);
            let next = heap.first().map(|e| (e.key(), e.actor));
            assert!(next.is_none_or(|(key, actor)| key > first.key() && coming.contains(&actor)));
        }
    }
}
