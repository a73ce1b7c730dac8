//! `Apart`: a port whose paths are with their users, such as threads, between two changes of it.
//!
//! A port is one value, and so has one user. [`Port::apart`] hands the paths out, for a user each;
//! [`Apart::joined`] takes them back for a change or a look, by the same
//! [`Control`](super::Control) and [`Trees`](crate::path::trees::Trees) as of a port that was never
//! apart. The user of a path counts what its device has, and has finished ([`Flight`]), meanwhile.

use alloc::vec::Vec;

use super::lanes::Lanes;
use super::{Chooser, Flight, Port};
use crate::path::txpath::TxPath;

/// A port without its paths: its root, the rules that choose a queue, its counters.
#[derive(Debug)]
pub struct Apart<F> {
    lanes: Lanes<F>,
    chooser: Chooser,
}

impl<F> Port<F> {
    /// Takes the port apart. Returns its paths, in the order of their queues, and the packets that
    /// its device has. Where a path feeds all queues, there is one.
    pub fn apart(self) -> (Apart<F>, Vec<TxPath<F>>, Flight) {
        let Self { mut lanes, chooser, flight } = self;
        let paths = core::mem::take(&mut lanes.paths);
        (Apart { lanes, chooser }, paths, flight)
    }
}

impl<F> Apart<F> {
    /// Returns the number of queues of the device.
    pub const fn queues(&self) -> u16 {
        self.chooser.selector.queues()
    }
    /// True if each queue has a path of its own.
    pub const fn is_split(&self) -> bool {
        self.lanes.is_split()
    }
    /// Returns the rules by which a queue is chosen.
    pub const fn chooser(&self) -> &Chooser {
        &self.chooser
    }
    /// Returns the port again, of the paths that it was taken apart into, in their order, and of
    /// the packets that its device has by now. A missing path is made anew, and one too many is
    /// dropped with its packets.
    pub fn joined(self, paths: Vec<TxPath<F>>, flight: Flight) -> Port<F> {
        let Self { mut lanes, chooser } = self;
        lanes.paths = paths;
        lanes.keep_wanted();
        Port { lanes, chooser, flight }
    }
}
