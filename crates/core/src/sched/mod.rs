//! The engine around every kind of qdisc: nodes with their books, and the context of a call.

pub mod answer;
pub(crate) mod aside;
pub mod capability;
pub mod classful;
pub mod cx;
pub mod discipline;
pub(crate) mod effects;
pub mod erased;
pub mod node;
pub mod schedule;
pub mod share;
pub mod spec;
pub mod stab;
pub mod trace;
pub mod traffic;
pub mod wakes;
