//! The transmit side of a network stack, as a value.
//!
//! **The nouns.** A [`Meta`] is what a scheduler may know of a packet; a [`Pkt`] is the one handle to it; a
//! [`node::Node`] is a qdisc with its books; a [`Tree`] is the qdiscs of one transmit queue; a [`TxPath`] is the
//! queue: tree, byte queue limit ([`dql::Dql`]) and the way to a [`TxQueue`], the device.
//!
//! **The path.** `submit` sends a packet straight to the device if nothing waits and nothing stops it, else
//! enqueues it; `drain` moves packets to the device as long as it promises slots and the byte limit allows;
//! `reap` takes completions and teaches the byte limit.
//!
//! **The laws.** No I/O, no clock, no lock, no global, no thread, no allocation after start. What comes in
//! leaves, waits, or is dropped with a counted reason, at every node, after every call. A packet leaves its
//! qdisc only once the device has promised a slot, so nothing is ever put back. Same input, same seed, same
//! output.
//!
//! A [`wire::Wire`] is a device modelled in time: the same code paces a live link and a virtual one.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, doctest))]
extern crate std;

pub mod action;
pub mod chance;
pub mod checksum;
pub mod cx;
pub mod detail;
pub mod device;
pub mod dql;
pub mod error;
pub mod fairsend;
pub mod filter;
mod free;
pub mod handle;
pub mod hash;
pub mod headers;
pub mod impairment;
pub mod law;
pub mod meta;
pub mod node;
pub mod packet;
pub mod params;
pub mod pcapng;
pub mod pool;
pub mod port;
pub mod qdisc;
pub mod queues;
pub mod rates;
pub mod reason;
pub mod rng;
pub mod route;
pub mod select;
pub mod spec;
pub mod stab;
pub mod stats;
pub mod testing;
pub mod time;
pub mod timeline;
pub mod trace;
pub mod tree;
pub mod txpath;
pub mod units;
pub mod value;
pub mod wheel;
pub mod wire;

pub use cx::Tally;
pub use detail::Detail;
pub use device::{Completed, DeviceError, TxQueue};
pub use dql::{Dql, DqlConfig, Unit};
pub use error::{ConfigError, ErrorKind};
pub use handle::{ClassId, Handle};
pub use meta::{Ecn, Meta};
pub use pool::Pkt;
pub use reason::{DropReason, MarkReason, WakeReason};
pub use spec::Env;
pub use time::{Instant, Nanos};
pub use tree::Tree;
pub use txpath::{Admitted, PathConfig, Role, Swapped, TxPath, Wake};
pub use units::{Bytes, Packets, Rate};
