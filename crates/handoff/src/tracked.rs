//! `Tracked`: a sender that learns what becomes of each of its packets, also of those that another thread takes from the list.

use std::sync::Arc;

use txweir_core::path::device::TxQueue;
use txweir_core::{Admitted, Detail, Meta};

use crate::list::{Take, list};
use crate::listed::{Answer, Listed, Ticket};
use crate::queue::{Handed, Queue};

/// A sender that asks. Where it has the queue itself, the answer is immediate; where another thread takes the packet, the answer
/// is put into a list of this sender's own, which nobody else reads.
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
    /// A sender on this queue with room for so many answers that have not been read, at least 2.
    pub fn new(queue: Arc<Queue<D>>, answers: usize) -> Self {
        let (post, mail) = list(answers, false);
        let places = post.places();
        let id = queue.add_asker(post);
        Self { queue, mail, id, next: 0, outstanding: 0, places }
    }

    /// Sends a packet; its ticket, and what is known of it now. `Listed` has an answer later, under the same ticket.
    ///
    /// With as many answers unread as there is room for, the packet comes back as `Full`.
    pub fn send(&mut self, frame: D::Frame, meta: Meta) -> (Ticket, Handed<D::Frame>) {
        self.send_with(frame, meta, None)
    }

    /// As `send`, with what is known of the packet beside its metadata.
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

    /// The next answer that is there, in the order of sending.
    pub fn answer(&mut self) -> Option<Answer<D::Frame>> {
        let (answer, _) = self.mail.pop(&mut ())?;
        self.outstanding -= 1;
        Some(answer)
    }

    /// Packets whose answer has not been read.
    #[must_use]
    pub const fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The queue that it sends by.
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
