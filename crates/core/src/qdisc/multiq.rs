//! multiq: a class for each transmit queue of the device; a packet waits in that of the queue that was chosen for it, and
//! the classes take turns, passing over those whose queue may not transmit (tc-multiq(8)).
//!
//! One search in a set of bits finds the next class with work: 64 queues a step. Memory per queue is its qdisc.
//!
//! - Invariants: those of `qdisc::by_queue`.
//! - Differs from Linux (PARITY.md: multiq-backlog, multiq-deleted-child, multiq-json, multi-queue-polls).

use crate::cx::Cx;
use crate::error::{ConfigError, ErrorKind};
use crate::handle::ClassId;
use crate::meta::Meta;
use crate::node::{Class, Node, Peek};
use crate::pool::{List, Pkt, Pool};
use crate::qdisc::by_queue::ByQueue;
use crate::qdisc::fifo::NoStats;
use crate::qdisc::{ChangeRule, Discipline, Filtered, Next, Verdict};
use crate::route::Asked;
use crate::spec::{Env, Flags};

crate::params! {
    /// Parameters of multiq: it has none, its classes are the device's transmit queues.
    pub struct Config(env) {}
}

/// A class for each transmit queue.
#[derive(Debug)]
pub struct Multiq(ByQueue);

/// Its word.
pub(crate) const KIND: &str = Multiq::KIND;

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
        several_queues(Self::KIND, env)
    }
    fn new(_cfg: &Config, env: &Env) -> Self {
        Self(ByQueue::new(env, Node::default_child))
    }
    fn change(&mut self, _cfg: &Config, env: &Env, cx: &mut Cx) {
        self.0.change(env, Node::default_child, cx);
    }
    fn admit(&self, m: &Asked<'_>, _class: Option<ClassId>) -> Verdict {
        self.0.admit(m)
    }
    #[inline]
    fn select(&self, m: &Meta, _class: Option<ClassId>) -> Option<&Class> {
        self.0.select(m)
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        self.0.enqueue(p, cx);
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut Cx) -> Next {
        self.0.dequeue(cx)
    }
    fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        Some(self.0.peek(cx))
    }
    fn drain(&mut self, _out: &mut List, _pool: &mut Pool) {}
    fn queued(&self, _pool: &Pool, _f: &mut dyn FnMut(&Meta)) {}
    fn reset(&mut self, _cx: &mut Cx) {
        self.0.reset();
    }
    fn stats(&self) -> NoStats {
        NoStats {}
    }
    fn classes(&self) -> &[Class] {
        self.0.classes()
    }
    fn classes_mut(&mut self) -> &mut [Class] {
        self.0.classes_mut()
    }
}

/// Refuses a device with one transmit queue.
pub(crate) fn several_queues(kind: &str, env: &Env) -> Result<(), ConfigError> {
    if env.queues > 1 {
        return Ok(());
    }
    let expected = "a device with several transmit queues";
    Err(ConfigError::new(ErrorKind::Unsupported, kind, expected, "one queue"))
}
