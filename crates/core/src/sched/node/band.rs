//! A band for TCP control segments before a qdisc of any kind, which `tcpctl SHARE` adds to fq,
//! fq_codel and prio (`Discipline::BAND`).
//!
//! SYN, SYN-ACK and pure ACK (`Meta::tcp_control`) wait in a list of their own and leave before the
//! packets in the qdisc, as long as they have credit (`crate::law::budget`): at most `SHARE` of the
//! departures while the qdisc has a packet that may leave. The kind does not know of the band. A
//! node without a band tests one bit per packet, which it tests for its size table anyway.
//!
//! O(1) per packet. No memory beyond the packets.
//!
//! - I1: at most `BAND_PACKETS` wait in the band, beside the limit of the kind.
//! - I2: in the band, order of arrival is order of departure; other packets pass the kind as
//!   without a band.
//! - I3: a packet with a launch time always goes to the kind: no packet leaves before its time.
//! - Differs from Linux (PARITY.md: tcpctl-band): Linux has no such option.

use crate::base::chance::Percent;
use crate::base::time::Instant;
use crate::law::budget::Budget;
use crate::packet::meta::Meta;
use crate::packet::pool::{Pkt, Pool, Queue, Waiting};
use crate::packet::reason::DropReason;
use crate::sched::answer::{Next, Verdict};
use crate::sched::cx::{Before, Cx};
use crate::sched::node::account::{BAND, RATIONED};
use crate::sched::node::{Node, Peek};

/// Most packets that wait in a band: a device's usual queue length. This many ACKs leave in 0.5 ms
/// at 1 Gbit/s.
pub const BAND_PACKETS: u32 = 1000;

/// Returns the share that `tcpctl` asks for. A share of zero means no band, so that `tcpctl 0%`
/// removes it.
pub(crate) fn share(given: Option<Percent>) -> Option<Percent> {
    given.filter(|share| *share > Percent(0))
}

/// The control segments that wait before a qdisc.
#[derive(Debug)]
pub(super) struct Band {
    queue: Queue,
    budget: Budget,
    /// True if packets still enter it; if not, it empties in its turn.
    on: bool,
    /// True if the last packet was the qdisc's own.
    own: bool,
}

impl Band {
    const fn new(share: Percent) -> Self {
        Self { queue: Queue::new(), budget: Budget::new(share), on: true, own: false }
    }
    /// True if a packet is for the band.
    #[inline]
    fn takes(&self, m: &Meta) -> bool {
        m.tcp_control && m.txtime == Instant::ZERO && self.on
    }
    const fn has_room(&self) -> bool {
        self.queue.packets() < BAND_PACKETS
    }
    /// True if the next packet is the band's, whatever waits in the qdisc.
    #[inline]
    const fn goes_first(&self) -> bool {
        !self.queue.is_empty() && self.budget.allows()
    }
    /// Returns the next packet of the band.
    fn front(&self, pool: &Pool) -> Option<Peek> {
        self.queue.front(pool).map(|m| Peek::Ready { wire_len: m.wire_len, segs: m.segs })
    }
    fn take(&mut self, cx: &Cx) -> Option<Pkt> {
        self.own = false;
        let p = self.queue.pop_front(&cx.pool)?;
        self.budget.spend(cx.meta(&p).wire_len);
        Some(p)
    }
}

