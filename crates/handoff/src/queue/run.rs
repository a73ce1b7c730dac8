//! `Runner`: runs a queue in the turn of the thread that has it, and puts it down.

use std::collections::VecDeque;
use std::fmt;

use txweir_core::path::device::TxQueue;
use txweir_core::{Instant, Nanos, Wake};

use crate::baton::{Baton, Flags, Turn};
use crate::log::Event;
use crate::owned::{Owned, WORDS};
use crate::queue::{CALLS, COMMAND, Drain, KICK, LOOK, NEVER, Rest, Rules, WAITING, WORK};
use crate::snapshot::Published;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, fence};
use crate::waiters::{Place, Waiters};
use crate::wake::Wakeup;

/// A command for the holder of the queue.
type Command<D> = Box<dyn FnOnce(&mut Owned<D>) + Send>;

/// The path and the device of a queue behind its baton, the rules for the thread that has them, and
/// the requests of the others to that thread.
pub(super) struct Runner<D: TxQueue> {
    pub(super) baton: Baton<Owned<D>>,
    pub(super) rules: Rules,
    /// The time at which the service is to come, in nanoseconds.
    pub(super) timer: AtomicU64,
    /// Tells the service to come.
    pub(super) service: Wakeup,
    waiters: Mutex<Waiters>,
    commands: Mutex<VecDeque<Command<D>>>,
    /// The thread that is to have the queue: see `hold`.
    pub(super) wanted: Mutex<Option<Wakeup>>,
    pub(super) published: Published<WORDS>,
    /// 1 while the tree wants to know more of packets than their metadata.
    pub(super) details: AtomicU32,
}

/// Senders that are to be told that there is room. A panic leaves none of them untold.
#[derive(Default)]
struct Woken(VecDeque<Wakeup>);

impl Woken {
    fn tell(mut self) {
        while let Some(wakeup) = self.0.pop_front() {
            wakeup.wake();
        }
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        self.0.iter().for_each(Wakeup::wake_in_panic);
    }
}

/// Commands that a thread has taken to run them. A panic of one puts those behind it back.
struct Commands<'a, D: TxQueue> {
    taken: VecDeque<Command<D>>,
    all: &'a Mutex<VecDeque<Command<D>>>,
}

impl<D: TxQueue> Drop for Commands<'_, D> {
    fn drop(&mut self) {
        if !self.taken.is_empty()
            && let Ok(mut all) = self.all.lock()
        {
            self.taken.append(&mut all);
            std::mem::swap(&mut self.taken, &mut *all);
        }
    }
}

impl<D: TxQueue> fmt::Debug for Runner<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("baton", &self.baton)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

impl<D: TxQueue> Runner<D> {
    pub(super) fn new(owned: Owned<D>, rules: Rules, service: Wakeup) -> Self {
        let details = AtomicU32::new(u32::from(owned.path.wants_detail()));
        Self {
            // The remaining work, commands and finished frames are for the next thread.
            baton: Baton::new(owned, |o| (WORK.and(COMMAND).and(KICK), Some(o.mend()))).ending(Owned::end),
            rules,
            timer: AtomicU64::new(NEVER),
            service,
            waiters: Mutex::new(Waiters::default()),
            commands: Mutex::new(VecDeque::new()),
            wanted: Mutex::new(None),
            published: Published::default(),
            details,
        }
    }

    /// Returns the time on the queue's clock.
    #[inline]
    pub(super) fn now(&self) -> Instant {
        (self.rules.clock)()
    }

    /// Reads the clock for a turn. The time of a queue does not go back: it stands still until a
    /// clock that has gone back has caught up.
    #[inline]
    pub(super) fn tell_time(&self, o: &mut Owned<D>) {
        o.now = o.now.max(self.now());
    }

    /// Notes whether the tree wants details, and that there may be any room now, after code that
    /// may have changed the tree.
    pub(super) fn note_change(&self, o: &mut Owned<D>) {
        o.changed = true;
        let wants = u32::from(o.path.wants_detail());
        if self.details.load(Ordering::Relaxed) != wants {
            self.details.store(wants, Ordering::Relaxed);
        }
    }

