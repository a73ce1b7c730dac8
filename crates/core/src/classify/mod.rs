//! Classification: filters and actions decide on a packet before it is queued, while its bytes are
//! at hand.

pub mod action;
pub mod counters;
pub mod filter;
pub mod machine;
pub mod packet;
