//! `Trees`: the qdiscs of a device to look at, whether they are one tree or one for each transmit queue.

use alloc::vec::Vec;

use super::Port;
use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::classify::filter::BlockId;
use crate::packet::pool::Pool;
use crate::path::tree::{Place, Tree};
use crate::qdisc::Registry;
use crate::sched::node::Node;

/// The qdiscs of a device: one tree, or one for each transmit queue below a root that stands for them.
#[derive(Clone, Debug)]
pub struct Trees<'a> {
    shell: Option<&'a Node>,
    paths: Vec<(&'a Tree, Option<&'a Pool>)>,
    env: &'a Env,
    blocks: Vec<(Handle, BlockId)>,
    of_port: bool,
}

impl<'a> From<&'a Tree> for Trees<'a> {
    fn from(tree: &'a Tree) -> Self {
        let of_port = tree.is_of_port();
        Self {
            shell: None,
            paths: alloc::vec![(tree, None)],
            env: tree.env(),
            blocks: tree.blocks().collect(),
            of_port,
        }
    }
}

impl<'a> Trees<'a> {
    /// One tree, and the packets that wait in it.
    pub fn with_pool(tree: &'a Tree, pool: &'a Pool) -> Self {
        Self { paths: alloc::vec![(tree, Some(pool))], ..Self::from(tree) }
    }
    pub(super) fn of_port<F>(port: &'a Port<F>) -> Self {
        let paths = port.paths.iter().map(|path| (path.tree(), Some(&path.cx().pool))).collect();
        Self { shell: port.shell.as_ref(), paths, env: port.env(), blocks: port.blocks(), of_port: true }
    }

    /// The device that they are on.
    pub const fn env(&self) -> &'a Env {
        self.env
    }
    /// The kinds of their qdiscs.
    pub fn kinds(&self) -> Registry {
        self.paths.first().map_or(Registry::BUILT_IN, |(tree, _)| tree.kinds())
    }
    /// Whether they are those of a port: then a device of several queues has mq at its root where nothing was added.
    pub const fn is_of_port(&self) -> bool {
        self.of_port
    }
    /// The trees.
    pub fn trees(&self) -> impl Iterator<Item = &'a Tree> + '_ {
        self.paths.iter().map(|(tree, _)| *tree)
    }
    /// The root qdisc. There is always a tree.
    pub fn root(&self) -> &'a Node {
        self.shell.unwrap_or_else(|| self.paths[0].0.root())
    }
    /// Calls `f` on every qdisc, parents first: see `Tree::visit`.
    pub fn visit(&self, f: &mut dyn FnMut(Place, &'a Node)) {
        self.visit_with(&mut |place, node, _| f(place, node));
    }
    /// The same, with the packets among which are those that wait there, where they are known.
    pub fn visit_with(&self, f: &mut dyn FnMut(Place, &'a Node, Option<&'a Pool>)) {
        let Some(shell) = self.shell else {
            return self
                .paths
                .iter()
                .for_each(|(tree, pool)| tree.visit(&mut |place, node| f(place, node, *pool)));
        };
        f(Place { parent: Handle::ROOT, depth: 0 }, shell, None);
        for (queue, (tree, pool)) in (1..).zip(&self.paths) {
            tree.visit(&mut |place, node| {
                let parent = match place.parent {
                    Handle::ROOT => Handle::new(shell.handle().major(), queue),
                    class => class,
                };
                f(Place { parent, depth: place.depth + 1 }, node, *pool);
            });
        }
    }
    /// The filters of a qdisc, a class, or another place.
    pub fn block(&self, at: Handle) -> Option<BlockId> {
        let found = self.blocks.binary_search_by_key(&at, |(handle, _)| *handle).ok()?;
        self.blocks.get(found).map(|(_, block)| *block)
    }
    /// All places that have filters, in the order of their handles.
    pub fn blocks(&self) -> impl Iterator<Item = (Handle, BlockId)> + '_ {
        self.blocks.iter().copied()
    }
}
