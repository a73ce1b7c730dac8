//! The tests of the daemon, in one binary: links and queues in virtual time, the server over its
//! socket.

mod circuits;
mod common;
mod crew;
mod filters;
mod links;
mod memory;
mod metrics;
mod queues;
mod readers;
mod reload;
mod sandbox;
mod server;
mod sim;
mod sums;
mod team;
mod vhost;
mod waiting;
mod watchdog;
