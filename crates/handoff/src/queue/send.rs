//! The ways by which a packet enters a queue.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use txweir_core::path::device::TxQueue;
use txweir_core::{Admitted, Detail, Meta};
#[cfg(not(loom))]
use txweir_core::{Instant, Nanos};

use crate::aside::row;
use crate::baton::{Flags, Turn};
use crate::list::Appended;
use crate::listed::{Listed, Ticket};
use crate::owned::Owned;
use crate::queue::{Drain, Handed, NEVER, Queue, Rest, WAITING, WORK};
use crate::sync::{Ordering, barrier};
#[cfg(not(loom))]
use crate::wake::Wakeup;

/// Most packets that one step appends to the list: others wait behind the places that it takes.
const LISTED_MAX: u64 = 32;

impl<D: TxQueue> Queue<D> {
    /// Sends a packet: directly if the queue is idle, through the path if no other thread has the
    /// queue, through the list otherwise.
    ///
    /// `Done(Full(frame))` gives it back: there is no room in the path, or none in the list. See
    /// [`when_room`](Self::when_room).
    #[inline(always)]
    pub fn send(&self, frame: D::Frame, meta: Meta) -> Handed<D::Frame> {
        self.send_with(frame, meta, None)
    }

    /// Sends as `send` does, with facts about the packet beside its metadata.
    #[inline(always)]
    pub fn send_with(&self, frame: D::Frame, meta: Meta, detail: Option<&Detail>) -> Handed<D::Frame> {
        self.send_item(Listed { frame, meta, asker: 0, ticket: Ticket::default() }, detail)
    }

    #[inline(always)]
    pub(crate) fn send_item(&self, item: Listed<D::Frame>, detail: Option<&Detail>) -> Handed<D::Frame> {
        if self.runner.rules.drain == Drain::Worker {
            // In line: the packet is written where it waits, and not copied there from an argument,
            // whose parts are written shortly before and would be read as wider words.
            return match self.append(item, detail) {
                Ok(()) => Handed::Listed,
                Err(item) => self.send_to_full_list(item, detail),
            };
        }
        let busy = match self.runner.baton.take_or_see() {
            Err(busy) => busy,
            Ok(mut turn) => {
                let o = &mut *turn;
                // Packets that this thread has listed before go first. On a polled device without
                // an armed timer the packet goes by a run, which arms the timer.
                if !o.is_listed() && (self.runner.rules.poll.is_none() || o.timer != NEVER) {
                    match o.path.send_direct(item.frame, &item.meta, &mut o.dev) {
                        Ok(()) => {
                            o.path.doorbell(&mut o.dev);
                            self.runner.put_down(turn, 1);
                            return Handed::Done(Admitted::Sent);
                        }
                        Err(frame) => return self.send_in_turn(turn, Listed { frame, ..item }, detail),
                    }
                }
                return self.send_in_turn(turn, item, detail);
            }
        };
        self.send_listed(item, detail, busy)
    }

    /// Sends packets in one turn, so that the cost of the hand-over is paid once. It ends at the
    /// first packet that finds no room, or once another thread has the queue and the list is full;
    /// that packet comes back. Returns the number of packets sent, and the packet that came back.
    ///
    /// While another thread has the queue, packets go to the list in steps of up to 32, as many as
    /// the iterator's size hint promises. Packets that others list meanwhile wait behind a step, so
    /// that the iterator should not wait for anything.
    ///
    /// The fate of each packet of a burst is not returned; counters have it.
    #[inline]
    pub fn send_burst(
        &self,
        packets: &mut (impl Iterator<Item = (D::Frame, Meta)> + ?Sized),
    ) -> (u64, Option<(D::Frame, Meta)>) {
        let free = (self.runner.rules.drain == Drain::Caller).then(|| self.runner.baton.try_take()).flatten();
        let Some(mut turn) = free else { return self.send_each(0, packets) };
        if turn.is_listed() {
            return self.go_on(turn, 0, None, packets);
        }
        let (went, first) = turn.send_directly(packets);
        if first.is_none() && self.runner.rules.poll.is_none() {
            self.runner.put_down(turn, went);
            return (went, None);
        }
        self.go_on(turn, went, first, packets)
    }

