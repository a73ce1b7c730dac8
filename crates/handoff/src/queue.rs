//! `Queue`: one transmit queue that any number of threads send by. Whoever finds it idle sends directly or runs it; who finds
//! somebody at it leaves the packet in the admission list and goes on.
//!
//! There is one word between the threads ([`Baton`]): whether somebody has the queue, and flags for whoever has it. A packet is
//! appended first and the flag set afterwards, and nobody can put the queue down past a flag. So at every moment at which a
//! packet is in the list, somebody is about to come for it: its sender on the way to the flag, or whoever has the queue, or
//! (`WORK` set with nobody there) the service, which has been woken.
//!
//! What can happen later has somebody as well: the device, whose owner calls [`kick`](Queue::kick) after it has finished
//! something; a time, which the service waits for ([`deadline`](Queue::deadline)).
//!
//! - H1: no packet is in the list or in the path, with the queue free to transmit, and nobody to come for it.
//! - H2: what one sender sends leaves admission in the order in which it was sent, directly or through the list.
//! - H3: who was told `Full` and has asked for it is woken once there is room.

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

/// There is something in the list, or left over from a run.
const WORK: Flags = Flags::of(0);
/// The device has finished something.
const KICK: Flags = Flags::of(1);
/// There are commands.
const COMMAND: Flags = Flags::of(2);
/// Somebody wants to read fresh numbers.
const LOOK: Flags = Flags::of(3);
/// A sender waits for room, or will have to: the list has used its last place but one.
const WAITING: Flags = Flags::of(4);
/// What is answered by a run.
const CALLS: Flags = WORK.and(KICK).and(COMMAND).and(LOOK);

/// No time.
const NEVER: u64 = u64::MAX;

/// A command for whoever has the queue.
type Command<D> = Box<dyn FnOnce(&mut Owned<D>) + Send>;

/// Who runs a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drain {
    /// Who sends, where nobody else is at it; the service has what is left over, and the times.
    #[default]
    Caller,
    /// The service alone: senders append and go on.
    Worker,
}

/// How to make a queue.
pub struct QueueConfig<F> {
    /// Places of the admission list, rounded up to a power of two.
    pub list: usize,
    /// Room for a [`Detail`] beside each listed packet: wanted where the tree wants it (`TxPath::wants_detail`).
    pub details: bool,
    /// Who runs it.
    pub drain: Drain,
    /// Most packets that one turn takes from the list, and then from the path, before somebody else is told to go on.
    pub budget: u32,
    /// What time it is. Read once for each run; direct dispatch does not ask.
    pub clock: fn() -> Instant,
    /// How soon a device is asked for completions that does not tell by itself; `None`: its owner calls [`Queue::kick`].
    pub poll: Option<Nanos>,
    /// Where frames go that the device gives back.
    pub done: Box<dyn FnMut(F) + Send>,
    /// Who cuts a super-packet from the list that a shaper takes only in pieces; without, it is dropped.
    pub cut: Option<Cutter<F>>,
    /// Numbers are published at least after so many packets.
    pub publish: u64,
}

impl<F: 'static> QueueConfig<F> {
    /// A list of 1024, the sender drains, budget 64, back-pressure, frames that come back are let go.
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

/// What became of a packet.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Handed<F> {
    /// This thread had the queue, and so it knows.
    Done(Admitted<F>),
    /// Another thread has the queue and takes it from the admission list.
    Listed,
}

/// When a queue is to be served again.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// When somebody sends.
    Idle,
    /// When the device has finished something.
    Device,
    /// At this time.
    At(Instant),
    /// At once: the budget is spent.
    Again,
    /// Somebody else has it.
    Elsewhere,
}

