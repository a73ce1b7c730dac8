//! Control laws on numbers: no queue, no packet.

pub(crate) mod bits;
pub(crate) mod blue;
pub(crate) mod borrow;
pub mod bucket;
pub(crate) mod budget;
pub mod cobalt;
pub mod codel;
pub mod credit;
pub mod curve;
pub mod deficit;
pub mod gates;
pub(crate) mod heavy;
pub(crate) mod impair;
pub mod lease;
pub(crate) mod minors;
pub(crate) mod pace;
pub mod pi2;
pub mod pie;
pub(crate) mod quick;
pub(crate) mod ranks;
pub mod red;
pub(crate) mod service;
pub(crate) mod share;
pub(crate) mod split;
pub(crate) mod turn;