    /// Sends packets one by one, after `went` that were sent. While another thread has the queue,
    /// they go to the list by bursts.
    pub(super) fn send_each(
        &self,
        mut went: u64,
        packets: &mut (impl Iterator<Item = (D::Frame, Meta)> + ?Sized),
    ) -> (u64, Option<(D::Frame, Meta)>) {
        while let Some((frame, meta)) = packets.next() {
            match self.send(frame, meta) {
                Handed::Done(Admitted::Full(frame)) => return (went, Some((frame, meta))),
                Handed::Listed => went += 1 + self.append_burst(packets),
                Handed::Done(_) => went += 1,
            }
        }
        (went, None)
    }

    /// Appends the next packets of a burst to the list, with one knock for all of them. Returns
    /// their number: 0 if the iterator does not know how many come, if the list is nearly full, or
    /// if packets wait for room by flow.
    fn append_burst(&self, packets: &mut (impl Iterator<Item = (D::Frame, Meta)> + ?Sized)) -> u64 {
        if self.rows.load(Ordering::Relaxed) != 0 {
            return 0;
        }
        let listed = |(frame, meta)| Listed { frame, meta, asker: 0, ticket: Ticket::default() };
        let mut items = packets.map(listed);
        let append = || self.list.push_burst(LISTED_MAX, &mut items);
        match catch_unwind(AssertUnwindSafe(append)) {
            Ok(None) => 0,
            Ok(Some((count, appended))) => {
                self.tell_of(appended);
                count
            }
            // The iterator has panicked: the packets before are in the list.
            Err(panic) => {
                self.tell_of(Appended { free: 0 });
                resume_unwind(panic)
            }
        }
    }

    /// Sends the rest of a burst of which `went` packets were sent, from the first that does not go
    /// directly. Without such a packet, packets of other senders are in front of the rest, if there
    /// is a rest.
    #[inline(never)]
    pub(super) fn go_on(
        &self,
        mut turn: Turn<'_, Owned<D>>,
        mut went: u64,
        first: Option<(D::Frame, Meta)>,
        packets: &mut (impl Iterator<Item = (D::Frame, Meta)> + ?Sized),
    ) -> (u64, Option<(D::Frame, Meta)>) {
        let Some(first) = first else {
            let _ = self.runner.run(turn, "burst", false);
            return self.send_each(went, packets);
        };
        let o = &mut *turn;
        self.runner.tell_time(o);
        let mut refused = None;
        for (frame, meta) in std::iter::once(first).chain(packets) {
            let done = o.path.submit(o.now, frame, meta, &mut o.dev);
            o.note_full(&done);
            match done {
                Admitted::Full(frame) => {
                    refused = Some((frame, meta));
                    break;
                }
                Admitted::Cut(frame, max) => o.cut(frame, &meta, max),
                Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => {}
            }
            went += 1;
        }
        let _ = self.runner.run_now(turn, "burst", false);
        (went, refused)
    }

    /// Sends a packet by the path, in a turn of this thread.
    #[inline(never)]
    pub(super) fn send_in_turn(
        &self,
        mut turn: Turn<'_, Owned<D>>,
        item: Listed<D::Frame>,
        detail: Option<&Detail>,
    ) -> Handed<D::Frame> {
        let o = &mut *turn;
        self.runner.tell_time(o);
        if o.is_listed() {
            o.admit_listed(self.runner.rules.budget);
            if o.aside.has(item.meta.hash) {
                // Packets of the same row wait for room.
                let _ = self.runner.run_now(turn, "send", false);
                return Handed::Done(Admitted::Full(item.frame));
            }
            if o.is_behind_others() {
                // A sender in front is still writing its packet, or one waits for room, or the list
                // is long: this packet goes behind them, for the sake of order.
                let listed = self.list.push_of(item.meta.hash, item, detail);
                let _ = self.runner.run_now(turn, "send", false);
                return match listed {
                    Ok(_) => Handed::Listed,
                    Err(item) => Handed::Done(Admitted::Full(item.frame)),
                };
            }
        }
        let mut done = o.path.submit_with(o.now, item.frame, item.meta, detail, &mut o.dev);
        if matches!(done, Admitted::Cut(..)) {
            done = o.cut_if_set(done, &item.meta);
        }
        o.note_full(&done);
        let _ = self.runner.run_now(turn, "send", false);
        Handed::Done(done)
    }

