//! Transmit queues: a tree of qdiscs, the byte queue limit, the device behind it, and several of
//! them as a port.

mod bindings;
pub mod device;
pub mod dql;
pub mod entry;
pub mod port;
pub mod qdiscs;
pub mod rates;
pub mod select;
pub mod tree;
pub mod trees;
pub mod txpath;
