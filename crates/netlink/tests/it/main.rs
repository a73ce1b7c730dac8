//! The tests of the messages, in one binary.

mod follow;
mod law;
mod networkd;
