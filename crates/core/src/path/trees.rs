//! `Trees`: the qdiscs of a device, read-only, whether they are one tree or one for each transmit
//! queue.

use alloc::vec::Vec;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::classify::filter::BlockId;
use crate::packet::meta::Meta;
use crate::packet::pool::Pool;
use crate::path::bindings::Bindings;
use crate::path::qdiscs::stands_for_queues;
use crate::path::tree::names::{self, Index};
use crate::path::tree::{Place, Tree, tables, visit_from};
use crate::qdisc::Registry;
use crate::sched::node::Node;
use crate::sched::spec::ClassShape;

/// The qdiscs of a device: one tree, or one for each transmit queue below a root that stands for
/// them.
#[derive(Clone, Debug)]
pub struct Trees<'a> {
    shell: Option<&'a Node>,
    paths: Vec<(&'a Tree, Option<&'a Pool>)>,
    env: &'a Env,
    /// The filters of places that are in no tree.
    apart: Option<&'a Bindings>,
    of_port: bool,
}

/// A qdisc, with its place in the device and in its own tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    pub(super) node: &'a Node,
    /// Its place in the device.
    pub(super) place: Place,
    /// The number of its tree and its place there; `None` for the root that stands for the queues.
    pub(super) in_tree: Option<(usize, Place)>,
}

impl<'a> From<&'a Tree> for Trees<'a> {
    fn from(tree: &'a Tree) -> Self {
        let of_port = tree.of_port;
        Self { shell: None, paths: alloc::vec![(tree, None)], env: tree.env(), apart: None, of_port }
    }
}

impl<'a> Trees<'a> {
    /// Returns one tree, and the packets that wait in it.
    pub fn with_pool(tree: &'a Tree, pool: &'a Pool) -> Self {
        Self { paths: alloc::vec![(tree, Some(pool))], ..Self::from(tree) }
    }
    /// Returns the trees of a port, at least one; `shell` is the root that stands for them, if
    /// there is one.
    pub(super) fn of_queues(
        shell: Option<&'a Node>,
        paths: Vec<(&'a Tree, Option<&'a Pool>)>,
        env: &'a Env,
        apart: &'a Bindings,
    ) -> Self {
        Self { shell, paths, env, apart: Some(apart), of_port: true }
    }

    /// Returns the trees of a port of which several owners have a copy each, and each tree is in
    /// use by one of them: `parts` are the copies, equal in structure, and `owner` returns the
    /// number of the copy whose tree of that number is in use. The rest is that of the first copy.
    ///
    /// # Panics
    /// There is no copy.
    #[must_use]
    pub fn gathered(parts: &[Self], owner: impl Fn(usize) -> usize) -> Self {
        let tree = |at: usize, first| {
            parts.get(owner(at)).and_then(|part| part.paths.get(at)).copied().unwrap_or(first)
        };
        let paths = parts[0].paths.iter().enumerate().map(|(at, first)| tree(at, *first)).collect();
        Self { paths, ..parts[0].clone() }
    }

