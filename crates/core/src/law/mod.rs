//! Control laws on numbers: no queue, no packet.

pub mod bits;
pub mod blue;
pub mod borrow;
pub mod bucket;
pub mod budget;
pub mod cobalt;
pub mod codel;
pub mod credit;
pub mod curve;
pub mod deficit;
pub mod gates;
pub mod heavy;
pub(crate) mod impair;
pub mod lease;
pub mod minors;
pub mod pace;
pub mod pi2;
pub mod pie;
pub mod quick;
pub mod ranks;
pub mod red;
pub mod service;
pub(crate) mod share;
pub mod split;
pub mod turn;
