//! One direction of a live link: frames come in from an interface, wait in qdiscs, and leave through a wire model.
//!
//! A [`Direction`] owns a [`TxPath`](txweir_core::TxPath) for each transmit queue and a
//! [`Wire`](txweir_core::model::wire::Wire), the same that the lab drives in virtual time; live, the monotonic clock
//! drives them. [`WireSpec`] is the wire as text, [`Frames`] the buffers, [`Notes`] where samples and lines of actions go.
//! The links of `txweir run` and of the daemon are made of directions (`txweir_daemon::Links`).
#![forbid(unsafe_code)]

mod arrival;
mod classify;
mod direction;
mod fair;
mod filtering;
mod frame;
mod io;
mod line;
mod notes;
mod outlet;
mod wire;

pub use arrival::Arrival;
pub use classify::Classifier;
pub use direction::{Direction, DirectionConfig, DirectionStats, Received};
pub use frame::{Frame, Frames};
pub use io::FrameIo;
pub use notes::{Notes, SAMPLES_MAX, SampleCounts};
pub use outlet::{Copy, One, Outlets};
pub use wire::{E1000_DESCRIPTORS, WireSpec};
