//! `Tracked`: a sender that learns the fate of each of its packets, also of those that another
//! thread takes from the list.

use std::sync::Arc;

use txweir_core::path::device::TxQueue;
use txweir_core::{Admitted, Detail, Meta};

use crate::list::{Take, list};
use crate::listed::{Answer, Listed, Ticket};
use crate::queue::{Handed, Queue};

/// A sender that asks for the fate of its packets. Where it has the queue itself, the answer is
/// immediate. Where another thread takes the packet, that thread puts the answer into a list that
/// only this sender reads.
///
/// A packet that finds no room comes back: from [`send`](Self::send), or with its answer.
pub struct Tracked<D: TxQueue> {
    queue: Arc<Queue<D>>,
    mail: Take<Answer<D::Frame>>,
    id: u32,
    next: u64,
    /// Answers that are still to come, or to be read.
    outstanding: usize,
    places: usize,
}

impl<D: TxQueue> std::fmt::Debug for Tracked<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracked")
            .field("id", &self.id)
            .field("outstanding", &self.outstanding)
            .finish_non_exhaustive()
    }
}

impl<D: TxQueue> Tracked<D> {
    /// Creates a sender on this queue with room for `answers` unread answers, at least 2.
    pub fn new(queue: Arc<Queue<D>>, answers: usize) -> Self {
        let (post, mail) = list(answers, false);
        let places = post.places();
        let id = queue.add_asker(post);
        Self { queue, mail, id, next: 0, outstanding: 0, places }
    }

    /// Sends a packet. Returns its ticket, and its fate as far as it is known now. `Listed` has an
    /// answer later, under the same ticket.
    ///
    /// While the unread answers fill their list, the packet comes back as `Full`.
    pub fn send(&mut self, frame: D::Frame, meta: Meta) -> (Ticket, Handed<D::Frame>) {
        self.send_with(frame, meta, None)
    }

    /// Sends as `send` does, with facts about the packet beside its metadata.
    pub fn send_with(
        &mut self,
        frame: D::Frame,
        meta: Meta,
        detail: Option<&Detail>,
    ) -> (Ticket, Handed<D::Frame>) {
        self.next += 1;
        let ticket = Ticket(self.next);
        if self.outstanding >= self.places {
            return (ticket, Handed::Done(Admitted::Full(frame)));
        }
        let handed = self.queue.send_item(Listed { frame, meta, asker: self.id, ticket }, detail);
        if matches!(handed, Handed::Listed) {
            self.outstanding += 1;
        }
        (ticket, handed)
    }

    /// Takes the next answer that is there, in the order of sending.
    pub fn answer(&mut self) -> Option<Answer<D::Frame>> {
        let (answer, _) = self.mail.pop(&mut ())?;
        self.outstanding -= 1;
        Some(answer)
    }

    /// Returns the packets whose answer has not been read.
    #[must_use]
    pub const fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Returns the queue that the sender sends by.
    #[must_use]
    pub const fn queue(&self) -> &Arc<Queue<D>> {
        &self.queue
    }
}

impl<D: TxQueue> Drop for Tracked<D> {
    fn drop(&mut self) {
        self.queue.remove_asker(self.id);
    }
}
