//! What a frame carries besides its packet: a link header that actions have made, and what filters have said of it.

use txweir_core::Meta;
use txweir_core::packet::route::Route;

/// Bytes of an Ethernet header, counted and not stored.
pub const ETHERNET: u32 = 14;
/// Most bytes of a link header: an Ethernet header with two tags.
pub const LINK_MAX: usize = ETHERNET as usize + 8;

/// A link header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkHeader {
    bytes: [u8; LINK_MAX],
    len: u8,
}

impl LinkHeader {
    /// With these bytes, of which there are at most [`LINK_MAX`].
    pub(crate) fn new(given: &[u8]) -> Self {
        let mut bytes = [0; LINK_MAX];
        let len = given.len().min(LINK_MAX);
        bytes[..len].copy_from_slice(&given[..len]);
        Self { bytes, len: len as u8 }
    }
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
    /// How many they are.
    pub fn len(&self) -> u32 {
        u32::from(self.len)
    }
    /// No link header at all: an action has taken it away.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The queue that was chosen for a frame (in its metadata), and what filters have said of it: kept with a frame that its sender
/// got back, so that they are asked once.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub(crate) meta: Meta,
    pub(crate) route: Route,
}
