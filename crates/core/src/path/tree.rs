//! `Tree`: the qdiscs of one transmit queue: their structure, and the way of packets in them.
//! [`Qdiscs`] has the operations by handle.

#[cfg(test)]
mod cost;
mod index;
pub(super) mod names;
mod route;
pub(super) mod tables;
mod whole;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::base::bound::Bound;
use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::classify::filter::BlockId;
use crate::packet::meta::Meta;
use crate::packet::pool::{List, Pool};
use crate::packet::reason::DropReason;
use crate::packet::route::Candidate;
use crate::path::bindings::Bindings;
use crate::path::qdiscs::Qdiscs;
use crate::path::tree::index::Index;
use crate::qdisc::mq::default_shell;
use crate::qdisc::{Registry, pfifo_fast};
use crate::sched::answer::Verdict;
use crate::sched::cx::Cx;
use crate::sched::node::{Class, Node};

pub use whole::{Grave, Whole};

/// A tree of qdiscs. There is always a root; the default one has no handle.
#[derive(Debug)]
pub struct Tree {
    root: Node,
    env: Env,
    /// See `disturb`.
    disturbed: bool,
    /// The filters of its qdiscs and classes.
    pub(super) bindings: Bindings,
    /// The places of its qdiscs.
    index: Index,
    /// True if the tree was made by `of_port`.
    pub(super) of_port: bool,
    /// Registry of the kinds that it makes.
    kinds: Registry,
    /// The bytes that its qdiscs have: see [`tables`].
    pub(super) memory: u64,
    /// The kinds of which a qdisc may be there that copies packets.
    pub(super) copiers: Vec<&'static str>,
    /// True if a qdisc below the root may have a size table.
    pub(super) sized_below: bool,
    /// True if its root is not the one that it was made with, or that `note_root` has noted.
    new_root: bool,
    /// Replaced qdiscs without packets, for an owner that frees them in parts ([`Grave`]); `None`
    /// if they are freed at once.
    pub replaced: Option<Vec<Node>>,
}

/// Place of a qdisc: below a class, or at the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The class it hangs below; `Handle::ROOT` for the root qdisc.
    pub parent: Handle,
    /// Number of qdiscs above it.
    pub depth: usize,
}

impl Tree {
    /// Returns the tree that a device starts with: pfifo_fast.
    pub fn new(env: Env) -> Self {
        Self::of_kinds(env, Registry::BUILT_IN)
    }
    /// Returns the same with another registry of the kinds that it makes. Of the built-in kinds
    /// only those of the registry, and the defaults, are then part of the program.
    pub fn of_kinds(env: Env, kinds: Registry) -> Self {
        let root = Node::new(Handle::NONE, Box::new(pfifo_fast::default_root(&env)));
        let (bindings, index) = (Bindings::default(), Index::default());
        let memory = tables::of_all(&root, &env);
        Self {
            root,
            env,
            disturbed: false,
            bindings,
            index,
            of_port: false,
            kinds,
            memory,
            copiers: Vec::new(),
            sized_below: false,
            new_root: false,
            replaced: None,
        }
    }
    /// Sets the registry of kinds that the tree makes.
    #[must_use]
    pub fn with_kinds(mut self, kinds: Registry) -> Self {
        self.kinds = kinds;
        self
    }
    /// Returns the registry of kinds that it makes.
    pub const fn kinds(&self) -> Registry {
        self.kinds
    }

    /// Returns a tree in the likeness of a `crate::path::port::Port`, to try changes on: its
    /// default root is mq if the device has several queues.
    pub fn of_port(env: Env) -> Self {
        let mut tree = Self { of_port: true, ..Self::new(env) };
        tree.root = default_root(&tree);
        tree.count_tables();
        tree
    }

