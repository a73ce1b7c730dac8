//! `Lanes`: the paths of a port and the root above them: one path for each queue, or one for all.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::SLOTS_MAX;
use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::base::queues::QueueSet;
use crate::base::tally::Tally;
use crate::classify::filter::BlockId;
use crate::packet::reason::{DropReason, MarkReason};
use crate::path::bindings::Bindings;
use crate::path::dql::DqlError;
use crate::path::tree::Grave;
use crate::path::trees::Trees;
use crate::path::txpath::{PathConfig, PathStats, TxPath};
use crate::qdisc::Registry;
use crate::qdisc::mq::default_shell;
use crate::sched::node::Node;
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::value::{Words, exact_of};

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
    /// Qdiscs that were replaced, and are freed in parts.
    pub(super) graves: Vec<Grave>,
    /// Registry of the kinds of its qdiscs.
    kinds: Registry,
}

/// Counters of removed paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) stats: PathStats,
    pub(super) dropped: Tally,
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
        let mut lanes =
            Self { config, shell, paths: Vec::new(), before, bindings, graves: Vec::new(), kinds };
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
        // Bound: a turn for each path that is missing. No packet waits for this loop.
        while self.paths.len() < self.wanted() {
            // The configuration of the byte limit was accepted when the port was made.
            let Ok(path) = TxPath::new(self.path_config()) else { break };
            self.paths.push(path.with_kinds(self.kinds));
        }
    }
    /// Removes the paths that are too many, and makes those that are missing.
    pub(super) fn keep_wanted(&mut self) {
        let wanted = self.wanted().min(self.paths.len());
        let surplus: Vec<TxPath<F>> = self.paths.drain(wanted..).collect();
        surplus.into_iter().for_each(|path| self.retire(path));
        self.fill();
    }
    /// Removes a path: keeps its counts, and orphans the filters of its tree.
    pub(super) fn retire(&mut self, mut path: TxPath<F>) {
        let before = &mut self.before;
        before.stats = before.stats.plus(path.stats());
        before.dropped = before.dropped.plus(path.cx().dropped());
        DropReason::ALL.iter().for_each(|r| before.drops[*r as usize] += path.cx().drops(*r));
        MarkReason::ALL.iter().for_each(|r| before.marks[*r as usize] += path.cx().marks(*r));
        self.bindings.orphan(path.held_mut().edit(|tree, _| tree.bindings.take_orphans()));
        self.bindings.orphan(path.tree().blocks().map(|(_, block)| block));
    }

    /// Returns the properties of the device that qdiscs know.
    pub(super) fn env(&self) -> &Env {
        self.paths.first().map_or(&self.config.env, |path| path.tree().env())
    }
    /// Returns the qdiscs, read-only.
    pub(super) fn trees(&self) -> Trees<'_> {
        let paths = self.paths.iter().map(|path| (path.tree(), Some(&path.cx().pool))).collect();
        Trees::of_queues(self.shell.as_ref(), paths, self.env(), &self.bindings)
    }
    /// Returns the filters of a place.
    pub(super) fn block(&self, at: Handle) -> Option<BlockId> {
        let in_tree = || self.paths.iter().find_map(|path| path.tree().block(at));
        self.bindings.block(at).or_else(in_tree)
    }
    /// See `Qdiscs::take_orphans`.
    pub(super) fn take_orphans(&mut self) -> Vec<BlockId> {
        let mut all = self.bindings.take_orphans();
        for path in &mut self.paths {
            all.extend(path.held_mut().edit(|tree, _| tree.bindings.take_orphans()));
        }
        all
    }

    /// Returns the root that stands for this many queues, if the root is one of these kinds.
    pub(super) fn shell_of(&self, queues: u16) -> Result<Option<Node>, ConfigError> {
        if !(1..=QueueSet::QUEUES_MAX).contains(&queues) {
            let expected = format!("1 to {} transmit queues", QueueSet::QUEUES_MAX);
            return Err(ConfigError::new(ErrorKind::OutOfRange, Object::Port, expected, queues).key("queues"));
        }
        let env = Env { queues, ..self.config.env };
        let first = self.paths.first().map(|path| path.tree().root().handle());
        Ok(match &self.shell {
            Some(shell) if shell.handle().is_none() => default_shell(&env),
            Some(shell) => Some(made_anew(shell, &env)?),
            None if first.is_some_and(|root| root.is_none()) => default_shell(&env),
            None => None,
        })
    }
}

/// Returns the words that make a qdisc like this.
fn words_of(node: &Node) -> Vec<String> {
    let mut words = Vec::new();
    node.qdisc().options(&mut |s| {
        if s.value.is_set() {
            words.extend(s.word.map(String::from));
            // The word of a flag is its value.
            let exact = if s.param.flag { String::new() } else { exact_of(s.value) };
            words.extend(exact.split_whitespace().map(String::from));
        }
    });
    words
}

/// Returns the same root for a device with other properties.
fn made_anew(shell: &Node, env: &Env) -> Result<Node, ConfigError> {
    let words = words_of(shell);
    let words: Vec<&str> = words.iter().map(|w| &**w).collect();
    let qdisc = shell.qdisc().spec().build(&mut Words::new(&words), env)?;
    Ok(Node::new(shell.handle(), qdisc))
}
