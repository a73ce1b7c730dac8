//! The parts that the holder of a queue works with: the transmit path, the device, the receiving
//! end of the admission list.

#[cfg(not(loom))]
mod exchange;
mod leaving;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use txweir_core::base::tally::Tally;
use txweir_core::path::device::TxQueue;
use txweir_core::path::txpath::{BULK, PathStats, Stops};
use txweir_core::text::stats::Counters;
use txweir_core::{Admitted, Detail, DropReason, Instant, Meta, Role, TxPath, Wake};

use crate::aside::{Aside, Item, Rows};
use crate::fence::Fence;
use crate::list::Take;
use crate::listed::{Askers, Listed, Ticket};
use crate::log::{Event, Log};
use crate::wake::Wakeup;
use leaving::Leaving;

txweir_core::stats! {
    /// Counters of the hand-over between threads.
    pub struct HandoffStats {
        /// Packets that came through the admission list, because another thread had the queue.
        listed: u64,
        /// Times a thread ran the queue, direct dispatch apart.
        runs: u64,
        /// Times the running thread had spent the budget and left the rest to another thread.
        abdications: u64,
        /// Times completions were looked for because a device said so.
        kicks: u64,
        /// Packets that the device has finished, or was made to forget.
        reaped: u64,
        /// Listed packets that only fit in pieces, with no cutter set; dropped.
        uncut: u64,
        /// Listed packets that were dropped as they came, where full queues drop, or whose sender
        /// has gone.
        overrun: u64,
        /// Senders that were told that there is room.
        woken: u64,
        /// Times the monitor found the queue standing.
        stuck: u64,
        /// Times the device finished nothing for too long.
        timeouts: u64,
        /// Times the device was reset for that.
        resets: u64,
        /// Times a thread that had the queue has panicked: in the device, a callback or a command.
        /// The packet that it was handling may be lost.
        panics: u64,
    }
}

/// Numbers of a queue that are published together.
pub(crate) const WORDS: usize = PathStats::TABLE.len() + HandoffStats::TABLE.len() + 2;

/// Cuts a super-packet into pieces of at most the given number of bytes and hands on each.
pub type Cutter<F> = Box<dyn FnMut(F, &Meta, u32, &mut dyn FnMut(F, Meta)) + Send>;

/// The packets that wait for room, in one turn.
struct Waiters {
    /// The rows that were not refused yet.
    rows: u64,
    /// The row of the packet that was taken last, or 0 if it came from the list.
    row: u64,
    /// Packets of the turn that wait apart at its end.
    apart: u32,
}

/// The value of a queue's baton.
pub struct Owned<D: TxQueue> {
    /// The transmit path.
    pub path: TxPath<D::Frame>,
    /// The device's queue.
    pub dev: D,
    pub(crate) list: Take<Listed<D::Frame>, Detail>,
    /// The place that the extra of a packet is copied to while it is admitted.
    extra: Box<Detail>,
    /// Packets of the list whose flows had no room.
    pub(crate) aside: Aside<D::Frame>,
    /// The oldest packet of the list, if there was no room for any: it waits, and so do those
    /// behind it.
    held: Option<Item<D::Frame>>,
    /// True while a packet is in `aside` or in `held`.
    waits: bool,
    askers: Askers<D::Frame>,
    done: Box<dyn FnMut(D::Frame) + Send>,
    /// The frames that the device has finished, on their way to `done`.
    returned: VecDeque<D::Frame>,
    /// Tells the service to come, after a panic of the thread that had the queue.
    service: Wakeup,
    pub(crate) cut: Option<Cutter<D::Frame>>,
    /// The time of the last run.
    pub(crate) now: Instant,
    /// True if the path has refused a packet for want of room, and has had no room since.
    pub(crate) path_full: bool,
    /// The packets that had left the path when there was no room, and those for whose places
    /// senders were woken since.
    room_from: u64,
    /// True while a sender waits, so that the flows of packets that leave are noted.
    pub(crate) notes_gone: bool,
    /// The hashes of packets that have left since senders were last woken, at most `GONE_MAX`.
    pub(crate) gone: Vec<u32>,
    /// True if the tree may have changed since senders were last woken.
    pub(crate) changed: bool,
    /// The time at which the queue is to be run again, as the last run said.
    pub(crate) timer: u64,
    /// The time at which the device is to be asked for completions; `u64::MAX`: it tells by itself,
    /// or has no packet.
    pub(crate) poll_at: u64,
    pub(crate) unpublished: u64,
    /// The number of freezes that were not thawed yet.
    frozen: u32,
    /// The number of the change of the queues whose fence is one of them.
    fenced: Option<u64>,
    /// That fence, while the device has packets from before the change.
    fence: Option<Arc<Fence>>,
    /// The packets that earlier paths have given to the device.
    earlier: u64,
    /// The thread that is to have the queue next.
    pub(crate) wanted: Option<Wakeup>,
    pub(crate) counts: HandoffStats,
    pub(crate) log: Log,
}

