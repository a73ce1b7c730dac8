//! Numbers and names: time, units, handles, random numbers, sets of queues, timers. This layer
//! knows no packet.

pub(crate) mod bound;
pub mod chance;
pub mod env;
pub(crate) mod free;
pub mod handle;
pub mod histogram;
pub mod link;
pub mod queues;
pub mod rng;
pub mod tally;
pub mod time;
pub mod units;
pub mod wheel;
