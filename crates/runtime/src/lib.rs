//! txweir live: frames come in from one interface, wait in qdiscs, and leave through a wire model to another.
//!
//! A [`Forwarder`] is two links and two [`Direction`]s on one thread. A direction owns a
//! [`TxPath`](txweir_core::TxPath) and a [`Wire`](txweir_core::model::wire::Wire), the same that the lab drives in
//! virtual time; here the monotonic clock drives them. [`WireSpec`] is the wire as text, `Frames` the buffers,
//! [`report`] the counters.
//!
//! ```no_run
//! use txweir_device::{Endpoint, LinkOptions, Signals};
//! use txweir_runtime::{Direction, DirectionConfig, Forwarder, RunOptions, Side, WireSpec};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let WireSpec { wire, bql } = "rate=1gbit,ring=1024".parse()?;
//! let config = DirectionConfig { wire: Some(wire), bql, ..DirectionConfig::default() };
//! let open = |name: &str| -> Result<Side, Box<dyn std::error::Error>> {
//!     Ok(Side { name: name.into(), link: name.parse::<Endpoint>()?.open(&LinkOptions::default())? })
//! };
//! let sides = [open("client/tap0")?, open("server/tap0")?];
//! let directions = [Direction::new(config.clone())?, Direction::new(config)?];
//! let mut forwarder = Forwarder::new(sides, directions);
//! forwarder.run(&RunOptions::default(), &Signals::take()?, |_| {})?;
//! print!("{}", txweir_runtime::report::text(&mut forwarder));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod classify;
mod direction;
mod fair;
mod filtering;
mod frame;
mod line;
mod notes;
mod outlet;
mod passing;
pub mod report;
mod run;
mod wire;

pub use classify::Classifier;
pub use direction::{Arrival, Direction, DirectionConfig, DirectionStats, Port, Received};
pub use filtering::Asking;
pub use frame::{Frame, Frames};
pub use notes::{Notes, SAMPLES_MAX, SampleCounts};
pub use outlet::{Copy, One, Outlets};
pub use passing::{Filtering, SideFilters};
pub use run::{Ended, Forwarder, RunError, RunOptions, Side};
pub use wire::{E1000_DESCRIPTORS, WireSpec};
