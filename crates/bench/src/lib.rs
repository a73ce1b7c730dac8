//! The measurements of the `txweir` command, which is the user of this crate: `txweir bench` and
//! `txweir lab reproduce` read their arguments, call it, and print. A program that sends packets
//! has no use for it.
//!
//! **In virtual time.** [`reproduce`] runs published experiments again by txweir's own transmit
//! path and sets them beside their numbers: the same rows on every machine.
//!
//! **In wall-clock time.** [`jobs`] times the engine packet by packet, beside the queues of other
//! crates; [`threads`] times queues between threads; [`handoff`] measures the time that direct
//! hand-over to the driver saves.
//!
//! [`live`] repeats the directions of published results on links of this machine.
//!
//! It is a crate of its own because it depends on those queues (`rtrb`, `crossbeam-queue`) and
//! models the machines of the experiments, neither of which belongs into a library for programs.

#![forbid(unsafe_code)]

mod common;
pub mod handoff;
pub mod jobs;
pub mod live;
mod nullring;
pub mod reproduce;
pub mod threads;

pub use common::{default_cpu, spread};
