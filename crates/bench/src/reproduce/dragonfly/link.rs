//! A connection with both its ends: one on A, one on a peer.

use txweir_core::turns::SenderId;
use txweir_transport::{Acks, Config, Connection};

use super::machine::Setup;
use super::packet::MSS;
use txweir_lab::engine::Alarm;

/// The role of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A stream that A sends.
    Sent,
    /// A stream that is sent to A.
    Received,
    /// A connection of this client, which A closes as soon as it is open (netperf's TCP_CC).
    Client(u32),
}

/// The progress of a client with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The client waits for the server to close it.
    Current,
    /// The client is at its next connection, and this one is not yet closed both ways.
    Left,
    /// The place is free.
    Over,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) role: Role,
    /// The number of this connection among those that have had its place.
    pub(super) number: u32,
    /// A's thread, and for a sender the place in that thread's line.
    pub(super) thread: u32,
    pub(super) id: Option<SenderId>,
    pub(super) a: Connection,
    pub(super) peer: Connection,
    /// The alarms of A's end and of the peer's. They stay with the place.
    pub(super) alarms: [Alarm; 2],
    /// True if A's thread has a message about a timer of A's end.
    pub(super) timed: bool,
    /// True if the application of a stream of A is about to write.
    pub(super) writing: bool,
    pub(super) stage: Stage,
    /// Bytes that the reader has, and of them, those that were announced.
    pub(super) read: u64,
    pub(super) told: u64,
}

impl Link {
    pub(super) fn new(s: &Setup, role: Role, thread: u32) -> Self {
        let (a, peer) = ends(s, role);
        Self {
            role,
            number: 0,
            thread,
            id: None,
            a,
            peer,
            alarms: [Alarm::default(); 2],
            timed: false,
            writing: true,
            stage: Stage::Current,
            read: 0,
            told: 0,
        }
    }

    /// Begins the next connection at this place.
    pub(super) fn anew(&mut self, s: &Setup, role: Role, thread: u32) {
        let next = Self::new(s, role, thread);
        *self = Self { number: self.number.wrapping_add(1), alarms: self.alarms, ..next };
    }
}

/// Of the bytes of memory, half counts as payload.
const MEMORY: u64 = 2;

/// Creates both ends: the sender opens, and a client opens.
fn ends(s: &Setup, role: Role) -> (Connection, Connection) {
    // A window of a number of segments is a send buffer of that size; receivers offer more.
    let sender = |i: usize| Config {
        send_buffer: u64::from(s.windows[i] * MSS),
        gso_max: if s.unit[i] > 1 { s.unit[i] * (MSS + 52) } else { 0 },
        gso_segs: s.unit[i],
        ..Config::rfc6675()
    };
    let receiver = |i: usize, window: u32| {
        let c = Config::rfc6675();
        let buffer = c.receive_buffer.max(MEMORY * u64::from((window + 4) * MSS));
        // At most 255 segments at a time.
        let acks = Acks::Every(s.every[i].min(255) as u8);
        Config { acks, receive_buffer: buffer, receive_buffer_max: buffer, ..c }
    };
    match role {
        Role::Sent => (Connection::connect(sender(0)), Connection::listen(receiver(1, s.windows[0]))),
        Role::Received => (Connection::listen(receiver(0, s.windows[1])), Connection::connect(sender(1))),
        Role::Client(_) => (Connection::listen(Config::rfc6675()), Connection::connect(Config::rfc6675())),
    }
}
