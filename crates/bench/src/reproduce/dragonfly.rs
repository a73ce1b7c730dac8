//! The common parts of the two experiments with DragonFly BSD (2013): one host in detail, two
//! peers, and connections between them by the lab's TCP (`txweir-transport`, as of RFC 6675).

mod egress;
mod link;
mod machine;
mod packet;

pub(super) use machine::{Machine, Setup};
