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
use crate::sched::cx::Cx;
use crate::sched::node::Peek;
use crate::sched::node::counted::Counted;

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
    pub(super) queue: Queue,
    budget: Budget,
    /// True if packets still enter it; if not, it empties in its turn.
    on: bool,
    /// True if the last packet was the qdisc's own.
    own: bool,
}

impl Band {
    /// Returns an empty band; `own` is true if a peek holds a packet, which is the qdisc's own.
    pub(super) const fn new(share: Percent, own: bool) -> Self {
        Self { queue: Queue::new(), budget: Budget::new(share), on: true, own }
    }
    /// Takes the share that the qdisc asks for now; without one, no packet enters any more.
    pub(super) fn set_share(&mut self, share: Option<Percent>) {
        self.on = share.is_some();
        if let Some(share) = share.filter(|share| *share != self.budget.share()) {
            self.budget.set_share(share);
        }
    }
    /// True if the qdisc asks for it no more and its packets have left.
    pub(super) const fn is_over(&self) -> bool {
        !self.on && self.queue.is_empty()
    }
    /// True if it has a share below 100 %.
    pub(super) fn is_rationed(&self) -> bool {
        self.budget.share() != Percent::ALL
    }
    /// Resets it, as if new. It is empty.
    pub(super) fn reset(&mut self) {
        self.budget.refill();
    }
    /// True if a packet is for the band.
    #[inline]
    pub(super) fn takes(&self, m: &Meta) -> bool {
        m.tcp_control && m.txtime == Instant::ZERO && self.on
    }
    /// Returns whether it would queue a packet that is for it.
    pub(super) const fn would_accept(&self) -> Verdict {
        if self.queue.packets() < BAND_PACKETS { Verdict::Accept } else { Verdict::Full }
    }
    /// Queues a packet that is for it, or drops it.
    pub(super) fn enqueue(&mut self, p: Pkt, behind: &mut Counted, cx: &mut Cx) {
        if self.would_accept() != Verdict::Accept {
            return behind.account.refuse(p, DropReason::Overlimit, cx);
        }
        behind.account.enter(cx.meta(&p).wire_len);
        self.queue.push_back(&mut cx.pool, p);
    }
    /// Returns the next packet, of the band or of the qdisc behind it.
    pub(super) fn dequeue(&mut self, behind: &mut Counted, cx: &mut Cx) -> Option<Pkt> {
        if !self.goes_first() {
            if let Some(p) = behind.dequeue(cx) {
                self.own = true;
                self.budget.earn(cx.meta(&p).wire_len);
                return Some(p);
            }
            // No packet of the qdisc waits for the band, so the band gets its full credit.
            self.budget.refill();
            if self.queue.is_empty() {
                return None;
            }
            if let Next::At(t, why) = cx.wakes.answer() {
                cx.wakes.may_be_ready(t, why);
            }
        }
        self.own = false;
        let p = self.queue.pop_front(&cx.pool)?;
        self.budget.spend(cx.meta(&p).wire_len);
        behind.account.leave(cx.meta(&p));
        Some(p)
    }
    /// True if the last returned packet is the qdisc's own.
    pub(super) const fn gave_its_own(&self) -> bool {
        self.own
    }
    /// As `Qdisc::head`, for the band or the qdisc behind it.
    pub(super) fn head<'a>(&self, behind: &Counted, pool: &'a Pool) -> Option<Waiting<'a>> {
        match self.queue.first(pool) {
            Some(first) if self.budget.allows() => Some(first),
            // Only a dequeue from the qdisc shows which of the two goes first.
            Some(_) => None,
            None => behind.qdisc.head(pool),
        }
    }
    /// As `Qdisc::peek`, for the band or the qdisc behind it.
    pub(super) fn peek(&self, behind: &mut Counted, cx: &mut Cx) -> Option<Peek> {
        if self.goes_first() {
            return self.front(&cx.pool);
        }
        let answer = behind.peek(cx);
        if self.queue.is_empty() {
            return answer;
        }
        match answer {
            None | Some(Peek::Ready { .. }) => return answer,
            Some(Peek::At(t, why)) => cx.wakes.may_be_ready(t, why),
            Some(Peek::Empty) => {}
        }
        self.front(&cx.pool)
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
}