    /// Sends a packet while another thread has the queue (`busy`).
    #[inline(never)]
    fn send_listed(&self, item: Listed<D::Frame>, detail: Option<&Detail>, busy: bool) -> Handed<D::Frame> {
        if !busy && let Some(turn) = self.runner.baton.knock(Flags::NONE) {
            // The queue is free but has leftover work: this thread takes it and runs it.
            return self.send_in_turn(turn, item, detail);
        }
        let item = match self.append(item, detail) {
            Ok(()) => return Handed::Listed,
            Err(item) => item,
        };
        self.send_to_full_list(item, detail)
    }

    /// The list is full, or has its share of this flow. If no thread has the queue, this one
    /// empties the list and tries again.
    #[cold]
    #[inline(never)]
    fn send_to_full_list(&self, item: Listed<D::Frame>, detail: Option<&Detail>) -> Handed<D::Frame> {
        match self.runner.call(WORK.and(WAITING), "list full") {
            Rest::Elsewhere => Handed::Done(Admitted::Full(item.frame)),
            _ => match self.append(item, detail) {
                Ok(()) => Handed::Listed,
                Err(item) => Handed::Done(Admitted::Full(item.frame)),
            },
        }
    }

    /// Appends to the list, and tells the holder or the service.
    #[inline(always)]
    pub(crate) fn append(
        &self,
        item: Listed<D::Frame>,
        detail: Option<&Detail>,
    ) -> Result<(), Listed<D::Frame>> {
        if self.rows.load(Ordering::Relaxed) & row(item.meta.hash) != 0 {
            return Err(item);
        }
        let appended = self.list.push_of(item.meta.hash, item, detail)?;
        self.tell_of(appended);
        Ok(())
    }

    /// Tells the holder or the service of what was appended.
    #[inline]
    fn tell_of(&self, appended: Appended) {
        // The consumer must see that the list is nearly full before a sender is refused.
        let flags = if appended.free <= 1 { WORK.and(WAITING) } else { WORK };
        barrier();
        let (baton, of_service) = (&self.runner.baton, self.runner.rules.drain == Drain::Worker);
        if !(if of_service { baton.is_flagged(flags) } else { baton.knows(flags) }) {
            let _ = self.runner.call(flags, "list");
        }
    }

    /// Sends as `send` does, and waits for room if there is none, at most for `wait`. There is no
    /// wait without an end: a caller without other work calls again.
    #[cfg(not(loom))]
    pub fn send_within(&self, frame: D::Frame, meta: Meta, wait: std::time::Duration) -> Handed<D::Frame> {
        let mut frame = match self.send(frame, meta) {
            Handed::Done(Admitted::Full(frame)) => frame,
            done => return done,
        };
        let ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let until = Instant(self.runner.now().0.saturating_add(ns));
        loop {
            // It asks first and tries once more, so that no wake-up is lost between the two.
            self.when_room_for(meta.hash, Wakeup::this_thread());
            frame = match self.send(frame, meta) {
                Handed::Done(Admitted::Full(frame)) => frame,
                done => return done,
            };
            match until.saturating_since(self.runner.now()) {
                Nanos(0) => return Handed::Done(Admitted::Full(frame)),
                Nanos(left) => std::thread::park_timeout(std::time::Duration::from_nanos(left)),
            }
        }
    }
}
