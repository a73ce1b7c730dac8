//! `Whole`: a tree that was built beside those of a device, in the form in which the device has
//! trees; `Grave`: a tree that was replaced by one. Both are worked off in parts, so that packets
//! pass between two of them.

use alloc::vec::Vec;

use crate::base::env::Env;
use crate::path::bindings::Bindings;
use crate::path::qdiscs::stands_for_queues;
use crate::path::tree::{Tree, names};
use crate::qdisc::leaf;
use crate::sched::node::Node;

/// The qdiscs of a device, ready to be put in the place of its present ones in one step: see
/// [`Qdiscs::put_whole`](crate::path::qdiscs::Qdiscs::put_whole).
#[derive(Debug)]
pub struct Whole {
    /// The root that stands for the queues, if there is one.
    pub(in crate::path) shell: Option<Node>,
    pub(in crate::path) trees: Vec<Tree>,
    /// Number of trees that are ready.
    ready: usize,
    /// The names in the tree that was taken apart.
    names: names::Index,
}

/// Names that are freed for each qdisc that is: a name is small.
const NAMES: usize = 8;
/// Names that are freed before packets have their turn.
const NAMES_FREED: usize = 128;

impl Whole {
    /// Takes the qdiscs of a tree. That in the likeness of a port (`Tree::of_port`) is taken apart
    /// where the port has a tree for each queue. Packets must not wait in it; its filters stay
    /// behind.
    pub fn of(mut tree: Tree) -> Self {
        let split = tree.of_port && stands_for_queues(tree.root.qdisc().spec().kind);
        if !split {
            return Self { shell: None, trees: alloc::vec![tree], ready: 0, names: names::Index::default() };
        }
        let env = tree.env;
        let fresh = |root: Node, copiers| Tree {
            root,
            bindings: Bindings::default(),
            index: names::Index::default(),
            memory: 0,
            copiers,
            sized_below: tree.sized_below,
            of_port: false,
            disturbed: false,
            new_root: false,
            replaced: None,
            env,
            kinds: tree.kinds,
        };
        let classes = tree.root.qdisc_mut().classes_mut().iter_mut();
        let roots = classes.map(|class| core::mem::replace(&mut class.node, leaf::default_child(&env)));
        let trees = roots.map(|root| fresh(root, tree.copiers.clone())).collect();
        Self { shell: Some(tree.root), trees, ready: 0, names: tree.index }
    }

    /// Makes the next tree ready: notes its names and counts its memory. True once all are. The
    /// cost is a visit of the qdiscs of one queue.
    pub fn prepare(&mut self) -> bool {
        if !self.names.shrink(NAMES_FREED) {
            return false;
        }
        let Some(tree) = self.trees.get_mut(self.ready) else { return true };
        self.ready += 1;
        tree.bindings = Bindings::default();
        tree.of_port = false;
        tree.disturbed = false;
        names::learn_all(tree);
        tree.count_tables();
        self.ready == self.trees.len()
    }
}

/// Qdiscs without packets that were replaced, and are freed in parts.
#[derive(Debug)]
pub struct Grave {
    /// The qdiscs on the way to the next one, each with the number of its classes that are freed.
    way: Vec<(Node, usize)>,
    /// Their names.
    names: names::Index,
    env: Env,
}

impl Grave {
    /// Takes a tree in which no packet waits.
    pub fn of(tree: Tree) -> Self {
        Self { names: tree.index, ..Self::of_node(tree.root, tree.env) }
    }

    /// Takes a qdisc in which no packet waits, and all below it.
    pub fn of_node(node: Node, env: Env) -> Self {
        Self { env, names: names::Index::default(), way: alloc::vec![(node, 0)] }
    }

    /// Frees at most so many qdiscs; true once all are freed.
    pub fn bury(&mut self, most: usize) -> bool {
        if !self.names.shrink(most * NAMES) {
            return false;
        }
        // Bound: `most` turns for qdiscs, and one for each on the way.
        for _ in 0..most {
            let Some((node, freed)) = self.way.last_mut() else { return true };
            match node.qdisc_mut().classes_mut().get_mut(*freed) {
                Some(class) => {
                    *freed += 1;
                    let gone = core::mem::replace(&mut class.node, leaf::default_child(&self.env));
                    self.way.push((gone, 0));
                }
                None => drop(self.way.pop()),
            }
        }
        self.way.is_empty()
    }
}
