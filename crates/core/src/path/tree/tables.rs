//! The bytes that the qdiscs of a tree have, as a budget counts them (`Env::memory`). A tree keeps
//! the sum: each operation adds the bytes of the objects that it makes, and subtracts those of the
//! objects that go. So no count of all qdiscs is needed, however near the budget is.

use crate::base::env::Env;
use crate::base::handle::Handle;
use crate::path::tree::{Place, visit_from};
use crate::sched::erased::Qdisc;
use crate::sched::node::{Class, Node};

/// Returns the bytes of a qdisc without those below.
pub(in crate::path) fn own(qdisc: &dyn Qdisc, env: &Env) -> u64 {
    qdisc.memory(env).saturating_add(Class::BYTES)
}

/// Returns the bytes of a qdisc, of its classes and of all qdiscs below it. The cost is a visit of
/// each.
pub(in crate::path) fn of_all(node: &Node, env: &Env) -> u64 {
    let mut sum = 0_u64;
    visit_from(node, Place { parent: Handle::ROOT, depth: 0 }, &mut |_, node| {
        sum = sum.saturating_add(own(node.qdisc(), env));
        if let Some(made) = node.qdisc().user_classes().filter(|classes| classes.class_spec().made) {
            let state = made.class_spec().state;
            made.list(&mut |class| sum = sum.saturating_add(u64::from(class.at.minor != 0) * state));
        }
    });
    sum
}

/// Returns the bytes of a class and of the one above it, as far as they exist, with the qdiscs in
/// them; 0 is no class.
pub(in crate::path) fn of_classes(qdisc: &dyn Qdisc, [class, above]: [u16; 2], env: &Env) -> u64 {
    let made = qdisc.user_classes();
    let state = |minor| made.filter(|made| made.has(minor)).map_or(0, |made| made.class_spec().state);
    let below = |minor| qdisc.class(minor).map_or(0, |class| of_all(&class.node, env));
    // A command may name a class as the one above itself.
    let above = Some(above).filter(|above| *above != class);
    let minors = [Some(class), above].into_iter().flatten().filter(|minor| *minor != 0);
    minors.fold(0, |sum: u64, minor| sum.saturating_add(state(minor)).saturating_add(below(minor)))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::base::rng::Rng;
    use crate::path::qdiscs::{Planned, Revisions};
    use crate::path::tree::Tree;
    use crate::path::trees::Trees;
    use crate::sched::cx::Cx;
    use crate::text::value::Words;

    const KINDS: [(&str, &str); 14] = [
        ("prio", "bands 3"),
        ("prio", "bands 7"),
        ("ets", "bands 4 strict 2"),
        ("ets", "bands 6"),
        ("drr", ""),
        ("htb", "default 3"),
        ("hfsc", "default 3"),
        ("tbf", "rate 1mbit burst 10kb limit 10kb"),
        ("fq_codel", "flows 16"),
        ("fq_codel", "flows 4096"),
        ("sfq", "divisor 1024"),
        ("fq", "orphan_mask 15"),
        ("fq", "orphan_mask 1023"),
        ("pfifo", ""),
    ];

    /// Returns the options of a class of a kind.
    fn class_options(kind: &str) -> &'static str {
        match kind {
            "htb" => "rate 1mbit",
            "hfsc" => "sc rate 1mbit",
            _ => "",
        }
    }

    /// After any operation, done or refused, the sum is what a count finds.
    #[test]
    fn the_sum_is_what_a_count_finds() {
        let (mut done, mut refused, mut revised) = (0, 0, 0);
        for seed in 0..40 {
            let mut random = Rng::new(seed);
            let (mut tree, mut cx) = (Tree::new(Env { memory: 3 << 20, ..Env::default() }), Cx::new(1, seed));
            for step in 0..200 {
                let mut draw = |n: u64| random.below(n);
                // Few names, so that operations meet.
                let places = [Handle::ROOT, Handle::new(1, 1), Handle::new(1, 2), Handle::new(2, 1)];
                let place = places[draw(4) as usize];
                let class = Handle::new(1 + draw(2) as u16, 1 + draw(4) as u16);
                let parent =
                    [class.qdisc(), Handle::new(class.major(), 1 + draw(4) as u16)][draw(2) as usize];
                let (kind, options) = KINDS[draw(14) as usize];
                let handle = Some(Handle::new(1 + draw(3) as u16, 0)).filter(|_| draw(2) == 0);
                let there = tree.edit(&mut cx).trees().qdisc(class).map_or("", |n| n.qdisc().spec().kind);
                let (words, of_class): (Vec<&str>, Vec<&str>) =
                    (options.split_whitespace().collect(), class_options(there).split_whitespace().collect());
                let (words, of_class) = (&mut Words::new(&words), &mut Words::new(&of_class));
                let op = draw(9);
                if op == 8 {
                    // The others have no table that may shrink.
                    let smaller = &mut Words::new(&["orphan_mask", "15"]);
                    let planned = Trees::from(&tree).plan_qdisc(place, None, Some("fq"), smaller);
                    if let Some((_, Planned::Change(change))) = planned {
                        let mut revisions = Revisions::default();
                        revisions.push(change);
                        tree.edit(&mut cx).revise(&mut revisions);
                        revised += 1;
                    }
                }
                let mut edit = tree.edit(&mut cx);
                let result = match op {
                    0 | 1 => edit.replace(place, handle, kind, words).map(|_| ()),
                    2 => edit.add(place, handle, kind, words).map(|_| ()),
                    3 => edit.change(place, None, words),
                    4 => edit.delete(place),
                    5 => edit.delete_class(class),
                    6 => edit.change_class(None, class, None, of_class),
                    _ => edit.add_class(parent, class, None, of_class),
                };
                match result {
                    Ok(()) => done += 1,
                    Err(_) => refused += 1,
                }
                let counted = of_all(tree.root(), tree.env());
                assert_eq!(tree.tables(), counted, "seed {seed}, step {step}, op {op} {kind}");
            }
        }
        assert!(done > 500 && refused > 500 && revised > 0, "{done} {refused} {revised}");
    }
}
