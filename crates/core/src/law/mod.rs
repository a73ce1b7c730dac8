//! Control laws on numbers: no queue, no packet.

pub mod cobalt;
pub mod codel;
