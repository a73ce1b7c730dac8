//! TCP as Linux does it, as a state machine on numbers: no I/O, no clock, no bytes.
//!
//! A [`Connection`] is one end. Its driver tells it the time, hands it segments
//! ([`Connection::receive`]), writes and reads counts of bytes, asks for segments
//! ([`Connection::transmit`]) and calls again at [`Connection::deadline`]. A [`Segment`] names
//! ranges of sequence numbers; [`wire`] converts it to the bytes of a TCP header for filters and
//! captures.
//!
//! **Scope.** RFC 9293 with window scaling and timestamps (RFC 7323), SACK and D-SACK (RFC 2018,
//! 2883, 6675), RACK-TLP (RFC 8985), PRR (RFC 6937bis), the retransmission timeout of RFC 6298 with
//! the 200 ms floor of Linux and F-RTO (RFC 5682), an initial window of ten segments (RFC 6928),
//! delayed, quick and compressed acknowledgements, limited transmit, validation of the congestion
//! window, automatic tuning of the receive window, sizing of super-segments, small queues below the
//! socket, pacing, and ECN (RFC 3168, RFC 9768).
//!
//! **Congestion control** implements the trait [`cc::Congestion`], one file per algorithm.
//!
//! **Reference behaviour.** Where RFCs leave a choice, this crate does what recordings of Linux
//! 6.12 show (`spec/tcp` of the repository): timers count ticks of a timer wheel, round trips are
//! measured in microseconds, and units of transmission are those that the sender cut at the time.
//! [`Config::rfc6675`] is a host of about 2010 instead.
//!
//! **Bounds.** A connection keeps one record of 64 bytes for each unit in flight, at most
//! [`UNITS_MAX`], and at most [`GAPS_MAX`] ranges received out of order, and 16 bytes for each unit
//! that waits in the send buffer. An idle end takes less than 2 KB.
#![forbid(unsafe_code)]

mod ahead;
pub mod cc;
mod config;
mod connection;
mod ecn;
mod flow;
mod rare;
mod receiver;
mod rtt;
mod segment;
mod sender;
mod tick;
pub mod wire;

pub use ahead::ahead;
pub use config::{Acks, Algorithm, Config, Detection, EcnMode, Pacing};
pub use connection::{Below, Connection, State};
pub use flow::{CaState, Flow};
pub use receiver::gaps::GAPS_MAX;
pub use segment::{EcnBytes, Flags, Sacks, Segment, SynOptions};
pub use sender::Counters;
pub use sender::output::{below_socket, below_socket_cut};
pub use sender::units::UNITS_MAX;
pub use tick::Tick;
