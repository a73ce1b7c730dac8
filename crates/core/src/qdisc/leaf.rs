//! The qdisc that a class has until another is grafted.

use alloc::boxed::Box;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::qdisc::fifo;
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
