//! The way of a frame from one worker to another: two directions over the same interfaces, each
//! with one owner, and the frame leaves the store of one and enters that of the other with its
//! buffer. No byte is copied.
//!
//! The store that gets a buffer gives one of the same size back, once it has one to spare. So no
//! side allocates for long, and the buffers of both stay within their budgets.

use txweir_core::Instant;
use txweir_core::path::port::Choice;
use txweir_core::path::select::{Sender, Xps};
use txweir_device::{Backend, Frame, Frames, NoRoom, Spare};

use crate::arrival::{Arrival, Facts};
use crate::direction::Direction;
use crate::drain::Drain;
use crate::stats::Crossed;

/// The memory of a frame that has crossed, on its way back to the direction that let the frame go:
/// a buffer of the same size, and room for the facts about a frame.
#[derive(Debug)]
pub struct Returned {
    buffer: Spare,
    facts: Option<Box<Facts>>,
}

impl<F> Arrival<F> {
    /// Returns the transmit queue that was chosen for the frame.
    #[must_use]
    pub fn queue(&self) -> Option<u16> {
        self.facts.queue_chosen.then_some(self.facts.meta.queue)
    }
}

impl<D: Backend> Direction<D> {
    /// Says by which worker and by which receive queue frames come in from now on: the choice of
    /// the transmit queue goes by it (`txweir_core::path::select`).
    pub fn set_sender(&mut self, sender: Sender) {
        self.drain.sender = sender;
    }

    /// Sets transmit queues aside for frames by the receive queue that they come in by.
    pub fn set_queue_map(&mut self, by_arrival: Xps) {
        self.drain.port.chooser_mut().selector_mut().set_arrival_xps(Some(by_arrival));
    }

    /// Reads headers and chooses queues from now on as another direction does, whose frames come in
    /// here and are let go to it: by the same flow hash, for as many queues, with the same traffic
    /// classes and queue map.
    pub fn choose_as(&mut self, other: &Self) {
        self.classifier_mut().hash_as(other.classifier());
        let chooser = self.drain.port.chooser_mut();
        chooser.selector_mut().clone_from(other.drain.port.chooser().selector());
    }

    /// Chooses the transmit queue of a frame, if filters have not chosen it, and returns it.
    pub fn choose(&mut self, now: Instant, arrival: &mut Arrival<D::Frame>) -> u16 {
        if !arrival.facts.queue_chosen {
            let by = self.drain.sender;
            self.drain.port.chooser_mut().choose_for(&mut arrival.facts.meta, Choice::By(&by, None), now);
            arrival.facts.queue_chosen = true;
        }
        arrival.facts.meta.queue
    }

    /// Returns the counts of frames that crossed from one worker to another.
    #[must_use]
    pub const fn crossed(&self) -> Crossed {
        self.drain.crossed
    }
}

impl<D: Backend<Frame = Frame, Store = Frames>> Direction<D> {
    /// Lets a frame go to the direction of another worker. The frame is in no store meanwhile.
    pub fn let_go(&mut self, arrival: &Arrival<Frame>) {
        self.drain.crossed.to_others += 1;
        self.drain.exit.store().let_go(&arrival.frame);
    }

    /// Takes back a frame that was let go and that the other worker has no room for: it is dropped.
    pub fn refuse(&mut self, arrival: Arrival<Frame>) {
        self.drain.crossed.to_others -= 1;
        self.drain.crossed.refused += 1;
        self.drain.exit.store().take_over(arrival.frame);
        self.drain.put_by(arrival.facts);
    }

    /// Takes over a frame that another worker's direction has let go, to be admitted; `None` if
    /// the store has no room for it, which is counted. Also returns what goes back to the other
    /// direction, if there is a buffer to spare.
    pub fn take_over(&mut self, arrival: Arrival<Frame>) -> (Option<Arrival<Frame>>, Option<Returned>) {
        let Drain { exit, crossed, unused, .. } = &mut self.drain;
        crossed.from_others += 1;
        let Arrival { frame, facts } = arrival;
        match exit.store().adopt(frame) {
            Ok((frame, spare)) => {
                let back = spare.map(|buffer| Returned { buffer, facts: unused.pop() });
                (Some(Arrival { frame, facts }), back)
            }
            Err(NoRoom) => {
                crossed.refused += 1;
                (None, None)
            }
        }
    }

    /// Takes the memory that came back.
    pub fn take_back(&mut self, back: Returned) {
        self.drain.exit.store().take_spare(back.buffer);
        if let Some(facts) = back.facts {
            self.drain.put_by(facts);
        }
    }
}
