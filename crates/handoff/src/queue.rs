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
//! ([`deadline`](Queue::deadline)).
//!
//! - H1: no packet is in the list or in the path, with the queue free to transmit, and no thread
//!   about to come for it.
//! - H2: the packets of one sender leave admission in the order in which they were sent, directly
//!   or through the list.
//! - H3: a sender that was told `Full` and has asked for it is woken once there is room.

mod owner;
mod run;
mod send;

use std::fmt;
use std::sync::Arc;

use txweir_core::path::device::TxQueue;
use txweir_core::path::txpath::{BULK, PathStats};
use txweir_core::text::stats::Counters;
use txweir_core::{Admitted, Detail, Instant, Nanos, Tree, TxPath};
use txweir_core::{base::tally::Tally, sched::cx::Cx};

use crate::baton::{Baton, Flags};
use crate::list::{Append, list};
use crate::listed::{Answer, Askers, Listed};
use crate::owned::{Cutter, HandoffStats, Owned, WORDS};
use crate::snapshot::Published;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use crate::wake::Wakeup;

pub use owner::Owner;

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

/// A command for the holder of the queue.
type Command<D> = Box<dyn FnOnce(&mut Owned<D>) + Send>;

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
    /// Places of the admission list, rounded up to a power of two.
    pub list: usize,
    /// Room for a [`Detail`] beside each listed packet: needed where the tree wants it
    /// (`TxPath::wants_detail`).
    pub details: bool,
    /// The thread that runs the queue.
    pub drain: Drain,
    /// Most packets that one turn takes from the list, and then from the path, before another
    /// thread is told to go on.
    pub budget: u32,
    /// The clock. Each run reads it once; direct dispatch does not.
    pub clock: fn() -> Instant,
    /// Time after which a device is asked for completions that does not tell by itself; `None`: its
    /// owner calls [`Queue::kick`].
    pub poll: Option<Nanos>,
    /// Takes the frames that the device gives back.
    pub done: Box<dyn FnMut(F) + Send>,
    /// Cuts a listed super-packet that a shaper takes only in pieces; without a cutter, the packet
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

/// Numbers of a queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of its path.
    pub path: PathStats,
    /// Of the hand-over between threads.
    pub handoff: HandoffStats,
    /// The packets and bytes that wait in its qdiscs.
    pub backlog: Tally,
}

/// One transmit queue that any number of threads send by.
pub struct Queue<D: TxQueue> {
    baton: Baton<Owned<D>>,
    list: Append<Listed<D::Frame>, Detail>,
    drain: Drain,
    budget: u32,
    clock: fn() -> Instant,
    poll: Option<Nanos>,
    publish: u64,
    /// The time at which the service is to come, in nanoseconds.
    timer: AtomicU64,
    /// Tells the service to come.
    service: Wakeup,
    waiters: Mutex<Vec<Wakeup>>,
    commands: Mutex<Vec<Command<D>>>,
    askers: Askers<D::Frame>,
    /// The number of the last asker.
    last_asker: AtomicU32,
    published: Published<WORDS>,
    /// 1 while the queue has an owner.
    has_owner: AtomicU32,
    /// 1 while the tree wants to know more of packets than their metadata.
    details: Arc<AtomicU32>,
}

impl<D: TxQueue> fmt::Debug for Queue<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("baton", &self.baton)
            .field("drain", &self.drain)
            .finish_non_exhaustive()
    }
}

impl<D: TxQueue> Queue<D> {
    /// Creates a queue from its path and its device. `service` tells the thread that calls
    /// [`serve`](Self::serve) to do so.
    pub fn new(path: TxPath<D::Frame>, dev: D, config: QueueConfig<D::Frame>, service: Wakeup) -> Self {
        let (append, take) = list(config.list, config.details);
        let QueueConfig { drain, budget, clock, poll, publish, done, cut, .. } = config;
        let askers = Askers::default();
        let details = u32::from(path.wants_detail());
        let owned = Owned::new(path, dev, take, Arc::clone(&askers), done, cut);
        Self {
            baton: Baton::new(owned),
            list: append,
            drain,
            budget: budget.max(1),
            clock,
            poll,
            publish: publish.max(1),
            timer: AtomicU64::new(NEVER),
            service,
            waiters: Mutex::new(Vec::new()),
            commands: Mutex::new(Vec::new()),
            askers,
            last_asker: AtomicU32::new(0),
            published: Published::default(),
            has_owner: AtomicU32::new(0),
            details: Arc::new(AtomicU32::new(details)),
        }
    }

    /// Sets flags, and runs the queue if no other thread has it and the queue is not the service's
    /// alone.
    fn call(&self, flags: Flags, why: &'static str) -> Rest {
        if self.drain == Drain::Worker {
            if self.baton.flag(flags) {
                self.service.wake();
            }
            return Rest::Elsewhere;
        }
        match self.baton.knock(flags) {
            Some(turn) => self.run(turn, why, false),
            None => Rest::Elsewhere,
        }
    }

    /// Says that the device has finished a packet, or takes packets again. Any thread that sees it
    /// may call this.
    #[inline]
    pub fn kick(&self) {
        let _ = self.call(KICK, "kick");
    }

    /// Runs the queue, for the thread that waits for its times and was told to come. It does not
    /// wait for another thread's turn; that thread tells of the rest.
    pub fn serve(&self) -> Rest {
        match self.baton.knock(WORK) {
            Some(turn) => self.run(turn, "service", true),
            None => Rest::Elsewhere,
        }
    }

