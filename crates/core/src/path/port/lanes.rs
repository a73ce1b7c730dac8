//! `Lanes`: the paths of a port and the root above them: one path for each queue, or one for all.

use alloc::vec::Vec;

use super::SLOTS_MAX;
use crate::base::tally::Tally;
use crate::packet::reason::{DropReason, MarkReason};
use crate::path::bindings::Bindings;
use crate::path::dql::DqlError;
use crate::path::txpath::{PathConfig, PathStats, TxPath};
use crate::qdisc::Registry;
use crate::qdisc::mq::default_shell;
use crate::sched::node::Node;

/// The paths of a port.
#[derive(Debug)]
pub(super) struct Lanes<F> {
    pub(super) config: PathConfig,
    /// The root where each queue has a path of its own: mq or mqprio. It stands for the paths, and
    /// no packet meets it.
    pub(super) shell: Option<Node>,
    pub(super) paths: Vec<TxPath<F>>,
    /// Counters of removed paths.
    pub(super) before: Before,
    /// The filters of places that are in no path's tree, and the orphaned filters of removed trees.
    pub(super) bindings: Bindings,
    /// Registry of the kinds of its qdiscs.
    kinds: Registry,
}

/// Counters of removed paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) stats: PathStats,
    dropped: Tally,
    pub(super) drops: [u64; DropReason::COUNT],
    pub(super) marks: [u64; MarkReason::COUNT],
}

impl<F> Lanes<F> {
    /// Returns the default root and the paths that it asks for.
    pub(super) fn new(config: PathConfig) -> Result<Self, DqlError> {
        let before = Before {
            stats: PathStats::default(),
            dropped: Tally::default(),
            drops: [0; DropReason::COUNT],
            marks: [0; MarkReason::COUNT],
        };
        let shell = default_shell(&config.env);
        let (bindings, kinds) = (Bindings::default(), Registry::BUILT_IN);
        let mut lanes = Self { config, shell, paths: Vec::new(), before, bindings, kinds };
        for _ in 0..lanes.wanted() {
            lanes.paths.push(TxPath::new(lanes.path_config())?);
        }
        Ok(lanes)
    }
    /// Replaces the registry of kinds, before any qdisc is added.
    pub(super) fn set_kinds(&mut self, kinds: Registry) {
        self.kinds = kinds;
        self.paths =
            core::mem::take(&mut self.paths).into_iter().map(|path| path.with_kinds(kinds)).collect();
    }
    /// True if each queue has a path of its own.
    pub(super) const fn is_split(&self) -> bool {
        self.shell.is_some()
    }
    /// Returns the number of the path of a queue.
    #[inline]
    pub(super) const fn of(&self, queue: u16) -> usize {
        if self.is_split() { queue as usize } else { 0 }
    }
    /// Returns the number of paths that the root asks for.
    fn wanted(&self) -> usize {
        if self.is_split() { usize::from(self.config.env.queues) } else { 1 }
    }
    /// Returns the configuration of one path.
    fn path_config(&self) -> PathConfig {
        let pool = (SLOTS_MAX / self.wanted().max(1)).min(self.config.pool);
        PathConfig { pool, ..self.config.clone() }
    }
    /// Makes the paths that are missing.
    pub(super) fn fill(&mut self) {
        while self.paths.len() < self.wanted() {
            // The configuration of the byte limit was accepted when the port was made.
            let Ok(path) = TxPath::new(self.path_config()) else { break };
            self.paths.push(path.with_kinds(self.kinds));
        }
    }
    /// Removes a path: keeps its counts, and orphans the filters of its tree.
    pub(super) fn retire(&mut self, mut path: TxPath<F>) {
        let before = &mut self.before;
        before.stats = before.stats.plus(path.stats());
        before.dropped = plus(before.dropped, path.cx().dropped());
        DropReason::ALL.iter().for_each(|r| before.drops[*r as usize] += path.cx().drops(*r));
        MarkReason::ALL.iter().for_each(|r| before.marks[*r as usize] += path.cx().marks(*r));
        self.bindings.orphan(path.held_mut().edit(|tree, _| tree.bind(Bindings::take_orphans)));
        self.bindings.orphan(path.tree().blocks().map(|(_, block)| block));
    }
    /// Returns everything that was dropped, on present and on removed paths.
    pub(super) fn dropped(&self) -> Tally {
        self.paths.iter().fold(self.before.dropped, |all, path| plus(all, path.cx().dropped()))
    }
}

pub(super) const fn plus(a: Tally, b: Tally) -> Tally {
    Tally { packets: a.packets + b.packets, bytes: a.bytes + b.bytes }
}
