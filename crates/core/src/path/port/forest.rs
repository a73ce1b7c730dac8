//! `Editing`: the qdiscs of a port while they are changed by their handles.

use alloc::vec::Vec;

use super::Queues;
use super::control::{Control, Fate, NewRoot};
use crate::base::env::Env;
use crate::classify::filter::BlockId;
use crate::path::bindings::Bindings;
use crate::path::qdiscs::{Edit, Forest, stands_for_queues};
use crate::path::tree::{Grave, Whole};
use crate::path::trees::Trees;
use crate::path::txpath::TxPath;
use crate::qdisc::{mqprio, taprio};
use crate::sched::cx::Cx;
use crate::sched::node::Node;
use crate::text::error::ConfigError;

/// The qdiscs of a port during one change of them.
pub(super) struct Editing<'c, 'a, F, D> {
    control: &'c mut Control<'a, F, D>,
    fate: Fate,
    /// The paths below a root that was replaced, each with its queue; only if packets are kept.
    replaced: Option<Vec<(u16, TxPath<F>)>>,
}

impl<'c, 'a, F, D: Queues<Frame = F>> Editing<'c, 'a, F, D> {
    pub(super) const fn new(control: &'c mut Control<'a, F, D>, fate: Fate) -> Self {
        Self { control, fate, replaced: None }
    }
    pub(super) fn into_replaced(self) -> Option<Vec<(u16, TxPath<F>)>> {
        self.replaced
    }
}

impl<F, D: Queues<Frame = F>> Forest for Editing<'_, '_, F, D> {
    fn env(&self) -> Env {
        self.control.port.lanes.config.env
    }
    fn trees(&self) -> Trees<'_> {
        self.control.port.lanes.trees()
    }
    fn edit(&mut self, at: usize, f: Edit<'_>) -> Result<(), ConfigError> {
        self.control.on_path(at, self.fate, f)
    }
    fn edit_shell(&mut self, f: &mut dyn FnMut(&mut Node, &mut Cx)) {
        // No packet meets that root, so no path's context is needed.
        let mut cx = Cx::new(1, self.control.port.lanes.config.env.seed);
        cx.now = self.control.now;
        if let Some(shell) = &mut self.control.port.lanes.shell {
            f(shell, &mut cx);
        }
    }
    fn put_root(&mut self, root: Option<Node>) {
        let root = match root {
            Some(node) if stands_for_queues(node.qdisc().spec().kind) => {
                let classes = mqprio::classes_of(node.qdisc());
                NewRoot::Shell(node, classes)
            }
            one => {
                let classes = one.as_ref().and_then(|node| taprio::classes_of(node.qdisc()));
                NewRoot::One(one, classes)
            }
        };
        let gone = self.control.put_root(root);
        match self.fate {
            Fate::Purged => self.control.purge_replaced(gone),
            Fate::Kept => {
                let Control { port, now, .. } = &mut *self.control;
                for path in &mut port.lanes.paths {
                    path.held_mut().begin_swap(*now);
                }
                self.replaced.get_or_insert_default().extend(gone);
            }
        }
    }
    fn put_whole(&mut self, whole: Whole) {
        let Whole { shell, trees, .. } = whole;
        let plain = |shell: &Option<Node>| {
            shell.as_ref().is_none_or(|node| mqprio::classes_of(node.qdisc()).is_none())
        };
        let lanes = &mut self.control.port.lanes;
        // Packets stay in their queues if these are chosen as before.
        let same = lanes.shell.is_some() == shell.is_some() && plain(&lanes.shell) && plain(&shell);
        if same && lanes.paths.len() == trees.len() {
            lanes.shell = shell;
        } else {
            self.put_root(shell);
        }
        let Control { port, now, .. } = &mut *self.control;
        if port.lanes.shell.is_none() {
            let classes = trees.first().and_then(|tree| taprio::classes_of(tree.root().qdisc()));
            port.chooser.selector.set_classes(classes);
        }
        for (path, tree) in port.lanes.paths.iter_mut().zip(trees) {
            let old = path.held_mut().put_tree(*now, tree);
            port.lanes.graves.push(Grave::of(old));
        }
    }
    fn bindings(&mut self) -> &mut Bindings {
        &mut self.control.port.lanes.bindings
    }
    fn take_orphans(&mut self) -> Vec<BlockId> {
        let gone = self.replaced.iter_mut().flatten();
        let mut all: Vec<BlockId> =
            gone.flat_map(|(_, path)| path.held_mut().edit(|tree, _| tree.bindings.take_orphans())).collect();
        all.extend(self.control.port.lanes.take_orphans());
        all
    }
}
