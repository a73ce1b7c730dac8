//! mq: a qdisc of its own for each transmit queue of the device, and nothing in common (tc(8), Linux's default root on devices
//! with several queues). Class MINOR is queue MINOR - 1.
//!
//! On a `crate::port::Port` each class is a transmit path of its own, with its own byte limit, and this qdisc only stands for
//! them: see there. Where one path feeds all queues of a device it does the same in one place: a packet waits in the class of
//! its queue, and the classes take turns, passing over those whose queue is stopped (`qdisc::by_queue`).
//!
//! - Differs from Linux (PARITY.md: mq-deleted-child, multi-queue-polls): a class never loses its qdisc.

use crate::cx::Cx;
use crate::error::ConfigError;
use crate::handle::{ClassId, Handle};
use crate::meta::Meta;
use crate::node::{Class, Node, Peek};
use crate::pool::{List, Pkt, Pool};
use crate::qdisc::by_queue::ByQueue;
use crate::qdisc::fifo::NoStats;
use crate::qdisc::multiq::several_queues;
use crate::qdisc::{ChangeRule, Discipline, Next, Verdict, pfifo_fast};
use crate::route::Asked;
use crate::spec::{Env, Flags};

crate::params! {
    /// Parameters of mq: it has none, its classes are the device's transmit queues.
    pub struct Config(env) {}
}

/// A qdisc for each transmit queue.
#[derive(Debug)]
pub struct Mq(ByQueue);

/// What each queue has until something is grafted.
pub(crate) fn default_child(env: &Env) -> Node {
    Node::new(Handle::NONE, alloc::boxed::Box::new(pfifo_fast::default_root(env)))
}

/// Its word.
pub(crate) const KIND: &str = Mq::KIND;

/// What a device with several queues has at its root at first.
pub(crate) fn default_root(env: &Env) -> Option<Node> {
    Node::of::<Mq>(Handle::NONE, Config {}, env).ok()
}

impl Discipline for Mq {
    const KIND: &'static str = "mq";
    const ABOUT: &'static str = "A qdisc of its own for each transmit queue of the device.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false, classful: true };
    const CHANGE: ChangeRule = ChangeRule::Merge;
    const TAKES_CLASS: bool = false;
    const ROOT_ONLY: bool = true;
    type Config = Config;
    type Stats = NoStats;

    fn resolve(_cfg: &mut Config, _old: Option<&Config>, env: &Env) -> Result<(), ConfigError> {
        several_queues(Self::KIND, env)
    }
    fn new(_cfg: &Config, env: &Env) -> Self {
        Self(ByQueue::new(env, default_child))
    }
    fn change(&mut self, _cfg: &Config, env: &Env, cx: &mut Cx) {
        self.0.change(env, default_child, cx);
    }
    fn admit(&self, m: &Asked<'_>, _class: Option<ClassId>) -> Verdict {
        self.0.admit(m)
    }
    fn select(&self, m: &Meta, _class: Option<ClassId>) -> Option<&Class> {
        self.0.select(m)
    }
    fn enqueue(&mut self, p: Pkt, _class: Option<ClassId>, cx: &mut Cx) {
        self.0.enqueue(p, cx);
    }
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
    fn default_child(_cfg: &Config, env: &Env) -> Node {
        default_child(env)
    }
}
