//! `Waiters`: the senders that wait for room, in the order in which they have asked.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::wake::{Receiver, Wakeup};

/// Senders in order of arrival, each once. To add, to take or to remove one costs the logarithm of
/// their number.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// The senders by their places, each with the number of times that it has asked.
    line: BTreeMap<Place, (Wakeup, u64)>,
    /// The places of the receivers in the line.
    known: HashMap<Receiver, Place>,
    last: u64,
}

/// The place of a sender in the line. No two have the same, whenever they wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

impl Waiters {
    /// Adds a sender at the end, unless it waits already. Returns its place.
    pub(crate) fn add(&mut self, wakeup: Wakeup) -> Place {
        let receiver = wakeup.receiver();
        if let Some(place) = self.known.get(&receiver)
            && let Some((_, asked)) = self.line.get_mut(place)
        {
            *asked += 1;
            return *place;
        }
        self.last += 1;
        let place = Place(self.last);
        self.known.insert(receiver, place);
        self.line.insert(place, (wakeup, 1));
        place
    }

    /// Takes back one request. The sender leaves the line with its last one. Nothing happens if it
    /// was taken out since.
    pub(crate) fn remove(&mut self, place: Place) -> Option<Wakeup> {
        let (_, asked) = self.line.get_mut(&place)?;
        *asked -= 1;
        if *asked > 0 {
            return None;
        }
        let (wakeup, _) = self.line.remove(&place)?;
        self.known.remove(&wakeup.receiver());
        Some(wakeup)
    }

    /// Takes the first `n` senders, or all if there are fewer.
    pub(crate) fn take(&mut self, n: u64) -> VecDeque<Wakeup> {
        if n >= self.line.len() as u64 {
            self.known.clear();
            return std::mem::take(&mut self.line).into_values().map(|(wakeup, _)| wakeup).collect();
        }
        let mut taken = VecDeque::new();
        // Bound: `n`, which is below the length of the line.
        for _ in 0..n {
            let Some((_, (wakeup, _))) = self.line.pop_first() else { break };
            self.known.remove(&wakeup.receiver());
            taken.push_back(wakeup);
        }
        taken
    }

    /// True if no sender waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
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
            waiters.add(calls[at].clone());
        }
        let taken = |w: &mut Waiters, n| {
            let at = |w: Wakeup| calls.iter().position(|c| c.receiver() == w.receiver()).unwrap();
            w.take(n).into_iter().map(at).collect::<Vec<_>>()
        };
        assert_eq!(taken(&mut waiters, 2), [0, 1]);
        // One that was taken may ask again: it is the last then.
        waiters.add(calls[0].clone());
        assert_eq!((taken(&mut waiters, 3), waiters.is_empty()), (vec![2, 3, 4], false));
        assert_eq!((taken(&mut waiters, u64::MAX), waiters.is_empty()), (vec![0], true));
    }
    #[test]
    fn a_sender_leaves_with_its_last_request_and_by_its_own_place_only() {
        let calls: Vec<Wakeup> = (0..3).map(|n| Wakeup::calling(move || assert!(n < 3))).collect();
        let mut waiters = Waiters::default();
        let places: Vec<Place> = [0, 1, 0, 2].into_iter().map(|at| waiters.add(calls[at].clone())).collect();
        assert_eq!(places[0], places[2]);
        // Two tasks in one ask for it: the first that goes takes nothing from the other.
        assert!(waiters.remove(places[0]).is_none());
        let first = waiters.take(1).pop_front().map(|w| w.receiver());
        assert_eq!(first, Some(calls[0].receiver()));
        // Its place is gone; a new request of the same receiver has another.
        waiters.add(calls[0].clone());
        assert!(waiters.remove(places[0]).is_none());
        assert!(waiters.remove(places[1]).is_some() && waiters.remove(places[1]).is_none());
        let left: Vec<_> = waiters.take(9).iter().map(Wakeup::receiver).collect();
        assert_eq!((left, waiters.is_empty()), (vec![calls[2].receiver(), calls[0].receiver()], true));
        assert!(waiters.known.is_empty());
    }
}
