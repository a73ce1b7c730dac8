//! `Owner`: a sender for whom the queue is as good as its own while nobody else wants it, and is everybody's as soon as somebody
//! does.

use std::sync::Arc;

use txweir_core::path::device::TxQueue;
use txweir_core::{Admitted, Detail, Meta};

use crate::baton::{Inside, Turn};
use crate::listed::{Listed, Ticket};
use crate::owned::Owned;
use crate::queue::{Drain, Handed, NEVER, Queue};
use crate::sync::{Ordering, can_bar};

/// Packets that the owner sends without meeting anybody before it is biased again, after the bias was taken away; twice as many
/// with each time that it is taken away sooner than that. Taking it away costs the other side a membarrier(2), as much as the
/// bias saves on some hundred packets.
const PATIENCE_MIN: u32 = 1 << 10;
/// And at most.
const PATIENCE_MAX: u32 = 1 << 20;

/// A sender to which the queue is biased: its packets go directly without an atomic exchange, as long as no other thread comes
/// near the queue. Others may, at any time and by every means that they have otherwise; the first of them takes the bias away,
/// and the owner then sends as everybody does, until it has been alone for a while.
///
/// One to a queue. Letting it fall ends the bias.
#[derive(Debug)]
pub struct Owner<D: TxQueue> {
    queue: Arc<Queue<D>>,
    bias: Bias,
}

/// What the owner knows of its bias.
#[derive(Debug, Default)]
struct Bias {
    /// It is there, or somebody has taken it away and this has not been seen yet.
    held: bool,
    /// Packets sent by it since it was last given.
    used: u32,
    /// Packets sent without meeting anybody since it was last taken away.
    alone: u32,
    /// How many of these it takes until it is given again.
    patience: u32,
}

impl Bias {
    /// Somebody has taken it away.
    #[cold]
    fn lost(&mut self) {
        let soon = self.used < self.patience;
        self.patience = if soon { (2 * self.patience).min(PATIENCE_MAX) } else { PATIENCE_MIN };
        (self.held, self.used, self.alone) = (false, 0, 0);
    }

    /// It was given up for a packet that does not go directly; the next that does, with nobody else there, brings it back.
    fn given_up(&mut self) {
        (self.held, self.alone) = (false, self.patience);
    }

    /// So many packets went without it, having met nobody; whether it is due.
    fn is_due(&mut self, packets: u64) -> bool {
        self.alone = self.alone.saturating_add(u32::try_from(packets).unwrap_or(u32::MAX));
        self.alone > self.patience
    }
}

impl<D: TxQueue> Owner<D> {
    /// The owner of this queue. `None` if there is one already, if senders do not run the queue (`Drain::Worker`), or if the
    /// system has no membarrier(2).
    #[must_use]
    pub fn new(queue: Arc<Queue<D>>) -> Option<Self> {
        if queue.drain != Drain::Caller || !can_bar() || queue.has_owner.swap(1, Ordering::AcqRel) == 1 {
            return None;
        }
        Some(Self { queue, bias: Bias::default() })
    }

    /// The queue that it sends by.
    #[must_use]
    pub const fn queue(&self) -> &Arc<Queue<D>> {
        &self.queue
    }

    /// Whether the queue is biased to it, as far as it knows.
    #[must_use]
    pub const fn is_biased(&self) -> bool {
        self.bias.held
    }

    /// As [`Queue::send`].
    #[inline(always)]
    pub fn send(&mut self, frame: D::Frame, meta: Meta) -> Handed<D::Frame> {
        self.send_with(frame, meta, None)
    }

    /// As [`Queue::send_with`].
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
            match queue.baton.enter() {
                Ok(mut inside) => {
                    let sent = inside.with(|o| {
                        if o.is_listed() || (queue.poll.is_some() && o.timer == NEVER) {
                            return Err(frame);
                        }
                        o.path.send_direct(frame, &meta, &mut o.dev)?;
                        o.path.doorbell(&mut o.dev);
                        queue.count(o, 1);
                        Ok(())
                    });
                    match sent {
                        Ok(()) => {
                            queue.leave_inside(inside, 1, &mut self.bias);
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
        queue.send_unbiased(
            &mut self.bias,
            turn,
            Listed { frame, meta, asker: 0, ticket: Ticket::default() },
            detail,
        )
    }

    /// As [`Queue::send_burst`].
    pub fn send_burst(
        &mut self,
        packets: &mut (impl Iterator<Item = (D::Frame, Meta)> + ?Sized),
    ) -> (u64, Option<(D::Frame, Meta)>) {
        let queue = &*self.queue;
        if self.bias.held {
            match queue.baton.enter() {
                Ok(mut inside) => {
                    let (mut went, mut first) = (0, None);
                    let listed = inside.with(|o| {
                        if o.is_listed() {
                            return true;
                        }
                        (went, first) = o.send_directly(packets);
                        queue.count(o, went);
                        false
                    });
                    if !listed && first.is_none() && queue.poll.is_none() {
                        queue.leave_inside(inside, went, &mut self.bias);
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
            self.bias.held = queue.baton.bias();
        }
        (went, refused)
    }
}

impl<D: TxQueue> Queue<D> {
    /// Ends a turn by the bias in which so many packets went.
    #[inline(always)]
    fn leave_inside(&self, inside: Inside<'_, Owned<D>>, packets: u64, bias: &mut Bias) {
        bias.used = bias.used.saturating_add(u32::try_from(packets).unwrap_or(u32::MAX));
        if let Err(turn) = inside.exit() {
            bias.lost();
            if let Some(turn) = turn {
                let _ = self.leave(turn, "direct", false);
            }
        }
    }

    /// The way of a packet without the bias: in the turn that came of that, or as everybody's.
    #[inline(never)]
    fn send_unbiased(
        &self,
        bias: &mut Bias,
        turn: Option<Turn<'_, Owned<D>>>,
        item: Listed<D::Frame>,
        detail: Option<&Detail>,
    ) -> Handed<D::Frame> {
        if let Some(turn) = turn {
            return self.send_in_turn(turn, item, detail);
        }
        let handed = self.send_item(item, detail);
        match handed {
            Handed::Done(Admitted::Sent) => bias.held = bias.is_due(1) && self.baton.bias(),
            _ => bias.alone = 0,
        }
        handed
    }
}

impl<D: TxQueue> Drop for Owner<D> {
    fn drop(&mut self) {
        if self.bias.held
            && let Some(turn) = self.queue.baton.step_out()
        {
            let _ = self.queue.leave(turn, "owner gone", false);
        }
        self.queue.has_owner.swap(0, Ordering::AcqRel);
    }
}
