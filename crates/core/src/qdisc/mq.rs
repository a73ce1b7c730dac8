//! mq: a qdisc of its own for each transmit queue of the device, and no other policy (tc(8),
//! Linux's default root on devices with several queues). Class MINOR is queue MINOR - 1.
//!
//! On a `crate::path::port::Port` each class is a transmit path of its own, with its own byte
//! limit, and this qdisc only stands for them. Where one path feeds all queues of a device, it does
//! the same in one place: a packet waits in the class of its queue, and the classes take turns,
//! passing over those whose queue is stopped (`qdisc::by_queue`).
//!
//! - Differs from Linux (PARITY.md: mq-deleted-child, mq-graft, multi-queue-polls): a class never
//!   loses its qdisc, and a new one leaves the packets of the others waiting.

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::qdisc::by_queue::{self, ByQueue};
use crate::qdisc::fifo::NoStats;
use crate::qdisc::multiq::several_queues;
use crate::qdisc::pfifo_fast;
use crate::sched::capability::{Capability, Classes};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline};
use crate::sched::node::Class;
use crate::sched::node::Node;
use crate::sched::spec::{ClassShape, Flags, Style};
use crate::text::error::ConfigError;

crate::params! {
    /// Parameters of mq: it has none; its classes are the device's transmit queues.
    pub struct Config(env) {}
}

/// A qdisc for each transmit queue.
#[derive(Debug)]
pub struct Mq(ByQueue);

/// Returns the qdisc that each queue has until another is grafted.
pub(crate) fn default_child(env: &Env) -> Node {
    Node::new(Handle::NONE, alloc::boxed::Box::new(pfifo_fast::default_root(env)))
}

/// Name of the kind.
pub(crate) const KIND: &str = Mq::KIND;

/// Returns the qdisc that a device with several queues starts with.
pub(crate) fn default_root(env: &Env) -> Option<Node> {
    Node::of::<Mq>(Handle::NONE, Config {}, env).ok()
}

/// Returns the root that a port with several queues starts with.
pub(crate) fn default_shell(env: &Env) -> Option<Node> {
    (env.queues > 1).then(|| default_root(env)).flatten()
}

impl Discipline for Mq {
    const KIND: &'static str = "mq";
    const ABOUT: &'static str = "A qdisc of its own for each transmit queue of the device.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const SHAPE: ClassShape = ClassShape::ByQueue;
    const STYLE: Style = Style::BLANK;
    const CHANGE: ChangeRule = ChangeRule::Merge;
    const TAKES_CLASS: bool = false;
    const ROOT_ONLY: bool = true;
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    // A class for each queue.
    const TABLES: fn(&Config, &Env) -> u64 = |_, env| u64::from(env.queues) * Class::BYTES;
    type Config = Config;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(_cfg: &mut Config, _old: Option<&Config>, env: &Env) -> Result<(), ConfigError> {
        several_queues(Self::KIND, env)
    }
    fn new(_cfg: &Config, (): (), env: &Env) -> Self {
        Self(ByQueue::new(env, &|_, env| default_child(env)))
    }
    fn change(&mut self, _cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        self.0.change(env, &|_, env| default_child(env), cx);
    }
    by_queue::hand_on!();
}

by_queue::classes!(Mq, default_child);
