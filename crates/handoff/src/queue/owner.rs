//! `Owner`: a sender that has the queue to itself while no other thread uses it. As soon as another
//! thread does, the owner is one sender among others.

use std::sync::Arc;

use txweir_core::path::device::TxQueue;
use txweir_core::{Admitted, Detail, Meta};

use crate::baton::{Inside, Turn};
use crate::listed::{Listed, Ticket};
use crate::owned::Owned;
use crate::queue::{Drain, Handed, NEVER, Queue};
use crate::sync::{Ordering, can_bar};

/// Packets that the owner sends without meeting another thread before the queue is biased to it
/// again, after the bias was taken away. The number doubles each time that the bias is taken away
/// sooner than that. Taking the bias away costs the other side a membarrier(2), as much as the bias
/// saves on some hundred packets.
const PATIENCE_MIN: u32 = 1 << 10;
/// Upper bound of that number.
const PATIENCE_MAX: u32 = 1 << 20;

/// A sender to which the queue is biased: its packets go directly without an atomic exchange, as
/// long as no other thread uses the queue. Other threads may use it at any time and by every other
/// means. The first of them takes the bias away. The owner then sends as every thread does, until
/// it has been alone for a while.
///
/// A queue has at most one owner. Dropping the owner ends the bias.
#[derive(Debug)]
pub struct Owner<D: TxQueue> {
    queue: Arc<Queue<D>>,
    bias: Bias,
}

/// The owner's knowledge of its bias.
#[derive(Debug, Default)]
struct Bias {
    /// True if the owner has the bias, or another thread has taken it away and the owner has not
    /// seen this yet.
    held: bool,
    /// Packets sent by the bias since it was last given.
    used: u32,
    /// Packets sent without meeting another thread since the bias was last taken away.
    alone: u32,
    /// The value of `alone` above which the bias is given again.
    patience: u32,
}

impl Bias {
    /// Records that another thread has taken the bias away.
    #[cold]
    fn lost(&mut self) {
        let soon = self.used < self.patience;
        self.patience = if soon { (2 * self.patience).min(PATIENCE_MAX) } else { PATIENCE_MIN };
        (self.held, self.used, self.alone) = (false, 0, 0);
    }

    /// Records that the bias was given up for a packet that does not go directly. The next packet
    /// that does, with no other thread there, brings it back.
    fn given_up(&mut self) {
        (self.held, self.alone) = (false, self.patience);
    }

    /// Records that `packets` went without the bias and met no other thread. True if the bias is
    /// due.
    fn is_due(&mut self, packets: u64) -> bool {
        self.alone = self.alone.saturating_add(u32::try_from(packets).unwrap_or(u32::MAX));
        self.alone > self.patience
    }

    /// Ends a turn by the bias in which this number of packets went.
    #[inline(always)]
    fn leave<D: TxQueue>(&mut self, queue: &Queue<D>, inside: Inside<'_, Owned<D>>, packets: u64) {
        self.used = self.used.saturating_add(u32::try_from(packets).unwrap_or(u32::MAX));
        if let Err(turn) = inside.exit() {
            self.lost();
            if let Some(turn) = turn {
                let _ = queue.runner.leave(turn, "direct", false);
            }
        }
    }

    /// Sends a packet without the bias: in the turn that the end of the bias gave, or as every
    /// thread does.
    #[inline(never)]
    fn send_without<D: TxQueue>(
        &mut self,
        queue: &Queue<D>,
        turn: Option<Turn<'_, Owned<D>>>,
        item: Listed<D::Frame>,
        detail: Option<&Detail>,
    ) -> Handed<D::Frame> {
        if let Some(turn) = turn {
            return queue.send_in_turn(turn, item, detail);
        }
        let handed = queue.send_item(item, detail);
        match handed {
            Handed::Done(Admitted::Sent) => self.held = self.is_due(1) && queue.runner.baton.bias(),
            _ => self.alone = 0,
        }
        handed
    }
}

