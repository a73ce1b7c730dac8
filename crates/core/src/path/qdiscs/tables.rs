//! The bytes of tables that the qdiscs of a device have.

use super::{Over, Qdiscs};
use crate::path::tree::Tree;
use crate::path::trees::Trees;

impl Qdiscs<'_> {
    /// Counts the bytes of tables of each tree (`Tree::tables`) anew, so that what is gone counts
    /// no more. The cost is a visit of every qdisc.
    pub fn count_tables(&mut self) {
        let count = |tree: &mut Tree| tree.memory = Trees::from(&*tree).memory();
        let forest = match &mut self.0 {
            Over::Tree(tree, _) => return count(tree),
            Over::Port(forest) => forest,
        };
        let trees = forest.trees().trees().count();
        for number in 0..trees {
            let _ = forest.edit(number, &mut |tree, _| {
                count(tree);
                Ok(())
            });
        }
    }
}
