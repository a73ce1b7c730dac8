//! Data that a frame carries in addition to its packet: a link header that actions have made, the
//! results of filters, and the detour on which an action has sent it.

use txweir_core::Meta;
use txweir_core::classify::packet::Way;
use txweir_core::packet::route::Route;

/// Bytes of an Ethernet header, counted and not stored.
pub const ETHERNET: u32 = 14;
/// Largest number of bytes of a link header: an Ethernet header with two tags.
pub const LINK_MAX: usize = ETHERNET as usize + 8;

/// A link header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkHeader {
    bytes: [u8; LINK_MAX],
    len: u8,
}

impl LinkHeader {
    /// Returns a header with these bytes, of which at most [`LINK_MAX`] count.
    pub(crate) fn new(given: &[u8]) -> Self {
        let mut bytes = [0; LINK_MAX];
        let len = given.len().min(LINK_MAX);
        bytes[..len].copy_from_slice(&given[..len]);
        Self { bytes, len: len as u8 }
    }
    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
    /// Returns the number of its bytes.
    pub fn len(&self) -> u32 {
        u32::from(self.len)
    }
    /// True if an action has removed the whole link header.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Results of filters for a frame that was returned to its sender, so that they run once.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub(crate) meta: Meta,
    pub(crate) route: Route,
}

/// The detour of a packet that an action has sent to another device of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detour {
    /// The packet itself, taken at a device: an ifb gives it back there.
    From {
        /// The device's NIC.
        nic: u32,
        /// Direction in which the packet was on its way there.
        way: Way,
        /// The packet's priority before the hook, unless an action sets another.
        priority: u32,
    },
    /// A copy, which is for no end.
    Copy,
    /// The packet is back at the device that was to send it; its hook has seen it.
    Back,
}
