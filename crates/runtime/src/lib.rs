//! One direction of a live link: frames come in, wait in qdiscs, and leave through a device, paced
//! by a wire model or not.
//!
//! A [`Direction`] owns a [`TxPath`](txweir_core::TxPath) for each transmit queue, a
//! [`Wire`](txweir_core::model::wire::Wire), which is the same model that the lab drives in virtual
//! time, and the device ([`Backend`](txweir_device::Backend)); live, the monotonic clock drives
//! them. [`WireSpec`] is the wire as text. [`Notes`] takes the samples and log lines of actions.
//! The links of `txweir run` and of the daemon are made of directions (`txweir_daemon::Links`).
#![forbid(unsafe_code)]

mod arrival;
mod classify;
mod control;
mod crossing;
mod cut;
mod delays;
mod direct;
mod direction;
mod drain;
mod fair;
mod filtering;
mod ledger;
mod line;
mod log;
mod notes;
mod outlet;
mod output;
mod paced;
mod stats;
mod timers;
mod wire;

pub use arrival::Arrival;
pub use classify::Classifier;
pub use control::Control;
pub use crossing::Returned;
pub use delays::Delays;
pub use direction::{Direction, DirectionConfig, Received};
pub use ledger::Ledger;
pub use log::{Level, Log, Stamp};
pub use notes::{Notes, SAMPLES_MAX, SampleCounts};
pub use outlet::{Copies, Copy, One, Outlets};
pub use stats::{Crossed, DirectionStats};
pub use wire::{E1000_DESCRIPTORS, WireSpec};
