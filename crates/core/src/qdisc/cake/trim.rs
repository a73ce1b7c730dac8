//! The limit of memory: the longest queue gives packets up.

use crate::base::bound::Bound;
use crate::packet::reason::DropReason;
use crate::qdisc::cake::Cake;
use crate::qdisc::cake::flows::FLOWS;
use crate::sched::cx::Cx;

impl Cake {
    /// Drops the oldest packet of the longest queue until there is memory enough.
    #[inline]
    pub(super) fn trim(&mut self, cx: &mut Cx) {
        let mut bound = Bound::of(self.packets as usize);
        while self.memory > self.memory_limit && self.packets > 0 {
            bound.turn();
            self.drop_longest(cx);
        }
    }

    #[cold]
    fn drop_longest(&mut self, cx: &mut Cx) {
        let (mut tin, mut f) = self.backlogs.longest();
        if self.backlogs.of(tin, f) == 0 {
            // Packets of zero length count no bytes: any flow with a packet will do.
            let waiting = |q: &usize| {
                let flow = self.tins[q / FLOWS].flows.flows.get(q % FLOWS);
                flow.is_some_and(|flow| !flow.packets.is_empty())
            };
            let any = (0..self.tins.len() * FLOWS).find(waiting).unwrap_or(0);
            (tin, f) = (any / FLOWS, any % FLOWS);
        }
        let Some(p) = self.pop(tin, f, cx) else { return };
        let t = &mut self.tins[tin];
        let began = t.flows.flows[f].law.on_full(&t.law, cx.now);
        t.stats.unresponsive_flows += u32::from(began);
        if self.cfg.ingress {
            self.charge(tin, &p, true, cx);
        }
        self.drop(tin, f, p, DropReason::Overmemory, cx);
    }
}
