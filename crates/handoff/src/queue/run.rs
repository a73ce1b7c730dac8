//! Runs a queue in the holder's turn, and puts it down.

use txweir_core::path::device::TxQueue;
use txweir_core::{Nanos, Wake};

use crate::baton::{Flags, Turn};
use crate::log::Event;
use crate::owned::Owned;
use crate::queue::{CALLS, COMMAND, Drain, KICK, LOOK, NEVER, Queue, Rest, WAITING, WORK};
use crate::sync::{Ordering, fence};
use crate::wake::Wakeup;

impl<D: TxQueue> Queue<D> {
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
        if o.unpublished >= self.publish {
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
        turn.now = (self.clock)();
        self.run_now(turn, why, by_service)
    }

    /// Does the same as `run`, where the time has just been read.
    pub(super) fn run_now(&self, mut turn: Turn<'_, Owned<D>>, why: &'static str, by_service: bool) -> Rest {
        turn.counts.runs += 1;
        let now = turn.now;
        turn.log.note(now, Event::Taken(why));
        let mut left = self.budget;
        let mut had = left;
        let mut woken = Vec::new();
        let rest = loop {
            let rest = self.work(&mut turn, &mut left);
            self.look_after_waiters(&mut turn, &mut woken);
            if rest == Rest::Again {
                self.abdicate(turn, by_service);
                break rest;
            }
            self.arm(&mut turn, rest, by_service);
            self.count(&mut turn, u64::from(had - left));
            had = left;
            let behind = turn.flags().without(CALLS);
            match turn.leave(behind) {
                Ok(()) => break rest,
                Err(again) => turn = again,
            }
            turn.now = (self.clock)();
            if left == 0 {
                self.abdicate(turn, by_service);
                break Rest::Again;
            }
        };
        woken.iter().for_each(Wakeup::wake);
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
        if self.drain == Drain::Worker && !by_service {
            turn.abandon(WORK);
            self.service.wake();
            return Rest::Elsewhere;
        }
        self.run(turn, why, by_service)
    }

    /// One round: answers the flags, takes from the list, sends.
    fn work(&self, turn: &mut Turn<'_, Owned<D>>, left: &mut u32) -> Rest {
        let mut calls = Flags::NONE;
        if turn.flags().has(CALLS) {
            calls = turn.clear(CALLS);
            // A sender that sees its flag set does not set it again: either it sees this clearing,
            // or this run sees its packet in the list.
            fence(Ordering::SeqCst);
        }
        if calls.has(LOOK) {
            // A thread waits for the numbers at the end of this round.
            turn.unpublished = self.publish;
        }
        if calls.has(COMMAND) {
            self.obey(turn);
        }
        if calls.has(KICK) {
            turn.counts.kicks += 1;
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

    fn obey(&self, o: &mut Owned<D>) {
        let commands = self.commands.lock().map(|mut c| std::mem::take(&mut *c)).unwrap_or_default();
        for command in commands {
            command(o);
        }
    }

    /// Takes out the waiting senders, if there is room.
    fn look_after_waiters(&self, turn: &mut Turn<'_, Owned<D>>, woken: &mut Vec<Wakeup>) {
        if !turn.flags().has(WAITING) || turn.path_full || turn.list.used() > self.list.places() as u64 / 2 {
            return;
        }
        // The flag is cleared first: a sender that comes afterwards sets it again.
        turn.clear(WAITING);
        let mut waiters = self.waiters.lock().map(|mut w| std::mem::take(&mut *w)).unwrap_or_default();
        let (now, n) = (turn.now, waiters.len());
        if n > 0 {
            turn.counts.woken += n as u64;
            turn.log.note(now, Event::Woke(u32::try_from(n).unwrap_or(u32::MAX)));
            woken.append(&mut waiters);
        }
    }

    /// Publishes the time at which the service is to come.
    fn arm(&self, turn: &mut Turn<'_, Owned<D>>, rest: Rest, by_service: bool) {
        let mut at = match rest {
            Rest::At(at) => at.0,
            _ => NEVER,
        };
        if let Some(poll) = self.poll
            && turn.in_flight() > 0
        {
            at = at.min((turn.now + poll).0);
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
