//! multiq: a class for each transmit queue of the device. A packet waits in the class of the queue
//! chosen for it, and the classes take turns, passing over those whose queue may not transmit
//! (tc-multiq(8)).
//!
//! One search in a set of bits finds the next class with work: 64 queues a step. Memory per queue
//! is its qdisc.
//!
//! - Invariants: those of `qdisc::by_queue`.
//! - Differs from Linux (PARITY.md: multiq-backlog, multiq-deleted-child, multiq-json,
//!   multi-queue-polls).

use crate::base::env::Env;
use crate::qdisc::by_queue::{self, ByQueue};
use crate::qdisc::fifo::NoStats;
use crate::qdisc::leaf;
use crate::sched::capability::{Capability, Classes};
use crate::sched::cx::Cx;
use crate::sched::discipline::{ChangeRule, Discipline, Filtered};
use crate::sched::node::Class;
use crate::sched::spec::{ClassShape, Flags, Style};
use crate::text::error::{ConfigError, ErrorKind, Object};

crate::params! {
    /// Parameters of multiq: it has none; its classes are the device's transmit queues.
    pub struct Config(env) {}
}

/// A class for each transmit queue.
#[derive(Debug)]
pub(crate) struct Multiq(ByQueue);

/// Name of the kind.
pub(crate) const KIND: &str = Multiq::KIND;

impl Discipline for Multiq {
    const KIND: &'static str = "multiq";
    const ABOUT: &'static str = "A class for each transmit queue of the device; they take turns.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const SHAPE: ClassShape = ClassShape::ByQueue;
    const STYLE: Style = Style::BLANK;
    const FILTERS: Filtered = Filtered::Qdisc;
    const CHANGE: ChangeRule = ChangeRule::Replace;
    /// The queue alone selects the class.
    const TAKES_CLASS: bool = false;
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
        Self(ByQueue::new(env, &|_, env| leaf::default_child(env)))
    }
    fn change(&mut self, _cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        self.0.change(env, &|_, env| leaf::default_child(env), cx);
    }
    by_queue::hand_on!();
}

by_queue::classes!(Multiq, leaf::default_child);

/// Refuses a device with one transmit queue.
pub(crate) fn several_queues(kind: &'static str, env: &Env) -> Result<(), ConfigError> {
    if env.queues > 1 {
        return Ok(());
    }
    let expected = "a device with several transmit queues";
    Err(ConfigError::new(ErrorKind::Unsupported, Object::Kind(kind), expected, "one queue"))
}