impl<D: TxQueue> Owned<D> {
    pub(crate) fn new(
        path: TxPath<D::Frame>,
        dev: D,
        (list, rows): (Take<Listed<D::Frame>, Detail>, Rows),
        askers: Askers<D::Frame>,
        done: Box<dyn FnMut(D::Frame) + Send>,
        cut: Option<Cutter<D::Frame>>,
        service: Wakeup,
    ) -> Self {
        let aside = Aside::new(list.places(), rows);
        Self {
            path,
            dev,
            list,
            extra: Box::default(),
            aside,
            held: None,
            waits: false,
            askers,
            done,
            returned: VecDeque::new(),
            service,
            cut,
            now: Instant::ZERO,
            path_full: false,
            room_from: 0,
            notes_gone: false,
            gone: Vec::new(),
            changed: false,
            timer: u64::MAX,
            poll_at: u64::MAX,
            unpublished: 0,
            frozen: 0,
            fenced: None,
            fence: None,
            earlier: 0,
            wanted: None,
            counts: HandoffStats::default(),
            log: Log::default(),
        }
    }

    /// Returns the packets that have left the path by any way.
    fn left(&self) -> u64 {
        let stats = self.path.stats();
        (stats.queued + stats.direct).saturating_sub(self.backlog().packets)
    }

    /// Notes the answer `Full` of the path: no room is left.
    #[inline]
    pub(crate) fn note_full(&mut self, done: &Admitted<D::Frame>) {
        if matches!(done, Admitted::Full(_)) {
            self.path_full = true;
            self.room_from = self.left();
        }
    }

    /// Returns the number of waiting senders that there is room for.
    ///
    /// Each packet that has left since the path was full has made room for one, up to the free
    /// places of the list. A change of the tree may have made room for all. In an idle queue there
    /// is room for some more.
    pub(crate) fn room(&mut self) -> u64 {
        if std::mem::take(&mut self.changed) {
            return u64::MAX;
        }
        let least = if self.is_idle() { u64::from(BULK) } else { 0 };
        let free = (self.list.places() as u64).saturating_sub(self.listed());
        let left = self.left();
        self.room_from = self.room_from.max(left.saturating_sub(free));
        left.saturating_sub(self.room_from).max(least)
    }

