//! `Editing`: the qdiscs of a port while they are changed by their handles.

use alloc::vec::Vec;

use super::change::{Fate, NewRoot};
use super::{Port, Queues};
use crate::base::env::Env;
use crate::base::time::Instant;
use crate::classify::filter::BlockId;
use crate::path::bindings::Bindings;
use crate::path::qdiscs::{Edit, Forest, stands_for_queues};
use crate::path::trees::Trees;
use crate::path::txpath::TxPath;
use crate::qdisc::mqprio;
use crate::sched::cx::Cx;
use crate::sched::node::Node;
use crate::text::error::ConfigError;

/// A port, the device behind it, and the time of a change.
pub(super) struct Editing<'a, F, D> {
    port: &'a mut Port<F>,
    dev: &'a mut D,
    now: Instant,
    fate: Fate,
    /// The paths below a root that was replaced, each with its queue; only if packets are kept.
    replaced: Option<Vec<(u16, TxPath<F>)>>,
}

impl<'a, F, D: Queues<Frame = F>> Editing<'a, F, D> {
    pub(super) const fn new(port: &'a mut Port<F>, dev: &'a mut D, now: Instant, fate: Fate) -> Self {
        Self { port, dev, now, fate, replaced: None }
    }
    pub(super) fn into_replaced(self) -> Option<Vec<(u16, TxPath<F>)>> {
        self.replaced
    }
}

impl<F, D: Queues<Frame = F>> Forest for Editing<'_, F, D> {
    fn env(&self) -> Env {
        self.port.lanes.config.env
    }
    fn trees(&self) -> Trees<'_> {
        self.port.trees()
    }
    fn edit(&mut self, at: usize, f: Edit<'_>) -> Result<(), ConfigError> {
        self.port.on_path(at, self.now, self.dev, self.fate, f)
    }
    fn edit_shell(&mut self, f: &mut dyn FnMut(&mut Node, &mut Cx)) {
        // No packet meets that root, so no path's context is needed.
        let mut cx = Cx::new(1, self.port.lanes.config.env.seed);
        cx.now = self.now;
        if let Some(shell) = &mut self.port.lanes.shell {
            f(shell, &mut cx);
        }
    }
    fn put_root(&mut self, root: Option<Node>) {
        let root = match root {
            Some(node) if stands_for_queues(node.qdisc().spec().kind) => {
                let classes = mqprio::classes_of(node.qdisc());
                NewRoot::Shell(node, classes)
            }
            one => NewRoot::One(one),
        };
        let gone = self.port.put_root(self.now, root);
        match self.fate {
            Fate::Purged => self.port.purge(self.now, gone, self.dev),
            Fate::Kept => {
                for path in self.port.paths_mut() {
                    path.held_mut().begin_swap(self.now);
                }
                self.replaced.get_or_insert_default().extend(gone);
            }
        }
    }
    fn bindings(&mut self) -> &mut Bindings {
        &mut self.port.lanes.bindings
    }
    fn take_orphans(&mut self) -> Vec<BlockId> {
        let gone = self.replaced.iter_mut().flatten();
        let mut all: Vec<BlockId> = gone
            .flat_map(|(_, path)| path.held_mut().edit(|tree, _| tree.bind(Bindings::take_orphans)))
            .collect();
        all.extend(self.port.take_orphans());
        all
    }
}
