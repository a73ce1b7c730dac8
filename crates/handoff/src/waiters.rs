//! `Waiters`: the senders that wait for room, in the order in which they have asked, and those of
//! each flow among them.

use std::collections::{HashMap, VecDeque};

use crate::wake::{Receiver, Wakeup};

/// Senders in order of arrival, each once. To add, to take or to remove one costs the same among
/// any number of them.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    slots: Vec<Slot>,
    /// The slots without a sender.
    free: Vec<usize>,
    /// The slots of the receivers.
    known: HashMap<Receiver, usize>,
    /// All senders.
    line: Ends,
    /// Those of each flow.
    flows: HashMap<u32, Ends>,
    last: u64,
    /// True if the next packet that leaves makes room for its own flow first.
    own_first: bool,
}

/// A sender, or a place for one.
#[derive(Debug, Default)]
struct Slot {
    wakeup: Option<Wakeup>,
    /// Times that it has asked.
    asked: u64,
    /// No two senders have the same, whenever they wait.
    number: u64,
    flow: Option<u32>,
    /// Its neighbours, in the line and among those of its flow.
    links: [Links; 2],
}

/// A list through the slots.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    first: Option<usize>,
    last: Option<usize>,
}

/// Neighbours in a list.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    before: Option<usize>,
    behind: Option<usize>,
}

/// The list of all, and that of a flow.
const LINE: usize = 0;
const FLOW: usize = 1;

impl Ends {
    fn push_back(&mut self, slots: &mut [Slot], which: usize, at: usize) {
        slots[at].links[which] = Links { before: self.last, behind: None };
        match self.last.replace(at) {
            Some(last) => slots[last].links[which].behind = Some(at),
            None => self.first = Some(at),
        }
    }

    fn unlink(&mut self, slots: &mut [Slot], which: usize, at: usize) {
        let Links { before, behind } = slots[at].links[which];
        match before {
            Some(before) => slots[before].links[which].behind = behind,
            None => self.first = behind,
        }
        match behind {
            Some(behind) => slots[behind].links[which].before = before,
            None => self.last = before,
        }
    }
}

/// The place of a sender in the line. No two have the same, whenever they wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    slot: usize,
    number: u64,
}

impl Waiters {
    /// Adds a sender at the end, unless it waits already. `flow` is the hash of its packets, if it
    /// is known. Returns its place.
    pub(crate) fn add(&mut self, wakeup: Wakeup, flow: Option<u32>) -> Place {
        let receiver = wakeup.receiver();
        if let Some(&slot) = self.known.get(&receiver)
            && let Some(there) = self.slots.get_mut(slot)
        {
            there.asked += 1;
            return Place { slot, number: there.number };
        }
        self.last += 1;
        let number = self.last;
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.slots[at] = Slot { wakeup: Some(wakeup), asked: 1, number, flow, links: Default::default() };
        self.known.insert(receiver, at);
        self.line.push_back(&mut self.slots, LINE, at);
        if let Some(flow) = flow {
            self.flows.entry(flow).or_default().push_back(&mut self.slots, FLOW, at);
        }
        Place { slot: at, number }
    }

    /// Takes back one request. The sender leaves the line with its last one. Nothing happens if it
    /// was taken out since.
    pub(crate) fn remove(&mut self, place: Place) -> Option<Wakeup> {
        let there = self.slots.get_mut(place.slot).filter(|there| there.number == place.number)?;
        there.asked = there.asked.checked_sub(1)?;
        if there.asked > 0 {
            return None;
        }
        self.take_at(place.slot)
    }

    /// Takes out `n` senders, or all if there are fewer: one for each packet that has left. Every
    /// other packet makes room for the first of its own flow, if one waits and its flow is among
    /// `gone`; the others make room for the first of all. So a sender comes to its turn whatever
    /// flows leave, and the flow that has just got room is asked.
    pub(crate) fn take(&mut self, n: u64, gone: &[u32]) -> VecDeque<Wakeup> {
        let (mut taken, mut gone) = (VecDeque::new(), gone.iter());
        // Bound: `n`, and the number of senders that wait.
        for _ in 0..n.min(self.known.len() as u64) {
            let mut own = || gone.find_map(|flow| self.flows.get(flow)?.first);
            let first = if self.own_first { own() } else { None };
            self.own_first = !self.own_first;
            let Some(at) = first.or(self.line.first) else { break };
            taken.extend(self.take_at(at));
        }
        taken
    }