    /// Returns the properties of the device that they are on.
    pub const fn env(&self) -> &'a Env {
        self.env
    }
    /// True if they are those of a port: then the default root of a device of several queues is mq.
    pub const fn is_of_port(&self) -> bool {
        self.of_port
    }
    /// Iterates over the trees.
    pub fn trees(&self) -> impl Iterator<Item = &'a Tree> + '_ {
        self.paths.iter().map(|(tree, _)| *tree)
    }
    /// Returns the root qdisc. There is always a tree.
    pub fn root(&self) -> &'a Node {
        self.shell.unwrap_or_else(|| self.paths[0].0.root())
    }
    /// Calls `f` on every qdisc, parents first: see `Tree::visit`.
    pub fn visit(&self, f: &mut dyn FnMut(Place, &'a Node)) {
        self.walk(&mut |spot| f(spot.place, spot.node));
    }
    /// Does the same, and passes the packet pool of the qdisc's tree, where it is known.
    pub fn visit_with(&self, f: &mut dyn FnMut(Place, &'a Node, Option<&'a Pool>)) {
        self.walk(&mut |spot| f(spot.place, spot.node, spot.in_tree.and_then(|(at, _)| self.paths[at].1)));
    }
    /// Does the same, with the place of each in its own tree.
    pub(super) fn walk(&self, f: &mut dyn FnMut(Spot<'a>)) {
        if let Some(node) = self.shell {
            f(Spot { node, place: Place { parent: Handle::ROOT, depth: 0 }, in_tree: None });
        }
        for (at, (tree, _)) in self.paths.iter().enumerate() {
            tree.visit(&mut |inner, node| f(self.spot(at, inner, node)));
        }
    }
    /// Calls `f` on the qdisc at a place and on those below it.
    pub(super) fn visit_at(&self, place: Handle, f: &mut dyn FnMut(&'a Node)) {
        match self.at(place) {
            Some(Spot { in_tree: None, .. }) => self.visit(&mut |_, node| f(node)),
            Some(spot) => visit_from(spot.node, spot.place, &mut |_, node| f(node)),
            None => {}
        }
    }
    /// Returns a qdisc with its place in the device; `inner` is its place in the tree of that
    /// number.
    fn spot(&self, at: usize, inner: Place, node: &'a Node) -> Spot<'a> {
        let place = match self.shell {
            None => inner,
            Some(shell) => Place {
                parent: match inner.parent {
                    // Classes of the shell count queues from 1, of which there are at most 65 535.
                    Handle::ROOT => Handle::new(shell.handle().major(), (at + 1) as u16),
                    class => class,
                },
                depth: inner.depth + 1,
            },
        };
        Spot { node, place, in_tree: Some((at, inner)) }
    }

    /// Calls `f` on every packet that waits in a tree whose packet pool is known, with the place
    /// and the handle of the qdisc that it waits in: see `Tree::queued`.
    pub fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        let shell = self.shell.map(|shell| shell.handle().major());
        for (queue, (tree, pool)) in (1..).zip(&self.paths) {
            let Some(pool) = pool else { continue };
            tree.queued(pool, &mut |parent, handle, m| match (parent, shell) {
                (Handle::ROOT, Some(major)) => f(Handle::new(major, queue), handle, m),
                _ => f(parent, handle, m),
            });
        }
    }

    /// Returns the bytes that the tables of its qdiscs have, as the budget counts them
    /// (`Env::memory`).
    pub fn tables(&self) -> u64 {
        let shell = self.shell.map_or(0, |node| tables::own(node.qdisc(), self.env));
        self.trees().fold(shell, |sum, tree| sum.saturating_add(tree.tables()))
    }
    /// Returns the bytes of those at a place and below.
    pub(super) fn tables_at(&self, place: Handle) -> u64 {
        match self.at(place) {
            Some(Spot { in_tree: None, .. }) => self.tables(),
            Some(spot) if spot.place.parent == Handle::ROOT => self.tables(),
            Some(spot) => tables::of_all(spot.node, self.env),
            None => 0,
        }
    }

    /// Returns the registry of the kinds of its qdiscs.
    pub fn kinds(&self) -> Registry {
        self.paths.first().map_or(Registry::only(&[]), |(tree, _)| tree.kinds())
    }

    /// Returns the place that a handle names: the handle itself, except that any minor number, 0
    /// too, names the one class of a kind with exactly one (`ClassShape::One`), as in the
    /// reference.
    pub fn named(&self, parent: Handle) -> Handle {
        // The root's place has the major number ffff, which a qdisc may have too.
        if parent == Handle::ROOT {
            return parent;
        }
        match self.qdisc(parent) {
            Some(node) if node.qdisc().spec().shape == ClassShape::One => Handle::new(parent.major(), 1),
            _ => parent,
        }
    }
    /// Returns the qdisc of a handle (`1:`), or of a class of it (`1:10`).
    pub fn qdisc(&self, handle: Handle) -> Option<&'a Node> {
        self.owner(handle).map(|spot| spot.node)
    }
    /// Returns the place of the qdisc of a handle: a class, or `Handle::ROOT`.
    pub fn place_of(&self, handle: Handle) -> Option<Handle> {
        self.owner(handle).map(|spot| spot.place.parent)
    }
    /// Returns the qdisc at a place, a class or `Handle::ROOT`. The classes of a qdisc without a
    /// handle have no name.
    pub fn qdisc_at(&self, place: Handle) -> Option<&'a Node> {
        self.at(place).map(|spot| spot.node)
    }
    /// True for the place of the qdisc that packets of a transmit queue meet first: the root, or
    /// a class of a root that only stands for the queues (mq, mqprio). Linux lets these have a size
    /// table, and no others.
    pub fn is_met_first(&self, place: Handle) -> bool {
        let root = self.root();
        let is_class = place.major() == root.handle().major() && place.minor() != 0;
        place == Handle::ROOT || is_class && stands_for_queues(root.qdisc().spec().kind)
    }
    /// Returns the qdisc at a place, with its place in its own tree.
    pub(super) fn at(&self, place: Handle) -> Option<Spot<'a>> {
        if place.major() == 0 {
            return None;
        }
        let queue = match self.shell {
            Some(node) if place == Handle::ROOT => {
                return Some(Spot { node, place: Place { parent: place, depth: 0 }, in_tree: None });
            }
            Some(shell) => shell.handle() == place.qdisc(),
            None => false,
        };
        if queue {
            let at = usize::from(place.minor()).checked_sub(1)?;
            return self.in_tree(at, |tree| names::at(tree, Handle::ROOT));
        }
        (0..self.paths.len()).find_map(|at| self.in_tree(at, |tree| names::at(tree, place)))
    }
    /// Returns the qdisc of a handle (`1:`) or of a class of it (`1:10`), with its place.
    pub(super) fn owner(&self, handle: Handle) -> Option<Spot<'a>> {
        if handle.major() == 0 {
            return None;
        }
        let qdisc = handle.qdisc();
        if let Some(node) = self.shell.filter(|shell| shell.handle() == qdisc) {
            return Some(Spot { node, place: Place { parent: Handle::ROOT, depth: 0 }, in_tree: None });
        }
        (0..self.paths.len()).find_map(|at| self.in_tree(at, |tree| names::owner(tree, qdisc)))
    }
    /// Returns what `f` finds in the tree of that number.
    fn in_tree(&self, at: usize, f: impl Fn(&'a Tree) -> Option<(Place, &'a Node)>) -> Option<Spot<'a>> {
        let (tree, _) = self.paths.get(at)?;
        f(tree).map(|(inner, node)| self.spot(at, inner, node))
    }

    /// Returns the least major number from 8001 for a qdisc at a place that no qdisc elsewhere has.
    pub(super) fn free_major(&self, place: Handle) -> Option<u16> {
        let mut shell = Index::default();
        if let Some(node) = self.shell.filter(|_| place != Handle::ROOT) {
            shell.insert(Handle::ROOT, node);
        }
        let own = self.qdisc_at(place).map(|node| node.handle().major());
        let indices: Vec<&Index> = self.trees().map(names::index).chain([&shell]).collect();
        Index::free(&indices, own.unwrap_or(0))
    }

    /// Returns the filters of a qdisc, a class, or another place.
    pub fn block(&self, at: Handle) -> Option<BlockId> {
        let in_tree = || self.paths.iter().find_map(|(tree, _)| tree.block(at));
        self.apart.and_then(|apart| apart.block(at)).or_else(in_tree)
    }
    /// Returns all places that have filters, in the order of their handles.
    pub fn blocks(&self) -> Vec<(Handle, BlockId)> {
        let in_trees = self.paths.iter().flat_map(|(tree, _)| tree.blocks());
        let mut all: Vec<_> = self.apart.iter().flat_map(|apart| apart.iter()).chain(in_trees).collect();
        all.sort_unstable();
        all
    }
}
