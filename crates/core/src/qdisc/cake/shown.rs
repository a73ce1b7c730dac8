//! The flows and tins of cake, as `tc -s class show` and `tc -s qdisc show` list them.

use super::Cake;
use super::flows::{FLOWS, Place};
use crate::base::handle::{ClassId, Handle};
use crate::base::tally::Tally;
use crate::packet::pool::Pool;
use crate::packet::route::{Classified, FilterOutcome};
use crate::sched::capability::{FlowShown, Flows};
use crate::text::stats::{Counter, Counters};

impl Flows for Cake {
    fn flows(&self, pool: &Pool, f: &mut dyn FnMut(FlowShown<'_>)) {
        for (i, tin) in (0u32..).zip(self.plan.order) {
            let flows = &self.tins[usize::from(*tin)].flows.flows;
            for (j, flow) in (0u32..).zip(flows).filter(|(_, flow)| flow.place != Place::None) {
                let law = &flow.law;
                let values = [
                    ("deficit", i64::from(flow.deficit)),
                    ("count", i64::from(law.count())),
                    ("dropping", i64::from(law.dropping())),
                    ("drop_next", law.lag(self.seen) / 1000),
                    ("blue_prob", i64::from(law.p_drop())),
                    ("blue_timer", law.blue_age(self.seen) / 1000),
                    ("drops", i64::from(flow.dropped)),
                ];
                let bytes = self.backlogs.of(usize::from(*tin), j as usize);
                let packets = flow.packets.metas(pool).count() as u64;
                let minor = i * FLOWS as u32 + j + 1;
                f(FlowShown { minor, backlog: Tally { packets, bytes }, values: &values });
            }
        }
    }
    /// The major number of the class is a host, the minor a flow.
    fn classify_result(&self, class: Option<ClassId>, _asked: Option<Handle>, _own: Handle) -> Classified {
        Classified::Final(class.map_or(FilterOutcome::Nothing, FilterOutcome::Class))
    }
    fn parts(&self, f: &mut dyn FnMut(&'static str, &'static Counter, u64)) {
        for (name, tin) in self.plan.names.iter().zip(self.plan.order) {
            self.tins[usize::from(*tin)].counted().visit(&mut |counter, n| f(name, counter, n));
        }
    }
}
