//! Turns of flows ahead of a direction's qdiscs: see `txweir_core::turns::Gate`.
//!
//! The kernel bounds the data that a socket has on its way (TCP Small Queues), but that bound ends
//! where a frame is read from a TAP device or a packet socket: for the kernel the frame has left.
//! The gate is the other half of that bound. A kernel cannot be told to wait: its own ring drops
//! frames that are left unread, of any flow. So this crate reads every frame, and where the gate is
//! full it drops and counts the oldest frame of the flow with the most waiting frames.

use txweir_core::Instant;
use txweir_core::packet::route::Candidate;
use txweir_core::path::port::{Choice, Port as TxPort};
use txweir_core::sched::answer::Verdict;
use txweir_core::turns::{Gate, Load, Offered, Quota};

use txweir_device::Backend;

use crate::arrival::Arrival;
use crate::drain::Drain;

/// Buckets for flows. Beside a hundred flows with much to send, a new flow shares a bucket with one
/// of them once in 41 times.
const FLOWS: u32 = 4096;
/// Most frames that can wait: as many as the queue of a new interface holds, rounded up.
const PLACES: u32 = 1024;
/// Most flows for which the qdiscs are asked in one pass whether they have room. The next pass
/// continues with the others.
const LOOKS: usize = 16;

impl<D: Backend> Drain<D> {
    /// Bounds the share of a flow in the qdiscs from now on: at most this quota and one unit at
    /// a time; its other frames wait their turn. With [`Quota::OFF`] the waiting frames enter the
    /// qdiscs at once.
    pub fn set_fairsend(&mut self, now: Instant, quota: Quota) {
        match &mut self.exit.gate {
            Some(gate) => gate.set_quota(quota),
            None if quota.is_off() => return,
            gate => *gate = Some(Box::new(Gate::new(FLOWS, PLACES, quota))),
        }
        self.drain_all(now);
        // While the qdiscs are full, frames still wait in the gate, which then stays until it is
        // empty.
        if quota.is_off() {
            self.exit.gate.take_if(|gate| gate.waiting() == 0);
        }
    }

    /// Offers the gate a frame that is about to enter the qdiscs. Returns the frame if it may
    /// enter, `None` if it has to wait.
    pub fn offer(&mut self, now: Instant, mut arrival: Arrival<D::Frame>) -> Option<Arrival<D::Frame>> {
        if self.exit.gate.is_none() {
            return Some(arrival);
        }
        if !arrival.facts.queue_chosen {
            self.port.chooser_mut().choose_for(&mut arrival.facts.meta, Choice::By(&self.sender, None), now);
            arrival.facts.queue_chosen = true;
        }
        let room = has_room(&self.port, &arrival);
        let gate = self.exit.gate.as_mut()?;
        match gate.offer(arrival.facts.meta.hash, Load::of(&arrival.facts.meta), room, arrival) {
            Offered::Pass(arrival) => Some(arrival),
            Offered::Held => None,
            Offered::Instead(other) => {
                self.exit.discard(other.frame);
                self.put_by(other.facts);
                None
            }
        }
    }

    /// Takes a frame of a sender that can wait, or holds it, behind those that are held already,
    /// until there is room. Returns true if the frame is held.
    pub fn enter_or_hold(&mut self, now: Instant, mut arrival: Arrival<D::Frame>) -> bool {
        if !arrival.facts.queue_chosen {
            self.port.chooser_mut().choose_for(&mut arrival.facts.meta, Choice::By(&self.sender, None), now);
            arrival.facts.queue_chosen = true;
        }
        let holds = !self.held.is_empty() || !self.has_place(&arrival);
        match holds {
            true => self.held.push_back(arrival),
            false => self.take(now, arrival),
        }
        holds
    }

    /// Takes the frames that are held, as far as there is room now.
    pub fn release(&mut self, now: Instant) {
        // The loop is bounded by the frames that are held.
        while self.held.front().is_some_and(|arrival| self.has_place(arrival)) {
            let Some(arrival) = self.held.pop_front() else { return };
            self.take(now, arrival);
        }
    }

    /// True if nothing would be dropped for the frame.
    fn has_place(&self, arrival: &Arrival<D::Frame>) -> bool {
        match &self.exit.gate {
            Some(gate) => gate.waiting() < PLACES as usize,
            None => has_room(&self.port, arrival),
        }
    }

    /// Takes a frame into the gate, or into the qdiscs and on towards the device.
    pub fn take(&mut self, now: Instant, arrival: Arrival<D::Frame>) {
        let (queue, passed) = if self.exit.gate.is_none() {
            self.enter(now, arrival)
        } else {
            let Some(arrival) = self.offer(now, arrival) else { return };
            self.enter(now, arrival)
        };
        if passed {
            self.ring(queue);
            self.feed(now);
        } else if self.port.path(queue).is_some_and(|path| path.tx().stops().may_transmit()) {
            self.drain(now, queue);
        }
    }

    /// Moves frames from the gate to the qdiscs and on to the device, as far as turns and room
    /// allow.
    pub fn feed(&mut self, now: Instant) {
        match &mut self.exit.gate {
            Some(gate) if gate.waiting() > 0 => {
                if gate.ready() == 0 && self.port.totals().backlog().packets == 0 {
                    // Pieces of a cut frame that were lost are in no path, although the gate still
                    // counts them.
                    gate.path_is_empty();
                }
            }
            _ => return,
        }
        let mut passed_over = 0;
        // The loop is bounded: each round takes one of the waiting frames, or passes over one more
        // of the ready flows.
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
            let (queue, passed) = self.enter(now, arrival);
            if passed {
                self.ring(queue);
            } else if self.port.path(queue).is_some_and(|path| path.tx().stops().may_transmit()) {
                self.drain_queue(now, queue);
            }
        }
    }
}

/// True if the qdiscs would take the frame without dropping a packet for it, or if they are empty:
/// then there is no departure to wait for.
fn has_room<F>(port: &TxPort<F>, arrival: &Arrival<F>) -> bool {
    let asked = Candidate { meta: &arrival.facts.meta, route: Some(&arrival.facts.route) };
    port.path(arrival.facts.meta.queue).is_none_or(|path| {
        let full = matches!(path.tree().root().would_accept(&asked), Verdict::Full | Verdict::FlowFull);
        !full || path.backlog().packets == 0
    })
}
