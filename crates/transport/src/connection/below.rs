//! Reports of the path and the device below the socket.

use super::Connection;
use crate::sender::output;
use crate::sender::writer::Gate;

impl Connection {
    /// Reports that the path has cut the unit that left last into this number of segments: each of
    /// them takes memory of its own below the socket, and is released by itself (see
    /// [`below_socket_cut`](crate::below_socket_cut)).
    pub fn cut(&mut self, segments: u32) {
        output::cut(&mut self.tx, segments);
    }

    /// Reports that the device has sent segments of this end: `bytes` less lie below the socket
    /// (small queues, see [`below_socket`](crate::below_socket)). True if this end waited for that,
    /// so that the driver has to ask it for segments.
    pub fn released(&mut self, bytes: u32) -> bool {
        self.tx.below = self.tx.below.saturating_sub(bytes);
        if let Some(units) = self.tx.units.made() {
            units.released(bytes);
        }
        let waited = std::mem::replace(&mut self.tx.throttled, false);
        if waited {
            self.tx.writer.gate = Gate::Open;
        }
        waited
    }
}
