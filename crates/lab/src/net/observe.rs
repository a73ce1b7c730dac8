//! A listener in a net: it is called for each packet that reaches a connection end, and for each
//! step of an end.

use std::fmt::Debug;

use txweir_core::{Instant, Nanos};

use crate::frame::Frame;
use crate::tcp::Conn;

/// Callbacks for events at connection ends. Ends have numbers: those that open connections have
/// even ones, and the end that answers has the next one.
pub trait Observer: Debug {
    /// Reports a packet that has reached the end `frame.to`, before the end has seen it.
    fn delivered(&mut self, now: Instant, frame: &Frame);
    /// Reports that an end has done its due work; `took` is the time of a transaction that ended
    /// with it.
    fn polled(&mut self, now: Instant, end: u32, conn: &Conn, took: Option<Nanos>);
}
