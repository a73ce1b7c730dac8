//! `ByQueue`: a class for each transmit queue of a device. A packet waits in the class of the queue
//! chosen for it, and the classes take turns, passing over those whose queue may not transmit. It
//! is the common part of multiq, mq and mqprio where one path feeds all queues.
//!
//! - I1: a packet leaves only for a transmit queue that is not stopped (`TxPath::stopped_queues`).
//! - I2: turns go round by number, from the class behind the one that sent last; a class that is
//!   empty, may not send yet or is stopped is passed over.
//! - I3: a class's bit in `active` is set from its first packet until it has answered `Empty`.
//! - I4: if all waiting packets are for stopped queues, the answer is to wait for the device
//!   (`WakeReason::Queue`).

use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::queues::QueueSet;
use crate::base::time::Instant;
use crate::packet::meta::Meta;
use crate::packet::pool::Pkt;
use crate::packet::reason::WakeReason;
use crate::packet::route::Candidate;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::node::{Class, Node, Peek};

/// Makes the qdisc that a class has first, by its minor number.
pub type Child<'a> = &'a dyn Fn(u16, &Env) -> Node;

/// A class for each transmit queue.
#[derive(Debug)]
pub struct ByQueue {
    bands: Vec<Class>,
    /// Classes with work.
    active: QueueSet,
    /// The class that sent last.
    last: u16,
    /// With timers apart, the time that each class has named; else empty.
    named: Vec<Option<(Instant, WakeReason)>>,
    apart: bool,
}

impl ByQueue {
    /// Returns as many classes as the device has queues, each with the qdisc that `child` makes.
    pub fn new(env: &Env, child: Child<'_>) -> Self {
        let (bands, active, named) = (Vec::new(), QueueSet::new(), Vec::new());
        let mut classes = Self { bands, active, last: 0, named, apart: false };
        classes.fit(env, child);
        classes
    }
    /// Gives each class a timer of its own, as it has where each queue has its own path: a class
    /// that has named a time is not asked before it, unless a packet comes for it or it is changed.
    pub(super) fn with_timers_apart(mut self) -> Self {
        self.apart = true;
        self.named.resize(self.bands.len(), None);
        self
    }
    /// Adapts the classes to the queues that the device has now; the packets of removed classes are
    /// dropped.
    pub fn change(&mut self, env: &Env, child: Child<'_>, cx: &mut Cx) {
        for class in self.bands.iter_mut().skip(count(env)) {
            class.node.purge(cx);
        }
        self.fit(env, child);
    }
    fn fit(&mut self, env: &Env, child: Child<'_>) {
        self.bands.truncate(count(env));
        for minor in (1..).take(count(env)).skip(self.bands.len()) {
            self.bands.push(Class { minor, node: child(minor, env) });
        }
        self.active.truncate(count(env));
        if self.apart {
            self.named.clear();
            self.named.resize(self.bands.len(), None);
        }
        if usize::from(self.last) >= self.bands.len() {
            self.last = 0;
        }
    }
    /// Returns the answer of the packet's class: queue it, cut it or drop it.
    pub fn would_accept(&self, m: &Candidate<'_>) -> Verdict {
        self.bands[self.band(m)].node.would_accept(m)
    }
    /// Returns the class of a packet's queue.
    pub fn select(&self, m: &Meta) -> Option<&Class> {
        self.bands.get(self.band(m))
    }
    /// Queues a packet in the class of its queue.
    pub fn enqueue(&mut self, p: Pkt, cx: &mut Cx) {
        let band = self.band(cx.meta(&p));
        // The index is below the number of classes, at most 65 535.
        self.active.insert(band as u16);
        self.name(band, None);
        self.bands[band].node.enqueue(p, cx);
    }
    /// Returns the next packet of the class whose turn it is.
    pub fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let mut search = Search::from(self.last);
        let mut bound = Bound::of(self.bands.len());
        while let Some(band) = search.next(&self.active, cx.stopped_queues()) {
            bound.turn();
            if let Some((t, why)) = self.waits(band, cx.now) {
                search.wait_until(t, why);
                continue;
            }
            match self.bands[usize::from(band)].node.dequeue(cx) {
                Next::Packet(p) => {
                    self.last = band;
                    return Next::Packet(p);
                }
                Next::Empty => self.active.remove(band),
                Next::At(t, why) => {
                    self.name(band.into(), Some((t, why)));
                    search.wait_until(t, why);
                }
            }
        }
        match search.earliest(&self.active) {
            Some((t, why)) => Next::At(t, why),
            None => Next::Empty,
        }
    }
    /// Returns the answer that `dequeue` would give. Leaves the turn unchanged, as Linux does.
    pub fn peek(&mut self, cx: &mut Cx) -> Peek {
        let mut search = Search::from(self.last);
        let mut bound = Bound::of(self.bands.len());
        while let Some(band) = search.next(&self.active, cx.stopped_queues()) {
            bound.turn();
            match self.bands[usize::from(band)].node.peek(cx) {
                ready @ Peek::Ready { .. } => {
                    if let Some((t, why)) = search.earliest {
                        cx.wakes.may_be_ready(t, why);
                    }
                    return ready;
                }
                Peek::Empty => self.active.remove(band),
                Peek::At(t, why) => search.wait_until(t, why),
            }
        }
        match search.earliest(&self.active) {
            Some((t, why)) => Peek::At(t, why),
            None => Peek::Empty,
        }
    }
    /// Clears the bands and the round-robin position.
    pub fn reset(&mut self) {
        self.active.clear();
        self.last = 0;
        self.named.fill(None);
    }
    /// Returns the classes.
    pub fn classes(&self) -> &[Class] {
        &self.bands
    }
    /// Returns the classes, to graft into.
    pub(crate) fn classes_mut(&mut self) -> &mut [Class] {
        self.named.fill(None);
        &mut self.bands
    }

    /// Keeps the time that a class has named, if timers are apart.
    #[inline]
    fn name(&mut self, band: usize, time: Option<(Instant, WakeReason)>) {
        if let Some(named) = self.named.get_mut(band) {
            *named = time;
        }
    }
    /// Returns the time that a class has named, if it is still to come.
    #[inline]
    fn waits(&self, band: u16, now: Instant) -> Option<(Instant, WakeReason)> {
        self.named.get(usize::from(band)).copied().flatten().filter(|(t, _)| *t > now)
    }

    /// Returns the packet's class: that of its queue, or the first if there is no such queue.
    fn band(&self, m: &Meta) -> usize {
        match usize::from(m.queue) {
            queue if queue < self.bands.len() => queue,
            _ => 0,
        }
    }
}

