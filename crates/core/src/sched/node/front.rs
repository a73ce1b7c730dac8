//! `Front`: the parts between a node's callers and its qdisc, most of which few nodes have: the
//! packet that a peek holds, a band for TCP control segments, a size table.
//!
//! A node asks its front only if the account is in a special state (`Special`), which each change
//! of the front keeps up to date; a packet of any other node does not touch it.

use alloc::boxed::Box;

use crate::base::bound::Bound;
use crate::base::handle::ClassId;
use crate::base::tally::Tally;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pkt, Pool, Waiting};
use crate::packet::reason::DropReason;
use crate::packet::route::Candidate;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::Cx;
use crate::sched::effects::Before;
use crate::sched::node::Peek;
use crate::sched::node::account::{Account, Special};
use crate::sched::node::band::Band;
use crate::sched::node::counted::Counted;
use crate::sched::node::held::Held;
use crate::sched::node::sizes::Sizes;
use crate::sched::stab::{SizeTable, Stab};

/// The parts between a node's callers and its qdisc.
#[derive(Debug, Default)]
pub struct Front {
    pub(super) held: Held,
    /// Made with the first size table or band, and then kept.
    added: Option<Box<Added>>,
}

/// The parts that few nodes have.
#[derive(Debug, Default)]
struct Added {
    sizes: Sizes,
    band: Option<Band>,
}

