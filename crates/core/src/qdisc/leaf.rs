//! What a class has until something is grafted.

use alloc::boxed::Box;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::qdisc::fifo;
use crate::sched::node::{Class, Node};

/// A class slot in which nothing is: free, or of a class that has classes below and no qdisc. Nobody is asked about it.
pub fn vacant(env: &Env) -> Class {
    Class { minor: 0, node: default_child(env) }
}

/// Pfifo with the length of the device's queue.
pub fn default_child(env: &Env) -> Node {
    Node::new(Handle::NONE, Box::new(fifo::default_pfifo(env)))
}
