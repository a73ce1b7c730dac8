//! `Arrival`: a frame on its way into a direction.

use txweir_core::Meta;
use txweir_core::packet::headers::Headers;
use txweir_core::packet::route::Route;

use crate::frame::Frame;

/// A frame on its way in.
#[derive(Debug)]
pub struct Arrival {
    pub(crate) frame: Frame,
    pub(crate) meta: Meta,
    /// What its bytes say.
    pub(crate) headers: Headers,
    pub(crate) route: Route,
    /// Its transmit queue is chosen already.
    pub(crate) queue_chosen: bool,
}

impl Arrival {
    /// What the qdiscs will know of it, to be changed by who knows more than the headers say.
    pub const fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }
}