    /// Returns the properties of the device that the tree is on.
    pub const fn env(&self) -> &Env {
        &self.env
    }
    /// Returns the bytes of tables that its qdiscs have (`Env::memory`).
    pub const fn tables(&self) -> u64 {
        self.memory
    }
    /// Counts them anew. The cost is a visit of every qdisc.
    pub(super) fn count_tables(&mut self) {
        self.memory = tables::of_all(&self.root, &self.env);
    }
    /// Notes that objects have other bytes than before.
    pub(super) const fn count_change(&mut self, before: u64, after: u64) {
        self.memory = self.memory.saturating_add(after).saturating_sub(before);
    }
    /// Changes the properties of the device that the tree knows. Existing qdiscs keep the values
    /// that they were made with: a default that depends on the device is read when a qdisc is made,
    /// as in the reference.
    pub const fn set_env(&mut self, env: Env) {
        self.env = env;
    }
    /// Returns the root qdisc.
    #[inline]
    pub const fn root(&self) -> &Node {
        &self.root
    }
    /// Returns the root qdisc, to use. `set_root` replaces it; a qdisc that is assigned here is one
    /// that no command finds.
    #[inline]
    pub const fn root_mut(&mut self) -> &mut Node {
        &mut self.root
    }
    /// See `Node::would_accept`: as of `m.enqueued`.
    #[inline]
    pub fn would_accept(&self, m: &Meta) -> Verdict {
        self.root.would_accept(&Candidate::of(m))
    }

    /// Returns its qdiscs by their handles, to change them; `cx` is the context of its packets.
    pub const fn edit<'a>(&'a mut self, cx: &'a mut Cx) -> Qdiscs<'a> {
        Qdiscs::of_tree(self, cx)
    }

    /// Puts a ready-made node at the root and drops the packets queued there. The typed counterpart
    /// of `Qdiscs::replace`.
    pub fn set_root(&mut self, node: Node, cx: &mut Cx) {
        self.graft(Handle::ROOT, node, cx);
    }

    /// Puts a node at a place, if the place exists, and drops the packets of the old one; all nodes
    /// above it account for the drops.
    pub(super) fn graft(&mut self, place: Handle, new: Node, cx: &mut Cx) {
        if names::at(self, place).is_none() {
            return;
        }
        self.disturb();
        self.new_root |= place == Handle::ROOT;
        // The filters of the class that the old qdisc hangs below stay; those of the qdisc and of
        // everything below go with it.
        names::forget(self, place);
        names::learn(&mut self.index, place, &new);
        let added = tables::of_all(&new, &self.env);
        let (mut new, mut old) = (Some(new), None);
        self.reach(place, cx, &mut |node, cx| {
            if let Some(mut new) = new.take() {
                // The old qdisc goes, so only its packets matter.
                if !node.is_empty() {
                    node.purge(cx);
                }
                new.follow(node);
                old = Some(core::mem::replace(node, new));
                node.qdisc_mut().start(cx.now);
            }
        });
        if let Some(old) = &old {
            self.count_change(tables::of_all(old, &self.env), added);
        }
        if let Some(replaced) = &mut self.replaced {
            replaced.extend(old);
        }
    }

    /// Puts another tree in the place of this one, and returns this one without its packets, which
    /// a swap sets aside, and without its filters.
    pub(super) fn replace_by(&mut self, new: Self, cx: &mut Cx) -> Self {
        let new = Self { env: self.env, kinds: self.kinds, of_port: self.of_port, ..new };
        let mut old = core::mem::replace(self, new);
        let mut waiting = List::new();
        old.evict_all(&mut waiting, cx);
        let mut bound = Bound::of(cx.pool.capacity());
        while let Some(p) = waiting.pop_front(&cx.pool) {
            bound.turn();
            cx.drop(p, DropReason::Purged);
        }
        old.bindings = Bindings::default();
        self.root.follow(&old.root);
        old
    }

    /// Calls `f` on the node at a place, reached through its ancestors, so that each of them
    /// settles the packets that `f` drops.
    pub(super) fn reach(&mut self, place: Handle, cx: &mut Cx, f: &mut dyn FnMut(&mut Node, &mut Cx)) {
        if let Some(way) = names::way(self, place) {
            at_end(&mut self.root, &way, cx, f);
        }
    }

    /// Notes that new packets may be classified otherwise than the waiting ones were: the
    /// structure, an option of a kind with classes, or a filter has changed. A swap then queues the
    /// waiting packets again. The operations of the tree call this themselves.
    pub const fn disturb(&mut self) {
        self.disturbed = true;
    }
    /// Returns and clears the note of `disturb`.
    pub(crate) const fn take_disturbed(&mut self) -> bool {
        core::mem::replace(&mut self.disturbed, false)
    }

