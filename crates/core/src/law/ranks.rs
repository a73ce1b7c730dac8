//! Sets of members in the order of a key, in which the first member with a small weight, and the
//! least weight up to a key, are found in O(log members).
//!
//! Each set is a balanced binary tree (G. Adelson-Velsky, E. Landis, "An algorithm for the
//! organization of information", 1962) in which each node knows the least weight of the nodes below
//! it. Members are slots; a slot is in at most one set at a time, so that all sets share one table
//! of nodes. Members of equal keys stand in the order in which they joined.
//!
//! - I1: the heights of the two sides of a node differ by at most one: 65 534 members are at most
//!   23 levels deep.
//! - I2: `least` of a node is the least weight of its tree.
//!
//! Memory: 40 bytes for each slot. Nothing is allocated after [`Ranks::reserve`].

use alloc::vec::Vec;

/// No node.
const NONE: u16 = u16::MAX;

/// A set: the root of its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set(u16);

impl Set {
    /// The empty set.
    pub const EMPTY: Self = Self(NONE);
    /// True if the set has no members.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == NONE
    }
}

impl Default for Set {
    fn default() -> Self {
        Self::EMPTY
    }
}

#[derive(Clone, Debug)]
struct Node {
    key: u64,
    /// Number of members that joined before: the order of equal keys.
    joined: u64,
    weight: u64,
    least: u64,
    left: u16,
    right: u16,
    height: u8,
}

const VACANT: Node =
    Node { key: 0, joined: 0, weight: 0, least: u64::MAX, left: NONE, right: NONE, height: 1 };

/// The nodes of all sets.
#[derive(Clone, Debug, Default)]
pub struct Ranks {
    nodes: Vec<Node>,
    joined: u64,
}

impl Ranks {
    /// Makes room for slots below `slots`, at most 65 534. Allocates: not for the data path.
    pub fn reserve(&mut self, slots: usize) {
        if self.nodes.len() < slots {
            self.nodes.resize(slots, VACANT);
        }
    }

    /// Adds a slot, which is in no set, behind the members of the same key.
    #[inline]
    pub fn insert(&mut self, set: &mut Set, slot: usize, key: u64, weight: u64) {
        // Slots are below `NONE`.
        let at = slot as u16;
        self.nodes[slot] = Node { key, joined: self.joined, weight, least: weight, ..VACANT };
        self.joined += 1;
        set.0 = self.put(set.0, at);
    }
    /// Removes a member.
    #[inline]
    pub fn remove(&mut self, set: &mut Set, slot: usize) {
        let rank = self.rank(slot as u16);
        set.0 = self.cut(set.0, rank);
    }
    /// Gives a member another weight.
    #[inline]
    pub fn weigh(&mut self, set: Set, slot: usize, weight: u64) {
        let rank = self.rank(slot as u16);
        self.nodes[slot].weight = weight;
        self.sum_up(set.0, rank);
    }

    /// Returns the least key of a set.
    #[must_use]
    pub fn first_key(&self, set: Set) -> Option<u64> {
        self.outermost(set, |node| node.left)
    }
    /// Returns the greatest key of a set.
    #[must_use]
    pub fn last_key(&self, set: Set) -> Option<u64> {
        self.outermost(set, |node| node.right)
    }
    /// Returns the least weight of a set.
    #[inline]
    #[must_use]
    pub fn least(&self, set: Set) -> Option<u64> {
        self.nodes.get(usize::from(set.0)).map(|node| node.least)
    }
    /// Returns the first member whose weight is at most `most`.
    #[inline]
    #[must_use]
    pub fn first_up_to(&self, set: Set, most: u64) -> Option<usize> {
        let mut at = self.nodes.get(usize::from(set.0)).filter(|node| node.least <= most).map(|_| set.0)?;
        // Bound: the depth of the tree.
        loop {
            let node = &self.nodes[usize::from(at)];
            if self.least(Set(node.left)).is_some_and(|least| least <= most) {
                at = node.left;
            } else if node.weight <= most {
                return Some(usize::from(at));
            } else {
                at = node.right;
            }
        }
    }
    /// Returns the member of the least weight among those whose key is at most `key`; of equal
    /// weights the first member.
    #[inline]
    #[must_use]
    pub fn least_until(&self, set: Set, key: u64) -> Option<usize> {
        let mut found: Option<(u64, Set)> = None;
        let mut at = set.0;
        // Bound: the depth of the tree. The keys of a node to whose right it goes are small enough,
        // and so are those on the left of that node.
        while let Some(node) = self.nodes.get(usize::from(at)) {
            if node.key > key {
                at = node.left;
                continue;
            }
            let before = self.least(Set(node.left)).unwrap_or(u64::MAX);
            let least = before.min(node.weight);
            if found.is_none_or(|(best, _)| least < best) {
                // The tree of the left, or this node alone: its first member of that weight.
                found = Some((
                    least,
                    Set(if before <= node.weight && node.left != NONE { node.left } else { at }),
                ));
            }
            at = node.right;
        }
        let (least, within) = found?;
        let top = &self.nodes[usize::from(within.0)];
        // A node that stands for itself is found before its right side is looked at.
        if top.weight == least && self.least(Set(top.left)).is_none_or(|left| left > least) {
            return Some(usize::from(within.0));
        }
        self.first_up_to(within, least)
    }

