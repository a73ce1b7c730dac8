//! The packets that wait while the options change: other flows, other bands, a smaller limit.

use super::flow::{Place, launch_of};
use super::{Bound, Cx, Discipline, DropReason, Fq, List};

impl Fq {
    /// Drops packets that wait for their time, until each band is within the limit: the first ones
    /// of each flow that are in a band above it.
    pub(super) fn trim(&mut self, cx: &mut Cx) {
        for f in 0..self.flows.len() {
            if self.bands.iter().all(|b| b.packets <= self.limits.limit) {
                return;
            }
            self.trim_flow(f, cx);
        }
    }
    fn trim_flow(&mut self, f: usize, cx: &mut Cx) {
        let mut all = List::new();
        self.flows[f].packets.evict_all(&mut all, &mut cx.pool);
        let mut bound = Bound::of(cx.pool.capacity());
        while let Some(p) = all.pop_front(&cx.pool) {
            bound.turn();
            let m = cx.meta(&p);
            let (band, launch) = (self.limits.band(m), launch_of(m));
            let flow = &mut self.flows[f];
            if self.bands[band].packets <= self.limits.limit {
                flow.latest = launch;
                flow.packets.push_back(&mut cx.pool, p);
                continue;
            }
            flow.len -= 1;
            if flow.len == 0 {
                self.busy -= 1;
                self.active -= u32::from(flow.place != Place::Throttled);
            }
            self.packets -= 1;
            self.bands[band].packets -= 1;
            cx.drop(p, DropReason::Purged);
        }
    }

    /// Moves every waiting packet to its flow under the present options, so that no later packet of
    /// the flow overtakes it.
    pub(super) fn rehome(&mut self, cx: &mut Cx) {
        let mut all = List::new();
        self.evict_all(&mut all, &mut cx.pool);
        let mut bound = Bound::of(cx.pool.capacity());
        while let Some(p) = all.pop_front(&cx.pool) {
            bound.turn();
            let m = cx.meta(&p);
            let (f, band) = (self.limits.flow(m), self.limits.band(m));
            if self.flows[f].place == Place::Unknown {
                self.learn(f, cx.now);
            }
            self.join(f, band, p, cx);
        }
    }
}