impl Node {
    /// True if packets in it, or arriving packets, may wait in a band before it.
    pub const fn has_band(&self) -> bool {
        self.account.special & BAND != 0
    }
    /// Makes, changes or removes the band as its qdisc asks for it now. A removed band stays until
    /// its packets have left.
    pub(super) fn review_band(&mut self) {
        let share = self.qdisc.band();
        if share.is_none() && !self.has_band() {
            return;
        }
        let band = &mut self.account.rest.band;
        match (share, &mut *band) {
            (Some(share), None) => *band = Some(Band::new(share)),
            (Some(share), Some(band)) => {
                band.on = true;
                if share != band.budget.share() {
                    band.budget.set_share(share);
                }
            }
            (None, Some(band)) => band.on = false,
            (None, None) => {}
        }
        self.forget_band();
        let rationed = matches!(&self.account.rest.band, Some(b) if b.budget.share() != Percent::ALL);
        self.account.special &= !(BAND | RATIONED);
        if self.account.rest.band.is_some() {
            self.account.special |= BAND;
        }
        if rationed {
            self.account.special |= RATIONED;
        }
    }
    /// Removes an empty band that no packet enters any more.
    fn forget_band(&mut self) {
        if matches!(&self.account.rest.band, Some(band) if !band.on && band.queue.is_empty()) {
            self.account.rest.band = None;
            self.account.special &= !(BAND | RATIONED);
        }
    }
    /// True if a packet would go into the band.
    pub(super) fn band_takes(&self, m: &Meta) -> bool {
        matches!(&self.account.rest.band, Some(band) if band.takes(m))
    }
    /// Returns whether the band would queue a packet that is for it.
    pub(super) fn band_admits(&self) -> Verdict {
        match &self.account.rest.band {
            Some(band) if !band.has_room() => Verdict::Full,
            _ => Verdict::Accept,
        }
    }
    /// Queues a packet in the band; returns it if it is not for the band.
    pub(super) fn offer_to_band(&mut self, p: Pkt, cx: &mut Cx) -> Option<Pkt> {
        if !self.band_takes(cx.meta(&p)) {
            return Some(p);
        }
        self.account.enter(cx.meta(&p).wire_len);
        if let Some(band) = self.account.rest.band.as_mut().filter(|band| band.has_room()) {
            band.queue.push_back(&mut cx.pool, p);
            return None;
        }
        let outer = cx.owing().then(|| cx.begin_call());
        cx.drop(p, DropReason::Overlimit);
        self.account.settle(cx.before(), cx);
        if let Some(outer) = outer {
            cx.end_call(outer);
        }
        None
    }
    /// Returns the next packet, of the band or of the qdisc.
    pub(super) fn dequeue_band(&mut self, cx: &mut Cx) -> Option<Pkt> {
        if !self.account.rest.band.as_ref().is_some_and(Band::goes_first) {
            let next = self.qdisc.dequeue(&mut self.account, cx);
            let band = self.account.rest.band.as_mut()?;
            if let Some(p) = next {
                band.own = true;
                band.budget.earn(cx.meta(&p).wire_len);
                return Some(p);
            }
            // No packet of the qdisc waits for the band, so the band gets its full credit.
            band.budget.refill();
            if band.queue.is_empty() {
                return None;
            }
            if let Next::At(t, why) = cx.answer() {
                cx.may_be_ready(t, why);
            }
        }
        let p = self.account.rest.band.as_mut()?.take(cx)?;
        self.account.leave(cx.meta(&p));
        self.forget_band();
        Some(p)
    }
    /// True if the last returned packet is the qdisc's own.
    pub(super) const fn gave_its_own(&self) -> bool {
        match &self.account.rest.band {
            Some(band) => band.own,
            None => true,
        }
    }
    /// As `Qdisc::head`, for the band or the qdisc.
    pub(super) fn head<'a>(&self, pool: &'a Pool) -> Option<Waiting<'a>> {
        match &self.account.rest.band {
            Some(band) if band.goes_first() => band.queue.first(pool),
            // Only a dequeue from the qdisc shows which of the two goes first.
            Some(band) if !band.queue.is_empty() => None,
            _ => self.qdisc.head(pool),
        }
    }
    /// As `Qdisc::peek`, for the band or the qdisc.
    pub(super) fn peek_own(&mut self, cx: &mut Cx) -> Option<Peek> {
        if let Some(band) = self.account.rest.band.as_ref().filter(|band| band.goes_first()) {
            return band.front(&cx.pool);
        }
        let before = Before::of(cx);
        let answer = self.qdisc.peek(cx);
        self.account.settle_drops(&before, cx);
        let Some(band) = self.account.rest.band.as_ref().filter(|band| !band.queue.is_empty()) else {
            return answer;
        };
        match answer {
            None | Some(Peek::Ready { .. }) => return answer,
            Some(Peek::At(t, why)) => cx.may_be_ready(t, why),
            Some(Peek::Empty) => {}
        }
        band.front(&cx.pool)
    }
    /// Returns the packets of the band, to take out: they leave before those of the qdisc.
    pub(super) fn band_queue(&mut self) -> Option<&mut Queue> {
        self.account.rest.band.as_mut().map(|band| &mut band.queue)
    }
    /// Calls `f` on every packet of the band.
    pub(super) fn band_queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
        if let Some(band) = &self.account.rest.band {
            band.queue.waiting(pool).for_each(f);
        }
    }
    /// Resets the band, as if new.
    pub(super) fn reset_band(&mut self) {
        if let Some(band) = &mut self.account.rest.band {
            band.budget.refill();
        }
        self.forget_band();
    }
}