    /// Returns the key of the last node on one side.
    #[inline]
    fn outermost(&self, set: Set, side: fn(&Node) -> u16) -> Option<u64> {
        let mut node = self.nodes.get(usize::from(set.0))?;
        // Bound: the depth of the tree.
        while let Some(next) = self.nodes.get(usize::from(side(node))) {
            node = next;
        }
        Some(node.key)
    }

    fn rank(&self, at: u16) -> (u64, u64) {
        let node = &self.nodes[usize::from(at)];
        (node.key, node.joined)
    }
    /// Adds a node to a tree and returns the tree's root. Recurses at most as deep as the tree.
    fn put(&mut self, tree: u16, at: u16) -> u16 {
        let Some(node) = self.nodes.get(usize::from(tree)) else { return at };
        let (left, right) = (node.left, node.right);
        // It is the youngest: it stands behind all of its key.
        if self.nodes[usize::from(at)].key < node.key {
            self.nodes[usize::from(tree)].left = self.put(left, at);
        } else {
            self.nodes[usize::from(tree)].right = self.put(right, at);
        }
        self.balance(tree)
    }
    /// Removes the node of a rank from a tree and returns the tree's root. Recurses at most as deep
    /// as the tree.
    fn cut(&mut self, tree: u16, rank: (u64, u64)) -> u16 {
        let Some(node) = self.nodes.get(usize::from(tree)) else { return NONE };
        let (left, right) = (node.left, node.right);
        match rank.cmp(&self.rank(tree)) {
            core::cmp::Ordering::Less => self.nodes[usize::from(tree)].left = self.cut(left, rank),
            core::cmp::Ordering::Greater => self.nodes[usize::from(tree)].right = self.cut(right, rank),
            core::cmp::Ordering::Equal if right == NONE => return left,
            core::cmp::Ordering::Equal => {
                // The next in order takes its place.
                let (rest, next) = self.cut_first(right);
                let heir = &mut self.nodes[usize::from(next)];
                (heir.left, heir.right) = (left, rest);
                return self.balance(next);
            }
        }
        self.balance(tree)
    }
    /// Removes the first node of a tree; returns the tree's root, and that node.
    fn cut_first(&mut self, tree: u16) -> (u16, u16) {
        let Node { left, right, .. } = self.nodes[usize::from(tree)];
        if left == NONE {
            return (right, tree);
        }
        let (rest, first) = self.cut_first(left);
        self.nodes[usize::from(tree)].left = rest;
        (self.balance(tree), first)
    }
    /// Brings `least` up to date from the node of a rank to the root.
    fn sum_up(&mut self, tree: u16, rank: (u64, u64)) {
        let Some(node) = self.nodes.get(usize::from(tree)) else { return };
        let (left, right) = (node.left, node.right);
        match rank.cmp(&self.rank(tree)) {
            core::cmp::Ordering::Less => self.sum_up(left, rank),
            core::cmp::Ordering::Greater => self.sum_up(right, rank),
            core::cmp::Ordering::Equal => {}
        }
        self.settle(tree);
    }

