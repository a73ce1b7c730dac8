//! `Totals`: the counts of a port: the sums over its paths, those of removed paths included where
//! they count what has happened.

use super::lanes::Lanes;
use crate::base::tally::Tally;
use crate::packet::reason::{DropReason, MarkReason, Reasons};
use crate::path::txpath::{PathStats, TxPath};
use crate::sched::node::Books;

/// Sums over the paths of a port.
#[derive(Debug)]
pub struct Totals<'a, F>(pub(super) &'a Lanes<F>);

impl<F> Totals<'_, F> {
    /// Returns the books of the root: the sums over the queues where it stands for them.
    pub fn books(&self) -> Books {
        let roots = self.0.paths.iter().map(|path| path.tree().root().books());
        roots.fold(Books::default(), |sum, b| sum.plus(&b))
    }
    /// Returns the packets dropped and marked in the root's qdiscs, by reason, summed likewise.
    pub fn reasons(&self) -> Reasons {
        let roots = self.0.paths.iter().map(|path| path.tree().root().account().reasons());
        roots.fold(Reasons::default(), |sum, reasons| sum.plus(reasons))
    }
    /// Returns the counters of all paths, removed ones included.
    pub fn stats(&self) -> PathStats {
        self.0.paths.iter().fold(self.0.before.stats, |all, path| all.plus(path.stats()))
    }
    /// Returns the number of packets dropped for `reason` on all paths, removed ones included.
    pub fn drops(&self, reason: DropReason) -> u64 {
        let of = |path: &TxPath<F>| path.cx().drops(reason);
        self.0.before.drops[reason as usize] + self.0.paths.iter().map(of).sum::<u64>()
    }
    /// Returns the number of packets marked for `reason`, likewise.
    pub fn marks(&self, reason: MarkReason) -> u64 {
        let of = |path: &TxPath<F>| path.cx().marks(reason);
        self.0.before.marks[reason as usize] + self.0.paths.iter().map(of).sum::<u64>()
    }
    /// Returns everything that was dropped, likewise.
    pub fn dropped(&self) -> Tally {
        self.0.paths.iter().fold(self.0.before.dropped, |all, path| all.plus(path.cx().dropped()))
    }
    /// Returns the byte limit and the amount in flight, sums over all paths; `None` if there is no
    /// byte limit.
    pub fn byte_limit(&self) -> Option<(u64, u64)> {
        self.0.config.bql.as_ref()?;
        let limits = self.0.paths.iter().filter_map(|path| path.tx().limit());
        Some(limits.fold((0, 0), |(limit, inflight), dql| {
            (limit + u64::from(dql.limit()), inflight + u64::from(dql.inflight()))
        }))
    }
    /// Returns the packets and bytes that wait in all qdiscs.
    pub fn backlog(&self) -> Tally {
        self.0.paths.iter().fold(Tally::default(), |all, path| all.plus(path.backlog()))
    }
}
