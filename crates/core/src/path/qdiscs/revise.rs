//! Changes of options that are read and checked ahead, and applied together: each concerns one
//! qdisc or class that exists, and moves no packet to another one. So the trees are looked at where
//! the lines name them and nowhere else, and the time between two packets has no reading of words.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{Qdiscs, stands_for_queues};
use crate::base::handle::Handle;
use crate::path::tree::{Tree, names, tables};
use crate::path::trees::{Spot, Trees};
use crate::sched::cx::Cx;
use crate::sched::erased::{Revised, Revision};
use crate::text::error::Object;
use crate::text::value::Words;

/// Effect of one change of options that was read ahead.
#[derive(Debug)]
pub enum Planned {
    /// None: the object has these options.
    Same,
    /// A change of this object alone.
    Change(Change),
}

/// A change of the options of one qdisc or class.
#[derive(Debug)]
pub struct Change {
    /// The number of its tree, and the place of the qdisc there.
    tree: usize,
    place: Handle,
    /// The class; `None` for the qdisc itself.
    minor: Option<u16>,
    revision: Revision,
}

impl Change {
    /// True if both concern classes of one qdisc.
    fn is_with(&self, other: &Self) -> bool {
        (self.tree, self.place) == (other.tree, other.place) && self.minor.is_some() && other.minor.is_some()
    }
}

/// Changes of options, at most one for each object.
#[derive(Debug, Default)]
pub struct Revisions {
    /// Those that are not gathered yet.
    read: Vec<Change>,
    /// True if they are in the order of trees, places and classes, the last one first.
    sorted: bool,
    /// One for each qdisc, and one for all its classes.
    gathered: Vec<Change>,
}

impl Revisions {
    /// Adds a change. It must have been read beside the present trees, and its object must have no
    /// other.
    pub fn push(&mut self, change: Change) {
        self.read.push(change);
        self.sorted = false;
    }
    /// True if there are none.
    pub const fn is_empty(&self) -> bool {
        self.read.is_empty() && self.gathered.is_empty()
    }
    /// Puts the changes of the classes of each qdisc together, of `most` classes at a time, before
    /// they are applied. Returns true when none is left.
    pub fn gather(&mut self, most: usize) -> bool {
        if !self.sorted {
            self.read.sort_by_key(|change| Reverse((change.tree, change.place, change.minor)));
            self.sorted = true;
        }
        for _ in 0..most {
            let Some(next) = self.read.pop() else { return true };
            match self.gathered.last_mut().filter(|last| last.is_with(&next)) {
                Some(last) => last.revision.absorb(next.revision),
                None => self.gathered.push(next),
            }
        }
        self.read.is_empty()
    }
}

impl Trees<'_> {
    /// Reads options for the qdisc at a place, of this kind and handle, as
    /// [`Qdiscs::replace`] does where it is there already. Returns the place with the effect;
    /// `None` if it is not there, or only [`Qdiscs`] can tell the effect: the line is refused,
    /// needs more memory, or concerns other objects too.
    pub fn plan_qdisc(
        &self,
        parent: Handle,
        handle: Option<Handle>,
        kind_name: Option<&str>,
        words: &mut Words<'_>,
    ) -> Option<(Handle, Planned)> {
        let spot = self.at(self.named(parent))?;
        let (node, own) = (spot.node, spot.node.handle());
        let same = handle.is_none_or(|h| h.qdisc().is_none() || h.qdisc() == own);
        let kind = node.qdisc().spec().kind;
        // A line that does not repeat a size table removes it.
        let sized = node.front().stab().is_some();
        if own.is_none() || !same || kind_name.is_some_and(|given| given != kind) || sized {
            return None;
        }
        let at = spot.place.parent;
        let env = self.env_of(&spot)?;
        match (node.qdisc().revised(words, env).ok()?, spot.in_tree) {
            (Revised::Same, _) => Some((at, Planned::Same)),
            (Revised::Alone(revision), Some((tree, place))) if !stands_for_queues(kind) => {
                Some((at, Planned::Change(Change { tree, place: place.parent, minor: None, revision })))
            }
            (Revised::Alone(_) | Revised::Wide, _) => None,
        }
    }

    /// Reads options for a class, as [`Qdiscs::change_class`] does. Returns the class with the
    /// effect; `None` as [`plan_qdisc`](Self::plan_qdisc).
    pub fn plan_class(
        &self,
        parent: Option<Handle>,
        class: Handle,
        kind_name: Option<&str>,
        words: &mut Words<'_>,
    ) -> Option<(Handle, Planned)> {
        if class.major() == 0 {
            return None;
        }
        let spot = self.owner(class)?;
        let above = match parent {
            Some(Handle::ROOT) => Some(self.root().handle()),
            other => other,
        };
        let kind = spot.node.qdisc().spec().kind;
        let apart = above.is_some_and(|above| above.major() != 0 && above.major() != class.major());
        if apart || kind_name.is_some_and(|given| given != kind) {
            return None;
        }
        let (tree, place) = spot.in_tree?;
        let classes = spot.node.qdisc().user_classes()?;
        let (name, env) = (Object::Class(Some(class)), self.env_of(&spot)?);
        let above = above.map(Handle::minor);
        match classes.revised(name, class.minor(), above, words, env).ok()? {
            Revised::Same => Some((class, Planned::Same)),
            Revised::Alone(revision) => {
                let minor = Some(class.minor());
                Some((class, Planned::Change(Change { tree, place: place.parent, minor, revision })))
            }
            Revised::Wide => None,
        }
    }

    /// Returns the properties of the device that the tree of a qdisc knows.
    pub(super) fn env_of(&self, spot: &Spot<'_>) -> Option<&crate::Env> {
        match spot.in_tree {
            Some((tree, _)) => self.trees().nth(tree).map(Tree::env),
            None => Some(self.env()),
        }
    }
}

