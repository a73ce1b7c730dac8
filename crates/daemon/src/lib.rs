//! The daemon: links that keep forwarding while tc commands change the qdiscs on them.
//!
//! A [`Daemon`] owns [`Links`]. Each is a transmit path with a qdisc tree, and behind it no device,
//! a modelled wire, a TAP device, a packet socket, XDP sockets, the network card of a virtual
//! machine (vhost-user) or a VXLAN tunnel. A [`Server`] runs them on its thread, beside
//! the clients of a Unix socket ([`Listener`]). Clients send requests in lines of JSON
//! ([`protocol`]): tc commands, link commands, the present configuration. A [`Client`] sends such
//! requests.
//!
//! ```
//! use txweir_daemon::{Daemon, protocol::Ask};
//! use txweir_core::Instant;
//!
//! let mut daemon = Daemon::new();
//! let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
//! let reply = daemon.answer(Instant::ZERO, &Ask::Link { args: words("add lan --mtu 9000") });
//! assert_eq!((reply.status, reply.stderr.as_str()), (0, ""));
//! let reply = daemon.answer(Instant::ZERO, &Ask::Save);
//! assert_eq!(reply.stdout, "link replace lan --type null --mtu 9000 --txqueuelen 1000\n");
//! ```
#![forbid(unsafe_code)]

mod ahead;
mod audit;
pub mod client;
mod daemon;
mod effect;
mod end;
mod faces;
pub mod grammar;
mod link;
mod links;
mod losses;
mod machine;
mod metrics;
pub mod notify;
mod passed;
pub mod protocol;
mod queue_map;
mod reload;
pub mod report;
mod run;
mod sandbox;
mod server;
mod session;
mod show;
pub mod socket;
pub mod state;
mod stream;
pub mod sums;
mod system;
mod tc;
mod team;
mod traffic;
mod watch;
pub mod whole;
mod whole_way;

pub use client::{Client, ClientError};
pub use daemon::Daemon;
pub use link::Link;
pub use links::{LINKS_MAX, Links, TABLES};
pub use machine::{Local, Machine};
pub use passed::Passed;
pub use queue_map::{QueueMap, WORKERS_MAX};
pub use run::{Ended, RunError, RunOptions};
pub use sandbox::{Confined, Forbidden, Sandbox, SandboxError};
pub use server::Server;
pub use session::{Door, Patience};
pub use socket::{Listener, SocketError};
pub use stream::{Connection, Stream};
pub use system::{Entrance, Host, Ready, System, Waits};
pub use team::{Side, Stopped, Stuck, Team, TeamOptions, parts, seat};
