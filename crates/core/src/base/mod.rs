//! Numbers and names: time, units, handles, random numbers, sets of queues, timers. This layer knows no packet.

pub(crate) mod free;
pub mod handle;
pub mod queues;
pub mod rng;
pub mod time;
pub mod units;
pub mod wheel;