impl Qdiscs<'_> {
    /// Applies changes of options that were read beside the present qdiscs, of which
    /// [`Revisions::gather`] has put together those that belong together. They are empty then; to
    /// free their memory takes time too.
    pub fn revise(&mut self, revisions: &mut Revisions) {
        let _ = revisions.gather(usize::MAX);
        for change in &mut revisions.gathered {
            let _ = self.edit(change.tree, &mut |tree, cx| {
                revise_one(tree, change, cx);
                Ok(())
            });
        }
    }
}

/// Applies the changes of one qdisc or of its classes.
fn revise_one(tree: &mut Tree, change: &mut Change, cx: &mut Cx) {
    let (env, place, mut bytes) = (*tree.env(), change.place, [0; 2]);
    tree.reach(place, cx, &mut |node, cx| {
        bytes[0] = tables::own(node.qdisc(), &env);
        node.with(cx, |qdisc, cx| match (change.minor, qdisc.user_classes_mut()) {
            (Some(_), Some(classes)) => classes.revise(&mut change.revision, &env, cx),
            (Some(_), None) => {}
            (None, _) => qdisc.revise(&mut change.revision, &env, cx),
        });
        bytes[1] = tables::own(node.qdisc(), &env);
    });
    tree.count_change(bytes[0], bytes[1]);
    debug_assert!(names::at(tree, place).is_some(), "a change keeps its qdisc");
}

#[cfg(test)]
mod tests {
    use std::{format, vec};

    use super::*;
    use crate::base::env::Env;

    fn plan(tree: &Tree, class: Handle, quantum: &str) -> Planned {
        let words = ["quantum", quantum];
        let planned = Trees::from(tree).plan_class(None, class, Some("drr"), &mut Words::new(&words));
        planned.expect("it concerns this class alone").1
    }

    #[test]
    fn changes_of_several_qdiscs_are_gathered_in_steps_and_applied_to_their_own_classes() {
        let (mut tree, mut cx) = (Tree::new(Env::default()), Cx::new(1, 0));
        let none = || Words::new(&[]);
        let mut edit = tree.edit(&mut cx);
        edit.add(Handle::ROOT, Some(Handle::new(1, 0)), "prio", &mut none()).expect("prio");
        for qdisc in [2, 3] {
            let (at, handle) = (Handle::new(1, qdisc - 1), Handle::new(qdisc, 0));
            edit.add(at, Some(handle), "drr", &mut none()).expect("drr");
            for minor in 1..=3 {
                edit.add_class(handle, Handle::new(qdisc, minor), Some("drr"), &mut none()).expect("a class");
            }
        }
        let classes: Vec<Handle> =
            [(3, 1), (2, 3), (3, 2), (2, 1)].map(|(qdisc, minor)| Handle::new(qdisc, minor)).into();
        let quantum = |class: Handle| format!("{}", 1000 * class.major() + class.minor());
        let mut revisions = Revisions::default();
        for class in &classes {
            match plan(&tree, *class, &quantum(*class)) {
                Planned::Change(change) => revisions.push(change),
                Planned::Same => panic!("{class} has it already"),
            }
        }
        let words = ["priomap", "1", "2"];
        let root = Trees::from(&tree).plan_qdisc(Handle::ROOT, None, Some("prio"), &mut Words::new(&words));
        assert!(root.is_none(), "a change of bands concerns classes");
        let steps: Vec<bool> = (0..4).map(|_| revisions.gather(1)).collect();
        assert_eq!(steps, vec![false, false, false, true]);
        assert!(!revisions.is_empty() && revisions.gathered.len() == 2);
        tree.edit(&mut cx).revise(&mut revisions);
        for class in &classes {
            assert!(matches!(plan(&tree, *class, &quantum(*class)), Planned::Same), "{class}");
        }
        // The others have the options that they had.
        for (qdisc, minor) in [(2, 2), (3, 3)] {
            assert!(matches!(plan(&tree, Handle::new(qdisc, minor), "1514"), Planned::Same));
        }
    }
}
