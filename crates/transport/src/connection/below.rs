//! Reports of the path and the device below the socket.

use txweir_core::Instant;

use crate::sender::Sender;
use crate::sender::local;
use crate::sender::output;
use crate::sender::timer::{self, Purpose};
use crate::sender::writer::Gate;

/// The side of an end that faces the queues and the device of its host: they report the fate of the
/// segments that [`transmit`](crate::Connection::transmit) returned.
#[derive(Debug)]
pub struct Below<'a>(pub(super) &'a mut Sender);

impl Below<'_> {
    /// Reports that a queue on this host has refused the segment with data that
    /// [`transmit`](crate::Connection::transmit) returned last: it counts as not sent, and leaves
    /// with a later event. The window shrinks once per round trip.
    pub fn dropped(self) {
        local::dropped(self.0);
    }

    /// Reports that a queue on this host has taken the segment and dropped another one: the window
    /// shrinks once per round trip.
    pub fn congested(self) {
        local::congested(self.0);
    }

    /// Reports that the path has cut the unit that left last into this number of segments: each of
    /// them takes memory of its own below the socket, and is released by itself (see
    /// [`below_socket_cut`](crate::below_socket_cut)).
    pub fn cut(self, segments: u32) {
        output::cut(self.0, segments);
    }

    /// Reports that the device has sent segments of this end: `bytes` less lie below the socket
    /// (small queues, see [`below_socket`](crate::below_socket)). True if this end waited for that,
    /// so that the driver has to ask it for segments.
    pub fn released(self, bytes: u32) -> bool {
        let tx = self.0;
        Below(tx).passed(bytes);
        let waited = std::mem::replace(&mut tx.throttled, false);
        if waited {
            tx.writer.gate = Gate::Open;
        }
        waited
    }

    /// Reports the same in the midst of the end's own work, with the fate of the segment that
    /// [`transmit`](crate::Connection::transmit) returned last: the end goes on anyway.
    pub fn passed(self, bytes: u32) {
        let tx = self.0;
        tx.below = tx.below.saturating_sub(bytes);
        if let Some(units) = tx.units.made() {
            units.released(bytes);
        }
    }

    /// Reports that the host's own queue has no room for the segment that this end would send. The
    /// window begins anew with one segment, as after a source quench (RFC 1122 section 4.2.3.9):
    /// nothing counts as lost, and the threshold stays. If nothing is in flight, no acknowledgement
    /// can wake this end. The retransmission timer then runs, as in 4.4BSD, and its end counts as a
    /// timeout: the threshold becomes two segments, and the next timeout is twice as long. An
    /// algorithm that sets its own window (BBR) keeps it.
    pub fn quench(self, now: Instant) {
        let tx = self.0;
        tx.flow.now = now;
        if !tx.cc.owns_window() {
            (tx.flow.cwnd, tx.flow.growth) = (1, 0);
        }
        if tx.timer.is_none() {
            let ticks = tx.rto();
            timer::set(tx, Purpose::Retransmit, ticks);
        }
    }
}