/// The part of `Discipline` that a kind made of a `ByQueue` alone forwards to it.
macro_rules! hand_on {
    () => {
        fn would_accept(
            &self,
            m: &$crate::packet::route::Candidate<'_>,
            _class: Option<$crate::base::handle::ClassId>,
        ) -> $crate::sched::answer::Verdict {
            self.0.would_accept(m)
        }
        fn enqueue(
            &mut self,
            p: $crate::packet::pool::Pkt,
            _class: Option<$crate::base::handle::ClassId>,
            cx: &mut $crate::sched::cx::Cx,
        ) {
            self.0.enqueue(p, cx);
        }
        #[inline]
        fn dequeue(&mut self, cx: &mut $crate::sched::cx::Cx) -> $crate::sched::answer::Next {
            self.0.dequeue(cx)
        }
        fn peek(&mut self, cx: &mut $crate::sched::cx::Cx) -> Option<$crate::sched::node::Peek> {
            Some(self.0.peek(cx))
        }
        /// All packets wait in the classes.
        fn evict_all(
            &mut self,
            _out: &mut $crate::packet::pool::List,
            _pool: &mut $crate::packet::pool::Pool,
        ) {
        }
        fn queued(
            &self,
            _pool: &$crate::packet::pool::Pool,
            _f: &mut dyn FnMut($crate::packet::pool::Waiting<'_>),
        ) {
        }
        fn reset(&mut self, _cx: &mut $crate::sched::cx::Cx) {
            self.0.reset();
        }
        fn stats(&self) -> $crate::qdisc::fifo::NoStats {
            $crate::qdisc::fifo::NoStats {}
        }
    };
}
pub(crate) use hand_on;

/// The `Classes` of such a kind; each class has the qdisc that `child` makes until another is
/// grafted.
macro_rules! classes {
    ($kind:ty, $child:path) => {
        impl $crate::sched::capability::Classes for $kind {
            fn classes(&self) -> &[$crate::sched::node::Class] {
                self.0.classes()
            }
            fn classes_mut(&mut self) -> &mut [$crate::sched::node::Class] {
                self.0.classes_mut()
            }
            fn slot(&self, minor: u16) -> Option<usize> {
                usize::from(minor).checked_sub(1)
            }
            fn select(
                &self,
                m: &$crate::packet::meta::Meta,
                _class: Option<$crate::base::handle::ClassId>,
            ) -> Option<&$crate::sched::node::Class> {
                self.0.select(m)
            }
            fn default_child(&self, env: &Env) -> Option<$crate::sched::node::Node> {
                Some($child(env))
            }
        }
    };
}
pub(crate) use classes;

/// Returns the number of classes.
pub(super) fn count(env: &Env) -> usize {
    usize::from(env.queues.clamp(1, QueueSet::QUEUES_MAX))
}

/// One round over the classes with work.
struct Search {
    /// The last class of the round: the round began behind it.
    last: u16,
    /// True if the round has passed the highest number.
    wrapped: bool,
    at: u16,
    earliest: Option<(Instant, WakeReason)>,
}

impl Search {
    const fn from(last: u16) -> Self {
        Self { last, wrapped: false, at: last + 1, earliest: None }
    }
    /// Returns the next class with work whose queue is not stopped, each once.
    fn next(&mut self, active: &QueueSet, stopped: &QueueSet) -> Option<u16> {
        if !self.wrapped {
            if let Some(band) = active.next_without(stopped, self.at) {
                self.at = band + 1;
                return Some(band);
            }
            (self.wrapped, self.at) = (true, 0);
        }
        let band = active.next_without(stopped, self.at).filter(|band| *band <= self.last)?;
        self.at = band + 1;
        Some(band)
    }
    fn wait_until(&mut self, t: Instant, why: WakeReason) {
        if self.earliest.is_none_or(|(u, _)| t < u) {
            self.earliest = Some((t, why));
        }
    }
    /// Returns the earliest time at which a waiting class may send, after a round in which none
    /// did; if only stopped ones are left, the wait is for the device.
    fn earliest(&self, active: &QueueSet) -> Option<(Instant, WakeReason)> {
        self.earliest.or_else(|| (!active.is_empty()).then_some((Instant::MAX, WakeReason::Queue)))
    }
}