    /// True if no packet waits, so that none has to leave later.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_listed() && self.backlog().packets == 0
    }

    /// Books the room for which senders were woken.
    pub(crate) fn use_room(&mut self, senders: u64) {
        self.room_from = self.room_from.saturating_add(senders).min(self.left());
    }

    /// True if the admission list has a packet, or is about to have one, or one of it waits for
    /// room.
    #[inline]
    pub fn is_listed(&self) -> bool {
        self.waits || !self.list.is_empty()
    }

    /// True if a packet of the list is to go before any that comes now.
    #[inline]
    pub(crate) fn is_behind_others(&self) -> bool {
        self.held.is_some() || !self.list.is_empty()
    }

    /// Returns the packets that came by the list and are not in the path yet.
    pub(crate) fn listed(&self) -> u64 {
        self.list.used() + self.aside.len() as u64 + u64::from(self.held.is_some())
    }

    /// Returns the packets that wait, in the list and in the qdiscs.
    pub(crate) fn waiting(&self) -> u64 {
        self.backlog().packets + self.listed()
    }

    /// True if a packet can be taken from the list now.
    pub(crate) fn is_ready(&self) -> bool {
        self.held.is_none() && !self.aside.is_full() && self.list.is_ready()
    }

    /// True if a packet of the list waits for room, and there may be room now.
    pub(crate) const fn may_go_on(&self) -> bool {
        self.waits && !self.path_full
    }

    /// Returns the packets and bytes that wait in the qdiscs.
    pub fn backlog(&self) -> Tally {
        self.path.backlog()
    }

    /// Returns the time of this run.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the last events.
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the packets that the device was given and has not finished.
    pub(crate) fn in_flight(&mut self) -> u64 {
        if self.dev.is_done_at_commit() {
            return 0;
        }
        self.given().saturating_sub(self.counts.reaped)
    }

    /// Returns the packets that the device was given, by earlier paths too.
    const fn given(&self) -> u64 {
        self.path.stats().tx_packets.wrapping_add(self.earlier)
    }

    /// Records that the device was reset and has forgotten the packets that it was given: it will
    /// report none of them as finished. The code that resets the device calls this, and makes sure
    /// of that.
    pub fn device_reset(&mut self) {
        self.path.tx_mut().device_reset(self.now);
        self.counts.reaped = self.given();
        self.dev.was_reset();
        self.tell_fence();
    }

    /// Says that the device has no packet from before a change of the queues, if that is so:
    /// nothing leaves behind the fence.
    fn tell_fence(&mut self) {
        if self.fence.is_some()
            && self.in_flight() == 0
            && let Some(fence) = self.fence.take()
        {
            fence.arrive();
        }
    }

    /// Keeps all packets from the device from here on.
    pub(crate) fn freeze(&mut self) {
        // The packets that the device has are announced to it first.
        self.path.doorbell(&mut self.dev);
        // Other code may have frozen or thawed the path: a freeze of another stays.
        self.frozen = match (self.path.tx().stops().has(Stops::FROZEN), self.frozen) {
            (false, _) => 1,
            (true, wanted) => wanted.max(1) + 1,
        };
        self.path.tx_mut().freeze();
        self.log.note(self.now, Event::Frozen);
    }

    /// Ends one `freeze`.
    pub(crate) fn thaw(&mut self) {
        self.frozen = self.frozen.saturating_sub(1);
        if self.frozen == 0 {
            self.path.tx_mut().thaw();
            self.log.note(self.now, Event::Thawed);
        }
    }

    /// Sends packets past the qdiscs, up to the first that the device does not take; after the last
    /// it rings the doorbell. Returns the number of packets sent, and the refused packet.
    #[inline(always)]
    pub(crate) fn send_directly(
        &mut self,
        packets: &mut (impl Iterator<Item = (D::Frame, Meta)> + ?Sized),
    ) -> (u64, Option<(D::Frame, Meta)>) {
        let mut went = 0;
        for (frame, meta) in packets {
            if let Err(frame) = self.path.send_direct(frame, &meta, &mut self.dev) {
                // The caller rings the doorbell at the end of the burst.
                return (went, Some((frame, meta)));
            }
            went += 1;
        }
        self.path.doorbell(&mut self.dev);
        (went, None)
    }

    /// Takes packets from the list into the path, at most `left`: first those that wait for room,
    /// if any packet has left the path since. Returns the rest of `left`.
    pub(crate) fn admit_listed(&mut self, mut left: u32) -> u32 {
        let before = left;
        let rows = if self.path_full { 0 } else { self.aside.round() };
        let mut turn = Waiters { rows, row: 0, apart: 0 };
        while left > 0 {
            // A packet of the list is copied once on its way into the path: the two ways share no
            // variable of its size.
            let kept = if self.waits {
                let Some((item, has_extra)) = self.next_waiting(&mut turn, &mut left) else { break };
                self.admit_one(item, has_extra)
            } else {
                let Some((item, has_extra)) = self.list.pop(&mut self.extra) else { break };
                turn.row = 0;
                self.admit_one(item, has_extra)
            };
            left = left.saturating_sub(1);
            if let Some((item, has_extra)) = kept
                && !self.keep(item, has_extra, &mut turn)
            {
                left += 1;
                break;
            }
        }
        if left < before {
            self.list.tell();
            let admitted = (before - left).saturating_sub(turn.apart);
            self.counts.listed += u64::from(admitted);
            self.log.note(self.now, Event::Admitted(admitted));
        }
        left
    }

    /// Returns the next packet of those that wait, or of the list behind them, and whether it has
    /// an extra, which lies in `extra` then. Packets of the list whose row has packets apart go
    /// there, and each takes one off `left`.
    #[cold]
    fn next_waiting(&mut self, turn: &mut Waiters, left: &mut u32) -> Option<(Listed<D::Frame>, bool)> {
        if let Some((row, (item, extra))) = self.aside.first(turn.rows) {
            turn.row = row;
            let has_extra = self.lay_out(extra);
            self.waits = self.held.is_some() || !self.aside.is_empty();
            return Some((item, has_extra));
        }
        turn.row = 0;
        // Bound: `left`.
        while *left > 0 && !self.aside.is_full() {
            let (item, has_extra) = match self.held.take() {
                Some((item, extra)) => (item, self.lay_out(extra)),
                None => self.list.pop(&mut self.extra)?,
            };
            self.waits = !self.aside.is_empty();
            if !self.aside.has(item.meta.hash) {
                return Some((item, has_extra));
            }
            *left -= 1;
            match item.asker {
                0 => {
                    turn.apart += 1;
                    self.push_apart(item, has_extra);
                }
                asker => {
                    let Listed { frame, meta, ticket, .. } = item;
                    if let Some(Admitted::Full(frame)) = self.answer(asker, ticket, Admitted::Full(frame)) {
                        self.asker_has_gone(frame, &meta);
                    }
                }
            }
        }
        None
    }

    /// Lays the extra of a packet out for `admit_one`. Returns true if there is one.
    fn lay_out(&mut self, extra: Option<Box<Detail>>) -> bool {
        extra.is_some_and(|extra| {
            self.extra = extra;
            true
        })
    }

    /// Keeps a packet that was refused: back in its row, apart if its flow alone has no room, or in
    /// front of the list. Returns true if others may go on.
    #[cold]
    fn keep(&mut self, item: Listed<D::Frame>, has_extra: bool, turn: &mut Waiters) -> bool {
        self.waits = true;
        if turn.row != 0 {
            let extra = self.take_extra(has_extra);
            self.aside.put_back(turn.row, (item, extra));
            turn.rows &= !turn.row;
            // It costs nothing of the budget but this look.
            turn.apart += 1;
            return true;
        }
        if self.path.is_full_by_flow() {
            turn.apart += 1;
            self.push_apart(item, has_extra);
            return true;
        }
        self.held = Some((item, self.take_extra(has_extra)));
        false
    }

    fn push_apart(&mut self, item: Listed<D::Frame>, has_extra: bool) {
        let extra = self.take_extra(has_extra);
        self.waits = true;
        self.aside.push((item, extra));
    }

    fn take_extra(&mut self, has_extra: bool) -> Option<Box<Detail>> {
        has_extra.then(|| std::mem::take(&mut self.extra))
    }

    /// Takes a packet into the path. A packet that finds no room and has no asker comes back where
    /// the path refuses instead of dropping.
    #[inline(always)]
    fn admit_one(&mut self, item: Listed<D::Frame>, has_extra: bool) -> Option<(Listed<D::Frame>, bool)> {
        let Listed { frame, meta, asker, ticket } = item;
        let detail = has_extra.then_some(&*self.extra);
        let done = self.path.submit_from(self.now, frame, &meta, detail, &mut self.dev);
        if asker == 0 && matches!(done, Admitted::Sent | Admitted::Queued) {
            return None;
        }
        self.note_full(&done);
        self.end_one(Listed { frame: (), meta, asker, ticket }, done).map(|item| (item, has_extra))
    }

    /// Ends `admit_one` for a packet with an asker, or with a fate that is not the usual one.
    #[inline(never)]
    fn end_one(&mut self, item: Listed<()>, done: Admitted<D::Frame>) -> Option<Listed<D::Frame>> {
        let Listed { frame: (), meta, asker, ticket } = item;
        let done = if asker == 0 {
            done
        } else {
            let done = self.cut_if_set(done, &meta);
            self.answer(asker, ticket, done)?
        };
        match done {
            Admitted::Sent | Admitted::Queued => {}
            Admitted::Dropped(_) => self.counts.overrun += 1,
            Admitted::Cut(frame, max) => self.cut(frame, &meta, max),
            Admitted::Full(frame) if asker == 0 => return Some(Listed { frame, meta, asker, ticket }),
            Admitted::Full(frame) => self.asker_has_gone(frame, &meta),
        }
        None
    }

    #[cold]
    fn asker_has_gone(&mut self, frame: D::Frame, meta: &Meta) {
        self.counts.overrun += 1;
        self.dev.discard(frame, meta, DropReason::Overlimit);
    }

    /// Tells a sender the fate of its packet. Returns the fate if the sender is not there any more.
    fn answer(&self, asker: u32, ticket: Ticket, done: Admitted<D::Frame>) -> Option<Admitted<D::Frame>> {
        let Ok(askers) = self.askers.lock() else { return Some(done) };
        let Some(mail) = askers.get(&asker) else { return Some(done) };
        // The sender has kept the place free.
        mail.push((ticket, done), None).err().map(|(_, unread)| unread)
    }

    /// Cuts a super-packet that is taken only in pieces, if there is a cutter. Returns its fate.
    #[inline]
    pub(crate) fn cut_if_set(&mut self, done: Admitted<D::Frame>, meta: &Meta) -> Admitted<D::Frame> {
        match done {
            Admitted::Cut(frame, max) if self.cut.is_some() => {
                self.cut(frame, meta, max);
                Admitted::Queued
            }
            done => done,
        }
    }

    /// Cuts a super-packet and submits the pieces.
    pub(crate) fn cut(&mut self, frame: D::Frame, meta: &Meta, max: u32) {
        let Some(cut) = &mut self.cut else {
            self.counts.uncut += 1;
            return self.dev.discard(frame, meta, DropReason::Oversize);
        };
        let (dev, now) = (&mut self.dev, self.now);
        let forwarding = Forwarding::new(&mut self.path);
        cut(frame, meta, max, &mut |piece, m| {
            let done = forwarding.path.submit(now, piece, m, dev);
            if let Admitted::Cut(piece, _) | Admitted::Full(piece) = done {
                dev.discard(piece, &m, DropReason::Oversize);
            }
        });
    }

    /// Takes the packets that the device has finished. They are booked before the first frame is
    /// given back: a panic of that callback loses none of them, and the next call goes on with the
    /// frames behind.
    pub(crate) fn reap(&mut self) -> u32 {
        let returned = &mut self.returned;
        let n = self.path.reap(self.now, &mut self.dev, |frame| returned.push_back(frame));
        if n > 0 {
            self.counts.reaped += u64::from(n);
            self.log.note(self.now, Event::Reaped(n));
            self.tell_fence();
        }
        self.give_back();
        n
    }

    /// Gives the frames that the device has finished to `done`, and first those behind a frame at
    /// which `done` has panicked.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        // Bound: the frames that are there, because `done` adds none.
        while let Some(frame) = self.returned.pop_front() {
            (self.done)(frame);
        }
    }

    /// Puts the parts in order after a panic of the thread that had them: announces to the device
    /// the packets that it was given, and forgets the thread that was to have the queue next, which
    /// asks again. Returns the thread that is to go on.
    pub(crate) fn mend(&mut self) -> Wakeup {
        self.wanted = None;
        self.counts.panics += 1;
        self.log.note(self.now, Event::Panicked);
        // The next doorbell announces the packets if this one panics.
        let _ = catch_unwind(AssertUnwindSafe(|| self.path.doorbell(&mut self.dev)));
        self.service.clone()
    }

    /// Sends the packets that may go. It asks the device for completions whenever the device takes
    /// nothing more: a device that has finished a packet between its last round and its refusal may
    /// not tell again.
    pub(crate) fn drain(&mut self, budget: u32) -> Wake {
        let before = self.path.stats().tx_packets;
        let sent = |o: &Self| u32::try_from(o.path.stats().tx_packets - before).unwrap_or(u32::MAX);
        let mut left = budget;
        let wake = loop {
            let wake = if self.notes_gone {
                let mut leaving = Leaving { dev: &mut self.dev, gone: &mut self.gone };
                self.path.drain(self.now, left, &mut leaving)
            } else {
                self.path.drain(self.now, left, &mut self.dev)
            };
            match wake {
                // In each further round the device has finished a packet, and all rounds together
                // send the budget.
                Wake::Device if self.reap() > 0 => {
                    left = budget.saturating_sub(sent(self));
                    if left == 0 {
                        break Wake::More;
                    }
                }
                wake => break wake,
            }
        };
        if self.path.take_wake() {
            self.path_full = false;
        }
        let n = self.path.stats().tx_packets - before;
        if n > 0 {
            self.log.note(self.now, Event::Sent(n));
        }
        wake
    }

    /// Returns the numbers that are published.
    pub(crate) fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let mut at = 0;
        let mut put = |value| {
            if let Some(word) = words.get_mut(at) {
                *word = value;
            }
            at += 1;
        };
        self.path.stats().visit(&mut |_, value| put(value));
        self.counts.visit(&mut |_, value| put(value));
        let backlog = self.path.backlog();
        put(backlog.packets);
        put(backlog.bytes);
        words
    }

    /// Takes out the next packet of those that came by the list and are not in the path yet.
    fn next_listed(&mut self) -> Option<Listed<D::Frame>> {
        let apart = self.aside.first(u64::MAX).map(|(_, (item, _))| item);
        let item = apart.or_else(|| self.held.take().map(|(item, _)| item));
        item.or_else(|| self.list.pop(&mut self.extra).map(|(item, _)| item))
    }

    /// Takes out every packet that came by the list and is not in the path yet, at the end of the
    /// queue.
    #[cfg(not(loom))]
    pub(crate) fn take_listed(&mut self) -> Vec<(D::Frame, Meta)> {
        // Bound: the places of the list and those beside it, because no thread sends any more.
        std::iter::from_fn(|| self.next_listed().map(|item| (item.frame, item.meta))).collect()
    }

    /// Ends the queue: gives back every frame that waits, in the qdiscs and in the list, and every
    /// one that the device has finished.
    pub(crate) fn end(&mut self) {
        if let Some(fence) = self.fence.take() {
            fence.arrive();
        }
        self.path.purge(self.now, &mut self.dev);
        while let Some(item) = self.next_listed() {
            self.dev.discard(item.frame, &item.meta, DropReason::Purged);
        }
        self.give_back();
    }

    /// True if the device has finished a packet that was not taken yet.
    pub(crate) fn has_finished(&mut self) -> bool {
        self.in_flight() > 0 && self.reap() > 0
    }
}

/// A path whose packets are dropped for want of room, until this is dropped.
struct Forwarding<'a, F> {
    path: &'a mut TxPath<F>,
    before: Role,
}

impl<'a, F> Forwarding<'a, F> {
    const fn new(path: &'a mut TxPath<F>) -> Self {
        let before = std::mem::replace(&mut path.role, Role::Forwarder);
        Self { path, before }
    }
}

impl<F> Drop for Forwarding<'_, F> {
    fn drop(&mut self) {
        self.path.role = self.before;
    }
}
