//! `Waiters`: the senders that wait for room, in the order in which they have asked.

use std::collections::{HashSet, VecDeque};

use crate::wake::{Receiver, Wakeup};

/// Senders in order of arrival, each once. A sender costs the same to add and to take, whatever
/// their number.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    line: VecDeque<Wakeup>,
    /// The receivers in the line.
    known: HashSet<Receiver>,
}

impl Waiters {
    /// Adds a sender at the end, unless it waits already.
    pub(crate) fn add(&mut self, wakeup: Wakeup) {
        if self.known.insert(wakeup.receiver()) {
            self.line.push_back(wakeup);
        }
    }

    /// Takes the first `n` senders, or all if there are fewer.
    pub(crate) fn take(&mut self, n: u64) -> VecDeque<Wakeup> {
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        if n >= self.line.len() {
            self.known.clear();
            return std::mem::take(&mut self.line);
        }
        let taken: VecDeque<Wakeup> = self.line.drain(..n).collect();
        for wakeup in &taken {
            self.known.remove(&wakeup.receiver());
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
}
