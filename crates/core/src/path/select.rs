//! The choice of a packet's transmit queue where nothing else has chosen one, in the order of the
//! reference (Linux `netdev_pick_tx`, Documentation/networking/scaling.rst).
//!
//! 1. A port with one queue has no choice.
//! 2. The queue that the sender's last packet took, so that a flow stays in order: unless the
//!    sender reports that nothing of it is in flight, or the queue is gone, or the choice is older
//!    than `RESELECT`.
//! 3. The queues that were set aside for the sender (XPS): for the queue that the packet came in
//!    by, else for the sender's processor. The flow hash selects one of several.
//! 4. The flow hash, within the queues of the packet's traffic class. A packet that came in by a
//!    queue goes out by the queue of that number, folded into the range.
//!
//! A selector is a value: any number of threads choose by the same one. Each sender keeps its own
//! memory ([`Cached`]).
//!
//! - I6: a sender whose choice is remembered changes its queue only in two cases: it reports that
//!   nothing of it is in flight, or the queues have changed, which the port handles
//!   (`crate::path::port`).

use core::fmt;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::base::queues::QueueSet;
use crate::base::time::{Instant, Nanos};
use crate::packet::meta::{Meta, Note};
use crate::sched::traffic::CLASSES_MAX;
use crate::sched::traffic::Range;
use crate::sched::traffic::TrafficClasses;

/// Time that a remembered choice holds, as in Linux 7 (`net.core.txq_reselection_ms`).
pub const RESELECT: Nanos = Nanos::from_millis(1000);

/// Queues set aside for senders: for each sender (a processor, a worker) and traffic class, a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Xps {
    classes: usize,
    lists: Vec<Box<[u16]>>,
}

impl Xps {
    /// Returns empty lists, for this many senders and traffic classes (at least 1 each, at most 65
    /// 536 senders).
    pub fn new(senders: usize, classes: usize) -> Self {
        let (senders, classes) = (senders.clamp(1, 1 << 16), classes.clamp(1, CLASSES_MAX));
        Self { classes, lists: alloc::vec![Box::default(); senders * classes] }
    }
    /// Sets the queues of a sender in a class; false if there is no such sender or class.
    pub fn set(&mut self, sender: usize, class: usize, queues: &[u16]) -> bool {
        let slot =
            if class < self.classes { self.lists.get_mut(sender * self.classes + class) } else { None };
        slot.map(|list| *list = queues.into()).is_some()
    }
    #[inline]
    fn queue(&self, sender: u32, class: usize, hash: u32) -> Option<u16> {
        if class >= self.classes {
            return None;
        }
        let list = self.lists.get(sender as usize * self.classes + class)?;
        match &**list {
            [] => None,
            [only] => Some(*only),
            several => several.get(scale(hash, several.len() as u64) as usize).copied(),
        }
    }
}

/// Returns a hash spread over `0..n`.
#[inline]
fn scale(hash: u32, n: u64) -> u64 {
    (u64::from(hash) * n) >> 32
}

/// Properties of a packet's sender that the choice depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// Its processor or worker, by which XPS chooses.
    pub worker: u32,
    /// The queue that the packet came in by, 0-based, if the packet is forwarded.
    pub came_by: Option<u16>,
    /// True if nothing of this sender is in flight, so that its queue may change (`ooo_okay`).
    pub idle: bool,
}

/// Memory of a sender (a socket, a connection) of its last choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cached {
    queue: Option<u16>,
    at: Instant,
    /// Value of `Selector::era` at the choice.
    era: u32,
    by_sender: bool,
}

/// Rules by which a port chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    queues: u16,
    classes: Option<TrafficClasses>,
    by_worker: Option<Xps>,
    by_arrival: Option<Xps>,
    /// Number of times that the queues of waiting packets were chosen anew: earlier remembered
    /// choices hold no more.
    era: u32,
}

/// Refusal of a choice that was made elsewhere; the packet goes to queue 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchQueue(pub u16);

impl fmt::Display for NoSuchQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the device has no queue {}", self.0)
    }
}

impl core::error::Error for NoSuchQueue {}

impl Selector {
    /// Returns a selector for this many queues, at least 1 and at most `QueueSet::QUEUES_MAX`.
    pub fn new(queues: u16) -> Self {
        let queues = queues.clamp(1, QueueSet::QUEUES_MAX);
        Self { queues, classes: None, by_worker: None, by_arrival: None, era: 0 }
    }
    /// Returns the number of queues.
    pub const fn queues(&self) -> u16 {
        self.queues
    }
    /// Returns the traffic classes, if the port has any.
    pub const fn classes(&self) -> Option<&TrafficClasses> {
        self.classes.as_ref()
    }
    /// Sets the traffic classes.
    pub fn set_classes(&mut self, classes: Option<TrafficClasses>) {
        self.classes = classes;
    }
    /// Changes the number of queues.
    pub fn set_queues(&mut self, queues: u16) {
        self.queues = queues.clamp(1, QueueSet::QUEUES_MAX);
    }
    /// Ends the choices that senders remember.
    pub(crate) const fn renew(&mut self) {
        self.era = self.era.wrapping_add(1);
    }
    /// Sets the queues by sender.
    pub fn set_xps(&mut self, by_worker: Option<Xps>) {
        self.by_worker = by_worker;
    }
    /// Sets the queues by the queue that a packet came in by.
    pub fn set_arrival_xps(&mut self, by_arrival: Option<Xps>) {
        self.by_arrival = by_arrival;
    }

