//! Hosts whose stack is outside the lab: a machine that lives in the lab's time, as a kernel does
//! whose clock the lab moves.
//!
//! A [`Plan`] says what such a host does; a [`Machine`] does it. The lab has the links, the queues
//! and the clock.

use std::fmt;

use serde::{Deserialize, Serialize};
use txweir_core::Instant;

use crate::frame::Frame;
use crate::tcp::Algorithm;

/// A machine that is a host of a net.
///
/// The lab runs it at the times that it asks for, and takes what it sends at the time at which it
/// is sent. It does nothing between two calls: all of its work at one time takes no time.
pub trait Machine: fmt::Debug {
    /// Returns the time at which it wants to run next, or at which it has sent packets; `None` if
    /// it waits for packets alone.
    fn next(&self) -> Option<Instant>;

    /// Lets it run at this time, which is that of [`next`](Self::next), until it waits. It may move
    /// on by itself to times before `free`, at which nothing else happens, as long as it sends
    /// nothing.
    ///
    /// # Errors
    /// The machine has gone or makes no sense, in words that follow the name of its host.
    fn run(&mut self, now: Instant, free: Instant) -> Result<(), String>;

    /// Takes the next packet that it has sent: its headers alone count.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    fn take(&mut self) -> Result<Option<Frame>, String>;

    /// Gives it a packet. Returns false if it has no room, and the packet is lost.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    fn give(&mut self, frame: &Frame) -> Result<bool, String>;

    /// Tells it of the packets that it was given, and of those that were taken.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    fn tell(&mut self, now: Instant) -> Result<(), String>;

    /// Ends it, and returns what became of its traffic, in the order of its plan.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    fn finish(&mut self) -> Result<Vec<Outcome>, String>;
}

/// The part that a host has in a group of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// It opens the connections.
    Client,
    /// It accepts them.
    Server,
}

/// A group of TCP connections between two machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The name of the group.
    pub name: String,
    /// The part of this host.
    pub part: Part,
    /// Address of the server, and port.
    pub server: ([u8; 4], u16),
    /// Number of connections.
    pub count: u32,
    /// Bytes of a request and of its response; `None` for a stream.
    pub exchange: Option<(u64, u64)>,
    /// Start of the first connection, nanoseconds from the start of the lab's clock.
    pub start_ns: u64,
    /// Time between the starts of two connections, nanoseconds.
    pub stagger_ns: u64,
    /// Name of the congestion control, as kernels know it.
    pub congestion: String,
    /// DS field of its packets, without ECN.
    pub ds: u8,
}

/// The work of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the host.
    pub host: String,
    /// Its IPv4 address.
    pub address: [u8; 4],
    /// Seed of its random numbers.
    pub seed: u64,
    /// True if its TCP asks for ECN.
    pub ecn: bool,
    /// Bytes of segments that it hands over at once, at most; 0 for one segment (TSO).
    pub tso_max: u32,
    /// Time from which bytes and transactions count, and the end, nanoseconds.
    pub measured_ns: (u64, u64),
    /// Its parts in groups of traffic.
    pub tasks: Vec<Task>,
}

/// The result of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Bytes that arrived at this host in the measured time, for each connection.
    pub bytes: Vec<u64>,
    /// Times of the transactions that ended in the measured time, nanoseconds.
    pub times: Vec<u64>,
}

/// Returns the name by which Linux knows a congestion control; `None` if 6.12 has none of it.
pub const fn kernel_name(algorithm: Algorithm) -> Option<&'static str> {
    match algorithm {
        Algorithm::Reno => Some("reno"),
        Algorithm::Cubic => Some("cubic"),
        Algorithm::Bbr => Some("bbr"),
        Algorithm::Dctcp => Some("dctcp"),
        _ => None,
    }
}
