//! `Queue`: one transmit queue that any number of threads send by. A thread that finds the queue
//! idle sends directly or runs it. A thread that finds another thread there leaves the packet in
//! the admission list and goes on.
//!
//! The threads share one word ([`Baton`]): whether a thread has the queue, and flags for that
//! holder. A sender appends the packet first and sets the flag afterwards, and no thread can put
//! the queue down past a flag. So whenever a packet is in the list, a thread is about to come for
//! it: its sender on the way to the flag, or the holder of the queue, or (`WORK` set and no holder)
//! the service, which has been woken.
//!
//! A later event has a thread as well: the owner of the device calls [`kick`](Queue::kick) after
//! the device has finished a packet, and the service waits for a time
//! ([`deadline`](Status::deadline)).
//!
//! - H1: no packet is in the list or in the path, with the queue free to transmit, and no thread
//!   about to come for it.
//! - H2: the packets of one sender and one flow leave admission in the order in which they were
//!   sent, directly or through the list.
//! - H3: a sender that was told `Full` and has asked for it is woken once there is room.
//! - H4: a packet of the list whose flow has its part of the room holds up no packet of a flow in
//!   another row, until as many packets wait apart as the list has places.
//! - H5: a flow whose row has no packet in the last quarter of the list finds a place while there
//!   is one, and a row with more than an eighth of the free places takes none.

#[cfg(not(loom))]
mod close;
mod control;
mod hold;
mod owner;
mod run;
mod send;
mod sending;
mod status;

use std::fmt;
use std::sync::Arc;

use txweir_core::path::device::TxQueue;
use txweir_core::path::txpath::BULK;
use txweir_core::{Admitted, Detail, Instant, Nanos, TxPath};

use crate::aside::Rows;
use crate::baton::Flags;
use crate::list::{Append, shared_list};
use crate::listed::{Answer, Askers, Listed};
use crate::owned::{Cutter, Owned};
use crate::sync::{AtomicU32, Ordering};
use crate::wake::Wakeup;

#[cfg(not(loom))]
pub use close::QueueParts;
pub use control::Control;
pub use owner::Owner;
use run::Runner;
pub use sending::Sending;
pub use status::{Counts, Status};

/// The list has a packet, or a run has left one over.
const WORK: Flags = Flags::of(0);
/// The device has finished something.
const KICK: Flags = Flags::of(1);
/// Commands wait.
const COMMAND: Flags = Flags::of(2);
/// A thread wants to read fresh numbers.
const LOOK: Flags = Flags::of(3);
/// A sender waits for room, or will have to: the list has used its last place but one.
const WAITING: Flags = Flags::of(4);
/// The flags that a run answers.
const CALLS: Flags = WORK.and(KICK).and(COMMAND).and(LOOK);

/// No time.
const NEVER: u64 = u64::MAX;

/// The thread that runs a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drain {
    /// The sender, where no other thread has the queue; the service handles the rest and the times.
    #[default]
    Caller,
    /// The service alone: senders append and go on.
    Worker,
}

/// The parameters of a queue.
pub struct QueueConfig<F> {
    /// Places of the admission list, rounded up to a power of two. Of 64 and more places, the last
    /// quarter is divided among the flows: heavy ones leave room there for sparse ones. As many
    /// packets whose flows have no room in the path may wait beside the list.
    pub list: usize,
    /// Room for a [`Detail`] beside each listed packet: needed where the tree wants it
    /// (`TxPath::wants_detail`).
    pub details: bool,
    /// The thread that runs the queue.
    pub drain: Drain,
    /// Most packets that one turn takes from the list, and then from the path, before another
    /// thread is told to go on.
    pub budget: u32,
    /// The clock. Each run reads it once; direct dispatch does not. It must not go back, as the
    /// system's real-time clock may. The queue's time stands still until a clock that has gone
    /// back has caught up: a packet that waits for its time waits longer by that step, and by no
    /// more.
    pub clock: fn() -> Instant,
    /// Time after which a device is asked for completions that does not tell by itself; `None`: its
    /// owner calls [`Queue::kick`].
    pub poll: Option<Nanos>,
    /// Takes the frames that the device gives back.
    pub done: Box<dyn FnMut(F) + Send>,
    /// Cuts a super-packet that a shaper takes only in pieces, whichever thread takes it: its
    /// sender is told `Queued`, and counters have the fate of the pieces. Without a cutter the
    /// super-packet comes back to a sender that has the queue (`Admitted::Cut`), and a listed one
    /// is dropped.
    pub cut: Option<Cutter<F>>,
    /// Most packets between two publications of the numbers.
    pub publish: u64,
}

impl<F: 'static> QueueConfig<F> {
    /// Defaults: a list of 1024, the sender drains, budget 64, back-pressure, frames that come back
    /// are dropped.
    pub fn new(clock: fn() -> Instant) -> Self {
        Self {
            list: 1024,
            details: false,
            drain: Drain::Caller,
            budget: BULK,
            clock,
            poll: None,
            done: Box::new(drop),
            cut: None,
            publish: BULK as u64,
        }
    }
}

/// The parameters of a queue that its runner follows.
#[derive(Clone, Copy, Debug)]
struct Rules {
    drain: Drain,
    budget: u32,
    clock: fn() -> Instant,
    poll: Option<Nanos>,
    publish: u64,
}

impl Rules {
    fn of<F>(config: &QueueConfig<F>) -> Self {
        let QueueConfig { drain, clock, poll, .. } = *config;
        Self { drain, budget: config.budget.max(1), clock, poll, publish: config.publish.max(1) }
    }
}

