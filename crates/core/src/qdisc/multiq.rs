//! multiq: a class for each transmit queue of the device; a packet waits in that of the queue that was chosen for it, and
//! the classes take turns, passing over those whose queue may not transmit (tc-multiq(8)).
//!
//! One search in a set of bits finds the next class with work: 64 queues a step. Memory per queue is its qdisc.
//!
//! - I1: a packet leaves only for a transmit queue that is not stopped (`TxPath::stop_queue`).
//! - I2: turns go round by number, from the class behind the one that sent last; a class that has nothing, may not send
//!   yet or is stopped is passed over.
//! - I3: a class's bit in `active` is set from its first packet until it has answered `Empty`.
//! - I4: if all that waits is for stopped queues, the answer is that the device says when.
//! - Differs from Linux (PARITY.md: multiq-backlog, multiq-deleted-child, multiq-json, multi-queue-polls).

use alloc::vec::Vec;

use crate::cx::Cx;
use crate::error::{ConfigError, ErrorKind};
use crate::handle::ClassId;
use crate::meta::Meta;
use crate::node::{Class, Node, Peek};
use crate::pool::{List, Pkt, Pool};
use crate::qdisc::fifo::NoStats;
use crate::qdisc::{ChangeRule, Discipline, Filtered, Next, Verdict};
use crate::queues::QueueSet;
use crate::reason::WakeReason;
use crate::spec::{Env, Flags};
use crate::time::Instant;

crate::params! {
    /// Parameters of multiq: it has none, its classes are the device's transmit queues.
    pub struct Config(env) {}
}

/// A class for each transmit queue.
#[derive(Debug)]
pub struct Multiq {
    bands: Vec<Class>,
    /// Classes with work.
    active: QueueSet,
    /// The class that sent last.
    last: u16,
}

impl Discipline for Multiq {
    const KIND: &'static str = "multiq";
    const ABOUT: &'static str = "A class for each transmit queue of the device; they take turns.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false, classful: true };
    const FILTERS: Filtered = Filtered::Qdisc;
    const CHANGE: ChangeRule = ChangeRule::Replace;
    /// The queue alone says which class.
    const TAKES_CLASS: bool = false;
    type Config = Config;
    type Stats = NoStats;

    fn resolve(_cfg: &mut Config, _old: Option<&Config>, env: &Env) -> Result<(), ConfigError> {
        match env.queues {
            0 | 1 => {
                let expected = "a device with several transmit queues";
                Err(ConfigError::new(ErrorKind::Unsupported, Self::KIND, expected, "one queue"))
            }
            _ => Ok(()),
        }
    }
    fn new(_cfg: &Config, env: &Env) -> Self {
        let mut multiq = Self { bands: Vec::new(), active: QueueSet::new(), last: 0 };
        multiq.fit(env);
        multiq
    }
    fn change(&mut self, _cfg: &Config, env: &Env, cx: &mut Cx) {
        for class in self.bands.iter_mut().skip(count(env)) {
            class.node.purge(cx);
        }
        self.fit(env);
    }
    fn admit(&self, m: &Meta, _class: Option<ClassId>) -> Verdict {
        self.bands[self.band(m)].node.admit(m)
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        let band = self.band(cx.meta(&p));
        // Below the number of classes, which are at most 65 535.
        self.active.insert(band as u16);
        self.bands[band].node.enqueue(p, cx);
    }
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
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
    /// Leaves the turn where it is, as Linux does.
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        let mut search = Search::from(self.last);
        while let Some(band) = search.next(&self.active, cx.stopped_queues()) {
            match self.bands[usize::from(band)].node.peek(cx) {
                ready @ Peek::Ready { .. } => return Some(ready),
                Peek::Empty => self.active.remove(band),
                Peek::At(t, why) => search.wait_until(t, why),
            }
        }
        Some(match search.earliest(&self.active) {
            Some((t, why)) => Peek::At(t, why),
            None => Peek::Empty,
        })
    }
    fn drain(&mut self, _out: &mut List, _pool: &mut Pool) {}
    fn queued(&self, _pool: &Pool, _f: &mut dyn FnMut(&Meta)) {}
    fn reset(&mut self, _cx: &mut Cx) {
        self.active.clear();
        self.last = 0;
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
    fn classes(&self) -> &[Class] {
        &self.bands
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        &mut self.bands
    }
}

impl Multiq {
    /// As many classes as there are queues.
    fn fit(&mut self, env: &Env) {
        self.bands.truncate(count(env));
        for minor in (1..).take(count(env)).skip(self.bands.len()) {
            self.bands.push(Class { minor, node: Node::default_child(env) });
        }
        self.active.truncate(count(env));
        if usize::from(self.last) >= self.bands.len() {
            self.last = 0;
        }
    }

    /// The packet's class: that of its queue, or the first if there is no such queue.
    fn band(&self, m: &Meta) -> usize {
        match usize::from(m.queue) {
            queue if queue < self.bands.len() => queue,
            _ => 0,
        }
    }
}

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