    /// Sets flags, and runs the queue if no other thread has it and the queue is not the service's
    /// alone.
    pub(super) fn call(&self, flags: Flags, why: &'static str) -> Rest {
        if self.rules.drain == Drain::Worker {
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

    /// Adds a sender that is to be told when there is room; the caller sets the flag afterwards.
    /// `flow` is the hash of its packets, if it is known.
    pub(super) fn add_waiter(&self, wakeup: Wakeup, flow: Option<u32>) -> Option<Place> {
        self.waiters.lock().map(|mut waiters| waiters.add(wakeup, flow)).ok()
    }

    /// Takes back one request of a sender that is to be told, if it was not told since.
    pub(super) fn remove_waiter(&self, place: Place) {
        // The receiver may end with its wakeup: not while the lock is held.
        let gone = self.waiters.lock().map(|mut waiters| waiters.remove(place)).ok();
        drop(gone);
    }

    /// Adds a command; the caller sets the flag afterwards.
    pub(super) fn add_command(&self, command: Command<D>) {
        if let Ok(mut commands) = self.commands.lock() {
            commands.push_back(command);
        }
    }

    /// Ends a turn in which no work was left over and `packets` went.
    #[inline(always)]
    pub(super) fn put_down(&self, mut turn: Turn<'_, Owned<D>>, packets: u64) {
        self.count(&mut turn, packets);
        if let Err(turn) = turn.leave(Flags::NONE) {
            let _ = self.leave(turn, "direct", false);
        }
    }

    /// Counts packets that went directly, and publishes the numbers when it is time to.
    #[inline(always)]
    pub(super) fn count(&self, o: &mut Owned<D>, packets: u64) {
        o.unpublished = o.unpublished.saturating_add(packets);
        if o.unpublished >= self.rules.publish {
            self.publish(o);
        }
    }

    #[inline(never)]
    fn publish(&self, o: &mut Owned<D>) {
        o.unpublished = 0;
        self.published.write(&o.words());
    }

    /// Runs the queue and puts it down.
    pub(super) fn run(&self, mut turn: Turn<'_, Owned<D>>, why: &'static str, by_service: bool) -> Rest {
        self.tell_time(&mut turn);
        self.run_now(turn, why, by_service)
    }

    /// Does the same as `run`, where the time has just been read.
    pub(super) fn run_now(&self, mut turn: Turn<'_, Owned<D>>, why: &'static str, by_service: bool) -> Rest {
        turn.counts.runs += 1;
        let now = turn.now;
        turn.log.note(now, Event::Taken(why));
        let mut left = self.rules.budget;
        let mut had = left;
        // Nearly all turns wake no sender.
        let mut woken = None;
        let rest = loop {
            let rest = self.work(&mut turn, &mut left);
            let is_due = self.wake_waiters(&mut turn, &mut woken);
            if let Some(next) = turn.wanted.take() {
                // That thread sees the flags, and does the rest of the work.
                turn.pass();
                next.wake();
                break Rest::Elsewhere;
            }
            if rest == Rest::Again || is_due {
                self.abdicate(turn, by_service);
                break Rest::Again;
            }
            self.arm(&mut turn, rest, by_service);
            self.count(&mut turn, u64::from(had - left));
            had = left;
            let behind = turn.flags().without(CALLS);
            match turn.leave(behind) {
                Ok(()) => break rest,
                Err(again) => turn = again,
            }
            self.tell_time(&mut turn);
            if left == 0 {
                self.abdicate(turn, by_service);
                break Rest::Again;
            }
        };
        if let Some(woken) = woken {
            Woken::tell(woken);
        }
        rest
    }

    /// Leaves the remaining work to the service.
    fn abdicate(&self, mut turn: Turn<'_, Owned<D>>, by_service: bool) {
        let now = turn.now;
        turn.counts.abdications += 1;
        turn.log.note(now, Event::Abdicated);
        self.publish(&mut turn);
        turn.abandon(WORK);
        if !by_service {
            self.service.wake();
        }
    }

    /// Puts the queue down after a look at it, or runs it if there is work to do.
    #[inline(never)]
    pub(super) fn leave(&self, mut turn: Turn<'_, Owned<D>>, why: &'static str, by_service: bool) -> Rest {
        // The holder can publish the numbers, even where only the service may run the queue.
        if turn.flags().has(LOOK) && turn.clear(LOOK).has(LOOK) {
            self.publish(&mut turn);
        }
        if !turn.flags().has(WORK.and(KICK).and(COMMAND).and(WAITING)) {
            match turn.leave(Flags::NONE) {
                Ok(()) => return Rest::Idle,
                Err(again) => turn = again,
            }
        }
        if self.rules.drain == Drain::Worker && !by_service {
            turn.abandon(WORK);
            self.service.wake();
            return Rest::Elsewhere;
        }
        self.run(turn, why, by_service)
    }

    /// One round: answers the flags, takes from the list, sends.
    fn work(&self, turn: &mut Turn<'_, Owned<D>>, left: &mut u32) -> Rest {
        let mut calls = Flags::NONE;
        turn.notes_gone = turn.flags().has(WAITING);
        if turn.flags().has(CALLS) {
            calls = turn.clear(CALLS);
            // A sender that sees its flag set does not set it again: either it sees this clearing,
            // or this run sees its packet in the list.
            fence(Ordering::SeqCst);
        }
        if calls.has(LOOK) {
            // A thread waits for the numbers at the end of this round.
            turn.unpublished = self.rules.publish;
        }
        if calls.has(COMMAND) {
            self.run_commands(turn);
        }
        if calls.has(KICK) {
            turn.counts.kicks += 1;
            turn.reap();
        } else if turn.poll_at <= turn.now.0 {
            turn.reap();
        }
        // Each round costs some of the budget, also one that only answers a flag; each further one
        // has sent a packet.
        let wake = loop {
            *left = turn.admit_listed(*left).saturating_sub(1);
            let sent = turn.path.stats().tx_packets;
            let wake = turn.drain((*left).max(1));
            let sent = turn.path.stats().tx_packets - sent;
            *left = left.saturating_sub(u32::try_from(sent).unwrap_or(u32::MAX));
            if !turn.may_go_on() || *left == 0 {
                break wake;
            }
        };
        let more = turn.is_ready() || turn.may_go_on();
        let now = turn.now;
        match wake {
            Wake::More => Rest::Again,
            _ if more && *left == 0 => Rest::Again,
            Wake::Idle => {
                turn.log.note(now, Event::Idle);
                Rest::Idle
            }
            Wake::Device => {
                turn.log.note(now, Event::Stopped);
                Rest::Device
            }
            Wake::At(at, _) => {
                let at = at.max(now + Nanos(1));
                turn.log.note(now, Event::Until(at));
                Rest::At(at)
            }
        }
    }

    fn run_commands(&self, o: &mut Owned<D>) {
        // The name is taken before any command is run: the panic of one forgets it (`Owned::mend`),
        // and its thread asks again.
        o.wanted = self.wanted.lock().map(|mut wanted| wanted.take()).unwrap_or_default();
        let commands = self.commands.lock().map(|mut c| std::mem::take(&mut *c)).unwrap_or_default();
        let mut taken = Commands { taken: commands, all: &self.commands };
        while let Some(command) = taken.taken.pop_front() {
            command(o);
        }
        self.note_change(o);
    }

    /// Takes out as many waiting senders as there is room for: see `Waiters::take`.
    /// True if another run is due: senders still wait, and no packet is left whose departure would
    /// wake them. A sender that was woken and sends nothing holds no other up.
    fn wake_waiters(&self, turn: &mut Turn<'_, Owned<D>>, woken: &mut Option<Woken>) -> bool {
        if !turn.flags().has(WAITING) || turn.path_full || turn.listed() > turn.list.places() as u64 / 2 {
            return false;
        }
        let room = turn.room();
        if room == 0 {
            return false;
        }
        // The flag is cleared first: a sender that comes afterwards sets it again.
        turn.clear(WAITING);
        let gone = std::mem::take(&mut turn.gone);
        let (waiters, all) = self
            .waiters
            .lock()
            .map(|mut waiters| (waiters.take(room, &gone), waiters.is_empty()))
            .unwrap_or((VecDeque::new(), true));
        if !all {
            // The next run looks again.
            self.baton.flag(WAITING);
        }
        turn.gone = gone;
        turn.gone.clear();
        let (now, n) = (turn.now, waiters.len());
        turn.use_room(n as u64);
        if n > 0 {
            turn.counts.woken += n as u64;
            turn.log.note(now, Event::Woke(u32::try_from(n).unwrap_or(u32::MAX)));
            woken.get_or_insert_with(Woken::default).0.extend(waiters);
        }
        !all && turn.is_idle()
    }

    /// Publishes the time at which the service is to come.
    fn arm(&self, turn: &mut Turn<'_, Owned<D>>, rest: Rest, by_service: bool) {
        let mut at = match rest {
            Rest::At(at) => at.0,
            _ => NEVER,
        };
        if let Some(poll) = self.rules.poll {
            // A later run does not put the time off: a busy sender's completions come back as well.
            turn.poll_at = match turn.in_flight() {
                0 => NEVER,
                _ if turn.poll_at == NEVER || turn.poll_at <= turn.now.0 => (turn.now + poll).0,
                _ => turn.poll_at,
            };
            at = at.min(turn.poll_at);
        }
        let before = turn.timer;
        if at != before {
            turn.timer = at;
            self.timer.store(at, Ordering::Release);
            if at < before && !by_service {
                self.service.wake();
            }
        }
    }
}