    /// Returns the time at which the service is to call [`serve`](Self::serve), unless a thread
    /// tells it before.
    pub fn deadline(&self) -> Option<Instant> {
        match self.timer.load(Ordering::Acquire) {
            NEVER => None,
            at => Some(Instant(at)),
        }
    }

    /// Has `wakeup` called once there is room, for a sender that was told `Full`. A call too many
    /// is possible, a call too few is not. A sender that asks again before the call is told once.
    pub fn when_room(&self, wakeup: Wakeup) {
        if let Ok(mut waiters) = self.waiters.lock()
            && !waiters.iter().any(|waits| waits.is_same(&wakeup))
        {
            waiters.push(wakeup);
        }
        // The holder of the queue then sees that a sender waits. Without a holder, this call looks
        // whether there is room by now.
        let _ = self.call(WAITING.and(WORK), "waiting");
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

    /// True if senders are being refused, or would be before long.
    pub fn is_stopped(&self) -> bool {
        self.baton.flags().has(WAITING)
    }

    /// Has `f` called with the queue's parts between two bursts, by this thread or by the holder of
    /// the queue.
    pub fn post(&self, f: impl FnOnce(&mut Owned<D>) + Send + 'static) {
        if let Ok(mut commands) = self.commands.lock() {
            commands.push(Box::new(f));
        }
        let _ = self.call(COMMAND, "command");
    }

    /// Keeps packets from the device until [`thaw`](Self::thaw): they wait in the qdiscs, or find
    /// no room. Completions are still taken. `frozen` is called as soon as no thread is sending and
    /// none will; at once, if no thread has the queue. Each freeze needs a thaw of its own.
    pub fn freeze(&self, frozen: impl FnOnce() + Send + 'static) {
        self.post(|o| {
            o.freeze();
            frozen();
        });
    }

    /// Ends one [`freeze`](Self::freeze), and runs the queue.
    pub fn thaw(&self) {
        self.post(|o| o.thaw());
    }

    /// Changes the qdiscs between two bursts, by this thread or the holder of the queue, and runs
    /// the queue. `f` gets the tree and the context of its operations. Its result is handed to
    /// `done`, by the same thread.
    pub fn configure<R: 'static>(
        &self,
        f: impl FnOnce(&mut Tree, &mut Cx) -> R + Send + 'static,
        done: impl FnOnce(R) + Send + 'static,
    ) {
        let details = Arc::clone(&self.details);
        self.post(move |o| {
            done(o.path.configure(o.now, &mut o.dev, f));
            details.store(u32::from(o.path.wants_detail()), Ordering::Relaxed);
        });
    }

    /// True if the tree wants to know more of packets than their metadata: see
    /// [`send_with`](Self::send_with).
    pub fn wants_detail(&self) -> bool {
        self.details.load(Ordering::Relaxed) != 0
    }

    /// Returns the queue's numbers, all of one moment; at most `QueueConfig::publish` packets and
    /// one turn old. It never waits: it looks at an idle queue, and reads the last publication of a
    /// busy one.
    #[must_use]
    pub fn counts(&self) -> Counts {
        if let Some(turn) = self.baton.knock(LOOK) {
            let _ = self.leave(turn, "look", false);
        }
        let words = self.published.read().map_or([0; WORDS], |(words, _)| words);
        let mut words = words.into_iter();
        let mut next = || words.next().unwrap_or(0);
        Counts {
            path: PathStats::read(&mut next),
            handoff: HandoffStats::read(&mut next),
            backlog: Tally { packets: next(), bytes: next() },
        }
    }

    /// Calls `f` with the queue's parts if no thread has the queue, and runs it afterwards.
    pub fn try_with<R>(&self, f: impl FnOnce(&mut Owned<D>) -> R) -> Option<R> {
        let mut turn = self.baton.knock(Flags::NONE)?;
        turn.now = (self.clock)();
        let r = f(&mut turn);
        let _ = self.run(turn, "control", false);
        Some(r)
    }

    /// Calls `f` with the queue's parts if no thread has the queue, and leaves it as it is.
    pub(crate) fn inspect<R>(&self, f: impl FnOnce(&mut Owned<D>) -> R) -> Option<R> {
        let mut turn = self.baton.knock(Flags::NONE)?;
        let before = turn.flags();
        let r = f(&mut turn);
        match turn.leave(before) {
            Ok(()) => {}
            // Another thread has set a flag meanwhile and relies on this one.
            Err(turn) => drop(self.leave(turn, "inspected", false)),
        }
        Some(r)
    }

    /// Returns the time on the queue's clock.
    pub(crate) fn now(&self) -> Instant {
        (self.clock)()
    }

    /// True if the service has work at this queue.
    pub(crate) fn wants_service(&self, now: Instant) -> bool {
        self.is_waiting_for_somebody() || self.deadline().is_some_and(|at| at <= now)
    }

    /// True if a flag is set and no thread has the queue.
    pub(crate) fn is_waiting_for_somebody(&self) -> bool {
        !self.baton.is_taken() && self.baton.flags().has(CALLS)
    }

    /// True if a thread has the queue, or has been told to come for it.
    pub fn is_called(&self) -> bool {
        self.baton.is_taken() || self.baton.flags().has(CALLS)
    }
}
