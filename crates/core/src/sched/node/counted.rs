//! `Counted`: a qdisc and the account of the packets in it.

use alloc::boxed::Box;

use crate::packet::pool::Pkt;
use crate::sched::cx::Cx;
use crate::sched::erased::Qdisc;
use crate::sched::node::Peek;
use crate::sched::node::account::Account;

/// A qdisc and its account: the part of a node that every packet meets.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Counted {
    pub(super) qdisc: Box<dyn Qdisc>,
    pub(super) account: Account,
}

impl Counted {
    /// Queues a packet, or drops it or others.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, p: Pkt, cx: &mut Cx) {
        self.qdisc.enqueue(p, &mut self.account, cx);
    }
    /// Returns the next packet; if there is none, `Wakes::answer` has the reason.
    #[inline(always)]
    pub(super) fn dequeue(&mut self, cx: &mut Cx) -> Option<Pkt> {
        self.qdisc.dequeue(&mut self.account, cx)
    }
    /// Returns the answer that `dequeue` would give, if the qdisc knows it without a dequeue.
    pub(super) fn peek(&mut self, cx: &mut Cx) -> Option<Peek> {
        let before = cx.effects.counts();
        let answer = self.qdisc.peek(cx);
        self.account.settle_drops(&before, cx);
        answer
    }
}
