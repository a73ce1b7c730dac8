//! The number of qdiscs that operations look at: a test of their cost.

use std::cell::Cell;
use std::thread_local;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::path::tree::Tree;
use crate::sched::cx::Cx;
use crate::text::value::Words;

thread_local! {
    static LOOKED: Cell<usize> = const { Cell::new(0) };
}

/// Counts one qdisc.
pub(super) fn count() {
    LOOKED.with(|looked| looked.set(looked.get() + 1));
}

/// Returns the number of qdiscs looked at while a class is added beside others.
fn looked(classes: u16) -> usize {
    let (mut tree, mut cx) = (Tree::new(Env::default()), Cx::new(1, 0));
    let (qdisc, none) = (Handle::new(1, 0), &mut Words::new(&[]));
    assert!(tree.edit(&mut cx).add(Handle::ROOT, Some(qdisc), "drr", none).is_ok());
    for minor in 1..=classes {
        LOOKED.with(|looked| looked.set(0));
        let mut qdiscs = tree.edit(&mut cx);
        let class = Handle::new(1, minor);
        assert!(qdiscs.add_class(qdisc, class, Some("drr"), &mut Words::new(&[])).is_ok());
        assert!(qdiscs.take_orphans().is_empty());
    }
    LOOKED.with(Cell::get)
}

/// Twice the classes cost twice the time, and not four times.
#[test]
fn a_class_costs_the_same_beside_many() {
    let costs = [50, 500, 1000].map(looked);
    assert!(costs.iter().all(|n| (1..=4).contains(n)), "{costs:?}");
}
