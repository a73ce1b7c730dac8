//! One packet: its metadata, the headers read from its bytes, its slot in the pool, the reasons
//! that end it.

pub mod checksum;
pub mod detail;
pub mod hash;
pub mod headers;
pub mod meta;
pub mod pcapng;
pub mod pool;
pub mod reason;
pub mod route;
pub mod scouts;
pub(crate) mod timeline;
