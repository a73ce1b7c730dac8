//! The engine around every kind of qdisc: nodes with their books, and the surroundings of a call.

pub mod cx;
pub mod node;
pub mod spec;
pub mod stab;
pub mod trace;
