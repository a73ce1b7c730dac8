//! The tests of the hand-over on real threads, in one binary. The models have a binary of their own
//! (`loom_handoff.rs`), because they are built with other flags.
#![cfg(not(loom))]

mod common;
mod facts;
mod fair;
mod flows;
mod monitor;
mod panics;
mod plane;
mod policy;
mod polled;
mod room;
mod runs;
mod service;
mod tasks;
mod threads;
mod watchdog;
