#![doc = include_str!("intro.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The monitor and the service, which use the rest, are not in the models.
#![cfg_attr(loom, allow(dead_code))]

mod aside;
mod baton;
mod fair;
mod fence;
mod gate;
#[cfg(not(loom))]
mod lane;
mod list;
mod listed;
mod log;
mod mailbox;
#[cfg(not(loom))]
mod monitor;
mod owned;
#[cfg(not(loom))]
mod plane;
#[cfg(not(loom))]
mod port;
mod queue;
#[cfg(not(loom))]
mod readers;
#[cfg(not(loom))]
mod report;
#[cfg(not(loom))]
mod resending;
mod ring;
#[cfg(not(loom))]
mod service;
mod share;
mod snapshot;
mod sync;
mod tracked;
mod waiters;
mod wake;
#[cfg(not(loom))]
mod watchdog;

pub use fair::{FairDevice, Owed, Taken, Turns, Worker};
pub use gate::{Closed, Gate};
#[cfg(not(loom))]
pub use lane::Lane;
pub use list::{Append, Appended, Take, list};
pub use listed::Ticket;
pub use log::{Event, Log};
pub use mailbox::{Mailbox, Post, mailbox};
#[cfg(not(loom))]
pub use monitor::Monitor;
pub use owned::{Cutter, HandoffStats, Owned};
#[cfg(not(loom))]
pub use plane::{Devices, Gathered, SharedControl, SharedParts};
#[cfg(not(loom))]
pub use port::{Passed, Policy, Prepared, Sender, SharedPort};
#[cfg(not(loom))]
pub use queue::QueueParts;
pub use queue::{Control, Counts, Drain, Handed, Owner, Queue, QueueConfig, Rest, Sending, Status};
#[cfg(not(loom))]
pub use report::{Report, Stall, Stuck, Why};
#[cfg(not(loom))]
pub use resending::Resending;
pub use ring::{RingReceiver, RingSender, ring};
#[cfg(not(loom))]
pub use service::{Bell, Service};
// A model reads it as the queue does; `Status::counts` is the way for others.
#[cfg(loom)]
pub use snapshot::Published;
pub use tracked::Tracked;
pub use wake::Wakeup;
