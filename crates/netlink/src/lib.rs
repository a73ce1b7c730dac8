//! rtnetlink for devices in user space: messages about links, qdiscs, classes, filters, chains and
//! actions, as Linux takes and sends them, answered from any
//! [`Devices`](txweir_tc::tool::Devices).
//!
//! A request becomes the words that tc would have been given, and goes the way of these: there is
//! one reader of options, one set of checks, one way to apply a change. A listing comes from the
//! same state as `tc show`.
//!
//! ```
//! use txweir_netlink::message::{Header, TcHead, flag, kind, message, messages};
//! use txweir_netlink::{Client, answer};
//! use txweir_tc::memory::Memory;
//!
//! let mut devices = Memory::new(&["lan"]);
//! let header = Header { kind: kind::GET_QDISC, flags: 1 | flag::DUMP, seq: 1, port: 0 };
//! let request = message(header, |w| TcHead::default().write(w));
//! let reply = answer(&request, &mut Client::default(), &mut devices);
//! let kinds: Vec<u16> = messages(&reply.packets[0]).map(|m| m.header.kind).collect();
//! assert_eq!(kinds, [kind::NEW_QDISC, kind::DONE]);
//! ```
//!
//! No I/O, no panic on any bytes.

#![forbid(unsafe_code)]

mod actions;
mod classify;
mod client;
mod command;
mod counters;
mod filters;
mod flags;
pub mod follow;
mod given;
mod links;
pub mod message;
mod object;
mod options;
mod program;
pub mod refusal;
mod reply;
mod request;
mod watch;
pub mod wire;

pub use client::Client;
pub use message::Told;
pub use refusal::Refusal;
pub use request::{Answer, Change, answer, refuse};
pub use watch::Watch;
