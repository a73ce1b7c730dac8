//! Data that a frame carries in addition to its packet: a link header that actions have made, and
//! the results of filters.

use txweir_core::Meta;
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