    /// True if it was made by [`of_port`](Self::of_port).
    pub const fn is_of_port(&self) -> bool {
        self.of_port
    }
    /// Notes the present root, for [`has_new_root`](Self::has_new_root).
    pub const fn note_root(&mut self) {
        self.new_root = false;
    }
    /// True if another root was put in since [`note_root`](Self::note_root).
    pub const fn has_new_root(&self) -> bool {
        self.new_root
    }

    /// True if any qdisc needs more of a packet than its metadata.
    pub fn wants_detail(&self) -> bool {
        !self.bindings.is_empty() || self.index.wants_detail() || self.root.qdisc().wants_detail()
    }

    /// Calls `f` on every qdisc, parents first, those below one qdisc in the order of their
    /// classes.
    pub fn visit<'a>(&'a self, f: &mut dyn FnMut(Place, &'a Node)) {
        visit_from(&self.root, Place { parent: Handle::ROOT, depth: 0 }, f);
    }

    /// Moves every packet that waits to the back of `out`, in the order in which `queued` shows
    /// them. The books forget that they were admitted. The qdiscs keep their counters and their
    /// state: the tokens of a shaper, the memory of an AQM. The caller queues the packets again, or
    /// drops them.
    pub fn evict_all(&mut self, out: &mut List, cx: &mut Cx) {
        self.root.evict_all(out, cx);
    }

    /// Calls `f` on every packet that waits, with the place (`ROOT` or a class) and the handle of
    /// the qdisc that it waits in: parents first, and in each qdisc those of one flow in their
    /// order. A packet that a peek has taken out is shown at the qdisc that it came from.
    /// `wire_len` is the number of bytes on the wire, whatever is charged.
    pub fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        self.visit(&mut |place, node| {
            node.queued(pool, &mut |w| match pool.wire_len(w) {
                wire_len if wire_len == w.meta.wire_len => f(place.parent, node.handle(), w.meta),
                wire_len => {
                    let mut real = *w.meta;
                    real.wire_len = wire_len;
                    f(place.parent, node.handle(), &real);
                }
            });
        });
    }

    /// True if any qdisc or class has filters.
    pub fn has_filters(&self) -> bool {
        !self.bindings.is_empty()
    }
    /// Returns the filters of a qdisc (`1:`) or class (`1:10`).
    pub fn block(&self, at: Handle) -> Option<BlockId> {
        self.bindings.block(at)
    }
    /// Iterates over all places that have filters, in the order of their handles.
    pub fn blocks(&self) -> impl Iterator<Item = (Handle, BlockId)> + '_ {
        self.bindings.iter()
    }
}

/// Returns the root of a tree to which no root was added.
pub(super) fn default_root(tree: &Tree) -> Node {
    let shell = if tree.of_port { default_shell(&tree.env) } else { None };
    shell.unwrap_or_else(|| Node::new(Handle::NONE, Box::new(pfifo_fast::default_root(&tree.env))))
}

/// Calls `f` on a qdisc and those below it: see [`Tree::visit`]. The recursion is at most
/// `DEPTH_MAX` deep.
pub(super) fn visit_from<'a>(node: &'a Node, place: Place, f: &mut dyn FnMut(Place, &'a Node)) {
    #[cfg(test)]
    cost::count();
    f(place, node);
    let mut below = |class: &'a Class| {
        let parent = Handle::new(node.handle().major(), class.minor);
        visit_from(&class.node, Place { parent, depth: place.depth + 1 }, f);
    };
    let classes = node.qdisc().classes();
    if classes.is_sorted_by_key(|c| c.minor) {
        classes.iter().filter(|c| c.minor != 0).for_each(below);
    } else {
        // Classes that commands make are in slots in order of creation.
        let mut sorted: Vec<&'a Class> = classes.iter().filter(|c| c.minor != 0).collect();
        sorted.sort_by_key(|c| c.minor);
        sorted.into_iter().for_each(&mut below);
    }
}

/// See `Tree::reach`; `way` are the classes between `node` and the place.
fn at_end(node: &mut Node, way: &[Handle], cx: &mut Cx, f: &mut dyn FnMut(&mut Node, &mut Cx)) {
    #[cfg(test)]
    cost::count();
    let Some((class, way)) = way.split_first() else { return f(node, cx) };
    if node.handle() != class.qdisc() {
        return;
    }
    node.with(cx, |qdisc, cx| {
        if let Some(class) = qdisc.class_mut(class.minor()) {
            at_end(&mut class.node, way, cx, f);
        }
    });
}
