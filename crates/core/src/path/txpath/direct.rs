//! Methods for an owner that many threads take turns in, beside `submit` and `drain`: the direct
//! way by itself, which needs no time, and the doorbell by itself.

use alloc::boxed::Box;

use crate::packet::meta::Meta;
use crate::path::device::TxQueue;
use crate::path::dql::Dql;
use crate::path::txpath::{Role, Stops, TxPath};
use crate::sched::trace::Event;

impl<F> TxPath<F> {
    /// Sends a packet straight to the device if nothing waits and nothing stops it (rule DD), and
    /// returns it otherwise. The caller then calls [`doorbell`](Self::doorbell). The call needs no
    /// time: its trace records carry the time of the last call that had one.
    #[inline(always)]
    pub fn send_direct<D>(&mut self, frame: F, m: &Meta, dev: &mut D) -> Result<(), F>
    where
        D: TxQueue<Frame = F>,
    {
        // Stall detection needs the time of each post, which this path does not have.
        let timed = self.dql.as_ref().is_some_and(Dql::watches_stalls);
        if timed || !(self.may_go_direct(m.wire_len) && dev.reserve(1) == 1) {
            return Err(frame);
        }
        self.held.tree.root_mut().charge_direct(m);
        self.held.stats.direct += 1;
        self.held.record(Event::Direct, m);
        self.push(frame, m, dev);
        Ok(())
    }

    /// Shows the device the packets pushed since the last doorbell, if there are any.
    #[inline]
    pub fn doorbell<D>(&mut self, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        if self.uncommitted {
            self.uncommitted = false;
            self.held.stats.commits += 1;
            if let Err(e) = dev.commit() {
                self.held.stats.device_errors += 1;
                self.device_error = Some(Box::new(e));
            }
        }
    }

    /// Sets whether packets may go directly to the device where rule DD allows it. The default is
    /// on. Off, every packet goes through the qdiscs, to compare and to find faults (FreeBSD's
    /// `net.startmbuf_enabled`).
    pub const fn set_direct(&mut self, on: bool) {
        match on {
            true => self.stops.clear(Stops::QUEUED),
            false => self.stops.set(Stops::QUEUED),
        }
    }
    /// True if the direct way is on.
    pub const fn is_direct(&self) -> bool {
        !self.stops.has(Stops::QUEUED)
    }

    /// Returns the meaning of a full queue.
    pub const fn role(&self) -> Role {
        self.role
    }
    /// Sets the meaning of a full queue for the packets that come next.
    #[inline]
    pub const fn set_role(&mut self, role: Role) {
        self.role = role;
    }
}
