//! Turns of flows ahead of a direction's qdiscs: see `txweir_core::turns::Gate`.
//!
//! The kernel's own bound of what a socket has on its way (TCP Small Queues) ends where a frame is read from a TAP device or a
//! packet socket: for the kernel it has left. The gate is that bound's other half. There is no way to tell a kernel to wait: what
//! is left unread its own ring drops, from whomever. So everything is read, and where the gate is full the oldest frame of the
//! flow of which most wait is dropped, and counted.

use txweir_core::Instant;
use txweir_core::packet::route::Asked;
use txweir_core::path::port::{Choice, Port as TxPort};
use txweir_core::path::select::Sender;
use txweir_core::sched::answer::Verdict;
use txweir_core::turns::{Gate, Load, Offered, Quota};

use txweir_device::Backend;

use crate::arrival::Arrival;
use crate::drain::Drain;

/// Buckets for flows: with a hundred flows that have much to send, a new one shares a bucket with one of them once in 41 times.
const FLOWS: u32 = 4096;
/// Frames that can wait: as many as the queue of a new interface holds, rounded up.
const PLACES: u32 = 1024;
/// Flows that are asked, one after the other, whether the qdiscs have room for them, until one has: the rest is asked the next
/// time.
const LOOKS: usize = 16;

impl<D: Backend> Drain<D> {
    /// From now on a flow has at most this in the qdiscs at a time, and one unit; what is more waits its turn. With
    /// [`Quota::OFF`] what waits goes into the qdiscs at once.
    pub fn set_fairsend(&mut self, now: Instant, quota: Quota) {
        match &mut self.exit.gate {
            Some(gate) => gate.set_quota(quota),
            None if quota.is_off() => return,
            gate => *gate = Some(Box::new(Gate::new(FLOWS, PLACES, quota))),
        }
        self.drain_all(now);
        // Where the qdiscs are full they go on taking from it.
        if quota.is_off() {
            self.exit.gate.take_if(|gate| gate.waiting() == 0);
        }
    }

    /// A frame on its way to the qdiscs; `None` if it has to wait.
    pub fn offer(&mut self, now: Instant, mut arrival: Arrival<D::Frame>) -> Option<Arrival<D::Frame>> {
        if self.exit.gate.is_none() {
            return Some(arrival);
        }
        if !arrival.queue_chosen {
            self.port.choose_for(&mut arrival.meta, Choice::By(&Sender::default(), None), now);
            arrival.queue_chosen = true;
        }
        let room = has_room(&self.port, &arrival);
        let gate = self.exit.gate.as_mut()?;
        match gate.offer(arrival.meta.hash, Load::of(&arrival.meta), room, arrival) {
            Offered::Pass(arrival) => Some(arrival),
            Offered::Held => None,
            Offered::Instead(other) => {
                self.exit.discard(other.frame);
                None
            }
        }
    }

    /// From the gate to the qdiscs and on to the device, as much as turns allow and finds room.
    pub fn feed(&mut self, now: Instant) {
        match &mut self.exit.gate {
            Some(gate) if gate.waiting() > 0 => {
                if gate.ready() == 0 && self.port.backlog().packets == 0 {
                    // What was cut and lost on the way is not in a path, whatever was counted.
                    gate.path_is_empty();
                }
            }
            _ => return,
        }
        let mut passed_over = 0;
        // Bounded: each round takes a frame of those that wait, or passes over one flow more of those that are ready.
        while let Some(gate) = &mut self.exit.gate {
            let most = gate.ready().min(LOOKS);
            let Some(front) = gate.front() else { break };
            if !has_room(&self.port, front) {
                gate.pass_over();
                passed_over += 1;
                if passed_over >= most {
                    break;
                }
                continue;
            }
            passed_over = 0;
            let Some(arrival) = gate.take() else { break };
            let queue = self.enter(now, arrival);
            if self.port.path(queue).is_some_and(|path| path.stops().may_transmit()) {
                self.drain_queue(now, queue);
            }
        }
    }
}

/// Whether the qdiscs would take it without dropping anything for it. Where nothing waits nothing is waited for.
fn has_room<F>(port: &TxPort<F>, arrival: &Arrival<F>) -> bool {
    let asked = Asked { meta: &arrival.meta, route: Some(&arrival.route) };
    port.path(arrival.meta.queue)
        .is_none_or(|path| path.tree().root().admit(&asked) != Verdict::Full || path.backlog().packets == 0)
}
