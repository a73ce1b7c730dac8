//! cake_mq: a cake for each transmit queue of the device, all with the same options, and one rate
//! for all of them (tc-cake(8) of Linux 7.0).
//!
//! The rate is split evenly among the queues that are active, which each looks for itself every
//! 200 us (`law/split.rs`). With `shared NAME`, which Linux does not have, they lease it
//! instead ([`crate::law::lease`]): a queue that needs less leaves the rest to the others. Either
//! way the queues, and not the flows, have equal parts: what flows and hosts get is fair within a
//! queue. A change of the options, or of the number of queues, concerns all queues; none of them
//! can have another qdisc, or other options.
//!
//! On a `crate::path::port::Port` each queue's cake is in a path of its own, and this qdisc only
//! stands for them; elsewhere they are its classes (`qdisc::by_queue`).
//!
//! - I1: the queues with packets have rates whose sum is at most the bandwidth, once each has
//!   looked twice.
//! - Differs from Linux (PARITY.md: cake-mq-shown, cake-mq-change, cake-mq-queues, cake-shared,
//!   multi-queue-polls): all tins of a queue get their part of its rate; another number of queues
//!   makes all cakes anew.

use alloc::sync::Arc;

use crate::base::env::Env;
use crate::law::split::{Part, Split};
use crate::qdisc::by_queue::{self, ByQueue};
use crate::qdisc::cake::{self, Cake, Config};
use crate::qdisc::fifo::NoStats;
use crate::qdisc::leaf;
use crate::qdisc::multiq::several_queues;
use crate::sched::capability::{Capability, Classes};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::erased::Qdisc;
use crate::sched::node::Class;
use crate::sched::share::Wanted;
use crate::sched::spec::{ClassShape, Flags, RefusedBy, Style};
use crate::text::error::{ConfigError, ErrorKind, Object};

/// A cake for each transmit queue.
#[derive(Debug)]
pub struct CakeMq(ByQueue);

/// Name of the kind.
pub(crate) const KIND: &str = CakeMq::KIND;

/// True if the queues below a root split a rate by looking at each other: then they must be in one
/// place, and not in copies that several threads have.
pub fn splits_a_rate(root: &dyn Qdisc) -> bool {
    let (mut shaped, mut shared) = (false, false);
    root.options(&mut |o| match o.param.key {
        "bandwidth" => shaped = crate::text::value::exact_of(o.value) != "unlimited",
        "shared" => shared = o.value.is_set(),
        _ => {}
    });
    root.spec().kind == KIND && shaped && !shared
}

impl Discipline for CakeMq {
    const KIND: &'static str = "cake_mq";
    const ABOUT: &'static str =
        "A cake for each transmit queue of the device, with one rate for all of them.";
    const FLAGS: Flags = Flags { shapes: true, reorders: false };
    const SHAPE: ClassShape = ClassShape::ByQueue;
    const STYLE: Style = Style::BLANK;
    const TAKES_CLASS: bool = false;
    const ROOT_ONLY: bool = true;
    const FIXED: bool = true;
    const WANTS_DETAIL: bool = true;
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    const WANTS: fn(&Config) -> Option<Wanted> = Cake::WANTS;
    const REFUSED_BY: RefusedBy = Cake::REFUSED_BY;
    const TABLES: fn(&Config, &Env) -> u64 = |cfg, env| {
        let cake = (Cake::TABLES)(cfg, env).saturating_add(size_of::<Cake>() as u64); // a size in memory
        u64::from(env.queues).saturating_mul(cake.saturating_add(Class::BYTES))
    };
    type Config = Config;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(cfg: &mut Config, old: Option<&Config>, env: &Env) -> Result<(), ConfigError> {
        several_queues(Self::KIND, env)?;
        if cfg.bandwidth.autorate {
            let expected = "a bandwidth: no queue sees the arrivals of the others";
            let err = ConfigError::new(
                ErrorKind::Unsupported,
                Object::Kind(Self::KIND),
                expected,
                "autorate-ingress",
            );
            return Err(err.key("bandwidth"));
        }
        Cake::resolve(cfg, old, env).map_err(|err| ConfigError { object: Object::Kind(Self::KIND), ..err })
    }
    fn new(cfg: &Config, (): (), env: &Env) -> Self {
        let split = Arc::new(Split::new(by_queue::count(env)));
        let classes = ByQueue::new(env, &|minor, env| {
            let own = usize::from(minor).saturating_sub(1);
            cake::part_of(cfg, env, Part::of(Arc::clone(&split), own))
        });
        // A cake looks at the others whenever it is asked: it is asked when its own time has come.
        Self(if cfg.shared.is_some() { classes } else { classes.with_timers_apart() })
    }
    fn change(&mut self, cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        for class in self.0.classes_mut() {
            leaf::change_plain::<Cake>(&mut class.node, cfg.clone(), env, cx);
        }
    }
    by_queue::hand_on!();
}

by_queue::classes!(CakeMq, leaf::default_child);
