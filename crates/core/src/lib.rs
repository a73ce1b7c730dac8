//! The transmit side of a network stack, as a value.
//!
//! **The nouns.** A [`Meta`] has the facts about a packet that a scheduler may read; a [`Pkt`] is
//! the one handle to it; a [`sched::node::Node`] is a qdisc with its books; a [`Tree`] is the
//! qdiscs of one transmit queue; a [`TxPath`] is the queue: tree, byte queue limit ([`Dql`]) and
//! the way to a [`TxQueue`], the device.
//!
//! **The path.** `submit` sends a packet straight to the device if nothing waits and nothing stops
//! it, else enqueues it; `drain` moves packets to the device as long as it promises slots and the
//! byte limit allows; `reap` takes completions and teaches the byte limit.
//!
//! **The laws.** No I/O, no clock, no lock, no global, no thread, no allocation after start. Every
//! packet that enters leaves, waits, or is dropped with a counted reason, at every node, after
//! every call. A packet leaves its qdisc only once the device has promised a slot, so no packet is
//! ever put back. Same input, same seed, same output.
//!
//! A [`model::wire::Wire`] is a device modelled in time: the same code paces a live link and a
//! virtual one.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The parts that all kinds share have functions that only those of the feature call.
#![cfg_attr(not(feature = "kinds"), allow(dead_code, unused_imports))]

extern crate alloc;
#[cfg(any(test, doctest))]
extern crate std;

pub mod base;
pub mod classify;
pub mod law;
pub mod model;
pub mod packet;
pub mod path;
pub mod qdisc;
pub mod sched;
pub mod text;
pub mod turns;

pub use base::env::Env;
pub use base::handle::{ClassId, Handle};
pub use base::tally::Tally;
pub use base::time::{Instant, Nanos};
pub use base::units::{Bytes, Packets, Rate};
pub use model::testing;
pub use packet::detail::Detail;
pub use packet::meta::{Ecn, Meta};
pub use packet::pool::Pkt;
pub use packet::reason::{DropReason, MarkReason, Reasons, WakeReason};
pub use path::device::{Completed, DeviceError, NoDevice, TxQueue};
pub use path::dql::{Dql, DqlConfig, Unit};
pub use path::tree::Tree;
pub use path::txpath::{Admitted, PathConfig, Role, Swapped, TxPath, Wake};
pub use text::error::{ConfigError, ErrorKind};