    /// Takes out the sender of a slot.
    fn take_at(&mut self, at: usize) -> Option<Wakeup> {
        let wakeup = self.slots.get_mut(at)?.wakeup.take()?;
        self.line.unlink(&mut self.slots, LINE, at);
        if let Some(flow) = self.slots[at].flow
            && let Some(ends) = self.flows.get_mut(&flow)
        {
            ends.unlink(&mut self.slots, FLOW, at);
            if ends.first.is_none() {
                self.flows.remove(&flow);
            }
        }
        self.slots[at].number = 0;
        self.known.remove(&wakeup.receiver());
        self.free.push(at);
        Some(wakeup)
    }

    /// True if no sender waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn senders_leave_in_order_and_are_in_it_once() {
        let calls: Vec<Wakeup> = (0..5).map(|n| Wakeup::calling(move || assert!(n < 5))).collect();
        let mut waiters = Waiters::default();
        for at in [0, 1, 0, 2, 1, 3, 4, 4] {
            waiters.add(calls[at].clone(), None);
        }
        let taken = |w: &mut Waiters, n| {
            let at = |w: Wakeup| calls.iter().position(|c| c.receiver() == w.receiver()).unwrap();
            w.take(n, &[]).into_iter().map(at).collect::<Vec<_>>()
        };
        assert_eq!(taken(&mut waiters, 2), [0, 1]);
        // One that was taken may ask again: it is the last then.
        waiters.add(calls[0].clone(), None);
        assert_eq!((taken(&mut waiters, 3), waiters.is_empty()), (vec![2, 3, 4], false));
        assert_eq!((taken(&mut waiters, u64::MAX), waiters.is_empty()), (vec![0], true));
    }
    #[test]
    fn a_sender_leaves_with_its_last_request_and_by_its_own_place_only() {
        let calls: Vec<Wakeup> = (0..3).map(|n| Wakeup::calling(move || assert!(n < 3))).collect();
        let mut waiters = Waiters::default();
        let places: Vec<Place> =
            [0, 1, 0, 2].into_iter().map(|at| waiters.add(calls[at].clone(), Some(7))).collect();
        assert_eq!(places[0], places[2]);
        // Two tasks in one ask for it: the first that goes takes nothing from the other.
        assert!(waiters.remove(places[0]).is_none());
        let first = waiters.take(1, &[]).pop_front().map(|w| w.receiver());
        assert_eq!(first, Some(calls[0].receiver()));
        // Its place is gone; a new request of the same receiver has another.
        waiters.add(calls[0].clone(), None);
        assert!(waiters.remove(places[0]).is_none());
        assert!(waiters.remove(places[1]).is_some() && waiters.remove(places[1]).is_none());
        let left: Vec<_> = waiters.take(9, &[]).iter().map(Wakeup::receiver).collect();
        assert_eq!((left, waiters.is_empty()), (vec![calls[2].receiver(), calls[0].receiver()], true));
        assert!(waiters.known.is_empty() && waiters.flows.is_empty());
        assert_eq!((waiters.slots.len(), waiters.free.len()), (3, 3));
    }

    #[test]
    fn every_other_packet_makes_room_for_its_own_flow() {
        let calls: Vec<Wakeup> = (0..8).map(|n| Wakeup::calling(move || assert!(n < 8))).collect();
        let mut waiters = Waiters::default();
        for (at, flow) in [1, 1, 2, 2, 1, 3, 2, 3].into_iter().enumerate() {
            waiters.add(calls[at].clone(), Some(flow));
        }
        let mut taken = |n, gone: &[u32]| {
            let at = |w: Wakeup| calls.iter().position(|c| c.receiver() == w.receiver()).unwrap();
            waiters.take(n, gone).into_iter().map(at).collect::<Vec<_>>()
        };
        // The first of all, the first of flow 3, the first of all, the first of flow 2.
        assert_eq!(taken(1, &[2]), [0]);
        assert_eq!(taken(1, &[9, 3]), [5]);
        assert_eq!(taken(2, &[2, 2]), [1, 2]);
        // No sender of the flow waits: the first of all is next.
        assert_eq!(taken(2, &[8]), [3, 4]);
        assert_eq!(taken(9, &[3]), [6, 7]);
        assert!(waiters.is_empty() && waiters.flows.is_empty());
    }
}
