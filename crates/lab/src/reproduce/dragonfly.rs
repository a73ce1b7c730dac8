//! What the two experiments with DragonFly BSD (2013) have in common: one host in detail, two peers, and TCP between them.

mod connect;
mod egress;
mod machine;
mod packet;
mod stream;

pub(super) use machine::{Machine, Setup};
