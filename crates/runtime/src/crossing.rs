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

use crate::arrival::Arrival;
use crate::direction::Direction;
use crate::drain::Drain;
use crate::stats::Crossed;

impl<F> Arrival<F> {
    /// Returns the transmit queue that was chosen for the frame.
    #[must_use]
    pub fn queue(&self) -> Option<u16> {
        self.queue_chosen.then_some(self.meta.queue)
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
        if !arrival.queue_chosen {
            let by = self.drain.sender;
            self.drain.port.chooser_mut().choose_for(&mut arrival.meta, Choice::By(&by, None), now);
            arrival.queue_chosen = true;
        }
        arrival.meta.queue
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
    }

    /// Takes over a frame that another worker's direction has let go, to be admitted; `None` if
    /// the store has no room for it, which is counted. Also returns a buffer that goes back to the
    /// other direction, if there is one to spare.
    pub fn take_over(&mut self, arrival: Arrival<Frame>) -> (Option<Arrival<Frame>>, Option<Spare>) {
        let Drain { exit, crossed, .. } = &mut self.drain;
        crossed.from_others += 1;
        let Arrival { frame, meta, headers, route, queue_chosen, at } = arrival;
        match exit.store().adopt(frame) {
            Ok((frame, spare)) => (Some(Arrival { frame, meta, headers, route, queue_chosen, at }), spare),
            Err(NoRoom) => {
                crossed.refused += 1;
                (None, None)
            }
        }
    }

    /// Takes a buffer that came back.
    pub fn take_spare(&mut self, spare: Spare) {
        self.drain.exit.store().take_spare(spare);
    }
}
