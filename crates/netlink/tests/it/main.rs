//! The tests of the messages, in one binary.

mod filters;
mod follow;
mod law;
mod networkd;
