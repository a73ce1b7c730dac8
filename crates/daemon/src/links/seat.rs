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
//! A frame whose sender waits is held by the worker that has the full qdiscs. The one that received
//! it counts its frames on the way, and receives no more of such senders while there are
//! [`CLAIMS`]; the other tells it of those that have left ([`Mail::Room`]).
//!
//! - Frames from one worker to another stay in order.
//! - Each frame is counted by the worker that received it, as gone to another, and by the other, as
//!   come from another: so the frames on the way are the difference, at every instant at which no
//!   worker is in a turn.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use txweir_core::Instant;
use txweir_device::Frame;
use txweir_handoff::{Mailbox, Post, Wakeup};
use txweir_runtime::{Arrival, Returned};

use super::Links;
use super::pass::{Past, admit};
use crate::link::{Link, Owners};

/// Most items taken from the mailbox in one turn: four bursts.
const MAIL: usize = 256;
/// Frames of senders that wait which may be on the way from a worker to a link of others, those
/// included that are held there. A worker's turn takes so many from its mailbox.
const CLAIMS: u32 = 256;

/// An item of a worker's mailbox.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A frame for a way of the reader.
    Frame(Sent),
    /// The memory of a frame that goes back to the link at this index.
    Back(usize, Returned),
    /// The number of further frames of senders that wait which may be on the way to the link at
    /// this index.
    Room(usize, u32),
}

/// A frame on its way to another worker.
#[derive(Debug)]
pub(crate) struct Sent {
    /// The worker that it comes from.
    by: usize,
    past: Past,
    /// The link that it leaves by.
    to: usize,
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
    /// A frame whose sender waits that found no place in a mailbox, and the mailbox's number.
    pub kept: Option<(usize, Sent)>,
    /// The owners of each link's way.
    pub owners: Vec<Owners>,
    /// Ends the wait of the worker, which reads the bell.
    pub wakeup: Wakeup,
    pub bell: Arc<OwnedFd>,
}

impl Seat {
    /// True if no frame is in its mailbox, or waits for a place in another.
    pub fn is_empty(&self) -> bool {
        self.mailbox.is_empty() && self.kept.is_none()
    }

    /// Puts a frame into the mailbox of another worker, which is rung at the end of the turn.
    /// Returns it if there is no place.
    fn put(&mut self, owner: usize, sent: Sent) -> Option<Sent> {
        match self.posts[owner].put(Mail::Frame(sent)) {
            Ok(()) => self.news[owner] = true,
            Err(Mail::Frame(sent)) => return Some(sent),
            Err(Mail::Back(..) | Mail::Room(..)) => {}
        }
        None
    }

    /// Puts the frame that is kept into its mailbox, if there is a place now.
    fn put_kept(&mut self) {
        if let Some((owner, sent)) = self.kept.take() {
            self.kept = self.put(owner, sent).map(|sent| (owner, sent));
        }
    }
}

/// True if senders that wait have to wait for a place in the way to a link.
pub(super) fn is_full_for(seat: Option<&Seat>, to: &Link) -> bool {
    to.way.is_holding() || to.copies.under_way >= CLAIMS || seat.is_some_and(|seat| seat.kept.is_some())
}

impl Links {
    /// Hands a frame over whole if another worker owns the whole way to the link at `to`. Returns
    /// it otherwise.
    pub(super) fn hand_whole(
        &mut self,
        past: Past,
        to: usize,
        arrival: Arrival<Frame>,
    ) -> Option<Arrival<Frame>> {
        match &self.seat {
            Some(Seat { me, owners, .. }) => match owners[to] {
                Owners::One(owner) if owner != *me => {
                    let sent = Sent { by: *me, past, to, whole: true, arrival };
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
                let past = Past { waits, ..Past::default() };
                let sent = Sent { by: *me, past, to, whole: false, arrival };
                return self.hand_over(owner, sent);
            }
        }
        admit(now, link, arrival, waits);
    }

    /// Lets a frame go to another worker. If its mailbox is full, the frame is kept if its sender
    /// waits, and dropped otherwise.
    fn hand_over(&mut self, owner: usize, sent: Sent) {
        let Some(seat) = &mut self.seat else { return };
        let link = &mut self.all[sent.to];
        link.way.let_go(&sent.arrival);
        link.copies.under_way += u32::from(sent.past.waits);
        let Some(sent) = seat.put(owner, sent) else { return };
        if sent.past.waits && seat.kept.is_none() {
            seat.kept = Some((owner, sent));
        } else {
            link.copies.under_way -= u32::from(sent.past.waits);
            link.way.refuse(sent.arrival);
        }
    }

    /// Takes what other workers have put into the mailbox. Returns true if there may be more.
    pub(super) fn take_mail(&mut self, clock: &dyn Fn() -> Instant) -> bool {
        self.seat.iter_mut().for_each(Seat::put_kept);
        for _ in 0..MAIL {
            let Some(seat) = &mut self.seat else { return false };
            match seat.mailbox.take() {
                None => return false,
                Some(Mail::Back(at, back)) => self.all[at].way.take_back(back),
                Some(Mail::Room(at, frames)) => {
                    let under_way = &mut self.all[at].copies.under_way;
                    *under_way = under_way.saturating_sub(frames);
                }
                Some(Mail::Frame(sent)) => self.take_frame(clock(), sent),
            }
        }
        true
    }

    fn take_frame(&mut self, now: Instant, sent: Sent) {
        let Sent { by, past, to, whole, arrival } = sent;
        if past.waits {
            self.all[to].copies.claims.push_back(by);
        }
        let (arrival, back) = self.all[to].way.take_over(arrival);
        if let Some((seat, back)) = self.seat.as_ref().zip(back) {
            // It is taken at the reader's next turn; a full mailbox has frames in it, which bring
            // buffers of their own, and this one is freed.
            let _ = seat.posts[by].put(Mail::Back(to, back));
        }
        match arrival {
            None => {}
            Some(arrival) if whole => self.pass(now, past, to, arrival),
            Some(arrival) => admit(now, &mut self.all[to], arrival, past.waits),
        }
    }

    /// Tells other workers of frames whose senders wait that are not held here any more. Returns
    /// true if some are still to be told.
    pub(super) fn tell_of_room(&mut self) -> bool {
        let Some(Seat { posts, news, kept, .. }) = &mut self.seat else { return false };
        for (at, link) in self.all.iter_mut().enumerate() {
            let (holding, claims) = (link.way.holding(), &mut link.copies.claims);
            // Bound: the claims, of which each round takes some, or is the last one.
            while claims.len() > holding {
                let (by, most) = (claims[0], claims.len() - holding);
                let frames = claims.iter().take(most).take_while(|other| **other == by).count();
                if posts[by].put(Mail::Room(at, u32::try_from(frames).unwrap_or(u32::MAX))).is_err() {
                    return true;
                }
                news[by] = true;
                claims.drain(..frames);
            }
        }
        kept.is_some()
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
