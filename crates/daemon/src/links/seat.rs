//! `Seat`: the place of some links among those of several workers. Each worker has links of the
//! same names and the same qdiscs, over handles of its own to the same interfaces, and each
//! transmit queue has one owner. A frame for a queue of another worker goes there in that worker's
//! mailbox, with its buffer.
//!
//! Where each queue has qdiscs of its own (mq and mqprio, without a wire), the worker that receives
//! a frame runs its filters and chooses its queue, and the queue's owner queues it. Any other root
//! cannot be split: one worker owns the whole way, and runs the filters too, so that its actions
//! keep one state.
//!
//! - Frames from one worker to another stay in order.
//! - Each frame is counted by the worker that received it, as gone to another, and by the other, as
//!   come from another: so the frames on the way are the difference, at every instant at which no
//!   worker is in a turn.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use txweir_core::Instant;
use txweir_device::{Frame, Spare};
use txweir_handoff::{Mailbox, Post, Wakeup};
use txweir_runtime::Arrival;

use super::Links;
use super::pass::admit;
use crate::link::Owners;

/// Most items taken from the mailbox in one turn: four bursts.
const MAIL: usize = 256;

/// An item of a worker's mailbox.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly every item is a frame, and none is allocated")]
pub(crate) enum Mail {
    /// A frame for a way of the reader.
    Frame(Sent),
    /// A buffer that goes back to the store of the link at this index.
    Spare(usize, Spare),
}

/// A frame on its way to another worker.
#[derive(Debug)]
pub(crate) struct Sent {
    /// The worker that it comes from.
    by: usize,
    /// The link that it came in by, and the one that it leaves by.
    from: Option<usize>,
    to: usize,
    /// Number of redirections behind it.
    depth: u8,
    /// True if its filters are still to be run.
    whole: bool,
    arrival: Arrival<Frame>,
}

/// Reads a bell that has rung, which never waits.
pub(crate) fn silence(bell: &OwnedFd) {
    let _ = rustix::io::read(bell, &mut [0; 8]);
}

/// The place of links among those of several workers.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The number of the worker.
    pub me: usize,
    /// The mailboxes of all workers.
    pub posts: Vec<Post<Mail>>,
    /// The workers whose mailbox got something since they were last rung.
    pub news: Vec<bool>,
    pub mailbox: Mailbox<Mail>,
    /// The owners of each link's way.
    pub owners: Vec<Owners>,
    /// Ends the wait of the worker, which reads the bell.
    pub wakeup: Wakeup,
    pub bell: Arc<OwnedFd>,
}

impl Links {
    /// Hands a frame over whole if another worker owns the whole way to the link at `to`. Returns
    /// it otherwise.
    pub(super) fn hand_whole(
        &mut self,
        from: Option<usize>,
        to: usize,
        depth: u8,
        arrival: Arrival<Frame>,
    ) -> Option<Arrival<Frame>> {
        match &self.seat {
            Some(Seat { me, owners, .. }) => match owners[to] {
                Owners::One(owner) if owner != *me => {
                    let sent = Sent { by: *me, from, to, depth, whole: true, arrival };
                    self.hand_over(owner, sent);
                    None
                }
                _ => Some(arrival),
            },
            None => Some(arrival),
        }
    }

    /// Takes a frame that has passed its filters into the link at `to`, or hands it over to the
    /// owner of its queue.
    pub(super) fn enter(&mut self, now: Instant, to: usize, mut arrival: Arrival<Frame>, waits: bool) {
        let link = &mut self.all[to];
        if let Some(Seat { me, owners, .. }) = &self.seat {
            let owner = owners[to].of(usize::from(link.way.choose(now, &mut arrival)));
            if owner != *me {
                let sent = Sent { by: *me, from: None, to, depth: 0, whole: false, arrival };
                return self.hand_over(owner, sent);
            }
        }
        admit(now, link, arrival, waits);
    }

    /// Puts a frame into the mailbox of another worker, which is rung at the end of the turn.
    fn hand_over(&mut self, owner: usize, sent: Sent) {
        let Some(seat) = &mut self.seat else { return };
        let to = sent.to;
        self.all[to].way.let_go(&sent.arrival);
        match seat.posts[owner].put(Mail::Frame(sent)) {
            Ok(()) => seat.news[owner] = true,
            Err(Mail::Frame(sent)) => self.all[to].way.refuse(sent.arrival),
            Err(Mail::Spare(..)) => {}
        }
    }

    /// Takes what other workers have put into the mailbox. Returns true if there may be more.
    pub(super) fn take_mail(&mut self, clock: &dyn Fn() -> Instant) -> bool {
        for _ in 0..MAIL {
            let Some(seat) = &mut self.seat else { return false };
            match seat.mailbox.take() {
                None => return false,
                Some(Mail::Spare(at, spare)) => self.all[at].way.take_spare(spare),
                Some(Mail::Frame(sent)) => self.take_frame(clock(), sent),
            }
        }
        true
    }

    fn take_frame(&mut self, now: Instant, sent: Sent) {
        let Sent { by, from, to, depth, whole, arrival } = sent;
        let (arrival, spare) = self.all[to].way.take_over(arrival);
        if let Some((seat, spare)) = self.seat.as_ref().zip(spare) {
            // It is taken at the reader's next turn; a full mailbox has frames in it, which bring
            // buffers of their own, and this one is freed.
            let _ = seat.posts[by].put(Mail::Spare(to, spare));
        }
        match arrival {
            None => {}
            Some(arrival) if whole => self.pass_from(now, from, to, depth, arrival),
            Some(arrival) => admit(now, &mut self.all[to], arrival, false),
        }
    }

    /// True if the thread may sleep, as far as it is about mail. If it does, those who put in a
    /// frame ring, until [`has_rested`](Self::has_rested).
    pub(crate) fn may_rest(&self) -> bool {
        self.seat.as_ref().is_none_or(|seat| seat.mailbox.may_rest())
    }

    /// Says that the thread does not sleep any more.
    pub(crate) fn has_rested(&self) {
        self.seat.iter().for_each(|seat| seat.mailbox.is_up());
    }

    /// Returns the bell that ends the sleep, if there are other workers.
    pub(crate) fn bell(&self) -> Option<&OwnedFd> {
        self.seat.as_ref().map(|seat| &*seat.bell)
    }

    /// Rings those whose mailboxes got something in this turn.
    pub(super) fn ring_others(&mut self) {
        let Some(Seat { posts, news, .. }) = &mut self.seat else { return };
        for (post, news) in posts.iter().zip(news) {
            if std::mem::take(news) {
                post.ring();
            }
        }
    }
}
