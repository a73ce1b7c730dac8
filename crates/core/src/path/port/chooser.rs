//! `Chooser`: the choice of a packet's queue ahead of the paths of a port, by the [`Selector`] or
//! by the packet's sender.

use crate::base::time::Instant;
use crate::packet::meta::{Meta, Note};
use crate::path::select::{Cached, NoSuchQueue, Selector, Sender};

/// Way to find a packet's queue.
#[derive(Debug)]
pub enum Choice<'a> {
    /// The queue was chosen elsewhere, by an action or by the sender.
    Queue(u16),
    /// The port chooses by the sender, and by the last choice that the sender remembers.
    By(&'a Sender, Option<&'a mut Cached>),
    /// The queue was chosen by [`Chooser::choose_for`], which has noted it in the metadata.
    Made,
}

crate::stats! {
    /// Counters of a port.
    pub struct PortStats {
        /// Packets whose queue was chosen, by the port or elsewhere.
        chosen: u64,
        /// Packets whose chosen queue did not exist; they went to the first.
        no_such_queue: u64,
        /// Times the queues were changed under load.
        reshaped: u64,
        /// Packets that waited during such a change, and whose queue was chosen anew.
        moved: u64,
    }
}

/// The rules by which a port chooses a queue, and their counters.
#[derive(Debug)]
pub struct Chooser {
    pub(super) selector: Selector,
    pub(super) stats: PortStats,
}

impl Chooser {
    pub(super) fn new(queues: u16) -> Self {
        Self { selector: Selector::new(queues), stats: PortStats::default() }
    }
    /// Returns the rules by which a queue is chosen.
    pub const fn selector(&self) -> &Selector {
        &self.selector
    }
    /// Returns the same, to set which queues each sender may use. Only mqprio sets its traffic
    /// classes.
    pub const fn selector_mut(&mut self) -> &mut Selector {
        &mut self.selector
    }
    /// Returns the counters of the port.
    pub const fn stats(&self) -> &PortStats {
        &self.stats
    }

    /// Returns the queue that a packet goes to.
    #[inline]
    pub fn choose(&mut self, m: &Meta, choice: Choice<'_>, now: Instant) -> u16 {
        self.choose_noted(m, choice, now).0
    }

    /// Chooses a queue ahead of `Port::send`, for a caller that needs it earlier, and notes it in
    /// the metadata. The packet is then sent with [`Choice::Made`].
    #[inline]
    pub fn choose_for(&mut self, m: &mut Meta, choice: Choice<'_>, now: Instant) -> u16 {
        (m.queue, m.note) = self.choose_noted(m, choice, now);
        m.queue
    }

    /// Returns the queue and the basis of its choice.
    #[inline(always)]
    pub(super) fn choose_noted(&mut self, m: &Meta, choice: Choice<'_>, now: Instant) -> (u16, Note) {
        match choice {
            Choice::By(sender, cached) => {
                self.stats.chosen += 1;
                self.selector.select_noted(m, sender, cached, now)
            }
            Choice::Queue(queue) => {
                self.stats.chosen += 1;
                (self.existing(queue), Note::Asked)
            }
            Choice::Made => (self.existing(m.queue), m.note),
        }
    }

    /// Returns the queue, or the first if the queue does not exist.
    #[inline]
    pub(super) fn existing(&mut self, queue: u16) -> u16 {
        match self.selector.chosen(queue) {
            Ok(queue) => queue,
            Err(NoSuchQueue(_)) => {
                self.stats.no_such_queue += 1;
                0
            }
        }
    }

    /// Chooses anew for a packet that waited while the queues changed, in a path or ahead of it, so
    /// that it goes where the packets of its flow behind it will. Notes the queue in the metadata.
    pub fn choose_again(&mut self, m: &mut Meta) -> u16 {
        self.stats.moved += 1;
        (m.queue, m.note) = self.selector.select_again(m);
        m.queue
    }
}