    /// Returns a queue that was chosen elsewhere.
    ///
    /// # Errors [`NoSuchQueue`] if the queue does not exist.
    #[inline]
    pub const fn chosen(&self, queue: u16) -> Result<u16, NoSuchQueue> {
        if queue < self.queues { Ok(queue) } else { Err(NoSuchQueue(queue)) }
    }

    /// Chooses a queue, always below `queues`.
    #[inline]
    pub fn select(&self, m: &Meta, sender: &Sender, cached: Option<&mut Cached>, now: Instant) -> u16 {
        self.select_noted(m, sender, cached, now).0
    }

    /// Chooses a queue for a packet, and notes it in the metadata; `asked` is the queue that an
    /// action or the sender has chosen. The first queue stands for one that does not exist.
    #[inline]
    pub fn place(&self, m: &mut Meta, sender: &Sender, asked: Option<u16>) -> u16 {
        (m.queue, m.note) = match asked {
            Some(queue) => (self.chosen(queue).unwrap_or(0), Note::Asked),
            None => self.fresh_of_many(m, sender),
        };
        m.queue
    }

    /// Chooses a queue, and returns the basis of the choice.
    #[inline]
    pub(crate) fn select_noted(
        &self,
        m: &Meta,
        sender: &Sender,
        cached: Option<&mut Cached>,
        now: Instant,
    ) -> (u16, Note) {
        let Some(cached) = cached.filter(|_| self.queues > 1) else { return self.fresh_of_many(m, sender) };
        match cached.queue.filter(|q| *q < self.queues && cached.era == self.era) {
            Some(queue) if !sender.idle && now.saturating_since(cached.at) <= RESELECT => {
                (queue, if cached.by_sender { Note::BySender } else { Note::Hashed })
            }
            _ => {
                let (queue, note) = self.fresh(m, sender);
                let by_sender = note == Note::BySender;
                *cached = Cached { queue: Some(queue), at: now, era: self.era, by_sender };
                (queue, note)
            }
        }
    }

    /// Chooses without regard to the last choice, of any number of queues.
    #[inline]
    fn fresh_of_many(&self, m: &Meta, sender: &Sender) -> (u16, Note) {
        if self.queues == 1 { (0, Note::Hashed) } else { self.fresh(m, sender) }
    }

    /// Chooses without regard to the last choice.
    #[inline]
    fn fresh(&self, m: &Meta, sender: &Sender) -> (u16, Note) {
        let class = self.classes.as_ref().map_or(0, |c| c.class(m.priority));
        match (self.reserved(m.hash, class, sender), sender.came_by) {
            (Some(queue), _) => (queue, Note::BySender),
            (None, came_by @ Some(_)) => (self.hashed(m.hash, class, came_by), Note::BySender),
            (None, None) => (self.hashed(m.hash, class, None), Note::Hashed),
        }
    }

    /// Chooses anew for a packet that waited while the queues changed, so that it goes where the
    /// packets behind it will. A queue that was chosen by the hash is chosen by it again; otherwise
    /// the packet stays in its queue. Its sender is not known any more.
    pub(crate) fn select_again(&self, m: &Meta) -> (u16, Note) {
        let by_hash = || {
            let class = self.classes.as_ref().map_or(0, |c| c.class(m.priority));
            (self.hashed(m.hash, class, None), Note::Hashed)
        };
        match m.note {
            Note::Asked => (self.chosen(m.queue).unwrap_or(0), Note::Asked),
            Note::BySender if m.queue < self.queues => (m.queue, Note::BySender),
            _ => by_hash(),
        }
    }

    #[inline]
    fn reserved(&self, hash: u32, class: usize, sender: &Sender) -> Option<u16> {
        let by_arrival = match (&self.by_arrival, sender.came_by) {
            (Some(xps), Some(queue)) => xps.queue(u32::from(queue), class, hash),
            _ => None,
        };
        let by_worker = || self.by_worker.as_ref().and_then(|xps| xps.queue(sender.worker, class, hash));
        by_arrival.or_else(by_worker).filter(|q| *q < self.queues)
    }

    #[inline]
    fn hashed(&self, hash: u32, class: usize, came_by: Option<u16>) -> u16 {
        let all = Range { count: self.queues, offset: 0 };
        let range = self.classes.as_ref().and_then(|c| c.ranges().get(class)).copied().unwrap_or(all);
        // A class whose queues are gone uses all queues.
        let fits = range.count > 0 && range.offset < self.queues;
        let range = if fits { range } else { all };
        let count = range.count.min(self.queues - range.offset);
        let within = match came_by {
            Some(queue) => queue.checked_sub(range.offset).unwrap_or(queue) % count,
            // Below `count`.
            None => scale(hash, u64::from(count)) as u16,
        };
        range.offset + within
    }
}