impl<F> fmt::Debug for QueueConfig<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueConfig")
            .field("list", &self.list)
            .field("drain", &self.drain)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// The fate of a packet.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Handed<F> {
    /// This thread had the queue, so it knows the fate.
    Done(Admitted<F>),
    /// Another thread has the queue and takes the packet from the admission list.
    Listed,
}

/// The event after which a queue is to be served again.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// A sender sends.
    Idle,
    /// The device finishes a packet.
    Device,
    /// This time.
    At(Instant),
    /// None: the budget is spent, and the queue is to be served at once.
    Again,
    /// None: another thread has the queue.
    Elsewhere,
}

/// One transmit queue that any number of threads send by.
pub struct Queue<D: TxQueue> {
    runner: Runner<D>,
    list: Append<Listed<D::Frame>, Detail>,
    /// The rows of which listed packets wait for room.
    rows: Rows,
    askers: Askers<D::Frame>,
    /// The number of the last asker.
    last_asker: AtomicU32,
    /// 1 while the queue has an owner.
    has_owner: AtomicU32,
}

impl<D: TxQueue> fmt::Debug for Queue<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("runner", &self.runner).finish_non_exhaustive()
    }
}

impl<D: TxQueue> Queue<D> {
    /// Creates a queue from its path and its device. `service` tells the thread that calls
    /// [`serve`](Self::serve) to do so.
    ///
    /// The end of the queue gives back the frames that wait: the device's `discard` gets each.
    pub fn new(path: TxPath<D::Frame>, dev: D, config: QueueConfig<D::Frame>, service: Wakeup) -> Self {
        let (append, take) = shared_list(config.list, config.details);
        let askers = Askers::default();
        let rules = Rules::of(&config);
        let QueueConfig { done, cut, .. } = config;
        let rows = Rows::default();
        let owned =
            Owned::new(path, dev, (take, Arc::clone(&rows)), Arc::clone(&askers), done, cut, service.clone());
        Self {
            runner: Runner::new(owned, rules, service),
            list: append,
            rows,
            askers,
            last_asker: AtomicU32::new(0),
            has_owner: AtomicU32::new(0),
        }
    }

    /// Returns the wakeup that [`kick`](Self::kick)s this queue, for the device's owner. It keeps
    /// no queue alive: a device that has it and belongs to the queue closes no ring of references.
    #[must_use]
    pub fn kicker(self: &Arc<Self>) -> Wakeup
    where
        D: Send + 'static,
        D::Frame: Send + 'static,
    {
        let queue = Arc::downgrade(self);
        Wakeup::calling(move || {
            if let Some(queue) = queue.upgrade() {
                queue.kick();
            }
        })
    }

    /// Says that the device has finished a packet, or takes packets again. Any thread that sees it
    /// may call this.
    #[inline]
    pub fn kick(&self) {
        let _ = self.runner.call(KICK, "kick");
    }

    /// Runs the queue, for the thread that waits for its times and was told to come. It does not
    /// wait for another thread's turn; that thread tells of the rest.
    pub fn serve(&self) -> Rest {
        match self.runner.baton.knock(WORK) {
            Some(turn) => self.runner.run(turn, "service", true),
            None => Rest::Elsewhere,
        }
    }

    /// Returns the operations on the queue's parts: commands, other qdiscs, a freeze.
    pub const fn control(&self) -> Control<'_, D> {
        Control::new(self)
    }

    /// Returns the state of the queue, to look at: numbers, times, calls.
    pub const fn status(&self) -> Status<'_, D> {
        Status::new(self)
    }

    /// Has `wakeup` called once there is room, for a sender that was told `Full`. Senders are
    /// called in the order in which they asked, one for each packet that has left the queue. A call
    /// too many is possible, a call too few is not: while no packet waits, the service has 64
    /// senders called at a time, until a packet waits or no sender does. A sender that asks again
    /// before the call is told once, in its first place. The cost does not depend on the number of
    /// senders that wait.
    pub fn when_room(&self, wakeup: Wakeup) {
        self.runner.add_waiter(wakeup, None);
        self.look_for_room();
    }

    /// Does the same for a sender of one flow; `flow` is the hash of its packets (`Meta::hash`).
    /// Every other packet that leaves makes room for the first sender of its own flow, if one
    /// waits. The packets between, and those of flows of which no sender waits, make room for the
    /// first of all. So where each flow has a part of the room, fewer senders are called in vain,
    /// and none waits behind others without an end.
    pub fn when_room_for(&self, flow: u32, wakeup: Wakeup) {
        self.runner.add_waiter(wakeup, Some(flow));
        self.look_for_room();
    }

    /// Tells the holder of the queue that a sender waits. Without a holder, this call looks whether
    /// there is room by now.
    fn look_for_room(&self) {
        let _ = self.runner.call(WAITING.and(WORK), "waiting");
    }

    /// Adds a sender that asks for the fate of its packets; its answers go to `mail`. Returns its
    /// number.
    pub(crate) fn add_asker(&self, mail: Append<Answer<D::Frame>>) -> u32 {
        // 0 is no asker; four billion askers later the first number is used again.
        let id = self.last_asker.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        if let Ok(mut askers) = self.askers.lock() {
            askers.insert(id, mail);
        }
        id
    }

    pub(crate) fn remove_asker(&self, id: u32) {
        if let Ok(mut askers) = self.askers.lock() {
            askers.remove(&id);
        }
    }

    /// True if the tree wants to know more of packets than their metadata: see
    /// [`send_with`](Self::send_with). It follows each change of the tree by
    /// [`control`](Self::control), from the end of that operation on.
    pub fn wants_detail(&self) -> bool {
        self.runner.details.load(Ordering::Relaxed) != 0
    }
}
