//! One rate for several transmit queues, split evenly among those that are active: the rule of
//! cake_mq (tc-cake(8); Koeppeler, Hoiland-Jorgensen and Schmid, "Have your CAKE and eat it too",
//! LANMAN 2025).
//!
//! Every queue looks at the others when it is about to send, at most once in [`LOOK_NS`], and from
//! then on has the rate divided by the number of active ones: itself, those with packets, and
//! those that have sent since its last look. The queues agree on nothing and wait for nothing: one
//! writes two words of its own, which the others read.
//!
//! - I1: the count is at least 1 and at most the number of queues.
//! - I2: without a change of who is active for two looks, all active queues have the same count,
//!   and together at most the rate.
//! - A queue that becomes idle leaves its part unused, until each other one has looked: at most
//!   two looks of each. One that becomes active takes its part at once, and the others keep theirs
//!   until they look: the sum is above the rate for as long. A queue that needs less than its part
//!   keeps it. [`crate::law::lease`] has no such losses.
//!
//! **Cost.** A store for each packet, and one for each change between idle and not; O(queues) for
//! a look. **Memory.** Two cache lines for each queue, so that no queue's store disturbs another's.

use alloc::boxed::Box;
use alloc::sync::Arc;
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::AtomicI64;
use core::sync::atomic::Ordering;
#[cfg(not(target_has_atomic = "64"))]
use portable_atomic::AtomicI64;

use crate::base::time::Instant;
use crate::law::lease::Word;

/// Time between two looks of a queue at the others, as in Linux 7.0.
pub const LOOK_NS: i64 = 200_000;

/// State of one queue that the others read. The words publish no other data, so all operations are
/// relaxed.
#[derive(Debug)]
#[repr(align(128))]
struct Member<W> {
    /// 1 while packets wait, else 0.
    waiting: W,
    /// Time of the last departure, ns.
    sent: W,
}

/// The queues among which a rate is split.
#[derive(Debug)]
pub struct Split<W: Word = AtomicI64> {
    members: Box<[Member<W>]>,
}

impl<W: Word> Split<W> {
    /// Returns so many idle queues.
    pub fn new(queues: usize) -> Self {
        let member = || Member { waiting: W::new(0), sent: W::new(0) };
        Self { members: (0..queues).map(|_| member()).collect() }
    }
    /// Returns the number of queues.
    pub fn queues(&self) -> usize {
        self.members.len()
    }
}

/// One queue of a [`Split`].
#[derive(Debug)]
pub struct Part<W: Word = AtomicI64> {
    split: Arc<Split<W>>,
    own: usize,
    /// Time of its last look, ns.
    looked: i64,
    /// Active queues at that look.
    active: u32,
    waiting: bool,
}

impl<W: Word> Part<W> {
    /// Returns the queue of a number; `None` if there is no such queue.
    pub fn of(split: Arc<Split<W>>, own: usize) -> Option<Self> {
        (own < split.queues()).then_some(Self { split, own, looked: 0, active: 1, waiting: false })
    }
    /// Returns the number of active queues at the last look, this one included.
    pub const fn active(&self) -> u32 {
        self.active
    }
    /// Tells the others whether packets wait.
    #[inline]
    pub fn wait(&mut self, waiting: bool) {
        if self.waiting != waiting {
            self.waiting = waiting;
            self.split.members[self.own].waiting.store(waiting.into(), Ordering::Relaxed);
        }
    }
    /// Tells the others that a packet leaves.
    #[inline]
    pub fn sent(&self, now: Instant) {
        self.split.members[self.own].sent.store(ns(now), Ordering::Relaxed);
    }
    /// Looks at the others if the last look is [`LOOK_NS`] ago; returns the number of active queues
    /// if it is another than before.
    #[inline]
    pub fn look(&mut self, now: Instant) -> Option<u32> {
        let now = ns(now);
        if now - self.looked < LOOK_NS {
            return None;
        }
        let since = core::mem::replace(&mut self.looked, now);
        let is_active =
            |m: &Member<W>| m.waiting.load(Ordering::Relaxed) != 0 || m.sent.load(Ordering::Relaxed) > since;
        // Bound: the queues of the device, at most 65 535.
        let all = self.split.members.iter().enumerate();
        let others = all.filter(|(at, m)| *at != self.own && is_active(m)).count();
        let active = u32::try_from(others).unwrap_or(u32::MAX).saturating_add(1);
        (core::mem::replace(&mut self.active, active) != active).then_some(active)
    }
    /// Forgets the last look: the queue is idle, and the whole rate is its own until the next one.
    pub fn restart(&mut self) {
        (self.looked, self.active) = (0, 1);
        self.wait(false);
    }
}

/// Returns a time as a signed number; late times are cut.
fn ns(t: Instant) -> i64 {
    i64::try_from(t.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const US: u64 = 1_000;

    fn queues(n: usize) -> Vec<Part> {
        let split = Arc::new(Split::new(n));
        (0..n).map(|own| Part::of(Arc::clone(&split), own).expect("it is there")).collect()
    }

    #[test]
    fn waiting_queues_count_and_idle_ones_do_not() {
        let mut q = queues(4);
        assert_eq!(q[0].look(Instant(1_000 * US)), None);
        assert_eq!(q[0].active(), 1);
        q[2].wait(true);
        q[3].wait(true);
        assert_eq!(q[0].look(Instant(1_200 * US - 1)), None, "the last look is too near");
        assert_eq!(q[0].look(Instant(1_200 * US)), Some(3));
        assert_eq!(q[0].look(Instant(1_400 * US)), None, "as before");
        q[3].wait(false);
        assert_eq!(q[0].look(Instant(1_600 * US)), Some(2));
        assert_eq!(q[2].look(Instant(1_600 * US)), None, "the first has no packets: one is active");
    }

    #[test]
    fn a_queue_that_sent_since_the_last_look_counts_once_more() {
        let mut q = queues(2);
        assert_eq!(q[0].look(Instant(1_000 * US)), None);
        q[1].sent(Instant(1_000 * US));
        assert_eq!(q[0].look(Instant(1_200 * US)), None, "at the look is not after it");
        q[1].sent(Instant(1_200 * US + 1));
        assert_eq!(q[0].look(Instant(1_400 * US)), Some(2));
        assert_eq!(q[0].look(Instant(1_600 * US)), Some(1));
    }

    #[test]
    fn a_restart_is_as_new() {
        let mut q = queues(2);
        q[1].wait(true);
        assert_eq!(q[0].look(Instant(1_000 * US)), Some(2));
        q[1].restart();
        q[0].restart();
        assert_eq!((q[0].active(), q[0].look(Instant(200 * US))), (1, None));
        assert!(Part::of(Arc::new(Split::<AtomicI64>::new(2)), 2).is_none());
    }
}