    fn height(&self, at: u16) -> u8 {
        self.nodes.get(usize::from(at)).map_or(0, |node| node.height)
    }
    /// Computes the height and the least weight of a node from the nodes below it.
    fn settle(&mut self, at: u16) {
        let Node { left, right, weight, .. } = self.nodes[usize::from(at)];
        let least = |side| self.least(Set(side)).unwrap_or(u64::MAX);
        let (least, height) =
            (weight.min(least(left)).min(least(right)), 1 + self.height(left).max(self.height(right)));
        let node = &mut self.nodes[usize::from(at)];
        (node.least, node.height) = (least, height);
    }
    /// Restores I1 and I2 at a node one of whose sides has changed by a member; returns the node
    /// that takes its place.
    fn balance(&mut self, at: u16) -> u16 {
        let Node { left, right, .. } = self.nodes[usize::from(at)];
        let (high, low) = (self.height(left), self.height(right));
        if high > low + 1 {
            let Node { left: outer, right: inner, .. } = self.nodes[usize::from(left)];
            if self.height(inner) > self.height(outer) {
                self.nodes[usize::from(at)].left = self.turn_left(left);
            }
            return self.turn_right(at);
        }
        if low > high + 1 {
            let Node { left: inner, right: outer, .. } = self.nodes[usize::from(right)];
            if self.height(inner) > self.height(outer) {
                self.nodes[usize::from(at)].right = self.turn_right(right);
            }
            return self.turn_left(at);
        }
        self.settle(at);
        at
    }
    /// Puts the right side of a node in its place.
    fn turn_left(&mut self, at: u16) -> u16 {
        let up = self.nodes[usize::from(at)].right;
        self.nodes[usize::from(at)].right = self.nodes[usize::from(up)].left;
        self.nodes[usize::from(up)].left = at;
        self.settle(at);
        self.settle(up);
        up
    }
    /// Puts the left side of a node in its place.
    fn turn_right(&mut self, at: u16) -> u16 {
        let up = self.nodes[usize::from(at)].left;
        self.nodes[usize::from(at)].left = self.nodes[usize::from(up)].right;
        self.nodes[usize::from(up)].right = at;
        self.settle(at);
        self.settle(up);
        up
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// The members in order: a list that each question scans.
    #[derive(Default)]
    struct Model(Vec<(u64, u64, usize)>);

    impl Model {
        fn insert(&mut self, slot: usize, key: u64, weight: u64) {
            let at = self.0.iter().position(|m| m.0 > key).unwrap_or(self.0.len());
            self.0.insert(at, (key, weight, slot));
        }
        fn least_until(&self, key: u64) -> Option<usize> {
            let near = self.0.iter().filter(|m| m.0 <= key);
            near.min_by_key(|m| m.1).map(|m| m.2)
        }
    }

    /// Checks I1 and I2, and returns the members in order.
    fn walk(ranks: &Ranks, at: u16, into: &mut Vec<(u64, u64, usize)>) -> (u8, u64) {
        let Some(node) = ranks.nodes.get(usize::from(at)) else { return (0, u64::MAX) };
        let (left, before) = walk(ranks, node.left, into);
        into.push((node.key, node.weight, usize::from(at)));
        let (right, after) = walk(ranks, node.right, into);
        assert!(left.abs_diff(right) <= 1 && node.height == 1 + left.max(right));
        assert_eq!(node.least, node.weight.min(before).min(after));
        (node.height, node.least)
    }

    #[derive(Clone, Debug)]
    enum Op {
        Put(usize, u64, u64),
        Cut(usize),
        Weigh(usize, u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let (slot, key, weight) = (0..40usize, prop_oneof![0..6u64, 0..1000u64], 0..9u64);
        prop_oneof![
            5 => (slot.clone(), key, weight.clone()).prop_map(|(s, k, w)| Op::Put(s, k, w)),
            3 => slot.clone().prop_map(Op::Cut),
            2 => (slot, weight).prop_map(|(s, w)| Op::Weigh(s, w)),
        ]
    }

    proptest! {
        #[test]
        fn is_a_sorted_list(ops in prop::collection::vec(op(), 1..200)) {
            let (mut ranks, mut set, mut model) = (Ranks::default(), Set::EMPTY, Model::default());
            ranks.reserve(40);
            for op in ops {
                let has = |slot: usize| model.0.iter().position(|m| m.2 == slot);
                match op {
                    Op::Put(slot, key, weight) => {
                        if let Some(at) = has(slot) {
                            ranks.remove(&mut set, slot);
                            model.0.remove(at);
                        }
                        ranks.insert(&mut set, slot, key, weight);
                        model.insert(slot, key, weight);
                    }
                    Op::Cut(slot) => {
                        let Some(at) = has(slot) else { continue };
                        ranks.remove(&mut set, slot);
                        model.0.remove(at);
                    }
                    Op::Weigh(slot, weight) => {
                        let Some(at) = has(slot) else { continue };
                        ranks.weigh(set, slot, weight);
                        model.0[at].1 = weight;
                    }
                }
                let mut members = Vec::new();
                walk(&ranks, set.0, &mut members);
                prop_assert_eq!(&members, &model.0);
                prop_assert_eq!(ranks.first_key(set), members.first().map(|m| m.0));
                prop_assert_eq!(ranks.last_key(set), members.last().map(|m| m.0));
                prop_assert_eq!(ranks.least(set), members.iter().map(|m| m.1).min());
                prop_assert_eq!(set.is_empty(), members.is_empty());
                for most in 0..9 {
                    let first = members.iter().find(|m| m.1 <= most).map(|m| m.2);
                    prop_assert_eq!(ranks.first_up_to(set, most), first);
                }
                for key in [0, 1, 2, 3, 5, 100, 500, 999] {
                    prop_assert_eq!(ranks.least_until(set, key), model.least_until(key));
                }
            }
        }
    }

    #[test]
    fn the_tree_is_not_deep() {
        let (mut ranks, mut set) = (Ranks::default(), Set::EMPTY);
        ranks.reserve(65_534);
        for slot in 0..65_534 {
            ranks.insert(&mut set, slot, slot as u64, 0);
        }
        assert_eq!(ranks.height(set.0), 16);
    }
}
