//! The qdisc that a class has until another is grafted.

use alloc::boxed::Box;
use core::any::Any;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::qdisc::fifo;
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::erased::{Erased, Qdisc};
use crate::sched::node::{Class, Node};

/// Returns an empty class slot: free, or of a class that has classes below and no qdisc. No packet
/// reaches it.
pub fn vacant(env: &Env) -> Class {
    Class { minor: 0, node: default_child(env) }
}

/// Returns a pfifo with the length of the device's queue.
pub fn default_child(env: &Env) -> Node {
    Node::new(Handle::NONE, Box::new(fifo::default_pfifo(env)))
}

/// Returns a default node of a kind that refuses no parameters in their ranges.
pub(crate) fn plain<D: Discipline<Rules = ()>>(cfg: D::Config, env: &Env) -> Node {
    Node::new(Handle::NONE, Box::new(Erased::<D>::plain(cfg, env)))
}

/// Gives new parameters to a node that `plain` has made; does nothing to other nodes.
pub(crate) fn change_plain<D: Discipline<Rules = ()>>(
    node: &mut Node,
    cfg: D::Config,
    env: &Env,
    cx: &mut Cx,
) {
    node.with(cx, |qdisc: &mut dyn Qdisc, cx| {
        let qdisc: &mut dyn Any = qdisc;
        if let Some(qdisc) = qdisc.downcast_mut::<Erased<D>>() {
            qdisc.change_plain(cfg, env, cx);
        }
    });
}
