//! A listener in a net: it hears of each packet that reaches a connection end, and of each step of an end.

use std::fmt::Debug;

use txweir_core::{Instant, Nanos};

use super::Net;
use crate::frame::Frame;
use crate::tcp::Conn;

/// Hears what happens at connection ends. Ends have numbers: those that open connections have even ones, and the end that
/// answers has the next one.
pub trait Observer: Debug {
    /// A packet has reached the end `frame.to`, which has not seen it yet.
    fn delivered(&mut self, now: Instant, frame: &Frame);
    /// An end has done what was due; `took` is the time of a transaction that ended with it.
    fn polled(&mut self, now: Instant, end: u32, conn: &Conn, took: Option<Nanos>);
}

impl Net {
    /// Lets `observer` hear of connection ends from now on. A net has one observer.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// A connection end.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn end(&self, end: u32) -> &Conn {
        &self.ends[end as usize].conn
    }
}
