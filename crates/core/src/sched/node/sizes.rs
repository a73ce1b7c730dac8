//! `Sizes`: the size table at a node. The node and everything below it count the charged sizes; the
//! nodes above count wire bytes.

use crate::base::handle::ClassId;
use crate::packet::pool::{Pkt, Pool};
use crate::packet::route::Candidate;
use crate::sched::answer::Verdict;
use crate::sched::cx::Cx;
use crate::sched::erased::Qdisc;
use crate::sched::node::account::{Account, Special};
use crate::sched::stab::SizeTable;

/// The size table of a node. `None` without one, and once it was removed; packets that it has
/// charged may still wait (`Special::SIZED`).
#[derive(Debug, Default)]
pub(super) struct Sizes(pub(super) Option<SizeTable>);

impl Sizes {
    /// Charges an arriving packet.
    pub(super) fn charge(&self, p: &Pkt, pool: &mut Pool) {
        if let Some(table) = &self.0 {
            let charged = table.charge(pool.meta(p));
            pool.charge(p, charged);
        }
    }
    /// As `Qdisc::would_accept`. The qdisc, and those below it, answer in charged sizes; the
    /// returned answer is in wire bytes.
    pub(super) fn would_accept(
        &self,
        m: &Candidate<'_>,
        class: Option<ClassId>,
        qdisc: &dyn Qdisc,
    ) -> Verdict {
        let Some(table) = &self.0 else { return qdisc.would_accept(m, class) };
        let mut charged = *m.meta;
        charged.wire_len = table.charge(m);
        match qdisc.would_accept(&Candidate { meta: &charged, ..*m }, class) {
            Verdict::Cut(max) | Verdict::TooLarge(max) => match table.largest_within(max) {
                max if m.segs > 1 && m.segment_len() <= max => Verdict::Cut(max),
                max => Verdict::TooLarge(max),
            },
            other => other,
        }
    }
    /// Restores the wire bytes of the departing packet in slot `index`, for the nodes above.
    #[cold]
    #[inline(never)]
    pub(super) fn leave(&self, index: usize, account: &mut Account, cx: &mut Cx) {
        let (charged, wire_len) = cx.pool.uncharge(index);
        account.passed_charged(wire_len, charged);
        self.forget(account);
    }
    /// Settles the drops in wire bytes for the nodes above.
    #[cold]
    #[inline(never)]
    pub(super) fn settle(&self, account: &mut Account, cx: &mut Cx) {
        cx.settle_sizes();
        self.forget(account);
    }
    /// Clears the state of a removed table, once no packet that it has charged is queued.
    pub(super) fn forget(&self, account: &mut Account) {
        if account.is_empty() && self.0.is_none() {
            account.special.set(Special::SIZED, false);
        }
    }
}
