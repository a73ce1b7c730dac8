//! `Whole`: the way to a link as one, of which several workers have a part each. Where each queue
//! has qdiscs of its own, the qdiscs in use are those of the queue's owner. Counts are sums over
//! all parts: each frame is counted in one of them.

use txweir_core::path::trees::Trees;
use txweir_core::path::txpath::PathStats;
use txweir_core::text::stats::Counters;
use txweir_core::turns::{Gate, GateStats, Quota};
use txweir_core::{DropReason, MarkReason, Tally, TxPath};
use txweir_device::Frame;
use txweir_runtime::{Crossed, Delays, Direction, DirectionStats, Ledger};
use txweir_tc::json::Object;

use crate::end::End;
use crate::link::{Link, Owners};

/// The event that a reason explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Drop,
    Mark,
}

/// The parts of a way, none of which is in a turn.
#[derive(Debug)]
pub(crate) struct Whole<'a> {
    parts: Vec<&'a Direction<End>>,
    owners: Option<Owners>,
}

impl<'a> Whole<'a> {
    /// Returns the way to a link, of which workers may have copies.
    pub fn to(link: &'a Link) -> Self {
        Self { parts: link.gathered().map(|copy| &copy.way).collect(), owners: link.owners() }
    }

    /// Returns the way of which each worker has one of these parts, of which there is at least one,
    /// and the owners of its queues.
    pub const fn of(parts: Vec<&'a Direction<End>>, owners: Option<Owners>) -> Self {
        Self { parts, owners }
    }

    /// Returns the part that has the first queue, or all of them.
    pub fn main(&self) -> &'a Direction<End> {
        self.parts[self.owner(0)]
    }
    /// Iterates over the parts, in the order of the workers.
    pub fn parts(&self) -> impl Iterator<Item = &'a Direction<End>> + '_ {
        self.parts.iter().copied()
    }
    fn owner(&self, queue: usize) -> usize {
        self.owners.as_ref().map_or(0, |owners| owners.of(queue))
    }

    /// Returns the qdiscs.
    pub fn trees(&self) -> Trees<'a> {
        let all: Vec<Trees<'a>> = self.parts().map(|part| part.port().trees()).collect();
        Trees::gathered(&all, |queue| self.owner(queue))
    }
    /// Returns the counters of frames.
    pub fn stats(&self) -> DirectionStats {
        sum(self.parts().map(Direction::stats))
    }
    /// Returns the counters of the paths.
    pub fn path(&self) -> PathStats {
        sum(self.parts().map(|part| part.port().totals().stats()))
    }
    /// Returns the packets that wait in qdiscs.
    pub fn backlog(&self) -> Tally {
        self.parts().map(|part| part.port().totals().backlog()).fold(Tally::default(), Tally::plus)
    }
    /// Returns the sum of the byte limits of the queues that are in use, and of the bytes in
    /// flight; `None` without byte limits.
    pub fn byte_limit(&self) -> Option<(u64, u64)> {
        let limits = self.paths().filter_map(|path| path.tx().limit());
        let sums = limits.map(|dql| (u64::from(dql.limit()), u64::from(dql.inflight())));
        match self.owners {
            None => self.main().port().totals().byte_limit(),
            Some(_) => sums.reduce(|a, b| (a.0 + b.0, a.1 + b.1)),
        }
    }
    /// Returns the bytes on the wire or in the device.
    pub fn in_flight(&self) -> u64 {
        self.parts().map(Direction::in_flight).sum()
    }
    /// Iterates over the paths of the queues, or the one that all share, each as its owner has it.
    pub fn paths(&self) -> impl Iterator<Item = &'a TxPath<Frame>> + '_ {
        let many = self.parts[0].port().paths().len();
        (0..many).filter_map(|queue| self.parts[self.owner(queue)].port().paths().get(queue))
    }
    /// Returns the times that frames spent in each stage, if they are counted.
    pub fn delays(&self) -> Option<Delays> {
        self.parts().filter_map(Direction::delays).copied().reduce(|a, b| a.plus(&b))
    }
    /// Returns all frames by their fate or place; those between two workers are in neither.
    pub fn ledger(&self) -> Ledger {
        sum(self.parts().map(Direction::ledger))
    }
    /// Returns the counts of frames that crossed between workers, if there are several.
    pub fn crossed(&self) -> Option<Crossed> {
        self.owners.as_ref().map(|_| sum(self.parts().map(Direction::crossed)))
    }
    /// Returns the share of the qdiscs that a flow may have, the counts of the gates ahead of them,
    /// and the frames that wait there, if flows take turns.
    pub fn gate(&self) -> Option<(Quota, GateStats, usize)> {
        let quota = self.parts[0].gate()?.quota();
        let gates = || self.parts().filter_map(Direction::gate);
        Some((quota, sum(gates().map(Gate::stats)), gates().map(Gate::waiting).sum()))
    }

    /// Calls `f` with the event, name and count of each reason whose counter is not 0.
    pub fn each_reason(&self, f: &mut dyn FnMut(Why, &'static str, u64)) {
        let drops = |r| self.parts().map(|part| part.port().totals().drops(r)).sum::<u64>();
        let marks = |r| self.parts().map(|part| part.port().totals().marks(r)).sum::<u64>();
        let drops = DropReason::ALL.iter().map(|r| (Why::Drop, r.name(), drops(*r)));
        let marks = MarkReason::ALL.iter().map(|r| (Why::Mark, r.name(), marks(*r)));
        drops.chain(marks).filter(|(_, _, n)| *n > 0).for_each(|(why, name, n)| f(why, name, n));
    }

    /// Returns the reasons of drops, or of marks, whose counters are not 0.
    pub fn reasons(&self, wanted: Why) -> String {
        let mut o = Some(Object::new());
        self.each_reason(&mut |why, name, n| {
            if why == wanted {
                o = o.take().map(|o| o.uint(name, n));
            }
        });
        o.unwrap_or_default().finish()
    }
}

/// Returns the sums of counters. Of those that are the most that was seen it is the most.
fn sum<T: Counters + Default>(all: impl Iterator<Item = T>) -> T {
    let numbers = |counters: &T| {
        let mut numbers = Vec::with_capacity(T::TABLE.len());
        counters.visit(&mut |_, n| numbers.push(n));
        numbers
    };
    all.reduce(|a, b| {
        let (a, b) = (numbers(&a), numbers(&b));
        let mut next = T::TABLE.iter().zip(a.iter().zip(&b)).map(|(counter, (a, b))| {
            let is_most = counter.key.ends_with("_max") || counter.key.ends_with("_max_ns");
            if is_most { *a.max(b) } else { a + b }
        });
        T::read(&mut || next.next().unwrap_or(0))
    })
    .unwrap_or_default()
}
