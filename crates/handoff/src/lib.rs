#![doc = include_str!("intro.md")]
// The monitor and the service, which use the rest, are not in the models.
#![cfg_attr(loom, allow(dead_code))]

mod baton;
mod fair;
mod list;
mod log;
#[cfg(not(loom))]
mod monitor;
mod owned;
#[cfg(loom)]
pub mod planted;
#[cfg(not(loom))]
mod port;
mod queue;
mod ring;
#[cfg(not(loom))]
mod service;
mod snapshot;
mod sync;
mod tracked;
mod wake;
#[cfg(not(loom))]
mod watchdog;

pub use baton::{Baton, Flags, Turn};
pub use fair::{FairDevice, Owed, Taken, Turns, Worker};
pub use list::{Append, Appended, Take, list};
pub use log::{EVENTS, Event, Log};
#[cfg(not(loom))]
pub use monitor::{Monitor, Report, Stuck, Why};
pub use owned::{Cutter, HandoffStats, Owned};
#[cfg(not(loom))]
pub use port::{Passed, Policy, Port, Sender};
pub use queue::{Counts, Drain, Handed, Owner, Queue, QueueConfig, Rest, SharedQueue, Ticket};
pub use ring::{RingReceiver, RingSender, ring};
#[cfg(not(loom))]
pub use service::{Bell, Service};
pub use snapshot::Published;
pub use tracked::Tracked;
pub use wake::Wakeup;
#[cfg(not(loom))]
pub use watchdog::Stall;
