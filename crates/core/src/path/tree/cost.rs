//! The number of qdiscs that operations look at: a test of their cost.

use std::cell::Cell;
use std::thread_local;
use std::vec::Vec;

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::classify::filter::Filters;
use crate::path::qdiscs::{Planned, Revisions};
use crate::path::tree::Tree;
use crate::path::trees::Trees;
use crate::sched::cx::Cx;
use crate::sched::stab::Stab;
use crate::text::value::Words;

thread_local! {
    static LOOKED: Cell<usize> = const { Cell::new(0) };
}

/// Counts one qdisc.
pub(super) fn count() {
    LOOKED.with(|looked| looked.set(looked.get() + 1));
}

/// Returns the number of qdiscs that `f` looks at.
fn during(f: impl FnOnce()) -> usize {
    LOOKED.with(|looked| looked.set(0));
    f();
    LOOKED.with(Cell::get)
}

/// Returns the number of qdiscs looked at by each operation on one of many classes of a drr, each
/// with a qdisc and filters of its own.
fn looked(classes: u16) -> Vec<(&'static str, usize)> {
    let (mut tree, mut cx) = (Tree::new(Env::default()), Cx::new(1, 0));
    let mut filters = Filters::default();
    let (qdisc, none) = (Handle::new(1, 0), &mut Words::new(&[]));
    assert!(tree.edit(&mut cx).add(Handle::ROOT, Some(qdisc), "drr", none).is_ok());
    let mut all = Vec::new();
    for minor in 1..=classes {
        all.clear();
        let (class, none) = (Handle::new(1, minor), &mut Words::new(&[]));
        let mut note = |name, looked| all.push((name, looked));
        note("class add", during(|| tree.edit(&mut cx).add_class(qdisc, class, Some("drr"), none).unwrap()));
        let leaf = Handle::new(0x100 + minor, 0);
        let below = Handle::new(0x100 + minor, 1);
        note(
            "qdisc add",
            during(|| assert!(tree.edit(&mut cx).add(class, Some(leaf), "prio", none).is_ok())),
        );
        note("qdisc add", during(|| assert!(tree.edit(&mut cx).add(below, None, "pfifo", none).is_ok())));
        note("filter", during(|| tree.edit(&mut cx).set_block(leaf, Some(filters.add_block()))));
        let quantum = 2000 + u32::from(minor) % 2;
        note("options of a class", during(|| revise(&mut tree, &mut cx, class, quantum)));
        note("change", during(|| tree.edit(&mut cx).change(class, Some("prio"), none).unwrap()));
        note("replace", during(|| assert!(tree.edit(&mut cx).replace(below, None, "pfifo", none).is_ok())));
        note("delete", during(|| tree.edit(&mut cx).delete(below).unwrap()));
        note("stab", during(|| tree.edit(&mut cx).set_stab(class, None).unwrap()));
        let stab = Stab { overhead: i32::from(minor % 7), ..Stab::default() };
        note("stab at the root", during(|| tree.edit(&mut cx).set_stab(Handle::ROOT, Some(stab)).unwrap()));
        let env = *tree.env();
        tree.set_env(Env { memory: tree.tables() + 1000, ..env });
        let large = &mut Words::new(&["flows", "4096"]);
        let refused = during(|| assert!(tree.edit(&mut cx).replace(below, None, "fq_codel", large).is_err()));
        note("replace beyond the budget", refused);
        tree.set_env(env);
        note("parent", during(|| assert_eq!(tree.edit(&mut cx).parent_of(leaf), Ok(class))));
        if minor % 2 == 0 {
            note("class delete", during(|| tree.edit(&mut cx).delete_class(class).unwrap()));
            assert_eq!(tree.edit(&mut cx).take_orphans().len(), 1);
        }
        assert!(tree.wants_detail(), "the first class has filters");
    }
    for minor in (1..=classes).step_by(2) {
        tree.edit(&mut cx).delete_class(Handle::new(1, minor)).unwrap();
    }
    assert!(!tree.wants_detail(), "no filters are left");
    all
}

/// Gives a class another quantum, read ahead.
fn revise(tree: &mut Tree, cx: &mut Cx, class: Handle, quantum: u32) {
    let quantum = std::format!("{quantum}");
    let words = ["quantum", &*quantum];
    let planned = Trees::from(&*tree).plan_class(None, class, Some("drr"), &mut Words::new(&words));
    let Some((_, Planned::Change(change))) = planned else { panic!("{planned:?}") };
    let mut revisions = Revisions::default();
    revisions.push(change);
    tree.edit(cx).revise(&mut revisions);
    let again = Trees::from(&*tree).plan_class(None, class, Some("drr"), &mut Words::new(&words));
    assert!(matches!(again, Some((_, Planned::Same))), "{again:?}");
}

/// Twice the classes cost twice the time, and not four times.
#[test]
fn an_operation_costs_the_same_beside_many() {
    let [few, many] = [50, 1000].map(looked);
    assert_eq!(few, many);
    assert!(many.iter().all(|(_, n)| (1..=20).contains(n)), "{many:?}");
}
