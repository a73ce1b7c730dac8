//! `ByQueue`: a class for each transmit queue of a device; a packet waits in that of the queue that was chosen for it, and the
//! classes take turns, passing over those whose queue may not transmit. What multiq, mq and mqprio have in common where
//! one path feeds all queues.
//!
//! - I1: a packet leaves only for a transmit queue that is not stopped (`TxPath::stop_queue`).
//! - I2: turns go round by number, from the class behind the one that sent last; a class that has nothing, may not send
//!   yet or is stopped is passed over.
//! - I3: a class's bit in `active` is set from its first packet until it has answered `Empty`.
//! - I4: if all that waits is for stopped queues, the answer is that the device says when.

use alloc::vec::Vec;

use crate::base::env::Env;
use crate::base::queues::QueueSet;
use crate::base::time::Instant;
use crate::packet::meta::Meta;
use crate::packet::pool::Pkt;
use crate::packet::reason::WakeReason;
use crate::packet::route::Asked;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::node::{Class, Node, Peek};

/// A class for each transmit queue.
#[derive(Debug)]
pub struct ByQueue {
    bands: Vec<Class>,
    /// Classes with work.
    active: QueueSet,
    /// The class that sent last.
    last: u16,
}

impl ByQueue {
    /// As many classes as the device has queues, each with what `child` makes.
    pub fn new(env: &Env, child: fn(&Env) -> Node) -> Self {
        let mut classes = Self { bands: Vec::new(), active: QueueSet::new(), last: 0 };
        classes.fit(env, child);
        classes
    }
    /// As many classes as the device has queues now; what waits in those that go is dropped.
    pub fn change(&mut self, env: &Env, child: fn(&Env) -> Node, cx: &mut Cx) {
        for class in self.bands.iter_mut().skip(count(env)) {
            class.node.purge(cx);
        }
        self.fit(env, child);
    }
    fn fit(&mut self, env: &Env, child: fn(&Env) -> Node) {
        self.bands.truncate(count(env));
        for minor in (1..).take(count(env)).skip(self.bands.len()) {
            self.bands.push(Class { minor, node: child(env) });
        }
        self.active.truncate(count(env));
        if usize::from(self.last) >= self.bands.len() {
            self.last = 0;
        }
    }
    /// Whether a packet would be queued without a drop.
    pub fn admit(&self, m: &Asked<'_>) -> Verdict {
        self.bands[self.band(m)].node.admit(m)
    }
    /// The class of a packet's queue.
    pub fn select(&self, m: &Meta) -> Option<&Class> {
        self.bands.get(self.band(m))
    }
    /// Queues a packet in the class of its queue.
    pub fn enqueue(&mut self, p: Pkt, cx: &mut Cx) {
        let band = self.band(cx.meta(&p));
        // Below the number of classes, which are at most 65 535.
        self.active.insert(band as u16);
        self.bands[band].node.enqueue(p, cx);
    }
    /// The next packet of the class whose turn it is.
    pub fn dequeue(&mut self, cx: &mut Cx) -> Next {
        let mut search = Search::from(self.last);
        while let Some(band) = search.next(&self.active, cx.stopped_queues()) {
            match self.bands[usize::from(band)].node.dequeue(cx) {
                Next::Packet(p) => {
                    self.last = band;
                    return Next::Packet(p);
                }
                Next::Empty => self.active.remove(band),
                Next::At(t, why) => search.wait_until(t, why),
            }
        }
        match search.earliest(&self.active) {
            Some((t, why)) => Next::At(t, why),
            None => Next::Empty,
        }
    }
    /// What `dequeue` would give. Leaves the turn where it is, as Linux does.
    pub fn peek(&mut self, cx: &mut Cx) -> Peek {
        let mut search = Search::from(self.last);
        while let Some(band) = search.next(&self.active, cx.stopped_queues()) {
            match self.bands[usize::from(band)].node.peek(cx) {
                ready @ Peek::Ready { .. } => {
                    if let Some((t, why)) = search.earliest {
                        cx.may_be_ready(t, why);
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
    /// Nothing waits, and nobody's turn it is.
    pub const fn reset(&mut self) {
        self.active.clear();
        self.last = 0;
    }
    /// The classes.
    pub fn classes(&self) -> &[Class] {
        &self.bands
    }
    /// The classes, to graft into.
    pub(crate) fn classes_mut(&mut self) -> &mut [Class] {
        &mut self.bands
    }

    /// The packet's class: that of its queue, or the first if there is no such queue.
    fn band(&self, m: &Meta) -> usize {
        match usize::from(m.queue) {
            queue if queue < self.bands.len() => queue,
            _ => 0,
        }
    }
}

/// What a kind hands on to the `ByQueue` that is all it has: the part of its `Discipline` that is the same for each.
macro_rules! hand_on {
    () => {
        fn admit(
            &self,
            m: &$crate::packet::route::Asked<'_>,
            _class: Option<$crate::base::handle::ClassId>,
        ) -> $crate::sched::answer::Verdict {
            self.0.admit(m)
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
        /// Whatever waits waits in the classes.
        fn drain(&mut self, _out: &mut $crate::packet::pool::List, _pool: &mut $crate::packet::pool::Pool) {}
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

/// The classes of such a kind; each has what `child` makes until something is grafted.
macro_rules! classes {
    ($kind:ty, $child:path) => {
        impl $crate::sched::capability::Classes for $kind {
            fn classes(&self) -> &[$crate::sched::node::Class] {
                self.0.classes()
            }
            fn classes_mut(&mut self) -> &mut [$crate::sched::node::Class] {
                self.0.classes_mut()
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

/// How many classes there are.
fn count(env: &Env) -> usize {
    usize::from(env.queues.clamp(1, QueueSet::QUEUES_MAX))
}

/// One round over the classes with work.
struct Search {
    /// Where the round began: the last class that is asked.
    last: u16,
    /// Past the end of the numbers.
    wrapped: bool,
    at: u16,
    earliest: Option<(Instant, WakeReason)>,
}

impl Search {
    const fn from(last: u16) -> Self {
        Self { last, wrapped: false, at: last + 1, earliest: None }
    }
    /// The next class with work whose queue is not stopped, each once.
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
    /// When the first of those that wait may send, after a round in which none did; those that are left are stopped.
    fn earliest(&self, active: &QueueSet) -> Option<(Instant, WakeReason)> {
        self.earliest.or_else(|| (!active.is_empty()).then_some((Instant::MAX, WakeReason::Queue)))
    }
}