/// Numbers of a queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of its path.
    pub path: PathStats,
    /// Of the hand-over between threads.
    pub handoff: HandoffStats,
    /// What waits in its qdiscs.
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
    /// When the service is to come, in nanoseconds.
    timer: AtomicU64,
    /// How the service is told to come.
    service: Wakeup,
    waiters: Mutex<Vec<Wakeup>>,
    commands: Mutex<Vec<Command<D>>>,
    askers: Askers<D::Frame>,
    /// The number of the last asker.
    last_asker: AtomicU32,
    published: Published<WORDS>,
    /// 1: it has an owner.
    has_owner: AtomicU32,
    /// 1: its tree wants to know more of packets than their metadata.
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
    /// A queue from its path and its device. `service` is how whoever calls [`serve`](Self::serve) is told to.
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

    /// Sets flags, and runs the queue if nobody else has it and this is not the service's alone.
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

    /// The device has finished something, or takes something again: from whatever thread sees it.
    #[inline]
    pub fn kick(&self) {
        let _ = self.call(KICK, "kick");
    }

    /// Runs the queue, for whoever waits for its times and was told to come. Somebody else's turn is not waited for; what it
    /// leaves over it tells.
    pub fn serve(&self) -> Rest {
        match self.baton.knock(WORK) {
            Some(turn) => self.run(turn, "service", true),
            None => Rest::Elsewhere,
        }
    }

    /// When the service is to call [`serve`](Self::serve), if nobody tells it before.
    pub fn deadline(&self) -> Option<Instant> {
        match self.timer.load(Ordering::Acquire) {
            NEVER => None,
            at => Some(Instant(at)),
        }
    }

    /// Has `wakeup` told once there is room, for a sender that was told `Full`; once too often is possible, once too few is not.
    /// Who asks again before that is told once.
    pub fn when_room(&self, wakeup: Wakeup) {
        if let Ok(mut waiters) = self.waiters.lock()
            && !waiters.iter().any(|waits| waits.is_same(&wakeup))
        {
            waiters.push(wakeup);
        }
        // Whoever has the queue then sees that somebody waits; if nobody has it, this looks whether there is room by now.
        let _ = self.call(WAITING.and(WORK), "waiting");
    }

    /// Someone who asks what becomes of packets: where the answers go. Its number.
    pub(crate) fn add_asker(&self, mail: Append<Answer<D::Frame>>) -> u32 {
        // 0 is nobody; four billion askers later the first number is used again.
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

    /// Whether senders are being refused, or would be before long.
    pub fn is_stopped(&self) -> bool {
        self.baton.flags().has(WAITING)
    }

    /// Has `f` called with the queue's parts between two bursts, by this thread or by whoever has the queue.
    pub fn post(&self, f: impl FnOnce(&mut Owned<D>) + Send + 'static) {
        if let Ok(mut commands) = self.commands.lock() {
            commands.push(Box::new(f));
        }
        let _ = self.call(COMMAND, "command");
    }

    /// Keeps what is sent from the device until [`thaw`](Self::thaw): it waits in the qdiscs, or finds no room. Completions are
    /// still taken. `frozen` is called as soon as no thread is sending and none will; at once, if nobody has the queue.
    /// As often as it is frozen it has to be thawed.
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

    /// Changes the qdiscs between two bursts, whoever has the queue then, and runs it: `f` gets the tree and what its operations
    /// need. What it says is handed to `done`, by the same thread.
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

    /// Whether its tree wants to know more of packets than their metadata: see [`send_with`](Self::send_with).
    pub fn wants_detail(&self) -> bool {
        self.details.load(Ordering::Relaxed) != 0
    }

    /// The queue's numbers, all of one moment; at most `QueueConfig::publish` packets and one turn old. Nobody waits: a
    /// queue that is idle is looked at, of one that is busy the last that was published is read.
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

    /// Calls `f` with the queue's parts if nobody has it, and runs it afterwards.
    pub fn try_with<R>(&self, f: impl FnOnce(&mut Owned<D>) -> R) -> Option<R> {
        let mut turn = self.baton.knock(Flags::NONE)?;
        turn.now = (self.clock)();
        let r = f(&mut turn);
        let _ = self.run(turn, "control", false);
        Some(r)
    }

    /// Calls `f` with the queue's parts if nobody has it, and leaves it as it is.
    pub(crate) fn inspect<R>(&self, f: impl FnOnce(&mut Owned<D>) -> R) -> Option<R> {
        let mut turn = self.baton.knock(Flags::NONE)?;
        let before = turn.flags();
        let r = f(&mut turn);
        match turn.leave(before) {
            Ok(()) => {}
            // Somebody has left word meanwhile and relies on this thread.
            Err(turn) => drop(self.leave(turn, "inspected", false)),
        }
        Some(r)
    }

    /// What time it is on its clock.
    pub(crate) fn now(&self) -> Instant {
        (self.clock)()
    }

    /// Whether the service has something to do with it.
    pub(crate) fn wants_service(&self, now: Instant) -> bool {
        self.is_waiting_for_somebody() || self.deadline().is_some_and(|at| at <= now)
    }

    /// Whether there is a flag that nobody has seen to.
    pub(crate) fn is_waiting_for_somebody(&self) -> bool {
        !self.baton.is_taken() && self.baton.flags().has(CALLS)
    }

    /// Whether somebody has it, or has been told to come for it.
    pub fn is_called(&self) -> bool {
        self.baton.is_taken() || self.baton.flags().has(CALLS)
    }
}
