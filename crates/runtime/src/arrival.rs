//! `Arrival`: a frame on its way into a direction.

use txweir_core::Meta;
use txweir_core::packet::headers::Headers;
use txweir_core::packet::route::Route;

/// A frame on its way in, in the store of the device that it leaves by.
#[derive(Debug)]
pub struct Arrival<F> {
    pub(crate) frame: F,
    pub(crate) meta: Meta,
    /// Read from its bytes.
    pub(crate) headers: Headers,
    pub(crate) route: Route,
    /// Its transmit queue is chosen already.
    pub(crate) queue_chosen: bool,
}

impl<F> Arrival<F> {
    /// The metadata that the qdiscs will see, for a caller that knows more of the frame than its headers say.
    pub const fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }
}
