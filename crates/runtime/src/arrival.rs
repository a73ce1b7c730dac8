//! `Arrival`: a frame that is about to enter a direction.

use txweir_core::packet::headers::Headers;
use txweir_core::packet::route::Route;
use txweir_core::{Instant, Meta};

/// A frame that is about to enter, in the store of the device by which it leaves.
#[derive(Debug)]
pub struct Arrival<F> {
    pub(crate) frame: F,
    pub(crate) facts: Box<Facts>,
}

/// The facts about a frame that is about to enter. They are written where they stay: each copy
/// would be read shortly after it was written by parts, and a processor waits for those.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) meta: Meta,
    /// The headers as read from its bytes.
    pub(crate) headers: Headers,
    pub(crate) route: Route,
    /// True if its transmit queue is chosen already.
    pub(crate) queue_chosen: bool,
    /// The time at which it was found at its interface; the beginning of time if that is not known.
    pub(crate) at: Instant,
}

impl Default for Facts {
    /// The facts of no frame yet.
    fn default() -> Self {
        let (meta, headers, route) = (Meta::new(0), Headers::EMPTY, Route::default());
        Self { meta, headers, route, queue_chosen: false, at: Instant::ZERO }
    }
}

impl<F> Arrival<F> {
    /// Returns the metadata that the qdiscs will see.
    pub fn meta(&self) -> &Meta {
        &self.facts.meta
    }
    /// Returns the metadata that the qdiscs will see, for a caller that knows more about the frame
    /// than its headers say.
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.facts.meta
    }
}