impl<D: TxQueue> Owner<D> {
    /// Creates the owner of this queue. `None` if the queue has an owner already, if senders do not
    /// run it (`Drain::Worker`), or if the system has no membarrier(2), which only Linux has.
    #[must_use]
    pub fn new(queue: Arc<Queue<D>>) -> Option<Self> {
        if queue.runner.rules.drain != Drain::Caller
            || !can_bar()
            || queue.has_owner.swap(1, Ordering::AcqRel) == 1
        {
            return None;
        }
        Some(Self { queue, bias: Bias::default() })
    }

    /// Returns the queue that the owner sends by.
    #[must_use]
    pub const fn queue(&self) -> &Arc<Queue<D>> {
        &self.queue
    }

    /// True if the queue is biased to the owner, as far as the owner knows.
    #[must_use]
    pub const fn is_biased(&self) -> bool {
        self.bias.held
    }

    /// Sends as [`Queue::send`] does.
    #[inline(always)]
    pub fn send(&mut self, frame: D::Frame, meta: Meta) -> Handed<D::Frame> {
        self.send_with(frame, meta, None)
    }

    /// Sends as [`Queue::send_with`] does.
    #[inline(always)]
    pub fn send_with(
        &mut self,
        mut frame: D::Frame,
        meta: Meta,
        detail: Option<&Detail>,
    ) -> Handed<D::Frame> {
        let queue = &*self.queue;
        let mut turn = None;
        if self.bias.held {
            match queue.runner.baton.enter() {
                Ok(mut inside) => {
                    let sent = inside.with(|o| {
                        if o.is_listed() || (queue.runner.rules.poll.is_some() && o.timer == NEVER) {
                            return Err(frame);
                        }
                        o.path.send_direct(frame, &meta, &mut o.dev)?;
                        o.path.doorbell(&mut o.dev);
                        queue.runner.count(o, 1);
                        Ok(())
                    });
                    match sent {
                        Ok(()) => {
                            self.bias.leave(queue, inside, 1);
                            return Handed::Done(Admitted::Sent);
                        }
                        Err(back) => frame = back,
                    }
                    self.bias.given_up();
                    turn = inside.give_up();
                }
                Err(ordinary) => {
                    self.bias.lost();
                    turn = ordinary;
                }
            }
        }
        let item = Listed { frame, meta, asker: 0, ticket: Ticket::default() };
        self.bias.send_without(queue, turn, item, detail)
    }

    /// Sends as [`Queue::send_burst`] does.
    pub fn send_burst(
        &mut self,
        packets: &mut (impl Iterator<Item = (D::Frame, Meta)> + ?Sized),
    ) -> (u64, Option<(D::Frame, Meta)>) {
        let queue = &*self.queue;
        if self.bias.held {
            match queue.runner.baton.enter() {
                Ok(mut inside) => {
                    let (mut went, mut first) = (0, None);
                    let listed = inside.with(|o| {
                        if o.is_listed() {
                            return true;
                        }
                        (went, first) = o.send_directly(packets);
                        queue.runner.count(o, went);
                        false
                    });
                    if !listed && first.is_none() && queue.runner.rules.poll.is_none() {
                        self.bias.leave(queue, inside, went);
                        return (went, None);
                    }
                    self.bias.given_up();
                    return match inside.give_up() {
                        Some(turn) => queue.go_on(turn, went, first, packets),
                        None => queue.send_each(went, &mut first.into_iter().chain(packets)),
                    };
                }
                Err(turn) => {
                    self.bias.lost();
                    if let Some(turn) = turn {
                        return queue.go_on(turn, 0, None, packets);
                    }
                }
            }
        }
        let (went, refused) = queue.send_burst(packets);
        if refused.is_none() && self.bias.is_due(went) {
            self.bias.held = queue.runner.baton.bias();
        }
        (went, refused)
    }
}

impl<D: TxQueue> Drop for Owner<D> {
    fn drop(&mut self) {
        if self.bias.held
            && let Some(turn) = self.queue.runner.baton.step_out()
        {
            let _ = self.queue.runner.leave(turn, "owner gone", false);
        }
        self.queue.has_owner.swap(0, Ordering::AcqRel);
    }
}
