//! A client's socket, as far as it is known.

use crate::message::Told;

/// Groups of notifications that there are, by their bits: all numbers below 64 may be joined.
const GROUPS: u32 = 64;

/// A client's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Its port, which replies carry.
    pub port: u32,
    groups: u64,
    pub(crate) ext_ack: bool,
    pub(crate) cap_ack: bool,
}

impl Client {
    /// The group of qdiscs, classes and filters.
    pub const TC: u32 = 4;

    /// Takes a fact.
    pub fn take(&mut self, told: Told) {
        let bit = |group: u32| if (1..GROUPS).contains(&group) { 1u64 << group } else { 0 };
        match told {
            Told::Port(port) => self.port = port,
            Told::Join(group) => self.groups |= bit(group),
            Told::Leave(group) => self.groups &= !bit(group),
            Told::ExtAck(on) => self.ext_ack = on,
            Told::CapAck(on) => self.cap_ack = on,
        }
    }
    /// True if it gets the notifications of a group.
    #[must_use]
    pub const fn listens(&self, group: u32) -> bool {
        group < GROUPS && self.groups & (1 << group) != 0
    }
}