impl Front {
    /// Returns the size table, if there is one. The books of the node, and of those below, then
    /// count the charged sizes.
    pub fn stab(&self) -> Option<&Stab> {
        self.added.as_ref().and_then(|added| added.sizes.0.as_ref()).map(SizeTable::stab)
    }
    /// True if packets in the node, or arriving packets, may wait in a band before its qdisc.
    pub fn has_band(&self) -> bool {
        self.band().is_some()
    }
    /// Returns the packet that the last peek took out of the qdisc, if it has not been dequeued
    /// since.
    #[inline]
    pub fn held<'a>(&self, pool: &'a Pool) -> Option<&'a Meta> {
        self.held.list.front(pool)
    }
    fn band(&self) -> Option<&Band> {
        self.added.as_ref().and_then(|added| added.band.as_ref())
    }
    fn band_mut(&mut self) -> Option<&mut Band> {
        self.added.as_mut().and_then(|added| added.band.as_mut())
    }
    /// Returns the band, if a packet would wait there.
    pub(super) fn band_for(&self, m: &Meta) -> Option<&Band> {
        self.band().filter(|band| band.takes(m))
    }

    /// True if the packet that a peek holds, if there is one, is the qdisc's own, not the band's.
    pub(super) fn holds_own(&self) -> bool {
        self.band().is_none_or(Band::gave_its_own)
    }

    /// Sets or removes the size table. Queued packets stay charged as they were.
    pub(super) fn set_sizes(&mut self, table: Option<SizeTable>, account: &mut Account) {
        if table.is_some() || account.is_sized() {
            account.special.set(Special::SIZED, true);
            let sizes = &mut self.added.get_or_insert_default().sizes;
            *sizes = Sizes(table);
            sizes.forget(account);
        }
    }
    /// Makes, changes or removes the band as the qdisc asks for it now. A removed band stays until
    /// its packets have left.
    pub(super) fn review(&mut self, behind: &mut Counted) {
        let holds = !self.held.list.is_empty();
        behind.account.special.set(Special::HELD, holds);
        let share = behind.qdisc.band();
        match (share, self.band_mut()) {
            (None, None) => return,
            (Some(share), None) => self.added.get_or_insert_default().band = Some(Band::new(share, holds)),
            (share, Some(band)) => band.set_share(share),
        }
        self.review_band(&mut behind.account);
    }
    /// Removes a band that is over, and notes the state of the band in the account. A band of which
    /// a peek holds the last packet stays.
    fn review_band(&mut self, account: &mut Account) {
        let Self { held, added: Some(added) } = self else { return };
        let holds = !held.list.is_empty();
        if added.band.as_ref().is_some_and(|band| band.is_over() && (band.gave_its_own() || !holds)) {
            added.band = None;
        }
        account.special.set(Special::BAND, added.band.is_some());
        account.special.set(Special::RATIONED, added.band.as_ref().is_some_and(Band::is_rationed));
    }

    /// As `Node::would_accept`, with a size table or a band.
    #[cold]
    pub(super) fn would_accept(
        &self,
        m: &Candidate<'_>,
        class: Option<ClassId>,
        behind: &Counted,
    ) -> Verdict {
        if let Some(band) = self.band_for(m) {
            return band.would_accept();
        }
        match &self.added {
            Some(added) => added.sizes.would_accept(m, class, &*behind.qdisc),
            None => behind.qdisc.would_accept(m, class),
        }
    }
    /// As `Node::enqueue`, with a size table or a band.
    #[cold]
    #[inline(never)]
    pub(super) fn enqueue(&mut self, p: Pkt, behind: &mut Counted, cx: &mut Cx) {
        let Some(added) = &mut self.added else { return behind.enqueue(p, cx) };
        added.sizes.charge(&p, &mut cx.pool);
        let dropped = cx.dropped().packets;
        match added.band.as_mut().filter(|band| band.takes(cx.meta(&p))) {
            Some(band) => band.enqueue(p, behind, cx),
            None => behind.enqueue(p, cx),
        }
        if cx.dropped().packets != dropped {
            self.settle_sizes(&mut behind.account, cx);
        }
    }
    /// As `Node::dequeue`, with a size table or a band, or when a packet is held.
    #[inline(never)]
    pub(super) fn dequeue(&mut self, behind: &mut Counted, cx: &mut Cx) -> Option<Pkt> {
        let p = match self.let_go(behind, cx) {
            Some(p) => p,
            None => self.ask(behind, cx)?,
        };
        behind.account.leave(cx.pool.meta(&p));
        if behind.account.is_sized()
            && let Some(added) = &self.added
        {
            added.sizes.leave(p.index(), &mut behind.account, cx);
        }
        Some(p)
    }
    /// As `Node::peek`, if the qdisc does not know its next packet or the node is in a special
    /// state. With a size table the nodes above see the packet's wire bytes.
    #[inline(never)]
    pub(super) fn peek(&mut self, behind: &mut Counted, cx: &mut Cx) -> Peek {
        let sized = behind.account.is_sized();
        let ready = |w: Waiting<'_>, pool: &Pool| Peek::Ready {
            wire_len: if sized { pool.wire_len(w) } else { w.meta.wire_len },
            segs: w.meta.segs,
        };
        if self.held.list.is_empty() {
            if !sized {
                let answer = match self.band() {
                    Some(band) => band.peek(behind, cx),
                    None => behind.peek(cx),
                };
                if let Some(answer) = answer {
                    return answer;
                }
            }
            let head = match self.band() {
                Some(band) => band.head(behind, &cx.pool),
                None => behind.qdisc.head(&cx.pool),
            };
            if let Some(w) = head {
                return ready(w, &cx.pool);
            }
            match self.ask(behind, cx) {
                Some(p) => self.hold(p, behind, cx),
                None => match cx.wakes.answer() {
                    Next::At(t, why) => return Peek::At(t, why),
                    _ => return Peek::Empty,
                },
            }
        }
        self.held.list.first(&cx.pool).map_or(Peek::Empty, |w| ready(w, &cx.pool))
    }
    /// Dequeues from the band or the qdisc without counting a departure from the node.
    fn ask(&mut self, behind: &mut Counted, cx: &mut Cx) -> Option<Pkt> {
        let dropped = cx.dropped().packets;
        let next = match self.band_mut() {
            None => behind.dequeue(cx),
            Some(band) => {
                let next = band.dequeue(behind, cx);
                // The last packet of the band may be one that a peek is going to hold.
                if band.is_over() && (next.is_none() || band.gave_its_own()) {
                    self.review_band(&mut behind.account);
                }
                next
            }
        };
        if let Some(p) = &next {
            behind.account.stay(cx.pool.meta(p));
        }
        if cx.dropped().packets != dropped {
            self.settle_sizes(&mut behind.account, cx);
        }
        next
    }
    /// Holds a packet that `ask` returned and that does not leave yet.
    fn hold(&mut self, p: Pkt, behind: &mut Counted, cx: &mut Cx) {
        self.held.put(p, &mut cx.pool);
        behind.account.special.set(Special::HELD, true);
        if self.holds_own() {
            behind.qdisc.holding(true);
        }
    }
    /// Takes the held packet out.
    fn let_go(&mut self, behind: &mut Counted, cx: &Cx) -> Option<Pkt> {
        let p = self.held.take(&cx.pool)?;
        behind.account.special.set(Special::HELD, false);
        behind.qdisc.holding(false);
        Some(p)
    }

    /// Drops the held packet and those of the band.
    pub(super) fn purge(&mut self, behind: &mut Counted, cx: &mut Cx) {
        if let Some(p) = self.let_go(behind, cx) {
            cx.drop(p, DropReason::Purged);
        }
        if let Some(band) = self.band_mut() {
            let mut bound = Bound::of(cx.pool.capacity());
            while let Some(p) = band.queue.pop_front(&cx.pool) {
                bound.turn();
                cx.drop(p, DropReason::Purged);
            }
            band.reset();
            self.review_band(&mut behind.account);
        }
    }
    /// Moves the held packet and those of the band to the back of `out`.
    pub(super) fn evict_all(&mut self, out: &mut List, behind: &mut Counted, cx: &mut Cx) {
        // The held packet left the qdisc before all packets that are still there.
        if let Some(p) = self.let_go(behind, cx) {
            out.push_back(&mut cx.pool, p);
        }
        if let Some(band) = self.band_mut() {
            band.queue.evict_all(out, &mut cx.pool);
        }
    }
    /// Calls `f` on the held packet and those of the band.
    pub(super) fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        self.held.list.waiting(pool).for_each(&mut *f);
        if let Some(band) = self.band() {
            band.queue.waiting(pool).for_each(f);
        }
    }

    /// Settles a size table's charges of the packets just dropped or set aside, if there is one.
    fn settle_sizes(&self, account: &mut Account, cx: &mut Cx) {
        if account.is_sized()
            && let Some(added) = &self.added
        {
            added.sizes.settle(account, cx);
        }
    }
    /// Clears the state of a size table that was removed, if nothing waits.
    pub(super) fn forget_sizes(&self, account: &mut Account) {
        if let Some(added) = &self.added {
            added.sizes.forget(account);
        }
    }
    /// Books the packets that a change has dropped since `before`; forgets those set aside, as if
    /// they had never been admitted.
    pub(super) fn settle(&self, (before, aside): (Before, Tally), account: &mut Account, cx: &mut Cx) {
        account.forget(cx.aside.taken.amount().since(aside));
        account.settle_drops(&before, cx);
        self.settle_sizes(account, cx);
    }
}
