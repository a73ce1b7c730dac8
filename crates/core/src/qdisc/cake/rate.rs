//! The rate of a cake, the parts of its tins, and another number of tins.

use super::*;

impl Cake {
    /// Reports an arrival to the estimate; the shaper may follow it.
    #[inline]
    pub(super) fn follow(&mut self, bytes: i64, now: Instant) {
        if !self.cfg.bandwidth.autorate {
            self.estimate.ignore(now);
        } else if let Some(rate) = self.estimate.arrived(bytes, now) {
            self.rate = rate;
            self.set_rate();
        }
    }

    /// Returns the memory that is allowed whatever this arrival does to the rate.
    pub(super) fn memory_sure(&self) -> u64 {
        let follows = self.cfg.bandwidth.autorate && self.cfg.memlimit.0.is_none();
        if follows { self.memory_limit.min(memory::LEAST) } else { self.memory_limit }
    }

    /// Returns the time at which a packet may leave; one in the past means at once.
    #[inline]
    pub(super) fn due(&mut self, now: Instant) -> Instant {
        match &mut self.leased {
            Some(leased) => leased.due_of(backlog_of(&self.tins), now),
            None => self.schedule.due(),
        }
    }

    /// Gives every tin its share of the rate, and bounds the memory.
    pub(super) fn set_rate(&mut self) {
        let (target, interval) = (self.cfg.rtt.target(), self.cfg.rtt.interval());
        for (tin, share) in self.tins.iter_mut().zip(self.plan.shares) {
            tin.configure(share.of(self.rate), share.quantum, self.frame.0, target, interval);
        }
        let shaped = !self.schedule.pace.is_unlimited();
        self.schedule.pace = self.tins[0].threshold.pace;
        if shaped && self.schedule.pace.is_unlimited() {
            self.tins.iter_mut().for_each(|tin| tin.deficit = 0);
        }
        if let Some(active) = self.part.as_ref().map(|part| part.active()) {
            self.set_paces(active);
        }
        let unsaid = || memory::limit(self.rate, interval, self.frame.0);
        self.memory_limit = self.cfg.memlimit.0.map_or_else(unsaid, |said| said.0);
    }

    /// Gives the link and every tin the pace of their part of the rate, which is split among so
    /// many queues. The laws stay those of the whole rate, as in the reference.
    pub(super) fn set_paces(&mut self, active: u32) {
        let rate = Rate(self.rate.0 / u64::from(active.max(1)));
        for (tin, share) in self.tins.iter_mut().zip(self.plan.shares) {
            tin.set_pace(share.of(rate));
        }
        self.schedule.pace = self.tins[0].threshold.pace;
    }

    /// Changes to the configured plan: tins that it does not have lose their packets.
    pub(super) fn set_tins(&mut self, env: &Env, cx: &mut Cx) {
        self.plan = self.cfg.diffserv.plan();
        self.dscps = self.cfg.diffserv.table();
        let tins = self.plan.shares.len();
        self.purge(tins, cx);
        let had = self.tins.len();
        self.tins.resize_with(tins.max(had), || Tin::new(env));
        self.backlogs.grow(tins);
        self.current %= tins;
    }

    /// Drops the packets in the tins from `first` on.
    pub(super) fn purge(&mut self, first: usize, cx: &mut Cx) {
        let mut gone = List::new();
        for tin in first..self.tins.len() {
            self.drain_tin(tin, &mut gone, &mut cx.pool);
        }
        let mut bound = Bound::of(cx.pool.capacity());
        while let Some(p) = gone.pop_front(&cx.pool) {
            bound.turn();
            cx.drop(p, DropReason::Purged);
        }
    }

    pub(super) fn drain_tin(&mut self, tin: usize, out: &mut List, pool: &mut Pool) {
        for f in 0..self.tins[tin].flows.flows.len() {
            let mut list = core::mem::take(&mut self.tins[tin].flows.flows[f].packets);
            for m in list.metas(pool) {
                self.left(tin, f, m);
            }
            out.append(pool, &mut list);
        }
    }
}
