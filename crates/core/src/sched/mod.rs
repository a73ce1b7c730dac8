//! The engine around every kind of qdisc: nodes with their books, and the context of a call.

pub mod answer;
pub mod capability;
pub mod classful;
pub mod cx;
pub mod discipline;
pub mod erased;
pub mod node;
pub mod schedule;
pub mod share;
pub mod spec;
pub mod stab;
pub mod trace;
pub mod traffic;
