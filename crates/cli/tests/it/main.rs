//! The tests of the `txweir` command, in one binary: its output as it stands in the documents and
//! in `spec/cli`, the daemon as a process, and, as root, live traffic in network namespaces.
//!
//! A test that measures the machine has it alone ([`common::machine`]); the others run side by
//! side.

mod common;
mod daemon;
mod documents;
mod install;
mod kernels;
mod live;
mod live_try;
mod order;
mod output;
mod pages;
mod recipes;
mod report;
mod shape;
mod sweep;
mod tcp_live;
mod transcripts;
mod vhost;
mod virtual_time;
mod vxlan;
mod wild;
mod workers;
